//! What the names of places mean, for those who did not write the ledger.

use crate::{NOT_SENT, Series, UNEXPLAINED};
use std::collections::BTreeSet;

/// A place in which packets end, in plain words.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name in a ledger.
    pub name: &'static str,
    /// Where that is.
    pub place: &'static str,
    /// Why packets end there.
    pub why: &'static str,
    /// Both in few words, to go on after "loses frames". Places of equal words are one to a reader.
    pub told: &'static str,
}

/// Received and then thrown away, wherever it was: whatever was spent on such a packet is lost too.
const WASTED: &str = "received, then thrown away (wasted work)";
const WASTED_TOLD: &str = "after receiving them (wasted work)";

#[rustfmt::skip]
const PLACES: [Place; 10] = [
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
    place("driver", "driver", WASTED, WASTED_TOLD),
    place("backlog", "stack's backlog", WASTED, WASTED_TOLD),
    place("queue", "application's queue", WASTED, WASTED_TOLD),
    place(NOT_SENT, "source", "it could not send them in time",
        "before the wire (the source could not send them)"),
    place(UNEXPLAINED, "unknown", "the ledger does not close",
        "nobody knows where (the ledger does not close)"),
];

const fn place(name: &'static str, place: &'static str, why: &'static str, told: &'static str) -> Place {
    Place { name, place, why, told }
}

/// What is known of the place that a ledger calls `name`.
pub fn known(name: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.name == name)
}

/// What to say of `name` wherever there is room: "card's FIFO: the card cannot take frames faster".
pub fn explained(name: &str) -> Option<String> {
    known(name).map(|it| format!("{}: {}", it.place, it.why))
}

/// The names of all places that lost packets, in the order of their names.
pub fn all(series: &[Series]) -> BTreeSet<&str> {
    let points = series.iter().flat_map(|s| &s.points);
    points.flat_map(|p| p.ledger.losses()).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wasted_is_told_as_one() {
        let [a, b] = ["backlog", "queue"].map(|name| known(name).map(|p| p.told));
        assert!(a.is_some() && a == b && a != known("fifo").map(|p| p.told));
        assert_eq!(explained("nowhere"), None);
        let ring = explained("ring");
        assert_eq!(ring.as_deref(), Some("descriptor ring: the driver gave the card no descriptors in time"));
    }
}
