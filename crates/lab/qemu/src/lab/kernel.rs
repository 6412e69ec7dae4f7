//! Stock Debian kernels: a list, and preparing one to boot.

use crate::lab::apt::Apt;
use crate::lab::cache::Cache;
use crate::lab::compressed::{expand, kernel_of};
use crate::lab::{Error, Result, elf};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the command channel, which every guest loads first.
pub(super) const BOOT_MODULES: [&str; 2] = ["virtio_pci", "virtio_console"];
const LIST: &str = include_str!("../../../../../lab/kernels.toml");

/// A kernel that the lab knows.
#[derive(Clone, Debug, Deserialize)]
pub struct Known {
    /// Its name in the lab: "linux-6.1".
    pub name: String,
    /// Its Debian release, in words.
    pub release: String,
    suites: Vec<String>,
    package: String,
}

#[derive(Deserialize)]
struct List {
    kernel: Vec<Known>,
}

/// All kernels of the lab. The first is the default.
///
/// # Errors
/// If the list, which is part of this program, is not valid.
pub fn known() -> Result<Vec<Known>> {
    let list: List = toml::from_str(LIST).map_err(|e| Error::Input(format!("lab/kernels.toml: {e}")))?;
    Ok(list.kernel)
}

/// A kernel ready to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name in the lab: "linux-6.1".
    pub name: String,
    /// The package's name and version: "linux-image-6.1.0-56-amd64 6.1.192-2".
    pub version: String,
    /// The kernel, uncompressed.
    pub image: PathBuf,
    modules: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

/// A kernel module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
}

impl Kernel {
    /// The kernel `name`, from the cache or from Debian's mirror; or the one in the folder of that name.
    ///
    /// # Errors
    /// If the lab has no such kernel, or it is neither cached nor can be fetched.
    pub fn get(cache: &Cache, name: &str) -> Result<Self> {
        let all = known()?;
        if !all.iter().any(|kernel| kernel.name == name) && Path::new(name).is_dir() {
            return Self::folder(Path::new(name));
        }
        let Some(wanted) = all.iter().find(|kernel| kernel.name == name) else {
            let names: Vec<_> = all.iter().map(|kernel| kernel.name.as_str()).collect();
            return Err(Error::Input(format!(
                "there is no kernel called '{name}', and no such folder: known are {}",
                names.join(", ")
            )));
        };
        let _lock = cache.lock()?;
        // The version of a name is looked up once, so that later runs need no network.
        let current = cache.path(&format!("kernels/{name}.current"));
        let directory = match fs::read_to_string(&current).map(|version| cache.path(version.trim())) {
            Ok(directory) if directory.is_dir() => directory,
            _ => {
                let version = fetch(cache, wanted)?;
                fs::write(&current, &version)?;
                cache.path(&version)
            }
        };
        Self::open(name, &directory)
    }

    /// The kernel in a folder: `vmlinux` with the modules anywhere below it, as in a tree that a kernel was
    /// built in, or in one that modules were installed to.
    fn folder(folder: &Path) -> Result<Self> {
        let image = folder.join("vmlinux");
        let bytes = fs::read(&image).map_err(|e| Error::file(&image, e))?;
        let (modules, builtin) = module_tree(folder)?;
        let release = release_of(&bytes).ok_or_else(|| Error::file(&image, "no Linux kernel"))?;
        let name = folder.display().to_string();
        let kernel = Self { name, version: format!("Linux {release}"), image, modules, builtin };
        for module in BOOT_MODULES {
            kernel.path_or_builtin(module)?.map_or(Ok(()), |path| kernel.check(path, &release))?;
        }
        Ok(kernel)
    }

    /// The kernel with another module in place of its own of that name, which must be one of `names`.
    ///
    /// # Errors
    /// If the file is no module, is of another name, or was built for another kernel.
    pub fn with_module(mut self, path: &Path, names: &[&str]) -> Result<Self> {
        let (name, _) = elf::module_identity(&read_module(path)?).map_err(|e| Error::file(path, e))?;
        if !names.contains(&name.as_str()) {
            let what = format!("is the module '{name}': the cards of this run take {}", names.join(", "));
            return Err(Error::Input(format!("{} {what}", path.display())));
        }
        let image = fs::read(&self.image).map_err(|e| Error::file(&self.image, e))?;
        let release = release_of(&image).ok_or_else(|| Error::file(&self.image, "no Linux kernel"))?;
        self.check(path, &release)?;
        self.builtin.remove(&name);
        self.modules.insert(name, path.to_owned());
        Ok(self)
    }

