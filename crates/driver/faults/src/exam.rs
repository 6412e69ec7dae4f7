//! Questions to the driver that only a quiet device can answer for certain, at the end of a world.

use crate::buffers::Buf;
use crate::check::Breach;
use crate::plan::WorldPlan;
use crate::port::Port;
use crate::traffic::{PAUSE_TYPE, Pace};
use kpps_datasheet::desc::rx_status;
use kpps_datasheet::{Chip, Erratum, desc, reg};
use kpps_driver::config::Service;
use kpps_driver::{Checksums, Device, Fragment, Offload, Refusal, TxMeta};
use kpps_host::{MS, US};
use kpps_platform::{Buffer, BufferSource, Platform};
use std::iter;

/// Time for all that was queued to be sent, and reported.
const SENT_NS: u64 = 200_000_000;

/// Time for a few frames to arrive and to be written back, which RDTR delays by at most 67 ms.
const UNREAD_NS: u64 = 200_000_000;

/// The longest frame that the driver sends, in bytes without FCS (SDM 3.3.3).
const LONGEST_BYTES: u16 = 16_288;

/// Time for the link to come up.
const LINK_NS: u64 = 3_000_000_000;

/// Examines a port without traffic; it may have received frames just before.
pub(crate) fn exam(port: &mut Port, hears: bool, plan: &WorldPlan) {
    if port.device.is_none() {
        return;
    }
    let in_order = port.pool.is_in_order();
    demand(port, in_order, "about a pool of buffers");
    step(port, hears);
    // If a device sends nothing, it is unknown whether its transmitter works.
    let Some(device) = &mut port.device else { return };
    let started = device.reset().is_ok();
    port.slot.wait_ns(LINK_NS);
    let up = device.control.update_link().is_ok_and(|link| link.up);
    demand(port, started && up, "about a device that is reset");
    sending(port);
    asking(port, plan);
    again(port, plan);
    burst(port);
    unsupported(port, plan);
    full(port);
}

fn demand(port: &Port, good: bool, what: &'static str) {
    if !good {
        port.check.breach(Breach::Exam(what));
    }
}

/// A frame that no receiver expects.
fn frame(port: &mut Port) -> Option<(Buf, u16)> {
    let mut buffer = port.pool.take()?;
    let bytes = buffer.bytes_mut().get_mut(..60)?;
    bytes.fill(0);
    bytes[12..14].copy_from_slice(&PAUSE_TYPE);
    buffer.sends = true;
    Some((buffer, 60))
}

/// The card owes a report from when it gets a frame until it has sent it.
fn sending(port: &mut Port) {
    let Some((buffer, bytes)) = frame(port) else { return };
    let Some(Device { tx, .. }) = &mut port.device else { return };
    tx.reclaim(usize::MAX);
    let rest = tx.progress();
    let queued = tx.send(buffer, bytes).is_ok();
    let (unknown, pending) = (tx.progress(), tx.pending());
    let asked = tx.request_report();
    let known = tx.progress();
    port.slot.wait_ns(SENT_NS);
    let sent = tx.progress();
    let reclaimed = tx.reclaim(usize::MAX);
    let end = tx.progress();
    // A frame may need several descriptors.
    let good = queued
        && asked
        && pending > 0
        && [rest.waiting, unknown.waiting, known.waiting, sent.waiting, end.waiting]
            == [false, false, true, false, false]
        && (unknown.reported, known.reported, end) == (rest.reported, rest.reported, sent)
        && reclaimed == 1
        && tx.pending() == 0
        && end.reported.wrapping_sub(rest.reported) as usize == pending;
    port.check.note(|| {
        let reports = [rest, unknown, known, sent, end];
        format!("queued {queued}, pending {pending}, asked {asked}, reclaimed {reclaimed}: {reports:?}")
    });
    demand(port, good, "about a frame that is sent");
}

