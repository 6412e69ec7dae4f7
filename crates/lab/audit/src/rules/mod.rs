//! The manual's rules for drivers, as far as a breach is visible from outside.
//!
//! [`Rules`] sees all that passes between a driver and its card: accesses to registers, the card's accesses
//! to memory, frames, the interrupt line. A guest may do anything, so memory is bounded: a record for each
//! rule and place up to a limit, and the descriptors on chip.

mod findings;
mod packet;
mod ring;
mod rule;

pub use findings::Breach;
pub(crate) use findings::name_on;
pub use rule::Rule;

use findings::{Findings, Place, descriptor, name, written};
use kpps_card::{Dropped, Params};
use kpps_datasheet::bit::{cause, ctrl, eecd, rah, rctl, tctl};
use kpps_datasheet::desc::{RxWriteback, extended, rx_status};
use kpps_datasheet::express::{self, rfctl};
use kpps_datasheet::{Chip, Media, reg, stat};
use kpps_frames::{Mac, arp, ethernet};
use packet::{Packet, Setting};
use ring::{BYTES, Move, Ring};
use rule::Side;

/// Five seconds in ps. A driver sets up its card, and its handler begins, in less time even if the guest is
/// emulated slowly.
const WAIT_PS: u64 = 5_000_000_000_000;
/// RCTL.FLXBUF of the 82574: the size of receive buffers in KB, unless it is 0 (public drivers).
const FLXBUF: u32 = 0xF << 27;
/// How long a driver may take, from the start of half duplex, to set the card up for it.
const SETTLED_PS: u64 = 2_000_000_000_000;
/// The longest frame with FCS and VLAN tag, unless RCTL.LPE is set (SDM 13.4.22).
const LONGEST_BYTES: u64 = 1522;
/// The shortest frame without FCS.
const LEAST_BYTES: usize = 60;
/// The end of the receive addresses (SDM 13.5.2), and of the VLAN filter's table (SDM 13.5.4).
const STATIONS_END: u32 = reg::ral(reg::RAR_ENTRIES);
const VFTA_END: u32 = reg::vfta(reg::VFTA_WORDS);
/// The registers of flow control (SDM 14.3).
const FLOW: [u32; 4] = [reg::FCAL, reg::FCAH, reg::FCT, reg::FCTTV];
/// The bit of CTRL that a header of a course for students calls the reset (SDM 13.4.1: SDP0_IODIR).
const NOT_RESET: u32 = ctrl::SWDPIO0;
/// Reads of ICR as 0 that are reported: in total, and for each received frame.
const POLLS: u64 = 1000;
const POLLS_PER_FRAME: u64 = 10;
/// Descriptors without EOP that are judged though the ring has more: as many as the card holds (SDM 3.4.1).
const OPEN: u32 = 64;
/// Moves of a tail from which on reads of a head are judged.
const MOVES: u64 = 32;

/// Why an access of the card to memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    /// The machine has no such memory.
    NoMemory,
    /// The card was not allowed to be a bus master.
    NotMaster,
}

/// The time at which a rule is judged, if its condition still holds then.
#[derive(Clone, Copy, Debug, Default)]
struct Due(Option<u64>);

impl Due {
    fn start(&mut self, now_ps: u64) {
        self.0.get_or_insert(now_ps.saturating_add(WAIT_PS));
    }

    fn clear(&mut self) {
        self.0 = None;
    }

    /// Whether the time has come. It comes once.
    fn take(&mut self, now_ps: u64) -> bool {
        self.0.take_if(|due| *due <= now_ps).is_some()
    }
}

/// The moves of a tail, and those before which the driver read the head.
#[derive(Clone, Copy, Debug, Default)]
struct Heads {
    /// The head was read since the last move.
    is_read: bool,
    /// Moves of the tail. A move of RDT counts only after a frame.
    moves: u64,
    read_moves: u64,
    /// The frames at the last move of RDT.
    frames: u64,
}

/// The state of the card since its last reset, as far as rules need it.
#[derive(Clone, Debug, Default)]
struct Epoch {
    ctrl: u32,
    rctl: u32,
    /// RFCTL, on chips that have it.
    rfctl: u32,
    tctl: u32,
    tidv: u32,
    mask: u32,
    packet: Packet,
    /// RAL0, RAH0, RAL1, …, if they were written.
    addresses: [Option<u32>; 2 * reg::RAR_ENTRIES as usize],
    /// The receiver has passed frames.
    has_received: bool,
    /// The receiver was disabled.
    was_stopped: bool,
    /// Frames were sent, so that gap and collision distance were judged.
    has_sent: bool,
    /// Frames were sent in half duplex, so that its rules were judged.
    has_sent_half: bool,
    /// The last frame for which software was to append the FCS.
    unsealed: Option<(u32, [u64; 2])>,
    /// Transmit descriptors since the last one with EOP, and the last of them.
    open: u32,
    opened: Option<(u32, [u64; 2])>,
    /// Frames that were handed over, all without RS.
    unreported: u64,
    /// RS, TDH or the interrupt TXQE shows the driver which frames were sent.
    has_report: bool,
    /// It reads TDH.
    reads_head: bool,
    icr_used: bool,
    /// The line has risen.
    interrupted: bool,
    line: bool,
    link_due: Due,
    filter_due: Due,
    dry_due: Due,
    /// Of the receive ring, and of the transmit ring.
    empty_due: [Due; 2],
    icr_due: Due,
    line_due: Due,
    masked_due: Due,
    eop_due: Due,
    full_due: Due,
    /// Writes during a reset had no effect.
    lost_writes: bool,
    /// Frames that were stored since all interrupts were masked.
    stored_masked: u64,
}

/// The rules and how often they were broken.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    chip: Chip,
    media: Media,
    /// The card has SWSM, as QEMU's has.
    swsm: bool,
    now_ps: u64,
    receive: Ring,
    transmit: Ring,
    epoch: Epoch,
    /// By the driver.
    was_reset: bool,
    /// CTRL after a reset.
    control_at_reset: u32,
    /// The station address in the EEPROM; `None` if it is unknown.
    station: Option<Mac>,
    /// A value of CTRL that was taken for a reset.
    no_reset: Option<u32>,
    /// Since when the card has been in half duplex.
    half_since_ps: Option<u64>,
    /// TIPG and the MTA keep their values in a reset (SDM 14.7).
    tipg: Option<u32>,
    multicast: u128,
    vlans: u128,
    /// The registers of flow control that were not written. The manual of the 82574 is not here.
    flow_unset: Vec<u32>,
    frames: u64,
    /// Of the receive ring, and of the transmit ring.
    heads: [Heads; 2],
    polls: u64,
    is_polled: bool,
    findings: Findings,
}

