//! Studies: claims and verdicts.

mod constants;
mod evidence;
mod page;
mod screen;
pub(crate) mod value;

use crate::Rows;
use crate::forms::Forms;
use crate::text::TextStyle;
use kpps_documents::study::Study;
use page::{overview, page};
use screen::screen;

impl Forms for Study {
    fn screen(&self, style: TextStyle, notes: &str) -> String {
        screen(self, style) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.claims)
    }
    /// That of an article; after them one of all.
    fn page(&self, number: usize) -> Option<String> {
        match self.articles.get(number) {
            Some(article) => Some(page(self, article)),
            None => (number == self.articles.len()).then(|| overview(self)),
        }
    }
    fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}
