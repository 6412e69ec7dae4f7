//! The counters of a system: interfaces, queueing disciplines, drivers, IP, backlogs, CPUs.
//!
//! Two observations, before and after a trial, show where frames went. Another network namespace is observed
//! by a thread that enters it.

#[cfg(target_os = "linux")]
mod cycles;
mod kernel_drops;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
mod proc;

#[cfg(target_os = "linux")]
pub use proc::cpus;

pub use kernel_drops::{KernelDrop, KernelDrops};

/// None: only Linux is observed.
#[cfg(not(target_os = "linux"))]
pub fn cpus() -> Vec<CpuTimes> {
    Vec::new()
}

use kpps_documents::detail::CpuTimes;
#[cfg(target_os = "linux")]
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
#[cfg(target_os = "linux")]
use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::str::FromStr;

/// Where named network namespaces are (ip-netns(8)).
#[cfg(target_os = "linux")]
const NAMESPACES: &str = "/run/netns";

/// The number of the interface of sockets that receive from all.
#[cfg(target_os = "linux")]
const ANY: u32 = 0;

/// An interface, or a whole namespace, to observe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// The namespace by name, if it is not the tester's own.
    pub namespace: Option<String>,
    /// The interface; `None` for the whole namespace.
    pub interface: Option<String>,
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        let scope = match text.split_once('/') {
            None => Self { namespace: None, interface: named(text) },
            Some((namespace, interface)) => Self { namespace: named(namespace), interface: named(interface) },
        };
        let is_namespace = scope.namespace.is_some() || !text.contains('/');
        let is_one = scope.interface.as_ref().is_none_or(|name| !name.contains(['/', ' ']));
        if text.is_empty() || !is_namespace || !is_one {
            return Err(format!(
                "'{text}' is not a place to observe: give IFACE, NAMESPACE/IFACE, or NAMESPACE/ for all of its interfaces"
            ));
        }
        Ok(scope)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(self.interface.as_deref().unwrap_or_default())
    }
}

/// A queueing discipline at the root of an interface, or at its ingress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// Its kind: `netem`, `fq_codel`, …
    pub kind: String,
    /// Whether it is at the ingress, not at the root.
    pub ingress: bool,
    /// Frames that it passed on.
    pub packets: u64,
    /// Frames that it dropped.
    pub drops: u64,
    /// Frames that it holds.
    pub queued: u64,
    /// Frames that it took back because the interface was full.
    pub requeues: u64,
    /// Times that a limit was reached.
    pub overlimits: u64,
}

/// The state of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number in its namespace.
    pub index: u32,
    /// Its kind: `veth`, `bridge`, …; a card has none.
    pub kind: Option<String>,
    /// Its driver.
    pub driver_name: Option<String>,
    /// The largest packet in bytes, without Ethernet header.
    pub mtu: u32,
    /// The number of the interface that it is linked to: the other end of a veth.
    pub link: Option<u32>,
    /// Whether the interface at `link` is in another namespace.
    pub link_is_in_other_namespace: bool,
    /// The number of the bridge that it is a port of.
    pub master: Option<u32>,
    /// Whether an XDP program takes its frames.
    pub has_program: bool,
    /// Whether a packet socket gets a copy of each of its frames before the kernel's protocols do.
    pub has_socket: bool,
    /// The kernel's counters (`ip -s -s link`).
    pub counters: BTreeMap<String, u64>,
    /// The driver's own counters (`ethtool -S`).
    pub driver: BTreeMap<String, u64>,
    /// Its queueing disciplines.
    pub qdiscs: Vec<Qdisc>,
}

#[cfg(target_os = "linux")]
impl Interface {
    /// A description: driver, MTU and queueing disciplines.
    fn described(&self) -> String {
        let name = self.driver_name.as_ref().or(self.kind.as_ref());
        let mut words: Vec<_> = name.map(|name| format!("driver {name}")).into_iter().collect();
        words.push(format!("MTU {}", self.mtu));
        words.extend(self.qdiscs.iter().map(|qdisc| format!("queueing discipline {}", qdisc.kind)));
        words.extend(self.has_program.then(|| "an XDP program".to_owned()));
        words.join(", ")
    }
}

