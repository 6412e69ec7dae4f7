//! The statistics (SDM 13.7).

use crate::common::*;
use kpps_datasheet::{Chip, reg, stat};
use kpps_platform::wrap::Counts;

/// Each register is counted, cleared at the start, and read once for each update. The 82542 lacks some.
#[test]
fn each_register_is_counted() {
    for chip in Chip::ALL {
        let (nic, counts, pool) = (Nic::new(chip), Counts::new(), Pool::new(40, 2048));
        let fill = |unit: u64| {
            for (value, it) in (1..).zip(stat::ALL) {
                nic.set(it.offset, (unit * value) as u32);
                if it.is_64_bit {
                    nic.set(it.offset + 4, (unit * value) as u32);
                }
            }
        };
        // Counts from before the start of the driver are ignored.
        fill(1_000);
        let mut dev = start(&nic, &counts, small(), &pool);
        assert!(dev.control.update_stats().unwrap().iter().all(|(_, counted)| counted == 0), "{chip}");
        for updates in 1..4_u64 {
            fill(1);
            let stats = dev.control.update_stats().unwrap().clone();
            assert_eq!(dev.control.stats(), &stats);
            for ((value, it), (name, counted)) in (1..).zip(stat::ALL).zip(stats.iter()) {
                let there = !(it.since_82543 && chip == Chip::I82542);
                let once = if it.is_64_bit { value << 32 | value } else { value };
                let expected = if there { once * updates } else { 0 };
                assert_eq!((name, counted), (it.name, expected), "{chip}");
                assert_eq!(stats.get(it.offset), expected);
            }
            let named = [stat::GPRC, stat::GPTC, stat::MPC, stat::RNBC].map(|offset| stats.get(offset));
            assert_eq!([stats.received(), stats.sent(), stats.missed(), stats.no_descriptor()], named);
        }
    }
}

/// A full counter of 32 bits sticks at its maximum, and that is counted. A pair of 64 bits cannot be full.
#[test]
fn counters_that_are_full() {
    const ONES: u32 = u32::MAX;
    let (nic, counts, pool) = (Nic::new(Chip::I82540em), Counts::new(), Pool::new(40, 2048));
    for (register, low, high, counted) in [
        (stat::MPC, ONES, None, u64::from(ONES)),
        (stat::MPC, ONES - 1, None, u64::from(ONES - 1)),
        (stat::GORC, ONES, Some(7), 7 << 32 | u64::from(ONES)),
        (stat::GORC, 7, Some(ONES), u64::from(ONES) << 32 | 7),
        (stat::GORC, ONES, Some(ONES), 0),
    ] {
        let mut dev = start(&nic, &counts, small(), &pool);
        nic.set(register, low);
        if let Some(high) = high {
            nic.set(register + 4, high);
        }
        let stats = dev.control.update_stats().unwrap();
        assert_eq!(stats.get(register), counted, "{low:#x}, {high:?}");
        assert_ne!(nic.get(reg::STATUS), ONES);
    }
}
