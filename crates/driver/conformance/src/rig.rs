//! The rig: the driver running on a fixture. Most cases start from it.

use crate::oracle::{PEER, plain};
use crate::{Failure, Fixture};
use kpps_datasheet::{Chip, stat};
use kpps_driver::config::{Buffers, Completion, Delay, Itr, Moderation, Service};
use kpps_driver::{
    Checksum, Config, Control, Device, Fragment, Loopback, Refusal, RxQueue, TxMeta, TxQueue, probe,
};
use kpps_platform::{Buffer, BufferSource, Platform, Registers};
use std::collections::VecDeque;

/// The longest wait for anything, in ns of the fixture's time.
const PATIENCE_NS: u64 = 5_000_000_000;
/// The first steps of waiting, in ns.
const STEP_NS: u64 = 100_000;
/// The longest step of waiting, in ns.
const LONGEST_STEP_NS: u64 = 10_000_000;
/// The time within which every fixture delivers frames and interrupts, in ns. A frame or an interrupt that
/// has not come by then does not come.
pub const QUIET_NS: u64 = 5_000_000;
/// Buffers of a fixture: enough for two full rings, and those held by a case and by the handles of the pool.
const BUFFERS: usize = 1024;
/// Bytes of a buffer.
pub const BUFFER_BYTES: usize = 16384;

/// Registers by canonical offset.
pub struct Regs<P: Platform> {
    raw: P::Regs,
    chip: Chip,
}

impl<P: Platform> Regs<P> {
    /// The registers of the fixture's card.
    pub fn of<B: Fixture<Platform = P>>(fixture: &B) -> Self {
        Self { raw: fixture.platform().registers(), chip: fixture.chip() }
    }
    /// Reads.
    pub fn read(&self, register: u32) -> u32 {
        self.raw.read(self.chip.offset(register))
    }
    /// Writes.
    pub fn write(&self, register: u32, value: u32) {
        self.raw.write(self.chip.offset(register), value);
    }
}

/// A wait on a fixture, in steps that get longer as it lasts: a link takes half a second to come up, and in a
/// guest each step costs the host's CPU half a millisecond.
#[derive(Debug)]
pub struct Wait {
    since_ns: u64,
}

impl Wait {
    /// Begins now.
    pub fn on<B: Fixture>(fixture: &B) -> Self {
        Self { since_ns: fixture.platform().now_ns() }
    }

    /// Advances the fixture by an eighth of the time waited so far.
    ///
    /// # Errors
    /// If `what` has been waited for longer than anything takes.
    pub fn step<B: Fixture>(&self, fixture: &mut B, what: &str) -> Result<(), Failure> {
        let waited_ns = fixture.platform().now_ns() - self.since_ns;
        if waited_ns > PATIENCE_NS {
            return Err(format!("{what}: not within {} s", PATIENCE_NS / 1_000_000_000).into());
        }
        fixture.advance((waited_ns / 8).clamp(STEP_NS, LONGEST_STEP_NS))
    }
}

/// A frame that the driver received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Without FCS.
    pub bytes: Vec<u8>,
    /// The number of its buffers.
    pub pieces: usize,
    /// The tag that was stripped.
    pub vlan: Option<u16>,
    /// The verdict on the IP checksum.
    pub ip: Checksum,
    /// The verdict on the TCP or UDP checksum.
    pub transport: Checksum,
    /// Passed only the multicast hash.
    pub inexact: bool,
}

/// The running driver. Its parts drop in the right order: control first.
pub struct Rig<'b, B: Fixture> {
    /// The driver's control half.
    pub control: Control<B::Platform>,
    /// The receive queue.
    pub rx: RxQueue<B::Platform, B::Source>,
    /// The transmit queue.
    pub tx: TxQueue<B::Platform, B::Source>,
    /// Direct access to the registers.
    pub regs: Regs<B::Platform>,
    /// The fixture.
    pub fixture: &'b mut B,
    arrived: VecDeque<Arrived>,
    bytes: Vec<u8>,
    pieces: usize,
}

/// A part of a frame in a fixture's buffer.
type Piece<B> = Fragment<<<B as Fixture>::Source as BufferSource>::Buf>;

