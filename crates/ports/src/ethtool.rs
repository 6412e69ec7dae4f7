//! What a driver is, how it is set, what it counts by itself, what it can, and how fast its link is: `ethtool -i`, `-g`, `-c`, `-S`, `-k`, `ethtool`
//! (linux/ethtool.h).

use crate::interface::{Interface, pair};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

const GET_SETTINGS: u32 = 0x01;
const GET_DRIVER: u32 = 0x03;
const GET_COALESCING: u32 = 0x0e;
const GET_RINGS: u32 = 0x10;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_COUNTS: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const GET_CHANNELS: u32 = 0x3c;
const GET_STAMPS: u32 = 0x41;
/// Received frames get a time by the card, and that can be had as it is (linux/net_tstamp.h).
const RECEIVED_BY_HARDWARE: u32 = 1 << 2 | 1 << 6;
/// Sets of strings: what names statistics, and features.
const STATISTICS: u32 = 1;
const FEATURES: u32 = 4;
/// Bytes of a name.
const NAME: usize = 32;
/// More than any driver has; a driver that says otherwise is not believed.
const MOST: usize = 1 << 14;

/// The speed of an interface's link in Mb/s, if it has one now.
///
/// # Errors
/// No such interface, or its driver does not tell.
pub fn speed_mbps(interface: &str) -> io::Result<Option<u32>> {
    // `struct ethtool_cmd`: 44 bytes, the speed in two halves at 12 and 28.
    let mut words = [pair(GET_SETTINGS, 0), 0, 0, 0, 0, 0];
    Interface::find(interface)?.ethtool(&mut words)?;
    let half = |word: u64| u32::from(u16::from_ne_bytes([word.to_ne_bytes()[4], word.to_ne_bytes()[5]]));
    let mbps = half(words[3]) << 16 | half(words[1]);
    // All ones: unknown.
    Ok((mbps != 0 && mbps != u32::MAX && mbps != u32::from(u16::MAX)).then_some(mbps))
}

/// A word of 32 bits in a structure of them.
fn word(structure: &[u64], at: usize) -> u32 {
    let [a, b, c, d, e, f, g, h] = structure[at / 2].to_ne_bytes();
    u32::from_ne_bytes(if at.is_multiple_of(2) { [a, b, c, d] } else { [e, f, g, h] })
}

/// The driver's name.
///
/// # Errors
/// No such interface, or its driver does not tell.
pub fn driver(interface: &str) -> io::Result<String> {
    // `struct ethtool_drvinfo`: 196 bytes, the name behind the command.
    let mut words = [0; 25];
    words[0] = pair(GET_DRIVER, 0);
    Interface::find(interface)?.ethtool(&mut words)?;
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).skip(4).take(NAME);
    let name: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Descriptors in its rings, to receive and to transmit.
///
/// # Errors
/// No such interface, or its driver has no rings.
pub fn rings(interface: &str) -> io::Result<(u32, u32)> {
    // `struct ethtool_ringparam`: 9 words, the most of four kinds and then what is set.
    let mut words = [0; 5];
    words[0] = pair(GET_RINGS, 0);
    Interface::find(interface)?.ethtool(&mut words)?;
    Ok((word(&words, 5), word(&words, 8)))
}

/// Queues that it receives by, as its driver says, or else the system; 1 if neither does.
///
/// # Errors
/// No such interface.
pub fn receive_queues(interface: &str) -> io::Result<u32> {
    let asked = Interface::find(interface)?;
    // `struct ethtool_channels`: 9 words, the most of four kinds and then what is set: to receive, to transmit, others, for both.
    let mut words = [0; 5];
    words[0] = pair(GET_CHANNELS, 0);
    let told = asked.ethtool(&mut words).map(|()| word(&words, 5).saturating_add(word(&words, 8)));
    Ok(told
        .ok()
        .filter(|queues| *queues > 0)
        .or_else(|| queues_in_sysfs(interface, &asked))
        .unwrap_or(1)
        .max(1))
}

/// The same by sysfs, which shows the interfaces of the network namespace that it was mounted in: ours, if the number is right.
fn queues_in_sysfs(name: &str, interface: &Interface) -> Option<u32> {
    let folder = Path::new("/sys/class/net").join(name);
    let number = std::fs::read_to_string(folder.join("ifindex")).ok()?;
    let entries = std::fs::read_dir(folder.join("queues")).ok()?.flatten();
    let queues = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-")).count();
    (number.trim().parse() == Ok(interface.index())).then_some(queues as u32)
}

/// How long interrupts wait for more frames at most, in us, to receive and to transmit.
///
/// # Errors
/// No such interface, or its driver does not make them wait.
pub fn coalescing_us(interface: &str) -> io::Result<(u32, u32)> {
    // `struct ethtool_coalesce`: 23 words.
    let mut words = [0; 12];
    words[0] = pair(GET_COALESCING, 0);
    Interface::find(interface)?.ethtool(&mut words)?;
    Ok((word(&words, 1), word(&words, 5)))
}

