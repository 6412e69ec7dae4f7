//! A queue of a device that DPDK drives, as a port.
//!
//! DPDK has buffers of its own. A frame is copied into one before it is sent, and into one of the pool's
//! buffers after it was received. The queue is polled all the time: a port of DPDK never sleeps.

use super::attached::{Attached, HEADER, VLAN, fits};
use super::{Counters, Frame, Link, NextPoll, Port, Trouble, Wake};
use crate::Spec;
use crate::spec::device_name;
use kpps_dpdk::{Info, Queue, Statistics};
use kpps_linux::{Interface, pci};
use kpps_platform::memory::{BufferPool, PoolBuffer};
use kpps_platform::{Buffer, BufferSource};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Drivers that do not count frames which found their receive queues full, in DPDK 22.11.
const DO_NOT_COUNT: [&str; 4] = ["net_af_packet", "net_tap", "net_memif", "net_virtio_user"];

/// Why a device cannot be a port.
#[derive(Debug)]
pub(super) enum Refused {
    /// DPDK refused.
    Dpdk(kpps_dpdk::Error),
    /// The system refused.
    System(io::Error),
}

/// A queue of a device that DPDK drives.
#[derive(Debug)]
pub struct DpdkPort {
    queue: Queue,
    /// The kernel's interface, if the device is one.
    attached: Option<Attached>,
    /// Whether the device is a card: others have a speed that their driver makes up.
    is_card: bool,
    link: Link,
    pool: BufferPool,
    /// A buffer to receive into.
    spare: Option<PoolBuffer>,
    /// The counters of the device when it was opened. The port of the first queue reads them.
    before: Option<Statistics>,
    epoch: Instant,
    /// Frames that were sent or are queued, as sent ones.
    counters: Counters,
}

impl DpdkPort {
    /// Opens a device of this name, and a port for each of its `queues`. With `promiscuous` it receives
    /// frames for any station.
    pub(super) fn open(
        spec: &Spec,
        queues: usize,
        promiscuous: bool,
        pool: &BufferPool,
    ) -> Result<Vec<Self>, Refused> {
        let Spec::Dpdk(name) = spec else { return Err(Refused::System(io::ErrorKind::InvalidInput.into())) };
        let interface = || spec.interface().map(Interface::find).transpose().map_err(Refused::System);
        interface()?;
        let queues = kpps_dpdk::open(name, queues, promiscuous).map_err(Refused::Dpdk)?;
        let is_card = device_name(name).parse::<pci::Address>().is_ok();
        let port = |queue: Queue| {
            let info = queue.device().info();
            let room = info.room.min(info.mtu + HEADER);
            let attached = interface()?.map(|interface| Attached::to(interface, room));
            let mut port = Self {
                attached: attached.transpose().map_err(Refused::System)?,
                is_card,
                before: (queue.number() == 0).then(|| queue.device().statistics()).flatten(),
                queue,
                link: Link::default(),
                pool: pool.clone(),
                spare: None,
                epoch: Instant::now(),
                counters: Counters::default(),
            };
            port.read_link();
            Ok(port)
        };
        queues.into_iter().map(port).collect()
    }

    fn info(&self) -> &Info {
        self.queue.device().info()
    }

    /// DPDK's driver, as `net_ixgbe`.
    pub fn driver(&self) -> &str {
        &self.info().driver
    }

    /// The longest frame that it sends, in bytes without FCS and VLAN tag.
    pub fn longest(&self) -> usize {
        let info = self.info();
        let longest = (info.mtu + HEADER).min(info.room - VLAN);
        self.attached.as_ref().map_or(longest, |attached| attached.longest().min(longest))
    }

    /// The station address.
    pub fn address(&self) -> [u8; 6] {
        self.info().address
    }

    fn read_link(&mut self) {
        let link = self.queue.device().link();
        self.link = Link { up: link.up, speed_mbps: link.speed_mbps.filter(|_| self.is_card) };
    }
}

impl Wake for DpdkPort {
    #[inline]
    fn next_poll(&self) -> NextPoll {
        NextPoll::Now
    }
    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn wants_to_send(&self) -> bool {
        self.queue.queued() > 0
    }
    fn signals_tx_space(&self) -> bool {
        false
    }
}

