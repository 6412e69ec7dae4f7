//! The table of ordinary set-ups: a bridge, a router, a NAT, a throttled exit, a firewall, a route to
//! nowhere. Set-ups that limit the rate are in `rates`. The kernel's packet filter counts the frames of the
//! trial before and behind each, and these counts are the truth: for sent and arrived frames, and that every
//! lost frame has its place.

use super::{offer, tester, tester_of};
use kpps_documents::detail::DetailedTrial;
use kpps_frames::Mix;
use kpps_frames::flows::PortNumbers;
use kpps_namespaces::{Net, Process, skip, until_undisturbed};
use kpps_tester::{FlowPlan, Offer, Tester, document};
use serde_json::Value;
use std::time::Duration;

/// Matches frames of a trial, and replies to them: learning frames have the streams 2 and 3.
pub(super) const OURS: &str = "ip protocol udp udp dport 9 @th,96,8 & 0x20 == 0";
const REPLIES: &str = "ip protocol udp udp sport 9 @th,96,8 & 0x20 == 0";

/// A counter of the trial's frames that enter a namespace by an interface. It is gone when this is dropped.
struct Meter<'n> {
    net: &'n Net,
    interface: &'static str,
    /// The frames that the interface had received before.
    before: u64,
}

impl<'n> Meter<'n> {
    fn at(net: &'n Net, interface: &'static str) -> Self {
        Self::of(net, interface, OURS)
    }

    fn of(net: &'n Net, interface: &'static str, frames: &str) -> Self {
        net.run(&format!(
            "nft 'add table netdev m{interface}; add chain netdev m{interface} c {{ type filter hook ingress device {interface} priority -500; }}; \
             add rule netdev m{interface} c {frames} counter'"
        ));
        Self { net, interface, before: received(net, interface) }
    }

    fn frames(&self) -> u64 {
        counted(self.net, &format!("chain netdev m{0} c", self.interface))
    }

    /// All frames that the interface has received since, by its own statistics.
    fn all(&self) -> u64 {
        received(self.net, self.interface) - self.before
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.net.can(&format!("nft delete table netdev m{}", self.interface));
    }
}

/// Frames that an interface has received, by its statistics.
fn received(net: &Net, interface: &str) -> u64 {
    let said = net.output(&format!("ip -s -j link show dev {interface}"));
    let links: Value = serde_json::from_str(&said).unwrap();
    links[0]["stats64"]["rx"]["packets"].as_u64().unwrap_or_else(|| panic!("{said}"))
}