/// The state of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// The observed interfaces.
    pub interfaces: Vec<Interface>,
    /// Packets that IP dropped, by counter (`nstat`).
    pub ip: BTreeMap<String, u64>,
    /// Frames that apps of kpps have lost there, by interface and counter.
    pub apps: BTreeMap<(String, &'static str), u64>,
}

/// The network work of all CPUs (`/proc/net/softnet_stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Frames that went through a backlog or a poll.
    pub processed: u64,
    /// Frames dropped because a backlog was full.
    pub dropped: u64,
    /// Times that a poll ended with work left.
    pub squeezed: u64,
}

impl Softnet {
    /// The counts since an earlier observation.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        // The kernel's counters have 32 bits for each CPU, and so has their sum.
        let change = |now: u64, then: u64| (now as u32).wrapping_sub(then as u32).into();
        Self {
            processed: change(self.processed, before.processed),
            dropped: change(self.dropped, before.dropped),
            squeezed: change(self.squeezed, before.squeezed),
        }
    }
}

/// One observation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Namespaces by name; the tester's own has none.
    pub namespaces: BTreeMap<Option<String>, Namespace>,
    /// Backlogs of the whole host, if the kernel reports them.
    pub softnet: Option<Softnet>,
    /// The CPU time of each CPU since boot, by use.
    pub cpus: Vec<CpuTimes>,
    /// Interrupts of the whole host, by their line in `/proc/interrupts`.
    pub interrupts: BTreeMap<String, u64>,
    /// Softirqs of the whole host, by kind.
    pub softirqs: BTreeMap<String, u64>,
    /// The frames of the trial that the kernel dropped; `None` where it does not report them.
    pub kernel_drops: Option<KernelDrops>,
}

/// The observed scopes.
#[derive(Clone, Debug, Default)]
pub struct ObservedScopes {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    scopes: BTreeSet<Scope>,
    #[cfg(target_os = "linux")]
    cycles: Option<cycles::Cycles>,
    #[cfg(target_os = "linux")]
    kernel_drops: kernel_drops::Counter,
    described: BTreeMap<String, String>,
    /// Interfaces of the tester's namespace that are not observed.
    #[cfg(target_os = "linux")]
    left_out: BTreeSet<String>,
}

impl ObservedScopes {
    /// The observed interfaces that are not the tester's own: each with its driver, MTU and queueing
    /// discipline.
    pub fn described(&self) -> &BTreeMap<String, String> {
        &self.described
    }
}

#[cfg(not(target_os = "linux"))]
impl ObservedScopes {
    /// Observes nothing: only Linux can be observed.
    ///
    /// # Errors
    /// A scope is given.
    pub fn around(_: &[String], given: &[Scope]) -> io::Result<Self> {
        let Some(scope) = given.first() else { return Ok(Self::default()) };
        let why = format!("{scope}: interface counters can be read on Linux only");
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// Observes nothing.
    ///
    /// # Errors
    /// None.
    pub fn observe(&self) -> io::Result<Observation> {
        Ok(Observation::default())
    }

    /// Does nothing.
    ///
    /// # Errors
    /// None.
    pub fn begin(&self, _: Option<u32>) -> io::Result<()> {
        Ok(())
    }

    /// Why the kernel's own drops are not observed.
    pub fn lacks_kernel_drops(&self) -> Option<&str> {
        Some("available on Linux only")
    }
}

#[cfg(target_os = "linux")]
impl ObservedScopes {
    /// Observes these scopes, and the interfaces around the tester's own in its namespace: the other ends of
    /// veths, their bridges, and the bridges' other ports.
    ///
    /// # Errors
    /// A scope that does not exist, or the reason why nothing can be observed.
    pub fn around(own: &[String], given: &[Scope]) -> io::Result<Self> {
        let here = netlink::interfaces()?;
        let found = connected(&here, own);
        let kernel_drops = kernel_drops::Counter::start(own);
        let ports = own;
        let own =
            own.iter().chain(&found).map(|name| Scope { namespace: None, interface: Some(name.clone()) });
        let scopes = own.clone().chain(given.iter().cloned()).collect();
        let cycles = cycles::Cycles::start(&proc::numbers());
        let mut observed =
            Self { scopes, cycles, kernel_drops, described: BTreeMap::new(), left_out: BTreeSet::new() };
        let observation = observed.observe()?;
        for (namespace, it) in &observation.namespaces {
            let is_port = |name: &String| namespace.is_none() && ports.contains(name);
            for interface in it.interfaces.iter().filter(|interface| !is_port(&interface.name)) {
                let scope = Scope { namespace: namespace.clone(), interface: Some(interface.name.clone()) };
                observed.described.insert(scope.to_string(), interface.described());
            }
        }
        let missing = observed.scopes.iter().find(|scope| {
            let namespace = observation.namespaces.get(&scope.namespace);
            let has =
                |name: &String| namespace.is_some_and(|it| it.interfaces.iter().any(|i| i.name == *name));
            scope.interface.as_ref().is_some_and(|name| !has(name))
        });
        match missing {
            Some(scope) => {
                Err(io::Error::new(io::ErrorKind::NotFound, format!("{scope}: no such interface")))
            }
            None => Ok(observed),
        }
    }

