//! Interfaces and queueing disciplines from the kernel: rtnetlink(7).

use super::{Interface, Qdisc};
use kpps_documents::LINK_CHANGES;
use kpps_linux::netlink::dump;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkInfo, LinkMessage, LinkXdp, Stats64, XdpAttached,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use std::io;

fn counters(stats: &Stats64) -> Vec<(&'static str, u64)> {
    vec![
        ("rx_packets", stats.rx_packets),
        ("rx_bytes", stats.rx_bytes),
        ("rx_errors", stats.rx_errors),
        ("rx_dropped", stats.rx_dropped),
        ("rx_missed_errors", stats.rx_missed_errors),
        ("rx_over_errors", stats.rx_over_errors),
        ("rx_fifo_errors", stats.rx_fifo_errors),
        ("rx_nohandler", stats.rx_nohandler),
        ("rx_otherhost_dropped", stats.rx_otherhost_dropped),
        ("multicast", stats.multicast),
        ("tx_packets", stats.tx_packets),
        ("tx_bytes", stats.tx_bytes),
        ("tx_errors", stats.tx_errors),
        ("tx_dropped", stats.tx_dropped),
        ("tx_carrier_errors", stats.tx_carrier_errors),
        ("collisions", stats.collisions),
    ]
}

fn interface(message: LinkMessage) -> Interface {
    let mut interface = Interface { index: message.header.index, ..Interface::default() };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name = name,
            LinkAttribute::Link(index) => interface.link = Some(index),
            LinkAttribute::LinkNetNsId(_) => interface.link_is_in_other_namespace = true,
            LinkAttribute::Controller(index) => interface.master = Some(index),
            LinkAttribute::CarrierChanges(times) => {
                interface.counters.insert(LINK_CHANGES.into(), times.into());
            }
            LinkAttribute::Mtu(mtu) => interface.mtu = mtu,
            LinkAttribute::Xdp(xdp) => {
                let none = LinkXdp::Attached(XdpAttached::None);
                interface.has_program =
                    xdp.iter().any(|it| matches!(it, LinkXdp::Attached(_)) && *it != none);
            }
            LinkAttribute::Stats64(stats) => {
                let counters = counters(&stats);
                interface.counters.extend(counters.into_iter().map(|(name, n)| (name.to_owned(), n)));
            }
            LinkAttribute::LinkInfo(info) => {
                interface.kind = info.into_iter().find_map(|info| match info {
                    LinkInfo::Kind(InfoKind::Other(kind)) => Some(kind),
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    interface
}

/// Whether a discipline is counted: the root's counters include its children's drops.
fn qdisc(message: TcMessage) -> Option<(u32, Qdisc)> {
    let parent = message.header.parent;
    let ingress = parent == TcHandle::INGRESS;
    if !ingress && parent != TcHandle::ROOT {
        return None;
    }
    let mut qdisc = Qdisc { ingress, ..Qdisc::default() };
    for attribute in message.attributes {
        match attribute {
            TcAttribute::Kind(kind) => qdisc.kind = kind,
            TcAttribute::Stats2(all) => {
                for one in all {
                    match one {
                        TcStats2::Basic(basic) => qdisc.packets = basic.packets.into(),
                        TcStats2::Queue(queue) => {
                            qdisc.drops = queue.drops.into();
                            qdisc.queued = queue.qlen.into();
                            qdisc.requeues = queue.requeues.into();
                            qdisc.overlimits = queue.overlimits.into();
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some((u32::try_from(message.header.index).ok()?, qdisc))
}

/// All interfaces of the thread's namespace, with their disciplines.
pub(super) fn interfaces() -> io::Result<Vec<Interface>> {
    let links = dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    let mut interfaces: Vec<_> = links
        .into_iter()
        .filter_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(message) => Some(interface(message)),
            _ => None,
        })
        .collect();
    // A kernel without traffic control has none.
    let disciplines = dump(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default())).unwrap_or_default();
    for answer in disciplines {
        if let RouteNetlinkMessage::NewQueueDiscipline(message) = answer
            && let Some((index, qdisc)) = qdisc(message)
            && let Some(interface) = interfaces.iter_mut().find(|it| it.index == index)
        {
            interface.qdiscs.push(qdisc);
        }
    }
    Ok(interfaces)
}

/// Reads bytes as answers of the kernel.
#[cfg(any(feature = "fuzzing", test))]
pub(super) fn read(bytes: &[u8]) {
    let mut answers = Vec::new();
    let _ = kpps_linux::netlink::read(bytes, &mut answers);
    for answer in answers {
        match answer {
            RouteNetlinkMessage::NewLink(link) => drop(interface(link)),
            RouteNetlinkMessage::NewQueueDiscipline(tc) => drop(qdisc(tc)),
            _ => {}
        }
    }
}
