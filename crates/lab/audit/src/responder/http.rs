//! The HTTP server (RFC 9110, RFC 9112) of one connection, without TCP. It serves one file under every name
//! to `GET` and `HEAD`, and ends the connection after its answer.

use super::content;

/// The longest request, in bytes.
const MOST_REQUEST_BYTES: usize = 4_096;

/// A connection of a client.
#[derive(Debug, Default)]
pub struct Exchange {
    request: Vec<u8>,
    answer: Option<Answer>,
}

/// An answer, and the part of it that was taken.
#[derive(Debug)]
struct Answer {
    header: Vec<u8>,
    body_bytes: u64,
    /// Bytes of header and body that were taken.
    taken: u64,
}

impl Exchange {
    /// Takes bytes of the client. The result is whether an answer begins with them.
    pub fn take(&mut self, bytes: &[u8], file_bytes: u64) -> bool {
        if self.answer.is_some() {
            return false;
        }
        let room = MOST_REQUEST_BYTES - self.request.len().min(MOST_REQUEST_BYTES);
        self.request.extend(bytes.iter().take(room));
        let (status, is_head) = match is_whole(&self.request) {
            true => judge(&self.request),
            false if self.request.len() >= MOST_REQUEST_BYTES => {
                ("431 Request Header Fields Too Large", false)
            }
            false => return false,
        };
        let is_served = status.starts_with("200");
        let length = if is_served { file_bytes } else { 0 };
        let kind = if is_served { "Content-Type: application/octet-stream\r\n" } else { "" };
        let header =
            format!("HTTP/1.1 {status}\r\n{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n");
        let body_bytes = if is_head { 0 } else { length };
        self.answer = Some(Answer { header: header.into_bytes(), body_bytes, taken: 0 });
        self.request = Vec::new();
        true
    }

    /// Writes the next bytes of the answer into `bytes` and gives their number.
    pub fn fill(&mut self, bytes: &mut [u8]) -> usize {
        let Some(answer) = &mut self.answer else { return 0 };
        let header = answer.header.get(answer.taken as usize..).unwrap_or_default();
        let first = header.len().min(bytes.len());
        let (head, rest) = bytes.split_at_mut(first);
        head.copy_from_slice(&header[..first]);
        let offset = (answer.taken + first as u64).saturating_sub(answer.header.len() as u64);
        let second = answer.body_bytes.saturating_sub(offset).min(rest.len() as u64) as usize;
        content::fill(offset, &mut rest[..second]);
        answer.taken += (first + second) as u64;
        first + second
    }

    /// Whether there is an answer.
    pub fn is_answering(&self) -> bool {
        self.answer.is_some()
    }

    /// Whether there is an answer, and all of it was taken.
    pub fn is_done(&self) -> bool {
        self.answer.as_ref().is_some_and(|it| it.taken >= it.header.len() as u64 + it.body_bytes)
    }

    /// Bytes of the answer's body.
    pub fn body_bytes(&self) -> u64 {
        self.answer.as_ref().map_or(0, |answer| answer.body_bytes)
    }
}

/// Whether a request has its empty line. A lone line feed ends a line, too (RFC 9112, 2.2).
fn is_whole(request: &[u8]) -> bool {
    request.windows(2).any(|it| it == b"\n\n") || request.windows(3).any(|it| it == b"\n\r\n")
}

/// The status of a whole request, and whether it is `HEAD`.
fn judge(request: &[u8]) -> (&'static str, bool) {
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else { return ("400 Bad Request", false) };
    if target.is_empty() {
        return ("400 Bad Request", false);
    }
    match (method, version) {
        (_, version) if !version.starts_with(b"HTTP/1.") => ("505 HTTP Version Not Supported", false),
        (b"GET", _) => ("200 OK", false),
        (b"HEAD", _) => ("200 OK", true),
        _ => ("501 Not Implemented", false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(request: &str, bytes: u64) -> (String, Vec<u8>) {
        let mut exchange = Exchange::default();
        // The request comes in small pieces, and so leaves the answer.
        for piece in request.as_bytes().chunks(3) {
            exchange.take(piece, bytes);
        }
        let (mut all, mut piece) = (Vec::new(), [0; 7]);
        loop {
            let count = exchange.fill(&mut piece);
            if count == 0 {
                break;
            }
            all.extend(&piece[..count]);
        }
        assert_eq!(exchange.is_done(), !all.is_empty());
        let end = all.windows(4).position(|it| it == b"\r\n\r\n").map_or(0, |at| at + 4);
        let body = all.split_off(end);
        (String::from_utf8_lossy(&all).into_owned(), body)
    }

    #[test]
    fn requests_are_answered_by_their_first_line() {
        let (header, body) = exchange("GET /x HTTP/1.1\r\nHost: y\r\n\r\n", 1000);
        assert!(header.starts_with("HTTP/1.1 200 OK\r\n"), "{header}");
        assert!(header.contains("Content-Length: 1000\r\nConnection: close\r\n"), "{header}");
        let mut file = vec![0; 1000];
        content::fill(0, &mut file);
        assert_eq!(body, file);
        let (header, body) = exchange("HEAD / HTTP/1.0\n\n", 1000);
        assert!(header.contains("Content-Length: 1000\r\n") && body.is_empty(), "{header}");
        for (request, status) in [
            ("GET /\r\n\r\n", "400"),
            ("\r\n\r\n\r\n", "400"),
            ("PUT / HTTP/1.1\r\n\r\n", "501"),
            ("GET / HTTP/2\r\n\r\n", "505"),
            (&"x".repeat(5000), "431"),
        ] {
            let (header, body) = exchange(request, 1000);
            assert!(header.starts_with(&format!("HTTP/1.1 {status}")) && body.is_empty(), "{header}");
        }
        assert_eq!(exchange("GET / HTTP/1.1\r\nHost: y\r\n", 1000).0, "", "the empty line is missing");
    }
}
