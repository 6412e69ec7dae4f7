//! The policies of the driver, as data.
//!
//! The code has mechanisms. A [`Config`] selects which of them run, and when. Each historical driver is a
//! `Config`; the driver's own policy is [`Config::kpps`].

#[cfg(feature = "serde")]
mod itr;
mod queues;

pub use queues::{Rss, RxFormat};

use crate::error::{Error, Invalid};
use core::ops::RangeInclusive;
use kpps_datasheet::{Chip, Erratum, bit};

/// All choices that a driver makes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Config {
    /// Descriptors in the receive ring, a multiple of 8. The device can have all but one.
    pub rx_ring: u16,
    /// Descriptors in the transmit ring, a multiple of 8. All but one can be in use.
    pub tx_ring: u16,
    /// Bytes of a receive buffer that the device may fill: 256, 512 … 16384.
    pub rx_buffer_bytes: u16,
    /// Copybreak: received frames of at most this many bytes without FCS are copied into a small buffer, and
    /// the buffer that the device filled goes back into the ring. Longer frames are handed up without a copy.
    /// 0: no copies.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero"))]
    pub rx_copybreak_bytes: u16,
    /// The longest frame to accept, in bytes with FCS. Above 1522, long packet reception (RCTL.LPE) is turned
    /// on.
    pub max_frame_bytes: u16,
    /// When the driver examines the device.
    pub service: Service,
    /// Where buffers for the receive ring come from.
    pub buffers: Buffers,
    /// When receive descriptors are refilled and the tail is written.
    pub refill: Refill,
    /// When the device reports transmitted descriptors.
    pub completion: Completion,
    /// Delays of interrupts.
    pub moderation: Moderation,
    /// The causes that interrupt.
    pub interrupts: Interrupts,
    /// Read a register after unmasking. This flushes the posted write through the bridges: the write reaches
    /// the device at once, and the CPU waits for it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub flush_unmask: bool,
    /// Free receive descriptors at which RXDMT0 is raised.
    pub rx_low: RxLow,
    /// Receive thresholds (RXDCTL); `None` keeps the values after reset.
    pub rx_thresholds: Option<Thresholds>,
    /// Transmit thresholds (TXDCTL); `None` keeps the values after reset.
    pub tx_thresholds: Option<Thresholds>,
    /// The receive part of the packet buffer in KB, a multiple of 8; `None` keeps the value after reset.
    pub rx_fifo_kb: Option<u8>,
    /// Let the device check IP, TCP and UDP checksums, on chips that can.
    pub rx_checksum: bool,
    /// Let the device cut off the FCS, on chips that can; otherwise the driver does.
    pub strip_fcs: bool,
    /// Strip VLAN tags on receive and allow their insertion on transmit, on chips that can.
    pub vlan: bool,
    /// Accept frames for any address.
    pub promiscuous: bool,
    /// The gap between frames sent back to back (TIPG), in byte times; at least 12 (IEEE 802.3).
    #[cfg_attr(feature = "serde", serde(default = "least_gap", skip_serializing_if = "is_least_gap"))]
    pub tx_gap_bytes: u16,
    /// Adaptive IFS (AIFS): the least gap between frames sent back to back, in byte times, if it is longer
    /// than [`tx_gap_bytes`](Self::tx_gap_bytes) (SDM 8.7.1). On the 82544 it is added to that gap (SDM table
    /// 13-78). 0: no gap. Public drivers raise it step by step, up to 80, while a half-duplex link has many
    /// collisions (`e1000_update_adaptive`); the links of this driver are full duplex, so it never changes
    /// the value.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero"))]
    pub tx_throttle_bytes: u16,
    /// IEEE 802.3x flow control.
    pub flow_control: FlowControl,
    /// Let [`Control::watchdog`](crate::Control::watchdog) raise RXDMT0, so that its next call makes up for a
    /// lost receive interrupt.
    pub rescue: bool,
    /// The station address; `None` takes the one in the EEPROM.
    pub address: Option<[u8; 6]>,
    /// The number of receive queues, and of transmit queues: 1, or 2 on the 82574
    /// ([`probe_queues`](crate::probe_queues)).
    #[cfg_attr(feature = "serde", serde(default = "queues::one", skip_serializing_if = "queues::is_one"))]
    pub queues: u8,
    /// The format of receive descriptors.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "RxFormat::is_best"))]
    pub rx_format: RxFormat,
    /// How frames are distributed over receive queues. `None`: [`Rss::DEFAULT`] with two queues, no hash with
    /// one.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub rss: Option<Rss>,
}

