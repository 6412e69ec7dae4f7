//! For any driver and any frames: no panic, bounded work, and the tally closes.

use crate::bench::*;
use kpps_datasheet::bit::{ctrl, rctl, tctl};
use kpps_datasheet::{Chip, reg, stat};
use proptest::prelude::*;

/// Bursts that one step may cause: far more than any ring, far less than forever.
const BOUND: usize = 300_000;

#[derive(Clone, Debug)]
enum Step {
    Write(u32, u32),
    Read(u32),
    Frame(usize, bool),
    Descriptor(u64, u64, u64),
    Pass(u64),
    Link(bool),
    Doorbells(u32),
}

/// Registers worth writing, those of a running card oftener.
fn offset() -> impl Strategy<Value = u32> {
    let interesting: Vec<u32> = vec![
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
        reg::AIFS,
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
        reg::TXCW,
        reg::MDIC,
        reg::EECD,
        reg::EERD,
    ];
    prop_oneof![
        8 => prop::sample::select(interesting),
        1 => 0..reg::WINDOW_BYTES,
        1 => any::<u32>(),
    ]
}

/// Small numbers, single bits, and anything.
fn value() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..256, (0u32..32).prop_map(|b| 1 << b), any::<u32>()]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (offset(), value()).prop_map(|(o, v)| Step::Write(o, v)),
        2 => offset().prop_map(Step::Read),
        8 => (prop_oneof![Just(60usize), 0..70usize, 60..2000usize, 2000..17_000usize], any::<bool>())
            .prop_map(|(l, g)| Step::Frame(l, g)),
        6 => (0u64..64, prop_oneof![Just(0u64), 0..0x80_0000u64, any::<u64>()], any::<u64>())
            .prop_map(|(i, a, w)| Step::Descriptor(i, a, w)),
        6 => (0u64..200 * US).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Link),
        4 => (0u32..64).prop_map(Step::Doorbells),
    ]
}

/// Transmit descriptors of all kinds, with plausible lengths now and then.
fn sensible(word: u64) -> u64 {
    match word % 3 {
        0 => word,
        1 => word & !0x000F_F000,
        _ => word & !0x2000_0000 & !0xF000,
    }
}

fn play(chip: Chip, zero_time: bool, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut b = Bench::ready(Bench::params(chip), 64);
    if zero_time {
        (b.m.burst_ps, b.m.byte_ps) = (0, 0);
    }
    b.set(reg::RCTL, rctl::EN | rctl::UPE | rctl::MPE | rctl::BAM | rctl::LPE | rctl::SBP);
    for step in steps {
        let before = b.m.log.len();
        match step {
            // Frequent resets would leave nothing to test.
            Step::Write(o, v) if o == reg::CTRL => b.set(o, v & !ctrl::RST | ctrl::SLU),
            Step::Write(o, v) if o == reg::TCTL => b.set(o, v | tctl::EN),
            Step::Write(o, v) => b.nic.write(b.now, o, v, &mut b.m),
            Step::Read(o) => {
                b.nic.read(b.now, o, &mut b.m);
            }
            Step::Frame(len, true) => b.arrive(&frame(len as u8, len)),
            Step::Frame(len, false) => b.nic.bad_frame_arrives(b.now, &frame(len as u8, len), &mut b.m),
            Step::Descriptor(i, addr, word) => {
                b.m.set_words(TX_RING + 16 * i, [addr, sensible(word)]);
                if word % 7 == 0 {
                    b.m.set_words(RX_RING + 16 * i, [addr, word]);
                }
            }
            Step::Pass(ps) => b.pass(ps),
            Step::Link(up) => b.nic.set_link(b.now, up),
            Step::Doorbells(tail) => {
                b.set(reg::TDT, tail);
                b.set(reg::RDT, tail);
            }
        }
        let t = b.nic.tally();
        prop_assert!(t.closes(), "{t:?}");
        prop_assert!(b.m.log.len() - before < BOUND);
        b.m.sent.clear();
        b.m.stores.clear();
        b.m.log.clear();
    }
    // No event may repeat for ever.
    let before = b.m.log.len();
    b.nic.run(u64::MAX, &mut b.m);
    prop_assert!(b.nic.tally().closes());
    prop_assert!(b.m.log.len() - before < BOUND);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_random_driver_does_no_harm(
        chip in prop::sample::select(Chip::E1000.to_vec()),
        zero_time in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        play(chip, zero_time, steps)?;
    }

    /// A correct driver under any load: every frame is in one place, and the registers agree.
    #[test]
    fn registers_equal_the_tally(
        chip in prop::sample::select(Chip::E1000.to_vec()),
        gaps in prop::collection::vec((0u64..4_000, prop_oneof![Just(60usize), 60..1514usize]), 1..400),
    ) {
        let mut b = Bench::ready(Bench::params(chip), 32);
        let mut bytes = 0;
        let mut tail = 31;
        for (i, (gap, len)) in gaps.iter().enumerate() {
            b.pass(gap * NS);
            b.arrive(&frame(i as u8, *len));
            bytes += *len as u64 + 4;
            if i % 8 == 0 {
                let head = b.get(reg::RDH);
                tail = (head + 31) % 32;
                b.set(reg::RDT, tail);
            }
        }
        b.pass(10_000 * US);
        let t = *b.nic.tally();
        prop_assert!(t.closes());
        let missed = t.dropped.fifo_engine + t.dropped.fifo_no_descriptor;
        prop_assert_eq!(t.arrived, gaps.len() as u64);
        prop_assert_eq!(u64::from(b.get(stat::TPR)), t.arrived);
        prop_assert_eq!(u64::from(b.get(stat::MPC)), missed);
        prop_assert_eq!(u64::from(b.get(stat::GPRC)), t.arrived - missed);
        prop_assert_eq!(u64::from(b.get(stat::TOR)), bytes);
        let classes: u64 = (0..6).map(|i| u64::from(b.get(stat::PRC64 + 4 * i))).sum();
        prop_assert_eq!(classes, t.arrived - missed);
        // Frames that are not in the host wait for a descriptor, and there is none.
        if t.in_fifo > 0 {
            prop_assert_eq!(b.get(reg::RDH), tail);
        }
    }

    /// Frames sent in loopback all come back, in order and unchanged.
    #[test]
    fn loopback_keeps_order_and_bytes(lens in prop::collection::vec(60usize..1500, 1..30)) {
        let mut b = Bench::ready(Bench::params(Chip::I82540em), 64);
        b.set(reg::RCTL, rctl::EN | rctl::SECRC | rctl::LBM_TRANSCEIVER);
        for (i, len) in lens.iter().enumerate() {
            b.put_frame(&frame(i as u8, *len), 0);
        }
        b.ring_doorbell();
        b.pass(1_000 * US);
        prop_assert_eq!(b.visible(), lens.len() as u64);
        for (i, len) in lens.iter().enumerate() {
            let d = b.rx(i as u64);
            prop_assert_eq!(usize::from(d.length), *len);
            prop_assert_eq!(b.rx_bytes(i as u64, *len), &frame(i as u8, *len)[..]);
        }
    }
}
