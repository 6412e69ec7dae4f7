//! `kpps curve`: delivered against offered packets per second.

use crate::error::Failure;
use crate::heading;
use crate::live::OpenTestbed;
use crate::output::{BoundArguments, Outputs, Resume};
use crate::session::Session;
use crate::simulator::{COMPARED, ErrorBars, Nic};
use crate::testbed::{Chosen, Simulated, Target, TestbedArguments};
use clap::Args;
use kpps_documents::{Curve, Environment};
use kpps_frames::Mix;
use kpps_frames::rate::Rate;
use kpps_methods::units::{self, Loads};
use kpps_methods::{Error, Kind, NamedTestbed, Points, Sweep, default_loads, of_frames, real_loads, sweep};
use kpps_rendering::live::{Progress, Source};
use kpps_sim::{Activity, choice};
use std::time::{Duration, Instant};

/// Arguments of `kpps curve`.
#[derive(Args)]
#[command(
    mut_arg("driver", |driver| driver.help(COMPARED)),
    after_help = "Examples:
  kpps curve --driver kpps --load 50%..100%/10%                        in the simulator
  kpps curve --report curve.html --csv curve.csv
  kpps curve --driver kpps --error-bars 40                             how uncertain is the model?
  kpps curve --machine evans2005-athlon --nic bge --load 50kpps..300kpps/50kpps
  kpps curve --machine ols2005 --program netreceive                    a process receives
  kpps curve --ports packet:A,packet:B --load 100kpps..1Mpps/100kpps --resume curve.jsonl
  kpps curve --ports packet:A,packet:B --size imix-csit --bidirectional --flows 1000
  kpps curve --testbed lab:linux-6.1/e1000,lab:linux-6.1/e1000/dpdk-uio --set linux.RxIntDelay=100

A curve can compare several guests in QEMU. lab:KERNEL/DEVICE is a guest with the kernel's own driver,
lab:KERNEL/DEVICE/DRIVER-BACKEND a guest with another driver. An app may follow: receive, forward or bridge, as
in lab:linux-6.1/e1000/linux/forward. With --bidirectional each direction gets the load, and the results are
those of both directions together. --max-loss and --max-p99 bound each point, --min-rate the best rate of each
series."
)]
pub struct Arguments {
    /// Frame size in bytes with FCS
    #[arg(long, value_name = "SIZE|MIX", value_parser = units::sizes, help_heading = heading::TRAFFIC)]
    size: Option<Mix>,
    /// Offered loads: a list as 100kpps,80%,100%, or FROM..TO/STEP as 100kpps..1Mpps/100kpps, also in bits
    /// per second as 10MbpsL1..1GbpsL1/10MbpsL1 [default: 100kpps..100%/100kpps; on ports and guests: growing
    /// steps from 10kpps; on ports the curve ends at the first load that the tester cannot sustain]
    #[arg(long, value_name = "LOAD,…", help_heading = heading::LOAD)]
    load: Option<Loads>,
    /// How long each trial is measured [default: 1s; in the simulator 50ms of virtual time]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    #[command(flatten)]
    nic: Nic,
    /// The program that receives in the simulator, on a machine with FreeBSD or with Linux 2.4 or later
    /// [default: frames end in the kernel]
    #[arg(long, value_name = "NAME", value_parser = [choice::NETRECEIVE], help_heading = heading::MACHINE)]
    program: Option<String>,
    #[command(flatten)]
    resume: Resume,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    error_bars: ErrorBars,
    #[command(flatten)]
    bounds: BoundArguments,
    #[command(flatten)]
    target: TestbedArguments,
}

/// The testbed of a curve.
struct Ready {
    testbeds: Vec<NamedTestbed>,
    source: Box<dyn Source>,
    environment: Environment,
}

