//! When the frames of a paced load are due.

use std::time::Duration;

/// How the frames of a paced load follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Shape {
    /// All gaps are equal.
    #[default]
    Constant,
    /// Gaps are exponentially distributed, as those of many independent senders: a Poisson process.
    Poisson {
        /// Which one of all such loads.
        seed: u64,
    },
    /// So many frames at once, and then a pause: the rate is that of the whole.
    Bursts(u64),
    /// The rate rises or falls evenly from this one, in frames per second, over a time.
    Ramp(f64, Duration),
    /// After a time another rate, in frames per second.
    Then(Duration, f64),
}

impl Shape {
    /// As it is typed, if it is not the usual one.
    pub fn unusual(self) -> Option<String> {
        match self {
            Self::Constant => None,
            Self::Poisson { seed } => Some(format!("poisson:{seed}")),
            Self::Bursts(frames) => Some(format!("bursts:{frames}")),
            Self::Ramp(from, over) => Some(format!("ramp:{from}/{}s", over.as_secs_f64())),
            Self::Then(after, pps) => Some(format!("then:{}s/{pps}", after.as_secs_f64())),
        }
    }
}

/// When each frame of a load is due, in s from its start.
#[derive(Clone, Debug)]
pub struct Timetable {
    pps: f64,
    shape: Shape,
    /// Of a Poisson process: frames so far, when the next is due, and what the gaps follow from.
    drawn: (u64, f64, u64),
}

impl Timetable {
    /// Of a load of so many frames per second.
    pub fn new(pps: f64, shape: Shape) -> Self {
        let seed = if let Shape::Poisson { seed } = shape { seed } else { 0 };
        let mut table = Self { pps, shape, drawn: (0, 0.0, seed) };
        table.drawn.1 = table.draw();
        table
    }

    /// The gap of frames that are equally far apart, in ns; `None` if they are not.
    pub fn gap_ns(&self) -> Option<f64> {
        (self.shape == Shape::Constant).then(|| 1e9 / self.pps)
    }

    /// The next gap of a Poisson process, in s.
    fn draw(&mut self) -> f64 {
        // SplitMix64 (Steele et al., OOPSLA 2014).
        let state = &mut self.drawn.2;
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - unit).ln() / self.pps
    }

    /// Frames that are due before a time. Time never goes back.
    #[inline]
    pub fn before(&mut self, s: f64) -> f64 {
        match self.shape {
            Shape::Constant => s * self.pps,
            Shape::Bursts(frames) => (s * self.pps / frames as f64).ceil() * frames as f64,
            Shape::Ramp(from, over) => {
                let over = over.as_secs_f64();
                let rising = s.min(over);
                let rise = if over > 0.0 { (self.pps - from) * rising * rising / (2.0 * over) } else { 0.0 };
                from * rising + rise + self.pps * (s - rising)
            }
            Shape::Then(after, pps) => {
                let first = s.min(after.as_secs_f64());
                self.pps * first + pps * (s - first)
            }
            Shape::Poisson { .. } => self.drawn(s) as f64,
        }
    }

    /// Frames that are due at a time, or were before.
    #[inline]
    pub fn due(&mut self, s: f64) -> u64 {
        match self.shape {
            Shape::Bursts(frames) => ((s * self.pps / frames as f64) as u64 + 1) * frames,
            Shape::Poisson { .. } => self.drawn(s),
            // The first frame is due at the start.
            _ => self.before(s) as u64 + 1,
        }
    }

    fn drawn(&mut self, s: f64) -> u64 {
        while self.drawn.1 <= s {
            self.drawn.0 += 1;
            self.drawn.1 += self.draw();
        }
        self.drawn.0
    }

    /// When the frame behind those that are due is due.
    pub fn next_s(&self, due: u64) -> f64 {
        let due = due as f64;
        match self.shape {
            Shape::Constant | Shape::Bursts(_) => due / self.pps,
            Shape::Ramp(from, over) => {
                let over = over.as_secs_f64();
                let risen = (from + self.pps) / 2.0 * over;
                if due >= risen {
                    return over + (due - risen) / self.pps;
                }
                // from t + a t² = due, without a difference of what may be nearly equal.
                let a = (self.pps - from) / (2.0 * over);
                2.0 * due / (from + (from * from + 4.0 * a * due).max(0.0).sqrt())
            }
            Shape::Then(after, pps) => {
                let after = after.as_secs_f64();
                let first = self.pps * after;
                if due <= first { due / self.pps } else { after + (due - first) / pps }
            }
            Shape::Poisson { .. } => self.drawn.1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Goes through a timetable as a sender does, always looking when the next frame is due.
    fn times(pps: f64, shape: Shape, until_s: f64) -> Vec<f64> {
        let mut table = Timetable::new(pps, shape);
        let (mut now, mut times) = (0.0, Vec::new());
        while now < until_s {
            let due = table.due(now + 1e-12) as usize;
            assert!(due <= 1_000_000);
            times.resize(due.max(times.len()), now);
            let next = table.next_s(due as u64);
            assert!(next > now, "{shape:?}: {next} after {now}");
            now = next;
        }
        times
    }

    #[test]
    fn a_load_has_as_many_frames_as_its_rate_and_time_say() {
        for (shape, frames) in [
            (Shape::Constant, 1000),
            (Shape::Bursts(50), 1000),
            (Shape::Ramp(0.0, SECOND), 500),
            (Shape::Ramp(2000.0, SECOND), 1500),
            (Shape::Ramp(500.0, SECOND / 2), 875),
            (Shape::Then(SECOND / 4, 100.0), 325),
        ] {
            let times = times(1000.0, shape, 0.999_999);
            assert_eq!(times.len(), frames, "{shape:?}");
            let before = Timetable::new(1000.0, shape).before(0.999_999_999);
            assert!((before - frames as f64).abs() < 0.01, "{shape:?} {before}");
        }
        let bursts = times(1000.0, Shape::Bursts(50), 0.2);
        assert_eq!((bursts[49], bursts[50], bursts[99]), (0.0, 0.05, 0.05));
        // A rate that falls at half of the time.
        let then = times(1000.0, Shape::Then(SECOND / 2, 10.0), 1.0);
        assert!((then[501] - then[500] - 0.1).abs() < 1e-9 && (then[499] - 0.499).abs() < 1e-9);
    }

    #[test]
    fn a_poisson_process_has_the_mean_and_the_variance_of_one() {
        let times = times(10_000.0, Shape::Poisson { seed: 7 }, 10.0);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        // Three standard deviations of a sample of 100,000.
        assert!((mean * 1e4 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
        let within = gaps.iter().filter(|gap| **gap <= mean).count() as f64 / count;
        assert!((within - (1.0 - (-1.0_f64).exp())).abs() < 0.005, "{within}");
        let again = self::times(10_000.0, Shape::Poisson { seed: 7 }, 10.0);
        assert!(again == times && self::times(10_000.0, Shape::Poisson { seed: 8 }, 10.0) != times);
    }
}