/// The shortest gap between frames in byte times (IEEE 802.3, 4.4.2), and the longest (IPGT has ten bits).
pub(crate) const LEAST_GAP_BYTES: u16 = 12;
const MOST_GAP_BYTES: u16 = 1000;

#[cfg(feature = "serde")]
const fn is_zero(bytes: &u16) -> bool {
    *bytes == 0
}

#[cfg(feature = "serde")]
const fn least_gap() -> u16 {
    LEAST_GAP_BYTES
}
#[cfg(feature = "serde")]
const fn is_least_gap(bytes: &u16) -> bool {
    *bytes == LEAST_GAP_BYTES
}

/// The largest reserve of CPU time for other work, in percent: the rest must suffice to receive frames.
pub(crate) const MOST_RESERVED: u8 = 90;

/// When the driver examines the device. Module [`service`](crate::service) implements these policies.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, rename_all = "kebab-case")
)]
pub enum Service {
    /// All work is done in the interrupt handler.
    InterruptLoop {
        /// The most turns of the loop in one interrupt.
        max_loops: u16,
        /// Mask the device's interrupts in the handler.
        mask: bool,
        /// The condition for another turn.
        again: Again,
    },
    /// The interrupt schedules polls, each with a budget.
    Napi {
        /// The most frames received in one poll.
        weight: u16,
        /// The exit rule: when polling ends.
        exit: NapiExit,
        /// Mask the device's interrupts while polling.
        mask: bool,
    },
    /// No interrupts.
    Polling {
        /// The most frames received in one poll.
        burst: u16,
    },
    /// Interrupts while the device is idle, otherwise polling. The driver measures pace and length of polling
    /// itself.
    SelfPacing {
        /// The most frames received in one poll.
        burst: u16,
        /// The share of CPU time that polling leaves to other work that needs it, at any load, in percent.
        #[cfg_attr(feature = "serde", serde(default))]
        reserve: u8,
        /// RDTR while polls find several frames, in 1.024 µs: how long the device may collect a cache line of
        /// descriptors before it writes them back. 0: [`Moderation::rdtr`] at all times. [`Moderation::rdtr`]
        /// also applies if it is not 0, and on chips whose timer [locks
        /// up](kpps_datasheet::Erratum::ReceiveDelayLockUp).
        #[cfg_attr(feature = "serde", serde(default))]
        polling_rdtr: u16,
    },
}

impl Service {
    /// The share of CPU time that the policy leaves to other work that needs it, at any load, in percent; 0
    /// if it does not measure that.
    #[must_use]
    pub const fn reserved(&self) -> u8 {
        match self {
            Self::SelfPacing { reserve, .. } => *reserve,
            Self::InterruptLoop { .. } | Self::Napi { .. } | Self::Polling { .. } => 0,
        }
    }
}

/// The condition for another turn of a [`Service::InterruptLoop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, rename_all = "kebab-case")
)]
pub enum Again {
    /// ICR, read again, shows a cause.
    Cause,
    /// The last turn received or reclaimed something.
    Work,
}

/// The NAPI exit rule: when a poll ends polling and unmasks interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, rename_all = "kebab-case")
)]
pub enum NapiExit {
    /// Nothing was reclaimed *and* less than the budget was received: both rings are done.
    BothIdle,
    /// Nothing was reclaimed *or* less than the budget was received. With this rule, polling ends far too
    /// often.
    EitherIdle,
    /// Less than the budget was received, whatever was reclaimed. Linux's e1000 has this rule where the
    /// transmit ring can be reclaimed in one poll.
    ReceiveIdle,
    /// The transmit ring is examined only in a poll that received nothing. Polling ends when nothing was
    /// reclaimed either.
    ReceiveFirst,
}

/// Where buffers for the receive ring come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, rename_all = "kebab-case")
)]
pub enum Buffers {
    /// The source gives a new buffer for each received one. A buffer that the consumer returns goes to the
    /// source.
    Fresh,
    /// The buffer that the consumer returns goes back into the ring. The source replaces buffers that the
    /// consumer keeps.
    Recycled,
}

