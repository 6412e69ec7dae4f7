//! Frames of any stack of headers, whose fields follow patterns.
//!
//! A stack is a list of headers from outside in, beginning with Ethernet. Types, protocols, lengths and
//! checksums follow from the stack, unless a pattern sets them. The test tag is behind the last header.

use crate::checksum::{Sum, checksum};
use crate::edits::{Combine, Covering, Edit, Edits, Place};
use crate::ethernet::{TYPE_IPV4, TYPE_IPV6, TYPE_VLAN};
use crate::headers::{TYPE_MPLS, TYPE_SERVICE_VLAN};
use crate::pattern::{BadPattern, Format, Pattern};
use crate::raw::from_hex;
use crate::templates::order;
use crate::{Mac, Mix, Size, Templates, field, ipv4, nd, tag, tcp};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::ops::Range;

/// The most headers of a stack.
pub const MOST_HEADERS: usize = 16;
/// The most bytes of a stack's headers.
const MOST_BYTES: usize = 1024;
/// The type of experiments (IEEE 802), for a payload without a type of its own.
const TYPE_EXPERIMENT: u16 = 0x88b5;
/// The type of Ethernet frames in GRE (RFC 7637 uses it, too).
const TYPE_BRIDGED: u16 = 0x6558;
/// The protocol of experiments (RFC 3692), for a payload without a protocol of its own.
const PROTOCOL_EXPERIMENT: u8 = 253;
/// The UDP port of VXLAN (RFC 7348).
const PORT_VXLAN: u16 = 4789;

/// A kind of header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ethernet II.
    Ethernet,
    /// A VLAN tag (IEEE 802.1Q): control field and the type behind it.
    Vlan,
    /// A service VLAN's tag (IEEE 802.1ad).
    ServiceVlan,
    /// An MPLS label (RFC 3032).
    Mpls,
    /// IPv4 without options.
    Ipv4,
    /// IPv6 without extension headers.
    Ipv6,
    /// UDP.
    Udp,
    /// TCP without options.
    Tcp,
    /// ICMP: type, code, checksum and four bytes (RFC 792).
    Icmp,
    /// The same of IPv6 (RFC 4443).
    Icmpv6,
    /// GRE without options (RFC 2784).
    Gre,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// Own bytes.
    Bytes,
}

/// A field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its first bit in the header, and its width in bits.
    bits: (u32, u32),
    /// How its values are written.
    pub format: Format,
}

impl Field {
    /// Where it is, in a header at this place.
    const fn place(&self, header: &Range<usize>) -> Place {
        Place::new(header.start, self.bits.0, self.bits.1)
    }
}

const fn number(name: &'static str, at: u32, bits: u32) -> Field {
    Field { name, bits: (at, bits), format: Format::Number }
}

const ETHERNET: &[Field] = &[
    Field { name: "dst", bits: (0, 48), format: Format::Mac },
    Field { name: "src", bits: (48, 48), format: Format::Mac },
    number("type", 96, 16),
];
const VLAN: &[Field] =
    &[number("pcp", 0, 3), number("dei", 3, 1), number("id", 4, 12), number("type", 16, 16)];
const MPLS: &[Field] =
    &[number("label", 0, 20), number("tc", 20, 3), number("bottom", 23, 1), number("ttl", 24, 8)];
const IPV4: &[Field] = &[
    number("version", 0, 4),
    number("ihl", 4, 4),
    number("dscp", 8, 6),
    number("ecn", 14, 2),
    number("length", 16, 16),
    number("id", 32, 16),
    number("reserved", 48, 1),
    number("df", 49, 1),
    number("mf", 50, 1),
    number("offset", 51, 13),
    number("ttl", 64, 8),
    number("protocol", 72, 8),
    number("checksum", 80, 16),
    Field { name: "src", bits: (96, 32), format: Format::Ipv4 },
    Field { name: "dst", bits: (128, 32), format: Format::Ipv4 },
];
const IPV6: &[Field] = &[
    number("version", 0, 4),
    number("dscp", 4, 6),
    number("ecn", 10, 2),
    number("label", 12, 20),
    number("length", 32, 16),
    number("protocol", 48, 8),
    number("ttl", 56, 8),
    Field { name: "src", bits: (64, 128), format: Format::Ipv6 },
    Field { name: "dst", bits: (192, 128), format: Format::Ipv6 },
];
const UDP: &[Field] =
    &[number("sport", 0, 16), number("dport", 16, 16), number("length", 32, 16), number("checksum", 48, 16)];
