//! Profiles and their constants, as published.

use crate::setup::{SetupError, check_profile};
use kpps_documents::inventory;
use kpps_profiles::{Constant, Error, Kind, Profile, names};

/// The profiles of these kinds, or one of them by its name or file.
///
/// # Errors
/// A profile is missing or bad.
pub fn profiles(kinds: &[Kind], name: Option<&str>) -> Result<inventory::Profiles, SetupError> {
    let mut profiles = Vec::new();
    for &kind in kinds {
        let names = name.map_or_else(|| names(kind), |name| vec![name.to_owned()]);
        for name in names {
            let profile = Profile::named(kind, &name)?;
            // Tests check the built-in profiles.
            if profile.own_text().is_some() {
                check_profile(kind, &profile)?;
            }
            profiles.push(entry(kind, &profile)?);
        }
    }
    let profiles_hash = kpps_profiles::hash(&[]);
    Ok(inventory::Profiles { profiles_hash, profiles, ..inventory::Profiles::default() })
}

fn entry(kind: Kind, profile: &Profile) -> Result<inventory::ProfileEntry, Error> {
    let constant = |constant: &Constant| {
        let value = serde_json::to_value(&constant.value).map_err(|why| Error::Bad {
            kind,
            name: profile.name().into(),
            problem: format!("{} cannot be written as JSON: {why}", constant.name),
        })?;
        Ok(inventory::Constant {
            name: constant.name.clone(),
            value,
            source: constant.source.clone(),
            fitted: constant.fitted.clone(),
            spread: constant.spread,
            part_of: constant.part_of.clone(),
        })
    };
    Ok(inventory::ProfileEntry {
        kind: kind.to_string(),
        name: profile.name().into(),
        description: profile.description().into(),
        constants: profile.constants().iter().map(constant).collect::<Result<_, Error>>()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_profile_or_all_of_a_kind() {
        let chips = profiles(&[Kind::Chip], None).unwrap();
        assert!(chips.profiles.len() > 1 && chips.profiles.iter().all(|entry| entry.kind == "chip"));
        let one = profiles(&[Kind::Chip], Some("82542")).unwrap();
        assert_eq!(one.profiles.len(), 1);
        assert!(one.profiles[0].constants.iter().all(|constant| !constant.source.is_empty()));
        assert!(profiles(&[Kind::Chip], Some("no-such-chip")).is_err());
    }
}