/// Runs `kpps curve`.
pub fn run(arguments: Arguments, session: &Session) -> Result<(), Failure> {
    let Arguments {
        size,
        load: given,
        duration,
        nic: Nic { nic },
        program,
        resume: journal,
        outputs,
        error_bars,
        bounds,
        target,
    } = arguments;
    let mut target = target.resolve()?;
    if nic.is_some() || program.is_some() {
        end_station(&mut target, nic, program.is_some())?;
    }
    let drawn = match (error_bars.draws, &target.testbed) {
        (None, _) => None,
        (Some(draws), Chosen::Simulator(simulated)) => Some((draws, simulated)),
        (Some(_), _) => {
            return Err(Failure::Input(
                "--error-bars draws constants of a simulated machine, and this testbed is none: leave it out"
                    .into(),
            ));
        }
    };
    let sizes = target.sizes(size.as_ref())?;
    let mut files = outputs.open(session, "curve")?;
    let mut resume = journal.trials(session, target.is_simulated())?;
    let in_real_time = !target.is_simulated();
    let Ready { mut testbeds, source, environment } = match &target.testbed {
        Chosen::Simulator(simulated) => compared(simulated)?,
        Chosen::Guests(guests) => {
            let (testbeds, environment) = guests.open()?;
            let named = |(name, testbed)| NamedTestbed { name, points: Points::new(testbed) };
            Ready { testbeds: testbeds.into_iter().map(named).collect(), source: Box::new(()), environment }
        }
        _ => in_real(&target, session)?,
    };
    kpps_methods::refuse_twice(testbeds.iter().map(|it| it.name.as_str()))?;
    session.watch();
    let Some(first) = testbeds.first_mut() else { return Err(Failure::Input("there is no testbed".into())) };
    let line_pps = first.points.line_rate_pps(&sizes)?;
    let known_line_pps = first.points.known_line_rate_pps(&sizes)?;
    let until_limit = in_real_time && given.is_none();
    let loads = match &given {
        Some(loads) => loads.pps(line_pps, sizes.mean_bytes_with_fcs()).map_err(Failure::Input)?,
        None if in_real_time => {
            let allowed_pps = first.points.allowed().map(|allowed| allowed.pps);
            real_loads(line_pps, allowed_pps, target.kind() == Kind::Guests)
        }
        None => default_loads(line_pps),
    };
    let load = target.load(Rate::Max, sizes, duration);
    load.check(&loads).map_err(Failure::Input)?;
    // First the latencies of probes alone.
    let loads = match &target.testbed {
        Chosen::Ports(ports) if ports.has_probes() => [&[0.0], &loads[..]].concat(),
        _ => loads,
    };
    testbeds.iter_mut().for_each(|it| it.points.expect(&loads));
    let environment = Environment {
        load_layer: given.as_ref().and_then(Loads::layer),
        ..of_frames(environment.with_line_rate(known_line_pps), &load)
    };
    let wanted = testbeds.len() * loads.len();
    let began = Instant::now();
    let what = [environment.card().to_owned(), environment.machine_name()];
    let what = what.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" on ");
    let progress = Progress::of(format!("kpps curve: {what}"));
    progress.wants(wanted + drawn.map_or(0, |(draws, _)| draws * testbeds.len()));
    let quiet = outputs.for_machines();
    let view = target.live.view(session, progress.clone(), source, quiet)?;
    let plan =
        Sweep { load: load.clone(), loads: &loads, environment: &environment, in_real_time, until_limit };
    let (series, end) = sweep(testbeds, &plan, &mut resume, &|| session.goes_on(), &progress);
    let (mut series, mut environment) = (series, environment);
    let end = end.and_then(|()| {
        let Some((draws, Simulated { machine, drivers, .. })) = drawn else { return Ok(()) };
        let drivers = machine.drivers(drivers).map_err(|error| Error::Input(error.to_string()))?;
        progress.begins("error bars", None);
        let go_on = || session.goes_on();
        machine.add_error_bars((&drivers, &mut series), &load, draws, &go_on, &|| progress.done())?;
        environment.draws = Some(draws);
        Ok(())
    });
    drop(view);
    let points: usize = series.iter().map(|s| s.points.len()).sum();
    let results = Curve::new(environment, series, end.is_ok());
    files.publish(&results, &format!("{points} trials in {:.1} s\n", began.elapsed().as_secs_f64()))?;
    let bare =
        if drawn.is_some() && results.environment.draws.is_none() { ", without error bars" } else { "" };
    let measured = format!("{points} of {wanted} points measured{bare}{}{}", files.kept(), journal.kept());
    end.map_err(|error| match error {
        Error::Interrupted => Failure::Interrupted(format!("interrupted: {measured}")),
        other => other.with(&measured).into(),
    })?;
    resume.map_or(Ok(()), kpps_methods::resume::Resume::close)?;
    Ok(bounds.get().curve(&results)?)
}

/// Gives the simulated machine a rate-limited NIC, or a process that receives.
fn end_station(target: &mut Target, nic: Option<String>, has_process: bool) -> Result<(), Failure> {
    let option = if nic.is_some() { "--nic" } else { "--program" };
    let Chosen::Simulator(simulated) = &mut target.testbed else {
        let here = target.name().join(",");
        return Err(Failure::Input(format!("{option} is for the simulator, not for {here}")));
    };
    if let Some(app) = simulated.machine.app {
        return Err(Failure::Input(format!(
            "{option} is for a machine that receives on one card: leave out the app {app}"
        )));
    }
    if nic.is_some() && !simulated.drivers.is_empty() {
        return Err(Failure::Input(
            "--nic takes the place of the driver: leave out --testbed, and give --machine".into(),
        ));
    }
    simulated.machine.nic = nic;
    simulated.machine.activity = has_process.then_some(Activity::ReceiveByProcess);
    Ok(())
}

/// One testbed for each driver preset, in the simulator.
fn compared(Simulated { machine, drivers, seed, .. }: &Simulated) -> Result<Ready, Failure> {
    let (testbeds, environment) = machine.compared(machine.drivers(drivers)?, *seed)?;
    Ok(Ready { testbeds, source: Box::new(()), environment })
}

/// Two ports, or a system whose rate is known: one series.
fn in_real(target: &Target, session: &Session) -> Result<Ready, Failure> {
    let OpenTestbed { testbed, source, environment } = target.open(session)?;
    let testbed = NamedTestbed { name: environment.testbed_name(), points: Points::new(testbed) };
    Ok(Ready { testbeds: vec![testbed], source, environment })
}