const TCP: &[Field] = &[
    number("sport", 0, 16),
    number("dport", 16, 16),
    number("sequence", 32, 32),
    number("acknowledgement", 64, 32),
    number("offset", 96, 4),
    number("flags", 103, 9),
    number("window", 112, 16),
    number("checksum", 128, 16),
    number("urgent", 144, 16),
];
const ICMP: &[Field] = &[
    number("type", 0, 8),
    number("code", 8, 8),
    number("checksum", 16, 16),
    number("id", 32, 16),
    number("sequence", 48, 16),
];
const GRE: &[Field] = &[number("flags", 0, 16), number("type", 16, 16)];
const VXLAN: &[Field] = &[number("flags", 0, 8), number("network", 32, 24)];

impl Kind {
    /// All kinds but own bytes, with their names.
    pub const NAMED: [(&'static str, Self); 12] = [
        ("ethernet", Self::Ethernet),
        ("vlan", Self::Vlan),
        ("svlan", Self::ServiceVlan),
        ("mpls", Self::Mpls),
        ("ipv4", Self::Ipv4),
        ("ipv6", Self::Ipv6),
        ("udp", Self::Udp),
        ("tcp", Self::Tcp),
        ("icmp", Self::Icmp),
        ("icmpv6", Self::Icmpv6),
        ("gre", Self::Gre),
        ("vxlan", Self::Vxlan),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, kind)| *kind == self).map_or("bytes", |(name, _)| *name)
    }

    /// Its fields.
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Self::Ethernet => ETHERNET,
            Self::Vlan | Self::ServiceVlan => VLAN,
            Self::Mpls => MPLS,
            Self::Ipv4 => IPV4,
            Self::Ipv6 => IPV6,
            Self::Udp => UDP,
            Self::Tcp => TCP,
            Self::Icmp | Self::Icmpv6 => ICMP,
            Self::Gre => GRE,
            Self::Vxlan => VXLAN,
            Self::Bytes => &[],
        }
    }

    /// Its length in bytes.
    const fn bytes(self) -> usize {
        match self {
            Self::Ethernet => 14,
            Self::Vlan | Self::ServiceVlan | Self::Mpls | Self::Gre => 4,
            Self::Ipv4 | Self::Tcp => 20,
            Self::Ipv6 => 40,
            Self::Udp | Self::Icmp | Self::Icmpv6 | Self::Vxlan => 8,
            Self::Bytes => 0,
        }
    }

    /// The type of a frame with this payload.
    const fn ether_type(next: Option<Self>) -> u16 {
        match next {
            Some(Self::Vlan) => TYPE_VLAN,
            Some(Self::ServiceVlan) => TYPE_SERVICE_VLAN,
            Some(Self::Mpls) => TYPE_MPLS,
            Some(Self::Ipv4) => TYPE_IPV4,
            Some(Self::Ipv6) => TYPE_IPV6,
            Some(Self::Ethernet) => TYPE_BRIDGED,
            _ => TYPE_EXPERIMENT,
        }
    }

    /// The protocol of an IP packet with this payload (IANA, Assigned Internet Protocol Numbers).
    const fn protocol(next: Option<Self>) -> u8 {
        match next {
            Some(Self::Udp) => ipv4::PROTOCOL_UDP,
            Some(Self::Tcp) => ipv4::PROTOCOL_TCP,
            Some(Self::Icmp) => ipv4::PROTOCOL_ICMP,
            Some(Self::Icmpv6) => nd::PROTOCOL,
            Some(Self::Gre) => 47,
            Some(Self::Ipv4) => 4,
            Some(Self::Ipv6) => 41,
            _ => PROTOCOL_EXPERIMENT,
        }
    }

    /// Where an IP header has its protocol.
    const fn protocol_at(self) -> usize {
        if matches!(self, Self::Ipv4) { 9 } else { 6 }
    }

    /// Where its checksum is, from its beginning.
    const fn checksum(self) -> Option<usize> {
        match self {
            Self::Ipv4 => Some(10),
            Self::Udp => Some(6),
            Self::Tcp => Some(16),
            Self::Icmp | Self::Icmpv6 => Some(2),
            _ => None,
        }
    }
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    kind: Kind,
    /// Own bytes.
    bytes: Vec<u8>,
}

/// The stations and addresses of frames where no pattern sets them: the sender's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// Stations.
    pub macs: [Mac; 2],
    /// IP addresses. Headers of the other version of IP have the benchmark addresses of theirs.
    pub ips: [IpAddr; 2],
}

/// A list of headers, from outside in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    headers: Vec<Header>,
    combine: Combine,
    /// The fields that were set, in this order: the header, the field, and its pattern.
    fields: Vec<(usize, Field, Pattern)>,
}

