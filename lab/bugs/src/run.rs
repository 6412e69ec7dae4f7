//! Brings the card up and serves it until the machine is turned off.

use crate::bugs::{Mode, Place, Plant};
use crate::memory::Pool;
use crate::ours::{BURST, Ours};
use crate::pci::{self, Card};
use crate::plain::Plain;
use crate::platform::Guest;
use crate::serial::Input;
use crate::shim::Shim;
use crate::{arch, net, println};
use alloc::boxed::Box;
use kpps_datasheet::bit::{cause, rctl, status, tctl};
use kpps_datasheet::reg;
use kpps_driver::config::{Completion, FlowControl, RxFormat};
use kpps_driver::{Causes, Config, Control, Device, Error, Health, probe};
use kpps_platform::Registers;

/// How often the link is checked without an interrupt, and the queues are looked after.
const CHECK_NS: u64 = 1_000_000_000;
/// Interrupts without a cause in a row after which a driver with that bug gives up.
const MOST_SPURIOUS: u32 = 10;
/// How long a driver with that bug waits for the interrupt of a sent frame.
const AWAITED_NS: u64 = 20_000_000;
/// Packet buffers: both rings full, and those on their way between them.
const BUFFERS: usize = 600;

/// A receive and a transmit queue.
pub trait Queues {
    /// Sends a frame.
    fn send(&mut self, frame: &[u8]);
    /// Takes at most `most` frames and sends the answers. Returns the number of frames. `interrupted` says
    /// that the card has interrupted for received frames.
    fn poll(
        &mut self,
        most: usize,
        interrupted: bool,
        answer: &mut dyn FnMut(&mut [u8], usize) -> Option<usize>,
    ) -> usize;
}

/// The running guest.
struct Running {
    mode: Mode,
    card: Card,
    regs: Shim,
    control: Control<Guest>,
    /// The queues of kpps.
    ours: Box<Ours>,
    /// The queues of this guest, if they are used in their place.
    plain: Option<Box<Plain>>,
    /// When the next check is due.
    check_ns: u64,
    /// Interrupts in a row for which ICR was 0.
    spurious: u32,
    /// STATUS without LU when the link came up.
    status: Option<u32>,
    /// A driver with that bug takes the link for lost.
    is_taken_for_lost: bool,
}

/// Runs on the first card; returns only if there is none, or it does not respond.
pub fn run(mode: Mode) {
    match start(mode) {
        None => println!("no card"),
        Some(Err(error)) => println!("the card does not start: {error}"),
        Some(Ok(mut running)) => {
            let error = running.serve();
            println!("the card is gone: {error}");
        }
    }
}

fn start(mode: Mode) -> Option<Result<Running, Error>> {
    let card = pci::find()?;
    card.enable(!mode.has(Plant::BusMasterForgotten));
    let regs = Shim::new(card.registers, mode);
    // The rings are polled, so a lost interrupt needs no rescue. PAUSE frames are obeyed.
    let policy = Config { rescue: false, flow_control: FlowControl::Receive, ..Config::kpps() };
    let config = match mode.place {
        // The driver starts the card, but its queues are not used.
        Place::Queues => Config {
            rx_ring: 8,
            tx_ring: 8,
            completion: Completion { report_every: 1, ..policy.completion },
            rx_format: RxFormat::Legacy,
            ..policy
        },
        // So short that a burst overruns it.
        Place::Loop if mode.has(Plant::DeadAfterOverrun) => Config { rx_ring: 8, ..policy },
        Place::Registers | Place::Loop => policy,
    };
    let device = probe(Guest(regs.clone()), card.chip, config, Pool::new(BUFFERS, 2048));
    Some(device.map(|Device { control, rx, tx }| Running {
        plain: (mode.place == Place::Queues).then(|| Box::new(Plain::start(regs.clone(), mode))),
        ours: Box::new(Ours::new(rx, tx)),
        mode,
        card,
        regs,
        control,
        check_ns: 0,
        spurious: 0,
        status: None,
        is_taken_for_lost: false,
    }))
}

impl Running {
    /// Serves the card until it is gone.
    fn serve(&mut self) -> Error {
        let mut begun = false;
        let mut input = Input::default();
        loop {
            match self.turn(begun) {
                Ok(true) => {}
                Ok(false) => arch::idle(),
                Err(error) => return error,
            }
            if !begun && self.control.link().up {
                begun = true;
                self.begin();
            }
            if let Some("off") = input.poll().as_deref() {
                arch::power_off();
            }
        }
    }

    /// The queues in use.
    fn queues(&mut self) -> &mut dyn Queues {
        match &mut self.plain {
            Some(plain) => &mut **plain,
            None => &mut *self.ours,
        }
    }

    /// The first frame, once the link is up.
    fn begin(&mut self) {
        if let (Some(Plant::RingChanged), Some(plain)) = (self.mode.plant, &mut self.plain) {
            plain.restart();
        }
        self.control.unmask();
        if self.mode.has(Plant::ReportAwaited) {
            self.regs.write(reg::IMS, cause::TXDW);
        }
        let question = net::ask(self.control.address());
        self.queues().send(&question);
        println!("ready");
    }

