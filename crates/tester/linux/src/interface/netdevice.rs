//! An interface of the kernel: netdevice(7), rtnetlink(7) and the commands of linux/ethtool.h.

use super::netlink;
use crate::sys::ifreq::Requests;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkInfo, LinkMessage};
use rustix::net::{AddressFamily, SocketType, netdevice};
use std::fmt;
use std::io;

/// Commands and a flag of linux/ethtool.h.
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const SET_GRO: u32 = 0x2c;
const FLAG_RX_VLAN: u32 = 1 << 8;

/// An ethtool command that only reads, and whose structure has a fixed size: at most [`WORDS`] words of 32
/// bits. The largest is `ethtool_drvinfo` with 49.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Query {
    /// `struct ethtool_cmd`.
    Settings = 0x01,
    /// `struct ethtool_drvinfo`.
    Driver = 0x03,
    /// `struct ethtool_coalesce`.
    Coalescing = 0x0e,
    /// `struct ethtool_ringparam`.
    Rings = 0x10,
    /// `struct ethtool_channels`.
    Channels = 0x3c,
    /// `struct ethtool_ts_info`.
    Timestamping = 0x41,
}

/// Words of 32 bits of an answer to a [`Query`].
pub(crate) const WORDS: usize = 64;

/// Kinds of links with Ethernet headers (linux/if_arp.h): Ethernet and the loop.
const ETHERNET: [u16; 2] = [1, 772];

/// A link without Ethernet headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherLink {
    /// Its kind (linux/if_arp.h).
    number: u16,
    /// The kernel's name of what makes it: tun, wireguard, gre.
    driver: Option<String>,
}

impl OtherLink {
    /// The name of its kind, as `ip link` shows it, and whether it carries IP packets.
    fn kind(&self) -> (Option<&'static str>, bool) {
        let (name, carries_ip) = match self.number {
            32 => ("infiniband", true),
            280 => ("can", false),
            512 => ("ppp", true),
            513 => ("cisco", true),
            519 => ("rawip", true),
            768 => ("ipip", true),
            769 => ("tunnel6", true),
            776 => ("sit", true),
            778 => ("gre", true),
            801..=803 => ("ieee802.11", false),
            804 | 805 => ("ieee802.15.4", false),
            820..=822 => ("phonet", false),
            823 => ("gre6", true),
            824 => ("netlink", false),
            825 => ("6lowpan", true),
            0xfffe => ("none", true),
            _ => return (None, false),
        };
        (Some(name), carries_ip)
    }
}

impl fmt::Display for OtherLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, carries_ip) = self.kind();
        f.write_str("it carries no Ethernet frames (")?;
        match name {
            Some(name) => write!(f, "link/{name}")?,
            None => write!(f, "link type {}", self.number)?,
        }
        if let Some(driver) = self.driver.as_deref().filter(|driver| Some(*driver) != name) {
            write!(f, ", {driver}")?;
        }
        f.write_str(match carries_ip {
            true => {
                "): use udp:HOST:PORT for a path over it, or an interface with Ethernet headers (tap, gretap, VXLAN, or \
                the one below a tunnel)"
            }
            false => "): use an Ethernet interface, `ip -brief link` shows them",
        })
    }
}

/// An interface of the kernel, in the network namespace of the thread that found it.
#[derive(Debug)]
pub struct Interface {
    requests: Requests,
    index: u32,
}

impl Interface {
    /// The interface of this name.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn find(name: &str) -> io::Result<Self> {
        let requests = Requests::new(name)?;
        Ok(Self { index: requests.index()?, requests })
    }

    /// Its number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The driver's answer to a query: the words of its structure, the command first.
    pub(crate) fn query(&self, query: Query) -> io::Result<[u32; WORDS]> {
        let mut words = [0; WORDS];
        words[0] = query as u32;
        // SAFETY: the structures of all queries are smaller than `words`.
        unsafe { self.requests.ethtool(&mut words) }?;
        Ok(words)
    }

    /// Sends the driver an ethtool command. The answer overwrites it.
    ///
    /// # Safety
    /// `command` is a command of linux/ethtool.h in its structure, and has room for all that the kernel and
    /// the driver write for it.
    pub(crate) unsafe fn ethtool(&self, command: &mut [u64]) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.requests.ethtool(command) }
    }

    /// The interface's attributes from rtnetlink(7).
    fn attributes(&self) -> io::Result<Vec<LinkAttribute>> {
        let mut about = LinkMessage::default();
        about.header.index = self.index;
        let answers = netlink::ask(RouteNetlinkMessage::GetLink(about))?;
        let attributes = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link.attributes),
            _ => None,
        });
        Ok(attributes.unwrap_or_default())
    }

    /// The name of its queueing discipline (tc(8)).
    ///
    /// # Errors
    /// Errors of the system: the interface may be gone.
    pub fn discipline(&self) -> io::Result<String> {
        let name = self.attributes()?.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::Qdisc(name) => Some(name),
            _ => None,
        });
        Ok(name.unwrap_or_default())
    }

    /// The interface's link layer if it is not Ethernet; `None` if it is.
    ///
    /// # Errors
    /// Errors of the system: the interface may be gone.
    pub fn other_link(&self) -> io::Result<Option<OtherLink>> {
        let number = self.requests.link_type()?;
        if ETHERNET.contains(&number) {
            return Ok(None);
        }
        let driver = self.attributes()?.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::LinkInfo(all) => all.into_iter().find_map(|info| match info {
                LinkInfo::Kind(kind) => Some(kind.to_string()),
                _ => None,
            }),
            _ => None,
        });
        Ok(Some(OtherLink { number, driver }))
    }

    /// The station address.
    ///
    /// # Errors
    /// Errors of the system: the interface may be gone.
    pub fn address(&self) -> io::Result<[u8; 6]> {
        self.requests.address()
    }

    /// The longest payload of a frame, in bytes.
    ///
    /// # Errors
    /// Errors of the system: the interface may be gone.
    pub fn mtu(&self) -> io::Result<usize> {
        self.requests.mtu()
    }

    /// Whether frames can pass.
    ///
    /// # Errors
    /// Errors of the system: the interface may be gone.
    pub fn is_running(&self) -> io::Result<bool> {
        self.requests.is_running()
    }

    /// Executes a command with a `struct ethtool_value`, and returns the value that the kernel leaves there.
    fn value(&self, command: u32, value: u32) -> io::Result<u32> {
        let mut words = [command, value];
        // SAFETY: `ethtool_value` is these two words.
        unsafe { self.requests.ethtool(&mut words) }?;
        Ok(words[1])
    }

    /// Receives frames as they are on the wire: not merged (GRO), with their VLAN tags.
    ///
    /// # Errors
    /// If the system refuses: it needs `CAP_NET_ADMIN`.
    pub fn as_on_the_wire(&self) -> io::Result<()> {
        self.value(SET_GRO, 0)?;
        let flags = self.value(GET_FLAGS, 0)?;
        if flags & FLAG_RX_VLAN != 0 {
            self.value(SET_FLAGS, flags & !FLAG_RX_VLAN)?;
        }
        Ok(())
    }
}

/// The name of the interface with this number.
pub(crate) fn name_of(index: u32) -> io::Result<String> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::index_to_name(socket, index)?)
}
