//! The device's statistics, summed up.

use crate::{Control, Error, regs::ALL_ONES};
use kpps_datasheet::{Chip, reg, stat};
use kpps_platform::Platform;

/// The device's statistics since the driver started, by the offsets in [`stat`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    values: [u64; stat::ALL.len()],
}

impl Stats {
    pub(crate) const fn new() -> Self {
        Self { values: [0; stat::ALL.len()] }
    }
    /// One statistic, for example `stats.get(stat::MPC)`; 0 if `offset` is not that of a statistic.
    pub fn get(&self, offset: u32) -> u64 {
        stat::index(offset).map_or(0, |i| self.values[i])
    }
    /// All statistics with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        stat::ALL.iter().zip(self.values).map(|(statistic, value)| (statistic.name, value))
    }
    /// Good frames received.
    pub fn received(&self) -> u64 {
        self.get(stat::GPRC)
    }
    /// Good frames sent.
    pub fn sent(&self) -> u64 {
        self.get(stat::GPTC)
    }
    /// Frames missed because the receive FIFO was full.
    pub fn missed(&self) -> u64 {
        self.get(stat::MPC)
    }
    /// Times that a frame found no receive descriptor.
    pub fn no_descriptor(&self) -> u64 {
        self.get(stat::RNBC)
    }
}

impl<P: Platform> Control<P> {
    /// Reads all statistics registers, which clears them, and adds them to the sums: about 60 register reads.
    ///
    /// A 32-bit counter sticks at its maximum. Octet counters have 64 bits; frames of 64 bytes at 1 Gb/s fill
    /// the others in 48 minutes. Call this more often than that.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished.
    pub fn update_stats(&mut self) -> Result<&Stats, Error> {
        read_into(&self.regs, self.chip, &mut self.stats.values);
        // A counter of all ones may be full, but STATUS is never all ones.
        self.regs.get(reg::STATUS)?;
        Ok(&self.stats)
    }

    /// Whether frames came to the device since the last call of this function or of
    /// [`update_stats`](Self::update_stats). Missed frames count, too. Two register reads.
    pub(crate) fn has_received(&mut self) -> bool {
        for register in [stat::GPRC, stat::MPC] {
            let frames = self.regs.read(register);
            if let Some(sum) = stat::index(register).and_then(|index| self.stats.values.get_mut(index))
                && frames != ALL_ONES
            {
                *sum += u64::from(frames);
            }
        }
        let came = self.stats.received() + self.stats.missed();
        core::mem::replace(&mut self.received_seen, came) != came
    }

    /// The statistics as of the last [`update_stats`](Self::update_stats).
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Clears the registers, because their values after power-up are undefined (SDM 13.7).
    pub(crate) fn clear_stats(&self) {
        read_into(&self.regs, self.chip, &mut [0; stat::ALL.len()]);
    }
}

fn read_into<R: kpps_platform::Registers>(
    regs: &crate::regs::Regs<R>,
    chip: Chip,
    values: &mut [u64; stat::ALL.len()],
) {
    for (value, statistic) in values.iter_mut().zip(stat::ALL) {
        if statistic.since_82543 && chip == Chip::I82542 {
            continue;
        }
        let low = regs.read(statistic.offset);
        // The low half first: reading the high half clears both (SDM 13.7).
        let high = if statistic.is_64_bit { regs.read(statistic.offset + 4) } else { 0 };
        let all_ones = low == u32::MAX && (!statistic.is_64_bit || high == u32::MAX);
        if !all_ones {
            *value = value.wrapping_add(u64::from(high) << 32 | u64::from(low));
        } else if !statistic.is_64_bit {
            // The counter is full, or the device is gone, which the caller checks.
            *value = value.wrapping_add(u64::from(low));
        }
    }
}
