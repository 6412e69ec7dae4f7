//! Changes to profiles: one constant set to another value, or scaled.

use crate::{Constant, Draw, Error, Kind, Profile};
use std::collections::HashMap;
use std::fmt;
use toml::{Table, Value};

/// The new value of a constant.
#[derive(Clone, Debug, PartialEq)]
pub enum To {
    /// This value.
    Set(Value),
    /// Its value times this factor; whole numbers stay whole.
    Scale(f64),
    /// Not one constant, but all of a profile that have a spread: each times a factor of its own.
    Draw(Draw),
}

impl From<Value> for To {
    /// A text such as `*1.1` is a factor.
    fn from(value: Value) -> Self {
        let factor = value.as_str().and_then(|text| text.strip_prefix('*')?.parse::<f64>().ok());
        match factor.filter(|factor| factor.is_finite()) {
            Some(factor) => Self::Scale(factor),
            None => Self::Set(value),
        }
    }
}

/// A changed constant of the profiles of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which kind of profile.
    pub kind: Kind,
    /// Only the profile of this name; any of its kind otherwise.
    pub profile: Option<String>,
    /// The constant's name, with dots into its value: `moderation.rdtr`. A single name that is not a
    /// constant's stands for the only entry of that name: `weight` for `service.napi.weight`.
    pub constant: String,
    /// Its new value.
    pub to: To,
}

impl Change {
    /// `driver.moderation.rdtr` is the driver preset's constant `moderation`, its entry `rdtr`. The value
    /// `*1.1` multiplies the constant's own.
    ///
    /// # Errors
    /// If the first word is no kind of profile, or nothing follows it.
    pub fn set(path: &str, value: impl Into<Value>) -> Result<Self, String> {
        let kind = |word: &str| Kind::ALL.into_iter().find(|kind| kind.word() == word);
        match path.split_once('.').and_then(|(word, rest)| Some((kind(word)?, rest))) {
            Some((kind, constant)) if !constant.is_empty() => {
                Ok(Self { kind, profile: None, constant: constant.into(), to: To::from(value.into()) })
            }
            _ => Err(format!(
                "'{path}' names no constant: write KIND.CONSTANT, as driver.rx_ring; kinds are {}",
                Kind::ALL.map(Kind::word).join(", ")
            )),
        }
    }

    /// The changes that one draw makes to all profiles.
    pub fn drawn(draw: Draw) -> [Self; Kind::ALL.len()] {
        Kind::ALL.map(|kind| Self { kind, profile: None, constant: String::new(), to: To::Draw(draw) })
    }

    /// Whether it changes a constant that somebody named, and not all that are uncertain.
    pub fn is_named(&self) -> bool {
        !matches!(self.to, To::Draw(_))
    }

    fn concerns(&self, profile: &Profile) -> bool {
        self.kind == profile.kind && self.profile.as_ref().is_none_or(|name| *name == profile.name)
    }
}

impl fmt::Display for Change {
    /// As it is typed: `driver.rx_ring=80`, `host.interrupt_cycles=*1.1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}=", self.kind.word(), self.constant)?;
        match &self.to {
            To::Set(Value::String(word)) => f.write_str(word),
            To::Set(Value::Float(number)) => number.fmt(f),
            To::Set(value) => value.fmt(f),
            To::Scale(factor) => write!(f, "*{factor}"),
            To::Draw(draw) => write!(f, "draw {} of seed {}", draw.number, draw.seed),
        }
    }
}

impl Kind {
    /// The word for one, as in `driver.rx_ring`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Chip => "chip",
            Kind::Nic => "nic",
            Kind::Bus => "bus",
            Kind::Host => "host",
            Kind::Work => "work",
            Kind::Stack => "stack",
            Kind::Driver => "driver",
            Kind::Machine => "machine",
        }
    }
}

