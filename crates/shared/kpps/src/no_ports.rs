//! A substitute for ports in a build without the feature `ports`: no options, and types without values.

#[path = "no_guests.rs"]
mod no_guests;

use crate::error::Failure;
use crate::live::OpenTestbed;
use crate::session::Session;
use clap::Args;
use kpps_frames::{Mix, Size};
use kpps_methods::Testbed;

pub use no_guests::Guests;

/// Nothing real is measured.
pub fn provenance() -> Option<kpps_documents::provenance::Provenance> {
    None
}

/// Options of two ports: there are none.
#[derive(Args)]
pub struct PortPair {}

/// Options of all commands on ports: there are none.
#[derive(Args)]
pub struct PortOptions {}

/// Two ports: no value of this type exists.
pub enum Ports {}

impl Ports {
    /// Refuses ports.
    pub fn resolve(_: &[String], _: PortPair, _: PortOptions) -> Result<Self, Failure> {
        Err(Failure::Input("this kpps was built without ports: build it with `cargo build --release`".into()))
    }

    pub fn testbed(&self, _: &Session) -> Result<OpenTestbed, Failure> {
        match *self {}
    }

    pub fn are_veths_here(&self) -> bool {
        match *self {}
    }

    pub fn bare(&self, _: &Session) -> Result<Box<dyn Testbed>, Failure> {
        match *self {}
    }

    pub fn refuse_several(&self, _: &str) -> Result<(), Failure> {
        match *self {}
    }

    pub fn has_streams(&self) -> bool {
        match *self {}
    }

    pub fn has_probes(&self) -> bool {
        match *self {}
    }

    pub fn sizes_of_streams(&self) -> Option<Mix> {
        match *self {}
    }

    pub fn size(&self) -> Option<Size> {
        match *self {}
    }

    pub fn names(&self) -> Vec<String> {
        match *self {}
    }
}
