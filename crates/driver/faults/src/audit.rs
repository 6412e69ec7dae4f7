//! Checks the descriptors that the driver hands over with each doorbell: this chip must be able to take them,
//! and requests for reports must be as configured.

use crate::buffers::Rights;
use crate::check::{Breach, Check};
use crate::plan::WorldPlan;
use kpps_datasheet::desc::{self, tx_cmd};
use kpps_datasheet::{Chip, Erratum};
use kpps_driver::config::{Delay, Service};
use kpps_platform::memory::Memory;
use std::ops::Range;
use std::rc::Rc;

/// The longest first descriptor of a frame on PCI-X, with that erratum, in bytes.
const FIRST_BYTES: u32 = 2015;
/// The longest last descriptor of a segmented frame, with that erratum: 4 bytes, or a length that would leave
/// fewer than 4.
const SENTINEL_BYTES: u32 = 8;
/// The longest piece that may end anywhere on PCI-X.
const SHORT_BYTES: u32 = 4;

/// The rings, as the driver fills them.
pub(crate) struct Audit {
    chip: Chip,
    pcix: bool,
    report_every: usize,
    delay: Delay,
    /// The queue may be polled: then the last frame need not ask for a report.
    polls: bool,
    tail: u64,
    /// Descriptors since the last request for a report.
    unreported: usize,
    /// Requests since the last that was not delayed.
    delayed: u16,
    /// The next descriptor begins a frame.
    begins: bool,
    /// Context descriptors so far, and descriptors that only ask for a report.
    pub(crate) contexts: u64,
    pub(crate) report_requests: u64,
    rx_tail: u64,
    /// Bytes that each receive buffer must have.
    rx_bytes: usize,
    rights: Rc<Rights>,
    check: Rc<Check>,
}

impl Audit {
    pub(crate) fn new(plan: &WorldPlan, rights: Rc<Rights>, check: &Rc<Check>) -> Self {
        let config = &plan.config;
        Self {
            chip: plan.chip,
            pcix: plan.pcix,
            report_every: config.completion.report_every.into(),
            delay: config.completion.delay,
            polls: !matches!(config.service, Service::InterruptLoop { .. }),
            tail: 0,
            unreported: 0,
            delayed: 0,
            begins: true,
            contexts: 0,
            report_requests: 0,
            rx_tail: 0,
            rx_bytes: config.rx_buffer_bytes.into(),
            rights,
            check: check.clone(),
        }
    }

    /// The driver has set the transmit ring up: it is empty.
    pub(crate) fn restart(&mut self, memory: &Memory, ring: Option<Range<u64>>) {
        self.look_clear(memory, ring);
        (self.tail, self.unreported, self.delayed, self.begins) = (0, 0, 0, true);
    }

    /// The driver has set the receive ring up: it is empty.
    pub(crate) fn restart_receiver(&mut self, memory: &Memory, ring: Option<Range<u64>>) {
        self.look_clear(memory, ring);
        self.rx_tail = 0;
    }

    /// No descriptor of a ring that was just set up looks done.
    fn look_clear(&self, memory: &Memory, ring: Option<Range<u64>>) {
        let mut descriptors = ring.unwrap_or_default().step_by(desc::BYTES);
        if descriptors.any(|address| words(memory, address)[1] != 0) {
            self.check.harm(Breach::Descriptor("a new ring with descriptors of an old one"));
        }
    }

    /// Descriptors since the last descriptor that asks for a report.
    pub(crate) fn unreported(&self) -> usize {
        self.unreported
    }

    /// The driver has written the receive tail: each descriptor has a buffer that the card may fill, and
    /// nothing else. A card that lies may have written there since.
    pub(crate) fn refilled(&mut self, memory: &Memory, ring: Range<u64>, tail: u32) {
        let size = (ring.end - ring.start) / desc::BYTES as u64;
        let tail = u64::from(tail);
        if tail >= size {
            return self.check.breach(Breach::Descriptor("a receive tail outside of the ring"));
        }
        while self.rx_tail != tail {
            let [address, word] = words(memory, ring.start + self.rx_tail * desc::BYTES as u64);
            self.rx_tail = (self.rx_tail + 1) % size;
            let last = address + self.rx_bytes as u64 - 1;
            if self.chip.has(Erratum::No64KCrossing) && address >> 16 != last >> 16 {
                self.check.breach(Breach::Descriptor("a receive buffer across 64 KiB"));
            }
            if word != 0 || !self.rights.hand_over_to_write(address, self.rx_bytes) {
                self.check.note(|| format!("receive descriptor {address:#x} {word:#x}"));
                self.check.harm(Breach::Descriptor(
                    "a receive descriptor without a buffer of its own, or not cleared",
                ));
            }
        }
    }

