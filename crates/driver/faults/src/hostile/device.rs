//! The device and the memory that it shares with the driver.
//!
//! The device is honest, an 8254x of the model or the stand-in for the 82574L, until its patience ends. Then
//! it lies once, as the input says, and is patient again. It gets a turn at each register access, each read
//! of memory and each wait, so nothing that the driver does is between two of its turns.

use super::express::Express;
use super::input::Input;
use kpps_card::{BurstKind, Host, Nic, Params, Purpose};
use kpps_datasheet::bit::{ctrl, rctl, tctl};
use kpps_datasheet::{Chip, desc, reg};
use kpps_host::memory::{Bytes, Memory, Words};
use kpps_host::{MS, NS, US};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// The address in the EEPROM.
pub(super) const ADDRESS: [u8; 6] = [0x02, 0x00, 0x00, 0x82, 0x54, 0x01];
/// Bytes of memory: buffers and rings.
const MEMORY_BYTES: usize = 1 << 20;
/// Bytes of a buffer, and from one to the next.
pub(super) const BUFFER_BYTES: usize = 2048;
/// Turns of the device in one call of the driver: many times what any call needs.
const MOST_TURNS: u64 = 1_000_000;
/// The durations of a register read, a write, and a burst on the bus, in ps.
const READ_PS: u64 = 700 * NS;
const WRITE_PS: u64 = 150 * NS;
const BURST_PS: u64 = 100 * NS;

/// Which way a ring goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Receive,
    Transmit,
}

/// The holder of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody: it is in the pool.
    Pool,
    /// The user, or the driver, which has not shown it to the device.
    Host,
    /// The driver has shown its first bytes to the device.
    Device(usize),
}

/// A ring of the driver, and the state of each word.
pub(super) struct Ring {
    pub(super) words: Words,
    pub(super) range: Range<u64>,
    way: Way,
    /// Each word as of the device's last turn.
    known: RefCell<Vec<u64>>,
    /// The device has changed this word since the driver did.
    spoiled: RefCell<Vec<bool>>,
}

impl Ring {
    fn load(&self, word: usize) -> u64 {
        u64::from_le(self.words.as_slice()[word].load(Relaxed))
    }
}

enum Card {
    Modelled(Box<Nic>),
    Express(Express),
}

/// The device's action at its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The driver reads a word of a ring.
    Look { ring: u64, word: usize },
    /// Anything else but a register read.
    Other,
}

/// A device that goes on lying in the same way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    None,
    /// Each descriptor that the driver reads has this second word.
    Done(u64),
    /// Each has these bits in the second word.
    Bits(u64),
}

/// The work of one call of the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub(super) reads: u64,
    pub(super) waited_ns: u64,
    turns: u64,
}

/// The device, its bus and its memory.
pub(super) struct World {
    pub(super) input: Input,
    pub(super) chip: Chip,
    memory: Rc<Memory>,
    /// The address of the first buffer.
    base: u64,
    pub(super) holders: Box<[Cell<Holder>]>,
    rings: RefCell<Vec<Rc<Ring>>>,
    /// Memory of former rings.
    unused: RefCell<Vec<(usize, Words)>>,
    allocated: Cell<usize>,
    card: RefCell<Card>,
    now_ps: Cell<u64>,
    bus_free_ps: Cell<u64>,
    /// The driver's last write to each register.
    written: RefCell<BTreeMap<u32, u32>>,
    /// Register and answer of the driver's last read.
    read_last: Cell<(u32, u32)>,
    /// Bytes of a receive buffer and of a header buffer that the device may fill.
    pub(super) fills: Cell<[usize; 2]>,
    patience: Cell<u32>,
    habit: Cell<Habit>,
    /// Registers that always read the same.
    stuck: RefCell<BTreeMap<u32, u32>>,
    /// Reads that return all ones before the device is back.
    gone: Cell<u32>,
    account: Cell<Account>,
    pub(super) lies: Cell<u64>,
}

