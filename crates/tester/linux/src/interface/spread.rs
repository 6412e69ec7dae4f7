//! How an interface spreads received frames over its queues (receive side scaling): as `ethtool -x` and
//! `ethtool -n IFACE rx-flow-hash` show it (linux/ethtool.h).

use super::ethtool::{Room, driver, pair, receive_queues};
use super::netdevice::Interface;
use super::rules;
use kpps_frames::rss::{Hashed, HashedPacket, PacketKind};
use std::collections::BTreeMap;
use std::{fmt, fs, io};

/// Commands of linux/ethtool.h.
const GET_FIELDS: u32 = 0x29;
const GET_SPREAD: u32 = 0x46;
/// Toeplitz's hash (`ETH_RSS_HASH_TOP`).
const TOEPLITZ: u8 = 1;
/// Fields that a hash covers: addresses (`RXH_IP_SRC`, `RXH_IP_DST`), ports (`RXH_L4_B_0_1`, `RXH_L4_B_2_3`).
const ADDRESSES: u64 = 1 << 4 | 1 << 5;
const PORTS: u64 = 1 << 6 | 1 << 7;
/// Bytes of a `struct ethtool_rxfh` before the table.
const HEAD: usize = 24;
/// More entries of a table, and bytes of a key, than any card has. A driver that reports more is not
/// believed.
const MOST_ENTRIES: u32 = 1 << 16;
const MOST_KEY_BYTES: u32 = 1 << 10;
/// The key that the kernel has for drivers that choose none.
const SYSTEM_KEY: &str = "/proc/sys/net/core/netdev_rss_key";
/// Drivers that do not report their key, and write the kernel's into the card: igb (`igb_setup_mrqc` in
/// drivers/net/ethernet/intel/igb/igb_main.c, until Linux 6.17).
const USE_SYSTEM_KEY: [&str; 1] = ["igb"];

/// How an interface spreads received frames over its queues, as far as its driver reports that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Receive queues.
    pub queues: u32,
    /// Whether the hash is Toeplitz's, of the fields as they are in the frame; `None` if that is unknown.
    pub is_toeplitz: Option<bool>,
    /// The key of the hash.
    pub key: Option<Vec<u8>>,
    /// Whether the key is the kernel's, because the driver does not report its own.
    pub has_system_key: bool,
    /// The queue of each value of the hash's low bits; empty if the driver does not report that.
    pub table: Vec<u32>,
    /// The fields that the hash covers. Kinds that the driver does not report, or whose frames it hashes in
    /// another way, are missing.
    pub fields: BTreeMap<PacketKind, Hashed>,
    /// Rules that choose queues before the hash does (`ethtool -n`); `None` if the driver has none.
    pub rules: Option<u32>,
}

/// Why the queue of a frame is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    /// The driver does not report its table.
    Table,
    /// The driver does not report its key.
    Key,
    /// The hash is another one than Toeplitz's.
    Hash,
    /// The driver does not report which fields of such packets it hashes, or it hashes others than addresses
    /// and ports.
    Fields,
    /// Cards parse such frames in different ways.
    Frame,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Table => "its driver reports no table of queues (`ethtool -x`)",
            Self::Key => "its driver does not report the key of its hash (`ethtool -x`)",
            Self::Hash => "its hash is not Toeplitz's (`ethtool -x`)",
            Self::Fields => {
                "its driver does not report that it hashes addresses, or addresses and ports, of these packets \
                (`ethtool -n IFACE rx-flow-hash`)"
            }
            Self::Frame => "cards parse such frames in different ways",
        })
    }
}

impl Spread {
    /// Reads how an interface spreads frames. Facts that its driver does not report are missing.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn of(name: &str) -> io::Result<Self> {
        let interface = Interface::find(name)?;
        let mut spread = read(&interface).unwrap_or_default();
        spread.queues = receive_queues(name)?;
        if spread.key.is_none() && driver(name).is_ok_and(|name| USE_SYSTEM_KEY.contains(&name.as_str())) {
            spread.key = fs::read_to_string(SYSTEM_KEY).ok().and_then(|text| system_key(&text));
            spread.has_system_key = spread.key.is_some();
        }
        let fields = PacketKind::ALL.into_iter().filter_map(|kind| Some((kind, fields(&interface, kind)?)));
        spread.fields = fields.collect();
        spread.rules = rules::count(&interface).ok();
        Ok(spread)
    }

    /// The queue of a frame of `bytes` bytes, of which `beginning` holds at least the headers, if no rule
    /// chooses another.
    ///
    /// # Errors
    /// The reason for which it is unknown.
    pub fn queue_of(&self, beginning: &[u8], bytes: usize) -> Result<u32, Unknown> {
        if self.queues == 1 {
            return Ok(0);
        }
        // The low bits of the hash are an index only in tables whose length is a power of two.
        let mask = (self.table.len() as u32).wrapping_sub(1);
        if !self.table.len().is_power_of_two() {
            return Err(Unknown::Table);
        }
        if self.is_toeplitz != Some(true) {
            return Err(Unknown::Hash);
        }
        let key = self.key.as_ref().ok_or(Unknown::Key)?;
        let packet = HashedPacket::of(beginning, bytes).filter(HashedPacket::is_usual);
        let packet = packet.ok_or(Unknown::Frame)?;
        let over = self.fields.get(&packet.kind).ok_or(Unknown::Fields)?;
        let entry = (packet.hash(key, *over) & mask) as usize;
        self.table.get(entry).copied().ok_or(Unknown::Table)
    }
}

