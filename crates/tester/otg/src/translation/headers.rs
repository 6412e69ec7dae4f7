//! The headers of a flow's frames.

use super::node::{Bad, Node};
use super::patterns::{combined, part, pattern};
use kpps_frames::pattern::{Format, Pattern};
use kpps_frames::stack::Stack;
use std::collections::BTreeMap;

/// A header's field: its name in the models and in a stack, and the models' default. Without a default the
/// frame decides.
type Names = (&'static str, &'static str, Option<u128>);

const ETHERNET: &[Names] = &[("dst", "dst", None), ("src", "src", None), ("ether_type", "type", None)];
const VLAN: &[Names] = &[("priority", "pcp", Some(0)), ("cfi", "dei", Some(0)), ("id", "id", Some(0))];
const IPV4: &[Names] = &[
    ("version", "version", None),
    ("header_length", "ihl", None),
    ("total_length", "length", None),
    ("identification", "id", Some(0)),
    ("reserved", "reserved", Some(0)),
    ("dont_fragment", "df", Some(0)),
    ("more_fragments", "mf", Some(0)),
    ("fragment_offset", "offset", Some(0)),
    ("time_to_live", "ttl", Some(64)),
    ("protocol", "protocol", None),
    ("src", "src", None),
    ("dst", "dst", None),
];
const IPV6: &[Names] = &[
    ("version", "version", None),
    ("flow_label", "label", Some(0)),
    ("payload_length", "length", None),
    ("next_header", "protocol", None),
    ("hop_limit", "ttl", Some(64)),
    ("src", "src", None),
    ("dst", "dst", None),
];
const UDP: &[Names] =
    &[("src_port", "sport", Some(0)), ("dst_port", "dport", Some(0)), ("length", "length", None)];
const TCP: &[Names] = &[
    ("src_port", "sport", Some(0)),
    ("dst_port", "dport", Some(0)),
    ("seq_num", "sequence", Some(0)),
    ("ack_num", "acknowledgement", Some(0)),
    ("window", "window", Some(0)),
];
const ECHO: &[Names] =
    &[("code", "code", Some(0)), ("identifier", "id", Some(0)), ("sequence_number", "sequence", Some(0))];
const MPLS: &[Names] = &[
    ("label", "label", Some(16)),
    ("traffic_class", "tc", Some(0)),
    ("bottom_of_stack", "bottom", None),
    ("time_to_live", "ttl", Some(64)),
];
const GRE: &[Names] = &[("protocol", "type", None)];
const VXLAN: &[Names] = &[("flags", "flags", Some(8)), ("vni", "network", Some(0))];

/// The fields of an ARP message for IPv4 over Ethernet in their order (RFC 826): format, bytes, and the
/// default of the models.
const ARP: [(&str, Format, usize, u128); 9] = [
    ("hardware_type", Format::Number, 2, 1),
    ("protocol_type", Format::Number, 2, 0x0800),
    ("hardware_length", Format::Number, 1, 6),
    ("protocol_length", Format::Number, 1, 4),
    ("operation", Format::Number, 2, 1),
    ("sender_hardware_addr", Format::Mac, 6, 0),
    ("sender_protocol_addr", Format::Ipv4, 4, 0),
    ("target_hardware_addr", Format::Mac, 6, 0),
    ("target_protocol_addr", Format::Ipv4, 4, 0),
];
/// The type of Ethernet frames with ARP.
const TYPE_ARP: u128 = 0x0806;
/// The UDP port of VXLAN (RFC 7348).
const PORT_VXLAN: u128 = 4789;
/// The flags of TCP from the lowest bit on (RFC 9293, RFC 3540).
const TCP_FLAGS: [&str; 9] =
    ["ctl_fin", "ctl_syn", "ctl_rst", "ctl_psh", "ctl_ack", "ctl_urg", "ecn_echo", "ecn_cwr", "ecn_ns"];
/// The parts of IPv4's type of service (RFC 1349), with their lowest bits.
const TOS: [(&str, u32); 6] =
    [("precedence", 5), ("delay", 4), ("throughput", 3), ("reliability", 2), ("monetary", 1), ("unused", 0)];
/// The bits of ECN behind the differentiated services code point (RFC 3168).
const ECN_BITS: u32 = 2;
/// The types of VLAN tags: IEEE 802.1Q, 802.1ad, and the models' default, which leaves it to the frame.
const TAGS: [u128; 3] = [0x8100, 0x88a8, 0xffff];

/// A header of a flow.
struct Header<'n> {
    /// The name of its kind in a stack.
    kind: String,
    /// The models' name of the kind.
    choice: &'n str,
    node: Node<'n>,
}

