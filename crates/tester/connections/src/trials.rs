//! Trials and searches as documents.

use crate::connection::{Role, Rules, Until};
use crate::content::Content;
use crate::counts::Counts;
use crate::end::End;
use crate::endpoint::{Endpoint, PORTS, Sockets};
use crate::run::{Course, Load, run};
use crate::segment::{MOST_HEADER_BYTES, Socket};
use kpps_documents::Latency;
use kpps_documents::connections::{ConnectionEnd, ConnectionSearch, ConnectionTrial};
use kpps_frames::Mac;
use kpps_frames::flows::Addresses;
use kpps_methods::search::{Capacity, Verdict};
use kpps_ports::port::run::Watch;
use kpps_ports::port::{AnyPort, Counters, Port, Trouble};
use kpps_tester::neighbours::Station;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The MSS on Ethernet, in bytes: 1500 less the headers of IPv4 and TCP (RFC 6691).
const ETHERNET_MSS: u16 = 1460;
/// Connections for which an end has space, if no more are to be held.
const CLIENT_SPACE: usize = 1 << 20;
const SERVER_SPACE: usize = 1 << 18;
/// TIME-WAIT, as long as that of Linux (`TCP_TIMEWAIT_LEN`).
const TIME_WAIT: Duration = Duration::from_secs(60);
/// The longest silence of a peer to which nothing is owed.
const IDLE: Duration = Duration::from_secs(60);
/// The width of a search for connections a second: 1 %.
const RATE_WIDTH: f64 = 0.01;

/// The messages of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Messages {
    /// A request and an answer of these lengths in bytes. The client closes first.
    Bytes {
        /// The request.
        request: u64,
        /// The answer.
        answer: u64,
    },
    /// A request of HTTP. The server closes first, after any answer.
    Http {
        /// The path.
        path: String,
        /// The server's name.
        host: String,
        /// Bytes in the body of the answer of our own server.
        answer: u64,
    },
}

impl Messages {
    fn request(&self) -> Content {
        match self {
            Self::Bytes { request, .. } => Content::of_bytes(*request),
            Self::Http { path, host, .. } => Content::http_request(host, path),
        }
    }

    fn answer(&self) -> Content {
        match self {
            Self::Bytes { answer, .. } => Content::of_bytes(*answer),
            Self::Http { answer, .. } => Content::http_answer(*answer),
        }
    }

    /// Bytes of a request.
    pub fn request_bytes(&self) -> u64 {
        self.request().bytes()
    }

    /// Bytes of an answer of our own server.
    pub fn answer_bytes(&self) -> u64 {
        self.answer().bytes()
    }

    fn received(&self, role: Role, both_are_ours: bool) -> Until {
        match (self, role) {
            (Self::Bytes { .. }, Role::Client) => {
                Until::Message { content: self.answer(), is_known: both_are_ours }
            }
            (Self::Bytes { .. }, Role::Server) => {
                Until::Message { content: self.request(), is_known: both_are_ours }
            }
            (Self::Http { .. }, Role::Client) => Until::Close,
            (Self::Http { .. }, Role::Server) => Until::HeadEnd,
        }
    }
}

/// A client.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Its addresses.
    pub addresses: Addresses,
    /// The server.
    pub to: Socket,
    /// The next hop to the server.
    pub next_hop: Mac,
}

/// The ends of trials. The client has the first port, and the server the last one.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The station of each port.
    pub stations: Vec<Station>,
    /// The client, if it is here.
    pub client: Option<Client>,
    /// The port of the server, if it is here.
    pub serves: Option<u16>,
    /// The messages.
    pub messages: Messages,
    /// How often an unanswered segment is sent again.
    pub tries: u8,
    /// The highest share of connections that the tester itself may fail to open in time.
    pub max_shortfall: f64,
}

