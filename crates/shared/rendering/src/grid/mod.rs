//! A grid: a trial for each combination of the values of some parameters.

mod maps;
mod page;
mod rows;
mod screen;

use crate::Rows;
use crate::forms::Forms;
use crate::text::TextStyle;
use kpps_documents::grid::Grid;
use page::page;
pub use rows::outcomes;
use rows::rows;
use screen::screen;

impl Forms for Grid {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        format!("{}\n{notes}", screen(self))
    }
    fn rows(&self) -> Rows {
        rows(self)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(page(self))
    }
    fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}
