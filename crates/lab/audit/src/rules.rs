//! The manual's prohibitions for drivers, as far as a breach is visible from outside.

use kpps_card::Dropped;
use kpps_datasheet::Chip;
use kpps_datasheet::bit::{ctrl, rctl, tctl};
use kpps_datasheet::reg;
use std::collections::BTreeMap;

/// The size of a descriptor in bytes.
const DESCRIPTOR_BYTES: u32 = 16;

/// A rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A bit that must be written as 0 was 1.
    ReservedBits,
    /// An address without a register was written (SDM 13.2).
    NoRegister,
    /// An access was not of 32 bits at a multiple of four bytes (SDM 13.2).
    Width,
    /// A tail was set that is not in the ring (SDM 13.4.29, 13.4.40).
    TailBeyondRing,
    /// A ring's address, length or head was changed while its unit was enabled (SDM 13.4.28, 13.4.39).
    RingWhileEnabled,
    /// The card was to use memory that the machine does not have, or before it was a bus master.
    NoMemory,
}

impl Rule {
    /// A description of the breach, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ReservedBits => "reserved bits written as 1",
            Self::NoRegister => "written where there is no register",
            Self::Width => "not accessed as 32 bits",
            Self::TailBeyondRing => "tail beyond the ring",
            Self::RingWhileEnabled => "changed while its unit is enabled",
            Self::NoMemory => "memory that is not there, or not yet a bus master",
        }
    }

    /// The section of the manual.
    const fn section(self, offset: u32) -> &'static str {
        match self {
            Self::ReservedBits => reg::reserved(offset).1,
            Self::NoRegister | Self::Width => "13.2",
            Self::TailBeyondRing if offset == reg::RDT => "13.4.29",
            Self::TailBeyondRing => "13.4.40",
            Self::RingWhileEnabled if offset < reg::TDBAL => "13.4.28",
            Self::RingWhileEnabled => "13.4.39",
            Self::NoMemory => "4.1",
        }
    }
}

/// A rule that was broken at a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule.
    pub rule: Rule,
    /// The register's name, or its offset.
    pub register: String,
    /// The section of the manual.
    pub section: &'static str,
    /// How often.
    pub count: u64,
    /// The value that was first written, if it was one.
    pub value: Option<u32>,
}

/// A register by its name, or by its offset in hexadecimal.
pub(crate) fn name(offset: u32) -> String {
    reg::name(offset).map_or_else(|| format!("{offset:#07x}"), str::to_owned)
}

/// Why an access of the card to memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    /// The machine has no such memory.
    NoMemory,
    /// The card was not allowed to be a bus master.
    NotMaster,
}

/// The rules and how often they were broken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    receive_enabled: bool,
    transmit_enabled: bool,
    /// The lengths of the rings in descriptors.
    receive_ring: u32,
    transmit_ring: u32,
    /// Accesses to memory that failed.
    aborts: u64,
    broken: BTreeMap<(Rule, u32), (u64, Option<u32>)>,
}

impl Rules {
    /// For a card after power-up.
    pub(crate) fn new(_: Chip) -> Self {
        Self::default()
    }

    fn note(&mut self, rule: Rule, offset: u32, value: Option<u32>) {
        self.broken.entry((rule, offset)).or_insert((0, value)).0 += 1;
    }

    /// An access of `bytes` at `offset`.
    pub(crate) fn access(&mut self, offset: u32, bytes: usize) {
        if bytes != 4 || !offset.is_multiple_of(4) {
            self.note(Rule::Width, offset & !3, None);
        }
    }

    /// The register at `offset` was read as `value`.
    pub(crate) fn read(&mut self, _now_ps: u64, _offset: u32, _value: u32) {}

    /// The card read `bytes` of memory at `address`: descriptors, or data to send.
    pub(crate) fn loaded(&mut self, _address: u64, _bytes: &[u8], abort: Option<Abort>) {
        self.aborts += u64::from(abort.is_some());
    }

    /// The card wrote `bytes` of memory at `address`: descriptors, or received data.
    pub(crate) fn stored(&mut self, _address: u64, _bytes: &[u8], abort: Option<Abort>) {
        self.aborts += u64::from(abort.is_some());
    }

    /// A frame left the card.
    pub(crate) fn sent(&mut self, _frame: &[u8], _good_fcs: bool) {}

    /// A frame arrived; what the card had dropped before it, and after.
    pub(crate) fn arrived(&mut self, _now_ps: u64, _frame: &[u8], _before: &Dropped, _after: &Dropped) {}

