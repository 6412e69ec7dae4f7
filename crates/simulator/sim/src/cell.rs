//! The settings of a grid's cell: its load, and its machine if that is simulated.

use crate::Choice;
use kpps_documents::grid::{Axis, Setting};
use kpps_frames::Mix;
use kpps_methods::units::{self, RateSpec};

/// The load of a cell, and its machine if that is simulated.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The simulated machine; not used on other testbeds.
    pub choice: Choice,
    /// The sizes of frames; `None` for the testbed's default.
    pub sizes: Option<Mix>,
    /// The offered load.
    pub offered: RateSpec,
}

/// Parameters of the load: the only ones of testbeds that are not simulated.
const OF_THE_LOAD: [&str; 2] = ["size", "load"];

impl Cell {
    /// The parameters that are no constants.
    pub const PARTS: [&str; 7] = ["load", "size", "driver", "chip", "machine", "app", "one-way"];

    fn set(&mut self, parameter: &str, value: &Setting, is_simulated: bool) -> Result<(), String> {
        match parameter {
            "size" => self.sizes = Some(units::sizes(&value.to_string())?),
            "load" => self.offered = value.to_string().parse()?,
            part if is_simulated => self.choice.change(part, value)?,
            other => {
                return Err(format!(
                    "this testbed has no parameter {other}: its parameters are load and size"
                ));
            }
        }
        Ok(())
    }

    /// The cell at these places of the axes; its other settings are those of `self`.
    ///
    /// # Errors
    /// A value that it cannot have.
    pub fn at(&self, axes: &[Axis], at: &[usize], is_simulated: bool) -> Result<Self, String> {
        let mut cell = self.clone();
        let values = axes.iter().zip(at).filter_map(|(axis, &at)| Some((axis, axis.values.get(at)?)));
        for (axis, value) in values {
            cell.set(&axis.parameter, value, is_simulated)?;
        }
        Ok(cell)
    }

    /// Refuses values of the axes that no cell can have.
    ///
    /// # Errors
    /// The first wrong setting, and its mistake.
    pub fn check(&self, axes: &[Axis], is_simulated: bool) -> Result<(), String> {
        for Axis { parameter, values } in axes {
            let is_part = is_simulated && !OF_THE_LOAD.contains(&parameter.as_str());
            for value in values {
                let set = self.clone().set(parameter, value, is_simulated);
                let checked =
                    set.and_then(|()| if is_part { self.choice.check(parameter, value) } else { Ok(()) });
                checked.map_err(|why| format!("{parameter}={value}: {why}"))?;
            }
        }
        if is_simulated {
            self.choice.check_constants(axes)?;
        }
        Ok(())
    }
}
