//! Ports by name.

#[cfg(target_os = "linux")]
use super::card::CardPort;
#[cfg(target_os = "linux")]
use super::{CoresPort, DpdkPort, PacketPort, XdpPort};
use super::{Counters, Descriptor, Frame, Link, NextPoll, Port, Trouble, UdpPort, Wake};
use crate::Error;
use kpps_driver::Chip;
#[cfg(target_os = "linux")]
use kpps_frames::Size;
use kpps_frames::build::Flow;
#[cfg(target_os = "linux")]
use kpps_linux::{CardPlatform, Interrupts};
use kpps_platform::memory::{BufferPool, PoolBuffer};
use std::fmt;
use std::io;
use std::str::FromStr;

/// Bytes of a buffer, which holds a whole frame. The card uses 2048 of them. The additional cache line
/// spreads the first lines of all buffers over all sets of a cache, instead of every 32nd one.
#[cfg(target_os = "linux")]
pub(super) const BUFFER_BYTES: usize = 2048 + 64;
/// Buffers that apps hold, and those in the stacks of the pool's handles.
pub(super) const SPARE_BUFFERS: usize = 1024;

/// How a card is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceKind {
    /// Always polls, never sleeps.
    Polling,
    /// An interrupt starts polling, which ends when the rings are empty, as in Linux.
    Napi,
    /// Our own: as NAPI, but it adapts how long it polls and pauses.
    #[default]
    Kpps,
}

impl ServiceKind {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Polling => "polling",
            Self::Napi => "napi",
            Self::Kpps => "kpps",
        }
    }
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ServiceKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Polling, Self::Napi, Self::Kpps].into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| format!("there is no service '{text}': known are polling, napi and kpps"))
    }
}

/// Descriptors in each ring of a card. A program in user space loses the CPU for longer than a kernel's
/// driver does: to the scheduler and, in a virtual machine, to the emulation of the card. At line rate this
/// bridges 1.4 ms. QEMU's e1000 drops what finds no descriptor: there a flood lowers throughput with rings of
/// 256 by 30 %, with these not at all.
pub const RING: u16 = 2048;

/// How ports are opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How cards are served.
    pub service: ServiceKind,
    /// Descriptors in each ring of a card. The default is [`RING`], or as many as its chip can have, or for
    /// which this process may lock memory.
    pub ring: Option<u16>,
    /// Receive frames for any station (promiscuous mode).
    pub promiscuous: bool,
    /// The number of cores of each port. Only interfaces that the kernel drives can have several.
    pub cores: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { service: ServiceKind::default(), ring: None, promiscuous: true, cores: 1 }
    }
}

/// A port of any kind.
pub enum AnyPort {
    /// Our driver on a card.
    #[cfg(target_os = "linux")]
    Card(Box<CardPort<CardPlatform, Option<Interrupts>>>),
    /// An interface of the kernel.
    #[cfg(target_os = "linux")]
    Packet(Box<PacketPort>),
    /// An interface, or a queue of it.
    #[cfg(target_os = "linux")]
    Xdp(Box<XdpPort>),
    /// An interface of the kernel on several cores.
    #[cfg(target_os = "linux")]
    PacketCores(Box<CoresPort<PacketPort>>),
    /// An interface on several cores, with a queue for each.
    #[cfg(target_os = "linux")]
    XdpCores(Box<CoresPort<XdpPort>>),
    /// A device that DPDK drives.
    #[cfg(target_os = "linux")]
    Dpdk(Box<DpdkPort>),
    /// A device that DPDK drives, on several cores, with a queue for each.
    #[cfg(target_os = "linux")]
    DpdkCores(Box<CoresPort<DpdkPort>>),
    /// A UDP socket.
    Udp(Box<UdpPort>),
}

/// The value of one expression for a port with a [port for each core](super::CoresPort), whose kinds differ
/// in their types only, and of another for other ports.
#[macro_export]
macro_rules! by_cores {
    ($port:expr, $all:ident => $of_cores:expr, $other:pat => $of_other:expr) => {
        match $port {
            #[cfg(target_os = "linux")]
            $crate::port::AnyPort::PacketCores($all) => $of_cores,
            #[cfg(target_os = "linux")]
            $crate::port::AnyPort::XdpCores($all) => $of_cores,
            #[cfg(target_os = "linux")]
            $crate::port::AnyPort::DpdkCores($all) => $of_cores,
            $other => $of_other,
        }
    };
}

