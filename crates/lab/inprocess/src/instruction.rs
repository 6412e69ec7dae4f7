//! Executes one instruction of x86-64 that accesses a window of registers.
//!
//! These are the instructions that compilers make of volatile and atomic accesses to integers: moves, and
//! arithmetic with an operand in memory. Any other instruction is refused with its text, and nothing is
//! accessed. Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, and for the
//! flags volume 1, appendix A.

use iced_x86::{
    ConditionCode, Decoder, DecoderError, DecoderOptions, FastFormatter, Instruction, Mnemonic, OpKind,
    Register,
};
use kpps_linux::{Cpu, Executed};

/// Bits of RFLAGS.
mod flag {
    pub(super) const CARRY: u64 = 1 << 0;
    pub(super) const PARITY: u64 = 1 << 2;
    pub(super) const ADJUST: u64 = 1 << 4;
    pub(super) const ZERO: u64 = 1 << 6;
    pub(super) const SIGN: u64 = 1 << 7;
    pub(super) const OVERFLOW: u64 = 1 << 11;
    /// The flags that arithmetic changes.
    pub(super) const ALL: u64 = CARRY | PARITY | ADJUST | ZERO | SIGN | OVERFLOW;
}

/// The registers behind a window, by their offset in bytes. An access has 1, 2, 4 or 8 bytes.
pub(crate) trait Bus {
    /// Reads at `offset`.
    fn load(&mut self, offset: u64, into: &mut [u8]);
    /// Writes at `offset`.
    fn store(&mut self, offset: u64, from: &[u8]);
}

/// Executes the instruction at `cpu.instruction`, whose bytes begin with `code`, on a window of `bytes` bytes
/// at the address `window`.
pub(crate) fn execute(bus: &mut dyn Bus, window: u64, bytes: u64, code: &[u8], cpu: &mut Cpu) -> Executed {
    let mut decoder = Decoder::with_ip(64, code, cpu.instruction, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if decoder.last_error() == DecoderError::NoMoreBytes {
        return Executed::Incomplete;
    }
    let mut now = Execution { instruction: &instruction, cpu: *cpu, at: None, bus };
    match now.locate(window, bytes).and_then(|()| now.run()) {
        Some(()) => {
            *cpu = now.cpu;
            cpu.instruction = instruction.next_ip();
            Executed::Done
        }
        None => Executed::Refused(refusal(&instruction)),
    }
}

/// The message about an instruction that is not executed.
fn refusal(instruction: &Instruction) -> String {
    let mut text = String::new();
    FastFormatter::new().format(instruction, &mut text);
    format!(
        "the instruction `{text}` at {:#x} accesses the registers of a card, and the window cannot execute it: \
         it executes volatile accesses to integers of 1, 2, 4 or 8 bytes (read_volatile, write_volatile)",
        instruction.ip()
    )
}

/// The bits of an operand of `size` bytes.
const fn mask(size: usize) -> u64 {
    if size >= 8 { u64::MAX } else { (1 << (8 * size)) - 1 }
}

/// The highest bit of an operand of `size` bytes.
const fn sign(size: usize) -> u64 {
    1 << (8 * size - 1)
}

/// Sign, zero and parity of a result.
fn of_result(result: u64, size: usize) -> u64 {
    let mut flags = 0;
    if result == 0 {
        flags |= flag::ZERO;
    }
    if result & sign(size) != 0 {
        flags |= flag::SIGN;
    }
    if (result as u8).count_ones().is_multiple_of(2) {
        flags |= flag::PARITY;
    }
    flags
}

/// `a + b + carry`, and the flags.
fn sum(a: u64, b: u64, carry: bool, size: usize) -> (u64, u64) {
    let whole = u128::from(a) + u128::from(b) + u128::from(carry);
    let result = whole as u64 & mask(size);
    let mut flags = of_result(result, size) | (a ^ b ^ result) & flag::ADJUST;
    if whole > u128::from(mask(size)) {
        flags |= flag::CARRY;
    }
    if !(a ^ b) & (a ^ result) & sign(size) != 0 {
        flags |= flag::OVERFLOW;
    }
    (result, flags)
}

/// `a - b - borrow`, and the flags.
fn difference(a: u64, b: u64, borrow: bool, size: usize) -> (u64, u64) {
    let result = a.wrapping_sub(b).wrapping_sub(borrow.into()) & mask(size);
    let mut flags = of_result(result, size) | (a ^ b ^ result) & flag::ADJUST;
    if u128::from(a) < u128::from(b) + u128::from(borrow) {
        flags |= flag::CARRY;
    }
    if (a ^ b) & (a ^ result) & sign(size) != 0 {
        flags |= flag::OVERFLOW;
    }
    (result, flags)
}

/// Whether a condition holds.
fn holds(condition: ConditionCode, flags: u64) -> bool {
    let is = |bit: u64| flags & bit != 0;
    let less = is(flag::SIGN) != is(flag::OVERFLOW);
    match condition {
        ConditionCode::None => true,
        ConditionCode::o => is(flag::OVERFLOW),
        ConditionCode::no => !is(flag::OVERFLOW),
        ConditionCode::b => is(flag::CARRY),
        ConditionCode::ae => !is(flag::CARRY),
        ConditionCode::e => is(flag::ZERO),
        ConditionCode::ne => !is(flag::ZERO),
        ConditionCode::be => is(flag::CARRY | flag::ZERO),
        ConditionCode::a => !is(flag::CARRY | flag::ZERO),
        ConditionCode::s => is(flag::SIGN),
        ConditionCode::ns => !is(flag::SIGN),
        ConditionCode::p => is(flag::PARITY),
        ConditionCode::np => !is(flag::PARITY),
        ConditionCode::l => less,
        ConditionCode::ge => !less,
        ConditionCode::le => less || is(flag::ZERO),
        ConditionCode::g => !less && !is(flag::ZERO),
    }
}

/// Whether a register is AH, CH, DH or BH: the second byte of one of the first four registers.
const fn is_second_byte(register: Register) -> bool {
    matches!(register, Register::AH | Register::CH | Register::DH | Register::BH)
}

/// The value of a register; `None` if it is not a general one.
fn get(cpu: &Cpu, register: Register) -> Option<u64> {
    if !register.is_gpr() {
        return None;
    }
    let whole = *cpu.general.get(register.full_register().number())?;
    Some(if is_second_byte(register) { whole >> 8 & 0xFF } else { whole & mask(register.size()) })
}

/// An instruction under way.
struct Execution<'a> {
    instruction: &'a Instruction,
    /// The registers after it.
    cpu: Cpu,
    /// The offset of its operand in the window, and the operand's size in bytes.
    at: Option<(u64, usize)>,
    bus: &'a mut dyn Bus,
}

