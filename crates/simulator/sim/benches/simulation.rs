//! The speed of the simulator: simulated frames per second of real time, for the polling driver at line rate.
//! Printed as a multiple of the wire's 1,488,095 frames/s.

use kpps_frames::Size;
use kpps_methods::{Load, Testbed};
use kpps_sim::{Receiving, Setup};
use std::time::Instant;

fn main() {
    let setup = match Setup::named("morris2000", None, "click-polling") {
        Ok(setup) => setup,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let mut testbed = Receiving::new(setup);
    let line_pps = testbed.line_rate_pps(Size::MIN);
    let load = Load { offered_pps: line_pps, size: Size::MIN, warmup_ms: 0, duration_ms: 1000, seed: 1 };
    println!("simulator, polling driver, 60-byte frames (without FCS) at line rate, 1 s of virtual time");
    let mut times = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        match testbed.trial(&load) {
            Ok(trial) => {
                let seconds = began.elapsed().as_secs_f64();
                times.push(seconds);
                let pps = trial.ledger.sent as f64 / seconds;
                println!("  {:>5.2} M frames/s = {:.2} x the wire", pps / 1e6, pps / line_pps);
            }
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(1);
            }
        }
    }
    times.sort_by(f64::total_cmp);
    println!("median: {:.2} x the wire (must be above 1.5)", 1.0 / times[times.len() / 2]);
}
