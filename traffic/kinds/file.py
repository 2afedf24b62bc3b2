# SPDX-License-Identifier: Apache-2.0
"""The flows in another tool's file. Its format is found by its content (traffic/files/)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import WorkloadError
from dc_gym.base.key import PATH, key
from dc_gym.base.readers import node_name
from dc_gym.topologies.graph import Graph
from dc_gym.traffic import files
from dc_gym.traffic.files.model import FileFlow
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, WorkloadContext, bounded, register

NUMBERED = re.compile(r"[hs][0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKeys:
    """Keys of kind file."""

    file: Path = key(PATH, needed=True, help="another tool's file, relative to the spec ([formats](coming-from.md))")


def flows_of_file(context: WorkloadContext, keys: FileKeys) -> list[FlowRequest]:
    """The flows in another tool's `file`. Its node 13 is h13 of a network in such a file; of another one it is the 14th host."""
    content = files.read(keys.file)
    if content.not_used:
        context.notes["not_used"] = list(content.not_used)
    hosts = _Hosts(context)
    if any(address not in hosts for address in content.addresses):
        hosts |= context.notes.setdefault("addresses", _placed(context, keys.file, content.addresses))
    return bounded(_requests(hosts, keys.file, content.flows))


def _placed(context: WorkloadContext, path: Path, addresses: Sequence[str]) -> dict[str, str]:
    """Returns a host for each address, in the order of appearance."""
    if len(addresses) > len(context.hosts):
        why = f"it has {len(addresses)} addresses, and the network {len(context.hosts)} hosts; take a network with as many"
        raise files.fault(path, None, why)
    return dict(zip(addresses, context.hosts, strict=False))


def _requests(hosts: _Hosts, path: Path, flows: Iterable[FileFlow]) -> Iterator[FlowRequest]:
    for flow in flows:
        try:
            ends, size_bytes = (hosts[flow.source], hosts[flow.destination]), flow.size_bytes
            request = FlowRequest(*ends, DEFAULT_PORT, flow.start_ns, size_bytes=size_bytes, gate=flow.gate, opens=flow.opens)
        except WorkloadError as error:
            raise files.fault(path, flow.line, str(error)) from None
        yield request


def _has_file_numbers(graph: Graph) -> bool:
    """Returns whether nodes have the numbers of a file, each of them once: elsewhere there are h1 and s1."""
    names = [host.name for host in graph.hosts] + [switch.name for switch in graph.switches]
    numbers = Counter(name[1:] for name in names if NUMBERED.fullmatch(name))
    return max(numbers.values(), default=0) == 1 and all(NUMBERED.fullmatch(host.name) for host in graph.hosts)


class _Hosts(dict[str, str]):
    """The hosts of a network by the names that a file of flows may have for them."""

    def __init__(self, context: WorkloadContext) -> None:
        super().__init__({host: host for host in context.hosts})
        self._hosts = dict.fromkeys(context.hosts)
        self |= {nic.address: host.name for host in context.graph.hosts for nic in host.nics}
        self._by_place = not _has_file_numbers(context.graph)
        if self._by_place:
            self |= {str(number): host for number, host in enumerate(context.hosts)}

    def __missing__(self, text: str) -> str:
        names = (node_name(text, "h"), node_name(f"h {text}", "h"))  # the second is a switch's own host (host_each)
        name = next((name for name in names if name in self._hosts), None)
        if name is None or (self._by_place and text.isdecimal()):
            hosts = list(self._hosts)
            raise WorkloadError(f"{text!r} is not one of the hosts {hosts[0]} .. {hosts[-1]} of the network; name one")
        self[text] = name
        return name


register("file", flows_of_file, FileKeys)
