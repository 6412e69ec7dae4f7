//! The project's apps between two ports, the frames that a tester sends through them, and the frames that
//! must come out.

use crate::device::e1000::{E1000, Frame};
use crate::simulation::station as card;
use kpps_apps::{
    App, EtherSwitch, Interface, Ledger, Misconfigured, Nat, Outputs, Reason, Resize, Route, Router,
};
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Size, checksum, ipv4, tag, udp};
use kpps_host::platform::Buf;
use kpps_host::stack::{Handler, IntoBuffer, Netdev, Work};
use kpps_host::{MS, NS};
use kpps_methods::TrialError;
use serde::Deserialize;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The kind of an app between two ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum AppKind {
    /// A learning bridge.
    #[default]
    Bridge,
    /// An IPv4 router.
    Route,
    /// The same, between a VLAN of each port.
    VlanRoute,
    /// The same with address translation: port 1 is outside.
    Nat,
}

impl AppKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Bridge, Self::Route, Self::VlanRoute, Self::Nat];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Route => "route",
            Self::VlanRoute => "vlan-route",
            Self::Nat => "nat",
        }
    }

    /// The smallest test frames that hold a tag.
    pub fn least_size(self) -> Size {
        self.flow(0, 0).0.least_test_size().max(Size::MIN)
    }

    /// Whether its cards accept frames for any address: the bridge's do.
    pub(crate) fn is_promiscuous(self) -> bool {
        self == Self::Bridge
    }

    /// Flows of each direction, from different hosts.
    fn flows(self) -> u16 {
        if self == Self::Bridge { 1 } else { 16 }
    }
}

impl fmt::Display for AppKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl TryFrom<String> for AppKind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl FromStr for AppKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|each| each.name() == text)
            .ok_or_else(|| format!("there is no app '{text}': {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The stations behind the ports: the hosts themselves for a bridge, the next routers for a router.
const STATIONS: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 0]), Mac([2, 0, 0, 0, 1, 1])];
/// The router's addresses, in networks for benchmarks (RFC 2544 C.2.2), and the next routers' in the same.
const HERE: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 19, 0, 1)];
const NEXT: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2)];
/// The VLANs of the ports.
const VLANS: [u16; 2] = [10, 20];
/// Hosts behind port 0 send from UDP ports from here on, to the discard port.
const FIRST_PORT: u16 = 49152;
const DISCARD: u16 = 9;

/// A host and its UDP port behind a port: behind the next router.
fn host(side: usize, flow: u16) -> (Ipv4Addr, u16) {
    (Ipv4Addr::new(10, side as u8, 0, 1 + flow as u8), [FIRST_PORT + flow, DISCARD][side])
}

impl AppKind {
    /// The flow that comes in by a port, and the flow that leaves by the other.
    fn flow(self, side: usize, flow: u16) -> (Flow, Flow) {
        let other = 1 - side;
        if self == Self::Bridge {
            let [from, to] = [Flow::default().from, Flow::default().to];
            let ends = if side == 0 { [from, to] } else { [to, from] };
            let same = Flow {
                from_mac: STATIONS[side],
                to_mac: STATIONS[other],
                vlan: None,
                from: ends[0],
                to: ends[1],
            };
            return (same, same);
        }
        // The address by which the other side knows a host.
        let known = |side| match (self, side) {
            (Self::Nat, 0) => (HERE[1], host(0, flow).1),
            _ => host(side, flow),
        };
        let vlan = |side: usize| (self == Self::VlanRoute).then(|| VLANS[side]);
        let came = Flow {
            from_mac: STATIONS[side],
            to_mac: card(side),
            vlan: vlan(side),
            from: host(side, flow),
            to: known(other),
        };
        let leaves = Flow {
            from_mac: card(other),
            to_mac: STATIONS[other],
            vlan: vlan(other),
            from: known(side),
            to: host(other, flow),
        };
        (came, leaves)
    }

