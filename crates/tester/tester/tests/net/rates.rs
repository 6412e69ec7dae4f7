//! Ordinary set-ups that dictate a rate: a throttled exit, which iperf3, trafgen and ifpps measure, too, and
//! a policer; and a port that does not count its misses.

use super::offer;
use super::places::{SetUp, backlog_of, counted, dropped};
use kpps_documents::Limit;
use kpps_documents::detail::DetailedTrial;
use kpps_frames::tag::TagFormat;
use kpps_frames::{Encap, Mac};
use kpps_namespaces::{Net, Process, skip, until_undisturbed};
use kpps_ports::Spec;
use kpps_ports::port::run::Near;
use kpps_ports::port::{Options, Trouble, open};
use kpps_tester::{
    Address, Done, LocalHost, LocalPort, Offer, Site, Task, TestPort, Tester, TrialState, document,
};
use std::time::Duration;

/// Long enough that the frames in a bucket and a queue are few in comparison.
const LONG: Duration = Duration::from_secs(2);

/// Such a trial. Behind it no queue holds frames for long.
fn long(pps: f64, bytes: u16) -> Offer {
    Offer { drain: Duration::from_millis(300), ..offer(pps, bytes, false) }.lasting(LONG)
}

/// Throttles the router's exit; `false` if the kernel cannot. Sizes are in bytes.
fn throttle(router: &Net, mbps: u32, bucket: u32, queue: u32) -> bool {
    let can =
        router.can(&format!("tc qdisc replace dev rb root tbf rate {mbps}mbit burst {bucket} limit {queue}"));
    if !can {
        skip::lacks("the queueing discipline tbf");
    }
    can
}

/// Whether as many frames came through as these, within 2 %; fewer by as many as could have passed while the
/// generator did not run. A machine that is busier than that carries what came late, or not in time.
fn came_through(trial: &DetailedTrial, frames: f64, pps: f64) -> bool {
    let came = (trial.fate.received + trial.result.overflow.unwrap()) as f64;
    let stalled_s = trial.result.shortfall as f64 / trial.load_pps.unwrap();
    let least = 0.98 * frames - stalled_s * pps - backlog_of(trial, "") as f64;
    let is_close = least <= came && came <= 1.02 * frames;
    if !is_close {
        eprintln!("{came} came through, not {least} to {}: {trial:#?}", 1.02 * frames);
    }
    is_close
}

/// The rate is tbf's, which counts bytes without the FCS. All frames above it are lost there, to the frame.
/// Both exits carry about 10,000 frames a second. A machine so busy that it sends less loses nothing.
#[test]
fn a_throttled_exit() {
    let Some(set_up) = SetUp::new() else { return };
    for (mbps, bytes) in [(5, 64), (20, 256)] {
        until_undisturbed("an exit carries its rate, and more is lost", || {
            is_as_throttled(&set_up, mbps, bytes).unwrap_or(true)
        });
    }
}

/// Whether an exit carries its rate in a trial at twice that, and loses the rest: its accounts close in any
/// case. `None` if this kernel cannot do it.
fn is_as_throttled(set_up: &SetUp, mbps: u32, bytes: u16) -> Option<bool> {
    // Bucket and queue hold what goes out in 50 ms: as long may a busy machine not look after them.
    let held = mbps * 6250;
    if !throttle(&set_up.router, mbps, held, held) {
        return None;
    }
    let counted_bytes = f64::from(bytes - 4);
    let pps = f64::from(mbps) * 1e6 / (counted_bytes * 8.0);
    let mut tester = set_up.tester(true);
    let trial = set_up.trial(&mut tester, &long(2.0 * pps, bytes))?;
    let lost = trial.fate.lost - backlog_of(&trial, "");
    let place = set_up.place("rb tbf");
    assert_eq!(dropped(&trial), Vec::from_iter((lost > 0).then_some((&*place, lost))), "{trial:#?}");
    // The queue may also drop the router's own ARP messages.
    let counted = super::dropped_by_qdisc(&set_up.router, "rb");
    assert!((lost..=lost + 3).contains(&counted), "{counted}: {trial:#?}");
    set_up.router.run("tc qdisc del dev rb root");
    let frames = pps * LONG.as_secs_f64() + f64::from(2 * held) / counted_bytes;
    Some(lost > 0 && came_through(&trial, frames, pps))
}

