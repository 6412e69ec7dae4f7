//! `kpps trial`: one load between two ports, and where every frame went.

mod portless;

use crate::agent::{self, Credentials};
use crate::capture;
use crate::error::{Failure, print};
use crate::interrupt;
use crate::live::Trials;
use crate::output::Output;
use crate::replay::{Replay, ReplayArguments};
use crate::run::Common;
use crate::search::{self, tenths};
use crate::testbed;
use crate::traffic::{self, Traffic};
use crate::units::{self, Rate};
use clap::Args;
use kpps_frames::{Mac, Mix, Size, rate};
use kpps_live::Progress;
use kpps_ports::Spec;
use kpps_ports::port::run::{Load, Shape};
use kpps_report::certificate::{Certificate, Sender};
use kpps_report::trial::{Direction, FlowCount, Flows, SizeCount, Trial, TrialReplay, page};
use kpps_tester::look::Place;
use kpps_tester::{Address, Classes, Error, Offer, Tester, document};
use std::fmt::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Two ports, how they are addressed, and what is looked at.
#[derive(Args)]
pub struct Bench {
    /// The host of the first port, where `kpps agent` runs [default: this one]
    #[arg(long, value_name = "HOST[:PORT]")]
    from: Option<kpps_agent::Host>,
    /// The host of the second port [default: this one]
    #[arg(long, value_name = "HOST[:PORT]")]
    to: Option<kpps_agent::Host>,
    #[command(flatten)]
    credentials: Credentials,
    #[command(flatten)]
    traffic: Traffic,
    /// The VLAN of each port's frames, the first port's first, 0 for none; one for both
    #[arg(long, value_delimiter = ',', num_args = 1..=2, value_name = "VLAN", value_parser = clap::value_parser!(u16).range(..=4094))]
    vlan: Vec<u16>,
    /// The routers that the ports send to, the first port's first: they are asked for by ARP or neighbour discovery [default: the
    /// other port]
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS")]
    gateway: Vec<IpAddr>,
    /// The station that the first port sends to, if not the second port or a gateway
    #[arg(long, value_parser = crate::send::mac, conflicts_with = "gateway")]
    to_mac: Option<Mac>,
    /// Look at this interface of the device under test, too: IFACE; NAMESPACE/IFACE for one of another network namespace
    /// (`ip netns`), NAMESPACE/ for all of them. Virtual cables' ends and bridges in the own namespace are found
    #[arg(long, alias = "watch-interface", value_delimiter = ',', value_name = "PLACE")]
    watch: Vec<Place>,
    /// How long frames may still arrive when the last one was sent; less if none is missing
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    pub settle: Duration,
    /// From the second port to the first, too, with the same load
    #[arg(long)]
    pub both: bool,
}

impl Bench {
    /// Opens the ports.
    pub fn open(&self, testbed: &[Spec], common: &Common) -> Result<Tester, Failure> {
        let specs: [Spec; 2] = testbed
            .to_vec()
            .try_into()
            .map_err(|_| Failure::Input("a testbed has two ports: --testbed packet:A,packet:B".into()))?;
        // Nothing is opened for flows that there are not.
        self.traffic.flows()?;
        let ips = self.traffic.addresses();
        if self.gateway.iter().any(|gateway| gateway.is_ipv4() != ips[0].first().is_ipv4()) {
            return Err(Failure::Input(format!("the gateway and {} are of two versions of IP", ips[0])));
        }
        let addresses = [0, 1].map(|at: usize| Address {
            ips: ips[at],
            gateway: self.gateway.get(at).copied(),
            to: self.to_mac.filter(|_| at == 0),
            vlan: self.vlan.get(at).or(self.vlan.first()).copied().filter(|vlan| *vlan > 0),
        });
        let mut tester = if self.hosts().iter().any(Option::is_some) {
            let (ports, sites) = agent::ports(&specs, self.hosts(), &self.credentials, common, &self.watch)?;
            Tester::with(ports, addresses, sites)
        } else {
            let ports = common.open(&specs, true)?;
            let ports = ports.try_into().map_err(|_| Failure::Input("a testbed has two ports".into()))?;
            Tester::new(specs, ports, addresses, &self.watch)?
        };
        tester.flows = self.traffic.plan();
        Ok(tester)
    }