impl World {
    /// A world, and `buffers` buffers.
    pub(super) fn new(input: Input, chip: Chip, buffers: usize) -> (Rc<Self>, Vec<Bytes>) {
        let memory = Memory::new(MEMORY_BYTES, 64);
        // One behind the other, as each is as long as its alignment.
        let buffer = |_| Bytes::allocate(&memory, BUFFER_BYTES, BUFFER_BYTES);
        let buffers: Vec<_> = (0..buffers).map_while(buffer).collect();
        let card = if chip.is_pci_express() {
            Card::Express(Express::new(ADDRESS))
        } else {
            let params = Params { link_ps: MS, ..Params::of(chip) };
            Card::Modelled(Box::new(Nic::new(params, ADDRESS)))
        };
        let world = Self {
            input,
            chip,
            memory,
            base: buffers.first().map_or(0, Bytes::address),
            holders: vec![Cell::new(Holder::Pool); buffers.len()].into(),
            rings: RefCell::default(),
            unused: RefCell::default(),
            allocated: Cell::new(0),
            card: RefCell::new(card),
            now_ps: Cell::new(0),
            bus_free_ps: Cell::new(0),
            written: RefCell::default(),
            read_last: Cell::default(),
            fills: Cell::new([0; 2]),
            patience: Cell::new(0),
            habit: Cell::new(Habit::None),
            stuck: RefCell::default(),
            gone: Cell::new(0),
            account: Cell::default(),
            lies: Cell::new(0),
        };
        world.be_patient();
        (Rc::new(world), buffers)
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.turn(Turn::Other);
        self.now_ps.get() / NS
    }

    /// A call of the driver begins.
    pub(super) fn begin(&self) {
        self.account.set(Account::default());
    }

    /// The work so far.
    pub(super) fn account(&self) -> Account {
        self.account.get()
    }

    fn count(&self, change: impl FnOnce(&mut Account)) {
        let mut account = self.account.get();
        change(&mut account);
        self.account.set(account);
    }

    // ---- The honest part ----

