//! Instructions with labels (Documentation/bpf/standardization/instruction-set.rst).

use crate::bpf::load::Instruction;
use std::collections::HashMap;

/// A register. `R10` is the end of the stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum R {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    R10,
}

/// The size of a load or a store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    B1 = 0x10,
    B2 = 0x08,
    B4 = 0x00,
    B8 = 0x18,
}

/// A condition of a jump.
#[derive(Clone, Copy, Debug)]
pub(super) enum If {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    NotEqual = 0x50,
    Below = 0xa0,
}

/// A function of the kernel for programs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Helper {
    Lookup = 1,
    Update = 2,
    ReadKernel = 113,
}

/// The second operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum With {
    Value(i32),
    Register(R),
}

/// A place in a program, by its name and a number.
type Label = (&'static str, usize);

/// A program under construction.
#[derive(Default)]
pub(super) struct Assembler {
    program: Vec<Instruction>,
    labels: HashMap<Label, usize>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, operation: u8, to: R, from: u8, offset: i16, value: i32) -> &mut Self {
        self.program.push(Instruction(operation, from << 4 | to as u8, offset, value));
        self
    }

    fn with(&mut self, operation: u8, to: R, offset: i16, with: With) -> &mut Self {
        match with {
            With::Value(value) => self.push(operation, to, 0, offset, value),
            With::Register(from) => self.push(operation | 0x08, to, from as u8, offset, 0),
        }
    }

    /// `to = with`, in 64 bits.
    pub(super) fn set(&mut self, to: R, with: With) -> &mut Self {
        self.with(0xb7, to, 0, with)
    }

    /// `to += with`
    pub(super) fn add(&mut self, to: R, with: With) -> &mut Self {
        self.with(0x07, to, 0, with)
    }

    /// `to -= with`
    pub(super) fn subtract(&mut self, to: R, with: With) -> &mut Self {
        self.with(0x17, to, 0, with)
    }

    /// `to /= with`, unsigned; 0 if `with` is 0.
    pub(super) fn divide(&mut self, to: R, with: With) -> &mut Self {
        self.with(0x37, to, 0, with)
    }

    /// `to >>= with`
    pub(super) fn shift_right(&mut self, to: R, with: With) -> &mut Self {
        self.with(0x77, to, 0, with)
    }

    /// `to <<= with`
    pub(super) fn shift_left(&mut self, to: R, with: With) -> &mut Self {
        self.with(0x67, to, 0, with)
    }

    /// `to`, a big-endian number of 16 bits that was read as it is in memory, as a number.
    pub(super) fn swap_16(&mut self, to: R) -> &mut Self {
        self.push(0xdc, to, 0, 0, 16)
    }

    /// `to = *(from + offset)`
    pub(super) fn load(&mut self, size: Size, to: R, from: R, offset: i16) -> &mut Self {
        self.push(0x61 | size as u8, to, from as u8, offset, 0)
    }

    /// `*(at + offset) = from`
    pub(super) fn store(&mut self, size: Size, at: R, offset: i16, from: R) -> &mut Self {
        self.push(0x63 | size as u8, at, from as u8, offset, 0)
    }

    /// `*(at + offset) += from`, in 64 bits and in one step.
    pub(super) fn add_in_memory(&mut self, at: R, offset: i16, from: R) -> &mut Self {
        self.push(0xdb, at, from as u8, offset, 0)
    }

    /// `to =` the map with this descriptor.
    pub(super) fn map(&mut self, to: R, number: i32) -> &mut Self {
        self.push(0x18, to, 1, 0, number).push(0, R::R0, 0, 0, 0)
    }

    /// `to =` the address of the first value of the array with this descriptor.
    pub(super) fn value_of(&mut self, to: R, number: i32) -> &mut Self {
        self.push(0x18, to, 2, 0, number).push(0, R::R0, 0, 0, 0)
    }

    /// Calls a function with `R1` to `R5`; its result is in `R0`.
    pub(super) fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(0x85, R::R0, 0, 0, helper as i32)
    }

    /// Ends the program with `R0`.
    pub(super) fn exit(&mut self) -> &mut Self {
        self.push(0x95, R::R0, 0, 0, 0)
    }

    /// The next instruction is here.
    pub(super) fn here(&mut self, label: Label) -> &mut Self {
        self.labels.insert(label, self.program.len());
        self
    }

    /// Goes there.
    pub(super) fn go(&mut self, to: Label) -> &mut Self {
        self.jumps.push((self.program.len(), to));
        self.push(0x05, R::R0, 0, 0, 0)
    }

    /// Goes there if `left` compares so with `with`, both unsigned and of 64 bits.
    pub(super) fn go_if(&mut self, left: R, is: If, with: With, to: Label) -> &mut Self {
        self.jumps.push((self.program.len(), to));
        self.with(0x05 | is as u8, left, 0, with)
    }

    /// The program; `None` if a label is missing or too far away.
    pub(super) fn finish(self) -> Option<Vec<Instruction>> {
        let mut program = self.program;
        for (at, label) in self.jumps {
            let distance = self.labels.get(&label)?.checked_sub(at + 1)?;
            program[at].2 = i16::try_from(distance).ok()?;
        }
        Some(program)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn jumps_lead_to_their_labels() {
        let mut program = Assembler::default();
        program.go_if(R::R1, If::Equal, With::Value(7), ("end", 0));
        program.set(R::R2, With::Register(R::R1)).load(Size::B2, R::R3, R::R10, -8);
        program.here(("end", 0)).exit();
        let expected = [
            Instruction(0x15, 1, 2, 7),
            Instruction(0xbf, 0x12, 0, 0),
            Instruction(0x69, 0xa3, -8, 0),
            Instruction(0x95, 0, 0, 0),
        ];
        assert_eq!(program.finish().unwrap(), expected);
        let mut lost = Assembler::default();
        lost.go(("nowhere", 0));
        assert!(lost.finish().is_none());
    }
}
