//! The ledger of a simulated trial: every frame in exactly one place.

use kpps_card::{Tally, rate_limited};
use kpps_documents::Ledger;
use kpps_host::stack::{linux22, udp};
use kpps_methods::TrialError;
use std::collections::BTreeMap;

/// Frames by place, as they are added up.
#[derive(Default)]
pub(crate) struct Places {
    dropped: BTreeMap<String, u64>,
    in_flight: BTreeMap<String, u64>,
}

impl Places {
    /// Frames lost at a place, which is listed even if it lost none.
    pub fn dropped(&mut self, place: &str, frames: u64) {
        *self.dropped.entry(place.to_owned()).or_default() += frames;
    }

    /// Frames lost at a place, which is listed only if it lost any.
    pub fn dropped_if_any(&mut self, place: &str, frames: u64) {
        if frames > 0 {
            self.dropped(place, frames);
        }
    }

    /// Frames that are on their way at a place.
    pub fn in_flight(&mut self, place: &str, frames: u64) {
        *self.in_flight.entry(place.to_owned()).or_default() += frames;
    }

    /// An e1000 card and its driver, which dropped `dropped` frames and handed up `handed_up` others. `ring`
    /// is a difference: frames that the card has stored and the driver has not taken, at most `rx_ring`.
    pub fn card(
        &mut self,
        card: &Tally,
        (dropped, handed_up): (u64, u64),
        rx_ring: u16,
    ) -> Result<(), TrialError> {
        let lost = &card.dropped;
        let other = lost.total() - lost.fifo_engine - lost.fifo_no_descriptor - lost.filtered;
        self.dropped("fifo", lost.fifo_engine);
        self.dropped("ring", lost.fifo_no_descriptor);
        self.dropped_if_any("filter", lost.filtered);
        self.dropped_if_any("card_other", other + card.tx_discarded);
        self.dropped_if_any("driver", dropped);
        let ring = remaining("stored by the card", card.to_host, handed_up + dropped)?;
        if ring > u64::from(rx_ring) {
            return Err(TrialError::Testbed(format!(
                "the ledger does not close: {ring} frames are in a ring of {rx_ring} descriptors"
            )));
        }
        self.in_flight("fifo", card.in_fifo);
        self.in_flight("ring", ring);
        Ok(())
    }

    /// A rate-limited NIC, whose driver handed up all `handed_up` frames that it took.
    pub fn rate_limited_nic(&mut self, card: &rate_limited::Tally, handed_up: u64) -> Result<(), TrialError> {
        self.dropped("fifo", card.dropped_engine);
        self.dropped("ring", card.dropped_no_descriptor);
        self.dropped("card_other", card.dropped_other);
        self.in_flight("fifo", card.in_fifo);
        self.in_flight("ring", remaining("stored by the card", card.to_host, handed_up)?);
        Ok(())
    }

    /// A stack whose application is in the kernel.
    pub fn stack(&mut self, stack: &linux22::Tally) {
        self.dropped("backlog", stack.dropped_backlog);
        self.dropped("queue", stack.dropped_queue);
        self.in_flight("backlog", stack.in_backlog);
        self.in_flight("queue", stack.in_queue);
        self.in_flight("app", stack.in_hand);
    }

    /// A stack whose frames end in the socket of a process. The socket counts a datagram slightly before the
    /// stack releases it.
    pub fn process(&mut self, stack: &linux22::Tally, socket: &udp::Tally) -> Result<(), TrialError> {
        let ahead = remaining("at the socket", socket.arrived, stack.consumed)?;
        let in_hand = remaining("in the stack's hands", stack.in_hand, ahead)?;
        self.dropped("backlog", stack.dropped_backlog);
        self.dropped("socket", socket.dropped);
        self.in_flight("backlog", stack.in_backlog);
        self.in_flight("app", in_hand);
        self.in_flight("socket", socket.held);
        Ok(())
    }

