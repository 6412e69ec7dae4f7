//! The places of ledgers in plain words.

use crate::{SHORTFALL, Series, UNEXPLAINED};
use std::collections::BTreeSet;

/// A place in which frames end, in words.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name in a ledger.
    pub name: &'static str,
    /// The place.
    pub place: &'static str,
    /// The reason why frames end there.
    pub why: &'static str,
    /// Place and reason in a few words, which follow "loses frames". Places with equal words are merged in
    /// sentences.
    pub phrase: &'static str,
}

/// The reason for frames dropped after reception: the CPU time spent on them is wasted, too.
const WASTED: &str = "received, then thrown away (wasted work)";
const WASTED_SENTENCE: &str = "after receiving them (wasted work)";

#[rustfmt::skip]
const PLACES: [Place; 11] = [
    place("wire", "wire", "held back for the card until after the trial",
        "on the wire (held back until it was too late)"),
    place("fifo", "card's FIFO", "the card cannot take frames faster",
        "in the card's FIFO (it cannot take them faster)"),
    place("ring", "descriptor ring", "the driver gave the card no descriptors in time",
        "at the ring (no descriptors in time)"),
    place("filter", "card's filter", "not addressed to this card",
        "in the card's filter (not addressed to it)"),
    place("card_other", "rest of the card", "damaged, or not to be received",
        "elsewhere in the card"),
    place("driver", "driver", WASTED, WASTED_SENTENCE),
    place("backlog", "stack's backlog", WASTED, WASTED_SENTENCE),
    place("queue", "application's queue", WASTED, WASTED_SENTENCE),
    place("socket", "process's socket", WASTED, WASTED_SENTENCE),
    place(SHORTFALL, "generator", "it could not send them in time: no loss of the device under test",
        "before the wire (the generator could not send them)"),
    place(UNEXPLAINED, "unknown", "the ledger does not close",
        "in unknown places (the ledger does not close)"),
];

const fn place(name: &'static str, place: &'static str, why: &'static str, phrase: &'static str) -> Place {
    Place { name, place, why, phrase }
}

/// The place with this name in a ledger, if it is known.
pub fn known(name: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.name == name)
}

/// The place `name` with its reason: "card's FIFO: the card cannot take frames faster".
pub fn explained(name: &str) -> Option<String> {
    known(name).map(|it| format!("{}: {}", it.place, it.why))
}

/// The names of all places that lost frames, in the order of their names.
pub fn all(series: &[Series]) -> BTreeSet<&str> {
    let points = series.iter().flat_map(|s| &s.points);
    points.flat_map(|p| p.ledger.losses()).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wasted_is_told_as_one() {
        let [a, b] = ["backlog", "queue"].map(|name| known(name).map(|p| p.phrase));
        assert!(a.is_some() && a == b && a != known("fifo").map(|p| p.phrase));
        assert_eq!(explained("nowhere"), None);
        let ring = explained("ring");
        assert_eq!(ring.as_deref(), Some("descriptor ring: the driver gave the card no descriptors in time"));
    }
}
