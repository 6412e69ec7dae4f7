//! A virtual cable: two interfaces that are connected to each other and to nothing else.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of cables that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A pair of veth interfaces in this network namespace, which exists as long as this value. The kernel gives
/// them no addresses, so it sends nothing over them by itself.
#[derive(Debug)]
pub struct Cable {
    ends: [String; 2],
}

impl Cable {
    /// Lays a cable. It takes root (`CAP_NET_ADMIN`) and the program `ip`.
    ///
    /// # Errors
    /// `ip` is missing or refuses; its own message is part of the error.
    pub fn lay() -> io::Result<Self> {
        // At most 15 characters: the longest name of an interface.
        let name = format!("k{}x{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let ends = ["a", "b"].map(|end| format!("{name}{end}"));
        let [a, b] = &ends;
        ip(&["link", "add", "name", a, "type", "veth", "peer", "name", b])?;
        let cable = Self { ends };
        let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        for end in &cable.ends {
            if has_ipv6 {
                ip(&["link", "set", "dev", end, "addrgenmode", "none"])?;
            }
            ip(&["link", "set", "dev", end, "up"])?;
        }
        Ok(cable)
    }

    /// The names of its ends.
    pub fn ends(&self) -> &[String; 2] {
        &self.ends
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // Its other end goes with it. There is no caller to return an error to.
        let _ = ip(&["link", "delete", "dev", &self.ends[0]]);
    }
}

fn ip(words: &[&str]) -> io::Result<()> {
    let failed = |why: &str| io::Error::other(format!("ip {}: {why}", words.join(" ")));
    let output = Command::new("ip").args(words).output().map_err(|error| failed(&error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cable_exists_as_long_as_its_value() {
        // Without root `ip` says why.
        let cable = match Cable::lay() {
            Ok(cable) => cable,
            Err(why) => {
                assert!(why.to_string().starts_with("ip link add name k"), "{why}");
                return;
            }
        };
        let exists = |end: &str| Path::new("/sys/class/net").join(end).exists();
        let ends = cable.ends().clone();
        assert!(ends.iter().all(|end| exists(end) && end.len() <= 15), "{ends:?}");
        drop(cable);
        assert!(!ends.iter().any(|end| exists(end)), "{ends:?}");
    }
}
