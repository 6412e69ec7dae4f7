//! The TFTP server (RFC 1350, with the options of RFC 2347 to 2349). It serves one file under every name,
//! refuses to be written, and has several transfers at once.
//!
//! Mode `netascii` gets the same bytes as `octet`. A block is repeated after a timeout only, never for a
//! repeated acknowledgement (RFC 1123, 4.2.3.1).

use super::content;
use super::path::SECOND_PS;
use super::seen::Seen;
use super::wire::{Datagram, End};

/// The port of requests.
pub const PORT: u16 = 69;
/// The most transfers at once.
const MOST_TRANSFERS: usize = 16;
/// The ports of transfers: dynamic ones (RFC 6335, 6).
const FIRST_PORT: u16 = 49_152;
const PORTS: u16 = 8_192;
/// The size of a block without option in bytes (RFC 1350), the least and the most (RFC 2348). The most is
/// the greatest that needs no fragments on Ethernet.
const BLOCK_BYTES: u16 = 512;
const LEAST_BLOCK_BYTES: u32 = 8;
const MOST_BLOCK_BYTES: u16 = 1_468;
/// The time in s after which a packet is sent again, unless the client asks for another one (RFC 2349).
const TIMEOUT_S: u32 = 1;
/// How often a packet is sent again.
const REPEATS: u32 = 8;
/// The longest text of an option that is read.
const MOST_OPTIONS: usize = 16;

/// The codes of packets (RFC 1350, 5; RFC 2347).
mod code {
    pub const READ: u16 = 1;
    pub const WRITE: u16 = 2;
    pub const DATA: u16 = 3;
    pub const ACKNOWLEDGEMENT: u16 = 4;
    pub const ERROR: u16 = 5;
    pub const OPTIONS: u16 = 6;
}

/// The codes of errors (RFC 1350, appendix).
mod error {
    pub const UNDEFINED: u16 = 0;
    pub const ACCESS: u16 = 2;
    pub const ILLEGAL: u16 = 4;
    pub const UNKNOWN_TRANSFER: u16 = 5;
}

/// A transfer to a client.
#[derive(Debug)]
struct Transfer {
    client: End,
    /// The server's and the client's port.
    ports: [u16; 2],
    block_bytes: u16,
    timeout_ps: u64,
    /// The packet of accepted options; empty if there are none.
    options: Vec<u8>,
    /// The block that was sent last, from 1; 0: the accepted options.
    block: u64,
    sent_ps: u64,
    repeats: u32,
}

impl Transfer {
    fn due_ps(&self) -> u64 {
        self.sent_ps.saturating_add(self.timeout_ps)
    }

    /// The packet that was sent last. Blocks are numbered modulo 2^16.
    fn packet(&self, file_bytes: u64) -> Datagram {
        let data = match self.block.checked_sub(1) {
            None => self.options.clone(),
            Some(index) => {
                let offset = index.saturating_mul(self.block_bytes.into());
                let bytes = file_bytes.saturating_sub(offset).min(self.block_bytes.into());
                let mut data = vec![0; 4 + bytes as usize];
                data[..2].copy_from_slice(&code::DATA.to_be_bytes());
                data[2..4].copy_from_slice(&(self.block as u16).to_be_bytes());
                content::fill(offset, &mut data[4..]);
                data
            }
        };
        Datagram { to: self.client, ports: self.ports, data }
    }

    /// Whether the block that was sent last is the last one: it is shorter than the others (RFC 1350, 6).
    fn is_last(&self, file_bytes: u64) -> bool {
        self.block > 0 && self.block.saturating_mul(self.block_bytes.into()) > file_bytes
    }
}

/// A read request.
struct Request {
    block_bytes: u16,
    timeout_s: u32,
    /// The accepted options as they are acknowledged.
    options: Vec<u8>,
}

