# SPDX-License-Identifier: Apache-2.0
"""Mininet's view of a fabric: its nodes and links, for who wants to work with them (`node.cmd(...)` works as in Mininet).

A node has no shell until somebody asks for one. Mininet's camelCase stays in this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from dc_gym.topologies.graph import PREFIX_BITS, Graph
from dc_gym.topologies.mininet_classes import Host as MininetHost
from dc_gym.topologies.mininet_classes import Link, Mininet, OVSSwitch, Topo
from dc_gym.topologies.realize.fabric import at_host, netns_path


def mininet_of(graph: Graph) -> Mininet:
    """Returns Mininet's objects for a graph that a fabric has realized."""
    Mininet.inited = True  # lab-init sets the limits that Mininet would raise
    LazyShell.building = True
    try:
        net = Mininet(GraphTopo(graph=graph), FabricSwitch, FabricHost, controller=None, link=FabricLink, waitConnected=False)
        net.start()
    finally:
        LazyShell.building = False
    return net


class GraphTopo(Topo):  # type: ignore[misc]
    """A Graph in the form of a Mininet Topo."""

    def build(self, graph: Graph) -> None:
        for host in graph.hosts:
            self.addHost(host.name, ip=f"{host.address}/{PREFIX_BITS}", mac=host.mac)  # its first port, as in Mininet
        for number, switch in enumerate(graph.switches, 1):
            self.addSwitch(switch.name, dpid=f"{number:016x}")
        for cable in graph.cables:
            self.addLink(cable.a.node, cable.b.node, port1=cable.a.number, port2=cable.b.number)


class LazyShell:
    """A mixin for Mininet's nodes that starts the shell when a command is sent for the first time.

    While `building` is set, the commands that Mininet would run in every node's shell are not run: the fabric does their work.
    """

    building = False
    name: str
    inNamespace: bool
    shell: Any
    _netns: str | None = None

    @classmethod
    def checkSetup(cls) -> None:
        """Does nothing: the fabric needs no ifconfig and has started Open vSwitch itself."""

    def startShell(self, mnopts: str | None = None) -> None:
        self.shell = None

    def ensure_shell(self) -> None:
        if self.shell is None:
            in_namespace, self.inNamespace = self.inNamespace, False
            try:
                with at_host(self.name) if self._netns else nullcontext():
                    super().startShell()  # type: ignore[misc]
            finally:
                self.inNamespace = in_namespace

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        if LazyShell.building:
            return ""
        self.ensure_shell()
        return super().cmd(*args, **kwargs)  # type: ignore[misc]

    def sendCmd(self, *args: Any, **kwargs: Any) -> Any:
        self.ensure_shell()
        return super().sendCmd(*args, **kwargs)  # type: ignore[misc]

    def popen(self, *args: Any, **kwargs: Any) -> Any:
        self.ensure_shell()
        return super().popen(*args, **kwargs)  # type: ignore[misc]


class FabricHost(LazyShell, MininetHost):  # type: ignore[misc]
    """A host in the named network namespace /run/netns/NAME."""

    def __init__(self, name: str, **params: Any) -> None:
        self._netns = netns_path(name)
        super().__init__(name, **params)

    def config(self, **params: Any) -> dict[str, Any]:
        """Does nothing more: the fabric has configured the host already."""
        self.defaultIntf().ip, self.defaultIntf().prefixLen = params["ip"].split("/")
        return {}


class FabricSwitch(LazyShell, OVSSwitch):  # type: ignore[misc]
    """A switch of the fabric, which has made it."""

    OVSVersion = "3.1"  # Mininet only asks whether it is older than 1.10; the real version is in the manifest

    def start(self, controllers: Sequence[Any]) -> None:
        """Does nothing: the fabric has made all switches."""

    @classmethod
    def batchStartup(cls, switches: Sequence[FabricSwitch], run: Any = None) -> Sequence[FabricSwitch]:
        return switches


class FabricLink(Link):  # type: ignore[misc]
    """Mininet's record of a cable. The fabric makes the device pair, together with all others."""

    @classmethod
    def makeIntfPair(cls, *args: Any, **kwargs: Any) -> None:
        pass
