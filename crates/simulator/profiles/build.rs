//! The folder `profiles/` is built in: a change there is a change of this crate.

fn main() {
    println!("cargo::rerun-if-changed=../../../profiles");
}
