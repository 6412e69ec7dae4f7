//! Addresses on the PCI bus.

use std::fmt;

/// The address of a PCI function: domain, bus, device, function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// Reads "0000:00:10.0", or "00:10.0" for domain 0.
pub(crate) fn parse(text: &str) -> Option<Address> {
    let (front, function) = text.split_once('.')?;
    let mut parts = front.rsplit(':');
    let (device, bus) = (parts.next()?, parts.next()?);
    let domain = parts.next().unwrap_or("0000");
    if parts.next().is_some() || !(4..=8).contains(&domain.len()) || bus.len() != 2 || device.len() != 2 {
        return None;
    }
    let hex = |digits: &str| {
        let all = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        all.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    };
    let (device, function) = (hex(device)?, hex(function)?);
    if device > 0x1f || function > 7 {
        return None;
    }
    Some(Address {
        domain: hex(domain)?,
        bus: hex(bus)? as u8,
        device: device as u8,
        function: function as u8,
    })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        // As the kernel names it in sysfs.
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    #[test]
    fn short_and_long() {
        let long: Address = "0000:00:10.0".parse().unwrap();
        assert_eq!("00:10.0".parse::<Address>().unwrap(), long);
        assert_eq!("10000:3A:1f.7".parse::<Address>().unwrap().to_string(), "10000:3a:1f.7");
    }

    #[test]
    fn others_are_refused() {
        for text in [
            "",
            ":",
            ".",
            "0.0",
            "00:10",
            "00:20.0",
            "00:10.8",
            "000:00:10.0",
            "0:0000:00:10.0",
            "00:1.0",
            "+0:10.0",
            "0000:00:10.",
            "0000:00:10.0 ",
            "eth0",
        ] {
            let refused = text.parse::<Address>();
            assert!(matches!(&refused, Err(Error::BadAddress(bad)) if bad == text), "{text}: {refused:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read(domain: u32, bus: u8, device in 0_u8..32, function in 0_u8..8) {
            let address = Address { domain, bus, device, function };
            prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
        }
        #[test]
        fn nothing_panics(text in "[0-9a-f:.\\PC]{0,16}") {
            drop(text.parse::<Address>());
        }
    }
}
