//! The queues of the driver of kpps.

use crate::memory::{Packet, Pool};
use crate::platform::Guest;
use crate::run::Queues;
use alloc::vec::Vec;
use kpps_driver::{RxQueue, TxQueue};
use kpps_platform::{Buffer, BufferSource};

/// The most frames taken in one turn.
pub const BURST: usize = 32;

/// The two queues.
pub struct Ours {
    /// Receiving.
    pub rx: RxQueue<Guest, Pool>,
    /// Transmitting.
    pub tx: TxQueue<Guest, Pool>,
    /// Answers of this turn, and their lengths.
    answers: Vec<(Packet, usize)>,
}

impl Ours {
    /// The queues of a probed device.
    pub fn new(rx: RxQueue<Guest, Pool>, tx: TxQueue<Guest, Pool>) -> Self {
        Self { rx, tx, answers: Vec::with_capacity(BURST) }
    }
}

impl Queues for Ours {
    fn send(&mut self, frame: &[u8]) {
        let Some(mut buffer) = self.tx.source_mut().take() else { return };
        buffer.bytes_mut()[..frame.len()].copy_from_slice(frame);
        if let Err(refused) = self.tx.send(buffer, frame.len() as u16) {
            self.tx.source_mut().give(refused.frame.buffer);
        }
        self.tx.flush();
    }

    fn poll(
        &mut self,
        most: usize,
        _: bool,
        answer: &mut dyn FnMut(&mut [u8], usize) -> Option<usize>,
    ) -> usize {
        let Self { rx, tx, answers } = self;
        tx.reclaim(usize::MAX);
        // A received frame waits until its answer has room.
        let taken = rx.receive(most.min(BURST).min(tx.free()), |mut frame| {
            // A longer frame than fits a buffer is none of Ethernet.
            let whole = frame.first && frame.last && !frame.error;
            match answer(frame.buffer.bytes_mut(), frame.bytes.into()).filter(|_| whole) {
                Some(length) => {
                    answers.push((frame.buffer, length));
                    None
                }
                None => Some(frame.buffer),
            }
        });
        for (buffer, length) in answers.drain(..) {
            if let Err(refused) = tx.send(buffer, length as u16) {
                tx.source_mut().give(refused.frame.buffer);
            }
        }
        tx.flush();
        taken
    }
}
