//! An app on several ports.

use super::{AT_END, BUDGET, Shift, Watch};
use crate::port::{AnyPort, Frame, Port, Trouble};
use kpps_apps::{App, Outputs};
use kpps_platform::memory::BufferPool;
use kpps_platform::{Buffer, BufferSource};
use std::time::{Duration, Instant};

/// How often an app does periodic work, in ns.
const TICK_NS: u64 = 50_000_000;

/// The ports as an app sees them.
struct Out<'a> {
    ports: &'a mut [AnyPort],
    pool: &'a mut BufferPool,
}

impl Outputs<Frame> for Out<'_> {
    #[inline]
    fn send(&mut self, port: usize, frame: Frame) {
        // A full port has counted the frame.
        if let Some(port) = self.ports.get_mut(port)
            && let Err(refused) = port.send(frame)
        {
            self.pool.give(refused.buffer);
        }
    }
    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        let mut buffer = self.pool.take()?;
        match buffer.bytes_mut().get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Some(Frame { buffer, bytes: bytes.len() as u16 })
            }
            None => {
                self.pool.give(buffer);
                None
            }
        }
    }
    fn discard(&mut self, frame: Frame) {
        self.pool.give(frame.buffer);
    }
}

/// Gives an app the frames of all ports until the watch ends it. Returns the elapsed time.
///
/// # Errors
/// [`Trouble`].
pub fn app(
    ports: &mut [AnyPort],
    app: &mut impl App<Frame>,
    watch: &mut impl Watch,
) -> Result<Duration, Trouble> {
    let Some(first) = ports.first_mut() else { return Ok(Duration::ZERO) };
    let mut pool = first.pool().clone();
    let mut shift = Shift::start(watch);
    let epoch = Instant::now();
    let mut burst: Vec<Frame> = Vec::with_capacity(2 * BUDGET);
    let (mut now_ns, mut ticked_ns) = (0, 0);
    // Once the watch has ended it, what may still be taken.
    let mut rest: Option<usize> = None;
    app.start(now_ns, &mut Out { ports: &mut *ports, pool: &mut pool });
    for port in &mut *ports {
        port.flush()?;
    }
    loop {
        let mut taken = 0;
        for from in 0..ports.len() {
            // All ports need transmit space, since the app may send to any of them; a received frame's buffer
            // needs a replacement.
            taken += ports[from].receive(BUDGET, |frame| {
                burst.push(frame);
                pool.take()
            })?;
            if burst.is_empty() {
                continue;
            }
            let mut out = Out { ports: &mut *ports, pool: &mut pool };
            for port in &mut *out.ports {
                port.tx_space();
            }
            for frame in burst.drain(..) {
                if let Some(ended) = app.push(from, frame, now_ns, &mut out) {
                    out.pool.give(ended.buffer);
                }
            }
            for port in &mut *ports {
                port.flush()?;
            }
        }
        if let Some(left) = &mut rest {
            *left = left.saturating_sub(taken);
            if taken == 0 || *left == 0 {
                break;
            }
            continue;
        }
        if !shift.is_due(taken > 0) {
            continue;
        }
        now_ns = epoch.elapsed().as_nanos() as u64;
        if now_ns - ticked_ns >= TICK_NS {
            ticked_ns = now_ns;
            app.tick(now_ns, &mut Out { ports: &mut *ports, pool: &mut pool });
            for port in &mut *ports {
                port.flush()?;
            }
        }
        let mut all: Vec<&mut AnyPort> = ports.iter_mut().collect();
        if !shift.go_on(&mut all)? {
            rest = Some(AT_END);
            continue;
        }
        if taken == 0 {
            shift.wait(&mut all, None)?;
        }
    }
    Ok(shift.elapsed())
}
