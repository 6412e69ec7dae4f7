//! The counts of systems in a trial.

use crate::accounting::ledger::{Accounts, PortCount, account};
use crate::accounting::observe::{Interface, Observation, Softnet};
use kpps_documents::LINK_CHANGES;
use kpps_documents::detail::{CpuTimes, TrialHost};
use std::collections::BTreeMap;

/// Counters by name, without zeros.
pub type Counts = BTreeMap<String, u64>;

/// The counts of systems in a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Frames that did not arrive, by place.
    pub accounts: Accounts,
    /// The counters of each interface.
    pub interfaces: BTreeMap<String, Counts>,
    /// The drops of IP in each other network namespace.
    pub ip: BTreeMap<String, Counts>,
    /// The CPU time of each CPU, by use.
    pub cpus: Vec<CpuTimes>,
    /// The hosts of these CPUs.
    pub hosts: Vec<TrialHost>,
    /// Backlogs and polls of all CPUs.
    pub softnet: Counts,
    /// Interrupts by line.
    pub interrupts: Counts,
    /// Softirqs by kind.
    pub softirqs: Counts,
    /// Impossible counts from another host, in words. They are left out.
    pub unbelievable: Vec<String>,
}

impl Counted {
    /// Adds the counts of another system. If the system has a name, it becomes a prefix of its places.
    pub fn add(&mut self, system: Option<&str>, other: Self) {
        let place = |name: String| system.map_or(name.clone(), |system| format!("{system}/{name}"));
        let add = |to: &mut Counts, from: Counts, named: bool| {
            for (name, count) in from {
                *to.entry(if named { place(name) } else { name }).or_default() += count;
            }
        };
        add(&mut self.accounts.dropped, other.accounts.dropped, true);
        add(&mut self.accounts.copies, other.accounts.copies, true);
        add(&mut self.accounts.in_flight_at, other.accounts.in_flight_at, true);
        add(&mut self.accounts.excess, other.accounts.excess, true);
        let possible = other.accounts.possible.into_iter();
        self.accounts.possible.extend(possible.map(|(name, frames)| (place(name), frames)));
        self.interfaces.extend(other.interfaces.into_iter().map(|(name, counts)| (place(name), counts)));
        self.ip.extend(other.ip.into_iter().map(|(name, counts)| (place(name), counts)));
        let agent = system.map(ToOwned::to_owned);
        self.hosts.push(TrialHost { agent, cpus: other.cpus.len() });
        self.cpus.extend(other.cpus);
        add(&mut self.softnet, other.softnet, false);
        add(&mut self.interrupts, other.interrupts, true);
        add(&mut self.softirqs, other.softirqs, false);
        self.unbelievable.extend(other.unbelievable.into_iter().map(place));
    }
}

/// The counts of a system between two readings, while these ports sent and received.
pub fn counted(before: &Observation, after: &Observation, ports: &[PortCount]) -> Counted {
    let mut interfaces = BTreeMap::new();
    let mut ip = BTreeMap::new();
    for (name, namespace) in &after.namespaces {
        let Some(was) = before.namespaces.get(name) else { continue };
        for interface in &namespace.interfaces {
            let Some(before) = was.interfaces.iter().find(|it| it.index == interface.index) else { continue };
            interfaces.insert(label(name, &interface.name), changed(before, interface));
        }
        // An interface that is gone went down, and its counters with it.
        let is_there = |was: &&Interface| namespace.interfaces.iter().any(|it| it.index == was.index);
        for gone in was.interfaces.iter().filter(|was| !is_there(was)) {
            interfaces.insert(label(name, &gone.name), [(LINK_CHANGES.to_owned(), 1)].into());
        }
        if let Some(name) = name {
            ip.insert(name.clone(), since(&was.ip, &namespace.ip));
        }
    }
    let cpus = before.cpus.iter().zip(&after.cpus).map(|(from, to)| to.since(from));
    let softnet = after.softnet.zip(before.softnet).map(|(after, before)| {
        let Softnet { processed, dropped, squeezed } = after.since(before);
        [("processed", processed), ("dropped", dropped), ("squeezed", squeezed)]
    });
    Counted {
        accounts: account(before, after, ports),
        interfaces,
        ip,
        cpus: cpus.collect(),
        hosts: Vec::new(),
        softnet: softnet.into_iter().flatten().map(|(name, count)| (name.to_owned(), count)).collect(),
        interrupts: since(&before.interrupts, &after.interrupts),
        softirqs: since(&before.softirqs, &after.softirqs),
        unbelievable: Vec::new(),
    }
}

