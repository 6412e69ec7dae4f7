//! The DHCP server (RFC 2131, options of RFC 2132). It has one address to give, and no state.

use super::seen::Seen;
use super::wire::{Datagram, End};
use kpps_frames::Mac;
use smoltcp::wire::{DhcpFlags, DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr};
use std::net::Ipv4Addr;

/// The port of servers.
pub const SERVER_PORT: u16 = 67;
/// The port of clients.
const CLIENT_PORT: u16 = 68;
/// The shortest message: BOOTP had a vendor area of fixed size (RFC 1542, 2.1), and some clients still
/// refuse shorter replies.
const LEAST_BYTES: usize = 300;
/// The longest message that each client must accept (RFC 2131, 2).
const MOST_BYTES: usize = 548;
/// The longest client identifier that is returned, in bytes (RFC 6842): a reply has room for it.
const MOST_CLIENT_ID: usize = 64;
/// The lease in seconds, and when the client renews it: after 1/2 and 7/8 (RFC 2131, 4.4.5).
const LEASE_S: u32 = 86_400;
const RENEW_S: u32 = LEASE_S / 2;
const REBIND_S: u32 = LEASE_S / 8 * 7;
/// Where the field `file` starts, in bytes.
const FILE: usize = 108;
/// The longest name of a boot file in bytes: the field `file` has room for it and a zero.
pub const MOST_NAME_BYTES: usize = 127;
/// The prefix of the network.
pub const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);

/// Option numbers (RFC 2132) that smoltcp does not write.
mod option {
    pub const REQUESTED_ADDRESS: u8 = 50;
    pub const MESSAGE_TYPE: u8 = 53;
    pub const SERVER: u8 = 54;
    pub const RENEW: u8 = 58;
    pub const REBIND: u8 = 59;
    pub const CLIENT: u8 = 61;
    pub const TFTP_SERVER: u8 = 66;
    pub const BOOT_FILE: u8 = 67;
}

