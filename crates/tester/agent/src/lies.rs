//! Agents that lie. One process, over the loopback interface: a liar passes a tester's questions on to an
//! honest agent, and changes the answers.

#![allow(clippy::unwrap_used)]

use crate::fuzzing::believed;
use crate::proto::agent_client::AgentClient;
use crate::proto::agent_server::{self, AgentServer};
use crate::proto::answer::Answer as AnswerKind;
use crate::proto::{self, Answer, Question};
use crate::session::LEASE;
use crate::{Agent, Host, Network, Rules, Security, TEST_NETWORKS, Token, connect};
use kpps_documents::Doubt;
use kpps_documents::detail::DetailedTrial;
use kpps_frames::Size;
use kpps_frames::flows::Addresses;
use kpps_methods::Load;
use kpps_ports::port::Options;
use kpps_ports::port::run::{Late, Shape};
use kpps_tester::clock::Clock;
use kpps_tester::{Address, Allowed, Offer, Site, TestPort, Tester, document};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

/// The change of an honest answer.
type Lie = Arc<Mutex<dyn FnMut(&mut AnswerKind) + Send>>;

struct Liar {
    honest: SocketAddr,
    lie: Lie,
}

#[tonic::async_trait]
impl agent_server::Agent for Liar {
    type SessionStream = ReceiverStream<Result<Answer, Status>>;

