//! Clients that speak the protocol and violate it. One
//! process, over the loopback interface. Nothing here depends on how fast a busy machine is: what must come
//! is waited for, and what must end ends long before what would happen otherwise.

#![allow(clippy::unwrap_used)]

use crate::guests::{FAILURES, MOST_OF_ONE};
use crate::parts::{LONGEST, split};
use crate::proto::agent_client::AgentClient;
use crate::proto::answer::Answer as Says;
use crate::proto::question::Question as Asks;
use crate::proto::{self, Answer, Question};
use crate::{Agent, Network, Rules, Security, TEST_NETWORKS, Token, convert, keys};
use kpps_frames::encap::Tags;
use kpps_frames::flows::Addresses;
use kpps_frames::{Mac, Templates};
use kpps_ports::port::run::{Load, Plan, Shape};
use kpps_tester::clock::Clock;
use kpps_tester::neighbours::Station;
use kpps_tester::{Allowed, Task};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// How long what must come is waited for.
const PATIENCE: Duration = Duration::from_secs(90);
/// A trial that goes on for longer than any test.
const LONG: Duration = Duration::from_secs(600);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn token(text: &str) -> Security {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Security::Token(Token::read(file.path()).unwrap())
}

fn good() -> Security {
    token("0123456789abcdef")
}

fn start(security: Security, allowed: Allowed) -> Agent {
    let ports = vec!["udp:".parse().unwrap()];
    let rules = Rules { ports, allowed, destinations: Network::list(TEST_NETWORKS).unwrap() };
    let listen = "127.0.0.1:0".parse().unwrap();
    Agent::start(listen, rules, security, Clock::here().clone(), |line| eprintln!("{line}")).unwrap()
}

async fn channel(agent: &Agent) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", agent.address())).unwrap();
    // Few answers that nobody reads fit into it.
    endpoint.initial_stream_window_size(256).connect().await.unwrap()
}

/// A session of a tester that does what it likes.
struct Session {
    questions: mpsc::Sender<Question>,
    answers: Streaming<Answer>,
}

impl Session {
    async fn over(channel: Channel, security: &Security) -> Result<Self, Status> {
        let (questions, stream) = mpsc::channel(4);
        let mut client = AgentClient::new(channel).max_encoding_message_size(usize::MAX);
        let answers = client.session(security.show(Request::new(ReceiverStream::new(stream)))).await?;
        Ok(Self { questions, answers: answers.into_inner() })
    }

    async fn with(agent: &Agent) -> Self {
        Self::over(channel(agent).await, &good()).await.unwrap()
    }

    async fn says(&self, asks: Asks) -> bool {
        self.questions.send(Question { question: Some(asks) }).await.is_ok()
    }

    /// The answer; `None` if there is none any more.
    async fn asks(&mut self, asks: Asks) -> Option<Says> {
        self.says(asks).await;
        let answer = tokio::time::timeout(PATIENCE, self.answers.message()).await.expect("no answer");
        answer.ok()??.answer
    }

    /// The answer to work.
    async fn works(&mut self, work: proto::Work) -> Option<Says> {
        let mut all = split(&work);
        let begin = all.pop().unwrap();
        for part in all {
            self.says(part).await;
        }
        self.asks(begin).await
    }

    async fn refused(&mut self, asks: Asks) -> String {
        why(self.asks(asks).await)
    }

    /// Opens a port.
    async fn opens(agent: &Agent, port: &str) -> Self {
        let mut session = Self::with(agent).await;
        let says = session.asks(open(port, &[])).await;
        assert!(matches!(says, Some(Says::Port(_))), "{says:?}");
        session
    }
}

/// Why something is refused.
fn why(says: Option<Says>) -> String {
    match says {
        Some(Says::Refused(why)) if !why.contains('\n') && !why.contains("panicked") => why,
        other => panic!("{other:?}"),
    }
}

fn open(port: &str, others: &[&str]) -> Asks {
    Asks::Open(proto::Open {
        version: env!("CARGO_PKG_VERSION").into(),
        port: port.into(),
        others: others.iter().map(|&name| name.to_owned()).collect(),
        ..proto::Open::default()
    })
}

/// A socket, and the port that sends to it.
fn target() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = format!("udp:{}", socket.local_addr().unwrap());
    (socket, port)
}

