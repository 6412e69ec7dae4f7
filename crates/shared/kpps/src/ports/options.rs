//! Common parts of the commands on ports: their options, the end of a run, and its results.

use super::cores::Cores;
use crate::error::Failure;
use crate::heading;
use crate::live::Live;
use crate::output::{Files, Outputs};
use crate::session::Session;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use kpps_documents::run::Run;
use kpps_ports::Spec;
use kpps_ports::port::run::{CpuList, use_cores, use_cpus, use_priority};
use kpps_ports::port::{self, AnyPort, NotReady, ServiceKind, Trouble};
use kpps_rendering::live::{Meter, Progress, View};
use kpps_tester::RunStart;
use kpps_tester::live::{Metered, RunWatch};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Options of all commands on ports.
#[derive(Args, Clone)]
pub struct PortOptions {
    /// How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left;
    /// `kpps` adapts to the load and sleeps when idle [default: kpps]
    #[arg(long, value_name = "polling|napi|kpps", help_heading = heading::CARDS_AND_CPUS)]
    service: Option<ServiceKind>,
    /// Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit
    /// on locked memory allows no more]
    #[arg(long, value_name = "DESCRIPTORS", help_heading = heading::CARDS_AND_CPUS)]
    ring: Option<u16>,
    /// CPUs for senders and receivers, as 2,3 or 0-3. Senders use the first CPUs of the list [default: CPUs
    /// on which little else runs]
    #[arg(long, value_name = "LIST", help_heading = heading::CARDS_AND_CPUS)]
    pub cpus: Option<CpuList>,
    /// Whether senders and receivers run with priority over other programs, if this user may raise the
    /// priority [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no(), help_heading = heading::CARDS_AND_CPUS)]
    pub priority: Option<bool>,
    /// Further arguments of DPDK (of its EAL), for dpdk: ports, as '-m 2048 --log-level=debug'
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true, help_heading = heading::CARDS_AND_CPUS)]
    pub eal: Option<String>,
}

/// Starts DPDK with these arguments, too, when a port needs it.
pub fn use_eal(arguments: Option<&str>) {
    #[cfg(target_os = "linux")]
    kpps_dpdk::use_arguments(arguments);
    #[cfg(not(target_os = "linux"))]
    let _ = arguments;
}

/// Reads yes or no.
pub fn yes_or_no() -> impl TypedValueParser<Value = bool> {
    let values = [PossibleValue::new("yes").alias("true"), PossibleValue::new("no").alias("false")];
    PossibleValuesParser::new(values).map(|word| ["yes", "true"].contains(&word.as_str()))
}

/// Options of the commands that run on ports by themselves.
#[derive(Args)]
pub struct RunOptions {
    /// Print the numbers of frames received and sent so far at intervals of this time, as lines of JSON on
    /// standard error
    #[arg(long, value_name = "TIME", value_parser = kpps_methods::units::duration, help_heading = heading::VIEW)]
    every: Option<Duration>,
    #[command(flatten)]
    pub ports: PortOptions,
    #[command(flatten)]
    live: Live,
    #[command(flatten)]
    pub outputs: Outputs,
}

/// A run on ports.
pub struct Job<'j> {
    /// The command's name.
    pub command: &'j str,
    /// The names of the ports.
    pub specs: &'j [Spec],
    /// Frames per second that are to be sent, if any are, and not as many as possible.
    pub offered_pps: Option<f64>,
    /// How long it runs; `None`: until something else ends it.
    pub duration: Option<Duration>,
}

impl PortOptions {
    fn service(&self) -> ServiceKind {
        self.service.unwrap_or_default()
    }

    /// How ports are opened.
    pub fn options(&self, promiscuous: bool) -> port::Options {
        port::Options { service: self.service(), ring: self.ring, promiscuous, ..port::Options::default() }
    }

    /// Refuses options of cards, if none of these ports is a card, and those of DPDK.
    pub fn check(&self, specs: &[Spec]) -> Result<(), Failure> {
        let may_be_card = |spec: &Spec| matches!(spec, Spec::Card(..) | Spec::Auto(_));
        let is_dpdk = |spec: &Spec| matches!(spec, Spec::Dpdk(_));
        match specs.first() {
            Some(first) if self.eal.is_some() && !specs.iter().any(is_dpdk) => Err(Failure::Input(format!(
                "--eal is for devices that DPDK drives (dpdk:DEVICE): {first} is no such device"
            ))),
            Some(first) if self.service.is_some() && !specs.iter().any(may_be_card) => {
                let cards = "is for cards that kpps' own driver drives (vfio:ADDRESS, uio:ADDRESS)";
                Err(Failure::Input(format!("--service {cards}: {first} is no such card")))
            }
            _ => Ok(()),
        }
    }

