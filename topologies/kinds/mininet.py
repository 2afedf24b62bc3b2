# SPDX-License-Identifier: Apache-2.0
"""A user's Mininet Topo as a Graph: its nodes, links and port numbers, and those options that a cable can honour.

The options of links are bw (Mbit/s), delay, jitter (times such as '5ms'), loss (percent) and max_queue_size (frames, at both
ends). The options of hosts are ip in 10/8 and mac. Any other option is an error. The spec fills in options that a link does not
give. A host with several links has as many planes. Layers follow from the distance to the hosts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from ipaddress import IPv4Address, ip_interface
from pathlib import Path
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.amount import Amount
from dc_gym.base.errors import TopologyError
from dc_gym.base.key import ARGS, CODE_PATH, TEXT, all_fields, key
from dc_gym.base.units import PPB
from dc_gym.topologies.builder import FIRST_NETWORK, Builder, layers_by_distance
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.kinds import register
from dc_gym.topologies.links import HOST, LinkSpec, Node
from dc_gym.topologies.wiring import Wiring

PLACE = {"node1", "node2", "port1", "port2"}
PLAIN_LINKS = ("Link", "TCLink", "TCULink")
"""Classes of links that a cable can replace."""
SHAPERS = ("use_htb", "use_hfsc", "use_tbf")
"""Options of a link that select Linux' way to limit its rate. A cable has its own rate."""
PLAIN_HOSTS, PLAIN_SWITCHES = ("Host",), ("OVSSwitch", "OVSBridge")
OWN = {"rate": "bw", "buffer": "max_queue_size"}
"""Mininet's names of the keys that a link may lack."""
MOST_TOLD = 4
TIMES_NS = {"s": 10**9, "sec": 10**9, "secs": 10**9, "ms": 10**6, "msec": 10**6, "msecs": 10**6}
TIMES_NS |= {"us": 10**3, "usec": 10**3, "usecs": 10**3, "ns": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class MininetKeys:
    """Keys of kind mininet."""

    file: Path = key(
        CODE_PATH, needed=True, help="the Python file, relative to the spec ([your Topo](topologies.md#a-mininet-topo))"
    )
    class_name: str | None = key(TEXT, name="class", otherwise="the only one", help="name of the `Topo` subclass in the file")
    args: tuple[tuple[str, Any], ...] = key(ARGS, (), otherwise="none", help="keyword arguments of its constructor")


def build(wiring: Wiring, keys: MininetKeys) -> Graph:
    """The network of a Mininet `Topo`: of `class` in `file`, or of the only one there, made with the keyword arguments `args`."""
    from dc_gym.topologies import mininet_classes  # takes a quarter of a second; afterwards the user's file can import Mininet

    module = usercode.load(keys.file).module
    topo_class = _find_class(keys.file, vars(module), mininet_classes.Topo, keys.class_name)
    with usercode.blamed():
        topo = topo_class(**dict(keys.args))
    return _graph(wiring, topo)


def _find_class(file: Path, names: Mapping[str, Any], base: type, class_name: str | None) -> Any:
    topos = {name: topo for name, topo in names.items() if inspect.isclass(topo) and issubclass(topo, base) and topo is not base}
    known = ", ".join(topos) or "none"
    if class_name is not None and class_name not in topos:
        raise TopologyError(f"topology.class: value {class_name!r} is not a Topo of {file}; it has: {known}")
    if class_name is None and len(topos) != 1:
        raise TopologyError(f"topology.class is missing: {file} has {len(topos)} classes of Topo ({known}); name one")
    return topos[class_name or next(iter(topos))]


def _graph(wiring: Wiring, topo: Any) -> Graph:
    builder = Builder(wiring)
    links = topo.links(sort=True, withInfo=True)
    switches = set(topo.switches())
    layers = layers_by_distance(switches, ((a, b) for a, b, _ in links))
    for name in topo.hosts():
        options = dict(topo.nodeInfo(name))
        _require_plain(f"host {name}", options.pop("cls", None), PLAIN_HOSTS)
        address, mac = _address(name, options.pop("ip", None)), options.pop("mac", None)
        _refuse_rest(f"host {name}", options, "ip and mac")
        builder.host(name, address, mac)
    for name in topo.switches():
        options = {key: value for key, value in topo.nodeInfo(name).items() if key != "isSwitch"}
        _require_plain(f"switch {name}", options.pop("cls", None), PLAIN_SWITCHES)
        _refuse_rest(f"switch {name}", options, "none; no controller reads them")
        builder.switch(layers[name], name)
    connections = [(a, b, info, _link(f"link {a}-{b}", info)) for a, b, info in links]
    _require_all(wiring, [(Node(a, layers.get(a, HOST)), Node(b, layers.get(b, HOST)), link) for a, b, _, link in connections])
    for a, b, info, link in connections:
        builder.connect(a, b, link=link, ports=(info["port1"], info["port2"]))
    return builder.graph()


def _require_all(wiring: Wiring, links: Iterable[tuple[Node, Node, LinkSpec]]) -> None:
    """Raises one error for all keys that links lack: for each key of the spec, Mininet's name of it, and the links."""
    missing: dict[str, list[str]] = {name: [] for name in all_fields(LinkSpec)}
    for a, b, link in links:
        for name in wiring.missing(a, b, link):
            missing[name].append(f"{a.name}-{b.name}")
    missing = {name: pairs for name, pairs in missing.items() if pairs}
    if missing:
        key_texts = [
            f"topology.{name}" + (f" ({OWN[name]} of {_some(pairs)})" if name in OWN else "") for name, pairs in missing.items()
        ]
        them, or_there = "it" if len(key_texts) == 1 else "them", " or in the Topo" if OWN.keys() & missing else ""
        raise TopologyError(f"missing: {', '.join(key_texts)}; give {them} in [topology]{or_there}")


def _some(links: list[str]) -> str:
    return ", ".join(links if len(links) <= MOST_TOLD else [*links[: MOST_TOLD - 1], f"... {len(links)} links"])


def _link(where: str, info: Mapping[str, Any]) -> LinkSpec:
    options = {key: value for key, value in info.items() if key not in PLACE and value is not None}
    _require_plain(where, options.pop("cls", None), PLAIN_LINKS)
    for name in SHAPERS:
        options.pop(name, None)
    queue = options.pop("max_queue_size", None)
    frames = None if queue is None else Amount(_number(where, "max_queue_size", queue), "p")
    bw, loss = options.pop("bw", None), options.pop("loss", None)
    params = LinkSpec(
        rate_bps=None if bw is None else int(_number(where, "bw", bw) * 10**6),
        delay_ns=_time(where, "delay", options.pop("delay", None)),
        buffer_bytes=frames,
        host_buffer_bytes=frames,
        loss_ppb=None if loss is None else int(_number(where, "loss", loss, zero=True) * PPB / 100),
        jitter_ns=_time(where, "jitter", options.pop("jitter", None)),
    )
    _refuse_rest(where, options, "bw, delay, jitter, loss and max_queue_size; queues and marking are keys of [topology]")
    return params


def _require_plain(where: str, kind: Any, plain: Sequence[str]) -> None:
    """Raises TopologyError for a class of Mininet's that makes something else than there is here."""
    if kind is not None and getattr(kind, "__name__", "") not in plain:
        raise TopologyError(f"{where}: cls {kind!r} is not supported; here it is what {plain[0]} is: leave it out")


def _number(where: str, key: str, value: Any, zero: bool = False) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or (value == 0 and not zero):
        raise TopologyError(f"{where}: {key} {value!r} is not a number above 0; change it")
    return Fraction(str(value))


def _time(where: str, key: str, value: Any) -> int | None:
    """Returns the ns of a time with a unit, as in tc(8)."""
    if value is None:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)", str(value))
    if match is None or match[2] not in TIMES_NS:
        raise TopologyError(f"{where}: {key} {value!r} is not a time with a unit; write it like '5ms' or '10us'")
    return round(Fraction(match[1]) * TIMES_NS[match[2]])


def _address(name: str, address_text: str | None) -> str | None:
    """Returns the address in Mininet's 'ip', which may have a prefix length."""
    if address_text is None:
        return None
    try:
        address = ip_interface(address_text).ip
    except ValueError:
        raise TopologyError(f"host {name}: ip {address_text!r} is not an address; write it like '10.0.0.1'") from None
    if not isinstance(address, IPv4Address) or address.packed[0] != FIRST_NETWORK:
        raise TopologyError(f"host {name}: ip {address_text!r} is not in {FIRST_NETWORK}.0.0.0/8; all hosts share that network")
    return str(address)


def _refuse_rest(where: str, options: Mapping[str, Any], honoured: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise TopologyError(f"{where}: option {name} = {value!r} is not supported; supported are: {honoured}")


register("mininet", build, MininetKeys)
