//! What the commands on ports have in common: their options, the end of a run, and how its results look.

use crate::error::{Failure, print};
use crate::interrupt;
use clap::{Args, ValueEnum};
use kpps_ports::Spec;
use kpps_ports::port::run::{Glance, Watch, wait_for_links};
use kpps_ports::port::{self, AnyPort, Counters, Port, ServiceKind, Trouble};
use kpps_report::{PortRun, ProcessorTime, Run};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

/// How long a link may take to come up: autonegotiation and a switch that thinks.
const LINK: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, ValueEnum)]
enum ServiceName {
    Polling,
    Napi,
    Kpps,
}

/// Options of all commands on ports.
#[derive(Args)]
pub struct Common {
    /// How a card is served: `polling` never sleeps, `napi` polls after an interrupt until nothing is left, `kpps` finds
    /// its own pace and sleeps when idle
    #[arg(long, value_enum, default_value = "kpps")]
    service: ServiceName,
    /// Descriptors in each ring of a card, a multiple of 8 [default: 2048, or the most that its chip can have or
    /// that this user may lock memory for]
    #[arg(long, value_name = "DESCRIPTORS")]
    ring: Option<u16>,
    /// Print the results as one JSON document
    #[arg(long)]
    pub json: bool,
    /// Print the frames received and sent so far, this often, as lines of JSON on standard error
    #[arg(long, value_name = "TIME", value_parser = crate::units::duration)]
    every: Option<Duration>,
}

impl Common {
    /// How ports are opened.
    pub fn options(&self, promiscuous: bool) -> port::Options {
        let service = match self.service {
            ServiceName::Polling => ServiceKind::Polling,
            ServiceName::Napi => ServiceKind::Napi,
            ServiceName::Kpps => ServiceKind::Kpps,
        };
        port::Options { service, ring: self.ring, promiscuous }
    }

    /// Opens the ports and waits for their links.
    pub fn open(&self, specs: &[Spec], promiscuous: bool) -> Result<Vec<AnyPort>, Failure> {
        let options = self.options(promiscuous);
        let mut chosen = Vec::with_capacity(specs.len());
        for spec in specs {
            let (port, why) = port::choose(spec).map_err(|e| Failure::Input(e.to_string()))?;
            if let Some(why) = why {
                eprintln!("{spec} is {port}: {why}");
            }
            chosen.push(port);
        }
        let mut ports = port::open(&chosen, &options).map_err(|e| Failure::Input(e.to_string()))?;
        interrupt::watch();
        if !wait_for_links(&mut ports, LINK).map_err(broken)? {
            let down: Vec<_> = specs
                .iter()
                .zip(&ports)
                .filter(|(_, port)| !port.link().up)
                .map(|(spec, _)| spec.to_string())
                .collect();
            return Err(Failure::Check(format!(
                "the link of {} does not come up: check the cable (of a packet: port: `ip link set IFACE up`)",
                down.join(", ")
            )));
        }
        Ok(ports)
    }

    /// A run of this length, or an endless one.
    pub fn ends(&self, at_most: Option<Duration>) -> Ends {
        Ends { every: self.every, ..Ends::after(at_most) }
    }

    /// The name of the service.
    fn service(&self) -> &'static str {
        match self.service {
            ServiceName::Polling => "polling",
            ServiceName::Napi => "napi",
            ServiceName::Kpps => "kpps",
        }
    }
}

/// A port failed under way.
pub fn broken(trouble: Trouble) -> Failure {
    Failure::Check(trouble.to_string())
}

/// Ends a run at its time or when the user has enough, and shows once a second how it goes.
pub struct Ends {
    at_most: Option<Duration>,
    shows: bool,
    every: Option<Duration>,
    shown: Glance,
}

impl Ends {
    /// A run of this length, or an endless one.
    pub fn after(at_most: Option<Duration>) -> Self {
        Self { at_most, shows: std::io::stderr().is_terminal(), every: None, shown: Glance::default() }
    }

    /// Removes the line that shows how it goes.
    pub fn clear(&self) {
        if self.shows {
            eprint!("\r\x1b[K");
        }
    }
}

impl Watch for Ends {
    fn at_most(&self) -> Option<Duration> {
        self.at_most
    }

    fn go_on(&mut self, glance: &Glance) -> bool {
        let since = glance.elapsed - self.shown.elapsed;
        if let Some(every) = self.every {
            if since >= every {
                let Glance { elapsed, received, sent, .. } = glance;
                let elapsed = elapsed.as_secs_f64();
                eprintln!("{{\"seconds\":{elapsed:.6},\"received\":{received},\"sent\":{sent}}}");
                self.shown = *glance;
            }
        } else if self.shows && since >= Duration::from_secs(1) {
            let rate = |now: u64, before: u64| (now - before) as f64 / since.as_secs_f64() / 1e3;
            eprint!(
                "\r{:>5.0} s  received {:>9.1} kpps  sent {:>9.1} kpps\x1b[K",
                glance.elapsed.as_secs_f64(),
                rate(glance.received, self.shown.received),
                rate(glance.sent, self.shown.sent),
            );
            self.shown = *glance;
        }
        !interrupt::asked()
    }
}

/// Time that the processors have spent for this process so far.
fn processor_time() -> ProcessorTime {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return ProcessorTime::default() };
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    ProcessorTime { user_s: seconds(usage.user_time()), system_s: seconds(usage.system_time()) }
}

/// The state of things when a run begins: what its results are counted from.
pub struct Start {
    counters: Vec<Counters>,
    cpu: ProcessorTime,
}

