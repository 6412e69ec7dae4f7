//! What all pages have in common.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The colours, light and dark, and how text and tables look.
pub(crate) const CSS: &str = include_str!("../assets/page.css");

/// The browser itself sees to it that the page asks nothing of any network.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// One self-contained page with this title, these style sheets, and what is between its `body` tags.
pub(crate) fn page(title: &str, css: &[&str], body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { "kpps: " (title) }
                style { @for sheet in css { (PreEscaped(sheet)) } }
            }
            body { (body) }
        }
    }
    .into_string()
}
