//! `kpps otg`: a server for clients of the Open Traffic Generator interface.

use super::PortOptions;
use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::Args;
use kpps_agent::{Token, exposed};
use kpps_methods::units::{self, RateSpec};
use kpps_otg::{NamedPort, Rules, Server, Settings};
use kpps_ports::port::run::{use_cpus, use_priority};
use kpps_tester::observe::Scope;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How long a transmission may last by default.
const LONGEST: Duration = Duration::from_secs(3600);

/// Arguments of `kpps otg`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps otg --port eth1=packet:eth1 --port eth2=packet:eth2
  kpps otg --port eth1=packet:eth1 --port eth2=packet:eth2 --grpc 127.0.0.1:40051
  kpps otg --port p1=xdp:eth1 --port p2=xdp:eth2 --listen 0.0.0.0:8443 --token-file token --strict

In Python, with snappi from PyPI:
  api = snappi.api(location='https://127.0.0.1:8443')
  config = api.config()
  config.ports.port(name='p1', location='eth1').port(name='p2', location='eth2')

Each flow goes from one port to another, and a port has flows with one other port only. A field that kpps does
not support is refused by its place; the guide has a table of the fields. Clients show a token as the password
of the address: https://user:TOKEN@HOST:8443.

The metrics of the interface do not say whether the generator kept up, or where frames were lost. The answer to
the state that stops a transmission has both among its warnings, and GET /kpps/documents has the whole
documents.")]
pub struct Arguments {
    /// A port that clients may use, with the location by which they name it; once for each port
    #[arg(long = "port", value_name = "LOCATION=PORT", required = true)]
    ports: Vec<NamedPort>,
    /// Address for JSON over HTTPS
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from(([127, 0, 0, 1], 8443)))]
    listen: SocketAddr,
    /// Speak plain HTTP in place of HTTPS at this address
    #[arg(long)]
    http: bool,
    /// Address for gRPC [default: no gRPC]
    #[arg(long, value_name = "ADDRESS:PORT")]
    grpc: Option<SocketAddr>,
    /// Speak TLS at the address for gRPC, with the certificate of HTTPS
    #[arg(long, requires = "grpc")]
    grpc_tls: bool,
    /// File with a token of 16 characters or more that clients must show. Addresses beyond this host need it
    #[arg(long, value_name = "FILE", help_heading = heading::AGENTS)]
    token_file: Option<PathBuf>,
    /// Own certificate (PEM) [default: a new one that signs itself]
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "http", help_heading = heading::AGENTS)]
    tls_cert: Option<PathBuf>,
    /// Key of the own certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = heading::AGENTS)]
    tls_key: Option<PathBuf>,
    /// Highest load that each port may send, in frames per second (50kpps) [default: no limit]
    #[arg(long, value_name = "LOAD")]
    max_load: Option<RateSpec>,
    /// Longest time that flows may last. Endless flows end after this time [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    max_duration: Option<Duration>,
    /// Answer metrics with an error if the generator could not send a load, or if another reason makes the
    /// result invalid: then a test fails that would pass by the numbers alone
    #[arg(long)]
    strict: bool,
    /// Leave out fields that are not supported, with a warning, and accept the rest
    #[arg(long)]
    lenient: bool,
    /// Write the document of each transmission to this folder
    #[arg(long, value_name = "FOLDER", help_heading = heading::RESULTS)]
    documents: Option<PathBuf>,
    /// Also read the counters of this interface of the device under test: IFACE, NAMESPACE/IFACE in another
    /// network namespace (`ip netns`), or NAMESPACE/ for all interfaces of the namespace
    #[arg(long, value_delimiter = ',', value_name = "PLACE,…", help_heading = heading::DEVICE_UNDER_TEST)]
    watch: Vec<Scope>,
    #[command(flatten)]
    options: PortOptions,
}

/// Runs `kpps otg`.
pub fn run(arguments: Arguments, session: &Session) -> Result<(), Failure> {
    let Arguments { ports, listen, http, grpc, grpc_tls, token_file, tls_cert, tls_key, options, .. } =
        arguments;
    let mut locations = BTreeSet::new();
    if let Some(port) = ports.iter().find(|port| !locations.insert(&port.location)) {
        return Err(Failure::Input(format!("--port {}: two ports have this location", port.location)));
    }
    let specs: Vec<_> = ports.iter().map(|port| port.spec.clone()).collect();
    options.check(&specs)?;
    let max_pps = match arguments.max_load {
        None => f64::INFINITY,
        Some(RateSpec::Pps(pps)) => pps,
        Some(_) => return Err(Failure::Input("give --max-load in frames per second: 50kpps".into())),
    };
    let open = [Some(listen), grpc].into_iter().flatten().find(|address| !address.ip().is_loopback());
    if let (Some(address), None) = (open, &token_file) {
        return Err(Failure::Input(format!(
            "{address} is open to other hosts: give --token-file FILE, or listen on 127.0.0.1"
        )));
    }
    if let Some(folder) = arguments.documents.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::Input(format!("--documents {}: there is no such folder", folder.display())));
    }
    token_file.iter().chain(&tls_key).filter_map(|path| exposed(path)).for_each(|line| session.tell(&line));
    let token = token_file.as_deref().map(Token::read).transpose()?;
    session.watch();
    use_cpus(options.cpus.as_ref()).map_err(Failure::Input)?;
    use_priority(options.priority.unwrap_or(true));
    super::options::use_eal(options.eal.as_deref());
    let rules = Rules {
        ports,
        max_pps,
        max_duration: arguments.max_duration.unwrap_or(LONGEST),
        is_strict: arguments.strict,
        is_lenient: arguments.lenient,
        documents: arguments.documents,
        scopes: arguments.watch,
        options: options.options(true),
        log: kpps_rendering::files::tell,
    };
    let identity = tls_cert.zip(tls_key);
    let settings = Settings { listen, is_plain: http, identity, grpc, is_grpc_secure: grpc_tls, token };
    let server = Server::start(settings, rules).map_err(|error| Failure::Input(error.to_string()))?;
    let scheme = if http { "http" } else { "https" };
    session.tell(&format!("listening on {scheme}://{}", server.json));
    server.grpc.iter().for_each(|address| session.tell(&format!("listening on {address} for gRPC")));
    while session.goes_on() {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