    /// How frames differ from the usual ones, in words.
    pub fn unusual(&self) -> Option<String> {
        Some(self.traffic.unusual(&self.vlan)).filter(|text| !text.is_empty())
    }

    /// What of this is asked for that takes two ports.
    pub fn asked(&self) -> Option<&'static str> {
        let asked = [
            ("--both", self.both),
            ("--from and --to", self.hosts().iter().any(Option::is_some)),
            ("--gateway", !self.gateway.is_empty()),
            ("--to-mac", self.to_mac.is_some()),
            ("--watch", !self.watch.is_empty()),
            ("a choice of flows or VLANs", self.unusual().is_some()),
        ];
        asked.into_iter().find_map(|(name, asked)| asked.then_some(name))
    }

    /// The hosts of both ports, if they are others.
    fn hosts(&self) -> [Option<&kpps_agent::Host>; 2] {
        [self.from.as_ref(), self.to.as_ref()]
    }

    /// The ports' names in results.
    pub fn names(&self, testbed: &[String]) -> Vec<String> {
        let mut hosts = self.hosts().into_iter();
        let name = |port: &String| match hosts.next().flatten() {
            Some(host) => format!("{host}/{port}"),
            None => port.clone(),
        };
        testbed.iter().map(name).collect()
    }

    /// The load as an offer.
    pub fn offer(&self, tester: &Tester, load: Rate, shape: Shape, sizes: &Mix, duration: Duration) -> Offer {
        let line_pps = tester.line_rate_pps(sizes).unwrap_or_else(|| sizes.line_rate_pps(rate::GIGABIT));
        let pps = load.pps(line_pps, sizes.mean_bytes_with_fcs());
        let load = if pps.is_finite() { Load::Pps(pps) } else { Load::Max };
        let sizes = sizes.clone();
        Offer {
            load,
            shape,
            count: None,
            sizes,
            duration,
            settle: self.settle,
            both_ways: self.both,
            keep: false,
            replay: None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Trouble(_) => Self::Check(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}

/// Arguments of `kpps trial`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps trial --testbed packet:A,packet:B --load 50kpps --duration 2s
  kpps trial --testbed packet:A,packet:B --load 10% --size 1518 --both --json
  kpps trial --testbed packet:A,packet:B --gateway 198.18.0.254 --watch router/     through a router
  kpps trial --testbed packet:A,packet:B --from H1 --to H2 --token-file FILE        A on H1, B on H2: see kpps agent
  kpps trial --testbed packet:A,packet:B --replay seen.pcapng --capture odd.pcapng   a capture; what went wrong is kept
  kpps trial --testbed packet:A,packet:B --load 200MbpsL1 --size imix-csit --src 10.0.0.1-10.0.0.200 --vlan 7
  kpps trial --testbed sim:morris2000/click-polling --load 700kpps                  in the machine room, in virtual time

The device under test lies between the two ports. Frames are offered in an open loop: one that cannot be sent within a
millisecond of its time is unsent, and counts against the load. Sent = received + lost; duplicates are counted apart,
damaged frames are received ones. The ledger says which place lost how many frames, by the counters of all interfaces
that are looked at, before the trial and after it; what no place has counted is unexplained.

Frames of --replay have no tags. Each is recognised by its bytes from the network layer on, behind bridges and routers, too:
equal ones are counted together, a damaged one is foreign and its original lost, order is judged by frames that the capture has
once, and there are no latencies. --src and --dst say for whose addresses the ports answer.")]
pub struct Arguments {
    /// The two ports: auto:INTERFACE, packet:INTERFACE, xdp:INTERFACE, udp:HOST:PORT, uio:ADDRESS or vfio:ADDRESS each; or by itself
    /// sim:MACHINE/DRIVER/APP for the machine room, lab:KERNEL/DEVICE for a guest in QEMU
    #[arg(long, value_delimiter = ',', required = true, value_name = "PORT,PORT")]
    testbed: Vec<String>,
    /// Frame size in bytes with FCS, or a mix: imix-csit, imix-trex, imix-linux, or sizes with weights as 64:7,570:4,1518:1
    #[arg(long, default_value = "64", value_parser = traffic::sizes)]
    size: Mix,
    /// Frames per second (50kpps, 1.2Mpps), a share of the line rate (50%), bits per second on layer 1 or 2 (500MbpsL1), or max:
    /// as fast as the port takes them [with --replay: the times at which frames were seen]
    #[arg(long, value_parser = crate::send::load, required_unless_present = "replay")]
    load: Option<Rate>,
    /// How frames follow each other: constant; poisson; bursts:FRAMES at once; ramp:FROM/TIME up or down to the load
    #[arg(long, default_value = "constant", value_parser = units::shape)]
    shape: Shape,
    /// How long frames are sent [default: 2s; with --replay as long as it takes; in the machine room 50ms of virtual time]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    replay: ReplayArguments,
    /// What the sending ports can send, by `kpps certify --json`, one file for each direction [default: it is measured
    /// before the trial, through the device under test]
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    certificate: Vec<PathBuf>,
    /// Send nothing, and end with 1, if the load is above what a sender can send; otherwise the result only says so
    #[arg(long)]
    strict: bool,
    /// Write a page to look at, too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Keep frames that were duplicated, reordered, corrupted or foreign in this file (pcapng), each with why as its comment:
    /// of each direction the first 1000 of each kind
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    #[command(flatten)]
    bench: Bench,
    #[command(flatten)]
    common: Common,
}

/// How long frames are sent in real time if nothing else is asked for.
const REAL: Duration = Duration::from_secs(2);

/// Runs `kpps trial`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(opened) = testbed::without_ports(&arguments.testbed, false, 1)? {
        return portless::run(arguments, opened);
    }
    let replay = arguments.replay.read(arguments.load.is_none())?;
    if replay.is_some() && arguments.bench.both {
        return Err(Failure::Input(
            "--replay goes one way: the frames have the addresses of one side".into(),
        ));
    }
    let mut tester = arguments.bench.open(&testbed::ports(&arguments.testbed)?, &arguments.common)?;
    let offer = offer(arguments, &tester, replay.as_ref())?;
    let report = arguments.report.as_deref().map(Output::open).transpose()?;
    let mut capture = arguments.capture.as_deref().map(Output::open).transpose()?;
    let ports = tester.names().join(" and ");
    let progress = Progress::of(format!("kpps trial: {ports}"));
    let source = Box::new(Trials(tester.gauges()));
    let view = arguments.common.live.view(progress.clone(), source, arguments.common.json)?;
    progress.begins("what the sender can send", None);
    let sender = sender(arguments, &mut tester, &offer)?;
    if let (true, Some(sender), Load::Pps(asked)) = (arguments.strict, &sender, offer.load)
        && sender.exceeded
    {
        let lowest = sender.ceilings_pps.iter().copied().fold(f64::INFINITY, f64::min);
        return Err(Failure::Check(format!(
            "a load of {:.1} kpps is above what the sender can send here, {:.1} kpps ({}): without --strict it is tried, and flagged",
            asked / 1e3,
            lowest / 1e3,
            sender.source
        )));
    }
    let asked = match offer.load {
        Load::Pps(pps) => Some(pps),
        Load::Max => None,
    };
    progress.begins(search::in_words(&offer.sizes, asked, offer.duration.as_secs_f64()), asked);
    let outcome = tester.trial(&offer, &|| !interrupt::asked())?;
    drop(view);
    let traffic = arguments.bench.unusual();
    let capture = capture.as_mut().map(|file| capture::write(file, &tester.names(), &outcome.ways));
    let capture = capture.transpose()?;
    let replay = replay.map(|replay| TrialReplay {
        file: replay.file.display().to_string(),
        frames: replay.count,
        with_equals: offer.replay.as_ref().map_or(0, |replay| replay.classes.with_equals()),
        departures: replay.departures,
    });
    let trial = Trial { traffic, capture, replay, ..document(&tester, &offer, &outcome) };
    let sender = match arguments.certificate[..] {
        [] => sender.map(|sender| surpassed(sender, &trial)),
        _ => sender,
    };
    let trial = Trial { sender, ..trial };
    publish(arguments, &trial, report)
}

