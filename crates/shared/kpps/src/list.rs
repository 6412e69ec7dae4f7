//! `kpps list`: the profiles and their constants.

use crate::error::Failure;
use crate::output::Outputs;
use crate::session::Session;
use clap::Args;
use kpps_profiles::{Kind, Profile};
use kpps_rendering::WithConstants;
use kpps_sim::inventory::profiles;

/// Arguments of `kpps list`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps list                                 all profiles
  kpps list chip 82542                      the constants of a chip and their sources
  kpps list machine morris2000 --toml > own.toml     to be changed: kpps curve --machine own.toml")]
pub struct Arguments {
    /// Only profiles of this kind: machines, chips, nics, buses, hosts, stacks or drivers
    kind: Option<Kind>,
    /// Only this profile (a name or a .toml file), with its constants and their sources
    #[arg(requires = "kind")]
    name: Option<String>,
    /// Print the profile as a .toml file, which you can change and use in its place
    #[arg(long, requires = "name", conflicts_with_all = ["json", "results", "csv", "report"])]
    toml: bool,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps list`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let kinds = arguments.kind.map_or(Kind::ALL.to_vec(), |kind| vec![kind]);
    let document = profiles(&kinds, arguments.name.as_deref())?;
    if let (true, Some(kind), Some(name)) = (arguments.toml, arguments.kind, &arguments.name) {
        return Ok(session.print(&Profile::named(kind, name)?.to_toml())?);
    }
    let mut files = arguments.outputs.open(session, "list")?;
    Ok(match arguments.name {
        Some(_) => files.publish(&WithConstants(&document), ""),
        None => files.publish(&document, ""),
    }?)
}
