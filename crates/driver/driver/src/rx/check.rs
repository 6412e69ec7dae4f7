//! Checks the descriptors that the device wrote back, and follows frames that fill several buffers.

use super::{
    Received, RxCounters,
    format::{SingleBufferLimits, Written},
};
use crate::config::{Config, RxFormat};
use kpps_datasheet::{
    Chip,
    desc::{RxWriteback, rx_error, rx_status},
};
use kpps_platform::Buffer;

/// Bytes of the frame check sequence.
const FCS_BYTES: u16 = 4;
/// Value of [`Checker::partial`] while the rest of a bad frame is skipped.
const SKIPPING: u32 = u32::MAX;

/// The limits of valid descriptors, and the frame in progress.
pub(super) struct Checker {
    buffer_bytes: u16,
    max_frame_bytes: u32,
    /// Bytes of FCS that the device leaves in the buffer.
    fcs: u16,
    /// Frames of at most this length, in bytes without FCS, are copied.
    copybreak: u16,
    /// How many lengths from `fcs + copybreak + 1` on are valid for a frame in one buffer; 0 while a longer
    /// frame is in progress.
    single_buffer_lengths: u32,
    /// Bytes of the frame in progress; 0 between frames, [`SKIPPING`] while the rest of a frame is skipped.
    partial: u32,
    /// Bytes of the last part of the frame in progress.
    before: u32,
}

impl Checker {
    pub(super) fn new(chip: Chip, config: &Config) -> Self {
        let split = matches!(config.rx_format.on(chip), RxFormat::Split { .. });
        let fcs = if (config.strip_fcs || split) && chip.has_fcs_strip() { 0 } else { FCS_BYTES };
        let mut checker = Self {
            buffer_bytes: config.rx_buffer_bytes,
            max_frame_bytes: config.max_frame_bytes.into(),
            fcs,
            copybreak: config.rx_copybreak_bytes,
            single_buffer_lengths: 0,
            partial: 0,
            before: 0,
        };
        checker.restart();
        checker
    }

    fn set_partial(&mut self, bytes: u32) {
        self.partial = bytes;
        self.single_buffer_lengths = match bytes {
            0 => u32::from(self.buffer_bytes)
                .min(self.max_frame_bytes)
                .saturating_sub(u32::from(self.fcs) + u32::from(self.copybreak)),
            _ => 0,
        };
    }

    /// Forgets the frame in progress.
    pub(super) fn restart(&mut self) {
        self.set_partial(0);
    }

    /// The limits of a good frame that lies in one buffer and is not copied: the common case. Valid until
    /// [`unusual`](Self::unusual) or [`part`](Self::part) is called.
    #[inline]
    pub(super) fn single_buffer_limits(&self) -> SingleBufferLimits {
        let least = u32::from(self.fcs) + u32::from(self.copybreak) + 1;
        SingleBufferLimits { fcs: self.fcs, least, lengths: self.single_buffer_lengths }
    }

    /// Whether a frame is short enough to be copied (copybreak).
    pub(super) fn is_small<B>(&self, received: &Received<B>) -> bool {
        received.first && received.last && !received.error && received.bytes <= self.copybreak
    }

    /// Checks a descriptor that [`SingleBufferLimits::check`] refused: a part of a long frame, a short frame
    /// to copy, an error, or nonsense. `Err` has the buffer of a descriptor that the consumer does not see.
    pub(super) fn unusual<B: Buffer>(
        &mut self,
        counters: &mut RxCounters,
        written: Written,
        buffer: B,
    ) -> Result<Received<B>, B> {
        let wb = RxWriteback::unpack(written.word());
        match self.part(counters, wb, wb.length.into(), wb.length <= self.buffer_bytes) {
            Part::Skipped => Err(buffer),
            Part::Aborted => {
                Ok(Received { error: true, ..Received::part(written, buffer, 0, (false, true)) })
            }
            Part::Good { first, last } => {
                let fcs = if last { self.fcs } else { 0 };
                let excess = fcs.saturating_sub(wb.length) as u8;
                buffer.sync_for_cpu(wb.length.into());
                let bytes = wb.length.saturating_sub(fcs);
                Ok(Received { excess, ..Received::part(written, buffer, bytes, (first, last)) })
            }
        }
    }

    /// Checks a descriptor with `bytes` of a frame; `fits`: its buffers can hold that number of bytes.
    pub(super) fn part(
        &mut self,
        counters: &mut RxCounters,
        wb: RxWriteback,
        bytes: u32,
        fits: bool,
    ) -> Part {
        let last = wb.status & rx_status::EOP != 0;
        if self.partial == SKIPPING {
            if last {
                self.set_partial(0);
            }
            return Part::Skipped;
        }
        let first = self.partial == 0;
        let total = self.partial + bytes;
        let fcs = u32::from(self.fcs);
        // Bytes of the FCS that are not in the last part are cut off the part before it.
        let short = last && (total <= fcs || fcs.saturating_sub(bytes) > self.before);
        let nonsense = bytes == 0 || !fits || total > self.max_frame_bytes || short;
        self.before = bytes;
        let bad = nonsense || last && wb.errors & rx_error::FRAME != 0;
        self.set_partial(match (last, bad) {
            (true, _) => 0,
            (false, true) => SKIPPING,
            (false, false) => total,
        });
        if bad {
            if nonsense {
                counters.nonsense += 1;
            } else {
                counters.frame_errors += 1;
            }
            return if first { Part::Skipped } else { Part::Aborted };
        }
        if last {
            counters.frames += 1;
            counters.bytes += u64::from(total - fcs);
        }
        Part::Good { first, last }
    }
}

/// The consumer's share of one descriptor.
pub(super) enum Part {
    /// Nothing.
    Skipped,
    /// An error: the consumer has the first parts of this frame already, and must drop them.
    Aborted,
    /// The bytes.
    Good {
        /// The frame starts here.
        first: bool,
        /// The frame ends here.
        last: bool,
    },
}