/// A load for a long time.
fn work(pps: f64) -> proto::Work {
    let task = Task {
        at: 0,
        station: Station {
            mac: Mac([2; 6]),
            tags: Tags::default(),
            ips: Addresses::from(Ipv4Addr::LOCALHOST.into(), 1),
        },
        plan: Some(Plan {
            load: Load::Pps(pps),
            shape: Shape::Constant,
            times: None,
            as_they_are: false,
            frames: Arc::new(Templates::one(&[1; 60])),
            rewrite: true,
            count: None,
            stream: 0,
            epoch: None,
        }),
        expect: None,
        duration: LONG,
        drain: Duration::ZERO,
        epoch_ns: Clock::here().now_ns(),
        every: None,
        follower: None,
    };
    convert::work(&task, 1)
}

const UPDATE: proto::TrialUpdate =
    proto::TrialUpdate { abandoned: false, other_sent: None, rate_pps: None, gain: None };

/// Waits until the socket has received nothing for a second. It must have received something.
fn falls_silent(socket: &UdpSocket) {
    let end = Instant::now() + PATIENCE;
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.recv(&mut [0; 2000]).expect("nothing is sent");
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    while socket.recv(&mut [0; 2000]).is_ok() {
        assert!(Instant::now() < end, "it is still sent");
    }
}

/// It answers pings, which the library does by itself, and tells that it is there, but takes no answer. Then
/// it no longer tells, either.
#[test]
fn who_takes_no_answer_cannot_keep_an_agent_sending() {
    let agent = start(good(), Allowed::ALL);
    let runtime = runtime();
    for updates in [0, 100, usize::MAX] {
        let (socket, port) = target();
        let session = runtime.block_on(async {
            let session = Session::opens(&agent, &port).await;
            for asks in split(&work(500.0)) {
                assert!(session.says(asks).await);
            }
            session
        });
        let questions = session.questions.clone();
        let telling = runtime.spawn(async move {
            for _ in 0..updates {
                if questions.send(Question { question: Some(Asks::Update(UPDATE)) }).await.is_err() {
                    break;
                }
            }
        });
        falls_silent(&socket);
        telling.abort();
        drop(session);
    }
}

/// What an agent has not looked at stays where it comes from.
#[test]
fn questions_do_not_pile_up() {
    let agent = start(good(), Allowed::ALL);
    runtime().block_on(async {
        let (_socket, port) = target();
        let session = Session::opens(&agent, &port).await;
        let ask = || session.says(Asks::ReadClock(proto::ReadClock {}));
        // The tester has to wait then, or has been left.
        let floods =
            async { while let Ok(true) = tokio::time::timeout(Duration::from_secs(2), ask()).await {} };
        tokio::time::timeout(PATIENCE, floods)
            .await
            .expect("the agent accepts an unlimited number of requests");
    });
}

#[test]
fn messages_beyond_the_limit_are_refused() {
    let agent = start(good(), Allowed::ALL);
    runtime().block_on(async {
        let (_socket, port) = target();
        let mut session = Session::opens(&agent, &port).await;
        let send = vec![vec![0; crate::parts::QUESTION]];
        assert_eq!(session.asks(Asks::Relay(proto::Relay { send })).await, None);
        // Neither is more taken in parts. A trial that is none leaves nothing behind.
        let (_socket, port) = target();
        let mut session = Session::opens(&agent, &port).await;
        for _ in 0..=LONGEST / 60_000 {
            assert!(session.says(Asks::Part(vec![0; 60_000])).await);
        }
        let said = session.refused(Asks::Begin(proto::Begin {})).await;
        assert!(said.contains("more frames than an agent takes"), "{said}");
        assert!(matches!(session.works(work(100.0)).await, Some(Says::Progress(_))));
    });
}

/// A connection has few sessions, each of which takes threads.
#[test]
fn one_connection_does_not_make_threads_without_end() {
    let agent = start(good(), Allowed::ALL);
    runtime().block_on(async {
        let (channel, security) = (channel(&agent).await, good());
        let mut all = Vec::new();
        loop {
            let session = Session::over(channel.clone(), &security);
            let Ok(session) = tokio::time::timeout(Duration::from_secs(1), session).await else { break };
            let mut session = session.unwrap();
            let port = format!("udp:127.0.0.1:{}", 1000 + all.len());
            assert!(matches!(session.asks(open(&port, &[])).await, Some(Says::Port(_))));
            all.push(session);
            assert!(all.len() < 10, "{} sessions", all.len());
        }
        assert!(!all.is_empty());
    });
}

