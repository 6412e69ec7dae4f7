#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! The manual is SDM 317453. The host around the card sees *when*: frames wait in the FIFO for the receive
//! engine and the bus, descriptors are prefetched and written back in cache lines, timers behave as on the
//! chip.
//!
//! The card knows nothing of drivers, of the bus protocol, or of the other end of the wire: everything around
//! it is a [`Host`]. The caller passes the time with each call, and never an earlier one.
//!
//! ```text
//!   frame_arrives ─▶ filter ─▶ FIFO ─▶ engine ─▶ Host::burst … Host::store ─▶ write-back ─▶ interrupt_line
//!   transmitted  ◀─ wire  ◀─ FIFO ◀─ engine ◀─ Host::burst … Host::load  ◀─ fetch      ◀─ write(TDT)
//! ```
//!
//! - [`receive`]: from the wire to the FIFO; [`receive_dma`]: from there to memory; [`receiver`]: their
//!   state.
//! - [`transmit`]: from memory; [`packet`]: into frames; [`wire`]: out; [`transmit_report`]: back to the
//!   driver; [`transmitter`]: their state.
//! - [`queue`]: a descriptor ring and its on-chip part; [`deadlines`]: the next event.
//! - [`interrupt`]: causes, mask, ITR and the line; [`vector`]: MSI-X in its place; [`interrupt_delay`]: the
//!   timers RDTR, RADV, TIDV and TADV.
//! - [`rate_limited`]: another, rate-limited NIC model for cards without a public manual.
//!
//! Nothing allocates after [`Nic::new`]. No driver and no frame can make the model panic or work without
//! bound.
#![forbid(unsafe_code)]
#![allow(rustdoc::private_intra_doc_links)]

mod checksum;
mod deadlines;
mod eeprom;
mod express;
mod fifo;
mod filter;
mod flow;
mod frame;
mod host;
mod interrupt;
mod interrupt_delay;
mod link;
mod mdio;
mod packet;
mod params;
mod phy;
mod queue;
pub mod rate_limited;
mod receive;
mod receive_dma;
mod receiver;
mod registers;
mod segment;
mod stats;
mod tally;
mod transmit;
mod transmit_report;
mod transmitter;
mod vector;
mod wire;

pub use host::{BurstKind, Host, Purpose};
pub use params::{Moderation, Params};
pub use tally::{Dropped, Tally};

use deadlines::{Deadlines, Source};
use kpps_datasheet::Chip;

/// One port of a card.
#[derive(Clone, Debug)]
pub struct Nic {
    params: Params,
    now: u64,
    deadlines: Deadlines,
    tally: Tally,
    stats: stats::Statistics,
    irq: interrupt::Interrupts,
    rx: receiver::Receive,
    tx: transmitter::Transmit,
    wire: wire::Wire,
    filter: filter::Filter,
    flow: flow::Flow,
    link: link::Link,
    phy: phy::Phy,
    mdio: mdio::Mdio,
    eeprom: eeprom::Eeprom,
    plain: registers::Plain,
    /// SWSM.
    semaphore: express::Semaphore,
    /// CTRL.
    ctrl: u32,
    /// VET.
    vet: u32,
    /// PBA.
    packet_buffer: u32,
    /// How late write-backs come.
    write_back_delay_ps: u64,
    /// Before this no transmit descriptor is written back.
    reports_from_ps: u64,
}

impl Nic {
    /// A card at power-up, at time 0, with `mac` in its EEPROM and a link partner on its cable.
    pub fn new(params: Params, mac: [u8; 6]) -> Self {
        let params = params.sane();
        let (receive, transmit) = packet_buffer_parts(params.chip);
        let gap = params.chip.tipg(params.media).pack();
        let mut nic = Self {
            now: 0,
            deadlines: Deadlines::new(),
            tally: Tally::default(),
            stats: stats::Statistics::new(),
            irq: interrupt::Interrupts::default(),
            rx: receiver::Receive::new(receive),
            tx: transmitter::Transmit::new(transmit, gap),
            wire: wire::Wire::new(),
            filter: filter::Filter::new(&params, mac),
            flow: flow::Flow::default(),
            link: link::Link::new(),
            phy: phy::Phy::new(&params),
            mdio: mdio::Mdio::default(),
            eeprom: eeprom::Eeprom::new(&params, mac),
            plain: registers::Plain::new(params.chip),
            semaphore: express::Semaphore::default(),
            ctrl: params.control_at_reset(),
            vet: 0,
            packet_buffer: packet_buffer_value(receive, transmit),
            write_back_delay_ps: 0,
            reports_from_ps: 0,
            params,
        };
        nic.link_evaluate(0, false);
        nic
    }

    /// The card's parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The time of the card's next event, in ps; `u64::MAX` if there is none.
    #[inline]
    pub fn next_event_ps(&self) -> u64 {
        self.deadlines.next()
    }

    /// The end of the write-back in progress, in ps; `u64::MAX` if there is none. Until then the rings in
    /// memory do not change.
    #[inline]
    pub fn next_write_back_ps(&self) -> u64 {
        self.deadlines.at(Source::RxWriteBack).min(self.deadlines.at(Source::TxWriteBack))
    }

    /// Runs all events up to and including `until_ps`, in order of time.
    #[inline]
    pub fn run<H: Host>(&mut self, until_ps: u64, host: &mut H) {
        if self.deadlines.next() <= until_ps {
            self.run_due(until_ps, host);
        }
        if until_ps != u64::MAX {
            self.now = self.now.max(until_ps);
            self.count_idle(self.now);
        }
    }

