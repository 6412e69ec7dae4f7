//! `kpps agent`: ports of this host for a tester on another host.

use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::{Args, Subcommand};
use kpps_agent::{Agent, Kind, Network, Rules, Security, TEST_NETWORKS, exposed, keys};
use kpps_methods::units::{self, RateSpec};
use kpps_ports::port::run::{CpuList, use_cpus, use_priority};
use kpps_tester::Allowed;
use kpps_tester::clock::Clock;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How agent and tester authenticate each other.
#[derive(Args)]
pub struct Credentials {
    /// File with a token of 16 characters or more that agent and tester share. The token is sent unencrypted:
    /// use it only in networks where no one else can read the traffic
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tls_ca", "tls_cert", "tls_key"], help_heading = heading::AGENTS)]
    token_file: Option<PathBuf>,
    /// Certificate of the authority that signed the other side's certificate (PEM); `kpps agent keys` makes
    /// all certificates and keys
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "tls_key"], help_heading = heading::AGENTS)]
    tls_ca: Option<PathBuf>,
    /// Own certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_ca", help_heading = heading::AGENTS)]
    tls_cert: Option<PathBuf>,
    /// Key of the own certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_ca", help_heading = heading::AGENTS)]
    tls_key: Option<PathBuf>,
}

impl Credentials {
    /// Whether there are some.
    pub fn are_given(&self) -> bool {
        self.token_file.is_some() || self.tls_ca.is_some()
    }

    /// The security that the arguments choose.
    pub fn security(&self, session: &Session) -> Result<Security, Failure> {
        let Self { token_file, tls_ca, tls_cert, tls_key } = self;
        token_file
            .iter()
            .chain(tls_key)
            .filter_map(|path| exposed(path))
            .for_each(|line| session.tell(&line));
        match (token_file, tls_ca, tls_cert, tls_key) {
            (Some(token), ..) => Ok(Security::token(token)?),
            (None, Some(authority), Some(certificate), Some(key)) => {
                Ok(Security::tls(authority, certificate, key)?)
            }
            _ => Err(Failure::Input(
                "agent and tester must authenticate each other: give --token-file FILE, or --tls-ca, --tls-cert and --tls-key"
                    .into(),
            )),
        }
    }
}

/// Arguments of `kpps agent`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  kpps agent keys lab-keys h1 h2        an authority, certificates of two agents and of a tester
  kpps agent --listen 0.0.0.0:5777 --allow-ports packet:eth1 \\
      --tls-ca ca.pem --tls-cert h1.pem --tls-key h1.key
  kpps agent --allow-ports udp: --allow-to 10.1.0.0/24 --max-load 100kpps --token-file token
  kpps trial --ports packet:eth1,packet:eth1 --from h1 --to h2 --load 50kpps \\
      --tls-ca ca.pem --tls-cert tester.pem --tls-key tester.key        on the tester's host

An agent uses only the ports and sends only the loads that its operator allows. It stops sending seven seconds
after the last message of the tester. It listens on one port number: by TCP for testers, by UDP for questions
about its clock."
)]
pub struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
    /// Address to listen on. 0.0.0.0:5777 accepts testers of all hosts, the default only testers of this host
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from(([127, 0, 0, 1], kpps_agent::PORT)))]
    listen: SocketAddr,
    /// Ports that testers may use; `udp:`, `packet:` and so on allow all ports of a kind
    #[arg(long, value_delimiter = ',', required = true, value_name = "PORT,…")]
    allow_ports: Vec<String>,
    /// Networks to which udp: ports may send, beside destinations that --allow-ports names
    #[arg(long, value_delimiter = ',', value_name = "NETWORK,…", default_value = TEST_NETWORKS)]
    allow_to: Vec<Network>,
    /// Highest load of all ports together, in frames per second (50kpps) [default: no limit]
    #[arg(long, value_name = "LOAD")]
    max_load: Option<RateSpec>,
    /// Longest time that a load may last [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    max_duration: Option<Duration>,
    /// CPUs for senders and receivers, as 2,3 or 0-3. Senders use the first CPUs of the list [default: CPUs
    /// on which little else runs]
    #[arg(long, value_name = "LIST", help_heading = heading::CARDS_AND_CPUS)]
    cpus: Option<CpuList>,
    /// Whether senders and receivers run with priority over other programs, if this user may raise the
    /// priority [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = super::options::yes_or_no(), help_heading = heading::CARDS_AND_CPUS)]
    priority: Option<bool>,
    /// Further arguments of DPDK (of its EAL), for dpdk: ports, as '-m 2048 --log-level=debug'
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true, help_heading = heading::CARDS_AND_CPUS)]
    eal: Option<String>,
    #[command(flatten)]
    credentials: Credentials,
}

#[derive(Subcommand)]
enum Task {
    /// Make an authority and certificates for agents and a tester
    #[command(
        after_help = "Examples:\n  kpps agent keys lab-keys h1 h2      then copy ca.pem, h1.pem and h1.key to h1"
    )]
    Keys {
        /// Folder to write to; files that exist already are kept
        folder: PathBuf,
        /// Hosts of the agents, by the names or addresses that testers use
        #[arg(required = true, value_name = "HOST")]
        hosts: Vec<String>,
    },
}

/// Runs `kpps agent`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    if let Some(Task::Keys { folder, hosts }) = &arguments.task {
        let made = keys::make(folder, hosts)?;
        let lines: Vec<_> = made.iter().map(|path| path.display().to_string()).collect();
        return Ok(session.print(&lines.join("\n"))?);
    }
    let load_pps = match arguments.max_load {
        None => f64::INFINITY,
        Some(RateSpec::Pps(pps)) => pps,
        Some(_) => return Err(Failure::Input("give --max-load in frames per second: 50kpps".into())),
    };
    let allowed = Allowed { load_pps, duration: arguments.max_duration.unwrap_or(Duration::MAX) };
    let destinations = arguments.allow_to.clone();
    let ports = kpps_ports::join_arguments(arguments.allow_ports.iter().map(String::as_str));
    let ports =
        ports.iter().map(|name| name.parse::<Kind>().map_err(Failure::Input)).collect::<Result<_, _>>()?;
    let rules = Rules { ports, allowed, destinations };
    session.watch();
    use_cpus(arguments.cpus.as_ref()).map_err(Failure::Input)?;
    use_priority(arguments.priority.unwrap_or(true));
    super::options::use_eal(arguments.eal.as_deref());
    let security = arguments.credentials.security(session)?;
    let agent =
        Agent::start(arguments.listen, rules, security, Clock::here().clone(), kpps_rendering::files::tell)?;
    let address = agent.address();
    let only_here = address.ip().is_loopback().then(|| {
        format!(", for testers on this host only (--listen 0.0.0.0:{} is for others, too)", address.port())
    });
    session.tell(&format!("listening on {address}{}", only_here.unwrap_or_default()));
    while session.goes_on() {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
