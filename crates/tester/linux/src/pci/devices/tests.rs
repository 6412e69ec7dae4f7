//! On made-up trees, with a made-up kernel that binds as the real one does.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::pci::system::Kernel;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A kernel whose drivers take the devices that they are offered, by `driver_override` or by vendor.
struct Fake {
    root: PathBuf,
    /// The driver that refuses.
    refuses: Option<&'static str>,
    /// The addresses of eth0; `None` if it does not report them.
    addresses: Option<Vec<IpAddr>>,
}

impl Kernel for Fake {
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let devices = self.root.join("sys/bus/pci/devices");
        match path.file_name().unwrap().to_str().unwrap() {
            "driver_override" => fs::write(path, text.trim()),
            "unbind" => {
                let device = devices.join(text);
                let _ = fs::remove_dir_all(device.join("net"));
                fs::remove_file(device.join("driver"))
            }
            "drivers_probe" => {
                let device = devices.join(text);
                if device.join("driver").exists() {
                    return Ok(());
                }
                let wanted = fs::read_to_string(device.join("driver_override"))?;
                let driver = if wanted.is_empty() { "e1000" } else { wanted.as_str() };
                if self.refuses == Some(driver) {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                symlink(self.root.join("sys/bus/pci/drivers").join(driver), device.join("driver"))
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn addresses(&self, interface: &str) -> io::Result<Vec<IpAddr>> {
        let addresses = self.addresses.clone().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(if interface == "eth0" { addresses } else { Vec::new() })
    }
}

struct Tree {
    folder: TempDir,
}

const CARD: &str = "0000:00:10.0";

fn card() -> Address {
    CARD.parse().unwrap()
}

impl Tree {
    /// A machine with a card that is up, a card of another make, and a bridge.
    fn new() -> Self {
        let tree = Self { folder: TempDir::new().unwrap() };
        for driver in ["e1000", "vfio-pci", "uio_pci_generic"] {
            fs::create_dir_all(tree.path("sys/bus/pci/drivers").join(driver)).unwrap();
        }
        tree.device(CARD, "0x020000", "0x8086", "0x100e");
        tree.device("0000:00:02.0", "0x020000", "0x1af4", "0x1000");
        tree.device("0000:00:01.0", "0x060100", "0x8086", "0x7000");
        tree.link("sys/bus/pci/drivers/e1000", &format!("sys/bus/pci/devices/{CARD}/driver"));
        tree.file(&format!("sys/bus/pci/devices/{CARD}/net/eth0/flags"), "0x1003\n");
        tree
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, to: &str, at: &str) {
        fs::create_dir_all(self.path(to)).unwrap();
        symlink(self.path(to), self.path(at)).unwrap();
    }

    fn device(&self, address: &str, class: &str, vendor: &str, device: &str) {
        for (name, text) in [
            ("class", class),
            ("vendor", vendor),
            ("device", device),
            ("driver_override", ""),
            ("config", ""),
        ] {
            self.file(&format!("sys/bus/pci/devices/{address}/{name}"), text);
        }
    }

    fn group(&self, number: u32, addresses: &[&str]) {
        for address in addresses {
            let group = format!("sys/kernel/iommu_groups/{number}");
            self.link(&group, &format!("sys/bus/pci/devices/{address}/iommu_group"));
            self.file(&format!("{group}/devices/{address}"), "");
        }
    }

    fn system(&self) -> System {
        self.system_with(None, &[])
    }

    fn system_with(&self, refuses: Option<&'static str>, addresses: &[&str]) -> System {
        self.fake(refuses, Some(addresses.iter().map(|text| text.parse().unwrap()).collect()))
    }

    fn fake(&self, refuses: Option<&'static str>, addresses: Option<Vec<IpAddr>>) -> System {
        let root = self.folder.path().to_owned();
        System::fake(self.folder.path(), Fake { root, refuses, addresses })
    }

    /// A link in sysfs's folder of eth0.
    fn eth0(&self, to: &str, name: &str) {
        self.link(&format!("sys/class/net/{to}"), &format!("sys/bus/pci/devices/{CARD}/net/eth0/{name}"));
    }

    fn driver(&self) -> Option<String> {
        device(&self.system(), card()).unwrap().driver
    }

    fn wanted(&self) -> String {
        fs::read_to_string(self.path(&format!("sys/bus/pci/devices/{CARD}/driver_override"))).unwrap()
    }
}

#[test]
fn network_cards_are_listed() {
    let tree = Tree::new();
    tree.group(7, &[CARD]);
    let found = list_in(&tree.system_with(None, &["10.0.0.1", "fe80::1"]));
    assert_eq!(found.iter().map(|d| d.address.to_string()).collect::<Vec<_>>(), ["0000:00:02.0", CARD]);
    assert_eq!((found[0].chip, &found[0].driver, found[0].iommu_group), (None, &None, None));
    let interface = found[1].interface.clone().unwrap();
    assert_eq!((interface.name.as_str(), interface.up), ("eth0", true));
    assert_eq!(interface.addresses, Some(vec!["10.0.0.1".parse().unwrap()]));
    assert_eq!((found[1].chip, found[1].iommu_group), (Some(Chip::I82540em), Some(7)));
    assert_eq!((found[1].driver.as_deref(), found[1].backend()), (Some("e1000"), None));
}

#[test]
fn there_and_back_twice() {
    let tree = Tree::new();
    let system = tree.system();
    tree.group(7, &[CARD]);
    for backend in [Backend::Uio, Backend::Uio, Backend::Vfio] {
        assert_eq!(bind_in(&system, card(), backend, false).unwrap().backend(), Some(backend));
        assert_eq!(tree.wanted(), backend.driver());
    }
    for _ in 0..2 {
        assert_eq!(release_in(&system, card()).unwrap().driver.as_deref(), Some("e1000"));
        assert_eq!(tree.wanted(), "");
    }
}

#[test]
fn interfaces_in_use_are_refused() {
    let tree = Tree::new();
    let bind =
        |addresses: &[&str], force| bind_in(&tree.system_with(None, addresses), card(), Backend::Uio, force);
    let line = bind(&["10.0.0.1", "2001:db8::1"], false).unwrap_err().to_string();
    assert!(line.contains("eth0") && line.contains("(10.0.0.1, 2001:db8::1)"), "{line}");
    tree.eth0("br0", "master");
    tree.eth0("br0", "upper_br0");
    let line = bind(&["fe80::1"], false).unwrap_err().to_string();
    assert!(line.contains("a port of br0"), "{line}");
    assert_eq!(tree.driver().as_deref(), Some("e1000"));
    bind(&["10.0.0.1"], true).unwrap();
}

#[test]
fn what_is_on_top_of_an_interface_is_its_use_while_it_is_up() {
    let tree = Tree::new();
    tree.eth0("eth0.5", "upper_eth0.5");
    tree.eth0("macvlan0", "upper_macvlan0");
    let interface = device(&tree.system(), card()).unwrap().interface.unwrap();
    assert_eq!((interface.master, interface.carries), (None, vec!["eth0.5".into(), "macvlan0".into()]));
    let line = bind_in(&tree.system(), card(), Backend::Uio, false).unwrap_err().to_string();
    assert!(line.contains("eth0 (") && line.contains("carries eth0.5, macvlan0"), "{line}");
    assert_eq!(tree.driver().as_deref(), Some("e1000"));
    tree.file(&format!("sys/bus/pci/devices/{CARD}/net/eth0/flags"), "0x1002\n");
    bind_in(&tree.system(), card(), Backend::Uio, false).unwrap();
}

#[test]
fn addresses_that_cannot_be_listed_may_be_there() {
    let tree = Tree::new();
    let line = bind_in(&tree.fake(None, None), card(), Backend::Uio, false).unwrap_err().to_string();
    assert!(line.contains("cannot be listed"), "{line}");
    assert_eq!(tree.driver().as_deref(), Some("e1000"));
    bind_in(&tree.fake(None, None), card(), Backend::Uio, true).unwrap();
}

#[test]
fn an_interface_in_another_namespace_may_be_in_use() {
    let tree = Tree::new();
    fs::remove_dir_all(tree.path(&format!("sys/bus/pci/devices/{CARD}/net/eth0"))).unwrap();
    let found = device(&tree.system(), card()).unwrap();
    assert_eq!((found.interface, found.in_other_namespace), (None, true));
    let refused = bind_in(&tree.system(), card(), Backend::Uio, false).unwrap_err();
    assert!(matches!(refused, Error::InterfaceElsewhere(_)), "{refused}");
    assert_eq!(tree.driver().as_deref(), Some("e1000"));
    assert!(!bind_in(&tree.system(), card(), Backend::Uio, true).unwrap().in_other_namespace);
    assert!(
        bind_in(&tree.system(), card(), Backend::Vfio, false)
            .is_err_and(|e| matches!(e, Error::NoIommuGroup(_)))
    );
}

#[test]
fn interfaces_that_are_down_or_without_address_are_not_in_use() {
    let tree = Tree::new();
    bind_in(&tree.system_with(None, &["fe80::1"]), card(), Backend::Uio, false).unwrap();
    let tree = Tree::new();
    tree.file(&format!("sys/bus/pci/devices/{CARD}/net/eth0/flags"), "0x1002\n");
    bind_in(&tree.system_with(None, &["10.0.0.1"]), card(), Backend::Uio, false).unwrap();
}

#[test]
fn what_is_missing_is_said_before_anything_changes() {
    let tree = Tree::new();
    let system = tree.system();
    let refused =
        |address: &str, backend| bind_in(&system, address.parse().unwrap(), backend, false).unwrap_err();
    assert!(matches!(refused("0000:00:1f.0", Backend::Uio), Error::NoDevice(_)));
    assert!(matches!(refused("0000:00:02.0", Backend::Uio), Error::NotE1000 { vendor: 0x1af4, .. }));
    assert!(matches!(refused(CARD, Backend::Vfio), Error::NoIommuGroup(_)));
    fs::remove_dir(tree.path("sys/bus/pci/drivers/uio_pci_generic")).unwrap();
    assert!(matches!(refused(CARD, Backend::Uio), Error::ModuleMissing("uio_pci_generic")));
    assert_eq!(device(&system, card()).unwrap().driver.as_deref(), Some("e1000"));
    assert_eq!(tree.wanted(), "");
}

#[test]
fn without_an_iommu_vfio_takes_a_card_only_where_that_is_allowed() {
    let tree = Tree::new();
    let allowed = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    tree.file(allowed, "N\n");
    let refused = bind_in(&tree.system(), card(), Backend::Vfio, false).unwrap_err();
    assert!(matches!(refused, Error::NoIommuGroup(_)), "{refused}");
    tree.file(allowed, "Y\n");
    let bound = bind_in(&tree.system(), card(), Backend::Vfio, false).unwrap();
    assert_eq!(bound.driver.as_deref(), Some("vfio-pci"));
}

#[test]
fn what_is_no_card_of_ours_is_not_released() {
    let tree = Tree::new();
    let wanted = |address| tree.path(&format!("sys/bus/pci/devices/{address}/driver_override"));
    for address in ["0000:00:02.0", "0000:00:01.0"] {
        fs::write(wanted(address), "vfio-pci").unwrap();
        let refused = release_in(&tree.system(), address.parse().unwrap()).unwrap_err();
        assert!(matches!(refused, Error::NotE1000 { .. }), "{refused}");
        assert_eq!(fs::read_to_string(wanted(address)).unwrap(), "vfio-pci");
    }
    assert!(matches!(release_in(&tree.system(), "0000:00:1f.0".parse().unwrap()), Err(Error::NoDevice(_))));
}

#[test]
fn a_refusing_driver_leaves_the_card_with_its_old_one() {
    let tree = Tree::new();
    let system = tree.system_with(Some("uio_pci_generic"), &[]);
    let refused = bind_in(&system, card(), Backend::Uio, false).unwrap_err();
    assert!(matches!(&refused, Error::NotTaken { now: Some(now), .. } if now == "e1000"), "{refused}");
    assert_eq!(tree.wanted(), "");
}

#[test]
fn cards_in_use_stay_where_they_are() {
    let tree = Tree::new();
    let system = tree.system();
    bind_in(&system, card(), Backend::Uio, false).unwrap();
    let lock = system.lock(card()).unwrap();
    assert!(matches!(system.lock(card()), Err(Error::InUse(_))));
    assert!(matches!(release_in(&system, card()), Err(Error::InUse(_))));
    assert!(bind_in(&system, card(), Backend::Uio, false).is_ok(), "nothing to do");
    drop(lock);
    release_in(&system, card()).unwrap();
}

#[test]
fn others_of_the_group_are_named() {
    let tree = Tree::new();
    tree.group(3, &[CARD, "0000:00:02.0", "0000:00:01.0"]);
    tree.link("sys/bus/pci/drivers/virtio-pci", "sys/bus/pci/devices/0000:00:02.0/driver");
    tree.link("sys/bus/pci/drivers/pcieport", "sys/bus/pci/devices/0000:00:01.0/driver");
    let system = tree.system();
    bind_in(&system, card(), Backend::Vfio, false).unwrap();
    assert_eq!(vfio::others_in_group(&system, card()), ["0000:00:02.0"]);
}

#[test]
fn uio_does_not_go_through_an_iommu() {
    let tree = Tree::new();
    tree.group(7, &[CARD]);
    tree.file("sys/kernel/iommu_groups/7/type", "DMA-FQ\n");
    let refused = bind_in(&tree.system(), card(), Backend::Uio, false);
    assert!(matches!(refused, Err(Error::IommuInTheWay(_))));
    bind_in(&tree.system(), card(), Backend::Vfio, false).unwrap();
    tree.file("sys/kernel/iommu_groups/7/type", "identity\n");
    bind_in(&tree.system(), card(), Backend::Uio, false).unwrap();
}
