# Made by `python -m kpps.stubs` of the command's own table of options: not to be edited.

import concurrent.futures
import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from .errors import CheckFailed as CheckFailed
from .errors import Error as Error
from .errors import InputError as InputError
from .errors import Interrupted as Interrupted
from .errors import InvalidMeasurement as InvalidMeasurement
from .errors import MissingPackage as MissingPackage
from .policies import Policy as Policy
from .results import Record as Record
from .results import Result as Result
from .sensitivities import Sensitivity as Sensitivity

_Value = Union[str, float, os.PathLike[str], datetime.timedelta, type[Policy]]
_Values = Union[_Value, Iterable[_Value]]
_Pairs = Union[str, Iterable[str], Mapping[str, Union[bool, _Values]]]
_Side = Union[str, os.PathLike[str], Result, Iterable[Result]]
_Progress = Union[bool, Callable[[int, "int | None", str], Any], None]
_Executor = Union[str, concurrent.futures.Executor, Callable[[], concurrent.futures.Executor], None]

__all__: list[str]

def schema() -> dict[str, Any]: ...
def sensitivity(
    study: str, *, constants: Iterable[str] | None = None, share: float = 0.1, method: str = "morris", samples: int = 4,
    seed: int = 1, claim: Iterable[str] | None = None, progress: Callable[[int, int], Any] | None = None,
) -> Sensitivity: ...

def curve(
    *,
    ports: _Values | None = None,
    testbed: _Values | None = None,
    seed: _Value | None = None,
    clock: _Value | None = None,
    driver_module: _Value | None = None,
    noise: bool | None = None,
    chip: _Value | None = None,
    app: _Value | None = None,
    one_way: bool | None = None,
    machine: _Value | None = None,
    set: _Pairs | None = None,
    driver: _Values | None = None,
    load: _Values | None = None,
    bidirectional: bool | None = None,
    replies: bool | None = None,
    size: _Value | None = None,
    src: _Value | None = None,
    dst: _Value | None = None,
    ipv6: bool | None = None,
    sport: _Value | None = None,
    dport: _Value | None = None,
    flows: _Value | None = None,
    dscp: _Value | None = None,
    ttl: _Value | None = None,
    encap: _Values | None = None,
    template: _Value | None = None,
    vlan: _Values | None = None,
    gateway: _Values | None = None,
    dst_mac: _Value | None = None,
    duration: _Value | None = None,
    drain: _Value | None = None,
    watch: _Values | None = None,
    dut: _Value | None = None,
    resume: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    metrics: _Value | None = None,
    max_loss: _Value | None = None,
    min_rate: _Value | None = None,
    max_p99: _Value | None = None,
    max_unexplained: _Value | None = None,
    retries: _Value | None = None,
    max_shortfall: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    from_: _Value | None = None,
    to: _Value | None = None,
    token_file: _Value | None = None,
    tls_ca: _Value | None = None,
    tls_cert: _Value | None = None,
    tls_key: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Measure delivered against offered packets per second, for several drivers or between two ports.

    Args:
        ports (PORT,PORT): The two ports, with the device under test between them
        testbed (NAME,…): Another testbed: sim:MACHINE/DRIVER/APP, the simulator (as machine=, driver=, app=; the driver is kpps if none is named); lab:KERNEL/DEVICE/DRIVER/APP, a guest in QEMU; known:RATE, a system that delivers this rate; PORT,PORT as ports= [default: the simulator]
        seed (SEED): Seed of everything random in the simulator and of noise=; equal seeds give equal results [default: 1]
        clock (CLOCK): With lab: the guest's clock: instructions, a nanosecond for each one that it executes, or wall [default: instructions]
        driver_module (FILE.ko): With lab: load this module in place of the kernel's own driver
        noise (True or False): With known:RATE: one second in twenty loses up to 2000 frames more
        chip (CHIP): The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
        app (APP): Simulate an app between two cards: bridge, route (IPv4), vlan-route or nat. A load is then that of both directions together [default: a receiver on one card]
        one_way (True or False): With app=: offer the whole load to the first card, and nothing to the second
        machine (MACHINE): The simulated machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with app=: lunz2003]
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 (`kpps list KIND NAME` shows them); with lab: a setting of the guest, as linux.RxIntDelay=100
        driver (DRIVER,…): Driver presets to compare: names (`kpps list drivers`) or .toml files [default: those that the machine's profile names, and that fit its chip and stack]
        load (LOAD,…): Offered loads: `100kpps,80%,100%` or `FROM..TO/STEP`, in bits as 10MbpsL1..1GbpsL1/10MbpsL1 [default: 100kpps..100%/100kpps; on ports and guests, growing steps from 10kpps; on ports, the last step is the first load that the tester cannot sustain]
        bidirectional (True or False): Offer the same load from the second port to the first, too
        replies (True or False): As bidirectional=, and the second port replies: it sends to the addresses and ports from which each flow arrives there, as a NAT or a stateful firewall between them needs
        size (SIZE|MIX): Frame size in bytes with FCS; on ports also a mix: imix-csit, imix-trex, imix-linux, imix-routers, or sizes with weights as 64:7,570:4,1518:1 [default: 64; with app= vlan-route: 68]
        src (ADDRESSES): Source addresses: one, or FIRST-LAST as 10.0.0.1-10.0.0.200; IPv4 or IPv6. In a trial the sending port answers for them [default: 198.18.0.1]
        dst (ADDRESSES): Destination addresses. In a trial the receiving port answers for them [default: 198.19.0.2]
        ipv6 (True or False): Use IPv6, between the benchmark addresses 2001:2:0:1::1 and 2001:2:0:2::2 if no others are given; frames have at least 84 bytes with FCS
        sport (PORTS): UDP source ports: one, or FIRST-LAST [default: 49152; with flows= from there up]
        dport (PORTS): UDP destination ports: one, or FIRST-LAST [default: 9]
        flows (FLOWS): Number of UDP flows, in turns: source ports count up first, then source addresses, destination addresses, destination ports [default: all flows of the given ranges]
        dscp (NUMBERS): Differentiated services code point of the frames, 0 to 63: a number, or a range over which flows take turns. All ranges may be FIRST-LAST/STEP, or random:FIRST-LAST and random:FIRST-LAST/SEED, which are the same in every run
        ttl (NUMBERS): TTL or hop limit of the frames [default: 64]
        encap (LAYERS[,LAYERS]): Encapsulation of the frames of both ports, or one value for each port, the first port's first: none, vlan:ID, qinq:ID, mpls:LABEL, vxlan:NETWORK/OWN/OTHER (the tunnel's ends), joined by + from outside in, as qinq:100+vlan:7; numbers may be ranges
        template (PACKET): Make all frames of this packet: the N-th of a capture (FILE[:N]), or bytes in hexadecimal (a file, or the text itself). Its payload ends with the tester's tag; checksums are corrected. src= and the like replace its addresses and ports
        vlan (ID[,ID]): VLAN of the frames: one for both ports, or one for each, the first port's first; 0 for none
        gateway (ADDRESS[,ADDRESS]): Routers that the ports send to, the first port's first; kpps resolves them by ARP or neighbour discovery [default: the other port]
        dst_mac (MAC): MAC address that the first port sends to [default: the second port's, or the gateway's]
        duration (TIME): How long each trial is measured [default: 1s; in the simulator 50ms of virtual time]
        drain (TIME): How long to wait for frames after the last one was sent; less if none is missing [default: 1s]
        watch (PLACE,…): Observe this interface of the device under test too: IFACE; NAMESPACE/IFACE in another network namespace (`ip netns`); NAMESPACE/ for all of them. kpps finds the other ends of veth pairs and bridges of its own namespace by itself
        dut (NAME): The name of the device under test, for the results
        resume (FILE): Keep every measurement in this file, which is created if it does not exist, and do not repeat measurements of the same system that it has
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        metrics (ADDRESS): Serve the counters of the running trial over HTTP at this address, as 127.0.0.1:9464: OpenMetrics text, for Prometheus. `kpps trial` adds shortfall and latency of the last interval, by default of 1 s
        max_loss (SHARE): End with exit code 1 if a larger share of the frames is lost: 0, 0.1%
        min_rate (RATE): End with exit code 1 if fewer frames per second are delivered, all directions together
        max_p99 (TIME): End with exit code 1 if 99 % of the frames take longer: 100us
        max_unexplained (SHARE): End with exit code 1 if a larger share of the frames is lost at an unknown place; 0 requires that watch= covers the whole path
        retries (TIMES): How often to repeat a trial in which other programs had the generator's CPU, or its quota was used up [default: 2, and 0 for trials of more than 1min]
        max_shortfall (SHARE): A trial is no measurement of the device under test if the tester did not send in time, or did not take in, more than this share of the frames [default: 0.1%]
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        from_ (HOST[:PORT]): Host of the first port, where `kpps agent` runs [default: this host]
        to (HOST[:PORT]): Host of the second port [default: this host]
        token_file (FILE): File with a token of 16 characters or more that agent and tester share; only for networks that nobody else can read
        tls_ca (FILE): Certificate of the authority that signed the other side's certificate (PEM); `kpps agent keys` makes all of them
        tls_cert (FILE): Own certificate (PEM)
        tls_key (FILE): Key of the own certificate (PEM)
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def grid(
    *,
    ports: _Values | None = None,
    testbed: _Values | None = None,
    seed: _Value | None = None,
    clock: _Value | None = None,
    driver_module: _Value | None = None,
    noise: bool | None = None,
    chip: _Value | None = None,
    app: _Value | None = None,
    one_way: bool | None = None,
    machine: _Value | None = None,
    driver: _Values | None = None,
    set: _Pairs | None = None,
    vary: _Pairs | None = None,
    load: _Value | None = None,
    shard: _Value | None = None,
    bidirectional: bool | None = None,
    replies: bool | None = None,
    size: _Value | None = None,
    src: _Value | None = None,
    dst: _Value | None = None,
    ipv6: bool | None = None,
    sport: _Value | None = None,
    dport: _Value | None = None,
    flows: _Value | None = None,
    dscp: _Value | None = None,
    ttl: _Value | None = None,
    encap: _Values | None = None,
    template: _Value | None = None,
    vlan: _Values | None = None,
    gateway: _Values | None = None,
    dst_mac: _Value | None = None,
    duration: _Value | None = None,
    drain: _Value | None = None,
    watch: _Values | None = None,
    dut: _Value | None = None,
    resume: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    metrics: _Value | None = None,
    retries: _Value | None = None,
    max_shortfall: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    from_: _Value | None = None,
    to: _Value | None = None,
    token_file: _Value | None = None,
    tls_ca: _Value | None = None,
    tls_cert: _Value | None = None,
    tls_key: _Value | None = None,
    progress: _Progress = None,
    executor: _Executor = None,
    store: _Value | None = None,
    chunk_s: float | None = None,
    workers: int | None = None,
) -> Result:
    """Measure each combination of parameters over ranges.

    Args:
        ports (PORT,PORT): The two ports, with the device under test between them
        testbed (NAME,…): Another testbed: sim:MACHINE/DRIVER/APP, the simulator (as machine=, driver=, app=; the driver is kpps if none is named); lab:KERNEL/DEVICE/DRIVER/APP, a guest in QEMU; known:RATE, a system that delivers this rate; PORT,PORT as ports= [default: the simulator]
        seed (SEED): Seed of everything random in the simulator and of noise=; equal seeds give equal results [default: 1]
        clock (CLOCK): With lab: the guest's clock: instructions, a nanosecond for each one that it executes, or wall [default: instructions]
        driver_module (FILE.ko): With lab: load this module in place of the kernel's own driver
        noise (True or False): With known:RATE: one second in twenty loses up to 2000 frames more
        chip (CHIP): The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
        app (APP): Simulate an app between two cards: bridge, route (IPv4), vlan-route or nat. A load is then that of both directions together [default: a receiver on one card]
        one_way (True or False): With app=: offer the whole load to the first card, and nothing to the second
        machine (MACHINE): The simulated machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with app=: lunz2003]
        driver (DRIVER,…): The driver preset: a name (`kpps list drivers`) or a .toml file [default: kpps]
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 (`kpps list KIND NAME` shows them); with lab: a setting of the guest, as linux.RxIntDelay=100
        vary (PARAMETER=VALUES): A parameter and its values; the last one given is the horizontal axis of maps
        load (LOAD): The offered load [default: 100%]
        shard (NUMBER/OF): Measure only this share of the cells, as 2/8: the second of eight, for a job of a cluster
        bidirectional (True or False): Offer the same load from the second port to the first, too
        replies (True or False): As bidirectional=, and the second port replies: it sends to the addresses and ports from which each flow arrives there, as a NAT or a stateful firewall between them needs
        size (SIZE|MIX): Frame size in bytes with FCS; on ports also a mix: imix-csit, imix-trex, imix-linux, imix-routers, or sizes with weights as 64:7,570:4,1518:1 [default: 64; with app= vlan-route: 68]
        src (ADDRESSES): Source addresses: one, or FIRST-LAST as 10.0.0.1-10.0.0.200; IPv4 or IPv6. In a trial the sending port answers for them [default: 198.18.0.1]
        dst (ADDRESSES): Destination addresses. In a trial the receiving port answers for them [default: 198.19.0.2]
        ipv6 (True or False): Use IPv6, between the benchmark addresses 2001:2:0:1::1 and 2001:2:0:2::2 if no others are given; frames have at least 84 bytes with FCS
        sport (PORTS): UDP source ports: one, or FIRST-LAST [default: 49152; with flows= from there up]
        dport (PORTS): UDP destination ports: one, or FIRST-LAST [default: 9]
        flows (FLOWS): Number of UDP flows, in turns: source ports count up first, then source addresses, destination addresses, destination ports [default: all flows of the given ranges]
        dscp (NUMBERS): Differentiated services code point of the frames, 0 to 63: a number, or a range over which flows take turns. All ranges may be FIRST-LAST/STEP, or random:FIRST-LAST and random:FIRST-LAST/SEED, which are the same in every run
        ttl (NUMBERS): TTL or hop limit of the frames [default: 64]
        encap (LAYERS[,LAYERS]): Encapsulation of the frames of both ports, or one value for each port, the first port's first: none, vlan:ID, qinq:ID, mpls:LABEL, vxlan:NETWORK/OWN/OTHER (the tunnel's ends), joined by + from outside in, as qinq:100+vlan:7; numbers may be ranges
        template (PACKET): Make all frames of this packet: the N-th of a capture (FILE[:N]), or bytes in hexadecimal (a file, or the text itself). Its payload ends with the tester's tag; checksums are corrected. src= and the like replace its addresses and ports
        vlan (ID[,ID]): VLAN of the frames: one for both ports, or one for each, the first port's first; 0 for none
        gateway (ADDRESS[,ADDRESS]): Routers that the ports send to, the first port's first; kpps resolves them by ARP or neighbour discovery [default: the other port]
        dst_mac (MAC): MAC address that the first port sends to [default: the second port's, or the gateway's]
        duration (TIME): How long each trial is measured [default: 1s; in the simulator 50ms of virtual time]
        drain (TIME): How long to wait for frames after the last one was sent; less if none is missing [default: 1s]
        watch (PLACE,…): Observe this interface of the device under test too: IFACE; NAMESPACE/IFACE in another network namespace (`ip netns`); NAMESPACE/ for all of them. kpps finds the other ends of veth pairs and bridges of its own namespace by itself
        dut (NAME): The name of the device under test, for the results
        resume (FILE): Keep every measurement in this file, which is created if it does not exist, and do not repeat measurements of the same system that it has
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        metrics (ADDRESS): Serve the counters of the running trial over HTTP at this address, as 127.0.0.1:9464: OpenMetrics text, for Prometheus. `kpps trial` adds shortfall and latency of the last interval, by default of 1 s
        retries (TIMES): How often to repeat a trial in which other programs had the generator's CPU, or its quota was used up [default: 2, and 0 for trials of more than 1min]
        max_shortfall (SHARE): A trial is no measurement of the device under test if the tester did not send in time, or did not take in, more than this share of the frames [default: 0.1%]
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        from_ (HOST[:PORT]): Host of the first port, where `kpps agent` runs [default: this host]
        to (HOST[:PORT]): Host of the second port [default: this host]
        token_file (FILE): File with a token of 16 characters or more that agent and tester share; only for networks that nobody else can read
        tls_ca (FILE): Certificate of the authority that signed the other side's certificate (PEM); `kpps agent keys` makes all of them
        tls_cert (FILE): Own certificate (PEM)
        tls_key (FILE): Key of the own certificate (PEM)
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
        executor: Where cells are measured: a concurrent.futures.Executor, a function that makes one, or processes, dask, dask://HOST:PORT, ray, slurm [default: all cores of this process]
        store: A folder or a URL of fsspec for partitions in Parquet, one row for each cell; what is there is not measured again
        chunk_s: How long a chunk of cells takes a worker, in s [default: 1]
        workers: How many chunks are worked on at a time [default: as many as the executor has workers]
    """

