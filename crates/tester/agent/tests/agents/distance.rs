//! Agents that are far away: their messages take a while, and are cut off for some seconds. Other traffic
//! reaches their ports meanwhile. That takes root; without, these tests say so and pass.

use crate::namespaces::{Lab, addresses, offer, tester_at, tester_of_one_process};
use kpps_frames::Mac;
use kpps_namespaces::until_undisturbed;
use kpps_ports::port::{Options, open};
use kpps_tester::{LocalPort, Offer, TestPort, Tester, document};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a message takes in each direction.
const ONE_WAY: Duration = Duration::from_millis(10);
/// A test that would never end fails after this long.
const TEST_TIMEOUT: Duration = Duration::from_secs(90);

/// A place from which an agent is far away; returns its address.
fn far(agent: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Threads begin in the namespace of this one.
    std::thread::spawn(move || {
        for here in listener.incoming() {
            let (here, there) = (here.unwrap(), TcpStream::connect(agent).unwrap());
            for (from, to) in [(&here, &there), (&there, &here)] {
                to.set_nodelay(true).unwrap();
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || late(from, to));
            }
        }
    });
    address
}

/// Carries bytes, each [`ONE_WAY`] later.
fn late(mut from: TcpStream, mut to: TcpStream) {
    let (on_their_way, arriving) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        for (sent, bytes) in arriving {
            std::thread::sleep((sent + ONE_WAY).saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if on_their_way.send((Instant::now(), bytes[..count].to_vec())).is_err() {
            break;
        }
    }
}

/// Another station on the segment, which broadcasts until it is dropped.
struct Stranger {
    sent: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

impl Stranger {
    /// Sends `burst` broadcasts at a time, and pauses for `pause` in between.
    fn start(lab: &Lab, burst: usize, pause: Duration) -> Self {
        lab.nets.tester.run(
            "ip link add name stranger type veth peer name way && ip link set dev way master dut &&
             ip link set dev way up && ip link set dev stranger up",
        );
        let spec = "packet:stranger".parse().unwrap();
        let port = open(std::slice::from_ref(&spec), &Options::default()).unwrap().pop().unwrap();
        let mut port = LocalPort::new(&spec, port).unwrap();
        let (sent, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (sent.clone(), ends.clone());
        std::thread::spawn(move || {
            // Of an EtherType for experiments (IEEE 802, 9.2.4).
            let mut frame = [&Mac::BROADCAST.0[..], &port.mac().0, &[0x88, 0xb5]].concat();
            frame.resize(60, 0);
            let frames = vec![frame; burst];
            while !end.load(Ordering::Relaxed) {
                let went = port.send_now(&frames).unwrap();
                count.fetch_add(went as u64, Ordering::Relaxed);
                std::thread::sleep(pause);
            }
        });
        Self { sent, ends }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// A tester of agents that are far away.
fn far_tester(lab: &Lab) -> Tester {
    let there = ["10.9.0.1:5777", "10.9.0.2:5777"].map(far);
    tester_at(&lab.security("token"), [&there[0], &there[1]], addresses())
}

/// The result of `work`, which must be ready within [`TEST_TIMEOUT`].
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (to, done) = mpsc::channel();
    std::thread::spawn(move || to.send(work()));
    done.recv_timeout(TEST_TIMEOUT).unwrap_or_else(|_| panic!("{what}: not within {TEST_TIMEOUT:?}"))
}

fn short() -> Offer {
    Offer { drain: Duration::from_millis(500), ..offer(1000.0, Duration::from_millis(250)) }
}

/// A hundred broadcasts a second: each time that an agent was asked for frames, there were some. And as many
/// as a port can take, which the connection to an agent could not carry.
#[test]
fn broadcasts_of_others_do_not_keep_a_trial_from_starting() {
    for (burst, pause) in [(1, Duration::from_millis(10)), (200, Duration::from_millis(2))] {
        let Some(lab) = Lab::new() else { return };
        lab.nets.tester.enter();
        let _agents = lab.agents(["token"; 2]);
        let stranger = Stranger::start(&lab, burst, pause);
        let mut tester = far_tester(&lab);
        in_time("trials beside broadcasts", move || {
            // On a busy machine queues overflow before agents get a CPU to look into them.
            until_undisturbed("learning frames come through", || {
                let before = stranger.sent();
                let offer = Offer { bidirectional: true, ..short() };
                let outcome = tester.trial(&offer, &|| true).unwrap();
                let trial = document(&tester, &offer, &outcome).unwrap();
                assert!(stranger.sent() > before && trial.complete, "{trial:?}");
                assert!(trial.fate.received > 0 && trial.fate.intended == 500, "{trial:?}");
                let overflow = trial.result.overflow.unwrap();
                assert_eq!(trial.result.sent, trial.fate.received + trial.fate.lost + overflow, "{trial:?}");
                trial.learned == Some(true)
            });
        });
    }
}

/// Nothing comes through, and others' frames come all the time: who does not want to wait need not.
#[test]
fn the_first_interrupt_ends_learning() {
    let Some(lab) = Lab::new() else { return };
    lab.nets.tester.enter();
    let _agents = lab.agents(["token"; 2]);
    let stranger = Stranger::start(&lab, 2, Duration::from_millis(1));
    // Frames for the second port are lost; those of the stranger reach the first one.
    lab.nets.tester.run("ip link set dev dut2 nomaster");
    let mut tester = far_tester(&lab);
    let asked = in_time("an interrupted trial", move || {
        let asked = AtomicUsize::new(0);
        let outcome = tester.trial(&short(), &|| asked.fetch_add(1, Ordering::Relaxed) < 1);
        assert!(!outcome.unwrap().complete && stranger.sent() > 0);
        asked.into_inner()
    });
    assert!(asked > 1);
}

/// The network to an agent is cut off for two seconds in the middle of a trial, to each in turn: the trial
/// goes on, and has all frames.
#[test]
fn a_network_that_is_cut_off_for_a_while_does_not_end_a_trial() {
    let Some(lab) = Lab::new() else { return };
    lab.nets.tester.enter();
    let _agents = lab.agents(["token"; 2]);
    let there = ["10.9.0.1", "10.9.0.2"];
    // On a busy machine a trial may be over before the network works again, and `nft` may take seconds to cut
    // it off and to mend it. TCP waits twice as long before each further attempt: after a cut of more than
    // three seconds an answer may take as long as a tester waits.
    let longest = Duration::from_secs(3);
    let survives = |cut: usize| {
        // The rules of an earlier try.
        lab.nets.agents[cut].can("nft delete table inet cut");
        let mut tester = tester_at(&lab.security("token"), there, addresses());
        let gauges = tester.gauges();
        let begun = Cell::new(None);
        // The agent's end drops every frame and every answer silently.
        let rules = "add table inet cut
             add chain inet cut in { type filter hook input priority 0; policy drop; }
             add chain inet cut out { type filter hook output priority 0; policy drop; }";
        let length = Duration::from_secs(5);
        let offer = Offer { bidirectional: true, ..offer(1000.0, length) };
        let outcome = tester.trial(&offer, &|| {
            let under_way = gauges.so_far().is_some_and(|(_, sent, received)| sent > 200 && received > 200);
            match begun.get() {
                None if under_way => {
                    let since = Instant::now();
                    lab.nets.agents[cut].run(&format!("nft '{rules}'"));
                    begun.set(Some((since, None)));
                }
                Some((since, None)) if since.elapsed() >= Duration::from_secs(2) => {
                    lab.nets.agents[cut].run("nft delete table inet cut");
                    begun.set(Some((since, Some(since.elapsed()))));
                }
                _ => {}
            }
            true
        });
        let outcome = outcome.unwrap();
        if !matches!(begun.get(), Some((_, Some(lasted))) if lasted <= longest) {
            return false;
        }
        let trial = document(&tester, &offer, &outcome).unwrap();
        assert!(trial.complete && trial.trouble.is_none(), "{:?}", trial.trouble);
        assert_eq!((trial.fate.intended, trial.result.ledger.unexplained), (10_000, 0), "{trial:?}");
        assert_eq!(trial.result.sent, trial.fate.received + trial.fate.lost + trial.result.overflow.unwrap());
        true
    };
    for cut in [0, 1] {
        until_undisturbed("the network is cut off, and then no longer", || survives(cut));
    }
}

/// Ports of this process, beside broadcasts so frequent that each poll finds some. The tester does not wait
/// for them to end before a trial.
#[test]
fn local_ports_do_not_wait_for_others_to_be_quiet() {
    let Some(lab) = Lab::new() else { return };
    lab.nets.tester.enter();
    let mut tester = tester_of_one_process(&lab);
    let _stranger = Stranger::start(&lab, 200, Duration::from_millis(2));
    let offer = Offer { bidirectional: true, ..short() };
    tester.flows.replies = true;
    let (to, done) = mpsc::channel();
    std::thread::spawn(move || {
        // For a quiet path it took 2 s each of three times.
        until_undisturbed("a trial begins at once", || {
            let begun = Instant::now();
            let outcome = tester.trial(&offer, &|| true).unwrap();
            assert!(outcome.learned == Some(true) && outcome.complete, "{:?}", outcome.trouble);
            begun.elapsed() < Duration::from_secs(2)
        });
        to.send(())
    });
    done.recv_timeout(TEST_TIMEOUT).expect("no trial begins at once");
}
