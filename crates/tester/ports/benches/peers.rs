//! Compares our ports with other generators, in one run and in turns, over a veth between two network
//! namespaces: 64-byte frames, one core sending. `make peers`; needs root.
//!
//! A rate is what the far interface counted in a second, divided by the sender's share of CPU time, so that
//! other programs on the host have little influence. Ratios are taken within a round, between neighbours,
//! because a shared host drifts. The output is the median of all rounds with the lowest and the highest
//! ratio, then the gaps of paced loads at 10, 100 and 500 kpps at the far end, and the rate at which a core
//! receives, and the rate of a thousand streams beside that of one. `… --bench peers -- 3 iperf3 pacing` does
//! three rounds of these parts: `net_af_xdp`, `net_af_packet`, `trafgen`, `iperf3`, `pacing`, `receiving`,
//! `streams`. The exit code is 1 if a ratio is below its limit.
#![allow(clippy::unwrap_used)]

mod shared;

use kpps_frames::build::{Flow, udp_test};
use kpps_frames::rate::Rate;
use kpps_frames::stack::Between;
use kpps_frames::{Mac, Mix, Size, Stack, Templates};
use kpps_ports::Spec;
use kpps_ports::port::run::{
    BUDGET, BURST, Gaps, Glance, Recorder, SendPlan, StreamPlan, Streams, Watch, send, send_and_listen,
};
use kpps_ports::port::{AnyPort, Frame, Options, Port, open};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, UnshareFlags, gettid, move_into_link_name_space, sched_setaffinity,
    unshare_unsafe,
};
use shared::For;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The measured time, after a generator has begun to send.
const MEASURED: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(300);
/// How long a program may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(8);
/// The core that sends.
const CORE: usize = 1;
/// The least rate of a thousand streams, in parts of the rate of one whose frames differ, too.
const LEAST_OF_STREAMS: f64 = 0.8;

