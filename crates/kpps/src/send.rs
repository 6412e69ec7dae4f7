//! `kpps send`: test frames at an exact rate.

use crate::error::Failure;
use crate::replay::{Replay, ReplayArguments};
use crate::run::{self, Common, Start};
use crate::traffic::{self, Traffic};
use crate::units::{self, Rate};
use clap::Args;
use kpps_frames::{Mac, Mix, Templates, rate};
use kpps_ports::Spec;
use kpps_ports::port::Port;
use kpps_ports::port::run::{Load, Plan, Sent, Shape, TOLERANCE, send};
use kpps_report::Offered;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `kpps send`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps send packet:veth0 --load 10kpps --count 1000
  kpps send packet:veth0 --load 100MbpsL1 --size imix-csit --src 10.0.0.1-10.0.0.200 --flows 1000
  kpps send uio:0000:00:10.0 --load 50% --duration 10s --size 1518
  kpps send vfio:0000:00:10.0 --rewrite             how fast is it?
  kpps send packet:veth0 --replay seen.pcapng --speed 2x

Each frame carries a tag (stream, sequence, time, check), from which `kpps count` tells what was
lost, duplicated, reordered or corrupted. At a rate each frame is sent at its time whatever became
of those before; one that cannot be sent within a millisecond is counted as unsent, and as loss.

Ports: uio:ADDRESS and vfio:ADDRESS (our driver; `kpps device list` shows cards), xdp:INTERFACE[:QUEUE]
(AF_XDP: its frames are taken from the kernel), packet:INTERFACE (packet sockets: the kernel has
them too; with its offloads off: ethtool -K eth1 tx off tso off gso off gro off). Both send past tc's queues.
auto:INTERFACE is the better of these two, with a word on why; udp:HOST:PORT sends datagrams, without a privilege.")]
pub struct Arguments {
    /// Where to send: uio:ADDRESS, vfio:ADDRESS, auto:INTERFACE, xdp:INTERFACE[:QUEUE],
    /// packet:INTERFACE, udp:HOST:PORT or udp::PORT
    port: Spec,
    /// Frame size in bytes with FCS, or a mix: imix-csit, imix-trex, imix-linux, or sizes with weights as 64:7,570:4,1518:1
    #[arg(long, default_value = "64", value_parser = traffic::sizes)]
    size: Mix,
    /// Frames per second (100kpps, 1.2Mpps), a share of the line rate (50%), bits per second on layer 1 or 2 (500MbpsL1), or
    /// max: as fast as the port takes them
    /// [default: max; with --replay the times at which frames were seen]
    #[arg(long, value_parser = load)]
    load: Option<Rate>,
    /// How frames follow each other: constant; poisson; bursts:FRAMES at once; ramp:FROM/TIME up or down to the load
    #[arg(long, default_value = "constant", value_parser = units::shape)]
    shape: Shape,
    /// Stop after so many frames
    #[arg(long)]
    count: Option<u64>,
    /// Stop after this time [default: 2s, or none with --count]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    /// Write each frame anew, byte by byte, as a program would that builds its frames (otherwise only the tag)
    #[arg(long, conflicts_with = "replay")]
    rewrite: bool,
    /// The number of the stream in the tags
    #[arg(long, default_value_t = 0, conflicts_with = "replay")]
    stream: u16,
    /// Station to send to
    #[arg(long, default_value = "02:00:00:00:00:02", value_parser = mac)]
    to_mac: Mac,
    #[command(flatten)]
    traffic: Traffic,
    #[command(flatten)]
    replay: ReplayArguments,
    /// The VLAN of the frames: 1 to 4094
    #[arg(long, conflicts_with = "replay", value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
    #[command(flatten)]
    common: Common,
}

/// A load, or `max`.
pub fn load(text: &str) -> Result<Rate, String> {
    // `max` is above whatever any port can do.
    if text == "max" { Ok(Rate::Pps(f64::INFINITY)) } else { text.parse() }
}

/// A station address.
pub fn mac(text: &str) -> Result<Mac, String> {
    let parts: Vec<_> = text.split(':').map(|part| u8::from_str_radix(part, 16)).collect();
    let bytes: Result<Vec<u8>, _> = parts.into_iter().collect();
    bytes
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .map(Mac)
        .ok_or_else(|| format!("'{text}' is not a station address like 02:00:00:00:00:02"))
}

