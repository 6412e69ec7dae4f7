//! The frames of a load in the order of sending: flows take turns, and so do the sizes of a mix.
//!
//! The n-th frame follows from `n` alone, so a receiver knows the frame of each sequence number. Only the
//! bytes before the zeros at a frame's end are kept: a hundred thousand flows fit into a few megabytes.

use crate::arithmetic::common_divisor;
use crate::build::{Flow, udp_test};
use crate::edits::Edits;
use crate::encap::Encap;
use crate::ethernet::{TYPE_VLAN, VLAN_BYTES};
use crate::flows::{Flows, Numbers};
use crate::headers::{Fields, Headers};
use crate::raw::RawPacket;
use crate::{Error, Mac, Mix, Size, Tag, tag, udp};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

/// A frame: its beginning and its length. The rest is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredFrame {
    at: u32,
    head: u16,
    bytes: u16,
}

/// Frames by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Templates {
    heads: Vec<u8>,
    /// By flow, then by size.
    stored: Vec<StoredFrame>,
    /// The number of sizes.
    sizes: usize,
    /// The size of each frame of a period.
    order: Vec<u32>,
    flows: u32,
    /// Length of the cycle of flows and sizes, in frames.
    round: u64,
    /// Where the tags are.
    tag: tag::TagFormat,
    /// Where the innermost frames begin: behind the headers of a tunnel.
    inner: u16,
    /// Fields that change from frame to frame. Each of their first [`MOST_TURNS`] combinations is a flow, if
    /// there are no more.
    edits: Edits,
}

/// The most combinations of changing fields that are flows. More are one flow.
pub const MOST_TURNS: u64 = 1024;

/// The options of test frames beside their flow and size.
#[derive(Clone, Copy, Debug, Default)]
pub struct TemplateOptions<'r> {
    /// The encapsulation.
    pub encap: Encap,
    /// The stations inside of a tunnel.
    pub inside: [Mac; 2],
    /// The differentiated services code point; flows take turns.
    pub dscp: Option<Numbers>,
    /// The TTL or hop limit, as well.
    pub hops: Option<Numbers>,
    /// Whether tags always get the word that keeps the checksum constant, because they start at the other end
    /// of the path.
    pub balanced: bool,
    /// The packet that all frames are made from, in place of a UDP packet.
    pub packet: Option<&'r RawPacket>,
}

/// The contents of templates, for transfer to another host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The beginning of each frame, by flow, then by size.
    pub heads: Vec<Vec<u8>>,
    /// The length of each frame in bytes, without FCS.
    pub bytes: Vec<u16>,
    /// The size of each frame of a period.
    pub order: Vec<u32>,
    /// The number of flows.
    pub flows: u32,
    /// Where balanced tags are; 0 of plain test frames.
    pub balanced_at: u16,
    /// The trial that the tags are of.
    pub trial: u32,
    /// Where the innermost frames begin: behind the headers of a tunnel.
    pub inner: u16,
}

/// The n-th frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template<'t> {
    /// Its beginning: all headers of a test frame.
    pub head: &'t [u8],
    /// Its length in bytes, without FCS. Bytes after the head are zero.
    pub bytes: u16,
    /// The number of its flow.
    pub flow: u32,
    /// The number of its size, in the order of the mix.
    pub size: usize,
}

/// The most bytes of all frames together.
const MOST_BYTES: usize = 1 << 30;

