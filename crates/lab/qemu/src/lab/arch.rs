//! The architectures of guests.

kpps_methods::names! {
    /// The architecture of a guest.
    #[derive(Default)]
    pub enum Arch("architecture", "x86_64 runs 32-bit kernels, too") {
        /// PCs with 64-bit CPUs.
        #[default]
        X86_64 = "x86_64",
        /// 64-bit Arm.
        Aarch64 = "aarch64",
        /// 64-bit RISC-V.
        Riscv64 = "riscv64",
    }
}

impl Arch {
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
