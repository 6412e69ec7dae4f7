//! The link: autonegotiation by the PHY on copper, by the MAC on fibre; loopback.

use crate::{Control, Error, config::FlowControl, phy::Phy};
use kpps_datasheet::{
    Chip, Media,
    bit::{ctrl, rctl, rxcw, status, tctl, txcw},
    mii, reg,
};
use kpps_platform::Platform;

/// The state of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Frames can pass.
    pub up: bool,
    /// Mb/s; meaningless when down.
    pub speed_mbps: u16,
    /// Full duplex; meaningless when down.
    pub full_duplex: bool,
    /// PAUSE is obeyed.
    pub rx_pause: bool,
    /// PAUSE is sent.
    pub tx_pause: bool,
}

/// Where frames are looped back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loopback {
    /// Nowhere.
    Off,
    /// In the copper PHY (MII register 0 bit 14).
    Phy,
    /// In the MAC (RCTL.LBM = 1; undocumented, but present on several chips and in QEMU).
    Mac,
    /// In the transceiver: TBI or SerDes (RCTL.LBM = 3, SDM 13.4.22).
    Transceiver,
}

impl<P: Platform> Control<P> {
    fn phy(&self) -> Phy<'_, P> {
        Phy { platform: &self.platform, regs: &self.regs, chip: self.chip }
    }

    /// Starts the link. It comes up later: [`update_link`](Self::update_link).
    pub(crate) fn start_link(&mut self) -> Result<(), Error> {
        self.link = Link::default();
        self.link_forced = false;
        match self.media {
            Media::Fibre => self.start_fibre(),
            Media::Copper => self.start_copper(),
        }
    }

    fn start_fibre(&mut self) -> Result<(), Error> {
        let pause = match self.config.flow_control {
            FlowControl::Off => 0,
            FlowControl::Transmit => txcw::ASM_DIR,
            FlowControl::Receive | FlowControl::Full => txcw::PAUSE | txcw::ASM_DIR,
        };
        self.regs.write(reg::TXCW, txcw::ANE | txcw::FD | pause);
        // Clearing it starts autonegotiation (SDM 13.4.1).
        self.regs.modify(reg::CTRL, ctrl::LRST | ctrl::SLU, ctrl::FD)?;
        Ok(())
    }

    fn start_copper(&mut self) -> Result<(), Error> {
        if self.chip <= Chip::I82543gc {
            // The MAC of these chips does not detect the PHY's speed; `update_link` sets it.
            self.regs.modify(reg::CTRL, 0, ctrl::SLU | ctrl::FRCSPD | ctrl::FRCDPLX)?;
        } else {
            // The 82574's MAC takes the speed from its PHY without ASDE.
            let detect = if self.chip.is_pci_express() { 0 } else { ctrl::ASDE };
            self.regs.modify(reg::CTRL, ctrl::FRCSPD | ctrl::FRCDPLX, ctrl::SLU | detect)?;
        }
        let phy = self.phy();
        let id = u32::from(phy.read(mii::ID1)?) << 16 | u32::from(phy.read(mii::ID2)?);
        if id == 0 || id == u32::MAX {
            return Err(Error::Phy);
        }
        use mii::advertise::*;
        let pause = match self.config.flow_control {
            FlowControl::Off => 0,
            FlowControl::Transmit => ASYMMETRIC,
            FlowControl::Receive | FlowControl::Full => PAUSE | ASYMMETRIC,
        };
        phy.write(mii::ADVERTISE, SELECTOR | HALF_10 | FULL_10 | HALF_100 | FULL_100 | pause)?;
        phy.write(mii::GIGABIT_CONTROL, mii::gigabit::FULL)?;
        phy.write(mii::CONTROL, mii::control::AUTONEGOTIATE | mii::control::RESTART)
    }

    /// The link as of the last [`update_link`](Self::update_link).
    pub fn link(&self) -> Link {
        self.link
    }

    /// Reads the state of the link and configures the MAC to match. Call it after an interrupt with a
    /// [link cause](crate::Causes::link); [`watchdog`](Self::watchdog) calls it too.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device has vanished; [`Error::Phy`] if the PHY does not answer.
    pub fn update_link(&mut self) -> Result<Link, Error> {
        let status = match self.media {
            Media::Fibre => self.update_fibre()?,
            Media::Copper => self.update_copper()?,
        };
        let up = status & status::LU != 0;
        let link = if up { self.up_link(status)? } else { Link::default() };
        if up && link != self.link {
            // Each change of CTRL reads it first. A read that was wrong may have lost the bit for tags.
            let (mask, bits) = (ctrl::RFCE | ctrl::TFCE | ctrl::VME, pause_bits(link) | self.vlan_bits());
            self.regs.modify(reg::CTRL, mask, bits)?;
            let half_gigabit = !link.full_duplex && link.speed_mbps == 1000;
            let distance = if half_gigabit { tctl::COLD_HALF_1000 } else { tctl::COLD_FULL };
            self.regs.modify(reg::TCTL, tctl::COLD_MASK, distance << tctl::COLD_SHIFT)?;
        }
        self.link = link;
        Ok(link)
    }

    fn up_link(&self, status: u32) -> Result<Link, Error> {
        let speed_mbps = match (self.media, status & status::SPEED_MASK) {
            (Media::Fibre, _) => 1000,
            (Media::Copper, 0) => 10,
            (Media::Copper, status::SPEED_100) => 100,
            (Media::Copper, _) => 1000,
        };
        let full_duplex = status & status::FD != 0;
        let (rx_pause, tx_pause) = if full_duplex { self.negotiated_pause()? } else { (false, false) };
        Ok(Link { up: true, speed_mbps, full_duplex, rx_pause, tx_pause })
    }

    fn update_fibre(&mut self) -> Result<u32, Error> {
        let status = self.regs.get(reg::STATUS)?;
        let word = self.regs.read(reg::RXCW);
        // On fibre cards pin 1 is loss of signal: high means lost.
        let signal = self.regs.get(reg::CTRL)? & ctrl::SWDPIN1 == 0;
        if self.link_forced && word & rxcw::C != 0 {
            // The partner does negotiate.
            let words = self.regs.read(reg::TXCW) | txcw::ANE;
            self.regs.write(reg::TXCW, words);
            self.regs.modify(reg::CTRL, ctrl::SLU, 0)?;
            self.link_forced = false;
        } else if !self.link_forced && status & status::LU == 0 && signal && word & rxcw::C == 0 {
            // A signal without negotiation: wait for one more call, then force the link.
            if !self.link_waited {
                self.link_waited = true;
                return Ok(status);
            }
            let words = self.regs.read(reg::TXCW) & !txcw::ANE;
            self.regs.write(reg::TXCW, words);
            self.regs.modify(reg::CTRL, 0, ctrl::SLU | ctrl::FD)?;
            self.link_forced = true;
        }
        self.link_waited = false;
        self.regs.get(reg::STATUS)
    }

    fn update_copper(&mut self) -> Result<u32, Error> {
        if self.chip <= Chip::I82543gc {
            let specific = self.phy().read(mii::SPECIFIC_STATUS)?;
            if specific & mii::specific::RESOLVED != 0 {
                let speed = u32::from(specific >> mii::specific::SPEED_SHIFT).min(2) << 8;
                let duplex = if specific & mii::specific::FULL_DUPLEX != 0 { ctrl::FD } else { 0 };
                self.regs.modify(reg::CTRL, ctrl::SPEED_MASK | ctrl::FD, speed | duplex)?;
            }
        }
        self.regs.get(reg::STATUS)
    }

    /// (obey, send) PAUSE as both ends advertise it (IEEE 802.3 table 28B-3).
    fn negotiated_pause(&self) -> Result<(bool, bool), Error> {
        let want = self.config.flow_control;
        if want == FlowControl::Off || self.loopback != Loopback::Off {
            return Ok((false, false));
        }
        let (ours, theirs) = match self.media {
            Media::Fibre if self.link_forced => return Ok((want.receives(), want.transmits())),
            Media::Fibre => {
                let (ours, theirs) = (self.regs.read(reg::TXCW), self.regs.read(reg::RXCW));
                let split = |word: u32| (word & txcw::PAUSE != 0, word & txcw::ASM_DIR != 0);
                (split(ours), split(theirs))
            }
            Media::Copper => {
                let split =
                    |word: u16| (word & mii::advertise::PAUSE != 0, word & mii::advertise::ASYMMETRIC != 0);
                let phy = self.phy();
                (split(phy.read(mii::ADVERTISE)?), split(phy.read(mii::PARTNER)?))
            }
        };
        let (rx, tx) = match (ours, theirs) {
            ((true, _), (true, _)) => (true, true),
            ((false, true), (true, true)) => (false, true),
            ((true, true), (false, true)) => (true, false),
            _ => (false, false),
        };
        Ok((rx && want.receives(), tx && want.transmits()))
    }

    /// Turns loopback on or off. With loopback, sent frames are received again, without a cable.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the chip lacks this loopback; others if the device does not respond.
    pub fn set_loopback(&mut self, loopback: Loopback) -> Result<(), Error> {
        let mode = match loopback {
            Loopback::Off | Loopback::Phy => 0,
            Loopback::Mac => rctl::LBM_MAC,
            Loopback::Transceiver => rctl::LBM_TRANSCEIVER,
        };
        if loopback == Loopback::Phy && self.media == Media::Fibre {
            return Err(Error::Unsupported);
        }
        self.loopback = loopback;
        self.loopback_mode = mode;
        self.write_rctl();
        match (loopback, self.media) {
            (Loopback::Off, _) => self.start_link(),
            (Loopback::Phy, _) => {
                use mii::control::*;
                self.phy().write(mii::CONTROL, LOOPBACK | SPEED_1000 | FULL_DUPLEX)?;
                let forced = ctrl::FRCSPD | ctrl::FRCDPLX | ctrl::SPEED_1000 | ctrl::FD | ctrl::SLU;
                self.regs.modify(reg::CTRL, ctrl::ASDE | ctrl::SPEED_MASK, forced).map(drop)
            }
            (_, Media::Fibre) => {
                self.regs.write(reg::TXCW, txcw::FD);
                self.regs.modify(reg::CTRL, ctrl::LRST, ctrl::SLU | ctrl::FD).map(drop)
            }
            (_, Media::Copper) => {
                let forced = ctrl::FRCSPD | ctrl::FRCDPLX | ctrl::SPEED_1000 | ctrl::FD | ctrl::SLU;
                self.regs.modify(reg::CTRL, ctrl::ASDE | ctrl::SPEED_MASK, forced).map(drop)
            }
        }
    }
}

fn pause_bits(link: Link) -> u32 {
    let rx = if link.rx_pause { ctrl::RFCE } else { 0 };
    let tx = if link.tx_pause { ctrl::TFCE } else { 0 };
    rx | tx
}