/// A plain configuration: polls, reports every frame, delays nothing, accepts frames of any length.
pub fn plain_config(address: [u8; 6]) -> Config {
    Config {
        max_frame_bytes: 9018,
        service: Service::Polling { burst: 64 },
        buffers: Buffers::Recycled,
        completion: Completion { report_every: 1, delay: Delay::Never },
        moderation: Moderation { rdtr: 0, radv: 0, tidv: 1, tadv: 0, itr: Itr::Off },
        promiscuous: true,
        rescue: false,
        address: Some(address),
        ..Config::kpps()
    }
}

impl<'b, B: Fixture> Rig<'b, B> {
    /// Probes the card with the [`plain_config`] as changed by `change`, and waits for the link.
    pub fn open(fixture: &'b mut B, change: impl FnOnce(&mut Config)) -> Result<Self, Failure> {
        let mut rig = Self::open_without_link(fixture, change)?;
        rig.wait_for_link(true)?;
        Ok(rig)
    }

    /// Probes the card and returns at once.
    pub fn open_without_link(fixture: &'b mut B, change: impl FnOnce(&mut Config)) -> Result<Self, Failure> {
        let mut config = plain_config(fixture.address());
        change(&mut config);
        let buffers = fixture.buffers(BUFFERS, BUFFER_BYTES)?;
        let Device { control, rx, tx } = probe(fixture.platform(), fixture.chip(), config, buffers)?;
        let regs = Regs::of(fixture);
        // Drops frames that an earlier case left on the wire.
        while fixture.collect()?.is_some() {}
        Ok(Self { control, rx, tx, regs, fixture, arrived: VecDeque::new(), bytes: Vec::new(), pieces: 0 })
    }

    /// Waits until the driver sees the link in this state.
    pub fn wait_for_link(&mut self, up: bool) -> Result<(), Failure> {
        let what = if up { "link up" } else { "link down" };
        self.wait(what, |rig| Ok((rig.control.update_link()?.up == up).then_some(())))
    }

