//! Where frames went, by the system's counters before and after a trial.
//!
//! A dropped frame may be counted in several places. A frame that was refused and sent again is counted as
//! dropped, too. So counters cannot just be added up:
//!
//! - A full backlog of a CPU counts a frame three times: as `dropped` of the CPU, as `rx_dropped` of the
//!   veth's far end, and as `tx_dropped` of its near end. It is attributed once, to `backlog` of the far end.
//! - On the sending port, a packet socket may learn of a drop and repeat the frame. The frames really lost
//!   between port and wire are the frames that the port sent minus the frames that the interface sent; no
//!   more are attributed there. Exception: netem's counter is used as it is, because it drops and duplicates
//!   silently.
//! - A frame that found the socket of an XDP program full is `missed` by the port, and `rx_dropped` by some
//!   drivers, too. It is attributed once, to the port.
//! - A frame of a type that the kernel does not know is `rx_dropped` at the port's interface, after the port
//!   has taken it. At a veth it is known how many the port has not seen; no more are counted.
//! - Of a root discipline and its children only the root counts: its drops include theirs.
//! - A bridge's own interface counts the traffic of its host. IP's counters are of a whole namespace, and are
//!   used only where no port of the tester is.
//!
//! Where a packet socket receives, the kernel's protocols get a copy of each frame, and drop it if no other
//! socket wants it. So their counts there explain missing frames only if all of the counted frames may be
//! missing. An app of kpps reports its own losses at such a socket (`kpps_ports::told`).
//!
//! Counters of queues, backlogs and IP also count frames of others. Where the kernel reports which frames of
//! the trial it dropped (`kernel_drops`), its report counts: see [`Accounts`].

mod kernel_drops;

use crate::accounting::observe::{Interface, Namespace, Observation, Qdisc};
use kernel_drops::compare;
use std::collections::BTreeMap;
use std::fmt;

/// Counters of frames lost on reception. `rx_over_errors` and `rx_fifo_errors` are among the others.
const RECEIVE: [&str; 4] = ["rx_dropped", "rx_errors", "rx_missed_errors", "rx_nohandler"];
/// Also frames for other stations. They count in other namespaces than the tester's: in its own a port
/// receives everything, and frames that a bridge floods there are for others.
const FOR_OTHERS: &str = "rx_otherhost_dropped";
/// Counters of frames lost on transmission.
const TRANSMIT: [&str; 2] = ["tx_dropped", "tx_errors"];
/// How the counters of connection tracking begin, which are beside those of IP.
const CONNTRACK: &str = "conntrack";
/// The tester's own receive overflow.
const MISSED: &str = "missed";

/// The counts of a port of the tester in a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCount {
    /// The port's name.
    pub port: String,
    /// The interface in the tester's namespace, if it has one.
    pub interface: Option<String>,
    /// Frames sent, if it sends.
    pub sent: Option<u64>,
    /// Whether it receives frames of the trial.
    pub receives: bool,
    /// Receive overflow (tester): frames that found the port's queue full, if the port counts them.
    pub missed: Option<u64>,
    /// Frames that the port dropped because they were truncated, if its counters could be read.
    pub errors: Option<u64>,
    /// Frames that the port took in during the trial, other traffic among them, if it has finished.
    pub taken: Option<u64>,
}

/// Frames that did not arrive, by place.
///
/// Some counters include frames of others, or copies of a frame that arrived. They explain only frames that
/// no exact counter explains, in the order `possible`, `copies`, `in_flight_at`, `excess` (the tester's own
/// overflow first).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Lost frames.
    pub dropped: BTreeMap<String, u64>,
    /// Frames that were dropped behind a packet socket, which got them, too: all of a place are lost, or
    /// none.
    pub copies: BTreeMap<String, u64>,
    /// Frames that the kernel dropped and no counter has: copies may be among them. The most frequent first.
    /// Where the kernel does not report drops, counters that also count frames of others.
    pub possible: Vec<(String, u64)>,
    /// Frames that a queue still holds at the end, those of others among them.
    pub in_flight_at: BTreeMap<String, u64>,
    /// Frames that a counter has and the kernel did not report: probably frames of others.
    pub excess: BTreeMap<String, u64>,
}

/// A counter of lost frames, and its count.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// The interface with its namespace; the namespace for IP; or the port.
    at: String,
    counter: Counter,
    frames: u64,
    /// Whether a packet socket got these frames before.
    copied: bool,
}

