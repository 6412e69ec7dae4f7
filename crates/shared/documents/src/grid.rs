//! A grid: a trial for each combination of the values of some parameters.

use crate::json::to_json;
use crate::{Environment, Schema, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

/// The kind of a [`Grid`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GridKind {
    /// A grid.
    #[default]
    Grid,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Setting {
    /// On or off.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// One of several choices.
    Word(String),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => on.fmt(f),
            Self::Whole(whole) => whole.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
        }
    }
}

/// A parameter and its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// A constant's path, as `driver.rx_ring`; or `load` in frames per second, `size` in bytes with FCS,
    /// `driver`, `chip` or `machine`.
    pub parameter: String,
    /// Its values, in the order in which they were given.
    pub values: Vec<Setting>,
}

/// The result of one combination of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The index of the value on each axis.
    pub at: Vec<usize>,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<Trial>,
    /// The reason for a missing result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A trial for each combination of the values of some parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grid {
    /// The version of this document.
    pub schema: Schema,
    /// The kind of this document.
    pub kind: GridKind,
    /// The fields of the environment that all cells share.
    pub environment: Environment,
    /// The parameters.
    pub axes: Vec<Axis>,
    /// The measured cells; the last axis varies fastest.
    pub cells: Vec<Cell>,
    /// Whether every cell exists; false after an interruption.
    pub complete: bool,
}

impl Grid {
    /// A document: sorts the cells and rounds every value.
    pub fn new(environment: Environment, axes: Vec<Axis>, mut cells: Vec<Cell>) -> Self {
        cells.sort_by(|a, b| a.at.cmp(&b.at));
        for cell in &mut cells {
            cell.point = cell.point.take().map(Trial::rounded);
        }
        let complete = cells.len() == axes.iter().map(|axis| axis.values.len()).product::<usize>();
        Self { schema: Schema::default(), kind: GridKind::Grid, environment, axes, cells, complete }
    }

    /// The document as JSON, ending in a newline.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        to_json(self)
    }

    /// The parameters whose values make no difference: cells that differ only in such a parameter have equal
    /// results, and there are such cells.
    pub fn idle_parameters(&self) -> Vec<&str> {
        let is_idle = |axis: usize| {
            let mut of_the_rest: BTreeMap<Vec<usize>, &Trial> = BTreeMap::new();
            let mut compared = 0;
            for cell in &self.cells {
                let (Some(point), true) = (&cell.point, axis < cell.at.len()) else { continue };
                let mut rest = cell.at.clone();
                rest.remove(axis);
                match of_the_rest.entry(rest) {
                    Entry::Vacant(first) => _ = first.insert(point),
                    Entry::Occupied(first) if *first.get() == point => compared += 1,
                    Entry::Occupied(_) => return false,
                }
            }
            compared > 0
        };
        let idle = self.axes.iter().enumerate().filter(|(axis, _)| is_idle(*axis));
        idle.map(|(_, axis)| axis.parameter.as_str()).collect()
    }

    /// A cell's values, one of each axis.
    pub fn values<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Setting> {
        self.axes.iter().zip(&cell.at).filter_map(|(axis, &at)| axis.values.get(at))
    }
}