/// Two namespaces with a cable between them: ours with `near0`, and that of a child process with `far0`. As
/// of a card without such hardware, the kernel cuts messages into datagrams before the interface, and
/// completes checksums.
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
        // SAFETY: descriptors stay shared with the other threads.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }.ok()?;
        // The interfaces in /sys/class/net belong to the namespace that mounted it.
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
             ethtool -K near0 tx off >/dev/null
             {enter} sh -ec '{quiet}; ip link set lo up; ip addr add 198.18.0.2/24 dev far0; ip link set far0 up'",
            enter = bench.enter()
        ))
        .then_some(bench)
    }

    /// The words before a command that run it at the far end.
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

    /// The rate of frames from the first arrival on, for each second of CPU time that `spent` returns; 0 if
    /// none arrives.
    fn rate(&self, spent: impl Fn() -> Duration) -> Throughput {
        let (start, before) = (Instant::now(), self.arrived());
        while self.arrived() < before + 1000 {
            if start.elapsed() > START_TIMEOUT {
                return Throughput::default();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(WARM_UP);
        let (start, before, idle) = (Instant::now(), self.arrived(), spent());
        std::thread::sleep(MEASURED);
        let (elapsed, after, busy) = (start.elapsed(), self.arrived(), spent().saturating_sub(idle));
        let frames = (after - before) as f64 / 1e3;
        Throughput { kpps: frames / elapsed.as_secs_f64(), core_kpps: frames / busy.as_secs_f64().max(1e-3) }
    }

    /// The rate at which a program sends.
    fn program(&self, command: &str) -> Throughput {
        self.while_program(command, |group| self.rate(|| time_of_group(group))).unwrap_or_default()
    }

    /// Measures while a program sends.
    fn while_program<T>(&self, command: &str, measure: impl FnOnce(u32) -> T) -> Option<T> {
        let child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.ok()?;
        let measured = measure(child.id());
        let group = Pid::from_child(&child);
        let _ = kill_process_group(group, Signal::INT);
        let end = Instant::now() + Duration::from_secs(3);
        while child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait();
        Some(measured)
    }

    /// The rate at which our port sends.
    fn ours(&self, port: &str) -> Throughput {
        self.ours_of(port, &plan(Rate::Max))
    }

    /// The rate at which our port sends the frames of a plan.
    fn ours_of(&self, port: &str, plan: &SendPlan) -> Throughput {
        self.while_ours(port, plan, |thread| self.rate(|| time_of(thread)))
    }

    /// Measures while our port sends.
    fn while_ours<T>(&self, port: &str, plan: &SendPlan, measure: impl FnOnce(&str) -> T) -> T {
        let stop = AtomicBool::new(false);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            if port.starts_with("udp:") {
                scope.spawn(|| self.take_datagrams(&stop));
            }
            let sender = scope.spawn(|| {
                // A paced sender finds itself a core.
                if !plan.is_paced {
                    pin();
                }
                tell.send(gettid().as_raw_nonzero()).unwrap();
                let spec: Spec = port.parse().unwrap();
                let mut ports = open(&[spec], &Options::default()).unwrap();
                let sent = match &mut ports[0] {
                    AnyPort::Packet(port) => send(&mut **port, plan, &mut Until(&stop)),
                    AnyPort::Xdp(port) => send(&mut **port, plan, &mut Until(&stop)),
                    port => send(port, plan, &mut Until(&stop)),
                };
                sent.unwrap();
            });
            let thread = format!("/proc/self/task/{}", told.recv().unwrap());
            let measured = measure(&thread);
            stop.store(true, Ordering::Relaxed);
            sender.join().unwrap();
            measured
        })
    }

    /// How evenly frames of a rate arrive, by the kernel's time of each, which is taken on the sender's core:
    /// who reads them sleeps, and takes the sender nothing away. Datagrams are frames there, too.
    fn pace(&self, pps: f64) -> Option<(f64, Gaps)> {
        let receiver = || {
            self.enter_here();
            pin_to(0);
            let mut ports = open(&["packet:far0".parse().unwrap()], &Options::default()).unwrap();
            let port = &mut ports[0];
            let mut seen = |recorder: &mut Recorder, length: Duration| {
                let (start, mut frames, mut first, mut last) = (Instant::now(), 0_u64, None, 0);
                while start.elapsed() < length {
                    // Of the sender's, that is: of a connection that iperf3 has beside it there is hardly a
                    // frame.
                    let read = port.receive_stamped(4 * BURST, |frame, stamp| {
                        last = stamp.unwrap();
                        first = first.or(stamp);
                        recorder.record(last, 1);
                        frames += 1;
                        Some(frame.buffer)
                    });
                    if read.unwrap() == 0 {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                }
                let passed_ns = last.saturating_sub(first.unwrap_or(last));
                if passed_ns > 0 { (frames - 1) as f64 / passed_ns as f64 * 1e9 } else { 0.0 }
            };
            let begin = Instant::now();
            while seen(&mut Recorder::new(None), WARM_UP) < pps / 100.0 {
                if begin.elapsed() > START_TIMEOUT {
                    return None;
                }
            }
            let mut recorder = Recorder::new(Some(1e9 / pps));
            let mean = seen(&mut recorder, 3 * MEASURED);
            Some((mean, recorder.gaps()?))
        };
        std::thread::scope(|scope| scope.spawn(receiver).join()).unwrap()
    }

    /// Ours and others at the same rates, in turns.
    fn paces(&self, rounds: usize) {
        println!(
            "\n{:>6} {:14} {:>9} {:>9} {:>12} {:>9} {:>10}   (median of {rounds}; gaps as they arrive)",
            "kpps", "sender", "kpps", "off by %", "within 10 us", "99 %, us", "most, us"
        );
        for kpps in [10, 100, 500] {
            let pps = f64::from(kpps) * 1e3;
            let load = plan(Rate::Pps(pps));
            let gap_ns = 1_000_000 / kpps;
            let trafgen = format!("{TRAFGEN} --gap {gap_ns}ns {TRAFGEN_FRAME}");
            let iperf3 = format!(
                "iperf3 --client 198.18.0.2 --udp --length 18 --bandwidth {}k --pacing-timer 10 --time 20 --affinity 1",
                kpps * 18 * 8
            );
            let mut turns: [Vec<_>; 4] = Default::default();
            for _ in 0..rounds {
                turns[0].extend(self.while_ours("packet:near0", &load, |_| self.pace(pps)));
                turns[1].extend(self.while_ours("xdp:near0", &load, |_| self.pace(pps)));
                turns[2].extend(self.while_program(&trafgen, |_| self.pace(pps)).flatten());
                turns[3].extend(self.while_program(&iperf3, |_| self.pace(pps)).flatten());
            }
            for (name, turns) in ["packet:near0", "xdp:near0", "trafgen", "iperf3"].iter().zip(&turns) {
                let of = |what: fn(&(f64, Gaps)) -> f64| median(turns.iter().map(what));
                println!(
                    "{kpps:>6} {name:14} {:>9.2} {:>+9.3} {:>10.2} % {:>9.1} {:>10.1}",
                    of(|(mean, _)| *mean) / 1e3,
                    100.0 * (of(|(mean, _)| *mean) / pps - 1.0),
                    of(|(_, gaps)| 100.0 * gaps.within.unwrap_or(0) as f64 / gaps.count as f64),
                    of(|(_, gaps)| gaps.p99_ns as f64 / 1e3),
                    of(|(_, gaps)| gaps.max_ns as f64 / 1e3)
                );
            }
        }
    }

    /// Receives datagrams at the far end.
    fn take_datagrams(&self, stop: &AtomicBool) {
        self.enter_here();
        let mut ports = open(&["udp::9".parse().unwrap()], &Options::default()).unwrap();
        while !stop.load(Ordering::Relaxed) {
            ports[0].receive(64, |frame| Some(frame.buffer)).unwrap();
        }
    }

    /// Puts this thread at the far end.
    fn enter_here(&self) {
        let namespace = File::open(format!("/proc/{}/ns/net", self.far.id())).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }

    /// The rate at which one core sends frames, receives and verifies them.
    fn both(&self, near: &str, far: &str) -> Throughput {
        pin();
        let options = Options::default();
        let mut near = open(&[near.parse().unwrap()], &options).unwrap();
        let far: Spec = far.parse().unwrap();
        // A port stays in the namespace that it was opened in.
        let mut far = std::thread::scope(|scope| {
            let opened = scope.spawn(|| {
                self.enter_here();
                open(&[far], &options).unwrap()
            });
            opened.join().unwrap()
        });
        let (near, far) = (&mut near[0], &mut far[0]);
        let mut streams = Streams::default();
        let mut take = |frame: Frame| {
            streams.take(frame.as_ref());
            Some(frame.buffer)
        };
        let thread = format!("/proc/self/task/{}", gettid().as_raw_nonzero());
        let idle = time_of(&thread);
        let sent = send_and_listen(near, &plan(Rate::Max), &mut For(Some(MEASURED)), &mut |_| {
            far.receive(BUDGET, &mut take)
        });
        let (elapsed, busy) = (sent.unwrap().elapsed, time_of(&thread).saturating_sub(idle));
        let all = streams.all();
        let Some(stream) = all.get(&0) else { return Throughput::default() };
        if stream.lost() + stream.duplicated + stream.reordered + streams.corrupted > 0 {
            eprintln!("{} lost, {} corrupted", stream.lost(), streams.corrupted);
        }
        let frames = stream.received as f64 / 1e3;
        Throughput { kpps: frames / elapsed.as_secs_f64(), core_kpps: frames / busy.as_secs_f64().max(1e-3) }
    }
}

