//! The audit of a foreign guest: its driver on our model of a card, and the steps that the guest reached.

use crate::{Environment, Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of a [`GuestAudit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestAuditKind {
    /// A foreign guest on a model of its card.
    #[default]
    GuestAudit,
}

/// A guest of any operating system, whose network card was our model. Guest and card have clocks of their
/// own: times say how fast this host emulated the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuestAudit {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: GuestAuditKind,
    /// The environment: `chip` is the modelled card, `bus` its bus; `system` has the architecture (`arch`),
    /// QEMU's version (`QEMU`), its options for the guest (`options`), properties of the card beyond the
    /// manual (`quirks`), and the chosen or drawn faults with their seed (`faults`).
    pub environment: Environment,
    /// Whether the run came to its end: it was not interrupted, and neither guest nor QEMU stopped early.
    pub complete: bool,
    /// Why the run ended.
    pub ended: String,
    /// Why the audit says little, with the console's last words: the guest or QEMU ended early, an awaited
    /// text did not appear on the console, the guest never accessed the card, or a comparison failed. Null if
    /// nothing of this happened.
    pub failure: Option<String>,
    /// How long the guest ran, in s of the host.
    pub seconds: f64,
    /// The steps of the guest, in the order in which they are usually reached.
    pub steps: Vec<Step>,
    /// The driver's breaches of the manual, the gravest first.
    pub findings: Vec<Finding>,
    /// The driver's work with the card.
    pub work: Work,
    /// Linux's driver on the same model under the same stimuli, to compare with; null if that was not tried.
    pub linux: Option<LinuxWork>,
    /// The faults of card and cable that the guest was given, in order of time.
    pub faults: Vec<Fault>,
    /// The last lines on the guest's console.
    pub console: Vec<String>,
}

impl GuestAudit {
    /// The number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// The steps that were asked for and not reached.
    pub fn missed(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.wanted && step.ours.reached != Some(true))
    }

    /// Whether all steps that were asked for were reached on QEMU's own card, as far as that is known; `None`
    /// if it was not tried.
    pub fn works_on_qemu(&self) -> Option<bool> {
        let wanted = self.steps.iter().filter(|step| step.wanted);
        let known = wanted.filter_map(|step| step.qemu.as_ref()?.reached);
        known.reduce(|all, reached| all && reached)
    }
}

/// Something that a guest reaches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Its name: `link`, `first frame`, `arp`, `ping`, `flood`, `dhcp`, …
    pub name: String,
    /// Whether it was asked for. Other steps are shown if they were reached.
    pub wanted: bool,
    /// On our model.
    pub ours: Reached,
    /// On QEMU's own card; absent if that was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu: Option<Reached>,
}

/// Whether a guest reached something.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reached {
    /// Whether it was reached; null if it was not tried, or cannot be known.
    pub reached: Option<bool>,
    /// When, in s of the host since the guest's start; null if it was not reached.
    pub at_s: Option<f64>,
    /// Numbers about it: "20 of 20 answered".
    pub detail: String,
}

/// How grave a finding is, by the manual's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The manual demands it, or a card cannot work.
    #[default]
    Must,
    /// The manual recommends it, or does not settle it.
    Should,
    /// It is allowed, and costs something or is unusual.
    Info,
}

impl Severity {
    /// All of them, the gravest first.
    pub const ALL: [Self; 3] = [Self::Must, Self::Should, Self::Info];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::Info => "info",
        }
    }
}

/// A breach of the manual by a driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The name of the rule.
    pub rule: String,
    /// How grave it is.
    pub severity: Severity,
    /// The section that it breaks: `manual 13.4.1` (8254x Software Developer's Manual, 317453), or one of
    /// a standard.
    pub section: String,
    /// The register, or the part of memory.
    pub place: String,
    /// A sentence that describes the driver's action.
    pub sentence: String,
    /// A sentence that describes the reaction of a real card.
    pub silicon: String,
    /// A sentence with the remedy; empty if there is none.
    pub advice: String,
    /// How often.
    pub count: u64,
    /// When it first happened, in s of the host since the guest's start.
    pub first_s: f64,
    /// The access or the descriptor that shows it.
    pub first: String,
    /// Whether the guest reached all wanted steps on QEMU's own card in spite of it; null if QEMU's card was
    /// not tried.
    pub qemu_does_not_care: Option<bool>,
}

/// The work of a driver with its card, from the start to the end of the run. Values for each frame leave out
/// the driver's set-up: they count accesses and frames, sent and received, from the moment when the link was
/// up and the receiver enabled for the first time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Frames that the guest sent with a right FCS.
    pub sent: u64,
    /// Frames that the guest sent with a wrong FCS: the other end drops them.
    pub sent_bad_fcs: u64,
    /// Frames that arrived at the card.
    pub arrived: u64,
    /// Frames that were stored in the guest's memory.
    pub received: u64,
    /// Frames that the card dropped: filtered, damaged, without room.
    pub dropped: u64,
    /// How often the interrupt line rose.
    pub interrupts: u64,
    /// Register reads for each frame; null without frames, or if the receiver was never ready.
    pub reads_per_frame: Option<f64>,
    /// Register writes for each frame; null as before.
    pub writes_per_frame: Option<f64>,
    /// Interrupts for each frame; null as before.
    pub interrupts_per_frame: Option<f64>,
    /// Reads of registers, by name.
    pub reads: BTreeMap<String, u64>,
    /// Writes of registers, by name.
    pub writes: BTreeMap<String, u64>,
}

/// The work of Linux's driver on the same model, under those of the stimuli that its kernel answers by
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinuxWork {
    /// The version of the kernel.
    pub kernel: String,
    /// The stimuli that it was given and responded to: of `link`, `arp`, `ping`, `flood`, `overrun` and
    /// `link-flap`.
    pub stimuli: Vec<String>,
    /// The work from the start of the driver to the end of the stimuli.
    pub work: Work,
}

/// A fault of card or cable that the guest was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// Its name.
    pub name: String,
    /// When it began, in s of the host since the guest's start.
    pub at_s: f64,
    /// How long the guest did not answer from then on, in s; null if it never answered again.
    pub deaf_s: Option<f64>,
    /// Whether the guest answered after it.
    pub came_back: bool,
}
