//! The driver on a device for tests.
#![allow(clippy::unwrap_used)]

mod bring_up;
mod common;
mod copybreak;
mod express;
mod filler;
mod hostile;
mod igb;
mod link;
mod offload;
mod pacing;
mod queues;
mod registers;
mod service;
mod statistics;
