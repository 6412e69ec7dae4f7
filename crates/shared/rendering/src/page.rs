//! The frame of all pages.

use kpps_documents::provenance::{Gateway, Provenance};
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

/// A page with what its document is of at the end of its main part.
pub(crate) fn with_provenance(page: &str, provenance: &Provenance) -> String {
    let section = html! {
        section { h2 { "Measured" } dl { @for (name, what) in facts(provenance) { dt { (name) } dd { (what) } } } }
    };
    match page.rfind("</main>") {
        Some(at) => format!("{}{}{}", &page[..at], section.into_string(), &page[at..]),
        None => page.to_owned(),
    }
}

/// Its facts with their names, for people.
fn facts(provenance: &Provenance) -> Vec<(String, String)> {
    let Provenance { time, host, command, kpps_version, kernel, dut, gateways, ports } = provenance;
    let mut facts = vec![("Device under test".to_owned(), dut.clone().unwrap_or_default())];
    let (host, kernel) = (host.as_deref().unwrap_or_default(), kernel.as_deref().unwrap_or_default());
    for (name, what) in [("Time", &**time), ("Host", host), ("Command", command), ("Kernel", kernel)] {
        facts.push((name.to_owned(), what.to_owned()));
    }
    facts.push(("Version".into(), format!("kpps {kpps_version}")));
    for (port, Gateway { address, mac }) in gateways {
        let mac = mac.as_deref().unwrap_or("no answer");
        facts.push((format!("Gateway of {port}"), format!("{address} ({mac})")));
    }
    facts.extend(ports.clone());
    facts.retain(|(_, what)| !what.is_empty());
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_no_fact() {
        let gateway = Gateway { address: "198.18.0.254".into(), mac: None };
        let provenance = Provenance {
            time: "2026-11-22T19:00:00Z".into(),
            gateways: [("packet:a".to_owned(), gateway)].into(),
            ..Provenance::default()
        };
        let facts = facts(&provenance);
        let names: Vec<_> = facts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Time", "Version", "Gateway of packet:a"]);
        assert_eq!(facts[2].1, "198.18.0.254 (no answer)");
    }
}
