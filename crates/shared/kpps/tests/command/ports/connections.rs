//! TCP connections of kpps through Linux and with Linux: both roles, loss of SYNs, limits of a connection
//! tracker.

use crate::net::document;
use kpps_namespaces::{Net, Process, skip};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The longest wait for an event, on a machine under load.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);
/// A share of shortfall that no trial has: the tests count connections, and no rate.
const ANY_SHORTFALL: &str = "--max-shortfall=99%";

fn connections(net: &Net, words: &[&str]) -> Command {
    let mut command = net.command(assert_cmd::cargo::cargo_bin("kpps"));
    command.args(["connections", ANY_SHORTFALL, "--json"]).args(words);
    command
}

fn measure(net: &Net, words: &[&str]) -> Value {
    let output: Output = connections(net, words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    document(&output)
}

/// The options of a client and a server through the router of [`Net::with_router`].
const THROUGH: [&str; 4] = ["--ports", "packet:a,packet:b", "--gateway", "198.18.0.254"];

fn through(net: &Net, words: &[&str]) -> Value {
    measure(net, &[&THROUGH, words].concat())
}

/// A counter of an end in the first trial.
fn count(document: &Value, end: &str, name: &str) -> u64 {
    document["trials"][0][end][name].as_u64().unwrap_or_else(|| panic!("no {end}.{name} in {document}"))
}

fn assert_all_closed(document: &Value, number: u64, ends: &[&str]) {
    for end in ends {
        for name in ["opened", "established", "closed"] {
            assert_eq!(count(document, end, name), number, "{end}.{name}: {document}");
        }
        for name in ["wrong_data", "damaged", "unsent", "refused", "aborted"] {
            assert_eq!(count(document, end, name), 0, "{end}.{name}: {document}");
        }
    }
}

#[test]
fn connections_pass_a_router_of_linux() {
    let Some((net, _router)) = Net::with_router() else { return };
    let schema = net.command(assert_cmd::cargo::cargo_bin("kpps")).arg("schema").output().unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    for (words, request, answer) in [
        (&["--request", "10", "--answer", "5000"][..], 10, 5000),
        (&["--request", "0", "--answer", "0"], 0, 0),
        (&["--http", "/a/path", "--answer", "3000"], 82, 3100),
    ] {
        let document = through(&net, &[&["--rate", "1000", "--count", "300"], words].concat());
        jsonschema::validate(&schema, &document).unwrap();
        assert_all_closed(&document, 300, &["client", "server"]);
        assert_eq!(
            (&document["request_bytes"], &document["answer_bytes"]),
            (&request.into(), &answer.into())
        );
        assert_eq!(count(&document, "server", "received_bytes"), 300 * request);
        assert_eq!(count(&document, "client", "received_bytes"), 300 * answer);
        let trial = &document["trials"][0];
        let due = trial["due"].as_u64().unwrap();
        assert_eq!(due, 300 + trial["shortfall"].as_u64().unwrap());
        for phase in ["connect_ns", "close_ns"] {
            assert!(trial[phase]["p50"].as_u64().unwrap() > 0, "{phase}");
        }
    }
    let held = ["--rate", "1000", "--concurrent", "400", "--duration", "300ms"];
    let document = through(&net, &held);
    assert_all_closed(&document, 400, &["client", "server"]);
    assert_eq!(count(&document, "client", "most_established"), 400);
}

/// A router that drops every tenth SYN: each drop is a retransmission, and no connection fails.
#[test]
fn lost_syns_are_retransmissions() {
    let Some((net, router)) = Net::with_router() else { return };
    let rule = "tcp flags & (syn | ack) == syn numgen inc mod 10 == 0 counter drop";
    let hook = "type filter hook forward priority 0";
    if !router.can(&format!("nft 'add table ip t; add chain ip t f {{ {hook}; }}; add rule ip t f {rule}'")) {
        return skip::needs("nft, and a kernel with its numgen");
    }
    let document = through(&net, &["--rate", "1000", "--count", "300", "--drain", "120s"]);
    assert_all_closed(&document, 300, &["client", "server"]);
    let again = count(&document, "client", "retransmitted_syns");
    assert_eq!(again, dropped(&router), "{document}");
    assert!(again >= 30, "{again}");
    // The first retransmission is after a second (RFC 6298), and this time is part of the result.
    assert!(document["trials"][0]["connect_ns"]["max"].as_u64().unwrap() >= 1_000_000_000);
}

/// Packets of the only rule with a counter.
fn dropped(router: &Net) -> u64 {
    let rules = router.output("nft list ruleset");
    let after = rules.split("counter packets ").nth(1).unwrap_or_else(|| panic!("{rules}"));
    after.split(' ').next().unwrap().parse().unwrap()
}

/// A NAT of Linux that takes 1000 connections: the search finds exactly that. The limit is that of a rule,
/// which belongs to the namespace; `nf_conntrack_max` belongs to the host.
#[test]
fn the_limit_of_a_connection_tracker_is_found() {
    let Some((net, router)) = Net::with_router() else { return };
    let rules = "add table ip t; add chain ip t f { type filter hook forward priority 0; }; \
        add rule ip t f ct state new ct count over 1000 counter drop; \
        add chain ip t p { type nat hook postrouting priority 100; }; \
        add rule ip t p oifname rb masquerade";
    if !router.can(&format!("nft '{rules}'")) {
        return skip::needs("nft, and a kernel with its ct count and masquerade");
    }
    let search =
        ["--find", "concurrent", "--most", "1300", "--rate", "4000", "--duration", "200ms", "--drain", "2s"];
    let document = through(&net, &[&search[..], &["--pause", "10ms"]].concat());
    let found = &document["search"];
    assert_eq!(
        (&found["concurrent_connections"], &found["failed_at"], &found["limited_by_tester"]),
        (&1000.into(), &1001.into(), &false.into()),
        "{document}"
    );
    assert!(dropped(&router) > 300);
}

/// While connections are held, the tracker of a NAT has exactly these.
#[test]
fn held_connections_are_those_of_the_tracker() {
    let Some((net, router)) = Net::with_router() else { return };
    let rules = "add table ip t; add chain ip t p { type nat hook postrouting priority 100; }; \
        add rule ip t p oifname rb masquerade";
    if !router.can(&format!("nft '{rules}'")) {
        return skip::needs("nft, and a kernel with its masquerade");
    }
    let tracked = || {
        let count = router.output("cat /proc/sys/net/netfilter/nf_conntrack_count");
        count.trim().parse::<u64>().unwrap()
    };
    let held = [&THROUGH[..], &["--concurrent", "700", "--rate", "2000", "--duration", "300s"]].concat();
    let mut kpps = connections(&net, &held);
    let kpps = kpps.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_that("all connections are tracked", || tracked() == 700);
    kpps_namespaces::signal(&kpps, "-INT");
    let document: Value = serde_json::from_slice(&kpps.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!((&document["complete"], tracked()), (&false.into(), 700));
    for (name, number) in [("opened", 700), ("most_established", 700), ("aborted", 700), ("closed", 0)] {
        assert_eq!(count(&document, "client", name), number, "{name}");
    }
}

fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + EVENT_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "waited for nothing: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A namespace with the end `a` of a cable, and another with its end `w`, which has an address of Linux. The
/// kernel there sends frames as they are on a wire: cut, and with checksums.
fn with_linux() -> Option<(Net, Net)> {
    let (net, linux) = (Net::new()?, Net::new()?);
    net.run(&format!(
        "ip link add name a type veth peer name w netns {} && ip link set dev a up",
        linux.name()
    ));
    linux.run("ip link set dev lo up && ip address add 198.18.0.9/24 dev w && ip link set dev w up");
    linux.run("ethtool -K w tx off tso off gso off > /dev/null");
    await_that("the links are up", || {
        [(&net, "a"), (&linux, "w")]
            .iter()
            .all(|(net, name)| net.output(&format!("cat /sys/class/net/{name}/operstate")).trim() == "up")
    });
    Some((net, linux))
}

/// nginx logs each of our requests, and none more; and again from the same ports, which it has in TIME-WAIT.
#[test]
fn nginx_has_counted_the_same() {
    let Some((net, linux)) = with_linux() else { return };
    if Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_err() {
        return skip::needs("nginx");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    std::fs::write(folder.path().join("file"), vec![b'x'; 20_000]).unwrap();
    let settings = format!(
        "daemon off; master_process off; pid {path}/pid; error_log stderr notice;
         events {{ worker_connections 4000; }}
         http {{ access_log {path}/log; client_body_temp_path {path}/b; proxy_temp_path {path}/p;
                 fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u; scgi_temp_path {path}/s;
                 server {{ listen 198.18.0.9:80 backlog=4096; root {path}; }} }}"
    );
    let file = folder.path().join("conf");
    std::fs::write(&file, settings).unwrap();
    let mut nginx = linux.command("nginx");
    nginx.args(["-e", "stderr", "-c", file.to_str().unwrap()]);
    let _nginx = Process::start(nginx, "event method", EVENT_TIMEOUT);
    let logged = || {
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(log.lines().all(|line| line.contains("\"GET /file HTTP/1.1\" 200 20000")), "{log}");
        log.lines().count() as u64
    };
    for round in 1..=2 {
        let words = [
            "--ports",
            "packet:a",
            "--to",
            "198.18.0.9:80",
            "--http",
            "/file",
            "--rate",
            "500",
            "--count",
            "300",
        ];
        let document = measure(&net, &words);
        assert_all_closed(&document, 300, &["client"]);
        assert_eq!(document["trials"][0]["server"], Value::Null);
        assert_eq!(document["answer_bytes"], Value::Null);
        assert!(count(&document, "client", "received_bytes") > 300 * 20_000);
        assert_eq!(logged(), 300 * round);
        // Linux is in TIME-WAIT, because it closed first.
        let sockets = linux.output("cat /proc/net/sockstat");
        let waiting = sockets.split(" tw ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(waiting.parse::<u64>().unwrap() >= 250, "{sockets}");
    }
    // Nobody listens there.
    let document = measure(&net, &["--ports", "packet:a", "--to", "198.18.0.9:81", "--count", "20"]);
    assert_eq!((count(&document, "client", "connect_resets"), count(&document, "client", "closed")), (20, 0));
}

/// Clients of Linux, whose ports repeat while our server is in TIME-WAIT.
#[test]
fn linux_clients_are_served() {
    let Some((net, linux)) = with_linux() else { return };
    for (words, request, head) in [
        (&["--http", "/", "--answer", "30000"][..], &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], 101),
        (&["--request", "300", "--answer", "30000"], &[b'q'; 300], 0),
    ] {
        let serve = ["--ports", "packet:a", "--dst", "198.18.0.1", "--serve", "80", "--count", "100"];
        let mut server = connections(&net, &[&serve, words].concat());
        let server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let name = linux.name().to_owned();
        let is_http = head > 0;
        // A client that closes first does not use its ports again.
        let ports = if is_http { "40000 40009" } else { "40010 49999" };
        linux.run(&format!("echo '{ports}' > /proc/sys/net/ipv4/ip_local_port_range"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                linux.enter();
                for number in 0..100 {
                    let address: SocketAddr = "198.18.0.1:80".parse().unwrap();
                    // The server may not be there yet: the kernel asks again for its station.
                    let until = Instant::now() + EVENT_TIMEOUT;
                    let mut stream = loop {
                        match TcpStream::connect_timeout(&address, EVENT_TIMEOUT) {
                            Ok(stream) => break stream,
                            Err(error) => assert!(Instant::now() < until, "connection {number}: {error}"),
                        }
                    };
                    stream.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
                    stream.write_all(request).unwrap();
                    let mut answer = vec![0; head + 30_000];
                    stream.read_exact(&mut answer).unwrap();
                    let body = &answer[head..];
                    assert!(body.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
                    if is_http {
                        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
                        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server closes");
                    }
                }
            });
        });
        let output = server.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let document = document(&output);
        assert_all_closed(&document, 100, &["server"]);
        assert_eq!(document["trials"][0]["client"], Value::Null);
        assert_eq!(count(&document, "server", "received_bytes"), 100 * request.len() as u64);
        assert_eq!(count(&document, "server", "resets_sent"), 0);
    }
}