    /// The interrupt line rose or fell.
    pub(crate) fn interrupt(&mut self, _line: bool) {}

    /// `value` is written to the register at `offset`, which does not have it yet.
    pub(crate) fn write(&mut self, _now_ps: u64, offset: u32, value: u32) {
        if value & reg::reserved(offset).0 != 0 {
            self.note(Rule::ReservedBits, offset, Some(value));
        }
        // 0004h is a second offset of CTRL, by which drivers reset some chips.
        if reg::name(offset).is_none() && offset != 4 {
            self.note(Rule::NoRegister, offset, Some(value));
        }
        match offset {
            reg::CTRL | 4 if value & ctrl::RST != 0 => {
                let broken = std::mem::take(&mut self.broken);
                *self = Self { broken, aborts: self.aborts, ..Self::default() };
            }
            reg::RCTL => self.receive_enabled = value & rctl::EN != 0,
            reg::TCTL => self.transmit_enabled = value & tctl::EN != 0,
            reg::RDLEN => self.receive_ring = value / DESCRIPTOR_BYTES,
            reg::TDLEN => self.transmit_ring = value / DESCRIPTOR_BYTES,
            reg::RDT if value >= self.receive_ring && value != 0 => {
                self.note(Rule::TailBeyondRing, offset, Some(value));
            }
            reg::TDT if value >= self.transmit_ring && value != 0 => {
                self.note(Rule::TailBeyondRing, offset, Some(value));
            }
            _ => {}
        }
        let ring = match offset {
            reg::RDBAL | reg::RDBAH | reg::RDLEN | reg::RDH => self.receive_enabled,
            reg::TDBAL | reg::TDBAH | reg::TDLEN | reg::TDH => self.transmit_enabled,
            _ => false,
        };
        if ring {
            self.note(Rule::RingWhileEnabled, offset, Some(value));
        }
    }

    /// All breaches so far.
    pub(crate) fn broken(&self) -> Vec<Breach> {
        let of_registers = self.broken.iter().map(|(&(rule, offset), &(count, value))| Breach {
            rule,
            register: name(offset),
            section: rule.section(offset),
            count,
            value,
        });
        let of_memory = (self.aborts > 0).then(|| Breach {
            rule: Rule::NoMemory,
            register: "memory".into(),
            section: Rule::NoMemory.section(0),
            count: self.aborts,
            value: None,
        });
        of_registers.chain(of_memory).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(writes: &[(u32, u32)]) -> Vec<(Rule, String, u64)> {
        let mut rules = Rules::default();
        for (offset, value) in writes {
            rules.write(0, *offset, *value);
        }
        rules.broken().into_iter().map(|it| (it.rule, it.register, it.count)).collect()
    }

    #[test]
    fn a_driver_by_the_manual_breaks_nothing() {
        let writes = [
            (reg::CTRL, ctrl::RST),
            (reg::RDBAL, 0x1000),
            (reg::RDLEN, 8 * 16),
            (reg::RDH, 0),
            (reg::RDT, 0),
            (reg::RCTL, rctl::EN | rctl::BAM),
            (reg::RDT, 7),
            (reg::mta(3), u32::MAX),
            (4, ctrl::RST),
            (reg::RDLEN, 16 * 16),
        ];
        assert_eq!(violations(&writes), []);
    }

    #[test]
    fn each_rule_is_seen_when_it_is_broken() {
        assert_eq!(violations(&[(reg::RCTL, 1), (reg::RCTL, 1)]), [(Rule::ReservedBits, "RCTL".into(), 2)]);
        assert_eq!(violations(&[(0x0040, 0)]), [(Rule::NoRegister, "0x00040".into(), 1)]);
        let ring = (reg::TDLEN, 8 * 16);
        assert_eq!(violations(&[ring, (reg::TDT, 8)]), [(Rule::TailBeyondRing, "TDT".into(), 1)]);
        assert_eq!(violations(&[(reg::TCTL, tctl::EN), ring]), [(Rule::RingWhileEnabled, "TDLEN".into(), 1)]);
        let mut rules = Rules::default();
        rules.access(reg::ICR, 1);
        rules.access(reg::ICR + 1, 4);
        rules.access(reg::ICR, 4);
        (0..3).for_each(|_| rules.stored(0, &[0], Some(Abort::NoMemory)));
        let broken = rules.broken();
        assert_eq!((broken[0].rule, broken[0].count, &*broken[0].register), (Rule::Width, 2, "ICR"));
        assert_eq!((broken[1].rule, broken[1].count), (Rule::NoMemory, 3));
    }
}