impl TemplateOptions<'_> {
    /// Whether frames are those of [`udp_test`], with a VLAN tag or without.
    pub fn is_plain(&self) -> bool {
        self.encap.is_plain() && self.packet.is_none() && !self.balanced
    }

    /// The smallest size of a frame of this flow; the only one of a packet.
    pub fn least(&self, flow: &Flow<IpAddr>) -> Size {
        if let Some(packet) = self.packet {
            return Size::without_fcs((packet.bytes.len() + self.encap.bytes()) as u16);
        }
        let plain = Flow { vlan: None, ..*flow }.least_test_size().bytes_without_fcs();
        let balance = if self.is_plain() { 0 } else { tag::BALANCED_BYTES - tag::BYTES };
        Size::without_fcs(plain + (self.encap.bytes() + balance) as u16).max(Size::MIN)
    }

    /// A frame of a flow with a tag of this trial, of the smallest size.
    pub fn frame(&self, flow: &Flow<IpAddr>, n: u32, (trial, tag): (u32, Tag)) -> Option<Vec<u8>> {
        let templates = self.templates(core::iter::once(*flow), &Mix::fixed(self.least(flow)), n).ok()?;
        let template = templates.at(0)?;
        let mut frame = vec![0; template.bytes.into()];
        template.write(&mut frame)?;
        templates.tag().of_trial(trial).write(&mut frame, tag).ok()?;
        Some(frame)
    }

    /// Test frames of a mix and of these flows, which are numbered from `first`. A packet has one size, which
    /// is the mix.
    ///
    /// # Errors
    /// As [`udp_test`]; [`Error::Size`] also if all frames together have gigabytes.
    pub fn templates(
        &self,
        flows: impl ExactSizeIterator<Item = Flow<IpAddr>>,
        mix: &Mix,
        first: u32,
    ) -> Result<Templates, Error> {
        let sizes: Vec<Size> = match self.packet {
            Some(packet) => vec![Size::without_fcs(packet.bytes.len() as u16 + self.encap.bytes() as u16)],
            None => mix.parts().iter().map(|part| part.0).collect(),
        };
        if self.packet.is_some() && mix.only() != sizes.first().copied() {
            return Err(Error::Size);
        }
        let order = match self.packet {
            Some(_) => vec![0],
            None => order(mix),
        };
        let mut all = Templates::ordered(sizes.len(), order, flows.len() as u32);
        let is_plain = self.is_plain();
        all.inner = self.encap.outer_bytes() as u16;
        for (n, flow) in (first..).zip(flows) {
            for &size in &sizes {
                let mut frame = match self.packet {
                    _ if is_plain => {
                        udp_test(&Flow { vlan: self.encap.only_vlan().or(flow.vlan), ..flow }, size)?
                    }
                    None => self.encap.test(&flow, self.inside, n, size)?,
                    Some(packet) => self.of_packet(packet, &flow, n),
                };
                let outer = self.encap.outer_bytes();
                let (dscp, hops) = (self.dscp.map(|it| it.nth(n) as u8), self.hops.map(|it| it.nth(n) as u8));
                for at in [outer, 0].into_iter().take(if outer > 0 { 2 } else { 1 }) {
                    Fields { dscp, hops, ..Fields::default() }.write(&mut frame[at..]);
                }
                let head = if is_plain { tag::offset(&frame) } else { self.tag_in(&frame) };
                if !is_plain {
                    all.tag = tag::TagFormat::balanced(head as u16);
                    if head + tag::BALANCED_BYTES > frame.len() {
                        return Err(Error::Size);
                    }
                }
                if all.heads.len() + head > MOST_BYTES {
                    return Err(Error::Size);
                }
                all.add(&frame, head);
            }
        }
        Ok(all)
    }

    /// The packet with the addresses, ports and stations of a flow.
    fn of_packet(&self, packet: &RawPacket, flow: &Flow<IpAddr>, n: u32) -> Vec<u8> {
        let mut frame = packet.bytes.clone();
        let outside = [flow.from_mac, flow.to_mac];
        let [from_mac, to_mac] = if self.encap.tunnel().is_some() { self.inside } else { outside };
        let fields = Fields {
            from_mac: Some(from_mac),
            to_mac: Some(to_mac),
            from: Some(flow.from.0),
            to: Some(flow.to.0),
            sport: Some(flow.from.1),
            dport: Some(flow.to.1),
            ..Fields::default()
        };
        fields.write(&mut frame);
        self.encap.wrap(frame, outside, n)
    }

    /// Where a frame that is not plain has its tag.
    fn tag_in(&self, frame: &[u8]) -> usize {
        match self.packet {
            Some(packet) => usize::from(packet.tag) + self.encap.bytes(),
            None => {
                let outer = self.encap.outer_bytes();
                let headers = frame.get(outer..).and_then(Headers::of);
                headers.map_or(frame.len(), |headers| outer + headers.transport + udp::HEADER_BYTES)
            }
        }
    }
}

