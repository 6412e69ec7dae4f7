//! A group of options, and the names of the options that the user typed.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, Id};
use std::ops::Deref;

/// The options of `T`, and the names of those that the user typed. The group consists of the fields of `T`,
/// so no list of names is kept beside them.
pub struct Typed<T> {
    options: T,
    names: Vec<String>,
}

impl<T> Typed<T> {
    /// The first option that was typed, as `--vlan`.
    pub fn first(&self) -> Option<String> {
        self.names().next().map(|name| format!("--{name}"))
    }

    /// The names of the options that were typed, without dashes, in the order of the help.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The options.
    pub fn options(self) -> T {
        self.options
    }
}

impl<T> Deref for Typed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.options
    }
}

/// The names of the options of `T` that were typed.
fn names<T: Args>(matches: &ArgMatches) -> Vec<String> {
    let group = T::augment_args(Command::new(""));
    let is_typed = |id: &Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    let typed = group.get_arguments().filter(|arg| is_typed(arg.get_id()));
    typed.filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}

impl<T: Args> FromArgMatches for Typed<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { names: names::<T>(matches), options: T::from_arg_matches(matches)? })
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        // The names come first, because reading the options removes them from `matches`.
        let names = names::<T>(matches);
        Ok(Self { names, options: T::from_arg_matches_mut(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Args> Args for Typed<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }

    fn group_id() -> Option<Id> {
        T::group_id()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;

    #[derive(Args)]
    struct Group {
        #[arg(long, default_value = "constant")]
        shape: String,
        #[arg(long)]
        dry_run: bool,
    }

    #[derive(Parser)]
    struct Program {
        #[arg(long)]
        other: Option<u32>,
        #[command(flatten)]
        group: Typed<Group>,
    }

    #[test]
    fn only_what_was_typed_is_named() {
        let typed = |words: &[&str]| {
            let program = Program::try_parse_from([&["x"], words].concat()).unwrap();
            let names: Vec<_> = program.group.names().map(str::to_owned).collect();
            (program.group.first(), names, program.group.shape.clone(), program.group.dry_run, program.other)
        };
        assert_eq!(typed(&["--other", "3"]), (None, vec![], "constant".into(), false, Some(3)));
        let (first, names, shape, dry, _) = typed(&["--dry-run", "--shape", "constant"]);
        assert_eq!((first.as_deref(), names), (Some("--shape"), vec!["shape".into(), "dry-run".into()]));
        assert_eq!((shape.as_str(), dry), ("constant", true), "a default that was typed counts as typed");
    }
}
