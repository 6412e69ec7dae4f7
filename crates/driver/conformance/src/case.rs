//! A case of the suite: its type, its result, and checks that fail it.

use crate::Departure;
use std::fmt;

/// Why a case failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for Failure {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

impl From<kpps_qemu::Error> for Failure {
    fn from(error: kpps_qemu::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<kpps_linux::Error> for Failure {
    fn from(error: kpps_linux::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<kpps_ports::Error> for Failure {
    fn from(error: kpps_ports::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<kpps_driver::Error> for Failure {
    fn from(error: kpps_driver::Error) -> Self {
        Self(format!("driver: {error}"))
    }
}

impl From<kpps_platform::OutOfMemory> for Failure {
    fn from(_: kpps_platform::OutOfMemory) -> Self {
        Self("the fixture is out of memory".to_owned())
    }
}

/// The result of a case that did not fail.
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    /// The device behaves as the manual says.
    Pass,
    /// The device departs from the manual in this known way.
    Departs(&'static Departure),
    /// The case does not apply to this chip or fixture; the reason.
    NotApplicable(&'static str),
}

/// The result of a case.
pub type CaseResult = Result<Verdict, Failure>;

/// A case: its name and its function.
pub(crate) type Entry<B> = (&'static str, fn(&mut B) -> CaseResult);

/// A value for a message: numbers also in hexadecimal, long values cut off.
pub(crate) fn short(value: &impl fmt::Debug) -> String {
    const MOST_CHARACTERS: usize = 200;
    let mut text = format!("{value:?}");
    if text.parse::<u64>().is_ok_and(|number| number > 9) {
        text = format!("{text} ({value:#x?})");
    }
    if let Some((end, _)) = text.char_indices().nth(MOST_CHARACTERS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Fails the case unless the condition holds.
macro_rules! check {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Failure(format!($($message)+)));
        }
    };
}

/// Fails the case unless both values are equal.
macro_rules! check_eq {
    ($found:expr, $expected:expr, $($message:tt)+) => {{
        let (found, expected) = (&$found, &$expected);
        if found != expected {
            let what = format!($($message)+);
            let (found, expected) = ($crate::case::short(found), $crate::case::short(expected));
            return Err($crate::Failure(format!("{what}: {found}, not {expected}")));
        }
    }};
}

pub(crate) use {check, check_eq};
