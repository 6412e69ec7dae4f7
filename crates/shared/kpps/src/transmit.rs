//! `kpps transmit`: how many frames each driver sends.

use crate::error::Failure;
use crate::heading;
use crate::output::{Outputs, Resume};
use crate::session::Session;
use crate::simulator::{COMPARED, Machine, Nic};
use clap::Args;
use kpps_frames::Size;
use kpps_methods::{bounds, units};
use kpps_sim::{
    Activity, AnySetup, By, Choice, ExactLoad, Features, Pieces, Sender, SendingProgram, Shape, documents,
};
use std::time::Duration;

/// Time in which the machine sends before measuring begins.
const WARMUP_MS: u32 = 10;
/// The same for a program, which may sleep for several ticks of the clock.
const WARMUP_OF_PROGRAM_MS: u32 = 50;

/// How long is measured by default: with the kernel's own source, and with a program.
const OF_KERNEL: Duration = Duration::from_millis(50);
const OF_PROGRAM: Duration = Duration::from_millis(500);
/// A program is measured for this many times its sleep, or the time between two of its datagrams, at least.
const TIMES: u32 = 10;

/// The options of the kernel's own source, which programs and rate-limited NICs do not have.
const FEATURES: [&str; 5] = ["fragments", "coalesce", "checksum", "vlan_insertion", "segments"];

/// Arguments of `kpps transmit`.
#[derive(Args)]
#[command(
    mut_arg("machine", |machine| machine.default_value("morris2000-sender")),
    mut_arg("driver", |driver| driver.help(COMPARED)),
    mut_arg("nic", |nic| nic.conflicts_with_all(FEATURES)),
    after_help = "Examples:
  kpps transmit --chip 82542
  kpps transmit --machine ols2005 --size 1518 --checksum cpu       or card, or none
  kpps transmit --machine ols2005 --size 1518 --segments 10        TSO: ten segments
  kpps transmit --machine ols2005 --size 256 --fragments 4         also with --coalesce
  kpps transmit --machine ols2005 --size 1518 --set driver.tx_gap_bytes=96
  kpps transmit --nic tigon-2                                      a rate-limited NIC
  kpps transmit --machine evans2005-xp --nic yukon --program ttcp --duration 200ms
  kpps transmit --machine evans2005-em --program netsend --rate 100kpps
  kpps transmit --machine ols2005 --driver kpps --fillers --rate 300kpps --shape poisson:7

The cost of each feature: fragments cost bursts on the bus. --coalesce copies them into one buffer, which costs
CPU time. A checksum by the CPU costs CPU time for each byte. For a checksum by the card, the card reads the
whole frame before it sends the first byte. A VLAN tag that the card inserts does not cross the bus. A
superpacket that the card cuts into segments costs the CPU as much as one frame. A longer gap
(driver.tx_gap_bytes) lowers the line rate. Jumbo frames (--size 9018) spread a frame's cost over six times the
bytes. The simulator checks tags, headers and checksums of the frames that leave the card.

Without --program the kernel always has another frame to send. The programs send UDP datagrams under FreeBSD.
If the transmit queue is full, ttcp sleeps, ttcp-new and netblast try again at once, netsend loses the datagram,
selecting calls select first, and waiting is woken when the queue has space, which no FreeBSD of the time could
do.

