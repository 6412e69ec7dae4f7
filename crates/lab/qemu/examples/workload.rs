//! Boots a guest and runs workloads in it: `workload [--kernel NAME] MODEL (DRIVER BACKEND WORK)…`.

use kpps_frames::rate::Rate;
use kpps_qemu::lab::counters::Snapshot;
use kpps_qemu::lab::load::Load;
use kpps_qemu::lab::workload::{self, Settings};
use kpps_qemu::lab::{Cache, Clock, Guest, Kernel, Userland};
use std::time::Duration;

fn main() {
    if let Err(error) = run() {
        eprintln!("workload: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let kernel = if words[0] == "--kernel" { words.drain(..2).nth(1) } else { None };
    let model = words[0].parse()?;
    let backend: workload::Backend = words[2].parse()?;
    let cache = Cache::open()?;
    let kernel = Kernel::get(&cache, kernel.as_deref().unwrap_or("linux-6.1"))?;
    let userland = Userland::get(&cache)?;
    let kpps = std::env::var_os("KPPS_LAB_BINARY").map(std::path::PathBuf::from);
    let options = workload::pc(backend.machine(), model, Clock::Wall, Rate::Max);
    let mut guest = Guest::boot(&options, &kernel, &userland, true, kpps.as_deref())?;
    eprintln!("booted in {:.1?}", guest.boot_time);
    for job in words[1..].chunks(3) {
        let [driver, backend, work] = job else { break };
        let work = work.parse()?;
        let running = workload::start(
            &mut guest,
            model,
            driver.parse()?,
            backend.parse()?,
            work,
            &Settings::default(),
        )?;
        eprintln!("{job:?} started");
        let load = if workload::Work::is_loaded(work) {
            let frame = workload::frame(work, kpps_frames::Size::MIN)?;
            let wire = guest.take_wire(0).ok_or("no wire")?;
            let rate = std::env::var("PPS").ok().and_then(|p| p.parse().ok()).map_or(Rate::Max, Rate::Pps);
            Some(Load::start(wire, rate, frame)?)
        } else {
            None
        };
        let mut before: Option<(Snapshot, workload::Count)> = None;
        for _ in 0..6 {
            std::thread::sleep(Duration::from_millis(500));
            let snapshot = Snapshot::take(&mut guest, &running.counter())?;
            let count = running.frames(&snapshot)?;
            if let Some((s, c)) = before {
                let pps = (count.frames - c.frames) as f64 / (count.at_ns - c.at_ns) as f64 * 1e9;
                println!(
                    "{:.1} kpps, {:.0} interrupts/s, busy {:?}, {:?}",
                    pps / 1e3,
                    (snapshot.interrupts - s.interrupts) as f64 / snapshot.seconds_since(&s),
                    snapshot.busy_since(&s),
                    load.as_ref().map(Load::counts)
                );
            }
            before = Some((snapshot, count));
        }
        println!("console: {:?}", guest.console_answers(Duration::from_secs(10)));
        if let Some(load) = load {
            let (wire, counts) = load.stop()?;
            println!("{counts:?}");
            guest.give_wire(0, wire);
        }
        if let Ok(command) = std::env::var("LOOK") {
            println!("{}", guest.run(&command)?);
        }
        println!("{:?}", running.finish(&mut guest)?);
    }
    Ok(())
}
