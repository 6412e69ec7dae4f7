//! The user of the driver: honest, and it calls everything that the driver has to offer.

use super::device::{ADDRESS, BUFFER_BYTES, Holder, World};
use super::input::Input;
use super::place::{Buf, Pool, Slot};
use kpps_driver::config::{
    Again, Buffers, Completion, Delay, FlowControl, Interrupts, Itr, Moderation, NapiExit, Refill,
    RefillWhen, Rss, RxFormat, RxLow, Thresholds,
};
use kpps_driver::service::{InterruptLoop, Napi, Polling, SelfPacing};
use kpps_driver::{
    Causes, Checksums, Chip, Config, Error, Fragment, Health, Loopback, Offload, Queues, Received, Refusal,
    Refused, Segmentation, Sum, TxMeta, probe_queues,
};
use kpps_host::US;
use kpps_platform::{Buffer, BufferSource};
use std::rc::Rc;

/// The longest total wait of a call, in ns of virtual time, and the most registers that it may read.
#[derive(Clone, Copy)]
struct Bound {
    waits_ns: u64,
    reads: u64,
}

/// A packet path: no wait, and no register is read.
const PACKETS: Bound = Bound { waits_ns: 0, reads: 0 };
/// A service, or a register or two.
const SERVICE: Bound = Bound { waits_ns: 0, reads: 64 };
/// A call that may ask the PHY.
const CALL: Bound = Bound { waits_ns: 200_000_000, reads: 5_000 };
/// A start: reset, EEPROM, PHY, all registers.
const START: Bound = Bound { waits_ns: 2_000_000_000, reads: 50_000 };

/// The events of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Calls of the user.
    pub calls: u64,
    /// Lies of the device.
    pub lies: u64,
    /// Starts and resets that succeeded.
    pub starts: u64,
    /// Starts and resets that failed.
    pub failed_starts: u64,
    /// Parts of frames that the driver handed over.
    pub received: u64,
    /// Frames that it dropped as nonsense or as bad.
    pub dropped: u64,
    /// Frames that it queued.
    pub sent: u64,
    /// Buffers that it gave back after sending.
    pub reclaimed: u64,
    /// Devices that were found hanging, lost or gone.
    pub found_out: u64,
    /// The longest that a start waited, in ns of virtual time, and the most registers that it read.
    pub start_waits_ns: u64,
    /// See [`start_waits_ns`](Self::start_waits_ns).
    pub start_reads: u64,
    /// The same for any other call.
    pub call_waits_ns: u64,
    /// See [`call_waits_ns`](Self::call_waits_ns).
    pub call_reads: u64,
}

/// The frame that has arrived in part.
#[derive(Clone, Copy)]
enum Partial {
    /// No frame: the last frame is complete.
    None,
    /// Its bytes, and those of the last part.
    Some(usize, usize),
    /// A reset failed: the driver may have dropped it, or not.
    Unknown,
}

/// The services that examine the device.
struct Services {
    interrupts: InterruptLoop,
    napi: Napi,
    polling: Polling,
    pacing: SelfPacing,
}

struct Driver {
    device: Queues<Slot, Pool>,
    services: Services,
    partial: [Partial; 2],
}

/// The user.
pub(super) struct User {
    world: Rc<World>,
    pool: Pool,
    buffers: usize,
    driver: Option<Driver>,
    kept: Vec<Buf>,
    seen: Seen,
}

impl User {
    pub(super) fn new(world: &Rc<World>, pool: Pool) -> Self {
        let buffers = pool.available();
        Self { world: world.clone(), pool, buffers, driver: None, kept: Vec::new(), seen: Seen::default() }
    }

    /// Lives until the input is over, and gives everything back.
    pub(super) fn live(mut self) -> Seen {
        self.start();
        while !self.world.input.is_over() {
            self.act();
            self.count_buffers();
        }
        self.stop();
        for buffer in std::mem::take(&mut self.kept) {
            self.pool.give(buffer);
        }
        assert_eq!(self.pool.available(), self.buffers, "buffers are lost");
        self.seen.lies = self.world.lies.get();
        self.seen
    }

