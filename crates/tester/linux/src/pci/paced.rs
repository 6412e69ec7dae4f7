//! Frames at an exact pace on a guest's own clock, from QEMU's virtio-net cards.
//!
//! Such a card can send by a timer (`tx=timer,x-txburst=1`): each time it expires, the card takes one frame
//! of its queue. The timer runs on the virtual clock, and the guest executes nothing for a frame. A queue has
//! 256 slots that all name the same frame; to offer it again, one index is moved for as many slots as were
//! used. Several cards take turns, so that their queues last longer.
//!
//! The cards are accessed as legacy devices (Virtio 1.2, 4.1.4.8): their registers are I/O ports in BAR 0,
//! here through sysfs.

use super::config::Config;
use super::registers::{COMMAND_INTX_DISABLE, COMMAND_IO, COMMAND_MASTER};
use super::system::System;
use super::{Address, Domain};
use crate::{Backend, Error};
use kpps_platform::memory::RingMemory;
use kpps_platform::{DmaMemory, DmaSpec};
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Registers of a legacy device (Virtio 1.2, 4.1.4.8).
mod reg {
    pub(super) const GUEST_FEATURES: u64 = 4;
    pub(super) const QUEUE_ADDRESS: u64 = 8;
    pub(super) const QUEUE_SIZE: u64 = 12;
    pub(super) const QUEUE_SELECT: u64 = 14;
    pub(super) const QUEUE_NOTIFY: u64 = 16;
    pub(super) const DEVICE_STATUS: u64 = 18;
}

/// Status: the device was noticed, there is a driver, the driver is ready (Virtio 1.2, 2.1).
const STATUS: [u8; 3] = [1, 3, 7];
/// The transmit queue (Virtio 1.2, 5.1.2).
const TRANSMIT: u16 = 1;
/// Slots of QEMU's transmit queue.
const QUEUE_SLOTS: u16 = 256;
/// Legacy queues are aligned to pages (Virtio 1.2, 2.7.2).
const PAGE: usize = 4096;
/// The available ring is behind the descriptors, of 16 bytes each, the used ring on the next page.
const AVAILABLE: usize = QUEUE_SLOTS as usize * 16;
const USED: usize = AVAILABLE + PAGE;
/// The frame is behind the rings.
const FRAME: usize = USED + PAGE;
/// The header before a frame without any features (Virtio 1.2, 5.1.6.1).
const HEADER_BYTES: usize = 10;
/// Available ring: no interrupt is wanted (Virtio 1.2, 2.7.7).
const NO_INTERRUPT: u64 = 1;
/// The shortest time between two refills.
const SHORTEST: Duration = Duration::from_micros(20);

/// A card with frames waiting in its queue.
struct Card {
    config: Config,
    registers: File,
    memory: RingMemory,
    /// Frames made available so far, and of these the sent ones, as the queue counts them.
    offered: u16,
    sent: u16,
    _lock: File,
}

impl Card {
    fn open(system: &System, domain: &Domain, address: Address, frame: &[u8]) -> Result<Self, Error> {
        let lock = system.lock(address)?;
        let open = |name| {
            let path = system.device(address, name);
            File::options().read(true).write(true).open(&path).map_err(Error::file(&path))
        };
        let (config, registers) = (Config::new(open("config")?, 0)?, open("resource0")?);
        config.command(0, COMMAND_IO | COMMAND_MASTER | COMMAND_INTX_DISABLE)?;
        let bytes = FRAME + (HEADER_BYTES + frame.len()).next_multiple_of(8);
        let spec = DmaSpec { bytes, align: PAGE, boundary: None, max_address: u64::from(u32::MAX) };
        let memory = domain.memory().ring(spec).map_err(|_| Error::NoHugePages { wanted: 1, free: 0 })?;
        let card = Self { config, registers, memory, offered: 0, sent: 0, _lock: lock };
        card.write_queue(frame);
        card.set_up()?;
        Ok(card)
    }

    /// All slots name the same frame.
    fn write_queue(&self, frame: &[u8]) {
        let words = self.memory.words();
        let bytes = [&[0; HEADER_BYTES], frame].concat();
        for (word, part) in words[FRAME / 8..].iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
        for pair in words[..AVAILABLE / 8].chunks(2) {
            // Address; length, no flags, no next descriptor (Virtio 1.2, 2.7.5).
            pair[0].store((self.memory.bus() + FRAME as u64).to_le(), Ordering::Relaxed);
            pair[1].store((bytes.len() as u64).to_le(), Ordering::Relaxed);
        }
        // Behind flags and index, the n-th entry names descriptor n.
        for (index, word) in
            words[AVAILABLE / 8..USED / 8].iter().enumerate().take(1 + QUEUE_SLOTS as usize / 4)
        {
            let entry = |slot: usize| (4 * index + slot).wrapping_sub(2) as u64 % u64::from(QUEUE_SLOTS);
            let from = if index == 0 { 2 } else { 0 };
            let value = (from..4).fold(0, |value, slot| value | entry(slot) << (16 * slot));
            word.store(value.to_le(), Ordering::Relaxed);
        }
        self.offer();
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.registers.write_all_at(bytes, offset).map_err(Error::io("writing a virtio card's register"))
    }

