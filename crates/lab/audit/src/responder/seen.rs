//! The observations about a guest, by the frames that it sent.

use super::wire::{Contents, Malformed};
use std::collections::BTreeMap;

/// How often something happened, and when it happened first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The time of the first occurrence in ps of the cards' clock; `None` if there was none.
    pub first_ps: Option<u64>,
    /// The number of occurrences.
    pub count: u64,
}

impl Event {
    /// Counts an occurrence.
    pub(crate) fn at(&mut self, now_ps: u64) {
        self.first_ps.get_or_insert(now_ps);
        self.count = self.count.saturating_add(1);
    }
}

/// The kind of a frame with a good FCS and a permitted length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// ARP.
    Arp,
    /// ICMP over IPv4.
    Icmp,
    /// UDP over IPv4.
    Udp,
    /// TCP over IPv4.
    Tcp,
    /// A fragment of an IPv4 packet. The services do not reassemble packets.
    Fragment,
    /// Another protocol over IPv4.
    OtherIpv4,
    /// IPv6.
    Ipv6,
    /// Another type of frame, or a frame with a VLAN tag.
    Other,
    /// A malformed frame.
    Malformed,
}

impl Protocol {
    /// The kind of these contents.
    pub(crate) fn of(contents: &Contents<'_>) -> Self {
        match contents {
            Contents::Arp(_) => Self::Arp,
            Contents::Echo { .. } | Contents::EchoReply { .. } | Contents::Icmp => Self::Icmp,
            Contents::Udp { .. } => Self::Udp,
            Contents::Tcp => Self::Tcp,
            Contents::Fragment => Self::Fragment,
            Contents::Ipv4 => Self::OtherIpv4,
            Contents::Ipv6 => Self::Ipv6,
            Contents::Other => Self::Other,
            Contents::Malformed(_) => Self::Malformed,
        }
    }
}

/// Everything that a guest was seen to do since the responder's creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Frames with a good FCS, of any length.
    pub frames: Event,
    /// Bytes of these frames, without FCS.
    pub bytes: u64,
    /// Frames with a bad FCS. Services and stimuli ignore them, as a receiver does.
    pub bad_fcs: Event,
    /// Frames with a good FCS of less than 60 bytes without it. Services and stimuli ignore them.
    pub runts: Event,
    /// Frames with a good FCS of more than 1514 bytes without it (1518 with a VLAN tag). Services and
    /// stimuli ignore them.
    pub oversized: Event,
    /// Malformed frames. Services and stimuli ignore them.
    pub malformed: Event,
    /// Malformed frames by their fault.
    pub faults: BTreeMap<Malformed, Event>,
    /// Frames by their kind: all but those with a bad FCS, runts and oversized frames.
    pub protocols: BTreeMap<Protocol, Event>,
    /// ARP requests of the guest.
    pub arp_requests: Event,
    /// ARP replies of the guest.
    pub arp_replies: Event,
    /// DHCP: DISCOVER messages of the guest.
    pub dhcp_discovers: Event,
    /// DHCP: REQUEST messages of the guest.
    pub dhcp_requests: Event,
    /// DHCP: acknowledged requests. Each completes an exchange.
    pub dhcp_acks: Event,
    /// DHCP: refused requests.
    pub dhcp_naks: Event,
    /// ICMP echo requests of the guest to the responder.
    pub pings: Event,
    /// TFTP: accepted read requests. A repeated request counts again.
    pub tftp_started: Event,
    /// TFTP: transfers whose last block the guest acknowledged.
    pub tftp_completed: Event,
    /// TFTP: bytes of completed transfers.
    pub tftp_bytes: u64,
    /// TFTP: transfers that ended by an error of the guest, or by its silence.
    pub tftp_failed: Event,
    /// TFTP: refused requests.
    pub tftp_refused: Event,
    /// HTTP: whole requests, answered with the file or with an error.
    pub http_started: Event,
    /// HTTP: answers whose last byte the guest acknowledged.
    pub http_completed: Event,
    /// HTTP: bytes of the bodies of completed answers.
    pub http_bytes: u64,
    /// HTTP: answers that ended before that.
    pub http_failed: Event,
    /// UDP datagrams of the guest to the echo service.
    pub udp_echoes: Event,
    /// Frames to the guest for which the queue had no room.
    pub overflow: Event,
}
