//! Where each frame of a trial ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name under which [`Ledger::losses`] lists frames that the generator could not send.
pub const SHORTFALL: &str = "shortfall";
/// The name under which [`Ledger::losses`] lists frames that no place has counted.
pub const UNEXPLAINED: &str = "unexplained";

/// Where each frame of a trial ended. Every frame is in exactly one place, so that
/// `sent = delivered + dropped + in flight + unexplained`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// Frames put on the wire.
    pub sent: u64,
    /// Frames that were due and that the generator could not send in time: no loss of the device under test.
    pub shortfall: u64,
    /// Frames that arrived at the consumer, damaged ones among them.
    pub delivered: u64,
    /// Frames lost, by the place that lost them.
    pub dropped: BTreeMap<String, u64>,
    /// Frames that were still under way when the trial ended. They do not count as loss.
    pub in_flight: u64,
    /// The same frames by place.
    pub in_flight_at: BTreeMap<String, u64>,
    /// Frames that no place has counted; below 0 if places counted more frames than were sent, such as other
    /// traffic.
    #[serde(default)]
    pub unexplained: i64,
}

impl Ledger {
    /// Frames dropped in all places together.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// All frames that did not arrive, by place: dropped frames, then the generator shortfall ([`SHORTFALL`])
    /// and frames that no place explains ([`UNEXPLAINED`]), if there are any.
    pub fn losses(&self) -> Vec<(&str, u64)> {
        let dropped = self.dropped.iter().map(|(place, &n)| (place.as_str(), n));
        let unexplained = u64::try_from(self.missing()).unwrap_or(0);
        let others = [(SHORTFALL, self.shortfall), (UNEXPLAINED, unexplained)];
        dropped.chain(others).filter(|&(_, n)| n > 0).collect()
    }

    /// The ledger with its derived sums: frames in flight, and unexplained ones.
    #[must_use]
    pub fn closed(self) -> Self {
        let closed = Self { in_flight: self.in_flight_at.values().sum(), ..self };
        let unexplained = closed.missing().clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Self { unexplained, ..closed }
    }

    /// Frames that were sent and ended nowhere; below 0 if more ended than were sent.
    fn missing(&self) -> i128 {
        let dropped: i128 = self.dropped.values().map(|&n| i128::from(n)).sum();
        i128::from(self.sent) - i128::from(self.delivered) - dropped - i128::from(self.in_flight)
    }

    /// Whether every frame is accounted for, and those in flight also by place.
    pub fn closes(&self) -> bool {
        let places: i128 = self.in_flight_at.values().map(|&n| i128::from(n)).sum();
        self.missing() == 0 && places == i128::from(self.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_closes_when_each_packet_is_somewhere() {
        let mut ledger = Ledger {
            sent: 100,
            shortfall: 7,
            delivered: 60,
            dropped: [("ring".to_owned(), 20), ("fifo".to_owned(), 15)].into(),
            in_flight: 5,
            in_flight_at: [("wire".to_owned(), 5)].into(),
            unexplained: 0,
        };
        assert!(ledger.closes());
        assert_eq!(ledger.clone().closed(), ledger);
        assert_eq!(ledger.dropped_total(), 35);
        assert_eq!(ledger.losses(), [("fifo", 15), ("ring", 20), (SHORTFALL, 7)]);
        ledger.delivered = 61;
        assert!(!ledger.closes());
        assert_eq!(ledger.clone().closed().unexplained, -1);
        ledger.delivered = 58;
        assert_eq!(ledger.losses().last(), Some(&(UNEXPLAINED, 2)));
        ledger.delivered = 60;
        ledger.in_flight_at.clear();
        assert!(!ledger.closes(), "those in flight must be somewhere too");
    }

    #[test]
    fn what_no_place_accounts_for_is_unexplained() {
        let ledger = Ledger {
            shortfall: 10,
            sent: 100,
            delivered: 80,
            dropped: [("a netem".to_owned(), 15)].into(),
            in_flight_at: [("a".to_owned(), 2)].into(),
            ..Ledger::default()
        };
        let closed = ledger.clone().closed();
        assert_eq!((closed.in_flight, closed.unexplained), (2, 3));
        let closed = Ledger { delivered: 90, ..ledger }.closed();
        assert_eq!(closed.unexplained, -7);
    }
}
