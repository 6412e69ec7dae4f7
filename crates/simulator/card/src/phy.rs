//! The copper PHY, and access to it through MDIC (SDM 13.4.7).

use crate::deadlines::Source;
use crate::link::{Mode, Speed};
use crate::{Nic, Params};
use kpps_datasheet::bit::{cause, mdic};
use kpps_datasheet::mii::{self, advertise, control, gigabit, specific};
use kpps_datasheet::{Chip, Media};

/// The PHY of the 82543's copper cards and of the 82544 (public drivers).
const ID_M88E1000: u32 = 0x0141_0C50;
const ID_M88E1000_INTERNAL: u32 = 0x0141_0C30;
/// Extended status: 1000BASE-T, half and full duplex (SDM 13.4.7.1.12).
const EXTENDED_STATUS: u32 = 15;
const GIGABIT_ABLE: u16 = 0x3000;
/// MII status: 10 and 100 Mb/s in both duplexes, extended status, preamble suppression,
/// autonegotiation ability, extended capability (SDM 13.4.7.1.2).
const ABILITIES: u16 = 0x7949;
/// A partner's abilities: all modes up to 100 Mb/s, PAUSE, acknowledged.
const PARTNER: u16 = 0x45E1;
/// The partner's gigabit abilities: 1000BASE-T in both duplexes, both receivers good (SDM 13.4.7.1.11).
const PARTNER_GIGABIT: u16 = 0x3C00;

/// The PHY's registers.
#[derive(Clone, Debug)]
pub(crate) struct Phy {
    registers: [u16; 32],
    up: bool,
    /// The link partner's abilities up to 100 Mb/s, and at 1000 Mb/s.
    partner: u16,
    partner_gigabit: u16,
    /// The link was down since the status was last read (latched low).
    was_down: bool,
    /// MDIC.
    access: u32,
}

impl Phy {
    pub(crate) fn new(params: &Params) -> Self {
        let mut phy = Self {
            registers: [0; 32],
            up: false,
            partner: PARTNER,
            partner_gigabit: PARTNER_GIGABIT,
            was_down: true,
            access: mdic::READY,
        };
        let id = match params.chip {
            Chip::I82542 | Chip::I82543gc => ID_M88E1000,
            Chip::I82544 => ID_M88E1000_INTERNAL,
            // The revision that public drivers demand.
            Chip::I82574l => mii::ID_82574 | 1,
            _ => mii::ID_M88E1011,
        };
        phy.registers[mii::ID1 as usize] = (id >> 16) as u16;
        phy.registers[mii::ID2 as usize] = id as u16;
        phy.registers[EXTENDED_STATUS as usize] = GIGABIT_ABLE;
        phy.defaults();
        phy
    }

    fn defaults(&mut self) {
        self.registers[mii::CONTROL as usize] =
            control::AUTONEGOTIATE | control::FULL_DUPLEX | control::SPEED_1000;
        self.registers[mii::ADVERTISE as usize] = advertise::SELECTOR
            | advertise::HALF_10
            | advertise::FULL_10
            | advertise::HALF_100
            | advertise::FULL_100
            | advertise::PAUSE
            | advertise::ASYMMETRIC;
        self.registers[mii::GIGABIT_CONTROL as usize] = gigabit::HALF | gigabit::FULL;
    }

    fn control(&self) -> u16 {
        self.registers[mii::CONTROL as usize]
    }

    pub(crate) fn loopback(&self) -> bool {
        self.control() & control::LOOPBACK != 0
    }

    /// Neither powered down nor isolated.
    pub(crate) fn powered(&self) -> bool {
        self.control() & (control::POWER_DOWN | control::ISOLATE) == 0
    }

    /// The best common mode, or the forced one (IEEE 802.3, 28B.3); `None` if the ends have none in common.
    pub(crate) fn resolved(&self) -> Option<Mode> {
        use advertise::{FULL_10, FULL_100, HALF_10, HALF_100};
        let c = self.control();
        let mode = |speed, full_duplex| Mode { speed, full_duplex };
        if c & control::AUTONEGOTIATE == 0 || self.loopback() {
            let (speed, offered) = match (c & control::SPEED_1000 != 0, c & control::SPEED_100 != 0) {
                (true, _) => (Speed::Mb1000, self.partner_gigabit),
                (false, true) => (Speed::Mb100, self.partner & (FULL_100 | HALF_100)),
                (false, false) => (Speed::Mb10, self.partner & (FULL_10 | HALF_10)),
            };
            let possible = offered != 0 || self.loopback();
            return possible.then_some(mode(speed, c & control::FULL_DUPLEX != 0));
        }
        let both = self.registers[mii::ADVERTISE as usize] & self.partner;
        let gigabit =
            if self.partner_gigabit != 0 { self.registers[mii::GIGABIT_CONTROL as usize] } else { 0 };
        let common = [
            (gigabit & gigabit::FULL, Speed::Mb1000, true),
            (gigabit & gigabit::HALF, Speed::Mb1000, false),
            (both & FULL_100, Speed::Mb100, true),
            (both & HALF_100, Speed::Mb100, false),
            (both & FULL_10, Speed::Mb10, true),
            (both & HALF_10, Speed::Mb10, false),
        ];
        common.into_iter().find(|it| it.0 != 0).map(|(_, speed, full_duplex)| mode(speed, full_duplex))
    }