    /// Calls `look` until it returns a value, advancing time in between.
    pub fn wait<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let wait = Wait::on(self.fixture);
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            wait.step(self.fixture, what)?;
        }
    }

    /// Waits until a frame from the wire arrives. A device may receive nothing for a while after a write of
    /// RCTL, and frames sent to it meanwhile are not counted normally.
    pub fn await_reception(&mut self) -> Result<(), Failure> {
        self.fixture.inject(&plain([0xff; 6], PEER, 60, 0))?;
        self.received().map(drop)
    }

    /// Queues `frame` in about `pieces` buffers; `tx.flush()` hands it to the device. Waits for room in the
    /// ring.
    pub fn send(&mut self, frame: &[u8], pieces: usize, meta: &TxMeta) -> Result<(), Failure> {
        let piece = frame.len().div_ceil(pieces.max(1)).clamp(1, BUFFER_BYTES);
        let mut fragments = Vec::new();
        for part in frame.chunks(piece) {
            let mut buffer = self.tx.source_mut().take().ok_or("out of buffers")?;
            buffer.bytes_mut()[..part.len()].copy_from_slice(part);
            fragments.push(Fragment { buffer, bytes: part.len() as u16 });
        }
        let mut fragments = Some(fragments);
        self.wait("room in the transmit ring", |rig| {
            let Some(now) = fragments.take() else { return Ok(Some(())) };
            match rig.offer(now, meta) {
                Ok(()) => Ok(Some(())),
                Err((Refusal::Full, back)) => {
                    fragments = Some(back);
                    rig.tx.flush();
                    rig.tx.reclaim(usize::MAX);
                    Ok(None)
                }
                Err((reason, _)) => {
                    let bytes = frame.len();
                    Err(format!("the driver refused a frame of {bytes} B: {reason:?}").into())
                }
            }
        })
    }

    /// Queues a frame with `send` if it has one buffer and no offload, otherwise with `enqueue`.
    fn offer(&mut self, mut fragments: Vec<Piece<B>>, meta: &TxMeta) -> Result<(), (Refusal, Vec<Piece<B>>)> {
        if *meta == TxMeta::default()
            && fragments.len() == 1
            && let Some(Fragment { buffer, bytes }) = fragments.pop()
        {
            return self.tx.send(buffer, bytes).map_err(|refused| (refused.reason, vec![refused.frame]));
        }
        self.tx
            .enqueue(fragments.into_iter(), meta)
            .map_err(|refused| (refused.reason, refused.frame.collect()))
    }

    /// The next frame that left the card, without FCS.
    pub fn sent(&mut self) -> Result<Vec<u8>, Failure> {
        self.wait("a frame on the wire", |rig| {
            rig.tx.reclaim(usize::MAX);
            rig.fixture.collect()
        })
    }

    /// Polls the receive queue once; the next frame, if there is one.
    pub fn poll(&mut self) -> Result<Option<Arrived>, Failure> {
        if self.arrived.is_empty() {
            let Self { rx, arrived, bytes, pieces, fixture, .. } = self;
            let mut bad = false;
            rx.receive(64, |part| {
                if part.first {
                    bytes.clear();
                    *pieces = 0;
                }
                bytes.extend_from_slice(&part.buffer.bytes()[..usize::from(part.bytes)]);
                // The FCS may begin in the part before the last.
                bytes.truncate(bytes.len().saturating_sub(part.excess.into()));
                *pieces += 1;
                bad |= part.error;
                if part.last && !fixture.is_noise(bytes) {
                    arrived.push_back(Arrived {
                        bytes: std::mem::take(bytes),
                        pieces: *pieces,
                        vlan: part.vlan(),
                        ip: part.ip_checksum(),
                        transport: part.transport_checksum(),
                        inexact: part.is_inexact(),
                    });
                }
                Some(part.buffer)
            });
            if bad {
                return Err("the driver received a frame marked bad".into());
            }
        }
        Ok(self.arrived.pop_front())
    }

    /// The next frame received.
    pub fn received(&mut self) -> Result<Arrived, Failure> {
        self.wait("a frame to receive", Self::poll)
    }

    /// All frames received of those injected so far. A final frame to the station, which passes all filters,
    /// marks the end.
    pub fn received_all(&mut self) -> Result<Vec<Arrived>, Failure> {
        let mut last = plain(self.control.address(), PEER, 60, 0);
        // IEEE 802: local experimental EtherType 2, which no other frame has.
        last[12..14].copy_from_slice(&[0x88, 0xb6]);
        self.fixture.inject(&last)?;
        let mut all = Vec::new();
        loop {
            let frame = self.received()?;
            if frame.bytes == last {
                return Ok(all);
            }
            all.push(frame);
        }
    }

    /// Waits until the device has received `count` good frames since the statistics were last
    /// cleared, without taking them out of the ring.
    pub fn wait_received(&mut self, count: u32) -> Result<(), Failure> {
        let mut good = 0;
        self.wait("good frames to be counted", |rig| {
            good += rig.regs.read(stat::GPRC);
            Ok((good >= count).then_some(()))
        })
    }

    /// Turns loopback on and waits until frames come back. A device may receive nothing at first, and loses
    /// looped frames then.
    pub fn loop_back(&mut self, mode: Loopback) -> Result<(), Failure> {
        self.control.set_loopback(mode)?;
        let frame = plain([0xff; 6], PEER, 60, 0);
        self.wait("a frame looped back", |rig| {
            rig.send(&frame, 1, &TxMeta::default())?;
            rig.tx.flush();
            rig.fixture.advance(STEP_NS)?;
            rig.poll()
        })?;
        // Drops frames that are still in the loop.
        self.fixture.advance(QUIET_NS)?;
        while self.poll()?.is_some() {}
        Ok(())
    }
}

/// Fails unless both frames are the same; the message says where they begin to differ.
pub fn same(what: &str, found: &[u8], expected: &[u8]) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).position(|(a, b)| a != b);
    let lengths = format!("{} B, expected {} B", found.len(), expected.len());
    Err(match at {
        None => format!("{what}: {lengths}, the same as far as both go"),
        Some(at) => format!("{what}: {lengths}; byte {at} is {:#04x}, not {:#04x}", found[at], expected[at]),
    }
    .into())
}
