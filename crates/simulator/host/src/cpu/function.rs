//! Where CPU time goes: a profiler's table, by level and function.

use super::{Level, Usage};
use std::cell::Cell;

macro_rules! functions {
    ($($variant:ident = $name:literal, $doc:literal;)*) => {
        /// The functions of a CPU, as finely as a profile shows them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Function {
            $(#[doc = $doc] $variant,)*
        }

        impl Function {
            /// All functions.
            pub const ALL: [Function; [$($name),*].len()] = [$(Function::$variant),*];

            /// Its name in a profile.
            #[inline]
            pub fn name(self) -> &'static str {
                match self {
                    $(Function::$variant => $name,)*
                }
            }
        }
    };
}

functions! {
    InterruptEntry = "interrupt entry", "Vector, registers, interrupt controller.";
    InterruptExit = "interrupt exit", "Leaving an interrupt handler, and refilling the caches afterwards.";
    RegisterRead = "register read", "Waiting for a card's answer.";
    RegisterWrite = "register write", "A posted write.";
    Examine = "examine a descriptor", "The driver checks whether a descriptor is done.";
    Frame = "read a frame's header", "The driver and the kernel read a received frame for the first time.";
    Checksum = "checksum status", "The driver works out the checksum status of a frame.";
    Fill = "fill a descriptor", "The driver writes a descriptor.";
    Allocate = "allocate a buffer", "The kernel's allocator, and setting up the packet structure.";
    Free = "free a buffer", "Taking a packet structure apart and giving its memory back.";
    Recycle = "recycle a buffer", "A list of buffers in front of the allocator.";
    NetifRx = "netif_rx", "A frame onto the backlog.";
    Softirq = "softirq dispatch", "Starting a bottom half or softirq, or one poll in it.";
    Receive = "receive a frame", "The kernel's protocol demultiplexer: `net_bh`, `netif_receive_skb`.";
    Forward = "bridge", "The learning bridge: two lookups in its table, and its hooks.";
    Enqueue = "transmit queue", "`dev_queue_xmit`: a frame through the queueing discipline.";
    Transmit = "hard_start_xmit", "The driver takes a frame to send.";
    Task = "thread", "One turn of a thread's scheduler.";
    Element = "application", "What the application does with a frame.";
    SystemCall = "system call", "Into the kernel and back, and copying a frame.";
    Copy = "copy", "Copying data, or summing it.";
    Route = "IP forwarding", "`ip_forward` to the neighbour's station address: a packet on its way.";
    Vlan = "VLAN", "A VLAN's device: a frame out of its VLAN and into another.";
    Translate = "address translation", "Connection tracking, and rewriting addresses and ports.";
    Ip = "IP", "`ip_rcv`: a packet to its protocol.";
    Tcp = "TCP", "`tcp_v4_rcv`: a segment to its socket.";
    TcpAck = "TCP acknowledgement", "Making an acknowledgement and handing it down.";
    Timer = "timers", "The timer softirq of a tick.";
    Schedule = "scheduling", "Waking a process, and switching to it.";
    EmptyPoll = "empty poll", "Polling that found nothing.";
    Transfer = "line from another CPU", "Waiting for a cache line that another CPU has written.";
    Spin = "spin", "Waiting for a lock that another CPU holds.";
    Other = "other", "Everything without a name of its own.";
}

const FUNCTIONS: usize = Function::ALL.len();
const LEVELS: [Level; 4] = [Level::Process, Level::Thread, Level::Softirq, Level::Hardirq];

/// Time spent, as it is added up.
pub(super) struct Table([[Cell<u64>; FUNCTIONS]; LEVELS.len()]);

impl Default for Table {
    #[inline]
    fn default() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| Cell::new(0))))
    }
}

impl Table {
    #[inline]
    pub(super) fn add(&self, level: Level, function: Function, cost_ps: u64) {
        let cell = &self.0[level as usize][function as usize];
        cell.set(cell.get() + cost_ps);
    }

