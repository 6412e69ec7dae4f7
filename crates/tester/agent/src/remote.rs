//! The tester's side of a session: a port of another host.

use crate::agent::KEEP_ALIVE;
use crate::believe::Limits;
use crate::parts::{LONGEST, QUESTION, split};
use crate::proto::agent_client::AgentClient;
use crate::proto::answer::Answer as AnswerKind;
use crate::proto::question::Question as QuestionKind;
use crate::proto::{self, Answer, Question};
use crate::session::{LEASE, RELAYED};
use crate::{Error, Security, believe, convert, pings};
use kpps_documents::detail::RateChange;
use kpps_frames::Mac;
use kpps_frames::tag::TagFormat;
use kpps_ports::Spec;
use kpps_ports::port::run::{Change, SendPlan, prefer};
use kpps_ports::port::{Options, Trouble};
use kpps_tester::clock::{Clock, Gain, Ping, Reading};
use kpps_tester::ledger::PortCount;
use kpps_tester::{
    Allowed, Arrived, Counted, Done, OfSender, Received, SentFrames, Task, TestPort, TrialState,
};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

/// Default port of agents: "kpps" on a telephone keypad.
pub const PORT: u16 = 5777;
/// How long connecting and opening a port may take.
const CONNECT: Duration = Duration::from_secs(5);
const OPEN: Duration = Duration::from_secs(20);
/// How long a server may take to show its protocol.
const PROBE: Duration = Duration::from_secs(1);
/// How often a port is asked for its progress during a trial.
const ASK: Duration = Duration::from_millis(20);
/// Questions about the time during a trial.
const PINGS_AT_WORK: u64 = 10;
/// Questions about the time, where datagrams do not come through.
const PINGS: usize = 40;
/// More bytes than the tag and the length of a field of a message take.
const FIELD: usize = 16;

/// A host with an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name or address.
    pub name: String,
    /// The port at which its agent listens.
    pub port: u16,
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a host: give HOST or HOST:PORT, an IPv6 address in brackets");
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, rest) = rest.split_once(']').ok_or_else(bad)?;
                (name, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(bad)?) })
            }
            None => match text.rsplit_once(':') {
                Some((name, _)) if name.contains(':') => return Err(bad()),
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        if name.is_empty() || name.contains(['/', ' ', '@', '[', ']']) {
            return Err(bad());
        }
        let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| bad()))?;
        Ok(Self { name: name.to_owned(), port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.name.contains(':');
        match (brackets, self.port) {
            (false, PORT) => f.write_str(&self.name),
            (true, PORT) => write!(f, "[{}]", self.name),
            (false, port) => write!(f, "{}:{port}", self.name),
            (true, port) => write!(f, "[{}]:{port}", self.name),
        }
    }
}

/// Opens a port of another host; `others` are interfaces of that host that the tester uses, too. Returns the
/// port, and the host with its counters.
///
/// # Errors
/// In one line: there is no agent, one side does not trust the other, or the agent refuses.
pub fn connect(
    host: &Host,
    spec: &Spec,
    options: &Options,
    others: &[String],
    security: &Security,
) -> Result<(impl TestPort + use<>, impl kpps_tester::Host + use<>), Error> {
    let cannot = |error: &dyn std::error::Error| Error::because(format!("agent {host}"), error);
    let runtime = crate::runtime().map_err(|e| cannot(&e))?;
    let addresses = (host.name.as_str(), host.port).to_socket_addrs().map_err(|e| cannot(&e))?;
    let mut last = Error(format!("agent {host}: the name has no address"));
    let mut found = None;
    for address in addresses {
        match runtime.block_on(session(host, address, security)) {
            Ok(session) => found = Some((address, session)),
            Err(error) => {
                last = runtime
                    .block_on(mismatch(address, security))
                    .map_or(error, |wants| Error(format!("agent {host}: it requires {wants}")));
                continue;
            }
        }
        break;
    }
    let Some((address, (questions, answers))) = found else { return Err(last) };
    let mut conversation =
        Conversation { agent: host.to_string(), questions, answers, lost: None, runtime: Some(runtime) };
    let open = QuestionKind::Open(proto::Open {
        version: env!("CARGO_PKG_VERSION").into(),
        port: spec.to_string(),
        service: options.service.name().into(),
        ring: options.ring.map(Into::into),
        others: others.to_vec(),
    });
    let opened = match conversation.ask(vec![open], OPEN) {
        Ok(AnswerKind::Port(opened)) => {
            believe::opened(opened).map_err(|why| Error(format!("agent {host}: {why}")))?
        }
        Ok(AnswerKind::Refused(why)) => return Err(Error(format!("agent {host}: {why}"))),
        Ok(_) => {
            return Err(Error(format!(
                "agent {host} gave an unexpected answer: install the same version of kpps on both hosts"
            )));
        }
        Err(trouble) => return Err(Error(trouble.to_string())),
    };
    let clock: Option<(UdpSocket, pings::Cookie)> = (|| {
        let socket = UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).ok()?;
        socket.connect((address.ip(), u16::try_from(opened.udp_port).ok()?)).ok()?;
        Some((socket, opened.cookie.try_into().ok()?))
    })();
    let conversation = Arc::new(Mutex::new(conversation));
    let port = RemotePort {
        name: format!("{host}/{spec}"),
        interface: opened.interface,
        mac: convert::mac(&opened.mac).map_err(|why| Error(format!("agent {host}: {why}")))?,
        speed_mbps: opened.speed_mbps,
        longest: opened.longest_bytes.map(|bytes| bytes as usize),
        allowed: Allowed {
            load_pps: opened.max_load_pps,
            duration: Duration::from_nanos(opened.max_duration_ns),
        },
        clock_id: opened.clock_id,
        clock,
        conversation: conversation.clone(),
    };
    Ok((port, RemoteHost { prefix: format!("{host}/"), conversation }))
}

