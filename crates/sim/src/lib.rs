//! Testbeds: a driver, a machine and an application put together so that the bench can load them.
//!
//! All are the machine room, set up from profiles: [`Simulated`] receives, [`transmit`] sends, [`forwarding`] does both,
//! [`freebsd`] has processes, as have [`netreceive`] and [`bulk`] under Linux, [`scale`] several CPUs.
#![forbid(unsafe_code)]

pub mod bulk;
mod forwarder;
pub mod forwarding;
pub mod freebsd;
mod netdev;
pub mod netreceive;
mod per_frame;
mod ring_device;
mod running;
pub mod scale;
mod setup;
mod simulated;
mod tester;
pub mod traffic;
mod transmit;
pub mod watch;

pub use forwarder::Forwarder;
pub use forwarding::{Conversation, Forwarded, Forwarding};
pub use kpps_machine::cpu::{Function, Level, Profile};
pub use netdev::{By, Features, Pieces};
pub use per_frame::PerFrame;
pub use ring_device::Config as RingConfig;
pub use setup::{RingSetup, Setup, SetupError, StackParams};
pub use simulated::{Accounted, Profiled, Simulated};
pub use transmit::{Transmit, transmit, transmit_with};
