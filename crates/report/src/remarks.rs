//! Remarks that come before the results, in sentences.

use kpps_results::{Latency, Trial};

/// The remarks on points: loads that the generator could not send, clocks that differ.
pub fn remarks<'p>(points: impl Iterator<Item = &'p Trial> + Clone) -> Vec<String> {
    let clocks = clock_error(points.clone().map(|point| point.latency_ns));
    above_ceiling(points).into_iter().chain(clocks).collect()
}

fn above_ceiling<'p>(points: impl Iterator<Item = &'p Trial>) -> Option<String> {
    let above = points.filter_map(|point| Some((point.offered_pps, point.ceiling_pps?)));
    let above: Vec<_> = above.filter(|(offered, ceiling)| offered > ceiling).map(|(_, pps)| pps).collect();
    let least = above.iter().copied().reduce(f64::min)?;
    Some(format!(
        "The generator can send {:.1} kpps here: of {} loads above that, part of the loss is its shortfall.",
        least / 1e3,
        above.len()
    ))
}

/// The error of latencies by two clocks; of several the largest.
pub fn clock_error(latencies: impl Iterator<Item = Latency>) -> Option<String> {
    let worst = latencies.filter_map(|latency| latency.error_ns).max()?;
    Some(format!(
        "Latencies are by the clocks of two hosts, compared before and after each trial: within ±{:.1} µs.",
        worst as f64 / 1e3
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_told_what_limits_points() {
        let point = |offered_pps, ceiling_pps, error_ns| Trial {
            offered_pps,
            ceiling_pps,
            latency_ns: Latency { error_ns, ..Latency::default() },
            ..Trial::default()
        };
        let points = [point(1e5, Some(2e5), None), point(1e5, None, None)];
        assert_eq!(remarks(points.iter()), [""; 0]);
        let points =
            [point(3e5, Some(2e5), Some(1500)), point(4e5, Some(1.9e5), Some(9000)), points[0].clone()];
        let [sender, clocks] = &remarks(points.iter())[..] else { panic!("two remarks") };
        assert!(sender.contains("190.0 kpps") && sender.contains("2 loads"), "{sender}");
        assert!(clocks.contains("±9.0 µs"), "{clocks}");
    }
}