    /// The frames that the tester sends into a port in turn, each with the frame that must come out of the
    /// other.
    pub(crate) fn frames(self, side: usize, size: Size) -> Result<Vec<[Vec<u8>; 2]>, TrialError> {
        let frame = |flow| {
            udp_test(&flow, size).map_err(|error| {
                let least = self.least_size().bytes_with_fcs();
                TrialError::Load(format!(
                    "no test frames for the app '{self}', which take {least} bytes: {error}"
                ))
            })
        };
        let pair = |flow| {
            let (came, leaves) = self.flow(side, flow);
            let (came, mut leaves) = (frame(came)?, frame(leaves)?);
            if self != Self::Bridge {
                take_hop(&mut leaves);
            }
            Ok([came, leaves])
        };
        (0..self.flows()).map(pair).collect()
    }

    /// The app itself for frames of `size`; a router knows the next routers.
    pub(crate) fn program(self, size: Size) -> Result<Program, TrialError> {
        if self == Self::Bridge {
            return Ok(Program::Bridge(Box::new(EtherSwitch::new(2))));
        }
        let router = self.router(size);
        let router =
            router.map_err(|e| TrialError::Testbed(format!("the app '{self}' cannot be set up: {e}")))?;
        Ok(Program::Router(Box::new(router)))
    }

    /// The router for frames of `size`; for [`AppKind::Bridge`] that of [`AppKind::Route`].
    ///
    /// # Errors
    /// None for the networks that are used here.
    pub fn router<F: Resize>(self, size: Size) -> Result<Router<F>, Misconfigured> {
        let interface = |side: usize| Interface {
            port: side,
            vlan: self.flow(side, 0).0.vlan,
            mac: card(side),
            net: kpps_apps::Ipv4Net::new_assert(HERE[side], 24),
            mtu: size.bytes_without_fcs().max(1500),
        };
        let route = |side: usize| Route {
            to: kpps_apps::Ipv4Net::new_assert(Ipv4Addr::new(10, side as u8, 0, 0), 16),
            via: NEXT[side],
        };
        let router = Router::new([0, 1].map(interface).into(), &[0, 1].map(route))?
            .with_neighbour(NEXT[0], STATIONS[0])?
            .with_neighbour(NEXT[1], STATIONS[1])?;
        if self == Self::Nat { router.with_nat(Nat::new(1)) } else { Ok(router) }
    }

    fn work(self) -> Work {
        match self {
            Self::Bridge => Work::Bridge,
            Self::Route => Work::Route { vlans: false, translates: false },
            Self::VlanRoute => Work::Route { vlans: true, translates: false },
            Self::Nat => Work::Route { vlans: false, translates: true },
        }
    }
}

/// Changes a header as a router does: one hop less, and a new checksum.
fn take_hop(frame: &mut [u8]) {
    let at = tag::offset(frame) - udp::HEADER_BYTES - ipv4::HEADER_BYTES;
    let header = &mut frame[at..at + ipv4::HEADER_BYTES];
    header[8] -= 1;
    header[10..12].fill(0);
    let sum = checksum::checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

impl AsMut<[u8]> for Frame {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

impl Resize for Frame {
    fn resize(&mut self, bytes: usize) -> bool {
        self.set_bytes(bytes)
    }
}

/// A running app.
pub(crate) enum Program {
    Bridge(Box<EtherSwitch>),
    Router(Box<Router<Frame>>),
}

impl Program {
    #[inline]
    fn push(&mut self, port: usize, frame: Frame, now_ns: u64, out: &mut Leaving) -> Option<Frame> {
        match self {
            Self::Bridge(bridge) => bridge.push(port, frame, now_ns, out),
            Self::Router(router) => router.push(port, frame, now_ns, out),
        }
    }

    fn tick(&mut self, now_ns: u64, out: &mut Leaving) {
        match self {
            Self::Bridge(bridge) => App::<Frame>::tick(&mut **bridge, now_ns, out),
            Self::Router(router) => router.tick(now_ns, out),
        }
    }

    fn ledger(&self) -> Ledger {
        match self {
            Self::Bridge(bridge) => App::<Frame>::ledger(&**bridge),
            Self::Router(router) => router.ledger(),
        }
    }
}

/// Empty frames for an app's own messages: one frame may cause an ARP request and four ICMP errors.
pub(crate) const STOCK: usize = 8;

/// Where an app's frames go until it returns.
struct Leaving<'a> {
    /// Frames that leave.
    out: &'a mut Vec<(usize, Frame)>,
    /// Buffers of frames that it had kept and has dropped.
    released: &'a mut Vec<Buf>,
    /// Empty frames for its own messages.
    stock: &'a mut Vec<Frame>,
}

impl Outputs<Frame> for Leaving<'_> {
    fn send(&mut self, port: usize, frame: Frame) {
        self.out.push((port, frame));
    }
    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        let mut frame = self.stock.pop()?;
        if !frame.set_bytes(bytes.len()) {
            self.stock.push(frame);
            return None;
        }
        frame.bytes_mut().copy_from_slice(bytes);
        Some(frame)
    }
    fn discard(&mut self, frame: Frame) {
        self.released.push(frame.into_buffer());
    }
}