/// Why there are no such frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadStack {
    /// An unknown header.
    Header(String),
    /// The first header is not Ethernet, or there are too many headers or bytes.
    Form,
    /// No such field: the name, and the names that the header has.
    Field(String, String),
    /// A field has a value that is too large for its width in bits.
    Wide(String, u32),
    /// A text is no pattern.
    Pattern(String, BadPattern),
    /// The frames are too small for headers and tag: the size, and the least, in bytes with FCS.
    Small(u32, u32),
}

impl fmt::Display for BadStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => {
                let known: Vec<_> = Kind::NAMED.iter().map(|(name, _)| *name).collect();
                write!(
                    f,
                    "'{name}' is no header: give {}, or own bytes in hexadecimal as 0x0102",
                    known.join(", ")
                )
            }
            Self::Form => write!(
                f,
                "a stack begins with ethernet, and has at most {MOST_HEADERS} headers and {MOST_BYTES} bytes"
            ),
            Self::Field(name, known) => write!(f, "there is no field '{name}'{known}"),
            Self::Wide(name, bits) => write!(f, "{name} has {bits} bits, which a value does not fit into"),
            Self::Pattern(name, bad) => write!(f, "{name}: {bad}"),
            Self::Small(size, least) => write!(
                f,
                "a frame of {size} B with FCS is too small for these headers and the tag: give at least {least} B"
            ),
        }
    }
}

impl core::error::Error for BadStack {}

impl Stack {
    /// These headers from outside in, as `ethernet/vlan/ipv4/udp`. Own bytes are hexadecimal digits behind
    /// `0x`.
    ///
    /// # Errors
    /// [`BadStack`].
    pub fn read(text: &str) -> Result<Self, BadStack> {
        let header = |name: &str| {
            let name = name.trim();
            let known = Kind::NAMED.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
            let own = || name.strip_prefix("0x").and_then(from_hex);
            let (kind, bytes) = match known {
                Some(kind) => (kind, Vec::new()),
                None => (Kind::Bytes, own().ok_or_else(|| BadStack::Header(name.to_string()))?),
            };
            Ok(Header { kind, bytes })
        };
        let headers: Vec<Header> = text.split('/').map(header).collect::<Result<_, _>>()?;
        let stack = Self { headers, combine: Combine::Lockstep, fields: Vec::new() };
        let begins = stack.headers.first().is_some_and(|first| first.kind == Kind::Ethernet);
        let is_good = begins && stack.headers.len() <= MOST_HEADERS && stack.bytes() <= MOST_BYTES;
        if is_good { Ok(stack) } else { Err(BadStack::Form) }
    }

    /// The same stack, whose patterns are combined like this.
    #[must_use]
    pub fn combined(self, combine: Combine) -> Self {
        Self { combine, ..self }
    }

    /// The stack of some frames, if patterns advance from frame to frame: of those with the numbers `turns`
    /// of each `all` frames. `None` if a pattern has too many values for that ([`Pattern::of_turns`]), or if
    /// patterns are combined.
    #[must_use]
    pub fn of_turns(&self, turns: &[usize], all: usize) -> Option<Self> {
        let field = |(at, field, pattern): &(usize, Field, Pattern)| {
            Some((*at, *field, pattern.of_turns(turns, all)?))
        };
        let fields = self.fields.iter().map(field).collect::<Option<Vec<_>>>()?;
        (self.combine == Combine::Lockstep).then(|| Self { fields, ..self.clone() })
    }

    /// The header and the field of a name: `ipv4.dst`, or `ipv4.2.dst` for the second IPv4 header from
    /// outside.
    fn find(&self, name: &str) -> Result<(usize, Field), BadStack> {
        let unknown = |known: String| BadStack::Field(name.to_string(), known);
        let parts: Vec<&str> = name.split('.').collect();
        let (kind, which, field) = match parts[..] {
            [kind, field] => (kind, 1, field),
            [kind, which, field] => (kind, which.parse().map_err(|_| unknown(String::new()))?, field),
            _ => return Err(unknown(": give HEADER.FIELD, as ipv4.dst".to_string())),
        };
        let mut of_kind = self.headers.iter().enumerate().filter(|(_, header)| header.kind.name() == kind);
        let (at, header) = of_kind
            .nth(usize::saturating_sub(which, 1))
            .filter(|_| which > 0)
            .ok_or_else(|| unknown(alloc::format!(": the stack is {self}")))?;
        let fields = header.kind.fields();
        let found = fields.iter().find(|it| it.name == field).copied();
        let known: Vec<_> = fields.iter().map(|field| field.name).collect();
        found
            .map(|field| (at, field))
            .ok_or_else(|| unknown(alloc::format!(": {kind} has {}", known.join(", "))))
    }