/// The sizes of a period of a mix, by their numbers.
pub(crate) fn order(mix: &Mix) -> Vec<u32> {
    let number = |size: Size| mix.parts().iter().position(|part| part.0 == size).unwrap_or(0) as u32;
    mix.period().into_iter().map(number).collect()
}

impl Templates {
    /// Test frames of a mix and of flows between two stations.
    ///
    /// # Errors
    /// As [`udp_test`].
    pub fn tests(flows: &Flows, macs: [Mac; 2], vlan: Option<u16>, mix: &Mix) -> Result<Self, Error> {
        Self::of_flows((0..flows.count).map(|n| flows.nth(n, macs, vlan)), mix)
    }

    /// Test frames of a mix and of these flows.
    ///
    /// # Errors
    /// As [`udp_test`].
    pub fn of_flows(flows: impl ExactSizeIterator<Item = Flow<IpAddr>>, mix: &Mix) -> Result<Self, Error> {
        TemplateOptions::default().templates(flows, mix, 0)
    }

    /// One repeated frame.
    pub fn one(frame: &[u8]) -> Self {
        Self::each([frame])
    }

    /// These frames in turn.
    pub fn each(frames: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let mut all = Self::default();
        for frame in frames {
            let frame = frame.as_ref();
            let zeros = frame.iter().rev().take_while(|byte| **byte == 0).count();
            all.add(frame, frame.len() - zeros);
        }
        let frames = all.stored.len();
        Self {
            heads: all.heads,
            stored: all.stored,
            ..Self::ordered(frames, (0..frames).map(|n| n as u32).collect(), 1)
        }
    }

    fn ordered(sizes: usize, order: Vec<u32>, flows: u32) -> Self {
        let (period, flows_64) = (order.len() as u64, u64::from(flows));
        let round = match flows {
            // A single flow has all sizes.
            1 => u64::MAX,
            _ => (period / common_divisor(period, flows_64).max(1) * flows_64).max(1),
        };
        Self {
            heads: Vec::new(),
            stored: Vec::new(),
            sizes,
            order,
            flows,
            round,
            tag: tag::TagFormat::default(),
            inner: 0,
            edits: Edits::default(),
        }
    }

    /// Frames of one size each, whose sizes come in this order, with headers of `head` bytes and fields that
    /// change. `place`: the tags' format, and where the innermost frames begin.
    pub(crate) fn of_stack(
        frames: impl ExactSizeIterator<Item = Vec<u8>>,
        order: Vec<u32>,
        head: usize,
        (tag, inner): (tag::TagFormat, usize),
        edits: Edits,
    ) -> Self {
        let mut all = Self::ordered(frames.len(), order, 1);
        frames.for_each(|frame| all.add(&frame, head.min(frame.len())));
        let turns = edits.period().filter(|period| *period <= MOST_TURNS);
        Self { tag, inner: inner as u16, flows: turns.unwrap_or(1) as u32, edits, ..all }
    }

    fn add(&mut self, frame: &[u8], head: usize) {
        let at = self.heads.len() as u32;
        self.heads.extend_from_slice(&frame[..head]);
        self.stored.push(StoredFrame { at, head: head as u16, bytes: frame.len() as u16 });
    }

    /// The contents.
    pub fn parts(&self) -> Parts {
        Parts {
            heads: self.heads().map(<[u8]>::to_vec).collect(),
            bytes: self.stored.iter().map(|stored| stored.bytes).collect(),
            order: self.order.clone(),
            flows: self.flows,
            balanced_at: self.tag.balanced_at().unwrap_or(0),
            trial: self.tag.trial(),
            inner: self.inner,
        }
    }