    /// These options for a port on this host, beside a port on another host. If the other port is a card, the
    /// options of cards are left out: they may be meant for it alone.
    pub fn beside(&self, other: &Spec) -> Self {
        let is_card = matches!(other, Spec::Card(..));
        let (ring, service) = (self.ring.filter(|_| !is_card), self.service.filter(|_| !is_card));
        Self { ring, service, ..self.clone() }
    }

    /// Opens the ports and waits for their links.
    pub fn open(
        &self,
        session: &Session,
        specs: &[Spec],
        promiscuous: bool,
    ) -> Result<Vec<AnyPort>, Failure> {
        self.open_on(session, specs, promiscuous, None)
    }

    /// As [`open`](Self::open), with these cores for each port.
    pub fn open_on(
        &self,
        session: &Session,
        specs: &[Spec],
        promiscuous: bool,
        cores: Option<&Cores>,
    ) -> Result<Vec<AnyPort>, Failure> {
        self.check(specs)?;
        session.watch();
        use_cpus(self.cpus.as_ref()).map_err(Failure::Input)?;
        use_cores(cores.and_then(|cores| cores.cpus.as_ref())).map_err(Failure::Input)?;
        use_priority(self.priority.unwrap_or(true));
        use_eal(self.eal.as_deref());
        let cores = cores.map_or(1, |cores| cores.count);
        let options = port::Options { cores, ..self.options(promiscuous) };
        let ports = port::ready(specs, &options, &|line: &str| session.tell(line))?;
        kpps_tester::provenance::note_opened(specs);
        Ok(ports)
    }
}

impl RunOptions {
    /// Shows the progress of a run: the counts of the meter.
    pub fn show(
        &self,
        session: &Session,
        title: String,
        offered_pps: Option<f64>,
    ) -> Result<(Arc<Meter>, View), Failure> {
        let (progress, meter) = (Progress::of(title), Arc::new(Meter::printed(self.every)));
        progress.offers(offered_pps);
        let source = Box::new(Metered(meter.clone()));
        // Lines of JSON on the same stream show enough.
        let view = match self.every {
            None => self.live.view(session, progress, source, self.outputs.for_machines())?,
            Some(_) => View::none(),
        };
        Ok((meter, view))
    }

    /// Ends a run after this time, if it is given, and shows its counts on the meter.
    pub fn watch(&self, session: &Session, at_most: Option<Duration>, meter: &Arc<Meter>) -> RunWatch {
        let session = session.clone();
        RunWatch::new(move || session.goes_on(), at_most, meter.clone())
    }

    /// Does `work` on open ports. `work` returns its result and how long it took. Returns the result, if it
    /// did not fail, and the ports' counts.
    pub fn run<T>(
        &self,
        session: &Session,
        job: &Job<'_>,
        ports: &mut [AnyPort],
        work: impl FnOnce(&mut [AnyPort], &mut RunWatch) -> Result<(T, Duration), Trouble>,
    ) -> Result<(Option<T>, Run), Failure> {
        let names: Vec<_> = job.specs.iter().map(ToString::to_string).collect();
        let start = RunStart::now(ports)?;
        let title = format!("kpps {} {}", job.command, names.join(" "));
        let (meter, view) = self.show(session, title, job.offered_pps)?;
        let begun = Instant::now();
        let done = work(ports, &mut self.watch(session, job.duration, &meter));
        drop(view);
        let (result, elapsed, trouble) = match done {
            Ok((result, elapsed)) => (Some(result), elapsed, None),
            Err(trouble) => (None, begun.elapsed(), Some(trouble)),
        };
        let run = start.results(job.command, self.ports.service().name(), job.specs, ports, elapsed, trouble);
        Ok((result, Run { complete: run.complete && session.goes_on(), ..run }))
    }
}

impl From<NotReady> for Failure {
    fn from(error: NotReady) -> Self {
        match error {
            NotReady::Closed(_) => Self::Input(error.to_string()),
            NotReady::Trouble(_) | NotReady::NoLink(_) => Self::Failed(error.to_string()),
        }
    }
}

/// Publishes the results, and ends as the run ended.
pub fn finish(run: &Run, files: &mut Files, notes: &str, ends_by_interrupt: bool) -> Result<(), Failure> {
    files.publish(run, notes)?;
    match &run.trouble {
        Some(trouble) => Err(Failure::Failed(trouble.clone())),
        None if run.complete || ends_by_interrupt => Ok(()),
        None => Err(Failure::Interrupted(format!("interrupted after {:.1} s", run.seconds))),
    }
}
