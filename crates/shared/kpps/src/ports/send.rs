//! `kpps send`: test frames at an exact rate.

use super::KINDS;
use super::cores::Cores;
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
use kpps_frames::stack::Between;
use kpps_frames::{Mac, Mix, rate};
use kpps_methods::units::{self, RateSpec};
use kpps_ports::Spec;
use kpps_ports::port::run::{SendPlan, Shape, StreamPlan};
use kpps_ports::port::{AnyPort, Port};
use kpps_tester::{
    Playback, PortSent, Stream, Traffic, read_streams, sizes_of_streams, streams_plan, streams_pps,
};
use std::path::{Path, PathBuf};
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
  kpps send packet:veth0 --streams calls.toml --cores 2
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
    /// counts the others. send: they are sent late, and the run takes as long as --count, the capture or the
    /// streams need
    #[arg(long, value_enum, value_name = "skip|send", hide_possible_values = true, default_value_t = LateFrames::Skip, help_heading = heading::LOAD)]
    late: LateFrames,
    /// Keep the gaps between frames exact, to a byte time of the wire, with fillers: frames with a wrong FCS,
    /// which every receiver drops. Only for a card that kpps drives (uio:, vfio:)
    #[arg(long, requires = "load", conflicts_with_all = ["rewrite", "late", "streams"], help_heading = heading::LOAD)]
    fillers: bool,
    /// Stop after this time [default: 2s; with --count, and if all streams have an end: no limit]
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
    /// Send the streams of this file (TOML), as `kpps trial` does; all of them must be from port 1. --load
    /// scales them [default load: the rates in the file]. The guide describes the file
    #[arg(long, value_name = "FILE", help_heading = heading::TRAFFIC, conflicts_with_all = ["size", "shape", "count",
        "rewrite", "stream", "sport", "dport", "flows", "dscp", "ttl", "encap", "template", "vlan", "replay"])]
    streams: Option<PathBuf>,
    /// Send on this number of cores, or on these CPUs, as 0,2. Flows or streams take turns, and each is sent
    /// by one core. The port is packet:IFACE, xdp:IFACE or dpdk:DEVICE [default: 1]
    #[arg(long, value_name = "N|LIST", value_parser = Cores::read, help_heading = heading::CARDS_AND_CPUS)]
    cores: Option<Cores>,
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
    let flows = traffic.flows().map_err(Failure::Input)?;
    let streams = arguments.streams.as_deref().map(own_streams).transpose()?;
    if streams.is_some() && matches!(arguments.port, Spec::Udp { .. }) {
        return Err(kpps_tester::Error::NoStreams(arguments.port.to_string()).into());
    }
    if let Some(cores) = &arguments.cores {
        if replay.is_some() && cores.count > 1 {
            return Err(Failure::Input("--cores: a replay is sent by one core".into()));
        }
        cores.check(flows.count as usize, streams.as_ref().map(Vec::len), true)?;
    }
    let mut files = arguments.run.outputs.open(session, "send")?;
    let mut ports = arguments.run.ports.open_on(session, specs, false, arguments.cores.as_ref())?;
    let Some(port) = ports.first() else { return Ok(()) };
    let link = Link {
        speed: port.link().speed_mbps.map_or(rate::GIGABIT, |mbps| u64::from(mbps) * 1_000_000),
        macs: [Mac(port.address()?), arguments.dst_mac.unwrap_or(Flow::default().to_mac)],
    };
    let job = match streams {
        Some(streams) => arguments.streams(streams, &traffic, &link)?,
        None => arguments.one(&traffic, replay.as_ref(), &link)?,
    };
    match &replay {
        Some(replay) => {
            kpps_ports::Error::check_each(&arguments.port, port.longest(), replay.frames.lengths())?;
        }
        None => {
            let longest = job.plan.streams.iter().map(|stream| stream.frames.longest()).max();
            port.check(&arguments.port, longest.unwrap_or_default())?;
        }
    }
    if arguments.fillers {
        check_fillers(port, &arguments.port, job.plan.rate().pps(), job.sizes.line_rate_pps(link.speed))?;
    }
    let Planned { plan, sizes, streams, duration } = job;
    let offered = plan.rate().pps();
    let job = Job { command: "send", specs, offered_pps: offered, duration };
    let (sent, mut run) = arguments.run.run(session, &job, &mut ports, |ports, watch| {
        let send = |port| kpps_tester::send(port, &plan, watch);
        let sent = ports.first_mut().map_or(Ok(PortSent::default()), send)?;
        let elapsed = sent.frames.elapsed;
        Ok((sent, elapsed))
    })?;
    let load = |sent| kpps_tester::offered(&sizes, offered, replay.as_ref(), &streams, &sent);
    run.environment.shape = arguments.shape.name_unless_default();
    finish(&run.with_load(sent.map(load)), &mut files, "", false)
}

