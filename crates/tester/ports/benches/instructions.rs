//! Instructions of counting a received frame, and of judging it in a trial:
//! `cargo bench -p kpps-ports --bench instructions`.
//!
//! For each kind of frame the program runs itself under callgrind four times: N and 2N frames, counted and
//! not. The rest of the differences is the cost of [`Streams::take`], or that of [`Arrivals::take`]. It fails
//! above the kind's limit, or without valgrind. Without `--bench` (as `cargo test` calls it) each loop runs
//! once.

mod shared;

use kpps_frames::build::{Flow, udp_test};
use kpps_frames::stack::Between;
use kpps_frames::{Mix, Size, Stack, Tag, tag};
use kpps_ports::port::run::Streams;
use kpps_tester::Arrivals;
use shared::instructions;
use std::hint::black_box;
use std::net::Ipv6Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// A kind of frame, and the most instructions that counting it may take.
const KINDS: [(&str, u32); 9] = [
    ("test", 80),
    ("test IPv6", 110),
    ("untagged", 65),
    ("TCP", 65),
    ("other type", 110),
    (TRIAL, 600),
    (ROUTED, 860),
    (FLOWS, 640),
    (STREAMS, 1060),
];
/// A trial's frames of one flow, those of one flow through a router, and those of eight flows.
const TRIAL: &str = "trial";
const ROUTED: &str = "routed";
const FLOWS: &str = "8 flows";
/// A trial's frames of 64 streams in turn, each with a source port that changes from frame to frame.
const STREAMS: &str = "64 streams";
/// Frames in the shorter of the two runs.
const FRAMES: u64 = 20_000;
/// Where an IPv4 header tells the protocol, and TCP.
const PROTOCOL: (usize, u8) = (23, 6);
/// Where an IPv4 header is, and in it the TTL and the checksum.
const IPV4: (usize, usize, usize) = (14, 8, 10);
/// Where a frame's type is, and PPP over Ethernet's.
const TYPE: (usize, [u8; 2]) = (12, [0x88, 0x64]);

/// A frame of a kind. An untagged frame has other bytes at the place of a tag.
fn frame(kind: &str) -> Result<Vec<u8>, kpps_frames::Error> {
    let address = |last| Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, last);
    let flow = Flow::default();
    let mut frame = match kind {
        "test IPv6" => {
            let Flow { from_mac, to_mac, vlan, .. } = flow;
            let (from, to) = ((address(1), 49152), (address(2), 9));
            udp_test(&Flow { from_mac, to_mac, vlan, from, to }, Size::with_fcs(84))?
        }
        _ => udp_test(&flow, Size::MIN)?,
    };
    if !kind.starts_with("test") {
        frame[tag::OFFSET..].iter_mut().zip(1..).for_each(|(byte, value)| *byte = value);
    }
    match kind {
        "TCP" => frame[PROTOCOL.0] = PROTOCOL.1,
        "other type" => frame[TYPE.0..TYPE.0 + 2].copy_from_slice(&TYPE.1),
        _ => {}
    }
    Ok(frame)
}

/// Changes a frame as a router does: other stations, and a lower TTL.
fn route(frame: &mut [u8]) {
    let (ip, ttl, sum) = IPV4;
    frame[..2].fill(6);
    frame[ip + ttl] -= 1;
    frame[ip + sum..ip + sum + 2].fill(0);
    let right = kpps_frames::checksum::checksum(&frame[ip..ip + 20]);
    frame[ip + sum..ip + sum + 2].copy_from_slice(&right.to_be_bytes());
}

/// The measured process that judges frames of a trial, which arrive with the kernel's time of arrival.
fn judge(flows: u16, is_routed: bool, frames: u64, is_judged: bool) -> Result<(), kpps_frames::Error> {
    let templates = shared::frames(flows)?;
    let mut frame = vec![0; Size::MIN.bytes_without_fcs().into()];
    let mut all = Arrivals::new(1, templates.clone(), Instant::now(), frames);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now_ns = now.as_nanos() as u64 + 1_000_000;
    for sequence in 0..frames {
        if let Some(template) = templates.at(sequence) {
            template.write(&mut frame);
        }
        tag::write(&mut frame, Tag { stream: 1, sequence, sent_ps: sequence * 1000 })?;
        if is_routed {
            route(&mut frame);
        }
        let frame = black_box(&frame);
        if is_judged {
            all.take(frame, Some(now_ns + sequence));
        }
    }
    assert_eq!(all.received(), if is_judged { frames } else { 0 });
    Ok(())
}

