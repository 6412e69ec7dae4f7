//! Runs the suite: `cargo run --example suite -- model|qemu [chip]`.

use kpps_datasheet::Chip;
use kpps_selftest::{On, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let on = match arguments.next().as_deref() {
        Some("model") => On::Model,
        Some("qemu") => On::Qemu,
        _ => {
            eprintln!("usage: suite model|qemu [chip]");
            return ExitCode::from(2);
        }
    };
    let chip = arguments.next().unwrap_or_else(|| "82540em".to_owned());
    let chip: Chip = match chip.parse() {
        Ok(chip) => chip,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match run(on, chip, &mut |case| println!("{case}")) {
        Ok(report) => {
            let counts = report.counts();
            println!("{} on {}: {counts:?}", report.chip, report.device);
            ExitCode::from(report.exit_status())
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
