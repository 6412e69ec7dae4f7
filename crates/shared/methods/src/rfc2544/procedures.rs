//! The procedures of RFC 2544 beside throughput: frame loss rate, and back-to-back frames with the correction
//! of RFC 9004.
//!
//! Each depends only on the results of its trials, not on the testbed, so it can be resumed.

use crate::runner::Pattern;
use kpps_documents::Trial;

/// RFC 2544, 26.3: steps of a tenth of the highest rate, down until two trials in a row have lost nothing.
///
/// # Errors
/// The first error of a trial.
pub fn frame_loss<E>(
    max_pps: f64,
    seconds: f64,
    found: &mut Vec<Trial>,
    mut measure: impl FnMut(Pattern) -> Result<Trial, E>,
) -> Result<(), E> {
    for tenth in (1..=10).rev() {
        found.push(measure(Pattern::Rate(max_pps * f64::from(tenth) / 10.0, seconds))?);
        if let [.., before, last] = &found[..]
            && before.exact_loss_ratio() == 0.0
            && last.exact_loss_ratio() == 0.0
        {
            break;
        }
    }
    Ok(())
}

/// The longest burst that loses nothing, in frames, at most `most`; 0 if even one frame is lost (RFC 2544,
/// 26.4). The result is exact to a hundredth or to one frame.
///
/// # Errors
/// The first error of a trial.
pub fn longest_burst<E>(
    pps: f64,
    most: u64,
    mut measure: impl FnMut(Pattern) -> Result<Trial, E>,
) -> Result<u64, E> {
    let mut passes = |frames| Ok(measure(Pattern::Burst(pps, frames))?.exact_loss_ratio() == 0.0);
    if passes(most)? {
        return Ok(most);
    }
    // An empty burst has no loss.
    let (mut good, mut bad) = (0, most);
    while bad - good > (good / 100).max(1) {
        let middle = good + (bad - good) / 2;
        *(if passes(middle)? { &mut good } else { &mut bad }) = middle;
    }
    Ok(good)
}

/// The system's buffer as a time at the highest rate, in s, by the longest burst of `frames`. While they
/// arrive the system forwards at its throughput, so not all of them are in the buffer at once (RFC 9004,
/// section 6.4).
pub fn corrected_buffer_s(frames: f64, max_pps: f64, throughput_pps: f64) -> f64 {
    frames / max_pps * (1.0 - throughput_pps / max_pps).max(0.0)
}

/// The mean of a few numbers; `None` of none.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::Ledger;
    use std::convert::Infallible;

    /// Forwards `pps` frames a second, and has a buffer for some more.
    fn system(pps: f64, buffer: f64) -> impl FnMut(Pattern) -> Result<Trial, Infallible> {
        move |ask| {
            let (load_pps, seconds) = match ask {
                Pattern::Rate(load, seconds) => (load, seconds),
                Pattern::Burst(load, frames) => (load, frames as f64 / load),
                _ => unreachable!("not used here"),
            };
            let sent = (load_pps * seconds).round();
            let lost = ((load_pps - pps) * seconds - buffer).clamp(0.0, sent).floor();
            let (sent, delivered) = (sent as u64, (sent - lost) as u64);
            Ok(Trial::new(load_pps, seconds, [sent, 0, delivered], Ledger::default()).unwrap())
        }
    }

    #[test]
    fn loss_is_measured_downwards_until_there_is_none_twice() {
        let mut found = Vec::new();
        frame_loss(1e6, 1.0, &mut found, system(650_000.0, 0.0)).unwrap();
        let loads: Vec<_> = found.iter().map(|trial| trial.offered_pps).collect();
        assert_eq!(loads, [1e6, 9e5, 8e5, 7e5, 6e5, 5e5]);
        assert!(found[3].loss_ratio > 0.0 && found[4].loss_ratio == 0.0);
        found.clear();
        frame_loss(1e6, 1.0, &mut found, system(1.0, 0.0)).unwrap();
        assert_eq!(found.len(), 10, "it ends at a tenth");
    }

    #[test]
    fn a_buffer_is_found_by_its_longest_burst() {
        let (max, throughput, buffer) = (1e6, 600_000.0, 1000.0);
        let burst = longest_burst(max, 2_000_000, system(throughput, buffer)).unwrap();
        // 1000 frames more than went on meanwhile, and the part of a frame that is not lost yet.
        let expected = buffer / (1.0 - throughput / max);
        assert!((burst as f64 - expected).abs() <= expected / 100.0 + 3.0, "{burst}, {expected}");
        let corrected = corrected_buffer_s(burst as f64, max, throughput);
        assert!((corrected - buffer / max).abs() < 2e-5, "{corrected}");
        assert_eq!(longest_burst(max, 5000, system(max, 0.0)).unwrap(), 5000, "nothing is ever lost");
        assert_eq!(longest_burst(1e6, 5000, system(0.0, 0.0)).unwrap(), 0);
        assert_eq!((mean([1.0, 2.0]), mean([])), (Some(1.5), None));
    }
}
