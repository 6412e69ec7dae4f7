//! The encapsulation of a test frame: the layers between its Ethernet header and its IP packet. VLAN tags,
//! MPLS labels, VXLAN.
//!
//! As text the layers are joined by `+`, the outermost first: `vlan:7`, `qinq:100+vlan:7`, `mpls:16+mpls:17`,
//! `vlan:7+vxlan:5/192.0.2.1/192.0.2.2`. A number may be a range, over which flows take turns: `vlan:1-100`.

use crate::build::{Flow, udp_test};
use crate::ethernet::{self, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN, VLAN_BYTES};
use crate::flows::Numbers;
use crate::headers::{LABEL_BYTES, TYPE_MPLS, TYPE_SERVICE_VLAN, payload_type};
use crate::{Error, Mac, Size, field, ipv4, ipv6, udp};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

/// The most layers.
pub const MOST_LAYERS: usize = 4;
/// Bytes of a VXLAN header (RFC 7348), and its UDP port.
const VXLAN_BYTES: usize = 8;
const VXLAN_PORT: u16 = 4789;
/// The hops of outer packets, and of labels.
const HOPS: u8 = 64;

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// A VLAN tag (IEEE 802.1Q).
    Vlan(Numbers),
    /// The tag of a service VLAN (IEEE 802.1ad).
    Service(Numbers),
    /// An MPLS label (RFC 3032).
    Label(Numbers),
    /// VXLAN between two addresses: the outer Ethernet, IP and UDP headers and its own.
    Vxlan {
        /// The network's identifier.
        network: Numbers,
        /// The own end of the tunnel, and the other one.
        ends: [IpAddr; 2],
    },
}

impl Layer {
    /// The name before the colon, and the highest number.
    fn kind(&self) -> (&'static str, u32) {
        match self {
            Self::Vlan(_) => ("vlan", 4094),
            Self::Service(_) => ("qinq", 4094),
            Self::Label(_) => ("mpls", (1 << 20) - 1),
            Self::Vxlan { .. } => ("vxlan", (1 << 24) - 1),
        }
    }

    fn numbers(&self) -> Numbers {
        match self {
            Self::Vlan(numbers) | Self::Service(numbers) | Self::Label(numbers) => *numbers,
            Self::Vxlan { network, .. } => *network,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Vlan(_) | Self::Service(_) => VLAN_BYTES,
            Self::Label(_) => LABEL_BYTES,
            Self::Vxlan { ends, .. } => {
                let ip = if ends[0].is_ipv4() { ipv4::HEADER_BYTES } else { ipv6::HEADER_BYTES };
                ethernet::HEADER_BYTES + ip + udp::HEADER_BYTES + VXLAN_BYTES
            }
        }
    }

    fn read(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        let mut parts = rest.split('/');
        let numbers: Numbers = parts.next()?.parse().ok()?;
        let layer = match kind {
            "vlan" => Self::Vlan(numbers),
            "qinq" => Self::Service(numbers),
            "mpls" => Self::Label(numbers),
            "vxlan" => {
                let ends: [IpAddr; 2] = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?];
                let same = ends[0].is_ipv4() == ends[1].is_ipv4();
                same.then_some(Self::Vxlan { network: numbers, ends })?
            }
            _ => return None,
        };
        // VLAN 0 is no VLAN, and labels below 16 mean something else.
        let least = match layer {
            Self::Label(_) => 16,
            Self::Vxlan { .. } => 0,
            Self::Vlan(_) | Self::Service(_) => 1,
        };
        (parts.next().is_none() && numbers.within(least, layer.kind().1)).then_some(layer)
    }
}

/// Layers, the outermost first. Without any, frames are plain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encap([Option<Layer>; MOST_LAYERS]);

/// No encapsulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEncap(String);

impl fmt::Display for BadEncap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is no encapsulation: give none, or up to {MOST_LAYERS} of vlan:ID, qinq:ID, mpls:LABEL (from 16), vxlan:NETWORK/OWN/OTHER with a + between them, labels after tags and vxlan last, as qinq:100+vlan:7",
            self.0
        )
    }
}

impl core::error::Error for BadEncap {}

impl FromStr for Encap {
    type Err = BadEncap;

