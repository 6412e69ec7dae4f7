//! Disturbances that kept a generator from its CPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pauses of a generator: times in which it was ready to send and something else had its CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// Frames that became due in pauses and were not sent: a part of the generator's shortfall.
    pub frames: u64,
    /// Pauses that cost frames.
    pub pauses: u64,
    /// The longest of them; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<Pause>,
}

impl Disturbance {
    /// The disturbances of two generators together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            pauses: self.pauses + other.pauses,
            longest: self.longest.into_iter().chain(other.longest).max_by_key(|pause| pause.lasted_ns),
        }
    }

    /// The disturbance, as a part of a sentence.
    pub fn words(&self) -> String {
        let Some(longest) = &self.longest else { return "something disturbed the generator".into() };
        let more = match self.pauses {
            0 | 1 => String::new(),
            2 => ", and once more".into(),
            pauses => format!(", and {} times more", pauses - 1),
        };
        format!("{}{more}", longest.words())
    }
}

/// A time in which a generator did not run although it was ready to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// When it began, in ns since sending began.
    pub at_ns: u64,
    /// How long the generator waited, in ns.
    pub lasted_ns: u64,
    /// The generator's CPU, if it was bound to one.
    pub cpu: Option<u32>,
    /// The user of the CPU, or the reason that kept it from the generator.
    pub by: PausedBy,
}

impl Pause {
    /// The pause as a part of a sentence: "other programs had CPU 0 for 4.3 ms at 0.61 s".
    pub fn words(&self) -> String {
        let cpu = self.cpu.map_or("the generator's CPU".into(), |cpu| format!("CPU {cpu}"));
        let when = format!("for {:.1} ms at {:.2} s", self.lasted_ns as f64 / 1e6, self.at_ns as f64 / 1e9);
        match &self.by {
            PausedBy::Programs => format!("other programs had {cpu} {when}"),
            PausedBy::Hypervisor => format!("the host of this virtual machine had {cpu} {when}"),
            PausedBy::Quota { group } => {
                format!("the CPU quota of the control group {group} was used up {when}")
            }
        }
    }
}

/// The user of a generator's CPU, or the reason that kept it from the generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum PausedBy {
    /// Other programs.
    #[default]
    Programs,
    /// The host of a virtual machine.
    Hypervisor,
    /// The quota of a control group.
    Quota {
        /// Its path.
        group: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_says_who_had_the_cpu_when_and_for_how_long() {
        let pause = Pause { at_ns: 612_000_000, lasted_ns: 4_310_000, cpu: Some(0), by: PausedBy::Programs };
        let one = Disturbance { frames: 80, pauses: 1, longest: Some(pause.clone()) };
        assert_eq!(one.words(), "other programs had CPU 0 for 4.3 ms at 0.61 s");
        let quota = PausedBy::Quota { group: "/build".into() };
        let longer = Pause { at_ns: 0, lasted_ns: 80_000_000, cpu: None, by: quota };
        let both = one.clone().and(Disturbance { frames: 7, pauses: 2, longest: Some(longer) });
        assert_eq!((both.frames, both.pauses), (87, 3));
        assert_eq!(
            both.words(),
            "the CPU quota of the control group /build was used up for 80.0 ms at 0.00 s, and 2 times more"
        );
        let stolen = Pause { by: PausedBy::Hypervisor, ..pause };
        assert!(stolen.words().starts_with("the host of this virtual machine had CPU 0 for 4.3 ms"));
        assert_eq!(Disturbance::default().and(one.clone()), one);
    }
}
