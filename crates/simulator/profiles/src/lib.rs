//! Chips, buses, hosts, stacks, machines and driver presets as data: the folder `profiles/`, built in.
//!
//! A profile is a TOML file with a `description` and one entry per constant:
//!
//! ```toml
//! rx_engine_ps = { value = 1_470_000, source = "where it is from", fitted = ["M1"] }
//! ```
//!
//! `source` is required. `fitted` names the claims that a constant without a citable value was fitted on,
//! and `bounds` the range of values that was searched. `spread = 1.5` says how well the value is known: in
//! nine of ten cases the true one is between value / 1.5 and value * 1.5 ([`Draw`]). A constant that is a
//! part of another one names that one in `part_of` instead. An own profile may begin with `base = "NAME"`
//! and name only what differs; values without a source are allowed there, and their source is "own".
//! Historical drivers are the profiles of `profiles/drivers/`. A profile is read as a type of the crate to
//! which its constants belong ([`Profile::get`]): this crate knows these types, and not what the constants
//! mean.
//!
//! ```
//! use kpps_profiles::{Kind, Profile};
//!
//! let chip = Profile::named(Kind::Chip, "82542").unwrap();
//! for constant in chip.constants() {
//!     println!("{} = {}: {}", constant.name, constant.value, constant.source);
//!     assert!(!constant.source.is_empty());
//! }
//! ```

mod change;
mod draw;
mod own;
mod read;
mod wrong;

pub use change::{Change, To};
pub use draw::{Draw, SHARE};
pub use read::{Entries, FromEntries, Mistake, read};

use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{LazyLock, OnceLock};
use toml::{Table, Value};

static FILES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../../profiles");

/// A profile of [`FILES`].
struct BuiltIn {
    text: &'static str,
    /// It is parsed once: each cell of a grid needs the same profiles.
    parsed: OnceLock<Profile>,
}

/// The built-in profiles by kind and name.
static BUILT_IN: LazyLock<BTreeMap<(Kind, &'static str), BuiltIn>> = LazyLock::new(|| {
    let files = |kind: Kind| FILES.get_dir(kind.plural()).into_iter().flat_map(|dir| dir.files());
    let files = Kind::ALL.into_iter().flat_map(|kind| files(kind).map(move |file| (kind, file)));
    let profiles = files.filter_map(|(kind, file)| {
        let name = file.path().file_stem()?.to_str()?;
        Some(((kind, name), BuiltIn { text: file.contents_utf8()?, parsed: OnceLock::new() }))
    });
    profiles.collect()
});

/// The kind of thing that a profile describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A network chip: timing and semantics.
    Chip,
    /// A rate-limited NIC with its driver's choices.
    Nic,
    /// An I/O bus.
    Bus,
    /// A CPU with its caches and memory.
    Host,
    /// The work of kernels and drivers that is the same on every host.
    Work,
    /// An operating system's path from the driver to the application.
    Stack,
    /// A driver preset: a row of choices.
    Driver,
    /// A machine: which of the above belong together.
    Machine,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 8] =
        [Kind::Machine, Kind::Chip, Kind::Nic, Kind::Bus, Kind::Host, Kind::Work, Kind::Stack, Kind::Driver];

    /// The plural, which is also the name of the folder.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Chip => "chips",
            Kind::Nic => "nics",
            Kind::Bus => "buses",
            Kind::Host => "hosts",
            Kind::Work => "work",
            Kind::Stack => "stacks",
            Kind::Driver => "drivers",
            Kind::Machine => "machines",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    /// The plural, or the word for one.
    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| [kind.plural(), kind.word()].contains(&text));
        known.ok_or_else(|| {
            format!("there are no profiles '{text}': known are {}", Self::ALL.map(Self::plural).join(", "))
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Kind::Driver => "driver preset",
            other => other.word(),
        })
    }
}

