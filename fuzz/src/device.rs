//! The modelled card against an arbitrary driver and arbitrary frames: no panic, bounded work, and the tally
//! closes after every step.

use arbitrary::Arbitrary;
use kpps_card::{BurstKind, Host, Nic, Params, Purpose};
use kpps_datasheet::bit::{ctrl, rctl, tctl, txcw};
use kpps_datasheet::{Chip, Media, reg};

const MEMORY: usize = 1 << 18;
const RX_RING: u32 = 0x1000;
const TX_RING: u32 = 0x2000;
const RING: u32 = 64;
/// The most bursts of one step: far more than a ring causes.
const BOUND: u64 = 300_000;
/// The longest time of one step, in ps: a millisecond.
const LONGEST_PS: u32 = 1_000_000_000;

#[derive(Arbitrary, Debug)]
enum Step {
    /// A write of a relevant register, or of any.
    Write {
        which: u8,
        value: u32,
    },
    WriteAny {
        offset: u32,
        value: u32,
    },
    Read {
        offset: u32,
    },
    /// A descriptor in one of the two rings, or anywhere in memory.
    Descriptor {
        transmit: bool,
        index: u8,
        addr: u64,
        word: u64,
    },
    /// A transmit descriptor with plausible fields.
    Transmit {
        index: u8,
        addr: u16,
        length: u16,
        command: u8,
        kind: u8,
        options: u16,
    },
    /// A context descriptor with plausible fields.
    Context {
        index: u8,
        low: u64,
        payload: u16,
        command: u8,
        header: u8,
        segment: u16,
    },
    Poke {
        at: u16,
        bytes: Vec<u8>,
    },
    Frame {
        good: bool,
        head: [u8; 48],
        len: u16,
    },
    Pass {
        ps: u32,
    },
    Link {
        up: bool,
    },
    Doorbells {
        receive: u8,
        transmit: u8,
    },
}

/// The input that is drawn from the bytes.
#[derive(Arbitrary, Debug)]
pub struct Input {
    chip: u8,
    /// Bus time of a burst and of a byte, in ns; 0 is allowed.
    burst_ns: u8,
    byte_ns: u8,
    steps: Vec<Step>,
}

const REGISTERS: [u32; 40] = [
    reg::CTRL,
    reg::RCTL,
    reg::TCTL,
    reg::RDBAL,
    reg::RDBAH,
    reg::RDLEN,
    reg::RDH,
    reg::RDT,
    reg::RDTR,
    reg::RADV,
    reg::RXDCTL,
    reg::RSRPD,
    reg::RXCSUM,
    reg::TDBAL,
    reg::TDBAH,
    reg::TDLEN,
    reg::TDH,
    reg::TDT,
    reg::TIDV,
    reg::TADV,
    reg::TXDCTL,
    reg::TIPG,
    reg::PBA,
    reg::ITR,
    reg::ICS,
    reg::IMS,
    reg::IMC,
    reg::ICR,
    reg::VET,
    reg::FCRTH,
    reg::FCRTL,
    reg::FCT,
    reg::FCTTV,
    reg::FCAL,
    reg::FCAH,
    reg::TXCW,
    reg::MDIC,
    reg::EECD,
    reg::EERD,
    reg::MTA,
];

struct Machine {
    memory: Vec<u8>,
    burst_ps: u64,
    byte_ps: u64,
    free: u64,
    now: u64,
    bursts: u64,
}

impl Machine {
    fn part(&mut self, addr: u64, len: usize) -> Option<&mut [u8]> {
        let at = usize::try_from(addr).ok()?;
        self.memory.get_mut(at..at.checked_add(len)?)
    }
    fn descriptor(&mut self, ring: u32, index: u8, words: [u64; 2]) {
        let at = u64::from(ring + 16 * (u32::from(index) % RING));
        if let Some(to) = self.part(at, 16) {
            to[..8].copy_from_slice(&words[0].to_le_bytes());
            to[8..].copy_from_slice(&words[1].to_le_bytes());
        }
    }
}

impl Host for Machine {
    fn burst(&mut self, now: u64, _: BurstKind, _: Purpose, _: u64, bytes: u32) -> u64 {
        assert!(now >= self.now, "time goes forward");
        self.now = now;
        self.bursts += 1;
        assert!(bytes <= 16 * 1024 + 16, "a burst is no longer than a frame");
        self.free = self.free.max(now) + self.burst_ps + self.byte_ps * u64::from(bytes);
        self.free
    }
    fn load(&mut self, addr: u64, into: &mut [u8]) -> bool {
        self.part(addr, into.len()).map(|from| into.copy_from_slice(from)).is_some()
    }
    fn store(&mut self, addr: u64, from: &[u8]) -> bool {
        self.part(addr, from.len()).map(|to| to.copy_from_slice(from)).is_some()
    }
    fn transmitted(&mut self, _: u64, frame: &[u8]) {
        assert!(frame.len() <= 16 * 1024);
    }
}

