//! What the commands on ports have in common: their options, the end of a run, and how its results look.

use crate::error::Failure;
use crate::interrupt;
use crate::live::{self, Live};
use crate::output::{Files, Forms};
use clap::{Args, ValueEnum};
use kpps_ports::Spec;
use kpps_ports::port::run::{Glance, Watch, wait_for_links};
use kpps_ports::port::{self, AnyPort, Port, ServiceKind, Trouble};
use kpps_report::live::{Counts, Meter, Progress, View};
use kpps_report::rows_csv;
use kpps_report::run::screen;
use kpps_results::run::Run;
use kpps_tester::RunStart;
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
    /// How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left;
    /// `kpps` adapts to the load and sleeps when idle
    #[arg(long, value_enum, default_value = "kpps")]
    service: ServiceName,
    /// Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit
    /// on locked memory allows no more]
    #[arg(long, value_name = "DESCRIPTORS")]
    ring: Option<u16>,
    /// Print the numbers of frames received and sent so far, this often, as lines of JSON on standard error
    #[arg(long, value_name = "TIME", value_parser = kpps_measure::units::duration)]
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

/// The state of ports when a run begins.
pub struct Start(RunStart);

impl Start {
    /// The state now.
    pub fn now(ports: &mut [AnyPort]) -> Result<Self, Failure> {
        RunStart::now(ports).map(Self).map_err(broken)
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
        let run = self.0.results(command, options.service(), specs, ports, elapsed).map_err(broken)?;
        Ok(Run { complete: interrupt::goes_on(), ..run })
    }
}

/// Publishes the results, and ends as the run ended.
pub fn finish(run: &Run, files: &mut Files, more: &str, ends_by_interrupt: bool) -> Result<(), Failure> {
    files.publish(run, &Forms::table(&|| screen(run, more), &|| rows_csv(&run.ports)))?;
    match run.complete || ends_by_interrupt {
        true => Ok(()),
        false => Err(Failure::Interrupted(format!("interrupted after {:.1} s", run.seconds))),
    }
}