/// Why a profile cannot be used. Each message names the mistake, its place, and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no built-in profile of this name.
    #[error(
        "there is no {kind} called '{name}': known are {}; or give the path of a .toml file",
        known.join(", ")
    )]
    Unknown {
        /// The kind of profile.
        kind: Kind,
        /// Its name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A profile file cannot be read.
    #[error("cannot read the {kind} profile {path}: {source}")]
    Unreadable {
        /// The kind of profile.
        kind: Kind,
        /// Where.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A profile lacks a required entry, or has a wrong one.
    #[error("{kind} profile '{name}': {problem}")]
    Bad {
        /// The kind of profile.
        kind: Kind,
        /// Its name.
        name: String,
        /// The mistake.
        problem: String,
    },
    /// A profile has an entry that its kind does not have, or a setting names an entry that does not exist.
    #[error("{kind} profile '{name}': {problem}")]
    UnknownConstant {
        /// The kind of profile.
        kind: Kind,
        /// Its name.
        name: String,
        /// The entry, and those there are.
        problem: String,
    },
}

/// One constant of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its name, with dots for nesting.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// Where the value is from.
    pub source: String,
    /// The claims that it was fitted on; empty for a constant with a citable value.
    pub fitted: Vec<String>,
    /// The least and the greatest value that literature and hardware allow a fitted constant.
    pub bounds: Option<[f64; 2]>,
    /// How well it is known, as a factor above 1: in a [`SHARE`] of all cases the true value is between the
    /// value over the factor and the value times the factor. `None` for facts.
    pub spread: Option<f64>,
    /// The constant of the same profile that it is a part of: draws multiply both by the same factor.
    pub part_of: Option<String>,
}

/// A profile.
#[derive(Clone, Debug)]
pub struct Profile {
    kind: Kind,
    name: String,
    /// Its name, or its file's path, as requested.
    path: String,
    /// The text of a profile that is not built in.
    own_text: Option<String>,
    description: String,
    constants: Vec<Constant>,
    /// The entries of the constants that were set: their names, and the values that they had before.
    before: Vec<(String, Value)>,
}

impl Error {
    /// The same for a profile that may have these entries, too: the others are read apart.
    #[must_use]
    pub fn also_known(self, names: &[&str]) -> Self {
        match self {
            Self::UnknownConstant { kind, name, problem } if problem.contains("; it may be ") => {
                let problem = format!("{problem}, {}", names.join(", "));
                Self::UnknownConstant { kind, name, problem }
            }
            other => other,
        }
    }

    /// Whether a constant that was set is none of the profile's.
    pub fn is_unknown_constant(&self) -> bool {
        matches!(self, Self::UnknownConstant { .. })
    }
}

impl Profile {
    /// The built-in profile called `name`, or the one in the file `name` if that ends in `.toml`.
    pub fn named(kind: Kind, name: &str) -> Result<Self, Error> {
        if name.ends_with(".toml") {
            return Self::read(kind, name);
        }
        let Some(built_in) = BUILT_IN.get(&(kind, name)) else {
            return Err(Error::Unknown { kind, name: name.into(), known: names(kind) });
        };
        if let Some(profile) = built_in.parsed.get() {
            return Ok(profile.clone());
        }
        let profile = Self::parse(kind, name, built_in.text)?;
        Ok(built_in.parsed.get_or_init(|| profile).clone())
    }

    /// Parses the text of a profile.
    pub fn parse(kind: Kind, name: &str, text: &str) -> Result<Self, Error> {
        Self::parse_table(kind, name, table(kind, name, text)?)
    }

