//! A hostile guest of the audit: accesses to its card, frames, and output on its console.

use arbitrary::Arbitrary;
use kpps_audit::responder::{EchoPlan, Handle, MOST_QUEUED, Options, ProbeBy, Responder};
use kpps_audit::{Access, Cable, Cards, Partner, Script, Typed};
use kpps_datasheet::{Chip, reg};
use kpps_profiles::{Kind, Profile};

const BYTES: u64 = 1 << 16;
/// The most actions of an input.
const MOST: usize = 200;
/// Findings that are recorded at most, with one for each rule beyond.
const MOST_FINDINGS: usize = 600;

/// Something that a guest does.
#[derive(Arbitrary, Debug)]
pub enum Action {
    Read {
        space: u8,
        offset: u32,
        bytes: u8,
    },
    Write {
        space: u8,
        offset: u32,
        value: u32,
    },
    /// A register by its number among the first 64 KiB.
    Register {
        word: u16,
        value: u32,
    },
    /// Memory, as descriptors and frames are.
    Memory {
        at: u16,
        words: [u64; 4],
    },
    Frame {
        bytes: Vec<u8>,
        good_fcs: bool,
    },
    Stimulus {
        which: u8,
        count: u8,
    },
    Output(Vec<u8>),
    Wait {
        us: u16,
    },
    Link(bool),
    /// As QEMU connects the files of vectors.
    Vector {
        number: u32,
        connected: bool,
    },
    /// As the first action: the card is an 82574L, which has MSI-X.
    Express,
}

/// The card, the responder and the console take everything in bounded memory.
pub fn run(actions: Vec<Action>) {
    let bus = Profile::named(Kind::Bus, "pci-32-33").and_then(|it| it.get()).expect("a bus");
    let mut responder = Handle::new(Responder::new(Options::default()).expect("addresses"));
    let chip = if matches!(actions.first(), Some(Action::Express)) { Chip::I82574l } else { Chip::I82540em };
    let mut cards = Cards::new(&kpps_card::Params::of(chip), &bus, &[(Cable::Open, [2; 6])]);
    cards.attach(0, Box::new(responder.clone()));
    let memory = tempfile::tempfile().expect("a file");
    memory.set_len(BYTES).expect("room");
    cards.map(0, 0, BYTES, memory.try_clone().expect("a descriptor"), 0);
    let typed: Vec<Typed> = ["$ =>a", "=>=>b"].iter().filter_map(|text| text.parse().ok()).collect();
    let mut script = Script::new(&typed, Some("end"));
    let mut now_ps = 0u64;
    for action in actions.into_iter().take(MOST) {
        let space = |number: u8| match number {
            255 => Access::Table,
            _ => [Access::Configuration, Access::Registers, Access::Window][usize::from(number % 3)],
        };
        match action {
            Action::Read { space: number, offset, bytes } => {
                cards.read(0, now_ps, space(number), offset.into(), &mut vec![0; usize::from(bytes % 9)]);
            }
            Action::Write { space: number, offset, value } => {
                cards.write(0, now_ps, space(number), offset.into(), &value.to_le_bytes());
            }
            Action::Register { word, value } => {
                let offset = u64::from(word) * 4 % u64::from(reg::WINDOW_BYTES);
                cards.write(0, now_ps, Access::Registers, offset, &value.to_le_bytes());
            }
            Action::Memory { at, words } => {
                use std::os::unix::fs::FileExt;
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let at = u64::from(at).min(BYTES - bytes.len() as u64);
                memory.write_all_at(&bytes, at).expect("memory");
            }
            Action::Frame { bytes, good_fcs } => responder.take(now_ps, &bytes, good_fcs),
            Action::Stimulus { which, count } => responder.with(|it| {
                let count = u32::from(count);
                match which % 6 {
                    0 => it.start_arp(now_ps),
                    1 => it.start_ping(now_ps, EchoPlan::ping(count, &[56])),
                    2 => it.start_flood(now_ps, EchoPlan::flood(count, 8, &[18, 1472])),
                    3 => it.start_udp(now_ps, EchoPlan::ping(count, &[56])),
                    4 => it.start_overrun(now_ps, count),
                    _ => it.start_probe(now_ps, ProbeBy::Echo),
                }
            }),
            Action::Output(bytes) => drop(script.hear(&bytes)),
            Action::Wait { us } => {
                now_ps += u64::from(us) * 1_000_000;
                cards.advance(now_ps);
            }
            Action::Link(up) => cards.set_link(0, now_ps, up),
            Action::Vector { number, connected } => {
                cards.connect_vector(
                    0,
                    now_ps,
                    number,
                    connected.then(|| tempfile::tempfile().expect("a file")),
                );
            }
            Action::Express => {}
        }
    }
    cards.advance(now_ps);
    assert!(cards.breaches().len() < MOST_FINDINGS);
    let mut queued = 0;
    while responder.next(now_ps).is_some() && queued <= 2 * MOST_QUEUED {
        queued += 1;
    }
    assert!(queued <= 2 * MOST_QUEUED, "the queue of frames is bounded");
    assert!(script.last_lines().iter().all(|line| line.chars().count() < 1000));
}