#[test]
fn a_policer() {
    let Some(set_up) = SetUp::new() else { return };
    until_undisturbed("a policer passes its rate, and more is sent", || {
        set_up.router.run(
            "nft 'flush ruleset; add table ip f; add chain ip f c { type filter hook forward priority 0; }; \
             add rule ip f c udp dport 9 limit rate over 1000/second burst 100 packets counter drop'",
        );
        let mut tester = set_up.tester(true);
        let Some(trial) = set_up.trial(&mut tester, &long(4000.0, 64)) else { return true };
        let frames: u64 = dropped(&trial).iter().map(|(_, frames)| frames).sum();
        assert_eq!(frames, counted(&set_up.router, "chain ip f c"), "{trial:#?}");
        let place = set_up.place("ra netfilter drop");
        assert!(dropped(&trial).iter().all(|(name, _)| name.starts_with(&place)), "{trial:#?}");
        frames > 0 && came_through(&trial, 1000.0 * LONG.as_secs_f64() + 100.0, 1000.0)
    });
}

/// A trial with frames of 512 B at twice the rate of a throttled exit, which is `MBPS`.
struct Throttled {
    set_up: SetUp,
    trial: DetailedTrial,
    /// The rate of the exit, in frames a second, and how many frames its bucket and queue hold.
    pps: f64,
    held: f64,
}

impl Throttled {
    /// Payload of the frames: 466 B are 512 B with all headers and FCS. tbf counts 508 of them.
    const PAYLOAD: u32 = 466;
    const COUNTED: f64 = 508.0;
    const MBPS: u32 = 5;

    fn trial() -> Option<Self> {
        let set_up = SetUp::new()?;
        let (bucket, queue) = (6250, 31250);
        if !throttle(&set_up.router, Self::MBPS, bucket, queue) {
            return None;
        }
        let pps = f64::from(Self::MBPS) * 1e6 / (Self::COUNTED * 8.0);
        let trial = set_up.trial(&mut set_up.tester(true), &long(2.0 * pps, 512))?;
        Some(Self { set_up, trial, pps, held: f64::from(bucket + queue) / Self::COUNTED })
    }

    /// Gives the tester's cables to two hosts, which have its addresses. Returns the far one.
    fn hosts(&self) -> Option<Net> {
        let ends = &self.set_up.ends;
        let far = Net::new()?;
        ends.run(&format!("ip link set dev b netns {}", far.name()));
        for (net, end, network, host) in [(ends, "a", 18, 1), (&far, "b", 19, 2)] {
            net.run(&format!(
                "ip address add 198.{network}.0.{host}/24 dev {end} && ip link set dev {end} up &&
                 ip route add default via 198.{network}.0.254"
            ));
        }
        Some(far)
    }

    /// Whether the trial's rate agrees with the rate that another program measured each second: the median of
    /// its values. A busy machine may have made some seconds longer, and let them send less in others.
    fn is(&self, mut theirs_pps: Vec<f64>) -> bool {
        theirs_pps.sort_by(f64::total_cmp);
        let Some(theirs_pps) = theirs_pps.get(theirs_pps.len() / 2) else { return false };
        came_through(&self.trial, theirs_pps * LONG.as_secs_f64() + self.held, self.pps)
    }
}

/// iperf3's receiver and a trial report the same rate.
#[test]
fn iperf3_through_the_same_exit() {
    until_undisturbed("both measure the rate of the exit", || {
        let Some(throttled) = Throttled::trial() else { return true };
        let ends = &throttled.set_up.ends;
        if !ends.can("command -v iperf3 > /dev/null") {
            skip::needs("iperf3");
            return true;
        }
        let Some(far) = throttled.hosts() else { return true };
        let mut server = far.command("sh");
        server.args(["-c", "exec iperf3 --server --format k --forceflush >&2"]);
        let server = Process::start(server, "listening", Duration::from_secs(60));
        let payload = Throttled::PAYLOAD;
        ends.run(&format!(
            "iperf3 --udp --client 198.19.0.2 --bitrate 10M --length {payload} --time 5 > /dev/null"
        ));
        // Its report at the end.
        server.says("receiver");
        let said = server.said();
        // Of each second, of a last short one, and of all together.
        let kbps: Vec<f64> = said
            .lines()
            .filter_map(|line| line.split(" Kbits/sec").next().filter(|before| before.len() < line.len()))
            .map(|before| before.rsplit(' ').next().and_then(|text| text.parse().ok()))
            .collect::<Option<_>>()
            .unwrap_or_else(|| panic!("{said}"));
        throttled.is(kbps.into_iter().map(|kbps| kbps * 1e3 / (8.0 * f64::from(payload))).collect())
    });
}

