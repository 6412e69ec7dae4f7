//! Finished measurements in a journal, to resume from.

use crate::metric::Values;
use crate::run::Kept;
use kpps_measure::journal::{Journal, JournalError};
use std::sync::Mutex;

/// Measurements in a journal. They are found again only by the same version of kpps with the same profiles.
pub struct InJournal {
    journal: Mutex<Journal<Values>>,
    /// Version and profiles: what all measurements depend on.
    program: String,
    failed: Mutex<Option<JournalError>>,
}

impl InJournal {
    /// Measurements in this journal.
    pub fn new(journal: Journal<Values>) -> Self {
        let program = format!("{} {}", env!("CARGO_PKG_VERSION"), kpps_profiles::hash([]));
        Self { journal: Mutex::new(journal), program, failed: Mutex::default() }
    }

    /// Ends the use of the journal.
    ///
    /// # Errors
    /// A result could not be written.
    pub fn close(self) -> Result<(), JournalError> {
        match self.failed.into_inner() {
            Ok(Some(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Kept for InJournal {
    fn find(&self, name: &str) -> Option<Values> {
        self.journal
            .lock()
            .ok()?
            .of(&format!("{} {name}", self.program))
            .last()
            .map(|kept| kept.result.clone())
    }

    fn keep(&self, name: &str, values: &Values) {
        let Ok(mut journal) = self.journal.lock() else { return };
        if let Err(error) = journal.keep(&format!("{} {name}", self.program), values)
            && let Ok(mut failed) = self.failed.lock()
        {
            *failed = Some(error);
        }
    }
}
