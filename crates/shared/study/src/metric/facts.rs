//! Facts about a configuration: the numbers of a profile, a mix of frame sizes. Nothing is simulated.

use super::setting::configuration;
use super::{Context, Values};
use kpps_frames::{Mix, rate};
use kpps_profiles::{Kind, Profile};
use serde::Deserialize;
use toml::Value;

#[derive(Deserialize)]
struct OfProfile {
    kind: String,
    name: String,
}

/// Every number of the profile `name`, and 1 or 0 for each boolean, by its name: `moderation_rdtr` for
/// `moderation.rdtr`.
pub(super) fn profile(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: OfProfile = configuration(of)?;
    let kind: Kind = of.kind.parse()?;
    let profile = Profile::named(kind, &of.name).and_then(|profile| profile.changed(&context.changes));
    let mut values = Values::new();
    for constant in profile.map_err(|error| error.to_string())?.constants() {
        numbers(&constant.name, &constant.value, &mut values);
    }
    Ok(values)
}

fn numbers(name: &str, value: &Value, into: &mut Values) {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Boolean(truth) => f64::from(u8::from(*truth)),
        Value::Table(table) => {
            return table.iter().for_each(|(inner, value)| numbers(&format!("{name}_{inner}"), value, into));
        }
        _ => return,
    };
    into.insert(name.replace('-', "_"), number.into());
}

#[derive(Deserialize)]
struct OfMix {
    mix: String,
}

/// `mean_bytes` of a mix, with FCS, and `line_pps`, the frame rate that fills a gigabit link.
pub(super) fn mix(of: toml::Table, _: &Context) -> Result<Values, String> {
    let of: OfMix = configuration(of)?;
    let mix: Mix = of.mix.parse().map_err(|error: kpps_frames::mix::UnknownMix| error.to_string())?;
    let values = [("mean_bytes", mix.mean_bytes_with_fcs()), ("line_pps", mix.line_rate_pps(rate::GIGABIT))];
    Ok(values.map(|(name, value)| (name.to_owned(), value.into())).into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_of_a_profile_have_its_names() {
        let context = Context { changes: Vec::new(), go_on: &|| true };
        let of = "kind = 'driver'\nname = 'intel-5.7.6'".parse().unwrap();
        let values = profile(of, &context).unwrap();
        assert_eq!(values["service_napi_weight"], 64.0.into());
        assert_eq!(values["moderation_itr_fixed"], 8000.0.into());
        assert_eq!(values["rescue"], 1.0.into());
        assert!(!values.contains_key("buffers"));
        assert!(profile("kind = 'driver'\nname = 'x'".parse().unwrap(), &context).is_err());
        assert!(mix("mix = 'imix'".parse().unwrap(), &context).is_err());
    }
}
