//! Who is connected: how many, from where, and whether they have shown who they are.
//!
//! An unauthenticated client can open idle connections or guess keys. So there are limits: connections in all
//! and of one address, the time until the first successful call, and failed log-ins of an address.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tonic::transport::server::{Connected, TlsConnectInfo};
use tonic::{Request, Status};

/// Connections at once. A process may open 1024 files on most systems, and each port needs some.
const MOST: usize = 128;
/// Connections of one address. A tester has one for each port.
pub(crate) const MOST_OF_ONE: usize = 32;
/// How long a connection may last before its first call is let in. The TLS handshake is in this time.
pub(crate) const STRANGER: Duration = Duration::from_secs(10);
/// Failed log-ins of an address in a row, and how long it must wait then.
pub(crate) const FAILURES: u32 = 5;
pub(crate) const WAIT: Duration = Duration::from_secs(10);
/// Addresses that are remembered because of failed log-ins.
const REMEMBERED: usize = 4096;
/// How long nothing is accepted after an error: descriptors come back when connections end.
const PAUSE: Duration = Duration::from_millis(200);
/// How often crowds are reported.
const QUIET: Duration = Duration::from_secs(10);

/// What is known of an address.
#[derive(Default)]
struct Address {
    connections: usize,
    failures: u32,
    failed: Option<Instant>,
}

impl Address {
    /// How long it must still wait before it may log in.
    fn must_wait(&self) -> Option<Duration> {
        let left = WAIT.checked_sub(self.failed?.elapsed())?;
        (self.failures >= FAILURES).then_some(left)
    }

    fn has_failed_lately(&self) -> bool {
        self.failed.is_some_and(|failed| failed.elapsed() < WAIT)
    }
}

#[derive(Default)]
struct Crowd {
    addresses: HashMap<IpAddr, Address>,
    connections: usize,
    /// When connections were last reported to be too many.
    told: Option<Instant>,
}

/// All who are connected.
pub(crate) struct Guests {
    crowd: Mutex<Crowd>,
    log: fn(&str),
}

/// The host that limits apply to. For IPv6 it is the /64 network, as one host may have all of its addresses.
fn host(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

impl Guests {
    pub fn new(log: fn(&str)) -> Self {
        Self { crowd: Mutex::default(), log }
    }

    fn crowd(&self) -> MutexGuard<'_, Crowd> {
        self.crowd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection from this address; `None` if there are too many.
    fn admit(self: &Arc<Self>, peer: SocketAddr) -> Option<Guest> {
        let mut crowd = self.crowd();
        let all = crowd.connections;
        let address = crowd.addresses.entry(host(peer)).or_default();
        if all >= MOST || address.connections >= MOST_OF_ONE {
            drop(crowd);
            self.tell(&format!("{peer}: refused: too many connections"));
            return None;
        }
        address.connections += 1;
        crowd.connections += 1;
        Some(Guest { peer, known: Arc::default(), guests: self.clone() })
    }

    /// Logs that a limit was hit, at most once in [`QUIET`].
    fn tell(&self, what: &str) {
        let mut crowd = self.crowd();
        if crowd.told.is_none_or(|told| told.elapsed() >= QUIET) {
            crowd.told = Some(Instant::now());
            (self.log)(what);
        }
    }

    fn leave(&self, peer: SocketAddr) {
        let mut crowd = self.crowd();
        crowd.connections -= 1;
        if let Some(address) = crowd.addresses.get_mut(&host(peer)) {
            address.connections -= 1;
            if address.connections == 0 && !address.has_failed_lately() {
                crowd.addresses.remove(&host(peer));
            }
        }
    }
}

/// Who is behind a connection.
#[derive(Clone)]
pub(crate) struct Guest {
    pub peer: SocketAddr,
    /// Whether it has shown who it is.
    known: Arc<AtomicBool>,
    guests: Arc<Guests>,
}

impl Guest {
    /// Who makes this call.
    pub fn of<T>(call: &Request<T>) -> Option<Self> {
        let plain = call.extensions().get::<Self>();
        let behind_tls = || Some(call.extensions().get::<TlsConnectInfo<Self>>()?.get_ref());
        plain.or_else(behind_tls).cloned()
    }

    /// Lets a call in that `check` accepts. An address that has failed several times must wait, whatever it
    /// shows.
    pub fn log_in(&self, check: impl FnOnce() -> Result<(), Status>) -> Result<(), Status> {
        let host = host(self.peer);
        let wait = self.guests.crowd().addresses.get(&host).and_then(Address::must_wait);
        if let Some(wait) = wait {
            let s = wait.as_secs() + 1;
            let why = format!("too many failed log-ins from this address: try again in {s} s");
            return Err(Status::resource_exhausted(why));
        }
        let checked = check();
        match &checked {
            Ok(()) => self.known.store(true, Ordering::Relaxed),
            Err(refused) => {
                let mut crowd = self.guests.crowd();
                if crowd.addresses.len() >= REMEMBERED {
                    crowd.addresses.retain(|_, it| it.connections > 0 || it.has_failed_lately());
                }
                let address = crowd.addresses.entry(host).or_default();
                address.failures = if address.has_failed_lately() { address.failures + 1 } else { 1 };
                address.failed = Some(Instant::now());
                drop(crowd);
                (self.guests.log)(&format!("{}: refused: {}", self.peer, refused.message()));
            }
        }
        checked
    }
}

/// An accepted connection. It fails when its guest stays a stranger for too long.
pub(crate) struct Connection {
    stream: TcpStream,
    guest: Guest,
    patience: Pin<Box<Sleep>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.guest.guests.leave(self.guest.peer);
    }
}

