//! The counters of a running trial for Prometheus and others: OpenMetrics 1.0 text over HTTP.
//!
//! A thread answers one request after the other from the values that the threads of the trial have written
//! ([`Gauges`]); nothing waits for it. Its priority is the usual one, below that of a paced sender. It reads
//! input of strangers, so a request has a limited length and time.

use crate::watching::gauges::{Gauges, LiveDirection, LiveStream};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest head of a request in bytes, and how long it may take to come, or the answer to go.
const LONGEST: usize = 8192;
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);
/// The type of the text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the counters of trials until it is dropped.
pub struct Metrics {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Serves these counters at an address, as `127.0.0.1:9464`, below `/metrics`.
    ///
    /// # Errors
    /// In one line: the address is in use, or is none of this host.
    pub fn serve(address: &str, gauges: Arc<Gauges>) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("no metrics at {address}: {error}");
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let bound = listener.local_addr().map_err(cannot)?;
        let serve = move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                // A stranger who is gone or says nothing gets no answer.
                let _ = stream.and_then(|stream| answer(&stream, || text(&gauges)));
            }
        };
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(serve).map_err(cannot)?;
        Ok(Self { address: bound, over, thread: Some(thread) })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    /// Ends the thread, which a connection wakes.
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let here: IpAddr =
                if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            address.set_ip(here);
        }
        // Without the connection the thread would not end: then it is left.
        if TcpStream::connect_timeout(&address, CONNECTION_TIMEOUT).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// Reads a request and answers it.
