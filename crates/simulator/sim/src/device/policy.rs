//! Service policies that a program brings along, to try an idea or to teach. A policy decides when the driver
//! examines its card; the driver does the rest. Its driver is a preset with another service.

use kpps_profiles::{Kind, Profile};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// A decision when to examine the card. One object is made for each card. An error ends the trial with its
/// text.
pub trait ServicePolicy {
    /// The card has interrupted. True: mask its interrupts and poll. False: leave the frames where they are
    /// until the next interrupt.
    ///
    /// # Errors
    /// Errors of the policy, in one line.
    fn on_interrupt(&mut self, now_ns: u64) -> Result<bool, String>;
    /// A poll received `received` frames and reaped `reclaimed` sent frames. Returns the next step.
    ///
    /// # Errors
    /// Errors of the policy, in one line.
    fn on_poll(&mut self, received: usize, reclaimed: usize, now_ns: u64) -> Result<Next, String>;
}

/// The step after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another poll after this number of nanoseconds.
    PollIn(u64),
    /// Interrupts are unmasked.
    Interrupt,
}

/// A driver with a policy of the calling program.
#[derive(Clone)]
pub struct OwnPolicy {
    /// Its name: drivers are chosen by it.
    pub name: String,
    /// A description in a sentence.
    pub description: String,
    /// The text of the policy. It is part of the keys of kept results.
    pub text: String,
    /// The driver preset that has everything but the service.
    pub base: String,
    /// Frames of one poll at most.
    pub budget: u16,
    /// Makes the policy of a card.
    pub make: Arc<dyn Fn() -> Box<dyn ServicePolicy> + Send + Sync>,
}

impl fmt::Debug for OwnPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}, {} frames", self.name, self.base, self.budget)
    }
}

/// The policies of this process.
static KNOWN: RwLock<Vec<OwnPolicy>> = RwLock::new(Vec::new());

impl OwnPolicy {
    /// Makes it known in this process; it replaces another policy of its name. Returns false if the name is a
    /// preset's.
    pub fn register(self) -> bool {
        if Profile::named(Kind::Driver, &self.name).is_ok() {
            return false;
        }
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|other| other.name != self.name);
        known.push(self);
        true
    }

    /// The one with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|policy| policy.name == name).cloned()
    }
}
