//! Receives frames with the driver on QEMU's e1000 card: the complete code that other software needs to use
//! it.
//!
//!     cargo run -p kpps-driver --example receive [FRAMES]
//!
//! QEMU must be installed (`make install-test-tools`). The platform is QEMU's test socket: registers, memory
//! that the card sees, a clock. To drive a card elsewhere, implement `kpps_platform::Platform` there and
//! change only `start`.

use kpps_driver::{Chip, Config, Device, probe};
use kpps_frames::{Size, Tag, build, tag};
use kpps_platform::Buffer;
use kpps_platform::memory::BufferPool;
use kpps_qemu::qtest::{Model, Options, Place, Qemu};
use std::error::Error;

/// Resets the card and starts it with the driver's default policy, in promiscuous mode.
fn start(qemu: &Qemu) -> Result<Device<Place, BufferPool>, Box<dyn Error>> {
    // 1024 buffers of 2048 bytes. None crosses 64 KiB (errata of the 82545 and 82546, revision 1).
    let pool = qemu.ram().pool(1024, 2048, Some(1 << 16))?;
    let config = Config { promiscuous: true, ..Config::kpps() };
    let mut device = probe(qemu.platform(), Chip::I82540em, config, pool)?;
    while !device.control.update_link()?.up {
        qemu.advance(1_000_000)?;
    }
    Ok(device)
}

fn main() -> Result<(), Box<dyn Error>> {
    let frames: u64 = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let qemu = Qemu::start(&Options::new(Model::I82540Em))?;
    let mut device = start(&qemu)?;
    let mut sequences = 0..frames;
    while device.rx.counters().frames < frames {
        if let Some(sequence) = sequences.next() {
            // The other end of the card's cable sends a numbered test frame.
            let mut frame = build::udp_test(&build::Flow::default(), Size::without_fcs(60))?;
            tag::write(&mut frame, Tag { stream: 1, sequence, sent_ps: 0 })?;
            qemu.inject(&frame)?;
        }
        qemu.advance(1_000_000)?;
        // One poll: at most 32 frames. Each buffer goes back into the ring.
        device.rx.receive(32, |frame| {
            let bytes = &frame.buffer.bytes()[..frame.bytes.into()];
            println!("received {} bytes, number {:?}", bytes.len(), tag::read(bytes).map(|tag| tag.sequence));
            Some(frame.buffer)
        });
    }
    println!("{frames} frames, tail writes: {}", device.rx.counters().doorbells);
    Ok(())
}
