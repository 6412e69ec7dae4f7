//! Metric tags: the frames of a flow are counted apart by the values of header fields.

use super::node::{Bad, Node};
use super::patterns::pattern;
use kpps_frames::arithmetic::common_multiple;
use kpps_frames::pattern::{Format, Pattern};
use std::collections::BTreeSet;

/// The most frames after which the values of tagged fields repeat: each is a stream of its own.
const MOST_TURNS: u64 = 1000;
/// The most tags of a flow.
const MOST_TAGS: usize = 16;

/// A field of a header in the models: its path from the header, its width in bits, and how its values are
/// written.
type TaggedField = (&'static str, u32, Format);

use Format::{Ipv4, Ipv6, Mac, Number};

/// Fields with values of the flow. The models' greatest length of a tag on a fragment offset is 5, and the
/// field has 13 bits (RFC 791).
const FIELDS: &[(&str, &[TaggedField])] = &[
    ("ethernet", &[("dst", 48, Mac), ("src", 48, Mac), ("ether_type", 16, Number)]),
    ("vlan", &[("priority", 3, Number), ("cfi", 1, Number), ("id", 12, Number)]),
    ("vxlan", &[("flags", 8, Number), ("vni", 24, Number)]),
    (
        "ipv4",
        &[
            ("version", 4, Number),
            ("header_length", 4, Number),
            ("priority.raw", 8, Number),
            ("priority.tos.precedence", 3, Number),
            ("priority.tos.delay", 1, Number),
            ("priority.tos.throughput", 1, Number),
            ("priority.tos.reliability", 1, Number),
            ("priority.tos.monetary", 1, Number),
            ("priority.tos.unused", 1, Number),
            ("priority.dscp.phb", 6, Number),
            ("priority.dscp.ecn", 2, Number),
            ("total_length", 16, Number),
            ("identification", 16, Number),
            ("reserved", 1, Number),
            ("dont_fragment", 1, Number),
            ("more_fragments", 1, Number),
            ("fragment_offset", 13, Number),
            ("time_to_live", 8, Number),
            ("protocol", 8, Number),
            ("src", 32, Ipv4),
            ("dst", 32, Ipv4),
        ],
    ),
    (
        "ipv6",
        &[
            ("version", 4, Number),
            ("traffic_class", 8, Number),
            ("flow_label", 20, Number),
            ("payload_length", 16, Number),
            ("next_header", 8, Number),
            ("hop_limit", 8, Number),
            ("src", 128, Ipv6),
            ("dst", 128, Ipv6),
        ],
    ),
    ("udp", &[("src_port", 16, Number), ("dst_port", 16, Number), ("length", 16, Number)]),
    (
        "tcp",
        &[
            ("src_port", 16, Number),
            ("dst_port", 16, Number),
            ("seq_num", 32, Number),
            ("ack_num", 32, Number),
            ("data_offset", 4, Number),
            ("ecn_ns", 1, Number),
            ("ecn_cwr", 1, Number),
            ("ecn_echo", 1, Number),
            ("ctl_urg", 1, Number),
            ("ctl_ack", 1, Number),
            ("ctl_psh", 1, Number),
            ("ctl_rst", 1, Number),
            ("ctl_syn", 1, Number),
            ("ctl_fin", 1, Number),
            ("window", 16, Number),
        ],
    ),
    ("gre", &[("protocol", 16, Number)]),
    (
        "icmp",
        &[
            ("echo.type", 8, Number),
            ("echo.code", 8, Number),
            ("echo.identifier", 16, Number),
            ("echo.sequence_number", 16, Number),
        ],
    ),
    (
        "icmpv6",
        &[
            ("echo.type", 8, Number),
            ("echo.code", 8, Number),
            ("echo.identifier", 16, Number),
            ("echo.sequence_number", 16, Number),
        ],
    ),
    (
        "mpls",
        &[
            ("label", 20, Number),
            ("traffic_class", 3, Number),
            ("bottom_of_stack", 1, Number),
            ("time_to_live", 8, Number),
        ],
    ),
];

/// The tags of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// Their names.
    pub names: Vec<String>,
    /// Their values in hexadecimal, one for each name: of the first frame, of the second one, and so on,
    /// until they repeat.
    pub values: Vec<Vec<String>>,
    /// Whether the name of the receiving port is a tag, too.
    pub has_receiver: bool,
}