/// A counter of lost frames.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Counter {
    /// A counter of an interface.
    Interface(&'static str),
    /// A counter of a virtual interface, as a veth: packets that the kernel dropped, including packets of
    /// others.
    Software(&'static str),
    /// A counter of a root discipline, by its kind.
    Discipline(String),
    /// A counter of a discipline at the ingress.
    Ingress(String),
    /// The backlog counters of the CPUs.
    Backlog,
    /// A counter of IP in a namespace.
    Ip(String),
    /// A counter of a port of the tester.
    Port(&'static str),
    /// A counter of an app of kpps.
    App(&'static str),
}

impl Known {
    /// Whether frames of others are among its frames, and the kernel drops a packet for each. Cards and
    /// drivers drop without a packet.
    fn counts_others(&self) -> bool {
        match &self.counter {
            Counter::Discipline(_) | Counter::Ingress(_) | Counter::Backlog | Counter::Ip(_) => true,
            Counter::Software(_) | Counter::App(_) => true,
            Counter::Port(name) => *name == MISSED && self.at.starts_with("packet:"),
            Counter::Interface(name) => *name == FOR_OTHERS,
        }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = &self.at;
        match &self.counter {
            Counter::Interface(counter) | Counter::Software(counter) | Counter::Port(counter) => {
                write!(f, "{at} {counter}")
            }
            Counter::Discipline(kind) | Counter::Ingress(kind) => write!(f, "{at} {kind}"),
            Counter::Backlog => write!(f, "{at} backlog"),
            Counter::Ip(counter) if counter.starts_with(CONNTRACK) => write!(f, "{at} {counter}"),
            Counter::Ip(counter) => write!(f, "{at} IP {counter}"),
            Counter::App(counter) => write!(f, "{at} kpps {counter}"),
        }
    }
}

/// The values of counters.
#[derive(Debug, Default)]
struct Read {
    known: Vec<Known>,
    in_flight_at: BTreeMap<String, u64>,
    /// For each sending port's interface, frames lost there that no counter has.
    left: BTreeMap<String, u64>,
}

impl Read {
    fn put(&mut self, at: &str, counter: Counter, frames: u64) {
        self.put_behind(at, counter, frames, false);
    }
    /// The same of a counter behind packet sockets, if there are some.
    fn put_behind(&mut self, at: &str, counter: Counter, frames: u64, copied: bool) {
        if frames > 0 {
            self.known.push(Known { at: at.to_owned(), counter, frames, copied });
        }
    }
}

/// An interface in both observations.
struct Between<'l> {
    namespace: Option<&'l str>,
    before: &'l Interface,
    after: &'l Interface,
    port: Option<&'l PortCount>,
}

impl Between<'_> {
    fn label(&self) -> String {
        match self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.after.name),
            None => self.after.name.clone(),
        }
    }
    fn count(&self, counter: &str) -> u64 {
        let of = |interface: &Interface| interface.counters.get(counter).copied().unwrap_or(0);
        of(self.after).saturating_sub(of(self.before))
    }
    /// Frames of the trial that it received.
    fn takes_in(&self) -> bool {
        self.port.is_none_or(|port| port.receives)
    }
    /// Frames that came to a veth and that the tester's packet socket there did not see. The kernel also
    /// drops frames that the socket has seen: frames of a type that it does not know, as MPLS.
    fn unseen(&self) -> Option<u64> {
        let port = self.port.filter(|port| port.port.starts_with("packet:"))?;
        let seen = port.taken? + port.missed?;
        let is_veth = self.after.kind.as_deref() == Some("veth") && !self.after.has_program;
        is_veth.then(|| self.count("rx_packets").saturating_sub(seen))
    }
    /// Whether a packet socket, none of the tester's, gets its frames before the kernel's protocols do.
    fn has_socket(&self) -> bool {
        self.port.is_none() && (self.before.has_socket || self.after.has_socket)
    }
    /// Frames of the trial that it sent.
    fn gives_out(&self) -> bool {
        self.port.is_none_or(|port| port.sent.is_some())
    }
    /// The disciplines at the root or at the ingress.
    fn qdiscs(&self, ingress: bool) -> impl Iterator<Item = &Qdisc> {
        self.after.qdiscs.iter().filter(move |qdisc| qdisc.ingress == ingress)
    }
    /// The earlier counts of a discipline, if it existed.
    fn earlier(&self, qdisc: &Qdisc) -> Option<&Qdisc> {
        self.before.qdiscs.iter().find(|it| (&it.kind, it.ingress) == (&qdisc.kind, qdisc.ingress))
    }
    /// Frames that a discipline dropped.
    fn drops(&self, qdisc: &Qdisc) -> u64 {
        // The kernel's counters have 32 bits.
        (qdisc.drops as u32).wrapping_sub(self.earlier(qdisc).map_or(0, |it| it.drops as u32)).into()
    }
    /// Whether that interface is the other end of this veth.
    fn is_peer_of(&self, other: &Self) -> bool {
        let to = |from: &Self, to: &Self| {
            let across = from.namespace != to.namespace;
            from.after.link == Some(to.after.index) && from.after.link_is_in_other_namespace == across
        };
        self.after.kind.as_deref() == Some("veth") && to(self, other) && to(other, self)
    }
}

/// Attributes frames dropped between two observations, while these ports sent and received.
pub fn account(before: &Observation, after: &Observation, ports: &[PortCount]) -> Accounts {
    let read = read(before, after, ports);
    let mut accounts = Accounts { in_flight_at: read.in_flight_at.clone(), ..Accounts::default() };
    let drops = after.kernel_drops.as_ref().map(|drops| drops.since(before.kernel_drops.as_ref()));
    compare(read, drops.as_ref(), ports, after, &mut accounts);
    accounts
}

