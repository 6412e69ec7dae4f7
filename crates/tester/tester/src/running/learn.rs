//! Before a trial: the device under test learns where the stations are, and the paths are checked.

use crate::running::neighbours::{self, Station};
use crate::running::test_port::TestPort;
use kpps_frames::build::Flow;
use kpps_frames::encap::Tags;
use kpps_frames::flows::{Addresses, Flows, MOST_FLOWS, Numbers, PortNumbers};
use kpps_frames::tag::TagFormat;
use kpps_frames::{Encap, Mac, RawPacket, Tag, TemplateOptions, headers};
use kpps_ports::port::Trouble;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often an unanswered question is repeated.
const AGAIN: Duration = Duration::from_millis(100);
/// The path is quiet if nothing arrives for this long.
const QUIET: Duration = Duration::from_millis(20);
/// How long learning may take (RFC 2544 allows 2 s).
const AT_MOST: Duration = Duration::from_secs(2);

/// The time limit without progress. It counts in steps of at most [`AGAIN`]: a process that got no CPU for a
/// while has not listened meanwhile, and must not time out.
struct Patience {
    looked: Instant,
    spent: Duration,
}

impl Patience {
    fn new() -> Self {
        Self { looked: Instant::now(), spent: Duration::ZERO }
    }

    /// Whether it lasts, at another look.
    fn lasts(&mut self) -> bool {
        let now = Instant::now();
        self.spent += (now - self.looked).min(AGAIN);
        self.looked = now;
        self.spent < AT_MOST
    }
}

/// One end of paths: a port's addresses, and the next hop of its frames.
#[derive(Clone, Debug)]
pub struct End {
    /// The port as a station.
    pub station: Station,
    /// Other stations at the port, which answer questions in place of it.
    pub others: Arc<[Station]>,
    /// The router that its frames go to. Without one they go to the other end of each path.
    pub gateway: Option<IpAddr>,
    /// The next hop's station address, if it is known beforehand.
    pub to: Option<Mac>,
    /// The addresses of its flows. With a tunnel the station itself has others.
    pub ips: Addresses,
    /// The encapsulation of its frames.
    pub encap: Encap,
}

/// The flows in each direction.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// The number of flows. The default is all combinations of addresses and ports.
    pub count: Option<u32>,
    /// Source ports.
    pub sports: PortNumbers,
    /// Destination ports.
    pub dports: PortNumbers,
    /// The longest cycle of the other fields that vary by flow. At least this many flows are used.
    pub turn: u32,
    /// Whether the frames from the second end are replies to the flows from the first, as these arrive.
    pub replies: bool,
    /// The differentiated services code point of the frames; flows take turns.
    pub dscp: Option<Numbers>,
    /// Their TTL or hop limit.
    pub hops: Option<Numbers>,
    /// The packet that all frames are made from.
    pub packet: Option<Arc<RawPacket>>,
}

impl Default for FlowPlan {
    /// One flow for each pair of addresses, to the discard port.
    fn default() -> Self {
        Self {
            count: None,
            sports: PortNumbers::from(49152, 1),
            dports: PortNumbers::from(9, 1),
            turn: 1,
            replies: false,
            dscp: None,
            hops: None,
            packet: None,
        }
    }
}

impl FlowPlan {
    /// The flows from one end to the other; `None` if there are too few or too many.
    pub(crate) fn between(&self, from: &End, to: &End) -> Option<Flows> {
        self.over([from.ips, to.ips])
    }

    /// The flows between these addresses; `None` if there are too few or too many.
    pub(crate) fn over(&self, ips: [Addresses; 2]) -> Option<Flows> {
        let ports = [self.sports, self.dports];
        let flows = Flows::new(self.count, ips, ports);
        if self.turn == 1 {
            return flows;
        }
        // With more flows than combinations of addresses and ports, the combinations repeat.
        let flows = flows.or_else(|| Flows::new(None, ips, ports))?;
        let count = self.count.unwrap_or(flows.count.max(self.turn));
        (count <= MOST_FLOWS).then_some(Flows { count, ..flows })
    }
}