    /// Templates with these contents; `None` if they are inconsistent.
    pub fn from_parts(parts: &Parts) -> Option<Self> {
        let Parts { heads, bytes, order, flows, balanced_at, trial, inner } = parts;
        let sizes = heads.len().checked_div(*flows as usize)?;
        let fits = heads.len() == bytes.len()
            && sizes * *flows as usize == heads.len()
            && !order.is_empty()
            && order.iter().all(|size| (*size as usize) < sizes)
            && heads.iter().zip(bytes).all(|(head, bytes)| head.len() <= usize::from(*bytes))
            && heads.iter().map(Vec::len).sum::<usize>() <= u32::MAX as usize;
        let mut all = fits.then(|| Self::ordered(sizes, order.clone(), *flows))?;
        for (head, bytes) in heads.iter().zip(bytes) {
            let stored = StoredFrame { at: all.heads.len() as u32, head: head.len() as u16, bytes: *bytes };
            all.heads.extend_from_slice(head);
            all.stored.push(stored);
        }
        all.inner = *inner;
        all.tag = tag::TagFormat::default().of_trial(*trial);
        if *balanced_at > 0 {
            all.tag = tag::TagFormat::balanced(*balanced_at).of_trial(*trial);
            let room =
                |stored: &StoredFrame| usize::from(*balanced_at) + tag::BALANCED_BYTES <= stored.bytes.into();
            return all.stored.iter().all(room).then_some(all);
        }
        Some(all)
    }

    /// The same frames between these stations.
    #[must_use]
    pub fn between(mut self, [from, to]: [Mac; 2]) -> Self {
        // Of a frame whose addresses are zeros the head may be shorter.
        let parts = self.stored.iter_mut().map(|stored| {
            let head = &self.heads[stored.at as usize..][..stored.head.into()];
            let mut head = head.to_vec();
            head.resize(head.len().max(12), 0);
            head[..6].copy_from_slice(&to.0);
            head[6..12].copy_from_slice(&from.0);
            head
        });
        let heads: Vec<Vec<u8>> = parts.collect();
        self.heads.clear();
        for (stored, head) in self.stored.iter_mut().zip(heads) {
            (stored.at, stored.head) = (self.heads.len() as u32, head.len() as u16);
            self.heads.extend_from_slice(&head);
        }
        self
    }

    /// Where the innermost frames begin, in bytes: behind the headers of a tunnel.
    pub fn inner(&self) -> usize {
        self.inner.into()
    }

    /// The same frames, whose order is judged as that of one flow, whatever fields change.
    #[must_use]
    pub fn in_one_flow(self) -> Self {
        Self { flows: if self.edits.is_empty() { self.flows } else { 1 }, ..self }
    }

    /// The same frames, with tags of this trial.
    #[must_use]
    pub fn of_trial(self, trial: u32) -> Self {
        Self { tag: self.tag.of_trial(trial), ..self }
    }

    /// Where the tags are.
    pub fn tag(&self) -> tag::TagFormat {
        self.tag
    }

    /// The number of different frames.
    pub fn len(&self) -> usize {
        self.stored.len()
    }

