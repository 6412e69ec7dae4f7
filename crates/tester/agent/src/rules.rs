//! The limits that an agent's operator sets.

use ipnet::IpNet;
use kpps_ports::Spec;
use kpps_tester::Allowed;
use std::fmt;
use std::net::{IpAddr, ToSocketAddrs};
use std::str::FromStr;

/// The networks to which `udp:` ports may send unless others are named: this host, and the networks that are
/// kept for tests (RFC 2544, C.2.2; RFC 5180, 8).
pub const TEST_NETWORKS: &str = "127.0.0.0/8,::1,198.18.0.0/15,2001:2::/48";

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

/// A network to which `udp:` ports may send: `10.1.0.0/16`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub(crate) IpNet);

impl Network {
    /// The networks of a list with commas between them.
    ///
    /// # Errors
    /// The first invalid rule.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(str::parse).collect()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse::<IpAddr>().map(IpNet::from);
        let network = address.or_else(|_| text.parse()).map(Self);
        network.map_err(|_| format!("'{text}' is not a network: give 10.1.0.0/16, or an address"))
    }
}

/// The services of an agent for testers.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Ports that a tester may use.
    pub ports: Vec<Kind>,
    /// The limits: the highest load of all ports together, and the longest time.
    pub allowed: Allowed,
    /// The networks to which `udp:` ports may send. A destination that `ports` names needs none.
    pub destinations: Vec<Network>,
}

impl Rules {
    /// The port to open for a port that a tester names, if the tester may use it. The name of a destination
    /// is looked up here, once, so that the checked address is the address that is opened.
    ///
    /// # Errors
    /// The message says what is allowed.
    pub fn admit(&self, spec: &Spec) -> Result<Spec, String> {
        let is_named = |kind: &Kind| matches!(kind, Kind::One(one) if one.includes(spec));
        if self.ports.iter().any(is_named) {
            return Ok(spec.clone());
        }
        let name = spec.to_string();
        if !self.ports.iter().any(|kind| matches!(kind, Kind::All(all) if name.starts_with(all.as_str()))) {
            return Err(format!("{spec} is not among the allowed ports: {}", listed(&self.ports)));
        }
        let Spec::Udp { host, port } = spec else { return Ok(spec.clone()) };
        if host.is_empty() {
            return Ok(spec.clone());
        }
        let addresses = (host.as_str(), *port).to_socket_addrs();
        let address = addresses.ok().and_then(|mut all| all.next());
        let address = address.ok_or_else(|| format!("{spec}: the name has no address"))?.ip().to_canonical();
        match self.destinations.iter().any(|network| network.0.contains(&address)) {
            true => Ok(Spec::Udp { host: address.to_string(), port: *port }),
            false => Err(format!(
                "{spec} sends to {address}, which is in none of the allowed networks: {}",
                listed(&self.destinations)
            )),
        }
    }

    /// Whether an interface belongs to a port that may be used.
    pub fn may_be_seen(&self, name: &str) -> bool {
        self.ports.iter().any(|kind| match kind {
            Kind::One(spec) => spec.interface() == Some(name),
            Kind::All(kind) => {
                let port: Result<Spec, _> = format!("{kind}{name}").parse();
                port.is_ok_and(|spec| spec.interface() == Some(name))
            }
        })
    }
}

fn listed(all: &[impl fmt::Display]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rules(ports: &[&str]) -> Rules {
        let ports = ports.iter().map(|text| text.parse().unwrap()).collect();
        Rules { ports, allowed: Allowed::ALL, destinations: Network::list(TEST_NETWORKS).unwrap() }
    }

    fn admits(rules: &Rules, port: &str) -> Result<String, String> {
        rules.admit(&port.parse().unwrap()).map(|spec| spec.to_string())
    }

    #[test]
    fn ports_are_allowed_by_name_or_by_kind() {
        let rules = rules(&["packet:eth1", "udp:", "xdp:eth2", "xdp:eth3:1"]);
        for (port, may) in [
            ("packet:eth1", true),
            ("packet:eth10", false),
            ("xdp:eth1", false),
            ("xdp:eth2:3", true),
            ("xdp:eth3:1", true),
            ("xdp:eth3", false),
            ("udp::9000", true),
            ("udp:127.0.0.1:9", true),
        ] {
            assert_eq!(admits(&rules, port).is_ok(), may, "{port}");
        }
        assert_eq!(
            admits(&rules, "packet:eth0").unwrap_err(),
            "packet:eth0 is not among the allowed ports: packet:eth1, udp:, xdp:eth2, xdp:eth3:1"
        );
        assert!("eth0".parse::<Kind>().is_err() && "tcp:".parse::<Kind>().is_err());
    }

    #[test]
    fn sockets_send_only_to_allowed_networks() {
        let rules = rules(&["udp:", "udp:203.0.113.9:53"]);
        for port in ["udp:198.19.255.1:9", "udp:[2001:2::7]:9", "udp:[::1]:9", "udp:203.0.113.9:53"] {
            assert_eq!(admits(&rules, port).as_deref(), Ok(port));
        }
        for port in ["udp:203.0.113.9:54", "udp:198.20.0.1:9", "udp:255.255.255.255:9", "udp:0.0.0.0:9"] {
            let said = admits(&rules, port).unwrap_err();
            assert!(said.contains("none of the allowed networks: 127.0.0.0/8, ::1/128, 198.18"), "{said}");
        }
        // An address in another notation, or a name, is opened in the form that was checked.
        assert!(admits(&rules, "udp:[::ffff:8.8.8.8]:9").is_err());
        assert_eq!(admits(&rules, "udp:[::ffff:127.0.0.1]:9").unwrap(), "udp:127.0.0.1:9");
        assert!(["udp:127.0.0.1:9", "udp:[::1]:9"].contains(&&*admits(&rules, "udp:localhost:9").unwrap()));
        assert!(admits(&rules, "udp:no-such-host.invalid:9").is_err());
        assert!("10.0.0.0/33".parse::<Network>().is_err() && "h1".parse::<Network>().is_err());
    }

    #[test]
    fn only_interfaces_of_allowed_ports_are_seen() {
        let one = rules(&["packet:eth1", "xdp:eth2:1", "udp:"]);
        assert!(one.may_be_seen("eth1") && one.may_be_seen("eth2"));
        assert!(["eth0", "", "127.0.0.1", "eth1 ", "../eth1"].iter().all(|name| !one.may_be_seen(name)));
        let all = rules(&["packet:"]);
        assert!(all.may_be_seen("eth0") && !all.may_be_seen("..") && !all.may_be_seen("a/b"));
    }
}