With --fillers a program polls the driver, and fills the gaps between the frames of a load with frames whose FCS is
wrong. The card sends back to back, so that each frame is at its byte time on the wire. Gaps of less than 84 byte
times cannot be filled: such frames are rounded to the nearest possible time, by 336 ns at most, and the mean rate
is exact."
)]
pub struct Arguments {
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    nic: Nic,
    /// The program that sends, on a machine with FreeBSD: ttcp, ttcp-new, netblast, netsend, selecting or
    /// waiting [default: a source in the kernel]
    #[arg(long, value_name = "NAME", conflicts_with_all = FEATURES)]
    program: Option<SendingProgram>,
    /// With --program ttcp: how long it sleeps when the transmit queue is full [default: 1ms]
    #[arg(long, value_name = "TIME", requires = "program", value_parser = units::duration)]
    sleep: Option<Duration>,
    /// With --program netsend: its rate in datagrams per second, as 10kpps. With --fillers: that of the
    /// frames
    #[arg(long, value_parser = bounds::rate_pps)]
    rate: Option<f64>,
    /// Keep the gaps between frames exact, to a byte time of the wire, with fillers: frames with a wrong FCS,
    /// which every receiver drops
    #[arg(long, requires = "rate", conflicts_with_all = FEATURES.into_iter().chain(["program"]).collect::<Vec<_>>())]
    fillers: bool,
    /// With --fillers: distribution of the gaps: constant, poisson, poisson:SEED, or bursts:FRAMES [default:
    /// constant]
    #[arg(long, requires = "fillers")]
    shape: Option<Shape>,
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
    /// How long to measure, in virtual time [default: 50ms; with --program 500ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    #[command(flatten)]
    resume: Resume,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs `kpps transmit`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let (sender, activity) = arguments.sender()?;
    let machine = arguments.machine.with(None, Default::default())?;
    let sending = Choice { nic: arguments.nic.nic.clone(), activity: Some(activity), ..machine };
    let setups = sending.setups(sending.drivers(&arguments.machine.driver)?)?;
    let mut files = arguments.outputs.open(session, "transmit")?;
    kpps_methods::refuse_twice(setups.iter().map(AnySetup::name))?;
    let millis = units::millis(arguments.duration()?);
    let warmup_ms = if arguments.program.is_some() { WARMUP_OF_PROGRAM_MS } else { WARMUP_MS };
    session.watch();
    let finished = arguments.resume.finished(session)?;
    let trials: Vec<_> =
        setups.iter().map(|setup| (setup, arguments.size, sender, (warmup_ms, millis))).collect();
    let sent = finished.each(&trials, |(setup, size, sender, times_ms)| {
        sender.send(setup, *size, *times_ms, &|| session.goes_on())
    })?;
    let program = arguments.program.map(|program| program.to_string());
    files.publish(&documents::transmit(&setups, program, &sent, arguments.size, millis.into()), "")?;
    arguments.resume.end(finished, session, &format!("{} of {} drivers measured", sent.len(), setups.len()))
}

impl Arguments {
    /// How long to measure: long enough for a program that sleeps, or sends seldom.
    fn duration(&self) -> Result<Duration, Failure> {
        let usual = if self.program.is_some() { OF_PROGRAM } else { OF_KERNEL };
        let duration = self.duration.unwrap_or(usual);
        let apart = self.rate.map_or(Duration::ZERO, |pps| Duration::from_secs_f64(1.0 / pps));
        let least = TIMES * self.sleep.unwrap_or_default().max(apart);
        match duration < least {
            true => Err(Failure::Input(format!(
                "in {} ms this program sleeps or sends only a few times: give --duration {}ms or more",
                units::millis(duration),
                units::millis(least)
            ))),
            false => Ok(duration),
        }
    }

    /// Where the frames come from.
    fn sender(&self) -> Result<(Sender, Activity), Failure> {
        if let Some(program) = self.program {
            let sleep_us = self.sleep.map(|sleep| u64::try_from(sleep.as_micros()).unwrap_or(u64::MAX));
            let program = program.with(sleep_us, self.rate).map_err(Failure::Input)?;
            return Ok((Sender::Process(program), Activity::SendByProcess));
        }
        match self.rate {
            Some(pps) if self.fillers => {
                let load = ExactLoad { pps, shape: self.shape.unwrap_or_default() };
                return Ok((Sender::Exact(load), Activity::Send));
            }
            Some(_) => {
                return Err(Failure::Input(
                    "without a program or fillers the kernel always has another frame: leave out --rate, or give \
                     --program netsend or --fillers"
                        .into(),
                ));
            }
            None => {}
        }
        if self.coalesce && self.fragments == 1 {
            return Err(Failure::Input(
                "--coalesce has no effect on frames of one buffer: give --fragments".into(),
            ));
        }
        let features = Features {
            pieces: Pieces::of(self.fragments.into(), self.coalesce),
            checksum: self.checksum,
            vlan: self.vlan_insertion,
            segments: self.segments,
        };
        Ok((Sender::Kernel(features), Activity::Send))
    }
}