    /// The format of a field's values.
    ///
    /// # Errors
    /// [`BadStack::Field`].
    pub fn format(&self, name: &str) -> Result<Format, BadStack> {
        Ok(self.find(name)?.1.format)
    }

    /// Sets a field to a pattern.
    ///
    /// # Errors
    /// [`BadStack`].
    pub fn set(&mut self, name: &str, pattern: Pattern) -> Result<(), BadStack> {
        let (at, field) = self.find(name)?;
        if !pattern.fits(field.bits.1) {
            return Err(BadStack::Wide(name.to_string(), field.bits.1));
        }
        self.fields.retain(|(header, other, _)| (*header, *other) != (at, field));
        self.fields.push((at, field, pattern));
        Ok(())
    }

    /// The number of values of its patterns that are kept in memory.
    pub fn listed(&self) -> usize {
        self.fields.iter().map(|(.., pattern)| pattern.listed()).sum()
    }

    /// Whether a field was set; `None` if there is no such header or field.
    pub fn is_set(&self, name: &str) -> Option<bool> {
        let (at, field) = self.find(name).ok()?;
        Some(self.fields.iter().any(|(header, other, _)| (*header, *other) == (at, field)))
    }

    /// As [`set`](Self::set), of a text ([`Pattern::read`]).
    ///
    /// # Errors
    /// [`BadStack`].
    pub fn set_text(&mut self, name: &str, text: &str) -> Result<(), BadStack> {
        let pattern = Pattern::read(text, self.format(name)?);
        self.set(name, pattern.map_err(|bad| BadStack::Pattern(name.to_string(), bad))?)
    }

    /// Bytes of all headers.
    fn bytes(&self) -> usize {
        self.headers.iter().map(|header| header.kind.bytes() + header.bytes.len()).sum()
    }

    /// Whether frames are plain test frames: UDP, at most one VLAN tag, and every length and type as usual.
    /// Their tags are where other programs find them, and a UDP checksum over IPv4 is left out.
    pub fn is_plain(&self) -> bool {
        let kinds: Vec<Kind> = self.headers.iter().map(|header| header.kind).collect();
        let inner = match &kinds[..] {
            [Kind::Ethernet, Kind::Vlan, rest @ ..] | [Kind::Ethernet, rest @ ..] => rest,
            _ => return false,
        };
        let forms = ["type", "version", "ihl", "length", "protocol", "checksum"];
        let has_own = self.fields.iter().any(|(_, field, _)| forms.contains(&field.name));
        matches!(inner, [Kind::Ipv4 | Kind::Ipv6, Kind::Udp]) && !has_own
    }

    /// Whether a VLAN tag follows the stations. It does not count towards the MTU of an interface.
    pub fn begins_with_vlan(&self) -> bool {
        self.headers.get(1).is_some_and(|header| header.kind == Kind::Vlan)
    }

    /// Bytes of a tag behind the headers.
    fn tag_bytes(&self) -> usize {
        if self.is_plain() { tag::BYTES } else { tag::BALANCED_BYTES }
    }

    /// The smallest frame with these headers and a tag.
    pub fn least(&self) -> Size {
        Size::without_fcs((self.bytes() + self.tag_bytes()) as u16).max(Size::MIN)
    }

    /// Where each header begins, with its end.
    fn places(&self) -> Vec<Range<usize>> {
        let mut at = 0;
        let place = |header: &Header| {
            let begin = at;
            at += header.kind.bytes() + header.bytes.len();
            begin..at
        };
        self.headers.iter().map(place).collect()
    }

    /// Whether this header's checksum follows from the frame: it has one, no pattern sets it, and a UDP
    /// header has one only if it is the last header, or over IPv6 (RFC 6935 allows none for tunnels).
    fn has_checksum(&self, at: usize) -> bool {
        let Some(header) = self.headers.get(at) else { return false };
        let is_set = self.fields.iter().any(|(it, field, _)| *it == at && field.name == "checksum");
        let is_left_out = header.kind == Kind::Udp
            && (self.headers[at + 1..].iter().any(|header| header.kind != Kind::Bytes)
                || self.is_plain() && self.headers.iter().any(|header| header.kind == Kind::Ipv4));
        header.kind.checksum().is_some() && !is_set && !is_left_out
    }

    /// The IP header that a transport header's pseudo-header is made of.
    fn ip_of(&self, at: usize) -> Option<usize> {
        let before = at.checked_sub(1)?;
        let is_transport = matches!(self.headers.get(at)?.kind, Kind::Udp | Kind::Tcp | Kind::Icmpv6);
        (is_transport && matches!(self.headers.get(before)?.kind, Kind::Ipv4 | Kind::Ipv6)).then_some(before)
    }

