//! The exchange of frames between driver and wire, which many cases share: it sends frames of given sizes and
//! checks each.

use crate::case::check_eq;
use crate::oracle::{PEER, plain};
use crate::rig::{Rig, same};
use crate::{Failure, Fixture, departure};
use kpps_driver::TxMeta;

/// The path of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the driver to the wire.
    Out,
    /// From the wire to the driver.
    In,
    /// Both, one after the other.
    Both,
    /// From the driver back to the driver (loopback).
    Around,
}

/// Sends one frame of each size and checks that it arrives unchanged and in order. It sends them in batches
/// that fit into the rings.
pub(super) fn exchange<B: Fixture>(
    rig: &mut Rig<'_, B>,
    direction: Direction,
    sizes: &[usize],
    pieces: usize,
) -> Result<(), Failure> {
    let config = rig.control.config();
    let buffer = usize::from(config.rx_buffer_bytes);
    let receive = usize::from(config.rx_ring) - rig.rx.held_back();
    let room = receive.min(config.tx_ring.into()) - 2;
    // Enough descriptors for one frame. Receive: one for each buffer that it fills, and one more, because a
    // device may write the FCS into a descriptor of its own. Transmit: four for each piece.
    let cost = |size: usize| ((size + 4).div_ceil(buffer) + 1).max(pieces * 4);
    let mut rest = sizes;
    while !rest.is_empty() {
        let mut used = 0;
        let mut count = 0;
        while let Some(&size) = rest.get(count) {
            used += cost(size);
            if used > room && count > 0 {
                break;
            }
            count += 1;
        }
        let (batch, later) = rest.split_at(count);
        rest = later;
        match direction {
            Direction::Out => out(rig, batch, pieces)?,
            Direction::In => into(rig, batch)?,
            Direction::Both => {
                out(rig, batch, pieces)?;
                into(rig, batch)?;
            }
            Direction::Around => around(rig, batch, pieces)?,
        }
    }
    Ok(())
}

/// The frame that is exchanged, with `size` bytes without FCS.
pub(super) fn frame(size: usize) -> Vec<u8> {
    plain([0xff; 6], PEER, size, size)
}

fn out<B: Fixture>(rig: &mut Rig<'_, B>, sizes: &[usize], pieces: usize) -> Result<(), Failure> {
    for &size in sizes {
        rig.send(&frame(size), pieces, &TxMeta::default())?;
    }
    rig.tx.flush();
    for &size in sizes {
        let sent = rig.sent()?;
        same(&format!("frame of {size} B on the wire"), &sent, &frame(size))?;
    }
    Ok(())
}

fn into<B: Fixture>(rig: &mut Rig<'_, B>, sizes: &[usize]) -> Result<(), Failure> {
    let buffer = usize::from(rig.control.config().rx_buffer_bytes);
    let fcs = if rig.control.config().strip_fcs && rig.control.chip().has_fcs_strip() { 0 } else { 4 };
    let apart = fcs > 0 && rig.fixture.departs(&departure::FCS_APART);
    let pieces = |size: usize| match apart {
        true => size.div_ceil(buffer) + 1,
        false => (size + fcs).div_ceil(buffer),
    };
    for &size in sizes {
        rig.fixture.inject(&frame(size))?;
    }
    for &size in sizes {
        let got = rig.received()?;
        same(&format!("frame of {size} B received"), &got.bytes, &frame(size))?;
        check_eq!(got.pieces, pieces(size), "buffers for a frame of {size} B");
    }
    Ok(())
}

fn around<B: Fixture>(rig: &mut Rig<'_, B>, sizes: &[usize], pieces: usize) -> Result<(), Failure> {
    for &size in sizes {
        rig.send(&frame(size), pieces, &TxMeta::default())?;
    }
    rig.tx.flush();
    for &size in sizes {
        let got = rig.received()?;
        same(&format!("frame of {size} B looped back"), &got.bytes, &frame(size))?;
    }
    Ok(())
}