impl Profile {
    /// The profile with those of `changes` that concern it.
    ///
    /// # Errors
    /// If a constant to scale does not exist or is no number, or if a path leads into a value that is no
    /// table. A constant to set need not exist: profiles leave out constants with a default.
    pub fn changed(mut self, changes: &[Change]) -> Result<Self, Error> {
        let concerned: Vec<_> = changes.iter().filter(|change| change.concerns(&self)).collect();
        // A constant that somebody set is known, and not drawn. One that is multiplied is drawn first. So the
        // order of a draw and the other changes makes no difference.
        for change in concerned.iter().filter(|change| matches!(change.to, To::Set(_))) {
            let named = self.constants.iter_mut().find(|constant| constant.name == change.constant);
            if let Some(constant) = named {
                (constant.spread, constant.part_of) = (None, None);
            }
        }
        let (draws, others): (Vec<_>, Vec<_>) = concerned.into_iter().partition(|change| !change.is_named());
        for change in draws.into_iter().chain(others) {
            if let Err(refused) = self.apply(change) {
                let (kind, name) = (self.kind, self.path);
                return Err(match refused {
                    Refused::Unknown => {
                        let names: Vec<_> = self.constants.iter().map(|it| it.name.as_str()).collect();
                        let problem =
                            format!("there is no entry '{}'; it has {}", change.constant, names.join(", "));
                        Error::UnknownConstant { kind, name, problem }
                    }
                    Refused::Bad(problem) => {
                        let problem = format!("{} cannot be changed: {problem}", change.constant);
                        Error::Bad { kind, name, problem }
                    }
                });
            }
        }
        Ok(self)
    }

    /// Where entries of this name are within constants.
    fn entries(&self, name: &str) -> Vec<String> {
        fn within(path: &str, value: &Value, name: &str, found: &mut Vec<String>) {
            for (key, value) in value.as_table().into_iter().flatten() {
                let path = format!("{path}.{key}");
                if key == name {
                    found.push(path.clone());
                }
                within(&path, value, name, found);
            }
        }
        let mut found = Vec::new();
        for constant in &self.constants {
            within(&constant.name, &constant.value, name, &mut found);
        }
        found
    }

    fn apply(&mut self, change: &Change) -> Result<(), Refused> {
        if let To::Draw(draw) = change.to {
            return self.draw(draw);
        }
        let known = |name: &str| self.constants.iter().any(|constant| constant.name == name);
        let path = match change.constant.contains('.') || known(&change.constant) {
            true => change.constant.clone(),
            false => match &self.entries(&change.constant)[..] {
                [] => change.constant.clone(),
                [only] => only.clone(),
                several => return Err(Refused::Bad(format!("it may be {}", several.join(" or ")))),
            },
        };
        let mut steps = path.split('.');
        let name = steps.next().unwrap_or_default();
        let inner: Vec<_> = steps.collect();
        match self.constants.iter_mut().find(|constant| constant.name == name) {
            Some(constant) => {
                if !inner.is_empty() {
                    self.before.push((constant.name.clone(), constant.value.clone()));
                }
                let mut at = constant.name.clone();
                let value = inner.iter().try_fold(&mut constant.value, |value, step| match value {
                    Value::Table(table) => {
                        at = format!("{at}.{step}");
                        Ok(table.entry(*step).or_insert(Value::Table(Table::new())))
                    }
                    other => Err(Refused::Bad(format!("{at} is {other}, which has no entries (no table)"))),
                })?;
                *value = match &change.to {
                    // A name may be a number: a chip's.
                    To::Set(Value::Integer(name)) if value.is_str() => name.to_string().into(),
                    To::Set(new) => new.clone(),
                    To::Scale(factor) => scaled(value, *factor)?,
                    To::Draw(_) => return Ok(()), // above: all constants at once
                };
            }
            None if inner.is_empty() && matches!(change.to, To::Set(_)) => {
                let To::Set(new) = &change.to else { return Ok(()) };
                let profile = std::mem::replace(self, Self::empty(self.kind));
                *self = profile.with(name, new.clone(), "changed");
            }
            None => return Err(Refused::Unknown),
        }
        Ok(())
    }

    /// Multiplies each constant that has a spread by its factor of this draw. Equal estimates share it: those
    /// of the same name and value in profiles of one kind.
    fn draw(&mut self, draw: Draw) -> Result<(), Refused> {
        let kind = self.kind.word();
        let factor = |constant: &Constant| {
            let estimate = format!("{kind}.{} = {}", constant.name, constant.value);
            Some((constant.name.clone(), draw.factor(&estimate, constant.spread?)))
        };
        let factors: HashMap<String, f64> = self.constants.iter().filter_map(factor).collect();
        for constant in &mut self.constants {
            let of = constant.part_of.as_ref().unwrap_or(&constant.name);
            if let Some(factor) = factors.get(of) {
                constant.value = scaled(&constant.value, *factor)?;
            }
        }
        Ok(())
    }

