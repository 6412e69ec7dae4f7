//! Where the guest's instructions go: every instruction of a stretch of its own time, by function.
//!
//! QEMU logs each of them ([`Guest::executed`](crate::lab::Guest::executed)). Nothing is sampled, and the guest's
//! clock, which counts instructions, does not see it.

mod stacks;
mod symbols;

pub(crate) use stacks::Stacks;
pub(crate) use symbols::{Place, Symbols};

use kpps_results::lab::{Function, Stack};
use std::collections::BTreeMap;

/// Stacks with a smaller share of the instructions are left out.
const LEAST_SHARE: f64 = 0.0005;

/// What was executed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Executed {
    /// Instructions.
    pub(crate) instructions: u64,
    /// Functions, with the most instructions first.
    pub(crate) functions: Vec<Function>,
    /// Functions with those that called them.
    pub(crate) stacks: Vec<Stack>,
}

/// The instructions of QEMU's log by function, and by all that called it.
pub(crate) fn executed(log: &[u8], symbols: &Symbols) -> Executed {
    let mut stacks = Stacks::default();
    log.split(|byte| *byte == b'\n').filter_map(counter).for_each(|at| stacks.step(symbols.at(at)));
    let instructions = stacks.steps();
    let share = |count: u64| count as f64 / instructions.max(1) as f64;
    let mut of_functions = BTreeMap::<Place, u64>::new();
    let mut all = Vec::new();
    for (stack, count) in stacks.counts() {
        if let Some(last) = stack.last() {
            *of_functions.entry(last.place).or_default() += count;
        }
        if share(count) >= LEAST_SHARE {
            let functions = stack.iter().map(|entry| symbols.name(entry.place).0).collect();
            all.push(Stack { functions, share: share(count) });
        }
    }
    let mut functions: Vec<Function> = Vec::new();
    for (place, count) in of_functions {
        let (name, of) = symbols.name(place);
        functions.push(Function { name, of, share: share(count), instructions_per_frame: None });
    }
    functions.sort_by(|a, b| b.share.total_cmp(&a.share));
    Executed { instructions, functions, stacks: all }
}

/// The address of the instruction in a line of the log: `Trace 0: 0x7f… [0000…/ffffffff81a00000/…]`.
fn counter(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"Trace ")?;
    let mut parts = rest.split(|byte| *byte == b'/');
    let digits = str::from_utf8(parts.nth(1)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_stacks_of_a_log() {
        let symbols = Symbols::of_kernel(
            "ffffffff81000000 T poll\nffffffff81000100 t clean\t[e1000]\nffffffff81000200 T end\n",
        );
        let log = "Trace 0: 0x7f157c1fffc0 [0000000000000000/ffffffff81000004/18c0c2b3/ff020201] \n\
            Trace 0: 0x7f157c1fffc0 [0000000000000000/ffffffff81000100/18c0c2b3/ff020201] \n\
            Trace 0: 0x7f157c1fffc0 [0000000000000000/ffffffff81000104/18c0c2b3/ff020201] \n\
            IN: something else\nTrace 0: 0x7f157c1fffc0 [0000000000000000/ffffffff81000008/18c0c2b3/ff020201] \nTrace 0: 0x7f";
        let executed = executed(log.as_bytes(), &symbols);
        assert_eq!(executed.instructions, 4);
        let names: Vec<_> = executed.functions.iter().map(|it| (&*it.name, &*it.of, it.share)).collect();
        assert_eq!(names, [("poll", "kernel", 0.5), ("clean", "e1000", 0.5)]);
        let stacks: Vec<_> = executed.stacks.iter().map(|it| it.functions.join(";")).collect();
        assert_eq!(stacks, ["poll", "poll;clean"]);
    }
}
