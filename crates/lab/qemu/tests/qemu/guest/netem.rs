//! A trial over a path that loses, doubles, damages and reorders frames on purpose: Debian's kernel has the
//! netem that does it, wherever the tests themselves run.

use super::{GUEST_TIMEOUT, Shared, boot, is_wanted};
use kpps_namespaces::says_short_of_cpu;
use kpps_qemu::lab::{Guest, Machine, Model};
use serde_json::Value;

/// a-pa, a bridge, pb-b. (Busybox has an `ip` and a `tc` of its own, which know less.)
const PATH: &str = "/bin/ip link add name a type veth peer name pa && /bin/ip link add name b type veth peer name pb && \
    /bin/ip link add name br type bridge mcast_snooping 0 && \
    /bin/ip link set dev pa master br && /bin/ip link set dev pb master br && \
    for i in a pa pb b br; do /bin/ip link set dev $i up; done";

/// The fate of the frames.
struct Outcome {
    trial: Value,
    /// Frames that netem dropped, as `tc` counts them.
    netem_dropped: u64,
}

impl Outcome {
    fn count(&self, name: &str) -> u64 {
        self.trial[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", self.trial))
    }

    fn unexplained(&self) -> i64 {
        self.trial["ledger"]["unexplained"].as_i64().unwrap_or_else(|| panic!("no ledger in {}", self.trial))
    }

    /// The median latency in ns.
    fn median_ns(&self) -> u64 {
        self.trial["latency_ns"]["p50"].as_u64().unwrap_or_else(|| panic!("no latency in {}", self.trial))
    }

    /// An interface's counter in the trial.
    fn at(&self, interface: &str, counter: &str) -> u64 {
        let counter = &self.trial["interfaces"][interface][counter];
        counter.as_u64().unwrap_or_else(|| panic!("no {counter} of {interface} in {}", self.trial))
    }

    /// All frames are accounted for, and only these things happened to some.
    fn has_only(&self, expected: &[&str]) {
        assert_eq!(self.unexplained(), 0, "{}", self.trial);
        for name in ["lost", "duplicated", "reordered", "corrupted"] {
            let has = self.count(name) > 0;
            assert!(!has || expected.contains(&name), "{name}: {}", self.trial);
        }
    }
}

/// Load and time of most trials: ten thousand frames.
const MANY: &str = "--load 5kpps --duration 2s";

/// A load that leaves most of the guest's CPU to the path.
const FEW: &str = "--load 500pps --duration 2s";

/// One trial with this load through the path, with this netem in it.
fn through(guest: &mut Guest, netem: &str, load: &str) -> Outcome {
    // A new discipline: an existing one would keep the settings that a change does not name.
    guest.output("/bin/tc qdisc del dev pb root", GUEST_TIMEOUT).unwrap();
    guest.run(&format!("/bin/tc qdisc add dev pb root netem {netem} limit 100000")).unwrap();
    let command = format!(
        "kpps trial --ports packet:a,packet:b {load} --retries 0 --calibration /tmp/ceiling --json > /tmp/trial 2> /tmp/said"
    );
    let code = guest.output(&command, GUEST_TIMEOUT).unwrap().code;
    let said = guest.run("cat /tmp/said").unwrap();
    // On a busy host the guest gets too little CPU.
    assert!(code == 0 || code == 3 && says_short_of_cpu(&said), "{said}");
    let trial = serde_json::from_str(&guest.run("cat /tmp/trial").unwrap()).unwrap();
    let counted = guest.run("/bin/tc -s qdisc show dev pb root").unwrap();
    let (_, rest) = counted.split_once("dropped ").unwrap();
    Outcome { trial, netem_dropped: rest.split(',').next().unwrap().parse().unwrap() }
}

/// The chances that of `n` things with a chance of `p` each at most `count` happen, and at least `count`:
/// sums of the binomial distribution, term by term.
fn tails(count: u64, n: u64, p: f64) -> (f64, f64) {
    let odds = (p / (1.0 - p)).ln();
    // By its logarithm, for the first terms are too small for a number.
    let mut ln_term = n as f64 * (1.0 - p).ln();
    let mut at_most = ln_term.exp();
    let mut last = at_most;
    for k in 1..=count.min(n) {
        ln_term += odds + ((n - k + 1) as f64 / k as f64).ln();
        last = ln_term.exp();
        at_most += last;
    }
    (at_most, 1.0 - at_most + last)
}

/// Whether `count` of `n` is within the binomial 99 % interval of a share: each tail of the distribution
/// beyond it has a probability of at least 1 in 200.
fn is_share(count: u64, n: u64, share: f64) -> bool {
    let (at_most, at_least) = tails(count, n, share);
    count <= n && at_most >= 0.005 && at_least >= 0.005
}

#[test]
fn the_interval_has_99_runs_of_100() {
    // The 0.5 % and the 99.5 % quantile, of another program's distribution.
    for (n, share, least, most) in
        [(10_000, 0.001, 3, 19), (10_000, 0.02, 165, 237), (10_000, 0.1, 923, 1078), (10, 0.5, 1, 9)]
    {
        assert!(is_share(least, n, share) && is_share(most, n, share), "{n} {share}");
        assert!(!is_share(least - 1, n, share) && !is_share(most + 1, n, share), "{n} {share}");
    }
    assert!(!is_share(11, 10, 0.5));
}

/// Measures until a share is in its interval, three times at most: one in a hundred honest shares is outside,
/// and three in a row have a probability of one in a million. `counted` has for one trial the number, the
/// total, and the share.
fn measure(guest: &mut Guest, netem: &str, load: &str, counted: impl Fn(&Outcome) -> (u64, u64, f64)) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (count, n, share) = counted(&through(guest, netem, load));
        if is_share(count, n, share) {
            return;
        }
        seen.push((count, n, share));
    }
    panic!("{netem}: {seen:?}");
}

