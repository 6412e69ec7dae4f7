//! The environment of a measurement: kernel, CPUs, and the interfaces of the ports.

use kpps_linux::ethtool;
use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::path::PathBuf;

/// The environment of this host and these ports with their interfaces, by name. Values that the system does
/// not report are missing.
pub fn environment(ports: &[(&str, Option<&str>)]) -> BTreeMap<String, String> {
    let read = |path: &str| read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let kernel = format!("{} {}", read("/proc/sys/kernel/ostype"), read("/proc/sys/kernel/osrelease"));
    let mut environment = BTreeMap::new();
    let mut say = |name: &str, what: String| {
        if !what.trim().is_empty() {
            environment.insert(name.to_owned(), what);
        }
    };
    say("kernel", kernel);
    say("cpus", cpus(&read("/proc/cpuinfo")));
    for (port, interface) in ports {
        say(port, interface.map_or_else(String::new, described));
    }
    environment
}

/// Number and model of the CPUs.
fn cpus(cpuinfo: &str) -> String {
    let of = |key: &'static str| {
        let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines.filter(move |(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    let count = of("processor").count();
    match of("model name").next() {
        Some(model) => format!("{count} × {model}"),
        None if count > 0 => count.to_string(),
        None => String::new(),
    }
}

/// Offloads that change frames or their cost: the kernel's names, or beginnings of them.
const OFFLOADS: [(&str, &str); 8] = [
    ("receive checksums", "rx-checksum"),
    ("transmit checksums", "tx-checksum-"),
    ("TSO", "tx-tcp-segmentation"),
    ("GSO", "tx-generic-segmentation"),
    ("GRO", "rx-gro"),
    ("LRO", "rx-lro"),
    ("VLAN tags", "rx-vlan-hw-parse"),
    ("flow hashes", "rx-hashing"),
];

/// Driver, speed, MTU, queues, rings, coalescing and offloads of an interface, as the kernel tells them.
fn described(interface: &str) -> String {
    let at = PathBuf::from("/sys/class/net").join(interface);
    let number = |name: &str| read_to_string(at.join(name)).ok()?.trim().parse::<i64>().ok();
    let queues = |kind: &str| {
        let names = read_dir(at.join("queues")).into_iter().flatten().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with(kind)).count()
    };
    let Some(mtu) = number("mtu") else { return String::new() };
    let mut words = Vec::new();
    words.extend(ethtool::driver(interface).ok().map(|driver| format!("driver {driver}")));
    // Without a link or a speed the kernel says -1.
    words.extend(number("speed").filter(|mbps| *mbps > 0).map(|mbps| format!("{mbps} Mb/s")));
    words.push(format!("MTU {mtu}"));
    words.push(format!("{} receive and {} transmit queues", queues("rx-"), queues("tx-")));
    if let Ok((receive, transmit)) = ethtool::rings(interface) {
        words.push(format!("rings of {receive} and {transmit} descriptors"));
    }
    if let Ok((receive, transmit)) = ethtool::coalescing_us(interface) {
        words.push(format!("interrupts delayed by up to {receive} (receive) and {transmit} (transmit) µs"));
    }
    if let Ok(Some(clock)) = ethtool::stamping_clock(interface) {
        words.push(format!("stamps received frames by its own clock (/dev/ptp{clock}), which is not used"));
    }
    if let Ok(features) = ethtool::features(interface) {
        let is =
            |name: &str, wanted: &str| name == wanted || wanted.ends_with('-') && name.starts_with(wanted);
        let is_on = |wanted: &str| features.iter().any(|(name, on)| *on && is(name, wanted));
        let offloads: Vec<_> =
            OFFLOADS.iter().filter(|(_, wanted)| is_on(wanted)).map(|(name, _)| *name).collect();
        words.push(match offloads.is_empty() {
            true => "no offloads".into(),
            false => format!("offloads: {}", offloads.join(", ")),
        });
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_describes_itself() {
        let said =
            environment(&[("packet:lo", Some("lo")), ("packet:no-such", Some("no-such")), ("udp::9", None)]);
        assert!(said["kernel"].starts_with("Linux "), "{said:?}");
        assert!(said["packet:lo"].contains("MTU 65536, 1 receive and 1 transmit"), "{said:?}");
        assert!(said["packet:lo"].contains("offloads: receive checksums, transmit checksums"), "{said:?}");
        assert!(!said.contains_key("packet:no-such"), "{said:?}");
        let two = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(cpus(two), "2 × Some CPU @ 2 GHz");
        assert_eq!((cpus("processor : 0\n"), cpus("")), ("1".into(), String::new()));
    }
}
