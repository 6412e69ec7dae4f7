//! `kpps transmit`: how many frames each driver sends.

use crate::error::Failure;
use crate::heading;
use crate::output::{Outputs, Resume};
use crate::session::Session;
use crate::simulator::{COMPARED, Machine};
use clap::Args;
use kpps_frames::Size;
use kpps_methods::units;
use kpps_sim::{Activity, By, Choice, Features, Pieces, Setup, documents, transmit_with};
use std::time::Duration;

/// Arguments of `kpps transmit`.
#[derive(Args)]
#[command(
    mut_arg("machine", |machine| machine.default_value("morris2000-sender")),
    mut_arg("driver", |driver| driver.help(COMPARED)),
    after_help = "Examples:
  kpps transmit --chip 82542
  kpps transmit --machine ols2005 --size 1518 --checksum cpu       or card, or none
  kpps transmit --machine ols2005 --size 1518 --segments 10        TSO: the card cuts up ten
  kpps transmit --machine ols2005 --size 256 --fragments 4         also with --coalesce
  kpps transmit --machine ols2005 --size 1518 --set driver.tx_gap_bytes=96

What each feature costs: fragments cost bursts on the bus; --coalesce, which copies them into one buffer,
costs CPU time. A checksum by the CPU costs time for each byte; by the card it costs a pass over the frame
before it leaves. A VLAN tag that the card inserts does not cross the bus. Segments that the card cuts up
cost the CPU one frame's work for all of them. A longer gap (driver.tx_gap_bytes) lowers the line rate.
Jumbo frames (--size 9018) spread a frame's cost over six times the bytes. The simulator checks the frames
that leave the card: tags, headers, checksums."
)]
pub struct Arguments {
    #[command(flatten)]
    machine: Machine,
    /// Frame size in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size, help_heading = heading::TRAFFIC)]
    size: Size,
    /// Number of buffers in which the stack hands over a frame
    #[arg(long, value_name = "BUFFERS", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    fragments: u8,
    /// Let the driver copy the fragments into one buffer
    #[arg(long, requires = "fragments")]
    coalesce: bool,
    /// Place where the UDP checksum is computed: none (the datagrams have none), cpu or card
    #[arg(long, default_value = "none", value_name = "none|cpu|card")]
    checksum: By,
    /// Place where the VLAN tag is inserted: none (the frames have none), cpu or card
    #[arg(long, default_value = "none", value_name = "none|cpu|card")]
    vlan_insertion: By,
    /// Number of TCP segments that the stack hands over as one, for the card to cut up (TSO); above 1, frames
    /// are TCP segments
    #[arg(long, value_name = "SEGMENTS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "checksum")]
    segments: u16,
    /// How long to measure, in virtual time
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Duration,
    #[command(flatten)]
    resume: Resume,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps transmit`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let machine = arguments.machine.with(None, Default::default())?;
    let sending = Choice { activity: Some(Activity::Send), ..machine };
    let drivers = sending.drivers(&arguments.machine.driver)?.into_iter();
    let setup = |driver| Choice { driver: Some(driver), ..sending.clone() }.setup();
    let setups = drivers.map(setup).collect::<Result<Vec<Setup>, _>>()?;
    let features = Features {
        pieces: Pieces::of(arguments.fragments.into(), arguments.coalesce),
        checksum: arguments.checksum,
        vlan: arguments.vlan_insertion,
        segments: arguments.segments,
    };
    if arguments.coalesce && arguments.fragments == 1 {
        return Err(Failure::Input(
            "--coalesce has no effect on frames of one buffer: give --fragments".into(),
        ));
    }
    let mut files = arguments.outputs.open(session, "transmit")?;
    kpps_methods::refuse_twice(setups.iter().map(|s| s.driver.as_str()))?;
    let millis = units::millis(arguments.duration);
    session.watch();
    let finished = arguments.resume.finished(session)?;
    let trials: Vec<_> = setups.iter().map(|setup| (setup, arguments.size, features, (10, millis))).collect();
    let sent = finished.each(&trials, |(setup, size, features, times_ms)| {
        transmit_with(setup, *size, features, *times_ms, &|| session.goes_on())
    })?;
    files.publish(&documents::transmit(&setups, &sent, arguments.size, millis.into()), "")?;
    arguments.resume.end(finished, session, &format!("{} of {} drivers measured", sent.len(), setups.len()))
}
