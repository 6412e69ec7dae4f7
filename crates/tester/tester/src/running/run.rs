//! The work of ports during a run of one program, as a document: their counters before and after, and the
//! frames that were sent, arrived, and went through an app.

use crate::accounting::document::{filled, gaps, lateness};
use crate::judging::playback::Playback;
use crate::running::sending::PortSent;
use crate::running::streams::Stream;
use crate::running::test_port::OfCore;
use kpps_documents::Environment;
use kpps_documents::run::{
    AppRun, Offered, PortRun, ProcessCpu, Run, SentCore, SentStream, Stream as ArrivedStream,
};
use kpps_frames::Mix;
use kpps_ports::Spec;
use kpps_ports::port::run::Streams;
use kpps_ports::port::{AnyPort, Counters, Port, Trouble};
use std::time::Duration;

/// CPU time of this process so far, if the system reports it.
#[cfg(unix)]
fn process_cpu() -> Option<ProcessCpu> {
    let time = kpps_linux::cpu_time()?;
    Some(ProcessCpu { user_s: time.user.as_secs_f64(), system_s: time.system.as_secs_f64() })
}

#[cfg(not(unix))]
fn process_cpu() -> Option<ProcessCpu> {
    None
}

/// The counters of ports when a run begins.
pub struct RunStart {
    counters: Vec<Counters>,
    cpu: Option<ProcessCpu>,
}

impl RunStart {
    /// The counters now.
    ///
    /// # Errors
    /// That of a port that cannot be read.
    pub fn now(ports: &mut [AnyPort]) -> Result<Self, Trouble> {
        let counters = ports.iter_mut().map(Port::counters).collect::<Result<_, _>>()?;
        Ok(Self { counters, cpu: process_cpu() })
    }

    /// The results of a run of `command` that ends now, perhaps by an error; cards were served as `service`
    /// says. A port that can no longer be read has the frames that it counted itself.
    pub fn results(
        &self,
        command: &str,
        service: &str,
        specs: &[Spec],
        ports: &mut [AnyPort],
        elapsed: Duration,
        mut trouble: Option<Trouble>,
    ) -> Run {
        let cpu = process_cpu();
        let mut rows = Vec::with_capacity(ports.len());
        for ((spec, port), before) in specs.iter().zip(ports).zip(&self.counters) {
            let now = port.counters().unwrap_or_else(|error| {
                trouble.get_or_insert(error);
                let (received, sent) = port.frames();
                Counters { received, sent, ..*before }
            });
            rows.push(row(service, spec, port, before, &now, elapsed));
        }
        Run {
            environment: Environment::on(specs.iter().map(ToString::to_string)),
            command: command.into(),
            seconds: elapsed.as_secs_f64(),
            complete: trouble.is_none(),
            trouble: trouble.map(|trouble| trouble.to_string()),
            ports: rows,
            cpu: cpu.zip(self.cpu).map(|(now, then)| ProcessCpu {
                user_s: now.user_s - then.user_s,
                system_s: now.system_s - then.system_s,
            }),
            ..Run::default()
        }
        .rounded()
    }
}

