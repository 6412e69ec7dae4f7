//! The option `--late`: the fate of frames that cannot be sent in time.

use clap::ValueEnum;
use kpps_ports::port::run::Late;

/// The fate of frames that cannot be sent in time.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LateFrames {
    /// They are left out.
    Skip,
    /// They are sent late.
    Send,
}

impl From<LateFrames> for Late {
    fn from(late: LateFrames) -> Self {
        match late {
            LateFrames::Skip => Self::Skip,
            LateFrames::Send => Self::Send,
        }
    }
}