impl Rules {
    /// For a card after power-up, with the station address in its EEPROM.
    pub(crate) fn new(params: &Params, station: Option<Mac>) -> Self {
        let control_at_reset = params.control_at_reset();
        Self {
            chip: params.chip,
            media: params.media,
            swsm: params.swsm,
            now_ps: 0,
            receive: Ring::new(Side::Receive),
            transmit: Ring::new(Side::Transmit),
            epoch: Epoch { ctrl: control_at_reset, ..Epoch::default() },
            was_reset: false,
            control_at_reset,
            station,
            no_reset: None,
            half_since_ps: None,
            tipg: None,
            multicast: 0,
            vlans: 0,
            flow_unset: if params.chip.is_pci_express() { Vec::new() } else { FLOW.to_vec() },
            frames: 0,
            heads: [Heads::default(); 2],
            polls: 0,
            is_polled: false,
            findings: Findings::default(),
        }
    }

    /// The driver wrote a register during a reset: the write has no effect.
    pub(crate) fn write_in_reset(&mut self, now_ps: u64, offset: u32, value: u32) {
        self.tick(now_ps);
        self.epoch.lost_writes = true;
        // One finding for all registers.
        self.note(Rule::AccessInReset, Place::Register(reg::CTRL), || {
            let sentence =
                format!("The driver wrote {value:#x} to {} before the reset had ended.", name(offset));
            (Some(value), written(offset, value), sentence)
        });
    }

    /// All breaches so far. Counts only grow.
    pub(crate) fn broken(&self) -> Vec<Breach> {
        self.findings.broken()
    }

    fn note(&mut self, rule: Rule, place: Place, describe: impl FnOnce() -> (Option<u32>, String, String)) {
        self.findings.note(self.now_ps, rule, place, describe);
    }

    /// A breach by a write of `value` at `offset`.
    fn note_write(&mut self, rule: Rule, offset: u32, value: u32, sentence: impl FnOnce() -> String) {
        self.note(rule, Place::Register(offset), || (Some(value), written(offset, value), sentence()));
    }

    fn ring(&mut self, side: Side) -> &mut Ring {
        match side {
            Side::Receive => &mut self.receive,
            Side::Transmit => &mut self.transmit,
        }
    }

    // ---- Time ----

    /// A rule that allows some seconds is still to be judged.
    pub(crate) fn is_pending(&self) -> bool {
        let Epoch { link_due, filter_due, dry_due, empty_due: [receive, transmit], .. } = &self.epoch;
        let Epoch { icr_due, line_due, masked_due, eop_due, full_due, .. } = &self.epoch;
        let all = [
            link_due, filter_due, dry_due, receive, transmit, icr_due, line_due, masked_due, eop_due,
            full_due,
        ];
        all.iter().any(|due| due.0.is_some())
    }

    /// It is `now_ps`: rules that allow some seconds are judged.
    pub(crate) fn tick(&mut self, now_ps: u64) {
        self.now_ps = self.now_ps.max(now_ps);
        let now_ps = self.now_ps;
        if self.epoch.link_due.take(now_ps) && !self.epoch.lost_writes {
            self.note_link();
        }
        if self.epoch.filter_due.take(now_ps) {
            self.judge_filters();
            self.judge_addresses();
        }
        if self.epoch.masked_due.take(now_ps) && self.epoch.mask == 0 && self.epoch.stored_masked > 0 {
            let frames = self.epoch.stored_masked;
            self.note(Rule::LeftMasked, Place::Interrupt, || {
                let sentence = format!(
                    "The driver masked all interrupts after one of them, and did nothing for five seconds while \
                     {frames} frames were stored."
                );
                (None, "IMC written".into(), sentence)
            });
        }
        // The rest of a frame may wait in the ring until the card has room for it.
        let open = self.epoch.open;
        let waits = self.transmit.has_work() && open < OPEN;
        if !waits
            && self.epoch.eop_due.take(now_ps)
            && let Some((index, words)) = self.epoch.opened
        {
            self.note(Rule::EopMissing, Place::Descriptors(Side::Transmit), || {
                let sentence = format!(
                    "The driver handed over {open} descriptors without EOP, and five seconds later the frame \
                     has no end."
                );
                (None, descriptor(Side::Transmit, index, words), sentence)
            });
        }
        if self.epoch.dry_due.take(now_ps) && self.receive.is_dry() {
            let tail = self.receive.tail();
            self.note(Rule::RingLooksEmpty, Place::Descriptors(Side::Receive), || {
                let sentence = format!(
                    "The driver enabled the receiver and left RDT at {tail}, where RDH is. A frame has waited \
                     for a descriptor for five seconds."
                );
                (Some(tail), written(reg::RDT, tail), sentence)
            });
        }
        for side in [Side::Receive, Side::Transmit] {
            if self.epoch.empty_due[side as usize].take(now_ps) {
                self.judge_empty(side);
            }
        }
        if self.epoch.full_due.take(now_ps) && self.receive.is_dry() {
            let tail = self.receive.tail();
            self.note(Rule::FramesNotTaken, Place::Descriptors(Side::Receive), || {
                let sentence = format!(
                    "The receive ring has been full for five seconds, frames wait in the card, and RDT stays at {tail}."
                );
                (Some(tail), written(reg::RDT, tail), sentence)
            });
        }
        let held = self.epoch.line_due.take(now_ps);
        if held {
            let touched = if self.epoch.icr_used { "had read ICR before" } else { "never read ICR" };
            self.note(Rule::InterruptHeld, Place::Interrupt, || {
                let sentence = format!(
                    "The driver did not end an interrupt within five seconds. It {touched}, and the line stays \
                     asserted."
                );
                (None, "INTA# asserted".into(), sentence)
            });
        }
        if self.epoch.icr_due.take(now_ps) && !self.epoch.icr_used && !held && !self.epoch.line {
            self.note(Rule::IcrNeverRead, Place::Interrupt, || {
                let sentence =
                    "The driver got an interrupt, masked it, and did not read ICR within five seconds."
                        .into();
                (None, "INTA# asserted".into(), sentence)
            });
        }
    }