    /// The table now. The part of `usage` that has no label is [`Function::Other`].
    #[inline]
    pub(super) fn read(&self, usage: &Usage) -> Profile {
        let mut spent_ps = [[0; FUNCTIONS]; LEVELS.len()];
        for (level, row) in self.0.iter().enumerate() {
            for (function, cell) in row.iter().enumerate() {
                spent_ps[level][function] = cell.get();
            }
            let busy = match LEVELS[level] {
                Level::Hardirq => usage.hardirq_ps,
                Level::Softirq => usage.softirq_ps,
                Level::Thread => usage.thread_ps,
                Level::Process => usage.process_ps,
            };
            let labelled: u64 = spent_ps[level].iter().sum();
            spent_ps[level][Function::Other as usize] += busy.saturating_sub(labelled);
        }
        Profile { spent_ps }
    }
}

/// Where CPU time went, by level and function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    spent_ps: [[u64; FUNCTIONS]; LEVELS.len()],
}

impl Profile {
    /// Time spent on `function` at `level`, in picoseconds.
    #[inline]
    pub fn at(&self, level: Level, function: Function) -> u64 {
        self.spent_ps[level as usize][function as usize]
    }

    /// Time spent on `function` at any level, in picoseconds.
    #[inline]
    pub fn of(&self, function: Function) -> u64 {
        LEVELS.iter().map(|&level| self.at(level, function)).sum()
    }

    /// All time, in picoseconds.
    #[inline]
    pub fn total_ps(&self) -> u64 {
        self.spent_ps.iter().flatten().sum()
    }

    /// The increase since `earlier`.
    #[inline]
    pub fn since(&self, earlier: &Profile) -> Profile {
        let mut spent_ps = self.spent_ps;
        for (row, before) in spent_ps.iter_mut().flatten().zip(earlier.spent_ps.iter().flatten()) {
            *row = row.saturating_sub(*before);
        }
        Profile { spent_ps }
    }

    /// Functions that took time, as (level, function, picoseconds), the most first.
    #[inline]
    pub fn rows(&self) -> Vec<(Level, Function, u64)> {
        let mut rows: Vec<_> = LEVELS
            .iter()
            .flat_map(|&level| Function::ALL.iter().map(move |&function| (level, function)))
            .map(|(level, function)| (level, function, self.at(level, function)))
            .filter(|row| row.2 > 0)
            .collect();
        rows.sort_by_key(|&(level, function, spent)| (std::cmp::Reverse(spent), level, function));
        rows
    }

    /// Functions of all levels together, as (function, picoseconds), the most first.
    #[inline]
    pub fn functions(&self) -> Vec<(Function, u64)> {
        let mut rows: Vec<_> =
            Function::ALL.iter().map(|&f| (f, self.of(f))).filter(|row| row.1 > 0).collect();
        rows.sort_by_key(|&(function, spent)| (std::cmp::Reverse(spent), function));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_labelled_is_other() {
        let table = Table::default();
        table.add(Level::Softirq, Function::Free, 30);
        table.add(Level::Hardirq, Function::Free, 5);
        let before = table.read(&Usage { softirq_ps: 30, hardirq_ps: 5, ..Usage::default() });
        assert_eq!(before.of(Function::Other), 0);
        table.add(Level::Softirq, Function::Allocate, 40);
        let usage = Usage { softirq_ps: 80, hardirq_ps: 5, ..Usage::default() };
        let profile = table.read(&usage);
        assert_eq!(profile.total_ps(), usage.busy_ps());
        assert_eq!(
            profile.functions(),
            [(Function::Allocate, 40), (Function::Free, 35), (Function::Other, 10)]
        );
        assert_eq!(profile.rows()[1], (Level::Softirq, Function::Free, 30));
        let since = profile.since(&before);
        assert_eq!(since.functions(), [(Function::Allocate, 40), (Function::Other, 10)]);
    }
}
