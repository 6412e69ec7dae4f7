//! DPDK: testpmd with its driver for the card, controlled by its command line.

use super::{Backend, Count, LOADED, Running, Work, bind, involved, load_backend, stand_in};
use crate::lab::counters::Snapshot;
use crate::lab::options::address;
use crate::lab::workload::card::{MissedFrames, Register, SENT, STORED, StoredFrames};
use crate::lab::{Error, Guest, Model, Result};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

const LOG: &str = "/tmp/testpmd.log";
const IN: &str = "/tmp/testpmd.in";
/// Starting takes seconds: huge pages are cleared, links come up.
const START: Duration = Duration::from_secs(60);
/// How often the start is checked.
const LOOKS: u32 = 2000;
/// A CPU for testpmd's main thread, which sleeps, and one for the thread that forwards.
const LCORES: &str = "0@0,1@0";

/// Room for two cards with rings of 4096, and for frames under way: 36 MiB.
const BUFFERS: u32 = 17408;

/// How testpmd calls its counts of a card.
const RECEIVED: &str = "RX-packets:";
const TRANSMITTED: &str = "TX-packets:";

struct Testpmd {
    work: Work,
    counters: Counters,
}

/// The counters of testpmd's frames.
enum Counters {
    /// The cards. Asking testpmd itself takes as much of its only CPU as sending thousands of frames.
    Cards {
        /// Frames since the last read, which clears them.
        frames: Vec<Register>,
        /// Their sum so far.
        sum: Cell<u64>,
        missed: MissedFrames,
        stored: StoredFrames,
    },
    /// testpmd, for cards that do not count.
    Own {
        /// Its number of cards.
        cards: usize,
    },
}

pub(super) fn start(
    guest: &mut Guest,
    model: Model,
    backend: Backend,
    work: Work,
    ring: u16,
) -> Result<Box<dyn Running>> {
    load_backend(guest, backend)?;
    let cards = involved(work);
    for index in &cards {
        bind(guest, *index, stand_in(backend))?;
    }
    let (mode, begin) = match work {
        Work::Transmit => ("txonly", "start"),
        Work::Receive => ("rxonly", "start"),
        Work::Loop => ("io", "start tx_first"),
        Work::Forward => ("io", "start"),
        Work::Bridge => return Err(Error::Input("testpmd is no bridge".into())),
    };
    let drivers: String = guest.dpdk_drivers().iter().map(|name| format!(" -d {name}")).collect();
    let allowed: String = cards.iter().map(|index| format!(" -a {}", address(*index))).collect();
    guest.run(&format!("rm -f {IN} {LOG}; mkfifo {IN}"))?;
    guest.run(&format!(
        "LD_PRELOAD=libstdbuf.so _STDBUF_O=L setsid testpmd --lcores {LCORES} -n 1{drivers}{allowed} --in-memory \
         --no-telemetry -- -i --total-num-mbufs={BUFFERS} --rxd={ring} --txd={ring} --txpkts=60 --forward-mode={mode} --no-lsc-interrupt \
         <> {IN} > {LOG} 2>&1 &"
    ))?;
    let until = |what: &str| {
        format!(
            "i=0; while ! grep -q '{what}' {LOG}; do i=$((i + 1)); \
             if [ $i -gt {LOOKS} ] || ! pidof testpmd > /dev/null; then tail -5 {LOG}; exit 1; fi; usleep 5000; done"
        )
    };
    let failed = |error| match error {
        Error::Command { output, .. } => Error::Input(format!("testpmd does not start: {output}")),
        other => other,
    };
    let ready = guest.output(&until("^Done"), START)?;
    if ready.code != 0 {
        return Err(Error::Input(format!("testpmd does not start: {}", ready.text.trim())));
    }
    if work == Work::Loop {
        // QEMU's e1000 does not receive for a second after its setup: frames that are sent once to circulate
        // must not be lost.
        guest.run("sleep 1.2")?;
    }
    let begin = |guest: &mut Guest| {
        guest.run(&format!("echo {begin} > {IN}; {}", until("packet forwarding"))).map_err(failed)
    };
    let counters = if model.has_statistics() {
        let card = *cards.first().unwrap_or(&LOADED);
        let (missed, stored) = (MissedFrames::of(guest, card)?, StoredFrames::of(guest, card)?);
        begin(guest)?;
        // Other drivers may have used the cards: their counts are cleared.
        let offset = if work == Work::Receive { STORED } else { SENT };
        let frames = cards.iter().map(|index| Register::of(guest, *index, offset)).collect::<Result<_>>()?;
        Counters::Cards { frames, sum: Cell::new(0), missed, stored }
    } else {
        begin(guest)?;
        Counters::Own { cards: cards.len() }
    };
    let testpmd = Testpmd { work, counters };
    guest.at_once(&testpmd.counter())?;
    Ok(Box::new(testpmd))
}

