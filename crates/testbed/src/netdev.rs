//! A driver bound to its card, as an operating-system stack sees it.

use kpps_driver::config::{self, Buffers};
use kpps_driver::service::{self, InterruptLoop, Napi, Polling, SelfPacing};
use kpps_driver::{Chip, Config, Control, Device, Error, Received, RxQueue, TxQueue, probe};
use kpps_machine::NS;
use kpps_machine::platform::{Allocator, Buf, Card};
use kpps_machine::stack::{self, IntoBuffer, Netdev, Next, Polled, Raised};
use kpps_platform::{Buffer, BufferSource, Platform};
use std::cell::Cell;
use std::rc::Rc;

/// How long a link may take: the slowest autonegotiation, twice.
const LINK_PATIENCE_NS: u64 = 5_000_000_000;

/// A received frame on its way up.
pub struct Frame(Received<Buf>);

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        let bytes = self.0.buffer.bytes();
        bytes.get(..usize::from(self.0.bytes)).unwrap_or(bytes)
    }
}

impl IntoBuffer<Buf> for Frame {
    fn into_buffer(self) -> Buf {
        self.0.buffer
    }
}

/// The driver's service policy at work.
enum Policy {
    InterruptLoop(InterruptLoop),
    Napi(Napi),
    Polling(Polling),
    SelfPacing(SelfPacing),
}

/// What a driver has to say besides frames, as of the end of its last turn.
#[derive(Default)]
pub struct Signs {
    /// Frames that it has dropped.
    pub dropped: Cell<u64>,
    /// Why it cannot go on.
    pub error: Cell<Option<Error>>,
}

/// Driver and card.
pub struct Bound {
    control: Control<Card>,
    rx: RxQueue<Card, Allocator>,
    tx: TxQueue<Card, Allocator>,
    policy: Policy,
    source: Allocator,
    /// The stack's way of sending tells the card about each frame, as Linux's does.
    doorbell_each_frame: bool,
    signs: Rc<Signs>,
}

impl Bound {
    /// Probes the card, and waits for its link. Interrupts are enabled unless the policy has none.
    pub fn probe(card: Card, chip: Chip, config: &Config, allocator: Allocator) -> Result<Self, Error> {
        let source = match config.buffers {
            Buffers::Fresh => allocator,
            Buffers::Recycled => allocator.recycling(),
        };
        let Device { mut control, rx, tx } = probe(card.clone(), chip, config.clone(), source.clone())?;
        let give_up_ns = card.now_ns() + LINK_PATIENCE_NS;
        while !control.update_link()?.up {
            if card.now_ns() > give_up_ns {
                return Err(Error::Timeout("the link"));
            }
            card.wait_ns(1_000_000);
        }
        let policy = match config.service {
            config::Service::InterruptLoop { max_loops, mask, again } => {
                Policy::InterruptLoop(InterruptLoop::new(max_loops, mask, again))
            }
            config::Service::Napi { weight, exit, mask } => Policy::Napi(Napi::new(weight, exit, mask)),
            config::Service::Polling { burst } => Policy::Polling(Polling::new(burst)),
            config::Service::SelfPacing { burst } => Policy::SelfPacing(SelfPacing::new(burst)),
        };
        if !matches!(policy, Policy::Polling(_)) {
            control.unmask();
        }
        // A polling driver is called by Click, which ends a burst explicitly; others by the kernel, frame by frame.
        let doorbell_each_frame = matches!(policy, Policy::InterruptLoop(_) | Policy::Napi(_));
        Ok(Self { control, rx, tx, policy, source, doorbell_each_frame, signs: Rc::default() })
    }

    /// Who is to serve it.
    pub fn service(&self) -> stack::Service {
        match self.control.config().service {
            config::Service::InterruptLoop { .. } => stack::Service::Interrupt,
            config::Service::Napi { weight, .. } => stack::Service::Softirq { weight: weight.into() },
            config::Service::Polling { burst } => stack::Service::Polling { burst: burst.into() },
            config::Service::SelfPacing { burst } => stack::Service::Paced { burst: burst.into() },
        }
    }

    /// Where it shows its signs.
    pub fn signs(&self) -> Rc<Signs> {
        Rc::clone(&self.signs)
    }

    /// Notes at the end of a turn what went wrong in it.
    fn note(&self, error: Option<Error>) {
        let counters = self.rx.counters();
        self.signs.dropped.set(counters.frame_errors + counters.nonsense);
        if error.is_some() {
            self.signs.error.set(error);
        }
    }
}

impl Netdev for Bound {
    type Frame = Frame;
    type Buffer = Buf;

    fn interrupt(&mut self, up: &mut impl FnMut(Frame) -> Option<Buf>) -> Raised {
        let Self { control, rx, tx, policy, .. } = self;
        let result = match policy {
            Policy::InterruptLoop(service) => {
                service.interrupt(control, rx, tx, |received| up(Frame(received))).map(|_| false)
            }
            Policy::Napi(service) => service.interrupt(control),
            Policy::SelfPacing(service) => service.interrupt(control),
            Policy::Polling(_) => Ok(false),
        };
        self.note(result.err());
        let poll = result.unwrap_or(false);
        if poll { Raised::Poll } else { Raised::Nothing }
    }

    fn poll(&mut self, budget: usize, up: &mut impl FnMut(Frame) -> Option<Buf>) -> Polled {
        let Self { control, rx, tx, policy, .. } = self;
        let sink = |received| up(Frame(received));
        let (polled, next) = match policy {
            Policy::InterruptLoop(_) => (service::Polled::default(), Next::Interrupt),
            Policy::Napi(service) => {
                let polled = service.poll(control, rx, tx, budget, sink);
                (polled, if polled.done { Next::Interrupt } else { Next::Now })
            }
            Policy::Polling(service) => (service.poll(rx, tx, sink), Next::Now),
            Policy::SelfPacing(service) => match service.poll(control, rx, tx, budget, sink) {
                Ok((polled, service::Next::Now)) => (polled, Next::Now),
                Ok((polled, service::Next::At(ns))) => (polled, Next::At(ns * NS)),
                Ok((polled, service::Next::Asleep)) => (polled, Next::Interrupt),
                Err(error) => {
                    self.note(Some(error));
                    return Polled { frames: 0, completed: 0, next: Next::Interrupt };
                }
            },
        };
        self.note(None);
        Polled { frames: polled.received, completed: polled.reclaimed, next }
    }

    fn has_room(&self) -> bool {
        self.tx.free() > 0
    }

    fn send(&mut self, fill: &mut impl FnMut(&mut [u8]) -> usize) -> bool {
        let Some(mut buffer) = self.source.take() else { return false };
        let bytes = fill(buffer.bytes_mut());
        match self.tx.send(buffer, bytes as u16) {
            Ok(()) => {
                if self.doorbell_each_frame {
                    self.tx.flush();
                }
                true
            }
            Err(refused) => {
                self.source.give(refused.frame.buffer);
                false
            }
        }
    }

    fn flush(&mut self) {
        self.tx.flush();
    }

    fn free(&mut self, buffer: Buf) {
        self.source.give(buffer);
    }
}
