//! The kernel's text files: proc(5).

use super::Softnet;
use kpps_documents::detail::CpuTimes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;

/// Counters of `/proc/net/snmp` and `/proc/net/netstat` for packets that IP drops. A drop is in one of them
/// only. Bad checksums are among `InHdrErrors`.
const IP_DROPS: [(&str, &str); 11] = [
    ("Ip", "InHdrErrors"),
    ("Ip", "InAddrErrors"),
    ("Ip", "InUnknownProtos"),
    ("Ip", "InDiscards"),
    ("Ip", "OutDiscards"),
    ("Ip", "OutNoRoutes"),
    ("Ip", "ReasmFails"),
    ("Ip", "FragFails"),
    ("IpExt", "InNoRoutes"),
    ("IpExt", "InTruncatedPkts"),
    ("TcpExt", "IPReversePathFilter"),
];

/// Counters of `/proc/net/stat/nf_conntrack` for packets that connection tracking drops, and their meaning.
/// The first counts packets of new connections for which the table has no room.
pub(crate) const CONNTRACK: [(&str, &str); 2] =
    [("drop", "conntrack table full"), ("insert_failed", "conntrack insert failed")];

/// Packets that IP and connection tracking have dropped in the namespace of this thread.
pub(super) fn ip() -> BTreeMap<String, u64> {
    let tracked = read_to_string("/proc/thread-self/net/stat/nf_conntrack").unwrap_or_default();
    let mut counters = parse_conntrack(&tracked);
    counters.extend(protocols());
    counters
}

/// A line of names, and one of hexadecimal counts for each CPU.
fn parse_conntrack(text: &str) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    let names: Vec<_> = lines.next().unwrap_or_default().split_whitespace().collect();
    let rows: Vec<Vec<_>> = lines
        .map(|line| line.split_whitespace().map(|hex| u64::from_str_radix(hex, 16).ok()).collect())
        .collect();
    let sum = |name: &str| {
        let at = names.iter().position(|it| *it == name)?;
        rows.iter().map(|row| row.get(at).copied().flatten()).sum::<Option<u64>>()
    };
    let of = |(name, meaning): (&str, &str)| Some((meaning.to_owned(), sum(name)?));
    CONNTRACK.into_iter().filter_map(of).filter(|_| !rows.is_empty()).collect()
}

fn protocols() -> BTreeMap<String, u64> {
    ["snmp", "netstat"]
        .iter()
        .flat_map(|file| {
            parse_ip(&read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default())
        })
        .collect()
}

/// A line of names and a line of values for each protocol.
fn parse_ip(text: &str) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    let lines: Vec<_> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let protocol = pair[0].split(':').next().unwrap_or_default();
        let values = pair[1].split_whitespace();
        for (name, value) in pair[0].split_whitespace().zip(values).skip(1) {
            if IP_DROPS.contains(&(protocol, name)) {
                counters.extend(value.parse().ok().map(|count| (name.to_owned(), count)));
            }
        }
    }
    counters
}

/// The numbers of the interfaces that packet sockets receive IP packets from, in the namespace of this
/// thread; 0 for all of them.
pub(super) fn with_packet_sockets() -> BTreeSet<u32> {
    parse_packet(&read_to_string("/proc/thread-self/net/packet").unwrap_or_default())
}

fn parse_packet(text: &str) -> BTreeSet<u32> {
    // All frames, IPv4, IPv6. A socket that only sends has 0.
    const PROTOCOLS: [&str; 3] = ["0003", "0800", "86dd"];
    let interface = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (protocol, interface) = (words.get(3)?, words.get(4)?);
        PROTOCOLS.contains(protocol).then(|| interface.parse().ok())?
    };
    text.lines().filter_map(interface).collect()
}

/// Sums of `/proc/net/softnet_stat`: a line for each CPU, in hexadecimal. `None` if the kernel does not
/// report them.
pub(super) fn softnet() -> Option<Softnet> {
    parse_softnet(&read_to_string("/proc/thread-self/net/softnet_stat").ok()?)
}

fn parse_softnet(text: &str) -> Option<Softnet> {
    let mut sum = Softnet::default();
    for line in text.lines() {
        let mut values = line.split_whitespace().map(|hex| u64::from_str_radix(hex, 16).ok());
        for count in [&mut sum.processed, &mut sum.dropped, &mut sum.squeezed] {
            *count = count.checked_add(values.next()??)?;
        }
    }
    (!text.is_empty()).then_some(sum)
}

/// The CPU time of each CPU since boot, by use: the lines `cpu0`, `cpu1`, … of `/proc/stat`.
pub fn cpus() -> Vec<CpuTimes> {
    parse_cpus(&read_to_string("/proc/stat").unwrap_or_default())
}

/// Their numbers, in the same order.
pub(super) fn numbers() -> Vec<usize> {
    let text = read_to_string("/proc/stat").unwrap_or_default();
    lines(&text)
        .filter_map(|line| line.split_whitespace().next()?.strip_prefix("cpu")?.parse().ok())
        .collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
}

