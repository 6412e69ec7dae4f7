//! The flows of a trial and their frames.

use super::Tester;
use crate::error::Error;
use crate::running::learn::{ArrivalFormat, Direction, FlowPlan};
use kpps_frames::build::Flow;
use kpps_frames::{Mac, Mix, RawPacket, Size, TemplateOptions, Templates};
use std::net::{IpAddr, SocketAddr};

/// The flow of replies to a flow.
pub(super) fn reply(to: &Flow<IpAddr>) -> Flow<IpAddr> {
    Flow { from: to.to, to: to.from, from_mac: to.to_mac, to_mac: to.from_mac, ..*to }
}

impl Tester {
    /// The name of a flow in a direction from one port to another: its addresses. A flow of replies has the
    /// addresses with which the replies arrive.
    pub fn flow_name(&self, (from, to): Direction, flow: u32) -> String {
        let (initiator, other) = if self.flows.replies { (0, 1) } else { (from, to) };
        let flows = self.flows.between(&self.ends[initiator], &self.ends[other]);
        let flow = flows.map(|flows| flows.nth(flow, [Mac::default(); 2], None));
        flow.map_or_else(String::new, |flow| {
            let flow = if initiator == from { flow } else { reply(&flow) };
            format!("{} to {}", SocketAddr::from(flow.from), SocketAddr::from(flow.to))
        })
    }

    /// The flows of one direction as they leave their port, to this next hop.
    pub(super) fn flows_from(&self, (from, to): Direction, hop: Mac) -> Result<Vec<Flow<IpAddr>>, Error> {
        let count = self.flows.count;
        let flows = self.flows.between(&self.ends[from], &self.ends[to]).ok_or(Error::Flows { count })?;
        let macs = [self.ends[from].station.mac, hop];
        Ok((0..flows.count).map(|n| flows.nth(n, macs, None)).collect())
    }

    /// The format that frames of a direction have at the end `at`, one of its two.
    fn template_options(&self, direction: Direction, at: usize) -> TemplateOptions<'_> {
        self.template_options_at(direction, at, self.flows.packet.as_deref())
    }

    /// As [`Self::template_options`], with this packet in place of the flow plan's.
    pub(super) fn template_options_at<'p>(
        &self,
        (from, to): Direction,
        at: usize,
        packet: Option<&'p RawPacket>,
    ) -> TemplateOptions<'p> {
        let FlowPlan { dscp, hops, .. } = self.flows;
        let encap = self.ends[at].encap;
        TemplateOptions {
            encap: if at == from { encap } else { encap.reversed() },
            inside: [from, to].map(|end| self.ends[end].station.mac),
            dscp,
            hops,
            balanced: !self.ends.iter().all(|end| end.encap.is_plain()),
            packet,
        }
    }

    /// The frames of these flows of a direction, as they are at the end `at`.
    pub(super) fn frames(
        &self,
        flows: &[Flow<IpAddr>],
        direction: Direction,
        at: usize,
        sizes: &Mix,
    ) -> Result<Templates, Error> {
        let [before, now] = [direction.0, at].map(|end| self.ends[end].encap.bytes() as i16);
        self.template_options(direction, at)
            .templates(flows.iter().copied(), &sizes.resized(now - before), 0)
            .map_err(|why| Error::frame(sizes, why))
    }

    /// The formats of the tags in the frames that arrive at each port.
    pub(super) fn formats(&self) -> Result<Vec<ArrivalFormat>, Error> {
        let format = |at: usize| {
            // The frames of all senders have the same form there.
            let from = usize::from(at == 0);
            let direction = (from, at);
            let flows = self.flows_from(direction, Mac::default())?;
            let least =
                flows.first().map_or(Size::MIN, |flow| self.template_options(direction, from).least(flow));
            let some = &flows[..flows.len().min(1)];
            // These frames are not the smallest, because a device that removes layers would make them too
            // short.
            let size = if self.flows.packet.is_some() { least } else { least.max(Size::with_fcs(256)) };
            let frames = self.frames(some, direction, at, &Mix::fixed(size))?;
            Ok((frames.tag(), frames.inner()))
        };
        (0..self.ports.len()).map(format).collect()
    }
}