/// Reads the counters.
fn read(before: &Observation, after: &Observation, ports: &[PortCount]) -> Read {
    let mut read = Read::default();
    let interfaces = interfaces(before, after, ports);
    // Without the CPUs' counters, what both ends of a veth have counted is the same frames.
    let backlog = after.softnet.zip(before.softnet).map(|(after, before)| after.since(before).dropped);
    let mut backlog = backlog.unwrap_or(u64::MAX);
    for one in &interfaces {
        // Reception. Frames that the other end could not deliver are attributed here, once.
        let sender = interfaces.iter().find(|other| one.is_peer_of(other));
        let shared =
            |other: &Between<'_>| other.count("tx_dropped").min(one.count("rx_dropped")).min(backlog);
        let in_backlog = sender.map_or(0, shared);
        backlog -= in_backlog;
        let label = one.label();
        if one.takes_in() {
            let missed = one.port.filter(|_| one.after.has_program).and_then(|port| port.missed);
            for counter in RECEIVE {
                let twice = if counter == "rx_dropped" { in_backlog + missed.unwrap_or(0) } else { 0 };
                let most = one.unseen().filter(|_| counter == "rx_dropped").unwrap_or(u64::MAX);
                // A program drops frames that are no packets yet. A virtual interface may have hardware below
                // it, with counters of its own.
                let of_packets = counter == "rx_dropped" || counter == "rx_nohandler";
                let software = of_packets && one.after.kind.is_some() && !one.after.has_program;
                let of = if software { Counter::Software } else { Counter::Interface };
                let frames = one.count(counter).saturating_sub(twice).min(most);
                read.put_behind(&label, of(counter), frames, one.has_socket() && of_packets);
            }
            if one.namespace.is_some() {
                read.put_behind(
                    &label,
                    Counter::Interface(FOR_OTHERS),
                    one.count(FOR_OTHERS),
                    one.has_socket(),
                );
            }
            for qdisc in one.qdiscs(true) {
                read.put_behind(
                    &label,
                    Counter::Ingress(qdisc.kind.clone()),
                    one.drops(qdisc),
                    one.has_socket(),
                );
            }
        }
        // Transmission of the other end, over the veth.
        if let Some(sender) = sender
            && sender.gives_out()
        {
            put_down_way_out(&mut read, sender, Some((label, in_backlog)));
        }
    }
    // Transmission to other ends that are not observed.
    for one in &interfaces {
        if one.gives_out() && !interfaces.iter().any(|other| other.is_peer_of(one)) {
            put_down_way_out(&mut read, one, None);
        }
    }
    for one in &interfaces {
        read.in_flight_at.extend(arrived_later(one, interfaces.iter().find(|other| one.is_peer_of(other))));
    }
    for port in ports.iter().filter(|port| port.receives) {
        read.put(&port.port, Counter::Port(MISSED), port.missed.unwrap_or(0));
        read.put(&port.port, Counter::Port("errors"), port.errors.unwrap_or(0));
    }
    for (name, namespace) in &after.namespaces {
        if let (Some(name), Some(before)) = (name, before.namespaces.get(name)) {
            let mut here = interfaces.iter().filter(|it| it.namespace == Some(name));
            let copied = here.any(Between::has_socket);
            for (counter, count) in ip(before, namespace) {
                read.put_behind(name, Counter::Ip(counter.clone()), count, copied);
            }
            for ((interface, counter), count) in &namespace.apps {
                let was = before.apps.get(&(interface.clone(), *counter)).copied().unwrap_or(0);
                read.put(&format!("{name}/{interface}"), Counter::App(counter), count.saturating_sub(was));
            }
        }
    }
    read
}

/// The place of a port's receive overflow.
pub(crate) fn missed(port: &str) -> String {
    Known { at: port.to_owned(), counter: Counter::Port(MISSED), frames: 0, copied: false }.to_string()
}

impl Accounts {
    /// Frames lost or possibly lost at a place, if `missing` frames are missing. Drops that the kernel did
    /// not report count only as far as nothing else explains the missing frames: the rest are frames of
    /// others.
    pub(crate) fn at(&self, place: &str, missing: u64) -> u64 {
        let of = |places: &BTreeMap<String, u64>| places.get(place).copied().unwrap_or(0);
        let possible = self.possible.iter().filter(|(name, _)| name == place).map(|(_, frames)| frames);
        let known = of(&self.dropped) + possible.sum::<u64>();
        known.max(of(&self.explaining(missing).0))
    }

    /// Frames lost for certain.
    pub fn total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Lost frames and frames in flight by place, if `missing` frames are missing. Possible places explain at
    /// most the frames that no other place explains.
    pub fn explaining(&self, missing: u64) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
        let mut left = missing.saturating_sub(self.total());
        let take = |left: &mut u64, frames: u64| {
            let taken = frames.min(*left);
            *left -= taken;
            taken
        };
        let (mut dropped, mut in_flight) = (self.dropped.clone(), BTreeMap::new());
        let put = |to: &mut BTreeMap<String, u64>, place: &str, frames: u64| {
            if frames > 0 {
                *to.entry(place.to_owned()).or_insert(0) += frames;
            }
        };
        for (place, frames) in &self.possible {
            put(&mut dropped, place, take(&mut left, *frames));
        }
        for (place, frames) in &self.copies {
            if *frames <= left {
                put(&mut dropped, place, take(&mut left, *frames));
            }
        }
        for (place, frames) in &self.in_flight_at {
            put(&mut in_flight, place, take(&mut left, *frames));
        }
        // Losses that may be the tester's are attributed to the tester first.
        let (own, others): (Vec<_>, Vec<_>) =
            self.excess.iter().partition(|(place, _)| place.ends_with(MISSED));
        for (place, frames) in own.into_iter().chain(others) {
            put(&mut dropped, place, take(&mut left, *frames));
        }
        (dropped, in_flight)
    }
}