impl Plan {
    fn ends(&self, ports: &[AnyPort], load: Option<&Load>) -> Vec<End> {
        let both = self.client.is_some() && self.serves.is_some();
        let held = load.and_then(|load| Some((load.concurrent?, load.duration)));
        let hold = held.map_or(Duration::ZERO, |(_, duration)| duration);
        let most = held.map_or(0, |(most, _)| usize::try_from(most).unwrap_or(usize::MAX));
        let rules = |role, port: Option<&AnyPort>| Rules {
            role,
            sends: if role == Role::Client { self.messages.request() } else { self.messages.answer() },
            receives: self.messages.received(role, both),
            mss: port.map_or(ETHERNET_MSS, mss),
            tries: self.tries,
            idle_ns: (IDLE + 2 * hold).as_nanos() as u64,
            time_wait_ns: TIME_WAIT.as_nanos() as u64,
            holds: held.is_some(),
        };
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        // As the numbers count up later.
        let first_sequence = (now_ns >> 6) as u32;
        let client = self.client.zip(self.stations.first()).map(|(client, station)| {
            let Client { addresses, to, next_hop } = client;
            let all = usize::try_from(u64::from(addresses.count()) * u64::from(PORTS)).unwrap_or(usize::MAX);
            let space = all.min(CLIENT_SPACE.max(most));
            let sockets = Sockets::From { addresses, to, station: next_hop };
            let rules = rules(Role::Client, ports.first());
            End::new(*station, Endpoint::new(rules, sockets, space, first_sequence))
        });
        let server = self.serves.zip(self.stations.last()).map(|(port, station)| {
            let space = SERVER_SPACE.max(most.saturating_mul(2));
            let rules = rules(Role::Server, ports.last());
            End::new(*station, Endpoint::new(rules, Sockets::At(port), space, first_sequence))
        });
        client.into_iter().chain(server).collect()
    }

    /// One trial. A server alone has no load; it runs until the watch ends it, or `count` connections were
    /// closed.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn trial(
        &self,
        ports: &mut [AnyPort],
        load: Option<&Load>,
        count: Option<u64>,
        watch: &mut impl Watch,
    ) -> Result<(ConnectionTrial, bool), Trouble> {
        let mut ends = self.ends(ports, load);
        let before = ports.iter_mut().map(Port::counters).collect::<Result<Vec<_>, _>>()?;
        let course = run(ports, &mut ends, load, count, watch)?;
        let after = ports.iter_mut().map(Port::counters).collect::<Result<Vec<_>, _>>()?;
        let mut rows = ends.iter().zip(before.iter().zip(&after)).map(|(end, counters)| row(end, counters));
        let client = self.client.and_then(|_| rows.next());
        let server = rows.next();
        let times = ends.first().filter(|_| client.is_some()).map(|end| end.endpoint.times());
        let quantiles = |of: fn(&crate::Times) -> &kpps_methods::Latency| {
            times.map_or_else(Latency::default, |times| of(times).quantiles())
        };
        let trial = ConnectionTrial {
            offered_cps: load.map(|load| load.rate_cps),
            concurrent: load.and_then(|load| load.concurrent),
            opening_s: course.opening_s,
            seconds: course.seconds,
            due: course.due,
            shortfall: course.shortfall,
            no_free_port: course.no_free_port,
            beyond_tester: self.is_beyond_tester(&course, [client, server]),
            too_early: false,
            established_cps: course.established as f64 / course.opening_s.max(1e-9),
            client,
            server,
            connect_ns: quantiles(|times| &times.connect),
            first_byte_ns: quantiles(|times| &times.first_byte),
            last_byte_ns: quantiles(|times| &times.last_byte),
            close_ns: quantiles(|times| &times.close),
        };
        Ok((trial, course.complete))
    }

    /// Whether the tester itself opened or lost too large a share.
    fn is_beyond_tester(&self, course: &Course, ends: [Option<ConnectionEnd>; 2]) -> bool {
        let is_large = |part: u64, of: u64| part as f64 > self.max_shortfall * of as f64;
        let loses = |end: &ConnectionEnd| {
            is_large(end.missed.unwrap_or(0), end.received_segments)
                || is_large(end.unsent, end.sent_segments)
        };
        is_large(course.shortfall, course.due) || ends.iter().flatten().any(loses)
    }
}

/// The MSS of a port.
fn mss(port: &AnyPort) -> u16 {
    // The longest header has the option of a SYN, which data segments do not have.
    let longest =
        port.longest().map_or(ETHERNET_MSS.into(), |longest| longest.saturating_sub(MOST_HEADER_BYTES - 4));
    u16::try_from(longest).unwrap_or(u16::MAX).min(ETHERNET_MSS)
}

