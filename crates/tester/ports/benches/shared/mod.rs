//! Parts that several benchmarks have. Each uses some of them.
#![allow(dead_code)]

use kpps_frames::build::Flow;
use kpps_frames::{Mix, Size, Templates};
use kpps_ports::port::run::{Glance, Watch};
use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Ends after a time, if there is one.
pub struct For(pub Option<Duration>);

impl Watch for For {
    fn at_most(&self) -> Option<Duration> {
        self.0
    }
    fn go_on(&mut self, _: &Glance) -> bool {
        true
    }
}

/// The smallest frames of this number of flows.
///
/// # Errors
/// There are too many flows.
pub fn frames(flows: u16) -> Result<Arc<Templates>, kpps_frames::Error> {
    let Flow { from_mac, to_mac, vlan, from, to } = Flow::default();
    let ip = |address: IpAddr, port: u16| (address, port);
    let flow = |n: u16| Flow {
        from_mac,
        to_mac,
        vlan,
        from: ip(from.0.into(), from.1 + n),
        to: ip(to.0.into(), to.1),
    };
    let flows: Vec<_> = (0..flows).map(flow).collect();
    Templates::of_flows(flows.into_iter(), &Mix::fixed(Size::MIN)).map(Arc::new)
}

/// The instructions of this program with these arguments, counted by callgrind.
///
/// # Errors
/// There is no valgrind, or the program fails; its report.
pub fn instructions(arguments: &[&str]) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run valgrind ({error}); it is needed to count instructions"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    let collected = report.lines().find_map(|line| line.split_once("Collected : "));
    match collected.and_then(|(_, number)| number.trim().parse().ok()) {
        Some(number) if output.status.success() => Ok(number),
        _ => Err(format!("valgrind failed:\n{report}")),
    }
}
