//! Results on a terminal.

mod paragraphs;
mod plot;
mod table;

pub use paragraphs::{complaint, paragraphs};
pub use plot::plot;
pub(crate) use plot::to_text as painted;
pub use table::table;

/// The style of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns of the terminal.
    pub width: usize,
    /// Use ASCII only, names aside.
    pub ascii: bool,
    /// Colour the names and marks of the series (ANSI escapes). They differ without it, too.
    pub colour: bool,
}

impl Default for TextStyle {
    /// 100 columns, Unicode, no colour.
    fn default() -> Self {
        Self { width: 100, ascii: false, colour: false }
    }
}

impl TextStyle {
    /// The mark of the `index`-th series.
    pub(crate) fn mark(self, index: usize) -> char {
        let marks = if self.ascii {
            ['o', 'x', '+', '*', '#', '@', '%', '&']
        } else {
            ['●', '▲', '■', '◆', '○', '△', '□', '◇']
        };
        marks[index % marks.len()]
    }

    /// The `index`-th series' place in the terminal's table of 256 colours: the hues of the page.
    pub(crate) fn hue(index: usize) -> u8 {
        const HUES: [u8; 8] = [33, 208, 36, 170, 178, 74, 160, 245];
        HUES[index % HUES.len()]
    }

    /// `text` in the colour of the `index`-th series, or as it is.
    pub(crate) fn paint(self, index: usize, text: &str) -> String {
        if self.colour { format!("\x1b[38;5;{}m{text}\x1b[0m", Self::hue(index)) } else { text.to_owned() }
    }
}
