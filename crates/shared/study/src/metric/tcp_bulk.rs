//! Bulk TCP into a machine and out of it ([`kpps_sim::workload::tcp_bulk`]).

use super::setting::{Setting, configuration};
use super::{Context, Values, columns, ms};
use kpps_profiles::Change;
use kpps_sim::workload::tcp_bulk::{Checksums, Processes, TcpBulk, tcp_bulk};
use serde::Deserialize;

#[derive(Deserialize)]
struct Of {
    #[serde(flatten)]
    setting: Setting,
    /// Weights of the driver's poll; several give lists.
    weights: Option<Vec<u16>>,
    /// Connections into the machine, each from a host of its own.
    connections: u16,
    /// Connections out of it, each to a host of its own.
    #[serde(default)]
    sending: u16,
    /// Where the processes run.
    #[serde(default = "last_cpu")]
    processes: Processes,
    #[serde(default = "host_segment_ns")]
    host_segment_ns: u64,
    #[serde(default = "host_delay_ns")]
    host_delay_ns: u64,
    /// Checksums that the card takes.
    #[serde(default = "yes")]
    ip_checksum: bool,
    #[serde(default = "yes")]
    tcp_checksum: bool,
    /// The chipset's engine copies to the processes.
    #[serde(default)]
    dma_copy: bool,
    /// The kernel hands the card superpackets.
    #[serde(default)]
    tso: bool,
    #[serde(default = "ms::<300>")]
    warmup_ms: u32,
    #[serde(default = "ms::<1_000>")]
    duration_ms: u32,
}

fn last_cpu() -> Processes {
    Processes::LastCpu
}

fn yes() -> bool {
    true
}

/// A dual P-III 1266 sends a segment in a few microseconds: an IP packet alone takes 2.8 us on one at 700 MHz
/// (Kohler et al., TOCS 2000).
fn host_segment_ns() -> u64 {
    5_000
}

/// Two passes of a switch, an interrupt and the host's stack: tens of microseconds.
fn host_delay_ns() -> u64 {
    60_000
}

/// For each weight:
///
/// - `weight`, if any are given; `mbps` of payload that processes read, `out_mbps` of payload that the hosts
///   got, and `all_mbps`, both together;
/// - per second `drops` (frames that the card dropped for want of a descriptor), `no_buffer` (frames that
///   found no free descriptor), `again` and `timeouts` of the hosts, `acks` to them and `reads`,
///   `dropped_socket`,
///   `dropped_queue` (frames for which the transmit queue was full), `out_again`; `received_pps`,
///   `interrupts_per_s`;
/// - of the segments sent, the share `together` that left in superpackets, and `segments_per_packet` that
///   were handed to the card;
/// - `round_trip_us`, `tail_writes_per_frame`, `tail_writes_per_s`;
/// - `dry_longest_us` and `dry`: the longest time, and the share of the time, without a free descriptor;
/// - `cpu_busy`, `hardirq`, `softirq`, `thread` of the CPU that serves the card; `cpu_busy_last` of the last
///   CPU.
pub(super) fn run(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let row = |weight: Option<u16>| {
        let change = weight.map(|w| Change::set("driver.service.napi.weight", i64::from(w)));
        let change = change.transpose()?;
        let setup = of.setting.setup_with(context, change.as_slice())?;
        let what = TcpBulk {
            size: of.setting.size(),
            connections: of.connections,
            sending: of.sending,
            processes: of.processes,
            host_segment_ns: of.host_segment_ns,
            host_delay_ns: of.host_delay_ns,
            checksums: Checksums { ip: of.ip_checksum, tcp: of.tcp_checksum },
            dma_copy: of.dma_copy,
            tso: of.tso,
            warmup_ms: of.warmup_ms,
            duration_ms: of.duration_ms,
        };
        let t = tcp_bulk(&setup, &what, context.go_on).map_err(|error| error.to_string())?;
        let per_second = |count: u64| count as f64 / t.seconds;
        let mut row = vec![
            ("mbps", per_second(t.read_bytes) * 8e-6),
            ("out_mbps", per_second(t.sent_bytes) * 8e-6),
            ("all_mbps", per_second(t.read_bytes + t.sent_bytes) * 8e-6),
            ("drops", per_second(t.dropped)),
            ("no_buffer", per_second(t.no_buffer)),
            ("again", per_second(t.sent_again)),
            ("timeouts", per_second(t.timeouts)),
            ("round_trip_us", t.round_trip_ns * 1e-3),
            ("acks", per_second(t.acks)),
            ("reads", per_second(t.reads)),
            ("tail_writes_per_frame", t.tail_writes as f64 / t.received.max(1) as f64),
            ("tail_writes_per_s", per_second(t.tail_writes)),
            ("dry_longest_us", t.dry_longest_ns * 1e-3),
            ("dry", t.dry),
            ("out_again", per_second(t.out_again)),
            ("together", t.out_together as f64 / t.out.max(1) as f64),
            ("segments_per_packet", t.out as f64 / t.out_packets.max(1) as f64),
            ("dropped_queue", per_second(t.dropped_queue)),
            ("dropped_socket", per_second(t.dropped_socket)),
            ("received_pps", per_second(t.received)),
            ("interrupts_per_s", per_second(t.interrupts)),
            ("cpu_busy", t.cpu.busy()),
            ("cpu_busy_last", t.cpu_last.busy()),
            ("hardirq", t.cpu.hardirq),
            ("softirq", t.cpu.softirq),
            ("thread", t.cpu.thread),
        ];
        row.extend(weight.map(|weight| ("weight", f64::from(weight))));
        Ok(row)
    };
    match &of.weights {
        None => columns(vec![row(None)?]),
        Some(weights) => columns(weights.iter().map(|&w| row(Some(w))).collect::<Result<_, String>>()?),
    }
}
