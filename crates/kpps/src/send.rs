//! `kpps send`: test frames at an exact rate.

use crate::error::Failure;
use crate::run::{self, Common, Start};
use crate::units::{self, Rate};
use clap::Args;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Mix, Size, rate};
use kpps_ports::Spec;
use kpps_ports::port::run::{Load, Plan, Sent, Shape, TOLERANCE, send};
use kpps_ports::port::{AnyPort, Port};
use kpps_report::Offered;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Arguments of `kpps send`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps send packet:veth0 --load 10kpps --count 1000
  kpps send uio:0000:00:10.0 --load 50% --duration 10s --size 1518
  kpps send vfio:0000:00:10.0 --rewrite             how fast is it?

Each frame carries a tag (stream, sequence, time, check), from which `kpps count` tells what was
lost, duplicated, reordered or corrupted. At a rate each frame is sent at its time whatever became
of those before; one that cannot be sent within a millisecond is counted as unsent, and as loss.

Ports: uio:ADDRESS and vfio:ADDRESS (our driver; `kpps device list` shows cards), xdp:INTERFACE[:QUEUE]
(AF_XDP: the queue's frames are taken from the kernel), packet:INTERFACE (packet sockets: the kernel has
them too; with its offloads off: ethtool -K eth1 tx off tso off gso off gro off). Both send past tc's queues.
auto:INTERFACE is the better of these two, with a word on why; udp:HOST:PORT sends datagrams, without a privilege.")]
pub struct Arguments {
    /// Where to send: uio:ADDRESS, vfio:ADDRESS, auto:INTERFACE, xdp:INTERFACE[:QUEUE],
    /// packet:INTERFACE, udp:HOST:PORT or udp::PORT
    port: Spec,
    /// Frame size in bytes with FCS, or a mix: imix-csit, imix-trex, imix-linux, or sizes with weights as 64:7,570:4,1518:1
    #[arg(long, default_value = "64", value_parser = sizes)]
    size: Mix,
    /// Frames per second (100kpps, 1.2Mpps), a share of the line rate (50%), bits per second on layer 1 or 2 (500MbpsL1), or
    /// max: as fast as the port takes them
    #[arg(long, default_value = "max", value_parser = load)]
    load: Rate,
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
    #[arg(long)]
    rewrite: bool,
    /// The number of the stream in the tags
    #[arg(long, default_value_t = 0)]
    stream: u16,
    /// Station to send to
    #[arg(long, default_value = "02:00:00:00:00:02", value_parser = mac)]
    to_mac: Mac,
    /// Address to send from
    #[arg(long, default_value = "198.18.0.1")]
    from: Ipv4Addr,
    /// Address to send to
    #[arg(long, default_value = "198.19.0.2")]
    to: Ipv4Addr,
    /// So many flows in turns: source ports from 49152 up, then addresses to send from, upwards
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=MOST_FLOWS))]
    flows: u32,
    /// The VLAN of the frames: 1 to 4094
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
    #[command(flatten)]
    common: Common,
}

/// The most flows: each has frames of its own in memory.
const MOST_FLOWS: i64 = 100_000;
/// Ports from the first dynamic one up.
const PORTS: u32 = 16_384;

/// The flow of this number: another port, and after all ports another address.
fn nth(flow: &Flow, number: u32) -> Flow {
    let (address, port) = flow.from;
    let address = Ipv4Addr::from(u32::from(address).wrapping_add(number / PORTS));
    Flow { from: (address, port.wrapping_add((number % PORTS) as u16)), ..*flow }
}