/// The interfaces on the path of the trial's frames.
fn interfaces<'l>(
    before: &'l Observation,
    after: &'l Observation,
    ports: &'l [PortCount],
) -> Vec<Between<'l>> {
    let mut interfaces = Vec::new();
    for (name, namespace) in &after.namespaces {
        let Some(was) = before.namespaces.get(name) else { continue };
        for after in &namespace.interfaces {
            let Some(before) = was.interfaces.iter().find(|it| it.index == after.index) else { continue };
            if after.kind.as_deref() == Some("bridge") {
                continue;
            }
            let is_ours = |port: &&PortCount| name.is_none() && port.interface.as_ref() == Some(&after.name);
            let port = ports.iter().find(is_ours);
            interfaces.push(Between { namespace: name.as_deref(), before, after, port });
        }
    }
    interfaces
}

/// Frames that came to the interface of a receiving port after the port had stopped, if any: they were still
/// under way. The last queue before it reports the frames that it holds and the frames that it has passed on
/// at the same time, so that each frame is counted once.
fn arrived_later(one: &Between<'_>, peer: Option<&Between<'_>>) -> Option<(String, u64)> {
    let port = one.port.filter(|port| port.receives)?;
    let passed_on = peer.map_or(0, |peer| {
        let before = |it| peer.earlier(it).map_or(0, |was| was.packets);
        let passed = peer.qdiscs(false).map(|it| it.packets.saturating_sub(before(it)));
        passed.sum::<u64>().max(peer.count("tx_packets"))
    });
    // If the port's misses are not known, those frames may be among them.
    let ended = port.taken? + port.missed? + port.errors?;
    let later = one.count("rx_packets").max(passed_on).saturating_sub(ended);
    (later > 0).then(|| (port.port.clone(), later))
}

/// Drops on transmission of an interface: its discipline, its driver, and the backlog of the other end.
fn put_down_way_out(read: &mut Read, one: &Between<'_>, behind: Option<(String, u64)>) {
    let label = one.label();
    let (far, in_backlog) = behind.unwrap_or_default();
    let discipline = |it: &Qdisc| (&*label, Counter::Discipline(it.kind.clone()), one.drops(it));
    let mut places: Vec<(&str, Counter, u64)> = one.qdiscs(false).map(discipline).collect();
    for counter in TRANSMIT {
        let twice = if counter == "tx_dropped" { in_backlog } else { 0 };
        places.push((&label, Counter::Interface(counter), one.count(counter) - twice));
    }
    places.push((&far, Counter::Backlog, in_backlog));
    let is_netem = one.qdiscs(false).any(|qdisc| qdisc.kind == "netem");
    // Refused frames were sent again: frames that a port sent and its interface did not are lost here, and no
    // others.
    let mut lost = match one.port.and_then(|port| port.sent) {
        Some(sent) if !is_netem => sent.saturating_sub(one.count("tx_packets")),
        _ => u64::MAX,
    };
    for (at, counter, frames) in places {
        let frames = frames.min(lost);
        lost -= frames;
        read.put(at, counter, frames);
    }
    if one.port.is_some() {
        read.left.insert(label.clone(), if is_netem { 0 } else { lost });
    }
    let queued: u64 = one.qdiscs(false).map(|qdisc| qdisc.queued).sum();
    if queued > 0 {
        read.in_flight_at.insert(label, queued);
    }
}