/// The hash, its key and the table.
fn read(interface: &Interface) -> io::Result<Spread> {
    // `struct ethtool_rxfh`: command, context, entries of the table, bytes of the key, hash, transformation
    // of the input, reserved words, and then table and key. Sizes of 0 ask for the sizes only.
    let mut sizes = [pair(GET_SPREAD, 0), 0, 0];
    // SAFETY: with sizes of 0, the kernel writes these three words only.
    unsafe { interface.ethtool(&mut sizes) }?;
    let [entries, key_bytes] = answer::sizes(&sizes);
    let mut room = Room::of((HEAD + 4 * entries as usize + key_bytes as usize).div_ceil(8))?;
    Ok(answer::spread(room.answer(interface, &[pair(GET_SPREAD, 0), pair(entries, key_bytes)])?))
}

/// The fields of packets of a kind that the hash covers, if these are addresses, or addresses and ports.
fn fields(interface: &Interface, kind: PacketKind) -> Option<Hashed> {
    let mut command = rules::Command::of(GET_FIELDS, rules::flow_type(kind));
    command.execute(interface).ok()?;
    answer::fields(command.data())
}

/// Reads the kernel's key, which is zero before a driver has asked for it.
fn system_key(text: &str) -> Option<Vec<u8>> {
    let bytes = text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
    bytes.collect::<Option<Vec<u8>>>().filter(|key| key.iter().any(|byte| *byte != 0))
}

/// The contents of answers, whatever a driver has written into them.
mod answer {
    use super::{ADDRESSES, HEAD, MOST_ENTRIES, MOST_KEY_BYTES, PORTS, Spread, TOEPLITZ};
    use kpps_frames::rss::Hashed;

    /// The entries of the table and the bytes of the key; 0 if there are more than any card has.
    pub(super) fn sizes(words: &[u64; 3]) -> [u32; 2] {
        let bytes = words[1].to_ne_bytes();
        let [a, b, c, d, e, f, g, h] = bytes;
        let [entries, key] = [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes);
        let at_most = |size: u32, most: u32| if size > most { 0 } else { size };
        [at_most(entries, MOST_ENTRIES), at_most(key, MOST_KEY_BYTES)]
    }

    /// A `struct ethtool_rxfh`.
    pub(super) fn spread(words: &[u64]) -> Spread {
        let [entries, key_bytes] = words.first_chunk().map_or([0; 2], sizes);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let table_end = HEAD + 4 * entries as usize;
        let entry = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let table = bytes.get(HEAD..table_end).unwrap_or_default().chunks_exact(4).map(entry).collect();
        let key = bytes.get(table_end..table_end + key_bytes as usize).filter(|key| !key.is_empty());
        // Kernels before 4.1 do not name the hash: 0. Some hashes begin with another input.
        let [hash, transformation] = [16, 17].map(|at| bytes.get(at).copied().unwrap_or(0));
        let is_toeplitz = (hash != 0).then_some(hash == TOEPLITZ && transformation == 0);
        Spread { is_toeplitz, key: key.map(<[u8]>::to_vec), table, ..Spread::default() }
    }

    /// The fields in the data of a `struct ethtool_rxnfc`.
    pub(super) fn fields(data: u64) -> Option<Hashed> {
        match data {
            ADDRESSES => Some(Hashed::Addresses),
            _ if data == ADDRESSES | PORTS => Some(Hashed::Ports),
            _ => None,
        }
    }
}

