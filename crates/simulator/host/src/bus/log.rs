//! A log of a bus and its environment: a ring of transactions and a ring of events, filled only while a log
//! is wanted.

use kpps_card::Purpose;
use std::collections::VecDeque;

/// The user of the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Master {
    /// The bridge, for the CPU.
    Bridge,
    /// The card in this slot.
    Card(u8),
    /// A device that is known by its bursts only ([`super::Background`]).
    Background,
}

/// The purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A card reads receive descriptors.
    RxDescriptorFetch,
    /// A card writes a received frame, or a part of one.
    RxData,
    /// A card writes receive descriptors back.
    RxWriteBack,
    /// A card reads transmit descriptors.
    TxDescriptorFetch,
    /// A card reads data to send.
    TxData,
    /// A card reports transmit descriptors.
    TxWriteBack,
    /// The CPU reads a register.
    RegisterRead,
    /// The CPU writes a register that is no tail.
    RegisterWrite,
    /// The CPU writes a ring's tail.
    TailWrite,
    /// A background device writes memory.
    Background,
}

impl From<Purpose> for What {
    #[inline]
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::RxDescriptorFetch => Self::RxDescriptorFetch,
            Purpose::RxData => Self::RxData,
            Purpose::RxWriteBack => Self::RxWriteBack,
            Purpose::TxDescriptorFetch => Self::TxDescriptorFetch,
            Purpose::TxData => Self::TxData,
            Purpose::TxWriteBack => Self::TxWriteBack,
        }
    }
}

impl What {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::RxDescriptorFetch,
        Self::RxData,
        Self::RxWriteBack,
        Self::TxDescriptorFetch,
        Self::TxData,
        Self::TxWriteBack,
        Self::RegisterRead,
        Self::RegisterWrite,
        Self::TailWrite,
        Self::Background,
    ];

    /// Whether a card waits for data from memory.
    #[inline]
    pub const fn reads_memory(self) -> bool {
        matches!(self, Self::RxDescriptorFetch | Self::TxDescriptorFetch | Self::TxData)
    }

    /// A short name, for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RxDescriptorFetch => "rx-fetch",
            Self::RxData => "rx-data",
            Self::RxWriteBack => "rx-write-back",
            Self::TxDescriptorFetch => "tx-fetch",
            Self::TxData => "tx-data",
            Self::TxWriteBack => "tx-write-back",
            Self::RegisterRead => "register-read",
            Self::RegisterWrite => "register-write",
            Self::TailWrite => "tail-write",
            Self::Background => "background",
        }
    }
}

/// One transaction. Times in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// When the bus was taken.
    pub start_ps: u64,
    /// When it was free again. A split read's completion is counted in, though it comes later.
    pub end_ps: u64,
    /// Its purpose.
    pub what: What,
    /// By whom.
    pub master: Master,
    /// Where: a memory address, or a register's offset.
    pub address: u64,
    /// Bytes that crossed.
    pub bytes: u32,
    /// The target disconnected (STOP#) before all bytes had crossed; the rest follows as another transaction.
    pub cut: bool,
}

/// An interrupt, or the value of a register access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at_ps: u64,
    /// The card that it concerns.
    pub slot: u8,
    /// The kind of event.
    pub kind: EventKind,
}

/// The kind of an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A CPU enters the card's interrupt handler.
    Interrupt,
    /// A register's value reaches the CPU.
    Read {
        /// The register.
        offset: u32,
        /// Its value.
        value: u32,
    },
    /// A value reaches a register.
    Write {
        /// The register.
        offset: u32,
        /// The value.
        value: u32,
    },
}

/// The latest transactions and events.
#[derive(Clone, Debug, Default)]
pub struct Log {
    capacity: usize,
    transactions: VecDeque<Transaction>,
    events: VecDeque<Event>,
    /// How many of both were dropped for later ones.
    lost: u64,
}

impl Log {
    /// Room for `capacity` transactions and as many events; the latest stay.
    pub fn new(capacity: usize) -> Self {
        let ring = || capacity.min(1 << 20);
        Self {
            capacity,
            transactions: VecDeque::with_capacity(ring()),
            events: VecDeque::with_capacity(ring()),
            lost: 0,
        }
    }

    pub(super) fn add(&mut self, transaction: Transaction) {
        if self.transactions.len() == self.capacity {
            self.transactions.pop_front();
            self.lost += 1;
        }
        self.transactions.push_back(transaction);
    }

    pub(super) fn add_event(&mut self, event: Event) {
        if self.events.len() == self.capacity {
            self.events.pop_front();
            self.lost += 1;
        }
        self.events.push_back(event);
    }

    /// The transactions in the order in which they got the bus.
    pub fn transactions(&self) -> impl Iterator<Item = &Transaction> {
        self.transactions.iter()
    }

    /// The events in the order of time.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// How many earlier transactions and events were dropped.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