/// As [`judge`], of several streams.
fn judge_streams(streams: u16, frames: u64, is_judged: bool) -> Result<(), Box<dyn std::error::Error>> {
    let Flow { from_mac, to_mac, from, to, .. } = Flow::default();
    let between = Between { macs: [from_mac, to_mac], ips: [from.0.into(), to.0.into()] };
    let mut stack = Stack::read("ethernet/ipv4/udp")?;
    stack.set_text("udp.sport", "1024-2047")?;
    let templates = Arc::new(stack.templates(&between, &Mix::fixed(Size::MIN))?);
    let numbered = (0..streams).map(|number| (number, templates.clone(), frames / u64::from(streams)));
    let mut all = Arrivals::of(numbered, true, Instant::now());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now_ns = now.as_nanos() as u64 + 1_000_000;
    let mut frame = vec![0; Size::MIN.bytes_without_fcs().into()];
    for n in 0..frames {
        let (stream, sequence) = ((n % u64::from(streams)) as u16, n / u64::from(streams));
        templates.write(sequence, &mut frame);
        tag::write(&mut frame, Tag { stream, sequence, sent_ps: n * 1000 })?;
        let frame = black_box(&frame);
        if is_judged {
            all.take(frame, Some(now_ns + n));
        }
    }
    assert_eq!(all.received(), if is_judged { frames } else { 0 });
    Ok(())
}

/// The measured process.
fn run(kind: &str, frames: u64, is_counted: bool) -> Result<(), Box<dyn std::error::Error>> {
    match kind {
        TRIAL => return Ok(judge(1, false, frames, is_counted)?),
        ROUTED => return Ok(judge(1, true, frames, is_counted)?),
        FLOWS => return Ok(judge(8, false, frames, is_counted)?),
        STREAMS => return judge_streams(64, frames, is_counted),
        _ => {}
    }
    let mut frame = frame(kind)?;
    let mut streams = Streams::default();
    for sequence in 0..frames {
        if kind.starts_with("test") {
            tag::write(&mut frame, Tag { stream: 1, sequence, sent_ps: 0 })?;
        }
        let frame = black_box(&frame);
        if is_counted {
            streams.take(frame);
        }
    }
    let counted = streams.unique() + streams.corrupted + streams.others;
    assert_eq!(counted, if is_counted { frames } else { 0 });
    Ok(())
}

/// Instructions of a whole run.
fn count(kind: &str, frames: u64, is_counted: bool) -> Result<u64, String> {
    instructions(&["run", kind, &frames.to_string(), &is_counted.to_string()])
}

fn table() -> Result<bool, String> {
    println!("instructions of counting a received frame (callgrind; the loop subtracted)\n");
    let mut good = true;
    for (kind, limit) in KINDS {
        let slope = |is_counted| -> Result<f64, String> {
            let (once, twice) = (count(kind, FRAMES, is_counted)?, count(kind, 2 * FRAMES, is_counted)?);
            Ok((twice as f64 - once as f64) / FRAMES as f64)
        };
        let each = slope(true)? - slope(false)?;
        let above = each > f64::from(limit);
        println!("{kind:<11}{each:>7.1}{}", if above { format!("  above {limit}") } else { String::new() });
        good &= !above;
    }
    Ok(good)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let strings: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let run = |kind: &str, frames, is_counted| {
        run(kind, frames, is_counted).map(|()| true).map_err(|error| error.to_string())
    };
    let result = match strings[..] {
        ["run", kind, frames, is_counted] => match (frames.parse(), is_counted.parse()) {
            (Ok(frames), Ok(is_counted)) => run(kind, frames, is_counted),
            _ => Err("run KIND FRAMES COUNTED".into()),
        },
        _ if strings.contains(&"--bench") => table(),
        _ => KINDS.iter().try_fold(true, |_, (kind, _)| run(kind, 100, true)),
    };
    match result {
        Ok(good) => ExitCode::from(u8::from(!good)),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
