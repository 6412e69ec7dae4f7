//! Our driver on a card as a port.
//!
//! The service schedules polls. It is asked at every [`Port::receive`], once a burst. While it sleeps, a
//! program that runs anyway (because another port is busy) polls the rings nevertheless, which costs a load
//! from memory; only [`wait`](super::wait()) waits for the interrupt. An interrupt is handled in this order:
//! read ICR and mask (the driver), so that the card deasserts its line; unmask the line, which the kernel had
//! masked; poll.

use super::counted::Counted;
use super::missed::Tally;
use super::{Counters, Frame, Link, NextPoll, Port, Trouble, Wake};
use kpps_datasheet::stat;
use kpps_driver::config::{Config, Service};
use kpps_driver::service::{Napi, Polling, SelfPacing};
use kpps_driver::{Chip, Device, Fragment, Health, Received, probe, service};
use kpps_platform::Buffer;
use kpps_platform::memory::{BufferPool, PoolBuffer};
use kpps_platform::{Platform, Registers};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How often the device is maintained, in ns.
const CHECK_NS: u64 = 2_000_000_000;

/// A card's interrupt line.
pub trait Line {
    /// Takes an interrupt, if one comes within this time. The line is masked from then on.
    ///
    /// # Errors
    /// Errors of the system.
    fn wait(&mut self, at_most: Duration) -> io::Result<bool>;
    /// Unmasks the line.
    ///
    /// # Errors
    /// Errors of the system.
    fn enable(&self) -> io::Result<()>;
    /// The descriptor that becomes readable with an interrupt.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// The service and its state.
enum Server {
    Polling(Polling),
    Napi(Napi),
    SelfPacing(SelfPacing),
}

impl Server {
    fn new(service: Service) -> Option<Self> {
        match service {
            Service::Polling { burst } => Some(Self::Polling(Polling::new(burst))),
            Service::Napi { weight, exit, mask: true } => Some(Self::Napi(Napi::new(weight, exit, true))),
            Service::SelfPacing { burst, reserve, polling_rdtr } => {
                Some(Self::SelfPacing(SelfPacing::new(burst, reserve).with_polling_rdtr(polling_rdtr)))
            }
            Service::Napi { mask: false, .. } | Service::InterruptLoop { .. } => None,
        }
    }

    #[inline]
    fn is_asleep(&self) -> bool {
        match self {
            Self::Polling(_) => false,
            Self::Napi(napi) => !napi.is_scheduled(),
            Self::SelfPacing(pacing) => pacing.is_asleep(),
        }
    }
}

/// Our driver on a card.
pub struct CardPort<P: Platform, L> {
    device: Device<Counted<P>, BufferPool>,
    platform: Counted<P>,
    line: L,
    server: Server,
    next_poll: NextPoll,
    /// An interrupt may have been signalled that was not handled.
    interrupt_pending: bool,
    interrupts: u64,
    resets: u64,
    errors: u64,
    missed: Tally,
    no_buffer: Tally,
    checked_ns: u64,
}

impl<P: Platform + Clone, L: Line> CardPort<P, L> {
    /// Probes the chip and starts it. `pool` must have buffers for two full rings and for the frames that the
    /// program holds.
    ///
    /// # Errors
    /// [`Trouble`]: the driver's, or a service that needs code in an interrupt handler.
    pub fn open(platform: P, line: L, chip: Chip, config: Config, pool: BufferPool) -> Result<Self, Trouble> {
        let server = Server::new(config.service).ok_or(kpps_driver::Error::Config(
            kpps_driver::Invalid::Rule("service: a port has polling, napi (masked) or self-pacing"),
        ))?;
        let platform = Counted::new(platform);
        let device = probe(platform.clone(), chip, config, pool)?;
        let mut port = Self {
            checked_ns: platform.now_ns(),
            device,
            platform,
            line,
            server,
            next_poll: NextPoll::Now,
            interrupt_pending: false,
            interrupts: 0,
            resets: 0,
            errors: 0,
            missed: Tally::default(),
            no_buffer: Tally::default(),
        };
        let (registers, chip) = (port.platform.registers(), chip);
        port.missed.start(|| registers.read(chip.offset(stat::MPC)));
        port.no_buffer.start(|| registers.read(chip.offset(stat::RNBC)));
        port.start()?;
        // Register accesses of the start are not the traffic's.
        port.platform.accesses.reads.store(0, Relaxed);
        port.platform.accesses.writes.store(0, Relaxed);
        Ok(port)
    }

