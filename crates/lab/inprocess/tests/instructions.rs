//! Instructions that access a window have the same results, flags included, as on ordinary memory.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)]

use kpps_inprocess::{Card, Options};
use std::arch::asm;

/// A register without side effects: TDBAL, whose low four bits read as 0; and the next one, TDBAH.
const REGISTER: usize = 0x3800;
/// CF, PF, ZF, SF, OF. AF is undefined after some of the instructions.
const FLAGS: u64 = 0x8C5;

/// Runs an instruction with its operand in memory at RDI, and in RDX. RAX takes part, too. Returns RAX, RDX
/// and the flags after it.
macro_rules! run {
    ($text:literal) => {
        |at: *mut u8, rax_in: u64, rdx_in: u64, carry: u8| -> (u64, u64, u64) {
            let (mut rax, mut rdx, flags): (u64, u64, u64);
            (rax, rdx) = (rax_in, rdx_in);
            // SAFETY: the instruction accesses at most eight bytes at `at`, which are memory or a window.
            unsafe {
                asm!(
                    "add {carry}, 0xFF",
                    $text,
                    "pushfq",
                    "pop {flags}",
                    carry = inout(reg_byte) carry => _,
                    flags = lateout(reg) flags,
                    in("rdi") at,
                    inout("rax") rax,
                    inout("rdx") rdx,
                );
            }
            (rax, rdx, flags & FLAGS)
        }
    };
}

type Run = fn(*mut u8, u64, u64, u8) -> (u64, u64, u64);

const ALL: &[(&str, Run)] = &[
    ("mov eax, [rdi]", run!("mov eax, [rdi]")),
    ("mov rax, [rdi]", run!("mov rax, [rdi]")),
    ("mov ax, [rdi]", run!("mov ax, [rdi]")),
    ("mov al, [rdi]", run!("mov al, [rdi]")),
    ("mov ah, [rdi + 1]", run!("mov ah, [rdi + 1]")),
    ("mov [rdi], edx", run!("mov [rdi], edx")),
    ("mov [rdi], rdx", run!("mov [rdi], rdx")),
    ("mov dword ptr [rdi], 0x12345670", run!("mov dword ptr [rdi], 0x12345670")),
    ("mov qword ptr [rdi], -16", run!("mov qword ptr [rdi], -16")),
    ("movnti [rdi], edx", run!("movnti [rdi], edx")),
    ("movzx eax, byte ptr [rdi + 3]", run!("movzx eax, byte ptr [rdi + 3]")),
    ("movzx eax, word ptr [rdi + 2]", run!("movzx eax, word ptr [rdi + 2]")),
    ("movsx eax, byte ptr [rdi + 3]", run!("movsx eax, byte ptr [rdi + 3]")),
    ("movsx rax, word ptr [rdi + 2]", run!("movsx rax, word ptr [rdi + 2]")),
    ("movsxd rax, dword ptr [rdi]", run!("movsxd rax, dword ptr [rdi]")),
    ("add [rdi], edx", run!("add [rdi], edx")),
    ("add edx, [rdi]", run!("add edx, [rdi]")),
    ("add rdx, [rdi]", run!("add rdx, [rdi]")),
    ("adc edx, [rdi]", run!("adc edx, [rdi]")),
    ("adc dword ptr [rdi], 15", run!("adc dword ptr [rdi], 15")),
    ("sub [rdi], edx", run!("sub [rdi], edx")),
    ("sub dx, [rdi + 2]", run!("sub dx, [rdi + 2]")),
    ("sbb edx, [rdi]", run!("sbb edx, [rdi]")),
    ("cmp [rdi], edx", run!("cmp [rdi], edx")),
    ("cmp dl, [rdi + 3]", run!("cmp dl, [rdi + 3]")),
    ("cmp dword ptr [rdi], -16", run!("cmp dword ptr [rdi], -16")),
    ("and [rdi], edx", run!("and [rdi], edx")),
    ("and edx, [rdi]", run!("and edx, [rdi]")),
    ("or dword ptr [rdi], 0x40", run!("or dword ptr [rdi], 0x40")),
    ("lock or [rdi], edx", run!("lock or [rdi], edx")),
    ("xor [rdi], edx", run!("xor [rdi], edx")),
    ("xor rdx, [rdi]", run!("xor rdx, [rdi]")),
    ("test [rdi], edx", run!("test [rdi], edx")),
    ("test byte ptr [rdi + 3], 0x82", run!("test byte ptr [rdi + 3], 0x82")),
    ("test dword ptr [rdi], 0x80000010", run!("test dword ptr [rdi], 0x80000010")),
    ("inc dword ptr [rdi + 4]", run!("inc dword ptr [rdi + 4]")),
    ("dec dword ptr [rdi + 4]", run!("dec dword ptr [rdi + 4]")),
    ("neg dword ptr [rdi]", run!("neg dword ptr [rdi]")),
    ("not dword ptr [rdi + 4]", run!("not dword ptr [rdi + 4]")),
    ("xchg [rdi], edx", run!("xchg [rdi], edx")),
    ("lock xadd [rdi], edx", run!("lock xadd [rdi], edx")),
    ("lock cmpxchg [rdi], edx", run!("lock cmpxchg [rdi], edx")),
    ("lock cmpxchg [rdi], rdx", run!("lock cmpxchg [rdi], rdx")),
    ("cmovc eax, [rdi]", run!("cmovc eax, [rdi]")),
    ("cmovne rax, [rdi]", run!("cmovne rax, [rdi]")),
    ("cmovs ax, [rdi]", run!("cmovs ax, [rdi]")),
    ("cmovle eax, [rdi]", run!("cmovle eax, [rdi]")),
    ("cmova eax, [rdi]", run!("cmova eax, [rdi]")),
    ("cmovno eax, [rdi]", run!("cmovno eax, [rdi]")),
    ("cmovpe eax, [rdi]", run!("cmovpe eax, [rdi]")),
];

