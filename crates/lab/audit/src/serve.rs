//! Cards for a QEMU: the vfio-user protocol, and real time.
//!
//! Each card has a thread that answers QEMU. One thread is the clock of all: it runs whatever happens by
//! itself. QEMU ends a connection when it ends.

use crate::cards::{Access, Cards};
use kpps_datasheet::Chip;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_MASKABLE, VFIO_IRQ_SET_ACTION_TRIGGER,
    VFIO_IRQ_SET_ACTION_UNMASK, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR2_REGION_INDEX,
    VFIO_PCI_BAR3_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX,
    VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend, ServerRegion};

/// The longest that the clock sleeps.
const SLEEP: Duration = Duration::from_millis(5);

/// The state that all threads share.
struct Shared {
    cards: Mutex<Cards>,
    /// Something may happen earlier than the clock thinks.
    changed: Condvar,
    since: Instant,
    ended: std::sync::atomic::AtomicBool,
}

impl Shared {
    fn now_ps(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)
    }

    fn lock(&self) -> MutexGuard<'_, Cards> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs timed events until the end.
    fn tick(&self) {
        let mut cards = self.lock();
        while !self.ended.load(std::sync::atomic::Ordering::Relaxed) {
            cards.advance(self.now_ps());
            let ahead_ps = cards.next_ps().saturating_sub(self.now_ps());
            let sleep = Duration::from_nanos(ahead_ps / 1000).clamp(Duration::from_micros(1), SLEEP);
            let waited = self.changed.wait_timeout(cards, sleep);
            cards = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A card's side of its connection to QEMU.
struct Connection {
    shared: Arc<Shared>,
    index: usize,
}

/// The space of a region.
fn space(region: u32) -> io::Result<Access> {
    match region {
        VFIO_PCI_BAR0_REGION_INDEX => Ok(Access::Registers),
        VFIO_PCI_BAR2_REGION_INDEX => Ok(Access::Window),
        VFIO_PCI_BAR3_REGION_INDEX => Ok(Access::Table),
        VFIO_PCI_CONFIG_REGION_INDEX => Ok(Access::Configuration),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl ServerBackend for Connection {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let mut cards = self.shared.lock();
        cards.read(self.index, self.shared.now_ps(), space(region)?, offset, data);
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut cards = self.shared.lock();
        let before = cards.next_ps();
        cards.write(self.index, self.shared.now_ps(), space(region)?, offset, data);
        if cards.next_ps() < before {
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        _: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        // Without a file it is memory that only messages could reach: the ROM of a graphics card, not RAM.
        if let Some(file) = fd {
            self.shared.lock().map(self.index, address, size, file, offset);
        }
        Ok(())
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        let range = (!flags.contains(DmaUnmapFlags::UNMAP_ALL)).then_some((address, size));
        self.shared.lock().unmap(self.index, range);
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.shared.lock().reset(self.index, self.shared.now_ps());
        Ok(())
    }

    fn set_irqs(&mut self, index: u32, flags: u32, start: u32, count: u32, fds: Vec<File>) -> io::Result<()> {
        let mut cards = self.shared.lock();
        let now_ps = self.shared.now_ps();
        let triggers = flags & VFIO_IRQ_SET_ACTION_TRIGGER != 0;
        let mut files = fds.into_iter();
        if index == VFIO_PCI_MSIX_IRQ_INDEX {
            // Without a file a vector is disconnected; a count of 0 disconnects all (VFIO_DEVICE_SET_IRQS).
            let (first, most) = (start, crate::msix::MOST as u32);
            let vectors = if count == 0 { 0..most } else { first..first.saturating_add(count).min(most) };
            if triggers {
                vectors.for_each(|vector| cards.connect_vector(self.index, now_ps, vector, files.next()));
            }
            return Ok(());
        }
        // Without a file the interrupt is disconnected.
        let event = files.next();
        match index {
            VFIO_PCI_INTX_IRQ_INDEX if triggers => cards.connect_interrupt(self.index, now_ps, event),
            VFIO_PCI_INTX_IRQ_INDEX if flags & VFIO_IRQ_SET_ACTION_UNMASK != 0 => {
                cards.unmask_interrupt(self.index, now_ps);
            }
            VFIO_PCI_MSI_IRQ_INDEX if triggers => cards.connect_message(self.index, now_ps, event),
            _ => {}
        }
        Ok(())
    }
}

/// The regions of a card with this chip.
fn regions(chip: Chip) -> Vec<ServerRegion> {
    let region = |index: u32| {
        let size = match space(index) {
            Ok(Access::Registers) => u64::from(kpps_datasheet::reg::WINDOW_BYTES),
            Ok(Access::Window) => u64::from(crate::pci::IO_BYTES),
            Ok(Access::Configuration) => crate::pci::bytes(chip) as u64,
            Ok(Access::Table) if chip.vectors() > 0 => crate::msix::BYTES.into(),
            Ok(Access::Table) | Err(_) => 0,
        };
        let flags = if size > 0 { VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE } else { 0 };
        let argsz = size_of::<vfio_region_info>() as u32;
        let region_info = vfio_region_info { argsz, flags, index, size, ..vfio_region_info::default() };
        ServerRegion { region_info, sparse_areas: Vec::new(), mmap_fd: None }
    };
    (0..VFIO_PCI_NUM_REGIONS).map(region).collect()
}

/// The interrupts of a card with this chip: its line, one message, and MSI-X vectors. A chip without the
/// capability never sends the message.
fn interrupts(chip: Chip) -> Vec<IrqInfo> {
    let line = VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED;
    let info = |index| match index {
        VFIO_PCI_INTX_IRQ_INDEX => IrqInfo { index, flags: line, count: 1 },
        VFIO_PCI_MSI_IRQ_INDEX => IrqInfo { index, flags: VFIO_IRQ_INFO_EVENTFD, count: 1 },
        VFIO_PCI_MSIX_IRQ_INDEX if chip.vectors() > 0 => {
            IrqInfo { index, flags: VFIO_IRQ_INFO_EVENTFD, count: chip.vectors().into() }
        }
        _ => IrqInfo { index, flags: 0, count: 0 },
    };
    (0..VFIO_PCI_NUM_IRQS).map(info).collect()
}

/// Cards that a QEMU can have, in real time. They end when this is dropped.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The folder of the sockets.
    folder: tempfile::TempDir,
}

impl Server {
    /// Serves `cards` from now on.
    ///
    /// # Errors
    /// If the system has no room for sockets or threads.
    pub fn start(cards: Cards) -> io::Result<Self> {
        let (count, chip) = (cards.len(), cards.chip().unwrap_or(Chip::I82540em));
        let shared = Arc::new(Shared {
            cards: Mutex::new(cards),
            changed: Condvar::new(),
            since: Instant::now(),
            ended: false.into(),
        });
        let mut server = Self { shared, threads: Vec::new(), folder: tempfile::tempdir()? };
        for (index, path) in server.sockets().into_iter().take(count).enumerate() {
            let listener = OwnedFd::from(UnixListener::bind(path)?);
            let mut connection = Connection { shared: server.shared.clone(), index };
            let serve = move || {
                let server =
                    vfio_user::Server::from_owned_fd(listener, true, interrupts(chip), regions(chip));
                // QEMU itself reports why it ends; this thread does not wait for it.
                let _ = server.run(&mut connection);
            };
            server.threads.push(std::thread::Builder::new().name(format!("card {index}")).spawn(serve)?);
        }
        let shared = server.shared.clone();
        server.threads.push(std::thread::Builder::new().name("clock".into()).spawn(move || shared.tick())?);
        Ok(server)
    }

    /// The sockets of the cards.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let count = self.shared.lock().len();
        (0..count).map(|index| self.folder.path().join(format!("card{index}"))).collect()
    }

    /// Does something with the cards at the time now, in ps.
    pub fn with<T>(&self, what: impl FnOnce(&mut Cards, u64) -> T) -> T {
        let mut cards = self.shared.lock();
        let result = what(&mut cards, self.shared.now_ps());
        self.shared.changed.notify_one();
        result
    }
}

impl Drop for Server {
    /// The QEMU that used the cards must have ended before.
    fn drop(&mut self) {
        self.shared.ended.store(true, std::sync::atomic::Ordering::Relaxed);
        self.shared.changed.notify_all();
        // A thread that still waits for its QEMU gets a connection that ends at once.
        self.sockets().iter().for_each(|path| drop(UnixStream::connect(path)));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cards::Cable;
    use kpps_datasheet::bit::cause;
    use kpps_datasheet::reg;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use vfio_bindings::bindings::vfio::{VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE};
    use vfio_user::Client;

    /// As QEMU does it: the guest enables messages in the configuration space, then QEMU connects the event.
    #[test]
    fn a_client_gets_a_message_and_disconnects_it() {
        let bus = kpps_profiles::Profile::named(kpps_profiles::Kind::Bus, "pci-32-33");
        let params = kpps_card::Params::of(Chip::I82540em);
        let cards = Cards::new(&params, &bus.unwrap().get().unwrap(), &[(Cable::Open, [2, 0, 0, 0, 0, 1])]);
        let server = Server::start(cards).unwrap();
        let mut client = Client::new(&server.sockets()[0]).unwrap();
        let info = client.get_irq_info(VFIO_PCI_MSI_IRQ_INDEX).unwrap();
        assert_eq!((info.count, info.flags & VFIO_IRQ_INFO_EVENTFD), (1, VFIO_IRQ_INFO_EVENTFD));
        let event = tempfile::NamedTempFile::new().unwrap();
        let events = || {
            let mut bytes = Vec::new();
            event.reopen().unwrap().read_to_end(&mut bytes).unwrap();
            bytes.len() / 8
        };
        let configure = |client: &mut Client, at: u64, value: u16| {
            client.region_write(VFIO_PCI_CONFIG_REGION_INDEX, at, &value.to_le_bytes()).unwrap();
        };
        let set = |client: &mut Client, offset: u32, value: u32| {
            client.region_write(VFIO_PCI_BAR0_REGION_INDEX, offset.into(), &value.to_le_bytes()).unwrap();
        };
        configure(&mut client, 0x04, 6);
        configure(&mut client, 0xF2, 0x81);
        let connect = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
        client.set_irqs(VFIO_PCI_MSI_IRQ_INDEX, connect, 0, 1, &[event.as_file().as_raw_fd()]).unwrap();
        set(&mut client, reg::IMS, cause::RXT0);
        set(&mut client, reg::ICS, cause::RXT0);
        assert_eq!(events(), 1);
        let disconnect = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;
        client.set_irqs(VFIO_PCI_MSI_IRQ_INDEX, disconnect, 0, 0, &[]).unwrap();
        let mut causes = [0; 4];
        client.region_read(VFIO_PCI_BAR0_REGION_INDEX, reg::ICR.into(), &mut causes).unwrap();
        set(&mut client, reg::ICS, cause::RXT0);
        assert_eq!((events(), u32::from_le_bytes(causes) & cause::RXT0), (1, cause::RXT0));
        // The card's thread ends with the connection.
        client.shutdown().unwrap();
        drop(client);
    }

    /// Vectors in runs, with and without files, and more than there are.
    #[test]
    fn a_client_connects_vectors_and_disconnects_them() {
        let bus = kpps_profiles::Profile::named(kpps_profiles::Kind::Bus, "pcie-x1");
        let params = kpps_card::Params::of(Chip::I82574l);
        let cards = Cards::new(&params, &bus.unwrap().get().unwrap(), &[(Cable::Open, [2, 0, 0, 0, 0, 1])]);
        let server = Server::start(cards).unwrap();
        let mut client = Client::new(&server.sockets()[0]).unwrap();
        assert_eq!(client.get_irq_info(VFIO_PCI_MSIX_IRQ_INDEX).unwrap().count, 5);
        assert_eq!(client.region(VFIO_PCI_BAR3_REGION_INDEX).unwrap().size, 0x4000);
        assert_eq!(client.region(VFIO_PCI_CONFIG_REGION_INDEX).unwrap().size, 4096);
        let events = [(); 3].map(|()| tempfile::NamedTempFile::new().unwrap());
        let seen = || {
            events.each_ref().map(|event| {
                let mut bytes = Vec::new();
                event.reopen().unwrap().read_to_end(&mut bytes).unwrap();
                bytes.len() / 8
            })
        };
        let write = |client: &mut Client, region: u32, at: u32, bytes: &[u8]| {
            client.region_write(region, at.into(), bytes).unwrap();
        };
        let set = |client: &mut Client, offset: u32, value: u32| {
            write(client, VFIO_PCI_BAR0_REGION_INDEX, offset, &value.to_le_bytes());
        };
        write(&mut client, VFIO_PCI_CONFIG_REGION_INDEX, 0x04, &[6, 0]);
        write(&mut client, VFIO_PCI_CONFIG_REGION_INDEX, 0xA2, &[0, 0x80]);
        write(&mut client, VFIO_PCI_BAR3_REGION_INDEX, 0x3FFF, &[1; 8]);
        let connect = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
        let files = events.each_ref().map(|event| event.as_file().as_raw_fd());
        // QEMU first enables vector 0 without a file.
        client.set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, connect, 0, 1, &[]).unwrap();
        client.set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, connect, 0, 3, &files).unwrap();
        for (start, count) in [(3, u32::MAX), (u32::MAX, 2), (5, 1)] {
            client.set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, connect, start, count, &files).unwrap();
        }
        set(&mut client, reg::IVAR, 0xA_0908);
        set(&mut client, reg::IMS, 0x01F0_0000 | cause::LSC);
        set(&mut client, reg::ICS, cause::RXT0 | cause::LSC);
        assert_eq!(seen(), [1, 0, 1]);
        // Vector 2 only, then all.
        client.set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, connect, 2, 1, &[]).unwrap();
        let raise = |client: &mut Client| {
            client.region_read(VFIO_PCI_BAR0_REGION_INDEX, reg::ICR.into(), &mut [0; 4]).unwrap();
            set(client, reg::ICS, cause::RXT0 | cause::TXDW | cause::LSC);
        };
        raise(&mut client);
        assert_eq!(seen(), [2, 1, 1]);
        let disconnect = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;
        client.set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, disconnect, 0, 0, &[]).unwrap();
        raise(&mut client);
        assert_eq!(seen(), [2, 1, 1]);
        client.shutdown().unwrap();
        drop(client);
    }
}
