//! The kinds of faults, and the dice that decide when one happens.
//!
//! Each kind has a rate of its own and random numbers of its own: without one kind, the numbers of the others
//! stay the same. So a failure can be made smaller by leaving kinds out.

use crate::check::Check;
use fastrand::Rng;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// Where a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// In the card.
    Device,
    /// On the bus or in memory.
    Bus,
    /// In the host's processor or operating system.
    Host,
    /// On the cable.
    Wire,
    /// In the actions of the machine's operator.
    Operator,
}

/// The harm that a fault may do to frames, besides loss and delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Nothing: every frame arrives once and unchanged, or is lost.
    Loss,
    /// The card writes false information into memory. Until the next proof, frames may come twice, with wrong
    /// contents, or into memory that the driver has taken back.
    Lies,
}

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal $site:ident $harm:ident,)+) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Fault {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its name on screens.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Where it happens.
            pub const fn site(self) -> Site {
                match self { $(Self::$name => Site::$site,)+ }
            }

            /// The harm that it may do to frames.
            pub const fn harm(self) -> Harm {
                match self { $(Self::$name => Harm::$harm,)+ }
            }
        }
    };
}

faults! {
    /// An interrupt does not reach the host.
    InterruptLost "interrupt lost" Device Loss,
    /// An interrupt without a cause, as from another device on the same line.
    InterruptSpurious "interrupt without cause" Device Loss,
    /// An interrupt that comes up to 5 ms late.
    InterruptLate "interrupt late" Device Loss,
    /// A receive descriptor is written back up to 200 µs late, possibly after later ones.
    WriteBackLate "write-back late" Device Loss,
    /// A receive descriptor is written back a second time, up to 200 µs later.
    WriteBackTwice "write-back twice" Device Lies,
    /// A receive descriptor is never written back.
    WriteBackLost "write-back lost" Device Loss,
    /// A receive descriptor has the length 0.
    LengthZero "length 0" Device Loss,
    /// A receive descriptor has the length 65,535.
    LengthHuge "length 65535" Device Loss,
    /// Reserved bits of a receive descriptor are set.
    ReservedBits "reserved bits" Device Loss,
    /// A receive descriptor is written into another slot of the ring.
    WrongSlot "wrong slot" Device Lies,
    /// A receive descriptor is written before the frame, which comes up to 50 µs later.
    DoneBeforeData "done before data" Device Lies,
    /// A transmit descriptor is reported up to 200 µs late.
    ReportLate "report late" Device Loss,
    /// A transmit descriptor is never reported.
    ReportLost "report lost" Device Loss,
    /// The card's receive head (RDH) jumps.
    ReceiveHeadJumps "RDH jumps" Device Lies,
    /// The card's transmit head (TDH) jumps.
    TransmitHeadJumps "TDH jumps" Device Lies,
    /// A register reads as the same value for up to 20 ms.
    RegisterStuck "register stuck" Device Loss,
    /// All registers read as all ones for up to 20 ms; writes get through.
    AllOnes "all ones for a while" Device Loss,
    /// One read returns all ones.
    OneRead "one read of all ones" Device Loss,
    /// The receiver or the transmitter is switched off behind the driver's back.
    SwitchedOff "switched off" Device Loss,
    /// Another agent changes a register between the driver's read and its write.
    RegisterChanges "register changes" Device Loss,
    /// The bus accepts nothing for a millisecond while a burst at line rate arrives.
    FifoOverrun "FIFO overrun" Device Loss,
    /// The PHY does not answer for up to 20 ms.
    PhySilent "PHY silent" Device Loss,
    /// The EEPROM does not answer for up to 20 ms.
    EepromSilent "EEPROM silent" Device Loss,
    /// The card is reset behind the driver's back.
    HotReset "hot reset" Device Loss,
    /// The card vanishes for up to 100 ms and comes back as after power-up.
    Removal "surprise removal" Device Loss,

    /// A transfer of the card ends in a master abort: its write is lost.
    MasterAbort "master abort" Bus Lies,
    /// The bus does not accept a transfer for up to 5 ms.
    TargetRetry "target retry" Bus Loss,
    /// There is no memory for buffers for up to 1 ms.
    NoBuffers "no buffers" Bus Loss,
    /// There is no memory for a ring.
    NoRingMemory "no ring memory" Bus Loss,

    /// Another device on the interrupt line holds it for up to 1 ms.
    LineShared "line shared" Host Loss,
    /// The interrupt handler begins up to 5 ms late.
    HandlerLate "handler late" Host Loss,
    /// The driver gets no processor for up to 20 ms.
    Starved "driver starved" Host Loss,
    /// The clock jumps forward by up to 3 s.
    ClockStep "clock step" Host Loss,
    /// A poll may take three frames at most.
    PollCut "poll cut short" Host Loss,

    /// A frame is lost on the cable.
    FrameLost "frame lost" Wire Loss,
    /// A frame comes twice.
    FrameTwice "frame twice" Wire Loss,
    /// A frame has a wrong checksum.
    FrameCorrupt "frame corrupt" Wire Loss,
    /// A frame comes after the next one.
    FrameLater "frame reordered" Wire Loss,
    /// A frame of less than 64 bytes.
    Runt "runt" Wire Loss,
    /// A frame that is longer than allowed.
    Giant "giant" Wire Loss,
    /// A hundred PAUSE frames.
    PauseStorm "PAUSE storm" Wire Loss,
    /// A frame with wrong contents above Ethernet.
    Malformed "malformed" Wire Loss,
    /// The cable is unplugged for up to 50 ms.
    LinkFlap "link flap" Wire Loss,

    /// The link partner offers another speed.
    SpeedChange "speed change" Wire Loss,

    /// The operator resets the device.
    Restart "restart" Operator Loss,
    /// The operator takes the driver away and starts it with other rings.
    OtherRings "other rings" Operator Loss,
    /// The operator changes the moderation of interrupts.
    OtherModeration "other moderation" Operator Loss,
    /// The operator changes address filters, and changes them back.
    OtherFilters "other filters" Operator Loss,
    /// The operator stops the device and starts it again after up to 5 ms.
    StopStart "stop and start" Operator Loss,
}