/// Writes the page, if there is to be one, and prints the trial. What failed in it is the end.
fn publish(arguments: &Arguments, trial: &Trial, mut report: Option<Output>) -> Result<(), Failure> {
    if let Some(report) = &mut report {
        report.write(&page(trial))?;
    }
    if arguments.common.json {
        let json = trial.to_json().map_err(|e| Failure::Check(format!("no JSON of the results: {e}")))?;
        print(&json)?;
    } else {
        print(&screen(trial))?;
    }
    match (trial.trouble.clone(), interrupt::asked()) {
        (Some(trouble), _) => Err(Failure::Check(trouble)),
        (None, true) => Err(Failure::Interrupted(format!("interrupted after {:.1} s", trial.seconds))),
        (None, false) => Ok(()),
    }
}

/// What is offered, and for how long.
fn offer(arguments: &Arguments, tester: &Tester, replay: Option<&Replay>) -> Result<Offer, Failure> {
    let Arguments { bench, shape, size, .. } = arguments;
    let keep = arguments.capture.is_some();
    let load = arguments.load.unwrap_or(Rate::Pps(f64::INFINITY));
    let Some(replay) = replay else {
        let duration = arguments.duration.unwrap_or(REAL);
        return Ok(Offer { keep, ..bench.offer(tester, load, *shape, size, duration) });
    };
    let (count, whole) = replay.extent(arguments.duration.is_some());
    let offer = bench.offer(tester, load, *shape, &replay.sizes, Duration::ZERO);
    let load = replay.times.as_ref().map_or(offer.load, |times| Load::Pps(times.mean_pps()));
    let rated = match (load, count) {
        (Load::Pps(pps), Some(count)) => Some(Duration::from_secs_f64(count as f64 / pps)),
        _ => None,
    };
    let duration = arguments.duration.or(whole).or(rated);
    let duration =
        duration.ok_or_else(|| Failure::Input("--replay with --load max needs --duration".into()))?;
    let classes = Arc::new(Classes::new(&replay.frames, replay.count));
    let replay = kpps_tester::Replay { frames: replay.frames.clone(), times: replay.times.clone(), classes };
    Ok(Offer { load, duration, count, keep, replay: Some(replay), ..offer })
}