/// ifpps, while trafgen sends, and a trial report the same rate.
#[test]
fn trafgen_through_the_same_exit() {
    until_undisturbed("both measure the rate of the exit", || {
        let Some(throttled) = Throttled::trial() else { return true };
        let SetUp { ends, router } = &throttled.set_up;
        if !ends.can("command -v trafgen > /dev/null && command -v ifpps > /dev/null") {
            skip::needs("trafgen and ifpps");
            return true;
        }
        let Some(far) = throttled.hosts() else { return true };
        let station =
            |net: &Net, interface: &str| net.output(&format!("cat /sys/class/net/{interface}/address"));
        let packet = format!(
            "{{ eth(da={}, sa={}), ipv4(ttl=64, saddr=198.18.0.1, daddr=198.19.0.2), udp(sport=49152, dport=9), fill(0, {}) }}",
            station(router, "ra").trim(),
            station(ends, "a").trim(),
            Throttled::PAYLOAD
        );
        let mut sender = ends.command("trafgen");
        sender.args(["--out", "a", "--cpus", "1", "--gap", "100us", "--num", "60000", &packet]);
        // It prints nothing before its end. When it is killed, its child still sends the rest of the frames,
        // for some seconds.
        let sender = Process::start(sender, "", Duration::ZERO);
        let said = far.output("timeout 5 ifpps --dev b --csv --loop --interval 1000");
        drop(sender);
        let lines = said.lines().filter(|line| !line.starts_with('#'));
        let frames = lines.map(|line| line.split(' ').nth(2).and_then(|text| text.parse().ok()));
        let frames = frames.collect::<Option<Vec<f64>>>().unwrap_or_else(|| panic!("{said}"));
        // Fewer, if it did not run.
        frames.len() >= 3 && throttled.is(frames)
    });
}

/// A port that does not count its misses, as a UDP socket of another system than Linux.
struct Uncounted(LocalPort);

impl TestPort for Uncounted {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn interface(&self) -> Option<&str> {
        self.0.interface()
    }
    fn mac(&self) -> Mac {
        self.0.mac()
    }
    fn speed_mbps(&self) -> Option<u32> {
        self.0.speed_mbps()
    }
    fn near(&self) -> Option<&Near> {
        self.0.near()
    }
    fn send_now(&mut self, frames: &[Vec<u8>]) -> Result<usize, Trouble> {
        self.0.send_now(frames)
    }
    fn receive(&mut self, format: TagFormat, sink: &mut dyn FnMut(&[u8])) -> Result<(), Trouble> {
        self.0.receive(format, sink)
    }
    fn work(&mut self, task: &Task, state: &TrialState) -> Done {
        Done { missed: None, ..self.0.work(task, state) }
    }
}

/// Frames that such a port did not receive may have come through: none is claimed to be the device's loss.
#[test]
fn an_overflow_that_is_not_known() {
    let Some(net) = super::with_bridge() else { return };
    let names = ["packet:a", "packet:b"].map(|name| name.parse::<Spec>().unwrap());
    let [a, b] = open(&names, &Options::default()).unwrap().try_into().ok().unwrap();
    let ports: Vec<Box<dyn TestPort>> = vec![
        Box::new(LocalPort::new(&names[0], a).unwrap()),
        Box::new(Uncounted(LocalPort::new(&names[1], b).unwrap())),
    ];
    let addresses = ["198.18.0.1", "198.19.0.2"].map(|ip| Address {
        ips: ip.parse().unwrap(),
        gateway: None,
        to: None,
        encap: Encap::default(),
    });
    let host = LocalHost::around(&["a".into(), "b".into()], &[]).unwrap();
    let site = Site { name: None, host: Box::new(host), ports: vec![0, 1] };
    let mut tester = Tester::with(ports, addresses, vec![site]);
    let offer = Offer { drain: Duration::from_millis(300), ..offer(4000.0, 64, false) };
    let trial = |tester: &mut Tester| {
        let outcome = tester.trial(&offer, &|| true).unwrap();
        let trial = document(tester, &offer, &outcome).unwrap();
        assert_eq!((trial.result.overflow, trial.result.overflow_unknown), (None, true), "{trial:#?}");
        assert_eq!(trial.result.sent, trial.fate.received + trial.fate.lost, "{trial:#?}");
        assert_eq!(trial.result.ledger.unexplained, 0, "{trial:#?}");
        trial
    };
    let clean = trial(&mut tester);
    assert_eq!(clean.fate.lost, backlog_of(&clean, ""), "{clean:#?}");
    assert_ne!(clean.result.limit(), Some(Limit::Receiver), "{clean:#?}");
    if !net.can("tc qdisc add dev pb root tbf rate 1mbit burst 1600 limit 300") {
        return skip::lacks("the queueing discipline tbf");
    }
    until_undisturbed("more is sent than goes out", || {
        let before = super::dropped_by_qdisc(&net, "pb");
        let lossy = trial(&mut tester);
        // The queue's counter has its place nevertheless.
        let dropped = lossy.result.ledger.dropped.get("pb tbf").copied().unwrap_or(0);
        assert_eq!(dropped, super::dropped_by_qdisc(&net, "pb") - before, "{lossy:#?}");
        let is_known = lossy.result.limit().is_some() && !lossy.result.is_of_the_device();
        assert!(is_known || lossy.fate.lost * 100 < lossy.result.sent, "{lossy:#?}");
        dropped > 0
    });
}

