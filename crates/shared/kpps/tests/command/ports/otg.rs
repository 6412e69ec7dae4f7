//! `kpps otg` with a client of its interface: snappi, from PyPI.

use kpps_namespaces::{Net, Process, skip};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

/// Where a client reaches a server, and by which transport.
const TRANSPORTS: [(&str, &str); 2] = [("http://127.0.0.1:8443", "http"), ("127.0.0.1:40051", "grpc")];

/// How long a server may take to start, on a machine under load.
const PATIENCE: Duration = Duration::from_secs(120);

/// A Python with snappi.
fn python() -> Option<PathBuf> {
    let python = kpps_namespaces::python("snappi");
    if python.is_none() {
        skip::needs("Python with snappi (make install-python)");
    }
    python
}

/// A server with the ports `a` and `b` of a namespace.
fn server(net: &Net, words: &[&str]) -> Process {
    net.run("ip link set dev lo up");
    let mut command = net.command(assert_cmd::cargo::cargo_bin("kpps"));
    command.args(["otg", "--port", "eth1=packet:a", "--port", "eth2=packet:b"]).args(words);
    Process::start(command, "listening on http", PATIENCE)
}

/// A test of the client against a server, by its location, transport and name; its output.
fn client<const N: usize>(net: &Net, server: &Process, python: &Path, words: [&str; N]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/ports/otg.py");
    let Output { status, stdout, stderr } = net.command(python).arg(script).args(words).output().unwrap();
    let [out, error] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(status.success(), "{words:?}: {error}\n{out}\nserver: {}", server.said());
    out
}

/// By each transport the flow metrics are the counts of the interfaces.
#[test]
fn flows_are_counted_to_the_frame() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let documents = folder.path().to_str().unwrap();
    let secure = server(&net, &["--grpc", "127.0.0.1:40051", "--documents", documents]);
    let count = |location: &str, transport: &str, server: &Process| {
        let before = ["a", "b"].map(|port| net.sent(port));
        let out = client(&net, server, &python, [location, transport, "several_flows"]);
        let sent: Vec<u64> = out.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let after = ["a", "b"].map(|port| net.sent(port));
        assert_eq!(sent, [after[0] - before[0], after[1] - before[1]], "{transport}");
    };
    count("https://127.0.0.1:8443", "http", &secure);
    client(&net, &secure, &python, ["https://127.0.0.1:8443", "http", "captures"]);
    client(&net, &secure, &python, ["127.0.0.1:40051", "grpc", "captures"]);
    count("127.0.0.1:40051", "grpc", &secure);
    let text = std::fs::read_to_string(folder.path().join("transmission-0001.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["kind"], "trial");
    assert_eq!(document["directions"].as_array().unwrap().len(), 2);
    let all = net.output("curl -sk https://127.0.0.1:8443/kpps/documents");
    if !all.is_empty() {
        let all: serde_json::Value = serde_json::from_str(&all).unwrap();
        assert_eq!((all.as_array().unwrap().len(), &all[0]), (4, &document));
    }
    drop(secure);
    // Another server keeps the documents of the first.
    count("http://127.0.0.1:8443", "http", &server(&net, &["--http", "--documents", documents]));
    assert_eq!(std::fs::read_to_string(folder.path().join("transmission-0001.json")).unwrap(), text);
    assert!(folder.path().join("transmission-0005.json").exists());
}

/// Flows change while others are sent, and the metrics are still the counts of the interfaces.
#[test]
fn flows_change_while_others_are_sent() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let server = server(&net, &["--http", "--grpc", "127.0.0.1:40051"]);
    for (location, transport) in TRANSPORTS {
        let before = ["a", "b"].map(|port| net.sent(port));
        let out = client(&net, &server, &python, [location, transport, "changes_while_sending"]);
        let sent: Vec<u64> = out.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let after = ["a", "b"].map(|port| net.sent(port));
        assert_eq!(sent, [after[0] - before[0], after[1] - before[1]], "{transport}");
    }
}

