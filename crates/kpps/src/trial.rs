//! `kpps trial`: one load between two ports, and where every frame went.

mod portless;

use crate::capture;
use crate::error::Failure;
use crate::interrupt;
use crate::live::Trials;
use crate::output::{Files, Forms, Output, PageOutputs};
use crate::ports;
use crate::replay::{Replay, ReplayArguments};
use crate::testbed::{Kind, Target};
use crate::traffic;
use clap::Args;
use kpps_frames::{Mix, Size};
use kpps_live::Progress;
use kpps_measure::in_words;
use kpps_measure::ndr::tenths;
use kpps_measure::units::{self, Rate};
use kpps_ports::port::run::{Load, Shape};
use kpps_report::rows_csv;
use kpps_report::trial::page;
use kpps_results::certificate::{Certificate, Sender};
use kpps_results::detail::{DetailedTrial, Direction, FlowCount, Flows, SizeCount, TrialReplay};
use kpps_tester::{Classes, Offer, Tester, document};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `kpps trial`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps trial --ports packet:A,packet:B --load 50kpps --duration 2s
  kpps trial --ports packet:A,packet:B --load 10% --size 1518 --bidirectional --json
  kpps trial --ports packet:A,packet:B --load 50kpps --gateway 198.18.0.254 --watch router/   through a router
  kpps trial --ports packet:A,packet:B --load 50kpps --from H1 --to H2 --token-file FILE     A on H1, B on H2: see kpps agent
  kpps trial --ports packet:A,packet:B --replay seen.pcapng --capture anomalies.pcapng       the frames of a capture
  kpps trial --ports packet:A,packet:B --load 200MbpsL1 --size imix-csit --src 10.0.0.1-10.0.0.200 --vlan 7
  kpps trial --machine morris2000 --driver click-polling --load 700kpps                      in the simulator

The device under test lies between the two ports. Frames are offered in an open loop: a frame that cannot be sent within a
millisecond of its time is not sent, and counts as generator shortfall and as loss. Sent = received + lost; duplicates are counted
apart, corrupted frames are received ones. The ledger attributes each lost frame to a place, by the counters of all observed
interfaces before and after the trial; frames that no counter explains are unexplained.

Frames of --replay have no tags. kpps recognises each by its bytes from the network layer on, also behind bridges and routers:
equal frames are counted together, a corrupted frame counts as other traffic and its original as lost, reordering is judged by
frames that the capture has once, and there are no latencies. --src and --dst are the addresses that the ports answer for.

{}", ports::KINDS))]
pub struct Arguments {
    /// Frame size in bytes with FCS, or a mix: imix-csit, imix-trex, imix-linux, or sizes with weights as 64:7,570:4,1518:1
    /// [default: 64; with --app vlan-route: 68]
    #[arg(long, value_name = "SIZE|MIX", value_parser = units::sizes)]
    size: Option<Mix>,
    /// Frames per second (50kpps, 1.2Mpps), a share of the line rate (50%), bits per second on layer 1 or 2 (500MbpsL1), or max:
    /// as fast as the port takes them [with --replay: the times of the capture]
    #[arg(long, value_parser = traffic::load, required_unless_present = "replay")]
    load: Option<Rate>,
    /// Distribution of the gaps: constant, poisson, bursts:FRAMES, or ramp:FROM/TIME from one rate to the load
    #[arg(long, value_name = "SHAPE", default_value = "constant", value_parser = traffic::shape)]
    shape: Shape,
    /// How long frames are sent [default: 2s; with --replay as long as the capture; in the simulator 50ms of virtual time]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    replay: ReplayArguments,
    /// What the sending ports can send: results of `kpps calibrate`, one file for each direction [default: measured before the
    /// trial, through the device under test]
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    calibration: Vec<PathBuf>,
    /// If the load is above what the generator can send, send nothing and end with exit code 1
    #[arg(long)]
    strict: bool,
    /// Write the frames that were duplicated, reordered, corrupted or other traffic to this file (pcapng), each with a comment that
    /// says why; at most 1000 of each kind and direction
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    #[command(flatten)]
    outputs: PageOutputs,
    #[command(flatten)]
    target: Target,
}

