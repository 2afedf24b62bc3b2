# SPDX-License-Identifier: Apache-2.0
"""The commands of a shell: those about the network, with Mininet's names, and the form `HOST COMMAND`.

To add a command, write a function from the graph to lines, and give it a row in SHOWN.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from dc_gym.base import spelling
from dc_gym.base.errors import UsageError
from dc_gym.base.key import KeyFault
from dc_gym.base.readable import quantity
from dc_gym.base.units import PPB, QuantityError, format_rate, parse_time_ns
from dc_gym.run.grounds.guest.shell_memory import Order
from dc_gym.spec.events import link_changes
from dc_gym.topologies.changes import CUT, DELAY, LOSS, RATE
from dc_gym.topologies.graph import Cable, Graph

END = ("exit", "quit")
HELP, JOBS, SOURCE, GET = "help", "jobs", "source", "get"
ANYWHERE = (HELP, JOBS, *END)
"""The commands of a shell on one host."""
DIGITS = 7
IPERF_S = "5s"
Changed = Mapping[str, Mapping[str, int]]
"""By port: the quantities of its cable that `link` has changed (topologies/changes.py)."""


def nodes(graph: Graph, _: Changed) -> Iterator[str]:
    """list hosts and switches"""
    yield f"hosts: {' '.join(host.name for host in graph.hosts)}"
    yield f"switches: {' '.join(switch.name for switch in graph.switches)}"


def links(graph: Graph, changed: Changed) -> Iterator[str]:
    """list links, each with its rate and its delay one way"""
    for cable in graph.cables:
        ways = [_way(way, changed.get(way.a.ifname, {})) for way in cable.directions()]
        yield f"{cable.a.ifname}<->{cable.b.ifname} {' back '.join(dict.fromkeys(ways))}"


def _way(cable: Cable, changed: Mapping[str, int]) -> str:
    """Describes the state of a cable for the frames that its end a sends."""
    now = {RATE: cable.rate_bps, DELAY: cable.delay_ns, LOSS: cable.impairment.loss_ppb, **changed}
    words = [format_rate(now[RATE]), quantity(now[DELAY], "ns", DIGITS)]
    words += [f"loss {quantity(now[LOSS] / PPB, 'share')}"] if now[LOSS] else []
    return " ".join([*words, *(["down"] if now.get(CUT) else [])])


def net(graph: Graph, _: Changed) -> Iterator[str]:
    """list the ports of each node, each with the port at the other end"""
    for node in _names(graph):
        yield " ".join([node, *(f"{port.ifname}:{graph.peer(port).ifname}" for port in graph.ports_of(node))])


def dump(graph: Graph, _: Changed) -> Iterator[str]:
    """list the nodes with the addresses of their ports"""
    for host in graph.hosts:
        ports = zip(graph.ports_of(host.name), host.nics, strict=True)
        yield f"<Host {host.name}: {','.join(f'{port.ifname}:{nic.address}' for port, nic in ports)}>"
    for switch in graph.switches:
        yield f"<Switch {switch.name}: {','.join(port.ifname for port in graph.ports_of(switch.name))}>"


SHOWN: dict[str, Callable[[Graph, Changed], Iterator[str]]] = {"nodes": nodes, "links": links, "net": net, "dump": dump}
"""The commands that describe the network."""
MEANINGS = {
    "NODE COMMAND": "run a command on a host or a switch: h1 ping -c 3 h3",
    "NODE COMMAND &": "run it in the background, as a server: h3 iperf3 -s &",
    **{name: show.__doc__ or "" for name, show in SHOWN.items()},
    "queues [PORT ...]": "show what each port's queue holds and may hold, its K, marks and drops: queues s1, queues s1-eth3",
    "link NODE NODE CHANGE": "change a link: link s1 h1 down, link s1 h1 up, link s1 s2 rate 5Mbit/s delay 1ms loss 1%",
    "pingall": "send a packet from each host to each other one, and back",
    "iperf [HOST HOST [TIME]]": f"send by TCP from one host to another for {IPERF_S}: iperf h1 h3",
    GET + " FILE [NAME]": "copy a file that a command wrote into the folder of the shell: get capture.pcap",
    SOURCE + " FILE": "run the commands in a file",
    "jobs": "list the commands in the background",
    HELP: "show this",
    " ".join(END): "end the network; so does Ctrl-D",
}
"""The commands and their meanings, for `help`."""


def help_lines() -> Iterator[str]:
    """Yields the lines of `help`."""
    width = max(map(len, MEANINGS))
    for name, meaning in MEANINGS.items():
        yield f"{name:{width}}  {meaning}"
    yield "Ctrl-C ends a command that runs. Time passes only while a command runs (on the host ground always)."


def order(line: str, graph: Graph, terminal: str | None = None, scale: int = 1) -> Order:
    """Parses `NODE COMMAND`, `NODE COMMAND &` or one of ORDERS. `scale` is the topology's scale.

    Raises UsageError, one line, for a line that is neither.
    """
    first, _, rest = line.partition(" ")
    if first in ORDERS:
        return ORDERS[first](words_of(rest), graph, scale)
    require_node(first, graph, "host or command", NAMES)
    return on_node(first, rest, terminal)


def words_of(text: str) -> list[str]:
    """Returns the words of a command of the shell's own. Quotes hold a name with white space together."""
    try:
        return shlex.split(text)
    except ValueError:
        raise UsageError(f"{text}: a quote has no end") from None