/// These leave ZF, SF, PF and OF undefined.
const BITS: &[(&str, Run)] = &[
    ("bt dword ptr [rdi], 5", run!("bt dword ptr [rdi], 5")),
    ("bts dword ptr [rdi], 31", run!("bts dword ptr [rdi], 31")),
    ("btr qword ptr [rdi], 40", run!("btr qword ptr [rdi], 40")),
    ("lock btc dword ptr [rdi], 6", run!("lock btc dword ptr [rdi], 6")),
];

#[test]
fn results_are_those_of_memory() {
    let card = Card::new(Options::default()).unwrap();
    let window = card.window().unwrap().wrapping_add(REGISTER);
    let mut random = fastrand::Rng::with_seed(1);
    let mut value = || {
        // Equal operands and small numbers are frequent.
        [0, 0x10, 0xFFFF_FFF0, 0x8000_0000_8000_0000, random.u64(..)][random.usize(..5)] & !0xF
    };
    for round in 0..200 {
        for ((name, run), flags) in ALL.iter().map(|it| (it, FLAGS)).chain(BITS.iter().map(|it| (it, 1))) {
            let (start, rax, rdx) = (value(), value(), value());
            let carry = round % 2;
            let mut memory = start;
            let expected = run((&raw mut memory).cast(), rax, rdx, carry);
            card.write32(REGISTER as u32, start as u32);
            card.write32(REGISTER as u32 + 4, (start >> 32) as u32);
            let found = run(window, rax, rdx, carry);
            let what = format!("{name} of {start:#x} with {rax:#x}, {rdx:#x}, carry {carry}");
            assert_eq!((found.0, found.1), (expected.0, expected.1), "{what}");
            assert_eq!(found.2 & flags, expected.2 & flags, "{what}: {:#x}, {:#x}", found.2, expected.2);
            let [low, high] = [0, 4].map(|at| u64::from(card.read32(REGISTER as u32 + at)));
            // The card keeps the low bits of the ring's address 0.
            assert_eq!(low | high << 32, memory & !0xF, "{what}");
        }
    }
}