impl Tags {
    /// Reads the tags of a flow.
    ///
    /// # Errors
    /// The place and what is wrong.
    pub fn read(flow: &Node<'_>) -> Result<Self, Bad> {
        let mut all: Vec<Tag> = Vec::new();
        let mut turns = 1;
        for header in flow.children("packet") {
            let choice = header.choice("ethernet")?;
            let own = header.child(choice);
            let known =
                FIELDS.iter().find(|(name, _)| *name == choice).map_or(&[][..], |(_, fields)| *fields);
            let mut tagged = BTreeSet::new();
            for (path, bits, format) in known {
                let field = path.split('.').fold(own.clone(), |node, name| node.child(name));
                let nodes = field.children("metric_tags");
                let Some(first) = nodes.first() else { continue };
                if all.len() + nodes.len() > MOST_TAGS {
                    return Err(first.bad(format!("a flow has at most {MOST_TAGS} metric tags")));
                }
                let pattern = pattern(&field, *format)?.ok_or_else(|| {
                    first.bad("the values of this field follow from the frame: a tag needs values that the flow gives")
                })?;
                turns = common_multiple(turns, pattern.count().map_or(u64::MAX, u64::from));
                if turns > MOST_TURNS {
                    let why = format!("the values of metric tags repeat after more than {MOST_TURNS} frames");
                    return Err(first.bad(why));
                }
                for node in &nodes {
                    all.push(Tag::read(node, pattern.clone(), *bits)?);
                    tagged.insert(node.path().to_owned());
                }
            }
            let others = own.descendants("metric_tags");
            if let Some(other) = others.iter().find(|other| !tagged.contains(other.path())) {
                return Err(other.bad("a tag of such a field is not supported"));
            }
        }
        let mut known = BTreeSet::new();
        if let Some(tag) = all.iter().find(|tag| !known.insert(tag.name.as_str())) {
            return Err(flow.bad_at("packet", format!("'{}' is the name of two metric tags", tag.name)));
        }
        Ok(Self {
            names: all.iter().map(|tag| tag.name.clone()).collect(),
            values: (0..turns).map(|n| all.iter().map(|tag| tag.value(n)).collect()).collect(),
            has_receiver: flow.child("metrics").child("predefined_metric_tags").flag("rx_name"),
        })
    }

    /// Whether there is no tag.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.has_receiver
    }
}

/// A tag: some bits of a field.
struct Tag {
    name: String,
    pattern: Pattern,
    /// The bits of the field behind it.
    shift: u32,
    /// Its width.
    bits: u32,
}

impl Tag {
    fn read(node: &Node<'_>, pattern: Pattern, width: u32) -> Result<Self, Bad> {
        let (offset, all) = (node.uint("offset").unwrap_or(0), u64::from(width));
        // Clients give the whole width as the length if their users give none.
        let length = node.uint("length").filter(|length| *length != all);
        let bits = length.unwrap_or(all.saturating_sub(offset));
        if bits == 0 || offset.saturating_add(bits) > all {
            return Err(node.bad(format!("offset {offset} and length {bits}: the field has {width} bits")));
        }
        Ok(Self {
            name: node.needed("name")?.to_owned(),
            pattern,
            shift: width - (offset + bits) as u32,
            bits: bits as u32,
        })
    }

    /// Its value in a frame, with all digits.
    fn value(&self, n: u64) -> String {
        let mask = u128::MAX >> (u128::BITS - self.bits);
        let value = self.pattern.value(n) >> self.shift & mask;
        format!("{value:0width$x}", width = self.bits.div_ceil(4) as usize)
    }
}