/// The counters of an end as a document has them.
fn row(end: &End, (before, after): (&Counters, &Counters)) -> ConnectionEnd {
    let counts: &Counts = end.endpoint.counts();
    ConnectionEnd {
        opened: counts.opened,
        established: counts.established,
        most_established: counts.most_established,
        closed: counts.closed,
        incomplete: counts.incomplete,
        connect_timeouts: counts.timeouts.connect,
        use_timeouts: counts.timeouts.using,
        close_timeouts: counts.timeouts.close,
        connect_resets: counts.resets.connect,
        use_resets: counts.resets.using,
        close_resets: counts.resets.close,
        // After an error some may be open.
        aborted: counts.aborted + counts.open,
        retransmitted_syns: counts.retransmitted.syn,
        retransmitted_data: counts.retransmitted.data,
        retransmitted_fins: counts.retransmitted.fin,
        sent_segments: counts.sent,
        sent_bytes: counts.sent_bytes,
        received_segments: counts.received,
        received_bytes: counts.received_bytes,
        out_of_order: counts.out_of_order,
        repeated: counts.repeated,
        unexpected: counts.unexpected,
        wrong_data: counts.wrong_data,
        damaged: end.damaged,
        refused: counts.refused,
        resets_sent: counts.resets_sent,
        unsent: end.unsent,
        missed: after.missed_since(before),
    }
}

/// The quantity that a search looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// TCP connections per second (RFC 9411, 7.2).
    Rate,
    /// Concurrent TCP connections (RFC 9411, 7.5).
    Concurrent,
}

impl Find {
    /// The verdict of a trial.
    pub fn verdict(self, trial: &ConnectionTrial) -> Verdict {
        let Some(client) = trial.client else { return Verdict::Failed { reached: 0 } };
        let ends = [trial.client, trial.server];
        let reached = match self {
            Self::Rate => trial.established_cps as u64,
            // A connection that was not closed may have been unknown to the device at the end.
            Self::Concurrent => client.most_established.min(client.closed),
        };
        let all_closed = client.opened > 0 && client.closed == client.opened;
        let all = match self {
            Self::Rate => all_closed && ends.iter().flatten().all(|end| end.retransmitted() == 0),
            Self::Concurrent => all_closed && Some(client.most_established) == trial.concurrent,
        };
        match (trial.beyond_tester, all) {
            (true, _) => Verdict::BeyondTester { reached },
            (false, true) => Verdict::Sustained,
            (false, false) => Verdict::Failed { reached },
        }
    }

    /// A search up to `most`.
    pub const fn search(self, most: u64) -> Capacity {
        Capacity::new(most, if matches!(self, Self::Rate) { RATE_WIDTH } else { 0.0 })
    }

    /// Whether this verdict does not count, because the device still had connections of an earlier trial: it
    /// kept more in that one.
    pub fn is_early(self, search: &Capacity, verdict: Verdict) -> bool {
        self == Self::Concurrent && search.is_behind(verdict)
    }

    /// The load of its next trial.
    pub fn load(self, number: u64, load: &Load) -> Load {
        match self {
            Self::Rate => Load { rate_cps: number as f64, concurrent: None, ..*load },
            Self::Concurrent => Load { concurrent: Some(number), ..*load },
        }
    }

    /// The result of a search.
    pub fn found(self, search: &Capacity) -> ConnectionSearch {
        let found = |what: Self| (self == what).then(|| search.sustained());
        ConnectionSearch {
            connections_per_second: found(Self::Rate),
            concurrent_connections: found(Self::Concurrent),
            failed_at: search.failed().map(|(number, _)| number),
            limited_by_tester: search.failed().is_some_and(|(_, is_tester)| is_tester),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_of_the_tester_alone_is_no_verdict_on_the_device() {
        let client =
            ConnectionEnd { opened: 10, closed: 10, most_established: 10, ..ConnectionEnd::default() };
        let trial = ConnectionTrial {
            concurrent: Some(10),
            established_cps: 9.9,
            client: Some(client),
            ..ConnectionTrial::default()
        };
        let verdicts =
            |trial: &ConnectionTrial| [Find::Rate, Find::Concurrent].map(|find| find.verdict(trial));
        assert_eq!(verdicts(&trial), [Verdict::Sustained; 2]);
        let again = ConnectionEnd { retransmitted_syns: 1, ..client };
        let lossy = ConnectionTrial { client: Some(again), ..trial.clone() };
        assert_eq!(verdicts(&lossy), [Verdict::Failed { reached: 9 }, Verdict::Sustained]);
        let failed = ConnectionEnd { closed: 9, aborted: 1, most_established: 9, ..client };
        let failed = ConnectionTrial { client: Some(failed), ..trial.clone() };
        assert_eq!(verdicts(&failed), [Verdict::Failed { reached: 9 }; 2]);
        let beyond = ConnectionTrial { beyond_tester: true, ..trial };
        let reached = [9, 10].map(|reached| Verdict::BeyondTester { reached });
        assert_eq!(verdicts(&beyond), reached);
    }
}