/// What the sender can do, if a rate was asked for.
fn sender(arguments: &Arguments, tester: &mut Tester, offer: &Offer) -> Result<Option<Sender>, Failure> {
    let Load::Pps(asked) = offer.load else { return Ok(None) };
    let (ceilings_pps, source) = match &arguments.certificate[..] {
        [] => (tester.ceilings(offer, &|| !interrupt::asked())?, "measured".to_owned()),
        files => {
            let ways = if offer.both_ways { 2 } else { 1 };
            if files.len() != ways {
                return Err(Failure::Input(format!(
                    "{ways} certificates are needed, one for each direction"
                )));
            }
            let certified = files.iter().zip(tester.names()).map(|(file, port)| certified(file, port, offer));
            let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            (certified.collect::<Result<_, _>>()?, names.join(", "))
        }
    };
    let exceeded = ceilings_pps.iter().any(|ceiling| asked > *ceiling);
    Ok(Some(Sender { ceilings_pps: ceilings_pps.into_iter().map(tenths).collect(), source, exceeded }))
}

/// What a sender has sent it can send, whatever was measured just before.
fn surpassed(sender: Sender, trial: &Trial) -> Sender {
    let sent = trial.directions.iter().map(|way| way.sent as f64 / trial.seconds.max(f64::MIN_POSITIVE));
    let raised = |(ceiling, sent): (&f64, f64)| ceiling.max(tenths(sent));
    let ceilings_pps: Vec<f64> = sender.ceilings_pps.iter().zip(sent).map(raised).collect();
    let exceeded = trial.offered_pps.is_some_and(|asked| ceilings_pps.iter().any(|ceiling| asked > *ceiling));
    Sender { ceilings_pps, exceeded, ..sender }
}