#[test]
#[ignore = "`make lab` runs it"]
fn what_netem_does_is_measured() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } = boot(Model::E1000, Machine::Plain, &[]);
    for module in ["veth", "bridge", "sch_netem", "af_packet"] {
        guest.load(module, "").unwrap();
    }
    guest.run(PATH).unwrap();
    // Measured once, so that what netem counts is a trial's.
    guest.run("kpps calibrate packet:a --json > /tmp/ceiling").unwrap();

    for (loss, share) in [("0.1%", 0.001), ("1%", 0.01), ("10%", 0.1)] {
        measure(&mut guest, &format!("loss {loss}"), MANY, |lossy| {
            lossy.has_only(&["lost"]);
            let netem = lossy.trial["ledger"]["dropped"]["pb netem"].as_u64().unwrap_or(0);
            // Learning frames, a few, may have been dropped before the trial began.
            assert!((netem..=netem + 3).contains(&lossy.netem_dropped), "{netem} of {}", lossy.netem_dropped);
            assert_eq!(lossy.count("lost"), netem, "{}", lossy.trial);
            (netem, lossy.count("sent"), share)
        });
    }

    // Nothing is faster than the delay, and little is slower than it and the path: where the guest, which has
    // one CPU, gets one of the host's.
    let mut grown_ns: Vec<u64> = Vec::new();
    while grown_ns.last().is_none_or(|ns| *ns >= 7_000_000) {
        assert!(grown_ns.len() < 6, "{grown_ns:?}");
        let at_once_ns = through(&mut guest, "loss 0%", FEW).median_ns();
        let late = through(&mut guest, "delay 5ms", FEW);
        late.has_only(&[]);
        assert!(late.median_ns() >= 5_000_000, "{}", late.trial);
        grown_ns.push(late.median_ns().saturating_sub(at_once_ns));
    }
    measure(&mut guest, "delay 5ms loss 1%", MANY, |late| {
        late.has_only(&["lost"]);
        (late.count("lost"), late.count("sent"), 0.01)
    });

    measure(&mut guest, "duplicate 2%", MANY, |doubled| {
        doubled.has_only(&["duplicated"]);
        // netem has sent more than came in, by as many.
        let by_netem = doubled.at("pb", "netem packets") - doubled.at("pa", "rx_packets");
        assert_eq!(doubled.count("duplicated"), by_netem, "{}", doubled.trial);
        (by_netem, doubled.count("sent"), 0.02)
    });

    // netem does not count these.
    measure(&mut guest, "corrupt 2%", MANY, |damaged| {
        damaged.has_only(&["corrupted"]);
        (damaged.count("corrupted"), damaged.count("sent"), 0.02)
    });

    // One frame of four is held until long after the last one has been sent; the others go on at once, at the
    // head of the queue, which the kernel counts. They are not early: the frames that they overtake are late.
    // All held frames are late, except for the few after the last frame that was not held: eleven such frames
    // in a row have a probability of one in four million.
    let load = "--load 1kpps --duration 2s --drain 15s";
    measure(&mut guest, "delay 6s reorder 75%", load, |mixed| {
        mixed.has_only(&["reordered"]);
        let held = mixed.count("sent") - mixed.at("pb", "netem requeues");
        assert!((held - 10..=held).contains(&mixed.count("reordered")), "{held} held: {}", mixed.trial);
        (mixed.count("reordered"), mixed.count("sent"), 0.25)
    });
}