/// A message of a client.
struct Message<'a> {
    kind: DhcpMessageType,
    transaction: u32,
    client: Mac,
    /// The address that the client has already; unspecified if it has none.
    has: Ipv4Addr,
    is_broadcast: bool,
    requested: Option<Ipv4Addr>,
    server: Option<Ipv4Addr>,
    client_id: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Reads a message. It is `None` for anything that is not from an Ethernet client on this cable. Options
    /// that a server does not need are not checked: each client sends others.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let packet = DhcpPacket::new_checked(bytes).ok()?;
        let ethernet = bytes.get(..3)? == [1, 1, 6];
        let cookie = packet.magic_number() == 0x6382_5363;
        let relayed = !packet.relay_agent_ip().is_unspecified();
        let client = Mac(packet.client_hardware_address().0);
        if !ethernet || !cookie || relayed || client.is_multicast() {
            return None;
        }
        let mut kind = None;
        let mut message = Self {
            kind: DhcpMessageType::Discover,
            transaction: packet.transaction_id(),
            client,
            has: packet.client_ip(),
            is_broadcast: packet.flags().contains(DhcpFlags::BROADCAST),
            requested: None,
            server: None,
            client_id: None,
        };
        // The options are read from the bytes: those of `packet` would borrow from it.
        let mut rest = bytes.get(240..)?;
        while let Some((&number, after)) = rest.split_first() {
            match number {
                0 => rest = after,
                255 => break,
                _ => {
                    let (&length, after) = after.split_first()?;
                    let (data, after) = after.split_at_checked(length.into())?;
                    let address = <[u8; 4]>::try_from(data).ok().map(Ipv4Addr::from);
                    match number {
                        option::MESSAGE_TYPE => kind = data.first().map(|kind| DhcpMessageType::from(*kind)),
                        option::REQUESTED_ADDRESS => message.requested = address,
                        option::SERVER => message.server = address,
                        option::CLIENT => message.client_id = Some(data),
                        _ => {}
                    }
                    rest = after;
                }
            }
        }
        kind.map(|kind| Self { kind, ..message })
    }

    /// The reply, with its destination (RFC 2131, 4.1). `you` is the client's address; `None` in a refusal.
    fn reply(&self, server: &Server, kind: DhcpMessageType, you: Option<Ipv4Addr>) -> Option<Datagram> {
        let (own, name) = (server.own, server.boot_file.as_bytes());
        let name = &name[..name.len().min(MOST_NAME_BYTES)];
        let is_inform = self.kind == DhcpMessageType::Inform;
        let server_name = own.to_string();
        let (renew, rebind) = (RENEW_S.to_be_bytes(), REBIND_S.to_be_bytes());
        let mut options: Vec<DhcpOption<'_>> = Vec::new();
        if you.is_some() && !is_inform {
            options.push(DhcpOption { kind: option::RENEW, data: &renew });
            options.push(DhcpOption { kind: option::REBIND, data: &rebind });
        }
        if you.is_some() && !name.is_empty() {
            options.push(DhcpOption { kind: option::TFTP_SERVER, data: server_name.as_bytes() });
            options.push(DhcpOption { kind: option::BOOT_FILE, data: name });
        }
        if let Some(data) = self.client_id.filter(|id| id.len() <= MOST_CLIENT_ID) {
            options.push(DhcpOption { kind: option::CLIENT, data });
        }
        let repr = DhcpRepr {
            message_type: kind,
            transaction_id: self.transaction,
            secs: 0,
            client_hardware_address: smoltcp::wire::EthernetAddress(self.client.0),
            client_ip: if you.is_some() { self.has } else { Ipv4Addr::UNSPECIFIED },
            your_ip: you.filter(|_| !is_inform).unwrap_or(Ipv4Addr::UNSPECIFIED),
            server_ip: if you.is_some() { own } else { Ipv4Addr::UNSPECIFIED },
            router: you.map(|_| own),
            subnet_mask: you.map(|_| MASK),
            relay_agent_ip: Ipv4Addr::UNSPECIFIED,
            broadcast: self.is_broadcast,
            requested_ip: None,
            client_identifier: None,
            server_identifier: Some(own),
            parameter_request_list: None,
            dns_servers: you.map(|_| [own].into_iter().collect()),
            max_size: None,
            lease_duration: you.filter(|_| !is_inform).map(|_| LEASE_S),
            renew_duration: None,
            rebind_duration: None,
            additional_options: &options,
        };
        let mut data = vec![0; MOST_BYTES];
        repr.emit(&mut DhcpPacket::new_unchecked(data.as_mut_slice())).ok()?;
        if you.is_some() {
            data.get_mut(FILE..FILE + name.len())?.copy_from_slice(name);
        }
        // Zeros after the end of the options are padding.
        let end = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        data.truncate(end.max(LEAST_BYTES));
        let to = match you {
            None => End::BROADCAST,
            Some(_) if !self.has.is_unspecified() => End { mac: self.client, ip: self.has },
            Some(_) if self.is_broadcast => End::BROADCAST,
            Some(ip) => End { mac: self.client, ip },
        };
        Some(Datagram { to, ports: [SERVER_PORT, CLIENT_PORT], data })
    }
}

/// The server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its address.
    pub own: Ipv4Addr,
    /// The address that it gives to each client.
    pub guest: Ipv4Addr,
    /// The name of the boot file, of at most [`MOST_NAME_BYTES`]. Without a name no file is offered.
    pub boot_file: String,
}

/// The reply of a server to a client.
pub struct Answer {
    /// The message.
    pub datagram: Datagram,
    /// The client's station address, if the client has got `guest` now.
    pub lease: Option<Mac>,
}

