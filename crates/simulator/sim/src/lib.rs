//! The simulator: a driver, a machine and an application put together from profiles, under a load.
//!
//! A *workload* ([`workload`]) defines the frames to send, their end, and the readings. [`workload::receive`]
//! receives, [`workload::transmit`] sends, [`workload::forward`] does both; [`workload::netreceive`] and
//! [`workload::tcp_bulk`] have processes under Linux, [`workload::freebsd`] under FreeBSD; [`workload::rss`]
//! spreads flows over several CPUs; [`workload::trace`] records a bus trace. [`Sender`] and
//! [`workload::end_station`] send and receive on a card of either kind ([`AnySetup`]).
//!
//! ```
//! use kpps_frames::Size;
//! use kpps_methods::{Load, Testbed};
//! use kpps_sim::{Receiving, Setup};
//!
//! // The machine of Morris 2000 with the driver of this project, at 300 kpps.
//! let mut testbed = Receiving::new(Setup::named("morris2000", None, "kpps").unwrap());
//! let load = Load::of(300e3, Size::MIN).lasting_ms(1, 2);
//! let trial = testbed.trial(&load).unwrap();
//! assert_eq!(trial.delivered, trial.sent);
//! ```
#![forbid(unsafe_code)]

mod any_setup;
mod app;
pub mod calibrate;
mod cell;
pub mod choice;
mod device;
pub mod documents;
mod effect;
mod environment;
pub mod error_bars;
mod experiment;
pub mod inventory;
mod ledger;
mod per_frame;
mod program;
mod sender;
mod setup;
mod simulation;
mod sink;
pub mod source;
mod stack;
mod stack_params;
pub mod trace;
pub mod workload;

pub use any_setup::AnySetup;
pub use app::AppKind;
pub use cell::Cell;
pub use choice::Choice;
pub use device::e1000::{By, Features, Pieces};
pub use device::policy::{Next, OwnPolicy, ServicePolicy};
pub use device::rate_limited::Config as RateLimitedConfig;
pub use effect::Activity;
pub use kpps_host::cpu::{Function, Level, Profile};
pub use per_frame::PerFrame;
pub use program::SendingProgram;
pub use sender::{Sender, Sent};
pub use setup::{Affinity, RateLimitedSetup, Setup, SetupError};
pub use stack_params::StackParams;
pub use workload::fillers::{ExactGaps, ExactLoad, Shape};
pub use workload::forward::{Conversation, Forwarded, ForwardingTestbed};
pub use workload::receive::{Accounted, Profiled, Receiving};
pub use workload::transmit::{Transmit, transmit, transmit_with};
