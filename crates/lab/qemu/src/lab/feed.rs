//! The frames that are offered to a card: by the host on a wire, or by a source within the guest's own time.

use crate::Wire;
use crate::lab::load::{Counts, Load};
use crate::lab::source::{Sent, Source};
use crate::lab::{Clock, Error, Guest, Result};
use kpps_frames::rate::Rate;
use std::time::Duration;

/// How long the last frame may take to be on the wire.
const LAST: Duration = Duration::from_millis(10);

/// A running offer.
pub(crate) enum Feed {
    /// Nothing is offered.
    None,
    /// By the host, in real time.
    Host(Load),
    /// By the guest.
    Guest(Source),
}

/// The load that was offered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fed {
    /// Frames sent.
    pub(crate) sent: u64,
    /// Frames that were due and could not be sent.
    pub(crate) shortfall: u64,
    /// The frames of a source within the guest.
    pub(crate) source: Option<Sent>,
}

impl Feed {
    /// Offers copies of `frame` from now on. Within the guest the rate is the closest that cards of its PC
    /// have.
    pub(crate) fn start(guest: &mut Guest, rate: Rate, frame: Vec<u8>) -> Result<Self> {
        match guest.clock() {
            Clock::Wall => Ok(Self::Host(Load::start(wire(guest)?, rate, frame)?)),
            Clock::Instructions => Ok(Self::Guest(Source::start(guest, rate, &frame)?)),
        }
    }

    /// The host's counts of sent frames so far.
    pub(crate) fn counts(&self) -> Result<Counts> {
        match self {
            Self::Host(load) if !load.is_running() => Err(Error::Input("the wire broke".into())),
            Self::Host(load) => Ok(load.counts()),
            Self::None | Self::Guest(_) => Ok(Counts::default()),
        }
    }

    /// Ends it.
    pub(crate) fn stop(self, guest: &mut Guest) -> Result<Fed> {
        match self {
            Self::None => Ok(Fed::default()),
            Self::Host(load) => {
                // The rest of a frame that the wire took in part goes out.
                load.quiet();
                std::thread::sleep(LAST);
                let (wire, Counts { sent, shortfall, .. }) = load.stop()?;
                guest.give_wire(0, wire);
                Ok(Fed { sent, shortfall, source: None })
            }
            Self::Guest(source) => {
                let sent = source.stop(guest)?;
                Ok(Fed { sent: sent.frames, shortfall: 0, source: Some(sent) })
            }
        }
    }
}

/// The host's end of the cable.
fn wire(guest: &mut Guest) -> Result<Wire> {
    guest.take_wire(0).ok_or(Error::Input("the wire is taken".into()))
}
