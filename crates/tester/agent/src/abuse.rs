//! Clients that speak the protocol and violate it. One process, over the loopback interface. Nothing here
//! depends on how fast a busy machine is: tests wait for events that must come, and events that must end do
//! so long before any other end.

#![allow(clippy::unwrap_used)]

use crate::clients::{MAX_FAILURES, MAX_PER_ADDRESS};
use crate::parts::{LONGEST, split};
use crate::proto::agent_client::AgentClient;
use crate::proto::answer::Answer as AnswerKind;
use crate::proto::question::Question as QuestionKind;
use crate::proto::{self, Answer, Question};
use crate::{Agent, Network, Rules, Security, TEST_NETWORKS, Token, convert, keys};
use kpps_frames::encap::Tags;
use kpps_frames::flows::Addresses;
use kpps_frames::rate::Rate;
use kpps_frames::{Mac, Templates};
use kpps_ports::port::run::{SendPlan, StreamPlan};
use kpps_tester::clock::Clock;
use kpps_tester::neighbours::Station;
use kpps_tester::{Allowed, Task};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// How long tests wait for an event that must come.
const EVENT_TIMEOUT: Duration = Duration::from_secs(90);
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
    // Only a few unread answers fit into it.
    endpoint.initial_stream_window_size(256).connect().await.unwrap()
}

/// A session of a misbehaving tester.
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

    async fn says(&self, asks: QuestionKind) -> bool {
        self.questions.send(Question { question: Some(asks) }).await.is_ok()
    }

    /// The answer; `None` if no more answers follow.
    async fn asks(&mut self, asks: QuestionKind) -> Option<AnswerKind> {
        self.says(asks).await;
        let answer = tokio::time::timeout(EVENT_TIMEOUT, self.answers.message()).await.expect("no answer");
        answer.ok()??.answer
    }

    /// The answer to work.
    async fn works(&mut self, work: proto::Work) -> Option<AnswerKind> {
        let mut all = split(&work);
        let begin = all.pop().unwrap();
        for part in all {
            self.says(part).await;
        }
        self.asks(begin).await
    }

    async fn refused(&mut self, asks: QuestionKind) -> String {
        why(self.asks(asks).await)
    }

    /// Opens a port.
    async fn opens(agent: &Agent, port: &str) -> Self {
        let mut session = Self::with(agent).await;
        let says = session.asks(open(port, &[])).await;
        assert!(matches!(says, Some(AnswerKind::Port(_))), "{says:?}");
        session
    }
}

/// Why something is refused.
fn why(says: Option<AnswerKind>) -> String {
    match says {
        Some(AnswerKind::Refused(why)) if !why.contains('\n') && !why.contains("panicked") => why,
        other => panic!("{other:?}"),
    }
}

