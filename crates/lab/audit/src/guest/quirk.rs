//! Properties of a card that some drivers need and the manual does not have.

use kpps_card::Params;
use std::str::FromStr;

/// A property of the card beyond the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// The software semaphore SWSM (5B50h): QEMU's card has it, the 8254x do not.
    Swsm,
    /// RCTL.MPE passes broadcasts, as the manual's section 6.4.3 hints at. Section 13.4.22 does not.
    MpePassesBroadcasts,
    /// The EEPROM sets CTRL.SLU, as one with APM enabled does (SDM 13.4.1). So the rest of a driver is seen
    /// that forgets SLU.
    Slu,
}

impl Quirk {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Swsm, Self::MpePassesBroadcasts, Self::Slu];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Swsm => "swsm",
            Self::MpePassesBroadcasts => "mpe-passes-broadcasts",
            Self::Slu => "slu",
        }
    }

    /// Gives a card this property.
    pub const fn apply(self, params: &mut Params) {
        match self {
            Self::Swsm => params.swsm = true,
            Self::MpePassesBroadcasts => params.mpe_passes_broadcasts = true,
            Self::Slu => params.slu_at_reset = true,
        }
    }
}

impl FromStr for Quirk {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|quirk| quirk.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no quirk called '{text}': known are {names}")
        })
    }
}