type Session = (mpsc::Sender<Question>, Streaming<Answer>);

/// Begins a session.
async fn session(host: &Host, address: SocketAddr, security: &Security) -> Result<Session, Error> {
    let cannot = |error: &dyn std::error::Error| Error::because(format!("agent {host}"), error);
    let tls = security.client(&host.name);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
        .map_err(|e| cannot(&e))?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(LEASE)
        .keep_alive_while_idle(true);
    if let Some(tls) = tls {
        endpoint = endpoint.tls_config(tls).map_err(|e| cannot(&e))?;
    }
    let channel: Channel = endpoint.connect().await.map_err(|e| cannot(&e))?;
    let (questions, stream) = mpsc::channel(4);
    let call = security.show(Request::new(ReceiverStream::new(stream)));
    let mut client = AgentClient::new(channel).max_decoding_message_size(LONGEST);
    let answers = tokio::time::timeout(CONNECT, client.session(call)).await;
    let answers = answers.map_err(|_| Error(format!("agent {host} does not answer")))?;
    Ok((questions, answers.map_err(|status| status_error(&format!("agent {host}"), &status))?.into_inner()))
}

/// The kind of security that the agent expects, if it differs from the tester's.
async fn mismatch(address: SocketAddr, security: &Security) -> Option<&'static str> {
    let speaks_tls = tokio::time::timeout(PROBE, speaks_tls(address)).await.ok()?.ok()??;
    match (speaks_tls, security) {
        (true, Security::Token(_)) => Some("certificates, not a token"),
        (false, Security::Tls { .. }) => Some("a token, not certificates"),
        _ => None,
    }
}

/// Whether the server answers the beginning of HTTP/2 in the clear (RFC 9113, 3.4) by an alert of TLS (RFC
/// 8446, 5.1), or by its own settings; `None` if by neither.
async fn speaks_tls(address: SocketAddr) -> std::io::Result<Option<bool>> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    Ok(match head {
        [0x15, 0x03, ..] => Some(true),
        [.., 0x04] => Some(false),
        _ => None,
    })
}

/// The text of a status, with its sources.
fn status_error(who: &str, status: &tonic::Status) -> Error {
    match std::error::Error::source(status) {
        Some(source) => Error::because(who, source),
        None => Error(format!("{who}: {}", status.message())),
    }
}

