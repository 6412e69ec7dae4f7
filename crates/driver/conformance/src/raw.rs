//! A receive ring without the driver's queue, for behaviour that the driver hides or never uses. The driver
//! brings up card and link; then this ring replaces its ring.

use crate::rig::{Rig, Wait};
use crate::{Failure, Fixture};
use kpps_datasheet::desc::extended::Writeback;
use kpps_datasheet::desc::{self, RxWriteback, rx_status};
use kpps_datasheet::{Erratum, reg};
use kpps_driver::config::RxFormat;
use kpps_platform::{Buffer, BufferSource, DmaMemory, DmaSpec, Platform};
use std::sync::atomic::Ordering::SeqCst;

/// Bytes of its buffers as the device sees them.
const BUFFER_BYTES: usize = 2048;

type Buf<B> = <<B as Fixture>::Source as BufferSource>::Buf;

/// The ring; each descriptor has the buffer of its index.
pub struct RawReceiver<'b, B: Fixture> {
    /// The driver that the card was brought up with; its receive queue is idle.
    pub rig: Rig<'b, B>,
    ring: <B::Platform as Platform>::Mem,
    buffers: Vec<Buf<B>>,
}

impl<'b, B: Fixture> RawReceiver<'b, B> {
    /// A ring of `size` descriptors (a multiple of 8); the device has none of them yet.
    pub fn open(fixture: &'b mut B, size: usize) -> Result<Self, Failure> {
        let chip = fixture.chip();
        let mut source = fixture.buffers(size, BUFFER_BYTES)?;
        let buffers: Option<Vec<_>> = (0..size).map(|_| source.take()).collect();
        let ring = fixture.platform().allocate(DmaSpec {
            bytes: size * desc::BYTES,
            align: 128,
            boundary: chip.has(Erratum::No64KCrossing).then_some(1 << 16),
            max_address: u32::MAX.into(),
        })?;
        let rig = Rig::open(fixture, |config| config.rx_format = RxFormat::Legacy)?;
        let control = rig.regs.read(reg::RCTL);
        rig.regs.write(reg::RCTL, 0);
        rig.fixture.advance(1_000_000)?;
        rig.regs.write(reg::RDBAL, ring.bus() as u32);
        rig.regs.write(reg::RDBAH, (ring.bus() >> 32) as u32);
        rig.regs.write(reg::RDLEN, (size * desc::BYTES) as u32);
        rig.regs.write(reg::RDH, 0);
        rig.regs.write(reg::RDT, 0);
        rig.regs.write(reg::RCTL, control);
        rig.fixture.advance(1_000_000)?;
        let raw = Self { rig, ring, buffers: buffers.ok_or("out of buffers")? };
        for (index, buffer) in raw.buffers.iter().enumerate() {
            raw.store(index, desc::rx_read(buffer.bus()));
        }
        Ok(raw)
    }

    /// Writes descriptor `index`.
    pub fn store(&self, index: usize, words: [u64; 2]) {
        let at = index * 2;
        for (word, value) in self.ring.words()[at..at + 2].iter().zip(words) {
            word.store(value.to_le(), SeqCst);
        }
        self.ring.sync_for_device(index * desc::BYTES..(index + 1) * desc::BYTES);
    }

    /// Hands the descriptors before `index` to the device.
    pub fn tail(&self, index: usize) {
        self.rig.regs.write(reg::RDT, index as u32);
    }

    /// Descriptor `index`, if the device has written it back.
    pub fn look(&self, index: usize) -> Option<RxWriteback> {
        self.ring.sync_for_cpu(index * desc::BYTES..(index + 1) * desc::BYTES);
        let [first, second] =
            [0, 1].map(|word| u64::from_le(self.ring.words()[index * 2 + word].load(SeqCst)));
        let written = match self.rig.control.chip().has_advanced() {
            true => {
                RxWriteback { checksum: (first >> 48) as u16, ..Writeback::unpack([first, second]).legacy() }
            }
            false => RxWriteback::unpack(second),
        };
        (written.status & rx_status::DD != 0).then_some(written)
    }

    /// Waits until the device has written back descriptor `index`.
    pub fn written(&mut self, index: usize) -> Result<RxWriteback, Failure> {
        let wait = Wait::on(self.rig.fixture);
        loop {
            if let Some(written) = self.look(index) {
                return Ok(written);
            }
            wait.step(self.rig.fixture, &format!("receive descriptor {index} to be written"))?;
        }
    }

    /// The first `bytes` in buffer `index`.
    pub fn bytes(&self, index: usize, bytes: u16) -> Result<&[u8], Failure> {
        let buffer = &self.buffers[index];
        buffer.sync_for_cpu(bytes.into());
        let found = buffer.bytes().get(..usize::from(bytes));
        found.ok_or_else(|| format!("{bytes} B in a buffer of {BUFFER_BYTES} B").into())
    }
}
