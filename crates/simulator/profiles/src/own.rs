//! Own profiles: what differs from a base, and any profile as a file.

use crate::{Constant, Error, Kind, Profile};
use std::collections::HashMap;
use std::path::Path;
use toml::{Table, Value};

/// The source of a value that is given without one.
const OWN: &str = "own";

/// How many bases a profile may stand on. A profile that is based on itself has more.
const MOST_BASES: usize = 8;

impl Profile {
    /// Reads an own profile, the file at `path`.
    pub(crate) fn read(kind: Kind, path: &str) -> Result<Self, Error> {
        Self::read_below(kind, path, 0)
    }

    fn read_below(kind: Kind, path: &str, depth: usize) -> Result<Self, Error> {
        let bad = |problem: String| Error::Bad { kind, name: path.into(), problem };
        let text = std::fs::read_to_string(path).map_err(|source| Error::Unreadable {
            kind,
            path: path.into(),
            source,
        })?;
        let stem = Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or(path);
        let mut table = crate::table(kind, path, &text)?;
        let profile = match table.remove("base") {
            None => Self { own_text: Some(text), ..Self::parse_table(kind, path, table)? },
            Some(Value::String(_)) if depth == MOST_BASES => {
                return Err(bad(format!(
                    "`base` leads through more than {MOST_BASES} files: is it its own?"
                )));
            }
            Some(Value::String(base)) => {
                let base = match base.ends_with(".toml") {
                    // A relative path starts at the folder of the file that names it.
                    true => {
                        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
                        Self::read_below(kind, &folder.join(base).display().to_string(), depth + 1)?
                    }
                    false => Self::named(kind, &base)?,
                };
                let own_text = Some(text + base.own_text.as_deref().unwrap_or_default());
                Self { own_text, path: path.into(), ..base.but(table).map_err(bad)? }
            }
            Some(_) => {
                return Err(bad("`base` must be the name of a profile, or of a .toml file".into()));
            }
        };
        Ok(Self { name: stem.into(), ..profile })
    }

    /// The profile with the differences of an own one.
    fn but(mut self, mut differences: Table) -> Result<Self, String> {
        let description = differences.remove("description");
        let mut names: Vec<_> = differences.keys().cloned().collect();
        // Whether a table keeps its order depends on what else is built.
        names.sort_unstable();
        // A file may have any number of entries.
        let known: HashMap<_, _> =
            self.constants.iter().enumerate().map(|(at, constant)| (constant.name.clone(), at)).collect();
        for (name, entry) in differences {
            let at = known.get(&name).copied();
            let old = at.map(|at| &self.constants[at]);
            if let (Some(old), Value::Table(own)) = (old, &entry)
                && !own.contains_key("value")
            {
                self.before.push((name.clone(), old.value.clone()));
            }
            let constant = match entry {
                Value::Table(entry) if entry.contains_key("value") => {
                    crate::constant(&name, entry, Some(OWN))?
                }
                bare => Constant {
                    source: match old {
                        Some(old) if old.value.is_table() && bare.is_table() => {
                            format!("{OWN}; the rest: {}", old.source)
                        }
                        _ => OWN.into(),
                    },
                    value: match old {
                        Some(old) => merged(old.value.clone(), bare),
                        None => bare,
                    },
                    name,
                    fitted: Vec::new(),
                    bounds: None,
                    spread: None,
                    part_of: None,
                },
            };
            match at {
                Some(at) => self.constants[at] = constant,
                None => self.constants.push(constant),
            }
        }
        crate::check_parts(&self.constants)?;
        self.description = match description {
            Some(Value::String(description)) => description,
            Some(_) => return Err("`description` must be text".into()),
            None if names.is_empty() => self.description,
            None => format!("{} with its own {}", self.name, names.join(", ")),
        };
        Ok(self)
    }

    /// The profile as the text of a file, which reads back as the same profile.
    pub fn to_toml(&self) -> String {
        let mut text = format!("description = {}\n", Value::from(self.description.as_str()));
        for Constant { name, value, source, fitted, bounds, spread, part_of } in &self.constants {
            let fitted: Vec<_> = fitted.iter().map(|claim| Value::from(claim.as_str())).collect();
            let entry = [("value", Some(value.clone())), ("source", Some(source.as_str().into()))];
            let fitted = ("fitted", (!fitted.is_empty()).then_some(Value::Array(fitted)));
            let bounds = ("bounds", bounds.map(|bounds| bounds.map(Value::from).to_vec().into()));
            let spread = ("spread", spread.map(Value::from));
            let part_of = ("part_of", part_of.as_deref().map(Value::from));
            let entry = entry.into_iter().chain([fitted, bounds, spread, part_of]);
            let entry = entry.filter_map(|(key, value)| Some(format!("{key} = {}", value?)));
            text += &format!("{} = {{ {} }}\n", key(name), entry.collect::<Vec<_>>().join(", "));
        }
        text
    }
}