/// A polled queue asks for a report only on request, or in the second poll without a frame.
fn asking(port: &mut Port, plan: &WorldPlan) {
    // An interrupt loop does not poll, and the audit demands that it asks with each tail write.
    if matches!(plan.config.service, Service::InterruptLoop { .. }) {
        return;
    }
    let Some((buffer, bytes)) = frame(port) else { return };
    let Some(Device { control, tx, .. }) = &mut port.device else { return };
    let every = control.config().completion.report_every;
    let can_wait = plan.chip != Chip::I82542;
    tx.set_polled(true);
    let queued = tx.send(buffer, bytes).is_ok();
    // A frame may need several descriptors, and some number of them is reported without being asked.
    let alone = can_wait && tx.pending() < usize::from(every);
    tx.flush();
    let reports = [0; 3].map(|_| {
        let waiting = tx.progress().waiting;
        tx.request_report_if_idle();
        waiting
    });
    port.slot.wait_ns(SENT_NS);
    let reclaimed = tx.reclaim(usize::MAX);
    port.check.note(|| format!("queued {queued}, alone {alone}, reclaimed {reclaimed}: {reports:?}"));
    let good =
        queued && reclaimed == 1 && (!alone || reports == [false, false, true]) && (can_wait || reports[0]);
    demand(port, good, "about a queue that is polled");

    let Some((buffer, bytes)) = frame(port) else { return };
    let Some(Device { tx, .. }) = &mut port.device else { return };
    tx.set_polled(false);
    let queued = tx.send(buffer, bytes).is_ok();
    tx.flush();
    let waiting = tx.progress().waiting;
    port.slot.wait_ns(SENT_NS);
    let good = queued && waiting && tx.reclaim(usize::MAX) == 1;
    demand(port, good, "about a queue that is not polled");
}

/// A sent buffer can be sent again, by chips that send each buffer with one descriptor, and any number of
/// them. A frame may fill its buffer, but not be longer.
fn again(port: &mut Port, plan: &WorldPlan) {
    let (Some((first, bytes)), Some((second, _))) = (frame(port), frame(port)) else { return };
    let longest = second.capacity().min(LONGEST_BYTES.into()) as u16;
    let Some(Device { tx, .. }) = &mut port.device else { return };
    let has = |erratum| plan.chip.has(erratum);
    let splits = has(Erratum::No64KCrossing)
        || plan.pcix && (has(Erratum::FirstDescriptor2015) || has(Erratum::DwordEndPcix));
    let queued = tx.send(first, bytes).is_ok() && tx.send(second, longest).is_ok() && tx.request_report();
    port.slot.wait_ns(SENT_NS);
    let sent = [bytes, longest].map(|bytes| tx.send_again(1, |_| bytes));
    let asked = tx.request_report();
    port.slot.wait_ns(SENT_NS);
    let refused = tx.send_again(1, |buffer| buffer.capacity() as u16 + 1);
    let reclaimed = tx.reclaim(usize::MAX);
    port.check.note(|| format!("queued {queued}, sent again {sent:?} {refused}, reclaimed {reclaimed}"));
    let one = usize::from(!splits);
    let good = queued && asked && sent == [one; 2] && refused == 0 && reclaimed == 2 - one;
    demand(port, good, "about a buffer that is sent again");
}

/// A burst with a frame that is longer than its buffer.
fn burst(port: &mut Port) {
    let Some((buffer, _)) = frame(port) else { return };
    let bytes = buffer.capacity() as u16 + 1;
    let Some(Device { tx, .. }) = &mut port.device else { return };
    let answer = tx.send_burst(&mut iter::once(Fragment { buffer, bytes })).map_err(|refused| refused.reason);
    demand(port, answer == Err(Refusal::Invalid), "about a frame that is longer than its buffer");
}

/// A chip without checksums is asked for one.
fn unsupported(port: &mut Port, plan: &WorldPlan) {
    if plan.chip.has_checksum_offload() {
        return;
    }
    let Some((buffer, bytes)) = frame(port) else { return };
    let Some(Device { tx, .. }) = &mut port.device else { return };
    let meta = TxMeta { vlan: None, offload: Offload::Checksum(Checksums::default()) };
    let answer = tx.enqueue(iter::once(Fragment { buffer, bytes }), &meta).map_err(|refused| refused.reason);
    demand(port, answer == Err(Refusal::Unsupported), "about a checksum that the chip does not have");
}