    /// Whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// The only frame, if there is one.
    pub fn only(&self) -> Option<Template<'_>> {
        (self.stored.len() == 1 && self.edits.is_empty()).then(|| self.at(0)).flatten()
    }

    /// The number of flows.
    pub fn flows(&self) -> u32 {
        self.flows
    }

    /// The length of the longest frame in bytes, without FCS and without the first VLAN tag, which does not
    /// count towards the MTU of an interface.
    pub fn longest(&self) -> usize {
        self.lengths().max().unwrap_or(0)
    }

    /// The lengths of all different frames, as [`longest`](Self::longest) counts them. The lengths of
    /// [`each`](Self::each) are in their order.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        self.stored.iter().zip(self.heads()).map(|(stored, head)| {
            let tagged = head.get(12..14).is_some_and(|kind| kind == TYPE_VLAN.to_be_bytes());
            usize::from(stored.bytes) - if tagged { VLAN_BYTES } else { 0 }
        })
    }

    /// The number of sizes.
    pub fn sizes(&self) -> usize {
        self.sizes
    }

    /// The frame of this sequence number; `None` only without frames.
    #[inline]
    pub fn at(&self, n: u64) -> Option<Template<'_>> {
        let (place, flow, size) = if self.stored.len() == 1 && self.flows == 1 {
            (0, 0, 0)
        } else {
            let flow = (n % u64::from(self.flows.max(1))) as u32;
            // In the next round each flow begins with another size.
            let turn = (n + n / self.round.max(1)) % self.order.len().max(1) as u64;
            let size = *self.order.get(turn as usize)? as usize;
            // Flows that differ in fields that change have one frame.
            let first = if self.edits.is_empty() { flow as usize * self.sizes } else { 0 };
            (first + size, flow, size)
        };
        let stored = self.stored.get(place)?;
        let head = self.heads.get(stored.at as usize..)?.get(..stored.head.into())?;
        Some(Template { head, bytes: stored.bytes, flow, size })
    }

    /// Writes the frame of this sequence number to the start of `bytes`, without a tag. Returns its length;
    /// `None` if there is no room.
    #[inline]
    pub fn write(&self, n: u64, bytes: &mut [u8]) -> Option<u16> {
        let length = self.at(n)?.write(bytes)?;
        if !self.edits.is_empty() {
            self.edits.write(n, bytes.get_mut(..length.into())?);
        }
        Some(length)
    }

    /// The fields that change from frame to frame. [`at`](Self::at) has their first values.
    #[inline]
    pub fn edits(&self) -> &Edits {
        &self.edits
    }

    /// The number of this flow's frames among the first `frames`.
    pub fn of_flow(&self, flow: u32, frames: u64) -> u64 {
        let flows = u64::from(self.flows.max(1));
        frames / flows + u64::from(u64::from(flow) < frames % flows)
    }

    /// The number of frames of each size among the first `frames`.
    pub fn of_sizes(&self, frames: u64) -> Vec<u64> {
        let mut counts = vec![0; self.sizes];
        let period = self.order.len() as u64;
        if period == 0 {
            return counts;
        }
        let (rounds, rest) = (frames / self.round, frames % self.round);
        // A round is a multiple of the period.
        let periods = rounds.saturating_mul(self.round / period) + rest / period;
        for size in &self.order {
            counts[*size as usize] += periods;
        }
        for n in 0..rest % period {
            counts[self.order[((n + rounds) % period) as usize] as usize] += 1;
        }
        counts
    }

    /// The beginnings of all different frames, in any order.
    pub fn heads(&self) -> impl Iterator<Item = &[u8]> {
        let head = |stored: &StoredFrame| self.heads.get(stored.at as usize..)?.get(..stored.head.into());
        self.stored.iter().filter_map(head)
    }
}