    /// Every buffer is in the pool, with the user, or in a ring.
    fn count_buffers(&self) {
        let outside = self.buffers - self.pool.available() - self.kept.len();
        let (mut least, mut more) = (0, 0);
        if let Some(driver) = &self.driver {
            let ring = usize::from(driver.device.control.config().rx_ring);
            for pair in &driver.device.pairs {
                least += ring - pair.rx.empty_slots();
                more += pair.tx.pending() + if self.world.fills.get()[1] > 0 { ring } else { 0 };
            }
        }
        assert!(
            (least..=least + more).contains(&outside),
            "{outside} buffers are out, not {least} to {more} more"
        );
    }

    /// Checks the work of a call, and records the maxima of all calls.
    fn judge(&mut self, what: &str, bound: Bound) {
        let account = self.world.account();
        assert!(account.waited_ns <= bound.waits_ns && account.reads <= bound.reads, "{what}: {account:?}");
        let (waits_ns, reads) = match bound.reads {
            reads if reads == START.reads => (&mut self.seen.start_waits_ns, &mut self.seen.start_reads),
            _ => (&mut self.seen.call_waits_ns, &mut self.seen.call_reads),
        };
        *waits_ns = account.waited_ns.max(*waits_ns);
        *reads = account.reads.max(*reads);
    }

    /// Calls the driver.
    fn call<T>(&mut self, what: &str, bound: Bound, act: impl FnOnce(&mut Self) -> T) -> T {
        self.world.begin();
        let result = act(self);
        self.judge(what, bound);
        result
    }

