//! A card for a driver in this process.

use crate::error::Error;
use crate::findings::Findings;
use crate::options::Options;
use crate::platform::CardPlatform;
use crate::state::{Shared, ps};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::window::Window;
use kpps_audit::{Access, Breach, Cards, Counts, Partner, Severity};
use kpps_linux::SharedMemory;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The alignment that all memory has, in bytes: a page.
const PAGE: usize = 4096;
/// Seconds after which all rules have judged that wait: they wait for five.
const JUDGED_S: u32 = 6;
/// The time until an interrupt handler runs again that has left the interrupt asserted.
const AGAIN_PS: u64 = 10_000_000;

/// Memory that driver and card share.
///
/// It is valid as long as a handle of the card lives, and until [`Card::free`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    address: usize,
    device: u64,
    bytes: usize,
}

impl Dma {
    /// Its first byte.
    pub fn pointer(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    /// The address at which the driver sees it.
    pub fn address(&self) -> usize {
        self.address
    }

    /// The address at which the card sees it.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The parts of a card that end with its last handle.
struct Inner {
    shared: Arc<Shared>,
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    window: Mutex<Option<Window>>,
    memory: Mutex<Vec<(Dma, SharedMemory)>>,
}

/// A model of a card. A handle: clones are the same card. Threads may share it.
#[derive(Clone)]
pub struct Card(Arc<Inner>);

impl Card {
    /// A card after power-up, with a cable.
    ///
    /// # Errors
    /// [`Error::Chip`], [`Error::Bus`]; [`Error::System`] if there is no `/proc`, for
    /// [`Reach::Process`](crate::Reach::Process), or no thread for [`Clock::Host`](crate::Clock::Host).
    pub fn new(options: Options) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner {
            shared: Shared::new(&options)?,
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            window: Mutex::new(None),
            memory: Mutex::new(Vec::new()),
        })))
    }

    // ---- Registers ----

    /// The address of the card's registers: 128 KiB below 2 GiB, aligned to 128 KiB. Each access traps, and
    /// the model executes it. All calls return the same address, and BAR 0 has it after the first one.
    ///
    /// The instructions that compilers make of volatile and atomic accesses to integers work. Any other
    /// instruction, such as one of a copy of several registers, ends the process with its text.
    ///
    /// # Errors
    /// [`Error::NoWindow`] unless this is Linux on x86-64; [`Error::System`].
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    pub fn window(&self) -> Result<*mut u8, Error> {
        let mut window = self.0.window.lock().unwrap_or_else(PoisonError::into_inner);
        let window = match &mut *window {
            Some(window) => window,
            none => none.insert(Window::new(&self.0.shared)?),
        };
        Ok(std::ptr::with_exposed_provenance_mut(window.address()))
    }

    /// The address of the card's registers.
    ///
    /// # Errors
    /// [`Error::NoWindow`]: it needs Linux on x86-64.
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    pub fn window(&self) -> Result<*mut u8, Error> {
        Err(Error::NoWindow)
    }

    /// Reads the register at `offset` in bytes.
    pub fn read32(&self, offset: u32) -> u32 {
        let mut value = [0; 4];
        self.read(offset, &mut value);
        u32::from_le_bytes(value)
    }

    /// Writes the register at `offset` in bytes.
    pub fn write32(&self, offset: u32, value: u32) {
        self.write(offset, &value.to_le_bytes());
    }

    /// Reads bytes of registers with one access of that size. A size other than 4 breaks the rule `width`,
    /// except for pairs of registers.
    pub fn read(&self, offset: u32, into: &mut [u8]) {
        self.0.shared.lock().load(Access::Registers, offset.into(), into);
    }

    /// Writes bytes of registers with one access of that size.
    pub fn write(&self, offset: u32, from: &[u8]) {
        self.0.shared.lock().store(Access::Registers, offset.into(), from);
    }

    /// Reads the configuration space.
    pub fn configuration_read(&self, offset: u8, into: &mut [u8]) {
        self.0.shared.lock().load(Access::Configuration, offset.into(), into);
    }

    /// Writes to the configuration space. A new address in BAR 0 does not move the window.
    pub fn configuration_write(&self, offset: u8, from: &[u8]) {
        self.0.shared.lock().store(Access::Configuration, offset.into(), from);
    }

    /// Reads 32 bits of the I/O space: IOADDR at 0, IODATA at 4 (SDM 13.2.2.1).
    pub fn io_read32(&self, offset: u32) -> u32 {
        let mut value = [0; 4];
        self.0.shared.lock().load(Access::Window, offset.into(), &mut value);
        u32::from_le_bytes(value)
    }

    /// Writes 32 bits of the I/O space.
    pub fn io_write32(&self, offset: u32, value: u32) {
        self.0.shared.lock().store(Access::Window, offset.into(), &value.to_le_bytes());
    }

    /// A platform for drivers on the traits of `kpps-platform`, with `bytes` of memory for rings and buffers.
    ///
    /// # Errors
    /// [`Error::System`] if there is no such memory.
    pub fn platform(&self, bytes: usize) -> Result<CardPlatform, Error> {
        CardPlatform::new(self.0.shared.clone(), bytes)
    }

    // ---- Memory ----

    /// `bytes` of zeros for driver and card. `align` is in bytes; all memory is aligned to pages of 4096
    /// bytes. On x86-64 the address is below 2 GiB, and the card sees the memory at the same address as the
    /// driver.
    ///
    /// # Errors
    /// [`Error::Memory`], and [`Error::System`] if there is no room.
    pub fn memory(&self, bytes: usize, align: usize) -> Result<Dma, Error> {
        self.allocate(bytes, align, None)
    }

    /// As [`Self::memory`], but the card sees it at `device`. If no address of the card is one of the driver,
    /// a driver that confuses them breaks the rule `dma-to-nowhere`.
    ///
    /// # Errors
    /// As those of [`Self::memory`]; [`Error::Overlap`].
    pub fn memory_at(&self, device: u64, bytes: usize) -> Result<Dma, Error> {
        self.allocate(bytes, 1, Some(device))
    }

    fn allocate(&self, bytes: usize, align: usize, device: Option<u64>) -> Result<Dma, Error> {
        let wrong = Error::Memory { bytes, align };
        let room =
            bytes.checked_add(align.saturating_sub(PAGE)).filter(|_| bytes > 0 && align.is_power_of_two());
        let file =
            SharedMemory::new(room.ok_or(wrong)?).map_err(Error::system("mapping memory for a card"))?;
        let address = file.address().next_multiple_of(align);
        let dma = Dma { address, device: device.unwrap_or(address as u64), bytes };
        let mut memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let end = |it: &Dma| it.device.saturating_add(it.bytes as u64);
        if memory.iter().any(|(it, _)| it.device < end(&dma) && dma.device < end(it)) {
            return Err(Error::Overlap { device: dma.device });
        }
        let of_card = file.file().try_clone().map_err(Error::system("sharing memory with a card"))?;
        let within = (address - file.address()) as u64;
        self.0.shared.lock().map(dma.device, bytes as u64, of_card, within);
        memory.push((dma, file));
        Ok(dma)
    }

    /// Takes memory away from driver and card. A card that still uses it breaks the rule `dma-to-nowhere`.
    pub fn free(&self, dma: Dma) {
        let mut memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = memory.iter().position(|(it, _)| *it == dma) {
            self.0.shared.lock().cards().unmap(0, Some((dma.device, dma.bytes as u64)));
            memory.remove(at);
        }
    }

    // ---- Time and interrupts ----

    /// The card's time since its power-up.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.shared.lock().now_ps() / 1000)
    }

    /// Lets time pass for the card: for a driver's own delays, and until something has happened.
    pub fn advance(&self, time: Duration) {
        self.0.shared.lock().advance(ps(time));
    }

    /// Whether the card asserts its interrupt: the line, or the condition for which it sends a message. The
    /// test is the interrupt controller: nothing calls the driver by itself.
    pub fn interrupt_is_asserted(&self) -> bool {
        self.0.shared.lock().cards().interrupt_is_asserted(0)
    }

    /// Lets time pass, and calls `handler`, the driver's interrupt handler, whenever the card asserts its
    /// interrupt: again after 10 µs if the handler leaves it asserted. Returns the number of calls.
    pub fn serve(&self, time: Duration, mut handler: impl FnMut()) -> u64 {
        let until_ps = {
            let mut state = self.0.shared.lock();
            state.now_ps().saturating_add(ps(time))
        };
        let mut calls = 0;
        loop {
            let is_asserted = self.0.shared.lock().run_until_interrupt(until_ps);
            if !is_asserted {
                return calls;
            }
            calls += 1;
            // The handler accesses the card, which must be free.
            handler();
            let mut state = self.0.shared.lock();
            if state.cards().interrupt_is_asserted(0) {
                state.advance(AGAIN_PS);
            }
            if state.now_ps() >= until_ps {
                return calls;
            }
        }
    }

    // ---- The cable ----

    /// Sends a frame to the driver, without FCS. A frame of fewer than 60 bytes is padded with zeros. While
    /// the link is down the frame waits. It arrives as time passes.
    pub fn send(&self, frame: &[u8]) {
        self.put(frame, true);
    }

    /// As [`Self::send`], with a wrong FCS.
    pub fn send_damaged(&self, frame: &[u8]) {
        self.put(frame, false);
    }

    fn put(&self, frame: &[u8], good_fcs: bool) {
        let mut state = self.0.shared.lock();
        let now_ps = state.now_ps();
        self.0.shared.line.send(now_ps, frame, good_fcs);
    }

    /// Takes the frames that the driver has sent since the last call, without FCS, as far as they have left
    /// the card. A frame with a wrong FCS is not among them: see [`Counts::sent_bad_fcs`].
    pub fn received(&self) -> Vec<Vec<u8>> {
        self.0.shared.line.received()
    }

    /// Connects a station to the cable, such as a [`responder::Handle`](kpps_audit::responder::Handle), which
    /// answers ARP, ping, DHCP and more. It gets all frames of the driver. It must not access the card.
    pub fn attach(&self, station: impl Partner + 'static) {
        self.0.shared.line.attach(Some(Box::new(station)));
    }

    /// Plugs the cable in or out.
    pub fn set_link(&self, is_up: bool) {
        let mut state = self.0.shared.lock();
        let now_ps = state.now_ps();
        state.cards().set_link(0, now_ps, is_up);
        state.run_until(now_ps);
    }

    /// Does something with the model at the time now, in ps; the card's number is 0. Here are the faults,
    /// such as [`Cards::set_slow_reset`]. `what` must not access the card by other ways.
    pub fn with<T>(&self, what: impl FnOnce(&mut Cards, u64) -> T) -> T {
        let mut state = self.0.shared.lock();
        let now_ps = state.now_ps();
        what(state.cards(), now_ps)
    }

    // ---- Results ----

    /// Accesses, bursts, frames and interrupts since power-up.
    pub fn counts(&self) -> Counts {
        self.with(|cards, now_ps| cards.counts(now_ps))
    }

    /// The rules that were broken so far. Rules that wait five seconds have judged only if that time has
    /// passed: [`Self::final_findings`].
    pub fn findings(&self) -> Findings {
        Findings::new(self.with(|cards, _| cards.breaches()))
    }

    /// The rules that were broken, at the end of a test. Lets six seconds pass for the rules that judge a
    /// set-up. Nobody calls the driver in this time, so a rule about its service counts only if it was broken
    /// before.
    pub fn final_findings(&self) -> Findings {
        let before = self.findings();
        // The time of a finding is the end of a step.
        (0..JUDGED_S).for_each(|_| self.advance(Duration::from_secs(1)));
        let is_known =
            |it: &Breach| before.all().iter().any(|old| (old.rule, &old.register) == (it.rule, &it.register));
        let mut breaches = self.with(|cards, _| cards.breaches());
        breaches.retain(|it| it.rule.is_of_set_up() || is_known(it));
        Findings::new(breaches)
    }

    /// Ends a test: no rule of severity *must* may be broken ([`Self::final_findings`]).
    ///
    /// # Panics
    /// With the broken rules as text.
    #[track_caller]
    pub fn assert_no_must(&self) {
        let findings = self.final_findings().of(Severity::Must);
        assert!(findings.is_empty(), "the driver breaks rules of the card's manual:\n{findings}");
    }
}
