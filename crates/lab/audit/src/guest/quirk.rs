//! Properties of a card that some drivers need and the manual does not have.

use kpps_card::Params;

kpps_methods::names! {
    /// A property of the card beyond the manual.
    pub enum Quirk("quirk") {
        /// The software semaphore SWSM (5B50h): QEMU's card has it, the 8254x do not.
        Swsm = "swsm",
        /// RCTL.MPE passes broadcasts, as the manual's section 6.4.3 hints at. Section 13.4.22 does not.
        MpePassesBroadcasts = "mpe-passes-broadcasts",
        /// The EEPROM sets CTRL.SLU, as one with APM enabled does (SDM 13.4.1). So the rest of a driver is
        /// seen that forgets SLU.
        Slu = "slu",
    }
}

impl Quirk {
    /// Gives a card this property.
    pub const fn apply(self, params: &mut Params) {
        match self {
            Self::Swsm => params.swsm = true,
            Self::MpePassesBroadcasts => params.mpe_passes_broadcasts = true,
            Self::Slu => params.slu_at_reset = true,
        }
    }
}
