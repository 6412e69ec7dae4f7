//! The loads at which a search measures.

/// Loads in steps of just less than the width that a search asks for: two neighbours are bounds that are near
/// enough, and a halved distance never gets smaller than that. All goals of a search have the same ladder, so
/// a trial for one of them counts for all.
pub(super) struct Ladder {
    from_pps: f64,
    /// The ratio of neighbours, as a logarithm.
    step: f64,
}

impl Ladder {
    /// A ladder for this width, with a rung just below a rate: a load of exactly what a device delivers is
    /// the hardest to decide.
    pub fn new(delivered_pps: f64, width: f64) -> Self {
        let step = -(1.0 - width).ln() * WITHIN;
        Self { from_pps: delivered_pps * (-step * BELOW).exp(), step }
    }

    /// The load of a rung, in frames per second.
    pub fn load_pps(&self, rung: f64) -> f64 {
        grid(self.from_pps * (rung * self.step).exp(), f64::round)
    }

    /// Where a load is, in rungs.
    pub fn rung(&self, load_pps: f64) -> f64 {
        let rung = (load_pps / self.from_pps).ln() / self.step;
        // A load of the ladder is on it, in spite of its rounding.
        if (rung - rung.round()).abs() < 1e-6 { rung.round() } else { rung }
    }
}

/// The distance of rungs as a share of the width: less than all of it, so that bounds a width apart, as the
/// rates of NDR and PDR often are, are not at the edge of a step.
const WITHIN: f64 = 0.99;
/// How far below the rate the rung is, in rungs.
const BELOW: f64 = 0.02;

/// Rounds a load to 12 digits, so that writing and reading it does not change it.
pub(super) fn grid(pps: f64, to_whole: fn(f64) -> f64) -> f64 {
    let scale = 10_f64.powi(11 - pps.max(1e-9).log10().floor() as i32);
    to_whole(pps * scale) / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_just_near_enough() {
        let ladder = Ladder::new(700e3, 0.005);
        for rung in [-300.0, -1.0, 0.0, 1.0, 150.0] {
            let (lower, upper) = (ladder.load_pps(rung), ladder.load_pps(rung + 1.0));
            let width = (upper - lower) / upper;
            assert!((0.0049..0.005).contains(&width), "{rung}: {width}");
            assert_eq!(ladder.rung(lower), rung);
        }
        assert!((699_900.0..700e3).contains(&ladder.load_pps(0.0)));
    }

    #[test]
    fn a_load_has_twelve_digits() {
        assert_eq!(
            [1e7 / 3.0, 0.1, 1e9 + 0.01].map(|x| grid(x, f64::floor)),
            [3_333_333.333_33, 0.1, 1e9 + 0.01]
        );
    }
}
