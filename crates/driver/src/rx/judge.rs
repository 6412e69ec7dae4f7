//! Checks what the device writes, and puts frames in several buffers together.

use super::{Received, RxCounters};
use crate::config::Config;
use kpps_datasheet::{
    Chip,
    desc::{RxWriteback, rx_error, rx_status},
};
use kpps_platform::Buffer;

/// Bytes of the frame check sequence.
const FCS_BYTES: u16 = 4;
/// A number of bytes that no frame has.
const SKIPPING: u32 = u32::MAX;

/// The limits of what can be true, and the frame in progress.
pub(super) struct Judge {
    buffer_bytes: u16,
    max_frame_bytes: u32,
    /// Bytes of FCS that the device leaves in the buffer.
    fcs: u16,
    /// Lengths of whole frames in one buffer are above `fcs`, by at most this plus 1.
    whole_span: u16,
    /// Bytes of the frame so far, when the last descriptor did not end one; [`SKIPPING`] when the
    /// rest of it is to be skipped.
    partial: u32,
}

impl Judge {
    pub(super) fn new(chip: Chip, config: &Config) -> Self {
        let fcs = if config.strip_fcs && chip.has_fcs_strip() { 0 } else { FCS_BYTES };
        Self {
            buffer_bytes: config.rx_buffer_bytes,
            max_frame_bytes: config.max_frame_bytes.into(),
            fcs,
            whole_span: config.rx_buffer_bytes.min(config.max_frame_bytes) - fcs - 1,
            partial: 0,
        }
    }

    /// Forgets the frame in progress.
    pub(super) fn restart(&mut self) {
        self.partial = 0;
    }

    /// The bytes (with FCS, without FCS) of a good frame in one buffer, which most are.
    #[inline]
    pub(super) fn whole(&self, word: u64) -> Option<(u16, u16)> {
        const EOP: u64 = (rx_status::EOP as u64) << 32;
        const ERRORS: u64 = (rx_error::FRAME as u64) << 40;
        let length = RxWriteback::unpack(word).length;
        let good = word & (EOP | ERRORS) == EOP
            && self.partial == 0
            && length.wrapping_sub(self.fcs + 1) <= self.whole_span;
        good.then_some((length, length.wrapping_sub(self.fcs)))
    }

    /// Parts of long frames, errors, and nonsense. `Err` holds the buffer of a frame, or part of
    /// one, that the consumer shall not see.
    #[cold]
    pub(super) fn unusual<B: Buffer>(
        &mut self,
        counters: &mut RxCounters,
        word: u64,
        buffer: B,
    ) -> Result<Received<B>, B> {
        let wb = RxWriteback::unpack(word);
        let ends = wb.status & rx_status::EOP != 0;
        if self.partial == SKIPPING {
            if ends {
                self.partial = 0;
            }
            return Err(buffer);
        }
        let first = self.partial == 0;
        let total = self.partial + u32::from(wb.length);
        let nonsense = wb.length == 0
            || wb.length > self.buffer_bytes
            || total > self.max_frame_bytes
            || ends && total <= self.fcs.into();
        let bad = nonsense || ends && wb.errors & rx_error::FRAME != 0;
        self.partial = match (ends, bad) {
            (true, _) => 0,
            (false, true) => SKIPPING,
            (false, false) => total,
        };
        if bad {
            if nonsense {
                counters.nonsense += 1;
            } else {
                counters.frame_errors += 1;
            }
            if first {
                return Err(buffer);
            }
            // The consumer has the beginning already: tell it that the frame came to nothing.
            return Ok(Received { buffer, bytes: 0, first, last: true, error: true, word });
        }
        let bytes = if ends { wb.length.saturating_sub(self.fcs) } else { wb.length };
        buffer.sync_for_cpu(wb.length.into());
        if ends {
            counters.frames += 1;
            counters.bytes += u64::from(total - u32::from(self.fcs));
        }
        Ok(Received { buffer, bytes, first, last: ends, error: false, word })
    }
}
