//! Receives and counts frames.

use super::{BUDGET, Shift, Streams, Watch};
use crate::port::{Frame, Port, Trouble};
use std::time::Duration;

/// Receives until the watch ends it, or until `expect` different test frames have come. Returns the elapsed
/// time.
///
/// # Errors
/// [`Trouble`].
pub fn count<P: Port>(
    port: &mut P,
    streams: &mut Streams,
    expect: Option<u64>,
    watch: &mut impl Watch,
) -> Result<Duration, Trouble> {
    let mut shift = Shift::start(watch);
    let mut received = 0_u64;
    loop {
        let taken = port.receive(BUDGET, |frame: Frame| {
            streams.take(frame.as_ref());
            Some(frame.buffer)
        })?;
        received += taken as u64;
        if !shift.is_due(taken > 0) {
            continue;
        }
        // Counting different frames costs more than counting all.
        if expect.is_some_and(|expect| received >= expect && streams.unique() >= expect) {
            break;
        }
        if !shift.go_on(&mut [port])? {
            break;
        }
        if taken == 0 {
            shift.wait(&mut [port], None)?;
        }
    }
    Ok(shift.elapsed())
}
