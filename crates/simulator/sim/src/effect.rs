//! Refuses changes of constants that no part of the simulation reads: they would have no effect.

use crate::stack_params::StackParams;
use kpps_datasheet::{Chip, Erratum};
use kpps_driver::Config;
use kpps_driver::config::Service;
use kpps_profiles::{Change, Kind, To};

/// The activity of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// One card receives, on one CPU.
    Receive,
    /// Two cards receive and send, on one CPU, with the app of this name between them.
    Forward(&'static str),
    /// One card receives, and a process reads the datagrams from a socket.
    ReceiveByProcess,
    /// One card sends, on one CPU.
    Send,
    /// One card sends the datagrams of a process, on one CPU.
    SendByProcess,
    /// Several cards or receive queues receive, on as many CPUs as the machine has.
    ReceiveOnAll,
}

impl Activity {
    fn receives(self) -> bool {
        !self.only_sends()
    }
    fn sends(self) -> bool {
        matches!(self, Self::Forward(_)) || self.only_sends()
    }
    fn only_sends(self) -> bool {
        matches!(self, Self::Send | Self::SendByProcess)
    }
}

/// Entries of driver presets, chips and rate-limited NICs that only a sender reads.
const OF_SENDING: [&str; 23] = [
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
    "report_packet_sent",
];

/// Entries of driver presets and chips that only a receiver reads.
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

/// Entries of stacks, hosts and work that only sockets and the processes behind them read. A process that
/// receives datagrams reads these.
const OF_READERS: [&str; 9] = [
    "udp_cycles",
    "wake_cycles",
    "switch_cycles",
    "receive_call_cycles",
    "receive_segment_cycles",
    "buffer_overhead_bytes",
    "datagram_bytes",
    "socket_lines",
    "socket_queue",
];

/// The other entries of this kind. Only studies simulate the processes that read them.
const OF_OTHER_PROCESSES: [&str; 13] = [
    "packet_check_cycles",
    "packet_queue_cycles",
    "packet_call_cycles",
    "packet_lines",
    "tcp_cycles",
    "prequeue_cycles",
    "tcp_ack_cycles",
    "stream_bytes",
    "tick_cycles",
    "tick_ps",
    "time_slice_ms",
    "dma_copy_ps",
    "dma_copy_byte_ps",
];

/// Entries of rate-limited NICs that only a receiver reads, beside [`OF_RECEIVING`].
const OF_NICS_RECEIVING: [&str; 2] = ["rx_fifo_bytes", "rx_fetch"];

/// Entries of rate-limited NICs that only a driver with several queues reads.
const OF_QUEUES: [&str; 4] = ["rx_queues", "weight", "refill_every", "header_bytes"];

/// Entries of hosts, stacks and work that have an effect only if one CPU changes memory that another CPU has
/// in its cache.
const OF_SEVERAL_CPUS: [&str; 6] =
    ["line_transfer_ps", "queue_lines", "bridge_lines", "route_lines", "nat_lines", "ring_lines"];

/// Entries of stacks that only a sender reads.
const OF_STACKS_SENDING: [&str; 8] = [
    "enqueue_cycles",
    "transmit_cycles",
    "transmit_queue",
    "to_device_burst",
    "to_device_queue",
    "queue_cycles",
    "output_cycles",
    "start_cycles",
];

/// Where a driver is served.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServedBy {
    /// In its interrupt handler.
    Interrupt,
    /// In a poll at softirq level (NAPI).
    Softirq,
    /// In a thread, or by the clock.
    Polling,
    /// In a thread, as the driver says.
    Itself,
}

impl ServedBy {
    /// The service of a driver of the e1000.
    pub fn of(service: &Service) -> Self {
        match service {
            Service::InterruptLoop { .. } => Self::Interrupt,
            Service::Napi { .. } => Self::Softirq,
            Service::Polling { .. } => Self::Polling,
            Service::SelfPacing { .. } => Self::Itself,
        }
    }
}

