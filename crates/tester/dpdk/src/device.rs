//! A device with one queue in each direction.

use crate::adapter::{Adapter, Burst, RawInfo, RawLink, RawPort, RawStatistics};
use crate::error::Error;
use crate::start;
use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Descriptors of each queue, or as many as the device can have: 1 ms at two million frames a second.
const DESCRIPTORS: u32 = 2048;

/// The properties of a device when it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// DPDK's driver, as `net_ixgbe`.
    pub driver: String,
    /// The station address.
    pub address: [u8; 6],
    /// The longest packet from its IP header on, in bytes.
    pub mtu: usize,
    /// Bytes of a buffer, for a frame without FCS.
    pub room: usize,
}

/// The state of a device's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Frames can pass.
    pub up: bool,
    /// Mb/s, if known. Drivers of software devices return a constant.
    pub speed_mbps: Option<u32>,
}

/// A device's counters since it was probed, as `rte_eth_stats` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that found the receive queue full (`imissed`).
    pub missed: u64,
    /// Times that there was no buffer for a received frame (`rx_nombuf`).
    pub no_buffer: u64,
    /// Damaged received frames (`ierrors`).
    pub rx_errors: u64,
    /// Frames that were not sent (`oerrors`).
    pub tx_errors: u64,
    /// Sent frames (`opackets`).
    pub sent: u64,
}

/// This thread among those that DPDK knows, until it ends: so it has caches of buffers.
struct Entered(&'static Adapter);

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: DPDK has started, and this thread has entered it.
        unsafe { (self.0.leave)() };
    }
}

thread_local! {
    static ENTERED: Option<Entered> = {
        let adapter = start::started().ok();
        // SAFETY: DPDK has started. The call changes nothing if DPDK knows no more threads.
        adapter.filter(|adapter| unsafe { (adapter.enter)() } == 0).map(Entered)
    };
}

/// Devices are opened and closed by one thread at a time: so messages belong to a device.
static OPENING: Mutex<()> = Mutex::new(());

/// A device that DPDK drives, open. Dropping it stops it, and removes it from DPDK.
pub struct Device {
    adapter: &'static Adapter,
    port: NonNull<RawPort>,
    received: NonNull<Burst>,
    sending: NonNull<Burst>,
    info: Info,
}

// SAFETY: a port may be used by any thread, one at a time; nothing here is shared.
unsafe impl Send for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Device {
    /// Opens a device by the name that DPDK's arguments `-a` or `--vdev` take: `0000:3b:00.0`,
    /// `net_af_packet0,iface=eth1`. With `promiscuous` it receives frames for any station. Starts DPDK if it
    /// does not run.
    ///
    /// # Errors
    /// [`Error`]: DPDK is missing or does not start, or the device cannot be used.
    pub fn open(device: &str, promiscuous: bool) -> Result<Self, Error> {
        let adapter = start::started()?;
        let refused = |why: String| Error::Device { device: device.to_owned(), why };
        let name = CString::new(device).map_err(|_| refused("the name has a zero byte".into()))?;
        let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut port = std::ptr::null_mut();
        // SAFETY: a C string, and a place for a pointer.
        let error = unsafe { (adapter.open)(name.as_ptr(), DESCRIPTORS, promiscuous.into(), &mut port) };
        let port = NonNull::new(port).filter(|_| error == 0);
        let port = port.ok_or_else(|| refused(explained(device, &adapter.why(error))))?;
        // SAFETY: an open port. Its bursts live as long as it is open.
        let bursts = unsafe { [(adapter.received)(port.as_ptr()), (adapter.sending)(port.as_ptr())] };
        let [received, sending] = bursts.map(NonNull::new);
        let missing = || refused("the adapter has no buffers".into());
        let (received, sending) = received.zip(sending).ok_or_else(missing)?;
        Ok(Self { adapter, port, received, sending, info: info(adapter, port) })
    }

    /// Its properties.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The state of its link.
    pub fn link(&self) -> Link {
        let mut link = RawLink::default();
        // SAFETY: an open port, and a place for the result.
        let error = unsafe { (self.adapter.link)(self.port.as_ptr(), &mut link) };
        let speed = (link.speed_mbps > 0).then_some(link.speed_mbps);
        if error == 0 { Link { up: link.up > 0, speed_mbps: speed } } else { Link::default() }
    }

    /// Its counters; `None` if the driver does not have them.
    pub fn statistics(&self) -> Option<Statistics> {
        let mut raw = RawStatistics::default();
        // SAFETY: an open port, and a place for the result.
        let error = unsafe { (self.adapter.statistics)(self.port.as_ptr(), &mut raw) };
        let RawStatistics { missed, no_buffer, rx_errors, tx_errors, sent } = raw;
        (error == 0).then_some(Statistics { missed, no_buffer, rx_errors, tx_errors, sent })
    }

    /// Whether it was taken from the bus.
    pub fn has_gone(&self) -> bool {
        // SAFETY: an open port.
        unsafe { (self.adapter.has_gone)(self.port.as_ptr()) != 0 }
    }

    #[inline]
    fn sending(&mut self) -> &mut Burst {
        // SAFETY: the burst lives as long as the port. The adapter uses it only while one of its functions
        // runs, which takes `&mut self`.
        unsafe { self.sending.as_mut() }
    }

    #[inline]
    fn received(&mut self) -> &mut Burst {
        // SAFETY: as in `sending`.
        unsafe { self.received.as_mut() }
    }

    /// Frames that were received and not taken yet.
    #[inline]
    pub fn waiting(&self) -> usize {
        // SAFETY: as in `received`; nobody changes the burst while it is borrowed.
        let burst = unsafe { self.received.as_ref() };
        (burst.filled - burst.first) as usize
    }

