//! Two ports of a trial, each on this host or behind an agent.

use crate::{Error, Host, Security, connect};
use kpps_ports::Spec;
use kpps_ports::port::{AnyPort, Options};
use kpps_tester::observe::Scope;
use kpps_tester::{LocalHost, LocalPort, Site, TestPort};

/// Two ports, and the hosts that they belong to.
pub type Pair = (Vec<Box<dyn TestPort>>, Vec<Site>);

/// Opens the ports of other hosts, beside `here`, the open port of this host if one of them is. `scopes` are
/// observed on this host.
///
/// # Errors
/// An agent cannot be reached or refuses, or this host cannot be observed.
pub fn pair(
    specs: &[Spec],
    hosts: &[Option<&Host>],
    mut here: Option<AnyPort>,
    options: &Options,
    security: &Security,
    scopes: &[Scope],
) -> Result<Pair, kpps_tester::Error> {
    let agent = |error: Error| kpps_tester::Error::Agent(error.to_string());
    let mut sites: Vec<Site> = Vec::new();
    let local: Vec<_> = [0, 1].into_iter().filter(|&at| hosts[at].is_none()).collect();
    if !local.is_empty() || !scopes.is_empty() {
        let own: Vec<_> = local.iter().filter_map(|&at| specs[at].interface().map(str::to_owned)).collect();
        let host = LocalHost::around(&own, scopes)?;
        sites.push(Site { name: None, host: Box::new(host), ports: local });
    }
    let mut open = |at: usize| -> Result<Box<dyn TestPort>, kpps_tester::Error> {
        let spec = &specs[at];
        let Some(host) = hosts[at] else {
            let port = here.take().ok_or_else(|| agent(Error(format!("{spec} is not open"))))?;
            return Ok(Box::new(LocalPort::new(spec, port)?));
        };
        let other = Some(1 - at).filter(|&other| hosts[other] == hosts[at]);
        let others: Vec<_> =
            other.and_then(|other| specs[other].interface()).map(str::to_owned).into_iter().collect();
        let (port, there) = connect(host, spec, options, &others, security).map_err(agent)?;
        let name = Some(host.to_string());
        match sites.iter_mut().find(|site| site.name == name) {
            Some(site) => site.ports.push(at),
            None => sites.push(Site { name, host: Box::new(there), ports: vec![at] }),
        }
        Ok(Box::new(port))
    };
    let ports = vec![open(0)?, open(1)?];
    Ok((ports, sites))
}