    pub(crate) fn note_link(&mut self, up: bool) {
        self.up = up;
        self.was_down |= !up;
    }

    pub(crate) fn read(&mut self, register: u32) -> u16 {
        let complete = self.up && self.control() & control::AUTONEGOTIATE != 0;
        match register {
            mii::STATUS => {
                let mut value = ABILITIES;
                if self.up && !core::mem::replace(&mut self.was_down, !self.up) {
                    value |= mii::status::LINK;
                }
                if complete {
                    value |= mii::status::COMPLETE;
                }
                value
            }
            mii::PARTNER if complete => self.partner,
            mii::GIGABIT_STATUS if complete => self.partner_gigabit,
            mii::EXPANSION if complete => 1,
            mii::SPECIFIC_STATUS => {
                let (speed, full_duplex) = match self.resolved() {
                    Some(Mode { speed, full_duplex }) => (speed, full_duplex),
                    None => (Speed::Mb10, false),
                };
                let speed: u16 = match speed {
                    Speed::Mb1000 => 2,
                    Speed::Mb100 => 1,
                    Speed::Mb10 => 0,
                };
                let mut value = speed << specific::SPEED_SHIFT;
                if full_duplex {
                    value |= specific::FULL_DUPLEX;
                }
                if self.up {
                    value |= specific::LINK | specific::RESOLVED;
                }
                value
            }
            _ => self.registers[(register & 31) as usize],
        }
    }

    /// Writes a register. Returns whether the link must be negotiated again.
    fn write(&mut self, register: u32, value: u16) -> bool {
        match register {
            mii::STATUS
            | mii::ID1
            | mii::ID2
            | mii::PARTNER
            | mii::EXPANSION
            | mii::GIGABIT_STATUS
            | EXTENDED_STATUS
            | mii::SPECIFIC_STATUS => false,
            mii::CONTROL => {
                let before = self.control();
                let kept = value & !(control::RESET | control::RESTART);
                self.registers[mii::CONTROL as usize] = kept;
                let how =
                    control::AUTONEGOTIATE | control::SPEED_100 | control::SPEED_1000 | control::FULL_DUPLEX;
                value & (control::RESET | control::RESTART) != 0 || (before ^ kept) & how != 0
            }
            _ => {
                self.registers[(register & 31) as usize] = value;
                false
            }
        }
    }
}

impl Nic {
    /// From now on the link partner offers speeds up to this one in Mb/s (10, 100 or 1000), in both duplexes
    /// or, up to 100 Mb/s and without PAUSE, in half duplex only. The link is negotiated again. No effect on
    /// fibre, which has one mode.
    ///
    /// The cable of the model has no collisions, in half duplex either.
    pub fn set_partner(&mut self, now_ps: u64, mbps: u16, full_duplex: bool) {
        let now = self.now.max(now_ps);
        let slow = if mbps < 100 { advertise::FULL_100 | advertise::HALF_100 } else { 0 };
        let full = advertise::FULL_100 | advertise::FULL_10 | advertise::PAUSE;
        self.phy.partner = PARTNER & !slow & if full_duplex { u16::MAX } else { !full };
        self.phy.partner_gigabit = if mbps >= 1000 && full_duplex { PARTNER_GIGABIT } else { 0 };
        if self.params.media == Media::Copper {
            self.link_evaluate(now, true);
        }
    }

    /// Reads MDIC.
    pub(crate) fn read_mdi(&self) -> u32 {
        if self.params.chip.has_mdic() { self.phy.access } else { 0 }
    }

    /// Writes MDIC: starts an access.
    pub(crate) fn start_mdi(&mut self, now: u64, value: u32) {
        if !self.params.chip.has_mdic() {
            return;
        }
        self.phy.access = value & !(mdic::READY | mdic::ERROR);
        self.deadlines.set(Source::Mdi, now + self.params.mdi_ps);
    }

    /// The access is complete.
    pub(crate) fn mdi_done(&mut self, now: u64) {
        let access = self.phy.access;
        let register = access >> mdic::REG_SHIFT & 31;
        let present =
            self.params.media == Media::Copper && access >> mdic::PHY_SHIFT & 31 == mdic::INTERNAL_PHY;
        match access & (mdic::OP_READ | mdic::OP_WRITE) {
            mdic::OP_READ if present => {
                let data = self.phy.read(register);
                self.phy.access = access & !mdic::DATA_MASK | u32::from(data);
            }
            mdic::OP_READ => self.phy.access |= mdic::ERROR | mdic::DATA_MASK,
            mdic::OP_WRITE if present => self.phy_write(now, register, access as u16),
            _ => {}
        }
        self.phy.access |= mdic::READY;
        if access & mdic::INTERRUPT != 0 {
            self.raise(now, cause::MDAC);
        }
    }

    /// Writes a PHY register, and negotiates the link again if necessary.
    pub(crate) fn phy_write(&mut self, now: u64, register: u32, value: u16) {
        let before = self.carrier();
        let restart = self.phy.write(register, value);
        self.link_evaluate(now, restart);
        self.carrier_changed(now, before);
    }

    /// CTRL.PHY_RST.
    pub(crate) fn reset_phy(&mut self, now: u64) {
        self.phy.defaults();
        self.link_evaluate(now, true);
    }
}
