//! `kpps count`: what arrives, and in which state.

use crate::error::Failure;
use crate::run::{self, Common, Start};
use crate::units;
use clap::Args;
use kpps_ports::Spec;
use kpps_ports::port::run::{Streams, count};
use kpps_report::Stream;
use std::fmt::Write;
use std::time::Duration;

/// Arguments of `kpps count`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps count uio:0000:00:11.0 --duration 10s
  kpps count packet:veth1 --expect 1000 --duration 5s     exit code 1 if one is missing

Frames of `kpps send` are known by their tags: lost, duplicated, reordered and corrupted ones are
counted for each stream. Other frames are counted as such. After --expect frames it ends at once.
A frame is out of order if it came after a later one of its stream, or, of an xdp: port with several queues, of its flow.

Ports: uio:ADDRESS and vfio:ADDRESS (our driver; `kpps device list` shows cards),
xdp:INTERFACE[:QUEUE] (AF_XDP: its frames are taken from the kernel), packet:INTERFACE (packet sockets: the kernel
has them too; with its offloads off: ethtool -K eth1 tx off tso off gso off gro off),
auto:INTERFACE (the better of these two, with a word on why), udp:HOST:PORT (a socket; needs no privilege) and
udp::PORT (one that listens).")]
pub struct Arguments {
    /// Where to receive: uio:ADDRESS, vfio:ADDRESS, auto:INTERFACE, xdp:INTERFACE[:QUEUE],
    /// packet:INTERFACE, udp:HOST:PORT or udp::PORT
    port: Spec,
    /// Stop after this time
    #[arg(long, default_value = "2s", value_parser = units::duration)]
    duration: Duration,
    /// Test frames that are to arrive, each once and unchanged; fewer, or other mishaps, make the exit code 1
    #[arg(long)]
    expect: Option<u64>,
    #[command(flatten)]
    common: Common,
}

/// Runs `kpps count`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let specs = std::slice::from_ref(&arguments.port);
    let mut ports = arguments.common.open(specs, true)?;
    let start = Start::now(&mut ports)?;
    // Queues are looked at in turn, and only frames of one flow come by the same.
    let several = ports.first().is_some_and(|port| port.queues() > 1);
    let mut streams = if several { Streams::by_flow() } else { Streams::default() };
    let (meter, view) = arguments.common.show(format!("kpps count {}", arguments.port), None)?;
    let mut ends = arguments.common.ends(Some(arguments.duration), &meter);
    let elapsed = match ports.first_mut() {
        #[cfg(target_os = "linux")]
        Some(kpps_ports::port::AnyPort::Card(card)) => {
            count(&mut **card, &mut streams, arguments.expect, &mut ends)
        }
        Some(port) => count(port, &mut streams, arguments.expect, &mut ends),
        None => Ok(Duration::ZERO),
    };
    drop(view);
    let elapsed = elapsed.map_err(run::broken)?;
    let mut results = start.results("count", &arguments.common, specs, &mut ports, elapsed)?;
    let mut rows: Vec<Stream> = streams
        .all()
        .into_iter()
        .map(|(stream, tally)| Stream {
            stream,
            received: tally.received,
            lost: tally.lost(),
            duplicated: tally.duplicated,
            reordered: tally.reordered,
            corrupted: 0,
        })
        .collect();
    if let Some(first) = rows.first_mut() {
        first.corrupted = streams.corrupted;
        if let Some(expect) = arguments.expect {
            // Also those before the first and after the last.
            let missing = expect.saturating_sub(streams.unique());
            first.lost = first.lost.max(missing);
        }
    }
    let mut words = String::new();
    for row in &rows {
        let _ = writeln!(
            words,
            "stream {}: {} received, {} lost, {} duplicated, {} reordered",
            row.stream, row.received, row.lost, row.duplicated, row.reordered
        );
    }
    let _ = writeln!(words, "{} corrupted, {} other frames", streams.corrupted, streams.others);
    let flaws: u64 = rows.iter().map(|row| row.lost + row.duplicated + row.reordered + row.corrupted).sum();
    let unique = streams.unique();
    results.corrupted = Some(streams.corrupted);
    results.others = Some(streams.others);
    results.streams = Some(rows);
    run::finish(&results, &arguments.common, &words, false)?;
    match arguments.expect {
        Some(expect) if unique < expect => {
            Err(Failure::Check(format!("{unique} of {expect} expected frames arrived")))
        }
        Some(_) if flaws > 0 => {
            Err(Failure::Check("not every frame arrived once, in order and unchanged".into()))
        }
        _ => Ok(()),
    }
}
