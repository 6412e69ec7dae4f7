//! The smoltcp example on the real PCI path: a guest of the lab runs it through UIO and VFIO, with
//! interrupts, on both cards that QEMU emulates. The test pings and echoes at the other end of the cable,
//! unplugs it, and kills the program.
//!
//!     cargo test -p kpps-netstack --test netstack lab:: -- --ignored --nocapture

use crate::common::peer::{EchoClient, Peer, Ping};
use kpps_qemu::lab::workload::{Backend, bind, load_backend};
use kpps_qemu::lab::{Cable, Cache, Card, Guest, Kernel, Machine, Model, Options, Userland, Wire, address};
use smoltcp::time::Instant;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MEGABYTE: usize = 1 << 20;
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Builds the example and returns its path.
fn example() -> PathBuf {
    let build = ["build", "--quiet", "--package", "kpps-netstack", "--example", "smoltcp_echo"];
    assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    // This program is in <target>/<profile>/deps.
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    target.join("debug/examples/smoltcp_echo")
}

/// Both ends of a cable.
struct Fixture {
    guest: Guest,
    wire: Wire,
    peer: Peer,
    since: std::time::Instant,
}

impl Fixture {
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Peer, &mut Guest) -> bool) -> Duration {
        let start = std::time::Instant::now();
        while !done(&mut self.peer, &mut self.guest) {
            if start.elapsed() > STEP_TIMEOUT {
                panic!("{what}: {}", self.guest.run("cat /tmp/log").unwrap());
            }
            self.wire.receive(|frame| self.peer.cable.to_peer.push_back(frame.to_vec())).unwrap();
            self.peer.poll(Instant::from_micros(self.since.elapsed().as_micros() as i64));
            while let Some(frame) = self.peer.cable.from_peer.front() {
                if !self.wire.send_one(frame).unwrap() {
                    break;
                }
                self.peer.cable.from_peer.pop_front();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        start.elapsed()
    }

    fn ping(&mut self, what: &str) -> Duration {
        // The first ping may be lost while the card starts. ICMP does not retransmit, so this does.
        let mut ping = Ping::start(&mut self.peer, 56);
        let mut asked = std::time::Instant::now();
        self.until(what, |peer, _| {
            if asked.elapsed() > Duration::from_secs(2) {
                ping = Ping::start(peer, 56);
                asked = std::time::Instant::now();
            }
            ping.is_answered(peer)
        })
    }

    fn echo(&mut self, what: &str, mut event: impl FnMut(&mut Guest, usize)) -> Duration {
        let mut client = EchoClient::start(&mut self.peer, MEGABYTE);
        self.until(what, |peer, guest| {
            event(guest, client.received);
            client.work(peer)
        })
    }
}

fn on_real_pci(program: &Path, model: Model, backend: Backend) {
    let cache = Cache::open().unwrap();
    let kernel = Kernel::get(&cache, "linux-6.1").unwrap();
    let userland = Userland::get(&cache).unwrap();
    let machine = if backend == Backend::Vfio { Machine::Iommu } else { Machine::Plain };
    let options = Options::new(machine, vec![Card { model, cable: Cable::Host }]);
    let mut guest = Guest::boot(&options, &kernel, &userland, false, Some(program)).unwrap();
    load_backend(&mut guest, backend).unwrap();
    bind(&mut guest, 0, if backend == Backend::Vfio { "vfio-pci" } else { "uio_pci_generic" }).unwrap();
    let wire = guest.take_wire(0).unwrap();
    let mut fixture = Fixture { guest, wire, peer: Peer::new(), since: std::time::Instant::now() };
    let spec = format!("{}:{}", if backend == Backend::Vfio { "vfio" } else { "uio" }, address(0));
    let start = format!("exec kpps {spec}");
    let id = fixture.guest.spawn(&start, "/tmp/log").unwrap();
    fixture.ping("the first ping");
    let ping = fixture.ping("ping");
    let echo = fixture.echo("echo", |_, _| {});
    // Without traffic it sleeps.
    let ticks = |guest: &mut Guest, id: u32| -> u64 {
        let stat = guest.run(&format!("cut -d\" \" -f14,15 /proc/{id}/stat")).unwrap();
        stat.split_whitespace().map(|part| part.parse::<u64>().unwrap()).sum()
    };
    let before = ticks(&mut fixture.guest, id);
    std::thread::sleep(Duration::from_secs(2));
    let idle = ticks(&mut fixture.guest, id) - before;
    assert!(idle <= 20, "{idle} of 200 ticks without traffic");
    // The cable is unplugged during an echo.
    let (mut pulled, mut plugged) = (None, false);
    fixture.echo("echo with the cable unplugged", |guest, received| {
        if received > MEGABYTE / 4 && pulled.is_none() {
            guest.set_link(0, false).unwrap();
            pulled = Some(std::time::Instant::now());
        } else if pulled.is_some_and(|at| at.elapsed() > Duration::from_millis(500)) && !plugged {
            guest.set_link(0, true).unwrap();
            plugged = true;
        }
    });
    assert!(plugged);
    // A start after kill -9 works.
    fixture.guest.run(&format!("kill -9 {id}")).unwrap();
    fixture.guest.spawn(&start, "/tmp/log").unwrap();
    fixture.ping("ping after a restart");
    fixture.peer = Peer::new();
    fixture.ping("ping of another peer");
    fixture.echo("echo after a restart", |_, _| {});
    println!("{model:?} {spec}: ping {ping:.1?}, 1 MiB of echo {echo:.1?}, {idle} of 200 ticks idle");
}

#[test]
#[ignore = "boots four guests, a minute or two"]
fn the_example_answers_and_echoes_on_real_pci() {
    let program = example();
    for model in Model::OURS {
        for backend in [Backend::Uio, Backend::Vfio] {
            on_real_pci(&program, model, backend);
        }
    }
}