    async fn session(
        &self,
        call: Request<Streaming<Question>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let channel = Channel::from_shared(format!("http://{}", self.honest)).unwrap().connect().await;
        let questions = call.into_inner().filter_map(Result::ok);
        let client = AgentClient::new(channel.unwrap()).max_decoding_message_size(usize::MAX);
        let mut answers = { client }.session(security().show(Request::new(questions))).await?.into_inner();
        let (to, stream) = tokio::sync::mpsc::channel(4);
        let lie = self.lie.clone();
        tokio::spawn(async move {
            while let Ok(Some(mut answer)) = answers.message().await {
                answer.answer.iter_mut().for_each(|says| (lie.lock().unwrap())(says));
                if to.send(Ok(answer)).await.is_err() {
                    break;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

fn security() -> Security {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0123456789abcdef").unwrap();
    Security::Token(Token::read(file.path()).unwrap())
}

fn honest() -> Agent {
    let destinations = Network::list(TEST_NETWORKS).unwrap();
    let rules = Rules { ports: vec!["udp:".parse().unwrap()], allowed: Allowed::ALL, destinations };
    let listen = "127.0.0.1:0".parse().unwrap();
    Agent::start(listen, rules, security(), Clock::here().clone(), |line| eprintln!("{line}")).unwrap()
}

/// A liar, as long as the runtime exists.
fn liar(runtime: &Runtime, honest: SocketAddr, lie: Lie) -> SocketAddr {
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = AgentServer::new(Liar { honest, lie }).max_encoding_message_size(usize::MAX);
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(async move { Server::builder().serve_with_incoming(service, incoming).await });
        address
    })
}

/// A trial in which the agent of port `at` lies; `None` if it comes to none.
fn trial(at: usize, lie: impl FnMut(&mut AnswerKind) + Send + 'static) -> Option<DetailedTrial> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let agents = [honest(), honest()];
    let mut addresses = [0, 1].map(|at| agents[at].address());
    addresses[at] = liar(&runtime, addresses[at], Arc::new(Mutex::new(lie)));
    let free = kpps_namespaces::own_port();
    let specs = [format!("udp:127.0.0.1:{free}"), format!("udp::{free}")];
    let mut sites = Vec::new();
    let mut ports: Vec<Box<dyn TestPort>> = Vec::new();
    for at in [0, 1] {
        let host: Host = addresses[at].to_string().parse().unwrap();
        let options = Options::default();
        let connected = connect(&host, &specs[at].parse().unwrap(), &options, &[], &security());
        let (port, there) = match connected {
            Ok(both) => both,
            Err(error) => return one_line(&error.to_string()),
        };
        ports.push(Box::new(port));
        sites.push(Site { name: Some(["near", "far"][at].into()), host: Box::new(there), ports: vec![at] });
    }
    let address = |ip: [u8; 4]| Address {
        ips: Addresses::from(ip.into(), 1),
        gateway: None,
        to: None,
        encap: Default::default(),
    };
    let mut tester = Tester::with(ports, [address([198, 18, 0, 1]), address([198, 19, 0, 2])], sites);
    let offer = offer();
    let begun = Instant::now();
    let outcome = tester.trial(&offer, &|| begun.elapsed() < Duration::from_secs(60));
    match outcome {
        Ok(outcome) => {
            let document = document(&tester, &offer, &outcome);
            // It can be published, whatever is in it.
            document.iter().for_each(|trial| {
                assert!(trial.to_json().is_ok() && trial.cycles_per_frame() != Some(f64::NAN))
            });
            document
        }
        Err(error) => one_line(&error.to_string()),
    }
}

fn one_line<T>(said: &str) -> Option<T> {
    assert!(!said.contains(|it: char| it.is_control()), "{said:?}");
    None
}

fn offer() -> Offer {
    Offer {
        load: Load::of(1000.0, Size::MIN).lasting_ms(0, 200),
        shape: Shape::Constant,
        count: None,
        drain: Duration::from_millis(300),
        bidirectional: false,
        keep: false,
        replay: None,
        streams: [].into(),
        every: Some(Duration::from_millis(50)),
        late: Late::Skip,
        control: None,
    }
}

fn in_done(change: fn(&mut proto::Done)) -> impl FnMut(&mut AnswerKind) + Send + 'static {
    move |says| {
        if let AnswerKind::Done(done) = says {
            change(done);
        }
    }
}

fn in_counted(change: fn(&mut proto::Counted)) -> impl FnMut(&mut AnswerKind) + Send + 'static {
    move |says| {
        if let AnswerKind::Counted(counted) = says {
            change(counted);
        }
    }
}

/// The values that were left out, in words.
fn left_out(trial: &DetailedTrial) -> Vec<&str> {
    let each = trial.doubts.iter().filter_map(|doubt| match doubt {
        Doubt::Unbelievable { values } => Some(values.as_str()),
        _ => None,
    });
    each.collect()
}

/// A bad value is left out and named, and all others stay.
#[test]
fn what_cannot_be_is_left_out_and_the_rest_stays() {
    let is_whole = |trial: &DetailedTrial| {
        assert!(trial.complete, "{trial:?}");
        assert_eq!(
            (trial.fate.intended, trial.result.sent + trial.result.shortfall),
            (200, 200),
            "{trial:?}"
        );
        assert!(trial.fate.received > 0 && trial.fate.received <= trial.result.sent, "{trial:?}");
    };
    let cycles =
        trial(0, in_counted(|counted| counted.cpus.iter_mut().for_each(|cpu| cpu.cycles = Some(u64::MAX))));
    let trial_of = |lie: Option<DetailedTrial>, what: &str| {
        let trial = lie.unwrap();
        is_whole(&trial);
        let named = left_out(&trial);
        assert!(named.iter().any(|it| it.contains(what)), "{what}: {named:?}");
        trial
    };
    let seen = trial_of(cycles, "near/cycles");
    assert!(!seen.cpus.is_empty() && seen.cpus.iter().all(|cpu| cpu.cycles.is_none()), "{seen:?}");
    let seen = trial_of(trial(1, in_counted(|counted| counted.cpus[0].user_s = f64::NAN)), "far/CPU times");
    assert!(seen.cpu_names().len() == seen.cpus.len() && !seen.cpus.is_empty(), "{seen:?}");
    let seen = trial_of(
        trial(1, in_counted(|counted| _ = counted.dropped.insert("x\ny".into(), u64::MAX))),
        "frames dropped at x y",
    );
    assert!(seen.result.ledger.dropped.keys().all(|place| !place.contains('x')), "{seen:?}");
    let seen = trial_of(trial(1, in_done(|done| done.latency[0].frames[0] = u64::MAX)), "latencies");
    assert_eq!(seen.result.latency_ns.p50, None);
    assert!(!seen.directions[0].series.is_empty());
    let seen = trial_of(trial(1, in_done(|done| done.latency[0].ns.clear())), "latencies");
    assert_eq!(seen.result.latency_ns.p50, None);
    let seen = trial_of(trial(1, in_done(|done| done.line.as_mut().unwrap().interval_ns = 1)), "time series");
    assert!(seen.directions[0].series.is_empty() && seen.result.latency_ns.p50.is_some(), "{seen:?}");
    let seen = trial_of(
        trial(0, in_done(|done| done.line.as_mut().unwrap().points[0].due = u64::MAX)),
        "time series",
    );
    assert!(seen.directions[0].series.is_empty() && seen.directions[0].gaps.is_some(), "{seen:?}");
    let seen = trial_of(
        trial(0, in_done(|done| done.gaps.as_mut().unwrap().intended_ns = Some(f64::NAN))),
        "gaps between frames",
    );
    assert!(seen.directions[0].gaps.is_none() && !seen.directions[0].series.is_empty(), "{seen:?}");
    let nan = proto::RateChange { at_s: f64::NAN, offered_pps: -1.0 };
    trial_of(
        trial(0, move |says| {
            if let AnswerKind::Done(done) = says {
                done.rate_changes = vec![nan]
            }
        }),
        "changes",
    );
    trial_of(trial(0, in_done(|done| (done.begun_ns, done.elapsed_ns) = (u64::MAX, u64::MAX))), "began");
    let flows = |done: &mut proto::Done| done.flows = vec![proto::Flow::default(); 9];
    let seen = trial_of(trial(1, in_done(flows)), "flows");
    assert_eq!(seen.directions[0].flows, None);
}

/// Without the number of frames there is no whole trial: the last report is used, and the counts of the other
/// side stay.
#[test]
fn counts_of_frames_that_cannot_be_end_the_trial_and_keep_the_other_side() {
    for (at, lie, what) in [
        (0, (|done| done.sent = u64::MAX) as fn(&mut proto::Done), "number of sent frames"),
        (0, |done| done.intended = u64::MAX - 1, "number of sent frames"),
        (1, |done| done.arrived.as_mut().unwrap().received = u64::MAX, "number of received frames"),
        (1, |done| done.arrived.as_mut().unwrap().duplicated = u64::MAX, "number of received frames"),
    ] {
        let trial = trial(at, in_done(lie)).unwrap();
        let trouble = trial.trouble.clone().unwrap();
        assert!(!trial.complete && trouble.contains(what), "{trouble}");
        assert!(
            trial.fate.intended <= 200 && trial.result.sent <= 200 && trial.fate.received <= 200,
            "{trial:?}"
        );
        if at == 0 {
            assert!(trial.fate.received > 0, "{trial:?}");
        } else {
            assert!(trial.result.sent > 0 && trial.directions[0].gaps.is_some(), "{trial:?}");
        }
    }
}

/// Reports without an end, or with the numbers that mean something to the tester.
#[test]
fn a_trial_ends_whatever_is_reported() {
    for report in [
        proto::Progress { sent: u64::MAX, sent_all: true, received: u64::MAX, ..proto::Progress::default() },
        proto::Progress { missed: Some(u64::MAX), shortfall: Some(u64::MAX), ..proto::Progress::default() },
    ] {
        for at in [0, 1] {
            let (to, ended) = mpsc::channel();
            std::thread::spawn(move || {
                let endless = move |says: &mut AnswerKind| {
                    if matches!(says, AnswerKind::Done(_) | AnswerKind::Progress(_)) {
                        *says = AnswerKind::Progress(report);
                    }
                };
                let _ = to.send(trial(at, endless));
            });
            // The agent's trial is over soon, and then it refuses reports: so either is the end.
            let trial = ended.recv_timeout(6 * LEASE + Duration::from_secs(30)).expect("no end").unwrap();
            let trouble = trial.trouble.clone().unwrap();
            assert!(!trial.complete && !trouble.is_empty(), "{trial:?}");
            assert!(trial.result.sent < 10_000 && trial.fate.received < 10_000, "{trial:?}");
        }
    }
}

/// Before the trial, too.
#[test]
fn ports_clocks_and_frames_that_cannot_be() {
    let lies: [fn(&mut AnswerKind); 6] = [
        |says| {
            if let AnswerKind::Port(port) = says {
                port.max_load_pps = f64::NAN
            }
        },
        |says| {
            if let AnswerKind::Port(port) = says {
                (port.speed_mbps, port.longest_bytes) = (Some(0), Some(0))
            }
        },
        |says| {
            if let AnswerKind::Port(port) = says {
                (port.udp_port, port.clock_id) = (u32::MAX, "a\x1b[2J".into())
            }
        },
        |says| {
            if let AnswerKind::Port(port) = says {
                (port.udp_port, port.clock_id) = (0, "another".into());
            }
            if let AnswerKind::Clock(clock) = says {
                (clock.came_ns, clock.left_ns) = (u64::MAX, 0);
            }
        },
        |says| {
            if let AnswerKind::Relayed(relayed) = says {
                relayed.taken = u32::MAX
            }
        },
        |says| {
            if let AnswerKind::Described(said) = says {
                _ = said.environment.insert("a\nb".into(), "c\rd".into())
            }
        },
    ];
    for lie in lies {
        for at in [0, 1] {
            if let Some(trial) = trial(at, lie) {
                assert!(
                    trial
                        .environment
                        .system
                        .iter()
                        .all(|(name, what)| !(name.clone() + what).contains(['\n', '\r']))
                );
            }
        }
    }
}

/// Random values in every field.
#[test]
fn nothing_that_is_believed_is_nonsense() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut any = || match random.u32(..4) {
        0 => random.u64(..300),
        1 => u64::MAX - random.u64(..3),
        2 => 1 << random.u32(..64),
        _ => random.u64(..),
    };
    for _ in 0..2000 {
        let mut float = || f64::from_bits(any());
        let cpu = proto::CpuTimes {
            user_s: float(),
            system_s: float(),
            irq_s: float(),
            softirq_s: float(),
            idle_s: float(),
            steal_s: float(),
            cycles: None,
        };
        let change = proto::RateChange { at_s: float(), offered_pps: float() };
        let intended_ns = Some(float());
        let some: Vec<u64> = (0..any() % 6).map(|_| any()).collect();
        let names = || ["a", "b", "c\u{7}"].map(str::to_owned).into_iter().zip(some.clone()).collect();
        let counts = proto::Counts { counts: names() };
        let latency = |any: &mut dyn FnMut() -> u64| proto::Latency {
            ns: (0..any() % 4).map(|_| any()).collect(),
            frames: (0..any() % 4).map(|_| any()).collect(),
        };
        let flow_latency = |any: &mut dyn FnMut() -> u64| proto::FlowLatency {
            min_ns: any(),
            mean_ns: any(),
            max_ns: any(),
            jitter_ns: Some(any()),
        };
        let lost = |any: &mut dyn FnMut() -> u64| proto::Lost {
            first: any(),
            frames: any(),
            gap_first: any(),
            gap_end: any(),
            before_ps: Some(any()),
            behind_ps: Some(any()),
        };
        let point = proto::Point {
            due: any(),
            given: any(),
            refused: any(),
            received: any(),
            missed: any(),
            latency: Some(latency(&mut any)),
        };
        believed(AnswerKind::Counted(proto::Counted {
            dropped: names(),
            in_flight_at: names(),
            interfaces: [("e".to_owned(), counts.clone())].into(),
            ip: [("n".to_owned(), counts)].into(),
            cpus: vec![proto::CpuTimes { cycles: Some(any()), ..cpu }, cpu],
            softnet: names(),
            interrupts: names(),
            softirqs: names(),
            possible: some.iter().map(|&frames| proto::Possible { place: "p".into(), frames }).collect(),
            excess: names(),
            copies: names(),
        }));
        believed(AnswerKind::Done(proto::Done {
            intended: any(),
            sent: any(),
            given: any(),
            elapsed_ns: any(),
            gaps: Some(proto::Gaps {
                intended_ns,
                count: any(),
                within: any(),
                p50_ns: any(),
                max_ns: any(),
                waited_ns: Some(any()),
                ..proto::Gaps::default()
            }),
            arrived: Some(proto::Arrived {
                received: any(),
                duplicated: any(),
                reordered: any(),
                corrupted: any(),
                other_traffic: any(),
                nameless: any(),
                tagless: any(),
            }),
            last_gap_ns: Some(any()),
            variation: Some(proto::Variation { pairs: any(), sum_ns: any() }),
            losses: Some(proto::Losses {
                first: Some(lost(&mut any)),
                longest: Some(lost(&mut any)),
                frames: any(),
            }),
            latency: (0..any() % 3).map(|_| latency(&mut any)).collect(),
            missed: Some(any()),
            errors: Some(any()),
            trouble: None,
            flows: some
                .iter()
                .map(|&sent| proto::Flow {
                    sent,
                    received: any(),
                    reordered: any(),
                    latency: Some(flow_latency(&mut any)),
                })
                .collect(),
            sizes: some.iter().map(|&sent| proto::OfSize { sent, received: any() }).collect(),
            kept: Vec::new(),
            not_kept: any(),
            by_kernel: true,
            clock_set_ns: Some(any() as i64),
            taken: Some(any()),
            begun_ns: any(),
            line: Some(proto::Timeline { interval_ns: any(), points: vec![point; some.len()] }),
            rate_changes: vec![change],
            cut_off: false,
            queue_growth: Some(any()),
            disturbance: Some(proto::Disturbance {
                frames: any(),
                pauses: any(),
                longest: Some(proto::Pause { at_ns: any(), lasted_ns: any(), ..proto::Pause::default() }),
            }),
            findings: Some(proto::Findings {
                retagged: any(),
                came: vec![any() as u32; some.len()],
                expected: vec![any() as u32],
                fragments: any(),
            }),
        }));
        believed(AnswerKind::Progress(proto::Progress {
            sent: any(),
            received: any(),
            sent_all: true,
            shortfall: Some(any()),
            missed: Some(any()),
            p50_ns: Some(any()),
            p99_ns: Some(any()),
            absent: Some(any()),
        }));
    }
}