fn open(port: &str, others: &[&str]) -> QuestionKind {
    QuestionKind::Open(proto::Open {
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
        others: Arc::default(),
        plan: Some(SendPlan {
            rewrite: true,
            ..SendPlan::one(Rate::Pps(pps), StreamPlan::of(Arc::new(Templates::one(&[1; 60]))))
        }),
        expect: Vec::new(),
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
    let end = Instant::now() + EVENT_TIMEOUT;
    socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    socket.recv(&mut [0; 2000]).expect("nothing is sent");
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    while socket.recv(&mut [0; 2000]).is_ok() {
        assert!(Instant::now() < end, "it is still sent");
    }
}

/// An agent in a process of its own, whose memory, threads and time are its alone.
#[cfg(target_os = "linux")]
mod alone {
    use super::*;
    use crate::session::LEASE;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdout, Command, Stdio};

    /// The memory that an agent may take at worst, and without anybody who harms it, in bytes.
    const AT_WORST: u64 = 1 << 30;
    const IDLE: u64 = 64 << 20;
    /// Its threads: its own, and three for each session in a trial.
    const THREADS: u64 = 4 + 3 * 32;

    /// The process: another test starts it. It ends when its input is closed.
    #[test]
    #[ignore = "another test starts it"]
    fn an_agent_alone() {
        let agent = start(good(), Allowed::ALL);
        println!("it listens on {}", agent.address());
        std::io::stdout().flush().unwrap();
        let _ = std::io::stdin().read(&mut [0]);
    }

    struct Alone {
        process: Child,
        address: SocketAddr,
        /// Without it the process ends when the test harness says that it runs for long.
        _said: BufReader<ChildStdout>,
    }

    impl Alone {
        fn start() -> Self {
            let own = std::env::current_exe().unwrap();
            let mut process = Command::new(own)
                .args(["--exact", "abuse::alone::an_agent_alone", "--ignored", "--nocapture"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut said = BufReader::new(process.stdout.take().unwrap());
            let address = said.by_ref().lines().map_while(Result::ok).find_map(|line| {
                line.split("it listens on ").nth(1)?.split_whitespace().next()?.parse().ok()
            });
            Self { address: address.expect("it does not start"), process, _said: said }
        }

        /// A number of `/proc/PID/status`.
        fn status(&self, name: &str) -> u64 {
            let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap().split_whitespace().next().unwrap().parse().unwrap()
        }

        /// The most memory that it ever had, in bytes.
        fn memory(&self) -> u64 {
            self.status("VmHWM") << 10
        }

        fn threads(&self) -> u64 {
            self.status("Threads")
        }

        /// The CPU time that it has taken: ticks of 10 ms (proc(5)).
        fn cpu(&self) -> Duration {
            let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
            let after_name = text.rsplit(") ").next().unwrap();
            let ticks = after_name.split(' ').skip(11).take(2).map(|it| it.parse::<u64>().unwrap());
            Duration::from_millis(10 * ticks.sum::<u64>())
        }

        /// The CPU time that it takes in this time.
        fn takes_in(&self, time: Duration) -> Duration {
            let before = self.cpu();
            std::thread::sleep(time);
            self.cpu() - before
        }

        async fn channel(&self) -> Channel {
            let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
            // A tester that asks for a flood of pings, or little at a time, gets no more by it.
            endpoint.initial_stream_window_size(1 << 20).connect().await.unwrap()
        }
    }

    impl Drop for Alone {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }

    /// Work that is as long as allowed, and takes the most memory when it is read: numbers of one byte each.
    fn swollen(numbers: usize) -> proto::Work {
        let frames = proto::Frames { order: vec![1; numbers], ..proto::Frames::default() };
        let mut work = work(1.0);
        work.plan.as_mut().unwrap().frames = Some(frames);
        work
    }

    /// Work with `count` flows of one size, whose frames are all zeros: a short message that makes the agent
    /// keep much for each flow.
    fn flows(count: u32) -> proto::Work {
        let frames = proto::Frames {
            head_bytes: vec![0; count as usize],
            bytes: vec![60; count as usize],
            order: vec![0],
            flows: count,
            ..proto::Frames::default()
        };
        let mut work = proto::Work { every_ns: Some(1), ..work(1.0) };
        work.plan.as_mut().unwrap().frames = Some(frames.clone());
        work.expect = Some(proto::Expect {
            stream: 1,
            frames: Some(frames),
            count: u64::MAX,
            margin_ns: 1000,
            parts: u32::MAX,
            keep: true,
        });
        work
    }

    #[test]
    #[ignore = "make abuse: it takes half a minute of CPU time"]
    fn the_worst_that_testers_can_do_takes_bounded_memory_and_threads() {
        let agent = Alone::start();
        assert!(agent.memory() < IDLE, "{}", agent.memory());
        let runtime = runtime();
        runtime.block_on(async {
            let (mut all, mut sockets, security) = (Vec::new(), Vec::new(), good());
            // As many sessions as there may be, from as many connections.
            while all.len() < MAX_PER_ADDRESS {
                let session = Session::over(agent.channel().await, &security);
                let Ok(Ok(mut session)) = tokio::time::timeout(EVENT_TIMEOUT, session).await else { break };
                let (socket, port) = target();
                assert!(matches!(session.asks(open(&port, &[])).await, Some(AnswerKind::Port(_))));
                sockets.push(socket);
                all.push(session);
            }
            assert_eq!(all.len(), MAX_PER_ADDRESS);
            // Each begins the largest trial that it can, until there is no room for more, then smaller ones.
            let mut begun = 0;
            for count in [1 << 21, 1 << 18, 1 << 10] {
                let large = flows(count);
                for session in &mut all {
                    match session.works(large.clone()).await {
                        Some(AnswerKind::Progress(_)) => begun += 1,
                        Some(AnswerKind::Refused(why)) => assert!(!why.contains("panicked"), "{why}"),
                        _ => {}
                    }
                }
            }
            assert!(begun >= 1, "no trial begins");
            // The remaining bytes hold numbers that are not numbers of frames.
            let swollen = swollen(LONGEST - 1000);
            for session in &mut all {
                let _ = tokio::time::timeout(EVENT_TIMEOUT, session.works(swollen.clone())).await;
            }
            println!(
                "{} sessions, {begun} trials: {} MB, {} threads",
                all.len(),
                agent.memory() >> 20,
                agent.threads()
            );
        });
        assert!(
            agent.memory() < AT_WORST && agent.threads() <= THREADS,
            "{} {}",
            agent.memory(),
            agent.threads()
        );
    }

    /// One after the other, with all the memory for itself.
    #[test]
    #[ignore = "make abuse: it takes ten seconds of CPU time"]
    fn work_that_swells_takes_bounded_memory() {
        let agent = Alone::start();
        runtime().block_on(async {
            let (_socket, port) = target();
            let mut session = Session::over(agent.channel().await, &good()).await.unwrap();
            assert!(matches!(session.asks(open(&port, &[])).await, Some(AnswerKind::Port(_))));
            for _ in 0..2 {
                why(session.works(swollen(LONGEST - 1000)).await);
            }
        });
        println!("{} MB", agent.memory() >> 20);
        assert!(agent.memory() < AT_WORST, "{}", agent.memory());
    }

    /// It waits for all that it waits for: nothing that others do or do not do keeps a CPU busy.
    #[test]
    fn who_waits_takes_no_time() {
        let agent = Alone::start();
        let window = Duration::from_millis(400);
        let most = window / 5;
        assert!(agent.takes_in(window) < most, "alone");
        // Strangers that say nothing, or half of something.
        let strangers: Vec<TcpStream> = (0..MAX_PER_ADDRESS - 4)
            .map(|number| {
                let mut stream = TcpStream::connect(agent.address).unwrap();
                if number % 2 == 0 {
                    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM").unwrap();
                }
                stream
            })
            .collect();
        // More than it takes in are closed, again and again.
        let taken = agent.takes_in(window);
        assert!(taken < most, "silent strangers: {taken:?}");
        drop(strangers);
        runtime().block_on(async {
            let (_socket, port) = target();
            let mut session = Session::over(agent.channel().await, &good()).await.unwrap();
            assert!(matches!(session.asks(open(&port, &[])).await, Some(AnswerKind::Port(_))));
            let taken = agent.takes_in(window);
            assert!(taken < most, "a session without a trial: {taken:?}");
            // A load of one frame a second, which is renewed, and then a load that is not.
            assert!(matches!(session.works(work(1.0)).await, Some(AnswerKind::Progress(_))));
            session.asks(QuestionKind::Update(UPDATE)).await;
            let taken = agent.takes_in(window);
            println!("a slow trial: {taken:?} in {window:?}");
            let begun = Instant::now();
            while agent.threads() > 6 && begun.elapsed() < EVENT_TIMEOUT {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            tokio::time::sleep(LEASE).await;
            let taken = agent.takes_in(window);
            assert!(taken < most, "after a lost trial: {taken:?}");
        });
    }

    /// A thousand connections from many addresses: connections beyond the limit are closed at once, and a
    /// tester is let in as soon as the silent connections are closed.
    #[test]
    fn a_thousand_connections_take_bounded_memory_and_lock_nobody_out() {
        let agent = Alone::start();
        let runtime = runtime();
        let mut open = Vec::new();
        for number in 0..1000_u32 {
            let stream = runtime.block_on(async {
                let socket = tokio::net::TcpSocket::new_v4().unwrap();
                let [_, _, high, low] = (1000 + number % 250).to_be_bytes();
                socket.bind(SocketAddr::from(([127, 9, high, low], 0))).unwrap();
                socket.connect(agent.address).await.unwrap().into_std().unwrap()
            });
            stream.set_nonblocking(true).unwrap();
            open.push(stream);
            // A closed connection frees its descriptor here, too.
            open.retain(|stream| !matches!(stream.peek(&mut [0]), Ok(0)));
        }
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", agent.process.id())).unwrap().count();
        assert!(descriptors < 200, "{descriptors} descriptors");
        assert!(agent.memory() < IDLE && agent.threads() < 10, "{} {}", agent.memory(), agent.threads());
        let begun = Instant::now();
        runtime.block_on(async {
            while begun.elapsed() < EVENT_TIMEOUT {
                let endpoint = Endpoint::from_shared(format!("http://{}", agent.address)).unwrap();
                if let Ok(channel) = endpoint.connect().await
                    && Session::over(channel, &good()).await.is_ok()
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            panic!("nobody is let in");
        });
    }

    /// A message that says that it is 4 GB long, in the frames of HTTP/2 (RFC 9113, RFC 7541) and gRPC.
    #[test]
    fn a_message_of_four_gigabytes_is_refused_before_it_comes() {
        let agent = Alone::start();
        let mut stream = TcpStream::connect(agent.address).unwrap();
        let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
            let length = (payload.len() as u32).to_be_bytes();
            [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
        };
        let field = |name: &str, value: &str| {
            [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
        };
        let fields = [
            field(":method", "POST"),
            field(":scheme", "http"),
            field(":path", "/kpps.agent.v1.Agent/Session"),
            field(":authority", "a"),
            field("te", "trailers"),
            field("content-type", "application/grpc"),
            field("authorization", "Bearer 0123456789abcdef"),
        ]
        .concat();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&frame(4, 0, 0, &[])).unwrap();
        stream.write_all(&frame(1, 4, 1, &fields)).unwrap();
        stream.write_all(&frame(0, 0, 1, &[0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3])).unwrap();
        // The end of the stream: headers with END_STREAM, or a reset. Earlier frames are ignored.
        stream.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        let ends = || {
            let mut head = [0; 9];
            stream.read_exact(&mut head).ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).ok()?;
            Some((head[3], head[3] == 3 || head[3] == 7 || head[3] == 1 && head[4] & 1 != 0))
        };
        let mut ends = std::iter::repeat_with(ends);
        // Half of it is sent, as fast as it is taken.
        let end = ends.find_map(|frame| match frame {
            Some((_, false)) => None,
            Some((kind, true)) => Some(Some(kind)),
            None => Some(None),
        });
        assert!(matches!(end, Some(Some(_))), "{end:?}");
        assert!(agent.memory() < IDLE, "{}", agent.memory());
    }
}

/// The tester answers pings, which the library does by itself, and renews its lease, but takes no answer.
/// Then it no longer renews the lease, either.
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
                if questions.send(Question { question: Some(QuestionKind::Update(UPDATE)) }).await.is_err() {
                    break;
                }
            }
        });
        falls_silent(&socket);
        telling.abort();
        drop(session);
    }
}