impl Template<'_> {
    /// Writes the frame to the start of `bytes`, without a tag. Returns its length; `None` if there is no
    /// room.
    #[inline]
    pub fn write(&self, bytes: &mut [u8]) -> Option<u16> {
        let (head, rest) = bytes.get_mut(..self.bytes.into())?.split_at_mut_checked(self.head.len())?;
        head.copy_from_slice(self.head);
        rest.fill(0);
        Some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::flows::{Addresses, PortNumbers};
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn flows(count: u32) -> Flows {
        let address = |last: u8| Addresses::from([198, 18, 0, last].into(), 1);
        Flows::new(
            Some(count),
            [address(1), address(2)],
            [PortNumbers::from(49152, 16384), PortNumbers::from(9, 1)],
        )
        .unwrap()
    }

    proptest! {
        /// Every flow has every size as often as the mix says, neighbours are of different flows, and
        /// computed counts match the frames.
        #[test]
        fn flows_and_sizes_take_turns(
            count in 1u32..40,
            weights in prop::collection::vec(1u32..5, 1..4),
            frames in 0u64..3000,
        ) {
            let sizes = weights.iter().enumerate();
            let text: Vec<_> = sizes.map(|(i, w)| alloc::format!("{}:{w}", 64 + 100 * i)).collect();
            let mix: Mix = text.join(",").parse().unwrap();
            let all = Templates::tests(&flows(count), [Mac::default(); 2], None, &mix).unwrap();
            let whole = u64::from(count) * mix.period().len() as u64;
            let mut seen = BTreeMap::new();
            for n in 0..whole {
                let template = all.at(n).unwrap();
                *seen.entry((template.flow, template.size)).or_insert(0) += 1;
                prop_assert!(count == 1 || all.at(n + 1).unwrap().flow != template.flow);
                let mut bytes = [0xff; 400];
                let length = template.write(&mut bytes).unwrap();
                let size = mix.parts()[template.size].0;
                let flow = flows(count).nth(template.flow, [Mac::default(); 2], None);
                prop_assert_eq!(&bytes[..length.into()], &udp_test(&flow, size).unwrap()[..]);
            }
            for ((_, size), times) in seen {
                prop_assert_eq!(times, weights[size]);
            }
            let mut sizes = vec![0; weights.len()];
            let mut of_first = 0;
            for n in 0..frames {
                let template = all.at(n).unwrap();
                sizes[template.size] += 1;
                of_first += u64::from(template.flow == 0);
            }
            prop_assert_eq!(all.longest(), 64 + 100 * (weights.len() - 1) - 4);
            let again = Templates::from_parts(&all.parts()).unwrap();
            prop_assert_eq!(again.at(frames), all.at(frames));
            prop_assert_eq!(again.parts(), all.parts());
            prop_assert_eq!(all.of_sizes(frames), sizes);
            prop_assert_eq!(all.of_flow(0, frames), of_first);
        }
    }

    #[test]
    fn inconsistent_parts_are_refused() {
        let good = Templates::tests(&flows(2), [Mac::default(); 2], None, &Mix::imix_csit()).unwrap().parts();
        let bad = |change: fn(&mut Parts)| {
            let mut parts = good.clone();
            change(&mut parts);
            Templates::from_parts(&parts).is_none()
        };
        assert!(
            bad(|parts| parts.flows = 0) && bad(|parts| parts.flows = 4) && bad(|parts| parts.order.clear())
        );
        assert!(bad(|parts| parts.order[0] = 3) && bad(|parts| parts.bytes[0] = 3));
        assert!(bad(|parts| parts.heads.truncate(3)) && bad(|parts| parts.heads.clear()));
    }

    #[test]
    fn frames_are_rebuilt_completely() {
        let frames = [vec![1, 2, 3, 0, 0], vec![0; 60], vec![9; 4]];
        let all = Templates::each(frames.iter().map(Vec::as_slice));
        for n in 0..7 {
            let mut bytes = [7; 64];
            let length = all.at(n).unwrap().write(&mut bytes).unwrap();
            assert_eq!(bytes[..length.into()], frames[n as usize % 3]);
        }
        let moved = Templates::each([&frames[1][..], &[9; 60]]).between([Mac([1; 6]), Mac([2; 6])]);
        for (n, rest) in [(0, 0), (1, 9)] {
            let mut bytes = [7; 64];
            assert_eq!(moved.at(n).unwrap().write(&mut bytes), Some(60));
            assert_eq!(
                (&bytes[..6], &bytes[6..12], &bytes[12..60]),
                (&[2; 6][..], &[1; 6][..], &[rest; 48][..])
            );
        }
        assert!(all.at(0).unwrap().write(&mut [0; 4]).is_none() && all.only().is_none());
        assert!(Templates::one(&frames[0]).only().is_some() && Templates::default().at(0).is_none());
    }
}
