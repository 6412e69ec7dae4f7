//! The connected clients: how many, from where, and whether they have authenticated.
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
const MAX_CONNECTIONS: usize = 128;
/// Connections of one address. A tester has one for each port.
pub(crate) const MAX_PER_ADDRESS: usize = 32;
/// How long a connection may last before its first call is let in. The TLS handshake is in this time.
pub(crate) const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that a connection may send before its first call is let in: a TLS handshake with a chain of
/// certificates, and a call. HTTP/2 has frames that ask for nothing, and each takes time to read.
pub(crate) const STRANGERS_BYTES: usize = 64 << 10;
/// Failed log-ins of an address in a row, and how long it must wait then.
pub(crate) const MAX_FAILURES: u32 = 5;
pub(crate) const WAIT: Duration = Duration::from_secs(10);
/// Addresses that are remembered because of failed log-ins.
const REMEMBERED: usize = 4096;
/// How long nothing is accepted after an error: descriptors come back when connections end.
const PAUSE: Duration = Duration::from_millis(200);
/// How often a reached limit is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The state of an address.
#[derive(Default)]
struct Address {
    connections: usize,
    failures: u32,
    failed: Option<Instant>,
    /// When one of its connections sent too much before a log-in: then none is accepted for a while.
    flooded: Option<Instant>,
}

impl Address {
    /// How long it must still wait before it may log in.
    fn must_wait(&self) -> Option<Duration> {
        let left = WAIT.checked_sub(self.failed?.elapsed())?;
        (self.failures >= MAX_FAILURES).then_some(left)
    }

    fn has_failed_lately(&self) -> bool {
        self.failed.is_some_and(|failed| failed.elapsed() < WAIT)
    }

    fn has_flooded_lately(&self) -> bool {
        self.flooded.is_some_and(|flooded| flooded.elapsed() < WAIT)
    }

    /// Whether there is a reason to remember it without a connection.
    fn is_suspect(&self) -> bool {
        self.has_failed_lately() || self.has_flooded_lately()
    }
}

#[derive(Default)]
struct State {
    addresses: HashMap<IpAddr, Address>,
    connections: usize,
    /// When connections were last reported to be too many.
    reported: Option<Instant>,
}

/// All who are connected.
pub(crate) struct Clients {
    state: Mutex<State>,
    log: fn(&str),
}

