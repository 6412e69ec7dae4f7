//! The simulated CPU: execution contexts at interrupt levels, and the one place where time passes.
//!
//! A context (an interrupt handler, a softirq, a kernel thread) is straight-line Rust code in a stackful
//! coroutine. Each step that costs time ends in [`Machine::spend`]. While nothing can interrupt the caller,
//! that is an addition. Otherwise the world advances event by event, and a context of a higher level that
//! becomes ready takes the CPU until it waits again.
//!
//! This is one of the two files of this crate with `unsafe`: a context suspends its coroutine through a raw
//! pointer, because the call to `spend` comes from deep inside a driver.

mod function;
mod several;

pub use function::{Function, Profile};
pub use several::{Line, Lock};

use crate::host::{self, Steps};
use crate::memory::Memory;
use crate::world::{Vector, World};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use several::Cpu;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The most that a CPU reads or writes of uncached memory at once, in bytes: a register of x86-64, or of MMX.
const WORD_BYTES: usize = 8;

/// Interrupt levels, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A process that computes, below everything that handles frames.
    Process,
    /// A kernel thread, or a process that sends or receives.
    Thread,
    /// Bottom half or softirq.
    Softirq,
    /// An interrupt handler.
    Hardirq,
}

/// Names a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Wants the CPU.
    Ready,
    /// Was interrupted: goes on before others of its level.
    Preempted,
    /// Wants the CPU when woken, or at this time.
    Waiting { until_ps: u64 },
    /// Wants the CPU when this interrupt is asserted.
    Interrupt { from: Vector },
    /// Ran to its end.
    Done,
}

type Suspender = Yielder<(), ()>;

struct Context {
    cpu: usize,
    level: Level,
    state: State,
    /// Not ready before this time, whatever its state: it was woken by a CPU that is ahead in time.
    ready_ps: u64,
    turn: u64,
    /// Was woken while it was not waiting: its next wait returns at once.
    woken: bool,
    /// It has the CPU's interrupts off: no other context of its CPU runs until it goes on.
    in_section: bool,
    coroutine: Option<Coroutine<(), (), ()>>,
    suspender: *const Suspender,
    busy_ps: u64,
}

/// How a CPU has spent its time so far, in picoseconds. It was idle for the rest of the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In interrupt handlers.
    pub hardirq_ps: u64,
    /// In bottom halves and softirqs.
    pub softirq_ps: u64,
    /// In threads, `empty_poll_ps` included.
    pub thread_ps: u64,
    /// Idle polls: those that found nothing.
    pub empty_poll_ps: u64,
    /// In processes that compute.
    pub process_ps: u64,
}

impl Usage {
    /// Time that was neither idle nor went to processes that compute.
    #[inline]
    pub fn busy_ps(&self) -> u64 {
        self.hardirq_ps + self.softirq_ps + self.thread_ps
    }

    /// The increase since `earlier`.
    #[inline]
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            hardirq_ps: self.hardirq_ps - earlier.hardirq_ps,
            softirq_ps: self.softirq_ps - earlier.softirq_ps,
            thread_ps: self.thread_ps - earlier.thread_ps,
            empty_poll_ps: self.empty_poll_ps - earlier.empty_poll_ps,
            process_ps: self.process_ps - earlier.process_ps,
        }
    }
}

/// Counts of the CPUs' expensive operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Interrupt handlers entered, those of timers included.
    pub interrupts: u64,
    /// Device registers read.
    pub register_reads: u64,
    /// Device registers written.
    pub register_writes: u64,
    /// Of these, interrupt masks.
    pub mask_writes: u64,
    /// Cache lines fetched from memory, because a card had written them or by the allocator.
    pub cache_misses: u64,
    /// Cache lines fetched from another CPU's cache.
    pub line_transfers: u64,
    /// Reads and writes of memory that is not cached.
    pub uncached: u64,
    /// Packet buffers taken from the allocator.
    pub allocations: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
}

impl Counters {
    /// The increase since `earlier`.
    #[inline]
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            interrupts: self.interrupts - earlier.interrupts,
            register_reads: self.register_reads - earlier.register_reads,
            register_writes: self.register_writes - earlier.register_writes,
            mask_writes: self.mask_writes - earlier.mask_writes,
            cache_misses: self.cache_misses - earlier.cache_misses,
            line_transfers: self.line_transfers - earlier.line_transfers,
            uncached: self.uncached - earlier.uncached,
            allocations: self.allocations - earlier.allocations,
            allocated_bytes: self.allocated_bytes - earlier.allocated_bytes,
        }
    }
}

