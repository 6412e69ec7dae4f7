//! The kinds of testbeds, and how long a trial takes on each.

use kpps_documents::lab::Clock;
use std::time::Duration;

/// Time under load before measuring begins, in ms: a slight overload fills a card's FIFO in that time.
pub const WARMUP_MS: u32 = 50;

/// How long a trial is measured by default: in virtual time, in guests on the clock of instructions, and in
/// real time. Virtual time passes fast but takes computing.
const VIRTUAL_TRIAL: Duration = Duration::from_millis(50);
const INSTRUCTIONS_TRIAL: Duration = Duration::from_millis(200);
const REAL_TRIAL: Duration = Duration::from_secs(1);

/// The kinds of testbeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The simulator.
    Simulator,
    /// Two ports.
    Ports,
    /// Guests in QEMU.
    Guests,
    /// A system whose rate is known.
    Known,
}

impl Kind {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simulator => "sim",
            Self::Ports => "ports",
            Self::Guests => "lab",
            Self::Known => "known",
        }
    }

    /// Time under load before measuring begins, in ms. On ports test frames have come through before.
    pub const fn warmup_ms(self) -> u32 {
        match self {
            Self::Simulator | Self::Guests => WARMUP_MS,
            Self::Ports | Self::Known => 0,
        }
    }

    /// How long a trial is measured by default; `clock` is that of guests.
    pub fn trial_time(self, clock: Clock) -> Duration {
        match self {
            Self::Simulator => VIRTUAL_TRIAL,
            Self::Guests if clock == Clock::Instructions => INSTRUCTIONS_TRIAL,
            _ => REAL_TRIAL,
        }
    }
}
