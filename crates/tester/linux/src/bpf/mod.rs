//! Programs in the kernel: loading, maps, the kernel's description of its own types, and each program.

mod btf;
pub mod drops;
mod load;
mod redirect;
mod symbols;

#[cfg(any(feature = "fuzzing", test))]
pub(crate) use btf::Btf;
pub use redirect::Redirect;
#[cfg(any(feature = "fuzzing", test))]
pub(crate) use symbols::Symbols;
