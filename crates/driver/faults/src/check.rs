//! The invariants, which must hold whatever happens.

use kpps_driver::Refusal;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

/// Something that must not happen did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A frame arrived that was not sent.
    NotSent,
    /// A frame came twice.
    Twice,
    /// A frame came with other contents than were sent.
    Changed,
    /// A buffer was given out while it was in use, or came back twice.
    BufferTwice,
    /// Buffers were lost, or came from nowhere.
    Buffers {
        /// Outside of the pool.
        outside: usize,
        /// In the rings of the driver, and with the applications.
        known: usize,
    },
    /// The rings do not have the buffers that the driver says they have: slots of receive rings without a
    /// buffer of their own, or more buffers to send than descriptors.
    Owners {
        /// Buffers in receive rings.
        receiving: usize,
        /// Slots with a buffer.
        filled: usize,
        /// Buffers in transmit rings.
        sending: usize,
        /// Descriptors in use.
        pending: usize,
    },
    /// The card wrote to memory that the driver had not given to it.
    WroteElsewhere(u64),
    /// The card read memory that the driver had not given to it.
    ReadElsewhere(u64),
    /// The card's account of its frames does not close.
    CardLedger,
    /// The driver's account does not agree with the card's.
    DriverLedger {
        /// Frames that the card says it handed over.
        card: u64,
        /// Frames that the driver counts as received, and frames that a reset dropped.
        driver: u64,
    },
    /// A counter of the driver contradicts what its user has seen.
    DriverCounters(&'static str),
    /// The driver's answer to a question about a quiet device is wrong.
    Exam(&'static str),
    /// The application's account does not close.
    AppLedger,
    /// The driver refused a frame that it can send.
    Refused(Refusal),
    /// The parts of a long frame do not fit together.
    Parts,
    /// A frame was delivered before its bytes were made visible to the CPU.
    NotVisible,
    /// The driver's verdict on a frame's checksum, tag or hash is wrong.
    Verdict,
    /// The driver keeps more descriptors from the card than it says.
    HeldBack {
        /// The descriptors that it keeps.
        held: usize,
        /// The most that it promises to keep.
        most: usize,
    },
    /// The driver handed over a descriptor that the chip cannot take, or that does not match the request.
    Descriptor(&'static str),
    /// A device was reset though nothing was wrong with it.
    Reset,
    /// Memory was not free again after everything was dropped.
    MemoryLost,
    /// Traffic did not resume after the last fault.
    NotResumed {
        /// The port.
        port: usize,
        /// Frames that were sent.
        sent: u64,
        /// Frames that arrived.
        arrived: u64,
    },
    /// After the last fault fewer frames/s get through than after a fresh start.
    Slower {
        /// Frames/s that arrived under full load.
        recovered_pps: u64,
        /// Frames/s of the same load that arrived after a fresh start.
        fresh_pps: u64,
    },
    /// After the last fault a new connection of a station did not carry its bytes there and back.
    NotEchoed,
    /// One call of the driver took longer than any wait may.
    Endless {
        /// How long, in virtual ps.
        took_ps: u64,
    },
    /// A panic, with its message.
    Panic(String),
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent => f.write_str("a frame was delivered that was not sent"),
            Self::Twice => f.write_str("a frame was delivered twice"),
            Self::Changed => f.write_str("a frame was delivered with other contents than were sent"),
            Self::BufferTwice => f.write_str("a buffer was given out twice or came back twice"),
            Self::Buffers { outside, known } => {
                write!(f, "{outside} buffers are outside of the pool, but {known} are known to be in use")
            }
            Self::Owners { receiving, filled, sending, pending } => write!(
                f,
                "{filled} slots of receive rings have {receiving} buffers, and {pending} transmit descriptors {sending}"
            ),
            Self::WroteElsewhere(address) => {
                write!(f, "the card wrote to {address:#x}, which it did not own")
            }
            Self::ReadElsewhere(address) => write!(f, "the card read {address:#x}, which it did not own"),
            Self::CardLedger => f.write_str("the card's ledger does not close"),
            Self::DriverLedger { card, driver } => {
                write!(f, "the card handed over {card} frames, and the driver accounts for {driver}")
            }
            Self::DriverCounters(which) => write!(f, "the driver has miscounted: {which}"),
            Self::Exam(what) => write!(f, "asked {what}, the driver gave a wrong answer"),
            Self::AppLedger => f.write_str("the application's ledger does not close"),
            Self::Refused(reason) => write!(f, "the driver refused to send a frame: {reason:?}"),
            Self::Parts => f.write_str("the parts of a long frame do not fit together"),
            Self::NotVisible => f.write_str("a frame was delivered that the CPU might not see yet"),
            Self::Verdict => f.write_str("a frame was delivered with a wrong verdict on it"),
            Self::HeldBack { held, most } => {
                write!(f, "the driver keeps {held} descriptors from the card, and says at most {most}")
            }
            Self::Descriptor(what) => write!(f, "the driver handed over {what}"),
            Self::Reset => f.write_str("a device was reset though nothing was wrong with it"),
            Self::MemoryLost => f.write_str("memory was not free again when all of it was dropped"),
            Self::NotResumed { port, sent, arrived } => write!(
                f,
                "traffic did not resume after the last fault: of {sent} frames to port {port}, {arrived} arrived"
            ),
            Self::Slower { recovered_pps, fresh_pps } => write!(
                f,
                "under full load {recovered_pps} frames/s arrived after the last fault, and {fresh_pps} after a fresh start"
            ),
            Self::NotEchoed => {
                f.write_str("a TCP connection did not get its bytes back after the last fault")
            }
            Self::Endless { took_ps } => {
                write!(f, "a call of the driver took {} ms", took_ps / 1_000_000_000)
            }
            Self::Panic(message) => write!(f, "panic: {message}"),
        }
    }
}