/// Flows between any ports of a configuration are sent in one transmission with one document, and the metrics
/// are the counts of the interfaces.
#[test]
fn flows_go_between_any_ports() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge_of_ports(4)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let documents = folder.path().to_str().unwrap();
    let ports = ["--port", "eth3=packet:c", "--port", "eth4=packet:d"];
    let words = [&ports[..], &["--http", "--grpc", "127.0.0.1:40051", "--documents", documents]].concat();
    let server = server(&net, &words);
    for (location, transport) in TRANSPORTS {
        let before = ["a", "b", "c"].map(|port| net.sent(port));
        let out = client(&net, &server, &python, [location, transport, "mesh"]);
        let sent: Vec<u64> = out.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let after = ["a", "b", "c"].map(|port| net.sent(port));
        assert_eq!(sent, [0, 1, 2].map(|port| after[port] - before[port]), "{transport}");
    }
    let document = |number: usize| -> serde_json::Value {
        let path = folder.path().join(format!("transmission-{number:04}.json"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let ways = |document: &serde_json::Value| -> Vec<String> {
        let ends =
            |way: &serde_json::Value| ["from", "to"].map(|end| way[end].as_str().unwrap()[7..].to_owned());
        document["directions"].as_array().unwrap().iter().map(|way| ends(way).concat()).collect()
    };
    let first = document(1);
    assert_eq!(ways(&first), ["ab", "ac", "ba", "bc", "ca", "cb"]);
    assert_eq!(first["ledger"]["unexplained"], 0, "{first}");
    for (location, transport) in TRANSPORTS {
        client(&net, &server, &python, [location, transport, "independent_pairs"]);
        client(&net, &server, &python, [location, transport, "circle_of_stations"]);
    }
    assert_eq!(ways(&document(3)), ["ab", "cd", "dc"]);
    assert_eq!(ways(&document(4)), ["ab", "bc", "ca"]);
}

/// A flow between stations at several ports is counted by ports, too.
#[test]
fn flows_go_between_stations_of_several_ports() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge_of_ports(4)) else { return };
    let ports = ["--port", "eth3=packet:c", "--port", "eth4=packet:d"];
    let server = server(&net, &[&ports[..], &["--http", "--grpc", "127.0.0.1:40051"]].concat());
    for (location, transport) in TRANSPORTS {
        let before = ["a", "b", "c"].map(|port| net.sent(port));
        let out = client(&net, &server, &python, [location, transport, "crowd_of_stations"]);
        let sent: Vec<u64> = out.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let after = ["a", "b", "c"].map(|port| net.sent(port));
        assert_eq!(sent, [0, 1, 2].map(|port| after[port] - before[port]), "{transport}");
    }
}

#[test]
fn counts_and_pauses_are_those_of_the_models() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let server = server(&net, &["--http", "--grpc", "127.0.0.1:40051"]);
    for (location, transport) in TRANSPORTS {
        client(&net, &server, &python, [location, transport, "counts_stay"]);
        client(&net, &server, &python, [location, transport, "pauses"]);
    }
}

/// Calls of gRPC whose messages come in parts, over TLS.
#[test]
fn streaming_calls_go_over_tls() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let folder = tempfile::tempdir().unwrap();
    kpps_agent::keys::make(folder.path(), &["localhost".to_owned()]).unwrap();
    let [authority, certificate, key] = ["ca.pem", "localhost.pem", "localhost.key"]
        .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let words = ["--grpc", "127.0.0.1:40051", "--grpc-tls", "--tls-cert", &certificate, "--tls-key", &key];
    let server = server(&net, &words);
    client(&net, &server, &python, ["127.0.0.1:40051", "grpc", "streamed", &authority]);
}

/// Copies of frames that a bridge floods to another port of the server are not lost there.
#[test]
fn flooded_copies_are_no_losses() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    net.run("ip link add name c type veth peer name pc && ip link set dev pc master br");
    net.run("ip link set dev pc up && ip link set dev c up");
    net.await_forwarding(&["pc"]);
    // Frames to `b` go to `c` only.
    if !net.can("bridge link set dev pb flood off learning off") {
        return skip::needs("bridge (iproute2)");
    }
    let server = server(&net, &["--http", "--port", "eth3=packet:c"]);
    client(&net, &server, &python, ["http://127.0.0.1:8443", "http", "flooded"]);
}

#[test]
fn single_flows_are_controlled_and_lose_what_a_filter_drops() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let drops = "nft add table bridge t && nft add chain bridge t c '{ type filter hook forward priority 0; }' \
        && nft add rule bridge t c udp dport 6666 drop";
    if !net.can(drops) {
        return skip::needs("nft with tables of bridges");
    }
    let server = server(&net, &["--http", "--grpc", "127.0.0.1:40051"]);
    client(&net, &server, &python, ["http://127.0.0.1:8443", "http", "live_control"]);
    client(&net, &server, &python, ["127.0.0.1:40051", "grpc", "live_control"]);
    client(&net, &server, &python, ["http://127.0.0.1:8443", "http", "tagged"]);
    client(&net, &server, &python, ["127.0.0.1:40051", "grpc", "tagged"]);
    client(&net, &server, &python, ["http://127.0.0.1:8443", "http", "append_and_delete"]);
    client(&net, &server, &python, ["127.0.0.1:40051", "grpc", "append_and_delete"]);
    client(&net, &server, &python, ["127.0.0.1:40051", "grpc", "many_flows"]);
}

