//! Names and structures of packet sockets and their rings (linux/if_packet.h), and of UDP's newer options.

pub(crate) use libc::{
    ETH_P_ALL, IP_MTU, IPPROTO_IP, IPPROTO_IPV6, IPV6_MTU, PACKET_ADD_MEMBERSHIP, PACKET_COPY_THRESH,
    PACKET_FANOUT, PACKET_FANOUT_FLAG_UNIQUEID, PACKET_FANOUT_HASH, PACKET_IGNORE_OUTGOING,
    PACKET_MR_PROMISC, PACKET_QDISC_BYPASS, PACKET_RX_RING, PACKET_STATISTICS, PACKET_TX_RING,
    PACKET_VERSION, PACKET_VNET_HDR, SO_MEMINFO, SO_TIMESTAMPNS, SOL_PACKET, SOL_SOCKET, SOL_XDP,
    TP_STATUS_AVAILABLE, TP_STATUS_COPY, TP_STATUS_KERNEL, TP_STATUS_SEND_REQUEST, TP_STATUS_USER,
    TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID, TP_STATUS_WRONG_FORMAT, packet_mreq, tpacket_req,
    tpacket_stats, tpacket2_hdr,
};

/// A group of sockets does not get the frames that this host sends (`PACKET_FANOUT_FLAG_IGNORE_OUTGOING`).
pub(crate) const FANOUT_IGNORES_OUTGOING: u32 = 0x4000;

/// The version of the rings that has [`tpacket2_hdr`].
pub(crate) const VERSION_2: i32 = libc::tpacket_versions::TPACKET_V2 as i32;
