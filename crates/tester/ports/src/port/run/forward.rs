//! Forwards frames between two ports, in both directions, without reading them.

use super::{BUDGET, Shift, Watch};
use crate::port::{Frame, Port, Trouble};
use arrayvec::ArrayVec;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, Tag, tag};
use kpps_platform::memory::PoolBuffer;
use kpps_platform::{Buffer, BufferSource};
use std::time::Duration;

/// Forwards frames until the watch ends it. Returns the elapsed time. A frame for which the other port has no
/// space is dropped; that port counts it as `full`.
///
/// # Errors
/// [`Trouble`].
pub fn forward<P: Port>(a: &mut P, b: &mut P, watch: &mut impl Watch) -> Result<Duration, Trouble> {
    let mut shift = Shift::start(watch);
    loop {
        let taken = pass(a, b)? + pass(b, a)?;
        if !shift.is_due(taken > 0) {
            continue;
        }
        if !shift.go_on(&mut [a, b])? {
            break;
        }
        if taken == 0 {
            shift.wait(&mut [a, b], None)?;
        }
    }
    Ok(shift.elapsed())
}

/// Forwards one burst. Each frame's buffer moves with it; a buffer of a sent frame takes its place.
#[inline]
fn pass<P: Port>(from: &mut P, to: &mut P) -> Result<usize, Trouble> {
    // This frees buffers of sent frames, which are swapped in.
    to.tx_space();
    let mut batch = ArrayVec::<Frame, BUDGET>::new();
    let taken = from.receive(BUDGET, |frame| match batch.try_push(frame) {
        Ok(()) => to.pool().take(),
        // A port gives no more frames than the budget.
        Err(refused) => Some(refused.element().buffer),
    })?;
    if taken > 0 {
        let mut frames = batch.drain(..);
        to.send_burst(&mut frames);
        for frame in frames {
            // The port counts refused frames.
            if let Err(refused) = to.send(frame) {
                to.pool().give(refused.buffer);
            }
        }
        to.flush()?;
    }
    Ok(taken)
}

/// Sends `count` test frames of `size`. Between two pairs of ports that forward to each other, they
/// circulate. Returns how many were sent.
///
/// # Errors
/// [`Trouble`].
pub fn prime<P: Port>(port: &mut P, count: u32, size: Size) -> Result<u32, Trouble> {
    let Ok(frame) = udp_test(&Flow::default(), size) else { return Ok(0) };
    for sequence in 0..count {
        let Some(buffer) = primed(port.pool().take(), &frame, sequence.into()) else { return Ok(sequence) };
        if let Err(refused) = port.send(Frame { buffer, bytes: frame.len() as u16 }) {
            port.pool().give(refused.buffer);
            port.flush()?;
            return Ok(sequence);
        }
    }
    port.flush()?;
    Ok(count)
}

fn primed(buffer: Option<PoolBuffer>, frame: &[u8], sequence: u64) -> Option<PoolBuffer> {
    let mut buffer = buffer?;
    let bytes = buffer.bytes_mut().get_mut(..frame.len())?;
    bytes.copy_from_slice(frame);
    tag::write(bytes, Tag { stream: 0, sequence, sent_ps: 0 }).ok()?;
    Some(buffer)
}