    fn from_str(text: &str) -> Result<Self, BadEncap> {
        if text == "none" {
            return Ok(Self::default());
        }
        let read = || {
            let mut layers = [None; MOST_LAYERS];
            let mut rank = 0;
            for (n, part) in text.split('+').enumerate() {
                let layer = Layer::read(part)?;
                let next = match layer {
                    Layer::Vlan(_) | Layer::Service(_) => 0,
                    Layer::Label(_) => 1,
                    // Nothing is within its inner frame.
                    Layer::Vxlan { .. } if rank == 1 => return None,
                    Layer::Vxlan { .. } => 2,
                };
                if next < rank || rank == 2 {
                    return None;
                }
                rank = next;
                *layers.get_mut(n)? = Some(layer);
            }
            Some(Self(layers))
        };
        read().ok_or_else(|| BadEncap(text.to_string()))
    }
}

impl fmt::Display for Encap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("none");
        }
        for (n, layer) in self.layers().enumerate() {
            let joint = if n > 0 { "+" } else { "" };
            write!(f, "{joint}{}:{}", layer.kind().0, layer.numbers())?;
            if let Layer::Vxlan { ends: [own, other], .. } = layer {
                write!(f, "/{own}/{other}")?;
            }
        }
        Ok(())
    }
}

impl Encap {
    /// One VLAN tag; none for 0.
    pub fn vlan(id: u16) -> Self {
        let mut layers = [None; MOST_LAYERS];
        layers[0] = (id > 0).then(|| Layer::Vlan(Numbers::one(id.into())));
        Self(layers)
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.0.iter().flatten()
    }

    /// Whether there is no layer.
    pub fn is_none(&self) -> bool {
        self.layers().next().is_none()
    }

    /// The tag's VLAN, if that is all: then frames are the plain ones of a VLAN.
    pub fn only_vlan(&self) -> Option<u16> {
        match self.0 {
            [Some(Layer::Vlan(ids)), None, ..] if ids.count() == 1 => Some(ids.nth(0) as u16),
            _ => None,
        }
    }

    /// Whether frames are those of [`udp_test`], with a VLAN tag or without.
    pub fn is_plain(&self) -> bool {
        self.is_none() || self.only_vlan().is_some()
    }

    /// Bytes that it adds to a frame.
    pub fn bytes(&self) -> usize {
        self.layers().map(Layer::bytes).sum()
    }

    /// Bytes before the Ethernet header of the innermost frame.
    pub fn outer_bytes(&self) -> usize {
        if self.tunnel().is_some() { self.bytes() } else { 0 }
    }

    /// The own and the other end of a VXLAN tunnel, if there is one.
    pub fn tunnel(&self) -> Option<[IpAddr; 2]> {
        self.layers().find_map(|layer| match layer {
            Layer::Vxlan { ends, .. } => Some(*ends),
            _ => None,
        })
    }

    /// The longest turn of a layer's numbers.
    pub fn turn(&self) -> u32 {
        self.layers().map(|layer| layer.numbers().count()).max().unwrap_or(1)
    }

    /// VLAN tags of the first flow. ARP and ND messages use them, too.
    pub fn tags(&self) -> Tags {
        let mut tags = Tags::default();
        for (tag, layer) in tags.0.iter_mut().zip(self.layers()) {
            let kind = match layer {
                Layer::Vlan(_) => TYPE_VLAN,
                Layer::Service(_) => TYPE_SERVICE_VLAN,
                Layer::Label(_) | Layer::Vxlan { .. } => break,
            };
            *tag = Some((kind, layer.numbers().nth(0) as u16));
        }
        tags
    }