fn row(
    service: &str,
    spec: &Spec,
    port: &AnyPort,
    before: &Counters,
    now: &Counters,
    elapsed: Duration,
) -> PortRun {
    let seconds = elapsed.as_secs_f64();
    let received = now.received - before.received;
    let sent = now.sent - before.sent;
    let since = |now: Option<u64>, before: Option<u64>| now.zip(before).map(|(now, before)| now - before);
    let drops = [
        ("missed", now.missed_since(before)),
        ("full", Some(now.full - before.full)),
        ("errors", Some(now.errors.saturating_sub(before.errors))),
        // Devices of DPDK may take back a count.
        ("tx_dropped", Some(now.tx_dropped.saturating_sub(before.tx_dropped))),
    ];
    // Other ports have none of that.
    let of_card = |count: u64| port.chip().map(|_| count);
    PortRun {
        port: spec.to_string(),
        chip: port.chip().map(|chip| chip.name().into()),
        service: port.chip().map(|_| service.into()),
        received,
        received_bytes: now.received_bytes - before.received_bytes,
        received_pps: received as f64 / seconds,
        sent,
        sent_bytes: now.sent_bytes - before.sent_bytes,
        sent_pps: sent as f64 / seconds,
        drops: drops.into_iter().map(|(place, count)| (place.to_owned(), count)).collect(),
        no_buffer: since(now.no_buffer, before.no_buffer),
        interrupts: of_card(now.interrupts - before.interrupts),
        register_reads: of_card(now.register_reads - before.register_reads),
        register_writes: of_card(now.register_writes - before.register_writes),
        doorbells: of_card(now.doorbells - before.doorbells),
        report_requests: of_card(now.report_requests - before.report_requests),
        system_calls: now.system_calls - before.system_calls,
        resets: of_card(now.resets - before.resets),
    }
}

/// The frames that a port was to send, and the frames that it sent of them. `streams`: the names of the
/// streams, if a file describes them.
pub fn offered(
    sizes: &Mix,
    offered_pps: Option<f64>,
    replay: Option<&Playback>,
    streams: &[Stream],
    PortSent { frames: sent, cores }: &PortSent,
) -> Offered {
    let of_stream = |(n, stream): (usize, &Stream)| {
        let [given, _] = sent.of_stream(n, streams.len());
        Some(SentStream {
            stream: stream.name.clone(),
            sent: given?,
            shortfall: offered_pps.and_then(|_| sent.shortfall_of(n, streams.len())),
        })
    };
    let of_core = |core: &OfCore| SentCore {
        cpu: core.cpu,
        sent: core.sent,
        shortfall: core.intended.saturating_sub(core.sent),
        gaps: core.gaps.as_ref().map(gaps),
    };
    Offered {
        streams: streams.iter().enumerate().filter_map(of_stream).collect(),
        cores: cores.iter().map(of_core).collect(),
        size: sizes.name().into(),
        offered_pps,
        intended: sent.intended,
        shortfall: sent.shortfall(),
        lateness: sent.lateness.map(lateness),
        gaps: sent.gaps.as_ref().map(gaps),
        filled: sent.filled.map(filled),
        departures: replay.map(|replay| replay.departures.clone()).unwrap_or_default(),
    }
}

/// The streams that arrived. With `expect`, all frames that are missing from that number count as lost in the
/// first stream: gaps in the sequence do not show frames lost before the first arrived frame and after the
/// last.
pub fn streams(streams: &Streams, expect: Option<u64>) -> Vec<ArrivedStream> {
    let all = streams.all().into_iter();
    let mut rows: Vec<ArrivedStream> = all
        .map(|(stream, tally)| ArrivedStream {
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
        let missing = expect.map_or(0, |expect| expect.saturating_sub(streams.unique()));
        first.lost = first.lost.max(missing);
    }
    rows
}

/// Whether `expect` frames arrived, each once, in order and unchanged, in these rows of [`streams`].
///
/// # Errors
/// The missing frames, in a sentence.
pub fn all_arrived(streams: &Streams, rows: &[ArrivedStream], expect: u64) -> Result<(), String> {
    let unique = streams.unique();
    let flaws: u64 = rows.iter().map(|row| row.lost + row.duplicated + row.reordered + row.corrupted).sum();
    if unique < expect {
        return Err(format!("{unique} of {expect} expected frames arrived"));
    }
    if flaws > 0 {
        return Err("not every frame arrived once, in order and unchanged".into());
    }
    Ok(())
}

/// The account of an app.
pub fn app_run(ledger: &kpps_apps::Ledger) -> AppRun {
    AppRun {
        received: ledger.received,
        made: ledger.made,
        sent: ledger.sent,
        held: ledger.held,
        dropped: ledger.reasons().map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
    }
}
