//! The RSS hash of a frame, as the 82576 computes it.

use kpps_frames::rss::toeplitz;

/// The fields that a hash covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashed {
    /// Addresses and TCP ports.
    Ports,
    /// Addresses only.
    Addresses,
}

/// The hash of a frame and the fields that it covers; `None` if it is not IP. The frame is Ethernet without
/// VLAN tag, options or extensions.
pub fn hash(key: &[u8; 40], frame: &[u8]) -> Option<(u32, Hashed)> {
    let (addresses, protocol, ports) = match frame.get(12..14)? {
        [0x08, 0x00] => (26..34, frame[23], 34..38),
        [0x86, 0xdd] => (22..54, frame[20], 54..58),
        _ => return None,
    };
    let mut input = frame[addresses].to_vec();
    // TCP; this chip hashes no UDP ports.
    if protocol != 6 {
        return Some((toeplitz(key, &input), Hashed::Addresses));
    }
    input.extend(&frame[ports]);
    Some((toeplitz(key, &input), Hashed::Ports))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_driver::config::Rss;

    /// Microsoft's verification suite: 66.9.149.187:2794 to 161.142.100.80:1766.
    #[test]
    fn vectors_of_the_verification_suite() {
        let input = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(toeplitz(&Rss::DEFAULT.key, &input), 0x51cc_c178);
        assert_eq!(toeplitz(&Rss::DEFAULT.key, &input[..8]), 0x323e_8fc2);
        let back = [161, 142, 100, 80, 66, 9, 149, 187, 0x06, 0xe6, 0x0a, 0xea];
        let key = &Rss::SYMMETRIC.key;
        assert_eq!(toeplitz(key, &input), toeplitz(key, &back));
    }
}
