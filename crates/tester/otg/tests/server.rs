//! The server with clients that behave badly, over the loopback interface.

#![allow(clippy::unwrap_used)]

use kpps_otg::{Rules, Server, Settings};
use kpps_ports::port::Options;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take, on a machine under load.
const PATIENCE: Duration = Duration::from_secs(120);

fn server() -> Server {
    let rules = Rules {
        ports: vec!["eth1=packet:eth1".parse().unwrap()],
        max_pps: f64::INFINITY,
        max_duration: Duration::from_secs(60),
        is_strict: false,
        is_lenient: false,
        documents: None,
        scopes: Vec::new(),
        options: Options::default(),
        log: |_| (),
    };
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let (identity, grpc) = (None, Some(here));
    let settings =
        Settings { listen: here, is_plain: true, identity, grpc, is_grpc_secure: false, token: None };
    Server::start(settings, rules).unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The status and the body of the answer to a request.
fn ask(server: &Server, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let mut stream = connect(server.json);
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A server may answer before it has read all.
    let _ = stream.write_all(body);
    answer(&mut stream)
}

fn answer(stream: &mut TcpStream) -> (u16, Value) {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

fn version(server: &Server) -> Value {
    let (status, body) = ask(server, "GET", "/capabilities/version", b"");
    assert_eq!(status, 200);
    body["api_spec_version"].clone()
}

/// The lines of a refused configuration.
fn refused(server: &Server, config: &[u8]) -> Vec<String> {
    let (status, body) = ask(server, "POST", "/config", config);
    assert_eq!((status, &body["code"], &body["kind"]), (400, &json!(400), &json!("validation")), "{body}");
    body["errors"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

#[test]
fn calls_have_their_paths_and_methods() {
    let server = server();
    assert_eq!(version(&server), ">=1.28.0,<2.0.0");
    assert_eq!(ask(&server, "GET", "/config", b""), (200, json!({})));
    assert_eq!(ask(&server, "POST", "/config", b"{}"), (200, json!({"warnings": []})));
    assert_eq!(ask(&server, "GET", "/kpps/documents", b""), (200, json!([])));
    assert_eq!(ask(&server, "DELETE", "/config", b"").0, 405);
    assert_eq!(ask(&server, "GET", "/nothing", b"").0, 404);
    let (status, body) = ask(&server, "POST", "/monitor/metrics", br#"{"choice": "port"}"#);
    assert_eq!((status, body), (200, json!({"choice": "port_metrics", "port_metrics": []})));
    let (status, body) = ask(&server, "POST", "/monitor/metrics", br#"{"choice": "bgpv4"}"#);
    assert_eq!((status, &body["errors"][0]), (400, &json!("bgpv4: not supported")));
    let (status, body) = ask(
        &server,
        "POST",
        "/control/state",
        br#"{"traffic": {"flow_transmit": {"state": "start", "flow_names": ["x"]}}}"#,
    );
    assert_eq!(status, 400);
    assert_eq!(body["errors"][0], "traffic.flow_transmit.flow_names: there is no flow 'x'");
    let unknown = refused(&server, br#"{"ports": [{"name": "p", "location": "eth9"}]}"#);
    assert_eq!(unknown, ["ports[0].location: there is no 'eth9' here: give one of eth1"]);
}

#[test]
fn bad_bodies_are_refused_in_few_lines() {
    let server = server();
    for body in [&b""[..], b"{", b"nonsense", b"[]", b"\xff\xff", b"{\"flows\": 1}", b"{\"ports\": [1]}"] {
        let lines = refused(&server, body);
        assert!(lines.len() == 1 && !lines[0].is_empty(), "{body:?}: {lines:?}");
    }
    assert!(
        refused(&server, b"{\"ports\": [{\"name\": 1}]}")[0].starts_with("ports[0].name: 1: expected a text")
    );
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{{\"x\": {}1{}}}", open.repeat(100_000), close.repeat(100_000));
        assert_eq!(refused(&server, deep.as_bytes()), ["x: there is no such field"]);
    }
    // A million flows.
    let many = format!("{{\"flows\": [{}{{}}]}}", "{},".repeat(1_000_000));
    let lines = refused(&server, many.as_bytes());
    assert!(lines.len() <= 101 && lines[0] == "flows[0].name: it is missing", "{}", lines.len());
    assert_eq!(version(&server), ">=1.28.0,<2.0.0");
}

#[test]
fn a_body_that_is_too_long_is_not_read() {
    let server = server();
    let mut stream = connect(server.json);
    let head = "POST /config HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 300000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let (status, body) = answer(&mut stream);
    assert_eq!((status, &body["errors"][0]), (413, &json!("the body is longer than 100 MiB")));
}

#[test]
fn clients_that_do_not_speak_or_go_do_not_hinder_others() {
    let server = server();
    // More than there are places: the server closes them after a while.
    let grpc = server.grpc.unwrap();
    let silent: Vec<TcpStream> =
        (0..80).map(|n| connect(if n % 2 == 0 { server.json } else { grpc })).collect();
    assert_eq!(version(&server), ">=1.28.0,<2.0.0");
    drop(silent);
    for part in
        ["POST /config HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"flows\":", "POST", "\r\n", "\0"]
    {
        let mut stream = connect(server.json);
        stream.write_all(part.as_bytes()).unwrap();
    }
    assert_eq!(version(&server), ">=1.28.0,<2.0.0");
}

#[test]
fn bytes_that_are_no_grpc_end_their_connection() {
    let server = server();
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense that is no frame"]
    {
        let mut stream = connect(server.grpc.unwrap());
        stream.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        // It may be reset.
        let _ = stream.read_to_end(&mut rest);
    }
    assert_eq!(version(&server), ">=1.28.0,<2.0.0");
}