impl Server {
    /// Answers a client's message.
    pub fn answer(&self, now_ps: u64, data: &[u8], seen: &mut Seen) -> Option<Answer> {
        let guest = self.guest;
        let message = Message::read(data)?;
        let (kind, you) = match message.kind {
            DhcpMessageType::Discover => {
                seen.dhcp_discovers.at(now_ps);
                (DhcpMessageType::Offer, Some(guest))
            }
            DhcpMessageType::Request => {
                seen.dhcp_requests.at(now_ps);
                if message.server.is_some_and(|server| server != self.own) {
                    return None;
                }
                let known = Some(message.has).filter(|has| !has.is_unspecified());
                match message.requested.or(known) == Some(guest) {
                    true => (DhcpMessageType::Ack, Some(guest)),
                    false => (DhcpMessageType::Nak, None),
                }
            }
            // The client has an address of its own and asks for the other parameters only (RFC 2131, 4.3.5).
            DhcpMessageType::Inform if !message.has.is_unspecified() => {
                (DhcpMessageType::Ack, Some(message.has))
            }
            _ => return None,
        };
        let datagram = message.reply(self, kind, you)?;
        let mut lease = None;
        match kind {
            DhcpMessageType::Ack if message.kind == DhcpMessageType::Request => {
                seen.dhcp_acks.at(now_ps);
                lease = Some(message.client);
            }
            DhcpMessageType::Nak => seen.dhcp_naks.at(now_ps),
            _ => {}
        }
        Some(Answer { datagram, lease })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
    const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
    const CLIENT: Mac = Mac([2, 0, 0, 0, 0, 9]);

    /// A message as clients send it.
    fn message(kind: DhcpMessageType, change: impl FnOnce(&mut DhcpRepr<'_>)) -> Vec<u8> {
        let mut repr = DhcpRepr {
            message_type: kind,
            transaction_id: 0x1234_5678,
            secs: 3,
            client_hardware_address: smoltcp::wire::EthernetAddress(CLIENT.0),
            client_ip: Ipv4Addr::UNSPECIFIED,
            your_ip: Ipv4Addr::UNSPECIFIED,
            server_ip: Ipv4Addr::UNSPECIFIED,
            router: None,
            subnet_mask: None,
            relay_agent_ip: Ipv4Addr::UNSPECIFIED,
            broadcast: false,
            requested_ip: None,
            client_identifier: None,
            server_identifier: None,
            parameter_request_list: Some(&[1, 3, 6, 66, 67]),
            dns_servers: None,
            max_size: None,
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[DhcpOption { kind: 77, data: b"iPXE" }],
        };
        change(&mut repr);
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut DhcpPacket::new_unchecked(bytes.as_mut_slice())).unwrap();
        bytes
    }

    fn ask(bytes: &[u8]) -> Option<Answer> {
        let server = Server { own: OWN, guest: GUEST, boot_file: "kpps.bin".into() };
        server.answer(1, bytes, &mut Seen::default())
    }

    /// The option of a reply with this number.
    fn option_of(reply: &[u8], number: u8) -> Option<Vec<u8>> {
        let packet = DhcpPacket::new_checked(reply).unwrap();
        packet.options().find(|option| option.kind == number).map(|option| option.data.to_vec())
    }

    #[test]
    fn an_offer_has_everything_that_a_client_boots_with() {
        let Answer { datagram, lease } = ask(&message(DhcpMessageType::Discover, |_| {})).unwrap();
        assert_eq!((lease, datagram.to, datagram.ports), (None, End { mac: CLIENT, ip: GUEST }, [67, 68]));
        assert!((LEAST_BYTES..=MOST_BYTES).contains(&datagram.data.len()));
        let packet = DhcpPacket::new_checked(&datagram.data[..]).unwrap();
        let repr = DhcpRepr::parse(&packet).unwrap();
        assert_eq!((repr.message_type, repr.transaction_id), (DhcpMessageType::Offer, 0x1234_5678));
        assert_eq!((repr.your_ip, repr.server_ip, repr.server_identifier), (GUEST, OWN, Some(OWN)));
        assert_eq!((repr.router, repr.subnet_mask), (Some(OWN), Some(MASK)));
        assert_eq!((repr.dns_servers.unwrap()[..].to_vec(), repr.lease_duration), (vec![OWN], Some(86_400)));
        assert_eq!(packet.get_boot_file(), Ok("kpps.bin"));
        assert_eq!(option_of(&datagram.data, 66).unwrap(), b"10.0.2.2");
        assert_eq!(option_of(&datagram.data, 67).unwrap(), b"kpps.bin");
        assert_eq!(option_of(&datagram.data, 58).unwrap(), 43_200u32.to_be_bytes());
    }

    #[test]
    fn a_reply_goes_where_the_client_receives_it() {
        let reply = |change: &dyn Fn(&mut DhcpRepr<'_>)| {
            let Answer { datagram, .. } = ask(&message(DhcpMessageType::Request, change)).unwrap();
            let packet = DhcpPacket::new_checked(&datagram.data[..]).unwrap();
            (DhcpRepr::parse(&packet).unwrap().message_type, datagram.to)
        };
        let client = End { mac: CLIENT, ip: GUEST };
        let (ack, nak) = (DhcpMessageType::Ack, DhcpMessageType::Nak);
        assert_eq!(reply(&|it| it.requested_ip = Some(GUEST)), (ack, client), "INIT-REBOOT");
        assert_eq!(reply(&|it| it.client_ip = GUEST), (ack, client), "RENEWING");
        let selects = |it: &mut DhcpRepr<'_>| {
            (it.requested_ip, it.server_identifier, it.broadcast) = (Some(GUEST), Some(OWN), true);
        };
        assert_eq!(reply(&selects), (ack, End::BROADCAST));
        assert_eq!(reply(&|it| it.requested_ip = Some(OWN)), (nak, End::BROADCAST));
        assert_eq!(reply(&|_| {}), (nak, End::BROADCAST));
        let other = message(DhcpMessageType::Request, |it| it.server_identifier = Some(GUEST));
        assert!(ask(&other).is_none(), "the client chose another server");
        let relayed = message(DhcpMessageType::Discover, |it| it.relay_agent_ip = OWN);
        assert!(ask(&relayed).is_none());
        let inform = ask(&message(DhcpMessageType::Inform, |it| it.client_ip = GUEST)).unwrap();
        assert_eq!((inform.lease, inform.datagram.to), (None, client));
        assert_eq!(option_of(&inform.datagram.data, 51), None, "no lease (RFC 2131, 4.3.5)");
        assert!(ask(&message(DhcpMessageType::Release, |it| it.client_ip = GUEST)).is_none());
    }

