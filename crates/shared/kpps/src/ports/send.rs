//! `kpps send`: test frames at an exact rate.

use super::KINDS;
use super::late::LateFrames;
use super::options::{Job, RunOptions, finish};
use super::replay::ReplayArguments;
use super::traffic::{TrafficArguments, at_most};
use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::Args;
use kpps_frames::build::Flow;
use kpps_frames::rate::Rate;
use kpps_frames::{Mac, Mix, rate};
use kpps_methods::units::{self, RateSpec};
use kpps_ports::Spec;
use kpps_ports::port::run::{SendPlan, Sent, Shape, StreamPlan, send_any};
use kpps_ports::port::{AnyPort, Port};
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `kpps send`.
#[derive(Args)]
#[command(mut_arg("encap", |encap| encap.value_delimiter(None).value_name("LAYERS").help("Encapsulation of the frames: none, vlan:ID, qinq:ID, mpls:LABEL, \
    vxlan:NETWORK/OWN/OTHER (the tunnel's ends), joined by + from outside in, as qinq:100+vlan:7; numbers may be ranges")),
    after_help = format!("Examples:
  kpps send packet:veth0 --load 10kpps --count 1000
  kpps send packet:veth0 --load 100MbpsL1 --size imix-csit --src 10.0.0.1-10.0.0.200 --flows 1000
  kpps send uio:0000:00:10.0 --load 50% --duration 10s --size 1518
  kpps send vfio:0000:00:10.0 --rewrite             the highest rate
  kpps send packet:veth0 --replay seen.pcapng --speed 2x
  kpps send packet:veth0 --load 10kpps --count 5000 --late send     exactly 5000 frames
  kpps send uio:0000:00:10.0 --load 300kpps --shape poisson --fillers     gaps exact to a byte time

Each frame carries a tag (stream, sequence number, time, checksum), from which `kpps count` recognises lost,
duplicated, reordered and corrupted frames. A load with a rate is sent in an open loop, each frame at its own
time. A frame that cannot be sent within a millisecond of its time is not sent, and counts as generator
shortfall; with --late send it is sent late, and the result says how late frames were. packet: and xdp: ports bypass the interface's queueing discipline (tc).

{}", KINDS))]
pub struct Arguments {
    /// The port that sends
    port: Spec,
    /// Frame size in bytes with FCS
    #[arg(long, value_name = "SIZE|MIX", default_value = "64", value_parser = units::sizes, help_heading = heading::TRAFFIC)]
    size: Mix,
    /// Frames per second (100kpps, 1.2Mpps), a share of the line rate (50%), bits per second on layer 1 or 2
    /// (500MbpsL1), or max: as fast as the port takes them [default: max; with --replay: the times of the
    /// capture]
    #[arg(long, value_parser = units::rate_or_max, help_heading = heading::LOAD)]
    load: Option<RateSpec>,
    /// Distribution of the gaps: constant, poisson, bursts:FRAMES, or ramp:FROM/TIME from one rate to the
    /// load
    #[arg(long, value_name = "SHAPE", default_value = "constant", value_parser = kpps_tester::shape, help_heading = heading::LOAD)]
    shape: Shape,
    /// Stop after this many frames
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u64).range(1..), help_heading = heading::LOAD)]
    count: Option<u64>,
    /// Frames that cannot be sent within a millisecond of their times. skip: they are left out, and --count
    /// counts the others. send: they are sent late, and the run takes as long as --count or the capture needs
    #[arg(long, value_enum, value_name = "skip|send", hide_possible_values = true, default_value_t = LateFrames::Skip, help_heading = heading::LOAD)]
    late: LateFrames,
    /// Keep the gaps between frames exact, to a byte time of the wire, with fillers: frames with a wrong FCS,
    /// which every receiver drops. Only for a card that kpps drives (uio:, vfio:)
    #[arg(long, requires = "load", conflicts_with_all = ["rewrite", "late"], help_heading = heading::LOAD)]
    fillers: bool,
    /// Stop after this time [default: 2s; with --count: no limit]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    /// Write every byte of each frame, as an application would. Without this option only the tag is written
    #[arg(long, conflicts_with = "replay", help_heading = heading::LOAD)]
    rewrite: bool,
    /// Stream number in the tags
    #[arg(long, value_name = "NUMBER", default_value_t = 0, conflicts_with = "replay", help_heading = heading::LOAD)]
    stream: u16,
    /// MAC address to send to [default: 02:00:00:00:00:02; with --replay those of the capture]
    #[arg(long, value_name = "MAC", help_heading = heading::TRAFFIC)]
    dst_mac: Option<Mac>,
    #[command(flatten)]
    traffic: TrafficArguments,
    #[command(flatten)]
    replay: ReplayArguments,
    /// VLAN of the frames, 1 to 4094
    #[arg(long, value_name = "ID", conflicts_with = "replay", value_parser = clap::value_parser!(u16).range(1..=4094), help_heading = heading::TRAFFIC)]
    vlan: Option<u16>,
    #[command(flatten)]
    run: RunOptions,
}

