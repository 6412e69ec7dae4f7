//! Applications on ports: bridge, router, NAT, source, sink.
//!
//! They are composed of small elements with the names and semantics of the Click modular router (Kohler et
//! al., TOCS 2000): frames are *pushed* towards a sink or *pulled* from a source. Elements do no input or
//! output, know no costs, and read no clock: the caller passes the time. A frame is anything with bytes. Its
//! buffer belongs to the pusher, so a push returns a frame that ends here.
//!
//! - In one direction: [`InfiniteSource`], [`Counter`], [`Discard`].
//! - Between several ports ([`App`]): the learning bridge [`EtherSwitch`]; the IPv4 [`Router`] between ports
//!   and VLANs, optionally with address translation ([`Nat`]). Every frame is accounted for: `received + made
//!   = sent + ended + held` ([`Ledger`]).
//!
//! A NAT with its outside on port 1:
//!
//! ```
//! use kpps_apps::{App, Interface, Nat, Outputs, Router};
//! use kpps_frames::{Mac, Size, build};
//!
//! /// Keeps the frames that leave, with their ports.
//! struct Sent(Vec<(usize, Vec<u8>)>);
//! impl Outputs<Vec<u8>> for Sent {
//!     fn send(&mut self, port: usize, frame: Vec<u8>) {
//!         self.0.push((port, frame));
//!     }
//!     fn make(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
//!         Some(bytes.to_vec())
//!     }
//!     fn discard(&mut self, _: Vec<u8>) {}
//! }
//!
//! let mac = |n| Mac([2, 0, 0, 0, 0, n]);
//! let interface = |port, net: &str| -> Result<_, kpps_apps::Misconfigured> {
//!     let net = net.parse().expect("a network");
//!     Ok(Interface { port, vlan: None, mac: mac(2 + port as u8), net, mtu: 1500 })
//! };
//! let interfaces = vec![interface(0, "198.18.0.254/16")?, interface(1, "198.19.0.1/16")?];
//! let mut nat = Router::new(interfaces, &[])?
//!     .with_nat(Nat::new(1))?
//!     .with_neighbour([198, 19, 0, 2].into(), mac(9))?;
//! // A test frame from 198.18.0.1 on the inside to 198.19.0.2 leaves with the outside address.
//! let frame = build::udp_test(&build::Flow::default(), Size::MIN).expect("a frame");
//! let mut sent = Sent(Vec::new());
//! assert!(nat.push(0, frame, 0, &mut sent).is_none());
//! let (port, frame) = &sent.0[0];
//! assert_eq!((*port, &frame[26..30]), (1, &[198, 19, 0, 1][..]));
//! # Ok::<(), kpps_apps::Misconfigured>(())
//! ```
#![forbid(unsafe_code)]

mod app;
mod basic;
mod route;
mod switch;

pub use app::{App, Ledger, Outputs, Reason, Resize};
pub use basic::{Counter, Discard, InfiniteSource};
pub use ipnet::Ipv4Net;
pub use route::{Conflicts, Interface, Misconfigured, Nat, Route, Router, Timeouts};
pub use switch::EtherSwitch;

/// An element that frames are pushed into.
pub trait Push<F> {
    /// Takes `frame`. Returns it if it ends here, so that the caller can reuse its buffer.
    fn push(&mut self, frame: F) -> Option<F>;
    /// The number of elements that a frame passes from here on, this one included.
    fn elements(&self) -> u32;
}

/// An element that frames are pulled out of.
pub trait Pull {
    /// Writes the next frame into `buffer` and returns its length in bytes without FCS; `None` if there is
    /// none now, or `buffer` is too small.
    fn pull(&mut self, buffer: &mut [u8]) -> Option<usize>;
    /// The number of elements that a frame has passed up to here, this one included.
    fn elements(&self) -> u32;
}
