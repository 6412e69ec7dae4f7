//! Sending on one core and on two, without a kernel: `cargo bench -p kpps-ports --bench cores`.
//!
//! Frames of eight flows go as fast as possible into a port in memory. Each round measures one core and two
//! cores, one after the other; the table has the best of each, and their ratio, which depends on free cores.
//! The frames of a second of each thread's CPU time show the ratio that two free cores would have: other
//! programs do not change it, but for the caches that they use.
//! Then the program runs itself under callgrind and prints the instructions of a frame, sent by one core as
//! the whole plan and as half of it. It fails if the half costs more than [`MOST_RATIO`] of the whole, or
//! without valgrind. Without `--bench` (as `cargo test` calls it) it sends a few frames.

mod shared;

use kpps_frames::rate::Rate;
use kpps_platform::memory::{BufferPool, Memory};
use kpps_ports::port::run::{BUDGET, PlanPart, SendPlan, StreamPlan, send_part_and_listen};
use kpps_ports::port::{MemoryPort, Port, Trouble};
use rustix::time::{ClockId, clock_gettime};
use shared::{For, frames, instructions};
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::Duration;

/// The flows of the frames.
const FLOWS: u16 = 8;
/// How long each measurement takes, and how often it is repeated.
const LENGTH: Duration = Duration::from_millis(300);
const ROUNDS: u32 = 7;
/// Frames in the shorter of two runs under callgrind.
const FRAMES: u64 = 20_000;
/// The most instructions of a frame of a part, by those of a frame of the whole plan.
const MOST_RATIO: f64 = 1.10;
/// Buffers of a port.
const BUFFERS: usize = 2048;
const BUFFER_BYTES: usize = 2048 + 64;

/// Frames of eight flows, as fast as possible.
fn plan(count: Option<u64>) -> Result<SendPlan, kpps_frames::Error> {
    let stream = StreamPlan { count, ..StreamPlan::of(frames(FLOWS)?) };
    Ok(SendPlan { rewrite: true, ..SendPlan::one(Rate::Max, stream) })
}

fn pool(cores: usize) -> Result<BufferPool, String> {
    let memory = Memory::private((cores + 1) * BUFFERS * BUFFER_BYTES).map_err(|error| error.to_string())?;
    memory.pool(cores * BUFFERS, BUFFER_BYTES, None).map_err(|error| format!("{error:?}"))
}

/// The CPU time of this thread so far, in s.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Sends the parts of a plan, each on a thread. Returns the frames of a second, and of a second of each
/// thread's CPU time.
fn send(plan: &SendPlan, cores: usize, length: Option<Duration>) -> Result<[f64; 2], String> {
    let pool = pool(cores)?;
    let together = Barrier::new(cores);
    let work = |core: usize| -> Result<[f64; 2], Trouble> {
        let mut port = MemoryPort::new(pool.clone());
        let part = PlanPart::of(plan, core, cores);
        together.wait();
        let Some(part) = part else { return Ok([0.0; 2]) };
        let before_s = cpu_s();
        let mut listen = |port: &mut MemoryPort| port.receive(BUDGET, |frame| Some(frame.buffer));
        let sent = send_part_and_listen(&mut port, &part, None, &mut For(length), &mut listen)?;
        Ok([sent.elapsed.as_secs_f64(), cpu_s() - before_s].map(|s| sent.sent as f64 / s))
    };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || work(core))).collect();
        let mut each = threads.into_iter().map(|thread| match thread.join() {
            Ok(sent) => sent.map_err(|trouble| trouble.to_string()),
            Err(_) => Err("a sender panicked".into()),
        });
        each.try_fold([0.0; 2], |sum, more| {
            let more = more?;
            Ok([sum[0] + more[0], sum[1] + more[1]])
        })
    })
}

/// Sends `frames` frames of the whole plan by one core, or of half of it: the measured process.
fn one(parts: usize, frames: u64) -> Result<(), String> {
    let plan = plan(Some(frames * parts as u64)).map_err(|error| error.to_string())?;
    let mut port = MemoryPort::new(pool(1)?);
    let part = PlanPart::of(&plan, 0, parts).ok_or("there is no part")?;
    let mut listen = |port: &mut MemoryPort| port.receive(BUDGET, |frame| Some(frame.buffer));
    let sent = send_part_and_listen(&mut port, &part, None, &mut For(None), &mut listen);
    let sent = sent.map_err(|trouble| trouble.to_string())?.sent;
    if sent == frames { Ok(()) } else { Err(format!("{sent} of {frames} frames were sent")) }
}

/// Instructions of a whole run.
fn count(parts: usize, frames: u64) -> Result<u64, String> {
    instructions(&["run", &parts.to_string(), &frames.to_string()])
}

fn table() -> Result<bool, String> {
    let plan = plan(None).map_err(|error| error.to_string())?;
    let mut best = [[0.0_f64; 2]; 2];
    for _ in 0..ROUNDS {
        for (best, cores) in best.iter_mut().zip([1, 2]) {
            let sent = send(&plan, cores, Some(LENGTH))?;
            best.iter_mut().zip(sent).for_each(|(best, sent)| *best = best.max(sent));
        }
    }
    let [alone, both] = best;
    println!(
        "frames into a port in memory, the best of {ROUNDS} rounds: of a second, and of a second of CPU time\n"
    );
    println!("one core   {:>8.0} kpps          {:>8.0} kpps", alone[0] / 1e3, alone[1] / 1e3);
    let [wall, cpu] = [both[0] / alone[0], both[1] / alone[1]];
    println!("two cores  {:>8.0} kpps ({wall:.2})   {:>8.0} kpps ({cpu:.2})\n", both[0] / 1e3, both[1] / 1e3);
    let slope = |parts| -> Result<f64, String> {
        Ok((count(parts, 2 * FRAMES)? as f64 - count(parts, FRAMES)? as f64) / FRAMES as f64)
    };
    let (whole, half) = (slope(1)?, slope(2)?);
    let ratio = half / whole;
    println!(
        "instructions of a frame (callgrind): {whole:.1} of the whole plan, {half:.1} of half, {ratio:.3} of it"
    );
    Ok(ratio <= MOST_RATIO)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let strings: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match strings[..] {
        ["run", parts, frames] => match (parts.parse(), frames.parse()) {
            (Ok(parts), Ok(frames)) => one(parts, frames).map(|()| true),
            _ => Err("run PARTS FRAMES".into()),
        },
        _ if strings.contains(&"--bench") => table(),
        _ => one(1, 100).and_then(|()| one(2, 100)).map(|()| true),
    };
    match result {
        Ok(good) => ExitCode::from(u8::from(!good)),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
