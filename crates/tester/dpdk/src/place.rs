//! The file of the compiled adapter.

use crate::error::Error;
use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The version of the adapter's interface: `KPPS_DPDK_ABI` of `kpps_dpdk.h`.
pub const ABI: u32 = 2;

/// The adapter's file, whether it exists or not: in the user's folder for what can be made again (XDG Base
/// Directory Specification).
pub(crate) fn adapter() -> Result<PathBuf, Error> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(cache.ok_or(Error::NoFolder)?.join(format!("kpps/dpdk/kpps-dpdk-{ABI}.so")))
}

/// Checks that the adapter exists, and that no other user has written it.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    let owner = path.metadata().map_err(|_| Error::NotBuilt)?.uid();
    let us = rustix::process::geteuid().as_raw();
    match owner == 0 || owner == us {
        true => Ok(()),
        false => Err(Error::File {
            path: path.into(),
            why: format!("it belongs to another user ({owner}), and is not loaded"),
        }),
    }
}