    /// The driver asks for a report of each `every` descriptors from now on.
    pub(crate) fn set_report_every(&mut self, every: u16) {
        self.report_every = every.into();
    }

    /// The driver has written the tail.
    pub(crate) fn handed_over(&mut self, memory: &Memory, ring: Range<u64>, tail: u32) {
        let size = (ring.end - ring.start) / desc::BYTES as u64;
        let tail = u64::from(tail);
        if tail >= size {
            return self.check.breach(Breach::Descriptor("a tail outside of the ring"));
        }
        while self.tail != tail {
            let [address, word] = words(memory, ring.start + self.tail * desc::BYTES as u64);
            self.tail = (self.tail + 1) % size;
            if let Err(what) = self.look(address, word, self.tail == tail) {
                self.check.note(|| format!("descriptor {address:#x} {word:#x}"));
                self.check.breach(Breach::Descriptor(what));
            }
        }
    }

    fn look(&mut self, address: u64, word: u64, is_last: bool) -> Result<(), &'static str> {
        let cmd = (word >> 24) as u8;
        let is = |bit: u8| cmd & bit != 0;
        self.unreported += 1;
        if is(tx_cmd::RS) {
            let only_for_report = is(tx_cmd::DEXT) && word >> 20 & 0xF == 0;
            if self.unreported < self.report_every && !is_last && !only_for_report {
                return Err("a report too early");
            }
            let delayed = match self.delay {
                Delay::Never => false,
                Delay::Always => true,
                Delay::ExceptEvery(every) => {
                    self.delayed = (self.delayed + 1) % every;
                    self.delayed != 0
                }
            };
            if is(tx_cmd::IDE) != delayed {
                return Err("a report that is delayed, or not, against the configuration");
            }
            self.unreported = 0;
        }
        if is(tx_cmd::DEXT) && word >> 20 & 0xF == 0 {
            *if is(tx_cmd::RS) { &mut self.report_requests } else { &mut self.contexts } += 1;
            return if self.begins { Ok(()) } else { Err("a context within a frame") };
        }
        let bytes = match is(tx_cmd::DEXT) {
            true => word as u32 & desc::DATA_MAX_BYTES,
            false => word as u32 & 0xFFFF,
        };
        let last = address + u64::from(bytes).saturating_sub(1);
        let has = |erratum| self.chip.has(erratum);
        if bytes == 0 || !is(tx_cmd::IFCS) {
            return Err("an empty descriptor, or one without a checksum of the frame");
        }
        if !self.rights.hand_over_to_read(address, bytes as usize) {
            return Err("a descriptor without a buffer of its own");
        }
        if has(Erratum::No64KCrossing) && address >> 16 != last >> 16 {
            return Err("a buffer across 64 KiB");
        }
        if self.pcix && has(Erratum::DwordEndPcix) && last & 4 == 0 && bytes > SHORT_BYTES {
            return Err("a buffer that ends on an even dword");
        }
        if self.pcix && has(Erratum::FirstDescriptor2015) && self.begins && bytes > FIRST_BYTES {
            return Err("a first descriptor that is too long");
        }
        self.begins = is(tx_cmd::EOP);
        if !self.begins {
            return if is_last { Err("the tail within a frame") } else { Ok(()) };
        }
        if is(tx_cmd::DEXT) && is(tx_cmd::TSE) && has(Erratum::SegmentationSentinel) && bytes > SENTINEL_BYTES
        {
            return Err("a segmented frame without its last four bytes apart");
        }
        if self.unreported >= self.report_every || is_last && self.unreported > 0 && !self.polls {
            return Err("no report asked for");
        }
        Ok(())
    }
}

/// A descriptor in memory.
fn words(memory: &Memory, address: u64) -> [u64; 2] {
    let mut bytes = [0; desc::BYTES];
    memory.device_read(address, &mut bytes);
    [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default()))
}
