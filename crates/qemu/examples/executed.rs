//! prototype
use kpps_qemu::lab::{Cache, Clock, Guest, Kernel, Userland, load::Rate, workload::{self, Settings}};
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let cache = Cache::open().unwrap();
    let kernel = Kernel::get(&cache, "linux-6.1").unwrap();
    let userland = Userland::get(&cache).unwrap();
    let kpps = std::env::var_os("KPPS_LAB_BINARY").map(std::path::PathBuf::from);
    let model = words[0].parse().unwrap();
    let work: workload::Work = words[3].parse().unwrap();
    let backend: workload::Backend = words[2].parse().unwrap();
    let options = workload::pc(backend.machine(), model, Clock::Instructions, Rate::Flood);
    let mut guest = Guest::boot(&options, &kernel, &userland, words[1] == "dpdk", kpps.as_deref()).unwrap();
    let _running = workload::start(&mut guest, model, words[1].parse().unwrap(), backend, work, &Settings::default()).unwrap();
    guest.wait(std::time::Duration::from_millis(1300)).unwrap();
    let maps = guest.run("cat /proc/$(pidof kpps testpmd)/maps").unwrap_or_default();
    let symbols = guest.run("grep -i ' t ' /proc/kallsyms").unwrap();

    let log = guest.executed(1_000_000).unwrap();
    std::fs::write("/tmp/exec.log", log).unwrap();
    std::fs::write("/tmp/exec.maps", maps).unwrap();
    std::fs::write("/tmp/exec.syms", symbols).unwrap();
}
