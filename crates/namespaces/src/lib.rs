//! Network namespaces for tests: each is a host of its own, with virtual cables between them, and programs that run there.
//!
//! They take root. Without it [`Net::new`] returns `None`, and the test counts as skipped ([`skip`]). A command that fails ends
//! the test with a panic that names it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod process;
pub mod skip;

pub use process::{Process, signal};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Moves this thread into a new network namespace, which lives as long as something uses it.
///
/// # Errors
/// Without the right to make one.
pub fn unshare() -> std::io::Result<()> {
    // SAFETY: only the network changes. Descriptors stay shared with the other threads.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// A network namespace; gone when dropped.
#[derive(Debug)]
pub struct Net(String);

impl Net {
    /// A new one, in which the kernel sends nothing by itself; `None` without the right to make one.
    pub fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("kpps-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let made = Command::new("ip").args(["netns", "add", &name]).stderr(Stdio::null()).status();
        if !made.is_ok_and(|status| status.success()) {
            skip::needs("root, to make a network namespace");
            return None;
        }
        let net = Self(name);
        // Or the kernel's neighbour discovery would send frames that nobody asked for. A kernel without IPv6 has no such files.
        net.run(
            "for all in all default; do
                 file=/proc/sys/net/ipv6/conf/$all/disable_ipv6; test ! -e $file || echo 1 > $file
             done",
        );
        Some(net)
    }

    /// A new one with the ends `a` and `b` of two cables, and a bridge between the other ends, `pa` and `pb`.
    pub fn with_bridge() -> Option<Self> {
        Self::with_bridge_of_queues(1)
    }

    /// The same with cables of so many queues, of which the n-th ones belong together.
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
        Some(net)
    }

    /// Two new ones: with the ends `a` and `b` of two cables, which have no addresses, and with a router between the other ends, `ra`
    /// (198.18.0.254) and `rb` (198.19.0.254).
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
        Some((ends, router))
    }

    /// Its name, as `ip` knows it.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// A program that is to run there.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program);
        command
    }

    /// Whether a line of shell succeeds there.
    pub fn can(&self, line: &str) -> bool {
        self.command("sh").args(["-c", line]).stderr(Stdio::null()).status().unwrap().success()
    }

    /// Runs a line of shell there.
    pub fn run(&self, line: &str) {
        assert!(self.command("sh").args(["-c", line]).status().unwrap().success(), "{line}");
    }

    /// What a line of shell prints there.
    pub fn output(&self, line: &str) -> String {
        String::from_utf8(self.command("sh").args(["-c", line]).output().unwrap().stdout).unwrap()
    }

    /// How many frames an interface there has sent.
    pub fn sent(&self, interface: &str) -> u64 {
        // A namespace that is entered has its own view of sysfs.
        self.output(&format!("cat /sys/class/net/{interface}/statistics/tx_packets")).trim().parse().unwrap()
    }

    /// This thread works there from now on, and those that it starts.
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

/// A tester's host and those of two agents, 10.9.0.1 and 10.9.0.2, which the tester, 10.9.0.254, reaches by a network beside. It also has the
/// device under test, a bridge with the ends `dut1` and `dut2` of the cables to the agents' ports.
#[derive(Debug)]
pub struct Agents {
    /// Where the tester works.
    pub tester: Net,
    /// Where the agents do.
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
        Some(Self { tester, agents })
    }
}
