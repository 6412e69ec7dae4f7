//! A set-up of a guest's audit as a file: TOML, with a key for each property of the audit.

use super::faults::Faults;
use super::quirk::Quirk;
use super::script::Typed;
use super::steps::Stimulus;
use crate::bound::Bound;
use kpps_methods::names::Named;
use kpps_methods::units;
use kpps_qemu::lab::Arch;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// The most bytes of a file.
const MOST_BYTES: u64 = 1 << 20;

/// A system that is shown beside the guest on our model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// QEMU's own card.
    Qemu,
    /// Our model again, with Linux and its driver in place of the guest.
    Linux,
}

impl FromStr for Beside {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "qemu" => Ok(Self::Qemu),
            "linux" => Ok(Self::Linux),
            _ => Err(format!("'{text}' is nothing to compare with: known are qemu, linux")),
        }
    }
}

/// A line that is typed once a prompt has appeared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    prompt: String,
    line: String,
}

/// The set-up of a guest's audit, as a file has it. A key that the file does not have is `None`.
///
/// ```
/// let text = "arch = 'riscv64'\nstimuli = ['dhcp', 'tftp']\noptions = ['-bios', 'u-boot.bin']";
/// let file = kpps_audit::SetupFile::parse("audit.toml", text)?;
/// assert_eq!(file.options.unwrap().len(), 2);
/// assert!(kpps_audit::SetupFile::parse("audit.toml", "chop = '82544ei'").unwrap_err().contains("line 1"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SetupFile {
    /// The guest's architecture.
    #[serde(with = "one", skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// The QEMU to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qemu: Option<PathBuf>,
    /// The options for QEMU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<String>>,
    /// The chip's profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chip: Option<String>,
    /// The bus's profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// Properties of the card beyond the manual.
    #[serde(with = "several", skip_serializing_if = "Option::is_none")]
    pub quirks: Option<Vec<Quirk>>,
    /// The tasks and faults for the guest.
    #[serde(with = "several", skip_serializing_if = "Option::is_none")]
    pub stimuli: Option<Vec<Stimulus>>,
    /// Faults after them: a seed, or a list of names.
    #[serde(with = "chosen", skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// The guest's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// The text on the console before which the run does not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The longest run: "60s".
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Duration>,
    /// Systems that are shown beside the guest on our model.
    #[serde(with = "several", skip_serializing_if = "Option::is_none")]
    pub beside: Option<Vec<Beside>>,
    /// The file of the JUnit report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub junit: Option<PathBuf>,
    /// Bounds: a table of numbers.
    #[serde(with = "bounds", skip_serializing_if = "Option::is_none")]
    pub max: Option<Vec<Bound>>,
    /// Lines that are typed on the guest's console.
    #[serde(with = "lines", skip_serializing_if = "Option::is_none")]
    pub send: Option<Vec<Typed>>,
}

impl SetupFile {
    /// Reads a file's text; `name` is the file's name in messages.
    ///
    /// # Errors
    /// The mistake in a line: the file, the number of the line, the key, and what may stand there.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let wrong = |path: Option<String>, error: &toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let message = error.message().replace('\n', "; ").replace("unknown field", "unknown key");
            let key = path.filter(|path| path != "." && !message.starts_with("unknown key"));
            let key = key.map(|key| format!("{key}: ")).unwrap_or_default();
            format!("{name}, line {line}: {key}{message}")
        };
        let document = toml::Deserializer::parse(text).map_err(|error| wrong(None, &error))?;
        serde_path_to_error::deserialize(document)
            .map_err(|error| wrong(Some(error.path().to_string()), error.inner()))
    }

    /// Reads the file at `path`. Relative paths of QEMU and of the report start at its folder, and so do
    /// those in the options if QEMU runs in the [folder](Self::folder).
    ///
    /// # Errors
    /// The file cannot be read, or has a mistake: in one line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let mut bytes = Vec::new();
        let opened = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
        opened.map_err(|error| format!("{shown} cannot be read: {error}"))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(format!("{shown} is no set-up of an audit: it has more than {MOST_BYTES} bytes"));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| format!("{shown} is no set-up of an audit: it is no text in UTF-8"))?;
        let mut file = Self::parse(&shown.to_string(), &text)?;
        let folder = Self::folder(path);
        // The name of a program without a folder is searched in PATH.
        let qemu = file.qemu.as_mut().filter(|qemu| qemu.components().count() > 1);
        for relative in qemu.into_iter().chain(&mut file.junit) {
            *relative = folder.join(&*relative);
        }
        Ok(file)
    }

    /// The folder at which relative paths in the file at `path` start.
    pub fn folder(path: &Path) -> PathBuf {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new(".")).to_owned()
    }

    /// The file's text.
    ///
    /// # Errors
    /// A path is no text in UTF-8.
    pub fn text(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }
}