struct Inner {
    /// The time of the running CPU.
    now_ps: Cell<u64>,
    /// No event before this time can affect the running code.
    horizon_ps: Cell<u64>,
    until_ps: Cell<u64>,
    current: Cell<Option<usize>>,
    level: Cell<Level>,
    interrupts_off: Cell<bool>,
    /// Whether there is any context that could preempt another.
    preemptible: Cell<bool>,
    turns: Cell<u64>,
    empty_poll_ps: Cell<u64>,
    counters: Cell<Counters>,
    profile: function::Table,
    /// The running CPU, and the state of all.
    cpu: Cell<usize>,
    cpus: RefCell<Vec<Cpu>>,
    several: bool,
    world: RefCell<World>,
    contexts: RefCell<Vec<Context>>,
    host: host::Params,
    memory: Rc<Memory>,
    /// Of each CPU: cache lines that it has fetched, and how many it had at its last interrupt.
    caches: Box<[Cache]>,
}

/// The cache of a CPU, as a count of fetched lines, which shows whether earlier lines were evicted.
#[derive(Default)]
struct Cache {
    fetched: Cell<u64>,
    interrupted: Seen,
}

/// When a CPU last touched some lines, in lines that it had fetched by then.
#[derive(Debug, Default)]
pub struct Seen(Cell<Option<u64>>);

impl Seen {
    /// No CPU has touched the lines so far.
    #[inline]
    pub(crate) fn never(&self) -> bool {
        self.0.get().is_none()
    }

    /// The CPU has touched the lines just now.
    #[inline]
    pub(crate) fn now(&self, machine: &Machine) {
        let cache = machine.0.caches.get(machine.0.cpu.get());
        self.0.set(cache.map(|cache| cache.fetched.get()));
    }
}

/// A machine with one CPU, or several. A handle: clones are the same machine.
#[derive(Clone)]
pub struct Machine(Rc<Inner>);

impl Machine {
    /// A machine with one CPU at time zero, around `world`.
    #[inline]
    pub fn new(host: host::Params, world: World) -> Self {
        Self::with_cpus(host, world, 1)
    }

    /// A machine with `cpus` CPUs (at least one) at time zero, around `world`.
    #[inline]
    pub fn with_cpus(host: host::Params, world: World, cpus: usize) -> Self {
        let memory = Rc::clone(world.memory());
        memory.channel().set_rate(host.memory_mb_per_s);
        Self(Rc::new(Inner {
            now_ps: Cell::new(0),
            horizon_ps: Cell::new(0),
            until_ps: Cell::new(u64::MAX),
            current: Cell::new(None),
            level: Cell::new(Level::Thread),
            interrupts_off: Cell::new(false),
            preemptible: Cell::new(false),
            turns: Cell::new(0),
            empty_poll_ps: Cell::new(0),
            counters: Cell::default(),
            profile: function::Table::default(),
            cpu: Cell::new(0),
            cpus: RefCell::new((0..cpus.max(1)).map(|_| Cpu::default()).collect()),
            several: cpus > 1,
            world: RefCell::new(world),
            contexts: RefCell::new(Vec::new()),
            host,
            memory,
            caches: (0..cpus.max(1)).map(|_| Cache::default()).collect(),
        }))
    }