    /// Refuses a module that was built for another kernel than `release`.
    fn check(&self, path: &Path, release: &str) -> Result<()> {
        let (_, built_for) = elf::module_identity(&read_module(path)?).map_err(|e| Error::file(path, e))?;
        if built_for == release {
            return Ok(());
        }
        let path = path.display();
        Err(Error::Input(format!(
            "{path} was built for Linux {built_for}, and {} is {release}: build it for this kernel, or choose its kernel",
            self.name
        )))
    }

    fn open(name: &str, directory: &Path) -> Result<Self> {
        let (modules, builtin) = module_tree(&directory.join("lib/modules"))?;
        let version = directory.file_name().map(|name| name.to_string_lossy().replacen('_', " ", 1));
        Ok(Self {
            name: name.into(),
            version: version.unwrap_or_default(),
            image: directory.join("vmlinux"),
            modules,
            builtin,
        })
    }

    /// `names` and all modules that they need, each once, after those it needs. Built-in modules are left
    /// out.
    ///
    /// # Errors
    /// If a module does not exist or cannot be read.
    pub fn modules(&self, names: &[impl AsRef<str>]) -> Result<Vec<Module>> {
        let mut order = Vec::new();
        let mut under_way = BTreeSet::new();
        for name in names {
            self.visit(name.as_ref(), &mut under_way, &mut order)?;
        }
        Ok(order)
    }

    /// Whether there is a module of that name, or it is built in.
    pub fn has(&self, name: &str) -> bool {
        self.modules.contains_key(name) || self.builtin.contains(name)
    }

    /// The parameters of a module, and whether each takes a value for each card.
    ///
    /// # Errors
    /// If there is no such module.
    pub fn parameters(&self, name: &str) -> Result<BTreeMap<String, bool>> {
        let path = self.path(name)?;
        elf::module_parameters(&read_module(path)?).map_err(|e| Error::file(path, e))
    }

    fn path_or_builtin(&self, name: &str) -> Result<Option<&PathBuf>> {
        if self.builtin.contains(name) { Ok(None) } else { self.path(name).map(Some) }
    }

    fn path(&self, name: &str) -> Result<&PathBuf> {
        let path = self.modules.get(name);
        path.ok_or_else(|| Error::Input(format!("{} has no kernel module {name}", self.version)))
    }

    fn visit(&self, name: &str, under_way: &mut BTreeSet<String>, order: &mut Vec<Module>) -> Result<()> {
        if self.builtin.contains(name) || !under_way.insert(name.to_owned()) {
            return Ok(());
        }
        let path = self.path(name)?;
        for needed in elf::module_depends(&read_module(path)?).map_err(|e| Error::file(path, e))? {
            self.visit(&needed, under_way, order)?;
        }
        order.push(Module { name: name.to_owned(), path: path.clone() });
        Ok(())
    }
}

impl Module {
    /// The module as the kernel loads it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        read_module(&self.path)
    }
}

/// The modules below a folder, and the modules that are built in. Links are not followed: `build` and
/// `source` lead to other trees.
fn module_tree(folder: &Path) -> Result<(BTreeMap<String, PathBuf>, BTreeSet<String>)> {
    let (mut modules, mut builtin) = (BTreeMap::new(), BTreeSet::new());
    let mut unread = vec![folder.to_owned()];
    while let Some(directory) = unread.pop() {
        for entry in fs::read_dir(&directory).map_err(|e| Error::file(&directory, e))? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                unread.push(path);
            } else if path.file_name().is_some_and(|name| name == "modules.builtin") {
                builtin.extend(fs::read_to_string(&path)?.lines().filter_map(module_name));
            } else if let Some(name) = module_name(&path.to_string_lossy()) {
                modules.insert(name, path);
            }
        }
    }
    Ok((modules, builtin))
}