impl Named for Beside {
    fn name(self) -> &'static str {
        match self {
            Self::Qemu => "qemu",
            Self::Linux => "linux",
        }
    }
}

/// A value that is read from its name.
struct Name<T>(T);

impl<'de, T: Named> Deserialize<'de> for Name<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map(Self).map_err(D::Error::custom)
    }
}

/// A name.
mod one {
    use super::*;

    pub(super) fn serialize<T: Named, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        value.map(Named::name).serialize(to)
    }

    pub(super) fn deserialize<'de, T: Named, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
        Name::deserialize(from).map(|name| Some(name.0))
    }
}

/// A list of names.
mod several {
    use super::*;

    pub(super) fn serialize<T: Named, S: Serializer>(
        values: &Option<Vec<T>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().flatten().map(|it| it.name()))
    }

    pub(super) fn deserialize<'de, T: Named, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<T>>, D::Error> {
        let names = Vec::<Name<T>>::deserialize(from)?;
        Ok(Some(names.into_iter().map(|name| name.0).collect()))
    }
}

/// Faults: a seed, or a list of names.
mod chosen {
    use super::*;

    pub(super) fn serialize<S: Serializer>(faults: &Option<Faults>, to: S) -> Result<S::Ok, S::Error> {
        match faults {
            Some(Faults { seed: Some(seed), .. }) => to.serialize_u64(*seed),
            faults => to.collect_seq(faults.iter().flat_map(|faults| &faults.kinds).map(|kind| kind.name())),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Faults>, D::Error> {
        struct Chosen;
        impl<'de> Visitor<'de> for Chosen {
            type Value = Faults;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a seed, 0 or more, or a list of names")
            }

            fn visit_u64<E: serde::de::Error>(self, seed: u64) -> Result<Faults, E> {
                Ok(Faults::drawn(seed))
            }

            fn visit_i64<E: serde::de::Error>(self, seed: i64) -> Result<Faults, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(seed), &self);
                u64::try_from(seed).map(Faults::drawn).map_err(wrong)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Faults, A::Error> {
                let mut kinds = Vec::new();
                while let Some(Name(kind)) = names.next_element()? {
                    kinds.push(kind);
                }
                Ok(Faults::chosen(kinds))
            }
        }
        from.deserialize_any(Chosen).map(Some)
    }
}

/// A time: "60s".
mod time {
    use super::*;

    pub(super) fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        time.map(|time| format!("{}s", time.as_secs_f64())).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        units::duration(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
    }
}

/// A table of bounds.
mod bounds {
    use super::*;

