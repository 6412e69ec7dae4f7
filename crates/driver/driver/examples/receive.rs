//! Receives frames with the driver on a platform that is implemented here.
//!
//! The card is [`Card`], which needs no hardware. The comments say what a kernel does instead.

use kpps_driver::fake::Card;
use kpps_driver::{Config, probe};
use kpps_platform::memory::RingMemory;
use kpps_platform::{Buffer, DmaSpec, OutOfMemory, Platform, Registers};

/// The registers of the card. A kernel accesses BAR 0 + `offset`, volatile.
#[derive(Clone)]
struct Window(Card);

impl Registers for Window {
    fn read(&self, offset: u32) -> u32 {
        self.0.platform().read(offset)
    }
    fn write(&self, offset: u32, value: u32) {
        self.0.platform().write(offset, value);
    }
}

/// The environment of the driver. A kernel allocates memory that the card reaches, and reads a timer.
struct Kernel(Card);

impl Platform for Kernel {
    type Regs = Window;
    type Mem = RingMemory;
    fn registers(&self) -> Window {
        Window(self.0.clone())
    }
    fn allocate(&self, spec: DmaSpec) -> Result<RingMemory, OutOfMemory> {
        self.0.memory().ring(spec)
    }
    fn now_ns(&self) -> u64 {
        self.0.platform().now_ns()
    }
    fn wait_ns(&self, ns: u64) {
        self.0.platform().wait_ns(ns);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let card = Card::new()?;
    // The packet buffers. The receive ring takes 256 of them, the consumer of frames may keep others.
    let pool = card.memory().pool(600, 2048, None)?;
    let mut device = probe(Kernel(card.clone()), Card::CHIP, Config::kpps(), pool)?;
    while !device.control.update_link()?.up {}
    for number in 0..10 {
        card.inject(&[number; 60]); // the other end of the cable sends a frame
    }
    // Reaps at most 32 completed descriptors and refills their slots. One write of the tail register, the
    // doorbell, passes all of these slots to the card.
    let reaped = device.rx.receive(32, |frame| {
        println!("received {} bytes: {:?} …", frame.bytes, &frame.buffer.bytes()[..4]);
        Some(frame.buffer) // the buffer for the refill; `None` keeps it, and another takes its slot
    });
    println!("{reaped} frames reaped, doorbell rung {} times", device.rx.counters().doorbells);
    Ok(())
}
