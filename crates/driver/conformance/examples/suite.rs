//! Runs the suite: `cargo run --example suite -- model|qemu [chip]`.

use kpps_conformance::{On, run};
use kpps_datasheet::Chip;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(Ok(on)) = arguments.next().map(|name| name.parse::<On>()) else {
        eprintln!("usage: suite model|qemu [chip]");
        return ExitCode::from(2);
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
            println!("{}", report.summary());
            ExitCode::from(report.exit_status())
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
