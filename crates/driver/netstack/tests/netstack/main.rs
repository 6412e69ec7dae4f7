//! The queues as an end station's stack wants them.
#![allow(clippy::unwrap_used)]

mod common;
mod embassy_echo;
mod lab;
mod no_std;
mod smoltcp_echo;