    fn note_link(&mut self) {
        let value = self.epoch.ctrl;
        self.note(Rule::SluMissing, Place::Register(reg::CTRL), || {
            let sentence =
                "The driver has not set CTRL.SLU (bit 6) five seconds after it enabled the receiver or the \
                 transmitter."
                    .into();
            (Some(value), written(reg::CTRL, value), sentence)
        });
    }

    fn judge_empty(&mut self, side: Side) {
        let ring = self.ring(side);
        let (tail, offset) = (ring.tail(), side.of(reg::RDLEN, reg::TDLEN));
        if ring.count() > 0 || !ring.enabled {
            return;
        }
        self.note(Rule::RingEmpty, Place::Register(offset), || {
            let sentence = format!(
                "The driver enabled the {} unit and wrote the tail {tail}, but the ring's length is below 128 \
                 bytes five seconds later.",
                side.name()
            );
            (None, format!("tail = {tail}"), sentence)
        });
    }

    /// Whether the manual has a register at `offset`, or the card has it beyond the manual.
    fn is_register(&self, offset: u32) -> bool {
        // The manual is that of the 8254x.
        self.chip.is_pci_express()
            || reg::name(offset).is_some()
            || offset == reg::CTRL_COPY
            || offset == reg::SWSM && self.swsm
    }

    /// The driver was to set CTRL.SLU and has not.
    pub(crate) fn has_no_link(&self) -> bool {
        self.findings.has(Rule::SluMissing) && self.lacks_link()
    }

    fn lacks_link(&self) -> bool {
        self.media == Media::Copper && self.epoch.ctrl & ctrl::SLU == 0
    }

    fn judge_addresses(&mut self) {
        for (side, offset) in [(Side::Receive, reg::RDBAH), (Side::Transmit, reg::TDBAH)] {
            if self.ring(side).lacks_high() {
                self.note(Rule::RingHighUnset, Place::Register(offset), || {
                    let sentence =
                        format!("The driver uses the {} ring and never wrote {}.", side.name(), name(offset));
                    (None, format!("{} not written", name(offset)), sentence)
                });
            }
        }
    }

    /// A tail is moved: has the driver read the head to know how far the card is?
    fn judge_heads(&mut self, side: Side, value: u32) {
        let frames = self.frames;
        let heads = &mut self.heads[side as usize];
        if side == Side::Receive && std::mem::replace(&mut heads.frames, frames) == frames {
            return;
        }
        heads.moves += 1;
        heads.read_moves += u64::from(std::mem::take(&mut heads.is_read));
        let Heads { moves, read_moves, .. } = *heads;
        // A watchdog reads it too, but not as often.
        if moves >= MOVES && read_moves >= moves / 5 * 4 {
            let (head, tail) = side.of((reg::RDH, reg::RDT), (reg::TDH, reg::TDT));
            self.note(Rule::HeadForDone, Place::Register(head), || {
                let (head, tail) = (name(head), name(tail));
                let sentence = format!(
                    "The driver read {head} before {read_moves} of the {moves} times that it moved {tail}."
                );
                (None, format!("{tail} = {value} after a read of {head}"), sentence)
            });
        }
    }

    /// RCTL and the filters' tables five seconds after the receiver is used.
    fn judge_filters(&mut self) {
        let value = self.epoch.rctl;
        let is_set = |bit: u32| value & bit != 0;
        if !is_set(rctl::EN) {
            return;
        }
        if !is_set(rctl::BAM) {
            let what = if is_set(rctl::MPE) {
                "MPE (bit 4) in place of RCTL.BAM (bit 15)"
            } else {
                "BAM (bit 15) clear"
            };
            self.note_write(Rule::BamMissing, reg::RCTL, value, || {
                format!("The driver uses the receiver with RCTL.{what}.")
            });
        }
        if !is_set(rctl::MPE) && self.multicast != u128::MAX {
            let count = self.multicast.count_ones();
            self.note(Rule::MtaNotCleared, Place::Register(reg::MTA), || {
                let sentence = format!(
                    "The driver uses the receiver, but wrote only {count} of the 128 registers of the MTA."
                );
                (None, written(reg::RCTL, value), sentence)
            });
        }
        if is_set(rctl::VFE) && self.vlans != u128::MAX {
            let count = self.vlans.count_ones();
            self.note_write(Rule::VftaNotWritten, reg::RCTL, value, || {
                format!(
                    "The driver uses the receiver with RCTL.VFE (bit 18), but wrote only {count} of the 128 \
                     registers of the VFTA."
                )
            });
        }
        if let Some(first) = self.flow_unset.first() {
            let names: Vec<_> = self.flow_unset.iter().map(|register| name(*register)).collect();
            self.note(Rule::FlowControlUnset, Place::Register(*first), || {
                let sentence =
                    format!("The driver uses the receiver, but has not written {}.", names.join(", "));
                (None, written(reg::RCTL, value), sentence)
            });
        }
        if is_set(rctl::LBM_MASK) {
            let mode = (value & rctl::LBM_MASK) >> 6;
            self.note_write(Rule::Loopback, reg::RCTL, value, || {
                format!("The driver uses the receiver with RCTL.LBM (bits 7:6) {mode:02b}b.")
            });
        }
    }

    // ---- Registers ----

    /// An access of `bytes` at `offset`.
    pub(crate) fn access(&mut self, offset: u32, bytes: usize) {
        // Two registers that make up one value may be accessed as one (SDM 13.2, 13.4.8, 13.5.2).
        let is_pair = matches!(offset, reg::RDBAL | reg::TDBAL | reg::FCAL | reg::RAL0..STATIONS_END)
            && offset.is_multiple_of(8)
            && bytes == 8;
        if (bytes != 4 || !offset.is_multiple_of(4)) && !is_pair {
            self.note(Rule::Width, Place::Register(offset & !3), || {
                let sentence = format!(
                    "The driver accessed {} with {bytes} bytes at offset {offset:#07x}.",
                    name(offset & !3)
                );
                (None, format!("{bytes} bytes at {offset:#07x}"), sentence)
            });
        }
    }

