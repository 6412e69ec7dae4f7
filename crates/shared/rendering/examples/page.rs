//! Writes the page of a results document: `cargo run -p kpps-rendering --example page results.json >
//! report.html`.

use kpps_documents::Curve;
use kpps_rendering::html;
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: page RESULTS.json")?;
    let curve = Curve::from_json(&std::fs::read_to_string(path)?)?;
    std::io::stdout().write_all(html(&curve).as_bytes())?;
    Ok(())
}
