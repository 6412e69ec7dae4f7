//! `kpps connections`: TCP connections through a device, opened, used and closed at a rate, or held.

use super::KINDS;
use super::options::{Job, RunOptions};
use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::{Args, ValueEnum};
use kpps_connections::{Client, Find, Load, Messages, PORTS, Plan, resolve};
use kpps_documents::connections::{ConnectionSearch, ConnectionTrial, Connections};
use kpps_documents::{Environment, run::Run};
use kpps_frames::Mac;
use kpps_frames::flows::Addresses;
use kpps_methods::{bounds, units};
use kpps_ports::Spec;
use kpps_ports::port::{AnyPort, Trouble};
use kpps_tester::live::RunWatch;
use kpps_tester::neighbours::Station;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

/// The addresses of client and server, of the network for benchmarks (RFC 2544, C.2.2).
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 2);
/// The port of a server.
const HTTP_PORT: u16 = 80;
/// The most connections that are held: each takes 300 bytes of memory.
const MOST_HELD: u64 = 1 << 24;
/// The longest message in bytes.
const MOST_BYTES: u64 = 1 << 40;
/// The rate and the bytes of an answer, if no others are given.
const DEFAULT_CPS: f64 = 1000.0;
const DEFAULT_ANSWER_BYTES: u64 = 1024;
/// How many times longer the next pause is, if the device has not forgotten connections in one.
const LONGER: u32 = 4;
/// The shortest of these longer pauses.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The highest rate that a search tries, if no other is given.
const MOST_CPS: u64 = 1_000_000;

/// Arguments of `kpps connections`.
#[derive(Args)]
#[command(after_help = format!("Examples:
  kpps connections --ports packet:a,packet:b --gateway 198.18.0.254 --rate 2000 --duration 10s
                        client and server through a router
  kpps connections --ports packet:a --to 198.18.0.9:80 --http / --rate 500
                        requests to a web server
  kpps connections --ports packet:b --serve 80 --http /
                        a web server for any clients, until Ctrl-C
  kpps connections --ports packet:a,packet:b --gateway 198.18.0.254 --find concurrent --most 50000
                        how many connections the device keeps at a time

kpps has its own TCP, over IPv4: the stack of this host is not measured. Its ends answer ARP for --src and
--dst, which must not be addresses of this host. Each connection sends a request, receives the answer and is
closed. With --concurrent, connections stay open together first. A connection that cannot be opened within a
millisecond of its time is not opened, and counts as shortfall.