/// When receive descriptors are refilled and the tail is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Refill {
    /// When descriptors are refilled.
    pub when: RefillWhen,
    /// Write the tail each time this many descriptors have been refilled. At most half of the ring, and at
    /// most the ring's size without the descriptors of the longest frame. 0: once at the end of each burst.
    pub group: u16,
    /// Count from the ring's beginning, and hold the last slot back. The tail is written with the number of a
    /// slot when that slot has been filled and its number is a multiple of `group`. Linux's e1000 did so from
    /// 5.x on (`e1000_alloc_rx_buffers`). A full ring of 256 then gives the device 240 descriptors.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
    pub aligned: bool,
}

/// When receive descriptors are refilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, rename_all = "kebab-case")
)]
pub enum RefillWhen {
    /// With each frame that is reaped.
    EachFrame,
    /// After the burst.
    AfterBurst,
}

/// When the device reports transmitted descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Completion {
    /// A frame asks for a report (RS) when this many descriptors have been used since the last request; 1:
    /// every frame. Above 1, [`TxQueue::flush`](crate::TxQueue::flush) still makes its last frame ask, unless
    /// the queue is [polled](crate::TxQueue::set_polled).
    pub report_every: u16,
    /// Which reports TIDV delays before they interrupt (IDE).
    pub delay: Delay,
}

/// Which transmit reports are delayed by TIDV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, rename_all = "kebab-case")
)]
pub enum Delay {
    /// None.
    Never,
    /// All.
    Always,
    /// All but every nth.
    ExceptEvery(u16),
}

/// Delays of interrupts. RADV, TADV and ITR are written only on chips that have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Moderation {
    /// RDTR: the receive interrupt waits this long after the last packet (on the 82542 and 82544: after the
    /// first), in 1.024 µs (SDM 13.4.30). 0: every write-back of a packet interrupts.
    pub rdtr: u16,
    /// RADV: the receive interrupt waits at most this long after the first packet, in 1.024 µs (SDM 13.4.31).
    /// 0: no limit.
    pub radv: u16,
    /// TIDV: a delayed report interrupts this long after the last one, in 1.024 µs; not 0 if any report is
    /// delayed (SDM 13.4.41).
    pub tidv: u16,
    /// TADV: a delayed report interrupts at most this long after the first one, in 1.024 µs (SDM 13.4.44). 0:
    /// no limit.
    pub tadv: u16,
    /// Interrupt throttling.
    pub itr: Itr,
}

/// Interrupt throttling (ITR). Rates that follow the traffic need a service that counts it:
/// [`Service::InterruptLoop`] or [`Service::Napi`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Itr {
    /// None.
    Off,
    /// At most this many interrupts a second.
    Fixed(u32),
    /// By the class of traffic since the last interrupt: 70,000, 20,000 or 4,000 a second.
    Dynamic,
    /// The same as `Dynamic`, but at most 20,000 a second.
    Conservative,
    /// Recomputed at each watchdog call: 2,000 a second plus 6,000 × |tx − rx| / (tx + rx).
    Ratio,
}

impl Itr {
    /// The rates that [`Fixed`](Self::Fixed) takes, in interrupts a second: what the register can count.
    pub const RATES: RangeInclusive<u32> = 60..=3_906_250;
}

/// The causes that interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Interrupts {
    /// RXT0: a frame was received, after its delay.
    pub rx_timer: bool,
    /// RXDMT0: few receive descriptors are left.
    pub rx_low: bool,
    /// RXO: frames were missed.
    pub rx_overrun: bool,
    /// RXSEQ: framing errors, fibre.
    pub rx_sequence: bool,
    /// LSC: the link changed.
    pub link: bool,
    /// TXDW: a transmit descriptor was reported.
    pub tx_done: bool,
    /// TXQE: the transmit ring ran empty.
    pub tx_empty: bool,
}

impl Interrupts {
    /// The IMS bits.
    pub const fn mask(self) -> u32 {
        use bit::cause::*;
        const fn select(on: bool, bit: u32) -> u32 {
            if on { bit } else { 0 }
        }
        select(self.rx_timer, RXT0)
            | select(self.rx_low, RXDMT0)
            | select(self.rx_overrun, RXO)
            | select(self.rx_sequence, RXSEQ)
            | select(self.link, LSC)
            | select(self.tx_done, TXDW)
            | select(self.tx_empty, TXQE)
    }
}

/// Free receive descriptors at which RXDMT0 is raised, as a part of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, rename_all = "kebab-case")
)]
pub enum RxLow {
    /// A half.
    Half,
    /// A quarter.
    Quarter,
    /// An eighth.
    Eighth,
}

