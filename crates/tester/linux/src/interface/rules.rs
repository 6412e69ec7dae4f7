//! Rules of an interface that choose the receive queues of flows, before its hash does: as `ethtool -N` adds
//! and deletes them (linux/ethtool.h).

use super::ethtool::Room;
use super::netdevice::Interface;
use kpps_frames::rss::{HashedPacket, PacketKind};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;

/// Commands of linux/ethtool.h.
const COUNT_RULES: u32 = 0x2e;
const LIST_RULES: u32 = 0x30;
const DELETE_RULE: u32 = 0x31;
const INSERT_RULE: u32 = 0x32;
/// The driver chooses the location of a new rule (`RX_CLS_LOC_SPECIAL`, `RX_CLS_LOC_ANY`).
const CHOOSES: u32 = 1 << 31;
const ANY_LOCATION: u32 = u32::MAX;
/// Bytes of a `struct ethtool_rxnfc`, without its list.
const BYTES: usize = 192;
/// Places in it: the data; the rule's fields, their mask, its queue and its location; the number of rules,
/// and the list of their locations.
const DATA: usize = 8;
const FIELDS: usize = 20;
const MASK: usize = 92;
const QUEUE: usize = 168;
const LOCATION: usize = 176;
const RULES: usize = 184;
const LIST: usize = 188;
/// More rules than any card has.
const MOST_RULES: u32 = 1 << 16;

/// The kernel's number of a kind of packets (`TCP_V4_FLOW` and others).
pub(super) fn flow_type(kind: PacketKind) -> u32 {
    match kind {
        PacketKind::TcpV4 => 0x01,
        PacketKind::UdpV4 => 0x02,
        PacketKind::TcpV6 => 0x05,
        PacketKind::UdpV6 => 0x06,
        PacketKind::Ipv4 => 0x10,
        PacketKind::Ipv6 => 0x11,
    }
}

/// A command about rules and hashed fields: a `struct ethtool_rxnfc`.
pub(super) struct Command([u8; BYTES]);

impl Command {
    /// A command about packets of this kind.
    pub(super) fn of(command: u32, flow_type: u32) -> Self {
        let mut all = Self([0; BYTES]);
        all.put(0, &command.to_ne_bytes());
        all.put(4, &flow_type.to_ne_bytes());
        all
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
    }