    /// The chip.
    pub fn chip(&self) -> Chip {
        self.device.control.chip()
    }

    /// The station address.
    pub fn address(&self) -> [u8; 6] {
        self.device.control.address()
    }

    /// The configuration in use.
    pub fn config(&self) -> &Config {
        self.device.control.config()
    }

    /// Enables interrupts, if the service wants any.
    fn start(&mut self) -> Result<(), Trouble> {
        if let Some(server) = Server::new(self.device.control.config().service) {
            self.server = server;
        }
        self.next_poll = NextPoll::Now;
        if self.server.is_asleep() {
            self.line.enable().map_err(Trouble::system("cannot enable the card's interrupt"))?;
            self.interrupt_pending = true;
            self.device.control.unmask();
        }
        Ok(())
    }

    /// Handles an interrupt, if there was one.
    fn take_interrupt(&mut self) -> Result<bool, Trouble> {
        self.interrupt_pending = false;
        if !self.line.wait(Duration::ZERO).map_err(Trouble::system("cannot wait for an interrupt"))? {
            return Ok(false);
        }
        self.interrupts += 1;
        self.wake()?;
        self.line.enable().map_err(Trouble::system("cannot enable the card's interrupt"))?;
        Ok(true)
    }

    /// Notifies the service that there may be work.
    fn wake(&mut self) -> Result<(), Trouble> {
        let control = &mut self.device.control;
        let ours = match &mut self.server {
            Server::Polling(_) => false,
            Server::Napi(napi) => napi.interrupt(control)?,
            Server::SelfPacing(pacing) => pacing.interrupt(control)?,
        };
        if ours {
            self.next_poll = NextPoll::Now;
        }
        Ok(())
    }

    /// Polls the rings of a sleeping card.
    #[cold]
    fn poll_asleep(
        &mut self,
        budget: usize,
        sink: impl FnMut(Received<PoolBuffer>) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        let reclaimed = self.device.tx.reclaim(usize::MAX);
        let received = self.device.rx.receive(budget, sink);
        self.next_poll = NextPoll::Asleep;
        if received + reclaimed > 0 {
            // The interrupt for these frames is on its way, or was signalled and not handled.
            self.interrupt_pending = true;
            self.wake()?;
            if received > 0 {
                // There may be more than the budget.
                self.next_poll = NextPoll::Now;
            }
        } else if self.interrupt_pending {
            self.take_interrupt()?;
        }
        Ok(received)
    }

    fn update_missed(&mut self) {
        let (registers, chip) = (self.platform.registers(), self.device.control.chip());
        self.missed.update(|| registers.read(chip.offset(stat::MPC)));
        self.no_buffer.update(|| registers.read(chip.offset(stat::RNBC)));
    }
}

impl<P: Platform, L: Line> Wake for CardPort<P, L> {
    #[inline]
    fn next_poll(&self) -> NextPoll {
        self.next_poll
    }
    fn now_ns(&self) -> u64 {
        self.platform.now_ns()
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.fd()
    }
}

impl<P: Platform + Clone, L: Line> Port for CardPort<P, L> {
    #[inline]
    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        let before = self.device.rx.counters().frames;
        let (mut broken, mut in_parts) = (0, 0);
        let pass = |received: Received<PoolBuffer>| {
            // A frame that is longer than a buffer comes in parts; it is not accepted.
            if !(received.first && received.last) || received.error {
                broken += u64::from(received.last);
                in_parts += u64::from(received.last && !received.error);
                return Some(received.buffer);
            }
            sink(Frame { buffer: received.buffer, bytes: received.bytes })
        };
        if self.server.is_asleep() {
            self.poll_asleep(budget, pass)?;
        } else {
            let Device { control, rx, tx } = &mut self.device;
            self.next_poll = match &mut self.server {
                Server::Polling(polling) => {
                    polling.poll(rx, tx, budget, pass);
                    NextPoll::Now
                }
                Server::Napi(napi) => match napi.poll(control, rx, tx, budget, pass).done {
                    true => NextPoll::Asleep,
                    false => NextPoll::Now,
                },
                Server::SelfPacing(pacing) => match pacing.poll(control, rx, tx, budget, pass)?.1 {
                    service::NextPoll::Now => NextPoll::Now,
                    // The time that is reserved for other work is the scheduler's to give.
                    service::NextPoll::At(ns) | service::NextPoll::Yield(ns) => NextPoll::At(ns),
                    service::NextPoll::Asleep => NextPoll::Asleep,
                },
            };
            if self.next_poll == NextPoll::Asleep && self.interrupt_pending {
                self.take_interrupt()?;
            }
        }
        self.errors += broken;
        // The driver's count has frames in parts in it, which were refused here.
        Ok((self.device.rx.counters().frames - before - in_parts) as usize)
    }

