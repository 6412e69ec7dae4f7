//! The findings, each with its number and its first occurrence.

use super::rule::{Rule, Side};
use kpps_datasheet::{Chip, reg};
use kpps_documents::guest_audit::Severity;
use std::collections::BTreeMap;

/// The most different findings that are recorded with a description; others are only counted.
const MOST: usize = 512;

/// A rule that was broken at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule.
    pub rule: Rule,
    /// The place: a register's name or offset, or a description such as "receive descriptors".
    pub register: String,
    /// The section of the manual.
    pub section: &'static str,
    /// How often.
    pub count: u64,
    /// The value that was first written, if it was one.
    pub value: Option<u32>,
    /// When it happened first, in ps of the cards' time.
    pub at_ps: u64,
    /// The first access: "RDLEN = 0x00000010", "transmit descriptor 5 = 0x… 0x…".
    pub access: String,
    /// A description of the first occurrence, with values.
    pub sentence: String,
}

impl Breach {
    /// How strongly the manual puts the rule.
    pub const fn severity(&self) -> Severity {
        self.rule.severity()
    }
}

/// A register by its name, or by its offset in hexadecimal.
pub(crate) fn name(offset: u32) -> String {
    reg::name(offset).map_or_else(|| format!("{offset:#07x}"), str::to_owned)
}

/// The same, with the names that public drivers give to the 82574's registers that the 8254x do not have.
pub(crate) fn name_on(chip: Chip, offset: u32) -> String {
    match reg::name(offset).or_else(|| chip.is_pci_express().then(|| reg::express_name(offset)).flatten()) {
        Some(name) => name.to_owned(),
        None => name(offset),
    }
}

/// Where a rule was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Register(u32),
    Descriptors(Side),
    Data(Side),
    /// Frames that arrived, or that were sent.
    Frames(Side),
    Interrupt,
    /// More places than are recorded.
    Elsewhere,
}

impl Place {
    fn side(self) -> Side {
        match self {
            Self::Register(offset) if (reg::TDBAL..reg::RXCSUM).contains(&offset) => Side::Transmit,
            Self::Register(reg::TCTL) => Side::Transmit,
            Self::Descriptors(side) | Self::Data(side) | Self::Frames(side) => side,
            _ => Side::Receive,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Register(offset) => name(offset),
            Self::Descriptors(side) => format!("{} descriptors", side.name()),
            Self::Data(side) => format!("{} data", side.name()),
            Self::Frames(Side::Receive) => "received frames".into(),
            Self::Frames(Side::Transmit) => "sent frames".into(),
            Self::Interrupt => "interrupt".into(),
            Self::Elsewhere => "elsewhere".into(),
        }
    }
}

/// The first occurrence at a place.
#[derive(Clone, Debug, Default)]
struct First {
    count: u64,
    value: Option<u32>,
    at_ps: u64,
    access: String,
    sentence: String,
}

/// A value that was written, as an access.
pub(super) fn written(offset: u32, value: u32) -> String {
    format!("{} = {value:#010x}", name(offset))
}

/// A descriptor, as an access.
pub(super) fn descriptor(side: Side, index: u32, words: [u64; 2]) -> String {
    format!("{} descriptor {index} = {:#018x} {:#018x}", side.name(), words[0], words[1])
}

/// All findings. Counts only grow.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    all: BTreeMap<(Rule, Place), First>,
}

impl Findings {
    /// Counts a breach. `describe` gives value, access and sentence of the first one.
    pub(super) fn note(
        &mut self,
        at_ps: u64,
        rule: Rule,
        place: Place,
        describe: impl FnOnce() -> (Option<u32>, String, String),
    ) {
        let is_known = self.all.contains_key(&(rule, place));
        let place = if is_known || self.all.len() < MOST { place } else { Place::Elsewhere };
        let first = self.all.entry((rule, place)).or_insert_with(|| {
            let (value, access, sentence) = describe();
            First { count: 0, value, at_ps, access, sentence }
        });
        first.count = first.count.saturating_add(1);
    }

    /// Whether `rule` was broken anywhere.
    pub(super) fn has(&self, rule: Rule) -> bool {
        self.all.keys().any(|(it, _)| *it == rule)
    }

    /// All of them.
    pub(super) fn broken(&self) -> Vec<Breach> {
        let breach = |(&(rule, place), first): (&(Rule, Place), &First)| Breach {
            rule,
            register: place.name(),
            section: match (rule, place) {
                (Rule::ReservedBits, Place::Register(offset)) => reg::reserved(offset).1,
                _ => rule.section(place.side()),
            },
            count: first.count,
            value: first.value,
            at_ps: first.at_ps,
            access: first.access.clone(),
            sentence: first.sentence.clone(),
        };
        self.all.iter().map(breach).collect()
    }
}