    /// The register at `offset` was read as `value`.
    pub(crate) fn read(&mut self, now_ps: u64, offset: u32, value: u32) {
        self.tick(now_ps);
        match offset {
            reg::ICR => {
                self.epoch.icr_used = true;
                self.epoch.masked_due.clear();
                self.epoch.has_report |= value & cause::TXQE != 0;
                self.polls = self.polls.saturating_add(u64::from(value == 0));
                self.is_polled |=
                    self.polls > POLLS && self.polls > self.frames.saturating_mul(POLLS_PER_FRAME);
                if self.is_polled && value == 0 {
                    let (polls, frames) = (self.polls, self.frames);
                    self.note(Rule::IcrPolled, Place::Register(reg::ICR), || {
                        let sentence = format!(
                            "The driver read ICR {polls} times as 0, while {frames} frames were received."
                        );
                        (None, "ICR read as 0x00000000".into(), sentence)
                    });
                }
            }
            reg::TDH => {
                self.epoch.has_report = true;
                self.epoch.reads_head = true;
                self.heads[Side::Transmit as usize].is_read = true;
            }
            reg::RDH => self.heads[Side::Receive as usize].is_read = true,
            _ if !self.is_register(offset) => {
                self.note(Rule::NoRegisterRead, Place::Register(offset), || {
                    let sentence =
                        format!("The driver read offset {offset:#07x}, where the manual has no register.");
                    (None, format!("{offset:#07x} read as {value:#010x}"), sentence)
                });
            }
            _ => {}
        }
    }

    /// `value` is written to the register at `offset`, which does not have it yet.
    pub(crate) fn write(&mut self, now_ps: u64, offset: u32, value: u32) {
        self.tick(now_ps);
        self.judge_value(offset, value);
        match offset {
            reg::CTRL | reg::CTRL_COPY if value & ctrl::RST != 0 => {
                self.reset();
                self.was_reset = true;
            }
            reg::CTRL | reg::CTRL_COPY => {
                if value & NOT_RESET != 0 && self.epoch.ctrl & NOT_RESET == 0 {
                    self.no_reset = Some(value);
                }
                self.epoch.ctrl = value;
                if !self.lacks_link() {
                    self.epoch.link_due.clear();
                }
            }
            reg::RCTL => self.set_receiver(value),
            reg::RFCTL if self.chip.has_extended_rx() => self.epoch.rfctl = value,
            reg::TCTL => self.set_transmitter(value),
            reg::TIDV => self.epoch.tidv = value,
            reg::TIPG => self.tipg = Some(value),
            reg::ICR => self.epoch.icr_used = true,
            reg::IMS => {
                self.epoch.mask |= value;
                self.epoch.masked_due.clear();
                self.epoch.has_report |= self.epoch.mask & cause::TXQE != 0;
            }
            reg::IMC => {
                let was_enabled = self.epoch.mask != 0;
                self.epoch.mask &= !value;
                if was_enabled && self.epoch.mask == 0 && self.epoch.interrupted {
                    self.epoch.stored_masked = 0;
                    self.epoch.masked_due.start(self.now_ps);
                }
            }
            reg::RAL0..STATIONS_END => {
                let at = ((offset - reg::RAL0) / 4) as usize;
                if let Some(address) = self.epoch.addresses.get_mut(at) {
                    *address = Some(value);
                }
            }
            reg::FCAL | reg::FCAH | reg::FCT | reg::FCTTV => {
                self.flow_unset.retain(|register| *register != offset);
            }
            reg::VFTA..VFTA_END => self.vlans |= 1 << (((offset - reg::VFTA) / 4) & 127),
            reg::MTA..reg::RAL0 => self.multicast |= 1 << (((offset - reg::MTA) / 4) & 127),
            reg::RDBAL | reg::RDBAH | reg::RDLEN | reg::RDH => self.set_ring(Side::Receive, offset, value),
            reg::TDBAL | reg::TDBAH | reg::TDLEN | reg::TDH => self.set_ring(Side::Transmit, offset, value),
            reg::RDT => {
                self.epoch.masked_due.clear();
                self.epoch.full_due.clear();
                self.set_tail(Side::Receive, value);
            }
            reg::TDT => self.set_tail(Side::Transmit, value),
            _ => {}
        }
    }

    /// The card is reset by its bus.
    pub(crate) fn reset(&mut self) {
        self.was_reset = false;
        self.receive.reset();
        self.transmit.reset();
        self.epoch = Epoch { line: self.epoch.line, ctrl: self.control_at_reset, ..Epoch::default() };
    }

    /// The rules that depend only on the value.
    fn judge_value(&mut self, offset: u32, value: u32) {
        let (mut bits, _) = reg::reserved(offset);
        let (rule, unused) = match offset {
            reg::RDBAL | reg::TDBAL => (Rule::RingBaseUnaligned, 0xF),
            reg::RDLEN | reg::TDLEN => (Rule::RingLengthUnaligned, 0x7F),
            _ => (Rule::ReservedBits, 0),
        };
        if value & unused != 0 {
            self.note_write(rule, offset, value, || {
                let unit = unused + 1;
                format!(
                    "The driver wrote {value:#x} to {}, which must be a multiple of {unit}.",
                    name(offset)
                )
            });
        }
        bits &= !unused;
        // Other bits are reserved on the 82574.
        if self.chip.is_pci_express() {
            bits = 0;
        }
        if value & bits != 0 {
            self.note_write(Rule::ReservedBits, offset, value, || {
                format!(
                    "The driver wrote {value:#010x} to {}, of which the bits {:#010x} are reserved.",
                    name(offset),
                    value & bits
                )
            });
        }
        let enable = value & eecd::FWE_MASK;
        let is_allowed = matches!(enable, eecd::FWE_DIS | eecd::FWE_EN);
        if offset == reg::EECD && !self.chip.is_pci_express() && !is_allowed {
            self.note_write(Rule::FlashWriteEnable, offset, value, || {
                format!("The driver wrote {value:#x} to EECD: FWE (bits 5:4) is {:02b}b.", enable >> 4)
            });
        }
        if matches!(offset, reg::CTRL | reg::CTRL_COPY)
            && self.media == Media::Copper
            && value & ctrl::ILOS != 0
        {
            self.note_write(Rule::IlosSet, offset, value, || {
                format!("The driver wrote {value:#010x} to CTRL, with ILOS (bit 7).")
            });
        }
        if let Some(place) = read_only(offset) {
            self.note(Rule::ReadOnly, Place::Register(place), || {
                let sentence =
                    format!("The driver wrote {value:#x} to {}, which is read-only.", name(offset));
                (Some(value), written(offset, value), sentence)
            });
        }
        if !self.is_register(offset) {
            self.note_write(Rule::NoRegister, offset, value, || {
                format!(
                    "The driver wrote {value:#x} to offset {offset:#07x}, where the manual has no register."
                )
            });
        }
    }