/// Runs `kpps send`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let specs = std::slice::from_ref(&arguments.port);
    let replay = arguments.replay.read(arguments.load.is_none())?;
    if replay.is_some() && !arguments.traffic.unusual(&[]).is_empty() {
        return Err(Failure::Input("--replay sends frames as they are, with their own addresses".into()));
    }
    let flows = arguments.traffic.flows()?;
    let mut ports = arguments.common.open(specs, false)?;
    let Some(port) = ports.first() else { return Ok(()) };
    let speed = port.link().speed_mbps.map_or(rate::GIGABIT, |mbps| u64::from(mbps) * 1_000_000);
    let frames = match &replay {
        Some(replay) => replay.frames.clone(),
        None => {
            let macs = [Mac(port.address().map_err(|e| Failure::Check(e.to_string()))?), arguments.to_mac];
            let frames = Templates::tests(&flows, macs, arguments.vlan, &arguments.size);
            let cannot = |why| Failure::Input(kpps_tester::Error::frame(&arguments.size, why).to_string());
            Arc::new(frames.map_err(cannot)?)
        }
    };
    let sizes = replay.as_ref().map_or(&arguments.size, |replay| &replay.sizes);
    let times = replay.as_ref().and_then(|replay| replay.times.clone());
    let load = arguments.load.unwrap_or(Rate::Pps(f64::INFINITY));
    let asked = load.pps(sizes.line_rate_pps(speed), sizes.mean_bytes_with_fcs());
    let offered = times.as_ref().map_or(Some(asked), |times| Some(times.mean_pps()));
    let offered = offered.filter(|pps| pps.is_finite());
    let otherwise = arguments.count.is_some() || arguments.duration.is_some();
    let (all, whole) = replay.as_ref().map_or((None, None), |replay| replay.extent(otherwise));
    let plan = Plan {
        load: offered.map_or(Load::Max, Load::Pps),
        shape: arguments.shape,
        times,
        as_they_are: replay.is_some(),
        frames,
        rewrite: arguments.rewrite,
        count: arguments.count.or(all),
        stream: arguments.stream,
        epoch: None,
    };
    let duration = match (arguments.duration, plan.count) {
        (None, None) => Some(Duration::from_secs(2)),
        (given, _) => given.or(whole),
    };
    let start = Start::now(&mut ports)?;
    let (meter, view) = arguments.common.show(format!("kpps send {}", arguments.port), offered)?;
    let mut ends = arguments.common.ends(duration, &meter);
    // A card has a loop of its own, so that nothing is decided for each frame; others pay for a system call.
    let sent = match ports.first_mut() {
        #[cfg(target_os = "linux")]
        Some(kpps_ports::port::AnyPort::Card(card)) => send(&mut **card, &plan, &mut ends),
        Some(port) => send(port, &plan, &mut ends),
        None => Ok(Sent::default()),
    };
    drop(view);
    let sent = sent.map_err(run::broken)?;
    let mut results = start.results("send", &arguments.common, specs, &mut ports, sent.elapsed)?;
    results.load = Some(Offered {
        size: sizes.name().into(),
        offered_pps: offered,
        intended: sent.intended,
        unsent: sent.unsent,
        shape: arguments.shape.unusual(),
        gaps: sent.gaps.as_ref().map(kpps_tester::gaps),
        departures: replay.as_ref().map(|replay| replay.departures.clone()).unwrap_or_default(),
    });
    run::finish(&results, &arguments.common, &words(arguments, replay.as_ref(), offered, &sent), false)
}

/// That a sender had to wait for a processor, if it did for a thousandth of its time.
pub fn waited(waited_ns: Option<u64>, seconds: f64) -> String {
    match waited_ns {
        Some(ns) if ns as f64 / 1e9 > seconds / 1e3 => format!(
            "the sender waited {:.1} ms for a processor that others had: late frames, and unsent ones, are theirs\n",
            ns as f64 / 1e6
        ),
        _ => String::new(),
    }
}

fn words(arguments: &Arguments, replay: Option<&Replay>, offered: Option<f64>, sent: &Sent) -> String {
    let mut text = String::new();
    let size = replay.map_or(&arguments.size, |replay| &replay.sizes);
    let name = if replay.is_some() { size.to_string() } else { format!("{size} B with FCS") };
    for departure in replay.iter().flat_map(|replay| &replay.departures) {
        let _ = writeln!(text, "{departure}");
    }
    let pps = sent.sent as f64 / sent.elapsed.as_secs_f64().max(1e-9);
    let asked = offered
        .map_or("as fast as the port takes them".into(), |pps| format!("{:.1} kpps asked for", pps / 1e3));
    let _ = writeln!(
        text,
        "frames of {name}, {asked}: {} due, {} sent, {} unsent; {:.1} Mb/s on layer 1, {:.1} Mb/s on layer 2",
        sent.intended,
        sent.sent,
        sent.unsent,
        size.l1_bits_per_s(pps) / 1e6,
        size.l2_bits_per_s(pps) / 1e6
    );
    if let (Some(gaps), Some(asked)) = (sent.gaps, offered) {
        let us = |ns: u64| ns as f64 / 1e3;
        let within = gaps.asked_ns.map_or(String::new(), |asked| {
            format!(
                "{:.2} % within {} us of {:.3} us; ",
                100.0 * gaps.within as f64 / gaps.count as f64,
                TOLERANCE.as_micros(),
                asked / 1e3
            )
        });
        let _ = writeln!(
            text,
            "{:.1} kpps really sent ({:+.3} %); gaps: {within}half up to {:.1} us, 99 % up to {:.1} us, 99.9 % up to {:.1} us, the longest {:.1} us",
            pps / 1e3,
            100.0 * (pps / asked - 1.0),
            us(gaps.p50_ns),
            us(gaps.p99_ns),
            us(gaps.p999_ns),
            us(gaps.longest_ns)
        );
        text += &waited(gaps.waited_ns, sent.elapsed.as_secs_f64());
    }
    if offered.is_some() && sent.unsent > 0 {
        let _ = writeln!(
            text,
            "the load was not sent as asked for: `kpps certify {}` tells what this port can send",
            arguments.port
        );
    }
    text
}