#[test]
fn what_is_not_supported_is_refused() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    let server = server(&net, &["--grpc", "127.0.0.1:40051", "--token-file", token.to_str().unwrap()]);
    let with_token = "https://user:0123456789abcdef@127.0.0.1:8443";
    client(&net, &server, &python, [with_token, "http", "refusals"]);
    // Without the token, and with a wrong one.
    for (location, transport) in [
        ("https://127.0.0.1:8443", "http"),
        ("https://user:0123456789abcdeX@127.0.0.1:8443", "http"),
        ("127.0.0.1:40051", "grpc"),
    ] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/ports/otg.py");
        let done = net.command(&python).arg(script).args([location, transport, "refusals"]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && said.contains("a token is needed"), "{location}: {said}");
    }
}

#[test]
fn a_strict_server_fails_a_test_that_its_generator_cannot_keep_up_with() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let server = server(&net, &["--http", "--strict"]);
    client(&net, &server, &python, ["http://127.0.0.1:8443", "http", "strict"]);
}

#[test]
fn requests_and_answers_are_those_of_the_models() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let server = server(&net, &["--http", "--grpc", "127.0.0.1:40051"]);
    let http = "http://127.0.0.1:8443";
    client(&net, &server, &python, [http, "http", "published_messages"]);
    client(&net, &server, &python, [http, "http", "requests_name_what_exists"]);
    client(&net, &server, &python, ["127.0.0.1:40051", "grpc", "requests_name_what_exists"]);
}

/// The metrics of a port do not claim more than the kernel says.
#[test]
fn links_are_those_of_the_kernel() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let server = server(&net, &["--http"]);
    client(&net, &server, &python, ["http://127.0.0.1:8443", "http", "links"]);
}

#[test]
fn the_operator_limits_loads_and_times() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let server = server(&net, &["--http", "--max-load", "2kpps", "--max-duration", "2s"]);
    client(&net, &server, &python, ["http://127.0.0.1:8443", "http", "limits"]);
}

#[test]
fn flows_go_between_stations_behind_a_router() {
    let Some(python) = python() else { return };
    let Some((net, router)) = Net::with_router() else { return };
    let server = server(&net, &["--http"]);
    let mac = client(&net, &server, &python, ["http://127.0.0.1:8443", "http", "stations"]);
    assert_eq!(mac.trim(), router.output("cat /sys/class/net/ra/address").trim());
}

/// Several devices of a port, with several interfaces and addresses, all of which answer pings.
#[test]
fn a_port_has_several_stations() {
    let Some(python) = python() else { return };
    let Some((net, router)) = Net::with_router() else { return };
    for (port, network) in [("ra", 18), ("rb", 19)] {
        router.run(&format!("echo 0 > /proc/sys/net/ipv6/conf/{port}/disable_ipv6"));
        router.run(&format!("ip address add 2001:2:0:{network}::fe/64 dev {port} nodad"));
    }
    router.run("echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
    // The port of another location does not exist.
    let server = server(&net, &["--http", "--grpc", "127.0.0.1:40051", "--port", "eth3=packet:c"]);
    for (location, transport) in TRANSPORTS {
        client(&net, &server, &python, [location, transport, "several_stations", router.name()]);
    }
}

#[test]
fn stations_are_in_vlans() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let server = server(&net, &["--http", "--grpc", "127.0.0.1:40051"]);
    for (location, transport) in TRANSPORTS {
        client(&net, &server, &python, [location, transport, "vlan_stations"]);
    }
}

/// The example of the guide.
#[test]
fn the_guides_example_works() {
    let (Some(python), Some(net)) = (python(), Net::with_bridge()) else { return };
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/src/otg.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, rest) = guide.split_once("```python\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let server = server(&net, &[]);
    let done = net.command(&python).args(["-W", "ignore", "-c", example]).output().unwrap();
    let [out, error] = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(out.starts_with("2000 2000 0.0 "), "{out}\n{error}\nserver: {}", server.said());
}