    /// One turn of the loop; whether there was anything to do.
    fn turn(&mut self, begun: bool) -> Result<bool, Error> {
        let causes = self.interrupt()?;
        let mut busy = causes.any() || self.mode.has(Plant::IcrWithoutEnd);
        let most = match self.mode.plant {
            _ if !begun || self.is_taken_for_lost => 0,
            Some(Plant::StaysMasked) if !causes.receive() => 0,
            Some(Plant::OneFrame) => usize::from(causes.receive()),
            _ => BURST,
        };
        if most > 0 {
            let (station, whole) = (self.control.address(), self.mode.has(Plant::FcsCounted));
            let mut is_sent = false;
            let mut answer = |frame: &mut [u8], bytes| {
                let length = net::answer(frame, bytes, station, whole);
                is_sent |= length.is_some();
                length
            };
            busy |= self.queues().poll(most, causes.receive(), &mut answer) > 0;
            if is_sent && self.mode.has(Plant::ReportAwaited) {
                self.await_report()?;
            }
        }
        let due = arch::now_ns() >= self.check_ns;
        if due || self.control.take_link_event() {
            self.check(due)?;
        }
        Ok(busy)
    }

    /// Reads the causes of an interrupt, if the card's line is raised.
    fn interrupt(&mut self) -> Result<Causes, Error> {
        let raised = match self.mode.plant {
            Some(Plant::IcrNeverRead) => false,
            Some(Plant::IcrWithoutEnd) => true,
            _ => self.card.line.is_raised(),
        };
        if !raised {
            return Ok(Causes(0));
        }
        let causes = self.control.causes()?;
        self.spurious = if causes.0 == 0 { self.spurious + 1 } else { 0 };
        if self.mode.has(Plant::DeadAfterSpurious) && self.spurious == MOST_SPURIOUS {
            println!("spurious interrupts");
            self.regs.modify(reg::RCTL, rctl::EN, 0);
        }
        if self.mode.has(Plant::StaysMasked) && causes.any() {
            self.control.mask();
        }
        if self.mode.has(Plant::DeadAfterOverrun) && causes.0 & cause::RXO != 0 {
            self.regs.modify(reg::RCTL, rctl::EN, 0);
        }
        Ok(causes)
    }

    /// Waits for the interrupt of a sent frame, as a driver with that bug does.
    fn await_report(&mut self) -> Result<(), Error> {
        let end = arch::now_ns() + AWAITED_NS;
        while arch::now_ns() < end {
            if self.interrupt()?.0 & cause::TXDW != 0 {
                return Ok(());
            }
        }
        println!("a frame is not sent");
        self.regs.modify(reg::TCTL, tctl::EN, 0);
        Ok(())
    }

    /// Checks the link, and with `all` also whether the queues proceed.
    fn check(&mut self, all: bool) -> Result<(), Error> {
        let before = self.control.link();
        let now = arch::now_ns();
        if all {
            self.check_ns = now + CHECK_NS;
        }
        // Bugs of the loop, and of queues as a hobby kernel has them, have no watchdog that would hide them.
        let has_watchdog = self.mode.plant.is_none() || self.mode.place == Place::Registers;
        if all && has_watchdog {
            self.look_after(now)?
        } else {
            self.control.update_link().map(drop)?
        }
        let after = self.control.link();
        if self.mode.has(Plant::StatusCompared) && after.up {
            let now = self.regs.read(reg::STATUS) & !status::LU;
            if *self.status.get_or_insert(now) != now {
                println!("STATUS changed");
                self.regs.modify(reg::TCTL, tctl::EN, 0);
            }
        }
        let has_no_speed = || self.regs.read(reg::STATUS) & status::SPEED_MASK == 0;
        self.is_taken_for_lost = self.mode.has(Plant::SpeedZeroIsDown) && after.up && has_no_speed();
        if before.up != after.up {
            println!("link {}", if after.up { "up" } else { "down" });
            if !after.up && self.mode.has(Plant::DeadAfterLinkFlap) {
                self.regs.modify(reg::TCTL, tctl::EN, 0);
            }
        }
        Ok(())
    }

    /// Checks the link, and resets the card if a queue does not proceed.
    fn look_after(&mut self, now: u64) -> Result<(), Error> {
        let Self { control, plain, ours, regs, .. } = self;
        let progress = match plain {
            Some(plain) => plain.progress(),
            None => ours.tx.look_after(),
        };
        let is_hung = control.watchdog(now, progress)? == Health::Hung;
        if !is_hung && (plain.is_some() || !control.has_lost_receiver(&mut ours.rx)?) {
            return Ok(());
        }
        println!("reset");
        if plain.is_some() {
            regs.hold();
        }
        control.reset(&mut ours.rx, &mut ours.tx)?;
        if let Some(plain) = plain {
            plain.begin();
        }
        control.unmask();
        Ok(())
    }
}