def _alone(kind: str) -> Callable[[list[str], Graph, int], Order]:
    def parse(words: list[str], _graph: Graph, _scale: int) -> Order:
        if words:
            raise UsageError(f"{kind} takes no words (got {' '.join(words)!r})")
        return Order(kind)

    return parse


def _queues(words: list[str], graph: Graph, _: int) -> Order:
    ifnames: dict[str, None] = {}
    for word in words or ["*"]:
        ports = [port.ifname for port in graph.ports() if port.node == word or fnmatchcase(port.ifname, word)]
        if not ports:
            raise UsageError(spelling.unknown("port", word, [*_names(graph), *(port.ifname for port in graph.ports())]))
        ifnames |= dict.fromkeys(ports)
    return Order("queues", words=tuple(ifnames))


def _iperf(words: list[str], graph: Graph, _: int) -> Order:
    hosts = [host.name for host in graph.hosts]
    if len(words) not in (0, 2, 3) or len(hosts) < 2:
        raise UsageError(f"iperf takes two hosts and a time, such as: iperf {hosts[0]} {hosts[-1]} {IPERF_S}")
    source, destination, duration = (*(words or (hosts[0], hosts[-1])), IPERF_S)[:3]
    for name in (source, destination):
        if name not in hosts:
            raise UsageError(spelling.unknown("host", name, hosts))
    if source == destination:
        raise UsageError(f"iperf: {source} is both hosts; give two")
    try:
        duration_ns = parse_time_ns(duration)
    except QuantityError as fault:
        raise UsageError(f"iperf: time {duration!r} {fault.why}") from None
    if not duration_ns:
        raise UsageError(f"iperf: time {duration!r} is not above 0; give a longer one")
    return Order("iperf", words=(source, destination), duration_s=duration_ns / 1e9)


def _get(words: list[str], _graph: Graph, _: int) -> Order:
    if not 1 <= len(words) <= 2:
        raise UsageError("get takes a file and a name for the copy, such as: get capture.pcap, get capture.pcap first.pcap")
    return Order(GET, words=tuple(words))


def _link(words: list[str], graph: Graph, scale: int) -> Order:
    try:
        changes = link_changes(words, graph, scale)
    except KeyFault as fault:
        name = fault.key.rpartition(".")[2]
        subject = "" if name == "link" else f"{name} {fault.value!r} "
        raise UsageError(f"{' '.join(['link', *words])}: {subject}{fault.why}") from None
    return Order("link", changes=tuple((change.port, dict(change.values)) for change in changes))


ORDERS: dict[str, Callable[[list[str], Graph, int], Order]] = {
    "queues": _queues,
    "link": _link,
    "pingall": _alone("pingall"),
    "iperf": _iperf,
    GET: _get,
    JOBS: _alone(JOBS),
}
"""Commands that the ground executes, each with the parser of its words."""
NAMES = (*SHOWN, *ORDERS, SOURCE, HELP, *END)


def on_node(node: str, line: str, terminal: str | None = None) -> Order:
    """Returns the order that runs a command on a node. Raises UsageError if there is no command."""
    command, background = line.strip(), False
    if command.endswith("&") and not command.endswith("&&"):
        command, background = command[:-1].rstrip(), True
    if not command:
        raise UsageError(f"{node}: give a command after its name, such as {node} ip address")
    return Order("run", node, command, background, None if background else terminal)


def require_node(name: str, graph: Graph, kind: str = "host", others: Iterable[str] = ()) -> None:
    """Raises UsageError, with the names that may have been meant, unless the network has a node of that name.

    `others` are further names that may have been meant.
    """
    names = _names(graph)
    if name in names:
        return
    if spelling.near(name, [*names, *others]):
        raise UsageError(spelling.unknown(kind, name, [*names, *others]))
    hosts = graph.hosts
    remedy = "`help` lists the commands" if others else "give one of them"
    raise UsageError(f"{kind} {name!r} is unknown; hosts are {hosts[0].name} .. {hosts[-1].name}: {remedy}")


def _names(graph: Graph) -> list[str]:
    return [*(host.name for host in graph.hosts), *(switch.name for switch in graph.switches)]
