//! Network cards on the PCI bus, their drivers in the kernel, and their use from user space.

mod address;
#[cfg(target_os = "linux")]
mod bar;
#[cfg(target_os = "linux")]
mod card;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
pub mod devices;
#[cfg(target_os = "linux")]
mod domain;
#[cfg(target_os = "linux")]
mod function;
#[cfg(target_os = "linux")]
mod interrupts;
#[cfg(target_os = "linux")]
mod lines;
#[cfg(target_os = "linux")]
pub mod paced;
#[cfg(target_os = "linux")]
mod physical;
#[cfg(target_os = "linux")]
mod registers;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
mod vfio;
#[cfg(target_os = "linux")]
mod window;

pub use address::Address;
pub(crate) use address::parse;
#[cfg(target_os = "linux")]
pub use card::{Card, CardPlatform};
#[cfg(target_os = "linux")]
pub use domain::Domain;
#[cfg(target_os = "linux")]
pub use interrupts::Interrupts;
#[cfg(target_os = "linux")]
pub use window::Window;
