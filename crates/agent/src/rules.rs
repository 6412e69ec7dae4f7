//! The limits that an agent's operator sets.

use kpps_ports::Spec;
use kpps_tester::Allowed;
use std::fmt;
use std::str::FromStr;

/// Ports that may be used: one, or all of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This one.
    One(Spec),
    /// All whose names begin with this, as `udp:`.
    All(String),
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kinds = ["vfio:", "uio:", "packet:", "xdp:", "auto:", "udp:"];
        match kinds.contains(&text) {
            true => Ok(Self::All(text.to_owned())),
            false => text.parse().map(Self::One).map_err(|error: kpps_ports::Error| error.to_string()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(spec) => write!(f, "{spec}"),
            Self::All(kind) => f.write_str(kind),
        }
    }
}

/// The services of an agent for testers.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Ports that a tester may use.
    pub ports: Vec<Kind>,
    /// The limits of each port.
    pub allowed: Allowed,
}

impl Rules {
    /// Whether a port may be used.
    ///
    /// # Errors
    /// The ports that may be used, in words.
    pub fn check(&self, spec: &Spec) -> Result<(), String> {
        let name = spec.to_string();
        let may = |kind: &Kind| match kind {
            Kind::One(one) => one.includes(spec),
            Kind::All(kind) => name.starts_with(kind.as_str()),
        };
        match self.ports.iter().any(may) {
            true => Ok(()),
            false => {
                let all: Vec<_> = self.ports.iter().map(ToString::to_string).collect();
                Err(format!("{spec} is not among the allowed ports: {}", all.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ports_are_allowed_by_name_or_by_kind() {
        let ports =
            ["packet:eth1", "udp:", "xdp:eth2", "xdp:eth3:1"].map(|text| text.parse().unwrap()).to_vec();
        let rules = Rules { ports, allowed: Allowed::ALL };
        for (port, may) in [
            ("packet:eth1", true),
            ("packet:eth10", false),
            ("xdp:eth1", false),
            ("xdp:eth2:3", true),
            ("xdp:eth3:1", true),
            ("xdp:eth3", false),
            ("udp::9000", true),
            ("udp:10.0.0.1:9", true),
        ] {
            assert_eq!(rules.check(&port.parse().unwrap()).is_ok(), may, "{port}");
        }
        let said = rules.check(&"packet:eth0".parse().unwrap()).unwrap_err();
        assert_eq!(
            said,
            "packet:eth0 is not among the allowed ports: packet:eth1, udp:, xdp:eth2, xdp:eth3:1"
        );
        assert!("eth0".parse::<Kind>().is_err() && "tcp:".parse::<Kind>().is_err());
    }
}