/// Questions that an agent has not read stay in the sender's queue.
#[test]
fn questions_do_not_pile_up() {
    let agent = start(good(), Allowed::ALL);
    runtime().block_on(async {
        let (_socket, port) = target();
        let session = Session::opens(&agent, &port).await;
        let ask = || session.says(QuestionKind::ReadClock(proto::ReadClock {}));
        // The tester has to wait then, or has been left.
        let floods =
            async { while let Ok(true) = tokio::time::timeout(Duration::from_secs(2), ask()).await {} };
        tokio::time::timeout(EVENT_TIMEOUT, floods)
            .await
            .expect("the agent accepts an unlimited number of requests");
    });
}

/// Frames of HTTP/2 that ask for nothing (RFC 9113, 6.3), for as long as the agent takes them; returns their
/// bytes.
fn floods(agent: &Agent, from: [u8; 4], frame: &[u8]) -> std::io::Result<usize> {
    let mut socket = runtime().block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.set_send_buffer_size(4096)?;
        socket.bind(SocketAddr::from((from, 0)))?;
        socket.connect(agent.address()).await?.into_std()
    })?;
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(EVENT_TIMEOUT))?;
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")?;
    let frames = frame.repeat(100);
    let mut bytes = 0;
    while bytes < 64 << 20 && socket.write_all(&frames).is_ok() {
        bytes += frames.len();
    }
    Ok(bytes)
}