/// The release of an uncompressed kernel, from the text that `/proc/version` shows: "6.1.0-56-amd64".
fn release_of(image: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    // A format with the same beginning may come before.
    let all = image.windows(BANNER.len()).enumerate().filter(|(_, part)| *part == BANNER);
    all.filter_map(|(at, _)| {
        let rest = image.get(at + BANNER.len()..)?;
        let word = rest.iter().take(80).take_while(|byte| byte.is_ascii_graphic());
        let word: String = word.map(|byte| char::from(*byte)).collect();
        word.starts_with(|c: char| c.is_ascii_digit()).then_some(word)
    })
    .next()
}

fn read_module(path: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(path).map_err(|e| Error::file(path, e))?;
    expand(&bytes).map_err(|e| Error::file(path, e))
}

/// The name of the module in a file: "uio_pci_generic" of ".../uio-pci-generic.ko.xz".
fn module_name(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let stem = file.strip_suffix(".ko").or_else(|| file.strip_suffix(".ko.xz"));
    Some(stem.or_else(|| file.strip_suffix(".ko.zst"))?.replace('-', "_"))
}

/// Fetches the newest image of `wanted`. Returns its place in the cache.
fn fetch(cache: &Cache, wanted: &Known) -> Result<String> {
    let apt = Apt::new(&cache.path(&format!("apt/{}", wanted.name)), &wanted.suites)?;
    let depends = apt.depends(&wanted.package)?;
    let image = depends.iter().find(|name| name.starts_with("linux-image-")).ok_or_else(|| {
        Error::Package(format!("{} has no {} that names an image", wanted.release, wanted.package))
    })?;
    let place = format!("kernels/{image}_{}", apt.version(image)?);
    cache.directory(&place, |root| {
        apt.unpack(&[image], root)?;
        let boot = root.join("boot");
        let compressed = fs::read_dir(&boot)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz")))
            .ok_or_else(|| Error::file(&boot, "no kernel in it"))?;
        let kernel = kernel_of(&fs::read(&compressed)?).map_err(|e| Error::file(&compressed, e))?;
        fs::write(root.join("vmlinux"), kernel)?;
        // With a merged /usr, two names are one place.
        if !root.join("lib/modules").is_dir() {
            fs::create_dir_all(root.join("lib"))?;
            fs::rename(root.join("usr/lib/modules"), root.join("lib/modules"))?;
        }
        for superfluous in ["boot", "usr"] {
            if root.join(superfluous).is_dir() {
                fs::remove_dir_all(root.join(superfluous))?;
            }
        }
        Ok(())
    })?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_list_is_good_and_unknown_kernels_are_told() {
        let names: Vec<_> = known().unwrap().into_iter().map(|kernel| kernel.name).collect();
        assert!(names.len() >= 3 && names[0] == "linux-6.1", "{names:?}");
        let place = tempfile::tempdir().unwrap();
        let error = Kernel::get(&Cache::at(place.path()).unwrap(), "minix").unwrap_err();
        assert!(error.to_string().contains("known are linux-6.1"), "{error}");
    }

    #[test]
    fn what_is_no_kernel_of_ours_is_told_in_one_line() {
        let place = tempfile::tempdir().unwrap();
        let error = |path: &Path| {
            let cache = Cache::at(&place.path().join("cache")).unwrap();
            Kernel::get(&cache, &path.display().to_string()).unwrap_err().to_string()
        };
        let folder = place.path().join("own");
        fs::create_dir(&folder).unwrap();
        assert!(error(&folder).contains("vmlinux: No such file"), "{}", error(&folder));
        fs::write(folder.join("vmlinux"), "\x7fELF").unwrap();
        assert!(error(&folder).contains("no Linux kernel"), "{}", error(&folder));
        fs::write(folder.join("vmlinux"), "Linux version %s\0Linux version 6.9.1-x (a@b) (gcc)").unwrap();
        assert!(
            error(&folder).contains("Linux 6.9.1-x has no kernel module virtio_pci"),
            "{}",
            error(&folder)
        );
        fs::write(folder.join("virtio-pci.ko"), "?").unwrap();
        assert!(error(&folder).contains("virtio-pci.ko: "), "{}", error(&folder));
    }

    #[test]
    fn modules_are_named_as_the_kernel_names_them() {
        assert_eq!(module_name("kernel/drivers/vfio/vfio-pci-core.ko").unwrap(), "vfio_pci_core");
        assert_eq!(module_name("e1000.ko.xz").unwrap(), "e1000");
        assert_eq!(module_name("modules.order"), None);
    }
}