    fn word(&self, at: usize) -> u32 {
        self.0.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// The word of 64 bits that most answers are.
    pub(super) fn data(&self) -> u64 {
        self.0.get(DATA..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    fn words(&self) -> [u64; BYTES / 8] {
        let (words, _) = self.0.as_chunks();
        std::array::from_fn(|at| words.get(at).map_or(0, |word| u64::from_ne_bytes(*word)))
    }

    /// Executes it. The answer overwrites it.
    pub(super) fn execute(&mut self, interface: &Interface) -> io::Result<()> {
        let mut words = self.words();
        // SAFETY: of these commands, only the list of rules has an answer that is longer than this structure.
        unsafe { interface.ethtool(&mut words) }?;
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        self.0.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        Ok(())
    }
}

/// The number of rules.
///
/// # Errors
/// The driver has no rules.
pub(super) fn count(interface: &Interface) -> io::Result<u32> {
    let mut command = Command::of(COUNT_RULES, 0);
    command.execute(interface)?;
    Ok(command.word(RULES))
}

/// A flow, and the queue to which it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    kind: PacketKind,
    /// Both addresses and both ports, as in the frame.
    addresses: Vec<u8>,
    ports: Vec<u8>,
    queue: u32,
}

impl Rule {
    /// The flow that it matches: the kind of packets, addresses and ports.
    pub fn flow(&self) -> (PacketKind, &[u8], &[u8]) {
        (self.kind, &self.addresses, &self.ports)
    }

    /// The rule that steers packets like this one, of `bytes` bytes, to a queue. `beginning` holds at least
    /// the headers. `None` if it is not plain TCP or UDP.
    pub fn of(beginning: &[u8], bytes: usize, queue: u32) -> Option<Self> {
        let HashedPacket { kind, addresses, ports, .. } = HashedPacket::of(beginning, bytes)?;
        let rule = Self { kind, addresses: addresses.to_vec(), ports: ports.to_vec(), queue };
        (!ports.is_empty()).then_some(rule)
    }

    /// The command that inserts it.
    fn insertion(&self, location: u32) -> Command {
        let mut command = Command::of(INSERT_RULE, 0);
        // The rule is a `struct ethtool_rx_flow_spec` with the flow's type; in `struct ethtool_tcpip4_spec`
        // and `struct ethtool_tcpip6_spec` ports follow addresses.
        command.put(16, &flow_type(self.kind).to_ne_bytes());
        command.put(FIELDS, &[&self.addresses[..], &self.ports].concat());
        command.put(MASK, &vec![0xff; self.addresses.len() + self.ports.len()]);
        command.put(QUEUE, &u64::from(self.queue).to_ne_bytes());
        command.put(LOCATION, &location.to_ne_bytes());
        command
    }
}

/// An interface's driver, as far as it executes commands.
trait Execute {
    fn execute(&self, command: &mut Command) -> io::Result<()>;
}

impl Execute for Interface {
    fn execute(&self, command: &mut Command) -> io::Result<()> {
        command.execute(self)
    }
}

/// Rules that a driver has inserted. They are deleted when this is dropped.
#[derive(Debug)]
struct Inserted<D: Execute> {
    driver: D,
    locations: Vec<u32>,
}

impl<D: Execute> Inserted<D> {
    /// Inserts these rules at these places. The number of the refused rule, from 1, is part of an error; then
    /// no rule is left.
    fn all(driver: D, rules: &[Rule], places: Vec<u32>) -> Result<Self, (usize, io::Error)> {
        let mut all = Self { driver, locations: Vec::with_capacity(rules.len()) };
        for (n, (rule, place)) in (1..).zip(rules.iter().zip(places)) {
            let mut command = rule.insertion(place);
            all.driver.execute(&mut command).map_err(|error| (n, error))?;
            all.locations.push(command.word(LOCATION));
        }
        Ok(all)
    }
}

impl<D: Execute> Drop for Inserted<D> {
    fn drop(&mut self) {
        for location in &self.locations {
            let mut command = Command::of(DELETE_RULE, 0);
            command.put(LOCATION, &location.to_ne_bytes());
            // There is no caller to return an error to.
            let _ = self.driver.execute(&mut command);
        }
    }
}

/// Rules of an interface that exist as long as this value.
#[derive(Debug)]
pub struct Rules {
    _inserted: Inserted<Interface>,
}

impl Rules {
    /// Adds these rules. If one is refused, none is left.
    ///
    /// # Errors
    /// There is no such interface; its driver has no rules, or not enough room for these; it refuses a rule.
    pub fn add(name: &str, rules: &[Rule]) -> io::Result<Self> {
        let interface = Interface::find(name)?;
        let places = places(&interface, rules.len()).map_err(|error| refusal(name, error))?;
        let inserted = Inserted::all(interface, rules, places).map_err(|(n, error)| {
            let why = refusal(name, error);
            io::Error::new(why.kind(), format!("rule {n} of {}: {why}", rules.len()))
        })?;
        Ok(Self { _inserted: inserted })
    }
}

/// Locations for this number of new rules.
fn places(interface: &Interface, wanted: usize) -> io::Result<Vec<u32>> {
    let mut counted = Command::of(COUNT_RULES, 0);
    counted.execute(interface)?;
    let known = counted.word(RULES).min(MOST_RULES);
    if counted.data() as u32 & CHOOSES != 0 {
        return Ok(vec![ANY_LOCATION; wanted]);
    }
    // The answer has the size of the table as data, and the locations in use. A driver has no answer that is
    // longer than was asked for.
    let mut room = Room::of((LIST + 4 * known as usize).div_ceil(8))?;
    let mut list = Command::of(LIST_RULES, 0);
    list.put(RULES, &known.to_ne_bytes());
    let answer = room.answer(interface, &list.words())?;
    free_places(answer, known, wanted)
}

/// The locations with the lowest priority, which are the highest, that no rule has.
fn free_places(answer: &[u64], known: u32, wanted: usize) -> io::Result<Vec<u32>> {
    let bytes: Vec<u8> = answer.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let word =
        |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| u32::from_ne_bytes(*bytes));
    let taken: BTreeSet<u32> = (0..known as usize).filter_map(|n| word(LIST + 4 * n)).collect();
    let size = word(DATA).unwrap_or(0).min(MOST_RULES);
    let free: Vec<u32> = (0..size).rev().filter(|place| !taken.contains(place)).take(wanted).collect();
    if free.len() < wanted {
        return Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("it has room for {} more rules, and {wanted} flows need one each", free.len()),
        ));
    }
    Ok(free)
}

