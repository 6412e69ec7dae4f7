//! Several streams in one trial: each has its own results, and one ledger explains what is missing of all.

use super::{dropped_by_qdisc, offer, places, tester, trial, with_bridge};
use kpps_documents::detail::{DetailedTrial, StreamCount};
use kpps_namespaces::{skip, until_undisturbed};
use kpps_ports::port::run::Late;
use kpps_tester::{Offer, StreamControl, StreamNow, Tester, parse_streams, streams_pps};
use std::sync::Arc;
use std::time::Duration;

/// An offer of the streams that a text describes, for a quarter of a second.
fn offer_of(tester: &mut Tester, text: &str) -> Offer {
    tester.streams = parse_streams(text, 2).unwrap().into();
    let pps = streams_pps(&tester.streams);
    Offer { streams: tester.streams.clone(), ..offer(pps, 64, false) }
}

/// All frames are accounted for, by stream and in sum. Returns the streams of all directions.
fn accounted(trial: &DetailedTrial) -> Vec<StreamCount> {
    let streams: Vec<_> = trial.directions.iter().flat_map(|way| way.streams.clone()).collect();
    let sum = |count: fn(&StreamCount) -> u64| streams.iter().map(count).sum::<u64>();
    assert_eq!(sum(|it| it.frames.sent), trial.result.sent, "{trial:#?}");
    assert_eq!(sum(|it| it.shortfall.unwrap_or(0)), trial.result.shortfall, "{trial:#?}");
    assert_eq!(sum(|it| it.frames.received), trial.fate.received, "{trial:#?}");
    assert_eq!(sum(|it| it.frames.lost), trial.fate.lost + trial.result.overflow.unwrap(), "{trial:#?}");
    assert_eq!(sum(|it| it.corrupted + it.duplicated + it.reordered), 0, "{trial:#?}");
    assert_eq!(trial.result.ledger.unexplained, 0, "{trial:#?}");
    streams
}

/// Streams with different headers in both directions, some of them not all the time.
#[test]
fn streams_of_many_kinds_come_through_a_bridge() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let offer = offer_of(
        &mut tester,
        r#"
        [[stream]]
        load = "2kpps"
        size = "imix-csit"
        fields = { "udp.sport" = "1000-1009", "ipv4.dscp" = [0, 46] }
        [[stream]]
        load = "1kpps"
        headers = "ethernet/vlan/ipv6/tcp"
        fields = { "vlan.id" = 7, "ipv6.dst" = "2001:2::1-2001:2::5000", "tcp.sequence" = "random:0-99999" }
        [[stream]]
        load = "1kpps"
        headers = "ethernet/svlan/vlan/mpls/ipv4/icmp"
        start = "50ms"
        duration = "100ms"
        [[stream]]
        load = "4kpps"
        headers = "ethernet/ipv4/udp/vxlan/ethernet/ipv4/udp"
        shape = "poisson"
        count = 30
        [[stream]]
        load = "500pps"
        from = 2
        copies = 40
        headers = "ethernet/ipv4/gre/ipv4/udp"
        each = { "ipv4.2.src" = "10.0.0.1-10.0.0.40" }
        "#,
    );
    let trial = trial(&mut tester, &offer);
    let streams = accounted(&trial);
    assert_eq!(streams.len(), 44);
    // On a busy machine some frames are not sent in time, of any stream.
    let due = [500, 250, 100, 30].into_iter().chain([125; 40]);
    for (stream, due) in streams.iter().zip(due) {
        assert!(stream.frames.sent > 0 && stream.frames.sent <= due, "{stream:?}");
        let times = stream.latency_ns.unwrap();
        assert!(times.min > 0 && times.min <= times.mean && times.mean <= times.max, "{stream:?}");
        assert!(stream.percentiles_ns.is_some());
    }
    assert_eq!(trial.fate.intended, 880 + 40 * 125, "{trial:#?}");
}

