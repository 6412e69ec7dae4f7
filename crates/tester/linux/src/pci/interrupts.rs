//! Interrupts of a card, to wait for.

use super::function::Function;
use super::lines::{Source, irqs};
use super::registers::COMMAND_INTX_DISABLE;
use super::vfio::ioctl;
use crate::Error;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vfio_bindings::bindings::vfio as abi;

/// The interrupts that are enabled. Dropping it disables them.
#[derive(Debug)]
struct Armed {
    card: Arc<Function>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The line, through UIO.
    Uio,
    /// Line, MSI or MSI-X, through VFIO, by its index there.
    Vfio(u32),
}

impl Armed {
    /// Takes the card's interrupts, which have one user at a time.
    fn take(card: &Arc<Function>, kind: Kind) -> Result<Self, Error> {
        if card.lines.taken.swap(true, Ordering::Acquire) {
            return unsupported(card, "its interrupts are in use already");
        }
        Ok(Self { card: card.clone(), kind })
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        // A failure means that the card is gone, and its interrupts with it.
        let _ = match (self.kind, self.card.lines.vfio_device()) {
            (Kind::Vfio(kind), Some(device)) => ioctl::silence(device, kind).is_ok(),
            _ => self.card.config.command(0, COMMAND_INTX_DISABLE).is_ok(),
        };
        self.card.lines.vectors.store(0, Ordering::Relaxed);
        self.card.lines.taken.store(false, Ordering::Release);
    }
}

fn unsupported<T>(card: &Function, what: &'static str) -> Result<T, Error> {
    Err(Error::Unsupported { address: card.address, what })
}

/// One interrupt of an open [`Card`](super::Card).
///
/// The kernel masks the line (INTx) when it signals, until [`enable`](Self::enable). Serve the card, then
/// enable: if the card still asserts the line, it signals again, so no interrupt is lost. Messages (MSI,
/// MSI-X) are not masked.
///
/// To wait for several at once, pass them to `poll` (they are [`AsFd`]), then call [`wait`](Self::wait) with
/// a timeout of zero to take the events.
#[derive(Debug)]
pub struct Interrupts {
    armed: Arc<Armed>,
    events: File,
    count: u64,
}

impl Interrupts {
    pub(crate) fn one(card: &Arc<Function>) -> Result<Self, Error> {
        let device = match &card.lines.source {
            Source::Uio { events, has_line, .. } => {
                if !has_line {
                    return unsupported(card, "has no interrupt line");
                }
                let events = events.try_clone().map_err(Error::io("/dev/uio"))?;
                let armed = Arc::new(Armed::take(card, Kind::Uio)?);
                let interrupts = Self { armed, events, count: 0 };
                interrupts.enable()?;
                return Ok(interrupts);
            }
            Source::Vfio(device) => device,
        };
        let kinds = [abi::VFIO_PCI_INTX_IRQ_INDEX, abi::VFIO_PCI_MSI_IRQ_INDEX];
        match kinds.into_iter().find(|&kind| irqs(device, kind) > 0) {
            Some(kind) => Self::arm(card, device, kind, 1)?
                .pop()
                .map_or_else(|| unsupported(card, "has no interrupt"), Ok),
            None => unsupported(card, "has neither an interrupt line nor MSI"),
        }
    }

    pub(crate) fn vectors(card: &Arc<Function>, count: usize) -> Result<Vec<Self>, Error> {
        let Some(device) = card.lines.vfio_device() else {
            return unsupported(card, "MSI-X needs VFIO: `kpps device bind ADDRESS --backend vfio`");
        };
        if count == 0 || count > card.lines.vector_count().min(ioctl::MAX_VECTORS) {
            return unsupported(card, "has fewer MSI-X vectors than requested");
        }
        let vectors = Self::arm(card, device, abi::VFIO_PCI_MSIX_IRQ_INDEX, count)?;
        // At most `MAX_VECTORS`.
        card.lines.vectors.store(count as u8, Ordering::Relaxed);
        Ok(vectors)
    }

    fn arm(card: &Arc<Function>, device: &File, kind: u32, count: usize) -> Result<Vec<Self>, Error> {
        let armed = Arc::new(Armed::take(card, Kind::Vfio(kind))?);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let events: Vec<File> = (0..count)
            .map(|_| eventfd(0, flags).map(File::from))
            .collect::<Result<_, _>>()
            .map_err(|errno| Error::io("eventfd")(errno.into()))?;
        let borrowed: Vec<_> = events.iter().map(AsFd::as_fd).collect();
        ioctl::signal(device, kind, &borrowed).map_err(Error::io("VFIO: enabling interrupts"))?;
        Ok(events.into_iter().map(|events| Self { armed: armed.clone(), events, count: 0 }).collect())
    }

    /// Waits until the interrupt signals, for `timeout` at most. A signal of the operating system ends the
    /// wait, too. Returns whether the interrupt has signalled.
    ///
    /// # Errors
    /// [`Error::Gone`] if the card has been taken away.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, Error> {
        let mut polled = [PollFd::new(&self.events, PollFlags::IN)];
        // A time too long for the system is as good as none.
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(Error::io("ppoll")(errno.into())),
        }
        let new = self.take_events()?;
        self.count += new;
        Ok(new > 0)
    }

    /// The number of interrupts since the last call. There must be something to read.
    fn take_events(&self) -> Result<u64, Error> {
        let card = &self.armed.card;
        let read = if let Source::Uio { seen, .. } = &card.lines.source {
            let mut bytes = [0; 4];
            (&self.events).read_exact(&mut bytes).map(|()| {
                let now = u32::from_ne_bytes(bytes);
                now.wrapping_sub(seen.swap(now, Ordering::Relaxed)).into()
            })
        } else {
            let mut bytes = [0; 8];
            (&self.events).read_exact(&mut bytes).map(|()| u64::from_ne_bytes(bytes))
        };
        read.or_else(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(Error::Gone(card.address)),
        })
    }

    /// Unmasks the line after it has signalled. Does nothing for messages.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn enable(&self) -> Result<(), Error> {
        let card = &self.armed.card;
        match (self.armed.kind, card.lines.vfio_device()) {
            (Kind::Uio, _) => card.config.command(COMMAND_INTX_DISABLE, 0),
            (Kind::Vfio(abi::VFIO_PCI_INTX_IRQ_INDEX), Some(device)) => {
                let unmasked = ioctl::unmask(device, abi::VFIO_PCI_INTX_IRQ_INDEX);
                unmasked.map_err(Error::io("VFIO: unmasking the interrupt"))
            }
            (Kind::Vfio(_), _) => Ok(()),
        }
    }

    /// Whether it is a message (MSI, MSI-X), which needs no [`enable`](Self::enable).
    pub fn is_message(&self) -> bool {
        !matches!(self.armed.kind, Kind::Uio | Kind::Vfio(abi::VFIO_PCI_INTX_IRQ_INDEX))
    }

    /// The number of interrupts that [`wait`](Self::wait) has seen, messages between two waits included.
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}