/// Questions and answers, one after the other.
struct Conversation {
    agent: String,
    questions: mpsc::Sender<Question>,
    answers: Streaming<Answer>,
    /// Why the session ended.
    lost: Option<String>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Conversation {
    /// Sends a question in parts. Only the last part is answered.
    fn ask(&mut self, asks: Vec<QuestionKind>, patience: Duration) -> Result<AnswerKind, Trouble> {
        if self.lost.is_none() {
            match self.try_ask(asks, patience) {
                Ok(says) => return Ok(says),
                Err(Error(why)) => self.lost = Some(why),
            }
        }
        Err(trouble(self.lost.clone().unwrap_or_default()))
    }

    fn try_ask(&mut self, asks: Vec<QuestionKind>, patience: Duration) -> Result<AnswerKind, Error> {
        let Self { agent, questions, answers, runtime, .. } = self;
        let gone = || Error(format!("{agent} is lost: it ended the session"));
        let exchange = async {
            for asks in asks {
                questions.send(Question { question: Some(asks) }).await.map_err(|_| gone())?;
            }
            let answer = answers.message().await;
            answer.map_err(|status| status_error(&format!("{agent} is lost"), &status))?.ok_or_else(gone)
        };
        let answer = runtime.as_ref().ok_or_else(gone)?.block_on(async {
            // Within the runtime, which has the timer.
            tokio::time::timeout(patience, exchange).await
        });
        let silent = || Error(format!("{agent} is lost: no answer for {} s", patience.as_secs()));
        Ok(match answer.map_err(|_| silent())??.answer.ok_or_else(gone)? {
            AnswerKind::Refused(why) => AnswerKind::Refused(believe::text(&why)),
            says => says,
        })
    }
}

fn trouble(what: String) -> Trouble {
    Trouble::System { what: "agent", source: std::io::Error::other(what) }
}

/// A port of another host.
struct RemotePort {
    name: String,
    interface: Option<String>,
    mac: Mac,
    speed_mbps: Option<u32>,
    longest: Option<usize>,
    allowed: Allowed,
    clock_id: String,
    /// The address and cookie of the agent's clock.
    clock: Option<(UdpSocket, pings::Cookie)>,
    conversation: Arc<Mutex<Conversation>>,
}

impl RemotePort {
    fn ask(&mut self, asks: QuestionKind) -> Result<AnswerKind, Trouble> {
        ask(&self.conversation, vec![asks])
    }

    fn relay(&mut self, relay: proto::Relay) -> Result<proto::Relayed, Trouble> {
        let sent = relay.send.len();
        match self.ask(QuestionKind::Relay(relay))? {
            AnswerKind::Relayed(relayed)
                if relayed.taken as usize <= sent && relayed.received.len() <= RELAYED =>
            {
                Ok(relayed)
            }
            other => Err(self.unexpected(other)),
        }
    }

    fn unexpected(&self, says: AnswerKind) -> Trouble {
        match says {
            AnswerKind::Refused(why) => trouble(format!("{}: {why}", self.name)),
            _ => trouble(format!("{}: unexpected answer from the agent", self.name)),
        }
    }

    /// Reads the agent's clock with `pings` datagrams, if they come through.
    fn read_by_datagrams(&self, pings: u64) -> Option<Reading> {
        let (socket, cookie) = self.clock.as_ref()?;
        Reading::best_of(&self.clock_id, "udp", &pings::ask(socket, cookie, pings).ok()?)
    }

    /// Reads the agent's clock by messages of the session.
    fn ping(&mut self) -> Result<Vec<Ping>, Trouble> {
        let begin = Instant::now();
        let mut pings = Vec::with_capacity(PINGS);
        while pings.len() < PINGS && (pings.is_empty() || begin.elapsed() < pings::READING_TIMEOUT) {
            let sent_ns = Clock::here().now_ns();
            match self.ask(QuestionKind::ReadClock(proto::ReadClock {}))? {
                AnswerKind::Clock(proto::Clock { came_ns, left_ns }) => {
                    pings.push(Ping { sent_ns, back_ns: Clock::here().now_ns(), came_ns, left_ns });
                }
                other => return Err(self.unexpected(other)),
            }
        }
        Ok(pings)
    }
}

fn ask(conversation: &Mutex<Conversation>, asks: Vec<QuestionKind>) -> Result<AnswerKind, Trouble> {
    conversation.lock().unwrap_or_else(PoisonError::into_inner).ask(asks, LEASE)
}

impl TestPort for RemotePort {
    fn name(&self) -> &str {
        &self.name
    }

    fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn speed_mbps(&self) -> Option<u32> {
        self.speed_mbps
    }

    fn longest(&self) -> Option<usize> {
        self.longest
    }

    fn allowed(&self) -> Allowed {
        self.allowed
    }

    fn can_replay(&self) -> bool {
        false
    }