{}", KINDS))]
pub struct Arguments {
    /// Two ports, the client's and the server's; or one port with --to or --serve
    #[arg(long, value_delimiter = ',', required = true, value_name = "PORT[,PORT]", help_heading = heading::TESTBED)]
    ports: Vec<Spec>,
    /// Connect to this server, which is not kpps
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "serve", help_heading = heading::TESTBED)]
    to: Option<SocketAddrV4>,
    /// TCP port of the server here [default: 80; needed with one port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = heading::TESTBED)]
    serve: Option<u16>,
    /// Connections a second that are opened [default: 1000]
    #[arg(long, value_name = "CONNECTIONS", value_parser = rate, help_heading = heading::LOAD)]
    rate: Option<f64>,
    /// Open this many connections, hold them for --duration, then use and close them. --rate is the pace of
    /// opening and of closing
    #[arg(long, value_name = "CONNECTIONS", value_parser = clap::value_parser!(u64).range(1..=MOST_HELD), help_heading = heading::LOAD)]
    concurrent: Option<u64>,
    /// Stop after this number of connections, and not after a time
    #[arg(long, value_name = "CONNECTIONS", conflicts_with = "concurrent", value_parser = clap::value_parser!(u64).range(1..), help_heading = heading::LOAD)]
    count: Option<u64>,
    /// Bytes of a request
    #[arg(long, value_name = "BYTES", default_value_t = 128, conflicts_with = "http", value_parser = clap::value_parser!(u64).range(..=MOST_BYTES), help_heading = heading::TRAFFIC)]
    request: u64,
    /// Bytes of an answer; with --http the bytes of its body, if the server is kpps [default: 1024]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(..=MOST_BYTES), help_heading = heading::TRAFFIC)]
    answer: Option<u64>,
    /// Send an HTTP request (GET) for this path. The answer ends when the server closes
    #[arg(long, value_name = "PATH", value_parser = path, help_heading = heading::TRAFFIC)]
    http: Option<String>,
    /// Addresses of the client: one, or FIRST-LAST. Each has 64512 ports [default: 198.18.0.1]
    #[arg(long, value_name = "ADDRESSES", help_heading = heading::TRAFFIC)]
    src: Option<Addresses>,
    /// Address of the server here [default: 198.19.0.2]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "to", help_heading = heading::TRAFFIC)]
    dst: Option<Ipv4Addr>,
    /// Address of the router to which the client sends [default: the server's address]
    #[arg(long, value_name = "ADDRESS", help_heading = heading::TRAFFIC)]
    gateway: Option<Ipv4Addr>,
    /// How often an unanswered segment is sent again, first after 1 s, then after twice the time
    #[arg(long, value_name = "TIMES", default_value_t = 5, value_parser = clap::value_parser!(u8).range(..=15), help_heading = heading::TRAFFIC)]
    tries: u8,
    /// Search for the highest rate of connections (rate: TCP connections per second of RFC 9411), or for the
    /// most that are open at a time (concurrent: its concurrent TCP connections)
    #[arg(long, value_enum, value_name = "rate|concurrent", hide_possible_values = true, conflicts_with_all = ["concurrent", "count"], help_heading = heading::SEARCH)]
    find: Option<Quantity>,
    /// The highest number that the search tries [default: 1000000 a second; as many at a time as the client
    /// has ports]
    #[arg(long, value_name = "CONNECTIONS", requires = "find", value_parser = clap::value_parser!(u64).range(1..), help_heading = heading::SEARCH)]
    most: Option<u64>,
    /// The pause between two trials of a search, in which the device may forget connections
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "find", value_parser = units::duration, help_heading = heading::SEARCH)]
    pause: Duration,
    /// The longest pause. If the device keeps fewer connections than in an earlier trial, it has not
    /// forgotten those: the trial is repeated after a longer pause, up to this one
    #[arg(long, value_name = "TIME", default_value = "200s", requires = "find", value_parser = units::duration, help_heading = heading::SEARCH)]
    longest_pause: Duration,
    /// How long connections are opened, or held [default: 5s; a server alone: until Ctrl-C]
    #[arg(long, value_name = "TIME", conflicts_with = "count", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    /// How long to wait at the end for connections that are open. Then they are reset
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, help_heading = heading::TIME)]
    drain: Duration,
    /// The highest share of connections that the tester itself may fail to open in time, and of frames that
    /// it may lose. Above it, a trial is no valid measurement of the device under test
    #[arg(long, value_name = "SHARE", default_value = "0.1%", value_parser = bounds::loss, help_heading = heading::BOUNDS)]
    max_shortfall: f64,
    #[command(flatten)]
    run: RunOptions,
}

/// The quantity that is searched.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Quantity {
    Rate,
    Concurrent,
}

/// Reads a rate of connections.
fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|rate| (0.001..=1e8).contains(rate));
    number.ok_or_else(|| format!("'{text}' is no number of connections a second from 0.001 to 100000000"))
}

/// Reads a path of HTTP.
fn path(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_path && text.len() <= 1024 {
        return Ok(text.to_owned());
    }
    Err(format!("'{text}' is no path: it begins with / and has at most 1024 visible ASCII characters"))
}

/// The roles on the ports.
struct Roles {
    clients: Addresses,
    server: SocketAddrV4,
    has_client: bool,
    serves: bool,
}