fn ip<'l>(before: &'l Namespace, after: &'l Namespace) -> impl Iterator<Item = (&'l String, u64)> {
    after
        .ip
        .iter()
        .filter_map(|(counter, count)| Some((counter, count.saturating_sub(*before.ip.get(counter)?))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::accounting::observe::{KernelDrop, Softnet};

    fn cable(index: u32, name: &str, link: u32) -> Interface {
        let kind = Some("veth".into());
        Interface { index, name: name.into(), kind, link: Some(link), ..Interface::default() }
    }

    /// a–pa, a bridge, pb–b.
    fn observation() -> Observation {
        let softnet = Some(Softnet::default());
        let mut observation = Observation { softnet, ..Observation::default() };
        let own = observation.namespaces.entry(None).or_default();
        own.interfaces = vec![cable(1, "a", 2), cable(2, "pa", 1), cable(3, "b", 4), cable(4, "pb", 3)];
        observation
    }

    fn set(observation: &mut Observation, index: usize, counters: &[(&str, u64)]) {
        let interface = &mut observation.namespaces.get_mut(&None).unwrap().interfaces[index];
        interface.counters.extend(counters.iter().map(|(name, n)| ((*name).to_owned(), *n)));
    }

    fn ports(sent: u64, missed: u64) -> [PortCount; 2] {
        [
            PortCount {
                port: "packet:a".into(),
                interface: Some("a".into()),
                sent: Some(sent),
                ..Default::default()
            },
            PortCount {
                port: "packet:b".into(),
                interface: Some("b".into()),
                receives: true,
                missed: Some(missed),
                errors: Some(0),
                ..Default::default()
            },
        ]
    }

    /// All frames lost or possibly lost.
    fn all(accounts: &Accounts) -> Vec<(String, u64)> {
        accounts.explaining(u64::MAX).0.into_iter().collect()
    }

    fn dropped(observation: &Observation, sent: u64, missed: u64) -> Vec<(String, u64)> {
        all(&account(&self::observation(), observation, &ports(sent, missed)))
    }

    #[test]
    fn a_full_backlog_counts_once() {
        let mut after = observation();
        set(&mut after, 3, &[("tx_dropped", 7)]);
        set(&mut after, 2, &[("rx_dropped", 7)]);
        after.softnet = Some(Softnet { dropped: 7, ..Softnet::default() });
        set(&mut after, 0, &[("tx_packets", 100)]);
        assert_eq!(dropped(&after, 100, 2), [("b backlog".to_owned(), 7), ("packet:b missed".to_owned(), 2)]);
    }

    /// A port whose misses are not known explains nothing, and neither does an interface that was not seen
    /// before.
    #[test]
    fn what_was_not_counted_explains_nothing() {
        let mut after = observation();
        set(&mut after, 0, &[("tx_packets", 100)]);
        set(&mut after, 2, &[("rx_packets", 100)]);
        let [sender, receiver] = ports(100, 0);
        let known = PortCount { taken: Some(90), ..receiver };
        let later = account(&observation(), &after, &[sender.clone(), known.clone()]);
        assert_eq!(later.in_flight_at, [("packet:b".to_owned(), 10)].into());
        let unknown = PortCount { missed: None, ..known };
        assert_eq!(account(&observation(), &after, &[sender, unknown]), Accounts::default());

        let counted = |softnet| {
            let mut after = Observation { softnet, ..observation() };
            set(&mut after, 3, &[("tx_dropped", 7)]);
            set(&mut after, 2, &[("rx_dropped", 7)]);
            dropped(&after, 100, 0)
        };
        let both_ends = [("b backlog".to_owned(), 7)];
        assert_eq!(counted(None), both_ends, "once, not twice");
        assert_eq!(counted(Some(Softnet { dropped: 7, ..Softnet::default() })), both_ends);

        let ip = [("InHdrErrors".to_owned(), 5)].into();
        let mut before = observation();
        before.namespaces.insert(Some("r".into()), Namespace::default());
        after.namespaces.insert(Some("r".into()), Namespace { ip, ..Namespace::default() });
        assert_eq!(
            all(&account(&before, &after, &ports(100, 0))),
            [],
            "since it was started, not since before"
        );
    }

    #[test]
    fn a_full_socket_of_a_program_counts_once() {
        let mut after = observation();
        set(&mut after, 2, &[("rx_dropped", 9)]);
        set(&mut after, 0, &[("tx_packets", 100)]);
        let missed = ("packet:b missed".to_owned(), 7);
        assert_eq!(dropped(&after, 100, 7), [("b rx_dropped".to_owned(), 9), missed.clone()]);
        after.namespaces.get_mut(&None).unwrap().interfaces[2].has_program = true;
        assert_eq!(dropped(&after, 100, 7), [("b rx_dropped".to_owned(), 2), missed]);
        // Some drivers do not count them.
        assert_eq!(dropped(&after, 100, 12), [("packet:b missed".to_owned(), 12)]);
    }

    /// A veth drops packets of others, which the kernel's record does not have: nothing is lost there.
    #[test]
    fn what_a_veth_dropped_of_others_is_no_loss() {
        let mut after = observation();
        set(&mut after, 0, &[("tx_packets", 100)]);
        set(&mut after, 1, &[("rx_dropped", 1), ("rx_packets", 101)]);
        after.kernel_drops = Some(Default::default());
        let known = account(&observation(), &after, &ports(100, 0));
        assert_eq!((known.total(), known.explaining(0).0), (0, BTreeMap::new()));
        assert_eq!(known.explaining(1).0, [("pa rx_dropped".to_owned(), 1)].into(), "unless one is missing");
    }

    #[test]
    fn what_the_port_has_seen_is_not_dropped_before_it() {
        let mut after = observation();
        set(&mut after, 0, &[("tx_packets", 100)]);
        set(&mut after, 2, &[("rx_dropped", 100), ("rx_packets", 100)]);
        let mut ports = ports(100, 0);
        for (taken, dropped) in [(Some(100), 0), (Some(97), 3), (None, 100)] {
            ports[1].taken = taken;
            let all: u64 =
                all(&account(&observation(), &after, &ports)).iter().map(|(_, frames)| frames).sum();
            assert_eq!(all, dropped, "{taken:?}");
        }
    }

    /// Only for a veth it is known which frames the port's socket should have seen.
    #[test]
    fn what_the_port_missed_came_to_its_interface() {
        let mut ports = ports(100, 2);
        ports[1].taken = Some(97);
        for (kind, has_program, most) in
            [(Some("veth"), false, 1), (Some("veth"), true, 5), (Some("vlan"), false, 7), (None, false, 7)]
        {
            let mut after = observation();
            let interfaces = &mut after.namespaces.get_mut(&None).unwrap().interfaces;
            (interfaces[2].kind, interfaces[2].has_program) = (kind.map(str::to_owned), has_program);
            set(&mut after, 0, &[("tx_packets", 100)]);
            set(&mut after, 2, &[("rx_dropped", 7), ("rx_packets", 100)]);
            let all = all(&account(&observation(), &after, &ports));
            let expected = [("b rx_dropped".to_owned(), most), ("packet:b missed".to_owned(), 2)];
            assert_eq!(all, expected, "{kind:?} {has_program}");
        }
    }

    /// A kernel that does not report its drops.
    #[test]
    fn what_may_be_of_others_is_not_lost_for_certain() {
        let counters = |at: &mut Interface| {
            let names = ["rx_dropped", "rx_errors", "rx_nohandler", FOR_OTHERS];
            at.counters.extend(names.into_iter().zip(1..).map(|(name, n)| (name.to_owned(), n)));
        };
        let card = |index, name: &str| Interface { index, name: name.into(), ..Interface::default() };
        let router = |interfaces| (Some("r".to_owned()), Namespace { interfaces, ..Namespace::default() });
        let veth = |has_program, index, name| Interface { has_program, ..cable(index, name, 99) };
        let mut there = vec![card(1, "eth0"), veth(false, 2, "veth0"), veth(true, 3, "veth1")];
        let mut before = observation();
        before.namespaces.extend([router(there.clone())]);
        there.iter_mut().for_each(counters);
        let mut after = observation();
        after.namespaces.extend([router(there)]);
        set(&mut after, 0, &[("tx_packets", 100)]);
        let [sender, mut receiver] = ports(100, 5);
        receiver.errors = Some(6);
        let of = |places: &[(&str, u64)]| -> Vec<_> {
            places.iter().map(|(place, frames)| ((*place).to_owned(), *frames)).collect()
        };
        let accounts = account(&before, &after, &[sender.clone(), receiver.clone()]);
        let certain = [
            ("packet:b errors", 6),
            ("r/eth0 rx_dropped", 1),
            ("r/eth0 rx_errors", 2),
            ("r/eth0 rx_nohandler", 3),
            ("r/veth0 rx_errors", 2),
            ("r/veth1 rx_dropped", 1),
            ("r/veth1 rx_errors", 2),
            ("r/veth1 rx_nohandler", 3),
        ];
        assert_eq!(accounts.dropped.clone().into_iter().collect::<Vec<_>>(), of(&certain));
        let mut possible = accounts.possible;
        possible.sort();
        let others = [
            ("packet:b missed", 5),
            ("r/eth0 rx_otherhost_dropped", 4),
            ("r/veth0 rx_dropped", 1),
            ("r/veth0 rx_nohandler", 3),
            ("r/veth0 rx_otherhost_dropped", 4),
            ("r/veth1 rx_otherhost_dropped", 4),
        ];
        assert_eq!(possible, of(&others));
        // A packet socket's queue is for all packets, an AF_XDP socket's for what its program takes.
        receiver.port = "xdp:b".into();
        assert_eq!(account(&before, &after, &[sender, receiver]).dropped["xdp:b missed"], 5);
    }

    /// Frames that a port's interface received, or its last queue passed on, after the port had stopped.
    #[test]
    fn frames_that_arrive_later_were_under_way() {
        let queue =
            |kind: &str, ingress, packets| Qdisc { kind: kind.into(), ingress, packets, ..Qdisc::default() };
        let (mut before, mut after) = (observation(), observation());
        let to_port = |of: &mut Observation, qdiscs| {
            of.namespaces.get_mut(&None).unwrap().interfaces[3].qdiscs = qdiscs;
        };
        set(&mut after, 0, &[("tx_packets", 100)]);
        set(&mut after, 2, &[("rx_packets", 95)]);
        let [sender, receiver] = ports(100, 3);
        let receiver = PortCount { taken: Some(90), errors: Some(2), ..receiver };
        let ports = [sender, receiver];
        let later = |before: &Observation, after: &Observation| {
            account(before, after, &ports).in_flight_at.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(later(&before, &after), [], "all of 95 were taken, missed or damaged");
        to_port(&mut before, vec![queue("fq", false, 1000), queue("clsact", true, 0)]);
        to_port(&mut after, vec![queue("fq", false, 1099), queue("clsact", true, 9999)]);
        assert_eq!(later(&before, &after), [("packet:b".to_owned(), 4)]);
        // A new queue counts from 0.
        to_port(&mut after, vec![queue("tbf", false, 98)]);
        assert_eq!(later(&before, &after), [("packet:b".to_owned(), 3)]);
    }

    /// The CPUs' counter says how many of the frames that both ends of veths have counted those are.
    #[test]
    fn backlogs_are_attributed_no_more_than_the_cpus_dropped() {
        let mut after = observation();
        set(&mut after, 0, &[("tx_dropped", 5), ("tx_packets", 95)]);
        set(&mut after, 1, &[("rx_dropped", 5)]);
        set(&mut after, 3, &[("tx_dropped", 7)]);
        set(&mut after, 2, &[("rx_dropped", 7)]);
        after.softnet = Some(Softnet { dropped: 7, ..Softnet::default() });
        let places = [("b backlog", 2), ("b rx_dropped", 5), ("pa backlog", 5), ("pb tx_dropped", 5)];
        let places = places.map(|(place, frames)| (place.to_owned(), frames));
        assert_eq!(dropped(&after, 100, 0), places);
    }

    /// Interfaces are numbered in each namespace; and a VLAN, too, is linked to another interface.
    #[test]
    fn only_two_ends_of_a_veth_share_a_backlog() {
        let there = |name: &str, index, link, away| Interface {
            link_is_in_other_namespace: away,
            ..cable(index, name, link)
        };
        let with = |of_own: [Interface; 3], of_router: Interface| {
            let mut observation = observation();
            observation.namespaces.get_mut(&None).unwrap().interfaces = of_own.into();
            let router = Namespace { interfaces: vec![of_router], ..Namespace::default() };
            observation.namespaces.insert(Some("r".into()), router);
            observation
        };
        let eth = Interface { index: 1, name: "eth0".into(), ..Interface::default() };
        let vlan = Interface { kind: Some("vlan".into()), ..there("eth0.10", 3, 1, false) };
        let before = with([eth, there("out", 2, 2, true), vlan], there("in", 2, 2, true));
        let count = |at: &mut Interface, counter: &str| at.counters.insert(counter.to_owned(), 7);
        let mut after = before.clone();
        let own = &mut after.namespaces.get_mut(&None).unwrap().interfaces;
        count(&mut own[0], "rx_dropped");
        count(&mut own[1], "tx_dropped");
        count(&mut own[2], "tx_dropped");
        count(&mut after.namespaces.get_mut(&Some("r".into())).unwrap().interfaces[0], "rx_dropped");
        after.softnet = None;
        let lost = ["eth0 rx_dropped", "eth0.10 tx_dropped", "r/in backlog"];
        assert_eq!(all(&account(&before, &after, &[])), lost.map(|place| (place.to_owned(), 7)));
    }

    #[test]
    fn a_refused_frame_that_was_sent_again_is_not_lost() {
        let mut after = observation();
        set(&mut after, 0, &[("tx_dropped", 7), ("tx_packets", 98)]);
        set(&mut after, 1, &[("rx_dropped", 7)]);
        after.softnet = Some(Softnet { dropped: 7, ..Softnet::default() });
        assert_eq!(dropped(&after, 100, 0), [("pa backlog".to_owned(), 2)]);
        set(&mut after, 0, &[("tx_packets", 100)]);
        assert_eq!(dropped(&after, 100, 0), []);
        // Whichever counters refused it: two are missing.
        let fq = Qdisc { kind: "fq".into(), drops: 1, ..Qdisc::default() };
        after.namespaces.get_mut(&None).unwrap().interfaces[0].qdiscs = vec![fq];
        set(&mut after, 0, &[("tx_dropped", 70), ("tx_errors", 70), ("tx_packets", 98)]);
        assert_eq!(dropped(&after, 100, 0), [("a fq", 1), ("a tx_dropped", 1)].map(|(at, n)| (at.into(), n)));
    }

    /// Since the observation before, in 32 bits; those at the ingress drop what an interface received.
    #[test]
    fn disciplines_have_counted_before() {
        let qdisc =
            |kind: &str, ingress, drops| Qdisc { kind: kind.into(), ingress, drops, ..Qdisc::default() };
        let (mut before, mut after) = (observation(), observation());
        let to = |of: &mut Observation, index: usize, qdiscs| {
            of.namespaces.get_mut(&None).unwrap().interfaces[index].qdiscs = qdiscs;
        };
        to(&mut before, 1, vec![qdisc("fq", false, 0xffff_fffe), qdisc("clsact", true, 50)]);
        to(&mut after, 1, vec![qdisc("fq", false, 3), qdisc("clsact", true, 54)]);
        // Nothing of the trial comes to a port that only sends.
        to(&mut after, 0, vec![qdisc("clsact", true, 9)]);
        set(&mut after, 0, &[("tx_packets", 100)]);
        let accounts = account(&before, &after, &ports(100, 0));
        assert_eq!(all(&accounts), [("pa clsact", 4), ("pa fq", 5)].map(|(at, n)| (at.into(), n)));
        let back = PortCount { receives: true, ..ports(100, 0)[0].clone() };
        let accounts = account(&before, &after, &[back]);
        assert_eq!(
            all(&accounts),
            [("a clsact", 9), ("pa clsact", 4), ("pa fq", 5)].map(|(at, n)| (at.into(), n))
        );
    }

    #[test]
    fn disciplines_and_what_they_hold() {
        let mut after = observation();
        let qdisc = |drops, queued| Qdisc { kind: "netem".into(), drops, queued, ..Qdisc::default() };
        after.namespaces.get_mut(&None).unwrap().interfaces[3].qdiscs = vec![qdisc(5, 3)];
        after.namespaces.get_mut(&None).unwrap().interfaces[0].qdiscs = vec![qdisc(4, 0)];
        // netem has duplicated frames: more were sent than received.
        set(&mut after, 0, &[("tx_packets", 120)]);
        let accounts = account(&observation(), &after, &ports(100, 0));
        assert_eq!(all(&accounts), [("a netem".to_owned(), 4), ("pb netem".to_owned(), 5)]);
        assert_eq!(accounts.in_flight_at, [("pb".to_owned(), 3)].into());
    }

    #[test]
    fn ways_that_frames_do_not_go_are_not_counted() {
        let mut after = observation();
        set(&mut after, 0, &[("rx_dropped", 5), ("rx_nohandler", 5)]);
        set(&mut after, 2, &[("tx_dropped", 5), ("tx_errors", 5)]);
        assert_eq!(dropped(&after, 0, 0), []);
    }

    #[test]
    fn frames_for_others_are_lost_where_the_tester_is_not() {
        let mut after = observation();
        let router = |frames| {
            let mut interface = cable(1, "ra", 9);
            interface.counters.insert(FOR_OTHERS.into(), frames);
            Some(("r".to_owned(), Namespace { interfaces: vec![interface], ..Namespace::default() }))
        };
        let mut before = observation();
        before.namespaces.extend(router(3).map(|(name, space)| (Some(name), space)));
        after.namespaces.extend(router(10).map(|(name, space)| (Some(name), space)));
        // A bridge's port in the tester's own namespace.
        set(&mut after, 1, &[(FOR_OTHERS, 5)]);
        let accounts = account(&before, &after, &ports(100, 0));
        assert_eq!(all(&accounts), [(format!("r/ra {FOR_OTHERS}"), 7)]);
    }

    /// Where packet sockets get the frames, too, counters behind them count copies: they explain all or none.
    #[test]
    fn what_counts_copies_is_a_place_only_if_all_of_them_may_be_missing() {
        for (name, has_socket) in [("ra", true), ("ra", false)] {
            let seen = |frames: u64| {
                let counters = [(FOR_OTHERS.to_owned(), frames), ("rx_dropped".to_owned(), frames / 10)];
                let kind = Some("veth".into());
                let counters = counters.into();
                let ra = Interface {
                    name: name.into(),
                    index: 1,
                    kind,
                    has_socket,
                    counters,
                    ..Interface::default()
                };
                let ip = [("InAddrErrors".to_owned(), 2 * frames)].into();
                let apps = [(("ra".to_owned(), "missed"), frames / 4)].into();
                let router = Namespace { interfaces: vec![ra], ip, apps };
                Observation { namespaces: [(Some("r".into()), router)].into(), ..Observation::default() }
            };
            let accounts = account(&seen(0), &seen(1000), &ports(5000, 0));
            let at = |missing| accounts.explaining(missing).0.into_iter().collect::<Vec<_>>();
            let place = |name: &str, frames| (name.to_owned(), frames);
            if !has_socket {
                assert_eq!(at(0).len(), 0, "without the kernel's record they may be of others");
                assert!(at(3250).contains(&place("r IP InAddrErrors", 2000)));
                continue;
            }
            assert_eq!(at(0), []);
            // Frames that the app missed come first.
            assert_eq!(at(90), [place("r/ra kpps missed", 90)]);
            assert_eq!(at(300), [place("r/ra kpps missed", 250)]);
            assert_eq!(at(350), [place("r/ra kpps missed", 250), place("r/ra rx_dropped", 100)]);
        }
    }

    /// The kernel's record names the packet filter, which is a hook of connection tracking, too.
    #[test]
    fn connection_tracking_is_named() {
        let seen = |full| {
            let ip = [("conntrack table full".to_owned(), full)].into();
            let router = Namespace { ip, ..Namespace::default() };
            Observation { namespaces: [(Some("r".into()), router)].into(), ..Observation::default() }
        };
        let drop = KernelDrop {
            at: "r/ra".into(),
            reason: "NETFILTER_DROP".into(),
            function: Some("nf_hook_slow".into()),
            at_packet_socket: false,
        };
        let drops = [(drop, 500)].into_iter().collect();
        let after = Observation { kernel_drops: Some(drops), ..seen(400) };
        let accounts = account(&seen(0), &after, &ports(1000, 0));
        assert_eq!(accounts.dropped, [("r conntrack table full".to_owned(), 400)].into());
        assert_eq!(accounts.possible, [("r/ra netfilter drop (nf_hook_slow)".to_owned(), 100)]);
    }

    #[test]
    fn ip_counts_where_the_tester_is_not() {
        let mut after = observation();
        let ip = || [("InHdrErrors".to_owned(), 5)].into();
        after.namespaces.get_mut(&None).unwrap().ip = ip();
        let mut before = observation();
        let none = [("InHdrErrors".to_owned(), 0)].into();
        before.namespaces.insert(Some("r".into()), Namespace { ip: none, ..Namespace::default() });
        after.namespaces.insert(Some("r".into()), Namespace { ip: ip(), ..Namespace::default() });
        let accounts = account(&before, &after, &ports(100, 0));
        assert_eq!(all(&accounts), [("r IP InHdrErrors".to_owned(), 5)]);
    }
}