    /// The bytes that a header's checksum covers: its own, to the end of the frame but for IPv4's, and of the
    /// pseudo-header the addresses and the protocol. And whether the first byte is the second one of a word.
    fn covered(&self, at: usize, places: &[Range<usize>]) -> [(Range<usize>, bool); 3] {
        let own = places.get(at).cloned().unwrap_or_default();
        let end = if self.headers[at].kind == Kind::Ipv4 { own.end } else { usize::MAX };
        let ip = self.ip_of(at);
        let protocol = ip.map_or(0..0, |ip| {
            let at = places[ip].start + self.headers[ip].kind.protocol_at();
            at..at + 1
        });
        let addresses = ip.map_or(0..0, |ip| self.addresses(ip, places));
        [(own.start..end, false), (addresses, false), (protocol, true)]
    }

    fn addresses(&self, ip: usize, places: &[Range<usize>]) -> Range<usize> {
        let begin = places[ip].start;
        if self.headers[ip].kind == Kind::Ipv4 { begin + 12..begin + 20 } else { begin + 8..begin + 40 }
    }

    /// The fields that change from frame to frame.
    fn edits(&self) -> Edits {
        let places = self.places();
        let edit = |(at, field, pattern): &(usize, Field, Pattern)| {
            let place = field.place(&places[*at]);
            let range = place.range();
            let mut sums: Vec<Covering> = Vec::new();
            // From inside out: a checksum may cover another one.
            for other in (0..self.headers.len()).rev().filter(|other| self.has_checksum(*other)) {
                let covered = self.covered(other, &places);
                let part = |range: &Range<usize>| {
                    let holds =
                        |it: &&(Range<usize>, bool)| it.0.start <= range.start && range.end <= it.0.end;
                    let (place, is_odd) = covered.iter().find(holds)?;
                    Some((range.end - place.start + usize::from(*is_odd)) % 2 == 1)
                };
                let before = sums.iter().map(|sum| usize::from(sum.at)..usize::from(sum.at) + 2);
                let changed = core::iter::once(range.clone()).chain(before).enumerate();
                let parts: Vec<_> = changed.filter_map(|(n, range)| Some((n, part(&range)?))).collect();
                if let (Some(sum), false) = (self.headers[other].kind.checksum(), parts.is_empty()) {
                    sums.push(Covering {
                        at: (places[other].start + sum) as u16,
                        parts,
                        is_udp: self.headers[other].kind == Kind::Udp,
                    });
                }
            }
            Edit { place, pattern: pattern.clone(), each: 1, sums }
        };
        let changing = self.fields.iter().filter(|(.., pattern)| !pattern.is_one());
        Edits::new(changing.map(edit).collect(), self.combine)
    }

    /// The first frame of a size, with zeros in place of the tag.
    fn first(&self, between: &Between, size: Size) -> Vec<u8> {
        let places = self.places();
        let mut frame = vec![0; usize::from(size.bytes_without_fcs())];
        (0..self.headers.len()).for_each(|at| self.put_usual(at, between, &places, &mut frame));
        for (at, field, pattern) in &self.fields {
            field.place(&places[*at]).write(&mut frame, pattern.value(0));
        }
        // From inside out: a checksum covers those behind it.
        for at in (0..self.headers.len()).rev().filter(|at| self.has_checksum(*at)) {
            self.put_checksum(at, &places, &mut frame);
        }
        frame
    }