impl Request {
    /// Reads a request after its code: name, mode, and pairs of options, each with a zero after it.
    fn read(bytes: &[u8], file_bytes: u64) -> Option<Self> {
        let body = bytes.strip_suffix(&[0])?;
        let mut texts = body.split(|byte| *byte == 0).map(|text| std::str::from_utf8(text).ok());
        let _name = texts.next()??;
        let mode = texts.next()??;
        if !["octet", "netascii"].iter().any(|known| mode.eq_ignore_ascii_case(known)) {
            return None;
        }
        let mut request = Self {
            block_bytes: BLOCK_BYTES,
            timeout_s: TIMEOUT_S,
            options: code::OPTIONS.to_be_bytes().into(),
        };
        let mut accepted = Vec::new();
        for _ in 0..MOST_OPTIONS {
            let (Some(Some(name)), Some(Some(value))) = (texts.next(), texts.next()) else { break };
            let name = name.to_ascii_lowercase();
            // An option that is unknown or has an illegal value is not acknowledged (RFC 2347).
            let Ok(value) = value.parse::<u32>() else { continue };
            let answer = match name.as_str() {
                "blksize" if value >= LEAST_BLOCK_BYTES => {
                    request.block_bytes = MOST_BLOCK_BYTES.min(value.min(u16::MAX.into()) as u16);
                    request.block_bytes.into()
                }
                "timeout" if (1..=255).contains(&value) => {
                    request.timeout_s = value;
                    value.into()
                }
                "tsize" => file_bytes,
                _ => continue,
            };
            if accepted.contains(&name) {
                continue;
            }
            request.options.extend([name.as_bytes(), &[0], answer.to_string().as_bytes(), &[0]].concat());
            accepted.push(name);
        }
        if accepted.is_empty() {
            request.options.clear();
        }
        Some(request)
    }
}

/// The server.
#[derive(Debug)]
pub struct Server {
    file_bytes: u64,
    transfers: Vec<Transfer>,
    /// Transfers so far: each has a port of its own.
    number: u16,
}

impl Server {
    /// A server of a file of this size.
    pub fn new(file_bytes: u64) -> Self {
        Self { file_bytes, transfers: Vec::new(), number: 0 }
    }

    /// Whether the server receives datagrams at this port.
    pub fn has_port(port: u16) -> bool {
        port == PORT || (FIRST_PORT..FIRST_PORT + PORTS).contains(&port)
    }

    /// Takes a datagram of a client to `ports` (source, destination), and gives the reply.
    pub fn take(
        &mut self,
        now_ps: u64,
        client: End,
        ports: [u16; 2],
        data: &[u8],
        seen: &mut Seen,
    ) -> Option<Datagram> {
        let (code, body) = data.split_first_chunk().map(|(code, body)| (u16::from_be_bytes(*code), body))?;
        let refuse = |number, text| refusal(client, [ports[1], ports[0]], number, text);
        if ports[1] == PORT {
            match code {
                code::READ => {}
                code::WRITE => {
                    seen.tftp_refused.at(now_ps);
                    return Some(refuse(error::ACCESS, "Files can only be read."));
                }
                code::ERROR => return None,
                _ => {
                    seen.tftp_refused.at(now_ps);
                    return Some(refuse(error::ILLEGAL, "Not a request."));
                }
            }
            let Some(request) = Request::read(body, self.file_bytes) else {
                seen.tftp_refused.at(now_ps);
                return Some(refuse(error::ILLEGAL, "Not a read request."));
            };
            // A client that repeats its request has missed the answer.
            self.transfers.retain(|it| (it.client.ip, it.ports[1]) != (client.ip, ports[0]));
            if self.transfers.len() >= MOST_TRANSFERS {
                seen.tftp_refused.at(now_ps);
                return Some(refuse(error::UNDEFINED, "Too many transfers."));
            }
            return Some(self.start(now_ps, client, ports[0], request, seen));
        }
        let position = self
            .transfers
            .iter()
            .position(|it| (it.client.ip, it.ports) == (client.ip, [ports[1], ports[0]]));
        let Some(index) = position else {
            return (code != code::ERROR).then(|| refuse(error::UNKNOWN_TRANSFER, "Unknown transfer."));
        };
        match code {
            code::ACKNOWLEDGEMENT => {
                let block = body.first_chunk().map(|block| u16::from_be_bytes(*block))?;
                self.acknowledged(now_ps, index, block, seen)
            }
            code::ERROR => {
                self.transfers.swap_remove(index);
                seen.tftp_failed.at(now_ps);
                None
            }
            _ => {
                self.transfers.swap_remove(index);
                seen.tftp_failed.at(now_ps);
                Some(refuse(error::ILLEGAL, "Not an acknowledgement."))
            }
        }
    }

    fn start(
        &mut self,
        now_ps: u64,
        client: End,
        client_port: u16,
        request: Request,
        seen: &mut Seen,
    ) -> Datagram {
        seen.tftp_started.at(now_ps);
        let port = FIRST_PORT + self.number % PORTS;
        self.number = self.number.wrapping_add(1);
        let transfer = Transfer {
            client,
            ports: [port, client_port],
            block_bytes: request.block_bytes,
            timeout_ps: u64::from(request.timeout_s) * SECOND_PS,
            block: u64::from(request.options.is_empty()),
            options: request.options,
            sent_ps: now_ps,
            repeats: 0,
        };
        let packet = transfer.packet(self.file_bytes);
        self.transfers.push(transfer);
        packet
    }

