//! A card's driver with an operating system's stack on it, whichever that is.

use crate::netdev::{Bound, Frame};
use crate::setup::StackParams;
use kpps_machine::Machine;
use kpps_machine::platform::Buf;
use kpps_machine::stack::freebsd::{self, Program};
use kpps_machine::stack::linux24::{Attach, Handler, Work};
use kpps_machine::stack::{IntoBuffer, Producer, linux22, linux24};

/// An application at the end of the path.
pub(crate) trait Sink: 'static {
    /// How many elements a frame passes.
    fn elements(&self) -> u32;
    /// Consumes `frame` at `now_ps`, and gives its buffer back unless it keeps that.
    fn consume(&mut self, now_ps: u64, frame: Frame) -> Option<Buf>;
}

/// Consumes nothing: for machines that only send.
pub(crate) struct Deaf;

impl Sink for Deaf {
    fn elements(&self) -> u32 {
        0
    }
    fn consume(&mut self, _now_ps: u64, frame: Frame) -> Option<Buf> {
        Some(frame.into_buffer())
    }
}

/// A [`Sink`] as either stack knows it.
pub(crate) struct App<S>(S);

impl<S: Sink> linux22::Consumer<Bound> for App<S> {
    fn elements(&self) -> u32 {
        self.0.elements()
    }
    #[inline]
    fn consume(&mut self, now_ps: u64, frame: Frame) -> Option<Buf> {
        self.0.consume(now_ps, frame)
    }
}

impl<S: Sink> Handler<Bound> for App<S> {
    fn work(&self) -> Work {
        Work::Elements(self.0.elements())
    }
    #[inline]
    fn handle(&mut self, now_ps: u64, _: usize, frame: Frame, _: &mut Vec<(usize, Frame)>) -> Option<Buf> {
        self.0.consume(now_ps, frame)
    }
}

/// A running stack with one card.
pub(crate) enum Running<S: Sink> {
    Linux22(linux22::Stack<Bound, App<S>>),
    Linux24(linux24::Stack<Bound, App<S>>),
    FreeBsd(freebsd::Stack<Bound, App<S>>),
}

impl<S: Sink> Running<S> {
    /// Starts the stack for the card in slot 0.
    pub fn start(machine: &Machine, params: StackParams, device: Bound, sink: S) -> Self {
        let service = device.service();
        match params {
            StackParams::Linux22(params) => {
                Self::Linux22(linux22::Stack::start(machine, 0, params, service, device, App(sink)))
            }
            StackParams::Linux24(params) => {
                let attach = Attach { device, slot: 0, service, cpu: 0 };
                Self::Linux24(linux24::Stack::start(machine, params, vec![attach], App(sink)))
            }
            StackParams::FreeBsd(params) => {
                Self::FreeBsd(freebsd::Stack::start(machine, 0, params, service, device, App(sink)))
            }
        }
    }

    /// Starts a thread that sends as fast as the device takes frames.
    pub fn send_forever(&self, machine: &Machine, producer: impl Producer + 'static) {
        match self {
            Self::Linux22(stack) => stack.send_forever(machine, producer),
            Self::Linux24(stack) => stack.send_forever(machine, 0, producer),
            Self::FreeBsd(stack) => {
                let datagram = kpps_frames::Size::MIN.bytes_with_fcs() as usize;
                stack.send_from_process(machine, Program::NETBLAST, datagram, producer);
            }
        }
    }

    /// What has become of the frames.
    pub fn tally(&self) -> linux22::Tally {
        match self {
            Self::Linux22(stack) => stack.tally(),
            Self::Linux24(stack) => {
                let tally = stack.tally(0);
                linux22::Tally {
                    from_driver: tally.from_driver,
                    dropped_backlog: tally.dropped_backlog,
                    in_backlog: tally.in_backlog,
                    in_hand: tally.in_hand,
                    consumed: tally.ended,
                    ..linux22::Tally::default()
                }
            }
            Self::FreeBsd(stack) => {
                let tally = stack.tally();
                linux22::Tally {
                    from_driver: tally.from_driver,
                    dropped_backlog: tally.dropped_input,
                    in_backlog: tally.in_input,
                    in_hand: tally.in_hand,
                    consumed: tally.ended,
                    ..linux22::Tally::default()
                }
            }
        }
    }
}
