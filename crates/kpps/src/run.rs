//! What the commands on ports have in common: their options, the end of a run, and how its results look.

use crate::error::Failure;
use crate::interrupt;
use crate::live::{self, Live};
use crate::output::{Files, Forms};
use clap::{Args, ValueEnum};
use kpps_live::{Counts, Meter, Progress, View};
use kpps_ports::Spec;
use kpps_ports::port::run::{Glance, Watch, wait_for_links};
use kpps_ports::port::{self, AnyPort, Counters, Port, ServiceKind, Trouble};
use kpps_report::rows_csv;
use kpps_results::run::{PortRun, ProcessorTime, Run};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// How long a link may take to come up: autonegotiation, and a switch that blocks a new port at first.
const LINK: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, ValueEnum)]
enum ServiceName {
    Polling,
    Napi,
    Kpps,
}

/// Options of all commands on ports.
#[derive(Args)]
pub struct PortOptions {
    /// How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to
    /// the load and sleeps when idle
    #[arg(long, value_enum, default_value = "kpps")]
    service: ServiceName,
    /// Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory
    /// allows no more]
    #[arg(long, value_name = "DESCRIPTORS")]
    ring: Option<u16>,
    /// Print the numbers of frames received and sent so far, this often, as lines of JSON on standard error
    #[arg(long, value_name = "TIME", value_parser = crate::units::duration)]
    every: Option<Duration>,
    #[command(flatten)]
    pub live: Live,
}

impl PortOptions {
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
            match why {
                Some(word) if port == *spec => eprintln!("{spec}: {word}"),
                Some(why) => eprintln!("{spec} is {port}: {why}"),
                None => {}
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

    /// Shows how a run goes: what the meter shows. `for_machines`: its results are not for a person.
    pub fn show(
        &self,
        title: String,
        offered_pps: Option<f64>,
        for_machines: bool,
    ) -> Result<(Arc<Meter>, View), Failure> {
        let (progress, meter) = (Progress::of(title), Arc::new(Meter::default()));
        progress.offers(offered_pps);
        let source = Box::new(live::Metered(meter.clone()));
        // Lines of JSON on the same stream show enough.
        let view = match self.every {
            None => self.live.view(progress, source, for_machines)?,
            Some(_) => View::none(),
        };
        Ok((meter, view))
    }

    /// A run of this length, or an endless one, that can be seen on the meter.
    pub fn ends(&self, at_most: Option<Duration>, meter: &Arc<Meter>) -> Ends {
        Ends { at_most, meter: meter.clone(), begun: None, every: self.every, told: Duration::ZERO }
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

/// Ends a run at its time or when the user has enough, and lets it be seen how it goes.
pub struct Ends {
    at_most: Option<Duration>,
    meter: Arc<Meter>,
    /// The first glance: the ports may have been used before.
    begun: Option<Glance>,
    every: Option<Duration>,
    /// When it was last told how it goes.
    told: Duration,
}

impl Watch for Ends {
    fn at_most(&self) -> Option<Duration> {
        self.at_most
    }

    fn go_on(&mut self, glance: &Glance) -> bool {
        let Glance { elapsed, received, sent, .. } = *glance;
        let begun = self.begun.get_or_insert(*glance);
        let (so_far, came) = (sent - begun.sent, received - begun.received);
        self.meter.show(Counts { elapsed, sent: so_far, received: came });
        if let Some(every) = self.every
            && elapsed - self.told >= every
        {
            let elapsed_s = elapsed.as_secs_f64();
            eprintln!("{{\"seconds\":{elapsed_s:.6},\"received\":{received},\"sent\":{sent}}}");
            self.told = elapsed;
        }
        !interrupt::asked()
    }
}

/// Time that the processors have spent for this process so far, where the system tells.
#[cfg(unix)]
fn processor_time() -> Option<ProcessorTime> {
    let time = kpps_ports::cpu_time()?;
    Some(ProcessorTime { user_s: time.user.as_secs_f64(), system_s: time.system.as_secs_f64() })
}

#[cfg(not(unix))]
fn processor_time() -> Option<ProcessorTime> {
    None
}

/// The state of things when a run begins: what its results are counted from.
pub struct Start {
    counters: Vec<Counters>,
    cpu: Option<ProcessorTime>,
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
        options: &PortOptions,
        specs: &[Spec],
        ports: &mut [AnyPort],
        elapsed: Duration,
    ) -> Result<Run, Failure> {
        let cpu = processor_time();
        let mut rows = Vec::with_capacity(ports.len());
        for ((spec, port), before) in specs.iter().zip(ports).zip(&self.counters) {
            let now = port.counters().map_err(broken)?;
            rows.push(row(options, spec, port, before, &now, elapsed));
        }
        Ok(Run {
            kpps_version: env!("CARGO_PKG_VERSION").into(),
            command: command.into(),
            seconds: elapsed.as_secs_f64(),
            complete: !interrupt::asked(),
            ports: rows,
            cpu: cpu.zip(self.cpu).map(|(now, then)| ProcessorTime {
                user_s: now.user_s - then.user_s,
                system_s: now.system_s - then.system_s,
            }),
            ..Run::default()
        }
        .rounded())
    }
}

fn row(
    options: &PortOptions,
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
        service: port.chip().map(|_| options.service().into()),
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

/// Publishes the results, and ends as the run ended.
pub fn finish(run: &Run, files: &mut Files, more: &str, ends_by_interrupt: bool) -> Result<(), Failure> {
    files.publish(
        run,
        &Forms { screen: &|| screen(run, more), csv: &|| rows_csv(&run.ports), page: &|_| String::new() },
    )?;
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
    let _ = write!(text, "{:.3} s", run.seconds);
    if let Some(ProcessorTime { user_s, system_s }) = run.cpu {
        let busy = 100.0 * (user_s + system_s) / run.seconds.max(1e-9);
        let _ =
            write!(text, "; CPU {busy:.0} %: {user_s:.3} s in the program, {system_s:.3} s in the kernel");
    }
    text.push('\n');
    text
}

fn place_in_words(place: &str) -> &str {
    match place {
        "missed" => "missed (receive ring full)",
        "full" => "not sent (transmit ring full)",
        "errors" => "damaged",
        "unsent" => "not sent (cut off or refused)",
        other => other,
    }
}
