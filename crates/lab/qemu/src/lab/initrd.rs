//! The guest's initial file system: busybox, kernel modules, DPDK, kpps, and a first process.
//!
//! Debian's programs have their libraries in `/lib`. kpps is the host's program, with the host's libraries
//! and loader, in a directory of its own.

use crate::lab::cpio::Archive;
use crate::lab::kernel::{BOOT_MODULES, Kernel};
use crate::lab::userland::{OwnDpdk, Userland, host_libraries};
use crate::lab::{Error, Result, elf};
use std::fs;
use std::path::{Path, PathBuf};

const INIT: &str = include_str!("init.sh");
/// kpps, and the directory of it and its libraries.
const KPPS: &str = "kpps";
/// Modules that workloads load when they need them.
const MODULES: [&str; 24] = [
    "e1000",
    "e1000e",
    "igb",
    "virtio_net",
    "vmxnet3",
    "af_packet",
    "pktgen",
    "sch_ingress",
    "sch_netem",
    "sch_tbf",
    "cls_matchall",
    "act_gact",
    "act_police",
    // The tracker of connections asks for it by its algorithm.
    "crc32c_generic",
    "nft_chain_nat",
    "nft_ct",
    "nft_masq",
    "bridge",
    "veth",
    "8021q",
    "uio_pci_generic",
    "vfio_iommu_type1",
    "vfio_pci",
    // Part of vfio since Linux 6.2.
    "vfio_virqfd",
];
const TESTPMD: &str = "/usr/bin/dpdk-testpmd";
const LINE_BY_LINE: &str = "/usr/libexec/coreutils/libstdbuf.so";

/// The contents of the file system.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The kernel of the modules.
    pub kernel: &'a Kernel,
    /// The programs.
    pub userland: &'a Userland,
    /// Whether testpmd is included.
    pub dpdk: bool,
    /// kpps, if it is included.
    pub kpps: Option<&'a Path>,
}

impl Contents<'_> {
    /// The archive for QEMU's `-initrd`.
    ///
    /// # Errors
    /// If a file is missing.
    pub fn build(&self) -> Result<Vec<u8>> {
        let mut archive = Archive::default();
        for directory in ["proc", "sys", "dev", "tmp", "run"] {
            archive.directory(directory);
        }
        archive.file("init", INIT.as_bytes());
        archive.link("bin/sh", "busybox");
        self.programs(&mut archive)?;
        self.modules(&mut archive)?;
        if let Some(kpps) = self.kpps {
            // The source of frames is the same program under another name, so that the two processes can be
            // distinguished.
            archive.link(&format!("{KPPS}/source"), KPPS);
            add_program(&mut archive, (KPPS, KPPS), kpps, &[], &host_libraries())?;
        }
        Ok(archive.finish())
    }

    fn programs(&self, archive: &mut Archive) -> Result<()> {
        let mut programs = vec![
            ("bin/busybox", self.userland.program("/bin/busybox")?),
            ("bin/tc", self.userland.program("/sbin/tc")?),
            ("bin/ip", self.userland.program("/bin/ip")?),
            ("bin/nft", self.userland.program("/usr/sbin/nft")?),
            ("bin/ethtool", self.userland.program("/sbin/ethtool")?),
            ("bin/chrt", self.userland.program("/usr/bin/chrt")?),
        ];
        let own_dpdk = self.userland.own_dpdk().filter(|_| self.dpdk);
        if let Some(OwnDpdk { testpmd, libraries }) = own_dpdk {
            // The libraries that it was built with are the host's.
            let directories = [&libraries[..], &host_libraries()].concat();
            let names = self.userland.dpdk_drivers().iter().map(String::as_str);
            let mut plugins = vec![PathBuf::from(LINE_BY_LINE)];
            for name in names {
                let place = directories.iter().map(|directory| directory.join(name)).find(|it| it.is_file());
                plugins.extend(place);
            }
            add_program(archive, ("testpmd", "dpdk"), testpmd, &plugins, &directories)?;
        }
        let dpdk = self.dpdk && own_dpdk.is_none();
        if dpdk {
            programs.push(("bin/testpmd", self.userland.program(TESTPMD)?));
            programs.push(("lib/libstdbuf.so", self.userland.program(LINE_BY_LINE)?));
        }
        for (name, path) in &programs {
            archive.file(name, &program(path)?);
        }
        let directories = self.userland.libraries();
        let mut roots: Vec<PathBuf> = programs.into_iter().map(|(_, path)| path).collect();
        if dpdk {
            for name in self.userland.dpdk_drivers() {
                let places = directories.iter().map(|directory| directory.join(name));
                let place = places.into_iter().find(|place| place.is_file());
                let place = place.ok_or_else(|| Error::Package(format!("{name} is not in the packages")))?;
                archive.file(&format!("lib/{name}"), &program(&place)?);
                roots.push(place);
            }
        }
        let roots: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
        for (name, path) in elf::libraries(&roots, &directories)? {
            let directory = if name.starts_with("ld-") { "lib64" } else { "lib" };
            archive.file(&format!("{directory}/{name}"), &program(&path)?);
        }
        Ok(())
    }

    fn modules(&self, archive: &mut Archive) -> Result<()> {
        let boot = self.kernel.modules(&BOOT_MODULES)?;
        let list: String = boot.iter().map(|module| format!("{}\n", module.name)).collect();
        archive.file("modules/boot", list.as_bytes());
        let others: Vec<_> = MODULES.into_iter().filter(|name| self.kernel.has(name)).collect();
        for module in boot.into_iter().chain(self.kernel.modules(&others)?) {
            archive.file(&format!("modules/{}.ko", module.name), &module.bytes()?);
        }
        Ok(())
    }
}

/// The archive for a guest that only runs `init`, a shell script, with busybox and these modules in
/// `/modules`, and with the modules that they need.
///
/// # Errors
/// If a file is missing.
pub fn small(kernel: &Kernel, userland: &Userland, modules: &[&str], init: &str) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for directory in ["proc", "sys", "dev", "tmp"] {
        archive.directory(directory);
    }
    archive.file("init", init.as_bytes());
    archive.link("bin/sh", "busybox");
    archive.file("bin/busybox", &program(&userland.program("/bin/busybox")?)?);
    for module in kernel.modules(modules)? {
        archive.file(&format!("modules/{}.ko", module.name), &module.bytes()?);
    }
    Ok(archive.finish())
}

/// A program of the host with libraries in `directories` and with plugins, all in a directory of its own, and
/// a command that starts it.
fn add_program(
    archive: &mut Archive,
    (name, directory): (&str, &str),
    path: &Path,
    plugins: &[PathBuf],
    directories: &[PathBuf],
) -> Result<()> {
    let command = format!("#!/bin/sh\nLD_LIBRARY_PATH=/{directory} exec /{directory}/{name} \"$@\"\n");
    archive.file(&format!("bin/{name}"), command.as_bytes());
    let loader = format!("/{directory}/loader");
    archive.file(&format!("{directory}/{name}"), &elf::with_loader(program(path)?, &loader));
    let file_name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for plugin in plugins {
        archive.file(&format!("{directory}/{}", file_name(plugin)), &program(plugin)?);
    }
    let roots: Vec<&Path> = [path].into_iter().chain(plugins.iter().map(PathBuf::as_path)).collect();
    for (name, path) in &elf::libraries(&roots, directories)? {
        let name = if name.starts_with("ld-") { "loader" } else { name };
        archive.file(&format!("{directory}/{name}"), &program(path)?);
    }
    Ok(())
}

fn program(path: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(path).map_err(|e| Error::file(path, e))?;
    Ok(elf::without_debug(bytes))
}
