//! The registers of the copper PHY: through MDIC, or bit by bit on the 82543.

use crate::{Error, regs::Regs};
use kpps_datasheet::{
    Chip,
    bit::{ctrl, mdic, status},
    express::{extcnf, swsm},
    igb, reg,
};
use kpps_platform::Platform;

/// The time limit of an MDI access in ns; it takes 64 clocks of 2.5 MHz, which is 26 µs.
const LIMIT_NS: u64 = 2_000_000;
/// Half a management clock, in ns.
const HALF_CLOCK_NS: u64 = 1_000;

/// How long the firmware may use MDIO or a semaphore, and the time between two questions for it, in ns.
const OWNER_LIMIT_NS: u64 = 20_000_000;
const OWNER_STEP_NS: u64 = 1_000_000;

/// Asks the firmware for something until it has given it.
fn ask_firmware<P: Platform>(
    platform: &P,
    what: &'static str,
    mut is_given: impl FnMut() -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut waited = 0;
    while !is_given()? {
        if waited >= OWNER_LIMIT_NS {
            return Err(Error::Timeout(what));
        }
        platform.wait_ns(OWNER_STEP_NS);
        waited += OWNER_STEP_NS;
    }
    Ok(())
}

/// Takes MDIO from the firmware, on chips that share it. The bit of EXTCNF_CTRL sticks once the firmware has
/// released MDIO.
pub(crate) fn own_mdio<P: Platform>(platform: &P, regs: &Regs<P::Regs>, chip: Chip) -> Result<(), Error> {
    if !chip.shares_mdio() {
        return Ok(());
    }
    if chip.has_advanced() {
        return lock_phy(platform, regs);
    }
    ask_firmware(platform, "MDIO from the firmware", || {
        regs.modify(reg::EXTCNF_CTRL, 0, extcnf::MDIO_SW_OWNERSHIP)?;
        Ok(regs.get(reg::EXTCNF_CTRL)? & extcnf::MDIO_SW_OWNERSHIP != 0)
    })
}

/// Gives MDIO back to the firmware.
pub(crate) fn disown_mdio<P: Platform>(platform: &P, regs: &Regs<P::Regs>, chip: Chip) -> Result<(), Error> {
    if chip.has_advanced() {
        let lock = phy_lock(regs)?;
        change_locks(platform, regs, |locks| locks & !lock)?;
    } else if chip.shares_mdio() {
        regs.modify(reg::EXTCNF_CTRL, extcnf::MDIO_SW_OWNERSHIP, 0)?;
    }
    Ok(())
}

/// The driver's lock of the PHY of this port of an 82576.
fn phy_lock<R: kpps_platform::Registers>(regs: &Regs<R>) -> Result<u32, Error> {
    Ok(igb::sync::PHY << ((regs.get(reg::STATUS)? & status::FUNC_MASK) >> status::FUNC_SHIFT))
}

/// Changes the locks between driver and firmware of an 82576, which the semaphores in SWSM guard. Returns the
/// locks as they were.
fn change_locks<P: Platform>(
    platform: &P,
    regs: &Regs<P::Regs>,
    change: impl FnOnce(u32) -> u32,
) -> Result<u32, Error> {
    let step = (OWNER_STEP_NS, OWNER_LIMIT_NS);
    // A read that returns 0 takes the first semaphore.
    regs.wait(platform, reg::SWSM, (swsm::SMBI, 0), step, "the semaphore of other drivers")?;
    let taken = ask_firmware(platform, "the semaphore of the firmware", || {
        // The bit sticks once the firmware has released its semaphore.
        regs.write(reg::SWSM, swsm::SMBI | swsm::SWESMBI);
        Ok(regs.get(reg::SWSM)? & swsm::SWESMBI != 0)
    });
    let locks = taken.and_then(|()| {
        let locks = regs.get(igb::SW_FW_SYNC)?;
        regs.write(igb::SW_FW_SYNC, change(locks));
        Ok(locks)
    });
    // Both semaphores are free again, whatever happened.
    regs.write(reg::SWSM, 0);
    locks
}

/// Locks the PHY of an 82576, once the firmware has released it. A driver's lock that is set already was left
/// by an earlier driver.
fn lock_phy<P: Platform>(platform: &P, regs: &Regs<P::Regs>) -> Result<(), Error> {
    let lock = phy_lock(regs)?;
    let firmware = lock << igb::sync::FIRMWARE_SHIFT;
    ask_firmware(platform, "the PHY from the firmware", || {
        let take = |locks| if locks & firmware == 0 { locks | lock } else { locks };
        Ok(change_locks(platform, regs, take)? & firmware == 0)
    })
}