/// The cause of a refusal, with the remedy.
fn refusal(name: &str, error: io::Error) -> io::Error {
    let why = match Errno::from_io_error(&error) {
        Some(Errno::OPNOTSUPP) => format!(
            "its driver has no rules that choose the queue of a flow, or takes them only after \
            `ethtool -K {name} ntuple on`"
        ),
        Some(Errno::PERM) => "no right to add rules (cap_net_admin): run as root".into(),
        Some(Errno::NOSPC) => "its card has no room for more rules".into(),
        Some(Errno::INVAL) => "its driver does not steer such flows".into(),
        Some(Errno::EXIST) => "its card has a rule for one of these flows already".into(),
        _ => return error,
    };
    io::Error::new(error.kind(), why)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::{Mac, Size};
    use kpps_namespaces::Net;
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::net::SocketAddr;

    #[test]
    fn free_places_are_the_highest() {
        // A table of six places, of which 5 and 3 are taken.
        let mut bytes = [0_u8; 200];
        bytes[DATA] = 6;
        bytes[LIST..LIST + 4].copy_from_slice(&5_u32.to_ne_bytes());
        bytes[LIST + 4..LIST + 8].copy_from_slice(&3_u32.to_ne_bytes());
        let words: Vec<u64> =
            bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        assert_eq!(free_places(&words, 2, 3).unwrap(), [4, 2, 1]);
        let error = free_places(&words, 2, 5).unwrap_err().to_string();
        assert!(error.contains("room for 4 more rules, and 5 flows"), "{error}");
        assert_eq!(free_places(&[], 9, 0).unwrap(), Vec::<u32>::new());
    }

    /// The bytes that ethtool 6.1 hands to the kernel for `ethtool -N IFACE flow-type FLOW action 3 loc 7`.
    #[test]
    fn a_rule_is_inserted_as_ethtool_does() {
        let v4 = "198.18.0.1:49184 198.19.0.1:9";
        let v6 = "[2001:2::1]:1027 [2001:2::2]:9";
        for (ends, kind, fields) in [
            (v4, 2, "c6120001 c6130001 c0200009"),
            (v6, 6, "20010002 00000000 00000000 00000001 20010002 00000000 00000000 00000002 04030009"),
        ] {
            let [from, to]: [SocketAddr; 2] =
                [0, 1].map(|n| ends.split(' ').nth(n).unwrap().parse().unwrap());
            let flow = Flow {
                from_mac: Mac([2; 6]),
                to_mac: Mac([4; 6]),
                vlan: None,
                from: (from.ip(), from.port()),
                to: (to.ip(), to.port()),
            };
            let frame = udp_test(&flow, Size::with_fcs(128)).unwrap();
            let Command(bytes) = Rule::of(&frame, frame.len(), 3).unwrap().insertion(7);
            let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
            let fields = fields.replace(' ', "");
            let zeros = |bytes: usize| "00".repeat(bytes);
            let rest = 72 - fields.len() / 2;
            let ones = "ff".repeat(fields.len() / 2);
            let expected = [
                format!("32000000{}{kind:02x}000000", zeros(12)),
                format!("{fields}{}{ones}{}", zeros(rest), zeros(rest)),
                zeros(4),
                format!("03{}07{}", zeros(7), zeros(15)),
            ];
            assert_eq!(hex(&bytes), expected.concat(), "{ends}");
        }
        let frame = [0; 64];
        assert_eq!(Rule::of(&frame, 64, 0), None);
    }

    /// A driver that chooses locations, for at most three rules.
    #[derive(Default)]
    struct Table {
        rules: RefCell<BTreeMap<u32, Vec<u8>>>,
        deleted: Cell<usize>,
    }

    impl Execute for &Table {
        fn execute(&self, command: &mut Command) -> io::Result<()> {
            let mut rules = self.rules.borrow_mut();
            match command.word(0) {
                INSERT_RULE if rules.len() == 3 => return Err(Errno::NOSPC.into()),
                INSERT_RULE => {
                    assert_eq!(command.word(LOCATION), ANY_LOCATION);
                    let location = 100 + rules.len() as u32;
                    rules.insert(location, command.0.to_vec());
                    command.put(LOCATION, &location.to_ne_bytes());
                }
                DELETE_RULE => {
                    rules.remove(&command.word(LOCATION)).unwrap();
                    self.deleted.set(self.deleted.get() + 1);
                }
                other => panic!("command {other:#x}"),
            }
            Ok(())
        }
    }

    #[test]
    fn rules_are_deleted_in_the_end_and_after_an_error() {
        let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        let rules: Vec<_> = (0..4).map(|queue| Rule::of(&frame, frame.len(), queue).unwrap()).collect();
        let table = Table::default();
        let Ok(inserted) = Inserted::all(&table, &rules[..3], vec![ANY_LOCATION; 3]) else { panic!() };
        assert_eq!(inserted.locations, [100, 101, 102]);
        let queues: Vec<u8> = table.rules.borrow().values().map(|rule| rule[QUEUE]).collect();
        assert_eq!(queues, [0, 1, 2]);
        drop(inserted);
        assert_eq!((table.rules.borrow().len(), table.deleted.get()), (0, 3));
        let refused = Inserted::all(&table, &rules, vec![ANY_LOCATION; 4]).map(|_| ()).unwrap_err();
        assert_eq!((refused.0, Errno::from_io_error(&refused.1)), (4, Some(Errno::NOSPC)));
        assert_eq!((table.rules.borrow().len(), table.deleted.get()), (0, 6));
    }

    #[test]
    fn an_interface_without_rules_says_so() {
        let Some(net) = Net::new() else { return };
        net.run("ip link add name a type veth peer name b");
        net.enter();
        let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        let rule = Rule::of(&frame, frame.len(), 1).unwrap();
        let error = Rules::add("a", &[rule]).unwrap_err().to_string();
        assert!(
            error.contains("its driver has no rules") && error.contains("`ethtool -K a ntuple on`"),
            "{error}"
        );
        assert!(Rules::add("no-such", &[]).is_err());
    }
}