/// How long frames are sent in real time by default.
const REAL: Duration = Duration::from_secs(2);

/// Runs `kpps trial`.
pub fn run(mut arguments: Arguments) -> Result<(), Failure> {
    arguments.target.resolve()?;
    let arguments = &arguments;
    let target = &arguments.target;
    if target.kind() != Kind::Ports {
        return portless::run(arguments);
    }
    let replay = arguments.replay.read(arguments.load.is_none())?;
    if replay.is_some() && target.pair.bidirectional {
        return Err(Failure::Input(
            "--replay goes one way: the frames of a capture have the addresses of one side".into(),
        ));
    }
    let mut tester = target.pair.open(&ports::specs(&target.testbed)?, &target.options)?;
    let offer = offer(arguments, &tester, replay.as_ref())?;
    let files = arguments.outputs.open("trial")?;
    let mut capture = arguments.capture.as_deref().map(Output::open).transpose()?;
    let ports = tester.names().join(" and ");
    let progress = Progress::of(format!("kpps trial: {ports}"));
    let source = Box::new(Trials(tester.gauges()));
    let view = target.options.live.view(progress.clone(), source, arguments.outputs.for_machines())?;
    progress.begins("measuring what the generator can send", None);
    let sender = sender(arguments, &mut tester, &offer)?;
    if let (true, Some(sender), Load::Pps(asked)) = (arguments.strict, &sender, offer.load)
        && sender.exceeded
    {
        let lowest = sender.ceilings_pps.iter().copied().fold(f64::INFINITY, f64::min);
        return Err(Failure::Check(format!(
            "a load of {:.1} kpps is above what the generator can send here, {:.1} kpps ({}); without --strict kpps tries it and flags the result",
            asked / 1e3,
            lowest / 1e3,
            sender.source
        )));
    }
    let asked = match offer.load {
        Load::Pps(pps) => Some(pps),
        Load::Max => None,
    };
    progress.begins(in_words(&offer.sizes, asked, offer.duration.as_secs_f64()), asked);
    let outcome = tester.trial(&offer, &|| !interrupt::asked())?;
    drop(view);
    let traffic = target.pair.unusual();
    let capture = capture.as_mut().map(|file| capture::write(file, &tester.names(), &outcome.ways));
    let capture = capture.transpose()?;
    let replay = replay.map(|replay| TrialReplay {
        file: replay.file.display().to_string(),
        frames: replay.count,
        with_equals: offer.replay.as_ref().map_or(0, |replay| replay.classes.with_equals()),
        departures: replay.departures,
    });
    let Some(trial) = document(&tester, &offer, &outcome) else {
        return Err(match (outcome.trouble, interrupt::asked()) {
            (Some(trouble), _) => Failure::Check(trouble.to_string()),
            (None, true) => Failure::Interrupted("interrupted before a frame was due".into()),
            (None, false) => Failure::Input("no frame is due in that time: measure longer".into()),
        });
    };
    let trial = DetailedTrial { traffic, capture, replay, ..trial };
    let sender = match arguments.calibration[..] {
        [] => sender.map(|sender| surpassed(sender, &trial)),
        _ => sender,
    };
    let trial = DetailedTrial { sender, ..trial };
    publish(&trial, files)
}

/// Publishes the trial, and ends as it ended.
fn publish(trial: &DetailedTrial, mut files: Files) -> Result<(), Failure> {
    files.publish(
        trial,
        &Forms { screen: &|| screen(trial), csv: &|| rows_csv(&trial.directions), page: &|_| page(trial) },
    )?;
    match (trial.trouble.clone(), interrupt::asked()) {
        (Some(trouble), _) => Err(Failure::Check(trouble)),
        (None, true) => Err(Failure::Interrupted(format!("interrupted after {:.1} s", trial.result.seconds))),
        (None, false) => Ok(()),
    }
}

