//! The 82543's access to its PHY: MDIO over two software-defined pins of CTRL (public drivers; frames as in
//! IEEE 802.3 clause 22).

use crate::Nic;
use kpps_datasheet::bit::{ctrl, mdic};
use kpps_datasheet::{Chip, Media};

/// Start, opcode, PHY address and register, in bits.
const HEAD_BITS: u32 = 14;
/// Head, turnaround and data.
const FRAME_BITS: u32 = 32;
const START: u32 = 0b01;
const OPCODE_READ: u32 = 0b10;
const OPCODE_WRITE: u32 = 0b01;

/// The PHY's side of the pins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mdio {
    /// The bits of the frame so far, and how many.
    bits: u32,
    count: u32,
    /// A read in progress: the data to shift out.
    data: Option<u16>,
    /// The level at which the PHY drives the data pin.
    out: bool,
}

impl Nic {
    /// Pins 2 and 3 of CTRL are connected to a PHY.
    fn has_mdio_pins(&self) -> bool {
        self.params.chip == Chip::I82543gc && self.params.media == Media::Copper
    }

    /// CTRL with the data pin as the PHY drives it.
    pub(crate) fn read_mdio_pin(&self, control: u32) -> u32 {
        if !self.has_mdio_pins() || control & ctrl::SWDPIO2 != 0 {
            control
        } else if self.mdio.out {
            control | ctrl::SWDPIN2
        } else {
            control & !ctrl::SWDPIN2
        }
    }

    /// CTRL has changed from `before`: a rising edge of the clock pin moves one bit.
    pub(crate) fn move_mdio_pins(&mut self, now: u64, before: u32, control: u32) {
        if !self.has_mdio_pins() || before & ctrl::SWDPIN3 != 0 || control & ctrl::SWDPIN3 == 0 {
            return;
        }
        // A pull-up holds the line high when nothing drives it.
        let bit = control & ctrl::SWDPIO2 == 0 || control & ctrl::SWDPIN2 != 0;
        let m = &mut self.mdio;
        if m.count == 0 && bit {
            // The preamble, or idle.
            return;
        }
        m.bits = m.bits << 1 | u32::from(bit);
        m.count += 1;
        match m.count {
            2 if m.bits != START => *m = Mdio::default(),
            HEAD_BITS => {
                let (opcode, register) = (m.bits >> 10 & 3, m.bits & 31);
                let present = m.bits >> 5 & 31 == mdic::INTERNAL_PHY;
                match opcode {
                    OPCODE_READ => {
                        let data = if present { self.phy.read(register) } else { u16::MAX };
                        self.mdio.data = Some(data);
                    }
                    OPCODE_WRITE => {}
                    _ => *m = Mdio::default(),
                }
            }
            n if n > HEAD_BITS && m.data.is_some() => {
                // One clock of turnaround, then the data, the highest bit first.
                let data = m.data.unwrap_or(0);
                m.out = n > HEAD_BITS + 1 && data >> (FRAME_BITS - 1).saturating_sub(n) & 1 != 0;
                if n == FRAME_BITS {
                    *m = Mdio::default();
                }
            }
            FRAME_BITS => {
                let data = m.bits as u16;
                // Head, turnaround and data make 32 bits: the head is at the top.
                let (phy, register) = (m.bits >> 23 & 31, m.bits >> 18 & 31);
                *m = Mdio::default();
                if phy == mdic::INTERNAL_PHY {
                    self.phy_write(now, register, data);
                }
            }
            _ => {}
        }
    }
}
