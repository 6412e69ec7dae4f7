use super::*;
use proptest::prelude::*;

const CLOCK: u64 = 15_000;

fn params() -> Params {
    Params {
        clock_ps: CLOCK,
        read_latency_ps: 100_000,
        register_read_ps: 400_000,
        register_write_ps: 100_000,
        ..Params::plain()
    }
}

fn by(slot: u8, what: What, bytes: u32) -> Request {
    Request { master: Master::Card(slot), what, address: 0x10_0000, bytes }
}

fn write(bytes: u32) -> Request {
    by(0, What::RxData, bytes)
}

#[test]
fn bursts_queue_in_order() {
    let mut bus = Bus::new(params());
    assert_eq!(bus.transfer(0, write(64)), 12 * CLOCK);
    // Asked for while the first is under way: starts behind it.
    assert_eq!(bus.transfer(CLOCK, write(1)), (12 + 5) * CLOCK);
    // Asked for later: starts at once.
    let fetch = by(0, What::RxDescriptorFetch, 16);
    assert_eq!(bus.transfer(1_000_000, fetch), 1_000_000 + 6 * CLOCK + 100_000);
    assert_eq!(bus.busy_ps(), (12 + 5 + 6) * CLOCK + 100_000);
    assert_eq!(bus.transactions(), 3);
}

#[test]
fn a_split_read_leaves_the_bus_to_others_and_is_two_bursts() {
    let mut bus = Bus::new(Params { split_reads: true, ..params() });
    let answer = bus.transfer(0, by(0, What::TxData, 64));
    assert_eq!(answer, (4 + 12) * CLOCK + 100_000);
    assert_eq!(bus.transfer(0, write(8)), (4 + 12 + 5) * CLOCK);
}

#[test]
fn where_the_ways_are_apart_writes_to_memory_do_not_hold_up_what_comes_from_there() {
    let mut bus = Bus::new(Params { split_reads: true, duplex: true, ..params() });
    assert_eq!(bus.transfer(0, write(1024)), (4 + 128) * CLOCK);
    // A read asks behind the write, and its answer has the other way for itself.
    assert_eq!(bus.transfer(0, by(1, What::TxData, 64)), (4 + 128 + 4 + 12) * CLOCK + 100_000);
    // A write behind both waits for the request only.
    assert_eq!(bus.transfer(0, write(8)), (4 + 128 + 4 + 5) * CLOCK);
    assert_eq!(bus.busy_ps(), (4 + 128 + 4 + 5) * CLOCK);
}

#[test]
fn a_posted_write_does_not_wait_but_a_read_does() {
    let mut bus = Bus::new(params());
    let busy_until = bus.transfer(0, write(1024));
    assert_eq!(bus.register_write(0, 0x2818, true), 100_000);
    assert!(bus.register_read(0, 0xC0) > busy_until + 400_000);
}

#[test]
fn a_card_needs_its_gap_and_another_uses_it() {
    let mut bus = Bus::new(Params { gap_clocks: 7, ..params() });
    bus.start_log(10);
    for card in [0, 0, 1, 0] {
        bus.transfer(0, by(card, What::RxData, 64));
    }
    let log = bus.take_log().expect("one was started");
    let starts: Vec<u64> = log.transactions().map(|t| t.start_ps / CLOCK).collect();
    // The second of card 0 waits for its gap; card 1 comes at once; card 0 has had its gap by then.
    assert_eq!(starts, [0, 19, 31, 43]);
    // Later than the gap nothing waits.
    assert_eq!(bus.transfer(100 * CLOCK, write(64)), 112 * CLOCK);
}

#[test]
fn a_target_disconnects_where_it_says() {
    let mut bus = Bus::new(Params { read_disconnect_bytes: 64, gap_clocks: 7, ..params() });
    bus.start_log(10);
    let request = Request { address: 0x1020, ..by(0, What::RxDescriptorFetch, 128) };
    let end = bus.transfer(0, request);
    let log = bus.take_log().expect("one was started");
    let pieces: Vec<_> = log.transactions().map(|t| (t.address, t.bytes, t.cut)).collect();
    assert_eq!(pieces, [(0x1020, 32, true), (0x1040, 64, true), (0x1080, 32, false)]);
    assert_eq!(end, (3 * 4 + 2 * 7 + 16) * CLOCK + 3 * 100_000);
    // Writes go on.
    let start = end + 7 * CLOCK;
    assert_eq!(bus.transfer(end, Request { what: What::RxData, ..request }), start + 20 * CLOCK);
}

