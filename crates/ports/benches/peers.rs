//! Our ports and what others send and receive with, in one run, taking turns, over a virtual cable between two network
//! namespaces: 64-byte frames, one core sending. `make peers`; it takes root.
//!
//! Each rate is what the far interface counted in a second; ratios are taken within a round, between neighbours, because
//! a shared host drifts. The median of all rounds is shown, and the lowest and the highest ratio.
#![allow(clippy::unwrap_used)]

use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Mac, Size};
use kpps_ports::Spec;
use kpps_ports::port::run::{Glance, Load, Plan, Streams, Watch, send};
use kpps_ports::port::{AnyPort, Options, Port, open};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns, unshare};
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is measured each time, after it has begun to send.
const MEASURED: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(300);
/// How long a program may take to begin.
const PATIENCE: Duration = Duration::from_secs(8);
/// The core that sends.
const CORE: usize = 1;

/// Two namespaces with a cable between them: ours with `near0`, and that of a child process with `far0`.
struct Bench {
    far: Child,
}

fn shell(command: &str) -> bool {
    Command::new("sh")
        .args(["-ec", command])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

impl Bench {
    fn new() -> Option<Self> {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).ok()?;
        // What is in /sys/class/net belongs to the namespace that mounted it.
        shell("mount --make-rprivate / && mount -t sysfs sysfs /sys").then_some(())?;
        let far = Command::new("unshare").args(["--net", "sleep", "infinity"]).spawn().ok()?;
        let bench = Self { far };
        let pid = bench.far.id();
        std::thread::sleep(Duration::from_millis(200));
        let quiet =
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 || true";
        shell(&format!(
            "{quiet}; ip link set lo up
             ip link add name near0 address 02:00:00:00:00:01 type veth peer name far0 address 02:00:00:00:00:02
             ip link set far0 netns {pid}
             ip addr add 198.18.0.1/24 dev near0; ip link set near0 up
             ip neigh replace 198.18.0.2 lladdr 02:00:00:00:00:02 dev near0
             {enter} sh -ec '{quiet}; ip link set lo up; ip addr add 198.18.0.2/24 dev far0; ip link set far0 up'",
            enter = bench.enter()
        ))
        .then_some(bench)
    }

    /// What to put before a command so that it runs at the far end.
    fn enter(&self) -> String {
        format!("nsenter --target {} --net", self.far.id())
    }

    /// Frames that the far interface has received.
    fn arrived(&self) -> u64 {
        let words = self.enter();
        let mut words = words.split(' ');
        let output = Command::new(words.next().unwrap()).args(words).args(["cat", "/proc/net/dev"]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("far0:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// The rate at which frames arrive, in frames a second, once they do; 0 if they never do.
    fn rate(&self) -> f64 {
        let (start, before) = (Instant::now(), self.arrived());
        while self.arrived() < before + 1000 {
            if start.elapsed() > PATIENCE {
                return 0.0;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(WARM_UP);
        let (start, before) = (Instant::now(), self.arrived());
        std::thread::sleep(MEASURED);
        let (elapsed, after) = (start.elapsed(), self.arrived());
        (after - before) as f64 / elapsed.as_secs_f64()
    }

    /// The rate at which a program sends.
    fn program(&self, command: &str) -> f64 {
        let child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else { return 0.0 };
        let rate = self.rate();
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        let end = Instant::now() + Duration::from_secs(3);
        while child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        rate
    }

    /// The rate at which our port sends.
    fn ours(&self, port: &str) -> f64 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                pin();
                let spec: Spec = port.parse().unwrap();
                let mut ports = open(&[spec], &Options::default()).unwrap();
                let sent = match &mut ports[0] {
                    AnyPort::Packet(port) => send(&mut **port, &plan(), &mut Until(&stop)),
                    AnyPort::Card(port) => send(&mut **port, &plan(), &mut Until(&stop)),
                };
                sent.unwrap();
            });
            let rate = self.rate();
            stop.store(true, Ordering::Relaxed);
            sender.join().unwrap();
            rate
        })
    }

    /// The rate at which one core sends frames, receives and verifies them.
    fn both(&self, near: &str, far: &str) -> f64 {
        pin();
        let options = Options::default();
        let mut near = open(&[near.parse().unwrap()], &options).unwrap();
        let far: Spec = far.parse().unwrap();
        let namespace = File::open(format!("/proc/{}/ns/net", self.far.id())).unwrap();
        // A port stays in the namespace that it was opened in.
        let opened = std::thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            open(&[far], &options).unwrap()
        });
        let mut far = opened.join().unwrap();
        let mut back = Back { far: &mut far[0], streams: Streams::default(), end: Instant::now() + MEASURED };
        let AnyPort::Packet(near) = &mut near[0] else { return 0.0 };
        let plan = Plan { load: Load::Max, ..plan() };
        let mut sent = 0;
        let start = Instant::now();
        while Instant::now() < back.end {
            let burst = Plan { count: Some(256), ..plan.clone() };
            sent += send(&mut **near, &burst, &mut back).unwrap().sent;
            back.take();
        }
        let elapsed = start.elapsed();
        let received = back.streams.unique();
        let _ = sent;
        received as f64 / elapsed.as_secs_f64()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.far.kill();
        let _ = self.far.wait();
    }
}

