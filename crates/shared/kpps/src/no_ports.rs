//! A substitute for ports in a build without the feature `ports`: no options, and an error with the reason.

use crate::error::Failure;
use crate::live::{Live, OpenTestbed};
use crate::session::Session;
use clap::Args;

/// Two ports: this build has none.
#[derive(Args)]
pub struct PortPair {}

/// Options of all commands on ports: of them only the live view.
#[derive(Args)]
pub struct PortOptions {
    #[command(flatten)]
    pub live: Live,
}

/// Refuses ports.
pub fn specs(_names: &[String]) -> Result<Vec<()>, Failure> {
    Err(Failure::Input("this kpps was built without ports: build it with `cargo build --release`".into()))
}

/// Nothing real is measured.
pub fn provenance() -> Option<kpps_documents::provenance::Provenance> {
    None
}

impl PortOptions {
    /// No option of ports was given.
    pub fn given(&self) -> Option<&'static str> {
        None
    }
}

impl PortPair {
    /// No option of ports was given.
    pub fn given(&self) -> Option<&'static str> {
        None
    }

    /// Refuses ports.
    pub fn testbed(
        &self,
        _session: &Session,
        names: &[String],
        _options: &PortOptions,
    ) -> Result<OpenTestbed, Failure> {
        Err(specs(names).err().unwrap_or(Failure::OutputClosed))
    }

    /// There are no ports to send from.
    pub fn is_bidirectional(&self) -> bool {
        false
    }

    /// No packet says the size of frames.
    pub fn size(&self) -> Option<kpps_frames::Size> {
        None
    }

    /// Frames never differ from the default ones.
    pub fn unusual(&self) -> Option<String> {
        None
    }

    /// The testbed's own name.
    pub fn names(&self, testbed: &[String]) -> Vec<String> {
        testbed.to_vec()
    }
}
