//! Causes, mask, throttling and the interrupt line (SDM 13.4.17–13.4.21).

use crate::Nic;
use crate::deadlines::Source;

/// Unit of ITR in ps (SDM 13.4.18).
const ITR_TICK_PS: u64 = 256_000;

/// The interrupt registers and the line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts {
    pub(crate) causes: u32,
    pub(crate) mask: u32,
    /// ITR.
    pub(crate) throttle: u32,
    line: bool,
    /// The line may not rise before this, in ps.
    quiet_until_ps: u64,
}

impl Interrupts {
    pub(crate) fn line(&self) -> bool {
        self.line
    }
}

impl Nic {
    /// Sets causes in ICR.
    #[inline]
    pub(crate) fn raise(&mut self, now: u64, causes: u32) {
        self.irq.causes |= causes;
        self.update_line(now);
    }

    /// Reads ICR, which clears it and releases the line.
    pub(crate) fn read_causes(&mut self, now: u64) -> u32 {
        let causes = core::mem::take(&mut self.irq.causes);
        self.update_line(now);
        causes
    }

    /// Updates the line from causes, mask and throttle.
    pub(crate) fn update_line(&mut self, now: u64) {
        let irq = &mut self.irq;
        if irq.causes & irq.mask == 0 {
            irq.line = false;
            if irq.throttle != 0 {
                self.deadlines.clear(Source::Throttle);
            }
            return;
        }
        if irq.line {
            return;
        }
        if irq.throttle != 0 && now < irq.quiet_until_ps {
            self.deadlines.set(Source::Throttle, irq.quiet_until_ps);
            return;
        }
        irq.line = true;
        irq.quiet_until_ps = now + u64::from(irq.throttle) * ITR_TICK_PS;
        self.tally.interrupts += 1;
    }

    /// Writes ITR. A gap in progress is recomputed from the last interrupt.
    pub(crate) fn set_throttle(&mut self, now: u64, value: u32) {
        let irq = &mut self.irq;
        let value = value & 0xFFFF;
        let last = irq.quiet_until_ps.saturating_sub(u64::from(irq.throttle) * ITR_TICK_PS);
        irq.throttle = value;
        irq.quiet_until_ps = if irq.quiet_until_ps == 0 { 0 } else { last + u64::from(value) * ITR_TICK_PS };
        self.deadlines.clear(Source::Throttle);
        self.update_line(now);
    }
}