    /// Writes a header with its usual values. The frame has room for all headers.
    fn put_usual(&self, at: usize, between: &Between, places: &[Range<usize>], frame: &mut [u8]) {
        let (header, next) = (&self.headers[at], self.headers.get(at + 1).map(|next| next.kind));
        let length = (frame.len() - places[at].start) as u16;
        let bytes = &mut frame[places[at].clone()];
        let [from, to] = between.ips;
        match header.kind {
            Kind::Ethernet => {
                let [from, to] = between.macs;
                bytes[..6].copy_from_slice(&to.0);
                bytes[6..12].copy_from_slice(&from.0);
                field::put_u16(bytes, 12, Kind::ether_type(next));
            }
            Kind::Vlan | Kind::ServiceVlan => {
                field::put_u16(bytes, 0, 1);
                field::put_u16(bytes, 2, Kind::ether_type(next));
            }
            Kind::Mpls => {
                let bottom = u32::from(next != Some(Kind::Mpls));
                // Labels below 16 are reserved (RFC 3032, 2.1).
                field::put_u32(bytes, 0, 16 << 12 | bottom << 8 | 64);
            }
            Kind::Ipv4 => {
                let ips = match (from, to) {
                    (IpAddr::V4(from), IpAddr::V4(to)) => [from, to],
                    _ => [[198, 18, 0, 1].into(), [198, 19, 0, 2].into()],
                };
                ipv4::write_header(bytes, 0, ips[0], ips[1], Kind::protocol(next), length);
            }
            Kind::Ipv6 => {
                let benchmark = |net: u16| core::net::Ipv6Addr::new(0x2001, 2, 0, net, 0, 0, 0, net);
                let ips = match (from, to) {
                    (IpAddr::V6(from), IpAddr::V6(to)) => [from, to],
                    _ => [benchmark(1), benchmark(2)],
                };
                let payload = length.saturating_sub(crate::ipv6::HEADER_BYTES as u16);
                crate::ipv6::write_header(bytes, ips[0], ips[1], Kind::protocol(next), 64, payload);
            }
            Kind::Udp => {
                let dport = if next == Some(Kind::Vxlan) { PORT_VXLAN } else { 9 };
                crate::udp::write_header(bytes, 49152, dport, length);
            }
            Kind::Tcp => {
                field::put_u16(bytes, 0, 49152);
                field::put_u16(bytes, 2, 9);
                field::put_u16(bytes, 12, 5 << 12 | u16::from(tcp::ACK | tcp::PSH));
                field::put_u16(bytes, 14, u16::MAX);
            }
            Kind::Icmp => bytes[0] = crate::icmp::ECHO,
            Kind::Icmpv6 => bytes[0] = crate::icmp::ECHO_V6,
            Kind::Gre => field::put_u16(bytes, 2, Kind::ether_type(next)),
            // The network is valid.
            Kind::Vxlan => bytes[0] = 8,
            Kind::Bytes => bytes.copy_from_slice(&header.bytes),
        }
    }

    /// Computes the checksum of a header, which is 0 before.
    fn put_checksum(&self, at: usize, places: &[Range<usize>], frame: &mut [u8]) {
        let kind = self.headers[at].kind;
        let Some(place) = kind.checksum().map(|sum| places[at].start + sum) else { return };
        let begin = places[at].start;
        field::put_u16(frame, place, 0);
        let value = if kind == Kind::Ipv4 {
            checksum(&frame[places[at].clone()])
        } else {
            let mut sum = Sum::new();
            if let Some(ip) = self.ip_of(at) {
                let length = ((frame.len() - begin) as u32).to_be_bytes();
                let protocol = frame[places[ip].start + self.headers[ip].kind.protocol_at()];
                sum = sum.with(&frame[self.addresses(ip, places)]).with(&length).with(&[0, 0, 0, protocol]);
            }
            sum.with(&frame[begin..]).checksum()
        };
        match kind {
            Kind::Udp => crate::udp::put_checksum(&mut frame[begin..], value),
            _ => field::put_u16(frame, place, value),
        }
    }

    /// The frames of a mix of sizes. The patterns take a value from frame to frame, whatever its size.
    ///
    /// # Errors
    /// [`BadStack::Small`].
    pub fn templates(&self, between: &Between, mix: &Mix) -> Result<Templates, BadStack> {
        let least = self.least();
        let sizes: Vec<Size> = mix.parts().iter().map(|part| part.0).collect();
        if let Some(small) = sizes.iter().find(|size| **size < least) {
            return Err(BadStack::Small(small.bytes_with_fcs(), least.bytes_with_fcs()));
        }
        let frames = sizes.iter().map(|size| self.first(between, *size));
        let format = match self.is_plain() {
            true => tag::TagFormat::default(),
            false => tag::TagFormat::balanced(self.bytes() as u16),
        };
        let places = self.places();
        let innermost = self.headers.iter().rposition(|header| header.kind == Kind::Ethernet).unwrap_or(0);
        Ok(Templates::of_stack(
            frames,
            order(mix),
            self.bytes(),
            (format, places[innermost].start),
            self.edits(),
        ))
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, header) in self.headers.iter().enumerate() {
            write!(f, "{}{}", if n > 0 { "/" } else { "" }, header.kind.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Tag;
    use crate::headers::Headers;
    use proptest::prelude::*;

    fn between() -> Between {
        Between {
            macs: [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])],
            ips: [[198, 18, 0, 1].into(), [198, 19, 0, 2].into()],
        }
    }

    fn stack(text: &str, fields: &[(&str, &str)]) -> Stack {
        let mut stack = Stack::read(text).unwrap();
        fields.iter().for_each(|(name, text)| stack.set_text(name, text).unwrap());
        stack
    }