    fn set_receiver(&mut self, value: u32) {
        let (was, is) = (self.receive.enabled, value & rctl::EN != 0);
        self.epoch.rctl = value;
        self.receive.enabled = is;
        self.epoch.was_stopped |= was && !is;
        // On the 82574 FLXBUF takes the place of the size (public drivers).
        let is_flexible = self.chip.is_pci_express() && value & FLXBUF != 0;
        if rctl::buffer_bytes(value).is_none() && !is_flexible {
            self.note_write(Rule::BufferSizeReserved, reg::RCTL, value, || {
                "The driver wrote RCTL with BSEX 1 and BSIZE 0, which is reserved.".into()
            });
        }
        if is && !was && std::mem::take(&mut self.epoch.was_stopped) && !self.chip.is_pci_express() {
            let frames = if self.epoch.has_received { "Frames had" } else { "No frame had" };
            self.note_write(Rule::ReEnabled, reg::RCTL, value, || {
                format!(
                    "The driver cleared RCTL.EN, and set it again without a reset. {frames} arrived before."
                )
            });
        }
        if is && !was && !self.receive.is_set_up() {
            self.note_write(Rule::ReceiverBeforeRing, reg::RCTL, value, || {
                "The driver set RCTL.EN before it had written RDBAL and RDLEN.".into()
            });
        }
        if is && !was && self.lacks_link() {
            self.epoch.link_due.start(self.now_ps);
        }
        self.begin(Side::Receive);
    }

    fn set_transmitter(&mut self, value: u32) {
        let (was, is) = (self.transmit.enabled, value & tctl::EN != 0);
        self.epoch.tctl = value;
        self.transmit.enabled = is;
        if is && !was && !self.transmit.is_set_up() {
            self.note_write(Rule::TransmitterBeforeRing, reg::TCTL, value, || {
                "The driver set TCTL.EN before it had written TDBAL and TDLEN.".into()
            });
        }
        if is && !was && self.lacks_link() {
            self.epoch.link_due.start(self.now_ps);
        }
        self.begin(Side::Transmit);
    }

    /// A write of a ring's address, length or head.
    fn set_ring(&mut self, side: Side, offset: u32, value: u32) {
        let ring = self.ring(side);
        let is_head = matches!(offset, reg::RDH | reg::TDH);
        // The first set-up of an enabled unit is another rule's.
        let breaks = ring.enabled && (is_head || ring.used);
        match offset {
            reg::RDBAL | reg::TDBAL => ring.set_low(value),
            reg::RDBAH | reg::TDBAH => ring.set_high(value),
            reg::RDLEN | reg::TDLEN => ring.set_length(value),
            _ => ring.set_head(value),
        }
        if side == Side::Transmit {
            self.epoch.packet = Packet::default();
            self.epoch.open = 0;
            self.epoch.eop_due.clear();
        }
        if breaks {
            self.note_write(Rule::RingWhileEnabled, offset, value, || {
                format!(
                    "The driver wrote {value:#x} to {} while the {} unit was enabled.",
                    name(offset),
                    side.name()
                )
            });
        }
    }

    fn set_tail(&mut self, side: Side, value: u32) {
        self.judge_heads(side, value);
        let ring = self.ring(side);
        let (old, moved, count) = (ring.tail(), ring.set_tail(value), ring.count());
        let (is_used, is_enabled) = (ring.used, ring.enabled);
        let offset = side.of(reg::RDT, reg::TDT);
        match moved {
            Move::Fine => {}
            Move::LooksEmpty => self.note_write(Rule::RingLooksEmpty, offset, value, || {
                format!(
                    "The driver moved {} from {old} to {value}: all {count} descriptors are handed over, and \
                     the tail equals the head.",
                    name(offset)
                )
            }),
            Move::Passes(by) => self.note_write(Rule::TailPassesHead, offset, value, || {
                format!(
                    "The driver moved {} from {old} to {value} in a ring of {count}: {by} descriptors are \
                     handed over again before the card was done with them.",
                    name(offset)
                )
            }),
        }
        if is_used && is_enabled {
            self.judge_tail(side, value);
        } else {
            self.begin(side);
        }
    }

    fn judge_tail(&mut self, side: Side, value: u32) {
        let count = self.ring(side).count();
        let offset = side.of(reg::RDT, reg::TDT);
        if count > 0 && value & 0xFFFF >= count {
            self.note_write(Rule::TailBeyondRing, offset, value, || {
                format!("The driver wrote {value} to {} of a ring of {count} descriptors.", name(offset))
            });
        }
    }

    /// Judges a ring when its unit is enabled and a tail is there for the first time.
    fn begin(&mut self, side: Side) {
        let longest = u32::from(self.chip.max_ring());
        let ring = self.ring(side);
        if ring.used || !ring.enabled || !ring.has_work() {
            return;
        }
        ring.used = true;
        let (count, tail) = (ring.count(), ring.tail());
        let (length, tail_at) = side.of((reg::RDLEN, reg::RDT), (reg::TDLEN, reg::TDT));
        if count == 0 {
            self.epoch.empty_due[side as usize].start(self.now_ps);
        }
        if count > longest {
            self.note(Rule::RingLong, Place::Register(length), || {
                let sentence = format!("The driver uses a {} ring of {count} descriptors.", side.name());
                (None, written(length, count.saturating_mul(BYTES as u32)), sentence)
            });
        }
        self.judge_tail(side, tail);
        if !self.was_reset {
            let no_reset = self.no_reset;
            self.note(Rule::NoReset, Place::Register(reg::CTRL), || {
                let mut sentence =
                    format!("The driver uses the {} unit without having set CTRL.RST (bit 26).", side.name());
                let Some(value) = no_reset else { return (None, written(tail_at, tail), sentence) };
                sentence += " It set bit 22, which makes a pin an output.";
                (Some(value), written(reg::CTRL, value), sentence)
            });
        }
        if self.lacks_link() {
            self.epoch.link_due.start(self.now_ps);
        }
        if side == Side::Receive {
            self.epoch.filter_due.start(self.now_ps);
        }
    }