/// A stranger's flood takes an agent next to no time: it is let in for a moment only, and not again soon.
#[test]
fn who_floods_before_a_log_in_is_cut_off() {
    let agent = start(good(), Allowed::ALL);
    let priority = b"\0\0\x05\x02\0\0\0\0\x03\0\0\0\0\x10";
    let ping = b"\0\0\x08\x06\x01\0\0\0\0--------";
    let update = b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01";
    for (number, frame) in [&priority[..], ping, update].into_iter().enumerate() {
        let from = [127, 8, 0, number as u8 + 1];
        // Bytes in the system's buffers are sent, too.
        let bytes = floods(&agent, from, frame).unwrap();
        assert!(bytes < 16 << 20, "{bytes} bytes were taken");
        assert!(floods(&agent, from, frame).map_or(true, |bytes| bytes < 16 << 20));
    }
    // Others are let in.
    runtime().block_on(async {
        let (_socket, port) = target();
        Session::opens(&agent, &port).await;
    });
}

#[test]
fn messages_beyond_the_limit_are_refused() {
    let agent = start(good(), Allowed::ALL);
    runtime().block_on(async {
        let (_socket, port) = target();
        let mut session = Session::opens(&agent, &port).await;
        let send = vec![vec![0; crate::parts::QUESTION]];
        assert_eq!(
            session.asks(QuestionKind::Relay(proto::Relay { send, ..proto::Relay::default() })).await,
            None
        );
        // Neither is more taken in parts. A trial that is none leaves nothing behind.
        let (_socket, port) = target();
        let mut session = Session::opens(&agent, &port).await;
        for _ in 0..=LONGEST / 60_000 {
            assert!(session.says(QuestionKind::Part(vec![0; 60_000])).await);
        }
        let said = session.refused(QuestionKind::Begin(proto::Begin {})).await;
        assert!(said.contains("more different frames than an agent accepts"), "{said}");
        assert!(matches!(session.works(work(100.0)).await, Some(AnswerKind::Progress(_))));
    });
}

