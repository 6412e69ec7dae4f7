//! Windows of addresses without memory: each access is a fault, and a function of this process executes the
//! instruction (sigaction(2), x86-64 only).
//!
//! **The stack.** The handler runs on the stack of the thread that faulted (no `SA_ONSTACK`): a [`Trap`] is a
//! whole model of a device, and the alternate stacks of Rust's threads have room for a few functions only.
//! The kernel leaves the red zone below the stack pointer alone. The price: a thread without stack ends the
//! process by the signal, without Rust's sentence about it.
//!
//! **Locks and allocation.** POSIX forbids most functions in a handler, because a signal may interrupt any
//! function, such as `malloc`. This signal is an instruction of the program itself, one that accesses a
//! window. No function of the libraries does, so none is interrupted, and the handler may do what any
//! function may do that is called in place of this instruction. A fault elsewhere may be anywhere, so for its
//! way to the previous handler there is neither a lock nor an allocation.

use super::check;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::mem::{MaybeUninit, transmute};
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most windows of a process at a time.
const MOST_WINDOWS: usize = 256;
/// The largest window in bytes.
const MOST_BYTES: usize = 1 << 28;
/// The longest instruction in bytes.
const LONGEST: usize = 15;
/// The size of a page in bytes.
const PAGE: usize = 4096;

/// The registers of a thread that an instruction may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The sixteen general registers, in the order of their numbers: RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI,
    /// R8 to R15.
    pub general: [u64; 16],
    /// RFLAGS.
    pub flags: u64,
    /// RIP: the address of the instruction.
    pub instruction: u64,
}

/// The result of [`Trap::execute`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Executed {
    /// The instruction was executed, and `instruction` is the address of the next one.
    Done,
    /// The instruction has more bytes. Nothing was changed.
    Incomplete,
    /// The instruction cannot be executed. The process ends with this sentence.
    Refused(String),
}

/// Executes the instructions that access a window.
///
/// It runs in place of the instruction, on its thread. It must not access a window, and must not wait for
/// this thread. A panic ends the process.
pub trait Trap: Send + Sync {
    /// Executes the instruction whose first bytes are `code`. The window's first byte is at `window`.
    fn execute(&self, window: usize, code: &[u8], cpu: &mut Cpu) -> Executed;
}

/// A window that exists. `start` is 0 if the slot is free.
struct Slot {
    start: AtomicUsize,
    bytes: AtomicUsize,
    trap: Mutex<Option<Arc<dyn Trap>>>,
}

static SLOTS: [Slot; MOST_WINDOWS] =
    [const { Slot { start: AtomicUsize::new(0), bytes: AtomicUsize::new(0), trap: Mutex::new(None) } };
        MOST_WINDOWS];
/// Held while a window gets its slot.
static CHANGES: Mutex<()> = Mutex::new(());
/// The handler before ours. Ours is installed once, and stays.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Addresses without memory. An access executes a [`Trap`].
pub struct TrapWindow {
    slot: &'static Slot,
    address: usize,
    /// The mapping with its margins.
    mapping: (usize, usize),
}

impl TrapWindow {
    /// `bytes` of addresses, a power of two from 4096 to 2^28, which is also their alignment. They are below
    /// 2 GiB, and those before and after them are not accessible either.
    ///
    /// # Errors
    /// Errors of mmap(2) and sigaction(2); [`io::ErrorKind::InvalidInput`] for another size;
    /// [`io::ErrorKind::QuotaExceeded`] if the process has 256 windows.
    pub fn new(bytes: usize, trap: Arc<dyn Trap>) -> io::Result<Self> {
        if !bytes.is_power_of_two() || !(PAGE..=MOST_BYTES).contains(&bytes) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let _changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        install()?;
        let free = SLOTS.iter().find(|slot| slot.start.load(Ordering::Relaxed) == 0);
        let slot = free.ok_or(io::ErrorKind::QuotaExceeded)?;
        let length = 3 * bytes;
        let flags =
            MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::from_bits_retain(libc::MAP_32BIT as u32);
        // SAFETY: without an address and MAP_FIXED the kernel chooses addresses that nothing else has.
        let at = unsafe { mmap_anonymous(null_mut(), length, ProtFlags::empty(), flags) }?;
        let mapping = (at.expose_provenance(), length);
        // A margin of a page at least on both sides.
        let address = (mapping.0 + PAGE).next_multiple_of(bytes);
        *slot.trap.lock().unwrap_or_else(PoisonError::into_inner) = Some(trap);
        slot.bytes.store(bytes, Ordering::Relaxed);
        slot.start.store(address, Ordering::Release);
        Ok(Self { slot, address, mapping })
    }

    /// The address of its first byte.
    pub fn address(&self) -> usize {
        self.address
    }
}

impl Drop for TrapWindow {
    /// An access after this is an ordinary fault.
    fn drop(&mut self) {
        let _changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        *self.slot.trap.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.slot.start.store(0, Ordering::Release);
        let (at, length) = self.mapping;
        // SAFETY: the mapping is this object's own, and no memory is there that a reference could lead to.
        let _ = unsafe { munmap(with_exposed_provenance_mut(at), length) };
    }
}

/// Installs the handler, if it is not yet.
fn install() -> io::Result<()> {
    if PREVIOUS.get().is_some() {
        return Ok(());
    }
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a `sigaction`: no handler, an empty mask, no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: both structures live; `handle` has the signature of SA_SIGINFO.
    check(unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, previous.as_mut_ptr()) })?;
    // SAFETY: the kernel has written it, and all zeros are valid, too.
    let _ = PREVIOUS.set(unsafe { previous.assume_init() });
    Ok(())
}