impl Execution<'_> {
    /// Finds the operand in memory. It must be within the window, and the only one.
    fn locate(&mut self, window: u64, bytes: u64) -> Option<()> {
        let of = self.instruction;
        let mut operands = (0..of.op_count()).filter(|operand| of.op_kind(*operand) == OpKind::Memory);
        let operand = operands.next()?;
        let size = of.memory_size().size();
        if operands.next().is_some() || ![1, 2, 4, 8].contains(&size) || self.is_repeated() {
            return None;
        }
        let address = of.virtual_address(operand, 0, |register, _, _| match register {
            // The bases of these segments are 0.
            Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
            register => get(&self.cpu, register),
        })?;
        let offset = address.checked_sub(window)?;
        (offset + size as u64 <= bytes).then_some(())?;
        self.at = Some((offset, size));
        Some(())
    }

    fn is_repeated(&self) -> bool {
        self.instruction.has_rep_prefix() || self.instruction.has_repne_prefix()
    }

    fn load(&mut self) -> Option<u64> {
        let (offset, size) = self.at?;
        let mut value = [0; 8];
        self.bus.load(offset, value.get_mut(..size)?);
        Some(u64::from_le_bytes(value))
    }

    /// The value of an operand, in its size. An immediate value has the size of the operand in memory.
    fn value(&mut self, operand: u32) -> Option<u64> {
        match self.instruction.op_kind(operand) {
            OpKind::Memory => self.load(),
            OpKind::Register => get(&self.cpu, self.instruction.op_register(operand)),
            OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64 => Some(self.instruction.immediate(operand) & mask(self.at?.1)),
            _ => None,
        }
    }

    /// Writes a result to an operand. A general register of 32 bits loses its upper half, a smaller one keeps
    /// the rest.
    fn put(&mut self, operand: u32, value: u64) -> Option<()> {
        match self.instruction.op_kind(operand) {
            OpKind::Memory => {
                let (offset, size) = self.at?;
                self.bus.store(offset, value.to_le_bytes().get(..size)?);
            }
            OpKind::Register => self.put_register(self.instruction.op_register(operand), value)?,
            _ => return None,
        }
        Some(())
    }

    fn put_register(&mut self, register: Register, value: u64) -> Option<()> {
        register.is_gpr().then_some(())?;
        let whole = self.cpu.general.get_mut(register.full_register().number())?;
        *whole = match register.size() {
            _ if is_second_byte(register) => *whole & !0xFF00 | (value & 0xFF) << 8,
            8 => value,
            4 => value & mask(4),
            size => *whole & !mask(size) | value & mask(size),
        };
        Some(())
    }

    /// Sets these flags of `changed`, and clears the others of `changed`.
    fn set_flags(&mut self, changed: u64, flags: u64) {
        self.cpu.flags = self.cpu.flags & !changed | flags & changed;
    }

    /// Executes it. `None` if it is not known; then there was no access.
    fn run(&mut self) -> Option<()> {
        let size = self.at?.1;
        match self.instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movnti | Mnemonic::Movzx => {
                let value = self.value(1)?;
                self.put(0, value)
            }
            Mnemonic::Movsx | Mnemonic::Movsxd => {
                let value = self.value(1)?;
                let extended = if value & sign(size) == 0 { value } else { value | !mask(size) };
                self.put(0, extended)
            }
            Mnemonic::Add | Mnemonic::Adc | Mnemonic::Sub | Mnemonic::Sbb | Mnemonic::Cmp => self.sums(size),
            Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test => self.logic(size),
            Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Neg | Mnemonic::Not => self.with_one(size),
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc => self.bit(size),
            Mnemonic::Xchg | Mnemonic::Xadd => self.exchange(size),
            Mnemonic::Cmpxchg => self.compare_and_exchange(size),
            _ if self.is_conditional_move() => {
                // The operand is read in either case, and a destination of 32 bits loses its upper half.
                let (old, value) = (self.value(0)?, self.value(1)?);
                let is_moved = holds(self.instruction.condition_code(), self.cpu.flags);
                self.put(0, if is_moved { value } else { old })
            }
            _ => None,
        }
    }

    fn is_conditional_move(&self) -> bool {
        use Mnemonic as M;
        matches!(
            self.instruction.mnemonic(),
            M::Cmova
                | M::Cmovae
                | M::Cmovb
                | M::Cmovbe
                | M::Cmove
                | M::Cmovg
                | M::Cmovge
                | M::Cmovl
                | M::Cmovle
                | M::Cmovne
                | M::Cmovno
                | M::Cmovnp
                | M::Cmovns
                | M::Cmovo
                | M::Cmovp
                | M::Cmovs
        )
    }

    fn sums(&mut self, size: usize) -> Option<()> {
        let carry = self.cpu.flags & flag::CARRY != 0;
        let (a, b) = (self.value(0)?, self.value(1)?);
        let mnemonic = self.instruction.mnemonic();
        let (result, flags) = match mnemonic {
            Mnemonic::Add => sum(a, b, false, size),
            Mnemonic::Adc => sum(a, b, carry, size),
            Mnemonic::Sbb => difference(a, b, carry, size),
            _ => difference(a, b, false, size),
        };
        if mnemonic != Mnemonic::Cmp {
            self.put(0, result)?;
        }
        self.set_flags(flag::ALL, flags);
        Some(())
    }

    fn logic(&mut self, size: usize) -> Option<()> {
        let (a, b) = (self.value(0)?, self.value(1)?);
        let mnemonic = self.instruction.mnemonic();
        let result = match mnemonic {
            Mnemonic::Or => a | b,
            Mnemonic::Xor => a ^ b,
            _ => a & b,
        };
        if mnemonic != Mnemonic::Test {
            self.put(0, result)?;
        }
        // The manual leaves AF undefined.
        self.set_flags(flag::ALL & !flag::ADJUST, of_result(result, size));
        Some(())
    }

    fn with_one(&mut self, size: usize) -> Option<()> {
        let a = self.value(0)?;
        let (result, flags, changed) = match self.instruction.mnemonic() {
            Mnemonic::Not => (!a & mask(size), 0, 0),
            Mnemonic::Neg => {
                let (result, flags) = difference(0, a, false, size);
                (result, flags, flag::ALL)
            }
            mnemonic => {
                let one = if mnemonic == Mnemonic::Inc { sum } else { difference };
                let (result, flags) = one(a, 1, false, size);
                (result, flags, flag::ALL & !flag::CARRY)
            }
        };
        self.put(0, result)?;
        self.set_flags(changed, flags);
        Some(())
    }

    /// Tests and changes a bit. With the number in a register the bit may be outside of the operand, so that
    /// form is refused.
    fn bit(&mut self, size: usize) -> Option<()> {
        (self.instruction.op_kind(1) == OpKind::Immediate8).then_some(())?;
        let bit = 1 << (self.value(1)? % (8 * size as u64));
        let a = self.value(0)?;
        match self.instruction.mnemonic() {
            Mnemonic::Bts => self.put(0, a | bit)?,
            Mnemonic::Btr => self.put(0, a & !bit)?,
            Mnemonic::Btc => self.put(0, a ^ bit)?,
            _ => {}
        }
        self.set_flags(flag::CARRY, if a & bit == 0 { 0 } else { flag::CARRY });
        Some(())
    }

    fn exchange(&mut self, size: usize) -> Option<()> {
        let (a, b) = (self.value(0)?, self.value(1)?);
        let mut result = b;
        if self.instruction.mnemonic() == Mnemonic::Xadd {
            let (total, flags) = sum(a, b, false, size);
            self.set_flags(flag::ALL, flags);
            result = total;
        }
        // XADD's register gets the old value first, so that the sum wins if both are the same register.
        self.put(1, a)?;
        self.put(0, result)
    }

    fn compare_and_exchange(&mut self, size: usize) -> Option<()> {
        let accumulator = match size {
            1 => Register::AL,
            2 => Register::AX,
            4 => Register::EAX,
            _ => Register::RAX,
        };
        let expected = get(&self.cpu, accumulator)?;
        let (old, new) = (self.value(0)?, self.value(1)?);
        let (_, flags) = difference(expected, old, false, size);
        if expected == old {
            self.put(0, new)?;
        } else {
            // The processor writes the old value back, but a driver's write must be its own.
            self.put_register(accumulator, old)?;
        }
        self.set_flags(flag::ALL, flags);
        Some(())
    }
}