fn parse_cpus(text: &str) -> Vec<CpuTimes> {
    // `USER_HZ`: 100 in every kernel's interface to programs.
    const TICK_S: f64 = 0.01;
    let times = |line: &str| {
        let ticks = line.split_whitespace().skip(1).map(|ticks| ticks.parse().ok());
        let seconds = ticks.map(|ticks: Option<f64>| Some(ticks? * TICK_S)).collect::<Option<Vec<_>>>()?;
        let [user, nice, system, idle, waiting, irq, softirq, steal, ..] = seconds[..] else { return None };
        Some(CpuTimes {
            user_s: user + nice,
            system_s: system,
            idle_s: idle + waiting,
            irq_s: irq,
            softirq_s: softirq,
            steal_s: steal,
            cycles: None,
        })
    };
    lines(text).filter_map(times).collect()
}

/// A table of counts: a line for each kind, a column for each CPU.
pub(super) fn interrupts(path: &str) -> BTreeMap<String, u64> {
    parse_interrupts(&read_to_string(path).unwrap_or_default())
}

fn parse_interrupts(text: &str) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    let columns = lines.next().unwrap_or_default().split_whitespace().count();
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let words: Vec<_> = rest.split_whitespace().collect();
        let (counts, words) = words.split_at(columns.min(words.len()));
        let sum = counts.iter().map_while(|count| count.parse::<u64>().ok()).fold(0, u64::saturating_add);
        // A numbered line is named after its device, the last word.
        let name = name.trim();
        let numbered = name.bytes().all(|byte| byte.is_ascii_digit());
        let device = words.last().filter(|_| numbered).map(|device| format!(" {device}"));
        Some((format!("{name}{}", device.unwrap_or_default()), sum))
    };
    lines.filter_map(line).collect()
}

/// Reads a text as each of the files.
#[cfg(any(feature = "fuzzing", test))]
pub(super) fn read(text: &str) {
    let _ = (
        parse_ip(text),
        parse_softnet(text),
        parse_cpus(text),
        parse_interrupts(text),
        parse_packet(text),
        parse_conntrack(text),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_tell_is_not_0() {
        assert_eq!(parse_softnet(""), None);
        assert_eq!(parse_softnet("0000000a 00000001\n"), None);
        assert_eq!(parse_softnet("0000000a 00000001 unknown\n"), None);
        assert_eq!(parse_softnet("ffffffffffffffff 0 0\n1 0 0\n"), None);
        assert!(parse_ip("Ip: InDiscards\nIp: many\n").is_empty());
    }

    #[test]
    fn drops_of_connection_tracking_are_those_of_all_cpus() {
        let text = "entries found insert_failed drop early_drop\n\
                    0000001 00000 00000002 0000000a 00000\n0000001 00000 00000001 00000001 00000\n";
        let expected = [("conntrack table full".to_owned(), 11), ("conntrack insert failed".to_owned(), 3)];
        assert_eq!(parse_conntrack(text), expected.into());
        assert!(parse_conntrack("entries drop\n").is_empty() && parse_conntrack("").is_empty());
        assert!(parse_conntrack("entries drop\n0 many\n").is_empty());
    }

    #[test]
    fn packet_sockets_that_get_packets_are_found() {
        let text = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
                    0000000000000000 3      3    0003   7     1 0      0      31\n\
                    0000000000000000 3      2    88cc   8     1 0      0      32\n\
                    0000000000000000 3      3    0000   9     0 0      0      33\n\
                    0000000000000000 3      3    0800   0     1 0      0      34\n";
        assert_eq!(parse_packet(text), [0, 7].into());
        assert_eq!(parse_packet(""), [].into());
    }

    #[test]
    fn tables_are_read() {
        let text = "Ip: Forwarding InHdrErrors InDiscards\nIp: 1 5 2\nUdp: InErrors\nUdp: 7\n";
        assert_eq!(parse_ip(text), [("InHdrErrors".to_owned(), 5), ("InDiscards".to_owned(), 2)].into());
        let softnet = parse_softnet("0000000a 00000001 00000002 0\n00000010 00000003 00000000 0\n");
        assert_eq!(softnet, Some(Softnet { processed: 26, dropped: 4, squeezed: 2 }));
        let cpus = parse_cpus("cpu  9 9 9 9 9 9 9 9\ncpu0 100 50 25 400 10 5 20 1 0 0\nintr 5\n");
        let expected = CpuTimes {
            user_s: 1.5,
            system_s: 0.25,
            irq_s: 0.05,
            softirq_s: 0.2,
            idle_s: 4.1,
            steal_s: 0.01,
            ..CpuTimes::default()
        };
        assert_eq!(cpus, [expected]);
        assert_eq!(parse_cpus("cpu0 100 50 25 400\n"), [], "a kernel that does not tell all kinds");
        let text = "      CPU0 CPU1\n 24:   5  7  PCI-MSI 1-edge virtio0-input.0\nLOC:  1 2 Local timer interrupts\nERR: 3\n";
        let names = [("24 virtio0-input.0", 12), ("LOC", 3), ("ERR", 3)];
        assert_eq!(parse_interrupts(text), names.map(|(name, n)| (name.to_owned(), n)).into());
    }
}
