//! Programs that send datagrams under FreeBSD, by their names.

use kpps_host::stack::freebsd::Program;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// The sleep of the old ttcp on a full queue, in microseconds, if no other is chosen.
const SLEEP_US: u64 = 1000;
/// The longest sleep.
const LONGEST_SLEEP_US: u64 = 1_000_000;
/// The rates of netsend, in datagrams per second.
const RATES: std::ops::RangeInclusive<f64> = 1.0..=1e9;

/// A program that sends datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendingProgram {
    /// The old ttcp, which sleeps when the transmit queue is full.
    #[serde(alias = "ttcp-old")]
    Ttcp,
    /// ttcp as Evans changed it: it tries again at once.
    TtcpNew,
    /// netblast, which sends the next datagram whether or not the last one was refused.
    Netblast,
    /// netsend, which sends at a rate.
    Netsend,
    /// A program that calls `select` when the queue is full.
    Selecting,
    /// A program that is woken when the queue has space again. No FreeBSD of the time could do this.
    Waiting,
}

impl SendingProgram {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Ttcp, Self::TtcpNew, Self::Netblast, Self::Netsend, Self::Selecting, Self::Waiting];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ttcp => "ttcp",
            Self::TtcpNew => "ttcp-new",
            Self::Netblast => "netblast",
            Self::Netsend => "netsend",
            Self::Selecting => "selecting",
            Self::Waiting => "waiting",
        }
    }

    /// The program with its sleep on a full queue and its rate in datagrams per second.
    ///
    /// # Errors
    /// netsend without a rate, or another program with one; a sleep of another program than the old ttcp, or
    /// too long a sleep.
    pub fn with(self, sleep_us: Option<u64>, pps: Option<f64>) -> Result<Program, String> {
        if pps.is_some() && self != Self::Netsend {
            return Err(format!("{self} sends as fast as it can: only netsend has a rate in pps"));
        }
        if sleep_us.is_some() && self != Self::Ttcp {
            return Err(format!("{self} does not sleep for a time on a full queue: only ttcp does"));
        }
        if sleep_us.is_some_and(|sleep_us| sleep_us > LONGEST_SLEEP_US) {
            return Err("ttcp sleeps for at most 1 s at a time".into());
        }
        Ok(match self {
            Self::Netsend => match pps {
                Some(pps) if RATES.contains(&pps) => Program::netsend(pps),
                _ => return Err("netsend needs a rate of 1 pps to 1 Gpps".into()),
            },
            Self::Ttcp => Program::ttcp_old(sleep_us.unwrap_or(SLEEP_US)),
            Self::TtcpNew => Program::TTCP_NEW,
            Self::Netblast => Program::NETBLAST,
            Self::Selecting => Program::SELECTING,
            Self::Waiting => Program::WAITING,
        })
    }
}

impl fmt::Display for SendingProgram {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SendingProgram {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|program| program.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("there is no sending program '{name}'; known are {known}")
        })
    }
}