    /// The ledger of `sent` frames, with `delivered` delivered. An error if it does not close.
    pub fn close(self, sent: u64, delivered: u64) -> Result<Ledger, TrialError> {
        let ledger = Ledger {
            sent,
            delivered,
            dropped: self.dropped,
            in_flight: self.in_flight.values().sum(),
            in_flight_at: self.in_flight,
            ..Ledger::default()
        };
        if !ledger.closes() {
            return Err(TrialError::Testbed(format!("the ledger does not close: {ledger:?}")));
        }
        Ok(ledger)
    }
}

/// The frames that are left at a place which had `had` of them when `gone` have gone. An error if more have
/// gone than it had.
pub(crate) fn remaining(place: &str, had: u64, gone: u64) -> Result<u64, TrialError> {
    had.checked_sub(gone).ok_or_else(|| {
        TrialError::Testbed(format!(
            "the ledger does not close: {had} frames were {place}, and {gone} have left"
        ))
    })
}

/// Fails unless a stack's and a socket's own ledgers close and agree. The stack has ended `ended` frames and
/// has `in_hand` frames in hand. The socket counts a datagram slightly before the stack releases it.
pub(crate) fn check_socket(
    stack_closes: bool,
    (ended, in_hand): (u64, u64),
    socket: &udp::Tally,
) -> Result<(), TrialError> {
    let ahead = socket.arrived.saturating_sub(ended);
    if stack_closes && socket.closes() && ahead <= in_hand {
        return Ok(());
    }
    Err(TrialError::Testbed(format!(
        "the ledgers of stack and socket do not close: {ended} ended, {in_hand} in hand, {socket:?}"
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_card::Dropped;

    fn card() -> Tally {
        Tally { arrived: 10, to_host: 8, in_fifo: 2, ..Tally::default() }
    }

    #[test]
    fn frames_are_in_the_ring_until_the_driver_takes_them() {
        let mut places = Places::default();
        places.card(&card(), (1, 4), 80).unwrap();
        places.dropped("backlog", 0);
        let ledger = places.close(10, 4).unwrap();
        assert_eq!(ledger.in_flight_at, BTreeMap::from([("fifo".into(), 2), ("ring".into(), 3)]));
        let dropped = ["backlog", "driver", "fifo", "ring"].map(|place| ledger.dropped[place]);
        assert_eq!((dropped, ledger.dropped.len()), ([0, 1, 0, 0], 4));
    }

    #[test]
    fn a_card_drops_each_frame_in_one_place() {
        let dropped = Dropped {
            fifo_engine: 1,
            fifo_no_descriptor: 2,
            filtered: 4,
            bad_fcs: 8,
            reset: 16,
            ..Dropped::default()
        };
        let card = Tally { dropped, tx_discarded: 32, ..card() };
        let mut places = Places::default();
        places.card(&card, (0, 8), 80).unwrap();
        let ledger = places.close(10 + 31 + 32, 8).unwrap();
        let lost = [("fifo", 1), ("ring", 2), ("filter", 4), ("card_other", 8 + 16 + 32)];
        assert_eq!(ledger.dropped, lost.map(|(place, frames)| (place.to_owned(), frames)).into());
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        // The driver took more than there was; more is in the ring than it holds; a frame is missing.
        assert!(Places::default().card(&card(), (1, 8), 80).is_err());
        assert!(Places::default().card(&card(), (0, 0), 8).is_ok(), "a full ring");
        assert!(Places::default().card(&card(), (0, 0), 7).is_err());
        let mut places = Places::default();
        places.card(&card(), (0, 8), 80).unwrap();
        assert!(places.close(11, 8).is_err());
    }

    #[test]
    fn a_socket_is_at_most_what_is_in_hand_ahead_of_its_stack() {
        let socket = udp::Tally { arrived: 5, dropped: 1, held: 2, read: 2 };
        assert!(check_socket(true, (5, 0), &socket).is_ok());
        assert!(check_socket(true, (4, 1), &socket).is_ok());
        assert!(check_socket(true, (3, 1), &socket).is_err());
        assert!(check_socket(false, (5, 0), &socket).is_err());
        assert!(check_socket(true, (5, 0), &udp::Tally { read: 3, ..socket }).is_err());
    }
}