    #[test]
    fn a_client_identifier_of_any_kind_comes_back() {
        for bytes in [17, 64, 65, 255] {
            let id = vec![7; bytes];
            let with = [DhcpOption { kind: 61, data: &id }];
            let mut request = message(DhcpMessageType::Discover, |_| {});
            request.pop();
            request.extend([with[0].kind, bytes as u8].iter().chain(&id).chain(&[255]));
            let Answer { datagram, .. } = ask(&request).unwrap();
            assert_eq!(option_of(&datagram.data, 61), (bytes <= MOST_CLIENT_ID).then_some(id));
            assert!(datagram.data.len() <= MOST_BYTES);
        }
    }

    #[test]
    fn the_longest_name_of_a_boot_file_fits() {
        let name = "n".repeat(MOST_NAME_BYTES);
        let server = Server { own: OWN, guest: GUEST, boot_file: name.clone() };
        let mut request = message(DhcpMessageType::Discover, |_| {});
        request.pop();
        request.extend([&[61, MOST_CLIENT_ID as u8][..], &[7; MOST_CLIENT_ID], &[255]].concat());
        let Answer { datagram, .. } = server.answer(1, &request, &mut Seen::default()).unwrap();
        assert_eq!(option_of(&datagram.data, 67).unwrap(), name.as_bytes());
        let packet = DhcpPacket::new_checked(&datagram.data[..]).unwrap();
        assert_eq!(packet.get_boot_file(), Ok(name.as_str()));
    }

    proptest! {
        #[test]
        fn damaged_messages_do_no_harm(
            cut in 0usize..400, places in prop::collection::vec((0usize..400, any::<u8>()), 0..8)
        ) {
            let mut bytes = message(DhcpMessageType::Request, |it| it.requested_ip = Some(GUEST));
            bytes.truncate(cut);
            for (at, value) in places {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if let Some(Answer { datagram, .. }) = ask(&bytes) {
                prop_assert!((LEAST_BYTES..=MOST_BYTES).contains(&datagram.data.len()));
            }
        }
    }
}