    // ---- Memory ----

    /// The card read `bytes` of memory at `address`: descriptors, or data to send.
    pub(crate) fn loaded(&mut self, address: u64, bytes: &[u8], abort: Option<Abort>) {
        let side = if self.receive.is_fetch(address, bytes.len()) {
            Some(Side::Receive)
        } else if self.transmit.is_fetch(address, bytes.len()) {
            Some(Side::Transmit)
        } else {
            None
        };
        if let Some(abort) = abort {
            let place = side.map_or(Place::Data(Side::Transmit), Place::Descriptors);
            if side.is_none() {
                self.transmit.gave_up();
            }
            return self.note_abort(abort, place, "read", address, bytes.len());
        }
        let Some(side) = side else {
            return self.transmit.data_read(address, bytes.len() as u64);
        };
        for (part, at) in bytes.chunks_exact(BYTES as usize).zip(0u64..) {
            let at = address.saturating_add(at * BYTES);
            let Some(index) = self.ring(side).fetch(at) else { return };
            let words = words(part);
            match side {
                Side::Receive => self.receive_descriptor(index, words),
                Side::Transmit => self.transmit_descriptor(index, words),
            }
        }
    }

    /// Whether the card is about to write a descriptor back at `address`. Then
    /// [`write_back`](Self::write_back) needs the 16 bytes that memory has there.
    pub(crate) fn is_write_back(&self, address: u64, bytes: usize) -> bool {
        self.receive.is_write_back(address, bytes) || self.transmit.is_write_back(address, bytes)
    }

    /// The card is about to write back the descriptor at `address`, which is `old` in memory.
    pub(crate) fn write_back(&mut self, address: u64, old: &[u8]) {
        for (part, at) in old.chunks_exact(BYTES as usize).zip(0u64..) {
            let at = (address & !(BYTES - 1)).saturating_add(at * BYTES);
            let old = words(part);
            for side in [Side::Receive, Side::Transmit] {
                // A driver that goes by TDH may use a descriptor before its report.
                if side == Side::Transmit && self.epoch.reads_head {
                    continue;
                }
                let ring = self.ring(side);
                let Some(index) = ring.written_back(at, BYTES as usize) else { continue };
                let Some(fetched) = ring.fetched(index).filter(|fetched| *fetched != old) else { continue };
                self.note(Rule::DescriptorChanged, Place::Descriptors(side), || {
                    let sentence = format!(
                        "The driver changed {} descriptor {index} from {:#018x} {:#018x} to {:#018x} {:#018x} \
                         while the card had it.",
                        side.name(),
                        fetched[0],
                        fetched[1],
                        old[0],
                        old[1]
                    );
                    (None, descriptor(side, index, old), sentence)
                });
            }
        }
    }

    /// The card wrote `bytes` of memory at `address`: descriptors, or received data.
    pub(crate) fn stored(&mut self, address: u64, bytes: &[u8], abort: Option<Abort>) {
        let side = [Side::Receive, Side::Transmit]
            .into_iter()
            .find(|side| self.ring(*side).is_write_back(address, bytes.len()));
        if let Some(abort) = abort {
            let place = side.map_or(Place::Data(Side::Receive), Place::Descriptors);
            self.note_abort(abort, place, "write", address, bytes.len());
        }
        let Some(side) = side else { return };
        if bytes.len() < BYTES as usize {
            let ring = self.ring(side);
            if let Some(index) = ring.written_back(address, bytes.len()) {
                ring.wrote_back(index);
            }
            return;
        }
        for (part, at) in bytes.chunks_exact(BYTES as usize).zip(0u64..) {
            let ring = self.ring(side);
            let at = address.saturating_add(at * BYTES);
            let Some(index) = ring.written_back(at, BYTES as usize) else { return };
            ring.wrote_back(index);
            let words = words(part);
            let report = match self.has_extended() {
                true => extended::Writeback::unpack(words).legacy(),
                false => RxWriteback::unpack(words[1]),
            };
            let is_part = report.status & (rx_status::DD | rx_status::EOP) == rx_status::DD;
            // A descriptor without a buffer is reported in the same way (SDM 3.2.5.2).
            let has_buffer = self.has_extended() || words[0] != 0;
            if side == Side::Receive && is_part && has_buffer && !self.has_split() {
                self.note(Rule::FrameOverBuffers, Place::Descriptors(side), || {
                    let sentence = format!(
                        "A frame filled {} bytes of a buffer and goes on in the next one.",
                        report.length
                    );
                    (None, descriptor(side, index, words), sentence)
                });
            }
        }
    }

    fn note_abort(&mut self, abort: Abort, place: Place, verb: &str, address: u64, bytes: usize) {
        let rule = match abort {
            Abort::NoMemory => Rule::NoMemory,
            Abort::NotMaster => Rule::NotMaster,
        };
        self.note(rule, place, || {
            let what = match place {
                Place::Descriptors(side) => format!("{} descriptors", side.name()),
                Place::Data(Side::Receive) => "a received frame".into(),
                _ => "a frame to send".into(),
            };
            let why = match abort {
                Abort::NoMemory => "where the machine has no memory",
                Abort::NotMaster => "but the driver has not made it a bus master",
            };
            let sentence = format!("The card was to {verb} {what}, {bytes} bytes at {address:#x}, {why}.");
            (None, format!("{verb} of {bytes} bytes at {address:#x}"), sentence)
        });
    }

    /// Receive descriptors are extended ones.
    fn has_extended(&self) -> bool {
        self.epoch.rfctl & rfctl::EXSTEN != 0
    }

    /// Receive descriptors have several buffers.
    fn has_split(&self) -> bool {
        self.has_extended() && self.epoch.rctl & express::rctl::DTYP_SPLIT != 0
    }

