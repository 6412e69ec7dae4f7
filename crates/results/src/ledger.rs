//! Where each packet of a trial ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name under which [`Ledger::losses`] lists packets that the source could not send.
pub const NOT_SENT: &str = "not sent";
/// The name under which [`Ledger::losses`] lists packets that ended nobody knows where.
pub const UNEXPLAINED: &str = "unexplained";

/// Where each packet of a trial ended. Every packet is in exactly one place, so that
/// `sent = delivered + dropped + in flight`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// Packets put on the wire.
    pub sent: u64,
    /// Packets that were due but that the source could not send. They count as loss.
    #[serde(default)]
    pub unsent: u64,
    /// Packets that arrived at the consumer.
    pub delivered: u64,
    /// Packets lost, by the place that lost them.
    pub dropped: BTreeMap<String, u64>,
    /// Packets that were still under way when the trial ended. They do not count as loss.
    pub in_flight: u64,
    /// The same packets by place.
    pub in_flight_at: BTreeMap<String, u64>,
}

impl Ledger {
    /// Packets dropped in all places together.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Everything that counts as loss, by place: what was dropped, then what the source could not
    /// send ([`NOT_SENT`]) and what nobody can explain ([`UNEXPLAINED`]), if there is any.
    pub fn losses(&self) -> Vec<(&str, u64)> {
        let dropped = self.dropped.iter().map(|(place, &n)| (place.as_str(), n));
        let unexplained = u64::try_from(self.unexplained()).unwrap_or(0);
        let others = [(NOT_SENT, self.unsent), (UNEXPLAINED, unexplained)];
        dropped.chain(others).filter(|&(_, n)| n > 0).collect()
    }

    /// Packets of which the ledger does not know where they ended; below 0 if more ended than
    /// were sent.
    pub fn unexplained(&self) -> i128 {
        let total = |places: &BTreeMap<String, u64>| places.values().map(|&n| i128::from(n)).sum::<i128>();
        i128::from(self.sent) - i128::from(self.delivered) - total(&self.dropped) - i128::from(self.in_flight)
    }

    /// Whether every packet is accounted for, and those in flight also by place.
    pub fn closes(&self) -> bool {
        let places: i128 = self.in_flight_at.values().map(|&n| i128::from(n)).sum();
        self.unexplained() == 0 && places == i128::from(self.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_closes_when_each_packet_is_somewhere() {
        let mut ledger = Ledger {
            sent: 100,
            unsent: 7,
            delivered: 60,
            dropped: [("ring".to_owned(), 20), ("fifo".to_owned(), 15)].into(),
            in_flight: 5,
            in_flight_at: [("wire".to_owned(), 5)].into(),
        };
        assert!(ledger.closes());
        assert_eq!(ledger.dropped_total(), 35);
        assert_eq!(ledger.losses(), [("fifo", 15), ("ring", 20), (NOT_SENT, 7)]);
        ledger.delivered = 61;
        assert!(!ledger.closes());
        assert_eq!(ledger.unexplained(), -1);
        ledger.delivered = 58;
        assert_eq!(ledger.losses().last(), Some(&(UNEXPLAINED, 2)));
        ledger.delivered = 60;
        ledger.in_flight_at.clear();
        assert!(!ledger.closes(), "those in flight must be somewhere too");
    }
}