    fn with_card<R>(&self, act: impl FnOnce(&mut Card, &mut Bus<'_>) -> R) -> R {
        act(&mut self.card.borrow_mut(), &mut Bus(self))
    }

    /// Time passes.
    pub(super) fn pass(&self, ps: u64) {
        let now = self.now_ps.get().saturating_add(ps);
        self.now_ps.set(now);
        self.with_card(|card, bus| {
            if let Card::Modelled(nic) = card {
                nic.run(now, bus);
            }
        });
    }

    pub(super) fn wait_ns(&self, ns: u64) {
        self.count(|account| account.waited_ns += ns);
        self.pass(ns * NS);
        self.turn(Turn::Other);
    }

    fn honest_read(&self, offset: u32) -> u32 {
        let now = self.now_ps.get();
        self.with_card(|card, bus| match card {
            Card::Modelled(nic) => nic.read(now, offset, bus),
            Card::Express(express) => express.read(offset),
        })
    }

    fn honest_write(&self, offset: u32, value: u32) {
        let now = self.now_ps.get();
        self.with_card(|card, bus| match card {
            Card::Modelled(nic) => nic.write(now, offset, value, bus),
            Card::Express(express) => express.write(offset, value, bus),
        });
    }

    /// A frame comes in.
    pub(super) fn frame_arrives(&self, bytes: usize, good: bool) {
        let mut frame = vec![0xA5; bytes];
        let head = [ADDRESS, ADDRESS].concat();
        let most = head.len().min(bytes);
        frame[..most].copy_from_slice(&head[..most]);
        let now = self.now_ps.get();
        self.with_card(|card, bus| match card {
            Card::Modelled(nic) if good => nic.frame_arrives(now, &frame, bus),
            Card::Modelled(nic) => nic.bad_frame_arrives(now, &frame, bus),
            Card::Express(express) => express.frame_arrives(&frame, bus),
        });
    }

    /// Another card is put into the slot: registers that were stuck work.
    pub(super) fn replace(&self) {
        self.stuck.borrow_mut().clear();
        self.gone.set(0);
        self.habit.set(Habit::None);
    }

    // ---- The driver's accesses ----

    pub(super) fn read(&self, offset: u32) -> u32 {
        self.count(|account| account.reads += 1);
        self.pass(READ_PS);
        let value = self.honest_read(offset);
        let value = self.stuck.borrow().get(&offset).copied().unwrap_or(value);
        let gone = self.gone.get();
        self.gone.set(gone.saturating_sub(1));
        let value = if gone > 0 { u32::MAX } else { value };
        let value = if self.is_patient() { value } else { self.lie_of_register(offset, value) };
        self.read_last.set((offset, value));
        value
    }

    pub(super) fn write(&self, offset: u32, value: u32) {
        self.check_write(offset, value);
        self.pass(WRITE_PS);
        self.honest_write(offset, value);
        self.turn(Turn::Other);
    }

    /// The driver reads bytes of a ring.
    pub(super) fn look(&self, ring: &Ring, bytes: Range<usize>) {
        assert!(bytes.end <= ring.words.as_slice().len() * 8, "the driver looks behind the end of a ring");
        let word = bytes.start / 8;
        match self.habit.get() {
            Habit::None => {}
            Habit::Done(value) => self.spoil(ring, word + 1, value),
            Habit::Bits(bits) => self.spoil(ring, word + 1, ring.load(word + 1) | bits),
        }
        self.turn(Turn::Look { ring: ring.range.start, word });
    }

    /// The driver shows bytes of a ring to the device.
    pub(super) fn show(&self, ring: &Ring, bytes: Range<usize>) {
        assert!(bytes.end <= ring.words.as_slice().len() * 8, "the driver shows more than a ring");
        for first in (bytes.start / 8..bytes.end / 8).step_by(2) {
            for word in [first, first + 1] {
                let value = ring.load(word);
                if std::mem::replace(&mut ring.known.borrow_mut()[word], value) != value {
                    ring.spoiled.borrow_mut()[word] = false;
                }
            }
            self.check_descriptor(ring, first);
        }
        self.turn(Turn::Other);
    }

    /// The driver gives a buffer to the device, or reads one.
    pub(super) fn buffer(&self, buffer: usize, bytes: usize, shown: bool) {
        assert!(bytes <= BUFFER_BYTES, "{bytes} bytes of a buffer of {BUFFER_BYTES}");
        let holder = &self.holders[buffer];
        assert_ne!(holder.get(), Holder::Pool, "the driver uses buffer {buffer}, which is in the pool");
        holder.set(if shown { Holder::Device(bytes) } else { Holder::Host });
        self.turn(Turn::Other);
    }

    // ---- What must hold ----

    /// The device may access `bytes` bytes at `address`: they belong to a buffer that the driver has shown.
    fn check_address(&self, address: u64, bytes: usize, begins: bool) {
        let offset = address.wrapping_sub(self.base) as usize;
        let holder = self.holders.get(offset / BUFFER_BYTES).map(Cell::get);
        let within = offset % BUFFER_BYTES;
        let fits = matches!(holder, Some(Holder::Device(shown)) if within + bytes <= shown);
        assert!(
            fits && (!begins || within == 0),
            "the driver gives the device {bytes} bytes at {address:#x}: {holder:?}, byte {within}"
        );
    }

    /// The descriptor whose first word is `first`, as far as the driver wrote it.
    fn check_descriptor(&self, ring: &Ring, first: usize) {
        let [a, b] = [first, first + 1].map(|word| ring.load(word));
        let [a_spoiled, b_spoiled] = [first, first + 1].map(|word| ring.spoiled.borrow()[word]);
        let [data, header] = self.fills.get();
        match ring.way {
            // Packet split: two pairs of words. The second has no addresses.
            Way::Receive if header > 0 && first.is_multiple_of(4) => {
                for (address, bytes, spoiled) in [(a, header, a_spoiled), (b, data, b_spoiled)] {
                    if address != 0 && !spoiled {
                        self.check_address(address, bytes, true);
                    }
                }
            }
            Way::Receive if header > 0 => {
                assert!((a == 0 || a_spoiled) && (b == 0 || b_spoiled), "a third buffer: {a:#x}, {b:#x}");
            }
            Way::Receive => {
                if a != 0 && !a_spoiled {
                    self.check_address(a, data, true);
                }
                assert!(b == 0 || b_spoiled, "a receive descriptor with a status: {b:#x}");
            }
            Way::Transmit if a_spoiled || b_spoiled || [a, b] == [0, 0] => {}
            Way::Transmit => match desc::Tx::unpack([a, b]) {
                Ok(desc::Tx::Legacy(tx)) => self.check_address(a, tx.length.into(), false),
                Ok(desc::Tx::Data(tx)) => self.check_address(a, tx.length as usize, false),
                Ok(desc::Tx::Context(_)) => {}
                Err(kind) => panic!("a transmit descriptor of the unknown kind {kind}"),
            },
        }
    }

    /// Nothing was written that was not shown.
    fn check_shown(&self) {
        for ring in &*self.rings.borrow() {
            let known = ring.known.borrow();
            let hidden = (0..known.len()).find(|&word| known[word] != ring.load(word));
            assert_eq!(hidden, None, "a word of a ring was written and not shown");
        }
    }

    fn check_write(&self, offset: u32, value: u32) {
        self.written.borrow_mut().insert(offset, value);
        let is = |register: u32| self.chip.offset(register) == offset;
        // A value that the driver only writes back comes from the device.
        let passed_back = if self.read_last.get().0 == offset { self.read_last.get().1 } else { 0 };
        if is(reg::CTRL) && value & !passed_back & ctrl::RST != 0 {
            self.forget_rings();
        }
        for queue in 0..self.chip.queues() {
            for (way, low) in [(Way::Receive, reg::RDBAL), (Way::Transmit, reg::TDBAL)] {
                let length = self.wrote(reg::of_queue(low + (reg::RDLEN - reg::RDBAL), queue));
                if is(reg::of_queue(low + (reg::RDT - reg::RDBAL), queue)) {
                    let units = length / desc::BYTES as u32;
                    // After a reset that failed there is no ring, and the device is off.
                    let valid = length == 0 || value < units;
                    assert!(valid, "a tail of {value} in a ring of {units}: {way:?}");
                    self.check_shown();
                }
                let (control, on) = match way {
                    Way::Receive => (reg::RCTL, rctl::EN),
                    Way::Transmit => (reg::TCTL, tctl::EN),
                };
                // The second queue only if it was set up.
                if is(control) && value & !passed_back & on != 0 && (queue == 0 || length != 0) {
                    let base = u64::from(self.wrote(reg::of_queue(low, queue)))
                        | u64::from(self.wrote(reg::of_queue(low + 4, queue))) << 32;
                    let range = base..base + u64::from(length);
                    let known = self.rings.borrow().iter().any(|r| r.way == way && r.range == range);
                    assert!(known, "the driver turns the device on with {range:x?} as a ring: {way:?}");
                }
            }
        }
    }

    fn wrote(&self, register: u32) -> u32 {
        self.written.borrow().get(&self.chip.offset(register)).copied().unwrap_or(0)
    }

    // ---- Rings ----

    /// A driver starts: its next ring is a receive ring, then receive and transmit rings in turn.
    pub(super) fn new_driver(&self, fills: [usize; 2]) {
        self.allocated.set(0);
        self.fills.set(fills);
        self.forget_rings();
    }

    /// The device has lost its rings.
    fn forget_rings(&self) {
        for register in [reg::RDLEN, reg::TDLEN] {
            for queue in 0..self.chip.queues() {
                self.written.borrow_mut().remove(&self.chip.offset(reg::of_queue(register, queue)));
            }
        }
    }

    pub(super) fn allocate(&self, bytes: usize, align: usize, boundary: Option<u64>) -> Option<Rc<Ring>> {
        self.turn(Turn::Other);
        let number = self.allocated.replace(self.allocated.get() + 1);
        let way = if number.is_multiple_of(2) { Way::Receive } else { Way::Transmit };
        let unused = {
            let mut unused = self.unused.borrow_mut();
            unused.iter().position(|(size, _)| *size == bytes).map(|at| unused.swap_remove(at).1)
        };
        // No ring crosses 64 KiB, so any chip can take any.
        let boundary = boundary.or(Some(1 << 16));
        let words = unused.or_else(|| Words::allocate(&self.memory, bytes, align, boundary))?;
        for word in words.as_slice() {
            word.store(0, Relaxed);
        }
        let range = words.address()..words.address() + bytes as u64;
        let (known, spoiled) = (vec![0; bytes / 8].into(), vec![false; bytes / 8].into());
        let ring = Rc::new(Ring { words, range, way, known, spoiled });
        self.rings.borrow_mut().push(ring.clone());
        Some(ring)
    }

    /// The driver frees a ring.
    pub(super) fn free(&self, ring: Rc<Ring>) {
        let (control, on) = match ring.way {
            Way::Receive => (reg::RCTL, rctl::EN),
            Way::Transmit => (reg::TCTL, tctl::EN),
        };
        assert_eq!(self.wrote(control) & on, 0, "a ring is freed while the device has it");
        self.rings.borrow_mut().retain(|other| !Rc::ptr_eq(other, &ring));
        if let Ok(ring) = Rc::try_unwrap(ring) {
            self.unused.borrow_mut().push((ring.known.borrow().len() * 8, ring.words));
        }
    }

    /// The device changes a word of a ring.
    fn spoil(&self, ring: &Ring, word: usize, value: u64) {
        if ring.load(word) != value {
            ring.words.as_slice()[word].store(value.to_le(), Relaxed);
            ring.known.borrow_mut()[word] = value;
            ring.spoiled.borrow_mut()[word] = true;
        }
    }

    /// The device writes to memory; `false` if there is none.
    fn store(&self, address: u64, bytes: &[u8]) -> bool {
        if !self.memory.store(address, bytes) {
            return false;
        }
        let end = address + bytes.len() as u64;
        for ring in self.rings.borrow().iter().filter(|r| r.range.start < end && address < r.range.end) {
            let first = (address.max(ring.range.start) - ring.range.start) / 8;
            let last = (end.min(ring.range.end) - ring.range.start).div_ceil(8);
            for word in first as usize..last as usize {
                let value = ring.load(word);
                if std::mem::replace(&mut ring.known.borrow_mut()[word], value) != value {
                    ring.spoiled.borrow_mut()[word] = true;
                }
            }
        }
        true
    }

    // ---- The lies ----

    /// Draws how many turns pass before the next lie: from one to a thousand.
    pub(super) fn be_patient(&self) {
        let byte = self.input.u8();
        let turns = if byte < 0xA0 { u32::from(byte % 32) + 1 } else { 1 << (byte % 11) };
        self.patience.set(if self.input.is_over() { u32::MAX } else { turns });
    }

    /// The device does not lie until [`be_patient`](Self::be_patient).
    pub(super) fn be_honest(&self) {
        self.patience.set(u32::MAX);
    }

    fn is_patient(&self) -> bool {
        self.count(|account| account.turns += 1);
        assert!(self.account.get().turns < MOST_TURNS, "a call of the driver does not end");
        let left = self.patience.get();
        if left == u32::MAX {
            return true;
        }
        self.patience.set(left - 1);
        left > 1
    }

    fn turn(&self, turn: Turn) {
        if !self.is_patient() {
            self.lie(turn);
        }
    }

    /// A register reads as something else than `value`.
    fn lie_of_register(&self, offset: u32, value: u32) -> u32 {
        self.lies.set(self.lies.get() + 1);
        let input = &self.input;
        let value = match input.u8() % 12 {
            0 => u32::MAX,
            1 => 0,
            2 | 3 => input.u32(),
            4 => value ^ 1 << (input.u8() % 32),
            5 => !value,
            6 => {
                let stuck = input.u32();
                self.stuck.borrow_mut().insert(offset, stuck);
                stuck
            }
            7 => {
                self.stuck.borrow_mut().insert(offset, value);
                value
            }
            8 => {
                self.gone.set(1 << (input.u8() % 16));
                u32::MAX
            }
            9 => {
                self.stuck.borrow_mut().clear();
                self.gone.set(0);
                value
            }
            10 => {
                // The bus takes its time.
                self.pass(MS << (input.u8() % 8));
                value
            }
            _ => {
                self.lie(Turn::Other);
                return value;
            }
        };
        self.be_patient();
        value
    }

    /// A second word of a descriptor: a plausible word, or any.
    fn any_word(&self, ring: &Ring) -> u64 {
        let input = &self.input;
        let kind = input.u8();
        match (ring.way, kind % 4) {
            (_, 0) => input.u64(),
            (Way::Transmit, _) => desc::TX_DD | desc::TX_RS,
            (Way::Receive, kind) => {
                let (length, status) = (u64::from(input.u16()), u64::from(input.u8() | 1));
                let errors = if kind == 3 { u64::from(input.u8()) } else { 0 };
                let length = length % (1 << (length >> 12));
                if self.chip.has_extended_rx() {
                    length << 32 | status | errors << 24
                } else {
                    length | status << 32 | errors << 40
                }
            }
        }
    }

    /// The device does something in memory, or in itself, that no driver asked for.
    fn lie(&self, turn: Turn) {
        self.lies.set(self.lies.get() + 1);
        let input = &self.input;
        let rings = self.rings.borrow().clone();
        let found = match turn {
            Turn::Look { ring, word } => {
                rings.iter().find(|r| r.range.start == ring).map(|r| (r.clone(), word))
            }
            Turn::Other => None,
        };
        let kind = input.u8() % 16;
        match (kind, found) {
            // The very descriptor that the driver reads.
            (0..=4, Some((ring, word))) => self.spoil(&ring, word + 1, self.any_word(&ring)),
            (5, Some((ring, word))) => {
                self.spoil(&ring, word, input.u64());
                self.spoil(&ring, word + 1, input.u64());
            }
            // Any word of any ring.
            (0..=5, _) if !rings.is_empty() => {
                let ring = &rings[input.below(rings.len())];
                let word = input.below(ring.words.as_slice().len());
                let value = if word % 2 == 1 { self.any_word(ring) } else { input.u64() };
                self.spoil(ring, word, value);
            }
            // A whole ring.
            (6, _) if !rings.is_empty() => {
                let ring = &rings[input.below(rings.len())];
                let (first, second) = (input.bool(), self.any_word(ring));
                for word in 0..ring.words.as_slice().len() {
                    if word % 2 == 1 || first {
                        self.spoil(ring, word, second);
                    }
                }
            }
            (7, _) => {
                let address = self.base + u64::from(input.u32()) % (self.holders.len() * BUFFER_BYTES) as u64;
                let bytes = vec![input.u8(); usize::from(input.u8())];
                self.store(address, &bytes);
            }
            (8, _) => {
                let bytes = usize::from(input.u16()) % 16_384;
                self.frame_arrives(bytes, !input.u8().is_multiple_of(4));
            }
            (9, _) => {
                let (now, up) = (self.now_ps.get(), input.bool());
                if let Card::Modelled(nic) = &mut *self.card.borrow_mut() {
                    nic.set_link(now, up);
                }
            }
            // Something other than the driver writes a register: a register that the driver wrote, or any.
            (10, _) => {
                let (which, value) = (input.u16(), input.u32());
                let known = self.written.borrow().keys().nth(usize::from(which) % 512).copied();
                self.honest_write(known.unwrap_or(u32::from(which) * 4), value);
            }
            (11, _) => {
                let ring = rings.first();
                self.habit.set(match (input.u8() % 4, ring) {
                    (0, Some(ring)) => Habit::Done(self.any_word(ring)),
                    (1, _) => Habit::Bits(desc::TX_DD),
                    (2, _) => Habit::Bits(input.u64()),
                    _ => Habit::None,
                });
            }
            (12, _) => self.habit.set(Habit::None),
            (13, _) => self.pass(MS << (input.u8() % 12)),
            _ => self.pass(u64::from(input.u16()) * US / 16),
        }
        self.be_patient();
    }
}

/// The bus and the memory behind it, as the card sees them.
struct Bus<'a>(&'a World);

impl Host for Bus<'_> {
    fn burst(&mut self, now: u64, _: BurstKind, _: Purpose, _: u64, bytes: u32) -> u64 {
        let end = now.max(self.0.bus_free_ps.get()).saturating_add(BURST_PS + u64::from(bytes) * NS);
        self.0.bus_free_ps.set(end);
        end
    }
    fn load(&mut self, address: u64, into: &mut [u8]) -> bool {
        self.0.memory.load(address, into)
    }
    fn store(&mut self, address: u64, from: &[u8]) -> bool {
        self.0.store(address, from)
    }
    fn transmitted(&mut self, _: u64, _: &[u8]) {}
}
