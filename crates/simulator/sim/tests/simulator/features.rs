//! Features of driver and card. Each is a switch with the intended effect on the counts.

use kpps_frames::{Size, rate};
use kpps_methods::Load;
use kpps_profiles::Change;
use kpps_sim::{By, Features, Pieces, Profiled, Receiving, Setup, Transmit, transmit_with};

fn sent_with(size: u16, features: Features, changes: &[(&str, i64)]) -> Transmit {
    let changes: Vec<_> = changes.iter().map(|&(path, value)| Change::set(path, value).unwrap()).collect();
    let setup = Setup::changed("ols2005", None, "intel-5.7.6", &changes).unwrap();
    transmit_with(&setup, Size::with_fcs(size), &features, (2, 10), &|| true).unwrap()
}

fn sent(size: u16, features: Features) -> Transmit {
    sent_with(size, features, &[])
}

const PLAIN: Features = Features { pieces: Pieces::One, checksum: By::Nobody, vlan: By::Nobody, segments: 1 };

/// CPU time for a frame, in ns, without idle polls.
fn cpu_ns(sent: &Transmit) -> f64 {
    sent.cpu.used() * 1e9 / sent.pps
}

fn assert_near(measured: f64, right: f64, tolerance: f64) {
    assert!((measured / right - 1.0).abs() <= tolerance, "{measured}, not {right}");
}

#[test]
fn a_longer_gap_lowers_line_rate_by_what_it_is_long() {
    for gap in [12, 24, 96, 1000] {
        let sent = sent_with(1518, PLAIN, &[("driver.tx_gap_bytes", gap)]);
        assert_near(sent.pps, 1e9 / 8.0 / (1518.0 + 8.0 + gap as f64), 3e-3);
    }
    for gap in [11, 1001] {
        let change = Change::set("driver.tx_gap_bytes", gap).unwrap();
        let error = Setup::changed("ols2005", None, "intel-5.7.6", &[change]).err().unwrap();
        assert!(error.to_string().contains("12 to 1000"), "{error}");
    }
}

/// The gap is the longer of TIPG's and AIFS, and not their sum.
#[test]
fn adaptive_spacing_lowers_line_rate_by_what_it_is_longer_than_the_gap() {
    for (gap, throttle) in [(12, 12), (12, 13), (12, 80), (96, 80), (12, 1_000)] {
        let changes = [("driver.tx_gap_bytes", gap), ("driver.tx_throttle_bytes", throttle)];
        let sent = sent_with(1518, PLAIN, &changes);
        assert_near(sent.pps, 1e9 / 8.0 / (1518.0 + 8.0 + gap.max(throttle) as f64), 3e-3);
    }
}

#[test]
fn jumbo_frames_cost_less_for_a_byte_and_fill_the_wire() {
    // Of the packet buffer half as much again as is the transmitter's otherwise: it is to hold more than one
    // frame.
    let (full, jumbo) = (sent(1518, PLAIN), sent_with(9018, PLAIN, &[("driver.rx_fifo_kb", 40)]));
    assert_near(jumbo.pps, rate::line_rate_pps(rate::GIGABIT, Size::with_fcs(9018)), 1e-2);
    assert!(cpu_ns(&jumbo) / 9018.0 < 0.3 * cpu_ns(&full) / 1518.0, "{} {}", cpu_ns(&jumbo), cpu_ns(&full));
}

#[test]
fn a_checksum_costs_the_cpu_every_byte_and_the_card_none_of_them() {
    let by = |checksum, size| cpu_ns(&sent(size, Features { checksum, ..PLAIN }));
    for size in [256, 1518] {
        let (none, cpu, card) = (by(By::Nobody, size), by(By::Cpu, size), by(By::Card, size));
        // 0.357 ns a byte, of all that is not the Ethernet header and FCS.
        let summed = f64::from(size - 18) * 0.357;
        assert!((0.9..1.4).contains(&((cpu - none) / summed)), "{size}: {cpu} {none} {summed}");
        assert!(card < none + 0.3 * summed + 30.0, "{size}: {card} {none}");
    }
    assert!(by(By::Cpu, 1518) > by(By::Card, 1518) + 300.0);
}

#[test]
fn a_tag_that_the_card_inserts_does_not_cross_the_bus() {
    // 300 bytes are 38 of the bus's clocks, 296 are 37.
    let by = |vlan| sent(304, Features { vlan, ..PLAIN });
    let (cpu, card) = (by(By::Cpu), by(By::Card));
    assert_near(card.pps, cpu.pps, 1e-3);
    let clocks = (cpu.bus_busy - card.bus_busy) / cpu.pps * 133e6;
    assert_near(clocks, 1.0, 0.05);
    // To the CPU it makes no difference: twelve bytes are moved, or a descriptor is written to twice.
    assert_near(cpu_ns(&card), cpu_ns(&cpu), 0.07);
}

#[test]
fn segments_that_the_card_cuts_up_cost_the_cpu_one_frames_work() {
    let of = |segments| sent(1518, Features { segments, ..PLAIN });
    let (one, four, ten) = (of(1), of(4), of(10));
    for sent in [&four, &ten] {
        assert_near(sent.pps, one.pps, 0.01);
    }
    assert!(
        cpu_ns(&four) < 0.6 * cpu_ns(&one) && cpu_ns(&ten) < 0.4 * cpu_ns(&one),
        "{} {} {}",
        cpu_ns(&one),
        cpu_ns(&four),
        cpu_ns(&ten)
    );
    let registers = |sent: &Transmit| sent.registers_per_frame.unwrap().1;
    assert!(registers(&ten) < 0.3 * registers(&one), "{} {}", registers(&ten), registers(&one));
}