/// A ring takes all but one descriptor.
fn full(port: &mut Port) {
    let mut frames = 0;
    while let Some((buffer, bytes)) = frame(port) {
        let Some(Device { tx, .. }) = &mut port.device else { return };
        if tx.free() == 0 {
            port.pool.give(buffer);
            break;
        }
        if let Err(refused) = tx.send(buffer, bytes) {
            port.pool.give(refused.frame.buffer);
            break;
        }
        frames += 1;
    }
    let Some(Device { tx, .. }) = &mut port.device else { return };
    let before = tx.progress().reported;
    tx.flush();
    let asked = tx.request_report();
    let (free, pending) = (tx.free(), tx.pending());
    port.slot.wait_ns(SENT_NS);
    let mut reclaimed = tx.reclaim(usize::MAX);
    if !asked {
        tx.request_report();
        port.slot.wait_ns(SENT_NS);
        reclaimed += tx.reclaim(usize::MAX);
    }
    let descriptors = tx.progress().reported.wrapping_sub(before) as usize;
    let good = (asked || free == 0) && reclaimed == frames && descriptors >= pending && tx.pending() == 0;
    demand(port, good, "about a full ring");
}

/// Whether the receiver has lost its ring: twice in a row, and not because a read failed.
fn step(port: &mut Port, hears: bool) {
    let card = port.card.clone();
    let out_of_step = |port: &Port| port.device.as_ref().is_some_and(|device| device.rx.is_out_of_step());
    let lost = |port: &mut Port| {
        let Some(Device { control, rx, .. }) = &mut port.device else { return None };
        control.has_lost_receiver(rx).ok()
    };
    demand(port, !out_of_step(port), "about a receiver that is well");
    for _ in 0..3 {
        let well = lost(port) == Some(false);
        demand(port, well, "about a receiver that is well");
    }
    // Frames that were not taken yet are no sign of it. (A port without frames in the proof may have a
    // receiver that stands still: only frames show that.)
    for _ in 0..if hears { 2 } else { 0 } {
        let gap_ps = 10 * US;
        card.borrow_mut().cable.start(port.slot.now_ps.get(), Pace::Every { gap_ps }, 3);
        port.slot.wait_ns(UNREAD_NS);
        let well = lost(port) == Some(false);
        demand(port, well, "about a receiver whose frames nobody takes");
    }
    card.borrow_mut().set_gone(true);
    demand(port, !out_of_step(port), "about a device that does not answer");
    let gone = lost(port).is_none();
    demand(port, gone, "about a device that does not answer");
    card.borrow_mut().set_gone(false);

    let size = port.device.as_ref().map_or(8, |device| u64::from(device.control.config().rx_ring));
    let head = |port: &Port| {
        use kpps_platform::Registers;
        let Some(device) = &port.device else { return 0 };
        u64::from(port.slot.registers().read(device.control.chip().offset(reg::RDH)))
    };
    // The device goes on at another descriptor; it does not know the ring; it has written a later descriptor.
    for harm in 0..3 {
        let Some(device) = &mut port.device else { return };
        if device.reset().is_err() {
            return demand(port, false, "about a device that is reset");
        }
        port.slot.wait_ns(MS / 1000);
        demand(port, !out_of_step(port), "about a receiver after a reset");
        let at = head(port);
        match harm {
            0 => card.borrow_mut().poke(reg::RDH, ((at + 2) % size) as u32),
            1 => card.borrow_mut().poke(reg::RDLEN, size as u32 * desc::BYTES as u32 + 128),
            _ => {
                let done = [rx_status::DD | rx_status::EOP];
                card.borrow_mut().scribble(0, (at + 2) % size * desc::BYTES as u64 + 12, &done);
            }
        }
        demand(port, out_of_step(port), "about a receiver that is out of step");
        let twice = [lost(port), lost(port)];
        demand(port, twice == [Some(false), Some(true)], "about a receiver that is out of step");
    }
}
