//! TcpBulk TCP into the blade of ols2005.

use kpps_frames::Size;
use kpps_profiles::Change;
use kpps_sim::Setup;
use kpps_sim::workload::tcp_bulk::{Checksums, TcpBulk, Transferred, tcp_bulk};

fn transferred(size: u16, connections: u16, duration_ms: u32, changes: &[(&str, i64)]) -> Transferred {
    copied(size, connections, duration_ms, changes, false)
}

fn copied(
    size: u16,
    connections: u16,
    duration_ms: u32,
    changes: &[(&str, i64)],
    dma_copy: bool,
) -> Transferred {
    let changes: Vec<_> = changes.iter().map(|&(path, value)| Change::set(path, value).unwrap()).collect();
    let setup = Setup::changed("ols2005", None, "intel-5.7.6", &changes).unwrap();
    let what = TcpBulk {
        size: Size::with_fcs(size),
        connections,
        host_segment_ns: 5_000,
        host_delay_ns: 60_000,
        checksums: Checksums { ip: true, tcp: true },
        dma_copy,
        warmup_ms: 50,
        duration_ms,
    };
    tcp_bulk(&setup, &what, &|| true).unwrap()
}

#[test]
fn full_frames_fill_the_wire() {
    let t = transferred(1518, 4, 100, &[]);
    let payload_share = 1460.0 / 1538.0;
    let share = t.read_bytes as f64 * 8e-9 / t.seconds;
    assert!((share / payload_share - 1.0).abs() < 0.005, "{share} of a gigabit: {t:?}");
    assert_eq!((t.dropped, t.sent_again, t.dropped_socket), (0, 0, 0));
    // Every second segment at least is acknowledged.
    assert!(t.acks * 21 / 10 >= t.sent, "{} of {}", t.acks, t.sent);
}

#[test]
fn what_is_dropped_is_sent_again_and_everything_arrives_once() {
    // A small ring and a FIFO that holds little: after the first losses all wait for their timers, a second
    // at first.
    let t = transferred(256, 32, 2000, &[("driver.rx_ring", 80), ("driver.rx_fifo_kb", 8)]);
    assert!(t.dropped > 100, "{t:?}");
    assert!(t.sent_again >= t.dropped / 2, "{t:?}");
    // What processes read is what the senders sent, but for what was lost or sent twice and what is on its
    // way.
    let (read, sent) = (t.read_bytes / 198, t.sent - t.sent_again);
    assert!(read.abs_diff(sent) < 32 * 64 + t.dropped, "{read} of {sent}");
}

#[test]
fn an_engine_that_copies_leaves_the_cpu_to_others_with_large_frames() {
    let cpu = |size, dma_copy| {
        let t = copied(size, 4, 50, &[], dma_copy);
        t.cpu_last.busy() * t.seconds * 1e9 / t.read_bytes as f64
    };
    // 1.5 ns a byte that it does not copy, less what starting the engine costs, and more calls as each waits
    // for it.
    let saved = |size| cpu(size, false) - cpu(size, true);
    assert!(saved(1518) > 0.5, "{}", saved(1518));
    // A piece of 198 bytes takes the CPU nearly as long to have copied as to copy.
    assert!(saved(256) < 0.5 * saved(1518), "{} {}", saved(256), saved(1518));
}

#[test]
fn a_small_weight_gives_buffers_back_sooner() {
    let longest =
        |weight| transferred(256, 16, 100, &[("driver.service.napi.weight", weight)]).dry_longest_ns;
    assert!(longest(16) < 0.7 * longest(64));
}