/// What is offered, and for how long.
fn offer(arguments: &Arguments, tester: &Tester, replay: Option<&Replay>) -> Result<Offer, Failure> {
    let Arguments { target, shape, size, .. } = arguments;
    let pair = &target.pair;
    let size = size.clone().unwrap_or_else(|| Mix::fixed(Size::MIN));
    let keep = arguments.capture.is_some();
    let load = arguments.load.unwrap_or(Rate::Pps(f64::INFINITY));
    let Some(replay) = replay else {
        let duration = arguments.duration.unwrap_or(REAL);
        return Ok(Offer { keep, ..pair.offer(tester, load, *shape, &size, duration) });
    };
    let (count, whole) = replay.extent(arguments.duration.is_some());
    let offer = pair.offer(tester, load, *shape, &replay.sizes, Duration::ZERO);
    let load = replay.times.as_ref().map_or(offer.load, |times| Load::Pps(times.mean_pps()));
    let rated = match (load, count) {
        (Load::Pps(pps), Some(count)) => Some(Duration::from_secs_f64(count as f64 / pps)),
        _ => None,
    };
    let duration = arguments.duration.or(whole).or(rated);
    let duration =
        duration.ok_or_else(|| Failure::Input("--replay with --load max needs --duration".into()))?;
    let classes = Arc::new(Classes::new(&replay.frames, replay.count));
    let replay = kpps_tester::Replay { frames: replay.frames.clone(), times: replay.times.clone(), classes };
    Ok(Offer { load, duration, count, keep, replay: Some(replay), ..offer })
}

/// What the generator can send, if the load is a rate.
fn sender(arguments: &Arguments, tester: &mut Tester, offer: &Offer) -> Result<Option<Sender>, Failure> {
    let Load::Pps(asked) = offer.load else { return Ok(None) };
    let (ceilings_pps, source) = match &arguments.calibration[..] {
        [] => (tester.ceilings(offer, &|| !interrupt::asked())?, "measured".to_owned()),
        files => {
            let ways = if offer.both_ways { 2 } else { 1 };
            if files.len() != ways {
                return Err(Failure::Input(format!(
                    "--calibration takes {ways} files here, one for each direction"
                )));
            }
            let read = files.iter().zip(tester.names()).map(|(file, port)| calibrated(file, port, offer));
            let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            (read.collect::<Result<_, _>>()?, names.join(", "))
        }
    };
    let exceeded = ceilings_pps.iter().any(|ceiling| asked > *ceiling);
    Ok(Some(Sender { ceilings_pps: ceilings_pps.into_iter().map(tenths).collect(), source, exceeded }))
}

/// Raises the ceilings to what was really sent.
fn surpassed(sender: Sender, trial: &DetailedTrial) -> Sender {
    let sent =
        trial.directions.iter().map(|way| way.sent as f64 / trial.result.seconds.max(f64::MIN_POSITIVE));
    let raised = |(ceiling, sent): (&f64, f64)| ceiling.max(tenths(sent));
    let ceilings_pps: Vec<f64> = sender.ceilings_pps.iter().zip(sent).map(raised).collect();
    let exceeded = trial.load_pps.is_some_and(|asked| ceilings_pps.iter().any(|ceiling| asked > *ceiling));
    Sender { ceilings_pps, exceeded, ..sender }
}

/// The ceiling that a file of `kpps calibrate` has.
fn calibrated(file: &Path, port: &str, offer: &Offer) -> Result<f64, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::Input(format!("{} is no result of kpps calibrate: {why}", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|e| {
        Failure::Input(format!(
            "cannot read the calibration {} (kpps calibrate --results FILE writes one): {e}",
            file.display()
        ))
    })?;
    let certificate: Certificate = serde_json::from_str(&text).map_err(|e| cannot(&e))?;
    // A calibration was made on the port's own host, so its port has no host's name before it.
    let port = port.rsplit_once('/').map_or(port, |(_, port)| port);
    let bytes = offer.sizes.only().map(Size::bytes_with_fcs).ok_or_else(|| {
        Failure::Input("a calibration is of frames of one size: leave it out, and the mix is measured".into())
    })?;
    if certificate.port != port || certificate.frame_bytes_with_fcs != bytes {
        let Certificate { port: other, frame_bytes_with_fcs, .. } = certificate;
        return Err(Failure::Input(format!(
            "{} is a calibration of {other} with frames of {frame_bytes_with_fcs} B, not of {port} with {bytes} B",
            file.display()
        )));
    }
    Ok(certificate.ceiling_pps)
}

