//! One functional suite for driver and device.
//!
//! The suite runs the driver of [`kpps_driver`], unchanged, on a [`Fixture`]: the model of [`kpps_card`],
//! QEMU's cards, which are an independent implementation, or a real card ([`run_real`]). It expects what the
//! manual says (SDM 317453). Frames and checksums come from an *oracle* that shares no code with driver and
//! model: `etherparse` and a segmenter of its own. A *rig* is the running driver on a fixture, from which
//! most cases start.
//!
//! A known difference between a device and the manual is a *departure*. The case names it and its reason
//! ([`Outcome::Departure`]), and checks that the device still behaves so. No case is skipped silently: if a
//! chip lacks a feature the outcome is [`Outcome::NotApplicable`], with the reason.
//!
//! ```
//! use kpps_datasheet::Chip;
//! let report = kpps_conformance::run(kpps_conformance::On::Model, Chip::I82540em, &mut |case| {
//!     println!("{case}");
//! })?;
//! assert!(report.is_good());
//! # Ok::<(), kpps_conformance::Error>(())
//! ```
#![forbid(unsafe_code)]

mod case;
mod cases;
mod departure;
mod document;
mod fixture;
mod model;
mod oracle;
mod place;
mod qemu;
mod raw;
mod real;
mod report;
mod rig;
#[cfg(test)]
mod self_check;
mod suite;

pub use case::Failure;
pub use departure::Departure;
pub use fixture::Fixture;
pub use model::{ModelFixture, ModelPlace, ModelRegisters};
pub use place::TestedCard;
pub use qemu::QemuFixture;
pub use real::{RealFixture, RealOptions, RealPlatform, RealRegisters};
pub use report::{Case, Counts, Outcome, Report};
pub use suite::{run_on, run_timed_on};

use kpps_datasheet::Chip;
use kpps_qemu::qtest::Timers;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The implementation of the card that the suite runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The model.
    Model,
    /// QEMU.
    Qemu,
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "model",
            Self::Qemu => "qemu",
        })
    }
}

/// No device has that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown device; known are model, qemu")]
pub struct UnknownDevice;

impl FromStr for On {
    type Err = UnknownDevice;
    fn from_str(name: &str) -> Result<Self, UnknownDevice> {
        [Self::Model, Self::Qemu].into_iter().find(|on| on.to_string() == name).ok_or(UnknownDevice)
    }
}

/// The suite could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// QEMU has no card with this chip.
    #[error("QEMU has no {0}; it has 82540em, 82544, 82545em, 82574l and 82576")]
    NoSuchCard(Chip),
    /// The model has no such chip.
    #[error("the model has no {0}: use QEMU's")]
    NotModelled(Chip),
    /// QEMU is not installed, or does not run.
    #[error(transparent)]
    Qemu(#[from] kpps_qemu::lab::Error),
    /// The card, or the interface at the other end of its cable, cannot be used.
    #[error("{0}")]
    Real(String),
    /// A system call of the model failed.
    #[error("the model: {0}")]
    Model(#[from] std::io::Error),
}

/// Runs the whole suite; `progress` gets each case as it ends.
///
/// # Errors
/// If there is no such card, or QEMU cannot run. Faults of a running card are in the report.
pub fn run(on: On, chip: Chip, progress: &mut dyn FnMut(&Case)) -> Result<Report, Error> {
    match on {
        On::Model if !Chip::E1000.contains(&chip) => Err(Error::NotModelled(chip)),
        On::Model => {
            let mut fixture = ModelFixture::new(chip)?;
            let mut report = run_on(&mut fixture, progress);
            report.cases.extend(run_timed_on(&mut fixture, progress).cases);
            Ok(report)
        }
        On::Qemu => {
            let model = qemu::model(chip).ok_or(Error::NoSuchCard(chip))?;
            let mut fixture = QemuFixture::start(chip, model, Timers::Immediate)?;
            let mut report = run_on(&mut fixture, progress);
            drop(fixture);
            let mut fixture = QemuFixture::start(chip, model, Timers::Wall)?;
            report.cases.extend(run_timed_on(&mut fixture, progress).cases);
            Ok(report)
        }
    }
}

/// Runs the whole suite on a card through VFIO or UIO; `progress` gets each case as it ends.
///
/// # Errors
/// If card or peer cannot be opened. Faults of an open card are in the report.
pub fn run_real(options: &RealOptions, progress: &mut dyn FnMut(&Case)) -> Result<Report, Error> {
    let mut fixture = RealFixture::open(options).map_err(|failure| Error::Real(failure.0))?;
    let mut report = run_on(&mut fixture, progress);
    report.cases.extend(run_timed_on(&mut fixture, progress).cases);
    Ok(report)
}

/// Runs the whole suite on `tested`; `progress` gets each case as it ends. `beside` is for a real card: the
/// interface at the other end of its cable, and the file that controls the cable.
///
/// # Errors
/// As [`run`] and [`run_real`]; and if a card lacks its interface, or something else has one.
pub fn run_at(
    tested: &TestedCard,
    chip: Chip,
    beside: (Option<&str>, Option<PathBuf>),
    progress: &mut dyn FnMut(&Case),
) -> Result<Report, Error> {
    let only_real =
        |what: &str| Err(Error::Real(format!("{what} is for a real card: vfio:ADDRESS or uio:ADDRESS")));
    match (tested, beside) {
        (TestedCard::Emulated(_), (Some(_), _)) => only_real("an interface at the other end of the cable"),
        (TestedCard::Emulated(_), (_, Some(_))) => only_real("control of the link"),
        (TestedCard::Emulated(on), _) => run(*on, chip, progress),
        (TestedCard::Real(card), (Some(peer), link_control)) => {
            run_real(&RealOptions { card: card.clone(), peer: peer.to_owned(), link_control }, progress)
        }
        (TestedCard::Real(card), (None, _)) => Err(Error::Real(format!(
            "{card} needs an interface at the other end of its cable: name its peer"
        ))),
    }
}