    fn frame(templates: &Templates, n: u64) -> Vec<u8> {
        let mut bytes = vec![0xaa; 2000];
        let length = templates.write(n, &mut bytes).unwrap();
        bytes.truncate(length.into());
        templates
            .tag()
            .write(&mut bytes, Tag { stream: 3, sequence: n, sent_ps: n.wrapping_mul(77) })
            .unwrap();
        bytes
    }

    /// The plain stack is the test frame, and fields appear where the other functions find them.
    #[test]
    fn a_plain_stack_is_a_test_frame() {
        for (text, ips) in [
            ("ethernet/ipv4/udp", ["198.18.0.1", "198.19.0.2"]),
            ("ethernet/vlan/ipv6/udp", ["2001:2::1", "2001:2::2"]),
        ] {
            let ips = ips.map(|ip| ip.parse::<IpAddr>().unwrap());
            let [from_mac, to_mac] = between().macs;
            let vlan = text.contains("vlan").then_some(7);
            let flow = crate::build::Flow { from_mac, to_mac, vlan, from: (ips[0], 49152), to: (ips[1], 9) };
            let mut stack = stack(text, &[]);
            if vlan.is_some() {
                stack.set_text("vlan.id", "7").unwrap();
            }
            assert_eq!(stack.least(), flow.least_test_size());
            let size = Size::with_fcs(100);
            let between = Between { ips, ..between() };
            let templates = stack.templates(&between, &Mix::fixed(size)).unwrap();
            let mut expected = crate::build::udp_test(&flow, size).unwrap();
            tag::write(&mut expected, Tag { stream: 3, sequence: 0, sent_ps: 0 }).unwrap();
            assert_eq!(frame(&templates, 0), expected, "{text}");
            assert!(templates.only().is_some());
        }
    }

    /// Parsers of others find each header, and the checksums of every frame are right.
    #[test]
    fn others_read_the_frames() {
        for (text, fields) in [
            ("ethernet/ipv4/tcp", &[("tcp.sport", "1024-65535/7"), ("ipv4.src", "10.0.0.1-10.0.9.9")][..]),
            ("ethernet/svlan/vlan/ipv6/udp", &[("vlan.id", "1-99"), ("ipv6.dst", "random:::1-::ffff")]),
            ("ethernet/mpls/mpls/ipv4/icmp", &[("mpls.2.label", "16-1000"), ("icmp.sequence", "9-1")]),
            ("ethernet/vlan/ipv6/icmpv6", &[("icmpv6.id", "random:0-65535"), ("ipv6.label", "0-9")]),
            (
                "ethernet/ipv4/udp/vxlan/ethernet/ipv4/udp/0x0102",
                &[("vxlan.network", "1-16000000"), ("ipv4.2.dst", "10.9.0.1-10.9.0.7"), ("udp.sport", "1-9")],
            ),
            ("ethernet/ipv4/gre/ipv4/udp", &[("ipv4.ttl", "1-255"), ("ipv4.2.dscp", "0-63")]),
        ] {
            let stack = stack(text, fields);
            let mix: Mix = alloc::format!("{}:2,400:1", stack.least().bytes_with_fcs()).parse().unwrap();
            let templates = stack.templates(&between(), &mix).unwrap();
            for n in (0..300).chain(70_000..70_300) {
                let frame = frame(&templates, n);
                let (_, tag, _) = templates.tag().read_any(&frame).unwrap();
                assert_eq!((tag.stream, tag.sequence), (3, n));
                let inner = &frame[templates.inner()..];
                let headers = Headers::of(inner).unwrap();
                let sliced = etherparse::SlicedPacket::from_ethernet(inner).unwrap();
                // It does not look behind labels.
                assert_eq!(sliced.net.is_some(), !text.contains("mpls"), "{text}");
                if let Some(at) = headers.ip_checksum() {
                    assert_eq!(checksum(&inner[headers.ip..headers.transport]), 0, "{text} {n} {at}");
                }
                if headers.checksum().is_some() && headers.protocol != 47 {
                    let sum = headers.pseudo_header(inner).with(&inner[headers.transport..headers.end]);
                    assert_eq!(sum.checksum(), 0, "{text} {n}");
                }
                assert_eq!(headers.end, inner.len());
            }
            assert!(templates.only().is_none());
        }
    }

