//! `kpps count`: what a port receives.

use crate::error::Failure;
use crate::output::Outputs;
use crate::ports;
use crate::run::{self, PortOptions, Start};
use clap::Args;
use kpps_measure::units;
use kpps_ports::Spec;
use kpps_ports::port::run::{Streams, count};
use kpps_results::run::Stream;
use std::fmt::Write;
use std::time::Duration;

/// Arguments of `kpps count`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps count uio:0000:00:11.0 --duration 10s
  kpps count packet:veth1 --expect 1000 --duration 5s     exit code 1 if a frame is missing

Frames of `kpps send` carry a tag. kpps counts for each stream which of them were lost, duplicated,
reordered or corrupted, and counts other traffic apart. It ends as soon as --expect frames have arrived. A
frame is reordered if a later frame of its stream came before it; on an xdp: port with several queues, a
later frame of its flow.

{}", ports::KINDS))]
pub struct Arguments {
    /// The port that receives
    port: Spec,
    /// Stop after this time
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::duration)]
    duration: Duration,
    /// Number of test frames that must arrive, each once, in order and unchanged; otherwise the exit code is
    /// 1
    #[arg(long, value_name = "FRAMES")]
    expect: Option<u64>,
    #[command(flatten)]
    options: PortOptions,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps count`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let specs = std::slice::from_ref(&arguments.port);
    let mut files = arguments.outputs.open()?;
    let mut ports = arguments.options.open(specs, true)?;
    let start = Start::now(&mut ports)?;
    // Queues are served in turn; only frames of one flow share a queue.
    let several = ports.first().is_some_and(|port| port.queues() > 1);
    let mut streams = if several { Streams::by_flow() } else { Streams::default() };
    let title = format!("kpps count {}", arguments.port);
    let (meter, view) = arguments.options.show(title, None, arguments.outputs.for_machines())?;
    let mut ends = arguments.options.ends(Some(arguments.duration), &meter);
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
    let mut results = start.results("count", &arguments.options, specs, &mut ports, elapsed)?;
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
            // Gaps in the sequence do not show frames lost before the first and after the last.
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
    let _ = writeln!(words, "{} corrupted, {} frames of other traffic", streams.corrupted, streams.others);
    let flaws: u64 = rows.iter().map(|row| row.lost + row.duplicated + row.reordered + row.corrupted).sum();
    let unique = streams.unique();
    results.corrupted = Some(streams.corrupted);
    results.others = Some(streams.others);
    results.streams = Some(rows);
    run::finish(&results, &mut files, &words, false)?;
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