#[test]
fn fragments_cost_bursts_and_coalescing_them_cpu_time() {
    let of = |pieces| sent(256, Features { pieces, ..PLAIN });
    let (one, many, copied) = (of(Pieces::One), of(Pieces::Many(4)), of(Pieces::Coalesced));
    let bursts = [&one, &many, &copied].map(|sent| sent.data_bursts_per_frame.unwrap());
    assert_near(bursts[0], 1.0, 0.01);
    assert_near(bursts[1], 4.0, 0.01);
    assert_near(bursts[2], 1.0, 0.01);
    assert!(cpu_ns(&copied) > cpu_ns(&one) + 300.0, "{} {}", cpu_ns(&copied), cpu_ns(&one));
}

/// A ring of 80 descriptors fills 20 lines, or parts of 21: each time round one more is fetched.
#[test]
fn a_ring_that_begins_within_a_line_costs_misses() {
    let misses = |offset: i64| {
        let change = Change::set("host.ring_offset_bytes", offset).unwrap();
        let setup = Setup::changed("rdr2007", None, "click-polling", &[change]).unwrap();
        let load = Load::of(7e5, Size::MIN).lasting_ms(2, 10);
        Receiving::new(setup).profiled(&load, &|| true).unwrap().per_frame.unwrap().cache_misses
    };
    let aligned = misses(0);
    for offset in [16, 32, 48] {
        assert_near((misses(offset) - aligned) * 80.0, 1.0, 0.05);
    }
    for offset in [8, 64] {
        let change = Change::set("host.ring_offset_bytes", offset).unwrap();
        let error = Setup::changed("rdr2007", None, "intel-5.7.6", &[change]).err().unwrap().to_string();
        assert!(error.contains("multiple of 16 up to 48"), "{error}");
    }
}

#[test]
fn features_go_together() {
    for pieces in [Pieces::One, Pieces::Many(3), Pieces::Coalesced] {
        for (vlan, checksum) in
            [(By::Card, By::Card), (By::Cpu, By::Card), (By::Card, By::Cpu), (By::Cpu, By::Cpu)]
        {
            // Frames that left the card were compared, or this is an error.
            assert!(sent(300, Features { pieces, vlan, checksum, segments: 1 }).pps > 1e5);
            assert!(sent(1000, Features { pieces, vlan, checksum: By::Nobody, segments: 7 }).pps > 5e4);
        }
    }
}

fn received(size: u16, offered_pps: f64, changes: &[(&str, i64)]) -> Profiled {
    let changes: Vec<_> = changes.iter().map(|&(path, value)| Change::set(path, value).unwrap()).collect();
    let setup = Setup::changed("ols2005", None, "intel-5.7.6", &changes).unwrap();
    let load = Load::of(offered_pps, Size::with_fcs(size)).lasting_ms(2, 20);
    Receiving::new(setup).profiled(&load, &|| true).unwrap()
}

fn busy_ns(received: &Profiled) -> f64 {
    received.profile.total_ps() as f64 / 1e3 / received.trial.taken.unwrap() as f64
}

#[test]
fn copies_of_small_frames_take_a_small_buffer_and_the_cpus_time() {
    let of = |size, most| received(size, 5e4, &[("driver.rx_copybreak_bytes", most)]);
    let (plain, copied) = (of(128, 0), of(128, 256));
    // A batch of frames more or less is in flight at the ends.
    assert_near(plain.per_frame.unwrap().allocated_bytes, 2048.0, 5e-3);
    assert_near(copied.per_frame.unwrap().allocated_bytes, 256.0, 5e-3);
    assert_near(copied.per_frame.unwrap().allocations, plain.per_frame.unwrap().allocations, 5e-3);
    // 124 bytes at 1.5 ns.
    assert_near(busy_ns(&copied) - busy_ns(&plain), 124.0 * 1.5, 0.05);
    assert_eq!((copied.trial.delivered, plain.trial.delivered), (1000, 1000));
    // Longer frames stay where they are.
    let (plain, longer) = (of(512, 0), of(512, 256));
    assert_eq!((plain.per_frame, busy_ns(&plain)), (longer.per_frame, busy_ns(&longer)));
}

#[test]
fn what_a_chip_or_host_cannot_is_said() {
    let error = |machine: &str, chip, features| {
        let setup = Setup::named(machine, chip, "intel-5.7.6").unwrap();
        transmit_with(&setup, Size::with_fcs(256), &features, (1, 1), &|| true).err().unwrap().to_string()
    };
    let card = Features { checksum: By::Card, ..PLAIN };
    assert!(error("morris2000", Some("82542"), card).contains("82542 cannot compute checksums"));
    let tag = Features { vlan: By::Card, ..PLAIN };
    assert!(error("morris2000", Some("82542"), tag).contains("VLAN"));
    let many = Features { segments: 4, ..PLAIN };
    assert!(error("morris2000", Some("82543gc"), many).contains("cannot cut superpackets"));
    assert!(
        error("morris2000", None, Features { checksum: By::Cpu, ..PLAIN }).contains("copy_cached_byte_ps")
    );
    let copies = Change::set("driver.rx_copybreak_bytes", 256).unwrap();
    let error = Setup::changed("morris2000", None, "intel-5.7.6", &[copies]).err().unwrap().to_string();
    assert!(error.contains("has no cost of copying a byte"), "{error}");
    let large = Features { segments: 12, ..PLAIN };
    let setup = Setup::named("ols2005", None, "intel-5.7.6").unwrap();
    let refused =
        transmit_with(&setup, Size::with_fcs(1518), &large, (1, 1), &|| true).err().unwrap().to_string();
    assert!(refused.contains("16384"), "{refused}");
}
