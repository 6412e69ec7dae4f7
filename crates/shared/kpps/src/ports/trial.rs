//! `kpps trial`: one load between two ports, and where every frame went.

use super::capture::CaptureAll;
use super::late::LateFrames;
use super::replay::ReplayArguments;
use super::{KINDS, Ports};
use crate::error::Failure;
use crate::heading;
use crate::live::OpenTestbed;
use crate::output::{BoundArguments, Files, Outputs};
use crate::session::Session;
use crate::testbed::{Chosen, Target, TestbedArguments};
use crate::typed::Typed;
use clap::Args;
use kpps_documents::detail::DetailedTrial;
use kpps_frames::Mix;
use kpps_frames::rate::Rate;
use kpps_methods::units::{self, RateSpec};
use kpps_methods::{detailed, in_words};
use kpps_ports::port::run::Shape;
use kpps_rendering::live::Progress;
use kpps_tester::live::Trials;
use kpps_tester::{Offer, Playback, Tester, document, pcapng, streams_pps, undisturbed};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `kpps trial`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps trial --ports packet:A,packet:B --load 50kpps --duration 2s
  kpps trial --ports packet:A,packet:B --load 10% --size 1518 --bidirectional --json
  kpps trial --ports packet:A,packet:B --load 200MbpsL1 --size imix-csit --flows 200 --vlan 7

Streams with their own headers, sizes and rates:
  kpps trial --ports packet:A,packet:B --streams streams.toml

A full mesh of three ports, each of which sends to both others:
  kpps trial --ports packet:A,packet:B,packet:C --load 50kpps

Through a router:
  kpps trial --ports packet:A,packet:B --load 50kpps --gateway 198.18.0.254 --watch router/

Port A of host h1, port B of host h2 (`kpps agent --help`):
  kpps trial --ports packet:A,packet:B --load 50kpps --from h1 --to h2 --token-file FILE

The frames of a capture:
  kpps trial --ports packet:A,packet:B --replay seen.pcapng --capture anomalies.pcapng

Every frame of both ports, with the verdict on it:
  kpps trial --ports packet:A,packet:B --load 50kpps --capture-all frames.pcapng

In the simulator:
  kpps trial --machine morris2000 --driver click-polling --load 700kpps

The device under test lies between the two ports. Frames are offered in an open loop: a frame that cannot be
sent within a millisecond of its time is not sent, and counts as generator shortfall, not as loss; with --late
send it is sent late. If another program used the generator's CPU during a trial, the trial is repeated
(--retries). Duplicates are counted separately. Corrupted frames count as received, but also as lost in the
loss ratio. The ledger attributes each lost frame to a place, from counters before and after the trial. If no
frame of a direction arrives, the exit code is 1.

Frames of --replay have no tags. kpps recognises each frame by its bytes from the network layer on. So equal
frames are counted together, a corrupted frame counts as other traffic and its original as lost, and latencies
are not measured. The ports answer ARP, neighbour discovery and pings for the addresses of --src and --dst.

{}", KINDS))]
pub struct Arguments {
    /// Frame size in bytes with FCS
    #[arg(long, value_name = "SIZE|MIX", value_parser = units::sizes, help_heading = heading::TRAFFIC)]
    size: Option<Mix>,
    /// Frames per second (50kpps, 1.2Mpps), a share of the line rate (50%), bits per second on layer 1 or 2
    /// (500MbpsL1), or max: as fast as the port takes them [required, except for --replay and --streams,
    /// which have their own times and rates]
    #[arg(long, value_parser = units::rate_or_max, required_unless_present_any = ["replay", "streams"], help_heading = heading::LOAD)]
    load: Option<RateSpec>,
    /// How long frames are sent [default: 2s; with --replay: as long as the capture; in the simulator: 50ms
    /// of virtual time]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    #[command(flatten)]
    on_ports: Typed<OnPorts>,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    bounds: BoundArguments,
    #[command(flatten)]
    target: TestbedArguments,
}

