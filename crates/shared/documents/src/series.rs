//! Curves.

use crate::Trial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One curve: a preset under rising load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// The name of the preset.
    pub name: String,
    /// The trials, by rising offered load.
    pub points: Vec<Trial>,
}

impl Series {
    /// The point with the highest rate that is sustained; of nearly equal ones that with the lowest load.
    pub fn peak(&self) -> Option<&Trial> {
        let most = self.points.iter().map(Trial::sustained_pps).fold(0.0, f64::max);
        self.points.iter().find(|p| p.sustained_pps() >= 0.999 * most)
    }
}