    fn receive_descriptor(&mut self, index: u32, words: [u64; 2]) {
        let side = Side::Receive;
        let place = Place::Descriptors(side);
        self.epoch.dry_due.clear();
        // Packet split descriptors have 32 bytes.
        if self.has_split() {
            return;
        }
        let status = if self.has_extended() { words[1] & 0xFF } else { words[1] >> 32 & 0xFF };
        if status & u64::from(rx_status::DD) != 0 {
            self.note(Rule::StatusSet, place, || {
                let sentence =
                    format!("The driver handed over a receive descriptor with the status {status:#04x}.");
                (None, descriptor(side, index, words), sentence)
            });
        }
        let buffer = words[0];
        let size = u64::from(rctl::buffer_bytes(self.epoch.rctl).unwrap_or(2048));
        // The card discards longer frames, unless it stores bad ones (SDM 13.4.22). Linux relies on it.
        let is_limited = self.epoch.rctl & (rctl::LPE | rctl::SBP) == 0;
        let bytes = if is_limited { size.min(LONGEST_BYTES) } else { size };
        if buffer == 0 {
            self.note(Rule::NullBuffer, place, || {
                let sentence = "The driver handed over a receive descriptor with the address 0.".into();
                (None, descriptor(side, index, words), sentence)
            });
        } else {
            let (start, end) = (buffer, buffer.saturating_add(bytes));
            let meets = |it: &&ring::Held| {
                it.index != index && it.data != 0 && start < it.data.saturating_add(it.bytes) && it.data < end
            };
            let other = if let Some(other) = self.receive.held().find(meets) {
                Some(format!("that of receive descriptor {}, which begins at {:#x}", other.index, other.data))
            } else if self.receive.overlaps(buffer, bytes) {
                Some("the receive ring".into())
            } else if self.transmit.overlaps(buffer, bytes) {
                Some("the transmit ring".into())
            } else {
                None
            };
            if let Some(other) = other {
                self.note(Rule::BuffersOverlap, place, || {
                    let sentence =
                        format!("The driver gave the card a receive buffer of {bytes} bytes at {buffer:#x}; it overlaps {other}.");
                    (None, descriptor(side, index, words), sentence)
                });
            }
        }
        self.receive.hold(index, words, [buffer, bytes], true, false);
    }

    fn transmit_descriptor(&mut self, index: u32, words: [u64; 2]) {
        let side = Side::Transmit;
        let setting = Setting { chip: self.chip, ctrl: self.epoch.ctrl, tidv: self.epoch.tidv };
        let judged = self.epoch.packet.next(words, &setting);
        for (rule, sentence) in judged.broken {
            self.note(rule, Place::Descriptors(side), || (None, descriptor(side, index, words), sentence));
        }
        let data = [judged.data, judged.bytes];
        let awaited = self.transmit.hold(index, words, data, judged.is_read, judged.reports);
        // A driver that goes by TDH need not wait for the report.
        if awaited && !self.epoch.reads_head {
            self.note(Rule::ReportNotAwaited, Place::Descriptors(side), || {
                let sentence = format!(
                    "The driver used transmit descriptor {index} again. It had set RS, and the card had not \
                     written DD yet."
                );
                (None, descriptor(side, index, words), sentence)
            });
        }
        if judged.is_unsealed {
            self.epoch.unsealed = Some((index, words));
        }
        self.epoch.has_report |= judged.reports;
        if judged.ends {
            self.epoch.open = 0;
            self.epoch.eop_due.clear();
        } else if judged.is_part {
            self.epoch.open = self.epoch.open.saturating_add(1);
            self.epoch.opened = Some((index, words));
            self.epoch.eop_due.start(self.now_ps);
        }
        if judged.ends && !self.epoch.has_report {
            self.epoch.unreported = self.epoch.unreported.saturating_add(1);
            // A driver may keep some descriptors free.
            let most = self.transmit.count() / 4 * 3;
            if self.epoch.unreported == u64::from(most) {
                self.note(Rule::NoReport, Place::Descriptors(side), || {
                    let sentence = format!(
                        "The driver handed over {most} frames, three quarters of its ring, without RS, and did \
                         not read TDH or use the interrupt TXQE."
                    );
                    (None, descriptor(side, index, words), sentence)
                });
            }
        }
    }

    // ---- Frames and interrupts ----

    /// A frame left the card.
    pub(crate) fn sent(&mut self, frame: &[u8], good_fcs: bool) {
        let place = Place::Frames(Side::Transmit);
        if !good_fcs && let Some((index, words)) = self.epoch.unsealed {
            self.note(Rule::IfcsMissing, place, || {
                let sentence = format!(
                    "The driver sent a frame of {} bytes without IFCS, and its last four bytes are not its FCS.",
                    frame.len().saturating_add(4)
                );
                (None, descriptor(Side::Transmit, index, words), sentence)
            });
        }
        self.judge_station(frame);
        if good_fcs && frame.len() < LEAST_BYTES {
            let value = self.epoch.tctl;
            self.note(Rule::Runt, place, || {
                let sentence = format!(
                    "The driver sent a frame of {} bytes without FCS while TCTL.PSP is clear.",
                    frame.len()
                );
                (Some(value), written(reg::TCTL, value), sentence)
            });
        }
        if !std::mem::replace(&mut self.epoch.has_sent, true) {
            self.judge_gap();
        }
        let is_settled = |since_ps: u64| self.now_ps.saturating_sub(since_ps) >= SETTLED_PS;
        if self.half_since_ps.is_some_and(is_settled)
            && !std::mem::replace(&mut self.epoch.has_sent_half, true)
        {
            self.judge_half_duplex();
        }
    }

    /// Whether the link is up in half duplex.
    pub(crate) fn set_half_duplex(&mut self, now_ps: u64, is_half: bool) {
        self.half_since_ps = is_half.then(|| self.half_since_ps.unwrap_or(now_ps));
    }

    /// The fields of registers that matter in half duplex only.
    fn judge_half_duplex(&mut self) {
        let control = self.epoch.tctl;
        let threshold = control >> tctl::CT_SHIFT & 0xFF;
        let distance = (control & tctl::COLD_MASK) >> tctl::COLD_SHIFT;
        // SDM 13.4.33 and 14.5 differ in both, and either value is right.
        if !matches!(threshold, 0x0F | 0x10) || !matches!(distance, 0x3F..=0x44 | 0x200) {
            self.note_write(Rule::HalfDuplexCollisions, reg::TCTL, control, || {
                format!("The driver sends in half duplex with TCTL.CT {threshold:#x} and COLD {distance:#x}.")
            });
        }
        let (tipg, value) = (self.tipg, self.tipg.unwrap_or(0));
        let (first, second) = (value >> 10 & 0x3FF, value >> 20 & 0x3FF);
        if self.is_gap_known() && (first < 8 || second < 6) {
            self.note(Rule::HalfDuplexGap, Place::Register(reg::TIPG), || {
                let sentence = format!(
                    "The driver sends in half duplex with IPGR1 {first} and IPGR2 {second}; 8 and 6 are the least."
                );
                let access =
                    tipg.map_or_else(|| "TIPG not written".into(), |value| written(reg::TIPG, value));
                (tipg, access, sentence)
            });
        }
        let control = self.epoch.ctrl;
        if control & ctrl::TFCE != 0 {
            self.note_write(Rule::HalfDuplexPause, reg::CTRL, control, || {
                "The driver sends in half duplex with CTRL.TFCE (bit 28).".into()
            });
        }
    }