impl Connected for Connection {
    type ConnectInfo = Guest;

    fn connect_info(&self) -> Guest {
        self.guest.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let known = self.guest.known.load(Ordering::Relaxed);
        if !known && self.patience.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Accepts connections until nobody takes them any more.
pub(crate) async fn accept(
    listener: TcpListener,
    guests: Arc<Guests>,
    to: mpsc::Sender<io::Result<Connection>>,
) {
    loop {
        match listener.accept().await {
            // One connection too many is closed at once: its tester need not wait.
            Ok((stream, peer)) => {
                let Some(guest) = guests.admit(peer) else { continue };
                let patience = Box::pin(tokio::time::sleep(STRANGER));
                let connection = Connection { stream, guest, patience };
                // Without it answers are late, not wrong.
                let _ = connection.stream.set_nodelay(true);
                if to.send(Ok(connection)).await.is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                guests.tell(&format!("cannot accept connections: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn guests() -> Arc<Guests> {
        Arc::new(Guests::new(|line| eprintln!("{line}")))
    }

    #[test]
    fn one_address_does_not_take_all_connections() {
        let guests = guests();
        let from = |text: &str| guests.admit(text.parse().unwrap());
        assert!((0..MOST_OF_ONE).all(|_| from("10.0.0.1:9").is_some()));
        assert!(from("10.0.0.1:10").is_none() && from("10.0.0.2:9").is_some());
        guests.leave("10.0.0.1:9".parse().unwrap());
        assert!(from("10.0.0.1:10").is_some());
        // One IPv6 network is one address, and an IPv4 address is the same in IPv6.
        assert!((0..MOST_OF_ONE).all(|n| from(&format!("[2001:db8::{n:x}]:9")).is_some()));
        assert!(from("[2001:db8::ffff:1]:9").is_none() && from("[2001:db8:0:1::1]:9").is_some());
        assert!(from("[::ffff:10.0.0.1]:9").is_none());
        // Nor do many.
        assert!((0..=u8::MAX).any(|n| from(&format!("10.0.1.{n}:9")).is_none()));
        assert_eq!(guests.crowd().connections, MOST);
    }

    #[test]
    fn who_fails_often_must_wait() {
        let guests = guests();
        let guest = |text: &str| guests.admit(text.parse().unwrap()).unwrap();
        let (bad, other) = (guest("10.0.0.1:9"), guest("10.0.0.2:9"));
        let fails = || Err(Status::unauthenticated("wrong token"));
        for _ in 0..FAILURES {
            assert_eq!(bad.log_in(fails).unwrap_err().message(), "wrong token");
        }
        // Right or wrong: it is not looked at.
        let said = bad.log_in(|| panic!("checked")).unwrap_err();
        assert!(said.message().starts_with("too many failed log-ins from this address"), "{said}");
        // Not even over another connection, but other addresses are let in.
        assert!(guest("10.0.0.1:10").log_in(|| Ok(())).is_err() && other.log_in(|| Ok(())).is_ok());
        let long_ago = Instant::now().checked_sub(WAIT);
        guests.crowd().addresses.get_mut(&host(bad.peer)).unwrap().failed = long_ago;
        assert!(bad.log_in(|| Ok(())).is_ok());
    }
}