/// The stack of a flow's headers.
///
/// # Errors
/// The place and what is wrong.
pub fn stack(flow: &Node<'_>) -> Result<Stack, Bad> {
    let headers: Vec<Header<'_>> = flow.children("packet").iter().map(header).collect::<Result<_, _>>()?;
    let mut kinds: Vec<&str> = headers.iter().map(|header| header.kind.as_str()).collect();
    if kinds.is_empty() {
        kinds.push("ethernet");
    }
    let mut stack = Stack::read(&kinds.join("/")).map_err(|why| flow.bad_at("packet", why))?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, header) in headers.iter().enumerate() {
        let which = counts.entry(&header.kind).or_default();
        *which += 1;
        let place = Place { kind: &header.kind, which: *which };
        let is_arp = headers.get(at + 1).is_some_and(|next| next.choice == "arp");
        if is_arp && ["ethernet", "vlan"].contains(&header.choice) {
            let arp = Pattern::one(TYPE_ARP);
            stack.set(&place.name("type"), arp).map_err(|why| flow.bad_at("packet", why))?;
        }
        header.set(&place, &mut stack)?;
        let is_tunnel = headers.get(at + 1).is_some_and(|next| next.choice == "vxlan");
        if is_tunnel && header.choice == "udp" && !header.node.has("dst_port") {
            stack
                .set(&place.name("dport"), Pattern::one(PORT_VXLAN))
                .map_err(|why| flow.bad_at("packet", why))?;
        }
    }
    Ok(stack)
}

/// The same stack with checksums of UDP over IPv4, if the flow asks for good ones. Plain test frames have
/// none (RFC 768 allows that), and a field that is set makes other frames of them.
pub fn with_udp_checksum(flow: &Node<'_>, stack: &Stack) -> Option<Stack> {
    let asks = |header: &Node<'_>| header.child("udp").child("checksum").text("generated") == Some("good");
    if !stack.is_plain() || !flow.children("packet").iter().any(asks) {
        return None;
    }
    let mut stack = stack.clone();
    stack.set("ipv4.version", Pattern::one(4)).ok()?;
    Some(stack)
}

fn header<'n>(node: &Node<'n>) -> Result<Header<'n>, Bad> {
    let choice = node.choice("ethernet")?;
    let own = node.child(choice);
    let kind = match choice {
        "ethernet" | "ipv4" | "ipv6" | "tcp" | "udp" | "icmp" | "icmpv6" | "mpls" | "vxlan" | "gre" => {
            choice.to_owned()
        }
        "vlan" => {
            let field = own.child("tpid");
            let tag = pattern(&field, Format::Number)?;
            match tag.filter(|tag| tag.is_one()).map_or(TAGS[2], |tag| tag.value(0)) {
                0x88a8 => "svlan".to_owned(),
                other if TAGS.contains(&other) => "vlan".to_owned(),
                other => {
                    return Err(
                        field.bad(format!("{other}: only 33024 (0x8100) and 34984 (0x88a8) are supported"))
                    );
                }
            }
        }
        "custom" => {
            let bytes = own.text("bytes").unwrap_or_default();
            let is_hex = bytes.bytes().all(|byte| byte.is_ascii_hexdigit()) && bytes.len().is_multiple_of(2);
            if bytes.is_empty() || !is_hex {
                return Err(own.bad_at("bytes", "give bytes in hexadecimal, two digits for each"));
            }
            format!("0x{bytes}")
        }
        "arp" => format!("0x{}", arp(&own)?),
        _ => return Err(node.bad_at(choice, "not supported")),
    };
    Ok(Header { kind, choice, node: own })
}

/// The bytes of an ARP message, in hexadecimal.
fn arp(node: &Node<'_>) -> Result<String, Bad> {
    let mut digits = String::new();
    for (name, format, bytes, usual) in ARP {
        let child = node.child(name);
        let pattern = pattern(&child, format)?.unwrap_or_else(|| Pattern::one(usual));
        if !pattern.is_one() || !pattern.fits(bytes as u32 * 8) {
            return Err(child
                .bad(format!("give one value of {bytes} bytes: several values are not supported in ARP")));
        }
        digits += &format!("{:0width$x}", pattern.value(0), width = 2 * bytes);
    }
    Ok(digits)
}

/// A header of a stack, by its kind and its number among those of this kind.
struct Place<'p> {
    kind: &'p str,
    which: usize,
}

impl Place<'_> {
    fn name(&self, field: &str) -> String {
        format!("{}.{}.{field}", self.kind, self.which)
    }
}