fn answer(mut stream: &TcpStream, text: impl FnOnce() -> String) -> io::Result<()> {
    let end = Instant::now() + CONNECTION_TIMEOUT;
    stream.set_write_timeout(Some(CONNECTION_TIMEOUT))?;
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    // Whoever sends a byte at a time has no more time than others.
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if head.len() > LONGEST {
            return respond(stream, "431 Request Header Fields Too Large", "text/plain", "");
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return respond(stream, "408 Request Timeout", "text/plain", "");
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => head.extend_from_slice(&bytes[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let words: Vec<_> = line.split(|&byte| byte == b' ').collect();
    let [method, target, version] = words[..] else {
        return respond(stream, "400 Bad Request", "text/plain", "");
    };
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    match (method, path) {
        _ if !version.starts_with(b"HTTP/1.") => respond(stream, "400 Bad Request", "text/plain", ""),
        (b"GET", b"/metrics") => respond(stream, "200 OK", OPEN_METRICS, &text()),
        (b"HEAD", b"/metrics") => respond(stream, "200 OK", OPEN_METRICS, ""),
        (b"GET" | b"HEAD", _) => respond(stream, "404 Not Found", "text/plain", "/metrics\n"),
        _ => respond(stream, "405 Method Not Allowed\r\nAllow: GET, HEAD", "text/plain", ""),
    }
}

fn respond(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes())
}

/// A count of a direction, if it is known.
type Count = fn(&LiveDirection) -> Option<u64>;

/// The counters as text.
fn text(gauges: &Gauges) -> String {
    let mut text = "# TYPE kpps info\n# HELP kpps The program.\n".to_owned();
    let _ = writeln!(text, "kpps_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    text += "# TYPE kpps_trials counter\n# HELP kpps_trials Trials that have begun. All other metrics are of the last one.\n";
    let _ = writeln!(text, "kpps_trials_total {}", gauges.trials());
    let streams = gauges.streams();
    let directions = gauges.directions(&streams);
    let labels = |direction: &LiveDirection| {
        format!("from=\"{}\",to=\"{}\"", escaped(&direction.from), escaped(&direction.to))
    };
    let counters: [(&str, &str, Count); 5] = [
        ("sent", "Frames that were sent.", |direction| Some(direction.sent)),
        ("received", "Frames that arrived, each counted once.", |direction| Some(direction.received)),
        ("lost", "Frames that had not arrived a second after they were sent.", |direction| direction.lost),
        (
            "overflow",
            "Receive overflow of the tester: frames that arrived and could not be received.",
            |direction| direction.reported.missed,
        ),
        ("shortfall", "Generator shortfall: frames that could not be sent in time.", |direction| {
            direction.shortfall
        }),
    ];
    for (name, help, of) in counters {
        if directions.iter().any(|direction| of(direction).is_some()) {
            text += &head(&format!("kpps_{name}_frames"), "counter", "frames", help);
        }
        for (direction, frames) in directions.iter().filter_map(|direction| Some((direction, of(direction)?)))
        {
            let _ = writeln!(text, "kpps_{name}_frames_total{{{}}} {frames}", labels(direction));
        }
    }
    if directions.iter().any(|direction| direction.offered_pps.is_some()) {
        text += &head("kpps_offered_frames_per_second", "gauge", "frames_per_second", "The load.");
    }
    for (direction, pps) in
        directions.iter().filter_map(|direction| Some((direction, direction.offered_pps?)))
    {
        let _ = writeln!(text, "kpps_offered_frames_per_second{{{}}} {pps}", labels(direction));
    }
    if directions.iter().any(|direction| direction.reported.p50_ns.is_some()) {
        text += &head("kpps_latency_seconds", "gauge", "seconds", "Latency in the last complete interval.");
    }
    for direction in &directions {
        for (quantile, ns) in [("0.5", direction.reported.p50_ns), ("0.99", direction.reported.p99_ns)] {
            if let Some(ns) = ns {
                let (labels, seconds) = (labels(direction), ns as f64 / 1e9);
                let _ =
                    writeln!(text, "kpps_latency_seconds{{{labels},quantile=\"{quantile}\"}} {seconds:.9}");
            }
        }
    }
    text + &of_streams(&streams) + "# EOF\n"
}

/// The counters of streams as text.
fn of_streams(all: &[LiveStream]) -> String {
    /// Name, meaning and value.
    type Counter = (&'static str, &'static str, fn(&LiveStream) -> u64);
    const COUNTERS: [Counter; 2] = [
        ("sent", "Frames of a stream that were sent.", |stream| stream.sent),
        ("received", "Frames of a stream that arrived, each counted once.", |stream| stream.received),
    ];
    let mut text = String::new();
    for (name, help, of) in COUNTERS.into_iter().filter(|_| !all.is_empty()) {
        text += &head(&format!("kpps_stream_{name}_frames"), "counter", "frames", help);
        for stream in all {
            let [name_of, from, to] = [&stream.name, &stream.from, &stream.to].map(|label| escaped(label));
            let _ = writeln!(
                text,
                "kpps_stream_{name}_frames_total{{stream=\"{name_of}\",from=\"{from}\",to=\"{to}\"}} {}",
                of(stream)
            );
        }
    }
    text
}

/// The lines before the values of a metric.
fn head(name: &str, kind: &str, unit: &str, help: &str) -> String {
    format!("# TYPE {name} {kind}\n# UNIT {name} {unit}\n# HELP {name} {help}\n")
}

/// The value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The server's answer to these bytes.
    fn says(metrics: &Metrics, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(metrics.address()).unwrap();
        stream.write_all(request).unwrap();
        let mut said = Vec::new();
        // After a request that it does not read to its end it closes at once.
        let _ = stream.read_to_end(&mut said);
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn requests_have_limits_and_others_are_served_afterwards() {
        let metrics = Metrics::serve("127.0.0.1:0", Arc::default()).unwrap();
        let good = says(&metrics, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(good.starts_with("HTTP/1.1 200 OK\r\n") && good.contains(OPEN_METRICS), "{good}");
        assert!(good.contains("kpps_info{version=") && good.ends_with("\n# EOF\n"), "{good}");
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"\xff\0 \r\n\r\n", "400"),
            (b"GET /metrics SPDY/3\r\n\r\n", "400"),
            (&[b'a'; LONGEST + 1024], "431"),
        ] {
            let said = says(&metrics, request);
            assert!(
                said.is_empty() && status == "431" || said.starts_with(&format!("HTTP/1.1 {status}")),
                "{said}"
            );
        }
        // One who says nothing, and one who leaves.
        let silent = TcpStream::connect(metrics.address()).unwrap();
        drop(TcpStream::connect(metrics.address()).unwrap());
        let begun = Instant::now();
        let head = says(&metrics, b"HEAD /metrics?x HTTP/1.0\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(begun.elapsed() < 30 * CONNECTION_TIMEOUT);
        drop(silent);
        let again = Metrics::serve(&metrics.address().to_string(), Arc::default()).err().unwrap();
        assert!(again.contains("in use"), "{again}");
        let address = metrics.address();
        drop(metrics);
        assert!(TcpListener::bind(address).is_ok(), "it has ended");
    }

    #[test]
    fn each_stream_has_its_counters() {
        let stream = |name: &str, sent| LiveStream {
            name: name.into(),
            from: "packet:a".into(),
            to: "packet:b".into(),
            sent,
            received: sent - 1,
        };
        let text = of_streams(&[stream("voice", 10), stream("bulk \"b\"", 7)]);
        for line in [
            "# TYPE kpps_stream_sent_frames counter",
            r#"kpps_stream_sent_frames_total{stream="voice",from="packet:a",to="packet:b"} 10"#,
            r#"kpps_stream_received_frames_total{stream="bulk \"b\"",from="packet:a",to="packet:b"} 6"#,
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert_eq!(of_streams(&[]), "");
    }

    #[test]
    fn a_name_cannot_break_a_line() {
        assert_eq!(escaped("a\"b\\\nc"), r#"a\"b\\\nc"#);
    }
}