    fn acknowledged(&mut self, now_ps: u64, index: usize, block: u16, seen: &mut Seen) -> Option<Datagram> {
        let transfer = self.transfers.get_mut(index).filter(|it| it.block as u16 == block)?;
        if transfer.is_last(self.file_bytes) {
            self.transfers.swap_remove(index);
            seen.tftp_completed.at(now_ps);
            seen.tftp_bytes = seen.tftp_bytes.saturating_add(self.file_bytes);
            return None;
        }
        transfer.block += 1;
        transfer.sent_ps = now_ps;
        transfer.repeats = 0;
        Some(transfer.packet(self.file_bytes))
    }

    /// The packets that are sent again at `now_ps`. Transfers of silent clients end.
    pub fn repeat(&mut self, now_ps: u64, seen: &mut Seen) -> Vec<Datagram> {
        self.transfers.retain(|it| {
            let is_silent = it.repeats >= REPEATS && it.due_ps() <= now_ps;
            if is_silent {
                seen.tftp_failed.at(now_ps);
            }
            !is_silent
        });
        let mut packets = Vec::new();
        for transfer in self.transfers.iter_mut().filter(|it| it.due_ps() <= now_ps) {
            transfer.sent_ps = now_ps;
            transfer.repeats += 1;
            packets.push(transfer.packet(self.file_bytes));
        }
        packets
    }

    /// When a packet is sent again; `u64::MAX` if none waits.
    pub fn due_ps(&self) -> u64 {
        self.transfers.iter().map(Transfer::due_ps).min().unwrap_or(u64::MAX)
    }
}