/// Options of trials between two ports.
#[derive(Args)]
struct OnPorts {
    /// Distribution of the gaps: constant, poisson, bursts:FRAMES, or ramp:FROM/TIME from one rate to the
    /// load
    #[arg(long, value_name = "SHAPE", default_value = "constant", value_parser = kpps_tester::shape, help_heading = heading::LOAD)]
    shape: Shape,
    /// Also report rates, losses and latencies of each interval of this length. For a trial of more than 3600
    /// intervals, kpps makes the intervals longer
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    interval: Option<Duration>,
    /// Frames that cannot be sent within a millisecond of their times. skip: they are left out, and count as
    /// shortfall. send: they are sent late, if need be after the end of --duration, and the result says how
    /// late they were
    #[arg(long, value_enum, value_name = "skip|send", hide_possible_values = true, default_value_t = LateFrames::Skip, help_heading = heading::LOAD)]
    late: LateFrames,
    #[command(flatten)]
    replay: ReplayArguments,
    /// The limits of the sending ports: results of `kpps calibrate`, one file for each direction
    #[arg(long, value_delimiter = ',', value_name = "FILE,…", help_heading = heading::BOUNDS)]
    calibration: Vec<PathBuf>,
    /// If the load is above the calibration, send nothing and end with exit code 1
    #[arg(long, requires = "calibration", help_heading = heading::BOUNDS)]
    strict: bool,
    /// Write the frames that were duplicated, reordered, corrupted or other traffic to this file (pcapng),
    /// each with its anomaly in a comment; at most 1000 frames of each kind and direction
    #[arg(long, value_name = "FILE", help_heading = heading::RESULTS)]
    capture: Option<PathBuf>,
    #[command(flatten)]
    capture_all: CaptureAll,
}

impl OnPorts {
    /// Refuses options that more than two ports do not have.
    fn check_several(&self, ports: &Ports) -> Result<(), Failure> {
        let only_two = [
            ("--shape", self.shape != Shape::Constant),
            ("--interval", self.interval.is_some()),
            ("--calibration", !self.calibration.is_empty()),
            ("--capture", self.capture.is_some()),
            ("--capture-all", self.capture_all.file().is_some()),
            ("--replay", self.replay.is_given()),
        ];
        only_two
            .into_iter()
            .filter(|(_, is_given)| *is_given)
            .try_for_each(|(it, _)| ports.refuse_several(it))
    }
}

/// How long frames are sent in real time by default.
const REAL: Duration = Duration::from_secs(2);

/// Runs `kpps trial`.
pub fn run(arguments: Arguments, session: &Session) -> Result<(), Failure> {
    let Arguments { size, load, duration, on_ports, outputs, bounds, target } = arguments;
    let arguments = TrialArguments { size, load, duration, outputs, bounds, target: target.resolve()? };
    match (&arguments.target.testbed, on_ports.first()) {
        (Chosen::Ports(ports), _) => between(ports, &on_ports, &arguments, session),
        (_, Some(option)) => {
            let name = arguments.target.name().join(",");
            Err(Failure::Input(format!("{option} is for two ports, not for {name}")))
        }
        (_, None) => without_ports(&arguments, session),
    }
}

/// The arguments of trials on any testbed.
struct TrialArguments {
    size: Option<Mix>,
    load: Option<RateSpec>,
    duration: Option<Duration>,
    outputs: Outputs,
    bounds: BoundArguments,
    target: Target,
}