    /// The sender of an ARP message should have a station address of the card.
    fn judge_station(&mut self, frame: &[u8]) {
        let Ok(frame) = ethernet::Frame::new_checked(frame) else { return };
        let is_arp = frame.ethertype() == ethernet::TYPE_ARP;
        let Some(message) = arp::Message::parse(frame.payload()).ok().filter(|_| is_arp) else { return };
        let source = message.sender_mac;
        // A bridge passes on the frames of other stations, and is promiscuous.
        if source != frame.source() || self.epoch.rctl & rctl::UPE != 0 {
            return;
        }
        let mut stations = self.epoch.addresses.chunks_exact(2).map(|pair| match *pair {
            [Some(low), Some(high)] => Some(Mac(address(low, high))),
            _ => None,
        });
        let first = stations.next().flatten().or(self.station);
        let Some(first) = first.filter(|first| *first != source) else { return };
        if stations.flatten().any(|it| it == source) {
            return;
        }
        self.note(Rule::StationAddress, Place::Register(reg::RAL0), || {
            let sentence = format!(
                "The driver says by ARP that it is {source}, and the card's station address is {first}."
            );
            (None, format!("ARP from {source}"), sentence)
        });
    }

    /// Whether TIPG is what the driver wrote, or 0. The 82574 has another initial value.
    fn is_gap_known(&self) -> bool {
        self.tipg.is_some() || !self.chip.is_pci_express()
    }

    fn judge_gap(&mut self) {
        // The MAC adds 4 clocks on copper; on fibre 6 is the value for the 82544 (SDM 13.4.34).
        let least = if self.media == Media::Copper { 8 } else { 6 };
        let (tipg, value) = (self.tipg, self.tipg.unwrap_or(0));
        if self.is_gap_known() && value & 0x3FF < least {
            self.note(Rule::GapTooShort, Place::Register(reg::TIPG), || {
                let what = tipg.map_or_else(
                    || "has not written TIPG".into(),
                    |value| format!("wrote TIPG with IPGT {}", value & 0x3FF),
                );
                let sentence = format!("The driver {what} and sent a frame; {least} is the least.");
                (
                    tipg,
                    tipg.map_or_else(|| "a frame left".into(), |value| written(reg::TIPG, value)),
                    sentence,
                )
            });
        }
        let value = self.epoch.tctl;
        let distance = (value & tctl::COLD_MASK) >> tctl::COLD_SHIFT;
        // 3Fh is the public drivers' value; 44h is the greatest of the manual.
        if self.half_since_ps.is_none() && !matches!(distance, 0x3F..=0x44) {
            self.note_write(Rule::CollisionDistance, reg::TCTL, value, || {
                format!("The driver sends in full duplex with TCTL.COLD {distance:#x}.")
            });
        }
    }

    /// A frame arrived; what the card had dropped before it, and after.
    pub(crate) fn arrived(&mut self, now_ps: u64, frame: &[u8], before: &Dropped, after: &Dropped) {
        self.tick(now_ps);
        let value = self.epoch.rctl;
        let is_enabled = value & rctl::EN != 0;
        if after.total() == before.total() {
            self.frames = self.frames.saturating_add(1);
            self.epoch.stored_masked = self.epoch.stored_masked.saturating_add(1);
            self.epoch.has_received = true;
            if self.receive.is_dry() && is_enabled {
                let due = if self.receive.used { &mut self.epoch.full_due } else { &mut self.epoch.dry_due };
                due.start(now_ps);
            }
        }
        if after.disabled > before.disabled && is_enabled && self.lacks_link() {
            self.epoch.link_due.start(now_ps);
        }
        if after.filtered == before.filtered || !is_enabled {
            return;
        }
        let place = Place::Frames(Side::Receive);
        let Some(&destination) = frame.first_chunk::<6>() else { return };
        if destination == [0xFF; 6] && value & rctl::BAM == 0 {
            self.note(Rule::BamMissing, place, || {
                let sentence =
                    "A broadcast frame arrived, and the card dropped it: RCTL.BAM is clear.".into();
                (Some(value), written(reg::RCTL, value), sentence)
            });
        }
        let [Some(low), Some(high), ..] = self.epoch.addresses else { return };
        if destination == address(low, high) && high & rah::AV == 0 && value & rctl::UPE == 0 {
            self.note(Rule::RahAvMissing, place, || {
                let sentence =
                    "A frame to the address in RAL0 and RAH0 arrived, and the card dropped it: RAH0.AV is clear.";
                (Some(high), written(reg::RAH0, high), sentence.into())
            });
        }
    }

    /// The card sent an interrupt as a message.
    pub(crate) fn message(&mut self) {
        self.epoch.interrupted = true;
    }

    /// The interrupt line rose or fell.
    pub(crate) fn interrupt(&mut self, line: bool) {
        self.epoch.line = line;
        if line {
            self.epoch.interrupted = true;
            self.epoch.line_due.start(self.now_ps);
            self.epoch.icr_due.start(self.now_ps);
        } else {
            self.epoch.line_due.clear();
        }
    }
}

/// The station address in RAL and RAH.
fn address(low: u32, high: u32) -> [u8; 6] {
    let [a, b, c, d] = low.to_le_bytes();
    let [e, f, ..] = high.to_le_bytes();
    [a, b, c, d, e, f]
}

/// The place of a register that is read-only (SDM table 13-2): of all statistics, the first one.
fn read_only(offset: u32) -> Option<u32> {
    match offset {
        reg::STATUS | reg::RXCW => Some(offset),
        _ => stat::at(offset).map(|_| stat::CRCERRS),
    }
}

/// The two words of a descriptor.
fn words(bytes: &[u8]) -> [u64; 2] {
    let mut words = [0; 2];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    words
}

#[cfg(test)]
mod tests;
