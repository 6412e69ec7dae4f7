//! The server: its listeners and connections.

mod calls;
mod service;

use crate::lab::Lab;
use crate::rules::Rules;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kpps_agent::{Token, keys};
use service::Shared;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Connections at one time.
const MOST_CONNECTIONS: usize = 64;
/// How long a client may take until its first call: the handshake of TLS is in this time.
const FIRST_CALL: Duration = Duration::from_secs(20);
/// How long a client may take to send the head of a request. A connection without requests ends after this
/// time.
const HEAD: Duration = Duration::from_secs(120);
/// How long nothing is accepted after an error: descriptors come back when connections end.
const PAUSE: Duration = Duration::from_millis(200);
/// How often transmissions are looked after.
const TICK: Duration = Duration::from_millis(250);
/// Probes of silent connections of gRPC.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Calls at one time of a connection of gRPC.
const MOST_CALLS: u32 = 16;

/// Why there is no server; in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Where a server listens, and how clients are let in.
pub struct Settings {
    /// The address for JSON over HTTP.
    pub listen: SocketAddr,
    /// Whether this address speaks plain HTTP in place of HTTPS.
    pub is_plain: bool,
    /// Own certificate and key, as files of PEM. Without them the certificate signs itself.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The address for gRPC, if there is one.
    pub grpc: Option<SocketAddr>,
    /// Whether this address speaks TLS.
    pub is_grpc_secure: bool,
    /// The token that clients must show, if any.
    pub token: Option<Token>,
}

/// A server. It runs until it is dropped.
pub struct Server {
    /// The address for JSON.
    pub json: SocketAddr,
    /// The address for gRPC.
    pub grpc: Option<SocketAddr>,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

impl Server {
    /// Starts to listen.
    ///
    /// # Errors
    /// An address is in use, or a certificate cannot be used.
    pub fn start(settings: Settings, rules: Rules) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(MOST_CONNECTIONS)
            .thread_name("otg server")
            .enable_all()
            .build()
            .map_err(|error| Error(format!("cannot start threads: {error}")))?;
        let [of_json, of_grpc] = acceptors(&settings)?;
        let log = rules.log;
        let shared = Arc::new(Shared::new(Lab::new(rules), settings.token));
        let bind = |address: SocketAddr| {
            let bound = runtime.block_on(TcpListener::bind(address));
            bound
                .and_then(|listener| Ok((listener.local_addr()?, listener)))
                .map_err(|error| Error(format!("cannot listen on {address}: {error}")))
        };
        let (json, listener) = bind(settings.listen)?;
        let bound = settings.grpc.map(bind).transpose()?;
        let grpc = bound.as_ref().map(|(address, _)| *address);
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let how = Arc::new(Protocol { is_grpc: false, tls: of_json });
        runtime.spawn(accept(listener, how, shared.clone(), places.clone(), log));
        if let Some((_, listener)) = bound {
            let how = Arc::new(Protocol { is_grpc: true, tls: of_grpc });
            runtime.spawn(accept(listener, how, shared.clone(), places, log));
        }
        let ticking = shared.clone();
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                let ticking = ticking.clone();
                let tick = move || ticking.lab.lock().unwrap_or_else(PoisonError::into_inner).tick();
                // A call that panicked has reported itself.
                let _ = tokio::task::spawn_blocking(tick).await;
            }
        });
        Ok(Self { json, grpc, shared, runtime: Some(runtime) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.lab.lock().unwrap_or_else(PoisonError::into_inner).end();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The protocol of a listener.
struct Protocol {
    is_grpc: bool,
    tls: Option<TlsAcceptor>,
}

/// The acceptors of TLS, for JSON and for gRPC; `None` where the address does not speak TLS.
fn acceptors(settings: &Settings) -> Result<[Option<TlsAcceptor>; 2], Error> {
    let are_secure = [!settings.is_plain, settings.is_grpc_secure];
    if are_secure == [false; 2] {
        return Ok([None, None]);
    }
    let (chain, key): (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) = match &settings.identity {
        Some((certificate, key)) => {
            let cannot =
                |path: &PathBuf, error: &dyn std::fmt::Display| Error(format!("{}: {error}", path.display()));
            let chain = CertificateDer::pem_file_iter(certificate)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| cannot(certificate, &format!("no certificate in PEM ({error})")))?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| cannot(key, &format!("no key in PEM ({error})")))?;
            (chain, key)
        }
        None => {
            let names = ["localhost".to_owned(), settings.listen.ip().to_string()];
            let (certificate, key) = keys::self_signed(&names).map_err(|error| Error(error.to_string()))?;
            (vec![certificate.into()], PrivatePkcs8KeyDer::from(key).into())
        }
    };
    let unusable = |error: &dyn std::fmt::Display| Error(format!("the certificate cannot be used: {error}"));
    let acceptor = |protocols: &[&str]| {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .with_no_client_auth()
            .with_single_cert(chain.clone(), key.clone_key());
        let mut config = config.map_err(|error| unusable(&error))?;
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    };
    // Clients of gRPC insist on the name of its protocol.
    let [of_json, of_grpc] = are_secure;
    Ok([of_json.then(|| acceptor(&[])).transpose()?, of_grpc.then(|| acceptor(&["h2"])).transpose()?])
}

/// Accepts connections. Each has a thread of execution of its own, so that none waits for another.
async fn accept(
    listener: TcpListener,
    how: Arc<Protocol>,
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    log: fn(&str),
) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                log(&format!("cannot accept a connection: {error}"));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (how, shared) = (how.clone(), shared.clone());
        tokio::spawn(async move {
            let is_known = Arc::new(AtomicBool::new(false));
            let serving = serve(stream, &how, shared, is_known.clone());
            let mut serving = std::pin::pin!(serving);
            if tokio::time::timeout(FIRST_CALL, &mut serving).await.is_err()
                && is_known.load(Ordering::Relaxed)
            {
                serving.await;
            }
            drop(place);
        });
    }
}

/// Serves a connection until it ends.
async fn serve(stream: TcpStream, how: &Protocol, shared: Arc<Shared>, is_known: Arc<AtomicBool>) {
    // Without it answers wait; that is all.
    let _ = stream.set_nodelay(true);
    match &how.tls {
        None => serve_stream(stream, how.is_grpc, shared, is_known).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve_stream(stream, how.is_grpc, shared, is_known).await;
            }
        }
    }
}

async fn serve_stream(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    is_grpc: bool,
    shared: Arc<Shared>,
    is_known: Arc<AtomicBool>,
) {
    if !is_grpc {
        return serve_json(stream, shared, is_known).await;
    }
    let service = service_fn(move |request| {
        let (shared, is_known) = (shared.clone(), is_known.clone());
        async move { Ok::<_, std::convert::Infallible>(shared.grpc(request, is_known).await) }
    });
    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .max_concurrent_streams(MOST_CALLS)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn serve_json(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    shared: Arc<Shared>,
    is_known: Arc<AtomicBool>,
) {
    let service = service_fn(move |request| {
        let (shared, is_known) = (shared.clone(), is_known.clone());
        async move { Ok::<_, std::convert::Infallible>(shared.json(request, is_known).await) }
    });
    // An error of a connection is its client's.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
