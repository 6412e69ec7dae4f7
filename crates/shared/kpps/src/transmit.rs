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
  kpps transmit --machine ols2005 --size 1518 --segments 10        TSO: ten segments
  kpps transmit --machine ols2005 --size 256 --fragments 4         also with --coalesce
  kpps transmit --machine ols2005 --size 1518 --set driver.tx_gap_bytes=96

The cost of each feature: fragments cost bursts on the bus. --coalesce copies them into one buffer, which costs
CPU time. A checksum by the CPU costs CPU time for each byte. For a checksum by the card, the card reads the
whole frame before it sends the first byte. A VLAN tag that the card inserts does not cross the bus. A
superpacket that the card cuts into segments costs the CPU as much as one frame. A longer gap
(driver.tx_gap_bytes) lowers the line rate. Jumbo frames (--size 9018) spread a frame's cost over six times the
bytes. The simulator checks tags, headers and checksums of the frames that leave the card."
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
    /// Computation of the UDP checksum: cpu, card, or none for datagrams without a checksum
    #[arg(long, default_value = "none", value_name = "none|cpu|card")]
    checksum: By,
    /// Insertion of the VLAN tag: cpu, card, or none for frames without a tag
    #[arg(long, default_value = "none", value_name = "none|cpu|card")]
    vlan_insertion: By,
    /// Number of TCP segments in a superpacket, which the card cuts (TSO). Above 1, all frames are TCP
    /// segments
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