impl Arguments {
    fn roles(&self) -> Result<Roles, Failure> {
        let input = |text: &str| Err(Failure::Input(text.into()));
        let (has_client, serves) = match (&self.ports[..], self.to, self.serve) {
            ([_, _], None, _) => (true, true),
            ([_], Some(_), _) => (true, false),
            ([_], None, Some(_)) => (false, true),
            ([_], None, None) => {
                return input("one port needs --to or --serve: say what is at its other end");
            }
            ([_, _], Some(_), _) => {
                return input("--to is for one port: the server is not on the second one");
            }
            _ => return input("a client and a server have two ports: give --ports packet:A,packet:B"),
        };
        let clients = self.src.unwrap_or_else(|| Addresses::from(CLIENT.into(), 1));
        if clients.first().is_ipv6() {
            return input("--src has IPv6 addresses, and connections are over IPv4 only");
        }
        if !has_client && (self.find.is_some() || self.concurrent.is_some()) {
            return input("--find and --concurrent are for a client: give --to, or two ports");
        }
        if !has_client && (self.rate.is_some() || self.src.is_some() || self.gateway.is_some()) {
            return input("--rate, --src and --gateway are for a client: give --to, or two ports");
        }
        if self.find == Some(Quantity::Rate) && self.rate.is_some() {
            return input(
                "--find rate chooses the rates itself: give the highest with --most, and no --rate",
            );
        }
        if self.http.is_some() && self.to.is_some() && self.answer.is_some() {
            return input("--answer is for a server of kpps: with --http and --to the server decides");
        }
        let all = u64::from(clients.count()) * u64::from(PORTS);
        let is_held = |number: &u64| self.find != Some(Quantity::Rate) && *number > all;
        if let Some(number) = self.concurrent.or(self.most).filter(is_held) {
            return Err(Failure::Input(format!(
                "{number} connections need more ports than the {all} of the client: give more addresses with --src"
            )));
        }
        let own = SocketAddrV4::new(self.dst.unwrap_or(SERVER), self.serve.unwrap_or(HTTP_PORT));
        let server = self.to.unwrap_or(own);
        if clients.contains((*server.ip()).into()) && has_client {
            return input(
                "client and server have the same address: give other addresses with --src or --dst",
            );
        }
        Ok(Roles { clients, server, has_client, serves })
    }

    fn answer_bytes(&self) -> u64 {
        self.answer.unwrap_or(DEFAULT_ANSWER_BYTES)
    }

    fn messages(&self, server: SocketAddrV4) -> Messages {
        let answer = self.answer_bytes();
        match &self.http {
            Some(path) => Messages::Http { path: path.clone(), host: server.to_string(), answer },
            None => Messages::Bytes { request: self.request, answer },
        }
    }

    fn load(&self) -> Load {
        Load {
            rate_cps: self.rate.unwrap_or(DEFAULT_CPS),
            concurrent: self.concurrent,
            count: self.count,
            duration: self.duration.unwrap_or(Duration::from_secs(5)),
            drain: self.drain,
        }
    }

    /// The ends on open ports: the next hop is resolved.
    fn plan(&self, roles: &Roles, ports: &mut [AnyPort], session: &Session) -> Result<Plan, Failure> {
        let Roles { clients, server, has_client, serves } = *roles;
        let mut stations = Vec::new();
        for (number, port) in ports.iter().enumerate() {
            let ips = if number == 0 && has_client {
                clients
            } else {
                Addresses::from(IpAddr::V4(*server.ip()), 1)
            };
            stations.push(Station { mac: Mac(port.address()?), tags: Default::default(), ips });
        }
        let client = if has_client {
            let next_hop = IpAddr::V4(self.gateway.unwrap_or(*server.ip()));
            let found = resolve(ports, &stations, next_hop, &|| session.goes_on())?;
            let unknown = || {
                Failure::Failed(format!(
                    "{next_hop} does not answer ARP on {}: check the address, or give the router with --gateway",
                    self.ports[0]
                ))
            };
            let next_hop = found.ok_or_else(unknown)?;
            Some(Client { addresses: clients, to: (*server.ip(), server.port()), next_hop })
        } else {
            None
        };
        Ok(Plan {
            stations,
            client,
            serves: serves.then_some(server.port()),
            messages: self.messages(server),
            tries: self.tries,
            max_shortfall: self.max_shortfall,
        })
    }

    /// The most connections that a search tries.
    fn most(&self, find: Find, clients: &Addresses) -> u64 {
        let all = u64::from(clients.count()) * u64::from(PORTS);
        match find {
            Find::Rate => self.most.unwrap_or(MOST_CPS),
            Find::Concurrent => self.most.unwrap_or(all).min(MOST_HELD),
        }
    }
}

