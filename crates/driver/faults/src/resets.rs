//! Resets at every fill of the rings, at the end of a world: buffers in a ring at a reset are neither lost
//! nor used twice, and the driver does not rely on state that the card has lost.

use crate::buffers::{Buf, Pool};
use crate::card::{Leaving, Slot};
use crate::check::Breach;
use crate::plan::WorldPlan;
use crate::port::Port;
use kpps_driver::{Checksums, Device, Fragment, Offload, Sum, TxMeta, TxQueue};
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::{Size, ethernet, ipv4};
use kpps_platform::{Buffer, BufferSource, Platform};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::iter;
use std::rc::Rc;

/// Time for the link to come up.
const LINK_NS: u64 = 3_000_000_000;
/// Time for a few frames to arrive and to be written back, which RDTR delays by at most 67 ms; or to be sent.
const FRAMES_NS: u64 = 100_000_000;
/// Larger rings are reset at about as many fills, and at each one up to `EDGE` from empty and from full.
const FILLS: usize = 24;
const EDGE: usize = 4;
/// Bytes of a frame, without FCS: more than are ever copied.
const BYTES: usize = 200;
/// A type for experiments (IEEE 802).
const LOCAL_TYPE: [u8; 2] = [0x88, 0xB5];
/// Where a received frame has its number.
const NUMBER: usize = ethernet::HEADER_BYTES;
const IP: usize = ethernet::HEADER_BYTES;
const IP_SUM: Sum = Sum { start: IP as u8, field: IP as u8 + 10, end: (IP + ipv4::HEADER_BYTES) as u16 - 1 };

/// Resets a quiet device at every fill of its receive ring, then of its transmit ring.
pub(crate) fn resets(port: &mut Port, plan: &WorldPlan) {
    receiving(port);
    sending(port, plan);
}

fn demand(port: &Port, good: bool, what: &'static str) {
    if !good {
        port.check.breach(Breach::Exam(what));
    }
}

/// How many more frames to take or to queue before the next reset, in a ring of `size` slots with `fill` in
/// use.
fn step(size: usize, fill: usize) -> usize {
    if fill < EDGE || size - fill < EDGE { 1 } else { (size / FILLS).clamp(1, size - fill) }
}

/// Resets the device; returns whether it is up again.
fn reset(port: &mut Port) -> bool {
    let Some(device) = &mut port.device else { return false };
    let started = device.reset().is_ok();
    port.slot.wait_ns(LINK_NS);
    let up = device.control.update_link().is_ok_and(|link| link.up);
    demand(port, started && up, "about a device that is reset at some fill of its rings");
    started && up
}

/// The frame of this number that comes to a port.
fn arriving(port: &Port, number: u64) -> Vec<u8> {
    let mut frame = vec![number as u8; BYTES];
    frame[..6].copy_from_slice(&port.card.borrow().address());
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 2, 0]);
    frame[12..NUMBER].copy_from_slice(&LOCAL_TYPE);
    frame[NUMBER..][..8].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Frames come one at a time, and while `kept` is `Some`, their buffers go there: each slot stays empty.
fn receive(port: &mut Port, numbers: std::ops::Range<u64>, mut kept: Option<&mut Vec<Buf>>) {
    for number in numbers {
        let frame = arriving(port, number);
        port.card.borrow_mut().cable.post(port.slot.now_ps.get(), frame.clone());
        port.slot.wait_ns(FRAMES_NS);
        let Some(Device { rx, .. }) = &mut port.device else { return };
        let mut right = false;
        let taken = rx.receive(usize::MAX, |received| {
            let bytes = received.buffer.bytes().get(..received.bytes.into());
            right = bytes.is_some_and(|bytes| bytes.starts_with(&frame)) && received.first && received.last;
            match &mut kept {
                Some(kept) => {
                    kept.push(received.buffer);
                    None
                }
                None => Some(received.buffer),
            }
        });
        rx.flush();
        port.check.note(|| format!("frame {number}: {taken} taken, right: {right}"));
        demand(port, taken == 1 && right, "about a frame after a reset");
        if port.check.is_broken() {
            return;
        }
    }
}

