//! Causes, mask, throttling and the interrupt line (SDM 13.4.17–13.4.21).

use crate::Nic;
use crate::deadlines::Source;
use crate::params::Moderation;
use crate::vector::{Rules, Vectors};
use kpps_datasheet::bit::cause;
use kpps_datasheet::express::{cause::ASSERTED, ctrl_ext};
use kpps_datasheet::reg;

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
    pub(crate) vectors: Vectors,
}

impl Interrupts {
    /// After a reset of the card.
    pub(crate) fn after_reset(&self) -> Self {
        Self { vectors: Vectors::new(self.vectors.on), ..Self::default() }
    }

    pub(crate) fn line(&self) -> bool {
        self.line
    }

    /// Releases the line, and forgets when it rose.
    fn release(&mut self) {
        (self.line, self.quiet_until_ps) = (false, 0);
    }
}

impl Nic {
    /// Sets causes in ICR.
    #[inline]
    pub(crate) fn raise(&mut self, now: u64, causes: u32) {
        self.irq.causes |= if self.irq.vectors.on { Vectors::causes(causes) } else { causes };
        self.update_line(now);
    }

    /// Enables or disables MSI-X, which the configuration space does; without effect on a chip without it.
    /// While it is enabled the interrupt line is never asserted.
    pub fn set_vectors(&mut self, now_ps: u64, on: bool) {
        if self.params.chip.vectors() == 0 || self.irq.vectors.on == on {
            return;
        }
        let now = self.now.max(now_ps);
        self.irq.vectors = Vectors::new(on);
        self.irq.release();
        self.deadlines.clear(Source::Throttle);
        self.update_line(now);
    }

    /// The MSI-X vectors that have fired since the last call, a bit each.
    pub fn take_vectors(&mut self) -> u8 {
        self.irq.vectors.take()
    }

    /// Reads ICR, which clears it and releases the line. With MSI-X it clears it only if all causes are
    /// masked, or one that is not is set (82574 data sheet 10.2.4.1; public drivers rely on it).
    pub(crate) fn read_causes(&mut self, now: u64) -> u32 {
        let causes = self.irq.causes;
        let pending = causes & self.irq.mask != 0;
        if !self.irq.vectors.on || self.irq.mask == 0 || pending {
            self.irq.causes = 0;
        }
        self.acknowledge(pending);
        self.update_line(now);
        causes | if pending && self.params.chip.is_pci_express() { ASSERTED } else { 0 }
    }

    /// ICR was read or written while an interrupt was `pending`: with CTRL_EXT.IAME the causes in IAM are
    /// masked.
    pub(crate) fn acknowledge(&mut self, pending: bool) {
        if pending && self.plain.value(reg::CTRL_EXT) & ctrl_ext::IAME != 0 {
            self.irq.mask &= !self.plain.value(reg::IAM);
        }
    }

    /// Fires the vectors that are due.
    fn update_vectors(&mut self, now: u64) {
        let masks = match self.plain.value(reg::CTRL_EXT) & ctrl_ext::EIAME {
            0 => 0,
            _ => !self.plain.value(reg::IAM),
        };
        let (allocation, clears) = (self.plain.value(reg::IVAR), self.plain.value(reg::EIAC));
        let Interrupts { causes, mask, vectors, .. } = &mut self.irq;
        let (count, waits) = vectors.update(now, (causes, mask), Rules { allocation, clears, masks });
        self.tally.interrupts += count;
        match waits {
            Some(at) => self.deadlines.set(Source::Throttle, at),
            None => self.deadlines.clear(Source::Throttle),
        }
    }

    /// Updates the line from causes, mask and throttle, or fires the vectors that take its place.
    pub(crate) fn update_line(&mut self, now: u64) {
        if self.irq.vectors.on {
            return self.update_vectors(now);
        }
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
