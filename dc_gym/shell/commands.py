# SPDX-License-Identifier: Apache-2.0
"""The commands of a shell: those about the network, with Mininet's names, and the form `HOST COMMAND`.

To add a command, write a function from the graph to lines, and give it a row in SHOWN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dc_gym.base import spelling
from dc_gym.base.errors import UsageError
from dc_gym.base.readable import quantity
from dc_gym.base.units import format_rate
from dc_gym.grounds.guest.shell_memory import Order
from dc_gym.topologies.graph import Graph

END = ("exit", "quit")
HELP, JOBS = "help", "jobs"
ANYWHERE = (HELP, JOBS, *END)
"""The commands of a shell on one host."""
ORDERS = ("pingall", JOBS)
"""Commands that the ground executes."""
DIGITS = 7


def nodes(graph: Graph) -> Iterator[str]:
    """list hosts and switches"""
    yield f"hosts: {' '.join(host.name for host in graph.hosts)}"
    yield f"switches: {' '.join(switch.name for switch in graph.switches)}"


def links(graph: Graph) -> Iterator[str]:
    """list links, each with its rate and its delay one way"""
    for cable in graph.cables:
        ways = [f"{format_rate(way.rate_bps)} {quantity(way.delay_ns, 'ns', DIGITS)}" for way in cable.directions()]
        yield f"{cable.a.ifname}<->{cable.b.ifname} {' back '.join(dict.fromkeys(ways))}"


def net(graph: Graph) -> Iterator[str]:
    """list the ports of each node, each with the port at the other end"""
    for node in _names(graph):
        yield " ".join([node, *(f"{port.ifname}:{graph.peer(port).ifname}" for port in graph.ports_of(node))])


def dump(graph: Graph) -> Iterator[str]:
    """list the nodes with the addresses of their ports"""
    for host in graph.hosts:
        ports = zip(graph.ports_of(host.name), host.nics, strict=True)
        yield f"<Host {host.name}: {','.join(f'{port.ifname}:{nic.address}' for port, nic in ports)}>"
    for switch in graph.switches:
        yield f"<Switch {switch.name}: {','.join(port.ifname for port in graph.ports_of(switch.name))}>"


SHOWN: dict[str, Callable[[Graph], Iterator[str]]] = {"nodes": nodes, "links": links, "net": net, "dump": dump}
"""The commands that describe the network."""
MEANINGS = {
    "NODE COMMAND": "run a command on a host or a switch: h1 ping -c 3 h3",
    "NODE COMMAND &": "run it in the background, as a server: h3 iperf3 -s &",
    **{name: show.__doc__ or "" for name, show in SHOWN.items()},
    "pingall": "send a packet from each host to each other one, and back",
    "jobs": "list the commands in the background",
    HELP: "show this",
    " ".join(END): "end the network; so does Ctrl-D",
}
"""The commands and their meanings, for `help`."""
NAMES = (*SHOWN, *ORDERS, HELP, *END)


def help_lines() -> Iterator[str]:
    """Yields the lines of `help`."""
    width = max(map(len, MEANINGS))
    for name, meaning in MEANINGS.items():
        yield f"{name:{width}}  {meaning}"
    yield "Ctrl-C ends a command that runs. Time passes only while a command runs (on the host ground always)."


def order(line: str, graph: Graph, terminal: tuple[int, int, str] | None = None) -> Order:
    """Parses `NODE COMMAND`, `NODE COMMAND &` or one of ORDERS.

    Raises UsageError, one line, for a line that is neither.
    """
    first, _, rest = line.partition(" ")
    if first in ORDERS:
        if rest.strip():
            raise UsageError(f"{first} takes no words (got {rest.strip()!r})")
        return Order(first)
    require_node(first, graph, "host or command", NAMES)
    return on_node(first, rest, terminal)


def on_node(node: str, line: str, terminal: tuple[int, int, str] | None = None) -> Order:
    """Returns the order that runs a command on a node. Raises UsageError if there is no command."""
    command, background = line.strip(), False
    if command.endswith("&") and not command.endswith("&&"):
        command, background = command[:-1].rstrip(), True
    if not command:
        raise UsageError(f"{node}: give a command after its name, such as {node} ip address")
    return Order("run", node, command, background, None if background else terminal)


def require_node(name: str, graph: Graph, what: str = "host", others: Iterable[str] = ()) -> None:
    """Raises UsageError, with the names that may have been meant, unless the network has a node of that name.

    `others` are further names that may have been meant.
    """
    names = _names(graph)
    if name in names:
        return
    if spelling.near(name, [*names, *others]):
        raise UsageError(spelling.unknown(what, name, [*names, *others]))
    hosts = graph.hosts
    remedy = "`help` lists the commands" if others else "give one of them"
    raise UsageError(f"{what} {name!r} is unknown; hosts are {hosts[0].name} .. {hosts[-1].name}: {remedy}")


def _names(graph: Graph) -> list[str]:
    return [*(host.name for host in graph.hosts), *(switch.name for switch in graph.switches)]
