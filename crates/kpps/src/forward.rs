//! `kpps forward`: from one port to the other, both ways.

use crate::error::Failure;
use crate::run::{self, Common, Start};
use crate::units;
use clap::Args;
use kpps_frames::Size;
use kpps_ports::Spec;
use kpps_ports::port::run::{forward, prime};
use std::time::Duration;

/// Arguments of `kpps forward`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps forward uio:0000:00:10.0 uio:0000:00:11.0                 until Ctrl-C
  kpps forward uio:0000:00:10.0 uio:0000:00:11.0 --prime 32 --duration 5s
                        two cards on one wire: 32 frames go round and round

Frames are passed on as they are; between two cards nothing is copied. One for which the other
port has no room is dropped, and counted there as `full`.

Ports: uio:ADDRESS and vfio:ADDRESS (our driver; `kpps device list` shows cards),
xdp:INTERFACE[:QUEUE] (AF_XDP: its frames are taken from the kernel), packet:INTERFACE (packet sockets: the kernel
has them too; with its offloads off: ethtool -K eth1 tx off tso off gso off gro off),
auto:INTERFACE (the better of these two, with a word on why), udp:HOST:PORT (a socket; needs no privilege) and
udp::PORT (one that listens).")]
pub struct Arguments {
    /// One port: uio:ADDRESS, vfio:ADDRESS, auto:INTERFACE, xdp:INTERFACE[:QUEUE],
    /// packet:INTERFACE, udp:HOST:PORT or udp::PORT
    a: Spec,
    /// The other
    b: Spec,
    /// First send so many frames by the first port
    #[arg(long, default_value_t = 0, value_name = "FRAMES")]
    prime: u32,
    /// The size of those frames, in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size)]
    size: Size,
    /// Stop after this time [default: with Ctrl-C]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

/// Runs `kpps forward`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let specs = [arguments.a.clone(), arguments.b.clone()];
    let mut ports = arguments.common.open(&specs, true)?;
    let start = Start::now(&mut ports)?;
    let title = format!("kpps forward {} {}", arguments.a, arguments.b);
    let (meter, view) = arguments.common.show(title, None)?;
    let mut ends = arguments.common.ends(arguments.duration, &meter);
    let mut primed = 0;
    let elapsed = match &mut ports[..] {
        [first, second] => {
            primed = prime(first, arguments.prime, arguments.size).map_err(run::broken)?;
            match (first, second) {
                #[cfg(target_os = "linux")]
                (kpps_ports::port::AnyPort::Card(a), kpps_ports::port::AnyPort::Card(b)) => {
                    forward(&mut **a, &mut **b, &mut ends)
                }
                (a, b) => forward(a, b, &mut ends),
            }
        }
        _ => Ok(Duration::ZERO),
    };
    drop(view);
    let elapsed = elapsed.map_err(run::broken)?;
    let results = start.results("forward", &arguments.common, &specs, &mut ports, elapsed)?;
    let words = if arguments.prime > 0 { format!("{primed} frames to begin with\n") } else { String::new() };
    run::finish(&results, &arguments.common, &words, arguments.duration.is_none())
}
