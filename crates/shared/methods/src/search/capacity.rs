//! The largest whole number that a device sustains: connections at a time, or connections a second.

/// The verdict of a trial with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The device sustained it.
    Sustained,
    /// It did not, and reached this number.
    Failed {
        /// The number that it reached.
        reached: u64,
    },
    /// The tester did not offer it. `reached` is the number that it offered.
    BeyondTester {
        /// The number that was offered.
        reached: u64,
    },
}

/// A search between 1 and a largest number. The first trial is with the largest number. The number that a
/// failed trial reached is the next guess, and one step above it the guess after that: a device with a fixed
/// limit is found in three trials. Other devices are found by bisection.
#[derive(Clone, Debug)]
pub struct Capacity {
    most: u64,
    /// The width at the end: this part of the number, and at least 1.
    width: f64,
    sustained: u64,
    failed: Option<(u64, bool)>,
    guess: Option<u64>,
    /// The largest number that a trial reached.
    reached: u64,
}

impl Capacity {
    /// Up to `most`. The bounds of the result are at most the share `width` of it apart, or 1.
    pub const fn new(most: u64, width: f64) -> Self {
        Self { most, width, sustained: 0, failed: None, guess: None, reached: 0 }
    }

    /// The number to try next; `None` at the end.
    pub fn next(&self) -> Option<u64> {
        let Some((failed, _)) = self.failed else {
            return (self.sustained < self.most).then_some(self.most);
        };
        let step = self.step();
        if failed - self.sustained <= step {
            return None;
        }
        let guess = match self.guess {
            // The guess holds: is the next number too high?
            Some(guess) if guess == self.sustained => guess + step,
            Some(guess) if guess > self.sustained && guess < failed => guess,
            _ => self.sustained + (failed - self.sustained) / 2,
        };
        Some(guess)
    }

    fn step(&self) -> u64 {
        ((self.sustained as f64 * self.width) as u64).max(1)
    }

    /// Whether a failed trial reached less than an earlier one. Of connections that are held, this shows that
    /// the device still had those of the earlier trial: a reason to wait, and to repeat the trial.
    pub fn is_behind(&self, verdict: Verdict) -> bool {
        matches!(verdict, Verdict::Failed { reached } if reached < self.reached)
    }

    /// Takes the trial with this number into account.
    pub fn add(&mut self, number: u64, verdict: Verdict) {
        let (reached, beyond_tester) = match verdict {
            Verdict::Sustained => {
                self.sustained = self.sustained.max(number);
                self.reached = self.reached.max(number);
                return;
            }
            Verdict::Failed { reached } => {
                // A number that is reached no more was no measure of the device.
                self.reached = if self.is_behind(verdict) { self.sustained } else { reached };
                (reached, false)
            }
            Verdict::BeyondTester { reached } => (reached, true),
        };
        if self.failed.is_none_or(|(failed, _)| number <= failed) {
            self.failed = Some((number, beyond_tester));
            // A guess that failed, or the number above it, gives no other guess than the middle.
            self.guess =
                (self.guess != Some(number) && self.guess != Some(self.sustained)).then_some(reached);
        }
    }

    /// The largest number that was sustained; 0 if none was.
    pub const fn sustained(&self) -> u64 {
        self.sustained
    }

    /// The smallest number that was not sustained, and whether the tester was the reason.
    pub const fn failed(&self) -> Option<(u64, bool)> {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches a device with this limit, which shows it in a failed trial or not. Returns the trials.
    fn search(limit: u64, most: u64, width: f64, shows: bool) -> (Capacity, u32) {
        let mut search = Capacity::new(most, width);
        let mut trials = 0;
        while let Some(number) = search.next() {
            let reached = if shows { limit } else { 0 };
            let failed = Verdict::Failed { reached };
            search.add(number, if number <= limit { Verdict::Sustained } else { failed });
            trials += 1;
        }
        (search, trials)
    }

    #[test]
    fn a_fixed_limit_takes_three_trials() {
        let (found, trials) = search(1000, 64_512, 0.0, true);
        assert_eq!((found.sustained(), found.failed(), trials), (1000, Some((1001, false)), 3));
    }

    #[test]
    fn less_than_an_earlier_trial_reached_is_behind() {
        let failed = |reached| Verdict::Failed { reached };
        let mut search = Capacity::new(5000, 0.0);
        assert!(!search.is_behind(failed(0)));
        search.add(5000, failed(1000));
        assert!(search.is_behind(failed(999)) && !search.is_behind(failed(1000)));
        assert!(!search.is_behind(Verdict::Sustained));
        assert!(!search.is_behind(Verdict::BeyondTester { reached: 3 }));
        search.add(1000, Verdict::Sustained);
        assert!(search.is_behind(failed(999)));
        // If it is added all the same, the device does not reach more.
        search.add(2000, failed(1500));
        search.add(1500, failed(1200));
        assert!(search.is_behind(failed(999)) && !search.is_behind(failed(1001)));
    }

    #[test]
    fn a_limit_of_the_tester_is_one() {
        let mut search = Capacity::new(100, 0.0);
        search.add(100, Verdict::BeyondTester { reached: 60 });
        search.add(60, Verdict::Sustained);
        search.add(61, Verdict::BeyondTester { reached: 60 });
        assert_eq!((search.next(), search.failed()), (None, Some((61, true))));
    }

    proptest! {
        #[test]
        fn any_limit_is_found(limit in 0_u64..3000, most in 1_u64..3000, shows: bool, width in 0.0..0.1) {
            let (found, trials) = search(limit, most, width, shows);
            let sustained = found.sustained();
            prop_assert!(sustained <= limit.min(most));
            prop_assert!((limit.min(most) - sustained) as f64 <= (width * sustained as f64).max(1.0));
            if width == 0.0 {
                prop_assert_eq!(sustained, limit.min(most));
            }
            prop_assert!(trials < 16, "{}", trials);
        }
    }
}
