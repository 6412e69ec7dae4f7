//! Constants that were set and would change nothing, because the simulation has nothing that reads them.

use kpps_datasheet::{Chip, Erratum};
use kpps_driver::Config;
use kpps_driver::config::Service;
use kpps_profiles::{Change, Kind};

/// What a simulation does with its cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// One receives, on one CPU.
    Receive,
    /// Two receive and send, on one CPU, with the app of this name between them.
    Forward(&'static str),
    /// One sends, on one CPU.
    Send,
    /// Some receive, on as many CPUs as the machine has.
    ReceiveOnAll,
}

impl Activity {
    fn receives(self) -> bool {
        self != Self::Send
    }
    fn sends(self) -> bool {
        matches!(self, Self::Forward(_) | Self::Send)
    }
}

/// Entries of driver presets, chips and rate-limited NICs that are read for sending only.
const OF_SENDING: [&str; 22] = [
    "tx_ring",
    "completion",
    "report_every",
    "delay",
    "except-every",
    "tidv",
    "tadv",
    "tx_done",
    "tx_empty",
    "tx_thresholds",
    "tx_gap_bytes",
    "tx_throttle_bytes",
    "transmit_queue",
    "transmit_tail",
    "tx_engine_ps",
    "tx_context_ps",
    "tx_fifo_overhead_bytes",
    "tidv_from",
    "tx_descriptor_ps",
    "tx_descriptors",
    "tx_interrupt_every",
    "tx_watermark",
];

/// The same of receiving.
const OF_RECEIVING: [&str; 24] = [
    "rx_ring",
    "rx_buffer_bytes",
    "rx_copybreak_bytes",
    "refill",
    "group",
    "when",
    "aligned",
    "rdtr",
    "radv",
    "rx_timer",
    "rx_low",
    "rx_overrun",
    "rx_sequence",
    "rx_thresholds",
    "rx_checksum",
    "strip_fcs",
    "promiscuous",
    "rescue",
    "rx_format",
    "checksum_status",
    "rx_engine_ps",
    "rx_idle_report_ps",
    "rx_fifo_overhead_bytes",
    "rdtr_from",
];

/// Entries of stacks and hosts that sockets and the processes behind them read: those of the studies.
const OF_PROCESSES: [&str; 22] = [
    "packet_check_cycles",
    "packet_queue_cycles",
    "packet_call_cycles",
    "packet_lines",
    "udp_cycles",
    "tcp_cycles",
    "prequeue_cycles",
    "tcp_ack_cycles",
    "wake_cycles",
    "switch_cycles",
    "receive_call_cycles",
    "receive_segment_cycles",
    "buffer_overhead_bytes",
    "datagram_bytes",
    "stream_bytes",
    "socket_lines",
    "socket_queue",
    "tick_cycles",
    "tick_ps",
    "time_slice_ms",
    "dma_copy_ps",
    "dma_copy_byte_ps",
];

/// Entries of hosts, stacks and work that count where one CPU changes what another had in its cache.
const OF_SEVERAL_CPUS: [&str; 6] =
    ["line_transfer_ps", "queue_lines", "bridge_lines", "route_lines", "nat_lines", "ring_lines"];

/// What reads constants in a simulation, beside its activity.
pub(crate) struct Readers<'s> {
    pub activity: Activity,
    /// The e1000 and the driver's choices; `None` with a rate-limited NIC.
    pub e1000: Option<(Chip, &'s Config)>,
    /// The entry of the machine's `bus` that holds for the card.
    pub bus: &'s str,
    /// Whether the card is given beside the machine.
    pub card_is_given: bool,
}

