//! The link: cable, partner, autonegotiation (SDM 8.6, 13.4.1, 13.4.2, 13.4.13, 13.4.14).

use crate::deadlines::Source;
use crate::{Host, Nic, express};
use kpps_datasheet::bit::{cause, ctrl, rctl, rxcw, status, txcw};
use kpps_datasheet::{Chip, Media};

/// A byte on the wire at 1 Gb/s, in ps.
const BYTE_PS_AT_1000: u64 = 8_000;

/// The speed of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Speed {
    Mb10,
    Mb100,
    Mb1000,
}

/// Speed and duplex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) speed: Speed,
    pub(crate) full_duplex: bool,
}

impl Mode {
    /// That of a gigabit link.
    pub(crate) const GIGABIT: Self = Self { speed: Speed::Mb1000, full_duplex: true };
}

/// The link partner, and the state of the link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The cable has a live link partner.
    pub(crate) partner: bool,
    /// Autonegotiation has succeeded, or the link is forced.
    pub(crate) up: bool,
    /// The link's.
    mode: Mode,
    /// The MAC's: the link's, or what CTRL forces.
    mac: Mode,
    /// Both have the same speed. Otherwise no frame passes between MAC and PHY.
    pub(crate) speeds_agree: bool,
    /// TXCW.
    pub(crate) word: u32,
}

impl Link {
    pub(crate) fn new() -> Self {
        let (mode, mac) = (Mode::GIGABIT, Mode::GIGABIT);
        Self { partner: true, up: false, mode, mac, speeds_agree: true, word: 0 }
    }
}

impl Nic {
    /// Connects or disconnects the link partner; a new card has one. The link comes up
    /// [`link_ps`](crate::Params::link_ps) after partner and driver are ready.
    pub fn set_link(&mut self, now_ps: u64, up: bool) {
        let now = self.now.max(now_ps);
        self.link.partner = up;
        self.link_evaluate(now, false);
    }

    /// The link is up for the MAC (STATUS.LU). Frames pass only then.
    #[inline]
    pub(crate) fn carrier(&self) -> bool {
        self.link.up && (self.params.media == Media::Fibre || self.ctrl & ctrl::SLU != 0)
    }

    /// Loopback: sent frames are received by this card only.
    #[inline]
    pub(crate) fn loopback(&self) -> bool {
        self.rx.control & rctl::LBM_MASK != 0 || (self.params.media == Media::Copper && self.phy.loopback())
    }

    /// The time of a byte on the wire, in ps.
    #[inline]
    pub(crate) fn byte_ps(&self) -> u64 {
        match self.link.mac.speed {
            Speed::Mb1000 => BYTE_PS_AT_1000,
            Speed::Mb100 => 10 * BYTE_PS_AT_1000,
            Speed::Mb10 => 100 * BYTE_PS_AT_1000,
        }
    }

    /// Re-evaluates the link. `restart`: negotiate again even if it is up.
    pub(crate) fn link_evaluate(&mut self, now: u64, restart: bool) {
        let (possible, forced) = match self.params.media {
            Media::Copper => (self.phy.powered() && self.phy.resolved().is_some(), false),
            Media::Fibre => {
                let negotiates = self.link.word & txcw::ANE != 0;
                let forced = !negotiates && self.ctrl & ctrl::SLU != 0;
                (self.ctrl & ctrl::LRST == 0 && (negotiates || forced), forced)
            }
        };
        if !self.link.partner || !possible {
            self.deadlines.clear(Source::Link);
            self.link_set(now, false);
        } else if forced {
            self.deadlines.clear(Source::Link);
            self.link_set(now, true);
        } else if restart || (!self.link.up && !self.deadlines.pending(Source::Link)) {
            self.link_set(now, false);
            self.deadlines.set(Source::Link, now + self.params.link_ps);
        }
    }

    fn link_set(&mut self, now: u64, up: bool) {
        let before = self.carrier();
        self.link.up = up;
        if self.params.media == Media::Copper {
            self.link.mode = self.phy.resolved().unwrap_or(self.link.mode);
        }
        self.set_mac_mode();
        self.phy.note_link(up);
        self.carrier_changed(now, before);
    }