    fn note<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Error::Config(_) | Error::Unsupported) => None,
            Err(_) => {
                self.seen.found_out += 1;
                None
            }
        }
    }

    fn note_start<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        match &result {
            Ok(_) => self.seen.starts += 1,
            Err(_) => self.seen.failed_starts += 1,
        }
        result.ok()
    }

    // ---- Start and end ----

    fn start(&mut self) {
        let world = self.world.clone();
        let (input, chip) = (&world.input, world.chip);
        let drawn = draw(input, chip);
        let slot = Slot { world: world.clone(), vectors: input.u8() % 6 };
        let headers = input.bool().then(|| self.pool.clone());
        let mut config = drawn.clone();
        if let Err(error) = drawn.validate(chip) {
            let none = Bound { waits_ns: 0, reads: 0 };
            let result = self.call("a refusal", none, |user| {
                probe_queues(slot.clone(), chip, drawn, user.pool.clone(), None)
            });
            assert_eq!(result.err(), Some(error));
            config = Config { rx_ring: 16, tx_ring: 16, ..Config::kpps() };
            config.completion.report_every = 4;
        }
        let header = match config.rx_format {
            RxFormat::Split { header_bytes } if chip.has_extended_rx() => header_bytes.into(),
            _ => 0,
        };
        world.new_driver([config.rx_buffer_bytes.into(), header]);
        // A start has thousands of turns, in which some lie or other ends it: most are honest.
        let honest = !input.u8().is_multiple_of(4);
        if honest {
            world.be_honest();
        }
        let device =
            self.call("a start", START, |user| probe_queues(slot, chip, config, user.pool.clone(), headers));
        if honest {
            world.be_patient();
        }
        if let Some(device) = self.note_start(device) {
            self.driver =
                Some(Driver { device, services: Services::draw(input), partial: [Partial::None; 2] });
        } else {
            world.replace();
        }
    }

    fn stop(&mut self) {
        if let Some(driver) = self.driver.take() {
            self.end(driver);
        }
    }

    /// The end of a driver.
    fn end(&mut self, driver: Driver) {
        for pair in &driver.device.pairs {
            let counters = pair.rx.counters();
            self.seen.dropped += counters.nonsense + counters.frame_errors;
        }
        self.call("an end", CALL, |_| drop(driver));
    }

    // ---- Buffers ----

    fn take(&mut self) -> Option<Buf> {
        self.kept.pop().or_else(|| self.pool.take())
    }

    /// Keeps a buffer, as a consumer that has not done with it.
    fn keep(&mut self, buffer: Buf) {
        self.world.holders[buffer.number].set(Holder::Host);
        self.kept.push(buffer);
    }

    /// Fragments of up to 2048 bytes, each in a buffer.
    fn fragments(&mut self, most: usize) -> Vec<Fragment<Buf>> {
        let count = self.world.input.below(most + 1);
        let mut fragments = Vec::new();
        for _ in 0..count {
            let Some(buffer) = self.take() else { break };
            let bytes = length(&self.world.input);
            fragments.push(Fragment { buffer, bytes });
        }
        fragments
    }

    // ---- What a user does ----

    fn act(&mut self) {
        self.seen.calls += 1;
        let Some(mut driver) = self.driver.take() else { return self.start() };
        let world = self.world.clone();
        let input = &world.input;
        let queue = input.below(driver.device.pairs.len());
        match input.below(32) {
            0..=4 => self.receive(&mut driver, queue),
            5..=7 => self.send(&mut driver, queue),
            8 => self.send_burst(&mut driver, queue),
            9 => self.enqueue(&mut driver, queue),
            10 => self.send_again(&mut driver, queue),
            11 => self.reclaim(&mut driver, queue),
            12 => self.reports(&mut driver, queue),
            13 | 14 => self.refill(&mut driver, queue),
            15 => self.interrupt_loop(&mut driver),
            16 | 17 => self.napi(&mut driver),
            18 => self.polling(&mut driver, queue),
            19 | 20 => self.pacing(&mut driver),
            21 => {
                let link = self.call("update_link", CALL, |_| driver.device.control.update_link());
                self.note(link);
            }
            22 => {
                let control = &mut driver.device.control;
                let stats = self.call("update_stats", CALL, |_| control.update_stats().cloned());
                if let Some(stats) = self.note(stats) {
                    let _ = (stats.received(), stats.sent(), stats.missed(), stats.no_descriptor());
                }
            }
            23 | 24 => self.watch(&mut driver),
            25 => self.filters(&mut driver),
            26 => self.reset(&mut driver),
            27 => {
                let mode = input.of(&[Loopback::Off, Loopback::Phy, Loopback::Mac, Loopback::Transceiver]);
                let done = self.call("set_loopback", START, |_| driver.device.control.set_loopback(mode));
                self.note(done);
            }
            28 => self.interrupts(&mut driver, queue),
            29 => {
                for _ in 0..input.below(16) {
                    world.frame_arrives(length(input).into(), !input.u8().is_multiple_of(8));
                    world.pass(u64::from(input.u8()) * US);
                }
            }
            30 => {
                for buffer in std::mem::take(&mut self.kept) {
                    self.pool.give(buffer);
                }
                world.pass(u64::from(input.u16()) * 16 * US);
            }
            _ => {
                if input.bool() {
                    self.call("stop", CALL, |_| driver.device.control.stop());
                }
                self.end(driver);
                return self.start();
            }
        }
        self.driver = Some(driver);
    }

    fn receive(&mut self, driver: &mut Driver, queue: usize) {
        let world = self.world.clone();
        let budget = world.input.of(&[1, 2, 7, 8, 32, 64, 300]);
        let Driver { device, partial, .. } = driver;
        let most = device.control.config().max_frame_bytes.into();
        let rx = &mut device.pairs[queue].rx;
        let taken = self.call("receive", PACKETS, |user| {
            rx.receive(budget, |frame| user.consume(&mut partial[queue], most, frame))
        });
        assert!(taken <= budget);
    }

    /// Takes a part of a frame. The part must be a valid successor of the last part.
    fn consume(&mut self, partial: &mut Partial, most: usize, frame: Received<Buf>) -> Option<Buf> {
        let number = frame.buffer.number;
        let bytes = usize::from(frame.bytes);
        assert!(bytes <= frame.buffer.capacity(), "{bytes} bytes in a buffer");
        assert_ne!(self.world.holders[number].get(), Holder::Pool, "a frame in a buffer of the pool");
        self.world.holders[number].set(Holder::Host);
        let (total, last) = match std::mem::replace(partial, Partial::None) {
            Partial::None => {
                assert!(frame.first, "a part of no frame");
                (0, 0)
            }
            Partial::Some(total, last) => {
                assert!(!frame.first, "a frame within a frame");
                (total, last)
            }
            Partial::Unknown if frame.first => (0, 0),
            // The bytes that are cut off were received before: at least `excess` bytes.
            Partial::Unknown => (frame.excess.into(), frame.excess.into()),
        };
        if !frame.error {
            let excess = usize::from(frame.excess);
            assert!(excess <= last, "{excess} bytes to cut off a part of {last}");
            assert!(total + bytes - excess <= most, "{} bytes of at most {most}", total + bytes);
            let _ = (frame.ip_checksum(), frame.transport_checksum(), frame.vlan(), frame.hash());
            let _ = (frame.is_inexact(), frame.buffer.bytes()[..bytes].iter().fold(0, |a, b| a ^ b));
        }
        if !frame.last {
            *partial = Partial::Some(total + bytes, bytes);
        }
        self.seen.received += 1;
        if self.world.input.u8().is_multiple_of(4) && self.kept.len() < self.buffers / 3 {
            self.kept.push(frame.buffer);
            return None;
        }
        Some(frame.buffer)
    }

    fn send(&mut self, driver: &mut Driver, queue: usize) {
        let world = self.world.clone();
        let tx = &mut driver.device.pairs[queue].tx;
        for _ in 0..=world.input.below(8) {
            let Some(buffer) = self.take() else { break };
            let bytes = length(&world.input);
            let result = self.call("send", PACKETS, |_| tx.send(buffer, bytes));
            if let Err(Refused { frame, .. }) = result {
                self.keep(frame.buffer);
                break;
            }
            self.seen.sent += 1;
        }
        if !world.input.u8().is_multiple_of(4) {
            self.call("flush", PACKETS, |_| tx.flush());
        }
    }

    fn send_burst(&mut self, driver: &mut Driver, queue: usize) {
        let tx = &mut driver.device.pairs[queue].tx;
        let mut frames = self.fragments(40).into_iter();
        let result = self.call("send_burst", PACKETS, |_| tx.send_burst(&mut frames));
        if let Err(Refused { frame, .. }) = result {
            self.keep(frame.buffer);
        }
        for frame in frames {
            self.keep(frame.buffer);
        }
        self.call("flush", PACKETS, |_| tx.flush());
    }

    fn enqueue(&mut self, driver: &mut Driver, queue: usize) {
        let world = self.world.clone();
        let tx = &mut driver.device.pairs[queue].tx;
        let fragments = self.fragments(6);
        let meta = meta(&world.input, fragments.iter().map(|fragment| u32::from(fragment.bytes)).sum());
        let result = self.call("enqueue", PACKETS, |_| tx.enqueue(fragments.into_iter(), &meta));
        match result {
            Ok(()) => self.seen.sent += 1,
            Err(Refused { reason, frame }) => {
                assert!(matches!(reason, Refusal::Full | Refusal::Unsupported | Refusal::Invalid));
                for fragment in frame {
                    self.keep(fragment.buffer);
                }
            }
        }
        self.call("flush", PACKETS, |_| tx.flush());
    }

    fn send_again(&mut self, driver: &mut Driver, queue: usize) {
        let world = self.world.clone();
        let tx = &mut driver.device.pairs[queue].tx;
        let most = world.input.below(100);
        let sent = self.call("send_again", PACKETS, |_| {
            tx.send_again(most, |buffer| {
                world.holders[buffer.number].set(Holder::Host);
                length(&world.input)
            })
        });
        assert!(sent <= most);
        self.call("flush", PACKETS, |_| tx.flush());
    }

    fn reclaim(&mut self, driver: &mut Driver, queue: usize) {
        let tx = &mut driver.device.pairs[queue].tx;
        let most = self.world.input.of(&[1, 3, 64, usize::MAX]);
        let count = if self.world.input.bool() {
            self.call("reclaim", PACKETS, |_| tx.reclaim(most))
        } else {
            self.call("reclaim_with", PACKETS, |user| tx.reclaim_with(most, |buffer| user.keep(buffer)))
        };
        assert!(count <= most);
        self.seen.reclaimed += count as u64;
    }

    fn reports(&mut self, driver: &mut Driver, queue: usize) {
        let (tx, kind) = (&mut driver.device.pairs[queue].tx, self.world.input.u8());
        self.call("reports", PACKETS, |_| match kind % 4 {
            0 => drop(tx.request_report()),
            1 => tx.request_report_if_idle(),
            2 => tx.set_polled(kind & 16 != 0),
            _ => {
                let _ = (tx.progress(), tx.counters(), tx.free());
            }
        });
    }

    fn refill(&mut self, driver: &mut Driver, queue: usize) {
        let (rx, kind) = (&mut driver.device.pairs[queue].rx, self.world.input.u8());
        match kind % 4 {
            0 => {
                let empty = self.call("refill", PACKETS, |_| rx.refill());
                assert_eq!(empty, rx.empty_slots());
            }
            1 => {
                let Some(buffer) = self.take() else { return };
                if let Some(back) = self.call("provide", PACKETS, |_| rx.provide(buffer)) {
                    self.keep(back);
                }
            }
            2 => self.call("flush", PACKETS, |_| rx.flush()),
            _ => {
                self.call("is_out_of_step", SERVICE, |_| rx.is_out_of_step());
                let _ = (rx.held_back(), rx.counters());
            }
        }
    }

    // ---- Services ----

    fn interrupt_loop(&mut self, driver: &mut Driver) {
        let Driver { device, services, partial } = driver;
        let (control, pair) = (&mut device.control, &mut device.pairs[0]);
        let most = control.config().max_frame_bytes.into();
        let handled = self.call("InterruptLoop::interrupt", SERVICE, |user| {
            let sink = |frame| user.consume(&mut partial[0], most, frame);
            services.interrupts.interrupt(control, &mut pair.rx, &mut pair.tx, sink)
        });
        if let Some(handled) = self.note(handled) {
            self.seen.reclaimed += handled.reclaimed as u64;
        }
    }

    fn napi(&mut self, driver: &mut Driver) {
        let Driver { device, services, partial } = driver;
        let (control, pair) = (&mut device.control, &mut device.pairs[0]);
        let most = control.config().max_frame_bytes.into();
        if self.world.input.bool() {
            let scheduled = self.call("Napi::interrupt", SERVICE, |_| services.napi.interrupt(control));
            self.note(scheduled);
        }
        let budget = self.world.input.of(&[0, 1, 16, usize::MAX]);
        let polled = self.call("Napi::poll", SERVICE, |user| {
            let sink = |frame| user.consume(&mut partial[0], most, frame);
            services.napi.poll(&mut *control, &mut pair.rx, &mut pair.tx, budget, sink)
        });
        assert!(polled.received <= budget);
        self.seen.reclaimed += polled.reclaimed as u64;
    }

    fn polling(&mut self, driver: &mut Driver, queue: usize) {
        let Driver { device, services, partial } = driver;
        let most = device.control.config().max_frame_bytes.into();
        let pair = &mut device.pairs[queue];
        let budget = self.world.input.of(&[0, 1, 16, usize::MAX]);
        let polled = self.call("Polling::poll", PACKETS, |user| {
            let sink = |frame| user.consume(&mut partial[queue], most, frame);
            services.polling.poll(&mut pair.rx, &mut pair.tx, budget, sink)
        });
        assert!(polled.received <= budget);
        self.seen.reclaimed += polled.reclaimed as u64;
    }

    fn pacing(&mut self, driver: &mut Driver) {
        let Driver { device, services, partial } = driver;
        let (control, pair) = (&mut device.control, &mut device.pairs[0]);
        let most = control.config().max_frame_bytes.into();
        if self.world.input.bool() {
            let start = self.call("SelfPacing::interrupt", SERVICE, |_| services.pacing.interrupt(control));
            self.note(start);
        }
        for _ in 0..=self.world.input.below(6) {
            let budget = self.world.input.of(&[0, 1, 16, usize::MAX]);
            let polled = self.call("SelfPacing::poll", SERVICE, |user| {
                let sink = |frame| user.consume(&mut partial[0], most, frame);
                services.pacing.poll(control, &mut pair.rx, &mut pair.tx, budget, sink)
            });
            if let Some((polled, _)) = self.note(polled) {
                assert!(polled.received <= budget);
                self.seen.reclaimed += polled.reclaimed as u64;
            }
            self.world.pass(u64::from(self.world.input.u8()) * US / 4);
        }
        let _ = (services.pacing.spent(), services.pacing.is_asleep(), services.pacing.pacing_ns());
    }

    // ---- Control ----

    fn watch(&mut self, driver: &mut Driver) {
        let world = self.world.clone();
        let device = &mut driver.device;
        let (now_ns, progress) = (world.now_ns(), device.pairs[0].tx.look_after());
        let health = self.call("watchdog", CALL, |_| device.control.watchdog(now_ns, progress));
        let rx = &mut device.pairs[0].rx;
        let lost = self.call("has_lost_receiver", SERVICE, |_| device.control.has_lost_receiver(rx));
        let hung = self.note(health) == Some(Health::Hung);
        if self.note(lost) == Some(true) || hung {
            self.seen.found_out += 1;
            self.reset(driver);
        }
        world.pass(u64::from(world.input.u8() % 4) * 1_000_000 * US);
    }

    fn reset(&mut self, driver: &mut Driver) {
        let device = &mut driver.device;
        let done = self.call("reset", START, |_| match &mut device.pairs[..] {
            [pair] => device.control.reset(&mut pair.rx, &mut pair.tx),
            _ => device.reset(),
        });
        let partial = if self.note_start(done).is_some() { Partial::None } else { Partial::Unknown };
        driver.partial = [partial; 2];
    }

    fn filters(&mut self, driver: &mut Driver) {
        let world = self.world.clone();
        let (input, control) = (&world.input, &mut driver.device.control);
        let (kind, entry) = (input.u8(), u32::from(input.u8() % 18));
        let address = input.u64().to_le_bytes();
        let [a, b, c, d, e, f, ..] = address;
        let address = [a, b, c, d, e, f];
        let vlans = [input.u16(), input.u16()];
        let on = kind & 16 != 0;
        self.call("a filter", SERVICE, |_| {
            let _ = match kind % 8 {
                0 => control.set_address(address),
                1 => control.set_unicast(entry, on.then_some(address)),
                2 => {
                    control.set_multicast(&[address, ADDRESS]);
                    Ok(())
                }
                3 => {
                    control.set_promiscuous(on);
                    Ok(())
                }
                4 => {
                    control.set_all_multicast(on);
                    Ok(())
                }
                5 => control.set_vlans(on.then_some(&vlans)),
                6 => {
                    control.note_traffic((kind.into(), entry), (entry, kind.into()));
                    Ok(())
                }
                _ => control
                    .set_itr([Itr::Off, Itr::Fixed(8_000), Itr::Dynamic, Itr::Ratio][entry as usize % 4]),
            };
        });
    }

    fn interrupts(&mut self, driver: &mut Driver, queue: usize) {
        let world = self.world.clone();
        let (kind, value) = (world.input.u8(), world.input.u32());
        let Queues { control, pairs } = &mut driver.device;
        let vector = &pairs[queue].vector;
        let causes = self.call("an interrupt's register", SERVICE, |_| {
            match kind % 10 {
                0 => return control.causes().map(Some),
                1 => control.mask(),
                2 => control.unmask(),
                3 => control.unmask_receive(),
                4 => control.raise(Causes(value)),
                5 => control.mask_other(),
                6 => control.unmask_other(),
                7 => vector.mask(),
                8 => vector.unmask(),
                _ => drop(vector.throttle(value)),
            }
            Ok(None)
        });
        if let Some(Some(causes)) = self.note(causes) {
            let _ = (causes.any(), causes.link(), causes.receive(), causes.transmit());
        }
        let _ = (control.take_link_event(), control.link(), control.other_vector(), vector.number());
    }
}

