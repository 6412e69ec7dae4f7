//! `kpps list`: the profiles and their constants.

use crate::error::Failure;
use crate::output::{Forms, Outputs};
use clap::{Args, ValueEnum};
use kpps_profiles::{Kind, Profile, names};
use kpps_report::{inventory, rows_csv};
use kpps_results::inventory as report;

#[derive(Clone, Copy, ValueEnum)]
enum Shelf {
    #[value(alias = "machine")]
    Machines,
    #[value(alias = "chip")]
    Chips,
    #[value(alias = "nic")]
    Nics,
    #[value(alias = "bus")]
    Buses,
    #[value(alias = "host")]
    Hosts,
    #[value(alias = "stack")]
    Stacks,
    #[value(alias = "driver")]
    Drivers,
}

impl Shelf {
    fn kind(self) -> Kind {
        match self {
            Self::Machines => Kind::Machine,
            Self::Chips => Kind::Chip,
            Self::Nics => Kind::Nic,
            Self::Buses => Kind::Bus,
            Self::Hosts => Kind::Host,
            Self::Stacks => Kind::Stack,
            Self::Drivers => Kind::Driver,
        }
    }
}

/// Arguments of `kpps list`.
#[derive(Args)]
pub struct Arguments {
    /// Only profiles of this kind
    #[arg(value_enum, value_name = "KIND")]
    shelf: Option<Shelf>,
    /// Only this profile, with its constants and their sources
    #[arg(requires = "shelf")]
    name: Option<String>,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps list`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let kinds = arguments.shelf.map_or(Kind::ALL.to_vec(), |shelf| vec![shelf.kind()]);
    let profiles: Vec<(Kind, Profile)> = match &arguments.name {
        Some(name) => vec![(kinds[0], Profile::named(kinds[0], name)?)],
        None => {
            let all = kinds.iter().flat_map(|kind| names(*kind).into_iter().map(|name| (*kind, name)));
            all.map(|(kind, name)| Ok((kind, Profile::named(kind, &name)?)))
                .collect::<Result<_, Failure>>()?
        }
    };
    let document = document(&profiles)?;
    let screen = || match (&arguments.name, document.profiles.first()) {
        (Some(_), Some(profile)) => inventory::constants(profile),
        _ => inventory::profiles(&document),
    };
    let csv = || match (&arguments.name, document.profiles.first()) {
        (Some(_), Some(profile)) => rows_csv(&profile.constants),
        _ => rows_csv(&document.profiles),
    };
    arguments.outputs.open()?.publish(&document, &Forms::table(&screen, &csv))
}

fn document(profiles: &[(Kind, Profile)]) -> Result<report::Profiles, Failure> {
    let constant = |constant: &kpps_profiles::Constant| {
        let value = serde_json::to_value(&constant.value);
        Ok(report::Constant {
            name: constant.name.clone(),
            value: value.map_err(|e| Failure::Check(format!("{} is no JSON: {e}", constant.name)))?,
            source: constant.source.clone(),
            fitted: constant.fitted.clone(),
        })
    };
    let entry = |(kind, profile): &(Kind, Profile)| {
        Ok(report::ProfileEntry {
            kind: kind.to_string(),
            name: profile.name().into(),
            description: profile.description().into(),
            constants: profile.constants().iter().map(constant).collect::<Result<_, Failure>>()?,
        })
    };
    Ok(report::Profiles {
        profiles_hash: kpps_profiles::hash(&[]),
        profiles: profiles.iter().map(entry).collect::<Result<_, Failure>>()?,
        ..report::Profiles::default()
    })
}
