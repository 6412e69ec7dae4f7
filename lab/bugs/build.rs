//! Passes the linker its script and the address at which the image is loaded.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let base = if arch == "riscv64" { "0x80000000" } else { "0x100000" };
    println!("cargo:rustc-link-arg=-T{here}/image.ld");
    println!("cargo:rustc-link-arg=--defsym=BASE={base}");
    println!("cargo:rerun-if-changed=image.ld");
    println!("cargo:rerun-if-changed=build.rs");
}