/// The host that limits apply to. For IPv6 it is the /64 network, as one host may have all of its addresses.
fn host(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

impl Clients {
    pub fn new(log: fn(&str)) -> Self {
        Self { state: Mutex::default(), log }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection from this address; `None` if there are too many.
    fn admit(self: &Arc<Self>, peer: SocketAddr) -> Option<Client> {
        let mut state = self.state();
        let all = state.connections;
        let address = state.addresses.entry(host(peer)).or_default();
        if address.has_flooded_lately() {
            return None;
        }
        if all >= MAX_CONNECTIONS || address.connections >= MAX_PER_ADDRESS {
            drop(state);
            self.tell(&format!("{peer}: refused: too many connections"));
            return None;
        }
        address.connections += 1;
        state.connections += 1;
        Some(Client { peer, known: Arc::default(), clients: self.clone() })
    }

    /// Logs that a limit was hit, at most once in [`REPORT_INTERVAL`].
    fn tell(&self, what: &str) {
        let mut state = self.state();
        if state.reported.is_none_or(|reported| reported.elapsed() >= REPORT_INTERVAL) {
            state.reported = Some(Instant::now());
            (self.log)(what);
        }
    }

    /// Ends a connection that sent too much before a log-in.
    fn ban(&self, peer: SocketAddr) -> io::Error {
        let banned = |it: &mut Address| it.flooded = Some(Instant::now());
        self.state().addresses.entry(host(peer)).and_modify(banned);
        self.tell(&format!("{peer}: refused: it sends too much data without logging in"));
        io::ErrorKind::ConnectionAborted.into()
    }

    fn leave(&self, peer: SocketAddr) {
        let mut state = self.state();
        state.connections -= 1;
        if let Some(address) = state.addresses.get_mut(&host(peer)) {
            address.connections -= 1;
            if address.connections == 0 && !address.is_suspect() {
                state.addresses.remove(&host(peer));
            }
        }
    }
}

/// The client of a connection.
#[derive(Clone)]
pub(crate) struct Client {
    pub peer: SocketAddr,
    /// Whether it has shown who it is.
    known: Arc<AtomicBool>,
    clients: Arc<Clients>,
}

impl Client {
    /// The client that makes this call.
    pub fn of<T>(call: &Request<T>) -> Option<Self> {
        let plain = call.extensions().get::<Self>();
        let behind_tls = || Some(call.extensions().get::<TlsConnectInfo<Self>>()?.get_ref());
        plain.or_else(behind_tls).cloned()
    }

    /// Lets a call in that `check` accepts. An address that has failed several times must wait, whatever it
    /// shows.
    pub fn log_in(&self, check: impl FnOnce() -> Result<(), Status>) -> Result<(), Status> {
        let host = host(self.peer);
        let wait = self.clients.state().addresses.get(&host).and_then(Address::must_wait);
        if let Some(wait) = wait {
            let s = wait.as_secs() + 1;
            let why = format!("too many failed log-ins from this address: try again in {s} s");
            return Err(Status::resource_exhausted(why));
        }
        let checked = check();
        match &checked {
            Ok(()) => {
                self.known.store(true, Ordering::Relaxed);
                // Failures count in a row.
                let mut state = self.clients.state();
                state.addresses.entry(host).and_modify(|it| (it.failures, it.failed) = (0, None));
            }
            Err(refused) => {
                let mut state = self.clients.state();
                if state.addresses.len() >= REMEMBERED {
                    state.addresses.retain(|_, it| it.connections > 0 || it.is_suspect());
                }
                let address = state.addresses.entry(host).or_default();
                address.failures = if address.has_failed_lately() { address.failures + 1 } else { 1 };
                address.failed = Some(Instant::now());
                drop(state);
                (self.clients.log)(&format!("{}: refused: {}", self.peer, refused.message()));
            }
        }
        checked
    }
}

/// An accepted connection. It fails when its client stays a stranger for too long.
pub(crate) struct Connection {
    stream: TcpStream,
    client: Client,
    login_timeout: Pin<Box<Sleep>>,
    /// Bytes that it has sent before.
    strangers_bytes: usize,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.client.clients.leave(self.client.peer);
    }
}

impl Connected for Connection {
    type ConnectInfo = Client;

    fn connect_info(&self) -> Client {
        self.client.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let known = self.client.known.load(Ordering::Relaxed);
        if !known && self.login_timeout.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if !known {
            self.strangers_bytes += buffer.filled().len() - before;
            if self.strangers_bytes > STRANGERS_BYTES {
                return Poll::Ready(Err(self.client.clients.ban(self.client.peer)));
            }
        }
        read
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

/// Accepts connections until their receiver is gone.
pub(crate) async fn accept(
    listener: TcpListener,
    clients: Arc<Clients>,
    to: mpsc::Sender<io::Result<Connection>>,
) {
    loop {
        match listener.accept().await {
            // One connection too many is closed at once: its tester need not wait.
            Ok((stream, peer)) => {
                let Some(client) = clients.admit(peer) else { continue };
                let login_timeout = Box::pin(tokio::time::sleep(LOGIN_TIMEOUT));
                let connection = Connection { stream, client, login_timeout, strangers_bytes: 0 };
                // Without it answers are late, not wrong.
                let _ = connection.stream.set_nodelay(true);
                if to.send(Ok(connection)).await.is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                clients.tell(&format!("cannot accept connections: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn clients() -> Arc<Clients> {
        Arc::new(Clients::new(|line| eprintln!("{line}")))
    }

    #[test]
    fn one_address_does_not_take_all_connections() {
        let clients = clients();
        let from = |text: &str| clients.admit(text.parse().unwrap());
        assert!((0..MAX_PER_ADDRESS).all(|_| from("10.0.0.1:9").is_some()));
        assert!(from("10.0.0.1:10").is_none() && from("10.0.0.2:9").is_some());
        clients.leave("10.0.0.1:9".parse().unwrap());
        assert!(from("10.0.0.1:10").is_some());
        // One IPv6 network is one address, and an IPv4 address is the same in IPv6.
        assert!((0..MAX_PER_ADDRESS).all(|n| from(&format!("[2001:db8::{n:x}]:9")).is_some()));
        assert!(from("[2001:db8::ffff:1]:9").is_none() && from("[2001:db8:0:1::1]:9").is_some());
        assert!(from("[::ffff:10.0.0.1]:9").is_none());
        // Nor do many.
        assert!((0..=u8::MAX).any(|n| from(&format!("10.0.1.{n}:9")).is_none()));
        assert_eq!(clients.state().connections, MAX_CONNECTIONS);
    }

    #[test]
    fn who_fails_often_must_wait() {
        let clients = clients();
        let client = |text: &str| clients.admit(text.parse().unwrap()).unwrap();
        let (bad, other) = (client("10.0.0.1:9"), client("10.0.0.2:9"));
        let fails = || Err(Status::unauthenticated("wrong token"));
        for _ in 0..MAX_FAILURES {
            assert_eq!(bad.log_in(fails).unwrap_err().message(), "wrong token");
        }
        // The token is not checked, be it right or wrong.
        let said = bad.log_in(|| panic!("checked")).unwrap_err();
        assert!(said.message().starts_with("too many failed log-ins from this address"), "{said}");
        // Not even over another connection, but other addresses are let in.
        assert!(client("10.0.0.1:10").log_in(|| Ok(())).is_err() && other.log_in(|| Ok(())).is_ok());
        // Only failures in a row count: a login with the right token resets the count.
        for _ in 0..4 * MAX_FAILURES {
            assert_eq!(other.log_in(fails).unwrap_err().message(), "wrong token");
            assert!(other.log_in(|| Ok(())).is_ok());
        }
        let long_ago = Instant::now().checked_sub(WAIT);
        clients.state().addresses.get_mut(&host(bad.peer)).unwrap().failed = long_ago;
        assert!(bad.log_in(|| Ok(())).is_ok());
    }
}
