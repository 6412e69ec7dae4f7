//! The profiles as data: they fit each other, and no constant was fitted on claims that are kept back.

use kpps_profiles::{Kind, Profile, names};
use kpps_sim::{RateLimitedSetup, Setup, SetupError};
use std::collections::BTreeMap;
use std::path::Path;

/// The kind of every claim of every study.
fn claims() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies");
    let mut claims = BTreeMap::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let study: toml::Table = std::fs::read_to_string(file.unwrap().path()).unwrap().parse().unwrap();
        for (id, claim) in study["claims"].as_table().unwrap() {
            claims.insert(id.clone(), claim["kind"].as_str().unwrap().to_owned());
        }
    }
    claims
}

/// Claims with a published part and a part that was kept back; constants may be fitted on the published part.
const GIVEN_IN_PART: [&str; 1] = ["B27"];

#[test]
fn constants_are_fitted_on_fit_claims_only() {
    let claims = claims();
    let mut fitted = 0;
    for kind in Kind::ALL {
        for name in names(kind) {
            for constant in Profile::named(kind, &name).unwrap().constants() {
                for id in &constant.fitted {
                    let claim =
                        claims.get(id).unwrap_or_else(|| panic!("{name}.{}: no claim {id}", constant.name));
                    let given = claim == "fit" || GIVEN_IN_PART.contains(&id.as_str());
                    assert!(given, "{name}.{} is fitted on {id}", constant.name);
                    fitted += 1;
                }
            }
        }
    }
    assert!(fitted > 5, "the profiles name what they were fitted on");
}

#[test]
fn every_chip_and_driver_works_in_every_machine() {
    for machine in names(Kind::Machine) {
        for chip in names(Kind::Chip) {
            for driver in names(Kind::Driver) {
                let setup = match Setup::named(&machine, Some(&chip), &driver) {
                    Ok(setup) => setup,
                    // FreeBSD serves a card in its interrupt or polls it by polling(4), and has rate-limited
                    // NICs of its own.
                    // Copybreak takes a host whose copies are known.
                    Err(SetupError::Mismatch(why))
                        if why.contains("FreeBSD") || why.contains("copy_byte_ps") =>
                    {
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                // A chip may have several profiles: 82540em-qemu.
                assert!(chip.starts_with(setup.card.chip.name()), "{chip}");
            }
        }
    }
}

#[test]
fn every_rate_limited_nic_works_in_every_machine_that_has_a_driver_for_it() {
    let mut machines = 0;
    for machine in names(Kind::Machine) {
        for nic in names(Kind::Nic) {
            match RateLimitedSetup::changed(&machine, Some(&nic), &[]) {
                Ok(_) => machines += 1,
                Err(SetupError::Mismatch(why)) => assert!(why.contains("Linux 2.4 and 2.6 only"), "{why}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(machines >= 6);
}

#[test]
fn our_preset_is_the_drivers_own() {
    let setup = Setup::named("morris2000", Some("82540em"), "kpps").unwrap();
    assert_eq!(setup.config, kpps_driver::Config::kpps());
}

#[test]
fn mismatches_are_said() {
    let error = Setup::named("morris2000", Some("82542"), "intel-9").unwrap_err().to_string();
    assert!(error.contains("intel-9") && error.contains("click-polling"), "{error}");
}

/// A machine's own file is checked like a setting, and the message names a mistyped card in its `bus`.
#[test]
fn own_machines_are_checked_like_changes() {
    let folder = std::env::temp_dir().join(format!("kpps-own-machine-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let refused = |text: &str| {
        let file = folder.join("mine.toml");
        std::fs::write(&file, format!("base = 'lunz2003'\n{text}")).unwrap();
        let machine = Some(file.display().to_string());
        kpps_sim::Choice { machine, ..Default::default() }.setup().err().map(|why| why.to_string())
    };
    assert_eq!(refused("bus.82546eb = 'pci-64-66'"), None);
    let cpus = refused("cpus = 2").unwrap();
    assert!(cpus.contains("'mine': machine.cpus has no effect: this simulation uses one CPU"), "{cpus}");
    let typo = refused("bus.82546be = 'pci-64-66'").unwrap();
    assert!(typo.contains("bus: there is no card '82546be'; known are any, 82542"), "{typo}");
    std::fs::remove_dir_all(&folder).unwrap();
}