/// Runs a trial between two ports.
fn between(
    ports: &Ports,
    on_ports: &OnPorts,
    arguments: &TrialArguments,
    session: &Session,
) -> Result<(), Failure> {
    let replay = on_ports.replay.read(arguments.load.is_none())?;
    kpps_tester::check_shape(on_ports.shape, arguments.load).map_err(Failure::Input)?;
    if replay.is_some() && ports.is_bidirectional() {
        return Err(Failure::Input(
            "--replay sends in one direction, because a capture has the addresses of one side: leave out --bidirectional and --replies".into(),
        ));
    }
    if ports.has_streams() && (replay.is_some() || on_ports.shape != Shape::Constant) {
        let option = if replay.is_some() { "--replay" } else { "--shape" };
        return Err(Failure::Input(format!(
            "{option} and --streams exclude each other: the file gives the frames and the shape of each stream"
        )));
    }
    if ports.has_streams() && !on_ports.calibration.is_empty() {
        return Err(Failure::Input(
            "--calibration and --streams exclude each other: a calibration is that of one frame, sent at one rate".into(),
        ));
    }
    if let Some(option) = ports.headers().filter(|_| replay.is_some()) {
        return Err(Failure::Input(format!(
            "{option} has no effect: --replay sends the frames of the capture with their own headers"
        )));
    }
    if on_ports.late == LateFrames::Send && is_unpaced(arguments, replay.as_ref()) {
        return Err(Failure::Input(
            "--late send is for frames with times, and a load as fast as possible has none: give --load"
                .into(),
        ));
    }
    on_ports.capture_all.check(ports)?;
    on_ports.check_several(ports)?;
    let mut tester = ports.open(session)?;
    ports.mesh(&mut tester, &arguments.target.sizes(arguments.size.as_ref())?);
    let form = on_ports.capture_all.form();
    tester.captures = form.into_iter().flat_map(|form| [(0, form), (1, form)]).collect();
    let offer = offer(ports, on_ports, arguments, &tester, replay.as_ref())?;
    let mut files = arguments.outputs.open(session, "trial")?;
    let capture = files.open(on_ports.capture.as_deref())?;
    let capture_all = files.open(on_ports.capture_all.file())?;
    let progress = Progress::of(format!("kpps trial: {}", tester.names().join(" and ")));
    let source = Box::new(Trials { gauges: tester.gauges(), can_change: true });
    let view =
        arguments.target.live.view(session, progress.clone(), source, arguments.outputs.for_machines())?;
    let sender = tester.sender(&offer, &on_ports.calibration)?;
    let offered_pps = offer.load.rate.pps();
    let too_slow = sender.as_ref().zip(offered_pps).and_then(|(sender, pps)| sender.too_slow(pps));
    if let Some(why) = too_slow.filter(|_| on_ports.strict) {
        return Err(Failure::Check(format!(
            "{why}; without --strict kpps offers the load all the same and marks the result"
        )));
    }
    let ceilings = sender.iter().flat_map(|sender| sender.ceilings_pps.iter().copied());
    tester.ceiling_pps = ceilings.min_by(f64::total_cmp);
    progress.begins(in_words(&offer.load), offered_pps);
    let outcome = undisturbed(&mut tester, &offer, &|| session.goes_on())?;
    drop(view);
    let capture = capture.map(|file| {
        let captured = kpps_tester::capture(file.path().display().to_string(), &outcome.directions);
        let frames = pcapng(&tester.names(), &outcome.directions);
        files
            .attach(file, frames.map_err(|e| format!("the capture of anomalous frames cannot be made: {e}")));
        captured
    });
    let capture_all = capture_all.and_then(|file| {
        let path = file.path().display().to_string();
        let captured = kpps_tester::capture_all(path, &tester.names(), &outcome);
        let frames = kpps_tester::pcapng_of_all(&tester.names(), &outcome);
        files.attach(file, frames.map_err(|e| format!("the capture of all frames cannot be made: {e}")));
        captured
    });
    let replay = replay.map(|replay| replay.document(&offer));
    let Some(mut trial) = document(&tester, &offer, &outcome) else {
        return Err(match (outcome.trouble, session.is_interrupted()) {
            (Some(trouble), _) => Failure::Failed(trouble.to_string()),
            (None, true) => Failure::Interrupted("interrupted before a frame was due".into()),
            (None, false) if ports.has_streams() => Failure::Input(
                "no frame of a stream is due in that time: measure longer, or let streams begin earlier"
                    .into(),
            ),
            (None, false) => Failure::Input("no frame is due in that time: measure longer".into()),
        });
    };
    trial.environment.traffic = ports.traffic_differences().filter(|_| replay.is_none());
    let trial = DetailedTrial { capture, capture_all, replay, sender, ..trial };
    publish(arguments, &trial, files, session)
}

