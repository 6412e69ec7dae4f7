//! Shrinking a failure: the same violation with fewer faults, in a shorter run.

use crate::check::Breach;
use crate::fault::Fault;
use crate::plan::WorldPlan;
use crate::world::live;
use std::mem::discriminant;

/// The smallest plan found that ends in a breach of the same kind as `plan` does. A plan without a breach is
/// returned as it is.
#[must_use]
pub fn smallest(plan: &WorldPlan) -> WorldPlan {
    let Some((_, breach)) = live(plan, false).breach else { return plan.clone() };
    let fails = |plan: &WorldPlan| fails(plan, &breach);
    let mut best = plan.clone();
    while best.episodes > 1 && fails(&WorldPlan { episodes: best.episodes - 1, ..best.clone() }) {
        best.episodes -= 1;
    }
    for &fault in Fault::ALL {
        if best.rarity[fault as usize] == 0 {
            continue;
        }
        let without = best.without(fault);
        if fails(&without) {
            best = without;
        }
    }
    // The last fault that is needed: a bisection, as all faults before it stay the same.
    let (mut low, mut high) = (0, live(&best, false).fired.iter().sum());
    while low < high {
        let middle = low + (high - low) / 2;
        if fails(&WorldPlan { most_faults: middle, ..best.clone() }) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let fewer = WorldPlan { most_faults: high, ..best.clone() };
    if fails(&fewer) {
        best = fewer;
    }
    while best.frames > 10 && fails(&WorldPlan { frames: best.frames / 2, ..best.clone() }) {
        best.frames /= 2;
    }
    best
}

fn fails(plan: &WorldPlan, as_before: &Breach) -> bool {
    live(plan, false).breach.is_some_and(|(_, breach)| discriminant(&breach) == discriminant(as_before))
}
