//! Boots a guest and runs commands in it: `guest [--kernel NAME] [--iommu] [--kpps PROGRAM] [--no-dpdk] CARD…
//! -- COMMAND…`.
//!
//! A card is `e1000` or `e1000e`, and behind a colon where its cable ends: `open`, `host`, or a hub's number.
//! Cards are 0000:00:10.0, 0000:00:11.0, … Their drivers are not loaded: `load MODULE [PARAMETERS]` as a
//! command does that.

use kpps_qemu::lab::{Cable, Cache, Card, Guest, Kernel, Machine, Options, Userland};
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn main() {
    if let Err(error) = run() {
        eprintln!("guest: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut kernel, mut kpps, mut dpdk) = ("linux-6.1".to_owned(), None, true);
    let (mut machine, mut cards) = (Machine::Plain, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--" => break,
            "--iommu" => machine = Machine::Iommu,
            "--no-dpdk" => dpdk = false,
            "--kernel" => kernel = arguments.next().ok_or("which kernel?")?,
            "--kpps" => kpps = Some(PathBuf::from(arguments.next().ok_or("which program?")?)),
            card => {
                let (model, cable) = card.split_once(':').unwrap_or((card, "0"));
                let cable = match cable {
                    "open" => Cable::Open,
                    "host" => Cable::Host,
                    hub => Cable::Hub(hub.parse()?),
                };
                cards.push(Card { model: model.parse()?, cable });
            }
        }
    }
    let since = Instant::now();
    let cache = Cache::open()?;
    let kernel = Kernel::get(&cache, &kernel)?;
    let userland = Userland::get(&cache)?;
    let ready = since.elapsed();
    let mut guest = Guest::boot(&Options::new(machine, cards), &kernel, &userland, dpdk, kpps.as_deref())?;
    eprintln!("{}: ready after {ready:.1?}, booted in {:.1?}", kernel.version, guest.boot_time);
    for command in arguments {
        let mut words = command.splitn(3, ' ');
        if let (Some("load"), Some(module)) = (words.next(), words.next()) {
            guest.load(module, words.next().unwrap_or_default())?;
            continue;
        }
        let output = guest.output(&command, Duration::from_secs(300))?;
        print!("{}", output.text);
        if output.code != 0 {
            eprintln!("`{command}` ended with {}", output.code);
        }
    }
    Ok(())
}
