//! An agent: it listens, and admits known testers.

use crate::clients::{Client, Clients, Connection, accept};
use crate::loads::Loads;
use crate::parts::{Memory, QUESTION};
use crate::pings::Responder;
use crate::proto::agent_server::{self, AgentServer};
use crate::proto::{Answer, Question};
use crate::session::{self, LEASE, Shared, Tester};
use crate::{Error, Rules, Security};
use kpps_ports::port::run::prefer;
use kpps_tester::clock::Clock;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

/// How often a silent connection is probed.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// The most sessions at once: each has a port and some threads.
const SESSIONS: usize = 32;
/// The most sessions of one connection: a tester opens a connection for each session.
const SESSIONS_PER_CONNECTION: u32 = 2;

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
        // The same port number, so that one firewall rule is enough; another number if it is in use.
        let socket =
            UdpSocket::bind(address).or_else(|_| UdpSocket::bind((address.ip(), 0))).map_err(cannot)?;
        let responder = Responder::start(socket, clock.clone()).map_err(cannot)?;
        let runtime = crate::runtime().map_err(cannot)?;
        let mut server = Server::builder()
            .tcp_nodelay(true)
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(LEASE))
            .max_concurrent_streams(SESSIONS_PER_CONNECTION);
        if let Some(tls) = security.server() {
            server = server
                .tls_config(tls)
                .map_err(|error| Error::because("the certificates cannot be used", &error))?;
        }
        let loads = Arc::new(Loads::new(rules.allowed));
        let memory = Memory::default();
        let shared = Arc::new(Shared { rules, clock, responder, loads, memory, log });
        let service = Service { shared, security, sessions: Arc::new(Semaphore::new(SESSIONS)) };
        let service = AgentServer::new(service).max_decoding_message_size(QUESTION);
        let listener = {
            let _here = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(cannot)?
        };
        let (to, connections) = mpsc::channel::<std::io::Result<Connection>>(1);
        runtime.spawn(accept(listener, Arc::new(Clients::new(log)), to));
        runtime.spawn(async move {
            let end = server.serve_with_incoming(service, ReceiverStream::new(connections)).await;
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
    sessions: Arc<Semaphore>,
}

#[tonic::async_trait]
impl agent_server::Agent for Service {
    type SessionStream = ReceiverStream<Result<Answer, Status>>;

    async fn session(
        &self,
        call: Request<Streaming<Question>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let client = Client::of(&call).ok_or_else(|| Status::internal("a call without a connection"))?;
        client.log_in(|| self.security.check(&call))?;
        let many = |_| {
            Status::resource_exhausted(format!("it already serves {SESSIONS} sessions, which is its limit"))
        };
        let place = self.sessions.clone().try_acquire_owned().map_err(many)?;
        let (answers, stream) = mpsc::channel(4);
        let (shared, questions) = (self.shared.clone(), call.into_inner());
        // The stream of a tester that vanished ends, too, when keep-alives are not answered.
        let session = move || {
            prefer(true);
            session::run(&shared, &client.peer.to_string(), Tester { questions, answers: &answers });
            drop(place);
        };
        let thread = std::thread::Builder::new().name("session".into()).spawn(session);
        thread.map_err(|error| {
            Status::resource_exhausted(format!("cannot start a thread for the session: {error}"))
        })?;
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}