/// Descriptor thresholds, in descriptors, each at most 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Thresholds {
    /// Prefetch when fewer than this are cached on chip, and …
    pub pthresh: u8,
    /// … at least this many are in host memory.
    pub hthresh: u8,
    /// Write back when this many are done. On transmit, 0 writes back one status byte at once. The 82543
    /// always gets 0 on transmit (erratum).
    pub wthresh: u8,
}

/// IEEE 802.3x flow control, offered in autonegotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, rename_all = "kebab-case")
)]
pub enum FlowControl {
    /// None.
    Off,
    /// Obey PAUSE.
    Receive,
    /// Send PAUSE.
    Transmit,
    /// Both.
    Full,
}

impl FlowControl {
    /// Whether PAUSE is obeyed.
    pub const fn receives(self) -> bool {
        matches!(self, Self::Receive | Self::Full)
    }
    /// Whether PAUSE is sent.
    pub const fn transmits(self) -> bool {
        matches!(self, Self::Transmit | Self::Full)
    }
}

impl Config {
    /// The driver's own policy: self-pacing, recycled buffers, one tail write for 32 frames, few reports.
    pub const fn kpps() -> Self {
        Self {
            rx_ring: 256,
            tx_ring: 256,
            rx_buffer_bytes: 2048,
            rx_copybreak_bytes: 0,
            max_frame_bytes: 1522,
            service: Service::SelfPacing { burst: 32, reserve: 0, polling_rdtr: 4 },
            buffers: Buffers::Recycled,
            refill: Refill { when: RefillWhen::EachFrame, group: 32, aligned: false },
            completion: Completion { report_every: 32, delay: Delay::Never },
            moderation: Moderation { rdtr: 0, radv: 0, tidv: 32, tadv: 64, itr: Itr::Off },
            interrupts: Interrupts {
                rx_timer: true,
                rx_low: true,
                rx_overrun: true,
                rx_sequence: true,
                link: true,
                tx_done: true,
                tx_empty: false,
            },
            flush_unmask: false,
            rx_low: RxLow::Half,
            rx_thresholds: None,
            tx_thresholds: None,
            rx_fifo_kb: None,
            rx_checksum: true,
            strip_fcs: true,
            vlan: false,
            promiscuous: false,
            tx_gap_bytes: LEAST_GAP_BYTES,
            tx_throttle_bytes: 0,
            flow_control: FlowControl::Off,
            rescue: true,
            address: None,
            queues: 1,
            rx_format: RxFormat::Best,
            rss: None,
        }
    }