/// The ceiling that a file certifies.
fn certified(file: &Path, port: &str, offer: &Offer) -> Result<f64, Failure> {
    let cannot =
        |why: &dyn std::fmt::Display| Failure::Input(format!("{} is no certificate: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|e| {
        Failure::Input(format!(
            "cannot read the certificate {} (kpps certify --json writes one): {e}",
            file.display()
        ))
    })?;
    let certificate: Certificate = serde_json::from_str(&text).map_err(|e| cannot(&e))?;
    // On its own host it has no host before it.
    let port = port.rsplit_once('/').map_or(port, |(_, port)| port);
    let bytes = offer.sizes.only().map(Size::bytes_with_fcs).ok_or_else(|| {
        Failure::Input("a certificate is of frames of one size: leave it out, and the mix is measured".into())
    })?;
    if certificate.port != port || certificate.frame_bytes_with_fcs != bytes {
        let Certificate { port: other, frame_bytes_with_fcs, .. } = certificate;
        return Err(Failure::Input(format!(
            "{} is of {other} with frames of {frame_bytes_with_fcs} B, not of {port} with {bytes} B",
            file.display()
        )));
    }
    Ok(certificate.ceiling_pps)
}

/// Sizes and flows of a direction.
fn parts(direction: &Direction) -> String {
    let mut text = String::new();
    for size in &direction.sizes {
        let SizeCount { frame_bytes_with_fcs, sent, received, lost } = size;
        let _ = writeln!(text, "{frame_bytes_with_fcs:>6} B: {sent} sent, {received} received, {lost} lost");
    }
    if let Some(flows) = &direction.flows {
        let Flows { count, lossy, silent, worst } = flows;
        let _ = writeln!(
            text,
            "{count} flows from {}: {lossy} lost frames, of {silent} nothing arrived",
            direction.from
        );
        for flow in worst.iter().take(SHOWN) {
            let FlowCount { flow, sent, lost, reordered, .. } = flow;
            let _ = writeln!(text, "  {flow}: {lost} of {sent} lost, {reordered} out of order");
        }
    }
    text
}

/// Flows that a person is shown: the worst.
const SHOWN: usize = 4;