impl Start {
    /// Now.
    pub fn now(ports: &mut [AnyPort]) -> Result<Self, Failure> {
        let counters = ports.iter_mut().map(Port::counters).collect::<Result<_, _>>().map_err(broken)?;
        Ok(Self { counters, cpu: processor_time() })
    }

    /// The results of a run that ends now.
    pub fn results(
        &self,
        command: &str,
        common: &Common,
        specs: &[Spec],
        ports: &mut [AnyPort],
        elapsed: Duration,
    ) -> Result<Run, Failure> {
        let cpu = processor_time();
        let mut rows = Vec::with_capacity(ports.len());
        for ((spec, port), before) in specs.iter().zip(ports).zip(&self.counters) {
            let now = port.counters().map_err(broken)?;
            rows.push(row(common, spec, port, before, &now, elapsed));
        }
        Ok(Run {
            kpps_version: env!("CARGO_PKG_VERSION").into(),
            command: command.into(),
            seconds: elapsed.as_secs_f64(),
            complete: !interrupt::asked(),
            ports: rows,
            cpu: ProcessorTime {
                user_s: cpu.user_s - self.cpu.user_s,
                system_s: cpu.system_s - self.cpu.system_s,
            },
            ..Run::default()
        }
        .rounded())
    }
}

fn row(
    common: &Common,
    spec: &Spec,
    port: &AnyPort,
    before: &Counters,
    now: &Counters,
    elapsed: Duration,
) -> PortRun {
    let seconds = elapsed.as_secs_f64();
    let received = now.received - before.received;
    let sent = now.sent - before.sent;
    let drops = [
        ("missed", now.missed - before.missed),
        ("full", now.full - before.full),
        ("errors", now.errors - before.errors),
        ("unsent", now.unsent - before.unsent),
    ];
    PortRun {
        port: spec.to_string(),
        chip: port.chip().map(|chip| chip.name().into()),
        service: port.chip().map(|_| common.service().into()),
        received,
        received_bytes: now.received_bytes - before.received_bytes,
        received_pps: received as f64 / seconds,
        sent,
        sent_bytes: now.sent_bytes - before.sent_bytes,
        sent_pps: sent as f64 / seconds,
        drops: drops.into_iter().map(|(place, count)| (place.to_owned(), count)).collect(),
        no_buffer: now.no_buffer - before.no_buffer,
        interrupts: now.interrupts - before.interrupts,
        register_reads: now.register_reads - before.register_reads,
        register_writes: now.register_writes - before.register_writes,
        doorbells: now.doorbells - before.doorbells,
        nudges: now.nudges - before.nudges,
        system_calls: now.system_calls - before.system_calls,
        resets: now.resets - before.resets,
    }
}

/// Prints the results, and ends as the run ended.
pub fn finish(run: &Run, common: &Common, more: &str, ends_by_interrupt: bool) -> Result<(), Failure> {
    if common.json {
        let json = run.to_json().map_err(|e| Failure::Check(format!("no JSON of the results: {e}")))?;
        print(&json)?;
    } else {
        print(&screen(run, more))?;
    }
    match run.complete || ends_by_interrupt {
        true => Ok(()),
        false => Err(Failure::Interrupted(format!("interrupted after {:.1} s", run.seconds))),
    }
}

/// What a person sees.
fn screen(run: &Run, more: &str) -> String {
    let width = run.ports.iter().map(|port| port.port.len()).max().unwrap_or(0).max(4);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:width$}  {:>8}  {:>8}  {:>12}  {:>9}  {:>12}  {:>9}",
        "port", "chip", "service", "received", "kpps", "sent", "kpps"
    );
    for port in &run.ports {
        let _ = writeln!(
            text,
            "{:width$}  {:>8}  {:>8}  {:>12}  {:>9.1}  {:>12}  {:>9.1}",
            port.port,
            port.chip.as_deref().unwrap_or("-"),
            port.service.as_deref().unwrap_or("-"),
            port.received,
            port.received_pps / 1e3,
            port.sent,
            port.sent_pps / 1e3
        );
    }
    text.push('\n');
    for port in &run.ports {
        let lost: Vec<_> = port
            .drops
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(place, count)| format!("{count} {}", place_in_words(place)))
            .collect();
        if !lost.is_empty() {
            let _ = writeln!(text, "{}: {}", port.port, lost.join(", "));
        }
    }
    text += more;
    for port in &run.ports {
        let frames = (port.received + port.sent).max(1) as f64;
        if port.chip.is_some() {
            let _ = writeln!(
                text,
                "{}: {:.4} register accesses per frame ({} reads, {} writes), {} interrupts",
                port.port,
                (port.register_reads + port.register_writes) as f64 / frames,
                port.register_reads,
                port.register_writes,
                port.interrupts
            );
        }
        if port.resets > 0 {
            let _ = writeln!(text, "{}: hung, and was reset {} times", port.port, port.resets);
        }
    }
    let busy = 100.0 * (run.cpu.user_s + run.cpu.system_s) / run.seconds.max(1e-9);
    let _ = writeln!(
        text,
        "{:.3} s; CPU {busy:.0} %: {:.3} s in the program, {:.3} s in the kernel",
        run.seconds, run.cpu.user_s, run.cpu.system_s
    );
    text
}

fn place_in_words(place: &str) -> &str {
    match place {
        "missed" => "missed (no room to receive them)",
        "full" => "not sent (no room in the transmit ring)",
        "errors" => "damaged",
        "unsent" => "not sent (cut off, or refused)",
        other => other,
    }
}