    /// Checks that `chip` can run with this configuration. A feature that the chip lacks is no error: it
    /// stays off.
    ///
    /// # Errors
    /// [`Error::Config`] with the name of the field and the mistake.
    pub fn validate(&self, chip: Chip) -> Result<(), Error> {
        use Invalid as R;
        for (entry, size) in [("rx_ring", self.rx_ring), ("tx_ring", self.tx_ring)] {
            R::no_multiple(entry, size, 8)?;
            R::outside(entry, size, (chip.min_ring(), chip.max_ring()))?;
        }
        R::unless(
            bit::rctl::buffer_size(self.rx_buffer_bytes.into()).is_some(),
            "rx_buffer_bytes: not 256, 512, 1024, 2048, 4096, 8192 or 16384",
        )?;
        R::unless(
            self.rx_copybreak_bytes == 0 || !matches!(self.rx_format.on(chip), RxFormat::Split { .. }),
            "rx_copybreak_bytes: not possible with header split",
        )?;
        R::outside("tx_gap_bytes", self.tx_gap_bytes, (LEAST_GAP_BYTES, MOST_GAP_BYTES))?;
        R::outside("max_frame_bytes", self.max_frame_bytes, (64_u32, chip.max_frame_bytes()))?;
        let (entry, turns) = match self.service {
            Service::InterruptLoop { max_loops, .. } => ("service.interrupt-loop.max_loops", max_loops),
            Service::Napi { weight, .. } => ("service.napi.weight", weight),
            Service::Polling { burst } => ("service.polling.burst", burst),
            Service::SelfPacing { burst, .. } => ("service.self-pacing.burst", burst),
        };
        R::outside(entry, turns, (1_u16, u16::MAX))?;
        R::outside("service.self-pacing.reserve", self.service.reserved(), (0_u8, MOST_RESERVED))?;
        let reports = self.completion.report_every;
        R::outside("completion.report_every", reports, (1_u16, (self.tx_ring / 2).max(1)))?;
        R::unless(
            self.completion.delay != Delay::ExceptEvery(0),
            "completion.delay.except-every: 0 is not within 1 to 65535",
        )?;
        R::unless(
            self.completion.delay == Delay::Never || self.moderation.tidv > 0,
            "moderation.tidv: 0 is not allowed when reports are delayed (completion.delay is not never)",
        )?;
        if let Itr::Fixed(rate) = self.moderation.itr {
            R::outside("moderation.itr.fixed", rate, (*Itr::RATES.start(), *Itr::RATES.end()))?;
        }
        R::unless(
            !(matches!(self.moderation.itr, Itr::Dynamic | Itr::Conservative | Itr::Ratio)
                && matches!(self.service, Service::Polling { .. } | Service::SelfPacing { .. })),
            "moderation.itr: dynamic, conservative and ratio need a service that counts traffic: interrupt-loop or napi",
        )?;
        for (entries, thresholds) in [
            (["rx_thresholds.pthresh", "rx_thresholds.hthresh", "rx_thresholds.wthresh"], self.rx_thresholds),
            (["tx_thresholds.pthresh", "tx_thresholds.hthresh", "tx_thresholds.wthresh"], self.tx_thresholds),
        ] {
            let Some(Thresholds { pthresh, hthresh, wthresh }) = thresholds else { continue };
            for (entry, threshold) in entries.into_iter().zip([pthresh, hthresh, wthresh]) {
                R::outside(entry, threshold, (0_u8, chip.max_threshold()))?;
            }
        }
        let tx_wthresh = match self.tx_thresholds {
            Some(t) if !chip.has(Erratum::TransmitWriteBackThreshold) => t.wthresh,
            _ => 0,
        };
        R::unless(
            reports == 1 || tx_wthresh == 0,
            "tx_thresholds.wthresh: must be 0 when not every frame is reported (completion.report_every is above 1)",
        )?;
        if let Some(kb) = self.rx_fifo_kb {
            R::no_multiple("rx_fifo_kb", kb, 8)?;
            R::outside("rx_fifo_kb", kb, (8_u32, chip.max_rx_buffer_bytes() / 1024))?;
        }
        if self.refill.aligned {
            R::outside("refill.group", self.refill.group, (2_u16, (self.rx_ring / 2).max(2)))?;
        }
        self.validate_queues(chip)?;
        R::unless(self.address.is_none_or(|a| a[0] & 1 == 0 && a != [0; 6]), "address: not a station address")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn own_config_suits_every_chip() {
        for chip in Chip::ALL {
            assert_eq!(Config::kpps().validate(chip), Ok(()));
        }
    }

    #[test]
    fn impossible_configs_are_refused() {
        let bad: [fn(&mut Config); 13] = [
            |c| c.rx_ring = 81,
            |c| c.tx_ring = 512,
            |c| c.rx_buffer_bytes = 1500,
            |c| c.max_frame_bytes = 63,
            |c| c.service = Service::Polling { burst: 0 },
            |c| c.service = Service::SelfPacing { burst: 8, reserve: 91, polling_rdtr: 0 },
            |c| c.completion.report_every = 200,
            |c| {
                c.completion.delay = Delay::Always;
                c.moderation.tidv = 0;
            },
            |c| c.moderation.itr = Itr::Fixed(1),
            |c| c.moderation.itr = Itr::Dynamic,
            |c| {
                c.service = Service::Polling { burst: 8 };
                c.moderation.itr = Itr::Ratio;
            },
            |c| c.rx_fifo_kb = Some(60),
            |c| c.address = Some([1, 0, 0, 0, 0, 0]),
        ];
        for change in bad {
            let mut config = Config::kpps();
            change(&mut config);
            assert!(matches!(config.validate(Chip::I82543gc), Err(Error::Config(_))), "{config:?}");
        }
    }

    /// On both sides of each limit.
    #[test]
    fn limits() {
        type Change = fn(&mut Config);
        fn thresholds(pthresh: u8, hthresh: u8, wthresh: u8) -> Option<Thresholds> {
            Some(Thresholds { pthresh, hthresh, wthresh })
        }
        let cases: [(Chip, Change, bool); 21] = [
            (Chip::I82540em, |c| c.completion.report_every = 0, false),
            (Chip::I82540em, |c| c.completion.report_every = 128, true),
            (Chip::I82540em, |c| c.completion.report_every = 129, false),
            (Chip::I82540em, |c| c.rx_thresholds = thresholds(63, 63, 63), true),
            (Chip::I82540em, |c| c.rx_thresholds = thresholds(64, 0, 0), false),
            (Chip::I82540em, |c| c.rx_thresholds = thresholds(0, 64, 0), false),
            (Chip::I82540em, |c| c.rx_thresholds = thresholds(0, 0, 64), false),
            (Chip::I82540em, |c| c.tx_thresholds = thresholds(63, 63, 0), true),
            (Chip::I82540em, |c| c.tx_thresholds = thresholds(64, 64, 0), false),
            // A write-back threshold needs a report of each frame, where the chip gets one.
            (Chip::I82540em, |c| c.tx_thresholds = thresholds(0, 0, 1), false),
            (Chip::I82543gc, |c| c.tx_thresholds = thresholds(0, 0, 1), true),
            (Chip::I82540em, |c| c.rx_fifo_kb = Some(0), false),
            (Chip::I82540em, |c| c.rx_fifo_kb = Some(8), true),
            (Chip::I82540em, |c| c.rx_fifo_kb = Some(12), false),
            (Chip::I82540em, |c| c.rx_fifo_kb = Some(56), true),
            (Chip::I82540em, |c| c.rx_fifo_kb = Some(64), false),
            (Chip::I82574l, |c| c.rx_fifo_kb = Some(32), true),
            (Chip::I82574l, |c| c.rx_fifo_kb = Some(40), false),
            (Chip::I82540em, |c| (c.refill.aligned, c.refill.group) = (true, 1), false),
            (Chip::I82540em, |c| (c.refill.aligned, c.refill.group) = (true, 128), true),
            (Chip::I82540em, |c| (c.refill.aligned, c.refill.group) = (true, 129), false),
        ];
        for (chip, change, good) in cases {
            let mut config = Config::kpps();
            change(&mut config);
            assert_eq!(config.validate(chip).is_ok(), good, "{chip}: {config:?}");
        }
    }

    #[test]
    fn mask_of_the_manual_driver() {
        let i = Config::kpps().interrupts;
        assert_eq!(i.mask(), 0xDD);
    }
}

#[cfg(all(test, feature = "serde"))]
mod data_tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_config_is_data() {
        let mut config = Config::kpps();
        config.moderation.itr = Itr::Fixed(8_000);
        config.completion.delay = Delay::ExceptEvery(60);
        config.rx_thresholds = Some(Thresholds { pthresh: 1, hthresh: 2, wthresh: 3 });
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
        for itr in [Itr::Off, Itr::Dynamic, Itr::Conservative, Itr::Ratio, Itr::Fixed(60)] {
            config.moderation.itr = itr;
            let text = toml::to_string(&config).unwrap();
            assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
        }
        config.moderation.itr = Itr::Fixed(8_000);
        assert!(text.contains("[service.self-pacing]"), "{text}");
        assert!(!text.contains("rx_format"), "{text}");
        config.rx_format = RxFormat::Legacy;
        let legacy = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&legacy).unwrap(), config);
        assert!(toml::from_str::<Config>(&text.replace("burst", "brust")).is_err());
        assert!(toml::from_str::<Config>(&text.replace("rescue", "rescued")).is_err());
    }

    /// The numbers are those of Intel's `e1000_param.c`.
    #[test]
    fn throttling_is_written_in_the_drivers_own_words() {
        #[derive(serde::Deserialize)]
        struct Entry {
            itr: Itr,
        }
        let read =
            |text: &str| toml::from_str::<Entry>(&alloc::format!("itr = {text}")).map(|entry| entry.itr);
        for (text, itr) in [
            ("0", Itr::Off),
            ("1", Itr::Dynamic),
            ("3", Itr::Conservative),
            ("60", Itr::Fixed(60)),
            ("8000", Itr::Fixed(8_000)),
            ("'8000'", Itr::Fixed(8_000)),
            ("{ fixed = 100000 }", Itr::Fixed(100_000)),
            ("'off'", Itr::Off),
            ("'dynamic'", Itr::Dynamic),
            ("'conservative'", Itr::Conservative),
            ("'ratio'", Itr::Ratio),
        ] {
            assert_eq!(read(text).unwrap(), itr, "{text}");
        }
        for text in ["2", "59", "-1", "3906251", "99999999999", "'fast'", "'fixed'", "8000.0", "true", "{}"] {
            assert!(read(text).is_err(), "{text}");
        }
        let refused = read("2").err().unwrap();
        assert!(refused.message().contains("conservative (3)"), "{refused}");
    }
}