    fn set_up(&self) -> Result<(), Error> {
        self.write(reg::DEVICE_STATUS, &[0])?;
        for status in &STATUS[..2] {
            self.write(reg::DEVICE_STATUS, &[*status])?;
        }
        self.write(reg::GUEST_FEATURES, &0_u32.to_le_bytes())?;
        self.write(reg::QUEUE_SELECT, &TRANSMIT.to_le_bytes())?;
        let mut slots = [0; 2];
        let read = self.registers.read_exact_at(&mut slots, reg::QUEUE_SIZE);
        read.map_err(Error::io("reading a virtio card's register"))?;
        if u16::from_le_bytes(slots) != QUEUE_SLOTS {
            return Err(Error::io("setting up a virtio card")(std::io::ErrorKind::Unsupported.into()));
        }
        let page = (self.memory.bus() / PAGE as u64) as u32;
        self.write(reg::QUEUE_ADDRESS, &page.to_le_bytes())?;
        self.write(reg::DEVICE_STATUS, &[STATUS[2]])
    }

    /// Shows the card how many frames it has been offered.
    fn offer(&self) {
        let word = &self.memory.words()[AVAILABLE / 8];
        let entries = u64::from_le(word.load(Ordering::Relaxed)) & !0xffff_ffff;
        fence(Ordering::Release);
        word.store((entries | u64::from(self.offered) << 16 | NO_INTERRUPT).to_le(), Ordering::Relaxed);
    }

    /// Makes the card begin: its timer starts.
    fn notify(&self) -> Result<(), Error> {
        self.write(reg::QUEUE_NOTIFY, &TRANSMIT.to_le_bytes())
    }

    /// Frames sent since the last call.
    fn count(&mut self) -> u16 {
        let used = u64::from_le(self.memory.words()[USED / 8].load(Ordering::Relaxed)) >> 16;
        fence(Ordering::Acquire);
        let since = (used as u16).wrapping_sub(self.sent);
        self.sent = used as u16;
        since
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // It must not touch memory that is about to be freed. Failures cannot be reported.
        let _ = self.write(reg::DEVICE_STATUS, &[0]);
        let _ = self.config.command(COMMAND_MASTER, 0);
    }
}

/// The frames that a source has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames.
    pub frames: u64,
    /// How often a queue was found empty: the pace was not kept then.
    pub starved: u64,
    /// How often the queues were refilled.
    pub refills: u64,
    /// CPU time of this process meanwhile.
    pub cpu: Duration,
}

impl fmt::Display for Sent {
    /// One line: "frames 1000, starved 0, refills 7, cpu_ns 1234".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, starved, refills, cpu } = self;
        write!(f, "frames {frames}, starved {starved}, refills {refills}, cpu_ns {}", cpu.as_nanos())
    }
}

/// Cards that send copies of one frame.
pub struct Source {
    cards: Vec<Card>,
    // The cards' memory is part of it.
    _domain: Domain,
}

impl Source {
    /// Takes the cards, which no driver may have. `frame` is without FCS.
    ///
    /// # Errors
    /// A card that does not exist or that another process uses; no memory for its queue.
    pub fn open(addresses: &[Address], frame: &[u8]) -> Result<Self, Error> {
        let bytes = (FRAME + PAGE * (1 + frame.len() / PAGE)) * addresses.len();
        let (system, domain) = (System::host(), Domain::new(Backend::Uio, bytes)?);
        let open = |address: &Address| Card::open(&system, &domain, *address, frame);
        Ok(Self { cards: addresses.iter().map(open).collect::<Result<_, _>>()?, _domain: domain })
    }

    /// Sends while `go_on` returns true. Each card begins `apart` after the one before. The queues are
    /// refilled when half of them was used, but after `refill` at the latest.
    ///
    /// # Errors
    /// If a card's registers cannot be accessed.
    pub fn run(
        &mut self,
        apart: Duration,
        refill: Duration,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Sent, Error> {
        let since = Instant::now();
        for (index, card) in (0..).zip(&mut self.cards) {
            card.offered = QUEUE_SLOTS;
            card.offer();
            // Its turn is exact only if no other thread gets the CPU before.
            while since.elapsed() < apart * index {
                std::hint::spin_loop();
            }
            card.notify()?;
        }
        let mut sent = Sent::default();
        let cpu = || crate::cpu_time().map_or(Duration::ZERO, |used| used.user + used.system);
        let cpu_before = cpu();
        let mut pause = SHORTEST.min(refill);
        let half = self.cards.len() as u64 * u64::from(QUEUE_SLOTS) / 2;
        while go_on() {
            std::thread::sleep(pause);
            let before = sent.frames;
            sent.refills += 1;
            for card in &mut self.cards {
                let count = card.count();
                sent.frames += u64::from(count);
                card.offered = card.offered.wrapping_add(count);
                card.offer();
                if count == QUEUE_SLOTS {
                    sent.starved += 1;
                    card.notify()?;
                }
            }
            let used = u32::try_from(sent.frames - before).unwrap_or(u32::MAX);
            // Never more than twice as long as before: the pace may be that of who receives.
            let next = (pause * u32::try_from(half).unwrap_or(u32::MAX)).checked_div(used);
            pause = next.unwrap_or(2 * pause).min(2 * pause).max(SHORTEST).min(refill);
        }
        // Stopped before they are counted: none of their frames is missing in the sum.
        for card in &self.cards {
            card.write(reg::DEVICE_STATUS, &[0])?;
        }
        sent.frames += self.cards.iter_mut().map(|card| u64::from(card.count())).sum::<u64>();
        sent.cpu = cpu() - cpu_before;
        Ok(sent)
    }
}
