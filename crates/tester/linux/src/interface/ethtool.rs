//! An interface's driver: its name, settings, counters and features, and the speed of its link, as `ethtool`,
//! `ethtool -i`, `-g`, `-c`, `-S` and `-k` show them (linux/ethtool.h).

use super::netdevice::{Interface, Query, WORDS};
use memmap2::{MmapOptions, MmapRaw};
use rustix::io::Errno;
use rustix::mm::{MprotectFlags, mprotect};
use std::collections::BTreeMap;
use std::path::Path;
use std::{io, slice};

/// Commands whose answers have no fixed size.
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_COUNTS: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
/// The card stamps received frames, and its time can be read as it is (linux/net_tstamp.h).
const RECEIVED_BY_HARDWARE: u32 = 1 << 2 | 1 << 6;
/// Sets of strings: the names of statistics, and of features.
const STATISTICS: u32 = 1;
const FEATURES: u32 = 4;
/// Bytes of a name.
const NAME: usize = 32;
/// More names than any driver has. A driver that reports more is not believed.
const MOST_NAMES: usize = 1 << 14;
/// How often statistics are read that change meanwhile.
const TRIES: usize = 100;

/// The speed of an interface's link in Mb/s. `None` if the link is down or the speed is unknown.
///
/// # Errors
/// There is no such interface, or its driver has no link settings.
pub fn speed_mbps(interface: &str) -> io::Result<Option<u32>> {
    Ok(answers::speed_mbps(&Interface::find(interface)?.query(Query::Settings)?))
}

/// The driver's name.
///
/// # Errors
/// There is no such interface, or its driver does not report it.
pub fn driver(interface: &str) -> io::Result<String> {
    Ok(answers::driver(&Interface::find(interface)?.query(Query::Driver)?))
}

/// Descriptors in the receive rings and in the transmit rings.
///
/// # Errors
/// There is no such interface, or its driver has no rings.
pub fn rings(interface: &str) -> io::Result<(u32, u32)> {
    // The maxima of four kinds of rings, then their current sizes.
    let words = Interface::find(interface)?.query(Query::Rings)?;
    Ok((words[5], words[8]))
}

/// The most receive queues of an interface: a driver with more of them says something wrong.
const MOST_QUEUES: u32 = 1 << 12;

/// Receive queues, from the driver or else from sysfs; 1 if neither tells.
///
/// # Errors
/// There is no such interface.
pub fn receive_queues(interface: &str) -> io::Result<u32> {
    let found = Interface::find(interface)?;
    // The maxima of four kinds of channels, then their current numbers: receive, transmit, other, combined.
    let channels = found.query(Query::Channels).map(|words| words[5].saturating_add(words[8]));
    let channels = channels.ok().filter(|queues| (1..=MOST_QUEUES).contains(queues));
    Ok(channels.or_else(|| queues_in_sysfs(interface, &found)).unwrap_or(1).max(1))
}

/// Receive queues in sysfs. It shows the interfaces of the network namespace in which it was mounted: that is
/// this thread's if the interface's number agrees.
fn queues_in_sysfs(name: &str, interface: &Interface) -> Option<u32> {
    let folder = Path::new("/sys/class/net").join(name);
    let number = std::fs::read_to_string(folder.join("ifindex")).ok()?;
    let entries = std::fs::read_dir(folder.join("queues")).ok()?.flatten();
    let queues = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-")).count();
    (number.trim().parse() == Ok(interface.index())).then_some(queues as u32)
}

/// The longest delay of interrupts in us, for reception and for transmission.
///
/// # Errors
/// There is no such interface, or its driver does not delay interrupts.
pub fn coalescing_us(interface: &str) -> io::Result<(u32, u32)> {
    let words = Interface::find(interface)?.query(Query::Coalescing)?;
    Ok((words[1], words[5]))
}

/// The number of the clock (0 for `/dev/ptp0`) with which the card stamps received frames, if it can.
///
/// # Errors
/// There is no such interface.
pub fn stamping_clock(interface: &str) -> io::Result<Option<u32>> {
    Ok(answers::stamping_clock(&Interface::find(interface)?.query(Query::Timestamping)?))
}

