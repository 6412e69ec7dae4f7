//! Two cards on one wire: the first sends, the second receives and checks, polled first, then
//! with interrupts.
//!
//! `pair uio:0000:00:03.0 uio:0000:00:04.0 [FRAMES [msix]]`, after `kpps device bind` of both.

use kpps_driver::{Config, Device, probe};
use kpps_linux::{Card, CardPlatform, Domain, Interrupts};
use kpps_platform::memory::{BufferPool, PoolBuffer};
use kpps_platform::{Buffer, BufferSource};
use kpps_ports::Spec;
use std::error::Error;
use std::time::{Duration, Instant};

type Driver = Device<CardPlatform, BufferPool>;

/// Bytes of a frame without FCS.
const FRAME: u16 = 60;
/// Where in a frame its number is: behind addresses and type.
const NUMBER: std::ops::Range<usize> = 14..22;
/// Frames with interrupts, one at a time.
const SINGLE: u64 = 200;

fn open(domain: &Domain, spec: &str) -> Result<Card, Box<dyn Error>> {
    match spec.parse()? {
        Spec::Card(backend, address) if backend == domain.backend() => Ok(Card::open(domain, address)?),
        _ => Err("both must be cards of one backend".into()),
    }
}

fn start(card: &Card, pool: &BufferPool) -> Result<Driver, Box<dyn Error>> {
    let config = Config { promiscuous: true, ..Config::kpps() };
    let mut driver = probe(card.platform(), card.chip(), config, pool.clone())?;
    let since = Instant::now();
    while !driver.control.update_link()?.up {
        if since.elapsed() > Duration::from_secs(10) {
            return Err(format!("{}: no link", card.address()).into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mac = driver.control.address();
    println!("{} {} {mac:02x?}: link after {:.1?}", card.address(), card.chip().name(), since.elapsed());
    Ok(driver)
}

fn frame(mut buffer: PoolBuffer, number: u64) -> PoolBuffer {
    let bytes = &mut buffer.bytes_mut()[..FRAME.into()];
    bytes.fill(number as u8);
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    bytes[NUMBER].copy_from_slice(&number.to_be_bytes());
    buffer
}

/// The number of a frame that arrived unchanged.
fn number(buffer: &PoolBuffer, bytes: u16) -> Option<u64> {
    let bytes = buffer.bytes().get(..bytes.into())?;
    let number = u64::from_be_bytes(bytes.get(NUMBER)?.try_into().ok()?);
    let good =
        bytes.len() == usize::from(FRAME) && bytes[NUMBER.end..].iter().all(|byte| *byte == number as u8);
    good.then_some(number)
}

/// Takes in what has arrived: numbers must follow each other from `next` on.
fn receive(driver: &mut Driver, next: &mut u64, bad: &mut u64) -> usize {
    driver.rx.receive(32, |received| {
        match number(&received.buffer, received.bytes) {
            Some(number) if number == *next => *next += 1,
            other => {
                *bad += 1;
                *next = other.map_or(*next, |number| number + 1);
            }
        }
        Some(received.buffer)
    })
}

fn polled(
    near: &mut Driver,
    far: &mut Driver,
    pool: &mut BufferPool,
    frames: u64,
) -> Result<u64, Box<dyn Error>> {
    let (mut sent, mut next, mut bad) = (0, 0, 0);
    let since = Instant::now();
    let mut last = since;
    while next < frames {
        near.tx.reclaim(32);
        let room = 128_u64.saturating_sub(sent - next).min(32).min(frames - sent);
        for _ in 0..room {
            let Some(buffer) = pool.take() else { break };
            match near.tx.send(frame(buffer, sent), FRAME) {
                Ok(()) => sent += 1,
                Err(refused) => {
                    pool.give(refused.frame.buffer);
                    break;
                }
            }
        }
        near.tx.flush();
        if receive(far, &mut next, &mut bad) > 0 {
            last = Instant::now();
        } else if last.elapsed() > Duration::from_secs(5) {
            return Err(format!("stuck: {sent} sent, {next} arrived").into());
        }
    }
    let pps = frames as f64 / since.elapsed().as_secs_f64();
    println!("polled: {frames} frames, {bad} bad, {:.0} kpps", pps / 1e3);
    Ok(bad)
}

fn interrupted(
    (near, far): (&mut Driver, &mut Driver),
    (card, interrupts): (&Card, &mut Interrupts),
    pool: &mut BufferPool,
) -> Result<u64, Box<dyn Error>> {
    let (mut next, mut bad, mut worst) = (0, 0, Duration::ZERO);
    far.control.unmask();
    interrupts.enable()?;
    for sent in 0..SINGLE {
        near.tx.reclaim(32);
        let buffer = pool.take().ok_or("no buffer")?;
        near.tx.send(frame(buffer, sent), FRAME).map_err(|_| "ring full")?;
        let since = Instant::now();
        near.tx.flush();
        while next <= sent {
            if !interrupts.wait(Duration::from_secs(5))? {
                return Err(
                    format!("no interrupt for frame {sent}, pending {}", card.interrupt_pending()?).into()
                );
            }
            far.control.causes()?;
            receive(far, &mut next, &mut bad);
            interrupts.enable()?;
        }
        worst = worst.max(since.elapsed());
    }
    // A message may be under way for a frame that was seen before.
    if interrupts.wait(Duration::from_millis(50))? {
        far.control.causes()?;
        interrupts.enable()?;
    }
    let quiet = !interrupts.wait(Duration::from_millis(50))? && !card.interrupt_pending()?;
    println!(
        "interrupts: {SINGLE} frames, {bad} bad, {} interrupts, worst {worst:.0?}, quiet afterwards: {quiet}",
        interrupts.count()
    );
    Ok(bad + u64::from(!quiet))
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [near, far, rest @ ..] = &arguments[..] else { return Err("pair NEAR FAR [FRAMES [msix]]".into()) };
    let Spec::Card(backend, _) = near.parse()? else { return Err("not a card".into()) };
    let frames = rest.first().map_or(Ok(1_000_000), |text| text.parse())?;

    let domain = Domain::new(backend, 8 << 20)?;
    println!("{} MiB in {} pieces", domain.memory().bytes() >> 20, domain.memory().pieces().count());
    let cards = (open(&domain, near)?, open(&domain, far)?);
    let mut pool = domain.memory().pool(2048, 2048, None).map_err(|_| "no memory for buffers")?;
    let vectors =
        if rest.get(1).is_some_and(|text| text == "msix") { cards.1.vectors(2)? } else { Vec::new() };
    let (mut near, mut far) = (start(&cards.0, &pool)?, start(&cards.1, &pool)?);
    // QEMU's card receives nothing for a second after its setup.
    std::thread::sleep(Duration::from_millis(1200));
    let mut bad = polled(&mut near, &mut far, &mut pool, frames)?;
    // The first vector is the queues', the second all else's.
    let mut interrupts = vectors.into_iter().next().map_or_else(|| cards.1.interrupts(), Ok)?;
    bad += interrupted((&mut near, &mut far), (&cards.1, &mut interrupts), &mut pool)?;
    drop((near, far));
    println!("buffers back: {} of {}", pool.available(), pool.count());
    if bad > 0 || pool.available() < pool.count() { Err("something is wrong".into()) } else { Ok(()) }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("pair: {error}");
        std::process::exit(1);
    }
}