/// Learning frames go to this many addresses at first, so that the device under test resolves them.
const DESTINATIONS: u32 = 1024;
/// Learning frames that are sent at once. Then the port is polled: on another host each poll takes a round
/// trip.
const AT_ONCE: usize = 64;

/// The streams of learning frames: to open the path, and to find how each flow arrives.
const PATH: u16 = 2;
const FLOWS: u16 = 3;

/// The tags of the frames that arrive at a port, and where their innermost frames begin.
pub(crate) type ArrivalFormat = (TagFormat, usize);

/// A direction: the index of the port that sends, and that of the port that receives.
pub(crate) type Direction = (usize, usize);

/// A learning frame in a direction, to a next hop and an address of the other end, counted from 0.
pub(crate) type Probe<'p> = dyn Fn(Direction, Mac, u32, (u32, Tag)) -> Option<Vec<u8>> + 'p;

/// The station address of the next hop in a direction: `to` has those of the next hops that the ends send to
/// in all directions. `None` for a router that has not answered.
pub(crate) fn next_hop(ends: &[End], to: &[Option<Mac>], (from, other): Direction) -> Option<Mac> {
    match (to[from], ends[from].gateway) {
        (Some(mac), _) => Some(mac),
        (None, None) => Some(ends[other].station.mac),
        (None, Some(_)) => None,
    }
}

/// The number of a direction among all directions between this number of ports, for learning frames.
fn number((from, to): Direction, ports: usize) -> u64 {
    let other = if to > from { to - 1 } else { to };
    (from * (ports - 1) + other) as u64
}

