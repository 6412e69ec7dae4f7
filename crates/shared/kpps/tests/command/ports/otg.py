"""A client of the Open Traffic Generator interface: python otg.py LOCATION TRANSPORT TEST [CERTIFICATE]"""

import socket
import struct
import subprocess
import sys
import time
from collections import Counter

import snappi
import urllib3

urllib3.disable_warnings()
location, transport, test, *rest = sys.argv[1:]
# Long enough for any machine.
PATIENCE_S = 120
api = snappi.api(location=location, transport=transport, version_check=True)


def two_ports():
    config = api.config()
    config.ports.port(name="p1", location="eth1").port(name="p2", location="eth2")
    return config


def three_ports():
    config = two_ports()
    config.ports.port(name="p3", location="eth3")
    return config


def udp_flow(config, name, size, pps, packets=None, back=False, dport=5000, ends=None):
    flow = config.flows.flow(name=name)[-1]
    ends = ends or (["p2", "p1"] if back else ["p1", "p2"])
    flow.tx_rx.port.tx_name, flow.tx_rx.port.rx_names = ends[0], ends[1:]
    _, ip, udp = flow.packet.ethernet().ipv4().udp()
    ip.src.increment.start, ip.src.increment.count = "10.0.0.1", 5
    ip.dst.values = ["10.1.0.1", "10.1.0.2"]
    udp.src_port.value, udp.dst_port.value = 4000, dport
    flow.size.fixed, flow.rate.pps = size, pps
    if packets:
        flow.duration.fixed_packets.packets = packets
    flow.metrics.enable = flow.metrics.loss = flow.metrics.latency.enable = True
    return flow


def transmit(state, *names):
    control = api.control_state()
    control.traffic.flow_transmit.state = state
    if names:
        control.traffic.flow_transmit.flow_names = list(names)
    return api.set_control_state(control).warnings


def start_captures():
    """Starts the captures of all ports that have one."""
    control = api.control_state()
    control.port.capture.state = "start"
    api.set_control_state(control)


def refuses(call, argument):
    try:
        call(argument)
    except Exception as error:
        error = error.args[0]
        return error.code, error.errors
    raise AssertionError("it is accepted")


def port_metrics():
    request = api.metrics_request()
    request.port.port_names = []
    return {metric.name: metric for metric in api.get_metrics(request).port_metrics}


def metrics(*names):
    request = api.metrics_request()
    request.flow.flow_names = list(names)
    metrics = {metric.name: metric for metric in api.get_metrics(request).flow_metrics}
    assert all(metric.frames_rx <= metric.frames_tx for metric in metrics.values()), metrics
    return metrics