#[test]
fn a_background_device_gets_its_turn_and_its_waits_are_counted() {
    let mut bus = Bus::new(params());
    bus.set_background(0, Background { period_ps: 100 * CLOCK, bytes: 64 });
    // Alone it never waits.
    let alone = bus.background_tally(999 * CLOCK);
    assert_eq!((alone.bursts, alone.latency_max_ps), (10, 12 * CLOCK));
    // Behind a long burst it does; it asked before the card's second burst and goes first.
    bus.transfer(999 * CLOCK, write(1600));
    assert_eq!(bus.transfer(1050 * CLOCK, write(64)), (999 + 204 + 12 + 12) * CLOCK);
    let loaded = bus.background_tally(1050 * CLOCK);
    assert_eq!(loaded.latency_max_ps, (999 + 204 + 12 - 1000) * CLOCK);
}

#[test]
fn the_log_keeps_the_latest() {
    let mut bus = Bus::new(params());
    bus.transfer(0, write(64));
    bus.start_log(2);
    for bytes in [8, 16, 24] {
        bus.transfer(0, write(bytes));
    }
    bus.note(7, 3, EventKind::Interrupt);
    let log = bus.take_log().expect("one was started");
    assert_eq!(log.transactions().map(|t| t.bytes).collect::<Vec<_>>(), [16, 24]);
    assert_eq!((log.lost(), log.events().count()), (1, 1));
    assert!(bus.take_log().is_none());
}

proptest! {
    /// The closed form: a card alone that always has another burst moves one in overhead + data + gap clocks,
    /// and no bus ever carries two bursts at once.
    #[test]
    fn saturated_bus_time_is_the_sum(
        bursts in prop::collection::vec((0u8..4, 0u32..2000, any::<bool>()), 1..200),
        gap in 0u32..10, overhead in 0u32..12,
    ) {
        let params = Params { gap_clocks: gap, overhead_clocks: overhead, ..params() };
        let mut bus = Bus::new(params);
        bus.start_log(bursts.len());
        let mut clocks = 0;
        for &(card, bytes, read) in &bursts {
            let what = if read { What::TxData } else { What::RxData };
            bus.transfer(0, by(card, what, bytes));
            clocks += u64::from(overhead) + u64::from(bytes.div_ceil(8));
        }
        let reads = bursts.iter().filter(|b| b.2).count() as u64;
        prop_assert_eq!(bus.busy_ps(), clocks * CLOCK + reads * 100_000);
        let log = bus.take_log().expect("one was started");
        let mut free = 0;
        let mut last = [None; 4];
        for t in log.transactions() {
            prop_assert!(t.start_ps >= free);
            free = t.end_ps;
            let Master::Card(card) = t.master else { unreachable!() };
            if let Some(end) = last[usize::from(card)].replace(t.end_ps) {
                prop_assert!(t.start_ps >= end + u64::from(gap) * CLOCK);
            }
        }
    }
}

#[test]
fn a_full_buffer_of_posted_writes_makes_the_cpu_wait_for_the_oldest() {
    let params = Params { register_write_ps: 100, posted_writes: 2, ..params() };
    let mut bus = Bus::new(params.clone());
    let burst = bus.burst_ps(4);
    assert!(burst > 300, "a write takes longer to cross than to post");
    // Two go into the buffer, the third waits until the first has crossed.
    assert_eq!(bus.register_write(0, 0x18, false), 100);
    assert_eq!(bus.register_write(100, 0x18, false), 200);
    assert_eq!(bus.register_write(200, 0x18, false), burst + 100);
    assert_eq!(bus.register_write(burst + 100, 0x18, false), 2 * burst + 100);
    let mut endless = Bus::new(Params { posted_writes: 0, ..params });
    assert_eq!((0..9).map(|k| endless.register_write(k * 100, 0x18, false)).last(), Some(900));
}