/// The length of a frame: mostly a valid length, else any.
fn length(input: &Input) -> u16 {
    match input.u8() {
        short @ 0..=0x7F => 60 + u16::from(short),
        0x80..=0xBF => input.u16() % (BUFFER_BYTES as u16 + 8),
        0xC0..=0xDF => 1_514,
        0xE0..=0xEF => 0,
        _ => input.u16(),
    }
}

/// Offloads of a frame of `bytes` bytes to send.
fn meta(input: &Input, bytes: u32) -> TxMeta {
    let sum = || Sum { start: input.u8(), field: input.u8(), end: input.u16() };
    let vlan = input.bool().then(|| input.u16());
    let offload = match input.u8() % 4 {
        0 => Offload::None,
        1 => Offload::Checksum(Checksums { ip: input.bool().then(sum), transport: input.bool().then(sum) }),
        kind => {
            let header_bytes = input.u8();
            let payload = bytes.saturating_sub(header_bytes.into());
            Offload::Segment(Segmentation {
                ip: sum(),
                transport: sum(),
                is_ipv4: input.bool(),
                is_tcp: input.bool(),
                header_bytes,
                payload_bytes: if kind == 2 { payload } else { input.u32() },
                mss: input.u16(),
            })
        }
    };
    TxMeta { vlan, offload }
}