/// The trials so far.
#[derive(Default)]
struct Done {
    trials: Vec<ConnectionTrial>,
    search: Option<ConnectionSearch>,
    complete: bool,
}

fn measure(
    arguments: &Arguments,
    (plan, roles): (&Plan, &Roles),
    ports: &mut [AnyPort],
    watch: &mut RunWatch,
    done: &mut Done,
    session: &Session,
) -> Result<(), Trouble> {
    let load = arguments.load();
    done.complete = true;
    let Some(find) = arguments.find else {
        let load = roles.has_client.then_some(&load);
        let (trial, complete) = plan.trial(ports, load, arguments.count, watch)?;
        done.trials.push(trial);
        done.complete = complete;
        return Ok(());
    };
    let find = if find == Quantity::Rate { Find::Rate } else { Find::Concurrent };
    let mut search = find.search(arguments.most(find, &roles.clients));
    let mut pause = Duration::ZERO;
    while let Some(number) = search.next() {
        let until = Instant::now() + pause;
        while session.goes_on() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (mut trial, complete) = plan.trial(ports, Some(&find.load(number, &load)), None, watch)?;
        let verdict = find.verdict(&trial);
        trial.too_early = complete && pause < arguments.longest_pause && find.is_early(&search, verdict);
        let too_early = trial.too_early;
        done.trials.push(trial);
        if !complete {
            done.complete = false;
            break;
        }
        if too_early {
            pause = (pause * LONGER).max(SHORTEST_PAUSE).min(arguments.longest_pause);
            session.tell(&format!(
                "fewer connections were kept than in an earlier trial, so the device may not have forgotten those: \
                 {number} are tried again after {pause:?}"
            ));
            continue;
        }
        // A pause that was long enough once is taken from then on.
        pause = pause.max(arguments.pause);
        search.add(number, verdict);
        done.search = Some(find.found(&search));
    }
    Ok(())
}

/// Runs `kpps connections`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let roles = arguments.roles()?;
    let specs = &arguments.ports;
    let mut files = arguments.run.outputs.open(session, "connections")?;
    let mut ports = arguments.run.ports.open(session, specs, false)?;
    let plan = arguments.plan(&roles, &mut ports, session)?;
    let duration = arguments.duration.filter(|_| !roles.has_client);
    let job = Job { command: "connections", specs, offered_pps: None, duration };
    let mut done = Done::default();
    let (_, run) = arguments.run.run(session, &job, &mut ports, |ports, watch| {
        let begun = Instant::now();
        watch.tell(specs);
        measure(arguments, (&plan, &roles), ports, watch, &mut done, session)?;
        Ok(((), begun.elapsed()))
    })?;
    let Run { ports, cpu, trouble, .. } = run;
    // A server alone ends by Ctrl-C.
    let complete = trouble.is_none() && (done.complete || !roles.has_client && duration.is_none());
    let document = Connections {
        environment: Environment {
            duration_s: arguments.load().count.is_none().then(|| arguments.load().duration.as_secs_f64()),
            traffic: Some(format!("TCP from {} to {}", roles.clients, roles.server))
                .filter(|_| roles.has_client),
            ..Environment::on(specs.iter().map(ToString::to_string))
        },
        complete,
        trouble: trouble.clone(),
        server: roles.server.to_string(),
        request_bytes: plan.messages.request_bytes(),
        answer_bytes: roles
            .serves
            .then(|| plan.messages.answer_bytes())
            .or_else(|| arguments.http.is_none().then(|| arguments.answer_bytes())),
        http_path: arguments.http.clone(),
        search: done.search,
        trials: done.trials,
        ports,
        cpu,
        ..Connections::default()
    };
    let document = document.rounded();
    files.publish(&document, "")?;
    if let Some(trouble) = trouble {
        return Err(Failure::Failed(trouble));
    }
    if !complete {
        return Err(Failure::Interrupted(format!("interrupted after {:.1} s", run.seconds)));
    }
    let is_invalid = document.search.is_none() && document.trials.iter().any(|trial| trial.beyond_tester);
    if is_invalid {
        return Err(Failure::Invalid(
            "the tester itself opened or lost too many connections: this is no measurement of the device; lower \
             --rate, or allow more with --max-shortfall"
                .into(),
        ));
    }
    Ok(())
}
