//! Requests to the kernel about links, queueing disciplines and routes: rtnetlink(7).

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::net::IpAddr;

/// Bytes of a message header, and the alignment of messages.
const HEADER: usize = 16;
const ALIGNMENT: usize = 4;

/// Sends a request about one object. Returns the answers.
///
/// # Errors
/// Errors of the system: there is no such object.
pub fn ask(question: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
    // The acknowledgement is the end of the answer.
    exchange(question, NLM_F_REQUEST | NLM_F_ACK)
}

/// Requests all objects of a kind.
///
/// # Errors
/// Errors of the system.
pub fn dump(question: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
    exchange(question, NLM_F_REQUEST | NLM_F_DUMP)
}

/// The number of the interface of the route to an address.
///
/// # Errors
/// Errors of the system: there is no route.
pub fn route_to(address: IpAddr) -> io::Result<u32> {
    let mut about = RouteMessage::default();
    (about.header.address_family, about.header.destination_prefix_length) = match address {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    about.attributes.push(RouteAttribute::Destination(address.into()));
    let answers = ask(RouteNetlinkMessage::GetRoute(about))?;
    let mut attributes = answers.into_iter().flat_map(|answer| match answer {
        RouteNetlinkMessage::NewRoute(route) => route.attributes,
        _ => Vec::new(),
    });
    let way = attributes.find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(index),
        _ => None,
    });
    way.ok_or_else(|| io::ErrorKind::NetworkUnreachable.into())
}

/// Sends a request and reads the whole answer. Unknown messages are skipped.
fn exchange(question: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut question = NetlinkMessage::from(question);
    question.header.flags = flags;
    question.header.sequence_number = 1;
    question.finalize();
    let mut bytes = vec![0; question.buffer_len()];
    question.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut answers = Vec::new();
    while !read(&socket.recv_from_full()?.0, &mut answers)? {}
    Ok(answers)
}

/// Reads a datagram of answers. Returns whether it has the last one.
///
/// # Errors
/// The error that the datagram reports.
pub fn read(datagram: &[u8], answers: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
    let mut rest = datagram;
    while let Some(length) = rest.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes) as usize) {
        let Some(one) = rest.get(..length).filter(|_| length >= HEADER) else { break };
        if let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(one) {
            match message.payload {
                NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                NetlinkPayload::Done(_) => return Ok(true),
                // An error without a code is an acknowledgement.
                NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
        }
        rest = rest.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    }
    Ok(false)
}