    /// Sets speed and duplex of the MAC. CTRL forces them without regard to the PHY, which must have the same
    /// speed (SDM 13.4.1, FRCSPD and FRCDPLX); CTRL.SPEED is ignored with ASDE.
    pub(crate) fn set_mac_mode(&mut self) {
        let Mode { mut speed, mut full_duplex } = self.link.mode;
        if self.params.media == Media::Copper {
            if self.ctrl & (ctrl::FRCSPD | ctrl::ASDE) == ctrl::FRCSPD {
                speed = match self.ctrl & ctrl::SPEED_MASK {
                    ctrl::SPEED_10 => Speed::Mb10,
                    ctrl::SPEED_100 => Speed::Mb100,
                    _ => Speed::Mb1000,
                };
            }
            if self.ctrl & ctrl::FRCDPLX != 0 {
                full_duplex = self.ctrl & ctrl::FD != 0;
            }
        }
        self.link.mac = Mode { speed, full_duplex };
        self.link.speeds_agree = speed == self.link.mode.speed;
    }

    /// The speed of the link in Mb/s, if it is up.
    pub fn link_mbps(&self) -> Option<u16> {
        self.carrier().then_some(match self.link.mode.speed {
            Speed::Mb10 => 10,
            Speed::Mb100 => 100,
            Speed::Mb1000 => 1000,
        })
    }

    /// Whether the link is up, and the MAC in half duplex (STATUS.FD).
    pub fn is_half_duplex(&self) -> bool {
        self.carrier() && !self.link.mac.full_duplex
    }

    /// Reports a change of STATUS.LU since it was `before`.
    pub(crate) fn carrier_changed(&mut self, now: u64, before: bool) {
        if self.carrier() != before {
            self.count_idle(now);
            self.note_dry(now);
            self.raise(now, cause::LSC);
        }
    }

    /// Autonegotiation has succeeded.
    pub(crate) fn link_done<H: Host>(&mut self, now: u64, host: &mut H) {
        self.link_set(now, true);
        self.wire_start(now, host);
    }

    /// STATUS.
    pub(crate) fn read_status(&self) -> u32 {
        let p = &self.params;
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        let speed = match self.link.mac.speed {
            Speed::Mb1000 => status::SPEED_1000,
            Speed::Mb100 => status::SPEED_100,
            Speed::Mb10 => 0,
        };
        let bus = match p.chip.is_pci_express() {
            true => express::bus_status(self.ctrl),
            false => {
                bit(p.bus_66mhz, status::PCI66)
                    | bit(p.bus_64bit, status::BUS64)
                    | bit(p.bus_pcix, status::PCIX_MODE)
                    | (u32::from(p.bus_pcix_speed) << 14 & status::PCIXSPD_MASK)
            }
        };
        bit(self.link.mac.full_duplex, status::FD)
            | speed
            | bit(self.carrier() || (self.loopback() && self.ctrl & ctrl::SLU != 0), status::LU)
            | bit(self.now < self.flow.paused_until_ps, status::TXOFF)
            | bit(p.media == Media::Fibre, status::TBIMODE)
            | bus
            | (u32::from(p.port) << status::FUNC_SHIFT & status::FUNC_MASK)
    }

    /// Reads CTRL. On fibre cards pin 1 shows loss of signal (public drivers: low means signal up to the
    /// 82544, high on later chips).
    pub(crate) fn read_control(&self) -> u32 {
        let mut value = self.read_mdio_pin(self.ctrl);
        if self.params.media == Media::Fibre && value & ctrl::SWDPIO1 == 0 {
            let high = self.link.partner == (self.params.chip > Chip::I82544);
            value = if high { value | ctrl::SWDPIN1 } else { value & !ctrl::SWDPIN1 };
        }
        value
    }

    /// Reads RXCW: the partner supports full duplex and PAUSE.
    pub(crate) fn read_receive_word(&self) -> u32 {
        if self.params.media == Media::Copper || !self.link.partner {
            return rxcw::NC;
        }
        let mut value = rxcw::SYNCH;
        if self.link.word & txcw::ANE != 0 {
            if self.link.up {
                value |= rxcw::ANC | txcw::FD | txcw::PAUSE;
            } else {
                value |= rxcw::C;
            }
        }
        value
    }

    /// Writes TXCW; enabling autonegotiation starts it.
    pub(crate) fn set_transmit_word(&mut self, now: u64, value: u32) {
        let restart = value & txcw::ANE != 0 && self.link.word != value;
        self.link.word = value;
        if self.params.media == Media::Fibre {
            self.link_evaluate(now, restart);
        }
    }
}
