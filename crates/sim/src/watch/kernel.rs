//! The kernel's way with frames that nobody wants: interrupt, softirq, protocol demultiplexer, and away.

use crate::netdev::{Bound, Frame};
use kpps_machine::platform::Buf;
use kpps_machine::stack::IntoBuffer;
use kpps_machine::stack::linux24::{Handler, Work};

/// No protocol wants the frame: it is freed.
pub(super) struct Nobody;

impl Handler<Bound> for Nobody {
    fn work(&self) -> Work {
        Work::Elements(0)
    }
    fn handle(&mut self, _now_ps: u64, _: usize, frame: Frame, _: &mut Vec<(usize, Frame)>) -> Option<Buf> {
        Some(frame.into_buffer())
    }
}