/// Fills the places of another address with connections that say nothing, and waits until they are closed.
fn silent_ones_are_closed(agent: &Agent) {
    let runtime = runtime();
    let mut silent: Vec<TcpStream> = (0..MOST_OF_ONE)
        .map(|_| {
            runtime.block_on(async {
                let socket = tokio::net::TcpSocket::new_v4().unwrap();
                // On other systems the loopback interface has one address, and there is still room.
                let _ = socket.bind(SocketAddr::from(([127, 0, 0, 2], 0)));
                socket.connect(agent.address()).await.unwrap().into_std().unwrap()
            })
        })
        .collect();
    for stream in &mut silent {
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        let closed = stream.read_to_end(&mut rest);
        let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(closed.as_ref().map_or_else(is_reset, |_| true), "{closed:?}");
    }
}

#[test]
fn silent_connections_are_closed_and_lock_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    keys::make(folder.path(), &["127.0.0.1".into()]).unwrap();
    let file = |name: &str| folder.path().join(name);
    let tls = Security::tls(&file("ca.pem"), &file("127.0.0.1.pem"), &file("127.0.0.1.key")).unwrap();
    let agents = [start(good(), Allowed::ALL), start(tls, Allowed::ALL)];
    std::thread::scope(|scope| {
        for agent in &agents {
            scope.spawn(|| silent_ones_are_closed(agent));
        }
        // Meanwhile others are let in, and who was let in is no stranger: it stays.
        runtime().block_on(async {
            let (_socket, port) = target();
            let mut session = Session::opens(&agents[0], &port).await;
            tokio::time::sleep(crate::guests::STRANGER + Duration::from_secs(2)).await;
            let says = session.asks(Asks::ReadClock(proto::ReadClock {})).await;
            assert!(matches!(says, Some(Says::Clock(_))), "{says:?}");
        });
    });
}