impl Header<'_> {
    /// Sets the fields of this header.
    fn set(&self, place: &Place<'_>, stack: &mut Stack) -> Result<(), Bad> {
        let Self { choice, node, .. } = self;
        let put = |stack: &mut Stack, node: &Node<'_>, field: &str, pattern: Pattern| {
            stack.set(&place.name(field), pattern).map_err(|why| node.bad(why))
        };
        let set = |stack: &mut Stack, node: &Node<'_>, all: &[Names]| {
            for (name, field, default) in all {
                let child = node.child(name);
                let format = stack.format(&place.name(field)).map_err(|why| child.bad(why))?;
                let found = pattern(&child, format)?.or(default.map(Pattern::one));
                if let Some(pattern) = found {
                    put(stack, &child, field, pattern)?;
                }
            }
            Ok(())
        };
        let checksum = |stack: &mut Stack, node: &Node<'_>, name: &str| {
            let child = node.child(name);
            match child.choice("generated")? {
                "custom" => {
                    let sum = child.uint("custom").unwrap_or(0);
                    put(stack, &child, "checksum", Pattern::one(sum.into()))
                }
                _ if child.text("generated") == Some("bad") => {
                    Err(child.bad_at("generated", "'bad' is not supported: give a wrong checksum as custom"))
                }
                _ => Ok(()),
            }
        };
        let number = |node: &Node<'_>, name: &str| {
            let child = node.child(name);
            pattern(&child, Format::Number)
        };
        let only = |node: &Node<'_>, name: &str, least: u128| match number(node, name)? {
            Some(pattern) if !pattern.is_one() || pattern.value(0) != least => {
                Err(node.bad_at(name, format!("only {least} is supported")))
            }
            _ => Ok(()),
        };
        match *choice {
            "ethernet" => set(stack, node, ETHERNET),
            "vlan" => set(stack, node, VLAN),
            "ipv4" => {
                set(stack, node, IPV4)?;
                let class = service(&node.child("priority"))?;
                put_class(stack, place, &node.child("priority"), &class)?;
                checksum(stack, node, "header_checksum")
            }
            "ipv6" => {
                set(stack, node, IPV6)?;
                let child = node.child("traffic_class");
                let class = number(node, "traffic_class")?.unwrap_or_else(|| Pattern::one(0));
                put_class(stack, place, &child, &class)
            }
            "udp" => {
                set(stack, node, UDP)?;
                checksum(stack, node, "checksum")
            }
            "tcp" => {
                set(stack, node, TCP)?;
                // 0 is the models' default, and no header has this length.
                match number(node, "data_offset")? {
                    Some(pattern) if pattern != Pattern::one(0) => {
                        put(stack, &node.child("data_offset"), "offset", pattern)?;
                    }
                    _ => {}
                }
                let mut flags = Vec::new();
                for (bit, name) in TCP_FLAGS.iter().enumerate() {
                    if let Some(pattern) = number(node, name)? {
                        if !pattern.fits(1) {
                            return Err(node.bad_at(name, "a flag is 0 or 1"));
                        }
                        flags.push((pattern, bit as u32));
                    }
                }
                put(stack, node, "flags", combined(node, &flags)?)?;
                checksum(stack, node, "checksum")
            }
            "icmp" | "icmpv6" => {
                let echo = node.child("echo");
                // The type of an echo request (RFC 792, RFC 4443).
                let usual = if *choice == "icmp" { 8 } else { 128 };
                set(stack, &echo, &[("type", "type", Some(usual))])?;
                set(stack, &echo, ECHO)?;
                checksum(stack, &echo, "checksum")
            }
            "mpls" => set(stack, node, MPLS),
            "gre" => {
                for name in ["checksum_present", "reserved0", "version", "reserved1"] {
                    only(node, name, 0)?;
                }
                if node.child("checksum").text("choice").is_some_and(|choice| choice != "generated") {
                    return Err(node.bad_at("checksum", "not supported"));
                }
                set(stack, node, GRE)
            }
            "vxlan" => {
                ["reserved0", "reserved1"].into_iter().try_for_each(|name| only(node, name, 0))?;
                set(stack, node, VXLAN)
            }
            _ => Ok(()),
        }
    }
}

/// IPv4's type of service: eight bits.
fn service(priority: &Node<'_>) -> Result<Pattern, Bad> {
    let number = |node: Node<'_>, bits: u32| {
        let found = pattern(&node, Format::Number)?.unwrap_or_else(|| Pattern::one(0));
        match found.fits(bits) {
            true => Ok(found),
            false => Err(node.bad(format!("it has {bits} bits, which a value does not fit into"))),
        }
    };
    match priority.choice("dscp")? {
        "raw" => number(priority.child("raw"), 8),
        "tos" => {
            let tos = priority.child("tos");
            let each = TOS.iter().map(|(name, shift)| {
                let bits = if *name == "precedence" { 3 } else { 1 };
                Ok((number(tos.child(name), bits)?, *shift))
            });
            combined(&tos, &each.collect::<Result<Vec<_>, _>>()?)
        }
        _ => {
            let dscp = priority.child("dscp");
            let parts =
                [(number(dscp.child("phb"), 6)?, ECN_BITS), (number(dscp.child("ecn"), ECN_BITS)?, 0)];
            combined(&dscp, &parts)
        }
    }
}

/// Sets code point and ECN to the parts of eight bits.
fn put_class(stack: &mut Stack, place: &Place<'_>, node: &Node<'_>, class: &Pattern) -> Result<(), Bad> {
    if !class.fits(8) {
        return Err(node.bad("it has 8 bits, which a value does not fit into"));
    }
    for (field, shift, bits) in [("dscp", ECN_BITS, 6), ("ecn", 0, ECN_BITS)] {
        let pattern = part(node, class, shift, bits)?;
        stack.set(&place.name(field), pattern).map_err(|why| node.bad(why))?;
    }
    Ok(())
}
