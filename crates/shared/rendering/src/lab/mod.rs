//! Drivers that took turns on one card in a guest, on a terminal and as a page.

mod page;
mod screen;

use crate::Rows;
use crate::forms::Forms;
use crate::text::TextStyle;
use kpps_documents::lab::Lab;
pub use page::page;
pub use screen::table;

impl Forms for Lab {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        table(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(page(self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
