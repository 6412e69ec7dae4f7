//! The speed of the simulator: simulated frames per second of real time, for the polling driver at line rate.
//! Printed as a multiple of the wire's 1,488,095 frames/s. Fails if the median is not above [`LEAST`].

use kpps_frames::Size;
use kpps_methods::{Load, Testbed, TrialError};
use kpps_sim::{Receiving, Setup};
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

/// The least speed as a multiple of the wire's: a simulated second takes less than a real one.
const LEAST: f64 = 1.5;

/// Simulated frames per second of real time, as a multiple of the wire's, of five trials in rising order.
fn speeds() -> Result<Vec<f64>, Box<dyn Error>> {
    let mut testbed = Receiving::new(Setup::named("morris2000", None, "click-polling")?);
    let line_pps = testbed.line_rate_pps(&Size::MIN.into())?;
    let load = Load::of(line_pps, Size::MIN);
    println!("simulator, polling driver, 60-byte frames (without FCS) at line rate, 1 s of virtual time");
    let mut speed = |_| {
        let began = Instant::now();
        let trial = testbed.trial(&load)?;
        let pps = trial.ledger.sent as f64 / began.elapsed().as_secs_f64();
        println!("  {:>5.2} M frames/s = {:.2} x the wire", pps / 1e6, pps / line_pps);
        Ok::<_, TrialError>(pps / line_pps)
    };
    let mut speeds = (0..5).map(&mut speed).collect::<Result<Vec<_>, _>>()?;
    speeds.sort_by(f64::total_cmp);
    Ok(speeds)
}

fn main() -> ExitCode {
    match speeds() {
        Ok(speeds) => {
            let median = speeds[speeds.len() / 2];
            println!("median: {median:.2} x the wire (must be above {LEAST})");
            if median > LEAST { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
