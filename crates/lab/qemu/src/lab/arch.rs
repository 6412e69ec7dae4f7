//! The architectures of guests.

use std::str::FromStr;

/// The architecture of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arch {
    /// PCs with 64-bit CPUs.
    #[default]
    X86_64,
    /// 64-bit Arm.
    Aarch64,
    /// 64-bit RISC-V.
    Riscv64,
}

impl Arch {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::X86_64, Self::Aarch64, Self::Riscv64];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Riscv64 => "riscv64",
        }
    }

    /// QEMU's program for it.
    pub const fn program(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Aarch64 => "qemu-system-aarch64",
            Self::Riscv64 => "qemu-system-riscv64",
        }
    }

    /// Debian's package (of trixie-backports) with that program.
    pub(crate) const fn package(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86",
            Self::Aarch64 => "qemu-system-arm",
            Self::Riscv64 => "qemu-system-riscv",
        }
    }

    /// The arguments for a machine with a PCI bus, for a guest that does not name its machine.
    pub(crate) const fn machine(self) -> &'static [&'static str] {
        match self {
            // QEMU's own default, which small kernels expect.
            Self::X86_64 => &[],
            Self::Aarch64 => &["-machine", "virt", "-cpu", "max"],
            Self::Riscv64 => &["-machine", "virt"],
        }
    }
}

impl FromStr for Arch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|arch| arch.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!(
                "there is no architecture called '{text}': known are {names}; x86_64 runs 32-bit kernels, too"
            )
        })
    }
}
