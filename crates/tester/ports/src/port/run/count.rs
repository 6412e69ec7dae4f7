//! Receives and counts frames.

use super::{AT_END, BUDGET, Shift, Streams, Watch};
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
    let take = |port: &mut P, streams: &mut Streams| {
        port.receive(BUDGET, |frame: Frame| {
            streams.take(frame.as_ref());
            Some(frame.buffer)
        })
    };
    loop {
        let taken = take(port, streams)?;
        received += taken as u64;
        if !shift.is_due(taken > 0) {
            continue;
        }
        // Counting different frames costs more than counting all.
        if expect.is_some_and(|expect| received >= expect && streams.unique() >= expect) {
            break;
        }
        if !shift.go_on(&mut [port])? {
            let mut left = AT_END;
            while left > 0 {
                let taken = take(port, streams)?;
                left = if taken == 0 { 0 } else { left.saturating_sub(taken) };
            }
            break;
        }
        if taken == 0 {
            shift.wait(&mut [port], None)?;
        }
    }
    Ok(shift.elapsed())
}