/// A key as TOML writes it.
fn key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match !name.is_empty() && name.bytes().all(bare) {
        true => name.into(),
        false => Value::from(name).to_string(),
    }
}

/// `old` with the entries of `new` in the place of its own; `new` where one of them is no table.
fn merged(old: Value, new: Value) -> Value {
    match (old, new) {
        (Value::Table(mut old), Value::Table(new)) => {
            for (name, value) in new {
                match old.get_mut(&name) {
                    Some(place) => *place = merged(std::mem::replace(place, Value::Boolean(false)), value),
                    None => drop(old.insert(name, value)),
                }
            }
            Value::Table(old)
        }
        (_, new) => new,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::names;

    /// The files of a test, in a folder that goes with it.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = std::env::temp_dir().join(format!("kpps-own-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            for (file, text) in files {
                std::fs::write(folder.join(file), text).unwrap();
            }
            Self(folder)
        }

        fn read(&self, kind: Kind, file: &str) -> Result<Profile, Error> {
            Profile::named(kind, &self.0.join(file).display().to_string())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn constant<'p>(profile: &'p Profile, name: &str) -> &'p Constant {
        profile.constants().iter().find(|constant| constant.name == name).unwrap()
    }

    #[test]
    fn every_profile_is_the_same_after_export() {
        for kind in Kind::ALL {
            for name in names(kind) {
                let profile = Profile::named(kind, &name).unwrap();
                let text = profile.to_toml();
                let back = Profile::parse(kind, &name, &text).unwrap();
                assert_eq!(back.description(), profile.description());
                assert_eq!(back.constants(), profile.constants(), "{kind} {name}: {text}");
            }
        }
        let text = "description = \"a \\\"quoted\\\" \\\\ line\\nand another\"\n\
            \"82 \\\" \" = { value = [1.5, { \"a b\" = 1e300 }], source = 'it''s' }";
        let profile = Profile::parse(Kind::Bus, "t", &text.replace("it''s", "its \"\\")).unwrap();
        let back = Profile::parse(Kind::Bus, "t", &profile.to_toml()).unwrap();
        assert_eq!((back.description(), back.constants()), (profile.description(), profile.constants()));
    }

    #[test]
    fn an_own_profile_names_what_differs() {
        let folder = Folder::new(
            "differs",
            &[
                (
                    "mine.toml",
                    "base = 'intel-5.7.6'\nrx_ring = 128\nservice.napi.weight = 16\n\
                    vlan = { value = true, source = 'my wish' }\nrx_low = { value = 'quarter' }\n\
                    rescue.value = false",
                ),
                ("next.toml", "base = 'mine.toml'\ndescription = 'the next one'\ntx_ring = 64"),
            ],
        );
        let base = Profile::named(Kind::Driver, "intel-5.7.6").unwrap();
        let mine = folder.read(Kind::Driver, "mine.toml").unwrap();
        assert_eq!(mine.name(), "mine");
        assert_eq!(
            mine.description(),
            "intel-5.7.6 with its own rescue, rx_low, rx_ring, service, vlan",
            "a description is not needed"
        );
        let ring = constant(&mine, "rx_ring");
        assert_eq!((&ring.value, ring.source.as_str()), (&Value::from(128), "own"));
        let service = constant(&mine, "service");
        assert_eq!(service.value["napi"]["weight"], Value::from(16));
        assert_eq!(service.value["napi"]["exit"], Value::from("both-idle"), "the rest is the base's");
        assert_eq!(service.source, "own; the rest: Intel e1000 5.7.6, public source");
        assert_eq!(constant(&mine, "vlan").source, "my wish");
        assert_eq!(constant(&mine, "rx_low").source, "own");
        assert_eq!(constant(&mine, "rescue").value, Value::from(false));
        assert_eq!(constant(&mine, "buffers"), constant(&base, "buffers"));
        assert_eq!(mine.constants().len(), base.constants().len());

        let next = folder.read(Kind::Driver, "next.toml").unwrap();
        assert_eq!((next.name(), next.description()), ("next", "the next one"));
        assert_eq!(constant(&next, "rx_ring"), ring);
        let texts = next.own_text().unwrap();
        assert!(texts.contains("tx_ring = 64") && texts.contains("rx_ring = 128"), "{texts}");
        let back = Profile::parse(Kind::Driver, "next", &next.to_toml()).unwrap();
        assert_eq!(back.constants(), next.constants(), "exported, it needs no base");
    }

    #[test]
    fn an_entry_that_takes_one_of_several_is_replaced_whole() {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[expect(dead_code)]
        enum Service {
            Polling { burst: u16 },
            Napi { weight: u16 },
        }
        #[derive(serde::Deserialize)]
        #[expect(dead_code)]
        struct Driver {
            service: Service,
        }
        crate::read_as!(Driver);
        let base = "description = 'x'\nservice = { value = { polling = { burst = 8 } }, source = 's' }";
        let folder = Folder::new(
            "one-of",
            &[
                ("base.toml", base),
                ("merged.toml", "base = 'base.toml'\nservice = { napi = { weight = 64 } }"),
                ("whole.toml", "base = 'base.toml'\nservice = { value = { napi = { weight = 64 } } }"),
                ("typo.toml", "base = 'base.toml'\nservice = { nappi = { weight = 64 } }"),
                ("text.toml", "base = 'base.toml'\nservice = { polling = { burst = '8' } }"),
            ],
        );
        let read = |file| folder.read(Kind::Driver, file).unwrap();
        let error = |profile: Profile| profile.get::<Driver>().err().unwrap().to_string();
        let replace = "service takes one of polling, napi; the base has polling: \
            replace it with service = { value = { napi = { … } } }";
        let merged = error(read("merged.toml"));
        assert!(merged.contains(replace), "{merged}");
        let set = |path: &str, value: Value| {
            read("base.toml").changed(&[crate::Change::set(path, value).unwrap()]).unwrap()
        };
        let changed = error(set("driver.service.napi.weight", 64.into()));
        assert!(changed.contains(replace), "{changed}");
        assert!(read("whole.toml").get::<Driver>().is_ok());
        let typo = "there is no entry 'service.nappi'; the entries of service are polling, napi";
        for wrong in [read("typo.toml"), set("driver.service.nappi.weight", 64.into())] {
            let wrong = error(wrong);
            assert!(wrong.contains(typo), "{wrong}");
        }
        let text = "service.polling.burst: found \"8\", allowed is a whole number from 0 to 65535";
        for wrong in [read("text.toml"), set("driver.service.polling.burst", "8".into())] {
            let wrong = error(wrong);
            assert!(wrong.contains(text), "{wrong}");
        }
    }

    /// Quadratic time for these would be many minutes. The limit is for machines that are busy.
    #[test]
    fn a_file_with_many_entries_beside_its_base_is_read_at_once() {
        const ENTRIES: usize = 100_000;
        let flat: String = (0..ENTRIES).map(|entry| format!("unknown_{entry:06} = 1\n")).collect();
        let nested: String =
            (0..ENTRIES).map(|entry| format!("{}unknown_{entry:06} = 1\n", "service.napi.")).collect();
        let files = [
            ("flat.toml", format!("base = 'intel-5.7.6'\n{flat}")),
            ("flat-again.toml", format!("base = 'flat.toml'\n{flat}")),
            ("nested.toml", format!("base = 'intel-5.7.6'\n{nested}")),
            ("nested-again.toml", format!("base = 'nested.toml'\n{nested}")),
        ];
        let files = files.each_ref().map(|(name, text)| (*name, &text[..]));
        let (done, is_done) = std::sync::mpsc::channel();
        let folder = Folder::new("many", &files);
        std::thread::spawn(move || {
            let read = |file| folder.read(Kind::Driver, file).unwrap().constants().len();
            let counts = ["flat-again.toml", "nested-again.toml"].map(read);
            done.send(counts)
        });
        let base = Profile::named(Kind::Driver, "intel-5.7.6").unwrap().constants().len();
        let counts = is_done.recv_timeout(std::time::Duration::from_secs(300));
        assert_eq!(counts, Ok([base + ENTRIES, base]));
    }

    #[test]
    fn what_is_wrong_with_a_base_is_said() {
        let folder = Folder::new(
            "wrong",
            &[
                ("itself.toml", "base = 'itself.toml'"),
                ("unknown.toml", "base = 'intel-9'"),
                ("number.toml", "base = 3"),
                ("missing.toml", "base = 'nowhere.toml'"),
                ("entry.toml", "base = 'kpps'\nrx_ring = { value = 1, sauce = 'x' }"),
                ("bare.toml", "description = 'no base'\nrx_ring = 128"),
                ("syntax.toml", "base = 'kpps'\nrx_ring = = 3"),
            ],
        );
        for (file, says) in [
            ("itself", "more than 8"),
            ("unknown", "no driver preset called 'intel-9'"),
            ("number", "must be the name"),
            ("missing", "nowhere.toml"),
            ("entry", "'sauce'"),
            ("bare", "'rx_ring' must be"),
            ("syntax", "line 2"),
        ] {
            let error = folder.read(Kind::Driver, &format!("{file}.toml")).unwrap_err().to_string();
            assert!(error.contains(says), "{file} says: {error}");
        }
    }
}
