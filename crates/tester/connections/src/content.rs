//! The message of an end: a head of text, and then bytes whose values follow from their places.

/// The period of the bytes after the head. It is prime, so that no size of segments is a multiple of it.
const PERIOD: usize = 251;
/// The bytes after the head, as long as a segment: they are copied and compared at once.
static BYTES: [u8; 8 * PERIOD] = {
    let mut bytes = [0; 8 * PERIOD];
    let mut place = 0;
    while place < bytes.len() {
        bytes[place] = (place % PERIOD) as u8;
        place += 1;
    }
    bytes
};

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

    /// The bytes from this place on, or some of them, but not none.
    #[inline]
    fn from(&self, place: u64) -> &[u8] {
        let head = usize::try_from(place).ok().and_then(|place| self.head.get(place..));
        head.filter(|head| !head.is_empty()).unwrap_or_else(|| {
            let after_head = place - self.head.len() as u64;
            &BYTES[(after_head % PERIOD as u64) as usize..]
        })
    }

    /// Writes the bytes from this place on.
    #[inline]
    pub fn write(&self, mut place: u64, mut to: &mut [u8]) {
        while !to.is_empty() {
            let bytes = self.from(place);
            let (now, later) = to.split_at_mut(bytes.len().min(to.len()));
            now.copy_from_slice(&bytes[..now.len()]);
            (place, to) = (place + now.len() as u64, later);
        }
    }

    /// Whether these are the bytes from this place on.
    #[inline]
    pub fn is_at(&self, mut place: u64, mut bytes: &[u8]) -> bool {
        if place + bytes.len() as u64 > self.bytes {
            return false;
        }
        while !bytes.is_empty() {
            let expected = self.from(place);
            let (now, later) = bytes.split_at(expected.len().min(bytes.len()));
            if now != &expected[..now.len()] {
                return false;
            }
            (place, bytes) = (place + now.len() as u64, later);
        }
        true
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
    fn a_long_message_is_the_same_in_parts() {
        let answer = Content::http_answer(9000);
        let mut whole = vec![0; answer.bytes() as usize];
        answer.write(0, &mut whole);
        for cut in [1, 99, 100, 101, 1460, 2107, 2108, 2109, 5000] {
            let mut parts = vec![0; whole.len()];
            let (first, second) = parts.split_at_mut(cut);
            answer.write(0, first);
            answer.write(cut as u64, second);
            assert!(parts == whole && answer.is_at(cut as u64, &whole[cut..]), "cut at {cut}");
            parts[cut + 3000] ^= 1;
            assert!(!answer.is_at(cut as u64, &parts[cut..]));
        }
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