    fn can_mix(&self) -> bool {
        false
    }

    fn send_now(&mut self, frames: &[Vec<u8>]) -> Result<usize, Trouble> {
        let mut sent = 0;
        while let Some(rest) = frames.get(sent..).filter(|rest| !rest.is_empty()) {
            // As many as fit into a message, or one.
            let mut bytes = 0;
            let fit = rest.iter().take_while(|frame| {
                bytes += frame.len() + FIELD;
                bytes <= QUESTION - FIELD
            });
            let some = &rest[..fit.count().clamp(1, rest.len())];
            let relay = proto::Relay { send: some.to_vec(), ..proto::Relay::default() };
            let taken = self.relay(relay)?.taken as usize;
            sent += taken;
            if taken < some.len() {
                break;
            }
        }
        Ok(sent)
    }

    fn receive(&mut self, format: TagFormat, sink: &mut dyn FnMut(&[u8])) -> Result<(), Trouble> {
        let balanced_at = format.balanced_at().map(Into::into);
        let relayed = self.relay(proto::Relay { send: Vec::new(), balanced_at, trial: format.trial() })?;
        relayed.received.iter().for_each(|frame| sink(frame));
        Ok(())
    }

    fn read_clock(&mut self) -> Result<Reading, Trouble> {
        if let Some(reading) = self.read_by_datagrams(pings::PINGS) {
            return Ok(reading);
        }
        self.clock = None;
        let pings = self.ping()?;
        Reading::best_of(&self.clock_id, "grpc", &pings)
            .ok_or_else(|| trouble(format!("{}: the agent did not report its time", self.name)))
    }

    fn work(&mut self, task: &Task, state: &TrialState) -> Done {
        // It is a thread of this trial's own.
        prefer(true);
        let begin = Instant::now();
        let mut timetable = task.plan.as_ref().and_then(SendPlan::timetables);
        let mut rate_changes: Vec<RateChange> = Vec::new();
        let (mut follower, mut seen) = (task.follower.clone(), 0);
        let senders = state.senders();
        let mut asks = split(&convert::work(task, senders));
        // All is over by then, whatever the agent says.
        let rest = task.drain.saturating_add(LEASE);
        let mut end = begin.checked_add(task.duration.saturating_add(rest));
        let trouble = loop {
            let limits = Limits::of(task, !rate_changes.is_empty());
            match ask(&self.conversation, asks) {
                Ok(AnswerKind::Progress(_)) if end.is_some_and(|end| Instant::now() > end) => {
                    break trouble(format!("{}: the agent does not end the trial", self.name));
                }
                Ok(AnswerKind::Progress(progress)) => {
                    let progress = believe::progress(progress, &limits, state.so_far(task.at));
                    state.sends(task.at, progress.sent);
                    state.receives(task.at, progress.received);
                    progress.shortfall.iter().for_each(|frames| state.falls_short(task.at, *frames));
                    progress.absent.iter().for_each(|frames| state.lacks(task.at, *frames));
                    state.overflows(task.at, progress.missed, progress.p50_ns.zip(progress.p99_ns));
                    if progress.sent_all {
                        state.has_sent(task.at, progress.sent);
                    }
                }
                Ok(AnswerKind::Done(done)) => {
                    let (done, failed) = believe::done(done, task, &limits, state.so_far(task.at));
                    let failed = failed.map(|what| trouble(format!("{}: {what}", self.name)));
                    if failed.is_some() {
                        state.abandon();
                    }
                    if task.plan.is_some() {
                        state.sends(task.at, done.sent.frames);
                        state.has_sent(task.at, done.sent.frames);
                    }
                    let received = |of: &OfSender| of.received.arrived.received;
                    state.receives(task.at, done.of_senders.iter().map(received).sum());
                    return Done { trouble: failed, follower, ..done };
                }
                Ok(other) => break self.unexpected(other),
                Err(trouble) => break trouble,
            }
            std::thread::sleep(ASK);
            let (other_sent, rate_pps) = (state.sent(1 - task.at), state.rate_pps());
            let is_new = rate_pps != rate_changes.last().map(|last| last.offered_pps);
            if let Some((table, offered_pps)) = timetable.as_mut().zip(rate_pps.filter(|_| is_new)) {
                // An approximate time: the agent's results have the exact one.
                let at_s = begin.elapsed().as_secs_f64();
                table.change(at_s, Change::Load(offered_pps));
                rate_changes.push(RateChange { at_s, offered_pps });
            }
            if let Some(follower) = follower.as_mut().filter(|follower| follower.is_due()) {
                state.reads_clock(task.at, follower.read(self.read_by_datagrams(PINGS_AT_WORK).as_ref()));
            }
            let gain = state.gain(task.at, &mut seen);
            let gain = gain.map(|Gain { at_ns, gained_ns, pace }| proto::Gain { at_ns, gained_ns, pace });
            let abandoned = state.is_abandoned();
            if abandoned && let Some(soon) = Instant::now().checked_add(rest) {
                end = Some(end.map_or(soon, |end| end.min(soon)));
            }
            asks = vec![QuestionKind::Update(proto::TrialUpdate { abandoned, other_sent, rate_pps, gain })];
        };
        // Its last report is used.
        state.abandon();
        let (frames, received) = state.so_far(task.at);
        let elapsed = begin.elapsed().min(task.duration);
        let due = timetable.map_or(0, |mut table| table.before(elapsed.as_secs_f64()) as u64);
        if task.plan.is_some() {
            state.has_sent(task.at, frames);
        }
        Done {
            sent: SentFrames {
                intended: due.max(frames),
                frames,
                elapsed,
                rate_changes,
                ..SentFrames::default()
            },
            of_senders: vec![OfSender {
                from: 1 - task.at,
                queues: None,
                received: Received {
                    arrived: Arrived { received, ..Arrived::default() },
                    ..Received::default()
                },
                latency: Vec::new(),
            }],
            trouble: Some(trouble),
            ..Done::default()
        }
    }
}

/// Another host, with its counters.
struct RemoteHost {
    /// The prefix of its ports' names here.
    prefix: String,
    conversation: Arc<Mutex<Conversation>>,
}

impl RemoteHost {
    fn ask(&self, asks: QuestionKind) -> Result<AnswerKind, kpps_tester::Error> {
        match ask(&self.conversation, vec![asks])? {
            AnswerKind::Refused(why) => Err(kpps_tester::Error::Agent(format!("{}: {why}", self.prefix))),
            says => Ok(says),
        }
    }
}

impl kpps_tester::Host for RemoteHost {
    fn before(&mut self, trial: Option<u32>) -> Result<(), kpps_tester::Error> {
        self.ask(QuestionKind::Before(proto::Before { trial })).map(drop)
    }