/// The counter of the first rule of a chain.
pub(super) fn counted(net: &Net, chain: &str) -> u64 {
    let rules = net.output(&format!("nft list {chain}"));
    let (_, rest) = rules.split_once("counter packets ").unwrap_or_else(|| panic!("no counter in {rules}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// A router between `a` and `b`, and the counters before and behind it.
pub(super) struct SetUp {
    pub(super) ends: Net,
    pub(super) router: Net,
}

impl SetUp {
    pub(super) fn new() -> Option<Self> {
        let (ends, router) = Net::with_router()?;
        if !router.can("nft list ruleset") {
            skip::lacks("the kernel's packet filter, or nft");
            return None;
        }
        Some(Self { ends, router })
    }

    /// The name of a place at the router.
    pub(super) fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.router.name())
    }

    pub(super) fn tester(&self, watched: bool) -> Tester {
        self.tester_to("198.19.0.2", watched)
    }

    fn tester_to(&self, addresses: &str, watched: bool) -> Tester {
        self.ends.enter();
        let name = format!("{}/", self.router.name());
        let places = if watched { vec![name.as_str()] } else { vec![] };
        let gateways = [Some("198.18.0.254"), Some("198.19.0.254")];
        tester_of(["198.18.0.1", addresses], [None, None], gateways, &places)
    }

    /// A trial that agrees with the counters. `None` if this kernel does not report its drops.
    pub(super) fn trial(&self, tester: &mut Tester, offer: &Offer) -> Option<DetailedTrial> {
        let before = Meter::at(&self.router, "ra");
        let behind = Meter::at(&self.ends, "b");
        let outcome = tester.trial(offer, &|| true).unwrap();
        let trial = document(tester, offer, &outcome).unwrap();
        let seen = (before.frames(), behind.frames());
        drop((before, behind));
        if let Some(why) = trial.environment.system.get("drop reasons") {
            skip::lacks(&format!("the kernel's drop reasons: {why}"));
            return None;
        }
        assert!(trial.complete && trial.result.sent > 0, "{trial:?}");
        // Receive overflow of the tester has arrived, too. Frames that a busy CPU's backlog had no room for
        // have not come to the counter.
        let overflow = trial.result.overflow.unwrap();
        assert_eq!(overflow, own_overflow(&trial), "{trial:#?}");
        let came = trial.result.sent - backlog_of(&trial, &self.place("ra"));
        assert_eq!((came, trial.fate.received + overflow), seen, "{trial:#?}");
        assert_eq!(trial.result.ledger.unexplained, 0, "{trial:#?}");
        Some(trial)
    }
}

/// Frames that found the tester's own ring full.
fn own_overflow(trial: &DetailedTrial) -> u64 {
    trial.result.ledger.dropped.iter().filter(|(place, _)| place.ends_with(" missed")).map(|(_, n)| n).sum()
}

/// Lost frames that are not the tester's, by place.
pub(super) fn dropped(trial: &DetailedTrial) -> Vec<(&str, u64)> {
    let dropped = trial.result.ledger.dropped.iter().map(|(place, frames)| (place.as_str(), *frames));
    dropped.filter(|(place, _)| !place.ends_with(" missed") && !place.contains(" backlog")).collect()
}

/// Frames dropped because the backlog of a busy CPU was full, at places that begin like this.
pub(super) fn backlog_of(trial: &DetailedTrial, place: &str) -> u64 {
    let dropped = trial.result.ledger.dropped.iter();
    let backlogs = dropped.filter(|(name, _)| name.starts_with(place) && name.contains(" backlog"));
    backlogs.map(|(_, frames)| frames).sum()
}

#[test]
fn a_filter_that_drops_every_tenth_frame() {
    let Some(set_up) = SetUp::new() else { return };
    for (counter, watched) in [("counter", true), ("", true), ("", false)] {
        set_up.router.run(&format!(
            "nft 'flush ruleset; add table ip f; add chain ip f c {{ type filter hook forward priority 0; }}; \
             add rule ip f c {OURS} numgen inc mod 10 0 {counter} drop'"
        ));
        let mut tester = set_up.tester(watched);
        let Some(trial) = set_up.trial(&mut tester, &offer(4000.0, 64, false)) else { return };
        let [(place, frames)] = dropped(&trial)[..] else { panic!("{trial:#?}") };
        assert!(place.starts_with(&set_up.place("ra netfilter drop")), "{place}");
        let came = trial.result.sent - backlog_of(&trial, &set_up.place("ra"));
        assert_eq!(frames, came.div_ceil(10), "{trial:#?}");
        if !counter.is_empty() {
            assert_eq!(frames, counted(&set_up.router, "chain ip f c"));
        }
    }
}

#[test]
fn routes_that_lead_nowhere() {
    let Some(set_up) = SetUp::new() else { return };
    for kind in ["blackhole", "unreachable", "prohibit"] {
        set_up.router.run(&format!("ip route replace {kind} 198.19.0.3/32"));
        for watched in [true, false] {
            let mut tester = set_up.tester_to("198.19.0.2-198.19.0.3", watched);
            let Some(trial) = set_up.trial(&mut tester, &offer(4000.0, 64, false)) else { return };
            let nowhere: u64 = dropped(&trial).iter().map(|(_, frames)| frames).sum();
            // Every second frame goes there.
            let half = trial.result.sent / 2;
            assert!((half - backlog_of(&trial, "")..=half).contains(&nowhere), "{kind}: {trial:#?}");
            assert!(
                dropped(&trial).iter().all(|(place, _)| place.starts_with(set_up.router.name())),
                "{trial:#?}"
            );
        }
        set_up.router.run(&format!("ip route del {kind} 198.19.0.3/32"));
    }
}

/// Other traffic in the same queue is dropped, too, and is no loss of the trial.
#[test]
fn a_throttled_exit_with_other_traffic() {
    let Some(set_up) = SetUp::new() else { return };
    for (mbps, bytes, watched) in [(5, 64, true), (20, 256, true), (5, 64, false)] {
        let shaper = format!("tc qdisc replace dev rb root tbf rate {mbps}mbit burst 1600 limit 6000");
        if !set_up.router.can(&shaper) {
            return skip::lacks("the queueing discipline tbf");
        }
        let mut tester = set_up.tester(watched);
        // 5 Mb/s carry 10,400 frames of 60 B a second, 20 Mb/s 9,900 of 252 B.
        let offered = offer(20_000.0, bytes, false).lasting(Duration::from_millis(500));
        until_undisturbed("more is sent than the exit carries", || {
            let mut others = set_up.router.command("bash");
            others.args([
                "-c",
                "echo begins >&2; exec 2> /dev/null; while :; do echo others > /dev/udp/198.19.0.2/7; done",
            ]);
            let others = Process::start(others, "begins", Duration::from_secs(60));
            let trial = set_up.trial(&mut tester, &offered);
            drop(others);
            let Some(trial) = trial else { return true };
            let lost = trial.fate.lost - backlog_of(&trial, "");
            let frames: u64 = dropped(&trial).iter().map(|(_, frames)| frames).sum();
            assert_eq!(frames, lost, "{trial:#?}");
            let name = set_up.place(if watched { "rb tbf" } else { "rb qdisc" });
            assert!(dropped(&trial).iter().all(|(place, _)| place.starts_with(&name)), "{trial:#?}");
            assert!(dropped(&trial).len() <= 1, "{trial:#?}");
            lost > 0
        });
    }
}

#[test]
fn a_queue_that_still_holds_frames_at_the_end() {
    let Some(set_up) = SetUp::new() else { return };
    // 2000 frames a second go on, and the queue holds the arrivals of a second.
    if !set_up.router.can("tc qdisc add dev rb root tbf rate 1mbit burst 1600 limit 500000") {
        return skip::lacks("the queueing discipline tbf");
    }
    let mut tester = set_up.tester(true);
    let offer = Offer { drain: Duration::from_millis(100), ..offer(8000.0, 64, false) };
    until_undisturbed("more is sent than goes on in the time, and it is looked at soon", || {
        let outcome = tester.trial(&offer, &|| true).unwrap();
        let trial = document(&tester, &offer, &outcome).unwrap();
        let ledger = &trial.result.ledger;
        assert_eq!(ledger.unexplained, 0, "{trial:#?}");
        assert!(ledger.in_flight <= trial.fate.lost, "{trial:#?}");
        // The next trial begins with an empty queue.
        std::thread::sleep(Duration::from_secs(1));
        ledger.in_flight_at.get(&set_up.place("rb")).is_some_and(|held| *held > 100)
    });
}

#[test]
fn a_nat_in_both_directions() {
    let Some(set_up) = SetUp::new() else { return };
    let nat = "nft 'add table ip n; add chain ip n p { type nat hook postrouting priority 100; }; \
               add rule ip n p oifname rb masquerade'";
    if !set_up.router.can(nat) {
        return skip::lacks("address translation");
    }
    let mut tester = set_up.tester(true);
    let Some(trial) = set_up.trial(&mut tester, &offer(4000.0, 64, false)) else { return };
    assert_eq!(dropped(&trial), [], "{trial:#?}");
}

/// A trial in both directions that agrees with the counters before and behind the device under test. The
/// interfaces' statistics agree, too, except for the frames by which the tester learns the way.
fn both_ways(meters: [[Meter<'_>; 2]; 2], tester: &mut Tester, offer: &Offer) -> DetailedTrial {
    let trial = super::trial(tester, &Offer { bidirectional: true, ..offer.clone() });
    // Frames that a busy machine's backlog and the tester's own ring had no room for: 0 nearly always.
    let (backlog, overflow) = (backlog_of(&trial, ""), own_overflow(&trial));
    for (way, [before, behind]) in trial.directions.iter().zip(&meters) {
        assert!((way.sent - backlog..=way.sent).contains(&before.frames()), "{trial:#?}");
        assert!((way.fate.received..=way.fate.received + overflow).contains(&behind.frames()), "{trial:#?}");
        assert!(way.fate.lost <= backlog && way.fate.corrupted == Some(0), "{trial:#?}");
        let learning = 100 * way.flows.as_ref().map_or(1, |flows| u64::from(flows.count));
        for (meter, frames) in [(before, way.sent - backlog), (behind, way.fate.received)] {
            let most = frames + backlog + overflow + learning;
            assert!((frames..=most).contains(&meter.all()), "{}: {trial:#?}", meter.all());
        }
    }
    assert_eq!(trial.result.ledger.unexplained, 0, "{trial:#?}");
    assert_eq!(trial.fate.lost, backlog, "{trial:#?}");
    trial
}

/// The same with replies, through the router.
fn replied(set_up: &SetUp, tester: &mut Tester, offer: &Offer) -> DetailedTrial {
    let SetUp { ends, router } = set_up;
    let meters = [
        [Meter::of(router, "ra", OURS), Meter::of(ends, "b", OURS)],
        [Meter::of(router, "rb", REPLIES), Meter::of(ends, "a", REPLIES)],
    ];
    tester.flows.replies = true;
    both_ways(meters, tester, offer)
}

#[test]
fn a_bridge_and_a_router_in_both_directions() {
    let Some(bridge) = Net::with_bridge() else { return };
    if !bridge.can("nft list ruleset") {
        return skip::lacks("the kernel's packet filter, or nft");
    }
    bridge.enter();
    let meters = || [["pa", "b"], ["pb", "a"]].map(|way| way.map(|interface| Meter::at(&bridge, interface)));
    both_ways(meters(), &mut tester([None, None], &[]), &offer(4000.0, 64, true));
    let set_up = SetUp::new().unwrap();
    let SetUp { ends, router } = &set_up;
    let mut tester = set_up.tester(true);
    for bytes in [64, 1518] {
        let meters = [
            [Meter::at(router, "ra"), Meter::at(ends, "b")],
            [Meter::at(router, "rb"), Meter::at(ends, "a")],
        ];
        both_ways(meters, &mut tester, &offer(4000.0, bytes, true));
    }
}

/// The far end replies to the addresses and ports that a NAT gave each flow.
#[test]
fn a_nat_that_translates_each_flow_in_both_directions() {
    let Some(set_up) = SetUp::new() else { return };
    let nat = "nft 'add table ip n; add chain ip n p { type nat hook postrouting priority 100; }; \
               add rule ip n p oifname rb masquerade random'";
    if !set_up.router.can(nat) {
        return skip::lacks("address translation");
    }
    set_up.ends.enter();
    // The second end may know its router or not: then it answers the station that the frames came from.
    for gateway in [Some("198.19.0.254"), None] {
        let addresses = ["198.18.0.1-198.18.0.4", "198.19.0.2"];
        let mut tester = tester_of(addresses, [None, None], [Some("198.18.0.254"), gateway], &[]);
        tester.flows = FlowPlan { sports: PortNumbers::from(2000, 50), ..FlowPlan::default() };
        let trial = replied(&set_up, &mut tester, &offer(2000.0, 64, true));
        assert_eq!(trial.directions[0].flows.as_ref().unwrap().count, 200);
        let mix = offer(1000.0, 64, true).with_sizes(Mix::imix_csit());
        replied(&set_up, &mut tester, &mix);
    }
}

/// Fields that a NAT and a marking router rewrite are no damage, though each flow is rewritten in its own way
/// and some frames otherwise than the rest of their flow.
#[test]
fn flows_that_are_each_rewritten_in_another_way() {
    let Some(set_up) = SetUp::new() else { return };
    let nat = "nft 'add table ip n; add chain ip n p { type nat hook postrouting priority 100; }; \
               add rule ip n p oifname rb masquerade random; add chain ip n m { type filter hook forward priority 0; }; \
               add rule ip n m ip dscp set cs1; add rule ip n m numgen inc mod 3 0 ip ecn set ce'";
    if !set_up.router.can(nat) {
        return skip::lacks("address translation");
    }
    set_up.ends.enter();
    let addresses = ["198.18.0.1-198.18.0.4", "198.19.0.2"];
    let gateways = [Some("198.18.0.254"), Some("198.19.0.254")];
    let mut tester = tester_of(addresses, [None, None], gateways, &[]);
    let dscp = Some("0-63".parse().unwrap());
    tester.flows = FlowPlan { sports: PortNumbers::from(2000, 50), dscp, turn: 64, ..FlowPlan::default() };
    let Some(trial) = set_up.trial(&mut tester, &offer(4000.0, 64, false)) else { return };
    assert_eq!(trial.directions[0].flows.as_ref().unwrap().count, 200, "{trial:#?}");
    assert_eq!((trial.fate.corrupted, dropped(&trial)), (Some(0), vec![]), "{trial:#?}");
}

/// A stateful firewall passes replies, and nothing else in that direction.
#[test]
fn a_stateful_firewall_in_both_directions() {
    let Some(set_up) = SetUp::new() else { return };
    let filter = "nft 'add table ip f; add chain ip f c { type filter hook forward priority 0; policy drop; }; \
                  add rule ip f c iifname ra accept; add rule ip f c ct state established accept'";
    if !set_up.router.can(filter) {
        return skip::lacks("connection tracking");
    }
    let mut tester = set_up.tester(false);
    tester.flows = FlowPlan { sports: PortNumbers::from(2000, 100), ..FlowPlan::default() };
    replied(&set_up, &mut tester, &offer(2000.0, 64, true));
    // A packet that is no reply is dropped.
    tester.flows.replies = false;
    let outcome = tester.trial(&offer(2000.0, 64, true), &|| true).unwrap();
    assert!(outcome.learned == Some(false) && outcome.directions[1].received.arrived.received == 0);
    // Where flows do not come through at all, nothing can reply.
    set_up.router.run("nft 'flush chain ip f c'");
    tester.flows.replies = true;
    let error = tester.trial(&offer(2000.0, 64, true), &|| true).err().map(|error| error.to_string());
    assert_eq!(error, None);
}

#[test]
fn a_bridge_whose_filter_drops() {
    let Some(net) = Net::with_bridge() else { return };
    let filter = format!(
        "nft 'add table bridge f; add chain bridge f c {{ type filter hook forward priority 0; }}; \
         add rule bridge f c {OURS} numgen inc mod 10 0 counter drop'"
    );
    if !net.can(&filter) {
        return skip::lacks("the bridge's packet filter");
    }
    net.enter();
    let mut tester = tester([None, None], &[]);
    let offer = offer(4000.0, 64, false);
    let outcome = tester.trial(&offer, &|| true).unwrap();
    let trial = document(&tester, &offer, &outcome).unwrap();
    if let Some(why) = trial.environment.system.get("drop reasons") {
        return skip::lacks(&format!("the kernel's drop reasons: {why}"));
    }
    assert_eq!(trial.result.ledger.unexplained, 0, "{trial:#?}");
    let [(place, frames)] = dropped(&trial)[..] else { panic!("{trial:#?}") };
    assert!(place.starts_with("pa netfilter drop") || place.starts_with("pb netfilter drop"), "{place}");
    assert_eq!(frames, counted(&net, "chain bridge f c"));
}
