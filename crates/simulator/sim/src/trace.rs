//! A bus trace: what crossed a machine's bus, its wires and its registers, and when.
//!
//! [`crate::workload::trace`] records it. [`regimes`] reads it, [`values`] and [`crossed`] give studies their
//! numbers, and [`crate::documents::trace`] is its document.

mod regime;
mod values;

pub use regime::{Regimes, regimes};
pub use values::{crossed, values};

use kpps_card::Tally;
use kpps_host::bus::{BackgroundTally, Log};
use kpps_host::cpu::{Counters, Profile, Usage};

/// A port's frames during the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Port {
    /// Frames sent to it.
    pub sent: u64,
    /// Frames that reached the kernel's demultiplexer.
    pub delivered: u64,
    /// The card's register of missed packets.
    pub missed: u64,
    /// The card's tally at the end of the trace, warm-up included.
    pub card: Tally,
    /// The same at its beginning.
    pub card_before: Tally,
    /// Frames delivered before the trace began.
    pub delivered_before: u64,
}

impl Port {
    /// Frames that the card has stored in memory during the trace, whatever became of them there.
    pub fn received(&self) -> u64 {
        self.card.to_host - self.card_before.to_host
    }
}

/// A trace.
pub struct Trace {
    /// One bus clock, in picoseconds.
    pub clock_ps: u64,
    /// When it began.
    pub began_ps: u64,
    /// When it ended.
    pub ended_ps: u64,
    /// The ports.
    pub ports: Vec<Port>,
    /// Transactions and events.
    pub log: Log,
    /// The offset of the receive tail register.
    pub tail_offset: u32,
    /// Each wire's first frames: the time of the last bit, and the frame without FCS.
    pub wires: Vec<Vec<(u64, Vec<u8>)>>,
    /// Where the CPUs' time went, by function.
    pub profile: Profile,
    /// The same by level.
    pub usage: Usage,
    /// The machine's counters.
    pub counters: Counters,
    /// Time for which the bus was occupied.
    pub bus_busy_ps: u64,
    /// The background device's bursts.
    pub background: BackgroundTally,
}

impl Trace {
    /// The first port's wire as a capture file.
    ///
    /// # Errors
    /// A frame that a capture cannot hold.
    pub fn pcap(&self) -> Result<Vec<u8>, kpps_frames::pcap::PcapError> {
        let mut writer = kpps_frames::pcap::Writer::new(Vec::new())?;
        for (at_ps, frame) in self.wires.first().into_iter().flatten() {
            writer.write(at_ps.saturating_sub(self.began_ps) / 1000, frame)?;
        }
        Ok(writer.into_inner())
    }
}

impl Trace {
    /// How long it is, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.ended_ps - self.began_ps) as f64 / 1e12
    }

    /// Frames per second that reached the kernel, of one port.
    pub fn delivered_pps(&self, port: usize) -> f64 {
        self.ports.get(port).map_or(0.0, |p| p.delivered as f64 / self.seconds())
    }

    /// Frames per second that one card has stored: see [`Port::received`].
    pub fn received_pps(&self, port: usize) -> f64 {
        self.ports.get(port).map_or(0.0, |p| p.received() as f64 / self.seconds())
    }

    /// Share of the time for which the bus was occupied.
    pub fn bus_busy(&self) -> f64 {
        self.bus_busy_ps as f64 / (self.ended_ps - self.began_ps) as f64
    }

    /// Megabytes (10⁶ bytes) per second that crossed the bus, of those in the log.
    pub fn bus_mb_per_s(&self) -> f64 {
        let bytes: u64 = self.log.transactions().map(|t| u64::from(t.bytes)).sum();
        bytes as f64 / self.seconds() / 1e6
    }
}