/// Runs `kpps send`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let specs = std::slice::from_ref(&arguments.port);
    let replay = arguments.replay.read(arguments.load.is_none())?;
    kpps_tester::check_shape(arguments.shape, arguments.load).map_err(Failure::Input)?;
    at_most(1, "--encap", arguments.traffic.headers.encap.len())?;
    let traffic = arguments.traffic.chosen(arguments.vlan.as_slice());
    if replay.is_some() && !traffic.differences(&[]).is_empty() {
        return Err(Failure::Input(
            "--replay sends the frames of the capture unchanged, with their own addresses".into(),
        ));
    }
    traffic.flows().map_err(Failure::Input)?;
    let sizes = traffic.size().map_or_else(|| arguments.size.clone(), Mix::fixed);
    let mut files = arguments.run.outputs.open(session, "send")?;
    let mut ports = arguments.run.ports.open(session, specs, false)?;
    let Some(port) = ports.first() else { return Ok(()) };
    let speed = port.link().speed_mbps.map_or(rate::GIGABIT, |mbps| u64::from(mbps) * 1_000_000);
    let macs = [Mac(port.address()?), arguments.dst_mac.unwrap_or(Flow::default().to_mac)];
    let frames = match &replay {
        Some(replay) if arguments.dst_mac.is_some() => Arc::new((*replay.frames).clone().between(macs)),
        Some(replay) => replay.frames.clone(),
        None => Arc::new(traffic.frames(macs, &sizes).map_err(Failure::Input)?),
    };
    match &replay {
        Some(replay) => {
            kpps_ports::Error::check_each(&arguments.port, port.longest(), replay.frames.lengths())?;
        }
        None => port.check(&arguments.port, frames.longest())?,
    }
    let sizes = replay.as_ref().map_or(&sizes, |replay| &replay.sizes);
    let times = replay.as_ref().and_then(|replay| replay.times.clone());
    let load = arguments.load.unwrap_or(RateSpec::Max);
    let rate = load.rate(sizes.line_rate_pps(speed), sizes.mean_bytes_with_fcs());
    let rate = times.as_ref().map_or(rate, |times| Rate::Pps(times.mean_pps()));
    let offered = rate.pps();
    let sends_all = arguments.late == LateFrames::Send;
    if sends_all && (arguments.duration.is_some() || arguments.count.is_none() && replay.is_none()) {
        return Err(Failure::Input(
            "--late send ends after a number of frames, not after a time: give --count or --replay, and leave out \
             --duration"
                .into(),
        ));
    }
    if sends_all && offered.is_none() {
        return Err(Failure::Input(
            "--late send is for frames with times, and a load as fast as possible has none: give --load"
                .into(),
        ));
    }
    if arguments.fillers {
        check_fillers(port, &arguments.port, offered, sizes.line_rate_pps(speed))?;
    }
    let extent = replay.as_ref().map(|replay| replay.extent(arguments.duration, arguments.count));
    let (all, whole) = extent.transpose().map_err(Failure::Input)?.unwrap_or_default();
    let count = arguments.count.or(all);
    let stream = StreamPlan {
        stream: arguments.stream,
        shape: arguments.shape,
        times,
        count,
        ..StreamPlan::of(frames)
    };
    let plan = SendPlan {
        as_they_are: replay.is_some(),
        rewrite: arguments.rewrite,
        late: arguments.late.into(),
        fillers: arguments.fillers,
        ..SendPlan::one(rate, stream)
    };
    let duration = match (arguments.duration, count) {
        (None, None) => Some(Duration::from_secs(2)),
        (given, _) => given.or(whole.filter(|_| !sends_all)),
    };
    let job = Job { command: "send", specs, offered_pps: offered, duration };
    let (sent, mut run) = arguments.run.run(session, &job, &mut ports, |ports, watch| {
        let sent = ports.first_mut().map_or(Ok(Sent::default()), |port| send_any(port, &plan, watch))?;
        let elapsed = sent.elapsed;
        Ok((sent, elapsed))
    })?;
    let load = |sent| kpps_tester::offered(sizes, offered, replay.as_ref(), &sent);
    run.environment.shape = arguments.shape.name_unless_default();
    finish(&run.with_load(sent.map(load)), &mut files, "", false)
}

/// Refuses fillers on a port that sends none, and for a load that has no gaps.
fn check_fillers(
    port: &AnyPort,
    spec: &Spec,
    offered_pps: Option<f64>,
    line_rate_pps: f64,
) -> Result<(), Failure> {
    let offered_pps = offered_pps.unwrap_or(f64::INFINITY);
    if !port.sends_fillers() {
        return Err(Failure::Input(format!(
            "{spec} cannot send frames with a wrong FCS, so --fillers has no effect: give a card that kpps drives \
             (uio:ADDRESS, vfio:ADDRESS)"
        )));
    }
    if offered_pps > line_rate_pps {
        return Err(Failure::Input(format!(
            "--fillers keeps the gaps of a load up to the line rate, {line_rate_pps:.0} frames per second: give a lower \
             --load"
        )));
    }
    Ok(())
}
