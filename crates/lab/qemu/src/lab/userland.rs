//! Programs of the guest: busybox, tc, testpmd, from Debian's packages.

use crate::lab::apt::Apt;
use crate::lab::cache::Cache;
use crate::lab::{Error, Result};
use serde::Deserialize;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

const LIST: &str = include_str!("../../../../../lab/packages.toml");

#[derive(Deserialize, Hash)]
struct Packages {
    suites: Vec<String>,
    base: Vec<String>,
    dpdk: Vec<String>,
    dpdk_drivers: Vec<String>,
    libraries: Vec<String>,
}

/// The drivers of a DPDK with shared libraries.
const DRIVERS: [&str; 3] = ["librte_bus_pci.so", "librte_mempool_ring.so", "librte_net_e1000.so"];
/// The drivers of other cards, which not every DPDK was built with.
const OTHER_DRIVERS: [&str; 2] = ["librte_net_virtio.so", "librte_net_vmxnet3.so"];

/// The unpacked packages.
#[derive(Clone, Debug)]
pub struct Userland {
    root: PathBuf,
    dpdk_drivers: Vec<String>,
    own_dpdk: Option<OwnDpdk>,
}

/// A DPDK that was built on this host.
#[derive(Clone, Debug)]
pub(super) struct OwnDpdk {
    /// Its testpmd.
    pub(super) testpmd: PathBuf,
    /// Where its libraries are, if it has shared ones.
    pub(super) libraries: Vec<PathBuf>,
}

impl Userland {
    /// The packages of `lab/packages.toml`, from the cache or from Debian's mirror.
    ///
    /// # Errors
    /// If they are not in the cache and cannot be fetched.
    pub fn get(cache: &Cache) -> Result<Self> {
        let list: Packages =
            toml::from_str(LIST).map_err(|e| Error::Input(format!("lab/packages.toml: {e}")))?;
        // Another list is another directory. A Debian release is stable: its version is that of the day of
        // the download.
        let mut hasher = DefaultHasher::new();
        list.hash(&mut hasher);
        let _lock = cache.lock()?;
        let root = cache.directory(&format!("userland/{:016x}", hasher.finish()), |root| {
            let apt = Apt::new(&cache.path("apt/userland"), &list.suites)?;
            let packages: Vec<_> = [list.base, list.dpdk, list.libraries].concat();
            apt.unpack(&packages, root)
        })?;
        Ok(Self { root, dpdk_drivers: list.dpdk_drivers, own_dpdk: None })
    }

    /// The same with the DPDK in a folder: the folder that it was built in, or installed to.
    ///
    /// # Errors
    /// If there is no testpmd in it, or shared libraries without the driver.
    pub fn with_dpdk(self, folder: &Path) -> Result<Self> {
        let (mut testpmd, mut libraries, mut names) = (None, Vec::new(), Vec::new());
        let mut unread = vec![folder.to_owned()];
        while let Some(directory) = unread.pop() {
            for entry in fs::read_dir(&directory).map_err(|e| Error::file(&directory, e))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type()?.is_dir() {
                    unread.push(entry.path());
                } else if name == "dpdk-testpmd" {
                    testpmd = Some(entry.path());
                } else if name.starts_with("librte_") && name.contains(".so.") {
                    names.push(name);
                    if !libraries.contains(&directory) {
                        libraries.push(directory.clone());
                    }
                }
            }
        }
        let testpmd = testpmd.ok_or_else(|| Error::file(folder, "no dpdk-testpmd in it"))?;
        // A testpmd with static libraries has its drivers within it.
        let mut dpdk_drivers = Vec::new();
        for driver in DRIVERS.into_iter().chain(OTHER_DRIVERS).filter(|_| !names.is_empty()) {
            // The others refer to the shortest name: ".so.24", not ".so.24.0".
            match names.iter().filter(|name| name.starts_with(driver)).min_by_key(|name| name.len()) {
                Some(found) => dpdk_drivers.push(found.clone()),
                None if OTHER_DRIVERS.contains(&driver) => {}
                None => return Err(Error::file(folder, format!("no {driver}"))),
            }
        }
        Ok(Self { dpdk_drivers, own_dpdk: Some(OwnDpdk { testpmd, libraries }), ..self })
    }

    /// The DPDK that was built on this host, if one is used.
    pub(super) fn own_dpdk(&self) -> Option<&OwnDpdk> {
        self.own_dpdk.as_ref()
    }

    /// The program at an absolute `path` of the guest: "/usr/bin/dpdk-testpmd".
    ///
    /// # Errors
    /// If there is no such program.
    pub fn program(&self, path: &str) -> Result<PathBuf> {
        let path = path.trim_start_matches('/');
        // Where /bin is /usr/bin, packages may use either name.
        let places = [self.root.join(path), self.root.join("usr").join(path)];
        places
            .into_iter()
            .find(|place| place.is_file())
            .ok_or_else(|| Error::file(&self.root.join(path), "not in the packages"))
    }

    /// The directories of its libraries.
    pub fn libraries(&self) -> Vec<PathBuf> {
        library_directories(&self.root)
    }

    /// DPDK's drivers, which are loaded at run time: their names in the guest.
    pub fn dpdk_drivers(&self) -> &[String] {
        &self.dpdk_drivers
    }
}

/// The directories of the host's libraries.
pub(crate) fn host_libraries() -> Vec<PathBuf> {
    library_directories(Path::new("/"))
}

fn library_directories(root: &Path) -> Vec<PathBuf> {
    let names = [
        "lib/x86_64-linux-gnu",
        "usr/lib/x86_64-linux-gnu",
        "lib64",
        "usr/lib64",
        "lib",
        "usr/lib",
        "usr/lib/x86_64-linux-gnu/libibverbs",
    ];
    names.iter().map(|name| root.join(name)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_dpdk_of_ones_own_is_found_wherever_its_folder_has_it() {
        let place = tempfile::tempdir().unwrap();
        let none = || Userland { root: PathBuf::new(), dpdk_drivers: vec![], own_dpdk: None };
        let error = || none().with_dpdk(place.path()).unwrap_err().to_string();
        assert!(error().contains("no dpdk-testpmd"), "{}", error());
        for folder in ["app", "lib", "drivers"] {
            fs::create_dir(place.path().join(folder)).unwrap();
        }
        let add = |name: &str| fs::write(place.path().join(name), "").unwrap();
        add("app/dpdk-testpmd");
        assert!(none().with_dpdk(place.path()).unwrap().dpdk_drivers().is_empty(), "static libraries");
        add("drivers/librte_bus_pci.so.24.0");
        add("drivers/librte_bus_pci.so.24");
        add("lib/librte_mempool_ring.so.24");
        assert!(error().contains("no librte_net_e1000"), "{}", error());
        add("lib/librte_net_e1000.so.24");
        let found = none().with_dpdk(place.path()).unwrap();
        assert_eq!(found.dpdk_drivers()[0], "librte_bus_pci.so.24");
        assert_eq!(found.own_dpdk().unwrap().libraries.len(), 2);
    }
}