def transmit(
    *,
    fragments: _Value | None = None,
    coalesce: bool | None = None,
    checksum: _Value | None = None,
    vlan_insertion: _Value | None = None,
    segments: _Value | None = None,
    chip: _Value | None = None,
    set: _Pairs | None = None,
    machine: _Value | None = None,
    driver: _Values | None = None,
    size: _Value | None = None,
    duration: _Value | None = None,
    resume: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Measure the highest transmit rate of each driver.

    Args:
        fragments (BUFFERS): Number of buffers in which the stack hands over a frame [default: 1]
        coalesce (True or False): Let the driver copy the fragments into one buffer
        checksum (none|cpu|card): Place where the UDP checksum is computed: none (the datagrams have none), cpu or card [default: none]
        vlan_insertion (none|cpu|card): Place where the VLAN tag is inserted: none (the frames have none), cpu or card [default: none]
        segments (SEGMENTS): Number of TCP segments that the stack hands over as one, for the card to cut up (TSO); above 1, frames are TCP segments [default: 1]
        chip (CHIP): The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 or host.ring_offset_bytes=16 (`kpps list KIND NAME` shows them); *1.1 multiplies its own
        machine (MACHINE): The machine: a name (`kpps list machines`) or a .toml file [default: morris2000-sender]
        driver (DRIVER,…): Driver presets to compare: names (`kpps list drivers`) or .toml files [default: those that the machine's profile names, and that fit its chip and stack]
        size (SIZE): Frame size in bytes with FCS [default: 64]
        duration (TIME): How long to measure, in virtual time [default: 50ms]
        resume (FILE): Keep every measurement in this file, which is created if it does not exist, and do not repeat measurements of the same system that it has
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def scale(
    *,
    seed: _Value | None = None,
    machine: _Value | None = None,
    nic: _Value | None = None,
    cpu_counts: _Values | None = None,
    shared_lines: _Value | None = None,
    set: _Pairs | None = None,
    load: _Value | None = None,
    flows: _Value | None = None,
    size: _Value | None = None,
    duration: _Value | None = None,
    resume: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Measure packets per second against CPUs, with receive side scaling, and find the limit.

    Args:
        seed (SEED): Seed of everything random; equal seeds give equal results [default: 1]
        machine (MACHINE): The machine: a name (`kpps list machines`) or a .toml file [default: rss]
        nic (NIC): The rate-limited NIC, if not the machine's own: a name (`kpps list nics`) or a .toml file
        cpu_counts (COUNTS): Numbers of simulated CPUs: `1,2,4` or `1..8` [default: from 1 to all of the machine]
        shared_lines (LINES): Number of cache lines that every frame changes under one lock, on whichever CPU: those of a socket that all flows share [default: 0]
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 or host.ring_offset_bytes=16 (`kpps list KIND NAME` shows them); *1.1 multiplies its own
        load (LOAD): The offered load [default: 100%]
        flows (FLOWS): Number of UDP flows in the load [default: 256]
        size (SIZE): Frame size in bytes with FCS [default: 64]
        duration (TIME): How long each trial is measured, after a warm-up of the same length, in virtual time [default: 10ms]
        resume (FILE): Keep every measurement in this file, which is created if it does not exist, and do not repeat measurements of the same system that it has
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def profile(
    *,
    chip: _Value | None = None,
    set: _Pairs | None = None,
    app: _Value | None = None,
    one_way: bool | None = None,
    machine: _Value | None = None,
    driver: _Values | None = None,
    load: _Value | None = None,
    size: _Value | None = None,
    duration: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Show where the CPU time of driver and kernel goes, by function and level.

    Args:
        chip (CHIP): The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 or host.ring_offset_bytes=16 (`kpps list KIND NAME` shows them); *1.1 multiplies its own
        app (APP): Simulate an app between two cards: bridge, route (IPv4), vlan-route or nat. A load is then that of both directions together [default: a receiver on one card]
        one_way (True or False): With app=: offer the whole load to the first card, and nothing to the second
        machine (MACHINE): The machine: a name (`kpps list machines`) or a .toml file [default: rdr2007]
        driver (DRIVER,…): The driver preset: a name (`kpps list drivers`) or a .toml file [default: the first that the machine's profile names]
        load (LOAD): The offered load [default: 100%]
        size (SIZE): Frame size in bytes with FCS [default: 64; with app= vlan-route: 68]
        duration (TIME): How long to measure, in virtual time [default: 50ms]
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def trace(
    *,
    group: _Value | None = None,
    spacing: _Value | None = None,
    cards: _Value | None = None,
    window: _Value | None = None,
    columns: _Value | None = None,
    chip: _Value | None = None,
    set: _Pairs | None = None,
    machine: _Value | None = None,
    driver: _Values | None = None,
    load: _Value | None = None,
    size: _Value | None = None,
    duration: _Value | None = None,
    timeline: _Value | None = None,
    pcap: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Trace transactions on the bus, frames on the wire and register accesses under load.

    Args:
        group (FRAMES): Send the frames in groups of this many [default: 1]
        spacing (TIME): Time between two frames of a group [default: 915ns]
        cards (CARDS): Number of cards under load; each interrupts one of the machine's CPUs, in turn [default: 1]
        window (FROM..TO): Plot these bus clocks [default: all of them, the first ones, and a stretch short of descriptors]
        columns (COLUMNS): Width of a plot in columns [default: 100]
        chip (CHIP): The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 or host.ring_offset_bytes=16 (`kpps list KIND NAME` shows them); *1.1 multiplies its own
        machine (MACHINE): The machine: a name (`kpps list machines`) or a .toml file [default: rdr2007-pci]
        driver (DRIVER,…): The driver preset, one that uses interrupts: a name (`kpps list drivers`) or a .toml file [default: linux-2.6.12-e1000]
        load (LOAD): Frames offered to each port, per second or as a share of the line rate [default: 1Mpps]
        size (SIZE): Frame size in bytes with FCS [default: 64]
        duration (TIME): How long to trace, in virtual time, from the first frame on; at most 10s [default: 3ms]
        timeline (FILE): Write interrupts and register accesses as comma-separated values to this file
        pcap (FILE): Write the frames on the first card's wire to this file (pcap)
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def ndr(
    *,
    ports: _Values | None = None,
    testbed: _Values | None = None,
    seed: _Value | None = None,
    clock: _Value | None = None,
    driver_module: _Value | None = None,
    noise: bool | None = None,
    chip: _Value | None = None,
    app: _Value | None = None,
    one_way: bool | None = None,
    machine: _Value | None = None,
    driver: _Values | None = None,
    set: _Pairs | None = None,
    bidirectional: bool | None = None,
    replies: bool | None = None,
    size: _Value | None = None,
    src: _Value | None = None,
    dst: _Value | None = None,
    ipv6: bool | None = None,
    sport: _Value | None = None,
    dport: _Value | None = None,
    flows: _Value | None = None,
    dscp: _Value | None = None,
    ttl: _Value | None = None,
    encap: _Values | None = None,
    template: _Value | None = None,
    vlan: _Values | None = None,
    gateway: _Values | None = None,
    dst_mac: _Value | None = None,
    bisection: bool | None = None,
    pdr_loss: _Value | None = None,
    min: _Value | None = None,
    max: _Value | None = None,
    precision: _Value | None = None,
    max_time: _Value | None = None,
    duration: _Value | None = None,
    drain: _Value | None = None,
    watch: _Values | None = None,
    dut: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    resume: _Value | None = None,
    metrics: _Value | None = None,
    max_loss: _Value | None = None,
    min_rate: _Value | None = None,
    max_p99: _Value | None = None,
    max_unexplained: _Value | None = None,
    retries: _Value | None = None,
    max_shortfall: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    from_: _Value | None = None,
    to: _Value | None = None,
    token_file: _Value | None = None,
    tls_ca: _Value | None = None,
    tls_cert: _Value | None = None,
    tls_key: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Find the highest load without loss (NDR) and with little loss (PDR).

    Args:
        ports (PORT,PORT): The two ports, with the device under test between them
        testbed (NAME,…): Another testbed: sim:MACHINE/DRIVER/APP, the simulator (as machine=, driver=, app=; the driver is kpps if none is named); lab:KERNEL/DEVICE/DRIVER/APP, a guest in QEMU; known:RATE, a system that delivers this rate; PORT,PORT as ports= [default: the simulator]
        seed (SEED): Seed of everything random in the simulator and of noise=; equal seeds give equal results [default: 1]
        clock (CLOCK): With lab: the guest's clock: instructions, a nanosecond for each one that it executes, or wall [default: instructions]
        driver_module (FILE.ko): With lab: load this module in place of the kernel's own driver
        noise (True or False): With known:RATE: one second in twenty loses up to 2000 frames more
        chip (CHIP): The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
        app (APP): Simulate an app between two cards: bridge, route (IPv4), vlan-route or nat. A load is then that of both directions together [default: a receiver on one card]
        one_way (True or False): With app=: offer the whole load to the first card, and nothing to the second
        machine (MACHINE): The simulated machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with app=: lunz2003]
        driver (DRIVER,…): The driver preset: a name (`kpps list drivers`) or a .toml file [default: kpps]
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 (`kpps list KIND NAME` shows them); with lab: a setting of the guest, as linux.RxIntDelay=100
        bidirectional (True or False): Offer the same load from the second port to the first, too
        replies (True or False): As bidirectional=, and the second port replies: it sends to the addresses and ports from which each flow arrives there, as a NAT or a stateful firewall between them needs
        size (SIZE|MIX): Frame size in bytes with FCS; on ports also a mix: imix-csit, imix-trex, imix-linux, imix-routers, or sizes with weights as 64:7,570:4,1518:1 [default: 64; with app= vlan-route: 68]
        src (ADDRESSES): Source addresses: one, or FIRST-LAST as 10.0.0.1-10.0.0.200; IPv4 or IPv6. In a trial the sending port answers for them [default: 198.18.0.1]
        dst (ADDRESSES): Destination addresses. In a trial the receiving port answers for them [default: 198.19.0.2]
        ipv6 (True or False): Use IPv6, between the benchmark addresses 2001:2:0:1::1 and 2001:2:0:2::2 if no others are given; frames have at least 84 bytes with FCS
        sport (PORTS): UDP source ports: one, or FIRST-LAST [default: 49152; with flows= from there up]
        dport (PORTS): UDP destination ports: one, or FIRST-LAST [default: 9]
        flows (FLOWS): Number of UDP flows, in turns: source ports count up first, then source addresses, destination addresses, destination ports [default: all flows of the given ranges]
        dscp (NUMBERS): Differentiated services code point of the frames, 0 to 63: a number, or a range over which flows take turns. All ranges may be FIRST-LAST/STEP, or random:FIRST-LAST and random:FIRST-LAST/SEED, which are the same in every run
        ttl (NUMBERS): TTL or hop limit of the frames [default: 64]
        encap (LAYERS[,LAYERS]): Encapsulation of the frames of both ports, or one value for each port, the first port's first: none, vlan:ID, qinq:ID, mpls:LABEL, vxlan:NETWORK/OWN/OTHER (the tunnel's ends), joined by + from outside in, as qinq:100+vlan:7; numbers may be ranges
        template (PACKET): Make all frames of this packet: the N-th of a capture (FILE[:N]), or bytes in hexadecimal (a file, or the text itself). Its payload ends with the tester's tag; checksums are corrected. src= and the like replace its addresses and ports
        vlan (ID[,ID]): VLAN of the frames: one for both ports, or one for each, the first port's first; 0 for none
        gateway (ADDRESS[,ADDRESS]): Routers that the ports send to, the first port's first; kpps resolves them by ARP or neighbour discovery [default: the other port]
        dst_mac (MAC): MAC address that the first port sends to [default: the second port's, or the gateway's]
        bisection (True or False): Search by plain bisection, too
        pdr_loss (SHARE): Loss ratio of the PDR [default: 0.5%]
        min (LOAD): The lowest load to try [default: 1kpps]
        max (LOAD): The highest load to try [default: 100%]
        precision (SHARE): Distance of the two bounds at which the search ends, as a share of the upper bound [default: 0.5%]
        max_time (TIME): End a search after this much time, when its trial has ended, and print the bounds that are known then. The limit holds for each frame size, and separately for bisection= [default: 20min]
        duration (TIME): Length of one trial [default: 1s; in the simulator 50ms of virtual time]
        drain (TIME): How long to wait for frames after the last one was sent; less if none is missing [default: 1s]
        watch (PLACE,…): Observe this interface of the device under test too: IFACE; NAMESPACE/IFACE in another network namespace (`ip netns`); NAMESPACE/ for all of them. kpps finds the other ends of veth pairs and bridges of its own namespace by itself
        dut (NAME): The name of the device under test, for the results
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        resume (FILE): Keep every measurement in this file, which is created if it does not exist, and do not repeat measurements of the same system that it has
        metrics (ADDRESS): Serve the counters of the running trial over HTTP at this address, as 127.0.0.1:9464: OpenMetrics text, for Prometheus. `kpps trial` adds shortfall and latency of the last interval, by default of 1 s
        max_loss (SHARE): End with exit code 1 if a larger share of the frames is lost: 0, 0.1%
        min_rate (RATE): End with exit code 1 if fewer frames per second are delivered, all directions together
        max_p99 (TIME): End with exit code 1 if 99 % of the frames take longer: 100us
        max_unexplained (SHARE): End with exit code 1 if a larger share of the frames is lost at an unknown place; 0 requires that watch= covers the whole path
        retries (TIMES): How often to repeat a trial in which other programs had the generator's CPU, or its quota was used up [default: 2, and 0 for trials of more than 1min]
        max_shortfall (SHARE): A trial is no measurement of the device under test if the tester did not send in time, or did not take in, more than this share of the frames [default: 0.1%]
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        from_ (HOST[:PORT]): Host of the first port, where `kpps agent` runs [default: this host]
        to (HOST[:PORT]): Host of the second port [default: this host]
        token_file (FILE): File with a token of 16 characters or more that agent and tester share; only for networks that nobody else can read
        tls_ca (FILE): Certificate of the authority that signed the other side's certificate (PEM); `kpps agent keys` makes all of them
        tls_cert (FILE): Own certificate (PEM)
        tls_key (FILE): Key of the own certificate (PEM)
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def sizes(
    *,
    ports: _Values | None = None,
    testbed: _Values | None = None,
    seed: _Value | None = None,
    clock: _Value | None = None,
    driver_module: _Value | None = None,
    noise: bool | None = None,
    chip: _Value | None = None,
    app: _Value | None = None,
    one_way: bool | None = None,
    machine: _Value | None = None,
    driver: _Values | None = None,
    set: _Pairs | None = None,
    bidirectional: bool | None = None,
    replies: bool | None = None,
    size: _Values | None = None,
    src: _Value | None = None,
    dst: _Value | None = None,
    ipv6: bool | None = None,
    sport: _Value | None = None,
    dport: _Value | None = None,
    flows: _Value | None = None,
    dscp: _Value | None = None,
    ttl: _Value | None = None,
    encap: _Values | None = None,
    template: _Value | None = None,
    vlan: _Values | None = None,
    gateway: _Values | None = None,
    dst_mac: _Value | None = None,
    pdr_loss: _Value | None = None,
    min: _Value | None = None,
    max: _Value | None = None,
    precision: _Value | None = None,
    max_time: _Value | None = None,
    duration: _Value | None = None,
    drain: _Value | None = None,
    watch: _Values | None = None,
    dut: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    resume: _Value | None = None,
    metrics: _Value | None = None,
    retries: _Value | None = None,
    max_shortfall: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    from_: _Value | None = None,
    to: _Value | None = None,
    token_file: _Value | None = None,
    tls_ca: _Value | None = None,
    tls_cert: _Value | None = None,
    tls_key: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Find NDR and PDR at each frame size of RFC 2544.

    Args:
        ports (PORT,PORT): The two ports, with the device under test between them
        testbed (NAME,…): Another testbed: sim:MACHINE/DRIVER/APP, the simulator (as machine=, driver=, app=; the driver is kpps if none is named); lab:KERNEL/DEVICE/DRIVER/APP, a guest in QEMU; known:RATE, a system that delivers this rate; PORT,PORT as ports= [default: the simulator]
        seed (SEED): Seed of everything random in the simulator and of noise=; equal seeds give equal results [default: 1]
        clock (CLOCK): With lab: the guest's clock: instructions, a nanosecond for each one that it executes, or wall [default: instructions]
        driver_module (FILE.ko): With lab: load this module in place of the kernel's own driver
        noise (True or False): With known:RATE: one second in twenty loses up to 2000 frames more
        chip (CHIP): The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
        app (APP): Simulate an app between two cards: bridge, route (IPv4), vlan-route or nat. A load is then that of both directions together [default: a receiver on one card]
        one_way (True or False): With app=: offer the whole load to the first card, and nothing to the second
        machine (MACHINE): The simulated machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with app=: lunz2003]
        driver (DRIVER,…): The driver preset: a name (`kpps list drivers`) or a .toml file [default: kpps]
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 (`kpps list KIND NAME` shows them); with lab: a setting of the guest, as linux.RxIntDelay=100
        bidirectional (True or False): Offer the same load from the second port to the first, too
        replies (True or False): As bidirectional=, and the second port replies: it sends to the addresses and ports from which each flow arrives there, as a NAT or a stateful firewall between them needs
        size (SIZE|MIX,…): Frame sizes in bytes with FCS; on ports also a mix: imix-csit, imix-trex, imix-linux, imix-routers [default: 64,128,256,512,1024,1280,1518]
        src (ADDRESSES): Source addresses: one, or FIRST-LAST as 10.0.0.1-10.0.0.200; IPv4 or IPv6. In a trial the sending port answers for them [default: 198.18.0.1]
        dst (ADDRESSES): Destination addresses. In a trial the receiving port answers for them [default: 198.19.0.2]
        ipv6 (True or False): Use IPv6, between the benchmark addresses 2001:2:0:1::1 and 2001:2:0:2::2 if no others are given; frames have at least 84 bytes with FCS
        sport (PORTS): UDP source ports: one, or FIRST-LAST [default: 49152; with flows= from there up]
        dport (PORTS): UDP destination ports: one, or FIRST-LAST [default: 9]
        flows (FLOWS): Number of UDP flows, in turns: source ports count up first, then source addresses, destination addresses, destination ports [default: all flows of the given ranges]
        dscp (NUMBERS): Differentiated services code point of the frames, 0 to 63: a number, or a range over which flows take turns. All ranges may be FIRST-LAST/STEP, or random:FIRST-LAST and random:FIRST-LAST/SEED, which are the same in every run
        ttl (NUMBERS): TTL or hop limit of the frames [default: 64]
        encap (LAYERS[,LAYERS]): Encapsulation of the frames of both ports, or one value for each port, the first port's first: none, vlan:ID, qinq:ID, mpls:LABEL, vxlan:NETWORK/OWN/OTHER (the tunnel's ends), joined by + from outside in, as qinq:100+vlan:7; numbers may be ranges
        template (PACKET): Make all frames of this packet: the N-th of a capture (FILE[:N]), or bytes in hexadecimal (a file, or the text itself). Its payload ends with the tester's tag; checksums are corrected. src= and the like replace its addresses and ports
        vlan (ID[,ID]): VLAN of the frames: one for both ports, or one for each, the first port's first; 0 for none
        gateway (ADDRESS[,ADDRESS]): Routers that the ports send to, the first port's first; kpps resolves them by ARP or neighbour discovery [default: the other port]
        dst_mac (MAC): MAC address that the first port sends to [default: the second port's, or the gateway's]
        pdr_loss (SHARE): Loss ratio of the PDR [default: 0.5%]
        min (LOAD): The lowest load to try [default: 1kpps]
        max (LOAD): The highest load to try [default: 100%]
        precision (SHARE): Distance of the two bounds at which the search ends, as a share of the upper bound [default: 0.5%]
        max_time (TIME): End a search after this much time, when its trial has ended, and print the bounds that are known then. The limit holds for each frame size, and separately for bisection= [default: 20min]
        duration (TIME): Length of one trial [default: 1s; in the simulator 50ms of virtual time]
        drain (TIME): How long to wait for frames after the last one was sent; less if none is missing [default: 1s]
        watch (PLACE,…): Observe this interface of the device under test too: IFACE; NAMESPACE/IFACE in another network namespace (`ip netns`); NAMESPACE/ for all of them. kpps finds the other ends of veth pairs and bridges of its own namespace by itself
        dut (NAME): The name of the device under test, for the results
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        resume (FILE): Keep every measurement in this file, which is created if it does not exist, and do not repeat measurements of the same system that it has
        metrics (ADDRESS): Serve the counters of the running trial over HTTP at this address, as 127.0.0.1:9464: OpenMetrics text, for Prometheus. `kpps trial` adds shortfall and latency of the last interval, by default of 1 s
        retries (TIMES): How often to repeat a trial in which other programs had the generator's CPU, or its quota was used up [default: 2, and 0 for trials of more than 1min]
        max_shortfall (SHARE): A trial is no measurement of the device under test if the tester did not send in time, or did not take in, more than this share of the frames [default: 0.1%]
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        from_ (HOST[:PORT]): Host of the first port, where `kpps agent` runs [default: this host]
        to (HOST[:PORT]): Host of the second port [default: this host]
        token_file (FILE): File with a token of 16 characters or more that agent and tester share; only for networks that nobody else can read
        tls_ca (FILE): Certificate of the authority that signed the other side's certificate (PEM); `kpps agent keys` makes all of them
        tls_cert (FILE): Own certificate (PEM)
        tls_key (FILE): Key of the own certificate (PEM)
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def rfc2544(
    *,
    ports: _Values | None = None,
    testbed: _Values | None = None,
    seed: _Value | None = None,
    clock: _Value | None = None,
    driver_module: _Value | None = None,
    noise: bool | None = None,
    chip: _Value | None = None,
    app: _Value | None = None,
    one_way: bool | None = None,
    machine: _Value | None = None,
    driver: _Values | None = None,
    set: _Pairs | None = None,
    bidirectional: bool | None = None,
    replies: bool | None = None,
    size: _Values | None = None,
    src: _Value | None = None,
    dst: _Value | None = None,
    ipv6: bool | None = None,
    sport: _Value | None = None,
    dport: _Value | None = None,
    flows: _Value | None = None,
    dscp: _Value | None = None,
    ttl: _Value | None = None,
    encap: _Values | None = None,
    template: _Value | None = None,
    vlan: _Values | None = None,
    gateway: _Values | None = None,
    dst_mac: _Value | None = None,
    test: _Values | None = None,
    quick: bool | None = None,
    repeat: _Value | None = None,
    min: _Value | None = None,
    max: _Value | None = None,
    precision: _Value | None = None,
    max_time: _Value | None = None,
    duration: _Value | None = None,
    drain: _Value | None = None,
    reset: _Value | None = None,
    watch: _Values | None = None,
    dut: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    resume: _Value | None = None,
    metrics: _Value | None = None,
    retries: _Value | None = None,
    max_shortfall: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    from_: _Value | None = None,
    to: _Value | None = None,
    token_file: _Value | None = None,
    tls_ca: _Value | None = None,
    tls_cert: _Value | None = None,
    tls_key: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Run the tests of RFC 2544: throughput, latency, frame loss, back-to-back frames, recovery, reset.

    Args:
        ports (PORT,PORT): The two ports, with the device under test between them
        testbed (NAME,…): Another testbed: sim:MACHINE/DRIVER/APP, the simulator (as machine=, driver=, app=; the driver is kpps if none is named); lab:KERNEL/DEVICE/DRIVER/APP, a guest in QEMU; known:RATE, a system that delivers this rate; PORT,PORT as ports= [default: the simulator]
        seed (SEED): Seed of everything random in the simulator and of noise=; equal seeds give equal results [default: 1]
        clock (CLOCK): With lab: the guest's clock: instructions, a nanosecond for each one that it executes, or wall [default: instructions]
        driver_module (FILE.ko): With lab: load this module in place of the kernel's own driver
        noise (True or False): With known:RATE: one second in twenty loses up to 2000 frames more
        chip (CHIP): The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
        app (APP): Simulate an app between two cards: bridge, route (IPv4), vlan-route or nat. A load is then that of both directions together [default: a receiver on one card]
        one_way (True or False): With app=: offer the whole load to the first card, and nothing to the second
        machine (MACHINE): The simulated machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with app=: lunz2003]
        driver (DRIVER,…): The driver preset: a name (`kpps list drivers`) or a .toml file [default: kpps]
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 (`kpps list KIND NAME` shows them); with lab: a setting of the guest, as linux.RxIntDelay=100
        bidirectional (True or False): Offer the same load from the second port to the first, too
        replies (True or False): As bidirectional=, and the second port replies: it sends to the addresses and ports from which each flow arrives there, as a NAT or a stateful firewall between them needs
        size (SIZE|MIX,…): Frame sizes in bytes with FCS; on ports also a mix: imix-csit, imix-trex, imix-linux, imix-routers [default: 64,128,256,512,1024,1280,1518]
        src (ADDRESSES): Source addresses: one, or FIRST-LAST as 10.0.0.1-10.0.0.200; IPv4 or IPv6. In a trial the sending port answers for them [default: 198.18.0.1]
        dst (ADDRESSES): Destination addresses. In a trial the receiving port answers for them [default: 198.19.0.2]
        ipv6 (True or False): Use IPv6, between the benchmark addresses 2001:2:0:1::1 and 2001:2:0:2::2 if no others are given; frames have at least 84 bytes with FCS
        sport (PORTS): UDP source ports: one, or FIRST-LAST [default: 49152; with flows= from there up]
        dport (PORTS): UDP destination ports: one, or FIRST-LAST [default: 9]
        flows (FLOWS): Number of UDP flows, in turns: source ports count up first, then source addresses, destination addresses, destination ports [default: all flows of the given ranges]
        dscp (NUMBERS): Differentiated services code point of the frames, 0 to 63: a number, or a range over which flows take turns. All ranges may be FIRST-LAST/STEP, or random:FIRST-LAST and random:FIRST-LAST/SEED, which are the same in every run
        ttl (NUMBERS): TTL or hop limit of the frames [default: 64]
        encap (LAYERS[,LAYERS]): Encapsulation of the frames of both ports, or one value for each port, the first port's first: none, vlan:ID, qinq:ID, mpls:LABEL, vxlan:NETWORK/OWN/OTHER (the tunnel's ends), joined by + from outside in, as qinq:100+vlan:7; numbers may be ranges
        template (PACKET): Make all frames of this packet: the N-th of a capture (FILE[:N]), or bytes in hexadecimal (a file, or the text itself). Its payload ends with the tester's tag; checksums are corrected. src= and the like replace its addresses and ports
        vlan (ID[,ID]): VLAN of the frames: one for both ports, or one for each, the first port's first; 0 for none
        gateway (ADDRESS[,ADDRESS]): Routers that the ports send to, the first port's first; kpps resolves them by ARP or neighbour discovery [default: the other port]
        dst_mac (MAC): MAC address that the first port sends to [default: the second port's, or the gateway's]
        test (TEST,…): Only these tests, by the names below; throughput is always measured, because the others need it [default: all]
        quick (True or False): Trials of 1 s, and three of each
        repeat (TIMES): Repetitions of each test of latency, back-to-back, recovery and reset [default: 20, of back-to-back 50; with quick= 3]
        min (LOAD): The lowest load to try [default: 1kpps]
        max (LOAD): The highest load to try [default: 100%]
        precision (SHARE): Distance of the two bounds at which the search ends, as a share of the upper bound [default: 0.5%]
        max_time (TIME): End a search after this much time, when its trial has ended, and print the bounds that are known then. The limit holds for each frame size, and separately for bisection= [default: 20min]
        duration (TIME): Length of one trial [default: 60s; with quick= 1s; in the simulator 50ms of virtual time]
        drain (TIME): How long to wait for frames after the last one was sent; less if none is missing [default: 1s]
        reset (COMMAND): Command for the shell that resets the device under test
        watch (PLACE,…): Observe this interface of the device under test too: IFACE; NAMESPACE/IFACE in another network namespace (`ip netns`); NAMESPACE/ for all of them. kpps finds the other ends of veth pairs and bridges of its own namespace by itself
        dut (NAME): The name of the device under test, for the results
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        resume (FILE): Keep every measurement in this file, which is created if it does not exist, and do not repeat measurements of the same system that it has
        metrics (ADDRESS): Serve the counters of the running trial over HTTP at this address, as 127.0.0.1:9464: OpenMetrics text, for Prometheus. `kpps trial` adds shortfall and latency of the last interval, by default of 1 s
        retries (TIMES): How often to repeat a trial in which other programs had the generator's CPU, or its quota was used up [default: 2, and 0 for trials of more than 1min]
        max_shortfall (SHARE): A trial is no measurement of the device under test if the tester did not send in time, or did not take in, more than this share of the frames [default: 0.1%]
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        from_ (HOST[:PORT]): Host of the first port, where `kpps agent` runs [default: this host]
        to (HOST[:PORT]): Host of the second port [default: this host]
        token_file (FILE): File with a token of 16 characters or more that agent and tester share; only for networks that nobody else can read
        tls_ca (FILE): Certificate of the authority that signed the other side's certificate (PEM); `kpps agent keys` makes all of them
        tls_cert (FILE): Own certificate (PEM)
        tls_key (FILE): Key of the own certificate (PEM)
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def compare(
    *sides: _Side,
    threshold: _Value | None = None,
    significance: _Value | None = None,
    quantity: _Values | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Compare results by a statistical test; exit code 1 if something is worse.

    Args:
        sides (RESULTS): The results to compare: the first side is the reference
        threshold (SHARE): Ignore a change of at most this share of the first side's median [default: 0]
        significance (SHARE): Significance level: the probability of finding any difference although there is none [default: 5%]
        quantity (NAME,…): Compare only quantities whose name contains this: fewer comparisons need fewer repetitions
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def merge(
    into: _Value | None = None,
    *journals: _Value,
    progress: _Progress = None,
) -> str:
    """Merge files of resume= into one: the shares of a grid that several machines measured.

    Args:
        into (INTO): The journal to add to, which is created if it does not exist
        journals (JOURNAL): The journals whose results are added: files of resume=
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def calibrate_host(
    *curves: _Value,
    machine: _Value | None = None,
    chip: _Value | None = None,
    driver: _Values | None = None,
    set: _Pairs | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    to: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Find the costs of a frame and an interrupt on a machine, from curves measured on it, for the simulator.

    Args:
        curves (FILE[,PATH=VALUE…]): Documents of `kpps curve`, each with the settings that the machine had
        machine (MACHINE): The machine: a name (`kpps list machines`) or a .toml file
        chip (CHIP): The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
        driver (DRIVER,…): The driver preset: a name (`kpps list drivers`) or a .toml file
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 or host.ring_offset_bytes=16 (`kpps list KIND NAME` shows them); *1.1 multiplies its own
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        to (FOLDER): Write host.toml, stack.toml and machine.toml into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def trial(
    *,
    ports: _Values | None = None,
    testbed: _Values | None = None,
    seed: _Value | None = None,
    clock: _Value | None = None,
    driver_module: _Value | None = None,
    noise: bool | None = None,
    chip: _Value | None = None,
    app: _Value | None = None,
    one_way: bool | None = None,
    machine: _Value | None = None,
    driver: _Values | None = None,
    set: _Pairs | None = None,
    load: _Value | None = None,
    shape: _Value | None = None,
    bidirectional: bool | None = None,
    replies: bool | None = None,
    size: _Value | None = None,
    src: _Value | None = None,
    dst: _Value | None = None,
    ipv6: bool | None = None,
    sport: _Value | None = None,
    dport: _Value | None = None,
    flows: _Value | None = None,
    dscp: _Value | None = None,
    ttl: _Value | None = None,
    encap: _Values | None = None,
    template: _Value | None = None,
    vlan: _Values | None = None,
    gateway: _Values | None = None,
    dst_mac: _Value | None = None,
    replay: _Value | None = None,
    speed: _Value | None = None,
    loop: _Value | None = None,
    map: _Values | None = None,
    duration: _Value | None = None,
    interval: _Value | None = None,
    drain: _Value | None = None,
    watch: _Values | None = None,
    dut: _Value | None = None,
    capture: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    metrics: _Value | None = None,
    calibration: _Values | None = None,
    strict: bool | None = None,
    max_loss: _Value | None = None,
    min_rate: _Value | None = None,
    max_p99: _Value | None = None,
    max_unexplained: _Value | None = None,
    retries: _Value | None = None,
    max_shortfall: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    from_: _Value | None = None,
    to: _Value | None = None,
    token_file: _Value | None = None,
    tls_ca: _Value | None = None,
    tls_cert: _Value | None = None,
    tls_key: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Offer one load and account for every frame: between two ports, or on another testbed.

    Args:
        ports (PORT,PORT): The two ports, with the device under test between them
        testbed (NAME,…): Another testbed: sim:MACHINE/DRIVER/APP, the simulator (as machine=, driver=, app=; the driver is kpps if none is named); lab:KERNEL/DEVICE/DRIVER/APP, a guest in QEMU; known:RATE, a system that delivers this rate; PORT,PORT as ports= [default: the simulator]
        seed (SEED): Seed of everything random in the simulator and of noise=; equal seeds give equal results [default: 1]
        clock (CLOCK): With lab: the guest's clock: instructions, a nanosecond for each one that it executes, or wall [default: instructions]
        driver_module (FILE.ko): With lab: load this module in place of the kernel's own driver
        noise (True or False): With known:RATE: one second in twenty loses up to 2000 frames more
        chip (CHIP): The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
        app (APP): Simulate an app between two cards: bridge, route (IPv4), vlan-route or nat. A load is then that of both directions together [default: a receiver on one card]
        one_way (True or False): With app=: offer the whole load to the first card, and nothing to the second
        machine (MACHINE): The simulated machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with app=: lunz2003]
        driver (DRIVER,…): The driver preset: a name (`kpps list drivers`) or a .toml file [default: kpps]
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 (`kpps list KIND NAME` shows them); with lab: a setting of the guest, as linux.RxIntDelay=100
        load (LOAD): Frames per second (50kpps, 1.2Mpps), a share of the line rate (50%), bits per second on layer 1 or 2 (500MbpsL1), or max: as fast as the port takes them [required without replay=, which has the times of the capture]
        shape (SHAPE): Distribution of the gaps: constant, poisson, bursts:FRAMES, or ramp:FROM/TIME from one rate to the load [default: constant]
        bidirectional (True or False): Offer the same load from the second port to the first, too
        replies (True or False): As bidirectional=, and the second port replies: it sends to the addresses and ports from which each flow arrives there, as a NAT or a stateful firewall between them needs
        size (SIZE|MIX): Frame size in bytes with FCS; on ports also a mix: imix-csit, imix-trex, imix-linux, imix-routers, or sizes with weights as 64:7,570:4,1518:1 [default: 64; with app= vlan-route: 68]
        src (ADDRESSES): Source addresses: one, or FIRST-LAST as 10.0.0.1-10.0.0.200; IPv4 or IPv6. In a trial the sending port answers for them [default: 198.18.0.1]
        dst (ADDRESSES): Destination addresses. In a trial the receiving port answers for them [default: 198.19.0.2]
        ipv6 (True or False): Use IPv6, between the benchmark addresses 2001:2:0:1::1 and 2001:2:0:2::2 if no others are given; frames have at least 84 bytes with FCS
        sport (PORTS): UDP source ports: one, or FIRST-LAST [default: 49152; with flows= from there up]
        dport (PORTS): UDP destination ports: one, or FIRST-LAST [default: 9]
        flows (FLOWS): Number of UDP flows, in turns: source ports count up first, then source addresses, destination addresses, destination ports [default: all flows of the given ranges]
        dscp (NUMBERS): Differentiated services code point of the frames, 0 to 63: a number, or a range over which flows take turns. All ranges may be FIRST-LAST/STEP, or random:FIRST-LAST and random:FIRST-LAST/SEED, which are the same in every run
        ttl (NUMBERS): TTL or hop limit of the frames [default: 64]
        encap (LAYERS[,LAYERS]): Encapsulation of the frames of both ports, or one value for each port, the first port's first: none, vlan:ID, qinq:ID, mpls:LABEL, vxlan:NETWORK/OWN/OTHER (the tunnel's ends), joined by + from outside in, as qinq:100+vlan:7; numbers may be ranges
        template (PACKET): Make all frames of this packet: the N-th of a capture (FILE[:N]), or bytes in hexadecimal (a file, or the text itself). Its payload ends with the tester's tag; checksums are corrected. src= and the like replace its addresses and ports
        vlan (ID[,ID]): VLAN of the frames: one for both ports, or one for each, the first port's first; 0 for none
        gateway (ADDRESS[,ADDRESS]): Routers that the ports send to, the first port's first; kpps resolves them by ARP or neighbour discovery [default: the other port]
        dst_mac (MAC): MAC address that the first port sends to [default: the second port's, or the gateway's]
        replay (FILE): Send the frames of this capture (pcap or pcapng, also in gzip, zstd or lz4) unchanged and without tags, at the times of the capture, or with load= at that rate. With dst_mac=, or in trials gateway=, Ethernet addresses are replaced: the port's own is the source, the given one the destination
        speed (FACTOR): Replay this much faster: 2x, 0.5x [default: 1x]
        loop (TIMES): Send the capture this many times, one after the other [default: 1; with duration= or count=: until that ends it]
        map (OLD=NEW,…): Replace addresses of a capture, source and destination: 10.0.0.5=198.18.0.1, or two ranges of the same length; checksums follow
        duration (TIME): How long frames are sent [default: 2s; with replay= as long as the capture; in the simulator 50ms of virtual time]
        interval (TIME): Keep also the results of each interval of this length: rates, losses, latencies. If there would be more than 3600 intervals, they are made longer
        drain (TIME): How long to wait for frames after the last one was sent; less if none is missing [default: 1s]
        watch (PLACE,…): Observe this interface of the device under test too: IFACE; NAMESPACE/IFACE in another network namespace (`ip netns`); NAMESPACE/ for all of them. kpps finds the other ends of veth pairs and bridges of its own namespace by itself
        dut (NAME): The name of the device under test, for the results
        capture (FILE): Write the frames that were duplicated, reordered, corrupted or other traffic to this file (pcapng), each with a comment that says why; at most 1000 of each kind and direction
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        metrics (ADDRESS): Serve the counters of the running trial over HTTP at this address, as 127.0.0.1:9464: OpenMetrics text, for Prometheus. `kpps trial` adds shortfall and latency of the last interval, by default of 1 s
        calibration (FILE,…): The limits of the sending ports: results of `kpps calibrate`, one file for each direction
        strict (True or False): If the load is above the calibration, send nothing and end with exit code 1
        max_loss (SHARE): End with exit code 1 if a larger share of the frames is lost: 0, 0.1%
        min_rate (RATE): End with exit code 1 if fewer frames per second are delivered, all directions together
        max_p99 (TIME): End with exit code 1 if 99 % of the frames take longer: 100us
        max_unexplained (SHARE): End with exit code 1 if a larger share of the frames is lost at an unknown place; 0 requires that watch= covers the whole path
        retries (TIMES): How often to repeat a trial in which other programs had the generator's CPU, or its quota was used up [default: 2, and 0 for trials of more than 1min]
        max_shortfall (SHARE): A trial is no measurement of the device under test if the tester did not send in time, or did not take in, more than this share of the frames [default: 0.1%]
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        from_ (HOST[:PORT]): Host of the first port, where `kpps agent` runs [default: this host]
        to (HOST[:PORT]): Host of the second port [default: this host]
        token_file (FILE): File with a token of 16 characters or more that agent and tester share; only for networks that nobody else can read
        tls_ca (FILE): Certificate of the authority that signed the other side's certificate (PEM); `kpps agent keys` makes all of them
        tls_cert (FILE): Own certificate (PEM)
        tls_key (FILE): Key of the own certificate (PEM)
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def calibrate(
    port: _Value | None = None,
    *,
    size: _Value | None = None,
    duration: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Measure the highest rate that a port can send here, and how evenly it sends below that.

    Args:
        port (PORT): The port that sends, as in `kpps send`
        size (SIZE): Frame size in bytes with FCS [default: 64]
        duration (TIME): How long each rate is sent [default: 1s]
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def send(
    port: _Value | None = None,
    *,
    load: _Value | None = None,
    shape: _Value | None = None,
    count: _Value | None = None,
    rewrite: bool | None = None,
    stream: _Value | None = None,
    size: _Value | None = None,
    dst_mac: _Value | None = None,
    src: _Value | None = None,
    dst: _Value | None = None,
    ipv6: bool | None = None,
    sport: _Value | None = None,
    dport: _Value | None = None,
    flows: _Value | None = None,
    dscp: _Value | None = None,
    ttl: _Value | None = None,
    template: _Value | None = None,
    vlan: _Value | None = None,
    encap: _Values | None = None,
    replay: _Value | None = None,
    speed: _Value | None = None,
    loop: _Value | None = None,
    map: _Values | None = None,
    duration: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Send tagged test frames from a port, at an exact rate or as fast as possible.

    Args:
        port (PORT): The port that sends
        load (LOAD): Frames per second (100kpps, 1.2Mpps), a share of the line rate (50%), bits per second on layer 1 or 2 (500MbpsL1), or max: as fast as the port takes them [default: max; with replay=: the times of the capture]
        shape (SHAPE): Distribution of the gaps: constant, poisson, bursts:FRAMES, or ramp:FROM/TIME from one rate to the load [default: constant]
        count (FRAMES): Stop after this many frames
        rewrite (True or False): Build each frame anew, byte by byte, as an application would; otherwise only the tag is written
        stream (NUMBER): Number of the stream, in the tags [default: 0]
        size (SIZE|MIX): Frame size in bytes with FCS; on ports also a mix: imix-csit, imix-trex, imix-linux, imix-routers, or sizes with weights as 64:7,570:4,1518:1 [default: 64]
        dst_mac (MAC): MAC address to send to [default: 02:00:00:00:00:02; with replay= those of the capture]
        src (ADDRESSES): Source addresses: one, or FIRST-LAST as 10.0.0.1-10.0.0.200; IPv4 or IPv6. In a trial the sending port answers for them [default: 198.18.0.1]
        dst (ADDRESSES): Destination addresses. In a trial the receiving port answers for them [default: 198.19.0.2]
        ipv6 (True or False): Use IPv6, between the benchmark addresses 2001:2:0:1::1 and 2001:2:0:2::2 if no others are given; frames have at least 84 bytes with FCS
        sport (PORTS): UDP source ports: one, or FIRST-LAST [default: 49152; with flows= from there up]
        dport (PORTS): UDP destination ports: one, or FIRST-LAST [default: 9]
        flows (FLOWS): Number of UDP flows, in turns: source ports count up first, then source addresses, destination addresses, destination ports [default: all flows of the given ranges]
        dscp (NUMBERS): Differentiated services code point of the frames, 0 to 63: a number, or a range over which flows take turns. All ranges may be FIRST-LAST/STEP, or random:FIRST-LAST and random:FIRST-LAST/SEED, which are the same in every run
        ttl (NUMBERS): TTL or hop limit of the frames [default: 64]
        template (PACKET): Make all frames of this packet: the N-th of a capture (FILE[:N]), or bytes in hexadecimal (a file, or the text itself). Its payload ends with the tester's tag; checksums are corrected. src= and the like replace its addresses and ports
        vlan (ID): VLAN of the frames, 1 to 4094
        encap (LAYERS): What frames are in: none, vlan:ID, qinq:ID, mpls:LABEL, vxlan:NETWORK/OWN/OTHER (the tunnel's ends), joined by + from outside in, as qinq:100+vlan:7; numbers may be ranges
        replay (FILE): Send the frames of this capture (pcap or pcapng, also in gzip, zstd or lz4) unchanged and without tags, at the times of the capture, or with load= at that rate. With dst_mac=, or in trials gateway=, Ethernet addresses are replaced: the port's own is the source, the given one the destination
        speed (FACTOR): Replay this much faster: 2x, 0.5x [default: 1x]
        loop (TIMES): Send the capture this many times, one after the other [default: 1; with duration= or count=: until that ends it]
        map (OLD=NEW,…): Replace addresses of a capture, source and destination: 10.0.0.5=198.18.0.1, or two ranges of the same length; checksums follow
        duration (TIME): Stop after this time [default: 2s, or none with count=]
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def count(
    port: _Value | None = None,
    *,
    duration: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    expect: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Count received test frames: lost, duplicated, reordered and corrupted ones.

    Args:
        port (PORT): The port that receives
        duration (TIME): Stop after this time [default: 2s]
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        expect (FRAMES): Number of test frames that must arrive, each once, in order, unchanged; otherwise the exit code is 1
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def agent(
    *,
    listen: _Value | None = None,
    allow_ports: _Values | None = None,
    allow_to: _Values | None = None,
    max_load: _Value | None = None,
    max_duration: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    token_file: _Value | None = None,
    tls_ca: _Value | None = None,
    tls_cert: _Value | None = None,
    tls_key: _Value | None = None,
    progress: _Progress = None,
) -> str:
    """Lend ports of this host to a tester on another host.

    Args:
        listen (ADDRESS:PORT): Address to listen on; 0.0.0.0:5777 for testers anywhere. The default is for testers on this host only [default: 127.0.0.1:5777]
        allow_ports (PORT,…): Ports that testers may use; `udp:`, `packet:` and so on allow all ports of a kind
        allow_to (NETWORK,…): Networks to which udp: ports may send, beside destinations that allow_ports= names [default: 127.0.0.0/8,::1,198.18.0.0/15,2001:2::/48]
        max_load (LOAD): Highest load of all ports together, in frames per second (50kpps) [default: no limit]
        max_duration (TIME): Longest time that a load may last [default: no limit]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        token_file (FILE): File with a token of 16 characters or more that agent and tester share; only for networks that nobody else can read
        tls_ca (FILE): Certificate of the authority that signed the other side's certificate (PEM); `kpps agent keys` makes all of them
        tls_cert (FILE): Own certificate (PEM)
        tls_key (FILE): Key of the own certificate (PEM)
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def agent_keys(
    folder: _Value | None = None,
    *hosts: _Value,
    progress: _Progress = None,
) -> str:
    """Make an authority and certificates for agents and a tester.

    Args:
        folder (FOLDER): Folder to write to; files that exist already are kept
        hosts (HOST): Hosts of the agents, by the names or addresses that testers use
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def lab(
    *,
    device: _Values | None = None,
    backend: _Values | None = None,
    profile: bool | None = None,
    dpdk: _Value | None = None,
    rounds: _Value | None = None,
    under_test: _Values | None = None,
    workload: _Values | None = None,
    kernel: _Value | None = None,
    clock: _Value | None = None,
    driver_module: _Value | None = None,
    set: _Pairs | None = None,
    load: _Value | None = None,
    quick: bool | None = None,
    duration: _Value | None = None,
    resume: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Compare the drivers of kpps, Linux and DPDK on the same card, in QEMU guests with stock kernels.

    Args:
        device (DEVICE,…): QEMU's cards: e1000 (82540EM), e1000e (82574L); for Linux and DPDK only, igb, virtio-net, vmxnet3 [default: e1000,e1000e]
        backend (BACKEND,…): How kpps' and DPDK's drivers access the cards: uio, vfio [default: uio,vfio]
        profile (True or False): Tell where the instructions go, by function; report= draws flame graphs
        dpdk (FOLDER): Use the DPDK in this folder, where it was built or installed, in place of Debian's
        rounds (ROUNDS): Number of rounds; each driver is started anew in each [default: 1; by the wall clock 5]
        under_test (NAME,…): Drivers: kpps, linux, dpdk [default: kpps,linux,dpdk]
        workload (WORKLOAD,…): Workloads: transmit, receive, loop, forward, bridge [default: transmit,receive,loop,forward,bridge]
        kernel (NAME|FOLDER): The guest's kernel: linux-6.1, linux-5.10, linux-6.12, linux-backports (the newest), or a folder with your own vmlinux and modules [default: linux-6.1]
        clock (CLOCK): The guest's clock: instructions, a nanosecond for each one that it executes, or wall [default: instructions]
        driver_module (FILE.ko): Load this module of the cards' driver in place of the kernel's own: e1000.ko, e1000e.ko, …
        set (PATH=VALUE): Give a setting of the guest another value: linux.RxDescriptors=80 (a parameter of Linux's driver), sysctl.net.core.netdev_budget=64, napi.defer_hard_irqs=2, napi.gro_flush_timeout=20000, kpps.ring=256, dpdk.ring=256 [default of both rings: 2048]
        load (LOAD): Load that is offered for receive, forward and bridge: 400kpps, …, or max [default: max]
        quick (True or False): Take at most three minutes: one round, short windows; whatever does not fit is left out
        duration (TIME): How long each workload is measured [default: 200ms; by the wall clock 1s]
        resume (FILE): Keep every measurement in this file, which is created if it does not exist, and do not repeat measurements of the same system that it has
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def audit(
    *,
    bus: _Value | None = None,
    under_test: _Values | None = None,
    workload: _Values | None = None,
    kernel: _Value | None = None,
    driver_module: _Value | None = None,
    chip: _Value | None = None,
    set: _Pairs | None = None,
    count: _Value | None = None,
    load: _Value | None = None,
    duration: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    max: _Pairs | None = None,
    progress: _Progress = None,
) -> Result:
    """Count what unmodified drivers in QEMU guests do to our model of their card, for each frame.

    Args:
        bus (BUS): The bus's profile (`kpps list buses`) [default: pci-32-33]
        under_test (NAME,…): Drivers: kpps, linux, dpdk [default: kpps,linux,dpdk]
        workload (WORKLOAD,…): Workloads: transmit, receive, loop, forward, bridge [default: transmit,receive,loop,forward,bridge]
        kernel (NAME|FOLDER): The guest's kernel: linux-6.1, linux-5.10, linux-6.12, linux-backports (the newest), or a folder with your own vmlinux and modules [default: linux-6.1]
        driver_module (FILE.ko): Load this module of the cards' driver in place of the kernel's own: e1000.ko, e1000e.ko, …
        chip (CHIP): The chip's profile (`kpps list chips`), except for the 82542 [default: 82540em]
        set (PATH=VALUE): Give a setting of the guest another value: linux.RxDescriptors=80 (a parameter of Linux's driver), sysctl.net.core.netdev_budget=64, napi.defer_hard_irqs=2, napi.gro_flush_timeout=20000, kpps.ring=256, dpdk.ring=256 [default of both rings: 2048]
        count (FRAMES): Count this number of frames instead
        load (LOAD): Load that is offered for receive, forward and bridge: 400kpps, …, or max [default: 1kpps]
        duration (TIME): How long each workload is counted [default: 2s]
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        max (NAME=VALUE): End with exit code 1 if a row exceeds this: reads-per-frame=0.1, violations=0, …
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def conformance(
    *,
    peer: _Value | None = None,
    link_control: _Value | None = None,
    chip: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Run the functional suite of the driver on the model, on QEMU's cards or on a real card.

    Args:
        peer (IFACE): With a real card: the kernel's interface at the other end of the cable
        link_control (FILE): With a real card: write `link up` and `link down` to this file, for whatever plugs and unplugs the cable
        chip (CHIP): The chip: 82542, 82543gc, 82544, 82540em, 82545em, 82546eb or 82574l; QEMU has 82540em, 82544, 82545em and 82574l [default: 82540em]
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def device_list(
    *,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """List the network cards.

    Args:
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def device_bind(
    address: _Value | None = None,
    *,
    backend: _Value | None = None,
    force: bool | None = None,
    progress: _Progress = None,
) -> str:
    """Take a card from the kernel's driver, to use it as a uio: or vfio: port.

    Args:
        address (ADDRESS): Its PCI address: 0000:00:10.0
        backend (BACKEND): Kind of port: vfio or uio [default: vfio if the card has an IOMMU group, otherwise uio]
        force (True or False): Take it even if its interface is in use
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def device_pace(
    *words: _Value,
    progress: _Progress = None,
) -> str:
    """Send copies of a frame from virtio cards that pace themselves: the source of `kpps lab`.

    Args:
        words (WORDS): The frame in hexadecimal without FCS, ns between two cards, us between two refills, PCI addresses
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def device_release(
    address: _Value | None = None,
    *,
    progress: _Progress = None,
) -> str:
    """Give a card back to the kernel's driver.

    Args:
        address (ADDRESS): Its PCI address: 0000:00:10.0
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def forward(
    a: _Value | None = None,
    b: _Value | None = None,
    *,
    prime: _Value | None = None,
    size: _Value | None = None,
    duration: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Forward frames between two ports, in both directions.

    Args:
        a (A): The first port
        b (B): The second port
        prime (FRAMES): Send this many frames of size= from the first port before forwarding begins [default: 0]
        size (SIZE): Frame size in bytes with FCS [default: 64]
        duration (TIME): Stop after this time [default: run until Ctrl-C]
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def bridge(
    *ports: _Value,
    duration: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Run a learning bridge on ports.

    Args:
        ports (PORT): The ports, two or more
        duration (TIME): Stop after this time [default: run until Ctrl-C]
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def route(
    *interfaces: _Value,
    route: _Values | None = None,
    duration: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Run an IPv4 router on ports and on their VLANs.

    Args:
        interfaces (INTERFACE): The interfaces with their addresses: PORT=ADDRESS/BITS, or PORT@VLAN=ADDRESS/BITS for a VLAN of the port
        route (ROUTE): Add a route: NETWORK/BITS=NEXT_HOP
        duration (TIME): Stop after this time [default: run until Ctrl-C]
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def nat(
    *interfaces: _Value,
    route: _Values | None = None,
    mappings: _Value | None = None,
    per_host: _Value | None = None,
    udp_timeout: _Value | None = None,
    duration: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    service: _Value | None = None,
    ring: _Value | None = None,
    cpus: _Value | None = None,
    priority: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Run the router with network address and port translation.

    Args:
        interfaces (INTERFACE): The interfaces inside and, last, the one outside: PORT=ADDRESS/BITS or PORT@VLAN=ADDRESS/BITS
        route (ROUTE): Add a route: NETWORK/BITS=NEXT_HOP
        mappings (MAPPINGS): Size of the mapping table [default: 65536]
        per_host (MAPPINGS): The most mappings of one host inside [default: 8192]
        udp_timeout (TIME): How long a UDP mapping lives after the last packet from inside [default: 300s]
        duration (TIME): Stop after this time [default: run until Ctrl-C]
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        service (polling|napi|kpps): How a card is served: `polling` never sleeps; `napi` polls after an interrupt until nothing is left; `kpps` adapts to the load and sleeps when idle [default: kpps]
        ring (DESCRIPTORS): Descriptors in each ring of a card, a multiple of 8 [default: 2048, or fewer if the chip or the limit on locked memory allows no more]
        cpus (LIST): CPUs that senders and receivers may use, as 2,3 or 0-3; senders take the first ones [default: of all CPUs those on which little runs]
        priority (yes|no): Whether senders and receivers run before other programs, where this user may have that [default: yes]
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def study(
    *studies: _Value,
    claim: _Values | None = None,
    perturb: _Value | None = None,
    fit: bool | None = None,
    cross_validate: bool | None = None,
    seeds: _Value | None = None,
    drawn: _Value | None = None,
    set: _Pairs | None = None,
    resume: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Check the claims of papers in the simulator.

    Args:
        studies (NAME): Studies, by name [default: those of papers]
        claim (ID,…): Only these claims, by id
        perturb (SHARE): Change each fitted constant up and down by this share and list the verdicts that change
        fit (True or False): Find the fitted constants again, from the claims of kind fit
        cross_validate (True or False): Predict each claim of kind fit from the others
        seeds (FIRST..LAST): Draw the random machines with these seeds instead
        drawn (SEED): Print the constants of the random machine with this seed; nothing is measured
        set (PATH=VALUE): Give a constant another value, as driver.rx_ring=80 or host.ring_offset_bytes=16 (`kpps list KIND NAME` shows them); *1.1 multiplies its own
        resume (FILE): Keep every measurement in this file, which is created if it does not exist, and do not repeat measurements of the same system that it has
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def simulate_faults(
    *,
    worlds: _Value | None = None,
    trace: bool | None = None,
    seed: _Value | None = None,
    duration: _Value | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """Test the driver in the simulator under random faults of card, bus, host and wire.

    Args:
        worlds (WORLDS): Number of random worlds [default: 200]
        trace (True or False): Print the last thousand events of the world of seed=. If it fails, kpps searches for the smallest world that fails in the same way, and prints its events
        seed (SEED): The seed of the first world [default: 1]
        duration (TIME): Run worlds for this long (60s) instead of a fixed number
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """

def profiles(
    kind: _Value | None = None,
    name: _Value | None = None,
    *,
    toml: bool | None = None,
    results: _Value | None = None,
    csv: _Value | None = None,
    report: _Value | None = None,
    progress: _Progress = None,
) -> Result:
    """List machines, chips, NICs, buses, hosts, stacks and drivers, and the constants of one with their sources.

    Args:
        kind (KIND): Only profiles of this kind: machines, chips, nics, buses, hosts, stacks or drivers
        name (NAME): Only this profile, a name or a .toml file, with its constants and their sources
        toml (True or False): Print the profile as a .toml file, to be changed and given in its place
        results (FILE): Write the results as a JSON document to this file
        csv (FILE|-): Write the results as comma-separated values to this file; `-` is standard output
        report (FILE|FOLDER): Write an HTML page: to this file if its name ends in .html, otherwise into this folder, which is created if it does not exist
        progress: True for a bar by tqdm, or a function that is called with the number of trials done, of how many (None if it is not known), and what is measured now
    """
