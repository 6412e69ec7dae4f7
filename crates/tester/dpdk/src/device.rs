//! A device: its properties, and its state.

use crate::adapter::{Adapter, RawInfo, RawLink, RawPort, RawStatistics};
use crate::error::Error;
use crate::start;
use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Devices are opened and closed by one thread at a time: so messages belong to a device.
static OPENING: Mutex<()> = Mutex::new(());

/// A device that DPDK drives, open. Dropping it stops it, and removes it from DPDK.
pub struct Device {
    adapter: &'static Adapter,
    port: NonNull<RawPort>,
    info: Info,
    /// Its state is read by one thread at a time.
    reading: Mutex<()>,
}

// SAFETY: a port may be used by any thread. Its state is read under a lock; queues have their own types.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Device {
    /// Opens a device with this number of queues. Starts DPDK if it does not run.
    pub(crate) fn open(device: &str, queues: u32, promiscuous: bool) -> Result<Self, Error> {
        let adapter = start::started()?;
        let refused = |why: String| Error::Device { device: device.to_owned(), why };
        let name = CString::new(device).map_err(|_| refused("the name has a zero byte".into()))?;
        let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        // Earlier messages are not about this device.
        let _ = adapter.why(0);
        let (mut port, promiscuous) = (std::ptr::null_mut(), promiscuous.into());
        // SAFETY: a C string, and a place for a pointer.
        let error = unsafe { (adapter.open)(name.as_ptr(), queues, DESCRIPTORS, promiscuous, &mut port) };
        let port = NonNull::new(port).filter(|_| error == 0);
        let port = port.ok_or_else(|| refused(explained(device, &adapter.why(error))))?;
        Ok(Self { adapter, port, info: info(adapter, port), reading: Mutex::new(()) })
    }

    /// The adapter, and the port.
    pub(crate) fn raw(&self) -> (&'static Adapter, NonNull<RawPort>) {
        (self.adapter, self.port)
    }

    /// Its properties.
    pub fn info(&self) -> &Info {
        &self.info
    }

    fn read(&self) -> MutexGuard<'_, ()> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of its link.
    pub fn link(&self) -> Link {
        let _one = self.read();
        let mut link = RawLink::default();
        // SAFETY: an open port, and a place for the result.
        let error = unsafe { (self.adapter.link)(self.port.as_ptr(), &mut link) };
        let speed = (link.speed_mbps > 0).then_some(link.speed_mbps);
        if error == 0 { Link { up: link.up > 0, speed_mbps: speed } } else { Link::default() }
    }

    /// Its counters; `None` if the driver does not have them.
    pub fn statistics(&self) -> Option<Statistics> {
        let _one = self.read();
        let mut raw = RawStatistics::default();
        // SAFETY: an open port, and a place for the result.
        let error = unsafe { (self.adapter.statistics)(self.port.as_ptr(), &mut raw) };
        let RawStatistics { missed, no_buffer, rx_errors, tx_errors, sent } = raw;
        (error == 0).then_some(Statistics { missed, no_buffer, rx_errors, tx_errors, sent })
    }

    /// Whether it was taken from the bus.
    pub fn has_gone(&self) -> bool {
        let _one = self.read();
        // SAFETY: an open port.
        unsafe { (self.adapter.has_gone)(self.port.as_ptr()) != 0 }
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
