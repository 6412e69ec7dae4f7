//! Programs of the guest: busybox, tc, testpmd, from Debian's packages.

use crate::lab::apt::Apt;
use crate::lab::cache::Cache;
use crate::lab::{Error, Result};
use serde::Deserialize;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

const LIST: &str = include_str!("../../../../lab/packages.toml");

#[derive(Deserialize, Hash)]
struct Packages {
    suites: Vec<String>,
    base: Vec<String>,
    dpdk: Vec<String>,
    dpdk_drivers: Vec<String>,
    libraries: Vec<String>,
}

/// The unpacked packages.
#[derive(Clone, Debug)]
pub struct Userland {
    root: PathBuf,
    dpdk_drivers: Vec<String>,
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
        Ok(Self { root, dpdk_drivers: list.dpdk_drivers })
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
