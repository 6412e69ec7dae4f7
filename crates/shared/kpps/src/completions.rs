//! The completions for a shell.

use crate::error::Failure;
use crate::session::Session;
use clap::Args;
use clap_complete::Shell;

/// Arguments of `kpps completions`.
#[derive(Args)]
#[command(after_help = "Examples:
  source <(kpps completions bash)
  kpps completions zsh > ~/.zfunc/_kpps")]
pub struct Arguments {
    /// The shell
    shell: Shell,
}

/// Runs `kpps completions`: what a shell needs to ask the command itself.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let mut script = Vec::new();
    let name = arguments.shell.to_string();
    let shells = clap_complete::env::Shells::builtins();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| Failure::Input(format!("there are no completions for {name}")))?;
    shell
        .write_registration(crate::complete::ASKED, "kpps", "kpps", "kpps", &mut script)
        .map_err(|e| Failure::Failed(format!("the completions cannot be made: {e}")))?;
    if name == "bash" {
        script.extend(COLONS.bytes());
    }
    Ok(session.print(&String::from_utf8_lossy(&script))?)
}

/// A colon ends a word for bash, unless this says otherwise (bash's FAQ, E13). The names of ports have one.
const COLONS: &str = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n";