impl Fault {
    /// The number of kinds.
    pub const COUNT: usize = Self::ALL.len();

    /// How many opportunities there are, about, for each fault of this kind.
    pub(crate) const fn rarity(self) -> u32 {
        match self.site() {
            Site::Operator => 300,
            _ => match self {
                // In each interrupt, poll, read of a register.
                Self::InterruptLost | Self::InterruptLate | Self::HandlerLate => 100,
                Self::PollCut => 20,
                Self::OneRead => 400,
                // In each write after a read of the same register, which is while a device starts.
                Self::RegisterChanges => 20,
                Self::NoRingMemory => 4,
                // In each tick.
                Self::InterruptSpurious | Self::NoBuffers | Self::ClockStep => 50,
                Self::RegisterStuck | Self::AllOnes | Self::PhySilent | Self::EepromSilent => 200,
                Self::ReceiveHeadJumps | Self::TransmitHeadJumps => 300,
                Self::SwitchedOff | Self::HotReset | Self::Removal | Self::LinkFlap => 300,
                Self::SpeedChange | Self::FifoOverrun => 300,
                Self::Starved | Self::PauseStorm | Self::LineShared => 100,
                // In each frame or descriptor.
                _ => 300,
            },
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Decides when faults happen, and counts them.
pub(crate) struct Dice {
    /// One in this many opportunities; 0: never.
    rarity: [u32; Fault::COUNT],
    random: RefCell<Vec<Rng>>,
    /// Faults happen now.
    active: Cell<bool>,
    /// The remaining number of faults.
    left: Cell<u64>,
    fired: [Cell<u64>; Fault::COUNT],
    check: Rc<Check>,
}

impl Dice {
    /// Dice for `seed`. At most `most` faults happen; each is reported to `check`.
    pub(crate) fn new(seed: u64, rarity: [u32; Fault::COUNT], most: u64, check: &Rc<Check>) -> Self {
        let random = (0..Fault::COUNT as u64).map(|kind| Rng::with_seed(seed ^ (kind + 1) << 32)).collect();
        Self {
            rarity,
            random: RefCell::new(random),
            active: Cell::new(false),
            left: Cell::new(most),
            fired: [const { Cell::new(0) }; Fault::COUNT],
            check: check.clone(),
        }
    }

    /// Lets faults happen from now on, or no longer.
    pub(crate) fn activate(&self, active: bool) {
        self.active.set(active);
    }

    /// Whether faults can happen now.
    pub(crate) fn is_active(&self) -> bool {
        self.active.get()
    }

    /// An opportunity for this fault: whether it happens.
    #[inline]
    pub(crate) fn throws(&self, fault: Fault) -> bool {
        self.active.get() && self.rarity[fault as usize] != 0 && self.thrown(fault)
    }

    fn thrown(&self, fault: Fault) -> bool {
        let happens = self.random.borrow_mut()[fault as usize].u32(..self.rarity[fault as usize]) == 0;
        if !happens || self.left.get() == 0 {
            return false;
        }
        self.left.set(self.left.get() - 1);
        self.fired[fault as usize].set(self.fired[fault as usize].get() + 1);
        self.check.note(|| format!("fault: {fault}"));
        if fault.harm() == Harm::Lies {
            self.check.set_lied(true);
        }
        true
    }

    /// A random number below `end`, or 0, from the numbers of this fault.
    pub(crate) fn below(&self, fault: Fault, end: u64) -> u64 {
        self.random.borrow_mut()[fault as usize].u64(..end.max(1))
    }

    /// How often each kind happened so far.
    pub(crate) fn fired(&self) -> [u64; Fault::COUNT] {
        self.fired.each_ref().map(Cell::get)
    }
}