/// Reads words as each kind of answer.
#[cfg(any(feature = "fuzzing", test))]
pub(crate) fn read_words(words: &[u64]) {
    let spread = answer::spread(words);
    let _ = spread.queue_of(&[0; 64], 64);
    let _ = words.first().map(|data| answer::fields(*data));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::Size;
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::rss::toeplitz;
    use kpps_namespaces::Net;

    /// A card with four queues in turn, whose key is all ones.
    fn spread() -> Spread {
        Spread {
            queues: 4,
            is_toeplitz: Some(true),
            key: Some((0..40).collect()),
            table: (0..128).map(|entry| entry % 4).collect(),
            fields: [(PacketKind::UdpV4, Hashed::Ports)].into(),
            ..Spread::default()
        }
    }

    #[test]
    fn the_queue_is_the_tables_entry_of_the_hash() {
        let flow = Flow::default();
        let frame = udp_test(&flow, Size::MIN).unwrap();
        let all = spread();
        let mut input = [flow.from.0.octets(), flow.to.0.octets()].concat();
        let hash = |input: &[u8]| toeplitz(all.key.as_ref().unwrap(), input) % 4;
        let by_addresses = Spread { fields: [(PacketKind::UdpV4, Hashed::Addresses)].into(), ..all.clone() };
        assert_eq!(by_addresses.queue_of(&frame, frame.len()), Ok(hash(&input)));
        input.extend([flow.from.1.to_be_bytes(), flow.to.1.to_be_bytes()].concat());
        assert_eq!(all.queue_of(&frame, frame.len()), Ok(hash(&input)));
    }

    #[test]
    fn what_the_driver_does_not_report_is_unknown() {
        let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        let all = spread();
        for (lacks, why) in [
            (Spread { table: Vec::new(), ..all.clone() }, Unknown::Table),
            (Spread { table: vec![0; 100], ..all.clone() }, Unknown::Table),
            (Spread { is_toeplitz: None, ..all.clone() }, Unknown::Hash),
            (Spread { is_toeplitz: Some(false), ..all.clone() }, Unknown::Hash),
            (Spread { key: None, ..all.clone() }, Unknown::Key),
            (Spread { fields: BTreeMap::new(), ..all.clone() }, Unknown::Fields),
        ] {
            assert_eq!(lacks.queue_of(&frame, frame.len()), Err(why));
            let one = Spread { queues: 1, ..lacks };
            assert_eq!(one.queue_of(&frame, frame.len()), Ok(0), "there is only one queue");
        }
        assert_eq!(all.queue_of(&[0; 64], 64), Err(Unknown::Frame));
    }

    #[test]
    fn an_answer_is_read_as_the_kernel_writes_it() {
        // `struct ethtool_rxfh` with a table of 4 entries and a key of 8 bytes.
        let mut bytes = Vec::new();
        for word in [GET_SPREAD, 0, 4, 8, u32::from_ne_bytes([1, 0, 0, 0]), 0, 3, 2, 1, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([10, 11, 12, 13, 14, 15, 16, 17]);
        let words = |bytes: &[u8]| -> Vec<u64> {
            bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
        };
        let spread = answer::spread(&words(&bytes));
        assert_eq!((spread.is_toeplitz, spread.table), (Some(true), vec![3, 2, 1, 0]));
        assert_eq!(spread.key, Some((10..18).collect()));
        // A symmetric hash.
        bytes[17] = 1;
        assert_eq!(answer::spread(&words(&bytes)).is_toeplitz, Some(false));
        bytes[16] = 0;
        assert_eq!(answer::spread(&words(&bytes)).is_toeplitz, None);
        let fields = [ADDRESSES, ADDRESSES | PORTS, 1 << 4, 0].map(answer::fields);
        assert_eq!(fields, [Some(Hashed::Addresses), Some(Hashed::Ports), None, None]);
        read_words(&[u64::MAX; 20]);
        read_words(&[]);
    }

    #[test]
    fn the_kernels_key_is_read() {
        assert_eq!(system_key("6d:5a:00\n"), Some(vec![0x6d, 0x5a, 0]));
        assert_eq!((system_key("00:00"), system_key("x"), system_key("")), (None, None, None));
    }

    /// A veth has several queues, and nothing that spreads frames over them by a hash that it reports.
    #[test]
    fn a_veth_reports_no_spread() {
        let Some(net) = Net::new() else { return };
        net.run("ip link add name a numtxqueues 4 numrxqueues 4 type veth peer name b numtxqueues 4 numrxqueues 4");
        net.enter();
        let spread = Spread::of("a").unwrap();
        assert_eq!((spread.queues, spread.key, spread.table), (4, None, Vec::new()));
        assert_eq!((spread.fields, spread.rules), (BTreeMap::new(), None));
        assert!(Spread::of("no-such").is_err());
    }
}
