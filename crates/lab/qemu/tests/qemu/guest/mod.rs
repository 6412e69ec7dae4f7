//! Tests that need a guest: real kernels, real drivers, QEMU's cards.
//!
//! Kernel and packages are fetched with apt on the first run. Set KPPS_NO_LAB to leave all of this out.

mod bench;
mod cards;
mod connections;
mod faults;
mod functional;
mod netem;
mod ours;
mod places;
mod rss;
mod services;

use kpps_namespaces::skip;
use kpps_qemu::lab::{Cable, Cache, Card, Guest, Kernel, Machine, Model, Options, Userland, workload};
use std::path::PathBuf;
use std::sync::{RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};
use workload::Backend;

/// Guests share the host's few processors. Where time is measured, a guest is alone: it has this for writing.
static HOST: RwLock<()> = RwLock::new(());

/// Whether guests may be booted; if not, the test is skipped.
fn is_wanted() -> bool {
    let wanted = std::env::var_os("KPPS_NO_LAB").is_none();
    if !wanted {
        skip::needs("guests, and KPPS_NO_LAB is set");
    }
    wanted
}

/// The command that is built together with the tests.
fn kpps() -> PathBuf {
    if let Some(path) = std::env::var_os("KPPS_LAB_BINARY") {
        return path.into();
    }
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().and_then(|deps| deps.parent()).unwrap().join("kpps");
    assert!(path.is_file(), "{} is missing: cargo build --package kpps", path.display());
    path
}

/// A guest among others.
struct Shared {
    guest: Guest,
    _turn: RwLockReadGuard<'static, ()>,
}

/// Boots a guest with these cables, each at a card of `model`; DPDK is not in it.
fn boot(model: Model, machine: Machine, cables: &[Cable]) -> Shared {
    boot_cards(machine, cables.iter().map(|&cable| Card { model, cable }).collect())
}

/// Boots a guest with these cards; DPDK is not in it.
fn boot_cards(machine: Machine, cards: Vec<Card>) -> Shared {
    let turn = HOST.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    let cache = Cache::open().unwrap();
    let kernel = Kernel::get(&cache, "linux-6.1").unwrap();
    let userland = Userland::get(&cache).unwrap();
    let boot =
        || Guest::boot(&Options::new(machine, cards.clone()), &kernel, &userland, false, Some(&kpps()));
    // On a busy host a kernel may give up on its timers and end its machine.
    let guest = boot().or_else(|_| boot()).or_else(|_| boot()).unwrap();
    Shared { guest, _turn: turn }
}

/// Both ways from user space to a card.
const BACKENDS: [Backend; 2] = [Backend::Uio, Backend::Vfio];

/// Loads the modules of a backend and binds the `index`-th card to it. Returns the name of the port.
fn bind(guest: &mut Guest, backend: Backend, index: usize) -> String {
    workload::load_backend(guest, backend).unwrap();
    let address = kpps_qemu::lab::address(index);
    guest.run(&format!("kpps device bind {address} --backend {}", backend.name())).unwrap();
    format!("{}:{address}", backend.name())
}

/// The longest wait for anything of a guest on a busy host.
const GUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Waits until `look` finds something.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < GUEST_TIMEOUT, "{what}: not within {GUEST_TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