    fn parse_table(kind: Kind, name: &str, mut table: Table) -> Result<Self, Error> {
        let bad = |problem: String| Error::Bad { kind, name: name.into(), problem };
        let Some(Value::String(description)) = table.remove("description") else {
            return Err(bad("it needs a line `description = \"…\"`".into()));
        };
        let mut constants = Vec::with_capacity(table.len());
        for (key, entry) in table {
            let Value::Table(entry) = entry else { return Err(bad(form(&key))) };
            constants.push(constant(&key, entry, None).map_err(bad)?);
        }
        check_parts(&constants).map_err(bad)?;
        Ok(Self {
            kind,
            name: name.into(),
            path: name.into(),
            own_text: None,
            description,
            constants,
            before: Vec::new(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A description in a sentence.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Its text, if it is not built in.
    pub fn own_text(&self) -> Option<&str> {
        self.own_text.as_deref()
    }

    /// Its constants, with their sources.
    pub fn constants(&self) -> &[Constant] {
        &self.constants
    }

    /// Its constants as a `T`.
    ///
    /// # Errors
    /// An entry that `T` does not have, or a wrong or a missing one.
    pub fn get<T: FromEntries>(&self) -> Result<T, Error> {
        let table: Table = self.constants.iter().map(|c| (c.name.clone(), c.value.clone())).collect();
        T::from_entries(table.clone()).map_err(|mistake| {
            let again = |table: Table| Some(T::from_entries(table).err()?.message);
            let reader = wrong::Reader { again: &again, before: &self.before };
            let (kind, name) = (self.kind, self.path.clone());
            match wrong::explain(table, &mistake.path, &mistake.message, &reader) {
                wrong::Wrong::Unknown(problem) => Error::UnknownConstant { kind, name, problem },
                wrong::Wrong::Bad(problem) => Error::Bad { kind, name, problem },
            }
        })
    }

    /// The profile in two: the constants of these names, as far as it has them, and the others.
    pub fn split(&self, names: &[&str]) -> (Self, Self) {
        let is_named = |constant: &Constant| names.contains(&constant.name.as_str());
        let (named, others) = self.constants.iter().cloned().partition(is_named);
        (Self { constants: named, ..self.clone() }, Self { constants: others, ..self.clone() })
    }

    /// The profile with one constant replaced.
    pub fn with(mut self, name: &str, value: impl Into<Value>, source: &str) -> Self {
        self.constants.retain(|c| c.name != name);
        self.constants.push(Constant {
            name: name.into(),
            value: value.into(),
            source: source.into(),
            fitted: Vec::new(),
            bounds: None,
            spread: None,
            part_of: None,
        });
        self
    }
}

/// The text of a profile as a table.
fn table(kind: Kind, name: &str, text: &str) -> Result<Table, Error> {
    text.parse().map_err(|e: toml::de::Error| {
        let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let problem = format!("line {line}: {}", e.message().replace('\n', "; "));
        Error::Bad { kind, name: name.into(), problem }
    })
}

/// The largest spread of a constant.
const MOST_SPREAD: f64 = 100.0;

/// The constant that an entry of a profile gives. Without a source it has `source`, if there is one.
fn constant(name: &str, mut entry: Table, source: Option<&str>) -> Result<Constant, String> {
    let value = entry.remove("value").ok_or_else(|| form(name))?;
    let source = match (entry.remove("source"), source) {
        (Some(Value::String(source)), _) if !source.trim().is_empty() => source,
        (None, Some(source)) => source.into(),
        _ => return Err(format!("'{name}' has no source: every constant says where it is from")),
    };
    let fitted = match entry.remove("fitted") {
        None => Vec::new(),
        Some(ids) => ids.try_into().map_err(|_| format!("'{name}': `fitted` must be a list of claims"))?,
    };
    let bounds = match entry.remove("bounds") {
        None => None,
        Some(bounds) => match bounds.try_into::<[f64; 2]>() {
            Ok([low, high]) if 0.0 < low && low < high && high.is_finite() => Some([low, high]),
            _ => return Err(format!("'{name}': `bounds` must be two numbers above 0, the lower one first")),
        },
    };
    let spread = match entry.remove("spread").map(toml::Value::try_into::<f64>) {
        None => None,
        Some(Ok(spread)) if 1.0 < spread && spread <= MOST_SPREAD => Some(spread),
        Some(_) => return Err(format!("'{name}': `spread` must be a number above 1, at most {MOST_SPREAD}")),
    };
    let part_of = match entry.remove("part_of") {
        None => None,
        Some(Value::String(whole)) if spread.is_none() => Some(whole),
        Some(_) => {
            return Err(format!("'{name}': `part_of` is the name of a constant, instead of a `spread`"));
        }
    };
    if (spread.is_some() || part_of.is_some()) && !(value.is_integer() || value.is_float()) {
        return Err(format!("'{name}' has a `spread` or is a part, and its value {value} is no number"));
    }
    match entry.into_iter().next() {
        Some((unknown, _)) => Err(format!(
            "'{name}' has an entry '{unknown}': known are value, source, fitted, bounds, spread, part_of"
        )),
        None => Ok(Constant { name: name.into(), value, source, fitted, bounds, spread, part_of }),
    }
}

/// Refuses a part of a constant that does not exist: it would count as exact.
fn check_parts(constants: &[Constant]) -> Result<(), String> {
    let is_known = |whole: &String| constants.iter().any(|it| it.name == *whole);
    match constants.iter().find_map(|it| Some((&it.name, it.part_of.as_ref().filter(|it| !is_known(it))?))) {
        Some((name, whole)) => Err(format!("'{name}' is `part_of` '{whole}', and there is no such entry")),
        None => Ok(()),
    }
}

fn form(name: &str) -> String {
    format!("'{name}' must be {{ value = …, source = \"…\" }}, or the file must begin with `base = \"…\"`")
}

/// The names of the built-in profiles of one kind, sorted.
pub fn names(kind: Kind) -> Vec<String> {
    of_kind(kind).map(|(name, _)| name.to_owned()).collect()
}

/// The names and texts of the built-in profiles of one kind, sorted by name.
fn of_kind(kind: Kind) -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = BUILT_IN.iter().filter(move |((its_kind, _), _)| *its_kind == kind);
    all.map(|((_, name), built_in)| (*name, built_in.text))
}

/// A hash over all built-in profiles, names and contents, and over the texts of `own` ones: 16 hexadecimal
/// digits that change when any constant does.
pub fn hash<'a>(own: impl IntoIterator<Item = &'a String>) -> String {
    hash_of(&built_in(), own)
}

/// The inputs of every simulation beside its settings: the version of kpps, and its built-in profiles.
pub fn program() -> String {
    format!("{} {}", env!("CARGO_PKG_VERSION"), hash([]))
}

/// The paths and contents of all built-in profiles.
fn built_in() -> Vec<(String, &'static [u8])> {
    let of_kind = |kind: Kind| {
        of_kind(kind).map(move |(name, text)| (format!("{}/{name}.toml", kind.plural()), text.as_bytes()))
    };
    Kind::ALL.into_iter().flat_map(of_kind).collect()
}

fn hash_of<'a>(profiles: &[(String, &[u8])], own: impl IntoIterator<Item = &'a String>) -> String {
    let mut hash = Sha256::new();
    for (path, contents) in profiles {
        hash.update(path.as_bytes());
        hash.update((contents.len() as u64).to_le_bytes());
        hash.update(contents);
    }
    for text in own {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_built_in_profile_parses_and_cites() {
        for kind in Kind::ALL {
            assert!(!names(kind).is_empty(), "no {kind} at all");
            for name in names(kind) {
                let profile = Profile::named(kind, &name).unwrap();
                assert!(profile.description().len() > 10, "{kind} {name}: a description");
            }
        }
    }

    #[test]
    fn the_hash_changes_with_any_profile() {
        let all = built_in();
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../profiles");
        let folders = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
        assert_eq!(files.count(), all.len(), "no file is left out");
        let mut hashes = std::collections::BTreeSet::from([hash([])]);
        for changed in 0..all.len() {
            let contents = [all[changed].1, b"#"].concat();
            let mut profiles = all.clone();
            profiles[changed].1 = &contents;
            assert!(hashes.insert(hash_of(&profiles, [])), "{}", all[changed].0);
            profiles.remove(changed);
            assert!(hashes.insert(hash_of(&profiles, [])), "without {}", all[changed].0);
        }
        assert!(hashes.insert(hash([&"an own profile".to_owned()])));
    }

    #[test]
    fn constants_become_values_of_a_type() {
        #[derive(serde::Deserialize, PartialEq, Debug)]
        struct T {
            a: u32,
            b: Vec<u8>,
        }
        read_as!(T);
        let text = "description = 'x'\na = { value = 1, source = 's' }\n\
            b = { value = [2], source = 's', fitted = ['M1'] }";
        let profile = Profile::parse(Kind::Bus, "t", text).unwrap();
        assert_eq!(profile.get::<T>().unwrap(), T { a: 1, b: vec![2] });
        assert_eq!(profile.constants()[1].fitted, ["M1"]);
        let changed = profile.with("a", 9, "test");
        assert_eq!(changed.get::<T>().unwrap().a, 9);
        let (named, others) = changed.split(&["b", "missing"]);
        let names =
            |profile: &Profile| profile.constants().iter().map(|c| c.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&named), names(&others)), (vec!["b".into()], vec!["a".into()]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, says) in [
            ("", "description"),
            ("description = 'x'\na = 1", "'a' must be"),
            ("description = 'x'\na = { value = 1 }", "no source"),
            ("description = 'x'\na = { value = 1, source = ' ' }", "no source"),
            ("description = 'x'\na = { value = 1, source = 's', fit = [] }", "'fit'"),
            ("description = 'x'\na = { value = 1, source = 's', fitted = 3 }", "list"),
            ("description = 'x'\na = { value = 1, source = 's', spread = 1 }", "above 1"),
            ("description = 'x'\na = { value = 1, source = 's', spread = nan }", "above 1"),
            ("description = 'x'\na = { value = 1, source = 's', spread = 'x' }", "above 1"),
            ("description = 'x'\na = { value = true, source = 's', spread = 2 }", "no number"),
            ("description = 'x'\na = { value = 1, source = 's', part_of = 'b' }", "no such entry"),
            ("description = 'x'\na = { value = 1, source = 's', spread = 2, part_of = 'a' }", "instead of"),
            ("nonsense", "expected"),
        ] {
            let error = Profile::parse(Kind::Bus, "t", text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?} says: {error}");
        }
        let error = Profile::named(Kind::Chip, "i486").unwrap_err().to_string();
        assert!(error.contains("i486") && error.contains("82543gc"), "{error}");
        assert!(
            Profile::named(Kind::Chip, "/no/where.toml").unwrap_err().to_string().contains("/no/where.toml")
        );
    }
}