    /// The same layers as frames have them that come from the other end of a tunnel.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        for layer in self.0.iter_mut().flatten() {
            if let Layer::Vxlan { ends, .. } = layer {
                ends.reverse();
            }
        }
        self
    }

    /// A UDP test frame of `size` in these layers, of the flow with this number. Its stations are those
    /// outside; the ones inside of a tunnel are `inside`.
    ///
    /// # Errors
    /// As [`udp_test`].
    pub fn test(&self, flow: &Flow<IpAddr>, inside: [Mac; 2], n: u32, size: Size) -> Result<Vec<u8>, Error> {
        let added = u16::try_from(self.bytes()).map_err(|_| Error::Size)?;
        let bytes = size.bytes_without_fcs().checked_sub(added).ok_or(Error::Size)?;
        let [from_mac, to_mac] = match self.tunnel() {
            Some(_) => inside,
            None => [flow.from_mac, flow.to_mac],
        };
        let frame = udp_test(&Flow { from_mac, to_mac, vlan: None, ..*flow }, Size::without_fcs(bytes))?;
        Ok(self.wrap(frame, [flow.from_mac, flow.to_mac], n))
    }

    /// Puts a frame into these layers, between these stations.
    pub fn wrap(&self, mut frame: Vec<u8>, [from, to]: [Mac; 2], n: u32) -> Vec<u8> {
        let mut below_label = false;
        let layers: Vec<&Layer> = self.layers().collect();
        for layer in layers.into_iter().rev() {
            let number = layer.numbers().nth(n);
            match layer {
                Layer::Vlan(_) | Layer::Service(_) => {
                    let service = matches!(layer, Layer::Service(_));
                    let kind = if service { TYPE_SERVICE_VLAN } else { TYPE_VLAN };
                    put_tag(&mut frame, kind, number as u16);
                }
                Layer::Label(_) => {
                    let bottom = if below_label { 0 } else { 1 << 8 };
                    let label = number << 12 | bottom | u32::from(HOPS);
                    frame.splice(14..14, label.to_be_bytes());
                    field::put_u16(&mut frame, 12, TYPE_MPLS);
                    below_label = true;
                }
                Layer::Vxlan { ends, .. } => frame = tunnelled(&frame, *ends, [from, to], n, number),
            }
        }
        frame
    }
}

/// A frame inside of VXLAN. The outer source port follows from the flow, as RFC 7348 recommends; there is no
/// UDP checksum, as it recommends too (over IPv6: RFC 6935).
fn tunnelled(inner: &[u8], ends: [IpAddr; 2], [from, to]: [Mac; 2], n: u32, network: u32) -> Vec<u8> {
    let header = if ends[0].is_ipv4() { ipv4::HEADER_BYTES } else { ipv6::HEADER_BYTES };
    let start = ethernet::HEADER_BYTES + header;
    let udp_bytes = udp::HEADER_BYTES + VXLAN_BYTES + inner.len();
    let mut frame = alloc::vec![0; start + udp_bytes];
    let kind = if ends[0].is_ipv4() { TYPE_IPV4 } else { TYPE_IPV6 };
    ethernet::write_header(&mut frame, to, from, None, kind);
    let ip = &mut frame[ethernet::HEADER_BYTES..];
    match ends {
        [IpAddr::V4(from), IpAddr::V4(to)] => {
            ipv4::write_header(ip, 0, from, to, ipv4::PROTOCOL_UDP, (header + udp_bytes) as u16);
        }
        [IpAddr::V6(from), IpAddr::V6(to)] => {
            ipv6::write_header(ip, from, to, ipv4::PROTOCOL_UDP, HOPS, udp_bytes as u16);
        }
        _ => {}
    }
    let port = 49152 + (n % 16384) as u16;
    udp::write_header(&mut frame[start..], port, VXLAN_PORT, udp_bytes as u16);
    let at = start + udp::HEADER_BYTES;
    frame[at] = 8;
    field::put_u32(&mut frame, at + 4, network << 8);
    frame[at + VXLAN_BYTES..].copy_from_slice(inner);
    frame
}

/// VLAN tags: the type and the control field of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags(pub [Option<(u16, u16)>; MOST_LAYERS]);

impl Tags {
    /// The VLAN tags of a frame, as far as there is room.
    pub fn of(frame: &[u8]) -> Self {
        let mut tags = Self::default();
        let end = payload_type(frame).map_or(0, |(_, end)| end);
        let places = (12..end.saturating_sub(2)).step_by(VLAN_BYTES);
        for (tag, at) in tags.0.iter_mut().zip(places) {
            *tag = Some((field::u16(frame, at), field::u16(frame, at + 2)));
        }
        tags
    }

    /// The VLANs, from outside in.
    pub fn ids(&self) -> impl Iterator<Item = u16> {
        self.0.iter().flatten().map(|(_, control)| control & 0xfff)
    }

    /// Puts the tags into a frame without any.
    pub fn put(&self, frame: &mut Vec<u8>) {
        for (kind, control) in self.0.iter().flatten().rev() {
            put_tag(frame, *kind, *control);
        }
    }
}

