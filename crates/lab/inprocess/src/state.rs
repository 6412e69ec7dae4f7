//! The model with its clock, which the driver's threads, the test and the clock's thread share.

use crate::error::Error;
use crate::line::Line;
use crate::options::{Clock, Options, Reach};
use kpps_audit::{Access, Cable, Cards};
use kpps_card::Params;
use kpps_datasheet::Chip;
use kpps_profiles::{Kind, Profile};
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The longest that the clock's thread sleeps: as long as a card lives at most after its last handle.
const SLEEP: Duration = Duration::from_millis(1);
/// The offset of the PCI command register, and its bits for I/O, memory and bus master.
const COMMAND: u64 = 4;
const ENABLED: u8 = 0b111;
/// The offset of BAR 0.
const BAR0: u64 = 0x10;
/// The addresses of processes on 64-bit Linux.
const PROCESS_BYTES: u64 = 1 << 47;

/// A duration in ps. A duration of more than 213 days is cut.
pub(crate) fn ps(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)
}

/// The model of one card, at a time.
pub(crate) struct State {
    cards: Cards,
    line: Line,
    now_ps: u64,
    clock: Clock,
    /// When the host's clock showed 0 for the card. The test moves it into the past.
    since: Instant,
    /// The time that the test has added to that of the host.
    added_ps: u64,
}

impl State {
    /// The time now.
    pub(crate) fn now_ps(&mut self) -> u64 {
        if self.clock == Clock::Host {
            self.now_ps = self.now_ps.max(self.added_ps.saturating_add(ps(self.since.elapsed())));
        }
        self.now_ps
    }

    /// Runs everything up to `until_ps`. The line notices when the link goes up on the way.
    pub(crate) fn run_until(&mut self, until_ps: u64) {
        loop {
            let next_ps = self.cards.next_ps().max(self.now_ps).min(until_ps);
            self.cards.advance(next_ps);
            self.now_ps = next_ps;
            self.line.set_up(self.cards.link_and_receiver(0, next_ps).0);
            if self.cards.next_ps() > until_ps {
                break;
            }
        }
        self.cards.advance(until_ps);
        self.now_ps = self.now_ps.max(until_ps);
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, time_ps: u64) {
        let until_ps = self.now_ps().saturating_add(time_ps);
        self.added_ps = self.added_ps.saturating_add(time_ps);
        self.run_until(until_ps);
    }

    /// Lets the time of an access pass.
    fn access(&mut self) -> u64 {
        let until_ps = match self.clock {
            Clock::Accesses(time) => self.now_ps.saturating_add(ps(time)),
            Clock::Host => self.now_ps(),
        };
        self.run_until(until_ps);
        until_ps
    }

    /// The driver reads.
    pub(crate) fn load(&mut self, space: Access, offset: u64, into: &mut [u8]) {
        let now_ps = self.access();
        self.cards.read(0, now_ps, space, offset, into);
    }

    /// The driver writes.
    pub(crate) fn store(&mut self, space: Access, offset: u64, from: &[u8]) {
        let now_ps = self.access();
        self.cards.write(0, now_ps, space, offset, from);
    }

    /// Lets time pass until the card interrupts, `until_ps` at most. Returns whether it does.
    pub(crate) fn run_until_interrupt(&mut self, until_ps: u64) -> bool {
        loop {
            let now_ps = self.now_ps();
            if self.cards.interrupt_is_asserted(0) || now_ps >= until_ps {
                return self.cards.interrupt_is_asserted(0);
            }
            let next_ps = self.cards.next_ps().max(now_ps + 1).min(until_ps);
            self.advance(next_ps - now_ps);
        }
    }

    /// The model.
    pub(crate) fn cards(&mut self) -> &mut Cards {
        &mut self.cards
    }

    /// Gives the card memory.
    pub(crate) fn map(&mut self, device: u64, bytes: u64, file: File, offset: u64) {
        self.cards.map(0, device, bytes, file, offset);
    }

    /// Writes the address of the window where a driver would look for it. It is no access of the driver.
    pub(crate) fn set_base(&mut self, base: u32) {
        let now_ps = self.now_ps();
        self.cards.write(0, now_ps, Access::Configuration, BAR0, &base.to_le_bytes());
    }
}

/// A handle to the model. No call waits while it has the model, so a fault handler may wait for the model,
/// too: see `window`.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) line: Line,
}

impl Shared {
    /// A new card.
    ///
    /// # Errors
    /// Unknown chip or bus; `/proc` is not there.
    pub(crate) fn new(options: &Options) -> Result<Arc<Self>, Error> {
        if options.chip == Chip::I82542 || options.chip.is_pci_express() {
            return Err(Error::Chip(options.chip));
        }
        let bus: kpps_host::bus::Params = Profile::named(Kind::Bus, &options.bus)?.get()?;
        bus.check().map_err(Error::BadBus)?;
        let mut params = Params { link_ps: ps(options.link), ..Params::of(options.chip) };
        options.quirks.iter().for_each(|quirk| quirk.apply(&mut params));
        let mut cards = Cards::new(&params, &bus, &[(Cable::Open, options.mac)]);
        let line = Line::default();
        cards.attach(0, Box::new(line.clone()));
        if options.is_configured {
            cards.write(0, 0, Access::Configuration, COMMAND, &[ENABLED, 0]);
        }
        if options.reach == Reach::Process {
            let memory = File::options().read(true).write(true).open("/proc/self/mem");
            cards.map(0, 0, PROCESS_BYTES, memory.map_err(Error::system("opening /proc/self/mem"))?, 0);
        }
        let state = State {
            cards,
            line: line.clone(),
            now_ps: 0,
            clock: options.clock,
            since: Instant::now(),
            added_ps: 0,
        };
        let shared = Arc::new(Self { state: Mutex::new(state), line });
        if options.clock == Clock::Host {
            let weak = Arc::downgrade(&shared);
            let clock = std::thread::Builder::new().name("card".into()).spawn(move || tick(&weak));
            clock.map_err(Error::system("starting the card's clock"))?;
        }
        Ok(shared)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs timed events by the host's clock, until the card's last handle is gone.
fn tick(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let mut state = shared.lock();
        let now_ps = state.now_ps();
        state.run_until(now_ps);
        let ahead = Duration::from_nanos(state.cards.next_ps().saturating_sub(now_ps) / 1000);
        drop(state);
        drop(shared);
        std::thread::sleep(ahead.clamp(Duration::from_micros(10), SLEEP));
    }
}