impl Port for DpdkPort {
    #[inline]
    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(Frame) -> Option<PoolBuffer>,
    ) -> Result<usize, Trouble> {
        if self.queue.waiting() == 0 {
            self.queue.receive();
        }
        let mut taken = 0;
        while taken < budget && self.queue.waiting() > 0 {
            // Without a buffer the frames wait.
            let Some(mut buffer) = self.spare.take().or_else(|| self.pool.take()) else { break };
            let Some(frame) = self.queue.take() else { break };
            match buffer.bytes_mut().get_mut(..frame.len()) {
                Some(place) if !frame.is_empty() => {
                    place.copy_from_slice(frame);
                    let bytes = frame.len() as u16;
                    taken += 1;
                    self.counters.received += 1;
                    self.counters.received_bytes += u64::from(bytes);
                    self.spare = sink(Frame { buffer, bytes });
                }
                // Longer than a buffer.
                _ => {
                    self.counters.errors += 1;
                    self.spare = Some(buffer);
                }
            }
        }
        Ok(taken)
    }

    #[inline]
    fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        let bytes = frame.as_ref();
        if !fits(bytes, self.longest()) {
            self.counters.tx_dropped += 1;
        } else if self.tx_space() > 0 && self.queue.put(bytes) {
            self.counters.sent += 1;
            self.counters.sent_bytes += bytes.len() as u64;
        } else {
            self.counters.full += 1;
            return Err(frame);
        }
        self.pool.give(frame.buffer);
        Ok(())
    }

    #[inline]
    fn send_again(&mut self, most: usize, mut write: impl FnMut(&mut [u8]) -> u16) -> usize {
        let most = most.min(self.tx_space());
        let Some(buffer) = self.pool.take() else { return 0 };
        let (mut frame, longest) = (Frame { buffer, bytes: 0 }, self.longest());
        for at in 0..most {
            // The other frames are those of the first with what `write` changes in them.
            let put = match at {
                0 => {
                    frame.bytes = write(frame.buffer.bytes_mut());
                    let bytes = frame.as_ref();
                    (fits(bytes, longest) && self.queue.put(bytes)).then_some(bytes.len())
                }
                _ => self.queue.put_like(frame.as_ref(), &mut write, |bytes| fits(bytes, longest)),
            };
            match put {
                Some(bytes) => {
                    self.counters.sent += 1;
                    self.counters.sent_bytes += bytes as u64;
                }
                None => self.counters.tx_dropped += 1,
            }
        }
        self.pool.give(frame.buffer);
        most
    }

    #[inline]
    fn flush(&mut self) -> Result<(), Trouble> {
        self.queue.send();
        Ok(())
    }

    #[inline]
    fn tx_space(&mut self) -> usize {
        if self.queue.space() == 0 {
            self.queue.send();
        }
        self.queue.space()
    }

    /// Frames that the device has taken are in its ring, and not counted here.
    fn in_flight(&mut self) -> usize {
        self.queue.queued()
    }

    fn woken(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    fn maintain(&mut self) -> Result<(), Trouble> {
        if self.queue.device().has_gone() {
            return Err(Trouble::Gone);
        }
        self.refresh_link()
    }

    fn counters(&mut self) -> Result<Counters, Trouble> {
        let mut counters = self.counters;
        counters.sent -= self.queue.queued() as u64;
        counters.sent_bytes -= self.queue.queued_bytes();
        // The device's counters are those of all queues, and belong to the port of the first one.
        if self.queue.number() > 0 {
            (counters.missed, counters.no_buffer) = (Some(0), Some(0));
            return Ok(counters);
        }
        // Before the device's counters: a frame that is sent meanwhile is not one that the device dropped.
        let given = self.queue.sent_by_all();
        let now = self.before.and_then(|_| self.queue.device().statistics());
        let Some((now, before)) = now.zip(self.before) else { return Ok(counters) };
        let since = |of: fn(&Statistics) -> u64| of(&now).saturating_sub(of(&before));
        let missed = since(|of| of.missed);
        let counts = missed > 0 || !DO_NOT_COUNT.contains(&self.driver());
        counters.missed = counts.then_some(missed);
        counters.no_buffer = Some(since(|of| of.no_buffer));
        counters.errors += since(|of| of.rx_errors);
        // Some drivers count frames as errors that they did not take, and that are sent again. Frames on
        // their way in the device's ring are neither sent nor errors yet.
        let missing = given.saturating_sub(since(|of| of.sent));
        let dropped = since(|of| of.tx_errors).min(missing).min(counters.sent);
        counters.tx_dropped += dropped;
        counters.sent -= dropped;
        Ok(counters)
    }

    fn frames(&self) -> (u64, u64) {
        (self.counters.received, self.counters.sent - self.queue.queued() as u64)
    }

    fn refresh_link(&mut self) -> Result<(), Trouble> {
        self.read_link();
        if let Some(attached) = &mut self.attached {
            attached.maintain()?;
            self.link.up &= attached.link().up;
        }
        Ok(())
    }

    fn link(&self) -> Link {
        self.link
    }

    fn pool(&mut self) -> &mut BufferPool {
        &mut self.pool
    }
}
