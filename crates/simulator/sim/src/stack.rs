//! A running operating-system stack with one card, whichever stack that is.

use crate::device::e1000::Frame;
use crate::stack_params::StackParams;
use kpps_host::Machine;
use kpps_host::platform::Buf;
use kpps_host::stack::freebsd::{self, Program};
use kpps_host::stack::linux24::Attach;
use kpps_host::stack::{Handler, IntoBuffer, Netdev, Producer, Service, Work, linux22, linux24};

/// An application that receives.
pub(crate) trait Sink: 'static {
    /// How many elements a frame passes.
    fn elements(&self) -> u32;
    /// Consumes `frame` at `now_ps`, and gives its buffer back unless it keeps it.
    fn consume(&mut self, now_ps: u64, frame: Frame) -> Option<Buf>;
}

/// The sink of machines that only send.
pub(crate) struct ReceivesNothing;

impl Sink for ReceivesNothing {
    fn elements(&self) -> u32 {
        0
    }
    fn consume(&mut self, _now_ps: u64, frame: Frame) -> Option<Buf> {
        Some(frame.into_buffer())
    }
}

/// A [`Sink`] as the handler of any stack.
pub(crate) struct App<S>(S);

impl<N: Netdev<Frame = Frame, Buffer = Buf>, S: Sink> Handler<N> for App<S> {
    fn work(&self) -> Work {
        Work::Elements(self.0.elements())
    }
    #[inline]
    fn handle(&mut self, now_ps: u64, _: usize, frame: Frame, _: &mut Vec<(usize, Frame)>) -> Option<Buf> {
        self.0.consume(now_ps, frame)
    }
}

/// A running stack with one card.
pub(crate) enum Running<N: Netdev, S: Sink> {
    Linux22(linux22::Stack<N, App<S>>),
    Linux24(linux24::Stack<N, App<S>>),
    FreeBsd(freebsd::Stack<N, App<S>>),
}

impl<N: Netdev<Frame = Frame, Buffer = Buf>, S: Sink> Running<N, S> {
    /// Starts the stack for the card in slot 0, which is to be served by `service`.
    pub fn start(machine: &Machine, params: StackParams, (device, service): (N, Service), sink: S) -> Self {
        match params {
            StackParams::Linux22(params) => {
                let attach = linux22::Attach { device, slot: 0, service };
                Self::Linux22(linux22::Stack::start(machine, params, vec![attach], App(sink)))
            }
            StackParams::Linux24(params) => {
                let attach = Attach { device, slot: 0, service, cpu: 0 };
                Self::Linux24(linux24::Stack::start(machine, params, vec![attach], App(sink)))
            }
            StackParams::FreeBsd(params) => {
                let attach = freebsd::Attach { device, slot: 0, service };
                Self::FreeBsd(freebsd::Stack::start(machine, params, vec![attach], App(sink)))
            }
        }
    }

    /// Starts a thread that sends as fast as the device takes frames.
    pub fn send_forever(&self, machine: &Machine, producer: impl Producer + 'static) {
        match self {
            Self::Linux22(stack) => stack.send_forever(machine, 0, producer),
            Self::Linux24(stack) => stack.send_forever(machine, 0, producer),
            Self::FreeBsd(stack) => {
                let datagram = kpps_frames::Size::MIN.bytes_with_fcs() as usize;
                stack.send_from_process(machine, Program::NETBLAST, datagram, producer);
            }
        }
    }

    /// Where the frames are or ended.
    pub fn tally(&self) -> linux22::Tally {
        match self {
            Self::Linux22(stack) => stack.tally(0),
            Self::Linux24(stack) => of_linux24(stack.tally(0)),
            Self::FreeBsd(stack) => of_freebsd(stack.tally(0)),
        }
    }
}

/// Where the frames of a receiver under Linux 2.4 or later are or ended.
pub(crate) fn of_linux24(tally: linux24::Tally) -> linux22::Tally {
    linux22::Tally {
        from_driver: tally.from_driver,
        dropped_backlog: tally.dropped_backlog,
        in_backlog: tally.in_backlog,
        in_hand: tally.in_hand,
        consumed: tally.ended,
        ..linux22::Tally::default()
    }
}

/// The same under FreeBSD.
pub(crate) fn of_freebsd(tally: freebsd::Tally) -> linux22::Tally {
    linux22::Tally {
        from_driver: tally.from_driver,
        dropped_backlog: tally.dropped_input,
        in_backlog: tally.in_input,
        in_hand: tally.in_hand,
        consumed: tally.ended,
        ..linux22::Tally::default()
    }
}

/// No protocol wants a frame: it ends at the demultiplexer, which frees it.
pub(crate) struct Discard;

impl<N: Netdev<Frame = Frame, Buffer = Buf>> Handler<N> for Discard {
    fn work(&self) -> Work {
        Work::Elements(0)
    }
    fn handle(&mut self, _: u64, _: usize, frame: Frame, _: &mut Vec<(usize, Frame)>) -> Option<Buf> {
        Some(frame.into_buffer())
    }
}