/// The parts of a simulation that read constants, and its activity.
pub(crate) struct Readers<'s> {
    pub activity: Activity,
    /// The e1000 and the driver's choices; `None` with a rate-limited NIC.
    pub e1000: Option<(Chip, &'s Config)>,
    /// Where the driver is served; `None` if each of several queues has its own.
    pub service: Option<ServedBy>,
    /// The constants of the operating system's stack.
    pub stack: &'s StackParams,
    /// The entry of the machine's `bus` that holds for the card.
    pub bus: &'s str,
    /// Whether the card is given beside the machine.
    pub card_is_given: bool,
    /// Whether two cards with an app between them interrupt a CPU each.
    pub spreads_interrupts: bool,
}

impl Readers<'_> {
    /// Refuses a change that no part of the simulation reads. A change that names its profile is not checked:
    /// it applies only in simulations with this profile.
    ///
    /// # Errors
    /// The name of the constant, and the reason why it has no effect.
    pub(crate) fn check(&self, changes: &[Change]) -> Result<(), String> {
        for change in changes.iter().filter(|change| change.is_named() && change.profile.is_none()) {
            if let Some(why) = self.ignored(change) {
                let (kind, constant) = (change.kind.word(), &change.constant);
                return Err(format!("{kind}.{constant} has no effect: {why}"));
            }
        }
        Ok(())
    }

    fn ignored(&self, change: &Change) -> Option<String> {
        // The locked operations of a step have an effect where its cycles have.
        let constant = match change.constant.strip_suffix("_locks") {
            Some(step) if change.kind == Kind::Stack => format!("{step}_cycles"),
            _ => change.constant.clone(),
        };
        let steps: Vec<&str> = constant.split('.').collect();
        let is = |names: &[&str]| steps.iter().any(|step| names.contains(step));
        match change.kind {
            Kind::Machine => self.of_machine(&steps, &change.to),
            Kind::Driver | Kind::Chip | Kind::Nic if !self.activity.sends() && is(&OF_SENDING) => {
                Some("this simulation sends no frames".to_owned())
            }
            Kind::Driver | Kind::Chip | Kind::Nic if !self.activity.receives() && is(&OF_RECEIVING) => {
                Some("this simulation receives no frames".to_owned())
            }
            Kind::Nic if !self.activity.receives() && is(&OF_NICS_RECEIVING) => {
                Some("this simulation receives no frames".to_owned())
            }
            Kind::Nic if self.activity != Activity::ReceiveOnAll && is(&OF_QUEUES) => {
                Some("the driver of this simulation has one queue, without NAPI".to_owned())
            }
            Kind::Host | Kind::Stack | Kind::Work
                if (is(&OF_READERS) || is(&OF_OTHER_PROCESSES)) && !self.has_process(&steps) =>
            {
                Some("no process reads from a socket in this simulation".to_owned())
            }
            Kind::Host | Kind::Stack | Kind::Work if is(&OF_SEVERAL_CPUS) && self.is_on_one_cpu() => {
                Some("this simulation uses one CPU only".to_owned())
            }
            Kind::Host | Kind::Stack
                if self.activity == Activity::ReceiveByProcess
                    && is(&OF_SEVERAL_CPUS)
                    && steps != ["line_transfer_ps"] =>
            {
                Some("no frame leaves this machine".to_owned())
            }
            Kind::Stack => self.of_stack(&steps),
            Kind::Chip => match *steps.first()? {
                "port" if self.chooses_port() => {
                    Some("the simulation itself chooses the port of the card".to_owned())
                }
                "mpe_passes_broadcasts" => {
                    Some("the driver always accepts broadcasts by RCTL.BAM".to_owned())
                }
                "swsm" => Some("the driver does not use this register".to_owned()),
                "slu_at_reset" => Some("the driver sets CTRL.SLU itself".to_owned()),
                "eeprom_ps" => Some("the driver reads the EEPROM before a trial begins".to_owned()),
                _ => None,
            },
            // An app's cards send PAUSE frames, which take time on the wire.
            Kind::Driver
                if steps == ["flow_control"] && !self.is_app() && change.to != To::Set("off".into()) =>
            {
                Some("the simulator's wire does not obey PAUSE frames".to_owned())
            }
            Kind::Driver => self.e1000.and_then(|(chip, config)| of_driver(chip, config, &steps)),
            _ => None,
        }
    }

    fn is_app(&self) -> bool {
        matches!(self.activity, Activity::Forward(_))
    }

    /// Whether a change of the card's port number has no effect, because the simulation chooses the number or
    /// the load does not depend on it. The exception is a receiver on a card with one port: its address is
    /// that of the port that the user named.
    fn chooses_port(&self) -> bool {
        let has_two = self.e1000.is_some_and(|(chip, _)| chip == Chip::I82546eb);
        self.activity.sends() || has_two
    }

    /// Whether a process or a thread of this simulation reads this entry of [`OF_READERS`] or
    /// [`OF_OTHER_PROCESSES`].
    fn has_process(&self, steps: &[&str]) -> bool {
        match self.activity {
            Activity::ReceiveByProcess => steps.iter().any(|step| OF_READERS.contains(step)),
            // A sender that sleeps is switched to.
            Activity::SendByProcess => steps == ["switch_cycles"],
            _ => self.switches(steps),
        }
    }

    /// Whether this constant is the cost of a switch to the thread with which FreeBSD polls a driver.
    fn switches(&self, steps: &[&str]) -> bool {
        let is_paced = self.service == Some(ServedBy::Itself);
        steps == ["switch_cycles"] && is_paced && matches!(self.stack, StackParams::FreeBsd(_))
    }

    fn is_on_one_cpu(&self) -> bool {
        match self.activity {
            Activity::ReceiveOnAll => false,
            Activity::Forward(_) => !self.spreads_interrupts,
            Activity::ReceiveByProcess => !matches!(self.stack, StackParams::Linux24(_)),
            Activity::Receive | Activity::Send | Activity::SendByProcess => true,
        }
    }

    fn of_stack(&self, steps: &[&str]) -> Option<String> {
        let app = match self.activity {
            Activity::Forward(app) => Some(app),
            _ => None,
        };
        let is_polled = self.service == Some(ServedBy::Polling);
        let first = *steps.first()?;
        if !self.activity.sends() && OF_STACKS_SENDING.contains(&first) {
            return Some("this simulation sends no frames".to_owned());
        }
        if let Some(service) = self.service
            && let Some(why) = self.of_service(service, first)
        {
            return Some(why.to_owned());
        }
        let lacks = match first {
            "bridge_cycles" if app != Some("bridge") => "no bridge",
            "nat_cycles" if app != Some("nat") => "no NAT",
            "vlan_cycles" if app != Some("vlan-route") => "no router between VLANs",
            // `ip_rcv` of a datagram for a process.
            "ip_cycles" if self.activity == Activity::ReceiveByProcess => return None,
            "route_cycles" | "forward_cycles" | "ip_cycles" if app.is_none_or(|app| app == "bridge") => {
                "no router"
            }
            "polling" if !is_polled => "no card that is polled by polling(4)",
            _ => return None,
        };
        Some(format!("this simulation has {lacks}"))
    }

    /// The reason why a stack does not read this entry here, if it reads it only for drivers with another
    /// service policy, or for another activity.
    fn of_service(&self, service: ServedBy, entry: &str) -> Option<&'static str> {
        let in_interrupt = service == ServedBy::Interrupt;
        let by_softirq = service == ServedBy::Softirq;
        let has_backlog = in_interrupt && self.activity.receives();
        let sends_only = self.activity.only_sends();
        let is_app = self.is_app();
        let no_backlog = "no driver of this simulation hands frames to netif_rx";
        let no_softirq = "no softirq receives frames in this simulation";
        let no_elements = "the app of this simulation has no counting elements";
        let no_queue = "frames of this sender go through no queue";
        match (self.stack, entry) {
            (StackParams::Linux22(_) | StackParams::Linux24(_), "netif_rx_cycles" | "backlog")
            | (StackParams::Linux24(_), "backlog_weight")
                if !has_backlog =>
            {
                Some(no_backlog)
            }
            (StackParams::Linux22(_) | StackParams::Linux24(_), "element_cycles" | "element_ps")
                if is_app =>
            {
                Some(no_elements)
            }
            (StackParams::Linux22(params), "element_cycles") if params.element_ps.is_some() => {
                Some("the profile has element_ps, which replaces it")
            }
            (StackParams::Linux22(_), "from_device_queue" | "from_device_burst" | "net_bh_cycles")
                if !has_backlog && (!by_softirq || sends_only) =>
            {
                Some("no frame reaches Click through net_bh in this simulation")
            }
            (StackParams::Linux22(_), "bottom_half_cycles") if !has_backlog && !by_softirq => {
                Some("no bottom half runs in this simulation")
            }
            (StackParams::Linux22(_), "softirq_budget" | "softirq_restarts") if !by_softirq => {
                Some(no_softirq)
            }
            (StackParams::Linux22(_), "thread_slice_ps") if !in_interrupt && !by_softirq => {
                Some("the thread of this simulation yields after each turn")
            }
            (StackParams::Linux22(_), "to_device_queue" | "queue_cycles") if sends_only => Some(no_queue),
            (
                StackParams::Linux24(_),
                "softirq_cycles" | "softirq_budget" | "softirq_restarts" | "softirq_time_ps" | "poll_cycles",
            ) if !has_backlog && !by_softirq => Some(no_softirq),
            (StackParams::Linux24(_), "thread_slice_ps") if !has_backlog && !by_softirq && !sends_only => {
                Some(no_softirq)
            }
            (StackParams::Linux24(_), "task_cycles") if (in_interrupt || by_softirq) && !sends_only => {
                Some("no thread polls or sends in this simulation")
            }
            (StackParams::Linux24(_), "enqueue_cycles" | "transmit_queue") if sends_only => Some(no_queue),
            (StackParams::Linux24(_), "receive_cycles") if sends_only => {
                Some("this simulation receives no frames")
            }
            (StackParams::Linux24(_), "watchdog_ps") => Some("each trial is shorter than this limit"),
            (StackParams::FreeBsd(_), "output_cycles" | "system_call_cycles") if !sends_only => {
                Some("no process sends in this simulation")
            }
            (
                StackParams::FreeBsd(_),
                "input_cycles" | "input_queue" | "netisr_cycles" | "receive_cycles",
            ) if sends_only => Some("this simulation receives no frames"),
            (StackParams::FreeBsd(_), "element_cycles") if is_app => Some(no_elements),
            (StackParams::FreeBsd(_), "poll_cycles") if in_interrupt => Some("this simulation polls no card"),
            _ => None,
        }
    }

    fn of_machine(&self, steps: &[&str], to: &To) -> Option<String> {
        match *steps {
            ["nic"] if self.e1000.is_some() => Some(
                "the card of this simulation is no rate-limited NIC; `kpps curve`, `kpps transmit` and `kpps scale` \
                 can simulate one"
                    .to_owned(),
            ),
            ["chip"] if self.e1000.is_none() => {
                Some("the card of this simulation is a rate-limited NIC".to_owned())
            }
            ["nic" | "chip"] if self.card_is_given => {
                Some("another argument already chooses the card".to_owned())
            }
            ["affinity"] if !self.is_app() => Some("this simulation has no app between two cards".to_owned()),
            ["affinity"] if *to == To::Set("spread".into()) && !self.spreads_interrupts => {
                Some("the system of this machine uses one CPU only".to_owned())
            }
            // The number of CPUs limits the lists of an allocator that gives pages back, even if one works.
            ["cpus"] if self.is_on_one_cpu() && self.stack.buffers().slab.is_none() => {
                Some("this simulation uses one CPU only".to_owned())
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
    (config.moderation.rdtr > 0).then(|| "moderation.rdtr is not 0, and applies at all times".to_owned())
}
