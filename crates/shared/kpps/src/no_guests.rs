//! A substitute for guests in QEMU where there are none: a type without values.

use crate::error::Failure;
use crate::guests::GuestArguments;
use crate::live::OpenTestbed;
use kpps_documents::lab::Clock;
use kpps_documents::{Environment, grid};
use kpps_methods::Testbed;

/// Testbeds, each with its name, and the environment of all.
type Opened = (Vec<(String, Box<dyn Testbed>)>, Environment);

/// Guests: no value of this type exists.
pub enum Guests {}

impl Guests {
    /// Refuses guests.
    pub fn resolve(
        _: &[String],
        _: Vec<(String, grid::Setting)>,
        _: GuestArguments,
    ) -> Result<Self, Failure> {
        Err(Failure::Input(
            "guests in QEMU need Linux and a kpps with ports: build it there with `cargo build --release`"
                .into(),
        ))
    }

    pub fn open(&self) -> Result<Opened, Failure> {
        match *self {}
    }

    pub fn open_one(&self) -> Result<OpenTestbed, Failure> {
        match *self {}
    }

    pub fn names(&self) -> Vec<String> {
        match *self {}
    }

    pub fn clock(&self) -> Clock {
        match *self {}
    }
}
