//! Where the guest's instructions go: every instruction of some stretches of its own time, by function.
//!
//! QEMU logs each of them ([`Guest::executed`](crate::lab::Guest::executed)). The guest's clock, which counts
//! instructions, does not see it. Within a stretch nothing is sampled; how much the stretches differ tells
//! how far a share may be from that of the whole time.

mod stacks;
mod symbols;

pub(crate) use stacks::Stacks;
pub(crate) use symbols::{FunctionIndex, Symbols};

use kpps_documents::lab::{Function, Stack};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Stacks with a smaller share of the instructions are left out.
const LEAST_SHARE: f64 = 0.0005;
/// Standard errors of a mean between which 95 % of all means are.
const STANDARD_ERRORS: f64 = 2.0;

/// The executed instructions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Executed {
    /// Instructions, and the stretches of time that they are of.
    pub(crate) instructions: u64,
    pub(crate) stretches: u32,
    /// Functions, with the most instructions first.
    pub(crate) functions: Vec<Function>,
    /// Functions with their callers.
    pub(crate) stacks: Vec<Stack>,
}

/// The instructions of QEMU's logs by function, and by all that called it. Each log is one stretch.
pub(crate) fn executed(logs: &[Vec<u8>], symbols: &Symbols) -> Executed {
    let mut stacks = Stacks::default();
    let mut of_functions = BTreeMap::<FunctionIndex, Vec<u64>>::new();
    for (stretch, log) in logs.iter().enumerate() {
        stacks.elsewhere();
        for address in addresses(log) {
            let at = symbols.at(address);
            stacks.step(at);
            of_functions.entry(at.function).or_insert_with(|| vec![0; logs.len()])[stretch] += 1;
        }
    }
    let of_stretches: Vec<u64> =
        (0..logs.len()).map(|stretch| of_functions.values().map(|counts| counts[stretch]).sum()).collect();
    let instructions: u64 = of_stretches.iter().sum();
    let share = |count: u64| count as f64 / instructions.max(1) as f64;
    let all = stacks.counts().filter(|(_, count)| share(*count) >= LEAST_SHARE).map(|(stack, count)| {
        let functions = stack.iter().map(|entry| symbols.name(entry.function).0).collect();
        Stack { functions, share: share(count) }
    });
    let mut functions: Vec<Function> = (of_functions.iter())
        .map(|(function, counts)| {
            let (name, of) = symbols.name(*function);
            let (share, error) = (share(counts.iter().sum()), error(counts, &of_stretches));
            Function { name, of, share, error, instructions_per_frame: None }
        })
        .collect();
    functions.sort_by(|a, b| b.share.total_cmp(&a.share));
    Executed { instructions, stretches: logs.len() as u32, functions, stacks: all.collect() }
}

/// By how much a share may be wrong, with a confidence of 95 %, by how it differs between stretches. `None`
/// with fewer than two of them.
fn error(counts: &[u64], of_stretches: &[u64]) -> Option<f64> {
    let shares: Vec<f64> = (counts.iter().zip(of_stretches))
        .filter(|(_, all)| **all > 0)
        .map(|(count, all)| *count as f64 / *all as f64)
        .collect();
    let n = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / n;
    let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
    (n > 1.0).then(|| STANDARD_ERRORS * (squares / (n - 1.0) / n).sqrt())
}

/// The addresses of the instructions in a log. QEMU logs an instruction before it executes it, and says so if
/// it then did not, because a timer was due: it is logged again.
fn addresses(log: &[u8]) -> Vec<u64> {
    let mut all = Vec::new();
    for line in log.split(|byte| *byte == b'\n') {
        if line.starts_with(b"Stopped execution") {
            all.pop();
        }
        all.extend(counter(line));
    }
    all
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
    #![allow(clippy::unwrap_used)]
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
        let executed = executed(&[log.into()], &symbols);
        assert_eq!(executed.instructions, 4);
        let names: Vec<_> =
            executed.functions.iter().map(|it| (&*it.name, it.of.as_deref(), it.share)).collect();
        assert_eq!(names, [("poll", Some("kernel"), 0.5), ("clean", Some("e1000"), 0.5)]);
        assert!(executed.functions.iter().all(|it| it.error.is_none()), "one stretch tells of no other");
        let stacks: Vec<_> = executed.stacks.iter().map(|it| it.functions.join(";")).collect();
        assert_eq!(stacks, ["poll", "poll;clean"]);
    }

    #[test]
    fn stretches_tell_by_how_much_a_share_may_be_wrong() {
        let symbols = Symbols::of_kernel("ffffffff81000000 T a\nffffffff81000100 T b\n");
        let line = |address: u64| format!("Trace 0: 0x7f [0/{address:x}/0/0] \n");
        let (a, b) = (line(0xffff_ffff_8100_0004), line(0xffff_ffff_8100_0104));
        let told = |logs: &[String]| {
            let logs: Vec<_> = logs.iter().map(|log| log.clone().into_bytes()).collect();
            let first = executed(&logs, &symbols).functions.remove(0);
            (first.name, first.share, first.error.unwrap())
        };
        let same = format!("{a}{a}{a}{b}");
        assert_eq!(told(&[same.clone(), same.clone(), same]), ("a".into(), 0.75, 0.0));
        // Shares of 1 and 1/2: the mean's standard error is a quarter.
        assert_eq!(told(&[format!("{a}{a}"), format!("{a}{b}")]), ("a".into(), 0.75, 0.5));
    }

    #[test]
    fn what_was_logged_and_not_executed_does_not_count() {
        let line = |address: u64| format!("Trace 0: 0x7f [0/{address:x}/0/0] \n");
        let stopped = "Stopped execution of TB chain before 0x7f [00000000000000a1]\n";
        let log = [line(0xa0), line(0xa1), stopped.into(), line(0xa1), line(0xa2)].concat();
        assert_eq!(addresses(log.as_bytes()), [0xa0, 0xa1, 0xa2]);
    }
}
