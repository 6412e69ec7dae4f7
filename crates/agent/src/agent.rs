//! An agent: it listens, and admits known testers.

use crate::pings::Responder;
use crate::proto::agent_server::{self, AgentServer};
use crate::proto::{Answer, Question};
use crate::session::{self, LEASE, Shared};
use crate::{Error, Rules, Security};
use kpps_tester::clock::Clock;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// How often a silent connection is probed.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// The longest message: the frames of a trial are in one.
pub(crate) const LONGEST: usize = 64 << 20;

/// Lends this host's ports until it is dropped.
pub struct Agent {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Agent {
    /// Starts to listen. Events are reported to `log`, in lines; times are those of `clock`.
    ///
    /// # Errors
    /// In one line: the address is in use, or a certificate is not valid.
    pub fn start(
        listen: SocketAddr,
        rules: Rules,
        security: Security,
        clock: Clock,
        log: fn(&str),
    ) -> Result<Self, Error> {
        let cannot = |error: std::io::Error| Error::because(format!("cannot listen on {listen}"), &error);
        let listener = TcpListener::bind(listen).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        // The same number, so that one firewall rule is enough; another one if it is in use.
        let socket =
            UdpSocket::bind(address).or_else(|_| UdpSocket::bind((address.ip(), 0))).map_err(cannot)?;
        let responder = Responder::start(socket, clock.clone()).map_err(cannot)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(cannot)?;
        let mut server = Server::builder()
            .tcp_nodelay(true)
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(LEASE));
        if let Some(tls) = security.server() {
            server = server
                .tls_config(tls)
                .map_err(|error| Error::because("the certificates cannot be used", &error))?;
        }
        let shared = Arc::new(Shared { rules, clock, responder, in_use: Default::default(), log });
        let service = AgentServer::new(Service { shared, security }).max_decoding_message_size(LONGEST);
        let incoming = {
            let _here = runtime.enter();
            TcpIncoming::from(tokio::net::TcpListener::from_std(listener).map_err(cannot)?)
        };
        runtime.spawn(async move {
            let end = server.serve_with_incoming(service, incoming.with_nodelay(Some(true))).await;
            if let Err(error) = end {
                log(&Error::because("listening has ended", &error).to_string());
            }
        });
        Ok(Self { address, runtime: Some(runtime) })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Service {
    shared: Arc<Shared>,
    security: Security,
}

#[tonic::async_trait]
impl agent_server::Agent for Service {
    type SessionStream = ReceiverStream<Result<Answer, Status>>;

    async fn session(
        &self,
        call: Request<Streaming<Question>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let peer = call.remote_addr().map_or_else(String::new, |address| address.to_string());
        if let Err(refused) = self.security.check(&call) {
            (self.shared.log)(&format!("{peer}: refused: {}", refused.message()));
            return Err(refused);
        }
        let mut came = call.into_inner();
        let (to, questions) = std::sync::mpsc::channel();
        let (answers, stream) = mpsc::channel(4);
        // The stream of a tester that vanished ends, too, when keep-alives are not answered.
        tokio::spawn(async move {
            while let Ok(Some(question)) = came.message().await {
                if to.send(question).is_err() {
                    break;
                }
            }
        });
        let shared = self.shared.clone();
        let session = std::thread::Builder::new().name("session".into());
        session
            .spawn(move || session::run(&shared, &peer, &questions, &answers))
            .map_err(|error| Status::resource_exhausted(format!("no thread for a session: {error}")))?;
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}
