//! A QEMU of Debian's backports, for features that the host's may not have: cards by vfio-user, igb, and
//! guests that survive full load (in QEMU 7.2 a guest's kernel sometimes stops). It is fetched and unpacked
//! as the kernels are, and never installed.

use crate::lab::apt::Apt;
use crate::lab::arch::Arch;
use crate::lab::{Cache, Error, Result};
use std::fs;
use std::path::PathBuf;

const SUITES: [&str; 2] = ["debian trixie", "debian trixie-backports"];
const RELEASE: &str = "trixie-backports";
/// Packages that a system needs to install others, and QEMU does not need to run.
const NOT_NEEDED: [&str; 6] = ["adduser", "base-passwd", "debconf", "gcc-14-base", "login.defs", "passwd"];

/// The folder of the unpacked QEMU for PCs, from the cache or from Debian's mirror (36 MB).
///
/// # Errors
/// If it is not in the cache and cannot be fetched.
pub fn get(cache: &Cache) -> Result<PathBuf> {
    for_arch(cache, Arch::X86_64)
}

/// The same for guests of an architecture.
///
/// # Errors
/// If it is not in the cache and cannot be fetched.
pub fn for_arch(cache: &Cache, arch: Arch) -> Result<PathBuf> {
    let _lock = cache.lock()?;
    let package = arch.package();
    let name = match arch {
        Arch::X86_64 => "qemu".to_owned(),
        _ => format!("qemu-{}", arch.name()),
    };
    let current = cache.path(&format!("{name}.current"));
    match fs::read_to_string(&current).map(|place| cache.path(place.trim())) {
        Ok(directory) if directory.is_dir() => return Ok(directory),
        _ => {}
    }
    let failed = |error: Error| match error {
        Error::Package(what) => {
            Error::Package(format!("a later QEMU than the host's is needed (10.1 or later): {what}"))
        }
        other => other,
    };
    let apt = Apt::new(&cache.path("apt/qemu"), &SUITES.map(str::to_owned)).map_err(failed)?;
    let packages = apt.with_all_that_it_needs(package, RELEASE).map_err(failed)?;
    let version = packages.iter().find_map(|it| it.strip_prefix(package)?.strip_prefix('='));
    let version = version.ok_or_else(|| Error::Package(format!("{RELEASE} has no {package}")))?;
    let place = format!("{name}/{}", version.replace(':', "_"));
    let wanted: Vec<_> = packages
        .iter()
        .filter(|it| it.split_once('=').is_some_and(|(name, _)| !NOT_NEEDED.contains(&name)))
        .collect();
    let directory = cache.directory(&place, |root| apt.unpack(&wanted, root).map_err(failed))?;
    fs::write(&current, &place)?;
    Ok(directory)
}
