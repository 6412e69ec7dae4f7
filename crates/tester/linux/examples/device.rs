//! `device list|bind ADDRESS vfio|uio [force]|release ADDRESS`.

use kpps_linux::{Error, devices};

fn run(arguments: &[String]) -> Result<(), Error> {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let found = match arguments[..] {
        ["bind", address, backend] => vec![devices::bind(address.parse()?, backend.parse()?, false)?],
        ["bind", address, backend, "force"] => vec![devices::bind(address.parse()?, backend.parse()?, true)?],
        ["release", address] => vec![devices::release(address.parse()?)?],
        _ => devices::list(),
    };
    for device in found {
        println!("{device:?}");
    }
    Ok(())
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let Err(error) = run(&arguments) {
        eprintln!("device: {error}");
        std::process::exit(1);
    }
}