impl Readers<'_> {
    /// Refuses a change that nothing reads. Changes of one profile by name are for whichever simulation has
    /// it.
    ///
    /// # Errors
    /// The constant, and the reason.
    pub(crate) fn check(&self, changes: &[Change]) -> Result<(), String> {
        for change in changes.iter().filter(|change| change.profile.is_none()) {
            if let Some(why) = self.ignored(change) {
                let (kind, constant) = (change.kind.word(), &change.constant);
                return Err(format!("{kind}.{constant} has no effect: {why}"));
            }
        }
        Ok(())
    }

    fn ignored(&self, change: &Change) -> Option<String> {
        let steps: Vec<&str> = change.constant.split('.').collect();
        let is = |names: &[&str]| steps.iter().any(|step| names.contains(step));
        match change.kind {
            Kind::Machine => self.of_machine(&steps),
            Kind::Driver | Kind::Chip | Kind::Nic if !self.activity.sends() && is(&OF_SENDING) => {
                Some("nothing is sent here".to_owned())
            }
            Kind::Driver | Kind::Chip if !self.activity.receives() && is(&OF_RECEIVING) => {
                Some("nothing is received here".to_owned())
            }
            Kind::Host | Kind::Stack | Kind::Work if is(&OF_PROCESSES) => {
                Some("no process reads from a socket here".to_owned())
            }
            Kind::Host | Kind::Stack | Kind::Work if is(&OF_SEVERAL_CPUS) && self.is_on_one_cpu() => {
                Some("one CPU does the work here".to_owned())
            }
            Kind::Stack => self.of_stack(&steps),
            Kind::Driver => self.e1000.and_then(|(chip, config)| of_driver(chip, config, &steps)),
            _ => None,
        }
    }

    fn is_on_one_cpu(&self) -> bool {
        self.activity != Activity::ReceiveOnAll
    }

    fn of_stack(&self, steps: &[&str]) -> Option<String> {
        let app = match self.activity {
            Activity::Forward(app) => Some(app),
            Activity::Receive | Activity::ReceiveOnAll | Activity::Send => None,
        };
        let is_polled =
            self.e1000.is_some_and(|(_, config)| matches!(config.service, Service::Polling { .. }));
        let lacks = match *steps.first()? {
            "bridge_cycles" if app != Some("bridge") => "no bridge",
            "nat_cycles" if app != Some("nat") => "no NAT",
            "vlan_cycles" if app != Some("vlan-route") => "no router between VLANs",
            "route_cycles" | "forward_cycles" if app.is_none_or(|app| app == "bridge") => "no router",
            "polling" if !is_polled => "no card that is polled by polling(4)",
            _ => return None,
        };
        Some(format!("there is {lacks} here"))
    }

    fn of_machine(&self, steps: &[&str]) -> Option<String> {
        match *steps {
            ["nic"] if self.e1000.is_some() => Some("the card is no rate-limited NIC here".to_owned()),
            ["chip"] if self.e1000.is_none() => Some("the card is a rate-limited NIC here".to_owned()),
            ["nic" | "chip"] if self.card_is_given => Some("the card is given beside it".to_owned()),
            ["cpus"] if self.e1000.is_some() && self.is_on_one_cpu() => {
                Some("one CPU does the work here".to_owned())
            }
            ["bus", entry] if entry != self.bus => {
                Some(format!("the card's bus is machine.bus.{}", self.bus))
            }
            _ => None,
        }
    }
}

/// Whether the driver leaves a feature off because the chip lacks it, or another choice overrides it.
fn of_driver(chip: Chip, config: &Config, steps: &[&str]) -> Option<String> {
    let last = *steps.last()?;
    let lacks = match last {
        "radv" | "tadv" | "itr" | "fixed" if !chip.has_radv_tadv_itr() => "such a timer",
        "rx_checksum" if !chip.has_checksum_offload() => "checksum offload",
        "vlan" if !chip.has_vlan() => "VLAN tags",
        "strip_fcs" if !chip.has_fcs_strip() => "removal of the FCS",
        "rx_format" if !chip.has_extended_rx() => "another format of descriptors",
        _ => "",
    };
    if !lacks.is_empty() {
        return Some(format!("the {} does not have {lacks}", chip.name()));
    }
    let Service::SelfPacing { .. } = config.service else { return None };
    if last != "polling_rdtr" {
        return None;
    }
    if chip.has(Erratum::ReceiveDelayLockUp) {
        return Some(format!("the receive timer of the {} locks up", chip.name()));
    }
    (config.moderation.rdtr > 0).then(|| "moderation.rdtr is not 0, and holds at all times".to_owned())
}