    fn after(&mut self, ports: &[PortCount]) -> Result<Counted, kpps_tester::Error> {
        let own = |count: &PortCount| {
            let port = count.port.strip_prefix(&self.prefix).unwrap_or(&count.port).to_owned();
            convert::port_count(&PortCount { port, ..count.clone() })
        };
        match self.ask(QuestionKind::After(proto::After { ports: ports.iter().map(own).collect() }))? {
            AnswerKind::Counted(counted) => Ok(believe::counted(counted)),
            _ => Err(kpps_tester::Error::Agent(format!("{}: unexpected answer from the agent", self.prefix))),
        }
    }

    fn environment(&self, ports: &[(&str, Option<&str>)]) -> BTreeMap<String, String> {
        let own = |&(port, interface): &(&str, Option<&str>)| {
            Some((port.strip_prefix(&self.prefix).unwrap_or(port).to_owned(), interface?.to_owned()))
        };
        let interfaces = ports.iter().filter_map(own).collect();
        match ask(&self.conversation, vec![QuestionKind::Describe(proto::Describe { interfaces })]) {
            Ok(AnswerKind::Described(described)) => believe::environment(described.environment),
            // The trial reports what is lost.
            _ => BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hosts_as_people_type_them() {
        for (text, name, port) in [
            ("h1", "h1", PORT),
            ("h1:99", "h1", 99),
            ("10.0.0.2", "10.0.0.2", PORT),
            ("[fe80::1]", "fe80::1", PORT),
            ("[::1]:7", "::1", 7),
        ] {
            let host: Host = text.parse().unwrap();
            assert_eq!((host.name.as_str(), host.port), (name, port));
            assert_eq!(host.to_string(), text);
        }
        for bad in ["", ":7", "h1:", "h1:x", "fe80::1", "[::1", "[::1]7", "a b", "http://h1"] {
            assert!(bad.parse::<Host>().is_err(), "{bad}");
        }
    }
}