/// How many frames may be under way at once. Older ones count as lost. Of two ports under full load one may
/// wait for 50 ms while the other is served, and so do its frames.
const WINDOW: usize = 1 << 18;

/// A frame that was sent.
#[derive(Clone, Copy, Default)]
struct Sent {
    number: u64,
    /// How often it may still arrive.
    left: u8,
}

/// The frames of one direction.
struct Stream {
    sent: Box<[Sent]>,
    next: u64,
    arrived: u64,
    /// The first frame of a proof, and how many from there on arrived.
    proof: (u64, u64),
}

/// Collects events, and the first breach.
pub(crate) struct Check {
    streams: RefCell<Vec<Stream>>,
    /// Lies may harm frames: set by a lie, cleared before a proof.
    lied: Cell<bool>,
    breach: RefCell<Option<(u64, Breach)>>,
    now_ps: Rc<Cell<u64>>,
    /// The last events, if they are wanted.
    trace: Option<RefCell<VecDeque<String>>>,
    harmed: Cell<u64>,
}

/// How many events a trace keeps.
const EVENTS: usize = 1000;

impl Check {
    pub(crate) fn new(streams: usize, trace: bool, now_ps: Rc<Cell<u64>>) -> Self {
        let stream =
            || Stream { sent: vec![Sent::default(); WINDOW].into(), next: 1, arrived: 0, proof: (1, 0) };
        Self {
            streams: RefCell::new((0..streams).map(|_| stream()).collect()),
            lied: Cell::new(false),
            breach: RefCell::new(None),
            now_ps,
            trace: trace.then(|| RefCell::new(VecDeque::with_capacity(EVENTS))),
            harmed: Cell::new(0),
        }
    }

    /// Notes an event for the trace.
    pub(crate) fn note(&self, event: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            let mut trace = trace.borrow_mut();
            if trace.len() == EVENTS {
                trace.pop_front();
            }
            let us = self.now_ps.get() as f64 / 1e6;
            trace.push_back(format!("{us:>14.3} us  {}", event()));
        }
    }

    /// The events noted.
    pub(crate) fn events(&self) -> Vec<String> {
        self.trace.as_ref().map(|trace| trace.borrow().iter().cloned().collect()).unwrap_or_default()
    }

    /// Something that began then must not have taken longer than this.
    pub(crate) fn bounded(&self, begun_ps: u64, most_ps: u64) {
        let took_ps = self.now_ps.get() - begun_ps;
        if took_ps > most_ps {
            self.breach(Breach::Endless { took_ps });
        }
    }

    /// Something that must not happen did. The first one counts.
    pub(crate) fn breach(&self, breach: Breach) {
        let mut first = self.breach.borrow_mut();
        if first.is_none() {
            self.note(|| format!("BREACH: {breach}"));
            *first = Some((self.now_ps.get(), breach));
        }
    }

    /// Something that must not happen, unless the card lied.
    pub(crate) fn harm(&self, breach: Breach) {
        if self.lied.get() {
            self.harmed.set(self.harmed.get() + 1);
        } else {
            self.breach(breach);
        }
    }

    /// The first breach, and its time in ps.
    pub(crate) fn first_breach(&self) -> Option<(u64, Breach)> {
        self.breach.borrow().clone()
    }

    /// Whether there is a breach.
    pub(crate) fn is_broken(&self) -> bool {
        self.breach.borrow().is_some()
    }

    /// A card has lied; or, before a proof, no lie is an excuse any longer.
    pub(crate) fn set_lied(&self, lied: bool) {
        self.lied.set(lied);
    }

    /// Frames that lies harmed.
    pub(crate) fn harmed(&self) -> u64 {
        self.harmed.get()
    }

    /// The number of the next frame of a direction, which may arrive `copies` times.
    pub(crate) fn send(&self, stream: usize, copies: u8) -> u64 {
        let stream = &mut self.streams.borrow_mut()[stream];
        let number = stream.next;
        stream.next += 1;
        stream.sent[number as usize % WINDOW] = Sent { number, left: copies };
        number
    }

    /// The number that the next frame of a direction will have.
    pub(crate) fn next(&self, stream: usize) -> u64 {
        self.streams.borrow()[stream].next
    }

    /// A frame has arrived.
    pub(crate) fn arrive(&self, stream: usize, number: u64) {
        let breach = {
            let mut streams = self.streams.borrow_mut();
            match streams.get_mut(stream) {
                Some(stream) if number < stream.next && number > 0 => {
                    stream.arrived += 1;
                    stream.proof.1 += u64::from(number >= stream.proof.0);
                    let sent = &mut stream.sent[number as usize % WINDOW];
                    if sent.number != number || sent.left == 0 {
                        Some(Breach::Twice)
                    } else {
                        sent.left -= 1;
                        None
                    }
                }
                _ => Some(Breach::NotSent),
            }
        };
        if let Some(breach) = breach {
            self.harm(breach);
        }
    }

    /// The proof begins with the next frame of each direction.
    pub(crate) fn begin_proof(&self) {
        for stream in &mut *self.streams.borrow_mut() {
            stream.proof = (stream.next, 0);
        }
    }

    /// Frames of a direction that were sent since the proof began, and that arrived.
    pub(crate) fn proof(&self, stream: usize) -> (u64, u64) {
        let stream = &self.streams.borrow()[stream];
        (stream.next - stream.proof.0, stream.proof.1)
    }

    /// Frames of a direction that were sent, and that arrived.
    pub(crate) fn counts(&self, stream: usize) -> (u64, u64) {
        let stream = &self.streams.borrow()[stream];
        (stream.next - 1, stream.arrived)
    }
}