    #[test]
    fn frames_of_turns_are_those_of_the_whole_stack() {
        let all = stack("ethernet/ipv4/udp", &[("ipv4.dst", "10.0.0.1-10.0.0.6"), ("udp.dport", "1-7")]);
        let mix = Mix::fixed(Size::with_fcs(100));
        let templates = |stack: &Stack| stack.templates(&between(), &mix).unwrap();
        for (turns, n) in [[0, 1], [1, 3], [2, 3]].iter().flat_map(|turns| (0..60).map(move |n| (turns, n))) {
            let mut bytes = [[0; 200]; 2];
            templates(&all.of_turns(turns, 4).unwrap()).write(n as u64, &mut bytes[0]).unwrap();
            templates(&all).write((turns[n % 2] + n / 2 * 4) as u64, &mut bytes[1]).unwrap();
            assert_eq!(bytes[0], bytes[1], "{turns:?} {n}");
        }
        assert_eq!(all.combined(Combine::Product).of_turns(&[0], 3), None);
    }

    #[test]
    fn mistakes_are_named() {
        let bad = |text: &str| Stack::read(text).unwrap_err().to_string();
        assert!(bad("ipv4/udp").contains("begins with ethernet"));
        assert!(bad("ethernet/ipx").contains("'ipx' is no header: give ethernet, vlan"));
        assert!(bad("ethernet/0x123").contains("hexadecimal"));
        let mut stack = stack("ethernet/vlan/ipv4/udp", &[]);
        let mut bad = |name: &str, text: &str| stack.set_text(name, text).unwrap_err().to_string();
        assert!(bad("ipv4.dest", "1").contains("ipv4 has version"));
        assert!(bad("ipv6.dst", "::1").contains("the stack is ethernet/vlan/ipv4/udp"));
        assert!(bad("vlan.2.id", "1").contains("no field") && bad("vlan.0.id", "1").contains("no field"));
        assert!(bad("dst", "1").contains("HEADER.FIELD"));
        assert!(bad("vlan.id", "4096").contains("12 bits"));
        assert!(bad("ipv4.dst", "7").contains("an IPv4 address"));
        let small = stack.templates(&between(), &Mix::fixed(Size::MIN)).unwrap_err();
        assert!(small.to_string().contains("at least 68 B"), "{small}");
    }

    proptest! {
        /// A checksum that is updated by differences is the one that is computed anew, for any fields of any
        /// stack, in any order.
        #[test]
        fn updated_checksums_are_right(
            which in 0usize..7,
            all in prop::collection::vec((0usize..64, any::<u64>(), 1u32..500), 1..6),
            combine: bool,
            n in any::<u64>(),
        ) {
            let text = [
                "ethernet/ipv4/udp/0x01",
                "ethernet/vlan/ipv6/udp",
                "ethernet/ipv4/tcp/0x0102",
                "ethernet/ipv6/icmpv6",
                "ethernet/ipv4/gre/ethernet/vlan/ipv4/tcp",
                "ethernet/ipv4/icmp/0x01/ipv4/udp/ipv6/tcp",
                "ethernet/ipv6/icmpv6/ipv4/icmp/0x02",
            ][which];
            let mut stack = stack(text, &[]);
            // Fields that say how long headers are, or what follows them, are left as they are.
            let form = ["type", "version", "ihl", "length", "checksum", "offset", "mf", "flags"];
            let mut names = Vec::new();
            for (n, header) in stack.headers.iter().enumerate() {
                let before = stack.headers[..n].iter().filter(|it| it.kind == header.kind).count();
                for field in header.kind.fields().iter().filter(|field| !form.contains(&field.name)) {
                    names.push(alloc::format!("{}.{}.{}", header.kind.name(), before + 1, field.name));
                }
            }
            for (at, value, count) in all {
                let name = &names[at % names.len()];
                let (_, field) = stack.find(name).unwrap();
                let most = crate::pattern::most_of(field.bits.1);
                let first = u128::from(value) & most;
                stack.set(name, Pattern::Steps { first, step: value.into(), count }).unwrap();
            }
            let stack = stack.combined(if combine { Combine::Product } else { Combine::Lockstep });
            let mix = Mix::fixed(Size::with_fcs(200));
            let templates = stack.templates(&between(), &mix).unwrap();
            let frame = frame(&templates, n);
            // Each checksum is the one that is computed anew.
            let places = stack.places();
            for at in (0..stack.headers.len()).filter(|at| stack.has_checksum(*at)) {
                let mut anew = frame.clone();
                stack.put_checksum(at, &places, &mut anew);
                prop_assert_eq!(&anew, &frame, "{}", at);
            }
            // The values repeat.
            if let Some(again) = templates.edits().period().and_then(|period| n.checked_add(period)) {
                let [mut one, mut other] = [[0; 300]; 2];
                prop_assert_eq!(templates.write(n, &mut one), templates.write(again, &mut other));
                prop_assert_eq!(one, other);
            }
        }
    }
}