    /// The time.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.0.now_ps.get()
    }

    /// The host's costs.
    #[inline]
    pub fn host(&self) -> &host::Params {
        &self.0.host
    }

    /// The memory.
    #[inline]
    pub fn memory(&self) -> &Rc<Memory> {
        &self.0.memory
    }

    /// Reads or changes the world outside the CPUs.
    #[inline]
    pub fn with_world<R>(&self, access: impl FnOnce(&mut World) -> R) -> R {
        let result = access(&mut self.0.world.borrow_mut());
        self.0.horizon_ps.set(self.now_ps());
        result
    }

    /// The counters.
    #[inline]
    pub fn counters(&self) -> Counters {
        self.0.counters.get()
    }

    /// Adds to the counters.
    #[inline]
    pub fn count(&self, add: impl FnOnce(&mut Counters)) {
        let mut counters = self.0.counters.get();
        add(&mut counters);
        self.0.counters.set(counters);
    }

    /// How the CPUs have spent their time so far, all together.
    #[inline]
    pub fn usage(&self) -> Usage {
        self.usage_where(|_| true)
    }

    /// How one CPU has spent its time so far; `empty_poll_ps` is that of all.
    #[inline]
    pub fn usage_of(&self, cpu: usize) -> Usage {
        self.usage_where(|context| context.cpu == cpu)
    }

    #[inline]
    fn usage_where(&self, which: impl Fn(&Context) -> bool) -> Usage {
        let mut usage = Usage { empty_poll_ps: self.0.empty_poll_ps.get(), ..Usage::default() };
        for context in self.0.contexts.borrow().iter().filter(|context| which(context)) {
            *match context.level {
                Level::Hardirq => &mut usage.hardirq_ps,
                Level::Softirq => &mut usage.softirq_ps,
                Level::Thread => &mut usage.thread_ps,
                Level::Process => &mut usage.process_ps,
            } += context.busy_ps;
        }
        usage
    }

    /// Where the time went, by level and function.
    #[inline]
    pub fn profile(&self) -> Profile {
        self.0.profile.read(&self.usage())
    }

    /// Adds a context to the first CPU; it is ready to run `body` at once.
    #[inline]
    pub fn spawn(&self, level: Level, body: impl FnOnce(&Machine) + 'static) -> ContextId {
        self.spawn_on(0, level, body)
    }

    /// Adds a context to `cpu`; it is ready to run `body` at once.
    pub fn spawn_on(&self, cpu: usize, level: Level, body: impl FnOnce(&Machine) + 'static) -> ContextId {
        self.add_context(cpu, level, Box::new(body))
    }

    fn add_context(&self, cpu: usize, level: Level, body: Box<dyn FnOnce(&Machine)>) -> ContextId {
        debug_assert!(cpu < self.cpus());
        self.0.preemptible.set(self.0.preemptible.get() || level != Level::Thread);
        let id = self.0.contexts.borrow().len();
        let machine = self.clone();
        let coroutine = Coroutine::new(move |suspender: &Suspender, ()| {
            machine.0.contexts.borrow_mut()[id].suspender = suspender;
            body(&machine);
        });
        self.0.contexts.borrow_mut().push(Context {
            cpu,
            level,
            state: State::Ready,
            ready_ps: self.now_ps(),
            turn: self.next_turn(),
            woken: false,
            in_section: false,
            coroutine: Some(coroutine),
            suspender: std::ptr::null(),
            busy_ps: 0,
        });
        ContextId(id)
    }

    /// Takes all contexts off the machine, wherever they are. A context holds handles to the machine it runs
    /// on: without this, both would live for ever.
    #[inline]
    pub fn halt(&self) {
        let contexts = std::mem::take(&mut *self.0.contexts.borrow_mut());
        drop(contexts);
    }

    #[inline]
    fn next_turn(&self) -> u64 {
        let turn = self.0.turns.get();
        self.0.turns.set(turn + 1);
        turn
    }

    /// Lets `cost_ps` of CPU time pass for the calling context. Outside any context, while a machine is set
    /// up, time just passes.
    #[inline]
    pub fn spend(&self, cost_ps: u64) {
        let target = self.0.now_ps.get() + cost_ps;
        if target <= self.0.horizon_ps.get() {
            self.0.now_ps.set(target);
        } else {
            self.spend_slowly(cost_ps);
        }
    }

    /// As [`Machine::spend`], on behalf of a `function` that a profile names.
    #[inline]
    pub fn spend_on(&self, function: Function, cost_ps: u64) {
        self.0.profile.add(self.0.level.get(), function, cost_ps);
        self.spend(cost_ps);
    }

    /// As [`Machine::spend_on`], for steps of a stack's table: cycles of a Pentium III, with or without
    /// locked operations.
    #[inline]
    pub fn spend_steps(&self, function: Function, steps: impl Into<Steps>) {
        self.spend_on(function, self.0.host.steps_ps(steps.into()));
    }

    #[cold]
    fn spend_slowly(&self, cost_ps: u64) {
        let mut rest = cost_ps;
        if self.0.current.get().is_none() {
            self.0.now_ps.set(self.now_ps() + rest);
            self.0.world.borrow_mut().run(self.now_ps());
            return;
        }
        loop {
            self.update_horizon();
            let step = rest.min(self.0.horizon_ps.get() - self.now_ps());
            self.0.now_ps.set(self.now_ps() + step);
            rest -= step;
            if rest == 0 {
                return;
            }
            // The horizon: an event of the world, a higher level's time, or the end of the run.
            self.0.world.borrow_mut().run(self.now_ps());
            if self.now_ps() >= self.0.until_ps.get() || self.higher_level_ready() || self.is_ahead() {
                self.suspend(State::Preempted);
            }
        }
    }

    /// Works out how far the running context can go before the next event.
    #[inline]
    fn update_horizon(&self) {
        let now = self.now_ps();
        let level = self.0.level.get();
        let mut horizon = self.0.until_ps.get().max(now);
        let (world, cpu) = (self.0.world.borrow(), self.0.cpu.get());
        let preempts = |c: &&Context| c.level > level && c.cpu == cpu && !self.0.interrupts_off.get();
        for context in self.0.contexts.borrow().iter().filter(preempts) {
            match context.state {
                State::Ready | State::Preempted => horizon = now,
                State::Waiting { until_ps } => horizon = horizon.min(until_ps.max(now)),
                State::Interrupt { from } => {
                    if world.interrupt_line(from) {
                        horizon = now;
                    } else if world.interrupts_enabled(from) {
                        horizon = horizon.min(world.next_ps().max(now));
                    }
                }
                State::Done => {}
            }
        }
        if self.0.several {
            horizon = horizon.min(self.others_allow_ps(&world)).max(now);
        }
        self.0.horizon_ps.set(horizon);
    }

    /// Whether a context of this CPU can run now.
    #[inline]
    fn is_ready(&self, context: &Context, world: &World) -> bool {
        if context.cpu != self.0.cpu.get() || context.ready_ps > self.now_ps() {
            return false;
        }
        match context.state {
            State::Ready | State::Preempted => true,
            State::Waiting { until_ps } => until_ps <= self.now_ps(),
            State::Interrupt { from } => !self.0.interrupts_off.get() && world.interrupt_line(from),
            State::Done => false,
        }
    }

    /// Whether the running context is to be preempted. A bottom half runs at the end of an interrupt, so
    /// never while interrupts are off.
    #[inline]
    fn higher_level_ready(&self) -> bool {
        if self.0.interrupts_off.get() {
            return false;
        }
        let world = self.0.world.borrow();
        let level = self.0.level.get();
        self.0.contexts.borrow().iter().any(|c| c.level > level && self.is_ready(c, &world))
    }

    /// Gives the CPU away until `state` makes the context ready.
    #[inline]
    fn suspend(&self, state: State) {
        let Some(id) = self.0.current.get() else { return };
        let suspender = {
            let mut contexts = self.0.contexts.borrow_mut();
            contexts[id].state = state;
            contexts[id].turn = self.next_turn();
            contexts[id].in_section = self.0.interrupts_off.get();
            contexts[id].suspender
        };
        // SAFETY: `suspender` was set by this very context when it began (only the current context gets here,
        // and it is running, so it has begun); the yielder lives on its coroutine's stack until the
        // body returns.
        unsafe { &*suspender }.suspend(());
    }

    /// Waits for an interrupt: that of the card in a slot, or a [`Vector`]. If it is still asserted, returns
    /// as soon as no context of a higher priority runs.
    #[inline]
    pub fn wait_for_interrupt(&self, from: impl Into<Vector>) {
        let from = from.into();
        self.suspend(State::Interrupt { from });
        self.count(|c| c.interrupts += 1);
        self.0.world.borrow_mut().interrupt_taken(self.now_ps(), from);
    }

    /// Waits until it is woken. Returns at once if that has happened since the last wait: no wake-up is lost.
    #[inline]
    pub fn wait(&self) {
        self.wait_until(u64::MAX);
    }

    /// Waits until `until_ps` or until woken.
    #[inline]
    pub fn wait_until(&self, until_ps: u64) {
        let Some(id) = self.0.current.get() else { return };
        if !std::mem::take(&mut self.0.contexts.borrow_mut()[id].woken) {
            self.suspend(State::Waiting { until_ps });
        }
    }

    /// The same with a soft timer (Aron and Druschel, SOSP 1999): an idle CPU reads its clock, and so does
    /// the kernel at the end of a system call. Only a computing process must be interrupted; the cost of that
    /// passes before this context goes on. Returns whether one was interrupted.
    #[inline]
    pub fn sleep_until(&self, until_ps: u64) -> bool {
        self.wait_until(until_ps);
        let interrupts = self.now_ps() >= until_ps
            && self.others_want_cpu()
            && !self.any_other(|level| level > Level::Process);
        if interrupts {
            self.count(|c| c.interrupts += 1);
            self.enter_interrupt();
            self.leave_interrupt();
        }
        interrupts
    }

    /// Lets other ready contexts of the same level go first.
    #[inline]
    pub fn yield_cpu(&self) {
        if self.others_want_cpu() || self.now_ps() >= self.0.until_ps.get() {
            self.suspend(State::Ready);
        }
    }

    /// Leaves the CPU to others, lower levels included, until `until_ps`, as
    /// [`sleep_until`](Self::sleep_until) does. Returns at once if no other context wants it now.
    #[inline]
    pub fn yield_until(&self, until_ps: u64) -> bool {
        self.others_want_cpu() && self.sleep_until(until_ps)
    }

    #[inline]
    fn others_want_cpu(&self) -> bool {
        self.any_other(|_| true)
    }

    /// Whether any context but the current one is ready, at such a level.
    #[inline]
    fn any_other(&self, at: impl Fn(Level) -> bool) -> bool {
        let world = self.0.world.borrow();
        let contexts = self.0.contexts.borrow();
        let current = self.0.current.get();
        contexts
            .iter()
            .enumerate()
            .any(|(id, c)| Some(id) != current && at(c.level) && self.is_ready(c, &world))
    }

    /// Wakes a context: it becomes ready if it waits, or its next wait returns at once.
    #[inline]
    pub fn wake(&self, id: ContextId) {
        let mut contexts = self.0.contexts.borrow_mut();
        let Some(context) = contexts.get_mut(id.0) else { return };
        if let State::Waiting { .. } = context.state {
            context.state = State::Ready;
            context.turn = self.next_turn();
            context.ready_ps = self.now_ps();
            if context.level > self.0.level.get() || context.cpu != self.0.cpu.get() {
                self.0.horizon_ps.set(self.now_ps());
            }
        } else {
            context.woken = true;
        }
    }

    /// Runs `section` with interrupts disabled on this CPU, as under `spin_lock_irqsave`: nothing preempts
    /// it.
    #[inline]
    pub fn without_interrupts<R>(&self, section: impl FnOnce() -> R) -> R {
        let before = self.0.interrupts_off.replace(true);
        let result = section();
        self.0.interrupts_off.set(before);
        self.forget_horizon();
        result
    }

    /// Discards the computed time of the next interrupt: one may come sooner now. Where nothing can preempt
    /// the running context, it stays.
    #[inline]
    fn forget_horizon(&self) {
        let preemptible = self.0.level.get() < Level::Hardirq && !self.0.interrupts_off.get();
        if self.0.preemptible.get() && (preemptible || self.0.several) {
            self.0.horizon_ps.set(self.now_ps());
        }
    }

    /// Counts a poll of rings that began at `began_ps` and found nothing. The next poll may find something.
    #[inline]
    pub fn count_one_idle_poll(&self, began_ps: u64) {
        let poll = self.now_ps().saturating_sub(began_ps);
        self.0.empty_poll_ps.set(self.0.empty_poll_ps.get() + poll);
    }

    /// Counts a poll of rings that began at `began_ps` and found nothing. Further idle polls are skipped, and
    /// their time passes at once: until a card writes a descriptor, or another context wants the CPU.
    #[inline]
    pub fn count_idle_poll(&self, began_ps: u64) {
        let now = self.now_ps();
        let poll = now.saturating_sub(began_ps).max(1);
        let current = self.0.current.get();
        let others = self.0.contexts.borrow().iter().enumerate().filter(|(id, _)| Some(*id) != current).fold(
            self.0.until_ps.get(),
            |next, (_, context)| match context.state {
                State::Ready | State::Preempted => now,
                State::Waiting { until_ps } => next.min(until_ps),
                State::Interrupt { .. } | State::Done => next,
            },
        );
        let mut skipped = 0;
        if others > now {
            let next = self.0.world.borrow_mut().run_unseen(others);
            skipped = next.saturating_sub(now) / poll * poll;
            self.spend_on(Function::EmptyPoll, skipped);
        }
        self.0.empty_poll_ps.set(self.0.empty_poll_ps.get() + (now - began_ps) + skipped);
    }

    /// The CPU is about to read memory that cards write: the cards catch up to its time.
    #[inline]
    pub fn catch_up(&self) {
        self.0.world.borrow_mut().run(self.now_ps());
    }

    /// The CPU, in `function`, touches `bytes` of memory at `address`, and pays for the cache lines that it
    /// has to fetch. Returns how many.
    #[inline]
    pub fn touch(&self, function: Function, address: u64, bytes: usize) -> u32 {
        let misses = self.0.memory.touch(address, bytes);
        if misses > 0 {
            self.take_lines(function, misses, self.0.host.dma_line_ps);
        }
        misses
    }

    /// The CPU, in `function`, fetches `lines` cache lines from memory, one after the other.
    #[inline]
    pub fn fetch_lines(&self, function: Function, lines: u32) {
        self.take_lines(function, lines, self.0.host.cache_miss_ps);
    }

    /// The CPU, in `function`, takes `lines` into its cache, one after the other, each in `line_ps`.
    #[inline]
    fn take_lines(&self, function: Function, lines: u32, line_ps: u64) {
        let lines = u64::from(lines);
        self.count(|c| c.cache_misses += lines);
        self.note_fetched(lines);
        let moved =
            self.0.memory.channel().transfer(self.now_ps(), lines * self.0.memory.line_bytes() as u64);
        self.spend_on(function, lines * line_ps + moved);
    }

    /// The CPU, in `function`, reads at most 8 bytes of memory that it does not cache: it waits as long as
    /// for a line, and its cache stays as it is.
    #[inline]
    pub fn read_uncached(&self, function: Function) {
        self.access_uncached(function, 1, self.0.host.cache_miss_ps);
    }

    /// The CPU, in `function`, writes `bytes` of memory that it does not cache, 8 at a time.
    #[inline]
    pub fn write_uncached(&self, function: Function, bytes: usize) {
        self.access_uncached(function, bytes.div_ceil(WORD_BYTES) as u64, self.0.host.uncached_write_ps);
    }

    #[inline]
    fn access_uncached(&self, function: Function, words: u64, word_ps: u64) {
        self.count(|c| c.uncached += words);
        let moved = self.0.memory.channel().transfer(self.now_ps(), words * WORD_BYTES as u64);
        self.spend_on(function, words * word_ps + moved);
    }

    /// The CPU's cache takes `lines` in, which push others out.
    #[inline]
    fn note_fetched(&self, lines: u64) {
        if let Some(cache) = self.0.caches.get(self.0.cpu.get()) {
            cache.fetched.set(cache.fetched.get() + lines);
        }
    }

    /// The CPU, in `function`, touches `lines` that it has touched before. They are in its cache, unless it
    /// has fetched a whole cache of others since then.
    #[inline]
    pub fn touch_again(&self, function: Function, lines: u32, seen: &Seen) {
        match self.has(seen) {
            true => self.spend_on(function, u64::from(lines) * self.0.host.cached_line_ps),
            false => self.fetch_lines(function, lines),
        }
        seen.now(self);
    }

    /// Whether the CPU's cache still has the lines that it touched then: it has not fetched a whole cache of
    /// other lines since.
    #[inline]
    fn has(&self, seen: &Seen) -> bool {
        let fetched = self.0.caches.get(self.0.cpu.get()).map_or(0, |cache| cache.fetched.get());
        seen.0.get().is_some_and(|then| fetched - then.min(fetched) < self.0.host.cache_lines)
    }

    /// The CPU enters an interrupt handler. Lines of the handler that are still in its cache cost nothing
    /// more.
    #[inline]
    pub fn enter_interrupt(&self) {
        self.spend_on(Function::InterruptEntry, self.0.host.interrupt_entry_ps);
        let Some(cache) = self.0.caches.get(self.0.cpu.get()) else { return };
        if !self.has(&cache.interrupted) {
            self.fetch_lines(Function::InterruptEntry, self.0.host.interrupt_lines);
        }
        cache.interrupted.now(self);
    }

    /// The CPU leaves an interrupt handler.
    #[inline]
    pub fn leave_interrupt(&self) {
        self.spend_on(Function::InterruptExit, self.0.host.interrupt_exit_ps);
    }

    /// The CPU reads a register.
    #[inline]
    pub fn register_read(&self, slot: usize, offset: u32) -> u32 {
        let now = self.now_ps();
        let answer_ps = {
            let mut world = self.0.world.borrow_mut();
            world.run(now);
            world.begin_register_read(now, slot, offset)
        };
        self.spend_on(Function::RegisterRead, answer_ps - now);
        self.count(|c| c.register_reads += 1);
        let mut world = self.0.world.borrow_mut();
        world.run(self.now_ps());
        let value = world.register_read(self.now_ps(), slot, offset);
        self.forget_horizon();
        value
    }

    /// The CPU writes a register.
    #[inline]
    pub fn register_write(&self, slot: usize, offset: u32, value: u32) {
        let now = self.now_ps();
        let goes_on_ps = {
            let mut world = self.0.world.borrow_mut();
            world.run(now);
            world.begin_register_write(now, slot, offset)
        };
        self.spend_on(Function::RegisterWrite, goes_on_ps - now);
        let mask = offset == kpps_datasheet::reg::IMS || offset == kpps_datasheet::reg::IMC;
        self.count(|c| {
            (c.register_writes, c.mask_writes) = (c.register_writes + 1, c.mask_writes + u64::from(mask))
        });
        let mut world = self.0.world.borrow_mut();
        world.run(self.now_ps());
        world.register_write(self.now_ps(), slot, offset, value);
        self.forget_horizon();
    }

    /// Runs the machine until `until_ps`, or until nothing will ever happen again.
    #[inline]
    pub fn run(&self, until_ps: u64) {
        self.0.until_ps.set(until_ps);
        if self.0.several {
            self.run_several(until_ps);
        }
        while self.now_ps() < until_ps {
            self.0.world.borrow_mut().run(self.now_ps());
            match self.choose() {
                Some(id) => self.resume(id),
                None => {
                    let next = self.next_idle_event().min(until_ps);
                    self.0.now_ps.set(next.max(self.now_ps()));
                }
            }
        }
        self.0.world.borrow_mut().run(self.now_ps());
        self.0.until_ps.set(u64::MAX);
    }

    /// The ready context with the highest level; an interrupted one before others, then by turn.
    #[inline]
    fn choose(&self) -> Option<usize> {
        let world = self.0.world.borrow();
        let contexts = self.0.contexts.borrow();
        let off = self.0.interrupts_off.get();
        let may = |c: &Context| self.is_ready(c, &world) && (!off || c.in_section);
        let ready = contexts.iter().enumerate().filter(|(_, c)| may(c));
        ready
            .max_by_key(|(_, c)| (c.level, c.state == State::Preempted, std::cmp::Reverse(c.turn)))
            .map(|(id, _)| id)
    }

    /// When something may become ready on an idle CPU.
    #[inline]
    fn next_idle_event(&self) -> u64 {
        let world = self.0.world.borrow();
        let times = self
            .0
            .contexts
            .borrow()
            .iter()
            .map(|c| match c.state {
                State::Waiting { until_ps } => until_ps,
                _ => u64::MAX,
            })
            .min();
        world.next_ps().min(times.unwrap_or(u64::MAX))
    }

    #[inline]
    fn resume(&self, id: usize) {
        let taken = {
            let mut contexts = self.0.contexts.borrow_mut();
            let context = &mut contexts[id];
            self.0.level.set(context.level);
            context.coroutine.take()
        };
        let Some(mut coroutine) = taken else { return };
        self.0.current.set(Some(id));
        self.0.horizon_ps.set(self.now_ps());
        let began = self.now_ps();
        let result = coroutine.resume(());
        self.0.current.set(None);
        self.0.level.set(Level::Thread);
        let mut contexts = self.0.contexts.borrow_mut();
        contexts[id].busy_ps += self.now_ps() - began;
        match result {
            CoroutineResult::Yield(()) => contexts[id].coroutine = Some(coroutine),
            CoroutineResult::Return(()) => contexts[id].state = State::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NS, US, bus};

    fn machine() -> Machine {
        machine_with(1)
    }

    pub(super) fn machine_with(cpus: usize) -> Machine {
        let bus = bus::Params::plain();
        let host = host::Params {
            cache_line_bytes: 32,
            cache_miss_ps: 110 * NS,
            dma_line_ps: 110 * NS,
            cache_lines: 8192,
            pentium_iii_cycle_ps: 1250.0,
            line_transfer_ps: 200 * NS,
            buffer_lines: 3,
            ring_lines: 2,
            ..host::Params::default()
        };
        Machine::with_cpus(host, World::new(Memory::new(4096, 32), bus), cpus)
    }

    /// Lists what happened when.
    #[derive(Clone, Default)]
    struct Log(Rc<RefCell<Vec<(u64, &'static str)>>>);
    impl Log {
        fn add(&self, machine: &Machine, what: &'static str) {
            self.0.borrow_mut().push((machine.now_ps() / NS, what));
        }
    }

    #[test]
    fn a_line_that_a_card_wrote_may_come_from_the_cache() {
        let bus = bus::Params::plain();
        let host = host::Params {
            cache_line_bytes: 32,
            cache_miss_ps: 110 * NS,
            dma_line_ps: 24 * NS,
            ..host::Params::default()
        };
        let memory = Memory::new(4096, 32);
        let machine = Machine::new(host, World::new(memory.clone(), bus));
        let log = Log::default();
        let own = log.clone();
        machine.spawn(Level::Thread, move |m| {
            memory.store(crate::memory::BASE, &[1; 64]);
            assert_eq!(m.touch(Function::Other, crate::memory::BASE, 64), 2);
            own.add(m, "two lines of the card");
            m.fetch_lines(Function::Other, 1);
            own.add(m, "one from memory");
        });
        machine.run(US);
        assert_eq!(*log.0.borrow(), [(48, "two lines of the card"), (158, "one from memory")]);
        assert_eq!(machine.counters().cache_misses, 3);
        machine.halt();
    }

    #[test]
    fn a_higher_level_takes_the_cpu_in_the_middle_of_a_spend() {
        let (machine, log) = (machine(), Log::default());
        let low = log.clone();
        machine.spawn(Level::Thread, move |m| {
            m.spend(3 * US);
            low.add(m, "thread done");
        });
        let high = log.clone();
        machine.spawn(Level::Hardirq, move |m| {
            m.wait_until(US);
            high.add(m, "handler");
            m.spend(500 * NS);
        });
        machine.run(10 * US);
        // The thread wanted 3 us of CPU and got them, around the handler's half.
        assert_eq!(*log.0.borrow(), [(1000, "handler"), (3500, "thread done")]);
        let usage = machine.usage();
        assert_eq!((usage.thread_ps, usage.hardirq_ps, usage.softirq_ps), (3 * US, 500 * NS, 0));
        assert_eq!(machine.now_ps(), 10 * US);
        machine.halt();
    }

    #[test]
    fn a_process_that_computes_gets_what_threads_leave() {
        let machine = machine();
        machine.spawn(Level::Process, |m| {
            loop {
                m.spend(crate::MS);
            }
        });
        machine.spawn(Level::Thread, |m| {
            m.yield_until(3 * US);
            m.spend(4 * US);
            m.yield_cpu();
            m.spend(US);
        });
        machine.run(10 * US);
        let usage = machine.usage();
        assert_eq!((usage.process_ps, usage.thread_ps, usage.busy_ps()), (5 * US, 5 * US, 5 * US));
        machine.halt();
    }

    #[test]
    fn only_a_process_that_computes_is_interrupted_by_timers() {
        for (other, interrupts) in [(None, 0), (Some(Level::Thread), 0), (Some(Level::Process), 3)] {
            let machine = machine();
            if let Some(level) = other {
                machine.spawn(level, |m| {
                    loop {
                        m.spend(crate::MS);
                    }
                });
            }
            machine.spawn(Level::Softirq, move |m| {
                for sleep in 1..=3 {
                    assert_eq!(m.sleep_until(sleep * US), other == Some(Level::Process));
                }
            });
            machine.run(10 * US);
            assert_eq!(machine.counters().interrupts, interrupts);
            machine.halt();
        }
    }

    #[test]
    fn without_others_yielding_returns_at_once() {
        let machine = machine();
        machine.spawn(Level::Thread, |m| {
            m.yield_until(3 * US);
            m.spend(US);
        });
        machine.run(2 * US);
        assert_eq!(machine.usage().thread_ps, US);
        machine.halt();
    }

    #[test]
    fn what_was_interrupted_goes_on_before_its_equals() {
        let (machine, log) = (machine(), Log::default());
        for name in ["first", "second"] {
            let log = log.clone();
            machine.spawn(Level::Thread, move |m| {
                m.spend(2 * US);
                log.add(m, name);
            });
        }
        machine.spawn(Level::Softirq, |m| {
            m.wait_until(US);
            m.spend(US);
        });
        machine.run(10 * US);
        assert_eq!(*log.0.borrow(), [(3000, "first"), (5000, "second")]);
        machine.halt();
    }

    #[test]
    fn no_wake_up_is_lost() {
        let (machine, log) = (machine(), Log::default());
        let woken = log.clone();
        let sleeper = machine.spawn(Level::Softirq, move |m| {
            loop {
                m.wait();
                woken.add(m, "woken");
                m.spend(US);
            }
        });
        machine.spawn(Level::Hardirq, move |m| {
            for at in [2 * US, 2 * US + 500 * NS] {
                m.wait_until(at);
                m.wake(sleeper);
            }
        });
        machine.run(10 * US);
        // The second wake-up came while the first was being served.
        assert_eq!(*log.0.borrow(), [(2000, "woken"), (3000, "woken")]);
        machine.halt();
    }

    #[test]
    fn a_run_stops_in_time_and_goes_on_where_it_stopped() {
        let (machine, log) = (machine(), Log::default());
        let done = log.clone();
        machine.spawn(Level::Thread, move |m| {
            m.spend(5 * US);
            done.add(m, "done");
        });
        machine.run(2 * US);
        assert_eq!(machine.now_ps(), 2 * US);
        assert!(log.0.borrow().is_empty());
        assert_eq!(machine.usage().thread_ps, 2 * US);
        machine.run(10 * US);
        assert_eq!(*log.0.borrow(), [(5000, "done")]);
        machine.halt();
    }

    #[test]
    fn interrupts_off_holds_until_the_section_ends() {
        let (machine, log) = (machine(), Log::default());
        let (inside, outside) = (log.clone(), log.clone());
        machine.spawn(Level::Thread, move |m| {
            m.without_interrupts(|| m.spend(2 * US));
            inside.add(m, "section over");
            m.spend(US);
        });
        // A softirq runs at the end of an interrupt, and so waits too.
        machine.spawn(Level::Softirq, move |m| {
            m.wait_until(US);
            outside.add(m, "softirq");
        });
        machine.run(10 * US);
        assert_eq!(*log.0.borrow(), [(2000, "section over"), (2000, "softirq")]);
        machine.halt();
    }

    #[test]
    fn an_empty_poll_is_not_repeated_when_nothing_can_change() {
        let machine = machine();
        machine.spawn(Level::Thread, |m| {
            loop {
                let began = m.now_ps();
                m.spend(300 * NS);
                m.count_idle_poll(began);
            }
        });
        machine.run(crate::MS);
        let usage = machine.usage();
        assert_eq!(usage.thread_ps, crate::MS);
        assert!(usage.empty_poll_ps > crate::MS - US, "{usage:?}");
        machine.halt();
    }

    #[test]
    fn a_poller_does_not_skip_over_a_thread_that_was_woken() {
        let (machine, log) = (machine(), Log::default());
        let woken = log.clone();
        let sleeper = machine.spawn(Level::Thread, move |m| {
            m.wait();
            woken.add(m, "woken");
        });
        machine.spawn(Level::Thread, |m| {
            loop {
                let began = m.now_ps();
                m.spend(300 * NS);
                m.count_idle_poll(began);
                m.yield_cpu();
            }
        });
        machine.spawn(Level::Hardirq, move |m| {
            m.wait_until(US);
            m.wake(sleeper);
        });
        machine.run(crate::MS);
        assert_eq!(*log.0.borrow(), [(1200, "woken")]);
        machine.halt();
    }

    #[test]
    fn a_halted_machine_is_freed() {
        let machine = machine();
        let weak = Rc::downgrade(&machine.0);
        machine.spawn(Level::Thread, |m| m.wait());
        machine.run(US);
        machine.halt();
        drop(machine);
        assert!(weak.upgrade().is_none());
    }
}