/// Two words of 32 bits in one, in the order in which they lie in memory.
pub(super) fn pair(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// Room for an answer whose length is the kernel's choice. Behind it is memory that cannot be written: a
/// longer answer ends there, with an error.
pub(super) struct Room {
    map: MmapRaw,
    bytes: usize,
}

impl Room {
    /// A table of at least `words` words.
    pub(super) fn of(words: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes = (8 * words).next_multiple_of(page);
        let map: MmapRaw = MmapOptions::new().len(bytes + page).map_anon()?.into();
        // SAFETY: the last page of a mapping of ours, which nothing refers to.
        unsafe { mprotect(map.as_mut_ptr().add(bytes).cast(), page, MprotectFlags::empty()) }?;
        Ok(Self { map, bytes })
    }

    /// The answer to a command that begins with `head`.
    pub(super) fn answer(&mut self, interface: &Interface, head: &[u64]) -> io::Result<&[u64]> {
        // SAFETY: the mapping is zeroed, aligned to pages, and ours alone; what lies before its last page
        // can be read and written.
        let words = unsafe { slice::from_raw_parts_mut(self.map.as_mut_ptr().cast::<u64>(), self.bytes / 8) };
        words[..head.len()].copy_from_slice(head);
        // SAFETY: the kernel writes an answer from its beginning on. An answer that is too long meets the
        // page that cannot be written, and no other memory.
        unsafe { interface.ethtool(words) }?;
        Ok(words)
    }
}

/// Repeats a reading during which the driver got other statistics: its queues were changed. Some kernels then
/// write no answer, and others all of it.
fn until_steady<T>(mut read: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    for _ in 0..TRIES {
        match read() {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => {}
            Err(error) if Errno::from_io_error(&error) == Some(Errno::FAULT) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("the interface's statistics change all the time: its queues are being changed"))
}

/// The names of a set of strings; `None` if there were others meanwhile.
fn names(interface: &Interface, set: u32) -> io::Result<Option<Vec<String>>> {
    // `struct ethtool_sset_info`: command, reserved, a mask of 64 bits, and one count for each bit.
    let mut counts = [pair(GET_COUNTS, 0), 1 << set, 0];
    // SAFETY: the mask has one bit, so the kernel writes one count, which is the third word.
    unsafe { interface.ethtool(&mut counts) }?;
    let count = answers::count(&counts);
    if count == 0 {
        return Ok(Some(Vec::new()));
    }
    // `struct ethtool_gstrings`: command, set, count, and right behind these three words of 32 bits the
    // names.
    let mut room = Room::of(2 + count * NAME / 8)?;
    let answer = room.answer(interface, &[pair(GET_STRINGS, set), pair(count as u32, 0)])?;
    Ok((answers::word(answer, 2) as usize == count).then(|| answers::names(answer, count)))
}

/// Offloads and other features by the kernel's names, and whether each is on (`ethtool -k`).
///
/// # Errors
/// There is no such interface.
pub fn features(interface: &str) -> io::Result<BTreeMap<String, bool>> {
    let interface = Interface::find(interface)?;
    let names = until_steady(|| names(&interface, FEATURES))?;
    // `struct ethtool_gfeatures`: command, count, and for each 32 features the words available, requested,
    // active, never changed.
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0_u64; 1 + 2 * blocks];
    words[0] = pair(GET_FEATURES, blocks as u32);
    // SAFETY: the kernel writes at most as many blocks as the count says, which are in `words`.
    unsafe { interface.ethtool(&mut words) }?;
    Ok(answers::features(names, &words))
}

/// Whether the kernel cuts UDP messages into datagrams before an interface with these features. An interface
/// that cuts them itself gets the message uncut; a virtual one passes it on like that.
pub fn cut_before(features: &BTreeMap<String, bool>) -> bool {
    features.get("tx-udp-segmentation") == Some(&false)
}

/// Whether the kernel merges UDP packets of a flow that it receives at an interface with these features
/// (GRO). TCP's it merges wherever GRO is on.
pub fn merges_datagrams(features: &BTreeMap<String, bool>) -> bool {
    let is_on = |name| features.get(name) == Some(&true);
    is_on("rx-gro") && (is_on("rx-udp-gro-forwarding") || is_on("rx-gro-list"))
}

/// Whether the kernel completes the checksums of frames before the interface: none is left to hardware.
pub fn summed_before(features: &BTreeMap<String, bool>) -> bool {
    !features.iter().any(|(name, on)| *on && name.starts_with("tx-checksum-"))
}

/// The driver's counters by name. Counters with the same name are added up.
///
/// # Errors
/// There is no such interface, or its driver has no counters.
pub fn statistics(interface: &str) -> io::Result<BTreeMap<String, u64>> {
    let interface = Interface::find(interface)?;
    until_steady(|| {
        let Some(names) = names(&interface, STATISTICS)? else { return Ok(None) };
        values(&interface, names)
    })
}

/// The values of statistics by their names; `None` if there were others meanwhile.
fn values(interface: &Interface, names: Vec<String>) -> io::Result<Option<BTreeMap<String, u64>>> {
    if names.is_empty() {
        return Ok(Some(BTreeMap::new()));
    }
    // `struct ethtool_stats`: command, count, and the values.
    let count = names.len();
    let mut room = Room::of(1 + count)?;
    let answer = room.answer(interface, &[pair(GET_STATISTICS, count as u32)])?;
    Ok((answers::word(answer, 1) as usize == count).then(|| answers::statistics(names, answer)))
}

/// The contents of answers: the structures of linux/ethtool.h, whatever a driver has written into them.
mod answers {
    use super::{MOST_NAMES, NAME, RECEIVED_BY_HARDWARE, WORDS};
    use std::collections::BTreeMap;

    /// The word of 32 bits at an index of a structure of them.
    pub(super) fn word(structure: &[u64], at: usize) -> u32 {
        let [a, b, c, d, e, f, g, h] = structure.get(at / 2).copied().unwrap_or(0).to_ne_bytes();
        u32::from_ne_bytes(if at.is_multiple_of(2) { [a, b, c, d] } else { [e, f, g, h] })
    }

    /// `struct ethtool_cmd`: 16 bits at byte 12 and the upper 16 bits at byte 28.
    pub(super) fn speed_mbps(words: &[u32; WORDS]) -> Option<u32> {
        let half = |word: u32| u32::from(u16::from_ne_bytes([word.to_ne_bytes()[0], word.to_ne_bytes()[1]]));
        let mbps = half(words[7]) << 16 | half(words[3]);
        // All ones: unknown.
        (mbps != 0 && mbps != u32::MAX && mbps != u32::from(u16::MAX)).then_some(mbps)
    }

    /// `struct ethtool_drvinfo`.
    pub(super) fn driver(words: &[u32; WORDS]) -> String {
        let bytes = words[1..].iter().flat_map(|word| word.to_ne_bytes()).take(NAME);
        let name: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&name).into_owned()
    }

    /// `struct ethtool_ts_info`: capabilities, then the clock's number, which is negative for none.
    pub(super) fn stamping_clock(words: &[u32; WORDS]) -> Option<u32> {
        let can = words[1] & RECEIVED_BY_HARDWARE == RECEIVED_BY_HARDWARE;
        u32::try_from(words[2].cast_signed()).ok().filter(|_| can)
    }

    /// The count in a `struct ethtool_sset_info` of one set; 0 if there are more than any driver has.
    pub(super) fn count(words: &[u64; 3]) -> usize {
        let count = if words[1] == 0 { 0 } else { word(words, 4) as usize };
        if count > MOST_NAMES { 0 } else { count }
    }

    /// The names in a `struct ethtool_gstrings`, which begin behind three words of 32 bits.
    pub(super) fn names(words: &[u64], count: usize) -> Vec<String> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).skip(12).collect();
        let name = |name: &[u8]| {
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
            String::from_utf8_lossy(&name[..end]).trim().to_owned()
        };
        bytes.chunks_exact(NAME).take(count).map(name).collect()
    }

    /// `struct ethtool_gfeatures`.
    pub(super) fn features(names: Vec<String>, words: &[u64]) -> BTreeMap<String, bool> {
        let is_on = |bit: usize| word(words, 2 + bit / 32 * 4 + 2) & 1 << (bit % 32) != 0;
        names.into_iter().enumerate().map(|(bit, name)| (name, is_on(bit))).collect()
    }

    /// `struct ethtool_stats`. Counters wrap around, and so does their sum.
    pub(super) fn statistics(names: Vec<String>, words: &[u64]) -> BTreeMap<String, u64> {
        let mut statistics = BTreeMap::new();
        for (name, value) in names.into_iter().zip(words.iter().skip(1)) {
            let sum = statistics.entry(name).or_insert(0_u64);
            *sum = sum.wrapping_add(*value);
        }
        statistics
    }
}

