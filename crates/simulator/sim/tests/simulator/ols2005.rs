//! Bulk TCP into the blade of ols2005 and out of it.

use kpps_frames::Size;
use kpps_profiles::Change;
use kpps_sim::Setup;
use kpps_sim::workload::tcp_bulk::{Checksums, Processes, TcpBulk, Transferred, tcp_bulk};

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
    let what = TcpBulk { connections, dma_copy, duration_ms, ..bulk(size) };
    run(&what, changes)
}

/// Nothing into the machine and nothing out of it, in frames of `size`.
fn bulk(size: u16) -> TcpBulk {
    TcpBulk {
        size: Size::with_fcs(size),
        connections: 0,
        sending: 0,
        processes: Processes::LastCpu,
        host_segment_ns: 5_000,
        host_delay_ns: 60_000,
        checksums: Checksums { ip: true, tcp: true },
        dma_copy: false,
        tso: false,
        warmup_ms: 50,
        duration_ms: 100,
    }
}

fn run(what: &TcpBulk, changes: &[(&str, i64)]) -> Transferred {
    let changes: Vec<_> = changes.iter().map(|&(path, value)| Change::set(path, value).unwrap()).collect();
    let setup = Setup::changed("ols2005", None, "intel-5.7.6", &changes).unwrap();
    tcp_bulk(&setup, what, &|| true).unwrap()
}

#[test]
fn a_machine_that_sends_fills_the_wire() {
    let t = run(&TcpBulk { sending: 4, ..bulk(1518) }, &[]);
    let share = t.sent_bytes as f64 * 8e-9 / t.seconds / (1460.0 / 1538.0);
    assert!((share - 1.0).abs() < 0.01, "{share} of a gigabit: {t:?}");
    assert_eq!((t.out_again, t.dropped_queue, t.read_bytes), (0, 0, 0));
    // The hosts got all segments that were sent, except for segments on their way.
    assert!((t.sent_bytes / 1460).abs_diff(t.out) < 4 * 64, "{t:?}");
}

#[test]
fn the_card_cuts_superpackets_which_take_less_cpu_and_fill_a_window_less() {
    let processes = Processes::FirstCpu;
    let with = |tso, sending| run(&TcpBulk { sending, tso, processes, ..bulk(1518) }, &[]);
    let (plain, together) = (with(false, 4), with(true, 4));
    assert_eq!((plain.out_together, plain.out_packets), (0, plain.out));
    assert!(together.out_together * 10 > together.out * 9, "{together:?}");
    assert!(together.out_packets * 2 <= together.out, "{together:?}");
    assert_eq!((together.out_again, together.dropped_queue), (0, 0));
    // The hosts got all segments, except for segments on their way.
    assert!((together.sent_bytes / 1460).abs_diff(together.out) < 4 * 64, "{together:?}");
    let cpu = |t: &Transferred| t.cpu.busy() / t.sent_bytes as f64;
    assert!(cpu(&together) < 0.97 * cpu(&plain), "{together:?} {plain:?}");
    // The rest of a window is too small for another superpacket.
    let both =
        |tso| run(&TcpBulk { connections: 1, sending: 1, tso, processes, ..bulk(1518) }, &[]).sent_bytes;
    assert!(both(true) * 100 < both(false) * 99, "{} {}", both(true), both(false));
}

#[test]
fn a_card_that_cannot_cut_superpackets_is_refused() {
    let setup = Setup::changed("ols2005", Some("82542"), "intel-5.7.6", &[]).unwrap();
    let refused = tcp_bulk(&setup, &TcpBulk { sending: 1, tso: true, ..bulk(1518) }, &|| true);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("82542") && error.contains("TSO"), "{error}");
}

#[test]
fn both_directions_at_once_and_processes_on_the_cpu_of_the_softirqs() {
    let both = |processes| run(&TcpBulk { connections: 4, sending: 4, processes, ..bulk(1518) }, &[]);
    let (first, last) = (both(Processes::FirstCpu), both(Processes::LastCpu));
    for t in [&first, &last] {
        let (read, sent) = (t.read_bytes as f64 * 8e-6 / t.seconds, t.sent_bytes as f64 * 8e-6 / t.seconds);
        // Acknowledgements of the other direction take some of each wire. Acknowledgements of sent data wait
        // behind received data.
        assert!((600.0..945.0).contains(&read) && (400.0..945.0).contains(&sent), "{t:?}");
    }
    assert!(first.cpu_last.busy() == 0.0 && first.cpu.thread > 0.1, "{first:?}");
    assert!(last.cpu_last.busy() > 0.1 && last.cpu.thread < 0.1, "{last:?}");
}

#[test]
fn the_prequeue_moves_work_from_the_softirq_to_the_process() {
    let with = |cycles| {
        let what = TcpBulk { connections: 4, ..bulk(1518) };
        run(&what, &[("stack.prequeue_cycles", cycles)])
    };
    // With all of TCP's work before the prequeue, the process has none of it.
    let (usual, nothing_left) = (with(292), with(660));
    assert!(usual.cpu.busy() < nothing_left.cpu.busy(), "{usual:?} {nothing_left:?}");
    assert!(usual.cpu_last.busy() > nothing_left.cpu_last.busy(), "{usual:?} {nothing_left:?}");
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
    // A small ring and a FIFO that holds little, and polls that also send.
    let processes = Processes::FirstCpu;
    let what = TcpBulk { connections: 32, sending: 32, processes, duration_ms: 300, ..bulk(1518) };
    let t = run(&what, &[("driver.rx_ring", 80), ("driver.rx_fifo_kb", 8)]);
    assert!(t.dropped > 100, "{t:?}");
    // Some of the dropped frames are acknowledgements, which later ones replace.
    assert!(t.sent_again >= t.dropped / 4, "{t:?}");
    // Processes read all segments that the senders sent, except for segments that were lost, sent twice, or
    // are on their way.
    let (read, sent) = (t.read_bytes / 1460, t.sent - t.sent_again);
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
    // A ring of fewer descriptors than a poll of the larger weight takes frames.
    let both = TcpBulk { connections: 64, sending: 64, processes: Processes::FirstCpu, ..bulk(256) };
    let dry = |weight| run(&both, &[("driver.rx_ring", 48), ("driver.service.napi.weight", weight)]).dry;
    let (small, large) = (dry(16), dry(64));
    assert!(large > 0.02 && small < 0.5 * large, "without descriptors {small} and {large} of the time");
}