    /// The events of [`run`](Self::run).
    fn run_due<H: Host>(&mut self, until_ps: u64, host: &mut H) {
        while let Some((at, source)) = self.deadlines.take(until_ps) {
            let now = at.max(self.now);
            self.now = now;
            match source {
                Source::RxData => self.rx_data_done(now, host),
                Source::RxWriteBack => self.rx_written(now, host),
                Source::RxFetch => self.rx_fetched(now, host),
                Source::RxEngine => self.rx_engine(now, host),
                Source::Rdtr | Source::Radv => self.rdtr_radv_expired(now, host),
                Source::TxData => self.tx_data_done(now, host),
                Source::TxWriteBack => self.tx_written(now, host),
                Source::TxFetch => self.tx_fetched(now, host),
                Source::TxEngine => self.tx_engine(now, host),
                Source::Tidv | Source::Tadv => self.tidv_tadv_expired(now, host),
                Source::Wire => self.wire_done(now, host),
                Source::Pause => self.wire_start(now, host),
                Source::Link => self.link_done(now, host),
                Source::Mdi => self.mdi_done(now),
                Source::Throttle => self.update_line(now),
            }
        }
    }

    /// The level of the interrupt line.
    #[inline]
    pub fn interrupt_line(&self) -> bool {
        self.irq.line()
    }

    /// Whether any cause may interrupt (IMS is not 0).
    #[inline]
    pub fn interrupts_enabled(&self) -> bool {
        self.irq.mask != 0
    }

    /// Lets write-backs reach memory `ps` after they have crossed the bus, as a host with buffers for writes
    /// does. The heads do not wait for them (SDM 3.4: a read of the head can pass the write), interrupts do.
    /// It lasts through resets; 0 ends it.
    pub fn set_write_back_delay(&mut self, ps: u64) {
        self.write_back_delay_ps = ps;
    }

    /// Lets no write-back of transmit descriptors that begins from now on end before `until_ps`.
    pub fn hold_transmit_reports(&mut self, until_ps: u64) {
        self.reports_from_ps = until_ps;
    }

    /// Resets [`Tally::rx_dry_longest_ps`].
    pub fn forget_longest_dry(&mut self) {
        self.tally.rx_dry_longest_ps = 0;
    }

    /// The account of all frames so far. Idle times count up to the last call of [`run`](Self::run).
    #[inline]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Runs the events before an outside event at `now_ps`. Returns the time of the outside event.
    #[inline]
    fn catch_up<H: Host>(&mut self, now_ps: u64, host: &mut H) -> u64 {
        if self.deadlines.next() <= now_ps {
            self.run_due(now_ps, host);
        }
        self.now = self.now.max(now_ps);
        self.now
    }

    /// A burst is in progress that has priority over a prefetch.
    fn bus_wanted(&self) -> bool {
        [Source::RxData, Source::RxWriteBack, Source::TxData, Source::TxWriteBack]
            .into_iter()
            .any(|source| self.deadlines.pending(source))
    }

    /// Prefetches descriptors where the thresholds ask for it (SDM 3.2.4).
    #[inline]
    fn prefetch<H: Host>(&mut self, now: u64, host: &mut H) {
        if self.rx.fetch_below != 0 {
            self.rx_fetch(now, host);
        }
        if self.tx.fetch_below != 0 && self.tx.control & kpps_datasheet::bit::tctl::EN != 0 {
            self.tx_fetch(now, host);
        }
    }

    /// CTRL.RST: resets everything except the EEPROM and the PHY.
    fn reset(&mut self, now: u64) {
        let (receive, transmit) = packet_buffer_parts(self.params.chip);
        self.count_idle(now);
        let lost = self.rx.reset(receive);
        self.tally.in_fifo -= lost;
        self.tally.dropped.reset += lost;
        let gap = self.params.chip.tipg(self.params.media).pack();
        let lost = self.tx.reset(transmit, gap, self.wire.left);
        self.tally.tx_in_flight -= lost;
        self.tally.tx_discarded += lost;
        let (link, mdi) = (self.deadlines.at(Source::Link), self.deadlines.at(Source::Mdi));
        self.deadlines = Deadlines::new();
        self.deadlines.set(Source::Link, link);
        self.deadlines.set(Source::Mdi, mdi);
        self.wire.cut();
        self.stats = stats::Statistics::new();
        self.irq = self.irq.after_reset();
        self.filter = filter::Filter::new(&self.params, self.eeprom.station());
        self.flow = flow::Flow::default();
        self.plain = registers::Plain::new(self.params.chip);
        self.semaphore = express::Semaphore::default();
        self.ctrl = self.params.control_at_reset();
        self.vet = 0;
        self.packet_buffer = packet_buffer_value(receive, transmit);
        self.link.word = 0;
        self.set_mac_mode();
        self.link_evaluate(now, false);
        // The mask is clear; the reset's own causes are dropped.
        self.irq.causes = 0;
        self.note_work(now);
    }
}

/// The receive and transmit parts of the packet buffer after reset, in bytes.
fn packet_buffer_parts(chip: Chip) -> (u32, u32) {
    let receive = chip.default_rx_buffer_bytes();
    (receive, chip.packet_buffer_bytes() - receive)
}

fn packet_buffer_value(receive: u32, transmit: u32) -> u32 {
    ((transmit / 1024) << 16) | (receive / 1024)
}