/// The kernel's filter drops one stream; the others lose nothing.
#[test]
fn a_filter_that_drops_one_stream_is_seen_in_that_stream_only() {
    let Some(net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let offer = offer_of(
        &mut tester,
        r#"
        [[stream]]
        name = "one"
        load = "4kpps"
        [[stream]]
        name = "dropped"
        load = "2kpps"
        fields = { "udp.dport" = 5060 }
        [[stream]]
        name = "three"
        load = "1kpps"
        headers = "ethernet/ipv4/tcp"
        "#,
    );
    net.run(
        "nft 'add table bridge f; add chain bridge f c { type filter hook forward priority 0; }; \
         add rule bridge f c udp dport 5060 limit rate over 500/second burst 10 packets counter drop'",
    );
    let trial = trial(&mut tester, &offer);
    let streams = accounted(&trial);
    let said = net.output("nft list chain bridge f c");
    let (_, count) = said.split_once("counter packets ").unwrap();
    let dropped: u64 = count.split(' ').next().unwrap().parse().unwrap();
    assert!(dropped > 0, "{said}");
    // A busy machine may drop frames of any stream elsewhere.
    let elsewhere = trial.result.ledger.dropped.values().sum::<u64>() - dropped;
    let lost: Vec<_> = streams.iter().map(|it| it.frames.lost).collect();
    assert!(lost[1] >= dropped && lost[1] <= dropped + elsewhere, "{lost:?} {dropped} {trial:#?}");
    assert!(lost[0] + lost[2] <= elsewhere, "{lost:?} {trial:#?}");
    let losses = streams[1].loss.unwrap();
    assert!(losses.first_s < 0.25 && losses.longest_frames > 0, "{losses:?}");
}

/// Two streams share a queue that overflows. The place of their losses is counted once, for both together.
#[test]
fn two_streams_behind_one_queue_have_one_ledger() {
    let Some(net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    if !net.can("tc qdisc add dev pb root tbf rate 1mbit burst 1600 limit 300") {
        return skip::lacks("the queueing discipline tbf");
    }
    let offer = offer_of(
        &mut tester,
        r#"
        [[stream]]
        load = "6kpps"
        [[stream]]
        load = "2kpps"
        size = 128
        fields = { "udp.sport" = "1024-1123" }
        "#,
    );
    until_undisturbed("the queue is full", || {
        let before = dropped_by_qdisc(&net, "pb");
        let trial = trial(&mut tester, &offer);
        let streams = accounted(&trial);
        let dropped = trial.result.ledger.dropped.get("pb tbf").copied().unwrap_or(0);
        assert_eq!(dropped, dropped_by_qdisc(&net, "pb") - before, "{trial:#?}");
        assert_eq!(trial.fate.lost, dropped + places::backlog_of(&trial, ""), "{trial:#?}");
        streams.iter().all(|stream| stream.frames.lost > 0)
    });
}

/// A thousand streams, as fast as the port takes them: they share the frames evenly.
#[test]
fn a_thousand_streams_share_a_flood() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let mut offer = offer_of(
        &mut tester,
        r#"
        [[stream]]
        copies = 1000
        load = "10pps"
        each = { "udp.sport" = "1024-2023" }
        fields = { "ipv4.id" = "0-65535" }
        "#,
    );
    offer.load.rate = kpps_frames::rate::Rate::Max;
    offer.load.duration = Duration::from_millis(100);
    let trial = trial(&mut tester, &offer);
    let streams = accounted(&trial);
    let sent = streams.iter().map(|it| it.frames.sent);
    let (least, most) = (sent.clone().min().unwrap(), sent.max().unwrap());
    assert!(streams.len() == 1000 && most - least <= 1, "{least} to {most}");
    assert!(streams.iter().all(|it| it.percentiles_ns.is_none() && it.load_pps.is_none()));
}

/// Streams above line rate, without room for a tag, or too long for a port are refused before a frame is
/// sent.
#[test]
fn impossible_streams_are_refused() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let mut refused = |text: &str| {
        let offer = offer_of(&mut tester, text);
        tester.trial(&offer, &|| true).err().unwrap().to_string()
    };
    let said = refused("[[stream]]\nload = \"20Mpps\"\nsize = 128");
    assert!(said.contains("line rate") || said.contains("10000"), "{said}");
    let said = refused("[[stream]]\nload = \"1kpps\"\nsize = 9000");
    assert!(said.contains("too long") || said.contains("9000"), "{said}");
}

/// Streams are started, stopped and started again while another one runs, and their counts are those of the
/// result.
#[test]
fn streams_are_started_and_stopped_one_by_one() {
    let Some(_net) = with_bridge() else { return };
    let mut tester = tester([None, None], &[]);
    let offer = offer_of(
        &mut tester,
        r#"
        [[stream]]
        load = "1kpps"
        size = "64:1,200:1"
        [[stream]]
        load = "2kpps"
        count = 50
        [[stream]]
        load = "500pps"
        from = 2
        "#,
    )
    .lasting(Duration::from_secs(600));
    let control = Arc::new(StreamControl::new(2, &offer.streams, true));
    let offer = Offer { late: Late::Send, control: Some(control.clone()), ..offer };
    let (outcome, halted, last) = std::thread::scope(|scope| {
        let trial = scope.spawn(|| tester.trial(&offer, &|| true).unwrap());
        // Whatever this thread finds, the trial ends.
        let end = Ends(&control);
        let until = |what: &str, is_so: &dyn Fn(&[StreamNow]) -> bool| until(&control, what, is_so);
        let quiet = control.snapshot();
        assert!(quiet.iter().all(|stream| stream.sent == 0 && !stream.is_sending), "{quiet:?}");
        control.start(&[0, 1, 2]);
        let now = until("through", &|now| now[1].received == 50 && !now[1].is_sending);
        assert!(now[0].is_sending && now[2].is_sending, "{now:?}");
        assert!(now[1].latency.is_some_and(|times| times.max > 0), "{now:?}");
        control.stop(&[0]);
        let halted = until("stopped", &|now| !now[0].is_sending && now[0].received == now[0].sent);
        control.start(&[1]);
        control.set_pps(2, 5000.0);
        let last = until("through again", &|now| now[1].received == 100 && !now[1].is_sending);
        drop(end);
        (trial.join().unwrap(), halted, last)
    });
    let trial = kpps_tester::document(&tester, &offer, &outcome).unwrap();
    assert!(trial.complete && trial.result.seconds < 600.0, "{trial:#?}");
    let streams = accounted(&trial);
    let sent: Vec<_> = streams.iter().map(|it| it.frames.sent).collect();
    assert_eq!([sent[0], sent[1]], [halted[0].sent, 100], "{trial:#?}");
    assert!(last[0].sent == halted[0].sent && last[2].sent <= sent[2], "{last:?} {sent:?}");
    assert_eq!(halted[0].received_sizes.iter().sum::<u64>(), halted[0].received);
    assert_eq!(trial.fate.intended, trial.result.sent + trial.result.shortfall);
    assert!(trial.directions.iter().all(|way| way.lateness.is_some()));
}

/// Waits for counts of the streams of a running trial.
pub fn until(control: &StreamControl, what: &str, is_so: &dyn Fn(&[StreamNow]) -> bool) -> Vec<StreamNow> {
    let begun = std::time::Instant::now();
    loop {
        let now = control.snapshot();
        assert!(now.iter().all(|stream| stream.received <= stream.sent), "{now:?}");
        if is_so(&now) {
            return now;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "not {what}: {now:?}");
    }
}

/// Ends a trial when it goes.
pub struct Ends<'c>(pub &'c StreamControl);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