/// A connection has few sessions, because each takes threads.
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
            assert!(matches!(session.asks(open(&port, &[])).await, Some(AnswerKind::Port(_))));
            all.push(session);
            assert!(all.len() < 10, "{} sessions", all.len());
        }
        assert!(!all.is_empty());
    });
}

/// Fills the places of another address with connections that say nothing, and waits until they are closed.
fn silent_ones_are_closed(agent: &Agent) {
    let runtime = runtime();
    let mut silent: Vec<TcpStream> = (0..MAX_PER_ADDRESS)
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
        stream.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
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
            tokio::time::sleep(crate::clients::LOGIN_TIMEOUT + Duration::from_secs(2)).await;
            let says = session.asks(QuestionKind::ReadClock(proto::ReadClock {})).await;
            assert!(matches!(says, Some(AnswerKind::Clock(_))), "{says:?}");
        });
    });
}

#[test]
fn guesses_are_few() {
    let agent = start(good(), Allowed::ALL);
    runtime().block_on(async {
        let mut said = Vec::new();
        for number in 0..=MAX_FAILURES {
            let security = token(&format!("a-wrong-token-{number:03}"));
            let refused = Session::over(channel(&agent).await, &security).await.err().unwrap();
            said.push(refused.message().to_owned());
        }
        let (last, first) = said.split_last().unwrap();
        assert!(first.iter().all(|said| said.contains("wrong token")), "{first:?}");
        assert!(last.contains("too many failed log-ins"), "{last}");
        // The right one has to wait, too, and then is let in.
        let end = Instant::now() + EVENT_TIMEOUT;
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
        let goes_on =
            |says: Option<AnswerKind>| assert!(matches!(says, Some(AnswerKind::Progress(_))), "{says:?}");
        goes_on(a.works(work(600.0)).await);
        let said = why(b.works(work(600.0)).await);
        assert!(said.contains("0.6 kpps beside the 0.6 kpps of other ports: at most 1.0 kpps"), "{said}");
        goes_on(a.asks(QuestionKind::Update(UPDATE)).await);
        goes_on(b.works(work(300.0)).await);
        goes_on(a.asks(QuestionKind::Update(UPDATE)).await);
        // Nor by a change: it ends the trial, and others may send more.
        let said =
            b.refused(QuestionKind::Update(proto::TrialUpdate { rate_pps: Some(401.0), ..UPDATE })).await;
        assert!(said.contains("does not allow 0.4 kpps beside the 0.6 kpps"), "{said}");
        goes_on(a.asks(QuestionKind::Update(proto::TrialUpdate { rate_pps: Some(1000.0), ..UPDATE })).await);
    });
}