/// The trap of the window that has `address`, and where the window begins.
fn window(address: usize) -> Option<(Arc<dyn Trap>, usize)> {
    SLOTS.iter().find_map(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        let within = start != 0 && address.wrapping_sub(start) < slot.bytes.load(Ordering::Relaxed);
        let trap = within.then(|| slot.trap.lock().unwrap_or_else(PoisonError::into_inner).clone());
        Some((trap??, start))
    })
}

/// The handler of SIGSEGV.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo_t; SIGSEGV has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Codes above 0 are those of the kernel. With any other code the address has no meaning.
    match if code > 0 { window(address) } else { None } {
        // SAFETY: the kernel passes a ucontext_t, which is this call's alone.
        Some((trap, start)) => execute(&*trap, start, unsafe { &mut *context.cast() }),
        None => previous(signal, info, context),
    }
}

/// The indices of the general registers in a context, in the order of [`Cpu::general`].
const GENERAL: [libc::c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Executes the instruction at which a thread stopped. The thread continues after it.
fn execute(trap: &dyn Trap, window: usize, context: &mut libc::ucontext_t) {
    // SAFETY: the location of this thread's errno, which always exists.
    let errno = unsafe { *libc::__errno_location() };
    let registers = &mut context.uc_mcontext.gregs;
    let mut cpu = Cpu {
        general: GENERAL.map(|at| registers[at as usize] as u64),
        flags: registers[libc::REG_EFL as usize] as u64,
        instruction: registers[libc::REG_RIP as usize] as u64,
    };
    let at = cpu.instruction as usize;
    // The page of the first byte is there, because the processor has read it. Only an instruction that is
    // not complete within this page continues on the next one, which is there then.
    let within = LONGEST.min(PAGE - at % PAGE);
    let mut done = trap.execute(window, &code(at, within), &mut cpu);
    if done == Executed::Incomplete && within < LONGEST {
        done = trap.execute(window, &code(at, LONGEST), &mut cpu);
    }
    match done {
        Executed::Done => {
            for (value, at) in cpu.general.iter().zip(GENERAL) {
                registers[at as usize] = *value as i64;
            }
            registers[libc::REG_EFL as usize] = cpu.flags as i64;
            registers[libc::REG_RIP as usize] = cpu.instruction as i64;
        }
        Executed::Incomplete => end("an instruction that accesses a window has no end"),
        Executed::Refused(why) => end(&why),
    }
    // SAFETY: as above. The system calls of the trap must not change the errno of the program.
    unsafe { *libc::__errno_location() = errno };
}

/// The `bytes` bytes of code at `at`.
fn code(at: usize, bytes: usize) -> Vec<u8> {
    // SAFETY: the processor has just read this instruction, so its pages are mapped; code does not change.
    // The pages of programs are readable.
    unsafe { std::slice::from_raw_parts(with_exposed_provenance::<u8>(at), bytes) }.to_vec()
}

/// Ends the process with a sentence. A panic is not possible: it could not leave the handler.
fn end(sentence: &str) -> ! {
    let text = format!("kpps: {sentence}\n");
    // Rust's own stderr may be locked by this thread: the driver may access a register while it formats.
    // SAFETY: the text lives, and 2 is standard error.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    std::process::abort()
}

/// Hands a fault on to the handler that was installed before.
fn previous(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let action = PREVIOUS.get();
    // SAFETY: as in `handle`.
    let was_sent = unsafe { (*info).si_code } <= 0;
    match action.map_or(libc::SIG_DFL, |action| action.sa_sigaction) {
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // The instruction faults again after the return, and the process ends as it would without us.
            // SAFETY: no pointers beside a structure that lives.
            unsafe {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, null_mut());
                if was_sent {
                    libc::raise(signal);
                }
            }
        }
        handler if action.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0) => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: it was installed as a handler with three arguments.
            let handler = unsafe { transmute::<*const (), Handler>(with_exposed_provenance(handler)) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: it was installed as a handler with one argument.
            let handler = unsafe {
                transmute::<*const (), extern "C" fn(libc::c_int)>(with_exposed_provenance(handler))
            };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::arch::asm;

    /// Knows one instruction of two bytes, `mov eax, [rdi]`, which gets this value.
    struct Move(u32);

    impl Trap for Move {
        fn execute(&self, window: usize, code: &[u8], cpu: &mut Cpu) -> Executed {
            assert_eq!((&code[..2], cpu.general[7]), (&[0x8B, 0x07][..], window as u64 + 8));
            cpu.general[0] = self.0.into();
            cpu.instruction += 2;
            Executed::Done
        }
    }

    fn load(address: usize) -> u32 {
        let value;
        // SAFETY: the address is in a window, whose trap executes this instruction.
        unsafe { asm!("mov eax, [rdi]", in("rdi") address, out("eax") value, options(nostack)) };
        value
    }

    #[test]
    fn each_window_has_its_trap_on_every_thread() {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                std::thread::spawn(move || {
                    for round in 0..200 {
                        let window = TrapWindow::new(1 << 17, Arc::new(Move(number * 1000 + round))).unwrap();
                        assert!(window.address().is_multiple_of(1 << 17) && window.address() < 1 << 31);
                        assert_eq!(load(window.address() + 8), number * 1000 + round);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn there_is_a_size_for_windows() {
        for bytes in [0, 2048, 5000, 1 << 29] {
            assert!(TrapWindow::new(bytes, Arc::new(Move(0))).is_err(), "{bytes}");
        }
    }
}