/// A receive ring that loses buffers, as there are none for the slots of frames that came, keeps the others
/// at each reset. With buffers again, each slot has one of its own: two frames for each arrive.
fn receiving(port: &mut Port) {
    let (mut kept, mut number) = (Vec::new(), 0);
    let size = port.device.as_ref().map_or(0, |device| device.control.config().rx_ring.into());
    port.pool.set_most_outside(port.pool.outside());
    while !port.check.is_broken() && reset(port) {
        let filled = port.device.as_ref().map_or(0, |device| size - device.rx.empty_slots());
        demand(port, filled + kept.len() == size, "how many buffers a ring has after a reset");
        if filled == 0 {
            break;
        }
        // The ring turns, so that its contents wrap around its end.
        let turns = number..number + (number % 3).min(filled as u64);
        let takes = turns.end..turns.end + step(size, filled).min(filled) as u64;
        number = takes.end;
        receive(port, turns, None);
        receive(port, takes, Some(&mut kept));
    }
    port.pool.set_most_outside(usize::MAX);
    kept.into_iter().for_each(|buffer| port.pool.give(buffer));
    if !port.check.is_broken() && reset(port) {
        let empty = port.device.as_ref().map_or(0, |device| device.rx.empty_slots());
        // A buffer across 64 KiB ends a refill: the next poll goes on.
        let good = empty == 0 || port.pool.has_unfit();
        demand(port, good, "how many slots are empty while there are buffers");
        receive(port, number..number + 2 * size.min(FILLS) as u64, None);
    }
}

/// A frame to send: its headers are right.
fn leaving() -> Vec<u8> {
    udp_test(&Flow::default(), Size::without_fcs(BYTES as u16)).unwrap_or_default()
}

/// Queues a frame; the card inserts the checksum of its IPv4 header if it can.
fn queue(tx: &mut TxQueue<Slot, Pool>, pool: &mut Pool, frame: &[u8], inserts: bool) -> bool {
    let Some(mut buffer) = pool.take() else { return false };
    let Some(to) = buffer.bytes_mut().get_mut(..frame.len()) else { return false };
    to.copy_from_slice(frame);
    if inserts {
        to[IP_SUM.field.into()..][..2].fill(0);
    }
    buffer.sends = true;
    let bytes = frame.len() as u16;
    if !inserts {
        return tx.send(buffer, bytes).map_err(|refused| pool.give(refused.frame.buffer)).is_ok();
    }
    let sums = Checksums { ip: Some(IP_SUM), transport: None };
    let meta = TxMeta { vlan: None, offload: Offload::Checksum(sums) };
    let sent = tx.enqueue(iter::once(Fragment { buffer, bytes }), &meta);
    sent.map_err(|refused| refused.frame.for_each(|fragment| pool.give(fragment.buffer))).is_ok()
}

/// Buffers of a transmit ring come back at each reset, and the first frame after it is as right as the last
/// one before: the card gets its lost state again.
fn sending(port: &mut Port, plan: &WorldPlan) {
    let frame = leaving();
    let letters: Rc<RefCell<VecDeque<Vec<u8>>>> = Rc::default();
    port.card.borrow_mut().set_leaving(Leaving::Stack(letters.clone()));
    let inserts = plan.chip.has_checksum_offload();
    let mut fill = 0;
    while !port.check.is_broken() {
        let Some(Device { control, tx, .. }) = &mut port.device else { return };
        let size = usize::from(control.config().tx_ring) - 1;
        let (outside, abandoned) = (port.pool.outside(), tx.counters().abandoned);
        let mut frames = 0;
        while tx.pending() < fill && queue(tx, &mut port.pool, &frame, inserts) {
            frames += 1;
        }
        // The card has all of them, half of them, or none.
        if fill % 3 == 1 {
            tx.flush();
        }
        if !reset(port) {
            return;
        }
        letters.borrow_mut().clear();
        let Some(Device { tx, .. }) = &mut port.device else { return };
        let back = tx.pending() == 0
            && port.pool.outside() == outside
            && tx.counters().abandoned - abandoned == frames;
        let queued = queue(tx, &mut port.pool, &frame, inserts) && tx.request_report();
        port.slot.wait_ns(FRAMES_NS);
        let sent = tx.reclaim(usize::MAX) == 1 && letters.borrow_mut().pop_front().as_ref() == Some(&frame);
        demand(port, back, "about the buffers of a transmit ring at a reset");
        demand(port, queued && sent, "about a frame that is sent after a reset");
        if fill >= size {
            break;
        }
        fill += step(size, fill);
    }
}
