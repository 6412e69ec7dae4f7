//! The control half of a device: reset, interrupts, moderation, health.

mod express;
mod igb;
mod link;
mod stats;

pub use link::{Link, Loopback};
pub use stats::Stats;

use crate::{
    Error, RxQueue, TxQueue,
    config::{Config, Itr},
    eeprom,
    moderation::Throttle,
    regs::{ALL_ONES, Regs},
    tx::{Progress, Quirks},
    vector::{Routing, Vector},
};
use kpps_datasheet::{
    Chip, Erratum, Media,
    bit::{cause, ctrl, rctl, rdtr, status, tctl},
    eeprom as words, express as express_bits, reg,
};
use kpps_platform::{BufferSource, Platform};

/// The causes of an interrupt (ICR).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes(pub u32);

impl Causes {
    /// Whether there is any cause. Without one, the interrupt was another device's.
    pub const fn any(self) -> bool {
        self.0 != 0
    }
    /// The link may have changed: call [`Control::update_link`].
    pub const fn link(self) -> bool {
        self.0 & (cause::LSC | cause::RXSEQ | cause::RXCFG) != 0
    }
    /// Frames were received or missed, or few receive descriptors are left.
    pub const fn receive(self) -> bool {
        use express_bits::cause::{RXQ0, RXQ1};
        self.0 & (cause::RXT0 | cause::RXDMT0 | cause::RXO | RXQ0 | RXQ1) != 0
    }
    /// Frames were sent.
    pub const fn transmit(self) -> bool {
        use express_bits::cause::{TXQ0, TXQ1};
        self.0 & (cause::TXDW | cause::TXQE | TXQ0 | TXQ1) != 0
    }
}

/// The result of [`Control::watchdog`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The device works.
    Well,
    /// The link is down; nothing can be sent.
    LinkDown,
    /// The transmitter has not finished a frame for too long: reset the device.
    Hung,
}

/// How long a frame may take in ns, at 100 Mb/s and above and at 10 Mb/s (values of the public Linux driver).
const HANG_NS: u64 = 1_000_000_000;
const HANG_10_NS: u64 = 16_000_000_000;

/// The control half of a device: everything that is not a queue.
pub struct Control<P: Platform> {
    pub(crate) platform: P,
    pub(crate) regs: Regs<P::Regs>,
    pub(crate) chip: Chip,
    pub(crate) config: Config,
    pub(crate) media: Media,
    pub(crate) pcix: bool,
    pub(crate) address: [u8; 6],
    pub(crate) unicast: [Option<[u8; 6]>; reg::RAR_ENTRIES as usize - 1],
    pub(crate) multicast: [u32; reg::MTA_WORDS as usize],
    pub(crate) vlans: [u32; reg::VFTA_WORDS as usize],
    pub(crate) vlan_filter: bool,
    pub(crate) all_multicast: bool,
    pub(crate) receiving: bool,
    pub(crate) loopback: Loopback,
    pub(crate) loopback_mode: u32,
    pub(crate) link: Link,
    pub(crate) link_forced: bool,
    pub(crate) link_waited: bool,
    pub(crate) stats: Stats,
    /// Frames that came to the device, as [`has_lost_receiver`](Self::has_lost_receiver) last saw them.
    pub(crate) received_seen: u64,
    pub(crate) routing: Routing,
    pub(crate) throttle: Throttle,
    pub(crate) link_event: bool,
    /// The last progress of the transmit queue, and its time in ns.
    pub(crate) progress: Option<(Progress, u64)>,
}

impl<P: Platform> Control<P> {
    /// Resets the device and initialises everything but the rings.
    pub(crate) fn new(platform: P, chip: Chip, config: Config) -> Result<Self, Error> {
        config.validate(chip)?;
        let regs = Regs::new(platform.registers(), chip);
        let mut control = Self {
            regs,
            routing: Routing::new(chip, platform.vectors(), &config),
            platform,
            chip,
            media: chip.media(),
            pcix: false,
            address: [0; 6],
            unicast: [None; reg::RAR_ENTRIES as usize - 1],
            multicast: [0; reg::MTA_WORDS as usize],
            vlans: [0; reg::VFTA_WORDS as usize],
            vlan_filter: false,
            all_multicast: false,
            receiving: false,
            loopback: Loopback::Off,
            loopback_mode: 0,
            link: Link::default(),
            link_forced: false,
            link_waited: false,
            stats: Stats::new(),
            received_seen: 0,
            throttle: Throttle::new(if chip.has_throttle() { config.moderation.itr } else { Itr::Off }),
            link_event: false,
            progress: None,
            config,
        };
        control.reset_chip()?;
        control.address = control.station_address()?;
        Ok(control)
    }

    /// The interrupt of a pair of queues.
    pub(crate) fn vector(&self, queue: u8) -> Vector<P::Regs> {
        Vector::new(self.regs.clone(), &self.routing, queue)
    }