#[test]
fn guesses_are_few() {
    let agent = start(good(), Allowed::ALL);
    runtime().block_on(async {
        let mut said = Vec::new();
        for number in 0..=FAILURES {
            let security = token(&format!("a-wrong-token-{number:03}"));
            let refused = Session::over(channel(&agent).await, &security).await.err().unwrap();
            said.push(refused.message().to_owned());
        }
        let (last, first) = said.split_last().unwrap();
        assert!(first.iter().all(|said| said.contains("wrong token")), "{first:?}");
        assert!(last.contains("too many failed log-ins"), "{last}");
        // The right one has to wait, too, and then is let in.
        let end = Instant::now() + PATIENCE;
        let mut refused = 0;
        while Session::over(channel(&agent).await, &good()).await.is_err() {
            refused += 1;
            assert!(Instant::now() < end);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert!(refused > 0);
    });
}

#[test]
fn the_highest_load_is_that_of_all_ports() {
    let agent = start(good(), Allowed { load_pps: 1000.0, duration: LONG });
    runtime().block_on(async {
        let targets = [target(), target()];
        let [mut a, mut b] =
            [Session::opens(&agent, &targets[0].1).await, Session::opens(&agent, &targets[1].1).await];
        let goes_on = |says: Option<Says>| assert!(matches!(says, Some(Says::Progress(_))), "{says:?}");
        goes_on(a.works(work(600.0)).await);
        let said = why(b.works(work(600.0)).await);
        assert!(said.contains("0.6 kpps beside the 0.6 kpps of other ports: at most 1.0 kpps"), "{said}");
        goes_on(a.asks(Asks::Update(UPDATE)).await);
        goes_on(b.works(work(300.0)).await);
        goes_on(a.asks(Asks::Update(UPDATE)).await);
        // Nor by a change: it ends the trial, and others may send more.
        let said = b.refused(Asks::Update(proto::TrialUpdate { rate_pps: Some(401.0), ..UPDATE })).await;
        assert!(said.contains("does not allow 0.4 kpps beside the 0.6 kpps"), "{said}");
        goes_on(a.asks(Asks::Update(proto::TrialUpdate { rate_pps: Some(1000.0), ..UPDATE })).await);
    });
}

/// A load that is changed so often that the last change has no effect would be another one than is known.
#[test]
fn a_load_is_not_changed_without_end() {
    let agent = start(good(), Allowed::ALL);
    runtime().block_on(async {
        let (_socket, port) = target();
        let mut session = Session::opens(&agent, &port).await;
        let mut says = session.works(work(100.0)).await;
        let mut changes = 0;
        while let Some(Says::Progress(_)) = says {
            changes += 1;
            assert!(changes < 100_000);
            let rate_pps = Some(if changes % 2 == 0 { 100.0 } else { 50.0 });
            says = session.asks(Asks::Update(proto::TrialUpdate { rate_pps, ..UPDATE })).await;
        }
        assert_eq!(why(says), "the load has been changed too often");
    });
}

#[test]
fn what_is_not_allowed_is_neither_sent_to_nor_told_of() {
    let agent = start(good(), Allowed::ALL);
    runtime().block_on(async {
        for (port, others, why) in [
            ("udp:203.0.113.9:9", &[][..], "in none of the allowed networks"),
            ("udp:255.255.255.255:9", &[], "in none of the allowed networks"),
            ("udp::9", &["lo"], "lo is not an interface of an allowed port"),
            ("udp::9", &["../lo"], "../lo is not an interface of an allowed port"),
            ("packet:lo", &[], "not among the allowed ports"),
            ("packet:..", &[], "packet:.."),
            ("packet:../../x", &[], "packet:../../x"),
            ("udp:../x:9", &[], "udp:../x:9"),
            ("vfio:../../x", &[], "../../x"),
            ("/etc/passwd", &[], "/etc/passwd"),
        ] {
            let said = Session::with(&agent).await.refused(open(port, others)).await;
            assert!(said.contains(why), "{said}");
        }
    });
}

/// Numbers that no tester sends are errors in words: no thread panics, none sleeps for years, and the port
/// can be used afterwards.
#[test]
fn numbers_beyond_all_measure_are_refused_or_harmless() {
    let agent = start(good(), Allowed::ALL);
    let floats = [1e-300, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY, f64::NAN, -1.0, 1e300];
    runtime().block_on(async {
        let (_socket, port) = target();
        let mut session = Session::opens(&agent, &port).await;
        for pps in floats {
            let said = why(session.works(work(pps)).await);
            assert!(said.contains("not a rate"), "{said}");
        }
        let far = [0, Clock::here().now_ns() + 1_000_000_000_000, u64::MAX];
        for epoch_ns in far {
            let work = proto::Work { epoch_ns, ..work(100.0) };
            let said = why(session.works(work).await);
            assert!(said.contains("by this host's clock"), "{said}");
        }
        type Change = fn(&mut proto::Work);
        let changes: [Change; 6] = [
            |work| work.every_ns = Some(0),
            |work| work.every_ns = Some(u64::MAX),
            |work| work.drain_ns = u64::MAX,
            |work| work.duration_ns = u64::MAX,
            |work| work.duration_ns = 0,
            |work| {
                let frames = work.plan.as_ref().and_then(|plan| plan.frames.clone());
                work.expect = Some(proto::Expect {
                    stream: 1,
                    frames,
                    count: u64::MAX,
                    margin_ns: u64::MAX,
                    parts: u32::MAX,
                    keep: true,
                });
            },
        ];
        for change in changes {
            let mut work = proto::Work { duration_ns: 50_000_000, every_ns: Some(1), ..work(1000.0) };
            change(&mut work);
            let mut says = session.works(work).await.unwrap();
            let mut round = 0;
            while let Says::Progress(_) = says {
                round += 1;
                let gain = proto::Gain { at_ns: f64::NAN, gained_ns: f64::INFINITY, pace: 1e300 };
                let update = proto::TrialUpdate {
                    abandoned: round > 20,
                    other_sent: Some(u64::MAX - 1),
                    gain: Some(gain),
                    rate_pps: (round == 5).then_some(1e9),
                };
                tokio::time::sleep(Duration::from_millis(10)).await;
                says = session.asks(Asks::Update(update)).await.unwrap();
                // The drain may be as long as it wants while its tester lives; then the tester leaves.
                if round > 100 {
                    break;
                }
            }
            assert!(!matches!(&says, Says::Refused(_)), "{says:?}");
            if let Says::Progress(_) = says {
                drop(session);
                session = loop {
                    let mut next = Session::with(&agent).await;
                    match next.asks(open(&port, &[])).await {
                        Some(Says::Port(_)) => break next,
                        _ => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                };
            }
        }
    });
}