/// Asks testpmd for its counts, and prints the last lines of its answer, with `cards` cards in it.
fn asked(cards: usize) -> String {
    format!(
        "n=$(($(grep -c Tx-pps {LOG}) + {cards})); echo 'show port stats all' > {IN}; i=0; \
         while [ $(grep -c Tx-pps {LOG}) -lt $n ] && [ $i -lt {LOOKS} ]; do i=$((i + 1)); usleep 200; done; \
         tail -{} {LOG} | grep X-packets",
        12 * cards
    )
}

/// The sum over all cards of what testpmd has counted: "RX-packets: 5   RX-missed: 0", and TX-packets.
fn counted(text: &str, word: &str) -> Result<u64> {
    let numbers = text.lines().filter_map(|line| {
        line.trim_start().strip_prefix(word)?.split_whitespace().next()?.parse::<u64>().ok()
    });
    let sum = numbers.fold(None, |sum: Option<u64>, number| Some(sum.unwrap_or_default() + number));
    sum.ok_or_else(|| Error::Protocol { what: "testpmd's counters".into(), answer: text.into() })
}

impl Running for Testpmd {
    fn counter(&self) -> String {
        match &self.counters {
            Counters::Cards { frames, .. } => {
                frames.iter().map(Register::command).collect::<Vec<_>>().join("; ")
            }
            Counters::Own { cards } => asked(*cards),
        }
    }

    fn frames(&self, snapshot: &Snapshot) -> Result<Count> {
        let frames = match &self.counters {
            Counters::Cards { sum, .. } => {
                let since = snapshot.text.lines().map(Register::parse).sum::<Result<u64>>()?;
                sum.set(sum.get() + since);
                sum.get()
            }
            Counters::Own { .. } => {
                counted(&snapshot.text, if self.work == Work::Receive { RECEIVED } else { TRANSMITTED })?
            }
        };
        Ok(Count { at_ns: snapshot.at_ns, frames })
    }

    fn drops(&self, guest: &mut Guest) -> Result<BTreeMap<String, u64>> {
        Ok(match &self.counters {
            Counters::Cards { missed, .. } => [("ring".to_owned(), missed.now(guest)?)].into(),
            Counters::Own { .. } => BTreeMap::new(),
        })
    }

    fn stored(&self, guest: &mut Guest) -> Result<u64> {
        match &self.counters {
            Counters::Cards { sum, stored, .. } => {
                let since = stored.take(guest)?;
                // The counter of received frames is the same register, and has cleared it each time.
                Ok(if self.work == Work::Receive { sum.get() + since } else { since })
            }
            // A card that does not count has stored what its driver has taken.
            Counters::Own { cards } => counted(&guest.run(&asked(*cards))?, RECEIVED),
        }
    }

    fn finish(self: Box<Self>, guest: &mut Guest) -> Result<BTreeMap<String, u64>> {
        let drops = self.drops(guest)?;
        guest.run(&format!(
            "echo quit > {IN}; i=0; while pidof testpmd > /dev/null && [ $i -lt 500 ]; \
             do usleep 10000; i=$((i + 1)); done; ! pidof testpmd > /dev/null || killall -9 testpmd"
        ))?;
        Ok(drops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn testpmds_counts_are_summed_over_its_cards() -> Result<()> {
        let said =
            "  RX-packets: 5          RX-missed: 0          RX-bytes:  300\n  TX-packets: 7   TX-errors: 0\n";
        let both = said.repeat(2);
        assert_eq!((counted(&both, RECEIVED)?, counted(&both, TRANSMITTED)?), (10, 14));
        assert!(counted("Command not found", RECEIVED).is_err());
        Ok(())
    }
}