/// Announces all ends, resolves the next hop of each, and sends frames of `trial`, which is that of
/// `formats`, until one has arrived in each direction. Returns the station addresses of the next hops that
/// ends have for all directions, `None` for a router that did not answer, and whether all directions are
/// open.
pub(crate) fn learn(
    ports: &mut [Box<dyn TestPort>],
    (ends, formats): (&[End], &[ArrivalFormat]),
    (directions, probe): (&[Direction], &Probe<'_>),
    trial: u32,
    go_on: &dyn Fn() -> bool,
) -> Result<(Vec<Option<Mac>>, bool), Trouble> {
    let mut to: Vec<_> = ends.iter().map(|end| end.to).collect();
    let mut through = vec![false; directions.len()];
    // Each address once, the first one last, and that again until a frame has arrived.
    let addresses = |(_, other): &Direction| ends[*other].ips.count().clamp(1, DESTINATIONS);
    let mut left: Vec<_> = directions.iter().map(addresses).collect();
    let count = ports.len();
    let mut patience = Patience::new();
    ask(ports, ends, &to)?;
    let mut next = None;
    while patience.lasts() && go_on() {
        let again = next.is_none_or(|next| Instant::now() >= next);
        // Soon after the ports' queues were emptied: others' frames may fill them again.
        for (&direction, left) in directions.iter().zip(&mut left) {
            let hop = next_hop(ends, &to, direction);
            let Some(mac) = hop.filter(|_| again || *left > 0) else { continue };
            let tag = (trial, Tag { stream: PATH, sequence: number(direction, count), sent_ps: 0 });
            let all = (*left).max(1);
            let some: Vec<_> = (0..all).rev().take(AT_ONCE).collect();
            let (whose, frames): (Vec<_>, Vec<_>) = some
                .iter()
                .filter_map(|&destination| Some((destination, probe(direction, mac, destination, tag)?)))
                .unzip();
            let sent = ports[direction.0].send_now(&frames)?;
            // Frames for which there was no room are next.
            let rest = whose.get(sent).map_or(all - some.len() as u32, |first| first + 1);
            if rest < *left {
                *left = rest;
                patience = Patience::new();
            }
        }
        if again && next.replace(Instant::now() + AGAIN).is_some() {
            ask(ports, ends, &to)?;
        }
        let mut note = |at: usize, _: &[u8], tag: Tag| {
            let is_ours = tag.stream == PATH;
            // A bridge may flood the frames of other directions to this port.
            let is_here = |it: &Direction| it.1 == at && number(*it, count) == tag.sequence;
            for (_, through) in directions.iter().zip(&mut through).filter(|(it, _)| is_ours && is_here(it)) {
                *through = true;
            }
            is_ours
        };
        let mut hear = |at: usize, bytes: &[u8]| note_router(ends, &mut to, at, bytes);
        receive_and_answer(ports, (ends, formats), &mut hear, &mut note)?;
        if through.iter().all(|through| *through) && left.iter().all(|left| *left == 0) {
            // Late questions and copies of a flood must arrive before the trial.
            std::thread::sleep(QUIET);
            let mut late = |_: usize, _: &[u8], tag: Tag| tag.stream == PATH;
            while receive_and_answer(ports, (ends, formats), &mut hear, &mut late)?
                && patience.lasts()
                && go_on()
            {
                std::thread::sleep(QUIET);
            }
            break;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok((to, through.iter().all(|through| *through)))
}

/// Sends the first frame of each flow from the first port, until each has arrived at the second. Returns the
/// flows as they arrived there. A flow is `None` if its frame did not arrive within two seconds after the
/// last frame that did.
pub(crate) fn learn_flows(
    ports: &mut [Box<dyn TestPort>],
    ends: &[End],
    (flows, options, formats): (&[Flow<IpAddr>], &TemplateOptions<'_>, &[ArrivalFormat]),
    trial: u32,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<Option<Flow<IpAddr>>>, Trouble> {
    let mut learned: Vec<Option<Flow<IpAddr>>> = vec![None; flows.len()];
    let mut missing = flows.len();
    let mut patience = Patience::new();
    while missing > 0 && patience.lasts() && go_on() {
        let before = missing;
        let unknown: Vec<usize> = (0..flows.len()).filter(|n| learned[*n].is_none()).collect();
        for some in unknown.chunks(AT_ONCE).take_while(|_| go_on()) {
            let frame = |&n: &usize| {
                let tag = (trial, Tag { stream: FLOWS, sequence: n as u64, sent_ps: 0 });
                options.frame(&flows[n], n as u32, tag)
            };
            ports[0].send_now(&some.iter().filter_map(frame).collect::<Vec<_>>())?;
            let mut note = |at: usize, bytes: &[u8], tag: Tag| {
                let is_ours = tag.stream == FLOWS;
                let place = learned.get_mut(tag.sequence as usize).filter(|_| at == 1 && is_ours);
                if let Some(place @ None) = place {
                    *place = bytes.get(formats[1].1..).and_then(headers::flow);
                    missing -= usize::from(place.is_some());
                }
                is_ours
            };
            receive_and_answer(ports, (ends, formats), &mut |_, _| (), &mut note)?;
        }
        if missing < before {
            patience = Patience::new();
        }
        if missing > 0 {
            std::thread::sleep(QUIET / 4);
        }
    }
    Ok(learned)
}

/// The station addresses of the routers that the ends send to; `None` for a router that does not answer.
pub(crate) fn resolve(
    ports: &mut [Box<dyn TestPort>],
    ends: &[End],
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<Option<Mac>>, Trouble> {
    let mut to = vec![None; ends.len()];
    let formats = vec![ArrivalFormat::default(); ends.len()];
    let mut patience = Patience::new();
    let mut next = Instant::now();
    let is_open = |(end, to): (&End, &Option<Mac>)| end.gateway.is_some() && to.is_none();
    while ends.iter().zip(&to).any(is_open) && patience.lasts() && go_on() {
        if Instant::now() >= next {
            next = Instant::now() + AGAIN;
            ask(ports, ends, &to)?;
        }
        let mut hear = |at: usize, bytes: &[u8]| note_router(ends, &mut to, at, bytes);
        receive_and_answer(ports, (ends, &formats), &mut hear, &mut |_, _, _| false)?;
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(to)
}

/// Takes the frames that have come since the paths were learned, and answers questions: frames that wait in a
/// port's queue leave less room for the frames of the trial.
pub(crate) fn clear(ports: &mut [Box<dyn TestPort>], ends: &[End]) -> Result<(), Trouble> {
    let formats = vec![ArrivalFormat::default(); ends.len()];
    receive_and_answer(ports, (ends, &formats), &mut |_, _| (), &mut |_, _, _| false).map(drop)
}

/// Announces all ends, and asks for the station addresses of routers that are not in `to`.
fn ask(ports: &mut [Box<dyn TestPort>], ends: &[End], to: &[Option<Mac>]) -> Result<(), Trouble> {
    for (at, port) in ports.iter_mut().enumerate() {
        let station = ends[at].station;
        let unknown = ends[at].gateway.filter(|_| to[at].is_none());
        let others = &ends[at].others;
        let own = [station.ips.first()].into_iter().filter(|_| others.is_empty());
        let questions = own.chain(unknown).map(|whom| neighbours::question(&station, whom));
        let announced = others.iter().map(|other| neighbours::question(other, other.ips.first()));
        port.send_now(&questions.chain(announced).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// The station addresses of routers, each asked for by a station at a port; `None` for a router that does not
/// answer.
pub(crate) fn resolve_for(
    ports: &mut [Box<dyn TestPort>],
    ends: &[End],
    questions: &[(usize, Station, IpAddr)],
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<Option<Mac>>, Trouble> {
    let formats = vec![ArrivalFormat::default(); ends.len()];
    let known = vec![Some(Mac::default()); ends.len()];
    let mut found = vec![None; questions.len()];
    let mut patience = Patience::new();
    let mut next = Instant::now();
    while found.contains(&None) && patience.lasts() && go_on() {
        if Instant::now() >= next {
            next = Instant::now() + AGAIN;
            ask(ports, ends, &known)?;
            for ((at, station, router), _) in questions.iter().zip(&found).filter(|(_, mac)| mac.is_none()) {
                ports[*at].send_now(&[neighbours::question(station, *router)])?;
            }
        }
        let mut hear = |heard: usize, bytes: &[u8]| {
            for ((_, station, router), mac) in
                questions.iter().zip(&mut found).filter(|(it, _)| it.0 == heard)
            {
                let is_there = || Tags::of(bytes).ids().eq(station.tags.ids());
                *mac = mac.or_else(|| neighbours::announced_mac(bytes, *router).filter(|_| is_there()));
            }
        };
        receive_and_answer(ports, (ends, &formats), &mut hear, &mut |_, _, _| false)?;
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(found)
}

/// Notes the station address of a port's router, if a message has it.
fn note_router(ends: &[End], to: &mut [Option<Mac>], at: usize, message: &[u8]) {
    to[at] = to[at].or_else(|| neighbours::announced_mac(message, ends[at].gateway?));
}

/// Receives from all ports and answers questions. `hear` gets the port and bytes of all other frames. `note`
/// gets the port, bytes and tag of each test frame, and returns whether it is one of this trial. Returns
/// whether such a frame, or a question, has come. Pings do not count: they may never end.
fn receive_and_answer(
    ports: &mut [Box<dyn TestPort>],
    (ends, formats): (&[End], &[ArrivalFormat]),
    hear: &mut dyn FnMut(usize, &[u8]),
    note: &mut dyn FnMut(usize, &[u8], Tag) -> bool,
) -> Result<bool, Trouble> {
    let mut any = false;
    for (at, port) in ports.iter_mut().enumerate() {
        let mut answers = Vec::new();
        port.receive(formats[at].0, &mut |bytes: &[u8]| {
            if let Some((tag, _)) = formats[at].0.read(bytes) {
                any |= note(at, bytes, tag);
            } else {
                let answer = neighbours::answer_at(&ends[at].station, &ends[at].others, bytes);
                any |= answer.is_some() && neighbours::ping(bytes).is_none();
                answers.extend(answer);
                hear(at, bytes);
            }
        })?;
        if !answers.is_empty() {
            port.send_now(&answers)?;
        }
    }
    Ok(any)
}
