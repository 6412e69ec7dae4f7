//! The calls in a trace of instructions.
//!
//! A trace has addresses only. An instruction that is the first of another function is a call of it; any
//! other instruction of another function is a return to it, if it is under way. Without that function under
//! way the trace is of another thread, or begins within calls: a new stack begins.

use super::symbols::{At, FunctionIndex};
use std::collections::HashMap;

/// The deepest stack. Deeper calls count for its last function.
const DEEPEST: usize = 64;

/// A function that is under way: a node of the tree of all stacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) function: FunctionIndex,
    parent: Option<usize>,
    depth: usize,
    count: u64,
}

/// All stacks of a trace, as a tree.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    nodes: Vec<Entry>,
    children: HashMap<(Option<usize>, FunctionIndex), usize>,
    now: Option<usize>,
}

impl Stacks {
    /// The next instruction.
    pub(crate) fn step(&mut self, at: At) {
        let node = match self.now {
            Some(now) if self.nodes[now].function == at.function && !at.is_first => now,
            Some(now) if at.is_first && self.nodes[now].depth < DEEPEST => self.child(Some(now), at.function),
            Some(now) => match self.under_way(now, at.function) {
                Some(node) => node,
                None => self.child(None, at.function),
            },
            None => self.child(None, at.function),
        };
        self.nodes[node].count += 1;
        self.now = Some(node);
    }

    /// The next instruction has no connection to the earlier ones.
    pub(crate) fn elsewhere(&mut self) {
        self.now = None;
    }

    /// The entry of `function`, if it is under way.
    fn under_way(&self, now: usize, function: FunctionIndex) -> Option<usize> {
        let mut node = Some(now);
        while let Some(index) = node.filter(|index| self.nodes[*index].function != function) {
            node = self.nodes[index].parent;
        }
        node
    }

    fn child(&mut self, parent: Option<usize>, function: FunctionIndex) -> usize {
        let (nodes, next) = (&mut self.nodes, self.children.len());
        *self.children.entry((parent, function)).or_insert_with(|| {
            let depth = parent.map_or(0, |parent| nodes[parent].depth + 1);
            nodes.push(Entry { function, parent, depth, count: 0 });
            next
        })
    }

    /// Each stack, outermost function first, with the instructions of its last function.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Vec<Entry>, u64)> {
        self.nodes.iter().map(|node| {
            let mut stack = vec![*node];
            let mut parent = node.parent;
            while let Some(index) = parent {
                stack.push(self.nodes[index]);
                parent = self.nodes[index].parent;
            }
            stack.reverse();
            (stack, node.count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(steps: &[(u32, bool)]) -> Vec<(Vec<u32>, u64)> {
        let mut stacks = Stacks::default();
        for &(function, is_first) in steps {
            stacks.step(At { function: FunctionIndex(function), is_first });
        }
        let of = |(stack, count): (Vec<Entry>, u64)| (stack.iter().map(|it| it.function.0).collect(), count);
        stacks.counts().map(of).filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn calls_and_returns() {
        // 1 calls 2, which calls 3, which returns to 1 at once: a tail call.
        let steps = [(1, false), (2, true), (2, false), (3, true), (1, false), (2, true)];
        assert_eq!(told(&steps), [(vec![1], 2), (vec![1, 2], 3), (vec![1, 2, 3], 1)]);
    }

    #[test]
    fn an_unknown_function_begins_a_stack_and_recursion_is_bounded() {
        assert_eq!(told(&[(1, true), (9, false), (1, true)]), [(vec![1], 1), (vec![9], 1), (vec![9, 1], 1)]);
        let deep = told(&[(1, true); 1000]);
        assert_eq!((deep.len(), deep.last().map(|(stack, _)| stack.len())), (DEEPEST + 1, Some(DEEPEST + 1)));
    }
}