    /// No longer observes these interfaces of the tester's namespace: ports of other trials, which take the
    /// frames that come to them.
    pub fn leave_out(&mut self, interfaces: &[String]) {
        self.described.retain(|place, _| !interfaces.contains(place));
        self.left_out.extend(interfaces.iter().cloned());
    }

    fn wants(&self, namespace: Option<&String>, interface: &str) -> bool {
        if namespace.is_none() && self.left_out.contains(interface) {
            return false;
        }
        let of_it = |scope: &&Scope| scope.namespace.as_ref() == namespace;
        let named = |scope: &Scope| scope.interface.as_ref().is_none_or(|name| name == interface);
        self.scopes.iter().filter(of_it).any(named)
    }

    /// Observes them now.
    ///
    /// # Errors
    /// Errors of the system: a namespace that does not exist, or no right to enter it.
    pub fn observe(&self) -> io::Result<Observation> {
        let names: BTreeSet<_> = self.scopes.iter().map(|scope| scope.namespace.as_ref()).collect();
        let mut observation = Observation::default();
        for name in names.iter().copied() {
            let namespace = match name {
                None => self.here(None),
                Some(other) => self.other_namespace(other),
            }?;
            observation.namespaces.insert(name.cloned(), namespace);
        }
        observation.softnet = proc::softnet();
        observation.cpus = proc::cpus();
        let cycles = self.cycles.as_ref().and_then(|cycles| cycles.read().ok()).unwrap_or_default();
        for (cpu, cycles) in observation.cpus.iter_mut().zip(cycles) {
            cpu.cycles = Some(cycles);
        }
        observation.interrupts = proc::interrupts("/proc/interrupts");
        observation.softirqs = proc::interrupts("/proc/softirqs");
        observation.kernel_drops =
            self.kernel_drops.read(&names.into_iter().flatten().collect(), &self.left_out);
        Ok(observation)
    }

    /// From now on, counts the drops of this trial's frames; of all packets without one.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn begin(&self, trial: Option<u32>) -> io::Result<()> {
        self.kernel_drops.begin(trial)
    }

    /// Why the kernel's own drops are not observed.
    pub fn lacks_kernel_drops(&self) -> Option<&str> {
        self.kernel_drops.lacks()
    }

    /// The namespace of this thread.
    fn here(&self, name: Option<&String>) -> io::Result<Namespace> {
        let mut interfaces = netlink::interfaces()?;
        interfaces.retain(|interface| self.wants(name, &interface.name));
        let copied = proc::with_packet_sockets();
        for interface in &mut interfaces {
            interface.has_socket = copied.contains(&interface.index) || copied.contains(&ANY);
            interface.driver_name = kpps_linux::ethtool::driver(&interface.name).ok();
            // Many drivers have no counters of their own.
            interface.driver = kpps_linux::ethtool::statistics(&interface.name).unwrap_or_default();
        }
        let apps = if name.is_some() { kpps_ports::told::lost() } else { BTreeMap::new() };
        Ok(Namespace { interfaces, ip: proc::ip(), apps })
    }

    fn other_namespace(&self, name: &String) -> io::Result<Namespace> {
        let path = format!("{NAMESPACES}/{name}");
        let because =
            |error: io::Error| io::Error::new(error.kind(), format!("network namespace {name}: {error}"));
        let file = File::open(path).map_err(because)?;
        std::thread::scope(|scope| {
            let look = || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                self.here(Some(name))
            };
            let thread = std::thread::Builder::new().name("observer".into()).spawn_scoped(scope, look)?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the observing thread panicked")))
        })
        .map_err(because)
    }
}

