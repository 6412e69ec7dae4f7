//! A trial over a path that loses, doubles, damages and reorders frames on purpose: Debian's kernel has the netem that
//! does it, wherever the tests themselves run.

use crate::{Shared, boot, is_wanted};
use kpps_lab::{Guest, Machine, Model};
use serde_json::Value;
use std::time::Duration;

/// a-pa, a bridge, pb-b. (Busybox has an `ip` and a `tc` of its own, which know less.)
const PATH: &str = "/bin/ip link add name a type veth peer name pa && /bin/ip link add name b type veth peer name pb && \
    /bin/ip link add name br type bridge mcast_snooping 0 && \
    /bin/ip link set dev pa master br && /bin/ip link set dev pb master br && \
    for i in a pa pb b br; do /bin/ip link set dev $i up; done";

/// What became of the frames.
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

    /// Whether `count` is what a share of the frames sent can be: five standard deviations, one in a million by chance.
    fn is_share(&self, count: u64, share: f64) -> bool {
        let mean = self.count("sent") as f64 * share;
        mean > 0.0 && (count as f64 - mean).abs() <= 4.9 * (mean * (1.0 - share)).sqrt() + 0.5
    }
}

/// Ten thousand frames through the path, with this netem in it.
fn through(guest: &mut Guest, netem: &str) -> Outcome {
    guest.run(&format!("/bin/tc qdisc replace dev pb root netem {netem} limit 100000")).unwrap();
    let dropped = |guest: &mut Guest| -> u64 {
        let text = guest.run("/bin/tc -s qdisc show dev pb root").unwrap();
        let (_, rest) = text.split_once("dropped ").unwrap();
        rest.split(',').next().unwrap().parse().unwrap()
    };
    let before = dropped(guest);
    let command = "kpps trial --testbed packet:a,packet:b --load 5kpps --duration 2s --certificate /tmp/ceiling --json > /tmp/trial 2> /tmp/said";
    let code = guest.output(command, Duration::from_secs(60)).unwrap().code;
    let said = guest.run("cat /tmp/said").unwrap();
    assert_eq!(code, 0, "{said}");
    let trial = serde_json::from_str(&guest.run("cat /tmp/trial").unwrap()).unwrap();
    Outcome { trial, netem_dropped: dropped(guest) - before }
}

#[test]
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
    guest.run("kpps certify packet:a --json > /tmp/ceiling").unwrap();

    for (loss, share) in [("0.1%", 0.001), ("1%", 0.01), ("10%", 0.1)] {
        let lossy = through(&mut guest, &format!("loss {loss}"));
        assert_eq!(lossy.unexplained(), 0, "{}", lossy.trial);
        assert_eq!((lossy.count("duplicated"), lossy.count("corrupted")), (0, 0), "{}", lossy.trial);
        let netem = lossy.trial["ledger"]["dropped"]["pb netem"].as_u64().unwrap_or(0);
        // Learning frames, a few, may have been dropped before the trial began.
        assert!((netem..=netem + 3).contains(&lossy.netem_dropped), "{netem} of {}", lossy.netem_dropped);
        assert_eq!(lossy.count("lost"), netem, "{}", lossy.trial);
        assert!(lossy.is_share(netem, share), "{loss}: {netem} of {}", lossy.count("sent"));
    }

    let doubled = through(&mut guest, "duplicate 2%");
    assert!(doubled.is_share(doubled.count("duplicated"), 0.02), "{}", doubled.trial);
    assert_eq!(
        (doubled.count("lost"), doubled.count("corrupted"), doubled.unexplained()),
        (0, 0, 0),
        "{}",
        doubled.trial
    );

    let damaged = through(&mut guest, "corrupt 2%");
    assert!(damaged.is_share(damaged.count("corrupted"), 0.02), "{}", damaged.trial);
    assert_eq!((damaged.count("duplicated"), damaged.unexplained()), (0, 0), "{}", damaged.trial);

    // A frame out of a hundred overtakes those that wait: it is not late, they are.
    let mixed = through(&mut guest, "delay 5ms reorder 1%");
    assert!(mixed.count("reordered") > 0, "{}", mixed.trial);
    assert_eq!(
        (mixed.count("lost"), mixed.count("duplicated"), mixed.unexplained()),
        (0, 0, 0),
        "{}",
        mixed.trial
    );
}
