//! A program that called kpps in its own process, in place of standard output, standard error and Ctrl-C.

use crate::live::Progress;
use crate::text::TextStyle;
use crate::{Forms, Rows};
use kpps_documents::to_json;

/// A document of any kind in all its forms.
pub trait Document {
    /// The JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    fn json(&self) -> Result<String, String>;

    /// The text for the screen.
    fn screen(&self) -> String;

    /// The rows.
    fn rows(&self) -> Rows;

    /// The page with this number, counted from 0; `None` if the document has fewer.
    fn page(&self, number: usize) -> Option<String>;
}

impl<D: Forms> Document for D {
    fn json(&self) -> Result<String, String> {
        to_json(self).map_err(|error| format!("no JSON of the results: {error}"))
    }
    fn screen(&self) -> String {
        Forms::screen(self, TextStyle::default(), "")
    }
    fn rows(&self) -> Rows {
        Forms::rows(self)
    }
    fn page(&self, number: usize) -> Option<String> {
        Forms::page(self, number)
    }
}

/// Takes the messages of a call of kpps, on the thread that made the call unless another thread is named.
pub trait Caller: Send + Sync {
    /// Takes the document; its files are written after it.
    fn takes(&self, document: &dyn Document);

    /// Takes text that is no document.
    fn prints(&self, text: &str);

    /// Takes a line that users must know; from any thread.
    fn is_told(&self, line: &str);

    /// A run begins whose progress this is.
    fn follows(&self, progress: &Progress);

    /// Whether the run may go on; asked often, from any thread.
    fn goes_on(&self) -> bool;
}