    fn empty(kind: Kind) -> Self {
        Self {
            kind,
            name: String::new(),
            path: String::new(),
            own_text: None,
            description: String::new(),
            constants: Vec::new(),
            before: Vec::new(),
        }
    }
}

/// Why a constant cannot be changed.
enum Refused {
    /// There is no such constant.
    Unknown,
    /// In words.
    Bad(String),
}

fn scaled(value: &Value, factor: f64) -> Result<Value, Refused> {
    match value {
        Value::Integer(whole) => Ok(Value::Integer((*whole as f64 * factor).round() as i64)),
        Value::Float(number) => Ok(Value::Float(number * factor)),
        other => Err(Refused::Bad(format!("{other} is no number"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn profile() -> Profile {
        let text =
            "description = 'x'\na = { value = 10, source = 's' }\nm = { value = { b = 1 }, source = 's' }";
        Profile::parse(Kind::Driver, "t", text).unwrap()
    }

    fn value(profile: &Profile, name: &str) -> Value {
        profile.constants().iter().find(|c| c.name == name).unwrap().value.clone()
    }

    #[test]
    fn constants_and_their_entries_are_set_and_scaled() {
        let changes = [
            Change::set("driver.m.b", 7).unwrap(),
            Change::set("driver.new", true).unwrap(),
            Change::set("chip.a", 1).unwrap(),
            Change {
                kind: Kind::Driver,
                profile: Some("t".into()),
                constant: "a".into(),
                to: To::Scale(1.1),
            },
        ];
        let changed = profile().changed(&changes).unwrap();
        assert_eq!(
            value(&changed, "m"),
            Value::Table([("b".to_owned(), Value::Integer(7))].into_iter().collect())
        );
        assert_eq!(value(&changed, "new"), Value::Boolean(true));
        assert_eq!(value(&changed, "a"), Value::Integer(11));
        assert_eq!(changed.name(), "t");
    }

    #[test]
    fn the_only_entry_of_a_name_needs_no_path() {
        let text = "description = 'x'\n\
            service = { value = { napi = { weight = 64, mask = true } }, source = 's' }\n\
                    a = { value = { low = 1 }, source = 's' }\nb = { value = { low = 2 }, source = 's' }";
        let profile = || Profile::parse(Kind::Driver, "t", text).unwrap();
        let changed = profile().changed(&[Change::set("driver.weight", 7).unwrap()]).unwrap();
        let napi = value(&changed, "service")["napi"].clone();
        assert_eq!((&napi["weight"], &napi["mask"]), (&Value::Integer(7), &Value::Boolean(true)));
        assert_eq!(changed.constants().len(), 3, "nothing is added");
        let error = profile().changed(&[Change::set("driver.low", 7).unwrap()]).unwrap_err().to_string();
        assert!(error.contains("a.low or b.low"), "{error}");
    }

    #[test]
    fn what_cannot_be_changed_is_said() {
        assert!(Change::set("card.a", 1).unwrap_err().contains("kinds are"));
        for (text, to) in
            [("*0.5", To::Scale(0.5)), ("*inf", To::Set("*inf".into())), ("*", To::Set("*".into()))]
        {
            assert_eq!(Change::set("driver.a", text).unwrap().to, to);
        }
        assert!(Change::set("driver", 1).is_err());
        let into = |path: &str| profile().changed(&[Change::set(path, 1).unwrap()]).unwrap_err().to_string();
        assert!(into("driver.a.b").contains("no table"));
        let unknown = into("driver.zz.b");
        assert!(unknown.contains("no entry 'zz.b'; it has a, m"), "{unknown}");
        let scale = Change { kind: Kind::Driver, profile: None, constant: "m".into(), to: To::Scale(2.0) };
        assert!(profile().changed(&[scale]).unwrap_err().to_string().contains("no number"));
    }
}