/// The interfaces connected with these within their namespace.
#[cfg(any(test, target_os = "linux"))]
fn connected(all: &[Interface], own: &[String]) -> Vec<String> {
    let mut found: BTreeSet<u32> =
        all.iter().filter(|it| own.contains(&it.name)).map(|it| it.index).collect();
    loop {
        let next: BTreeSet<u32> = all
            .iter()
            .filter(|it| {
                let peer =
                    it.link.filter(|_| !it.link_is_in_other_namespace && it.kind.as_deref() == Some("veth"));
                let is_peer = peer.is_some_and(|peer| found.contains(&peer));
                let is_port = it.master.is_some_and(|master| found.contains(&master));
                let is_bridge =
                    all.iter().any(|port| found.contains(&port.index) && port.master == Some(it.index));
                is_peer || is_port || is_bridge
            })
            .map(|it| it.index)
            .collect();
        let before = found.len();
        found.extend(next);
        if found.len() == before {
            break;
        }
    }
    all.iter().filter(|it| found.contains(&it.index)).map(|it| it.name.clone()).collect()
}

/// Reads bytes as answers of the kernel, and as its files: an entry for a fuzz target.
#[cfg(all(any(feature = "fuzzing", test), target_os = "linux"))]
pub fn read_anything(bytes: &[u8]) {
    netlink::read(bytes);
    proc::read(&String::from_utf8_lossy(bytes));
    let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    let mut word = || words.next().unwrap_or_default();
    let (count, enabled, running) = (word(), word(), word());
    let times = [enabled, running].map(std::time::Duration::from_nanos);
    let _ = cycles::scaled(count, Some(times.into()));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_as_people_type_them() {
        for (text, namespace, interface) in [
            ("eth0", None, Some("eth0")),
            ("router/eth1", Some("router"), Some("eth1")),
            ("router/", Some("router"), None),
        ] {
            let scope: Scope = text.parse().unwrap();
            assert_eq!((scope.namespace.as_deref(), scope.interface.as_deref()), (namespace, interface));
            assert_eq!(scope.to_string(), text);
        }
        assert!(["", "/eth0", "a/b/c", "/"].iter().all(|text| text.parse::<Scope>().is_err()));
    }

    #[test]
    fn a_bridge_between_two_cables_is_found() {
        let cable = |index, name: &str, link, master| Interface {
            index,
            name: name.into(),
            kind: Some("veth".into()),
            link: Some(link),
            master,
            ..Interface::default()
        };
        let all = [
            cable(1, "a", 2, None),
            cable(2, "pa", 1, Some(9)),
            cable(3, "b", 4, None),
            cable(4, "pb", 3, Some(9)),
            Interface { index: 9, name: "br".into(), kind: Some("bridge".into()), ..Interface::default() },
            cable(5, "x", 6, None),
            cable(6, "y", 5, None),
            Interface { link_is_in_other_namespace: true, ..cable(7, "z", 1, None) },
        ];
        assert_eq!(connected(&all, &["a".into()]), ["a", "pa", "b", "pb", "br"]);
        assert_eq!(connected(&all, &["x".into()]), ["x", "y"]);
        assert_eq!(connected(&all, &["lo".into()]), [""; 0]);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let observed = ObservedScopes::around(&["lo".into()], &[]).unwrap();
        let observation = observed.observe().unwrap();
        let own = &observation.namespaces[&None];
        assert_eq!(own.interfaces[0].name, "lo");
        assert!(own.interfaces[0].counters.contains_key("rx_dropped"));
        assert!(own.ip.contains_key("InHdrErrors"));
        assert_eq!(proc::numbers().len(), observation.cpus.len());
        let busy: f64 = observation.cpus.iter().map(|p| p.user_s + p.system_s + p.idle_s).sum();
        assert!(
            busy > 1.0 && !observation.interrupts.is_empty() && observation.softirqs.contains_key("NET_RX")
        );
        let error = ObservedScopes::around(&["lo".into()], &["no-such".parse().unwrap()]).unwrap_err();
        assert!(error.to_string().contains("no-such"));
    }
}