struct Back<'p> {
    far: &'p mut AnyPort,
    streams: Streams,
    end: Instant,
}

impl Back<'_> {
    fn take(&mut self) {
        let streams = &mut self.streams;
        while self
            .far
            .receive(64, |frame| {
                streams.take(frame.as_ref());
                Some(frame.buffer)
            })
            .unwrap()
            > 0
        {}
    }
}

impl Watch for Back<'_> {
    fn at_most(&self) -> Option<Duration> {
        None
    }
    fn go_on(&mut self, _: &Glance) -> bool {
        true
    }
}

/// Runs until told to stop.
struct Until<'s>(&'s AtomicBool);

impl Watch for Until<'_> {
    fn at_most(&self) -> Option<Duration> {
        None
    }
    fn go_on(&mut self, _: &Glance) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

fn plan() -> Plan {
    let flow = Flow { to_mac: Mac([2, 0, 0, 0, 0, 2]), ..Flow::default() };
    let frames = vec![udp_test(&flow, Size::MIN).unwrap()];
    Plan { load: Load::Max, frames, rewrite: false, count: None, stream: 0 }
}

fn pin() {
    let mut cores = CpuSet::new();
    if cores.set(CORE).is_ok() {
        // On a machine with one core there is nothing to choose.
        let _ = sched_setaffinity(nix::unistd::Pid::from_raw(0), &cores);
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

const TESTPMD: &str = "dpdk-testpmd -l 0,1 --no-huge -m 512 --no-pci --no-telemetry";
const TXONLY: &str = "-- --forward-mode=txonly --auto-start --total-num-mbufs=16384 --no-lsc-interrupt";

fn main() {
    // `cargo bench` passes flags of its own.
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(3);
    let Some(bench) = Bench::new() else {
        eprintln!("skipped: no right to make network namespaces: run as root");
        return;
    };
    let peers = [
        ("packet:near0", "net_af_packet", format!("{TESTPMD} --vdev=net_af_packet0,iface=near0 {TXONLY}")),
        (
            "packet:near0",
            "trafgen",
            "trafgen --dev near0 --cpus 1 --num 0 '{ eth(da=02:00:00:00:00:02, sa=02:00:00:00:00:01), \
             ipv4(saddr=198.18.0.1, daddr=198.18.0.2), udp(sp=49152, dp=9), fill(0, 18) }'"
                .into(),
        ),
    ];
    println!("{:16} {:>10}   {:16} {:>10}   {:>6}  lowest  highest", "port", "kpps", "peer", "kpps", "ratio");
    for (port, peer, command) in &peers {
        let mut turns: Vec<(f64, f64)> = Vec::new();
        for _ in 0..rounds {
            turns.push((bench.ours(port), bench.program(command)));
        }
        let mut ours: Vec<_> = turns.iter().map(|turn| turn.0 / 1e3).collect();
        let mut theirs: Vec<_> = turns.iter().map(|turn| turn.1 / 1e3).collect();
        let mut ratios: Vec<_> = turns.iter().map(|turn| turn.0 / turn.1).collect();
        let ratio = median(&mut ratios);
        println!(
            "{port:16} {:>10.0}   {peer:16} {:>10.0}   {ratio:>6.2}  {:>6.2}  {:>7.2}",
            median(&mut ours),
            median(&mut theirs),
            ratios.first().unwrap_or(&0.0),
            ratios.last().unwrap_or(&0.0),
        );
    }
    for port in ["packet"] {
        let [near, far] = ["near0", "far0"].map(|end| format!("{port}:{end}"));
        let (mut alone, mut both) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            alone.push(bench.ours(&near));
            both.push(std::thread::scope(|scope| scope.spawn(|| bench.both(&near, &far)).join()).unwrap());
        }
        let (alone, both) = (median(&mut alone), median(&mut both));
        let receives = 1.0 / (1.0 / both - 1.0 / alone).max(1e-9);
        println!(
            "{port}: one core sends {:.0} kpps; it sends, receives and verifies {:.0} kpps, so it receives at {:.0} kpps",
            alone / 1e3,
            both / 1e3,
            receives / 1e3
        );
    }
}