/// Reads words as each kind of answer.
#[cfg(any(feature = "fuzzing", test))]
pub(crate) fn read(words: &[u64]) {
    let mut fixed = [0; WORDS];
    let halves = words.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]);
    fixed.iter_mut().zip(halves).for_each(|(word, half)| *word = half);
    let _ = (answers::speed_mbps(&fixed), answers::driver(&fixed), answers::stamping_clock(&fixed));
    let count = words.first_chunk().map_or(0, answers::count);
    let names = answers::names(words, count);
    let features = answers::features(names.clone(), words);
    let _ = (cut_before(&features), summed_before(&features), answers::statistics(names, words));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_namespaces::Net;

    /// An interface whose driver gets more statistics between the reading of their names and that of their
    /// values: nothing is written beside the room, and all are read.
    #[test]
    fn statistics_may_become_more_at_any_moment() {
        let Some(net) = Net::new() else { return };
        net.run("ip link add name a numtxqueues 64 numrxqueues 64 type veth peer name b numtxqueues 64 numrxqueues 64");
        net.run("ethtool -L a rx 1 tx 1");
        let counted = || net.output("ethtool -S a").lines().count() - 1;
        let few = counted();
        net.enter();
        let interface = Interface::find("a").unwrap();
        let old = names(&interface, STATISTICS).unwrap().unwrap();
        assert_eq!(old.len(), few);
        net.run("ethtool -L a rx 64 tx 64");
        let many = counted();
        assert!(8 * many > rustix::param::page_size(), "more than there is room for: {many}");
        // Newer kernels write no answer that is longer than was asked for, and older ones end at the guard.
        let is_noticed = |result: io::Result<bool>| match result {
            Ok(is_read) => !is_read,
            Err(error) => Errno::from_io_error(&error) == Some(Errno::FAULT),
        };
        assert!(is_noticed(values(&interface, old).map(|read| read.is_some())));
        let mut room = Room::of(2 + few * NAME / 8).unwrap();
        let answer = room.answer(&interface, &[pair(GET_STRINGS, STATISTICS), pair(few as u32, 0)]);
        assert!(is_noticed(answer.map(|answer| answers::word(answer, 2) as usize == few)));
        let guard = format!("{:x}-", room.map.as_ptr() as usize + room.bytes);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&guard)).unwrap();
        assert!(line.contains(" ---p "), "{line}");
        assert_eq!(statistics("a").unwrap().len(), many);
        // Fewer than there were are noticed, too.
        let old = names(&interface, STATISTICS).unwrap().unwrap();
        net.run("ethtool -L a rx 63 tx 63");
        assert_eq!(values(&interface, old).unwrap(), None);
        assert_eq!(statistics("a").unwrap().len(), counted());
    }

    /// While an interface's queues are changed all the time, each reading is one of one moment, or an error.
    #[test]
    fn statistics_are_of_one_moment_while_queues_change() {
        let Some(net) = Net::new() else { return };
        net.run("ip link add name a numtxqueues 64 numrxqueues 64 type veth peer name b numtxqueues 64 numrxqueues 64");
        let lengths: Vec<usize> = [1, 64]
            .map(|queues| {
                net.run(&format!("ethtool -L a rx {queues} tx {queues}"));
                net.output("ethtool -S a").lines().count() - 1
            })
            .into();
        let changing = "for i in $(seq 40); do ethtool -L a rx 1 tx 1; ethtool -L a rx 64 tx 64; done";
        let mut changing = net.command("sh").args(["-c", changing]).spawn().unwrap();
        net.enter();
        while changing.try_wait().unwrap().is_none() {
            let Ok(all) = statistics("a") else { continue };
            // Receive and transmit queues are changed one after the other.
            assert!((lengths[0]..=lengths[1]).contains(&all.len()), "{} {lengths:?}", all.len());
        }
        assert_eq!(statistics("a").unwrap().len(), lengths[1]);
    }

    #[test]
    fn no_interface_has_no_statistics() {
        assert_eq!(stamping_clock("lo").ok(), Some(None), "there is no card behind it");
        assert!(stamping_clock("no-such").is_err());
        assert_eq!(receive_queues("lo").ok(), Some(1), "its driver tells nothing");
        assert!(receive_queues("no-such").is_err());
        assert!(statistics("no-such").is_err() && statistics("a name that is too long").is_err());
    }

    #[test]
    fn whatever_a_driver_answers_is_read() {
        let sum = answers::statistics(vec!["rx".into(), "rx".into(), "tx".into()], &[0, u64::MAX, 3]);
        assert_eq!(sum, [("rx".into(), 2)].into(), "a counter more than there are values");
        assert_eq!(answers::count(&[0, 1, u64::MAX]), 0, "more names than there can be");
        assert_eq!(answers::names(&[0, 0, 0], 9), Vec::<String>::new());
        assert_eq!(answers::features(vec![String::new(); 200], &[0; 2]), [(String::new(), false)].into());
        assert_eq!(answers::speed_mbps(&[u32::MAX; 64]), None);
        assert_eq!(answers::driver(&[u32::MAX; 64]), "\u{fffd}".repeat(32));
        assert_eq!(answers::stamping_clock(&[u32::MAX; 64]), None);
    }

    #[test]
    fn the_loop_has_offloads_that_are_always_on() {
        // Fixed in drivers/net/loopback.c.
        let all = features("lo").unwrap_or_default();
        assert_eq!((all.get("rx-checksum"), all.get("rx-lro")), (Some(&true), Some(&false)), "{all:?}");
        assert!(features("no-such").is_err());
        // A frame that never leaves the machine needs no checksum, and is not cut.
        assert!(!summed_before(&all) && !cut_before(&all));
    }
}
