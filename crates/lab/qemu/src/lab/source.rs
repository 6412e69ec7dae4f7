//! The source of frames within a guest's own time: its virtio cards send by a timer, and `kpps device pace`
//! keeps their queues full.
//!
//! It takes the CPU for a moment each time it refills the queues. The cost of that is measured with the
//! source alone, in two ways: by the time that the guest is not idle, which also has the ways into idleness
//! and out of it, and by the process's own CPU time, which lacks the timer's interrupts and the way from one
//! process to the other. The cost is taken to be in the middle, and their difference is its error.

use crate::lab::counters::Snapshot;
use crate::lab::options::{Paced, address_of};
use crate::lab::{Error, Guest, Result};
use kpps_frames::rate::Rate;
use std::fmt::Write;
use std::time::Duration;

const OUT: &str = "/tmp/source.out";
const LOG: &str = "/tmp/source.log";
/// The longest time between two refills: half of the time that all queues together last at any rate.
const REFILL_US: u64 = 10_000;
/// The same while the source runs alone, how long that is watched, and after which time.
const ALONE_REFILL_US: u64 = 1000;
const ALONE: Duration = Duration::from_millis(200);
const ALONE_BEFORE: Duration = Duration::from_millis(100);

/// A running source.
#[derive(Debug)]
pub(crate) struct Source {
    id: u32,
}

/// The work of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sent {
    /// Frames.
    pub(crate) frames: u64,
    /// How often a card had nothing to send.
    pub(crate) starved: u64,
    /// How often it took the CPU.
    pub(crate) refills: u64,
    /// Its process's CPU time in ns.
    pub(crate) cpu_ns: u64,
}

/// The cost of a source each time it takes the CPU, in instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) of_refill: f64,
    pub(crate) error: f64,
}

impl Source {
    /// Sends copies of `frame` from now on, at the rate closest to `rate` that cards of the PC can.
    pub(crate) fn start(guest: &mut Guest, rate: Rate, frame: &[u8]) -> Result<Self> {
        Self::run(guest, rate, frame, REFILL_US)
    }

    fn run(guest: &mut Guest, rate: Rate, frame: &[u8], refill_us: u64) -> Result<Self> {
        let paced = guest.paced().ok_or(Error::Input("this guest has no source of frames".into()))?.at(rate);
        let mut command = "chrt -f 60 /kpps/source device pace ".to_owned();
        for byte in frame {
            let _ = write!(command, "{byte:02x}");
        }
        let _ = write!(command, " {:.0} {refill_us}", paced.apart_ns());
        for index in 0..paced.cards() {
            let (slot, function) = Paced::slot(index);
            let _ = write!(command, " {}", address_of(slot, function));
        }
        let started =
            guest.run(&format!("LD_LIBRARY_PATH=/kpps setsid {command} > {OUT} 2> {LOG} & echo $!"))?;
        let id = started.trim().parse();
        let id = id.map_err(|_| Error::Protocol { what: "a process id".into(), answer: started })?;
        Ok(Self { id })
    }

    /// Ends it.
    pub(crate) fn stop(self, guest: &mut Guest) -> Result<Sent> {
        let id = self.id;
        let text = guest.at_once(&format!(
            "kill -INT {id}; i=0; while [ -d /proc/{id} ] && [ $i -lt 500 ]; \
             do usleep 1000; i=$((i + 1)); done; cat {OUT} {LOG}"
        ))?;
        sent(&text).ok_or(Error::Protocol { what: "the source of frames".into(), answer: text })
    }

    /// The source's cost, measured while no card takes its frames.
    pub(crate) fn cost(guest: &mut Guest, rate: Rate, frame: &[u8]) -> Result<Cost> {
        let watch = |guest: &mut Guest| -> Result<f64> {
            guest.wait(ALONE_BEFORE)?;
            let seen = Snapshot::series(guest, ":", &format!("usleep {}", ALONE.as_micros()), 2)?;
            Ok(seen[1].busy_ns_since(&seen[0]) / seen[1].seconds_since(&seen[0]))
        };
        let idle_ns = watch(guest)?;
        let source = Self::run(guest, rate, frame, ALONE_REFILL_US)?;
        let busy_ns = watch(guest);
        let sent = source.stop(guest)?;
        let of_second = (busy_ns? - idle_ns).max(0.0);
        // A refill and the pause after it take turns.
        let of_refill = of_second / ((1e9 - of_second) / (ALONE_REFILL_US * 1000) as f64).max(1.0);
        let own = sent.cpu_ns as f64 / sent.refills.max(1) as f64;
        Ok(Cost { of_refill: f64::midpoint(of_refill, own), error: (of_refill - own).abs() })
    }
}

/// Reads the last line of the source: "frames 1000, starved 0, refills 7, cpu_ns 1234".
fn sent(text: &str) -> Option<Sent> {
    let numbers: Vec<u64> =
        text.lines().next()?.split(", ").filter_map(|part| part.split_once(' ')?.1.parse().ok()).collect();
    let [frames, starved, refills, cpu_ns] = numbers[..] else { return None };
    Some(Sent { frames, starved, refills, cpu_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_source_prints_is_read() {
        let printed = "frames 1000, starved 0, refills 7, cpu_ns 1234\n";
        assert_eq!(sent(printed), Some(Sent { frames: 1000, starved: 0, refills: 7, cpu_ns: 1234 }));
        assert_eq!(sent("kpps: no such card\n"), None);
        assert_eq!(sent(""), None);
    }
}