/// Sizes and flows of a direction.
fn parts(direction: &Direction) -> String {
    let mut text = String::new();
    for size in &direction.sizes {
        let SizeCount { frame_bytes_with_fcs, sent, received, lost } = size;
        let _ = writeln!(text, "{frame_bytes_with_fcs:>6} B: {sent} sent, {received} received, {lost} lost");
    }
    if let Some(flows) = &direction.flows {
        let Flows { count, lossy, silent, worst } = flows;
        let _ = writeln!(
            text,
            "{count} flows from {}: {lossy} lost frames, {silent} delivered nothing",
            direction.from
        );
        for flow in worst.iter().take(SHOWN) {
            let FlowCount { flow, sent, lost, reordered, .. } = flow;
            let _ = writeln!(text, "  {flow}: {lost} of {sent} lost, {reordered} out of order");
        }
    }
    text
}

/// Flows that a person is shown: the worst.
const SHOWN: usize = 4;

/// The text for the screen.
fn screen(trial: &DetailedTrial) -> String {
    let mut text = String::new();
    let load = trial.load_pps.map_or("the highest load".into(), |pps| format!("{:.1} kpps", pps / 1e3));
    let _ = writeln!(
        text,
        "{}: frames of {}{}, {load} for {:.3} s\n",
        trial.testbed.join(" and "),
        trial.frames_name(),
        trial.traffic.as_ref().map(|traffic| format!(", {traffic}")).unwrap_or_default(),
        trial.result.seconds
    );
    for departure in trial.replay.iter().flat_map(|replay| &replay.departures) {
        let _ = writeln!(text, "{departure}\n");
    }
    if trial.learned == Some(false) {
        text += "No frame came through before the trial: is the device under test switched on and connected to these ports?\n\n";
    }
    let rows = [
        ("intended", Some(trial.intended), ""),
        ("sent", Some(trial.result.sent), ""),
        (
            "shortfall",
            Some(trial.result.shortfall),
            "generator shortfall: frames that could not be sent at their time",
        ),
        ("received", Some(trial.received), ""),
        ("lost", Some(trial.lost), ""),
        ("duplicated", trial.duplicated, ""),
        ("reordered", trial.reordered, ""),
        ("corrupted", trial.corrupted, ""),
        ("other", trial.other_traffic, "other traffic: frames that are not of this trial"),
    ];
    for (name, count, what) in rows {
        // Where nobody counts it there is a dash.
        let count = count.map_or("–".into(), |count| count.to_string());
        let _ = writeln!(text, "{}", format!("{name:<12}{count:>12}  {what}").trim_end());
    }
    let _ = writeln!(
        text,
        "\n{:.1} kpps sent ({:.1} Mb/s on layer 1, {:.1} Mb/s on layer 2), {:.1} kpps received; loss {:.4} % (with shortfall and corrupted frames)",
        trial.result.sent_pps / 1e3,
        trial.sent_bps.l1 / 1e6,
        trial.sent_bps.l2 / 1e6,
        trial.received_pps / 1e3,
        trial.result.loss_ratio * 100.0
    );
    for direction in &trial.directions {
        text += &parts(direction);
    }
    if let Some(sender) = &trial.sender {
        let ceilings: Vec<_> = sender.ceilings_pps.iter().map(|pps| format!("{:.1}", pps / 1e3)).collect();
        let above = if sender.exceeded {
            ": the load is above that, so part of the loss is the generator's"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "generator: at most {} kpps here ({}){above}",
            ceilings.join(" and "),
            sender.source
        );
    }
    for direction in &trial.directions {
        if let Some((gaps, within)) = direction.gaps.and_then(|gaps| Some((gaps, gaps.share_within()?))) {
            let _ = writeln!(
                text,
                "gaps of {}: {:.2} % within 10 µs of {:.3} µs, p99 {:.1} µs, max {:.1} µs",
                direction.from,
                100.0 * within,
                gaps.asked_ns.unwrap_or(0.0) / 1e3,
                gaps.p99_ns as f64 / 1e3,
                gaps.longest_ns as f64 / 1e3
            );
            text += &crate::send::waited(gaps.waited_ns, trial.result.seconds);
        }
    }
    let latency = trial.result.latency_ns;
    if let (Some(p50), Some(p99), Some(p999), Some(max)) =
        (latency.p50, latency.p99, latency.p999, latency.max)
    {
        let us = |ns: u64| ns as f64 / 1e3;
        let arrival = trial.arrival().map(|arrival| format!(" ({arrival})")).unwrap_or_default();
        let _ = writeln!(
            text,
            "latency{}: p50 {:.1} µs, p99 {:.1} µs, p99.9 {:.1} µs, max {:.1} µs",
            arrival,
            us(p50),
            us(p99),
            us(p999),
            us(max)
        );
    }
    for missing in trial.clocks_set() {
        let _ = writeln!(text, "{missing}");
    }
    if let Some(capture) = &trial.capture {
        let _ = writeln!(text, "{}", capture.sentence());
    }
    if let Some(clocks) = &trial.clocks {
        let _ = writeln!(text, "{}", clocks.sentence());
    }
    let ledger = &trial.result.ledger;
    let missing = ledger.sent.saturating_sub(ledger.delivered);
    let whole = if trial.directions.is_empty() { ", with its warm-up and its end" } else { "" };
    let _ = writeln!(text, "\nwhere {missing} of {} sent frames ended{whole}:", ledger.sent);
    for (place, frames) in &ledger.dropped {
        let _ = writeln!(text, "{frames:>12}  {place}");
    }
    for (place, frames) in &ledger.in_flight_at {
        let _ = writeln!(text, "{frames:>12}  still queued at {place}");
    }
    let _ = writeln!(text, "{:>12}  unexplained", ledger.unexplained);
    if let Some(interrupts) = trial.result.interrupts_per_s {
        let _ = writeln!(text, "{interrupts:.1} interrupts per second");
    }
    if let Some(cpu) = trial.result.cpu
        && trial.processors.is_empty()
    {
        let _ = writeln!(
            text,
            "CPU {:.1} % busy: interrupts {:.1} %, softirqs {:.1} %, threads {:.1} %{}",
            cpu.busy() * 100.0,
            cpu.hardirq * 100.0,
            cpu.softirq * 100.0,
            cpu.thread * 100.0,
            cpu.empty_polls.map(|share| format!(", empty polls {:.1} %", share * 100.0)).unwrap_or_default()
        );
    }
    let names = trial.processor_names();
    if names.is_empty() {
        return text;
    }
    let width = names.iter().map(String::len).max().unwrap_or(0).max(4);
    let _ = writeln!(
        text,
        "\n{:>width$} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "CPU", "user", "system", "irq", "softirq", "idle"
    );
    for (name, cpu) in names.iter().zip(&trial.processors) {
        let _ = writeln!(
            text,
            "{name:>width$} {:>6.3} s {:>6.3} s {:>6.3} s {:>6.3} s {:>6.3} s",
            cpu.user_s, cpu.system_s, cpu.irq_s, cpu.softirq_s, cpu.idle_s
        );
    }
    if let Some(cycles) = trial.cycles_per_frame() {
        let _ = writeln!(text, "{cycles:.0} cycles for each frame that arrived, of all CPUs together");
    }
    text
}
