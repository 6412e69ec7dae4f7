//! The message of an end: a head of text, and then bytes whose values follow from their places.

/// The period of the bytes after the head. It is prime, so that no size of segments is a multiple of it.
const PERIOD: u64 = 251;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    head: Vec<u8>,
    bytes: u64,
}

impl Content {
    /// `bytes` bytes without a head.
    pub const fn of_bytes(bytes: u64) -> Self {
        Self { head: Vec::new(), bytes }
    }

    /// A request for this path from this host, after whose answer the server closes (HTTP/1.1, RFC 9112).
    pub fn http_request(host: &str, path: &str) -> Self {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: kpps\r\nConnection: close\r\n\r\n");
        Self { bytes: head.len() as u64, head: head.into_bytes() }
    }

    /// The answer to such a request, with a body of `bytes` bytes.
    pub fn http_answer(bytes: u64) -> Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {bytes}\r\n\
             Connection: close\r\n\r\n"
        );
        Self { bytes: head.len() as u64 + bytes, head: head.into_bytes() }
    }

    /// Its length in bytes, with the head.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The byte at this place.
    #[inline]
    fn at(&self, place: u64) -> u8 {
        let head = usize::try_from(place).ok().and_then(|place| self.head.get(place));
        head.copied().unwrap_or_else(|| ((place - self.head.len() as u64) % PERIOD) as u8)
    }

    /// Writes the bytes from this place on.
    #[inline]
    pub fn write(&self, place: u64, to: &mut [u8]) {
        for (byte, place) in to.iter_mut().zip(place..) {
            *byte = self.at(place);
        }
    }

    /// Whether these are the bytes from this place on.
    #[inline]
    pub fn is_at(&self, place: u64, bytes: &[u8]) -> bool {
        place + bytes.len() as u64 <= self.bytes
            && bytes.iter().zip(place..).all(|(byte, place)| *byte == self.at(place))
    }
}

/// Finds the empty line that ends the head of a request of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadEnd(u8);

impl HeadEnd {
    const END: [u8; 4] = *b"\r\n\r\n";

    /// Reads further bytes. Returns whether the head has ended.
    #[inline]
    pub fn read(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            match Self::END.get(usize::from(self.0)) {
                None => break,
                Some(next) if byte == next => self.0 += 1,
                Some(_) => self.0 = u8::from(*byte == Self::END[0]),
            }
        }
        usize::from(self.0) == Self::END.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_head_and_its_length() {
        let answer = Content::http_answer(3);
        let mut bytes = vec![9; answer.bytes() as usize];
        answer.write(0, &mut bytes);
        assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n") && bytes.ends_with(b"\r\n\r\n\x00\x01\x02"));
        assert!(answer.is_at(0, &bytes) && answer.is_at(5, &bytes[5..]));
        assert!(!answer.is_at(1, &bytes[..20]));
        assert!(!answer.is_at(answer.bytes(), &[0]), "nothing comes after the end");
        assert_eq!(Content::http_request("a", "/").bytes(), 64);
    }

    #[test]
    fn the_end_of_a_head_is_found_wherever_it_is_cut() {
        let text = b"GET / HTTP/1.1\r\nA: \r\r\n\r\n";
        for cut in 0..text.len() {
            let mut end = HeadEnd::default();
            assert!(!end.read(&text[..cut]));
            assert!(end.read(&text[cut..]), "cut at {cut}");
            assert!(end.read(b"more"), "it has ended");
        }
    }
}