fn start(chip: Chip, nic: &mut Nic, m: &mut Machine) {
    for i in 0..RING {
        m.descriptor(RX_RING, i as u8, [0x1_0000 + 2048 * u64::from(i), 0]);
    }
    if nic.params().media == Media::Fibre {
        nic.write(0, reg::TXCW, txcw::ANE, m);
    }
    for (offset, value) in [
        (reg::CTRL, ctrl::SLU | ctrl::VME),
        (reg::VET, 0x8100),
        (reg::RDBAL, RX_RING),
        (reg::RDLEN, 16 * RING),
        (reg::RDT, RING - 1),
        (reg::TDBAL, TX_RING),
        (reg::TDLEN, 16 * RING),
        (reg::RCTL, rctl::EN | rctl::UPE | rctl::MPE | rctl::BAM | rctl::SBP | rctl::LPE),
        (reg::TCTL, tctl::EN),
    ] {
        nic.write(0, chip.offset(offset), value, m);
    }
}

/// Lives through the steps of an input.
pub fn run(input: Input) {
    let chip = Chip::E1000[usize::from(input.chip) % Chip::E1000.len()];
    let mut nic = Nic::new(Params { link_ps: 0, ..Params::of(chip) }, [2, 0, 0, 0, 0, 1]);
    let mut m = Machine {
        memory: vec![0; MEMORY],
        burst_ps: u64::from(input.burst_ns) * 1_000,
        byte_ps: u64::from(input.byte_ns % 16) * 1_000,
        free: 0,
        now: 0,
        bursts: 0,
    };
    start(chip, &mut nic, &mut m);
    let mut now = 0;
    let mut body = [0u8; 17_000];
    for step in input.steps {
        m.bursts = 0;
        match step {
            Step::Write { which, value } => {
                let offset = chip.offset(REGISTERS[usize::from(which) % REGISTERS.len()]);
                nic.write(now, offset, value, &mut m);
            }
            Step::WriteAny { offset, value } => nic.write(now, offset, value, &mut m),
            Step::Read { offset } => {
                nic.read(now, offset, &mut m);
            }
            Step::Descriptor { transmit, index, addr, word } => {
                m.descriptor(if transmit { TX_RING } else { RX_RING }, index, [addr, word]);
            }
            Step::Transmit { index, addr, length, command, kind, options } => {
                let word = u64::from(length)
                    | u64::from(kind & 1) << 20
                    | u64::from(command) << 24
                    | u64::from(options) << 40;
                m.descriptor(TX_RING, index, [u64::from(addr), word]);
            }
            Step::Context { index, low, payload, command, header, segment } => {
                let word = u64::from(payload)
                    | u64::from(command | 0x20) << 24
                    | u64::from(header) << 40
                    | u64::from(segment) << 48;
                m.descriptor(TX_RING, index, [low, word]);
            }
            Step::Poke { at, bytes } => {
                if let Some(to) = m.part(u64::from(at), bytes.len()) {
                    to.copy_from_slice(&bytes);
                }
            }
            Step::Frame { good, head, len } => {
                body[..head.len()].copy_from_slice(&head);
                let frame = &body[..usize::from(len) % body.len()];
                if good {
                    nic.frame_arrives(now, frame, &mut m);
                } else {
                    nic.bad_frame_arrives(now, frame, &mut m);
                }
            }
            Step::Pass { ps } => {
                now += u64::from(ps % LONGEST_PS);
                nic.run(now, &mut m);
            }
            Step::Link { up } => nic.set_link(now, up),
            Step::Doorbells { receive, transmit } => {
                nic.write(now, chip.offset(reg::RDT), u32::from(receive) % RING, &mut m);
                nic.write(now, chip.offset(reg::TDT), u32::from(transmit) % RING, &mut m);
            }
        }
        assert!(nic.tally().closes(), "{:?}", nic.tally());
        assert!(m.bursts < BOUND);
    }
    // No event may repeat for ever.
    m.bursts = 0;
    nic.run(u64::MAX, &mut m);
    assert!(nic.tally().closes());
    assert!(m.bursts < BOUND);
}