/// What a person sees.
fn screen(trial: &Trial) -> String {
    let mut text = String::new();
    let load = trial.offered_pps.map_or("as many as possible".into(), |pps| format!("{:.1} kpps", pps / 1e3));
    let _ = writeln!(
        text,
        "{}: frames of {}{}, {load} for {:.3} s\n",
        trial.testbed.join(" and "),
        trial.frames_name(),
        trial.traffic.as_ref().map(|traffic| format!(", {traffic}")).unwrap_or_default(),
        trial.seconds
    );
    for departure in trial.replay.iter().flat_map(|replay| &replay.departures) {
        let _ = writeln!(text, "{departure}\n");
    }
    if !trial.learned {
        text += "No frame came through before the trial: is the device under test on, and the right way round?\n\n";
    }
    let rows = [
        ("intended", trial.intended, ""),
        ("sent", trial.sent, ""),
        ("unsent", trial.unsent, "could not be sent at their time"),
        ("received", trial.received, ""),
        ("lost", trial.lost, ""),
        ("duplicated", trial.duplicated, ""),
        ("reordered", trial.reordered, ""),
        ("corrupted", trial.corrupted, ""),
        ("foreign", trial.foreign, "not of this trial"),
    ];
    for (name, count, what) in rows {
        let _ = writeln!(text, "{}", format!("{name:<12}{count:>12}  {what}").trim_end());
    }
    let _ = writeln!(
        text,
        "\n{:.1} kpps sent ({:.1} Mb/s on layer 1, {:.1} Mb/s on layer 2), {:.1} kpps received; loss {:.4} % (unsent and corrupted frames among them)",
        trial.sent_pps / 1e3,
        trial.sent_bps.l1 / 1e6,
        trial.sent_bps.l2 / 1e6,
        trial.received_pps / 1e3,
        trial.loss_ratio * 100.0
    );
    for direction in &trial.directions {
        text += &parts(direction);
    }
    if let Some(sender) = &trial.sender {
        let ceilings: Vec<_> = sender.ceilings_pps.iter().map(|pps| format!("{:.1}", pps / 1e3)).collect();
        let above = if sender.exceeded {
            ": the load is above that, and so is part of the loss the sender's"
        } else {
            ""
        };
        let _ =
            writeln!(text, "sender: at most {} kpps here ({}){above}", ceilings.join(" and "), sender.source);
    }
    for direction in &trial.directions {
        if let Some((gaps, within)) = direction.gaps.and_then(|gaps| Some((gaps, gaps.share_within()?))) {
            let _ = writeln!(
                text,
                "gaps of {}: {:.2} % within 10 µs of {:.3} µs, 99 % up to {:.1} µs, the longest {:.1} µs",
                direction.from,
                100.0 * within,
                gaps.asked_ns.unwrap_or(0.0) / 1e3,
                gaps.p99_ns as f64 / 1e3,
                gaps.longest_ns as f64 / 1e3
            );
            text += &crate::send::waited(gaps.waited_ns, trial.seconds);
        }
    }
    let latency = trial.latency_ns;
    if let (Some(p50), Some(p99), Some(p999), Some(max)) =
        (latency.p50, latency.p99, latency.p999, latency.max)
    {
        let us = |ns: u64| ns as f64 / 1e3;
        let arrival = trial.arrival().map(|arrival| format!(" ({arrival})")).unwrap_or_default();
        let _ = writeln!(
            text,
            "latency{}: half within {:.1} µs, 99 % {:.1} µs, 99.9 % {:.1} µs, all {:.1} µs",
            arrival,
            us(p50),
            us(p99),
            us(p999),
            us(max)
        );
    }
    for missing in trial.clocks_set() {
        let _ = writeln!(text, "{missing}");
    }
    if let Some(capture) = &trial.capture {
        let _ = writeln!(text, "{}", capture.sentence());
    }
    if let Some(clocks) = &trial.clocks {
        let _ = writeln!(text, "{}", clocks.sentence());
    }
    let ledger = &trial.ledger;
    let missing = ledger.sent.saturating_sub(ledger.delivered);
    let whole = if trial.directions.is_empty() { ", its warm-up and end among them" } else { "" };
    let _ = writeln!(text, "\nwhere {missing} of {} sent frames ended{whole}:", ledger.sent);
    for (place, frames) in &ledger.dropped {
        let _ = writeln!(text, "{frames:>12}  {place}");
    }
    for (place, frames) in &ledger.in_flight_at {
        let _ = writeln!(text, "{frames:>12}  still queued at {place}");
    }
    let _ = writeln!(text, "{:>12}  unexplained", ledger.unexplained);
    let names = trial.processor_names();
    if names.is_empty() {
        return text;
    }
    let width = names.iter().map(String::len).max().unwrap_or(0).max(4);
    let _ = writeln!(
        text,
        "\n{:>width$} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "CPU", "user", "system", "irq", "softirq", "idle"
    );
    for (name, cpu) in names.iter().zip(&trial.processors) {
        let _ = writeln!(
            text,
            "{name:>width$} {:>6.3} s {:>6.3} s {:>6.3} s {:>6.3} s {:>6.3} s",
            cpu.user_s, cpu.system_s, cpu.irq_s, cpu.softirq_s, cpu.idle_s
        );
    }
    if let Some(cycles) = trial.cycles_per_frame() {
        let _ = writeln!(text, "{cycles:.0} cycles for each frame that arrived, of all processors together");
    }
    text
}