    #[inline]
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        self.device.tx.send(frame.buffer, frame.bytes).map_err(|refused| {
            let Fragment { buffer, bytes } = refused.frame;
            Frame { buffer, bytes }
        })
    }

    #[inline]
    fn send_burst(&mut self, frames: &mut impl Iterator<Item = Frame>) -> usize {
        let tx = &mut self.device.tx;
        let before = tx.counters().frames;
        let mut fragments = frames.map(|Frame { buffer, bytes }| Fragment { buffer, bytes });
        while let Err(refused) = tx.send_burst(&mut fragments) {
            // No port can send such a frame; its buffer returns to the pool.
            drop(refused.frame);
        }
        (tx.counters().frames - before) as usize
    }

    #[inline]
    fn send_again(&mut self, most: usize, mut write: impl FnMut(&mut [u8]) -> u16) -> usize {
        self.device.tx.send_again(most, |buffer: &mut PoolBuffer| write(buffer.bytes_mut()))
    }

    fn sends_fillers(&self) -> bool {
        true
    }

    fn send_filler(&mut self, bytes: u16) -> bool {
        self.device.tx.send_filler(bytes).is_ok()
    }

    #[inline]
    fn flush(&mut self) -> Result<(), Trouble> {
        self.device.tx.flush();
        Ok(())
    }

    #[inline]
    fn tx_space(&mut self) -> usize {
        let tx = &mut self.device.tx;
        // With half a ring of frames in flight, taking buffers back less often costs nothing.
        if tx.free() <= tx.pending() {
            tx.reclaim(usize::MAX);
        }
        tx.free()
    }

    fn in_flight(&mut self) -> usize {
        self.device.tx.request_report();
        self.device.tx.reclaim(usize::MAX);
        self.device.tx.pending()
    }

    fn woken(&mut self) -> Result<(), Trouble> {
        if self.server.is_asleep() {
            self.take_interrupt()?;
        }
        Ok(())
    }

    fn maintain(&mut self) -> Result<(), Trouble> {
        let now_ns = self.platform.now_ns();
        let control = &mut self.device.control;
        if control.take_link_event() {
            control.update_link()?;
        }
        if now_ns.saturating_sub(self.checked_ns) < CHECK_NS {
            return Ok(());
        }
        self.checked_ns = now_ns;
        let hung = control.watchdog(now_ns, self.device.tx.look_after())? == Health::Hung;
        if hung || control.has_lost_receiver(&mut self.device.rx)? {
            self.resets += 1;
            self.device.reset()?;
            self.start()?;
        }
        self.update_missed();
        Ok(())
    }

    fn counters(&mut self) -> Result<Counters, Trouble> {
        // Reads of statistics are not the traffic's.
        let reads = self.platform.accesses.reads.load(Relaxed);
        self.update_missed();
        self.platform.accesses.reads.store(reads, Relaxed);
        let (rx, tx) = (self.device.rx.counters(), self.device.tx.counters());
        Ok(Counters {
            received: rx.frames,
            received_bytes: rx.bytes,
            sent: tx.frames,
            sent_bytes: tx.bytes,
            full: tx.full,
            missed: Some(self.missed.total()),
            uncounted: 0,
            no_buffer: Some(self.no_buffer.total()),
            errors: rx.frame_errors + rx.nonsense + self.errors,
            tx_dropped: tx.abandoned,
            interrupts: self.interrupts,
            register_reads: reads,
            register_writes: self.platform.accesses.writes.load(Relaxed),
            doorbells: rx.doorbells + tx.doorbells,
            report_requests: tx.report_requests,
            system_calls: 0,
            resets: self.resets,
        })
    }

    fn frames(&self) -> (u64, u64) {
        (self.device.rx.counters().frames, self.device.tx.counters().frames)
    }

    fn refresh_link(&mut self) -> Result<(), Trouble> {
        self.device.control.update_link()?;
        Ok(())
    }

    fn link(&self) -> Link {
        let link = self.device.control.link();
        Link { up: link.up, speed_mbps: Some(link.speed_mbps.into()) }
    }

    fn pool(&mut self) -> &mut BufferPool {
        self.device.tx.source_mut()
    }
}
