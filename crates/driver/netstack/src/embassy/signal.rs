//! The signal from the interrupt handler to the stack.

use atomic_waker::AtomicWaker;
#[cfg(not(all(test, kpps_loom)))]
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::task::Context;
use kpps_datasheet::{Chip, bit, reg};
use kpps_driver::Causes;
use kpps_platform::Registers;
#[cfg(all(test, kpps_loom))]
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The state that interrupt handler and stack share; usually a `static`, one for each card.
#[derive(Debug, Default)]
pub struct Signal {
    waker: AtomicWaker,
    /// Interrupt causes that the stack has not taken yet.
    causes: AtomicU32,
    /// The card's interrupts are masked, because the stack is awake.
    masked: AtomicBool,
}

impl Signal {
    /// A signal without a waiting stack.
    #[cfg(not(all(test, kpps_loom)))]
    pub const fn new() -> Self {
        Self { waker: AtomicWaker::new(), causes: AtomicU32::new(0), masked: AtomicBool::new(true) }
    }

    #[cfg(all(test, kpps_loom))]
    fn new() -> Self {
        Self { waker: AtomicWaker::new(), causes: AtomicU32::new(0), masked: AtomicBool::new(true) }
    }

    /// Makes the executor poll the stack.
    pub fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn register(&self, cx: &Context) {
        self.waker.register(cx.waker());
    }

    pub(crate) fn take_causes(&self) -> Causes {
        // Mostly there are none; a load is cheaper than a swap.
        match self.causes.load(Ordering::Relaxed) {
            0 => Causes(0),
            _ => Causes(self.causes.swap(0, Ordering::Relaxed)),
        }
    }

    pub(crate) fn is_masked(&self) -> bool {
        self.masked.load(Ordering::Acquire)
    }

    pub(crate) fn set_masked(&self, masked: bool) {
        self.masked.store(masked, Ordering::Release);
    }
}

/// The half of a card for its interrupt handler.
#[derive(Debug)]
pub struct Interrupt<'s, R> {
    registers: R,
    cause: u32,
    mask: u32,
    signal: &'s Signal,
}

impl<'s, R: Registers> Interrupt<'s, R> {
    pub(crate) fn new(registers: R, chip: Chip, signal: &'s Signal) -> Self {
        Self { registers, cause: chip.offset(reg::ICR), mask: chip.offset(reg::IMC), signal }
    }

    /// Handles an interrupt: reads its causes, masks the card, and wakes the stack. False: the interrupt was
    /// another device's. One register read and one write.
    pub fn handle(&self) -> bool {
        let causes = self.registers.read(self.cause);
        if causes == 0 {
            return false;
        }
        if causes == u32::MAX {
            // The card has vanished; the stack's next poll reports it.
            self.signal.wake();
            return false;
        }
        self.registers.write(self.mask, bit::cause::ALL);
        self.signal.causes.fetch_or(causes, Ordering::Relaxed);
        self.signal.set_masked(true);
        self.signal.wake();
        true
    }
}

/// All orders in which threads may see each other's writes: `make loom`.
#[cfg(all(test, kpps_loom))]
mod orders {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A card with these causes.
    struct Card(u32);

    impl Registers for Card {
        fn read(&self, _: u32) -> u32 {
            self.0
        }
        fn write(&self, _: u32, _: u32) {}
    }

    fn interrupt(signal: &Signal, causes: u32) {
        Interrupt::new(Card(causes), Chip::I82540em, signal).handle();
    }

    #[test]
    fn who_sees_the_card_masked_sees_why() {
        loom::model(|| {
            let signal = Arc::new(Signal::new());
            signal.set_masked(false);
            let there = signal.clone();
            let thread = thread::spawn(move || interrupt(&there, bit::cause::LSC));
            if signal.is_masked() {
                assert!(signal.take_causes().link());
            }
            thread.join().expect("no panic");
        });
    }

    #[test]
    fn no_cause_is_lost() {
        loom::model(|| {
            let signal = Arc::new(Signal::new());
            let there = signal.clone();
            let thread = thread::spawn(move || [1 << 6, 1 << 7].map(|cause| interrupt(&there, cause)));
            let before = signal.take_causes().0;
            thread.join().expect("no panic");
            assert_eq!(before | signal.take_causes().0, 1 << 6 | 1 << 7);
        });
    }
}