/// The name of an interface, with its namespace if that is another.
fn label(namespace: &Option<String>, interface: &str) -> String {
    namespace.as_ref().map_or_else(|| interface.to_owned(), |namespace| format!("{namespace}/{interface}"))
}

/// The changes, without zeros. The change of a counter that was not seen before is not known.
fn since(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let change =
        |(name, count): (&String, &u64)| Some((name.clone(), count.saturating_sub(*before.get(name)?)));
    after.iter().filter_map(change).filter(|(_, count)| *count > 0).collect()
}

/// An interface's counters, those of its driver and of its disciplines.
fn changed(before: &Interface, after: &Interface) -> BTreeMap<String, u64> {
    let mut counters = since(&before.counters, &after.counters);
    let driver = since(&before.driver, &after.driver).into_iter();
    counters.extend(driver.map(|(name, count)| (format!("driver {name}"), count)));
    for qdisc in &after.qdiscs {
        let was = before.qdiscs.iter().find(|it| (&it.kind, it.ingress) == (&qdisc.kind, qdisc.ingress));
        let was = was.cloned().unwrap_or_default();
        for (name, count) in [
            ("packets", (qdisc.packets as u32).wrapping_sub(was.packets as u32)),
            ("drops", (qdisc.drops as u32).wrapping_sub(was.drops as u32)),
            ("requeues", (qdisc.requeues as u32).wrapping_sub(was.requeues as u32)),
            ("overlimits", (qdisc.overlimits as u32).wrapping_sub(was.overlimits as u32)),
        ] {
            if count > 0 {
                counters.insert(format!("{} {name}", qdisc.kind), count.into());
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::observe::Namespace;

    /// A new interface of the same name is another one.
    #[test]
    fn an_interface_that_is_gone_went_down() {
        let with = |index| {
            let a = Interface { name: "a".into(), index, ..Interface::default() };
            let namespace = Namespace { interfaces: vec![a], ..Namespace::default() };
            Observation { namespaces: [(None, namespace)].into(), ..Observation::default() }
        };
        let gone =
            Observation { namespaces: [(None, Namespace::default())].into(), ..Observation::default() };
        let down = [("a".to_owned(), [(LINK_CHANGES.to_owned(), 1)].into())].into();
        for after in [gone, with(8)] {
            assert_eq!(counted(&with(7), &after, &[]).interfaces, down);
        }
        assert_eq!(counted(&with(7), &with(7), &[]).interfaces["a"], Counts::new());
    }

    #[test]
    fn what_was_not_observed_has_no_zeros() {
        let softnet = |processed| Some(Softnet { processed, ..Softnet::default() });
        let interrupts = |count| [("LOC".to_owned(), count)].into();
        let before = Observation { softnet: softnet(5), interrupts: interrupts(3), ..Observation::default() };
        let after = Observation { softnet: softnet(9), interrupts: interrupts(4), ..Observation::default() };
        let seen = counted(&before, &after, &[]);
        assert_eq!((seen.softnet["processed"], seen.softnet["dropped"]), (4, 0));
        assert_eq!(seen.interrupts, interrupts(1));
        let unseen = Observation::default();
        assert_eq!(counted(&before, &unseen, &[]), Counted::default());
        assert_eq!(counted(&unseen, &after, &[]), Counted::default(), "not since the system was started");
    }
}