/// How fast.
#[derive(Clone, Copy, Default)]
struct Throughput {
    /// Thousand frames a second.
    kpps: f64,
    /// Thousand frames for each second that a core was at it.
    core_kpps: f64,
}

/// The processor time that a thread has had.
fn time_of(thread: &str) -> Duration {
    let text = std::fs::read_to_string(format!("{thread}/schedstat")).unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// That of all threads of all processes of a group.
fn time_of_group(group: u32) -> Duration {
    let folders =
        |path: &str| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let belongs = |process: &std::path::PathBuf| {
        let text = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        // After the name, which may have anything in it: state, parent, group.
        text.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(2)) == Some(&group.to_string())
    };
    let threads = folders("/proc")
        .filter(belongs)
        .flat_map(|process| folders(&process.join("task").to_string_lossy()).collect::<Vec<_>>());
    threads.map(|thread| time_of(&thread.to_string_lossy())).sum()
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.far.kill();
        let _ = self.far.wait();
    }
}

/// Runs until the flag is set.
struct Until<'s>(&'s AtomicBool);

impl Watch for Until<'_> {
    fn at_most(&self) -> Option<Duration> {
        None
    }
    fn go_on(&mut self, _: &Glance) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

fn plan(load: Rate) -> SendPlan {
    // To a station that is not there, as testpmd has it: the far end counts the frame and drops it.
    let flow = Flow { to_mac: Mac([2, 0, 0, 0, 0, 0]), ..Flow::default() };
    let frames = Arc::new(Templates::one(&udp_test(&flow, Size::MIN).unwrap()));
    SendPlan::one(load, StreamPlan::of(frames))
}