/// Runs a trial without ports: in the simulator, on a guest, on a system whose rate is known.
fn without_ports(arguments: &TrialArguments, session: &Session) -> Result<(), Failure> {
    let target = &arguments.target;
    let name = target.name().join(",");
    let OpenTestbed { mut testbed, source, environment } = target.open(session)?;
    let sizes = target.sizes(arguments.size.as_ref())?;
    let line_pps = testbed.line_rate_pps(&sizes)?;
    // The highest load is the line rate.
    let offered_pps = arguments.load.unwrap_or(RateSpec::Max).pps(line_pps, sizes.mean_bytes_with_fcs());
    let usual = if target.is_simulated() { target.trial_time() } else { REAL };
    let load = target.load(Rate::Pps(offered_pps), sizes, Some(arguments.duration.unwrap_or(usual)));
    let files = arguments.outputs.open(session, "trial")?;
    session.watch();
    let progress = Progress::of(format!("kpps trial: {name}"));
    let view = target.live.view(session, progress.clone(), source, arguments.outputs.for_machines())?;
    progress.begins(in_words(&load), Some(offered_pps));
    let trial = testbed.trial_while(&load, &|| session.goes_on())?;
    drop(view);
    let document = detailed(environment.with_line_rate(Some(line_pps)), &load, trial);
    publish(arguments, &document.rounded(), files, session)
}

/// Publishes the trial, and ends as it ended, or by a bound that it breaks.
fn publish(
    arguments: &TrialArguments,
    trial: &DetailedTrial,
    mut files: Files,
    session: &Session,
) -> Result<(), Failure> {
    files.publish(trial, "")?;
    match (trial.trouble.clone(), session.is_interrupted()) {
        (Some(trouble), _) => Err(Failure::Failed(trouble)),
        (None, true) => Err(Failure::Interrupted(format!("interrupted after {:.1} s", trial.result.seconds))),
        (None, false) => Ok(arguments.bounds.get().trial(trial)?),
    }
}

/// Whether frames are sent as fast as the port takes them.
fn is_unpaced(arguments: &TrialArguments, replay: Option<&Playback>) -> bool {
    match (arguments.load, replay) {
        (Some(load), _) => load == RateSpec::Max,
        (None, replay) => replay.is_some_and(|replay| replay.times.is_none()),
    }
}

/// The load to offer, and for how long.
fn offer(
    ports: &Ports,
    on_ports: &OnPorts,
    arguments: &TrialArguments,
    tester: &Tester,
    replay: Option<&Playback>,
) -> Result<Offer, Failure> {
    let size = arguments.target.sizes(arguments.size.as_ref())?;
    let has_intervals = ports.has_metrics() && !ports.are_several();
    let usual = has_intervals.then_some(Duration::from_secs(1));
    let (keep, every, late) = (on_ports.capture.is_some(), on_ports.interval.or(usual), on_ports.late.into());
    let Some(replay) = replay else {
        let duration = arguments.duration.unwrap_or(REAL);
        let of_streams = RateSpec::Pps(streams_pps(&tester.streams));
        let load = arguments.load.unwrap_or(of_streams);
        return Ok(Offer { keep, every, late, ..ports.offer(tester, load, on_ports.shape, size, duration) });
    };
    let load = arguments.load.unwrap_or(RateSpec::Max);
    let offer = ports.offer(tester, load, on_ports.shape, replay.sizes.clone(), Duration::ZERO);
    replay.offer(Offer { keep, every, late, ..offer }, arguments.duration).map_err(Failure::Input)
}