/// An error packet. `ports`: source and destination.
fn refusal(to: End, ports: [u16; 2], number: u16, text: &str) -> Datagram {
    let head = [code::ERROR.to_be_bytes(), number.to_be_bytes()].concat();
    Datagram { to, ports, data: [&head, text.as_bytes(), &[0]].concat() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::Mac;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    const CLIENT: End = End { mac: Mac([2, 0, 0, 0, 0, 9]), ip: Ipv4Addr::new(10, 0, 2, 15) };
    const MIB: u64 = 1 << 20;

    /// A read request of these texts.
    fn request(texts: &[&str]) -> Vec<u8> {
        let mut bytes = code::READ.to_be_bytes().to_vec();
        texts.iter().for_each(|text| bytes.extend([text.as_bytes(), &[0]].concat()));
        bytes
    }

    fn acknowledgement(block: u16) -> Vec<u8> {
        [code::ACKNOWLEDGEMENT.to_be_bytes(), block.to_be_bytes()].concat()
    }

    /// Loads a file as a client does. Each packet for which `lost` is true does not arrive. The result is the
    /// file and the packets that were sent again.
    fn load(server: &mut Server, texts: &[&str], mut lost: impl FnMut() -> bool) -> (Vec<u8>, u64, Seen) {
        let (mut seen, mut now_ps, mut file, mut expected) = (Seen::default(), 0, Vec::new(), 1u16);
        let mut block_bytes = 512;
        let mut packet = server.take(now_ps, CLIENT, [2000, PORT], &request(texts), &mut seen);
        let mut repeats = 0;
        while seen.tftp_completed.count == 0 {
            now_ps += 1_000_000;
            let Some(arrived) = packet.take().filter(|_| !lost()) else {
                now_ps = server.due_ps();
                packet = server.repeat(now_ps, &mut seen).pop();
                repeats += 1;
                assert!(packet.is_some() && repeats < 1000);
                continue;
            };
            assert_eq!((arrived.to, arrived.ports[1]), (CLIENT, 2000));
            let number = u16::from_be_bytes([arrived.data[2], arrived.data[3]]);
            let reply = match u16::from_be_bytes([arrived.data[0], arrived.data[1]]) {
                code::OPTIONS => {
                    let text = String::from_utf8(arrived.data[2..].to_vec()).unwrap();
                    let mut texts = text.split('\0');
                    if texts.any(|text| text == "blksize") {
                        block_bytes = texts.next().unwrap().parse().unwrap();
                    }
                    acknowledgement(0)
                }
                code::DATA => {
                    if number == expected {
                        assert!(arrived.data.len() - 4 <= block_bytes);
                        file.extend(&arrived.data[4..]);
                        expected = expected.wrapping_add(1);
                    }
                    acknowledgement(number)
                }
                other => panic!("{other}"),
            };
            let ports = [2000, arrived.ports[0]];
            // A lost acknowledgement is like a lost packet.
            packet = match lost() {
                true => None,
                false => server.take(now_ps, CLIENT, ports, &reply, &mut seen),
            };
        }
        assert_eq!(server.due_ps(), u64::MAX);
        (file, repeats, seen)
    }

    fn file(bytes: u64) -> Vec<u8> {
        let mut file = vec![0; bytes as usize];
        content::fill(0, &mut file);
        file
    }

    #[test]
    fn a_file_is_read_with_options() {
        let texts = ["kpps.bin", "octet", "tsize", "0", "blksize", "1468", "timeout", "5", "windowsize", "4"];
        let mut server = Server::new(MIB);
        let first = server.take(0, CLIENT, [1, PORT], &request(&texts), &mut Seen::default()).unwrap();
        assert_eq!(first.data[..2], [0, 6]);
        assert_eq!(&first.data[2..], b"tsize\x001048576\0blksize\x001468\0timeout\x005\0");
        assert_eq!(server.due_ps(), 5 * SECOND_PS);
        let mut server = Server::new(MIB);
        let (loaded, repeats, seen) = load(&mut server, &texts, || false);
        assert!(loaded == file(MIB) && repeats == 0);
        assert_eq!((seen.tftp_started.count, seen.tftp_bytes), (1, MIB));
    }

    #[test]
    fn lost_packets_are_sent_again() {
        let mut turn = 0;
        let lost = || {
            turn += 1;
            turn % 7 == 3
        };
        let texts = ["kpps.bin", "octet", "blksize", "9000"];
        let (loaded, repeats, seen) = load(&mut Server::new(MIB), &texts, lost);
        assert!(loaded == file(MIB) && repeats > 100, "{repeats}");
        assert_eq!(seen.tftp_failed.count, 0);
    }

    #[test]
    fn files_end_with_a_short_block_and_blocks_may_be_more_than_65536() {
        for bytes in [0, 1, 511, 512, 513, 1024, 600_000] {
            let texts: &[&str] = match bytes {
                600_000 => &["x", "octet", "blksize", "8"],
                _ => &["x", "octet"],
            };
            let (loaded, ..) = load(&mut Server::new(bytes), texts, || false);
            assert!(loaded == file(bytes), "{bytes}");
        }
    }

    #[test]
    fn refusals_silence_and_errors() {
        let (mut server, mut seen) = (Server::new(MIB), Seen::default());
        let mut error = |server: &mut Server, port, data: &[u8]| {
            let packet = server.take(0, CLIENT, [9, port], data, &mut seen)?;
            (packet.data[1] == code::ERROR as u8).then_some(packet.data[3])
        };
        let mut write = request(&["x", "octet"]);
        write[1] = 2;
        assert_eq!(error(&mut server, PORT, &write), Some(2));
        assert_eq!(error(&mut server, PORT, &request(&["x", "mail"])), Some(4));
        assert_eq!(error(&mut server, PORT, &acknowledgement(1)), Some(4));
        assert_eq!(error(&mut server, FIRST_PORT, &acknowledgement(1)), Some(5));
        assert_eq!(error(&mut server, FIRST_PORT, &[0, 5, 0, 0, 0]), None, "no error for an error");
        for port in 0..100 {
            server.take(0, CLIENT, [port, PORT], &request(&["x", "octet"]), &mut seen);
        }
        assert_eq!((server.transfers.len(), seen.tftp_started.count), (MOST_TRANSFERS, 16));
        // A repeated request has the same place.
        server.take(0, CLIENT, [3, PORT], &request(&["x", "octet"]), &mut seen);
        assert_eq!((server.transfers.len(), seen.tftp_started.count), (MOST_TRANSFERS, 17));
        let mut packets = 0;
        while server.due_ps() < u64::MAX {
            packets += server.repeat(server.due_ps(), &mut seen).len();
        }
        assert_eq!((packets, seen.tftp_failed.count), (MOST_TRANSFERS * REPEATS as usize, 16));
    }

    proptest! {
        #[test]
        fn hostile_packets_do_no_harm(
            packets in prop::collection::vec(
                (0u16..5, prop::bool::ANY, prop::collection::vec(any::<u8>(), 0..40), 0u16..7), 0..200
            )
        ) {
            let (mut server, mut seen) = (Server::new(MIB), Seen::default());
            for (now_ps, (client_port, is_request, mut data, code)) in packets.into_iter().enumerate() {
                if is_request {
                    data = request(&["x", "octet", &String::from_utf8_lossy(&data), "9", "blksize", "1"]);
                }
                if let Some(byte) = data.get_mut(1) {
                    *byte = code as u8;
                }
                let port = if is_request { PORT } else { FIRST_PORT + client_port };
                server.take(now_ps as u64, CLIENT, [client_port, port], &data, &mut seen);
                prop_assert!(server.transfers.len() <= MOST_TRANSFERS);
            }
        }
    }
}