/// Puts a VLAN tag behind the stations of a frame.
fn put_tag(frame: &mut Vec<u8>, kind: u16, control: u16) {
    let ([a, b], [c, d]) = (kind.to_be_bytes(), control.to_be_bytes());
    frame.splice(12..12, [a, b, c, d]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::headers::{self, Headers};
    use proptest::prelude::*;

    fn flow() -> Flow<IpAddr> {
        let Flow { from_mac, to_mac, vlan, from, to } = Flow::default();
        Flow { from_mac, to_mac, vlan, from: (from.0.into(), from.1), to: (to.0.into(), to.1) }
    }

    #[test]
    fn texts_read_and_print() {
        for text in [
            "none",
            "vlan:7",
            "qinq:100+vlan:7",
            "vlan:1-100",
            "mpls:16+mpls:17",
            "vlan:7+mpls:1048575",
            "vxlan:5/192.0.2.1/192.0.2.2",
            "vlan:random:1-9+vxlan:0-16777215/2001:2::1/2001:2::2",
        ] {
            assert_eq!(text.parse::<Encap>().unwrap().to_string(), text);
        }
        assert_eq!("vlan:7".parse(), Ok(Encap::vlan(7)));
        for bad in [
            "",
            "vlan",
            "vlan:0",
            "vlan:4095",
            "mpls:15",
            "mpls:16+vlan:7",
            "vxlan:5",
            "vxlan:5/192.0.2.1/::1",
            "vxlan:5/192.0.2.1/192.0.2.2+vlan:7",
            "mpls:16+vxlan:5/192.0.2.1/192.0.2.2",
            "vlan:1+vlan:2+vlan:3+vlan:4+vlan:5",
            "gre:1",
        ] {
            assert!(bad.parse::<Encap>().is_err(), "{bad}");
        }
    }

    #[test]
    fn layers_are_where_the_rfcs_have_them() {
        let size = Size::with_fcs(200);
        let test = |text: &str, n| {
            let encap: Encap = text.parse().unwrap();
            let frame = encap.test(&flow(), [Mac([8; 6]), Mac([9; 6])], n, size).unwrap();
            assert_eq!(frame.len(), 196, "{text}");
            frame
        };
        let frame = test("qinq:100+vlan:7-9", 2);
        assert_eq!(frame[12..22], [0x88, 0xa8, 0, 100, 0x81, 0, 0, 9, 8, 0]);
        let frame = test("mpls:16+mpls:17", 0);
        assert_eq!(frame[12..22], [0x88, 0x47, 0, 1, 0, 64, 0, 1, 0x11, 64]);
        assert_eq!(Headers::of(&frame).unwrap().ip, 22);
        let frame = test("vlan:7+vxlan:5/192.0.2.1/192.0.2.2", 3);
        assert_eq!((&frame[..6], &frame[12..18]), (&flow().to_mac.0[..], &[0x81, 0, 0, 7, 8, 0][..]));
        let outer = headers::flow(&frame).unwrap();
        assert_eq!((outer.from.1, outer.to), (49155, ([192, 0, 2, 2].into(), 4789)));
        let inner = &frame[54..];
        assert_eq!((&frame[46..54], &inner[..6]), (&[8, 0, 0, 0, 0, 0, 5, 0][..], &[9; 6][..]));
        assert_eq!(headers::flow(inner).unwrap().to, flow().to);
        assert_eq!("vlan:7".parse::<Encap>().unwrap().tags(), Tags::of(&test("vlan:7", 0)));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[a-z0-9:+/.-]{0,30}", n: u32) {
            if let Ok(encap) = text.parse::<Encap>() {
                prop_assert_eq!(encap.to_string().parse(), Ok(encap));
                let frame = encap.test(&flow(), [Mac::default(); 2], n, Size::with_fcs(300)).unwrap();
                prop_assert_eq!(frame.len(), 296);
            }
        }

        #[test]
        fn tags_of_any_frame_are_put_again(bytes: Vec<u8>) {
            let mut plain = alloc::vec![0; 60];
            let tags = Tags::of(&bytes);
            tags.put(&mut plain);
            if plain.len() < 60 + MOST_LAYERS * VLAN_BYTES {
                prop_assert_eq!(Tags::of(&plain), tags);
            }
        }
    }
}
