//! `kpps merge`: one journal of several.

use crate::error::Failure;
use crate::session::Session;
use clap::Args;
use kpps_methods::journal;
use std::path::PathBuf;

/// Arguments of `kpps merge`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps grid --vary load=1%..100%/1% --shard 1/2 --resume 1.jsonl      on one machine
  kpps grid --vary load=1%..100%/1% --shard 2/2 --resume 2.jsonl      on another one
  kpps merge all.jsonl 1.jsonl 2.jsonl
  kpps grid --vary load=1%..100%/1% --resume all.jsonl --report grid.html

A result that is in several journals is taken once.")]
pub struct Arguments {
    /// The journal to add to, which is created if it does not exist
    into: PathBuf,
    /// The journals whose results are added: files of --resume
    #[arg(required = true, num_args = 1.., value_name = "JOURNAL")]
    journals: Vec<PathBuf>,
}

/// Runs `kpps merge`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let merged = journal::merge(&arguments.into, &arguments.journals).map_err(kpps_methods::Error::from)?;
    merged.notes().iter().for_each(|note| session.tell(note));
    Ok(session.print(&format!("{}: {merged}", arguments.into.display()))?)
}