    /// The errata that concern the transmit queue.
    pub(crate) fn quirks(&self) -> Quirks {
        Quirks::of(self.chip, self.pcix)
    }

    pub(crate) fn reset_chip(&mut self) -> Result<(), Error> {
        let (platform, regs) = (&self.platform, &self.regs);
        regs.get(reg::STATUS)?;
        // From here on, also if this fails: the chip may have no ring.
        self.receiving = false;
        regs.write(reg::IMC, cause::ALL);
        regs.write(reg::RCTL, 0);
        regs.write(reg::TCTL, tctl::PSP);
        // The read waits for bus transfers in progress.
        regs.get(reg::STATUS)?;
        platform.wait_ns(10_000_000);
        express::before_reset(platform, regs, self.chip)?;
        regs.modify(reg::CTRL, 0, ctrl::RST)?;
        // No register access meanwhile (SDM 13.4.1 says 1 µs; EEPROM words are loaded after that).
        platform.wait_ns(5_000_000);
        regs.wait(platform, reg::CTRL, (ctrl::RST, 0), (100_000, 20_000_000), "reset")?;
        express::after_reset(platform, regs, self.chip)?;
        regs.write(reg::IMC, cause::ALL);
        regs.read(reg::ICR);
        let status = regs.get(reg::STATUS)?;
        self.pcix = self.chip.has_pcix() && status & status::PCIX_MODE != 0;
        self.media = match self.chip {
            Chip::I82542 => Media::Fibre,
            // Its bit is reserved.
            Chip::I82576 => Media::Copper,
            _ if status & status::TBIMODE != 0 => Media::Fibre,
            _ => Media::Copper,
        };
        (self.loopback, self.loopback_mode) = (Loopback::Off, 0);
        Ok(())
    }

    fn station_address(&self) -> Result<[u8; 6], Error> {
        if let Some(address) = self.config.address {
            return Ok(address);
        }
        if self.chip.has_advanced() {
            return self.loaded_address().ok_or(Error::Eeprom);
        }
        let image = eeprom::read(&self.platform, &self.regs, self.chip)?;
        let mut address = words::address([image[0], image[1], image[2]]);
        if !words::is_valid(&image) || address[0] & 1 != 0 || address == [0; 6] {
            return Err(Error::Eeprom);
        }
        // The address of the second port differs in the last bit (SDM 5.6.1).
        let function = (self.regs.get(reg::STATUS)? & status::FUNC_MASK) >> status::FUNC_SHIFT;
        if self.chip == Chip::I82546eb && function == 1 {
            address[5] ^= 1;
        }
        Ok(address)
    }

    /// Resets the device and starts it again with its two queues; with more queues, see
    /// [`Queues::reset`](crate::Queues::reset). Frames in the queues are lost; buffers are not.
    pub fn reset<S: BufferSource>(
        &mut self,
        rx: &mut RxQueue<P, S>,
        tx: &mut TxQueue<P, S>,
    ) -> Result<(), Error> {
        self.reset_chip()?;
        self.start(&mut [(rx, tx)])
    }

    /// Stops both directions and all interrupts. Afterwards the device accesses no memory. Dropping the
    /// control half does the same.
    pub fn stop(&mut self) {
        self.receiving = false;
        self.regs.write(reg::IMC, cause::ALL);
        self.regs.write(reg::RCTL, 0);
        self.regs.write(reg::TCTL, tctl::PSP);
        // The read flushes the writes and waits for bus transfers in progress.
        self.regs.read(reg::STATUS);
        self.platform.wait_ns(10_000_000);
    }

    /// The chip.
    pub fn chip(&self) -> Chip {
        self.chip
    }

    /// The medium that the device reports.
    pub fn media(&self) -> Media {
        self.media
    }

    /// The configuration in use.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The platform.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// Reads and clears the interrupt causes: one register read. With MSI-X a register write clears them, and
    /// the causes of a [`Vector`](crate::Vector) are not included.
    #[inline]
    pub fn causes(&mut self) -> Result<Causes, Error> {
        let causes = match self.regs.read(reg::ICR) {
            ALL_ONES => self.causes_unread()?,
            causes => Causes(causes & !express_bits::cause::ASSERTED),
        };
        if self.routing.is_msix() && causes.any() {
            self.regs.write(reg::ICR, causes.0);
        }
        self.link_event |= causes.link();
        Ok(causes)
    }

    /// After a read of the causes that returned all ones: the device may have cleared them, so any of the
    /// configured ones may have been among them.
    #[cold]
    fn causes_unread(&self) -> Result<Causes, Error> {
        self.regs.get(reg::STATUS)?;
        Ok(Causes(self.routing.all()))
    }

    /// Whether an interrupt since the last call reported a link change; if so, call
    /// [`update_link`](Self::update_link). True once after a start.
    pub fn take_link_event(&mut self) -> bool {
        core::mem::take(&mut self.link_event)
    }

