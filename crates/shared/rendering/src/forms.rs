//! The forms of a document that people and programs read: text, rows, pages. Each document has them in the
//! module that makes them.

use crate::Rows;
use crate::page::{CSS, page, with_provenance};
use crate::text::TextStyle;
use kpps_documents::provenance::Published;
use maud::html;
use serde::Serialize;

/// The page of a document that has no plots: its text for the screen, and all its rows.
pub(crate) fn plain(title: &str, document: &impl Forms) -> String {
    let (screen, rows) = (document.screen(TextStyle::default(), ""), document.rows());
    let body = html! {
        header { div { h1 { (title) } } }
        main {
            @if !screen.trim().is_empty() { section { div.scroll { pre { (screen.trim_end()) } } } }
            @if !rows.rows.is_empty() { section { h2 { "Every value" } (rows.html()) } }
        }
        footer { p { "Made by kpps " (env!("CARGO_PKG_VERSION")) "." } }
    };
    page(title, &[CSS], &body)
}

/// A document in all its forms; JSON is that of [`kpps_documents::to_json`].
pub trait Forms: Serialize {
    /// The text for the screen. `notes` are lines about the run that are not in the document, or nothing.
    fn screen(&self, style: TextStyle, notes: &str) -> String;

    /// The rows, for comma-separated values.
    fn rows(&self) -> Rows;

    /// The page with this number, counted from 0; `None` if the document has fewer.
    fn page(&self, number: usize) -> Option<String>;

    /// Whether nothing was measured, as in a run that was interrupted at its beginning.
    fn is_empty(&self) -> bool {
        false
    }
}

impl<D: Forms> Forms for Published<&D> {
    fn screen(&self, style: TextStyle, notes: &str) -> String {
        self.document.screen(style, notes)
    }
    fn rows(&self) -> Rows {
        self.document.rows()
    }
    fn page(&self, number: usize) -> Option<String> {
        let page = self.document.page(number)?;
        Some(self.provenance.as_ref().map_or(page.clone(), |of| with_provenance(&page, of)))
    }
    fn is_empty(&self) -> bool {
        self.document.is_empty()
    }
}