fn sizes(text: &str) -> Result<Mix, String> {
    match units::size(text) {
        Ok(size) if size <= Size::MAX_STANDARD => Ok(Mix::fixed(size)),
        Ok(size) => Err(format!(
            "frames of {} bytes do not fit a port's buffers: at most {} with FCS",
            size.bytes_with_fcs(),
            Size::MAX_STANDARD.bytes_with_fcs()
        )),
        Err(_) if text.starts_with("imix") || text.contains(':') => {
            let mix: Mix = text.parse().map_err(|e| format!("{e}"))?;
            match mix.parts().iter().find(|(size, _)| *size > Size::MAX_STANDARD) {
                None => Ok(mix),
                Some((size, _)) => {
                    Err(format!("frames of {} bytes do not fit a port's buffers", size.bytes_with_fcs()))
                }
            }
        }
        Err(why) => Err(why),
    }
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
    let mut ports = arguments.common.open(specs, false)?;
    let Some(port) = ports.first() else { return Ok(()) };
    let speed = port.link().speed_mbps.map_or(rate::GIGABIT, |mbps| u64::from(mbps) * 1_000_000);
    let (line_pps, bytes) = (arguments.size.line_rate_pps(speed), arguments.size.mean_bytes_with_fcs());
    let offered = Some(arguments.load.pps(line_pps, bytes)).filter(|pps| pps.is_finite());
    let flow = Flow {
        from_mac: Mac(port.address().map_err(|e| Failure::Check(e.to_string()))?),
        to_mac: arguments.to_mac,
        from: (arguments.from, 49152),
        to: (arguments.to, 9),
        vlan: arguments.vlan,
    };
    let sizes = arguments.size.period();
    // Each flow has a whole period of sizes, then it is the next one.
    let frames = (0..arguments.flows as usize * sizes.len())
        .map(|number| udp_test(&nth(&flow, (number / sizes.len()) as u32), sizes[number % sizes.len()]));
    let plan = Plan {
        load: offered.map_or(Load::Max, Load::Pps),
        shape: arguments.shape,
        frames: frames.collect::<Result<_, _>>().map_err(|e| Failure::Input(e.to_string()))?,
        rewrite: arguments.rewrite,
        count: arguments.count,
        stream: arguments.stream,
        epoch: None,
    };
    let duration = match (arguments.duration, arguments.count) {
        (None, None) => Some(Duration::from_secs(2)),
        (given, _) => given,
    };
    let start = Start::now(&mut ports)?;
    let (meter, view) = arguments.common.show(format!("kpps send {}", arguments.port), offered)?;
    let mut ends = arguments.common.ends(duration, &meter);
    // A card has a loop of its own, so that nothing is decided for each frame; others pay for a system call.
    let sent = match ports.first_mut() {
        Some(AnyPort::Card(card)) => send(&mut **card, &plan, &mut ends),
        Some(port) => send(port, &plan, &mut ends),
        None => Ok(Sent::default()),
    };
    drop(view);
    let sent = sent.map_err(run::broken)?;
    let mut results = start.results("send", &arguments.common, specs, &mut ports, sent.elapsed)?;
    results.load = Some(Offered {
        size: arguments.size.name().into(),
        offered_pps: offered,
        intended: sent.intended,
        unsent: sent.unsent,
        shape: arguments.shape.unusual(),
        gaps: sent.gaps.as_ref().map(kpps_tester::gaps),
    });
    run::finish(&results, &arguments.common, &words(arguments, offered, &sent), false)
}

fn words(arguments: &Arguments, offered: Option<f64>, sent: &Sent) -> String {
    let mut text = String::new();
    let size = &arguments.size;
    let pps = sent.sent as f64 / sent.elapsed.as_secs_f64().max(1e-9);
    let asked = offered
        .map_or("as fast as the port takes them".into(), |pps| format!("{:.1} kpps asked for", pps / 1e3));
    let _ = writeln!(
        text,
        "frames of {} B with FCS, {asked}: {} due, {} sent, {} unsent; {:.1} Mb/s (L2)",
        size.name(),
        sent.intended,
        sent.sent,
        sent.unsent,
        pps * size.mean_bytes_with_fcs() * 8.0 / 1e6
    );
    if let (Some(gaps), Some(asked)) = (sent.gaps, offered) {
        let us = |ns: u64| ns as f64 / 1e3;
        let _ = writeln!(
            text,
            "{:.1} kpps really sent ({:+.3} %); gaps: {:.2} % within {} us of {:.3} us; half up to {:.1} us, 99 % up to {:.1} us, 99.9 % up to {:.1} us, the longest {:.1} us",
            pps / 1e3,
            100.0 * (pps / asked - 1.0),
            100.0 * gaps.within as f64 / gaps.count as f64,
            TOLERANCE.as_micros(),
            1e6 / asked,
            us(gaps.p50_ns),
            us(gaps.p99_ns),
            us(gaps.p999_ns),
            us(gaps.longest_ns)
        );
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