    /// Masks all interrupts: one register write.
    #[inline]
    pub fn mask(&self) {
        self.regs.write(reg::IMC, cause::ALL);
    }

    /// Unmasks the configured interrupts: one register write, and with [`Config::flush_unmask`] a read of
    /// STATUS.
    #[inline]
    pub fn unmask(&self) {
        self.regs.write(reg::IMS, self.routing.all());
        if self.config.flush_unmask {
            self.regs.read(reg::STATUS);
        }
    }

    /// Unmasks the configured interrupts except those of sent frames: one register write.
    #[inline]
    pub fn unmask_receive(&self) {
        self.regs.write(reg::IMS, self.routing.all() & !(cause::TXDW | cause::TXQE));
    }

    /// Whether [`set_rdtr`](Self::set_rdtr) may be used: the configuration sets no RDTR, and the chip has
    /// this timer, which does not [lock up](Erratum::ReceiveDelayLockUp).
    pub(crate) fn may_set_rdtr(&self) -> bool {
        let works = self.chip.has_delays() && !self.chip.has(Erratum::ReceiveDelayLockUp);
        self.config.moderation.rdtr == 0 && works
    }

    /// Writes RDTR, in 1.024 µs. The device then gathers a cache line of received descriptors before it
    /// writes them back, for at most that time after the last frame. 0 ends this and writes descriptors back
    /// now, which raises RXT0 (SDM 3.2.7.1.1): read the causes before unmasking. One register write.
    #[inline]
    pub(crate) fn set_rdtr(&self, units: u16) {
        self.regs.write(reg::RDTR, if units == 0 { rdtr::FPD } else { units.into() });
    }

    /// Makes the device raise these causes.
    pub fn raise(&self, causes: Causes) {
        self.regs.write(reg::ICS, causes.0);
    }

    /// Notes the traffic of one interrupt or poll, (frames, bytes) in each direction, for dynamic throttling.
    /// Writes ITR if its value changes.
    #[inline]
    pub fn note_traffic(&mut self, rx: (u32, u32), tx: (u32, u32)) {
        if let Some(value) = self.throttle.note(rx, tx) {
            self.write_throttle(value);
        }
    }

    /// Sets the interrupt throttling.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on chips without ITR.
    pub fn set_itr(&mut self, itr: Itr) -> Result<(), Error> {
        if !self.chip.has_throttle() {
            return Err(Error::Unsupported);
        }
        self.config.moderation.itr = itr;
        self.throttle = Throttle::new(itr);
        self.write_throttle(self.throttle.register());
        Ok(())
    }

    /// Checks the link and the transmitter; call it about every two seconds, with what
    /// [`TxQueue::look_after`](crate::TxQueue::look_after) returns. Recomputes [`Itr::Ratio`], and raises
    /// RXDMT0 with [`Config::rescue`].
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished.
    pub fn watchdog(&mut self, now_ns: u64, transmit: Progress) -> Result<Health, Error> {
        let link = self.update_link()?;
        if let Some(value) = self.throttle.tick() {
            self.write_throttle(value);
        }
        if self.config.rescue {
            self.raise(Causes(cause::RXDMT0));
        }
        let since = match self.progress {
            Some((last, since)) if transmit.waiting && last == transmit => since,
            _ => now_ns,
        };
        self.progress = Some((transmit, since));
        if !link.up {
            // No frame can be sent; start again when the link is back.
            self.progress = None;
            return Ok(Health::LinkDown);
        }
        let limit = if link.speed_mbps == 10 { HANG_10_NS } else { HANG_NS };
        if now_ns.saturating_sub(since) < limit {
            return Ok(Health::Well);
        }
        // A paused transmitter is slow, not hung.
        let paused = self.regs.get(reg::STATUS)? & status::TXOFF != 0;
        Ok(if paused { Health::Well } else { Health::Hung })
    }

    /// Whether `rx` will receive no more, although it should: reset the device then. Its ring looks idle, and
    /// its link may stay down. Call it with the [`watchdog`](Self::watchdog), which does only what historical
    /// drivers do. At most seven register reads.
    ///
    /// - The receiver is off although it was turned on, as after a reset by something else.
    /// - Two calls in a row, the device is [out of step](RxQueue::is_out_of_step), or it counts frames and
    ///   the queue, which has descriptors, gets none. With several queues only the former is known.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished.
    pub fn has_lost_receiver<S: BufferSource>(&mut self, rx: &mut RxQueue<P, S>) -> Result<bool, Error> {
        let off = self.receiving && self.regs.get(reg::RCTL)? & rctl::EN == 0;
        let received = self.config.queues == 1 && self.has_received();
        Ok(rx.is_lost(received) || off)
    }
}

impl<P: Platform> Drop for Control<P> {
    fn drop(&mut self) {
        self.stop();
    }
}
