"""Reads frames of a capture with scapy and judges them: the headers in their order, the values of fields, and
every length and checksum, which scapy computes anew. Arguments: the capture, and for its frames in JSON the names
of the headers and the fields as [header, occurrence, attribute, values in their order]."""

import json
import logging
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)

from scapy.config import conf
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.main import load_contrib
from scapy.packet import Padding, Raw
from scapy.utils import rdpcap

load_contrib("mpls")
import scapy.layers.vxlan  # VXLAN over UDP
conf.checkIPaddr = False


def layers(packet):
    while packet and packet.name != "NoPayload":
        yield packet
        packet = packet.payload


def computed(packet):
    """The same frame, its lengths and checksums computed by scapy; a UDP checksum of 0 means that there is none."""
    packet = packet.copy()
    for layer in layers(packet):
        names = {"IP": ["len", "chksum"], "IPv6": ["plen"], "TCP": ["chksum"], "ICMP": ["chksum"]}
        name = layer.__class__.__name__
        wrong = names.get(name, ["cksum"] if name.startswith("ICMPv6") else [])
        if name == "UDP":
            wrong = ["len", "chksum"] if layer.chksum else ["len"]
        for field in wrong:
            layer.delfieldval(field)
    return bytes(packet)


capture, expected = sys.argv[1], json.loads(sys.argv[2])
for number, packet in enumerate(rdpcap(capture)):
    raw = bytes(packet)
    assert computed(Ether(raw)) == raw, f"frame {number}: scapy builds another one: {packet.show(dump=True)}"
    names = [layer.__class__.__name__ for layer in layers(packet) if not isinstance(layer, (Raw, Padding))]
    assert names == expected["headers"], f"frame {number}: {names}"
    for header, occurrence, attribute, values in expected["fields"]:
        found = [layer for layer in layers(packet) if layer.__class__.__name__ == header][occurrence]
        value = getattr(found, attribute)
        assert value == values[number % len(values)], f"frame {number}: {header}.{attribute} is {value}"
print(f"{number + 1} frames")
