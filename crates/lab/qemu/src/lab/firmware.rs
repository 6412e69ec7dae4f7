//! Firmware with e1000 drivers of its own, as Debian packages it: iPXE, and U-Boot. For tests of the audit.

use crate::lab::apt::Apt;
use crate::lab::{Cache, Result};
use std::path::PathBuf;

const PACKAGES: [&str; 3] = ["ipxe-qemu", "u-boot-qemu", "ovmf"];
const SUITE: &str = "debian bookworm";

/// The folder in which the packages are unpacked, from the cache or from Debian's mirror (10 MB):
/// `usr/lib/ipxe/qemu`, `usr/lib/u-boot`, `usr/share/ovmf`.
///
/// # Errors
/// If they are not in the cache and cannot be fetched.
pub fn get(cache: &Cache) -> Result<PathBuf> {
    let _lock = cache.lock()?;
    cache.directory("firmware/bookworm", |root| {
        Apt::new(&cache.path("apt/firmware"), &[SUITE.to_owned()])?.unpack(&PACKAGES, root)
    })
}