/// The streams of a file, all of which must be from the only port.
fn own_streams(path: &Path) -> Result<Vec<Stream>, Failure> {
    let streams = read_streams(path, 2).map_err(Failure::Input)?;
    match streams.iter().find(|stream| stream.from != 0) {
        Some(other) => Err(Failure::Input(format!(
            "{}: the stream {:?} is from port {}, and `kpps send` has one port: leave out `from`, or use `kpps trial`",
            path.display(),
            other.name,
            other.from + 1
        ))),
        None => Ok(streams),
    }
}

/// The port's end of the cable.
struct Link {
    /// In bit/s.
    speed: u64,
    /// The port's address, and that to which frames go.
    macs: [Mac; 2],
}

/// The frames to send.
struct Planned {
    plan: SendPlan,
    sizes: Mix,
    /// The streams, if a file describes them.
    streams: Vec<Stream>,
    /// How long it lasts, if not until all frames are sent.
    duration: Option<Duration>,
}

/// The time of sending without a limit: longer than any run.
const ENDLESS: Duration = Duration::from_secs(1 << 32);
/// The time of sending if neither a time nor a number of frames was given.
const USUAL: Duration = Duration::from_secs(2);

impl Arguments {
    /// The streams of a file.
    fn streams(&self, streams: Vec<Stream>, traffic: &Traffic, link: &Link) -> Result<Planned, Failure> {
        let streams: Vec<_> = streams.into_iter().map(|stream| stream.on_link(link.speed)).collect();
        let sizes = sizes_of_streams(&streams).unwrap_or_else(|| self.size.clone());
        let load = self.load.unwrap_or(RateSpec::Pps(streams_pps(&streams)));
        let rate = load.rate(sizes.line_rate_pps(link.speed), sizes.mean_bytes_with_fcs());
        if rate == Rate::Max && self.late == LateFrames::Send {
            return Err(Failure::Input(NO_TIMES.into()));
        }
        let ends = streams.iter().all(|stream| stream.count.is_some() || stream.duration.is_some());
        let duration = self.duration.or((!ends).then_some(USUAL));
        let ends = traffic.ends(&[], None).map_err(Failure::Input)?;
        if let Some(range) = ends.iter().map(|end| end.ips).find(|ips| ips.count() > 1) {
            return Err(Failure::Input(format!(
                "{range}: with --streams, --src and --dst are one address each: the file gives ranges to its streams"
            )));
        }
        let ips = ends.map(|end| end.ips.first());
        let between = Between { macs: link.macs, ips };
        let plan = streams_plan(&streams, between, rate, duration.unwrap_or(ENDLESS))?;
        Ok(Planned { plan: SendPlan { late: self.late.into(), ..plan }, sizes, streams, duration })
    }

    /// One stream: the frames of the options, or those of a capture.
    fn one(&self, traffic: &Traffic, replay: Option<&Playback>, link: &Link) -> Result<Planned, Failure> {
        let sizes = traffic.size().map_or_else(|| self.size.clone(), Mix::fixed);
        let frames = match replay {
            Some(replay) if self.dst_mac.is_some() => Arc::new((*replay.frames).clone().between(link.macs)),
            Some(replay) => replay.frames.clone(),
            None => Arc::new(traffic.frames(link.macs, &sizes).map_err(Failure::Input)?),
        };
        let sizes = replay.map_or(sizes, |replay| replay.sizes.clone());
        let times = replay.and_then(|replay| replay.times.clone());
        let load = self.load.unwrap_or(RateSpec::Max);
        let rate = load.rate(sizes.line_rate_pps(link.speed), sizes.mean_bytes_with_fcs());
        let sends_all = self.late == LateFrames::Send;
        if sends_all && (self.duration.is_some() || self.count.is_none() && replay.is_none()) {
            return Err(Failure::Input(
                "--late send ends after a number of frames, not after a time: give --count or --replay, and leave out \
                 --duration"
                    .into(),
            ));
        }
        if sends_all && rate == Rate::Max && times.is_none() {
            return Err(Failure::Input(NO_TIMES.into()));
        }
        let extent = replay.map(|replay| replay.extent(self.duration, self.count));
        let (all, whole) = extent.transpose().map_err(Failure::Input)?.unwrap_or_default();
        let count = self.count.or(all);
        let stream =
            StreamPlan { stream: self.stream, shape: self.shape, times, count, ..StreamPlan::of(frames) };
        let plan = SendPlan {
            as_they_are: replay.is_some(),
            rewrite: self.rewrite,
            late: self.late.into(),
            fillers: self.fillers,
            ..SendPlan::one(rate, stream)
        };
        let duration = match (self.duration, count) {
            (None, None) => Some(USUAL),
            (given, _) => given.or(whole.filter(|_| !sends_all)),
        };
        Ok(Planned { plan, sizes, streams: Vec::new(), duration })
    }
}

/// Why late frames cannot be sent of a load without times.
const NO_TIMES: &str =
    "--late send is for frames with times, and a load as fast as possible has none: give --load";

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
    if offered_pps > line_rate_pps.ceil() {
        return Err(Failure::Input(format!(
            "--fillers keeps the gaps of a load up to the line rate, {line_rate_pps:.0} frames per second: give a lower \
             --load"
        )));
    }
    Ok(())
}
