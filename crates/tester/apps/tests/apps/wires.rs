//! Ports that keep sent frames.

use kpps_apps::{App, Outputs};

pub type Frame = Vec<u8>;

/// Sent frames with their ports, oldest first.
#[derive(Default)]
pub struct Wires {
    pub sent: Vec<(usize, Frame)>,
    pub discarded: usize,
    pub no_buffers: bool,
}

impl Outputs<Frame> for Wires {
    fn send(&mut self, port: usize, frame: Frame) {
        self.sent.push((port, frame));
    }
    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        (!self.no_buffers).then(|| bytes.to_vec())
    }
    fn discard(&mut self, _: Frame) {
        self.discarded += 1;
    }
}

/// The frames that leave when `frame` arrives.
pub fn push(app: &mut impl App<Frame>, from: usize, frame: Frame, now_ns: u64) -> Vec<(usize, Frame)> {
    let mut wires = Wires::default();
    app.push(from, frame, now_ns, &mut wires);
    assert!(app.ledger().closes(), "{:?}", app.ledger());
    wires.sent
}

/// The frames that leave when time passes.
pub fn tick(app: &mut impl App<Frame>, now_ns: u64) -> Vec<(usize, Frame)> {
    let mut wires = Wires::default();
    app.tick(now_ns, &mut wires);
    assert!(app.ledger().closes(), "{:?}", app.ledger());
    wires.sent
}
