//! Predictions for a real system before it was measured, and the results. Nothing is simulated: the
//! predictions are in a file that was committed before the measurement (`lab/`). A command can generate that
//! file again.

use super::setting::configuration;
use super::{Context, Values};
use serde::Deserialize;

/// Predictions and measurements by name: comma-separated values with the columns of [`NAMED`] and
/// [`QUANTITIES`]. Lines that begin with # are remarks.
const FILES: [(&str, &str, &str); 1] = [(
    "lab2026",
    include_str!("../../../../../lab/lab2026/predicted-2026-11-26.csv"),
    include_str!("../../../../../lab/lab2026/measured-2026-11-26.csv"),
)];
/// Where the share of the CPU's time is among a point's quantities.
const CPU_BUSY: usize = 1;
/// The columns that identify a point.
const NAMED: [&str; 4] = ["app", "setting", "size", "offered_pps"];
/// The predicted quantities of a point, and the names of the values here.
const QUANTITIES: [(&str, &str); 3] =
    [("delivered_pps", "delivered"), ("cpu_busy", "cpu"), ("interrupts_per_s", "interrupts")];

#[derive(Deserialize)]
struct Of {
    /// The files' name.
    of: String,
    /// Only points of this app.
    app: Option<String>,
    /// Only points of settings that begin with this.
    setting: Option<String>,
    /// Only frames of this size, in bytes with FCS.
    frame_bytes: Option<u32>,
    /// Only points at which the system's CPU was busy for at least this share of the time.
    least_cpu_busy: Option<f64>,
    /// Points of these settings with the smallest frames are left out: the model was calibrated on them.
    #[serde(default)]
    calibrated_on: Vec<String>,
    /// The error up to which a prediction is right, as a share of the measured value.
    tolerance: f64,
}

/// A point: its names, and its quantities.
struct Point<'a> {
    names: [&'a str; 4],
    quantities: [f64; 3],
}

fn points(file: &'static str) -> Result<Vec<Point<'static>>, String> {
    let mut lines = file.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let expected = NAMED.into_iter().chain(QUANTITIES.map(|(column, _)| column));
    let head = lines.next().unwrap_or_default();
    if !head.split(',').eq(expected) {
        return Err(format!("the columns are {head}"));
    }
    lines
        .map(|line| {
            let fields: Vec<_> = line.split(',').collect();
            let [app, setting, size, offered, delivered, cpu, interrupts] = fields[..] else {
                return Err(format!("{line}: not seven columns"));
            };
            let number = |text: &str| text.parse::<f64>().map_err(|_| format!("{line}: {text} is no number"));
            Ok(Point {
                names: [app, setting, size, offered],
                quantities: [number(delivered)?, number(cpu)?, number(interrupts)?],
            })
        })
        .collect()
}

/// The error of a prediction, as a share of the measured value.
fn error(predicted: f64, measured: f64) -> f64 {
    if predicted == measured { 0.0 } else { (predicted - measured).abs() / measured }
}

/// `points`, and of each quantity (`delivered`, `cpu`, `interrupts`): `…_within`, the share of the points
/// that are right within the tolerance; `…_median`, the median error, and `…_most`, the largest error of a
/// quantity that was not measured as 0, as shares of the measured value.
pub(super) fn run(of: toml::Table, _: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let Some((_, predicted, measured)) = FILES.into_iter().find(|(name, ..)| *name == of.of) else {
        return Err(format!("there are no predictions called '{}'", of.of));
    };
    let measured = points(measured)?;
    let size = of.frame_bytes.map(|bytes| bytes.to_string());
    let wanted = |point: &Point| {
        let [app, setting, bytes, _] = point.names;
        let calibrated = bytes == "64" && of.calibrated_on.iter().any(|on| on == setting);
        !calibrated
            && of.app.as_ref().is_none_or(|wanted| wanted == app)
            && of.setting.as_ref().is_none_or(|wanted| setting.starts_with(wanted))
            && size.as_ref().is_none_or(|wanted| wanted == bytes)
    };
    let mut errors = [const { Vec::new() }; 3];
    for point in points(predicted)?.into_iter().filter(wanted) {
        let Some(came_out) = measured.iter().find(|other| other.names == point.names) else {
            return Err(format!("{} was predicted and not measured", point.names.join(" ")));
        };
        if of.least_cpu_busy.is_some_and(|least| came_out.quantities[CPU_BUSY] < least) {
            continue;
        }
        for (index, errors) in errors.iter_mut().enumerate() {
            errors.push(error(point.quantities[index], came_out.quantities[index]));
        }
    }
    let mut values = Values::new();
    values.insert("points".into(), (errors[0].len() as f64).into());
    for ((_, name), mut errors) in QUANTITIES.into_iter().zip(errors) {
        errors.sort_by(f64::total_cmp);
        let within = errors.iter().filter(|error| **error <= of.tolerance).count();
        let share = (!errors.is_empty()).then(|| within as f64 / errors.len() as f64);
        values.insert(format!("{name}_within"), share.into());
        values.insert(format!("{name}_median"), errors.get(errors.len() / 2).copied().into());
        let most = errors.iter().copied().rfind(|error| error.is_finite());
        values.insert(format!("{name}_most"), most.into());
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::metric::Value;

    fn taken(of: &str) -> Result<Values, String> {
        run(toml::from_str(of).unwrap(), &Context { changes: Vec::new(), go_on: &|| true })
    }

    #[test]
    fn points_on_which_the_model_was_calibrated_do_not_count() {
        let points = |of| taken(of).unwrap()["points"].clone();
        let base = "of = 'lab2026'\ntolerance = 0.15\napp = 'route'\nframe_bytes = 64\nsetting = 'base'\n";
        assert_eq!(points(base), Value::from(10.0));
        assert_eq!(points(&*format!("{base}calibrated_on = ['base']")), Value::from(0.0));
        assert!(taken("of = 'lab1999'\ntolerance = 0.15").is_err());
    }

    #[test]
    fn an_error_is_a_share_of_what_was_measured() {
        assert_eq!((error(0.0, 0.0), error(90.0, 100.0)), (0.0, 0.1));
        assert!(error(1.0, 0.0).is_infinite());
    }
}
