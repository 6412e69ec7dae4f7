//! Where the suite runs: on the model, on QEMU, or on a card of this machine.

use crate::On;
use kpps_ports::Spec;
use std::str::FromStr;

/// The card on which the suite runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestedCard {
    /// On a card that needs no hardware.
    Emulated(On),
    /// On a card of this machine, by the name of its port.
    Real(Spec),
}

impl FromStr for TestedCard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.parse(), text.contains(':')) {
            (Ok(on), _) => Ok(Self::Emulated(on)),
            (Err(_), false) => {
                Err(format!("'{text}' is neither model nor qemu, nor a card (vfio:ADDRESS, uio:ADDRESS)"))
            }
            (Err(_), true) => match text.parse() {
                Ok(spec @ Spec::Card(..)) => Ok(Self::Real(spec)),
                Ok(_) => Err("the suite tests kpps' own driver: give vfio:ADDRESS or uio:ADDRESS".into()),
                Err(why) => Err(why.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_as_people_type_them() {
        assert_eq!("qemu".parse(), Ok(TestedCard::Emulated(On::Qemu)));
        assert!(matches!("uio:0000:00:10.0".parse().unwrap(), TestedCard::Real(Spec::Card(..))));
        for bad in ["", "silicon", "packet:eth0", "uio:"] {
            assert!(bad.parse::<TestedCard>().is_err(), "{bad}");
        }
    }
}