/// A load whose changes are too many for the last one to take effect would differ from the load that is
/// reported.
#[test]
fn a_load_is_not_changed_without_end() {
    let agent = start(good(), Allowed::ALL);
    runtime().block_on(async {
        let (_socket, port) = target();
        let mut session = Session::opens(&agent, &port).await;
        let mut says = session.works(work(100.0)).await;
        let mut changes = 0;
        while let Some(AnswerKind::Progress(_)) = says {
            changes += 1;
            assert!(changes < 100_000);
            let rate_pps = Some(if changes % 2 == 0 { 100.0 } else { 50.0 });
            says = session.asks(QuestionKind::Update(proto::TrialUpdate { rate_pps, ..UPDATE })).await;
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

/// Numbers that no tester sends give an error message: no thread panics, none sleeps for years, and the port
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
            while let AnswerKind::Progress(_) = says {
                round += 1;
                let gain = proto::Gain { at_ns: f64::NAN, gained_ns: f64::INFINITY, pace: 1e300 };
                let update = proto::TrialUpdate {
                    abandoned: round > 20,
                    other_sent: Some(u64::MAX - 1),
                    gain: Some(gain),
                    rate_pps: (round == 5).then_some(1e9),
                };
                tokio::time::sleep(Duration::from_millis(10)).await;
                says = session.asks(QuestionKind::Update(update)).await.unwrap();
                // The drain may be as long as it wants while its tester lives; then the tester leaves.
                if round > 100 {
                    break;
                }
            }
            assert!(!matches!(&says, AnswerKind::Refused(_)), "{says:?}");
            if let AnswerKind::Progress(_) = says {
                drop(session);
                session = loop {
                    let mut next = Session::with(&agent).await;
                    match next.asks(open(&port, &[])).await {
                        Some(AnswerKind::Port(_)) => break next,
                        _ => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                };
            }
        }
    });
}

/// A question that a tester of this agent might ask, or not at this moment.
fn any_question(random: &mut fastrand::Rng, port: &str) -> QuestionKind {
    let bytes = |random: &mut fastrand::Rng| {
        let mut bytes = vec![0; random.usize(..200)];
        random.fill(&mut bytes);
        bytes
    };
    match random.u8(..12) {
        0 => open(port, &[]),
        1 => QuestionKind::ReadClock(proto::ReadClock {}),
        2 => QuestionKind::Relay(proto::Relay {
            send: (0..random.usize(..4)).map(|_| bytes(random)).collect(),
            balanced_at: random.bool().then(|| random.u32(..)),
            trial: random.u32(..),
        }),
        3 => QuestionKind::Before(proto::Before { trial: random.bool().then(|| random.u32(..)) }),
        4 => QuestionKind::After(proto::After::default()),
        5 => QuestionKind::Describe(proto::Describe {
            interfaces: [(port.to_owned(), "lo".to_owned())].into(),
        }),
        6 => QuestionKind::Part(bytes(random)),
        7 | 8 => split(&proto::Work { duration_ns: 20_000_000, ..work(1000.0) }).swap_remove(0),
        9 => QuestionKind::Begin(proto::Begin {}),
        10 => QuestionKind::Update(UPDATE),
        _ => QuestionKind::Update(proto::TrialUpdate { abandoned: true, ..UPDATE }),
    }
}

/// Whatever is asked in whatever order, each question is answered or ends the session, and the port can be
/// used by the next one. Two hundred sessions, from 200 seeds.
#[test]
fn questions_in_any_order_are_answered_or_end_the_session() {
    let agent = start(good(), Allowed::ALL);
    let (_socket, port) = target();
    let mut kinds = std::collections::HashSet::new();
    runtime().block_on(async {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut session = Session::with(&agent).await;
            let mut asks = open(&port, &[]);
            for _ in 0..random.usize(2..16) {
                if let QuestionKind::Part(_) = asks {
                    session.says(asks).await;
                } else {
                    let Some(says) = session.asks(asks).await else { break };
                    if let AnswerKind::Refused(said) = &says {
                        assert!(!said.contains('\n') && !said.contains("panicked"), "seed {seed}: {said}");
                    }
                    kinds.insert(std::mem::discriminant(&says));
                    // Until its trial is over.
                    if matches!(says, AnswerKind::Progress(_)) && random.bool() {
                        tokio::time::sleep(Duration::from_millis(30)).await;
                        asks = QuestionKind::Update(UPDATE);
                        continue;
                    }
                }
                asks = any_question(&mut random, &port);
            }
        }
    });
    // Each kind of answer came: the sessions got far.
    assert_eq!(kinds.len(), 9);
}