def until(what, condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"not {what}: {metrics()}"
        time.sleep(0.05)


def through():
    return all(metric.transmit == "stopped" for metric in metrics().values())


def refused(config):
    return refuses(api.set_config, config)


def several_flows():
    """Flows of own sizes and rates, in both directions: every frame is counted, and no other."""
    config = two_ports()
    sizes, packets = {}, {}
    for n in range(10):
        name = f"flow {n}"
        sizes[name], packets[name] = 100 + 90 * n, 50 + 10 * n
        udp_flow(config, name, sizes[name], 200 + 20 * n, packets[name], back=n % 3 == 2, dport=5000 + n)
    mix = udp_flow(config, "mix", 64, 500, 120)
    mix.size.weight_pairs.predefined = "imix"
    hidden = udp_flow(config, "hidden", 64, 100, 10)
    hidden.metrics.enable = False
    assert api.set_config(config).warnings == []
    assert len(api.get_config().flows) == 12
    transmit("start")
    until("through", lambda: all(metric.transmit == "stopped" for metric in metrics().values()))
    found = metrics()
    assert set(found) == {*packets, "mix"}
    for name, count in packets.items():
        metric = found[name]
        assert [metric.frames_tx, metric.frames_rx, metric.loss] == [count, count, 0], metric
        assert [metric.bytes_tx, metric.bytes_rx] == [count * sizes[name]] * 2, metric
        assert 0 < metric.latency.minimum_ns <= metric.latency.average_ns <= metric.latency.maximum_ns, metric
    assert found["mix"].bytes_rx == 10 * (7 * 64 + 4 * 570 + 1518), found["mix"]
    assert [found["flow 1"].port_tx, found["flow 2"].port_tx] == ["p1", "p2"]
    request = api.metrics_request()
    request.port.port_names = []
    ports = {metric.name: metric for metric in api.get_metrics(request).port_metrics}
    assert ports["p1"].frames_tx + ports["p2"].frames_tx == sum(packets.values()) + 130
    assert ports["p1"].frames_tx == ports["p2"].frames_rx and ports["p1"].location == "eth1"
    print(ports["p1"].frames_tx, ports["p2"].frames_tx)


def links():
    """The links of ports are those of the kernel, and metrics have the columns that are asked for."""
    config = two_ports()
    udp_flow(config, "f", 64, 100, packets=20)
    config.captures.capture(name="c")[-1].port_names = ["p2"]
    api.set_config(config)
    request = api.metrics_request()
    request.port.port_names = []
    ports = lambda: {metric.name: metric for metric in api.get_metrics(request).port_metrics}
    assert [ports()[name].link for name in ("p1", "p2")] == ["up", "up"], ports()
    start_captures()
    assert [ports()[name].capture for name in ("p1", "p2")] == ["stopped", "started"], ports()
    transmit("start")
    until("through", lambda: metrics()["f"].transmit == "stopped")
    flows = api.metrics_request()
    flows.flow.metric_names = ["frames_rx"]
    flow = api.get_metrics(flows).flow_metrics[0]
    assert (flow.frames_rx, flow.frames_tx) == (20, None), flow
    subprocess.run(["ip", "link", "set", "dev", "pb", "down"], check=True)
    until("down", lambda: ports()["p2"].link == "down")


def live_control():
    """Endless flows are started, stopped and changed by their names, and lose what a filter drops."""
    config = two_ports()
    udp_flow(config, "kept", 128, 1000)
    udp_flow(config, "dropped", 128, 1000, dport=6666)
    udp_flow(config, "later", 128, 100, packets=30)
    api.set_config(config)
    transmit("start", "kept", "dropped")
    until("sending", lambda: metrics()["kept"].frames_rx > 300)
    found = metrics()
    assert found["kept"].transmit == "started" and found["later"].transmit == "stopped", found
    assert found["later"].frames_tx == 0, found
    transmit("start", "later")
    until("through", lambda: metrics()["later"].transmit == "stopped")
    # Once more, with new counts.
    transmit("start", "later")
    until("through again", lambda: metrics()["later"].transmit == "stopped")
    assert [metrics()["later"].frames_tx, metrics()["later"].frames_rx] == [30, 30], metrics()
    update = api.config_update()
    update.flows.property_names = ["rate"]
    flow = update.flows.flows.flow(name="kept")[-1]
    flow.tx_rx.port.tx_name, flow.tx_rx.port.rx_names, flow.rate.pps = "p1", ["p2"], 100
    api.update_config(update)
    until("slower", lambda: metrics("kept")["kept"].frames_tx_rate < 500)
    transmit("stop", "dropped")
    until("stopped", lambda: metrics()["dropped"].transmit == "stopped")
    before = metrics()
    until("going on", lambda: metrics()["kept"].frames_rx > before["kept"].frames_rx + 20)
    warnings = transmit("stop")
    found = metrics()
    assert found["kept"].loss == 0 and found["kept"].frames_rx == found["kept"].frames_tx, found
    assert found["dropped"].frames_rx == 0 and found["dropped"].loss == 100, found
    assert found["dropped"].frames_tx == before["dropped"].frames_tx, (before, found)
    assert any(f"{found['dropped'].frames_tx} frames" in line for line in warnings), warnings
    print("\n".join(warnings))


def refusals():
    config = two_ports()
    udp_flow(config, "f", 128, 100).packet[1].options.add()
    code, errors = refused(config)
    assert (code, errors) == (400, ["flows[0].packet[1].ipv4.options: not supported"]), (code, errors)
    config = two_ports()
    config.ports[1].location = "eth9"
    udp_flow(config, "f", 128, 100)
    assert "ports[1].location: there is no 'eth9' here: give one of eth1, eth2" in refused(config)[1][0]
    config = two_ports()
    udp_flow(config, "f", 1518, 10**7)
    assert "ports[0]: the flows from p1 need" in refused(config)[1][0]
    config = two_ports()
    udp_flow(config, "f", 1600, 100)
    errors = refused(config)[1]
    assert errors[0].startswith("flows[0].size: ") and "one of the ports p1 and p2" in errors[0], errors
    assert api.get_config().flows.__len__() == 0


def limits():
    """A server that allows 2000 frames per second for 2 s: an endless flow ends, and more is refused."""
    config = two_ports()
    udp_flow(config, "f", 128, 1000)
    udp_flow(config, "g", 128, 1500)
    assert "send 2500 frames per second together, and this server allows 2000" in refused(config)[1][0]
    config = two_ports()
    udp_flow(config, "f", 128, 1000, packets=3000)
    assert "flows[0].duration: the flow lasts longer than 2 s" in refused(config)[1][0]
    config = two_ports()
    udp_flow(config, "f", 128, 1000)
    api.set_config(config)
    transmit("start")
    # It goes on for another client, which reads the configuration and takes over.
    other = snappi.api(location=location, transport=transport)
    until("sending", lambda: metrics()["f"].frames_rx > 100)
    assert len(other.get_config().flows) == 1
    until("over", lambda: metrics()["f"].transmit == "stopped")
    sent = metrics()["f"].frames_tx
    assert 100 < sent <= 2000 and metrics()["f"].frames_rx == sent, sent
    warnings = transmit("stop")
    assert "the transmission ended after 2 s, the limit of this server: f had not ended" in warnings, warnings
    transmit("start")
    other.set_config(config)
    assert [metrics()["f"].transmit, metrics()["f"].frames_tx] == ["stopped", 0]


def append_and_delete():
    """Flows are added and deleted by their names while nothing is sent."""
    config = two_ports()
    udp_flow(config, "first", 128, 1000, packets=20)
    api.set_config(config)
    append = api.config_append()
    flows = append.config_append_list.add().flows
    for name in ["second", "third"]:
        flows.append(udp_flow(two_ports(), name, 200, 1000, packets=30))
    assert api.append_config(append).warnings == []
    delete = api.config_delete()
    delete.config_delete_list.add().flows = ["first"]
    assert api.delete_config(delete).warnings == []
    assert [flow.name for flow in api.get_config().flows] == ["second", "third"]
    transmit("start")
    until("through", lambda: all(metric.transmit == "stopped" for metric in metrics().values()))
    assert {name: metric.frames_rx for name, metric in metrics().items()} == {"second": 30, "third": 30}


def update(what, *properties):
    """Changes properties of a flow to those of a new one."""
    update = api.config_update()
    update.flows.property_names = list(properties)
    update.flows.flows.append(what)
    return api.update_config(update)


def append_of(*flows):
    append = api.config_append()
    for flow in flows:
        append.config_append_list.add().flows.append(flow)
    return append


def append(*flows):
    return api.append_config(append_of(*flows))


def delete(*names):
    delete = api.config_delete()
    delete.config_delete_list.add().flows = list(names)
    return api.delete_config(delete)


def changes_while_sending():
    """Flows are added, deleted and resized while others between the same ports are sent: every frame is counted."""
    config = two_ports()
    udp_flow(config, "kept", 128, 1000)
    udp_flow(config, "counted", 128, 20, packets=1000)
    udp_flow(config, "back", 100, 100, back=True)
    api.set_config(config)
    transmit("start")
    until("sending", lambda: metrics()["counted"].frames_rx > 5 and metrics()["back"].frames_rx > 5)
    append(udp_flow(two_ports(), "new", 500, 500, packets=50), udp_flow(two_ports(), "other", 90, 300, back=True))
    found = metrics()
    assert [found["new"].frames_tx, found["new"].transmit, found["kept"].transmit] == [0, "stopped", "started"], found
    transmit("start", "new", "other")
    until("through", lambda: metrics()["new"].transmit == "stopped" and metrics()["other"].frames_rx > 50)
    found = metrics()["new"]
    assert [found.frames_tx, found.frames_rx, found.bytes_tx, found.bytes_rx, found.loss] == [50, 50, 25000, 25000, 0]
    # Sizes change twice. The number of frames stays.
    for size in 256, 384:
        before = metrics()["counted"].frames_tx
        update(udp_flow(two_ports(), "counted", size, 20, packets=1000), "size")
        found = metrics()["counted"]
        assert before <= found.frames_tx < 1000 and found.transmit == "started", (before, str(found))
        until("going on", lambda: metrics()["counted"].frames_rx > before + 10)
    update(udp_flow(two_ports(), "counted", 384, 1000, packets=1000), "rate")
    update(udp_flow(two_ports(), "kept", 300, 500), "size", "rate")
    assert [flow.size.fixed for flow in api.get_config().flows][:2] == [300, 384]
    delete("other")
    assert set(metrics()) == {"kept", "counted", "back", "new"}, metrics()
    until("through", lambda: metrics()["counted"].transmit == "stopped")
    found = metrics()["counted"]
    assert [found.frames_tx, found.frames_rx, found.loss] == [1000, 1000, 0], str(found)
    assert found.bytes_tx == found.bytes_rx and 20 * 384 + 980 * 128 < found.bytes_tx < 1000 * 384, str(found)
    # Started again it has all of its frames, with the last size.
    transmit("start", "counted")
    until("through again", lambda: metrics()["counted"].transmit == "stopped")
    found = metrics()["counted"]
    assert [found.frames_tx, found.frames_rx, found.bytes_rx] == [1000, 1000, 1000 * 384], found
    transmit("pause", "kept")
    code, errors = refuses(lambda flow: update(flow, "size"), udp_flow(two_ports(), "kept", 200, 500))
    assert code == 400 and "this one is paused while its sizes change" in errors[0], errors
    transmit("resume", "kept")
    transmit("stop")
    assert all(metric.frames_tx == metric.frames_rx for metric in metrics().values()), metrics()
    ports = port_metrics()
    found = metrics()
    assert ports["p1"].frames_tx == found["kept"].frames_tx + 2 * 1000 + 50 == ports["p2"].frames_rx, (ports, found)
    assert ports["p2"].frames_tx > found["back"].frames_tx + 50 and ports["p1"].frames_rx == ports["p2"].frames_tx, ports
    print(ports["p1"].frames_tx, ports["p2"].frames_tx)


def mesh():
    """Flows between any of three ports have their own counts. One is stopped, others are added, and the rest goes on."""
    config = three_ports()
    packets = {("p1", "p2"): 300, ("p1", "p3"): 200, ("p2", "p3"): 150, ("p3", "p1"): 100}
    for ends, count in packets.items():
        udp_flow(config, " to ".join(ends), 100 + count, 500, packets=count, ends=list(ends))
    udp_flow(config, "kept", 140, 1000)
    udp_flow(config, "halted", 128, 700, ends=["p2", "p3"])
    capture = config.captures.capture(name="c")[-1]
    capture.port_names, capture.format = ["p3"], "pcap"
    api.set_config(config)
    start_captures()
    assert [port_metrics()[name].capture for name in ("p1", "p2", "p3")] == ["stopped", "stopped", "started"]
    transmit("start")
    counted = [" to ".join(ends) for ends in packets]
    until("through", lambda: all(metrics()[name].transmit == "stopped" for name in counted))
    found = metrics()
    for ends, count in packets.items():
        metric = found[" to ".join(ends)]
        assert [metric.frames_tx, metric.frames_rx, metric.loss] == [count, count, 0], metric
        assert [metric.bytes_tx, metric.bytes_rx] == [count * (100 + count)] * 2, metric
        assert (metric.port_tx, metric.port_rx) == ends and metric.latency.minimum_ns > 0, metric
    # From a port and in a direction that had no flow, and beside one that is sent.
    append(
        udp_flow(three_ports(), "new", 200, 300, packets=40, ends=["p3", "p2"]),
        udp_flow(three_ports(), "beside", 210, 300, packets=50),
        udp_flow(three_ports(), "gone", 220, 300, ends=["p2", "p1"]),
    )
    transmit("start", "new", "beside", "gone")
    until("through", lambda: all(metrics()[name].transmit == "stopped" for name in ("new", "beside")))
    assert [metrics()[name].frames_rx for name in ("new", "beside")] == [40, 50], metrics()
    transmit("stop", "halted")
    until("stopped", lambda: metrics()["halted"].transmit == "stopped")
    before = metrics()
    until("going on", lambda: metrics()["kept"].frames_rx > before["kept"].frames_rx + 100)
    transmit("pause", "kept")
    update(udp_flow(three_ports(), "kept", 140, 200), "rate")
    transmit("resume", "kept")
    transmit("start", "p3 to p1")
    until("through again", lambda: metrics()["p3 to p1"].transmit == "stopped")
    until("sending", lambda: metrics()["gone"].frames_rx > 20)
    delete("gone")
    warnings = transmit("stop")
    found = metrics()
    assert found["halted"].frames_tx == before["halted"].frames_tx > 0, (before, found)
    assert all(metric.frames_tx == metric.frames_rx for metric in found.values()), (found, warnings)
    ports = port_metrics()
    assert ports["p1"].frames_tx == 550 + found["kept"].frames_tx, (ports, found)
    assert ports["p3"].frames_tx == 100 + 100 + 40 and ports["p2"].frames_rx == 390 + found["kept"].frames_rx, ports
    assert ports["p3"].frames_rx == 350 + found["halted"].frames_rx and ports["p1"].frames_rx > 220, ports
    sizes = Counter(len(frame) + 4 for frame in captured("p3") if frame[12:14] == b"\x08\x00")
    # The bridge may have flooded frames of others there.
    assert [sizes[300], sizes[250], sizes[128]] == [200, 150, found["halted"].frames_rx], sizes
    print(*(ports[name].frames_tx for name in ("p1", "p2", "p3")))


def independent_pairs():
    """Flows between two pairs of ports: one begins while the other is sent, and goes on when that ends."""
    config = three_ports()
    config.ports.port(name="p4", location="eth4")
    udp_flow(config, "first", 128, 1000)
    udp_flow(config, "second", 256, 500, packets=200, ends=["p3", "p4"])
    api.set_config(config)
    transmit("start", "first")
    until("sending", lambda: metrics()["first"].frames_rx > 100)
    assert metrics()["second"].frames_tx == 0
    transmit("start", "second")
    append(udp_flow(three_ports(), "third", 128, 100, packets=20, ends=["p4", "p3"]))
    transmit("start", "third")
    transmit("stop", "first")
    until("through", through)
    found = metrics()
    assert [found["second"].frames_rx, found["third"].frames_rx] == [200, 20], found
    assert found["first"].frames_tx == found["first"].frames_rx > 100, found
    assert transmit("stop") == [], found


def station_of_network(config, n, port, gateway):
    """A device with one address in a network of all ports."""
    ethernet = config.devices.device(name=f"d{n}")[-1].ethernets.ethernet()[-1]
    ethernet.name, ethernet.mac, ethernet.connection.port_name = f"e{n}", f"02:00:00:00:66:0{n}", port
    ip = ethernet.ipv4_addresses.ipv4()[-1]
    ip.name, ip.address, ip.gateway = f"ip {n}", f"198.21.0.{n + 1}", f"198.21.0.{gateway}"


def circle_of_stations():
    """Three stations of three ports, each of which is the router of the one before it."""
    config = three_ports()
    for n in range(3):
        station_of_network(config, n, f"p{n + 1}", (n + 1) % 3 + 1)
    for n in range(3):
        station_flow(config, f"from {n}", "ipv4", [f"ip {n}"], [f"ip {(n + 1) % 3}"], packets=60 + n)
    api.set_config(config)
    found = {it.ethernet_name: it.link_layer_address[-2:] for it in neighbors_of_stations()}
    assert found == {"e0": "01", "e1": "02", "e2": "00"}, found
    transmit("start")
    until("through", through)
    assert {name: metric.frames_rx for name, metric in metrics().items()} == {
        "from 0": 60,
        "from 1": 61,
        "from 2": 62,
    }, metrics()
    assert all(metric.frames_tx == metric.frames_rx for metric in metrics().values()), metrics()


def crowd_of_stations():
    """Flows between stations of four ports in one network: each pair of ports has its share of the frames."""
    config = three_ports()
    config.ports.port(name="p4", location="eth4")
    for n, port in enumerate(["p1", "p1", "p2", "p3", "p4"]):
        # There is no router at this address, and none is needed.
        station_of_network(config, n, port, 99)
    mesh = station_flow(config, "mesh", "ipv4", ["d0", "d1", "d2"], ["d3", "d4"], packets=301)
    mesh.tx_rx.device.bidirectional = True
    mesh.metrics.loss = mesh.metrics.timestamps = mesh.metrics.latency.enable = True
    mesh.metrics.predefined_metric_tags.rx_name = True
    kept = station_flow(config, "kept", "ipv4", ["d0", "d3"], ["d4", "d2"], mode="one_to_one")
    kept.duration.choice = "continuous"
    capture = config.captures.capture(name="c")[-1]
    capture.port_names, capture.format = ["p3"], "pcap"
    api.set_config(config)
    start_captures()
    transmit("start")
    until("through", lambda: metrics()["mesh"].transmit == "stopped" and metrics()["kept"].frames_rx > 60)
    found = metrics()["mesh"]
    assert [found.frames_tx, found.frames_rx, found.loss, found.port_tx] == [602, 602, 0, None], found
    assert found.bytes_rx == 602 * 100 and found.latency.minimum_ns <= found.latency.average_ns, found
    # The frames to a port: 301 take turns of six pairs.
    receivers = {it.tags[0].value.str: it.frames_rx for it in found.tagged_metrics}
    assert receivers == {"p3": 151, "p4": 150, "p1": 201, "p2": 100}, receivers
    assert metrics()["kept"].transmit == "started", metrics()
    # Paused and resumed, the flow goes on in all of its parts.
    transmit("pause", "kept")
    until("paused", lambda: metrics()["kept"].transmit == "paused")
    transmit("resume", "kept")
    before = metrics()["kept"].frames_rx
    until("going on", lambda: metrics()["kept"].frames_rx > before + 30)
    transmit("start", "mesh")
    until("through again", lambda: metrics()["mesh"].transmit == "stopped")
    assert [metrics()["mesh"].frames_tx, metrics()["mesh"].frames_rx] == [602, 602], metrics()
    warnings = transmit("stop")
    assert metrics()["kept"].frames_rx == metrics()["kept"].frames_tx, (metrics(), warnings)
    ours = [it for it in captured("p3") if it[12:14] == b"\x08\x00" and it[23] == 17 and it[0] == 2]
    # Each is sent to the station itself. A bridge may flood a frame to another one.
    pairs = Counter((frame[29], frame[33], frame[5]) for frame in ours if frame[29] < 4 and frame[5] == 3)
    assert pairs == {(1, 4, 3): 101, (2, 4, 3): 101, (3, 4, 3): 100}, pairs
    ports = port_metrics()
    sent = {name: ports[name].frames_tx for name in ("p1", "p2", "p3")}
    print(*sent.values())


def tagged():
    """The frames of a flow are counted by the values of tagged fields, and a filter drops those of one value."""
    config = two_ports()
    flow = udp_flow(config, "f", 128, 1000, packets=100)
    port = flow.packet[2].dst_port
    port.values = [80, 6666, 443, 80]
    port.metric_tags.metrictag(name="port")
    flow.packet[1].dst.metric_tags.metrictag(name="net", offset=8, length=8)
    plain = udp_flow(config, "plain", 128, 200, packets=20)
    plain.size.weight_pairs.predefined = "imix"
    capture = config.captures.capture(name="c")[-1]
    capture.port_names, capture.format = ["p2"], "pcap"
    api.set_config(config)
    start_captures()
    transmit("start")
    until("through", through)
    warnings = transmit("stop")
    # Tags change neither the frames nor their order.
    ours = [frame for frame in captured("p2") if frame[12:14] == b"\x08\x00" and len(frame) == 124]
    ports = [int.from_bytes(frame[36:38]) for frame in ours]
    assert ports == [80, 443, 80] * 25, ports
    found = metrics()
    assert [found["f"].frames_tx, found["f"].frames_rx, found["plain"].frames_rx] == [100, 75, 20], found
    assert len(found["plain"].tagged_metrics) == 0, found
    values = lambda it: tuple(tag.value.hex for tag in it.tags)
    counts = {values(it): (it.frames_tx, it.frames_rx, it.bytes_rx, it.loss) for it in found["f"].tagged_metrics}
    assert [tag.name for tag in found["f"].tagged_metrics[0].tags] == ["net", "port"], found
    assert counts == {
        ("01", "0050"): (50, 50, 50 * 128, 0),
        ("01", "1a0a"): (25, 0, 0, 100),
        ("01", "01bb"): (25, 25, 25 * 128, 0),
    }, counts
    request = api.metrics_request()
    request.flow.flow_names = ["f"]
    request.flow.tagged_metrics.metric_names = ["frames_rx"]
    request.flow.tagged_metrics.filters.add(name="port", values=["0x1BB", "1a0a"])
    some = api.get_metrics(request).flow_metrics[0].tagged_metrics
    assert {values(it): (it.frames_rx, it.frames_tx) for it in some} == {("01", "01bb"): (25, None), ("01", "1a0a"): (0, None)}
    request.flow.tagged_metrics.include = False
    assert len(api.get_metrics(request).flow_metrics[0].tagged_metrics) == 0
    # Started again in one transmission, a mix of sizes goes on where it was.
    udp_flow(config, "endless", 128, 100)
    config.flows[1].duration.fixed_packets.packets = 7
    api.set_config(config)
    transmit("start", "endless", "plain")
    for _ in range(2):
        until("through", lambda: metrics()["plain"].transmit == "stopped")
        bytes_of = [metrics()["plain"].bytes_tx, metrics()["plain"].bytes_rx]
        assert metrics()["plain"].frames_rx == 7 and bytes_of[0] == bytes_of[1], metrics()
        transmit("start", "plain")
    config.flows.remove(2)
    # A change of the size goes on in all parts.
    flow.duration.fixed_packets.packets = 401
    port.values = [80, 443, 53]
    api.set_config(config)
    transmit("start", "f")
    until("sending", lambda: metrics()["f"].frames_rx > 20)
    flow.size.fixed = 256
    update(flow, "size")
    until("through", lambda: metrics()["f"].transmit == "stopped")
    found = metrics()["f"]
    assert [found.frames_tx, found.frames_rx] == [401, 401], (found, warnings)
    assert sorted(it.frames_rx for it in found.tagged_metrics) == [133, 134, 134], found
    transmit("stop")


def requests_name_what_exists():
    """A request with a name that does not exist is refused by its place, whatever it asks for."""
    config = two_ports()
    udp_flow(config, "f", 128, 1000, packets=20)
    udp_flow(config, "g", 128, 1000, packets=20)
    station(config, "a", "p1", 1, v4=[7])
    config.captures.capture(name="c")[-1].port_names = ["p2"]
    api.set_config(config)
    transmit("start")
    until("through", through)

    def of(message, path, *names):
        *path, last = path.split(".")
        part = message
        for field in path:
            part = getattr(part, field)
        setattr(part, last, names[0] if last == "port_name" else list(names))
        return message

    state = api.control_state()
    state.traffic.flow_transmit.state = "start"
    capture = api.control_state()
    capture.port.capture.state = "start"
    for call, message, said in [
        (api.get_metrics, of(api.metrics_request(), "port.port_names", "p1", "x"), "port.port_names: there is no port 'x'"),
        (api.get_metrics, of(api.metrics_request(), "flow.flow_names", "f", "x"), "flow.flow_names: there is no flow 'x'"),
        (api.get_metrics, of(api.metrics_request(), "bgpv4.peer_names", "x"), "bgpv4: not supported"),
        (
            api.get_states,
            of(api.states_request(), "ipv4_neighbors.ethernet_names", "ea", "x"),
            "ipv4_neighbors.ethernet_names: there is no Ethernet interface 'x'",
        ),
        (api.get_states, of(api.states_request(), "bgp_prefixes.bgp_peer_names", "x"), "bgp_prefixes: not supported"),
        (api.get_capture, of(api.capture_request(), "port_name", "x"), "port_name: port 'x' has no capture"),
        (api.get_capture, of(api.capture_request(), "port_name", "p1"), "port_name: port 'p1' has no capture"),
        (
            api.set_control_state,
            of(state, "traffic.flow_transmit.flow_names", "x"),
            "traffic.flow_transmit.flow_names: there is no flow 'x'",
        ),
        (
            api.set_control_state,
            of(capture, "port.capture.port_names", "p1"),
            "port.capture.port_names: port 'p1' has no capture",
        ),
        (lambda name: delete(name), "x", "config_delete_list[0].flows: there is no flow 'x'"),
        (lambda flow: update(flow, "rate"), udp_flow(two_ports(), "x", 64, 1), "flows.flows[0].name: there is no flow 'x'"),
        (lambda flow: update(flow, "size"), udp_flow(two_ports(), "f", 60, 1), "flows.flows[0].size.fixed: 60 bytes: give 64"),
        (lambda flow: append(flow), udp_flow(two_ports(), "f", 64, 1), "flows[0].name: 'f' is the name of two flows"),
    ]:
        code, errors = refuses(call, message)
        assert code == 400 and any(said in line for line in errors), (said, code, errors)
    # Metrics of one flow or port, with the columns that are asked for.
    request = api.metrics_request()
    request.flow.flow_names, request.flow.metric_names = ["g"], ["frames_rx", "transmit"]
    [flow] = api.get_metrics(request).flow_metrics
    assert (flow.name, flow.transmit, flow.frames_rx, flow.frames_tx) == ("g", "stopped", 20, None), flow
    request = api.metrics_request()
    request.port.port_names, request.port.column_names = ["p2"], ["frames_rx"]
    [port] = api.get_metrics(request).port_metrics
    assert (port.name, port.frames_rx, port.frames_tx, port.location) == ("p2", 40, None, None), port


def published_messages():
    """Every answer over HTTP is a message of the published protobuf, with no other field."""
    import requests
    from google.protobuf.json_format import MessageToJson, Parse
    from snappi import otg_pb2 as otg

    def call(method, path, message, answer, code=200):
        text = message and MessageToJson(message, preserving_proto_field_name=True)
        response = requests.request(method, location + path, data=text, verify=False)
        assert response.status_code == code, (path, response.text)
        return Parse(response.text, answer)

    config = two_ports()
    config.options.flow_options.packet_loss_duration = True
    flow = udp_flow(config, "f", 128, 1000, packets=30)
    flow.metrics.timestamps = True
    station(config, "a", "p1", 1, v4=[7])
    config.captures.capture(name="c")[-1].port_names = ["p2"]
    message = Parse(config.serialize("json"), otg.Config())
    call("POST", "/config", message, otg.Warning())
    assert call("GET", "/config", None, otg.Config()) == message
    state = otg.ControlState()
    state.choice, state.traffic.choice = "traffic", "flow_transmit"
    state.traffic.flow_transmit.state = "start"
    call("POST", "/control/state", state, otg.Warning())
    until("through", through)
    for choice, names in [("flow", "flow_metrics"), ("port", "port_metrics")]:
        request = otg.MetricsRequest(choice=choice)
        answer = call("POST", "/monitor/metrics", request, otg.MetricsResponse())
        assert [metric.frames_tx for metric in getattr(answer, names)][:1] == [30], answer
    states = otg.StatesRequest(choice="ipv4_neighbors")
    call("POST", "/monitor/states", states, otg.StatesResponse())
    assert call("GET", "/capabilities/version", None, otg.Version()).app_version.startswith("kpps ")
    added = Parse(append_of(udp_flow(two_ports(), "g", 200, 100)).serialize("json"), otg.ConfigAppend())
    call("PATCH", "/config/append", added, otg.Warning())
    error = call("PATCH", "/config/append", added, otg.Error(), code=400)
    assert error.code == 400 and error.kind == otg.Error.Kind.validation and len(error.errors) == 1, error
    deleted = otg.ConfigDelete(config_delete_list=[otg.ConfigDeleteResources(choice="flows", flows=["g"])])
    call("PATCH", "/config/delete", deleted, otg.Warning())
    assert call("GET", "/config", None, otg.Config()) == message


def counts_stay():
    """Sizes that change, and flows that start again, change no earlier count. Ports count all of their frames."""
    config = two_ports()
    config.options.flow_options.packet_loss_duration = True
    flow = udp_flow(config, "f", 128, 1000, packets=30)
    flow.metrics.timestamps, flow.metrics.rx_tx_ratio.value = True, 2
    udp_flow(config, "g", 200, 1000, packets=20, back=True)
    begun_ns = time.time_ns()
    api.set_config(config)
    transmit("start")
    until("through", through)
    found, times = metrics(), metrics()["f"].timestamps
    # A number of this size has steps of 256 ns.
    assert begun_ns - 256 <= times.first_timestamp_ns < times.last_timestamp_ns <= time.time_ns() + 256, times
    assert times.last_timestamp_ns - times.first_timestamp_ns > 1e6 and found["g"].timestamps.last_timestamp_ns is None, times
    # Each frame should arrive twice.
    assert [found["f"].loss, found["g"].loss] == [50, 0], found
    assert [metric.packet_loss_duration.value for metric in found.values()] == [15, 0], found
    update = api.config_update()
    update.flows.property_names = ["size"]
    update.flows.flows.append(udp_flow(two_ports(), "f", 256, 1000, packets=30))
    api.update_config(update)
    assert [metrics()["f"].bytes_tx, metrics()["f"].bytes_rx] == [30 * 128] * 2, metrics()
    transmit("start", "f")
    until("through", through)
    found = metrics()["f"]
    assert [found.frames_tx, found.bytes_tx, found.bytes_rx] == [30, 30 * 256, 30 * 256], found
    # A flow that is added begins with 0, and the frames of one that is deleted stay those of its ports.
    append = api.config_append()
    append.config_append_list.add().flows.append(udp_flow(two_ports(), "h", 100, 1000, packets=10))
    api.append_config(append)
    delete = api.config_delete()
    delete.config_delete_list.add().flows = ["f"]
    api.delete_config(delete)
    assert {name: metric.frames_rx for name, metric in metrics().items()} == {"g": 20, "h": 0}, metrics()
    ports = port_metrics()
    assert [ports["p1"].frames_tx, ports["p1"].bytes_tx, ports["p1"].frames_rx] == [60, 30 * 384, 20], ports
    assert [ports["p2"].frames_rx, ports["p2"].bytes_rx, ports["p2"].frames_tx] == [60, 30 * 384, 20], ports
    api.set_config(config)
    assert [metric.frames_tx for metric in port_metrics().values()] == [0, 0]


def pauses():
    """A paused flow goes on where it was, and the others do not notice. A stopped one is resumed from its beginning."""
    config = two_ports()
    udp_flow(config, "kept", 128, 1000)
    udp_flow(config, "counted", 128, 300, packets=300)
    api.set_config(config)
    transmit("start")
    until("sending", lambda: metrics()["counted"].frames_tx > 10)
    transmit("pause", "counted")

    def rests():
        before = metrics()
        until("going on", lambda: metrics()["kept"].frames_rx > before["kept"].frames_rx + 100)
        return metrics()["counted"].frames_tx == before["counted"].frames_tx

    until("paused", rests)
    found = metrics()["counted"]
    assert found.transmit == "paused" and 10 < found.frames_tx == found.frames_rx < 300, found
    update = api.config_update()
    update.flows.property_names = ["rate"]
    update.flows.flows.append(udp_flow(two_ports(), "counted", 128, 400, packets=300))
    api.update_config(update)
    assert rests(), "the update resumes it"
    transmit("resume", "counted")
    until("through", lambda: metrics()["counted"].transmit == "stopped")
    assert [metrics()["counted"].frames_tx, metrics()["counted"].frames_rx] == [300, 300], metrics()
    transmit("resume", "counted")
    until("sending", lambda: metrics()["counted"].frames_tx > 310)
    transmit("pause", "counted")
    until("paused", rests)
    # Started anew, it has new counts.
    transmit("start", "counted")
    until("through", lambda: metrics()["counted"].transmit == "stopped")
    assert [metrics()["counted"].frames_tx, metrics()["counted"].frames_rx] == [300, 300], metrics()
    transmit("stop")
    assert metrics()["kept"].loss == 0, metrics()


def flooded():
    """A bridge floods frames to a third port of the server and loses them: they were not lost at that port."""
    config = two_ports()
    config.ports.port(name="p3", location="eth3")
    udp_flow(config, "f", 128, 1000, packets=50)
    api.set_config(config)
    transmit("start")
    until("through", through)
    warnings = transmit("stop")
    assert [metrics()["f"].frames_tx, metrics()["f"].frames_rx] == [50, 0], metrics()
    assert not any(line.split(" at ")[-1].startswith("c ") for line in warnings), warnings


def streamed():
    """Calls whose messages come in parts, over TLS."""
    api._use_secure_connection(rest[0], "localhost")
    api.enable_grpc_streaming, api._chunk_size = True, 100
    several_flows()
    captures()


def captures():
    """The frames that a port received, in a file of pcap."""
    config = two_ports()
    flow = udp_flow(config, "f", 128, 500, packets=40)
    flow.packet[1].time_to_live.value = 9
    capture = config.captures.capture(name="c")[-1]
    capture.port_names, capture.format = ["p2"], "pcap"
    api.set_config(config)
    control = api.control_state()
    control.port.capture.port_names, control.port.capture.state = ["p2"], "start"
    api.set_control_state(control)
    transmit("start")
    until("through", lambda: metrics()["f"].transmit == "stopped")
    control.port.capture.state = "stop"
    api.set_control_state(control)
    frames = captured("p2")
    frames = [frame for frame in frames if frame[12:14] == b"\x08\x00"]
    assert len(frames) == 40 and all(len(frame) == 124 and frame[22] == 9 for frame in frames), len(frames)
    sources = [bytes([10, 0, 0, 1 + n % 5]) for n in range(40)]
    assert [frame[26:30] for frame in frames] == sources, [frame[26:30] for frame in frames]


def many_flows():
    """Five hundred flows: how long the configuration and the start take, in s."""
    config = two_ports()
    for n in range(500):
        udp_flow(config, f"flow {n}", 100, 20, packets=20, dport=1000 + n)
    begun = time.monotonic()
    api.set_config(config)
    configured = time.monotonic()
    transmit("start")
    started = time.monotonic()
    until("through", lambda: all(metric.transmit == "stopped" for metric in metrics().values()))
    assert all(metric.frames_tx == metric.frames_rx == 20 for metric in metrics().values())
    print(configured - begun, started - configured)


def strict():
    """As many frames of the smallest size as a fast link carries: no process sends them in time."""
    config = two_ports()
    udp_flow(config, "f", 64, 14_000_000)
    api.set_config(config)
    transmit("start")
    until("sending", lambda: metrics()["f"].frames_tx > 10_000)
    warnings = transmit("stop")
    try:
        metrics()
    except Exception as error:
        assert "generator shortfall" in str(error), (error, warnings)
        assert any("shortfall" in line for line in warnings), (error, warnings)
        print(error)
    else:
        raise AssertionError("a lower load than the one that was asked for passes")


def station(config, name, port, mac, v4=(), v6=()):
    """An interface of a device, with addresses whose last parts are these."""
    device = next((it for it in config.devices if it.name == f"d{name[0]}"), None)
    device = device or config.devices.device(name=f"d{name[0]}")[-1]
    ethernet = device.ethernets.ethernet()[-1]
    ethernet.name, ethernet.mac, ethernet.connection.port_name = f"e{name}", f"02:00:00:00:77:{mac:02x}", port
    net = 18 if port == "p1" else 19
    for last in v4:
        ip = ethernet.ipv4_addresses.ipv4()[-1]
        ip.name, ip.address, ip.gateway = f"v4 {name} {last}", f"198.{net}.0.{last}", f"198.{net}.0.254"
    for last in v6:
        ip = ethernet.ipv6_addresses.ipv6()[-1]
        ip.name, ip.address, ip.gateway = f"v6 {name} {last}", f"2001:2:0:{net}::{last}", f"2001:2:0:{net}::fe"


def station_flow(config, name, kind, senders, receivers, mode="mesh", packets=90):
    flow = config.flows.flow(name=name)[-1]
    ends = flow.tx_rx.device
    ends.tx_names, ends.rx_names, ends.mode = senders, receivers, mode
    getattr(flow.packet.ethernet(), kind)().udp()
    flow.size.fixed, flow.rate.pps, flow.metrics.enable = 100, 300, True
    flow.duration.fixed_packets.packets = packets
    return flow


def neighbors_of_stations():
    """The neighbours of IPv4 that the stations know once they are started."""
    control = api.control_state()
    control.protocol.all.state = "start"
    api.set_control_state(control)
    request = api.states_request()
    request.choice = "ipv4_neighbors"
    return api.get_states(request).ipv4_neighbors


def several_stations():
    """Devices with several interfaces and addresses of both versions of IP, behind a router."""
    config = two_ports()
    station(config, "a", "p1", 1, v4=[7], v6=[7])
    station(config, "a2", "p1", 2, v4=[8])
    station(config, "b", "p1", 3, v4=[9, 10])
    station(config, "c", "p2", 4, v4=[7, 8], v6=[7])
    station(config, "d", "p2", 5, v6=[9])
    station_flow(config, "mesh", "ipv4", ["v4 a 7", "ea2", "v4 b 10"], ["v4 c 7", "v4 c 8"])
    station_flow(config, "six", "ipv6", ["da"], ["ec", "dd"])
    station_flow(config, "pairs", "ipv4", ["v4 b 9", "v4 b 10"], ["v4 c 8", "v4 c 7"], mode="one_to_one")
    station_flow(config, "back", "ipv6", ["v6 d 9"], ["ea"])
    capture = config.captures.capture(name="c")[-1]
    capture.port_names, capture.format = ["p1", "p2"], "pcap"
    api.set_config(config)
    # They answer before anything is started, and after a configuration was refused.
    answer_pings()
    bad = two_ports()
    bad.ports[1].location = "eth3"
    udp_flow(bad, "f", 128, 100)
    assert refuses(api.set_config, bad)[0] == 500
    answer_pings()
    four = sorted((it.ethernet_name, it.ipv4_address) for it in neighbors_of_stations())
    gateways = {"ea": 18, "ea2": 18, "eb": 18, "ec": 19}
    assert four == [(name, f"198.{net}.0.254") for name, net in gateways.items()], four
    request = api.states_request()
    request.choice, request.ipv6_neighbors.ethernet_names = "ipv6_neighbors", ["ea", "ed"]
    six = sorted((it.ethernet_name, it.ipv6_address) for it in api.get_states(request).ipv6_neighbors)
    assert six == [("ea", "2001:2:0:18::fe"), ("ed", "2001:2:0:19::fe")], six
    start_captures()
    transmit("start")
    answer_pings()
    until("through", through)
    assert all([it.frames_tx, it.frames_rx] == [90, 90] for it in metrics().values()), metrics()
    four, six = Counter(), Counter()
    for frame in captured("p2"):
        if frame[12:14] == b"\x08\x00" and frame[23] == 17:
            four[frame[29], frame[33], frame[6:12] == frame[0:6]] += 1
        if frame[12:14] == b"\x86\xdd" and frame[20] == 17:
            six[frame[37], frame[53]] += 1
    expected = Counter({(src, dst, False): 15 for src in (7, 8, 10) for dst in (7, 8)})
    assert four == expected + Counter({(9, 8, False): 45, (10, 7, False): 45}), four
    assert six == Counter({(7, 7): 45, (7, 9): 45}), six
    back = [frame for frame in captured("p1") if frame[12:14] == b"\x86\xdd" and frame[20] == 17]
    assert len(back) == 90 and all(frame[37] == 9 and frame[53] == 7 for frame in back), len(back)
    assert {frame[0:6] for frame in back} == {bytes.fromhex("020000007701")}
    # A name of two, ends at one port, and a router that is not there.
    station(config, "e", "p1", 6, v4=[7])
    config.devices[-1].ethernets[0].name = "ea"
    assert "'ea' is the name of two devices" in refused(config)[1][0]
    config.devices[-1].ethernets[0].name = "ee"
    config.flows[0].tx_rx.device.tx_names = ["ea", "ec"]
    assert "a flow goes from one port to another, not to the same" in refused(config)[1][0]
    config.flows[0].tx_rx.device.tx_names = ["ea"]
    config.devices[0].ethernets[0].ipv4_addresses[0].gateway = "198.18.0.253"
    api.set_config(config)
    transmit("start", "six")
    until("through", lambda: metrics()["six"].transmit == "stopped")
    assert metrics()["six"].frames_rx == 90, metrics()
    control = api.control_state()
    control.traffic.flow_transmit.state = "start"
    errors = refuses(api.set_control_state, control)[1]
    assert errors == ["flows[0]: the router 198.18.0.253 of 198.18.0.7 does not answer"], errors


def vlan_stations():
    """Stations in VLANs, two of them with one address. Each is the router of its neighbour in the VLAN."""
    config = two_ports()
    vlans = [("twin", "p2", 30, 1, 8), ("a", "p1", 10, 2, 7), ("b", "p2", 10, 3, 8), ("other", "p1", 30, 4, 7)]
    for name, port, vlan, mac, last in vlans:
        station(config, name, port, mac)
        ethernet = config.devices[-1].ethernets[-1]
        tag = ethernet.vlans.vlan(name=f"vlan {name}")[-1]
        tag.id, tag.priority = vlan, 5
        ip = ethernet.ipv4_addresses.ipv4()[-1]
        ip.name, ip.address, ip.gateway = f"ip {name}", f"198.21.0.{last}", f"198.21.0.{15 - last}"
    flow = station_flow(config, "f", "ipv4", ["ip a"], ["ip b"])
    flow.packet.clear()
    flow.packet.ethernet().vlan().ipv4().udp()
    flow.packet[1].id.value = 10
    capture = config.captures.capture(name="c")[-1]
    capture.port_names, capture.format = ["p2"], "pcap"
    api.set_config(config)
    found = {it.ethernet_name: it.link_layer_address[-2:] for it in neighbors_of_stations()}
    assert found == {"etwin": "04", "ea": "03", "eb": "02", "eother": "01"}, found
    start_captures()
    transmit("start")
    until("through", through)
    assert [metrics()["f"].frames_tx, metrics()["f"].frames_rx] == [90, 90], metrics()
    frames = [frame for frame in captured("p2") if frame[12:14] == b"\x81\x00" and frame[27] == 17]
    assert len(frames) == 90 and all(frame[14] & 15 == 0 and frame[15] == 10 for frame in frames), len(frames)
    assert {frame[:6].hex() for frame in frames} == {"020000007703"}


def answer_pings():
    """The router pings all stations."""
    stations = ["198.18.0.7", "198.18.0.8", "198.18.0.9", "198.18.0.10", "198.19.0.7", "198.19.0.8"]
    stations += ["2001:2:0:18::7", "2001:2:0:19::7", "2001:2:0:19::9"]
    words = ["ip", "netns", "exec", rest[0], sys.executable, __file__, location, transport, "ping"]
    subprocess.run(words + stations, check=True)


def ping():
    """Waits for the answer of each of these addresses."""
    for ip in rest:
        is_v4 = "." in ip
        family, protocol = (socket.AF_INET, 1) if is_v4 else (socket.AF_INET6, 58)
        # Type, code, checksum, identifier and number; the kernel fills in the checksum of IPv6.
        request = bytes([8, 0, 0xF7, 0xFB, 0, 1, 0, 3]) if is_v4 else bytes([128, 0, 0, 0, 0, 1, 0, 3])
        end = time.monotonic() + PATIENCE_S
        with socket.socket(family, socket.SOCK_RAW, protocol) as pings:
            pings.settimeout(1)
            while time.monotonic() < end:
                try:
                    pings.sendto(request, (ip, 0))
                    answer, (sender, *_) = pings.recvfrom(2000)
                except OSError:
                    continue
                if sender == ip and (answer[20] == 0 if is_v4 else answer[0] == 129):
                    break
            else:
                raise AssertionError(f"{ip} does not answer")


def captured(port):
    """The frames of the file of a capture."""
    request = api.capture_request()
    request.port_name = port
    file = api.get_capture(request).read()
    # The magic number of a file with times in ns, then for each frame four numbers and its bytes.
    assert struct.unpack("<I", file[:4])[0] == 0xA1B23C4D, file[:4]
    at, frames = 24, []
    while at < len(file):
        kept, length = struct.unpack("<II", file[at + 8 : at + 16])
        assert kept == length, (kept, length)
        frames.append(file[at + 16 : at + 16 + kept])
        at += 16 + kept
    return frames


def stations():
    """Flows between stations behind a router."""
    config = two_ports()
    for n, (port, network) in enumerate([("p1", 18), ("p2", 19)]):
        ethernet = config.devices.device(name=f"d{n}")[-1].ethernets.ethernet()[-1]
        ethernet.name, ethernet.mac, ethernet.connection.port_name = f"e{n}", f"02:00:00:00:77:0{n}", port
        ip = ethernet.ipv4_addresses.ipv4()[-1]
        ip.name, ip.address, ip.gateway = f"i{n}", f"198.{network}.0.7", f"198.{network}.0.254"
    flow = config.flows.flow(name="f")[-1]
    flow.tx_rx.device.tx_names, flow.tx_rx.device.rx_names = ["i0"], ["i1"]
    flow.packet.ethernet().ipv4().udp()
    flow.packet[1].src.value, flow.packet[1].dst.value = "198.18.0.7", "198.19.0.7"
    flow.rate.pps, flow.duration.fixed_packets.packets, flow.metrics.enable = 200, 100, True
    api.set_config(config)
    neighbors = {it.ethernet_name: it for it in neighbors_of_stations()}
    assert set(neighbors) == {"e0", "e1"} and neighbors["e0"].ipv4_address == "198.18.0.254", neighbors
    transmit("start")
    until("through", lambda: metrics()["f"].transmit == "stopped")
    assert [metrics()["f"].frames_tx, metrics()["f"].frames_rx] == [100, 100], metrics()
    print(neighbors["e0"].link_layer_address)


globals()[test]()
