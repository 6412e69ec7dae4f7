//! A machine with one card that sends: its frames come from the kernel's own source, from a process, or from
//! a program that polls the driver.

use crate::any_setup::AnySetup;
use crate::device::e1000::Features;
use crate::workload::fillers::{ExactGaps, ExactLoad, send_exactly};
use crate::workload::freebsd::{self, Process, Program};
use crate::workload::transmit::{Transmit, transmit_by_nic, transmit_with};
use kpps_frames::Size;
use kpps_methods::TrialError;
use serde::{Deserialize, Serialize};

/// Where the frames come from.
#[derive(Clone, Copy, Debug)]
pub enum Sender {
    /// A source in the kernel, which always has another frame, with these features. A rate-limited NIC has
    /// none of them.
    Kernel(Features),
    /// A process under FreeBSD.
    Process(Program),
    /// A program that polls the driver, and fills the gaps between the frames of this load.
    Exact(ExactLoad),
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Frames on the wire.
    #[serde(flatten)]
    pub frames: Transmit,
    /// The process, if there is one.
    pub process: Option<Process>,
    /// How exact the gaps were, if they were to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<ExactGaps>,
}

/// Ethernet, IPv4 and UDP headers.
const HEADER_BYTES: u16 = 42;

impl Sender {
    /// Sends frames of `size`; the times are in milliseconds: warm-up and measurement.
    ///
    /// # Errors
    /// The machine cannot send such frames, or not from a process; or `go_on` ended the run.
    pub fn send(
        &self,
        setup: &AnySetup,
        size: Size,
        times_ms: (u32, u32),
        go_on: &dyn Fn() -> bool,
    ) -> Result<Sent, TrialError> {
        let alone = |frames| Sent { frames, process: None, gaps: None };
        match (self, setup) {
            (Self::Kernel(features), AnySetup::E1000(setup)) => {
                transmit_with(setup, size, features, times_ms, go_on).map(alone)
            }
            (Self::Kernel(_), AnySetup::RateLimited(setup)) => {
                transmit_by_nic(setup, size, times_ms, go_on).map(alone)
            }
            (Self::Exact(load), AnySetup::E1000(setup)) => {
                let (frames, gaps) = send_exactly(setup, size, *load, times_ms, go_on)?;
                Ok(Sent { gaps: Some(gaps), ..alone(frames) })
            }
            (Self::Exact(_), AnySetup::RateLimited(setup)) => Err(TrialError::Load(format!(
                "the driver of the {} sends no fillers, so its gaps cannot be exact: simulate an e1000",
                setup.nic
            ))),
            (Self::Process(_), _) if size > Size::MAX_STANDARD => Err(TrialError::Load(format!(
                "the datagrams of a process have frames of {} B at most here, not of {} B",
                Size::MAX_STANDARD.bytes_with_fcs(),
                size.bytes_with_fcs()
            ))),
            (Self::Process(program), setup) => {
                let payload = size.bytes_without_fcs().saturating_sub(HEADER_BYTES);
                let freebsd::Sent { frames, process } =
                    freebsd::send(setup, payload, *program, times_ms, go_on)?;
                Ok(Sent { frames, process: Some(process), gaps: None })
            }
        }
    }
}
