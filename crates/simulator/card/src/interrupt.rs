//! Causes, mask, throttling and the interrupt line (SDM 13.4.17–13.4.21).

use crate::Nic;
use crate::deadlines::Source;
use crate::params::Moderation;
use kpps_datasheet::bit::cause;
use kpps_datasheet::express::cause::ASSERTED;

/// Unit of ITR in ps (SDM 13.4.18).
const ITR_TICK_PS: u64 = 256_000;

/// The least time between two interrupts of QEMU's card, in units of ITR.
const QEMU_LEAST: u32 = 500;

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
        let pending = causes & self.irq.mask != 0;
        self.update_line(now);
        causes | if pending && self.params.chip.is_pci_express() { ASSERTED } else { 0 }
    }

    /// Updates the line from causes, mask and throttle.
    pub(crate) fn update_line(&mut self, now: u64) {
        let irq = &mut self.irq;
        let raised = irq.causes & irq.mask;
        if raised == 0 {
            irq.line = false;
            if now < irq.quiet_until_ps {
                self.deadlines.clear(Source::Throttle);
            }
            return;
        }
        if irq.line {
            return;
        }
        if now < irq.quiet_until_ps {
            self.deadlines.set(Source::Throttle, irq.quiet_until_ps);
            return;
        }
        irq.line = true;
        let quiet = self.quiet_time(raised);
        self.irq.quiet_until_ps = now + u64::from(quiet) * ITR_TICK_PS;
        self.tally.interrupts += 1;
    }

    /// How long the line may not rise again after an interrupt with these causes, in units of ITR.
    fn quiet_time(&mut self, raised: u32) -> u32 {
        if self.params.moderation == Moderation::Manual {
            return self.irq.throttle;
        }
        let delayed = core::mem::take(&mut self.tx.delayed) && raised & (cause::TXDW | cause::TXQE) != 0;
        let received = self.rx.rdtr != 0 && raised & cause::RXT0 != 0;
        // RADV and TADV count in four units of ITR.
        let delays = [
            self.irq.throttle,
            if received { self.rx.radv * 4 } else { 0 },
            if delayed { self.tx.tadv * 4 } else { 0 },
        ];
        delays.into_iter().filter(|delay| *delay != 0).min().unwrap_or(0).max(QEMU_LEAST)
    }

    /// Writes ITR. A gap in progress is recomputed from the last interrupt; QEMU's goes on.
    pub(crate) fn set_throttle(&mut self, now: u64, value: u32) {
        let irq = &mut self.irq;
        let value = value & 0xFFFF;
        if self.params.moderation == Moderation::Qemu {
            irq.throttle = value;
            return;
        }
        let last = irq.quiet_until_ps.saturating_sub(u64::from(irq.throttle) * ITR_TICK_PS);
        irq.throttle = value;
        irq.quiet_until_ps = if irq.quiet_until_ps == 0 { 0 } else { last + u64::from(value) * ITR_TICK_PS };
        self.deadlines.clear(Source::Throttle);
        self.update_line(now);
    }
}