impl Services {
    fn draw(input: &Input) -> Self {
        let again = if input.bool() { Again::Cause } else { Again::Work };
        let exit = input.of(&[NapiExit::BothIdle, NapiExit::EitherIdle, NapiExit::ReceiveFirst]);
        let pacing = SelfPacing::new(u16::from(input.u8()) + 1, input.u8());
        let pacing = if input.bool() { pacing.sleeping_while_sending() } else { pacing };
        Self {
            interrupts: InterruptLoop::new(u16::from(input.u8() % 8) + 1, input.bool(), again),
            napi: Napi::new(u16::from(input.u8()) + 1, exit, input.bool()),
            polling: Polling::new(u16::from(input.u8()) + 1),
            pacing: pacing.with_polling_rdtr(input.u8().into()),
        }
    }
}

/// A configuration, not always a valid one.
fn draw(input: &Input, chip: Chip) -> Config {
    let rings = [8, 16, 24, 48, 64, 128, 12];
    let thresholds = |bits: u8| {
        (bits & 1 != 0).then_some(Thresholds { pthresh: bits >> 2, hthresh: bits >> 5, wthresh: bits >> 6 })
    };
    let mut config = Config { rx_ring: input.of(&rings), tx_ring: input.of(&rings), ..Config::kpps() };
    config.rx_buffer_bytes = input.of(&[2048, 1024, 512, 256, 2048, 1024, 1500]);
    config.max_frame_bytes = input.of(&[1522, 1518, 64, 9018, 16_288]);
    let flags = input.u32();
    let flag = |bit: u32| flags >> bit & 1 != 0;
    config.rx_copybreak_bytes = if flag(0) { input.u8().into() } else { 0 };
    config.buffers = if flag(1) { Buffers::Fresh } else { Buffers::Recycled };
    config.refill = Refill {
        when: if flag(2) { RefillWhen::AfterBurst } else { RefillWhen::EachFrame },
        group: if flag(3) { u16::from(input.u8()) } else { 0 },
        aligned: false,
    };
    config.completion = Completion {
        report_every: u16::from(input.u8() % 8) + 1,
        delay: input.of(&[Delay::Never, Delay::Always, Delay::ExceptEvery(3)]),
    };
    config.moderation = Moderation {
        rdtr: if flag(4) { input.u8().into() } else { 0 },
        itr: input.of(&[Itr::Off, Itr::Fixed(8_000), Itr::Off]),
        ..config.moderation
    };
    config.interrupts = Interrupts { tx_empty: flag(5), rx_sequence: flag(6), ..config.interrupts };
    config.flush_unmask = flag(7);
    config.rx_low = input.of(&[RxLow::Half, RxLow::Quarter, RxLow::Eighth]);
    (config.rx_thresholds, config.tx_thresholds) = (thresholds(input.u8()), thresholds(input.u8() & 0x3F));
    config.rx_fifo_kb = input.of(&[None, None, Some(8), Some(32), Some(30)]);
    config.rx_checksum = flag(8);
    config.strip_fcs = flag(9);
    config.vlan = flag(10);
    config.promiscuous = flag(11);
    let flows = [FlowControl::Off, FlowControl::Receive, FlowControl::Transmit, FlowControl::Full];
    config.flow_control = input.of(&flows);
    config.rescue = flag(12);
    // Reading it from the EEPROM takes thousands of reads on the oldest chips.
    config.address = (!flag(13) || !flag(14)).then_some(ADDRESS);
    if chip.is_pci_express() {
        config.queues = if flag(15) { 2 } else { 1 };
        config.rx_format = match input.u8() % 4 {
            0 => RxFormat::Best,
            1 => RxFormat::Legacy,
            2 => RxFormat::Extended,
            _ => RxFormat::Split { header_bytes: 128 * (1 + u16::from(input.u8() % 16)) },
        };
        config.rss = flag(16).then_some(if flag(17) { Rss::SYMMETRIC } else { Rss::DEFAULT });
    }
    config
}