/// The clock by which its card can stamp received frames, by its number (`/dev/ptp0`), if it can.
///
/// # Errors
/// No such interface.
pub fn stamping_clock(interface: &str) -> io::Result<Option<u32>> {
    // `struct ethtool_ts_info`: 11 words, behind the command what it can and the clock's number, below 0 for none.
    let mut words = [0; 6];
    words[0] = pair(GET_STAMPS, 0);
    Interface::find(interface)?.ethtool(&mut words)?;
    let can = word(&words, 1) & RECEIVED_BY_HARDWARE == RECEIVED_BY_HARDWARE;
    Ok(u32::try_from(word(&words, 2).cast_signed()).ok().filter(|_| can))
}

/// The names of a set.
fn names(interface: &Interface, set: u32) -> io::Result<Vec<String>> {
    // `struct ethtool_sset_info`: command, reserved, a mask of 64 bits, and one count.
    let mut counts = [pair(GET_COUNTS, 0), 1 << set, 0];
    interface.ethtool(&mut counts)?;
    let count = match counts {
        [_, mask, count] if mask != 0 => {
            let [a, b, c, d, ..] = count.to_ne_bytes();
            u32::from_ne_bytes([a, b, c, d]) as usize
        }
        _ => 0,
    };
    if count == 0 || count > MOST {
        return Ok(Vec::new());
    }
    // `struct ethtool_gstrings`: command, set, count, and the names right behind these three words of 32 bits. The driver
    // writes as many as it has now: twice the room, in case there are more than a moment ago.
    let mut names = vec![0_u64; 2 + 2 * count * NAME / 8];
    names[0] = pair(GET_STRINGS, set);
    names[1] = pair(count as u32, 0);
    interface.ethtool(&mut names)?;
    let bytes: Vec<u8> = names.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = |name: &[u8]| {
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
        String::from_utf8_lossy(&name[..end]).trim().to_owned()
    };
    Ok(bytes[12..].chunks_exact(NAME).take(count).map(name).collect())
}

/// Offloads and other features by the kernel's names, and whether each is on (`ethtool -k`).
///
/// # Errors
/// No such interface.
pub fn features(interface: &str) -> io::Result<BTreeMap<String, bool>> {
    let interface = Interface::find(interface)?;
    let names = names(&interface, FEATURES)?;
    // `struct ethtool_gfeatures`: command, count, and four words for each 32 features: available, requested, active, never changed.
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0_u64; 1 + 2 * blocks];
    words[0] = pair(GET_FEATURES, blocks as u32);
    interface.ethtool(&mut words)?;
    let is_on = |bit: usize| word(&words, 2 + bit / 32 * 4 + 2) & 1 << (bit % 32) != 0;
    Ok(names.into_iter().enumerate().map(|(bit, name)| (name, is_on(bit))).collect())
}

/// Whether messages of UDP for an interface with these features are cut into datagrams before it, by the kernel. One that does it itself, as those without
/// hardware do by handing the whole to the next, is given them uncut.
pub(crate) fn cut_before(features: &BTreeMap<String, bool>) -> bool {
    features.get("tx-udp-segmentation") == Some(&false)
}

/// Whether checksums of what it sends are whole before it: nothing is left to hardware.
pub(crate) fn summed_before(features: &BTreeMap<String, bool>) -> bool {
    !features.iter().any(|(name, on)| *on && name.starts_with("tx-checksum-"))
}

/// The driver's counters by name. Of counters with the same name the sum is returned.
///
/// # Errors
/// No such interface, or its driver has none.
pub fn statistics(interface: &str) -> io::Result<BTreeMap<String, u64>> {
    let interface = Interface::find(interface)?;
    let names = names(&interface, STATISTICS)?;
    let mut statistics = BTreeMap::new();
    if names.is_empty() {
        return Ok(statistics);
    }
    // `struct ethtool_stats`: command, count, and the values. Room for twice as many, as of names.
    let mut values = vec![0_u64; 1 + 2 * names.len()];
    values[0] = pair(GET_STATISTICS, names.len() as u32);
    interface.ethtool(&mut values)?;
    for (name, value) in names.into_iter().zip(&values[1..]) {
        *statistics.entry(name).or_insert(0) += value;
    }
    Ok(statistics)
}

#[cfg(test)]
mod tests {
    use super::{cut_before, features, receive_queues, stamping_clock, statistics, summed_before};

    #[test]
    fn no_interface_has_no_statistics() {
        assert_eq!(stamping_clock("lo").ok(), Some(None), "there is no card behind it");
        assert!(stamping_clock("no-such").is_err());
        assert_eq!(receive_queues("lo").ok(), Some(1), "its driver tells nothing");
        assert!(receive_queues("no-such").is_err());
        assert!(statistics("no-such").is_err() && statistics("a name that is too long").is_err());
    }

    #[test]
    fn the_loop_has_offloads_that_are_always_on() {
        // Fixed in drivers/net/loopback.c.
        let all = features("lo").unwrap_or_default();
        assert_eq!((all.get("rx-checksum"), all.get("rx-lro")), (Some(&true), Some(&false)), "{all:?}");
        assert!(features("no-such").is_err());
        // What never leaves the machine needs no checksum, and is not cut.
        assert!(!summed_before(&all) && !cut_before(&all));
    }
}
