//! The card of a guest, and the end of its cable: our model, or QEMU's own card.

use super::faults::{Act, FaultKind};
use super::steps::CardState;
use crate::cards::{Cards, Counts, Partner};
use crate::responder::Handle;
use crate::serve::Server;
use kpps_documents::guest_audit::Work;
use kpps_qemu::lab::Result;
use kpps_qemu::lab::foreign::Foreign;
use std::time::{Duration, Instant};

/// The time between two looks at guest and cards.
pub(super) const LOOK: Duration = Duration::from_millis(5);
/// The shortest frame without FCS.
const LEAST_BYTES: usize = 60;

/// The card of a guest, and the end of its cable.
pub(super) trait Wired {
    /// Moves frames between card and responder up to now; returns the time now in ps and the card's state.
    fn turn(&mut self, guest: &mut Foreign) -> Result<(u64, CardState)>;
    /// Whether a rule is still to be judged.
    fn is_judging(&self) -> bool;
    /// Whether the link is down because the driver has not asked for it in time.
    fn lacks_link(&self) -> bool;
    /// Whether card and cable can have this fault.
    fn can(&self, fault: FaultKind) -> bool;
    /// Does something to card or cable.
    fn act(&mut self, guest: &mut Foreign, act: Act) -> Result<()>;
}

/// Our model: the server moves the frames.
pub(super) struct Model<'s> {
    server: &'s Server,
    /// The counts when the link was up and the receiver enabled for the first time.
    at_ready: Option<Counts>,
}

impl<'s> Model<'s> {
    /// The card of this server.
    pub(super) fn new(server: &'s Server) -> Self {
        Self { server, at_ready: None }
    }

    /// The time now in ps and the card's state.
    pub(super) fn look(&mut self) -> (u64, CardState) {
        self.server.with(|cards, now_ps| {
            cards.advance(now_ps);
            let (link, receives) = cards.link_and_receiver(0, now_ps);
            if link && receives {
                self.at_ready.get_or_insert_with(|| cards.counts(now_ps));
            }
            (now_ps, CardState { link: Some(link), receives: Some(receives) })
        })
    }

    /// Does something to card or cable.
    pub(super) fn perform(&self, act: Act) {
        self.server.with(|cards, now_ps| act.on(cards, now_ps));
    }

    /// The work of the driver with the card.
    pub(super) fn work(&self) -> Work {
        let counts = self.server.with(Cards::counts);
        let each = self.at_ready.as_ref().map(|ready| counts.since(ready));
        let each = |count: fn(&Counts) -> u64| each.as_ref().and_then(|since| since.per_frame(count(since)));
        Work {
            sent: counts.sent - counts.sent_bad_fcs,
            sent_bad_fcs: counts.sent_bad_fcs,
            arrived: counts.arrived,
            received: counts.stored,
            dropped: counts.dropped,
            interrupts: counts.interrupts,
            reads_per_frame: each(|since| since.reads.values().sum()),
            writes_per_frame: each(|since| since.writes.values().sum()),
            interrupts_per_frame: each(|since| since.interrupts),
            reads: counts.reads,
            writes: counts.writes,
        }
    }
}

impl Wired for Model<'_> {
    fn turn(&mut self, _: &mut Foreign) -> Result<(u64, CardState)> {
        Ok(self.look())
    }

    fn is_judging(&self) -> bool {
        self.server.with(|cards, _| cards.is_judging())
    }

    fn lacks_link(&self) -> bool {
        self.server.with(|cards, _| cards.lacks_link(0))
    }

    fn can(&self, fault: FaultKind) -> bool {
        !fault.is_of_copper() || self.server.with(|cards, _| cards.is_copper(0))
    }

    fn act(&mut self, _: &mut Foreign, act: Act) -> Result<()> {
        self.perform(act);
        Ok(())
    }
}

/// QEMU's card: frames go through QEMU's socket, in real time.
pub(super) struct Emulated {
    responder: Handle,
    since: Instant,
}

impl Emulated {
    /// From now on.
    pub(super) fn new(responder: &Handle) -> Self {
        Self { responder: responder.clone(), since: Instant::now() }
    }
}

impl Wired for Emulated {
    fn turn(&mut self, guest: &mut Foreign) -> Result<(u64, CardState)> {
        let now_ps = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000);
        if let Some(wire) = &mut guest.wire {
            wire.receive(|frame| {
                // QEMU's card does not pad short frames, whatever TCTL.PSP is.
                let mut padded = frame.to_vec();
                padded.resize(frame.len().max(LEAST_BYTES), 0);
                self.responder.take(now_ps, &padded, true);
            })?;
            while wire.flush()?
                && self.responder.due_ps() <= now_ps
                && let Some(coming) = self.responder.next(now_ps)
            {
                // Frames of QEMU's socket have no FCS.
                if coming.good_fcs {
                    wire.send_one(&coming.frame)?;
                }
            }
        }
        Ok((now_ps, CardState::default()))
    }

    fn is_judging(&self) -> bool {
        false
    }

    fn lacks_link(&self) -> bool {
        false
    }

    fn can(&self, fault: FaultKind) -> bool {
        fault.is_of_cable()
    }

    fn act(&mut self, guest: &mut Foreign, act: Act) -> Result<()> {
        match act {
            Act::Unplug => guest.set_link(false),
            Act::Plug => guest.set_link(true),
            Act::WriteBacksLateBy(_)
            | Act::HoldReports(_)
            | Act::EndSlowReset
            | Act::Spurious(_)
            | Act::InterruptsLateBy(_)
            | Act::Partner(..)
            | Act::AbortReport => Ok(()),
        }
    }
}