    pub(super) fn serialize<S: Serializer>(bounds: &Option<Vec<Bound>>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(bounds.iter().flatten().map(|bound| (bound.name(), bound.most())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Bound>>, D::Error> {
        let bounds = BTreeMap::<String, f64>::deserialize(from)?;
        let bounds = bounds.into_iter().map(|(name, most)| format!("{name}={most}").parse());
        bounds.collect::<Result<_, String>>().map(Some).map_err(D::Error::custom)
    }
}

/// Lines with their prompts.
mod lines {
    use super::*;

    pub(super) fn serialize<S: Serializer>(lines: &Option<Vec<Typed>>, to: S) -> Result<S::Ok, S::Error> {
        let line = |typed: &Typed| Line { prompt: typed.prompt().to_owned(), line: typed.line() };
        to.collect_seq(lines.iter().flatten().map(line))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Typed>>, D::Error> {
        let lines = Vec::<Line>::deserialize(from)?;
        let typed = lines.iter().map(|it| Typed::new(&it.prompt, &it.line));
        typed.collect::<Result<_, String>>().map(Some).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const WHOLE: &str = r#"
arch = "riscv64"
qemu = "tools/qemu"
options = ["-bios", "u-boot.bin"]
chip = "82544ei"
bus = "pcix-64-133"
quirks = ["swsm"]
stimuli = ["dhcp", "tftp"]
faults = ["bad-fcs", "overrun"]
address = "10.0.2.99"
until = "done"
at_most = "1.5min"
beside = ["qemu", "linux"]
junit = "audit.xml"
max = { must = 0, deaf-s = 0.5 }

[[send]]
prompt = "=> "
line = "dhcp\u001b"
[[send]]
prompt = "=>"
line = ""
"#;

    #[test]
    fn a_set_up_survives_the_way_through_its_text() {
        let file = SetupFile::parse("f", WHOLE).unwrap();
        assert_eq!((file.arch, file.at_most), (Some(Arch::Riscv64), Some(Duration::from_secs(90))));
        assert_eq!(file.max.as_ref().unwrap().len(), 2);
        let sent = ["=> =>dhcp\\x1b", "=>=>"].map(|text| text.parse::<Typed>().unwrap());
        assert_eq!(file.send.as_deref(), Some(&sent[..]));
        let again = SetupFile::parse("again", &file.text().unwrap()).unwrap();
        assert_eq!(again, file);
        let seed = SetupFile::parse("f", "faults = 7").unwrap();
        assert_eq!(seed.faults, Some(Faults::drawn(7)));
        assert_eq!(SetupFile::parse("f", &seed.text().unwrap()).unwrap(), seed);
        assert_eq!(SetupFile::parse("f", "").unwrap(), SetupFile::default());
        // All keys are in the text above.
        let unknown = SetupFile::parse("f", "x = 1").unwrap_err();
        let keys: Vec<_> = unknown.split('`').skip(3).step_by(2).collect();
        assert!(keys.len() > 12 && keys.iter().all(|key| WHOLE.contains(key)), "{unknown}");
    }

    #[test]
    fn a_mistake_is_a_line_with_file_number_and_key() {
        for (text, parts) in [
            ("\nchop = 1", "f, line 2: unknown key `chop`, expected one of `arch`,"),
            ("arch = 'arm'", "f, line 1: arch: there is no architecture called 'arm'"),
            ("arch = 7", "f, line 1: arch: invalid type: integer `7`, expected a string"),
            ("# one\nstimuli = ['arp',\n'pign']", "line 2: stimuli[1]: there is no stimulus called 'pign'"),
            ("stimuli = 'arp'", "stimuli: invalid type: string \"arp\", expected a sequence"),
            ("quirks = ['x']", "quirks[0]: there is no quirk called 'x'"),
            ("faults = -1", "faults: invalid value: integer `-1`, expected a seed, 0 or more, or a list"),
            ("faults = ['fire']", "faults[0]: there is no fault called 'fire'"),
            ("address = '10.0.2'", "address: invalid IPv4 address"),
            ("at_most = '1 week'", "at_most: '1 week' is not a time"),
            ("at_most = 60", "at_most: invalid type: integer `60`, expected a string"),
            ("beside = ['xen']", "'xen' is nothing to compare with"),
            ("max = { speed = 1 }", "max: 'speed' cannot be bounded"),
            ("max = { must = -1 }", "max: 'must=-1': the value must be a number"),
            ("[[send]]\nprompt = 'x'", "line 1: send[0]: missing field `line`"),
            ("[[send]]\nprompt = ''\nline = ''", "send: a prompt is empty"),
            ("[[send]]\nprompt = 'x'\nlime = ''", "line 3: unknown key `lime`"),
            ("options = '-kernel k'", "options: invalid type: string"),
            ("chip = '82540em'\nchip = '82540em'", "line 2: duplicate key"),
            ("chip = ", "line 1: "),
            ("chip 7", "line 1: "),
        ] {
            let error = SetupFile::parse("f", text).unwrap_err();
            assert!(error.contains(parts) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn the_guide_s_example_is_a_set_up() {
        let guide = include_str!("../../../../../docs/src/audit.md");
        let examples: Vec<_> =
            guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(!examples.is_empty());
        for example in examples {
            let file = SetupFile::parse("the guide", example).unwrap();
            assert!(file.options.is_some());
        }
    }

    #[test]
    fn relative_paths_start_at_the_folder_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.toml");
        std::fs::write(&path, "qemu = 'tools/qemu'\njunit = 'a.xml'").unwrap();
        let file = SetupFile::read(&path).unwrap();
        assert_eq!(file.qemu, Some(folder.path().join("tools/qemu")));
        assert_eq!(file.junit, Some(folder.path().join("a.xml")));
        std::fs::write(&path, "qemu = 'qemu-system-x86_64'\njunit = '/a.xml'").unwrap();
        let file = SetupFile::read(&path).unwrap();
        assert_eq!((file.qemu, file.junit), (Some("qemu-system-x86_64".into()), Some("/a.xml".into())));
        assert_eq!(SetupFile::folder(Path::new("audit.toml")), Path::new("."));
        let told = |path: &Path| SetupFile::read(path).unwrap_err();
        assert!(told(folder.path()).contains("cannot be read: Is a directory"));
        assert!(told(&folder.path().join("none")).contains("cannot be read: No such file"));
        assert!(told(Path::new("/dev/zero")).contains("more than 1048576 bytes"));
        std::fs::write(&path, [0xff]).unwrap();
        assert!(told(&path).contains("no text"));
    }
}