    /// Receives a burst, if all earlier frames were taken, and frees the taken ones.
    #[inline]
    pub fn receive(&mut self) {
        ENTERED.with(|_| ());
        // SAFETY: an open port, whose frames nobody has: `take` lends them to the holder of `&mut self`.
        unsafe { (self.adapter.receive)(self.port.as_ptr()) };
    }

    /// The next received frame, without FCS; an empty one for a frame that was longer than a buffer.
    #[inline]
    pub fn take(&mut self) -> Option<&[u8]> {
        let burst = self.received();
        if burst.first >= burst.filled {
            return None;
        }
        let slot = burst.slots.get(burst.first as usize)?;
        burst.first += 1;
        // SAFETY: a frame in a buffer that the adapter does not free before the next `receive`, which takes
        // `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(slot.data, slot.bytes as usize) })
    }

    /// Frames that can be queued now.
    #[inline]
    pub fn space(&self) -> usize {
        // SAFETY: as in `sending`; nobody changes the burst while it is borrowed.
        let burst = unsafe { self.sending.as_ref() };
        (burst.end - burst.filled) as usize
    }

    /// Queued frames that the device has not taken, and their bytes.
    #[inline]
    pub fn queued(&self) -> (usize, u64) {
        // SAFETY: as in `sending`; nobody changes the burst while it is borrowed.
        let burst = unsafe { self.sending.as_ref() };
        let slots = burst.slots.get(burst.first as usize..burst.filled as usize).unwrap_or_default();
        (slots.len(), slots.iter().map(|slot| u64::from(slot.bytes)).sum())
    }

    /// Queues a copy of a frame without FCS. Returns whether there was space for it.
    #[inline]
    pub fn put(&mut self, frame: &[u8]) -> bool {
        let room = self.info.room;
        let burst = self.sending();
        if burst.filled >= burst.end || frame.len() > room {
            return false;
        }
        let Some(slot) = burst.slots.get_mut(burst.filled as usize) else { return false };
        // SAFETY: the slot's buffer is ours until the adapter has sent it, has `room` bytes, and is no
        // memory of Rust.
        let buffer = unsafe { std::slice::from_raw_parts_mut(slot.data, frame.len()) };
        copy(frame, buffer);
        slot.bytes = frame.len() as u32;
        burst.filled += 1;
        true
    }

    /// Sends the queued frames. Frames that the device does not take stay queued.
    #[inline]
    pub fn send(&mut self) {
        ENTERED.with(|_| ());
        // SAFETY: an open port; each queued frame was written by `put`.
        unsafe { (self.adapter.send)(self.port.as_ptr()) };
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: an open port, which is not used afterwards.
        unsafe { (self.adapter.close)(self.port.as_ptr()) };
        // Messages of the end belong to no later device.
        let _ = self.adapter.why(0);
    }
}

/// Copies a frame into a buffer of the same length. The smallest frames need no call of a function: their
/// halves overlap.
#[inline]
fn copy(frame: &[u8], buffer: &mut [u8]) {
    const HALF: usize = 32;
    match (frame.first_chunk::<HALF>(), frame.last_chunk::<HALF>()) {
        (Some(first), Some(last)) if frame.len() <= 2 * HALF => {
            buffer.first_chunk_mut().into_iter().for_each(|half| *half = *first);
            buffer.last_chunk_mut().into_iter().for_each(|half| *half = *last);
        }
        _ => buffer.copy_from_slice(frame),
    }
}

/// A text of the adapter.
fn text(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes).unwrap_or_default().to_string_lossy().into_owned()
}

fn info(adapter: &Adapter, port: NonNull<RawPort>) -> Info {
    let mut raw =
        RawInfo { driver: [0; 64], address: [0; 8], mtu: 0, room: 0, rx_descriptors: 0, tx_descriptors: 0 };
    // SAFETY: an open port, and a place for the result.
    unsafe { (adapter.info)(port.as_ptr(), &mut raw) };
    let [a, b, c, d, e, f, ..] = raw.address;
    Info {
        driver: text(&raw.driver),
        address: [a, b, c, d, e, f],
        mtu: raw.mtu as usize,
        room: raw.room as usize,
    }
}

/// DPDK's messages about a device, with the remedy, if it is known.
fn explained(device: &str, messages: &str) -> String {
    let name = device.split(',').next().unwrap_or(device);
    if let Some(driver) = kernel_driver(name) {
        return format!(
            "the kernel's driver {driver} has it: bind it to vfio-pci (dpdk-devbind.py) ({messages})"
        );
    }
    if !messages.contains("failed to parse device") && !messages.contains("Cannot find device") {
        return messages.to_owned();
    }
    let driver = name.trim_end_matches(|c: char| c.is_ascii_digit()).replace('_', "-");
    match name.starts_with("net_") {
        true => {
            format!("no driver of DPDK drives it: check the name, or install librte-{driver}… ({messages})")
        }
        false => format!("there is no such device: check the name ({messages})"),
    }
}

/// The kernel's driver that has this card, unless DPDK uses cards through that driver.
fn kernel_driver(address: &str) -> Option<String> {
    let link = std::fs::read_link(format!("/sys/bus/pci/devices/{address}/driver")).ok()?;
    let driver = link.file_name()?.to_string_lossy().into_owned();
    let shared = ["vfio-pci", "uio_pci_generic", "igb_uio", "mlx4_core", "mlx5_core"];
    (!shared.contains(&driver.as_str())).then_some(driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_whole() {
        for length in 0..200 {
            let frame: Vec<u8> = (0..length).collect();
            let mut buffer = vec![255; frame.len()];
            copy(&frame, &mut buffer);
            assert_eq!(buffer, frame);
        }
    }
}
