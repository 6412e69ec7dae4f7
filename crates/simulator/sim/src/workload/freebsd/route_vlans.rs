//! A router between two VLANs on one wire: the project's own, on either card.

use super::{Received, Rig};
use crate::any_setup::AnySetup;
use crate::app::AppHandler;
use crate::experiment::check_load;
use crate::simulation::CARD;
use crate::source::{ConstantRate, slot_ps};
use kpps_apps::{Interface, Ipv4Net, Misconfigured, Router};
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Mix, Size, ethernet, ipv4};
use kpps_host::wire::FrameSource;
use kpps_methods::TrialError;
use std::net::Ipv4Addr;
use std::rc::Rc;

/// The VLANs, and who is in the second.
const VLANS: [u16; 2] = [10, 20];
const BEYOND: Mac = Mac([2, 0, 0, 0, 0, 9]);
/// The router's addresses, in the networks of [`Flow::default`].
const HERE: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 254), Ipv4Addr::new(198, 19, 0, 254)];
/// Where an IP header begins in a tagged frame.
const TAGGED_IP: usize = ethernet::HEADER_BYTES + ethernet::VLAN_BYTES;

/// The router, which knows who is beyond.
fn router<F: kpps_apps::Resize>() -> Result<Router<F>, Misconfigured> {
    let interface = |side: usize| Interface {
        port: 0,
        vlan: Some(VLANS[side]),
        mac: CARD,
        net: Ipv4Net::new_assert(HERE[side], 24),
        mtu: 1500,
    };
    Router::new([0, 1].map(interface).into(), &[])?.with_neighbour(Flow::default().to.0, BEYOND)
}

fn vlan(frame: &[u8]) -> Option<u16> {
    let tag = frame.get(12..16)?;
    (tag[..2] == [0x81, 0]).then(|| u16::from_be_bytes([tag[2], tag[3]]) & 0xfff)
}

/// Whether a frame is as the router should have made it.
fn routed(frame: &[u8]) -> bool {
    let header = frame.get(TAGGED_IP..).map(ipv4::Packet::new_checked);
    vlan(frame) == Some(VLANS[1])
        && frame[..6] == BEYOND.0
        && matches!(header, Some(Ok(header)) if header.checksum_ok() && header.ttl() == 63)
}

/// A mix of frames at a constant rate, none before the one ahead of it has passed.
struct MixedRate {
    frames: Vec<Vec<u8>>,
    pace: ConstantRate,
    next: usize,
    /// Before this the next frame's last bit cannot arrive.
    wire_ps: u64,
}

impl FrameSource for MixedRate {
    fn next_ps(&self) -> u64 {
        self.pace.next_ps().max(self.wire_ps)
    }
    fn frame(&mut self) -> &[u8] {
        let at = self.next_ps();
        let _ = self.pace.frame();
        let current = self.next;
        self.next = (current + 1) % self.frames.len();
        self.wire_ps = at + slot_ps(Size::without_fcs(self.frames[self.next].len() as u16));
        &self.frames[current]
    }
}

/// A mix of tagged frames arrives at a constant rate in one VLAN and is routed into another on the same wire;
/// the sizes of the mix are without the tag.
pub fn route_vlans(
    machine: &AnySetup,
    mix: &Mix,
    offered_pps: f64,
    times_ms: (u32, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<Received, TrialError> {
    let flow = Flow { to_mac: CARD, vlan: Some(VLANS[0]), ..Flow::default() };
    let tagged = |size: &Size| Size::without_fcs(size.bytes_without_fcs() + ethernet::VLAN_BYTES as u16);
    let sizes: Vec<Size> = mix.period().iter().map(tagged).collect();
    let frames = sizes.iter().map(|size| udp_test(&flow, *size)).collect::<Result<Vec<_>, _>>();
    let frames = frames.map_err(|e| TrialError::Load(e.to_string()))?;
    let (Some(longest), Some(frame)) = (sizes.iter().max().copied(), frames.iter().max_by_key(|f| f.len()))
    else {
        return Err(TrialError::Load("an empty mix".into()));
    };
    let mean_slot_ps = sizes.iter().map(|size| slot_ps(*size)).sum::<u64>() / sizes.len() as u64;
    check_load(offered_pps, 1e12 / mean_slot_ps as f64, "line rate for this mix")?;
    let router = router().map_err(|e| TrialError::Testbed(format!("the router cannot be set up: {e}")))?;
    let rig = Rig::build(machine, longest, routed, |stock| AppHandler::between_vlans(router, stock), false)?;
    let source = |first_ps| {
        let pace = ConstantRate::new(frame.clone(), offered_pps, first_ps, u64::MAX - 1, Rc::default());
        MixedRate { frames: frames.clone(), pace, next: 0, wire_ps: 0 }
    };
    let interval = rig.receive(source, times_ms, go_on)?;
    let pps = interval.per_second(|s| s.own.frames);
    let mbps = interval.per_second(|s| s.own.bytes) * 8e-6;
    Ok(Received::new(offered_pps, pps, mbps, &interval))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_apps::{App, Outputs};

    #[derive(Default)]
    struct Out(Vec<Vec<u8>>);

    impl Outputs<Vec<u8>> for Out {
        fn send(&mut self, _: usize, frame: Vec<u8>) {
            self.0.push(frame);
        }
        fn make(&mut self, _: &[u8]) -> Option<Vec<u8>> {
            None
        }
        fn discard(&mut self, _: Vec<u8>) {}
    }

    #[test]
    fn what_is_routed_is_told_from_what_is_not() {
        let flow = Flow { to_mac: CARD, vlan: Some(VLANS[0]), ..Flow::default() };
        let before = udp_test(&flow, Size::without_fcs(100)).unwrap();
        let (mut router, mut out) = (router().unwrap(), Out::default());
        assert_eq!(router.push(0, before.clone(), 0, &mut out), None);
        let [after] = &out.0[..] else { panic!("{:?}", out.0) };
        assert!(!routed(&before) && routed(after));
        assert_eq!(after[TAGGED_IP + 12..], before[TAGGED_IP + 12..]);
        let spoilt = |at: usize| {
            let mut frame = after.clone();
            frame[at] ^= 1;
            frame
        };
        for at in [5, 15, TAGGED_IP + 8, TAGGED_IP + 10, TAGGED_IP + 16] {
            assert!(!routed(&spoilt(at)), "byte {at}");
        }
    }
}
