//! Opening ports by their names, until their links are up.

use super::run::{left_raised, wait_for_links};
use super::{AnyPort, Options, Port, Trouble, choose, open};
use crate::{Error, Spec};
use std::time::Duration;

/// How long a link may take to come up: autonegotiation, and a switch that blocks a new port at first.
const LINK: Duration = Duration::from_secs(8);

/// The reason why ports are not ready.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// A port cannot be opened.
    #[error(transparent)]
    Closed(#[from] Error),
    /// An open port failed.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// These ports have no link.
    #[error("the link of {0} does not come up: check the cable (of a packet: port: `ip link set IFACE up`)")]
    NoLink(String),
}

/// Opens ports and waits up to eight seconds for their links. `say` receives messages: the kind of port that
/// an `auto:` name stands for, with the reason, and leftovers of an earlier program.
///
/// # Errors
/// [`NotReady`].
pub fn ready(specs: &[Spec], options: &Options, say: &dyn Fn(&str)) -> Result<Vec<AnyPort>, NotReady> {
    if let Some(why) = left_raised() {
        say(&why);
    }
    let mut chosen = Vec::with_capacity(specs.len());
    for spec in specs {
        let (port, why) = choose(spec)?;
        match why {
            Some(why) if port == *spec => say(&format!("{spec}: {why}")),
            Some(why) => say(&format!("{spec} is {port}: {why}")),
            None => {}
        }
        chosen.push(port);
    }
    let mut ports = open(&chosen, options)?;
    if !wait_for_links(&mut ports, LINK)? {
        let down = specs.iter().zip(&ports).filter(|(_, port)| !port.link().up);
        let down: Vec<_> = down.map(|(spec, _)| spec.to_string()).collect();
        return Err(NotReady::NoLink(down.join(", ")));
    }
    Ok(ports)
}