/// As many frames as possible of streams, each with its own source address and two source ports in turn.
fn streams(count: u16) -> SendPlan {
    let Flow { from_mac, from, to, .. } = Flow::default();
    let between = Between { macs: [from_mac, Mac([2, 0, 0, 0, 0, 0])], ips: [from.0.into(), to.0.into()] };
    let stream = |stream: u16| {
        let mut stack = Stack::read("ethernet/ipv4/udp").unwrap();
        stack.set_text("ipv4.src", &format!("198.18.{}.{}", stream / 200, stream % 200 + 1)).unwrap();
        stack.set_text("udp.sport", &format!("{0}-{1}", 2048 + 2 * stream, 2049 + 2 * stream)).unwrap();
        let frames = stack.templates(&between, &Mix::fixed(Size::MIN)).unwrap();
        StreamPlan { stream, ..StreamPlan::of(Arc::new(frames)) }
    };
    let streams: Vec<_> = (0..count).map(stream).collect();
    SendPlan { rewrite: true, streams: streams.clone(), ..SendPlan::one(Rate::Max, streams[0].clone()) }
}

fn pin() {
    pin_to(CORE);
}

fn pin_to(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    // On a machine with one core there is nothing to choose.
    let _ = sched_setaffinity(None, &cores);
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

const TRAFGEN: &str = "trafgen --dev near0 --cpus 1 --num 0";
const TRAFGEN_FRAME: &str = "'{ eth(da=02:00:00:00:00:00, sa=02:00:00:00:00:01), \
    ipv4(saddr=198.18.0.1, daddr=198.18.0.2), udp(sp=49152, dp=9), fill(0, 18) }'";
const TESTPMD: &str = "dpdk-testpmd -l 0,1 --no-huge -m 512 --no-pci --no-telemetry";
const TXONLY: &str = "-- --forward-mode=txonly --auto-start --total-num-mbufs=16384 --no-lsc-interrupt";

fn main() {
    // Without it this is `cargo test`, which only asks whether it builds.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    // `cargo bench` passes flags of its own.
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(3);
    let Some(bench) = Bench::new() else {
        eprintln!("skipped: no right to make network namespaces: run as root");
        return;
    };
    // Our senders ask for it themselves; here all have it, and who receives, too.
    if !shell(&format!("renice --priority -20 --pid {}", std::process::id())) {
        eprintln!("no right to a higher priority: others on this machine may be seen in gaps");
    }
    // A port, a peer, and the ratio that is to be held.
    let peers = [
        ("xdp:near0", "net_af_xdp", 1.0, format!("{TESTPMD} --vdev=net_af_xdp0,iface=near0 {TXONLY}")),
        (
            "packet:near0",
            "net_af_packet",
            1.0,
            format!("{TESTPMD} --vdev=net_af_packet0,iface=near0 {TXONLY}"),
        ),
        ("packet:near0", "trafgen", 1.5, format!("{TRAFGEN} {TRAFGEN_FRAME}")),
        (
            "udp:198.18.0.2:9",
            "iperf3",
            1.5,
            "iperf3 --client 198.18.0.2 --udp --length 18 --bandwidth 0 --time 20 --affinity 1".into(),
        ),
    ];
    // Datagrams to a closed port cause an ICMP error each time, so both generators have a receiver on the
    // other core.
    let server = Command::new("sh")
        .args(["-c", &format!("exec {} iperf3 --server", bench.enter())])
        .stdout(Stdio::null())
        // The server prints a line for each client that leaves.
        .stderr(Stdio::null())
        .spawn();
    println!(
        "{:14} {:>8} {:>8}   {:14} {:>8} {:>8}   {:>6}  lowest  highest",
        "port", "kpps", "a core", "peer", "kpps", "a core", "ratio"
    );
    let named: Vec<_> =
        std::env::args().skip(1).filter(|word| word.starts_with(char::is_alphabetic)).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|word| word == name);
    let mut missed = false;
    for (port, peer, least, command) in peers.iter().filter(|(_, peer, ..)| wanted(peer)) {
        let turns: Vec<_> = (0..rounds).map(|_| (bench.ours(port), bench.program(command))).collect();
        let ours = |what: fn(&Throughput) -> f64| median(turns.iter().map(|turn| what(&turn.0)));
        let theirs = |what: fn(&Throughput) -> f64| median(turns.iter().map(|turn| what(&turn.1)));
        let ratios = turns.iter().map(|turn| turn.0.core_kpps / turn.1.core_kpps);
        let short = median(ratios.clone()) < *least;
        missed |= short;
        println!(
            "{port:14} {:>8.0} {:>8.0}   {peer:14} {:>8.0} {:>8.0}   {:>6.2}  {:>6.2}  {:>7.2}{}",
            ours(|rate| rate.kpps),
            ours(|rate| rate.core_kpps),
            theirs(|rate| rate.kpps),
            theirs(|rate| rate.core_kpps),
            median(ratios.clone()),
            ratios.clone().fold(f64::INFINITY, f64::min),
            ratios.fold(0.0, f64::max),
            if short { format!("  below {least}") } else { String::new() },
        );
    }
    if wanted("pacing") {
        bench.paces(rounds);
    }
    if let Ok(mut server) = server {
        let _ = server.kill();
        let _ = server.wait();
    }
    for port in ["packet", "xdp"].iter().filter(|_| wanted("receiving")) {
        let [near, far] = ["near0", "far0"].map(|end| format!("{port}:{end}"));
        let turns: Vec<_> = (0..rounds)
            .map(|_| {
                let alone = bench.ours(&near).core_kpps;
                let both =
                    std::thread::scope(|scope| scope.spawn(|| bench.both(&near, &far)).join()).unwrap();
                (alone, both.core_kpps)
            })
            .collect();
        let alone = median(turns.iter().map(|turn| turn.0));
        let both = median(turns.iter().map(|turn| turn.1));
        let receives = median(turns.iter().map(|(alone, both)| 1.0 / (1.0 / both - 1.0 / alone).max(1e-9)));
        println!(
            "{port}: a core sends {alone:.0} kpps, and sends, receives and verifies {both:.0} kpps: it receives {receives:.0}"
        );
    }
    for port in ["packet:near0", "xdp:near0"].iter().filter(|_| wanted("streams")) {
        // The kernel takes equal headers in one message from a packet port, and those of streams cannot be.
        let plans = [streams(1000), streams(1), plan(Rate::Max)];
        let turn = |_| plans.each_ref().map(|plan| bench.ours_of(port, plan).core_kpps);
        let turns: Vec<_> = (0..rounds).map(turn).collect();
        let [thousand, one, equal] = [0, 1, 2].map(|plan| median(turns.iter().map(|turn| turn[plan])));
        let ratio = median(turns.iter().map(|[thousand, one, _]| thousand / one));
        missed |= ratio < LEAST_OF_STREAMS;
        println!(
            "{port}: a core sends {thousand:.0} kpps of a thousand streams, {one:.0} of one whose port changes: \
             {ratio:.2}{}; and {equal:.0} of equal frames",
            if ratio < LEAST_OF_STREAMS { format!(" (below {LEAST_OF_STREAMS})") } else { String::new() },
        );
    }
    if missed {
        // Nothing is left to be dropped but the cable, which goes with its namespaces.
        drop(bench);
        std::process::exit(1);
    }
}