/// A queue that is long enough for a whole trial loses nothing in it. Its backlog, as tc counts it, equals
/// the trial's growth of queues; with a load that the exit carries nothing grows.
#[test]
fn a_long_queue_at_the_exit_is_seen_to_grow() {
    let Some(set_up) = SetUp::new() else { return };
    // 10 Mb/s are 20,833 frames of 60 B: tbf does not count the FCS.
    let pps = 10e6 / 8.0 / 60.0;
    if !throttle(&set_up.router, 10, 6000, 4_000_000) {
        return;
    }
    let mut tester = set_up.tester(true);
    // The queue is empty again half a second after the load.
    let drained = |pps| Offer { drain: Duration::from_secs(3), ..long(pps, 64) };
    until_undisturbed("a long queue grows by what is above the rate, and by nothing below it", || {
        let [Some(above), Some(below)] =
            [1.25, 0.8].map(|share| set_up.trial(&mut tester, &drained(share * pps)))
        else {
            return true;
        };
        // Frames that left at the rate of the exit were no longer in the queue.
        let grew = above.result.sent as f64 - pps * LONG.as_secs_f64();
        let found = above.result.queue_growth.unwrap_or(0) as f64;
        let is_found = grew > 0.0 && (found - grew).abs() <= 0.1 * grew + 100.0;
        if !is_found || below.result.queue_growth != Some(0) {
            eprintln!("{found} found of {grew}; {:?} below the rate", below.result.queue_growth);
        }
        above.result.loss_ratio == 0.0 && is_found && below.result.queue_growth == Some(0)
    });
}

/// A program of real-time priority that has every CPU for 40 ms in each 200 ms, until it is dropped, for 12 s
/// at most. The program that ends its turns has a higher priority: with the same priority it would never run.
struct Hog(std::process::Child);

impl Hog {
    fn begin() -> Option<Self> {
        let hog = "for cpu in $(seq 0 $(($(nproc --all) - 1))); do \
                   (for n in $(seq 60); do taskset -c $cpu chrt -f 60 timeout -s KILL 0.04 chrt -f 50 sh -c 'while :; do :; done'; sleep 0.16; done) & \
                   done; wait";
        let mut command = std::process::Command::new("setsid");
        command
            .args(["sh", "-c", hog])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        command.spawn().ok().map(Self)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // It leads a group of its own.
        let group = format!("-{}", self.0.id());
        let _ = std::process::Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

/// Pauses of the sender are named, and are no limit of the generator, which sends ten times as much
/// elsewhere.
#[test]
fn what_had_the_senders_cpu_is_named() {
    let Some(_net) = super::with_bridge() else { return };
    let has_priority = std::process::Command::new("chrt").args(["-f", "50", "true"]).status();
    if !has_priority.is_ok_and(|status| status.success()) {
        return skip::lacks("real-time priority (chrt)");
    }
    let mut tester = super::tester([None, None], &[]);
    let offer = offer(20e3, 64, false).lasting(Duration::from_secs(1));
    let Some(hog) = Hog::begin() else { return skip::lacks("setsid") };
    until_undisturbed("a pause of the sender is named", || {
        let trial = super::trial(&mut tester, &offer);
        let Some(disturbance) = trial.result.disturbance.clone() else { return false };
        let is_named = disturbance.longest.as_ref().is_some_and(|pause| pause.lasted_ns > 20_000_000);
        if !(is_named && trial.result.is_disturbed()) {
            eprintln!("{disturbance:?} of a shortfall of {}", trial.result.shortfall);
        }
        is_named && trial.result.is_disturbed() && disturbance.words().starts_with("other programs had ")
    });
    drop(hog);
}
