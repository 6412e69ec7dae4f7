//! Network namespaces for tests. Each is a host of its own, connected with others by veths, and runs
//! programs.
//!
//! They need root. Without it [`Net::new`] returns `None`, and the test counts as skipped ([`skip`]). A
//! failing command ends the test with a panic that names it.
//!
//! ```no_run
//! let Some(net) = kpps_namespaces::Net::with_bridge() else { return };
//! net.run("ip address add 198.18.0.1/24 dev a");
//! assert!(net.can("ip link show br"));
//! ```
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod own_port;
mod process;
mod python;
pub mod skip;
mod tries;

pub use own_port::own_port;
pub use process::{Process, signal};
pub use python::python;
pub use tries::{says_short_of_cpu, until_undisturbed};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Moves this thread into a new network namespace, which lives as long as it is used.
///
/// # Errors
/// Without the right to make one.
pub fn unshare() -> std::io::Result<()> {
    // SAFETY: only the network changes. Descriptors stay shared with the other threads.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// How long interfaces may take until they send, or a bridge's ports until they forward.
const READY: Duration = Duration::from_secs(20);

/// A network namespace, which is deleted when this is dropped.
#[derive(Debug)]
pub struct Net(String);

impl Net {
    /// A new namespace, in which the kernel sends nothing by itself; `None` without the right to make one.
    pub fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("kpps-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let made = Command::new("ip").args(["netns", "add", &name]).stderr(Stdio::null()).status();
        if !made.is_ok_and(|status| status.success()) {
            skip::needs("root, to make a network namespace");
            return None;
        }
        let net = Self(name);
        // Neighbour discovery would send frames. A kernel without IPv6 has no such files.
        net.run(
            "for all in all default; do
                 file=/proc/sys/net/ipv6/conf/$all/disable_ipv6; test ! -e $file || echo 1 > $file
             done",
        );
        Some(net)
    }

    /// A new namespace with the ends `a` and `b` of two veths, and a bridge between the other ends, `pa` and
    /// `pb`.
    pub fn with_bridge() -> Option<Self> {
        Self::with_bridge_of_queues(1)
    }

    /// As [`with_bridge`](Self::with_bridge), with veths of `queues` queues. The n-th queues of both ends
    /// belong together.
    pub fn with_bridge_of_queues(queues: u32) -> Option<Self> {
        let net = Self::new()?;
        net.run(&format!(
            "queues='numtxqueues {queues} numrxqueues {queues}'
             ip link add name a $queues type veth peer name pa $queues &&
             ip link add name b $queues type veth peer name pb $queues &&
             ip link add name br type bridge mcast_snooping 0 &&
             ip link set dev pa master br && ip link set dev pb master br &&
             for i in a pa pb b br; do ip link set dev $i up; done"
        ));
        net.await_forwarding(&["pa", "pb"]);
        Some(net)
    }

    /// A new namespace with a bridge between this number of ports: the ends `a`, `b` and so on of veths.
    /// Their other ends, `pa`, `pb` and so on, belong to the bridge.
    pub fn with_bridge_of_ports(ports: u8) -> Option<Self> {
        let net = Self::new()?;
        let names: Vec<String> =
            (b'a'..).take(ports.into()).map(|name| char::from(name).to_string()).collect();
        net.run(&format!(
            "ip link add name br type bridge mcast_snooping 0 && ip link set dev br up &&
             for i in {}; do
                 ip link add name $i type veth peer name p$i && ip link set dev p$i master br &&
                 ip link set dev $i up && ip link set dev p$i up || exit 1
             done",
            names.join(" ")
        ));
        let ends: Vec<String> = names.iter().map(|name| format!("p{name}")).collect();
        net.await_forwarding(&ends.iter().map(String::as_str).collect::<Vec<_>>());
        Some(net)
    }

    /// Two new namespaces: one with the ends `a` and `b` of two veths, without addresses; the other with a
    /// router between the other ends, `ra` (198.18.0.254) and `rb` (198.19.0.254).
    pub fn with_router() -> Option<(Self, Self)> {
        let (ends, router) = (Self::new()?, Self::new()?);
        for (end, port, network) in [("a", "ra", 18), ("b", "rb", 19)] {
            ends.run(&format!(
                "ip link add name {end} type veth peer name {port} netns {} && ip link set dev {end} up",
                router.name()
            ));
            router.run(&format!(
                "ip address add 198.{network}.0.254/24 dev {port} && ip link set dev {port} up"
            ));
        }
        router.run("echo 1 > /proc/sys/net/ipv4/ip_forward");
        ends.await_sending(&["a", "b"]);
        router.await_sending(&["ra", "rb"]);
        Some((ends, router))
    }

    /// Its name for `ip`.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// A program to be run there.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program);
        command
    }

    /// Runs a shell command there. Returns whether it succeeds.
    pub fn can(&self, line: &str) -> bool {
        self.command("sh").args(["-c", line]).stderr(Stdio::null()).status().unwrap().success()
    }

    /// Runs a shell command there, which must succeed.
    pub fn run(&self, line: &str) {
        assert!(self.command("sh").args(["-c", line]).status().unwrap().success(), "{line}");
    }

    /// The output of a shell command there.
    pub fn output(&self, line: &str) -> String {
        String::from_utf8(self.command("sh").args(["-c", line]).output().unwrap().stdout).unwrap()
    }

    /// Waits until the bridge there forwards what comes in by these ports. It does so only when the kernel
    /// has noticed that their links are up, and a busy machine notices late.
    pub fn await_forwarding(&self, ports: &[&str]) {
        // BR_STATE_FORWARDING is 3.
        self.await_each(ports, "forwards", |port| format!("grep -q 3 /sys/class/net/{port}/brport/state"));
    }

    /// Waits until these interfaces send. Until the kernel has noticed that their links are up, their queue
    /// is `noop`, which drops all.
    fn await_sending(&self, interfaces: &[&str]) {
        self.await_each(interfaces, "sends", |name| {
            format!("! ip -oneline link show dev {name} | grep -q 'qdisc noop '")
        });
    }

    fn await_each(&self, interfaces: &[&str], does: &str, test: impl Fn(&str) -> String) {
        let until = Instant::now() + READY;
        while !interfaces.iter().all(|name| self.can(&test(name))) {
            assert!(Instant::now() < until, "not each of {interfaces:?} {does}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Frames that an interface there has sent.
    pub fn sent(&self, interface: &str) -> u64 {
        // An entered namespace has its own view of sysfs.
        self.output(&format!("cat /sys/class/net/{interface}/statistics/tx_packets")).trim().parse().unwrap()
    }

    /// Moves this thread there, and the threads that it starts from now on.
    pub fn enter(&self) {
        let namespace = File::open(format!("/run/netns/{}", self.0)).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// A tester's host and two agents' hosts. The agents have 10.9.0.1 and 10.9.0.2, and the tester, 10.9.0.254,
/// reaches them by a separate network. The tester's host also has the device under test: a bridge with the
/// ends `dut1` and `dut2` of veths to the agents' ports.
#[derive(Debug)]
pub struct Agents {
    /// The tester's namespace.
    pub tester: Net,
    /// The agents' namespaces.
    pub agents: [Net; 2],
}

impl Agents {
    /// With agents' ports of these names; `None` without the right to make namespaces.
    pub fn new(ports: [&str; 2]) -> Option<Self> {
        let (tester, agents) = (Net::new()?, [Net::new()?, Net::new()?]);
        for bridge in ["dut", "mgmt"] {
            tester.run(&format!(
                "ip link add name {bridge} type bridge mcast_snooping 0 && ip link set dev {bridge} up"
            ));
        }
        tester.run("ip link set dev lo up && ip address add 10.9.0.254/24 dev mgmt");
        for (agent, (port, number)) in agents.iter().zip(ports.into_iter().zip(1..)) {
            agent.run("ip link set dev lo up");
            for (end, bridge) in [(port, "dut"), ("m", "mgmt")] {
                let here = format!("{bridge}{number}");
                tester.run(&format!(
                    "ip link add name {here} type veth peer name {end} netns {} &&
                     ip link set dev {here} master {bridge} && ip link set dev {here} up",
                    agent.name()
                ));
                agent.run(&format!("ip link set dev {end} up"));
            }
            agent.run(&format!("ip address add 10.9.0.{number}/24 dev m"));
        }
        tester.await_forwarding(&["dut1", "dut2", "mgmt1", "mgmt2"]);
        Some(Self { tester, agents })
    }
}