/// The 82543's management data (2) and clock (3) on software-defined pins: values and directions.
const PINS: u32 = ctrl::SWDPIN2 | ctrl::SWDPIO2 | ctrl::SWDPIN3 | ctrl::SWDPIO3;

/// Access to one PHY.
pub(crate) struct Phy<'a, P: Platform> {
    pub(crate) platform: &'a P,
    pub(crate) regs: &'a Regs<P::Regs>,
    pub(crate) chip: Chip,
}

impl<P: Platform> Phy<'_, P> {
    pub(crate) fn read(&self, register: u32) -> Result<u16, Error> {
        if !self.chip.has_mdic() {
            return self.read_pins(register);
        }
        let command = mdic::OP_READ | mdic::INTERNAL_PHY << mdic::PHY_SHIFT | register << mdic::REG_SHIFT;
        let value = self.access(command, "PHY read (MDIC)")?;
        if value & mdic::ERROR != 0 { Err(Error::Phy) } else { Ok(value as u16) }
    }

    pub(crate) fn write(&self, register: u32, value: u16) -> Result<(), Error> {
        if !self.chip.has_mdic() {
            return self.write_pins(register, value);
        }
        let command = mdic::OP_WRITE | mdic::INTERNAL_PHY << mdic::PHY_SHIFT | register << mdic::REG_SHIFT;
        self.access(command | u32::from(value), "PHY write (MDIC)").map(drop)
    }

    fn access(&self, command: u32, what: &'static str) -> Result<u32, Error> {
        own_mdio(self.platform, self.regs, self.chip)?;
        self.regs.write(reg::MDIC, command);
        let done =
            self.regs.wait(self.platform, reg::MDIC, (mdic::READY, mdic::READY), (10_000, LIMIT_NS), what);
        disown_mdio(self.platform, self.regs, self.chip)?;
        done
    }

    // IEEE 802.3 clause 22 over two software-defined pins: 32 ones, start 01, opcode 10 (read) or 01 (write),
    // 5 bits of PHY address, 5 of register, turnaround, 16 of data.

    fn read_pins(&self, register: u32) -> Result<u16, Error> {
        self.shift_out(u32::MAX, 32)?;
        self.shift_out(0b0110 << 10 | mdic::INTERNAL_PHY << 5 | register & 31, 14)?;
        // The PHY drives the data pin from here on.
        let base = self.without_pins()? | ctrl::SWDPIO3;
        self.clock(base)?;
        let mut word = 0;
        for _ in 0..16 {
            self.regs.write(reg::CTRL, base | ctrl::SWDPIN3);
            let data = self.regs.get(reg::CTRL)? & ctrl::SWDPIN2 != 0;
            self.platform.wait_ns(HALF_CLOCK_NS);
            self.regs.write(reg::CTRL, base);
            self.wait_half_clock()?;
            word = word << 1 | u16::from(data);
        }
        self.clock(base)?;
        Ok(word)
    }

    fn write_pins(&self, register: u32, value: u16) -> Result<(), Error> {
        self.shift_out(u32::MAX, 32)?;
        let head = 0b0101 << 10 | mdic::INTERNAL_PHY << 5 | register & 31;
        self.shift_out(head << 18 | 0b10 << 16 | u32::from(value), 32)
    }

    /// CTRL with both pins as inputs. Written many times, it must not reset a device that says that it is in
    /// reset.
    fn without_pins(&self) -> Result<u32, Error> {
        Ok(self.regs.get(reg::CTRL)? & !(PINS | ctrl::RST))
    }

    fn shift_out(&self, data: u32, bits: u32) -> Result<(), Error> {
        let base = self.without_pins()? | ctrl::SWDPIO2 | ctrl::SWDPIO3;
        for bit in (0..bits).rev() {
            self.clock(base | if data >> bit & 1 != 0 { ctrl::SWDPIN2 } else { 0 })?;
        }
        Ok(())
    }

    /// One clock with the data pin as in `value`.
    fn clock(&self, value: u32) -> Result<(), Error> {
        self.regs.write(reg::CTRL, value);
        self.wait_half_clock()?;
        self.regs.write(reg::CTRL, value | ctrl::SWDPIN3);
        self.wait_half_clock()?;
        self.regs.write(reg::CTRL, value);
        self.wait_half_clock()
    }

    fn wait_half_clock(&self) -> Result<(), Error> {
        self.regs.get(reg::STATUS)?;
        self.platform.wait_ns(HALF_CLOCK_NS);
        Ok(())
    }
}
