//! After construction the card allocates nothing.

use kpps_card::{BurstKind, Host, Nic, Params, Purpose};
use kpps_datasheet::bit::{ctrl, rctl, tctl};
use kpps_datasheet::desc::{TxContext, TxData, popts, tx_cmd};
use kpps_datasheet::{Chip, reg};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with a counter.
struct Counting;

thread_local! {
    /// Calls of this thread only; the test harness has other threads.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MEMORY: usize = 0x10_0000;
const RX_RING: usize = 0x1000;
const TX_RING: usize = 0x2000;
const BUFFERS: usize = 0x1_0000;
const RING: u32 = 64;

struct Machine(Vec<u8>);

impl Host for Machine {
    fn burst(&mut self, now: u64, _: BurstKind, _: Purpose, _: u64, bytes: u32) -> u64 {
        now + 50_000 + 2_000 * u64::from(bytes)
    }
    fn load(&mut self, addr: u64, into: &mut [u8]) -> bool {
        into.copy_from_slice(&self.0[addr as usize..][..into.len()]);
        true
    }
    fn store(&mut self, addr: u64, from: &[u8]) -> bool {
        self.0[addr as usize..][..from.len()].copy_from_slice(from);
        true
    }
    fn transmitted(&mut self, _: u64, _: &[u8]) {}
}

fn put(m: &mut Machine, at: usize, words: [u64; 2]) {
    m.0[at..at + 8].copy_from_slice(&words[0].to_le_bytes());
    m.0[at + 8..at + 16].copy_from_slice(&words[1].to_le_bytes());
}

#[test]
fn nothing_is_allocated_while_it_runs() {
    let mut m = Machine(vec![0; MEMORY]);
    let mut nic = Nic::new(Params { link_ps: 0, ..Params::of(Chip::I82546eb) }, [2, 0, 0, 0, 0, 1]);
    for i in 0..RING as usize {
        put(&mut m, RX_RING + 16 * i, [(BUFFERS + 2048 * i) as u64, 0]);
        // A context, a large packet to segment with a tag, and a small one.
        let context =
            TxContext { hdrlen: 54, mss: 1000, paylen: 7946, cmd: tx_cmd::TSE, ..TxContext::default() };
        let large = TxData {
            buffer: BUFFERS as u64,
            length: 8000,
            cmd: tx_cmd::TSE | tx_cmd::EOP | tx_cmd::VLE | tx_cmd::RS,
            popts: popts::TXSM,
            ..TxData::default()
        };
        let small = TxData { length: 60, cmd: tx_cmd::EOP | tx_cmd::IFCS | tx_cmd::VLE, ..large };
        put(&mut m, TX_RING + 16 * i, [context.pack(), large.pack(), small.pack()][i % 3]);
    }
    for (offset, value) in [
        (reg::CTRL, ctrl::SLU | ctrl::VME),
        (reg::RDBAL, RX_RING as u32),
        (reg::RDLEN, 16 * RING),
        (reg::TDBAL, TX_RING as u32),
        (reg::TDLEN, 16 * RING),
        (reg::RCTL, rctl::EN | rctl::UPE | rctl::LPE),
        (reg::TCTL, tctl::EN | tctl::PSP),
    ] {
        nic.write(0, offset, value, &mut m);
    }
    let frame = [2u8; 9000];
    let before = CALLS.get();
    for i in 0..20_000u64 {
        let now = i * 3_000_000;
        nic.frame_arrives(now, &frame[..60 + (i as usize * 97) % 8000], &mut m);
        nic.write(now, reg::RDT, (i as u32 * 5) % RING, &mut m);
        nic.write(now, reg::TDT, (i as u32 * 3) % RING, &mut m);
        if i % 1000 == 999 {
            nic.write(now, reg::TCTL, tctl::EN, &mut m);
        }
    }
    let calls = CALLS.get() - before;
    let t = nic.tally();
    assert!(t.to_host > 1000 && t.transmitted > 5_000 && t.closes(), "{t:?}");
    assert_eq!(calls, 0);
}