impl AnyPort {
    /// The chip, if it is a card.
    pub fn chip(&self) -> Option<Chip> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Card(card) => Some(card.chip()),
            _ => None,
        }
    }

    /// The queues that it polls in turn: frames of different ones may have overtaken each other.
    pub fn queues(&self) -> usize {
        match self {
            #[cfg(target_os = "linux")]
            Self::Xdp(xdp) => xdp.queues(),
            _ => self.cores(),
        }
    }

    /// The number of the receive queue that each core reads, if each reads one of an interface.
    pub fn queue_numbers(&self) -> Option<Vec<u32>> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Xdp(xdp) => xdp.only_queue().map(|queue| vec![queue]),
            #[cfg(target_os = "linux")]
            Self::XdpCores(all) => all.each().map(XdpPort::only_queue).collect(),
            _ => None,
        }
    }

    /// The number of cores for which it has a port each.
    pub fn cores(&self) -> usize {
        by_cores!(self, all => all.cores(), _ => 1)
    }

    /// Whether frames of different flows may have overtaken each other in it: it polls several queues in
    /// turn, or its kernel merges the frames of a flow.
    pub fn mixes_flows(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Packet(packet) => packet.merges_datagrams(),
            _ => self.queues() > 1,
        }
    }

    /// The longest frame that it sends, in bytes without FCS and without a VLAN tag; `None` if that is not
    /// known before it is tried.
    pub fn longest(&self) -> Option<usize> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Card(_) => Some(Size::MAX_STANDARD.bytes_without_fcs().into()),
            #[cfg(target_os = "linux")]
            Self::Packet(packet) => Some(packet.longest()),
            #[cfg(target_os = "linux")]
            Self::Xdp(xdp) => Some(xdp.longest()),
            #[cfg(target_os = "linux")]
            Self::PacketCores(all) => Some(all.first().longest()),
            #[cfg(target_os = "linux")]
            Self::XdpCores(all) => Some(all.first().longest()),
            #[cfg(target_os = "linux")]
            Self::Dpdk(dpdk) => Some(dpdk.longest()),
            #[cfg(target_os = "linux")]
            Self::DpdkCores(all) => Some(all.first().longest()),
            Self::Udp(udp) => udp.longest(),
        }
    }

    /// Checks that this port, called `name`, sends frames of `bytes` bytes, without FCS and VLAN tag.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn check(&self, name: &dyn fmt::Display, bytes: usize) -> Result<(), Error> {
        Error::check_longest(name, self.longest(), bytes)
    }

    /// The station address. A UDP socket has a made-up one, which is never sent.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn address(&self) -> io::Result<[u8; 6]> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Card(card) => Ok(card.address()),
            #[cfg(target_os = "linux")]
            Self::Packet(packet) => packet.address(),
            #[cfg(target_os = "linux")]
            Self::Xdp(xdp) => xdp.address(),
            #[cfg(target_os = "linux")]
            Self::PacketCores(all) => all.first().address(),
            #[cfg(target_os = "linux")]
            Self::XdpCores(all) => all.first().address(),
            #[cfg(target_os = "linux")]
            Self::Dpdk(dpdk) => Ok(dpdk.address()),
            #[cfg(target_os = "linux")]
            Self::DpdkCores(all) => Ok(all.first().address()),
            Self::Udp(_) => Ok(Flow::default().from_mac.0),
        }
    }
}

/// Evaluates the same expression for any kind of port.
macro_rules! any {
    ($self:ident, $port:ident => $what:expr) => {
        match $self {
            #[cfg(target_os = "linux")]
            AnyPort::Card($port) => $what,
            #[cfg(target_os = "linux")]
            AnyPort::Packet($port) => $what,
            #[cfg(target_os = "linux")]
            AnyPort::Xdp($port) => $what,
            #[cfg(target_os = "linux")]
            AnyPort::PacketCores($port) => $what,
            #[cfg(target_os = "linux")]
            AnyPort::XdpCores($port) => $what,
            #[cfg(target_os = "linux")]
            AnyPort::Dpdk($port) => $what,
            #[cfg(target_os = "linux")]
            AnyPort::DpdkCores($port) => $what,
            AnyPort::Udp($port) => $what,
        }
    };
}

impl Wake for AnyPort {
    #[inline]
    fn next_poll(&self) -> NextPoll {
        any!(self, port => port.next_poll())
    }
    fn now_ns(&self) -> u64 {
        any!(self, port => port.now_ns())
    }
    fn fd(&self) -> Option<Descriptor<'_>> {
        any!(self, port => port.fd())
    }
    fn wants_to_send(&self) -> bool {
        any!(self, port => port.wants_to_send())
    }
    fn signals_tx_space(&self) -> bool {
        any!(self, port => port.signals_tx_space())
    }
}

impl Port for AnyPort {
    #[inline]
    fn receive(
        &mut self,
        budget: usize,
        sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        any!(self, port => port.receive(budget, sink))
    }
    #[inline]
    fn receive_stamped(
        &mut self,
        budget: usize,
        sink: impl FnMut(Frame, Option<u64>) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        any!(self, port => port.receive_stamped(budget, sink))
    }
    #[inline]
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        any!(self, port => port.send(frame))
    }
    #[inline]
    fn send_burst(&mut self, frames: &mut impl Iterator<Item = Frame>) -> usize {
        any!(self, port => port.send_burst(frames))
    }
    #[inline]
    fn send_again(&mut self, most: usize, write: impl FnMut(&mut [u8]) -> u16) -> usize {
        any!(self, port => port.send_again(most, write))
    }
    fn sends_fillers(&self) -> bool {
        any!(self, port => port.sends_fillers())
    }
    fn send_filler(&mut self, bytes: u16) -> bool {
        any!(self, port => port.send_filler(bytes))
    }
    #[inline]
    fn flush(&mut self) -> Result<(), Trouble> {
        any!(self, port => port.flush())
    }
    #[inline]
    fn tx_space(&mut self) -> usize {
        any!(self, port => port.tx_space())
    }
    fn in_flight(&mut self) -> usize {
        any!(self, port => port.in_flight())
    }
    fn woken(&mut self) -> Result<(), Trouble> {
        any!(self, port => port.woken())
    }
    fn maintain(&mut self) -> Result<(), Trouble> {
        any!(self, port => port.maintain())
    }
    fn counters(&mut self) -> Result<Counters, Trouble> {
        any!(self, port => port.counters())
    }
    fn frames(&self) -> (u64, u64) {
        any!(self, port => port.frames())
    }
    fn refresh_link(&mut self) -> Result<(), Trouble> {
        any!(self, port => port.refresh_link())
    }
    fn link(&self) -> Link {
        any!(self, port => port.link())
    }
    #[inline]
    fn pool(&mut self) -> &mut BufferPool {
        any!(self, port => port.pool())
    }
}
