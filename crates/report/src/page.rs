//! The frame of all pages.

use kpps_results::provenance::Provenance;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style sheet of all pages: colours, light and dark, text and tables.
pub(crate) const CSS: &str = include_str!("../assets/page.css");

/// The policy by which the browser lets the page load nothing from a network.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// A self-contained page with this title, these style sheets, and this body.
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

/// A page with what its document is of at its end.
pub(crate) fn with_provenance(page: &str, provenance: &Provenance) -> String {
    let section = html! {
        section { h2 { "Measured" } dl { @for (name, what) in provenance.facts() { dt { (name) } dd { (what) } } } }
    };
    match page.rfind("</body>") {
        Some(at) => format!("{}{}{}", &page[..at], section.into_string(), &page[at..]),
        None => page.to_owned(),
    }
}