/// Time from one tick of the app to the next.
const TICK_PS: u64 = 100 * MS;

/// The app as the handler of a stack.
pub(crate) struct AppHandler {
    work: Work,
    program: Program,
    released: Vec<Buf>,
    stock: Vec<Frame>,
    next_tick_ps: u64,
}

impl AppHandler {
    /// An app of this kind after `connections` have been made: each of these frames has come in by port 0
    /// once.
    pub fn new<'a>(
        kind: AppKind,
        size: Size,
        device: &E1000,
        connections: impl Iterator<Item = &'a [u8]>,
        now_ps: u64,
    ) -> Result<Self, TrialError> {
        let mut program = kind.program(size)?;
        let (mut out, mut released, mut stock) = (Vec::new(), Vec::new(), device.set_aside(STOCK));
        for bytes in connections {
            let mut fill = |buffer: &mut [u8]| {
                buffer.get_mut(..bytes.len()).map_or(0, |start| {
                    start.copy_from_slice(bytes);
                    bytes.len()
                })
            };
            let frame = device
                .make(&mut fill)
                .ok_or_else(|| TrialError::Testbed("no buffer for a connection to begin with".into()))?;
            let mut leaving = Leaving { out: &mut out, released: &mut released, stock: &mut stock };
            let ended = program.push(0, frame, now_ps / NS, &mut leaving);
            for frame in ended.into_iter().chain(out.drain(..).map(|(_, frame)| frame)) {
                device.free(frame.into_buffer());
            }
        }
        Ok(Self { work: kind.work(), program, released, stock, next_tick_ps: now_ps + TICK_PS })
    }

    /// A router between the VLANs of one port, with a stock of empty frames.
    pub fn between_vlans(router: Router<Frame>, stock: Vec<Frame>) -> Self {
        let work = Work::Route { vlans: true, translates: false };
        let program = Program::Router(Box::new(router));
        Self { work, program, released: Vec::new(), stock, next_tick_ps: TICK_PS }
    }

    /// The app's own ledger.
    pub fn ledger(&self) -> Ledger {
        self.program.ledger()
    }

    /// Frames that ended in the app, by reason, and frames that it holds. Messages that it could not make are
    /// left out.
    pub fn account(&self) -> (Vec<(Reason, u64)>, u64) {
        let ledger = self.program.ledger();
        (ledger.reasons().filter(|(reason, _)| *reason != Reason::NoBuffer).collect(), ledger.held)
    }
}

impl<N: Netdev<Frame = Frame, Buffer = Buf>> Handler<N> for AppHandler {
    fn work(&self) -> Work {
        self.work
    }
    #[inline]
    fn handle(
        &mut self,
        now_ps: u64,
        port: usize,
        frame: Frame,
        out: &mut Vec<(usize, Frame)>,
    ) -> Option<Buf> {
        let mut out = Leaving { out, released: &mut self.released, stock: &mut self.stock };
        if now_ps >= self.next_tick_ps {
            self.next_tick_ps = now_ps + TICK_PS;
            self.program.tick(now_ps / NS, &mut out);
        }
        self.program.push(port, frame, now_ps / NS, &mut out).map(IntoBuffer::into_buffer)
    }
    #[inline]
    fn released(&mut self) -> Vec<Buf> {
        std::mem::take(&mut self.released)
    }
    #[inline]
    fn wants(&self) -> usize {
        STOCK.saturating_sub(self.stock.len())
    }
    fn supply(&mut self, empty: Frame) {
        self.stock.push(empty);
    }
}
