# SPDX-License-Identifier: Apache-2.0
"""`[topology]`: the network, as a preset or a kind with its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dc_gym.base.errors import TopologyError
from dc_gym.base.key import COUNT, TEXT, Get, KeyFault, check, field_of, key, own_keys
from dc_gym.base.registry import Registry
from dc_gym.topologies import marking
from dc_gym.topologies.ecmp import ROUTINGS
from dc_gym.topologies.links import RULES, SWITCH_QDISCS, LinkRule, LinkSpec

HOST_QDISCS = ("bfifo", "fq")
LARGEST_SCALE = 10**6
TOPOLOGIES = Registry("topology.kind", TopologyError, ("wiring",))
PRESETS: dict[str, TopologySpec] = {}
ORIGINS: dict[str, str] = {}
"""The origin of each preset's numbers, in Markdown."""


def _kind(get: Get) -> tuple[str, ...]:
    """Returns the kind that a section names, or that of its preset."""
    preset = PRESETS.get(str(get("preset")))
    kind = str(get("kind") or (preset.kind if preset else ""))
    return (kind,) if kind in TOPOLOGIES else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpec(LinkSpec):
    """`[topology]`: the network, as a preset or a kind with its keys.

    None means not given: the preset or the default applies. The keys of LinkSpec hold for all links.
    """

    preset: str | None = key(
        TEXT, names=lambda: PRESETS, help="one of [the presets](topologies.md#presets); the keys below override it"
    )
    kind: str | None = key(
        TEXT,
        names=lambda: TOPOLOGIES,
        help="needed without a preset; a [plug-in](extending.md#a-topology) may add kinds",
    )
    host_qdisc: str | None = key(TEXT, names=lambda: HOST_QDISCS, otherwise='`"bfifo"`', help="qdisc of a host's egress")
    qdisc: str | None = key(
        TEXT,
        names=lambda: SWITCH_QDISCS,
        otherwise='`"port"` in a lab, `"stock"` on the host',
        help="qdisc of switch ports: `port` is the lab's own, whose marking may change while it works and which writes"
        " telemetry; `stock` is Linux's bfifo, or RED where a port marks ([compared](links.md#the-queue-of-a-switch-port))",
    )
    scale: int | None = key(
        COUNT,
        low=1,
        high=LARGEST_SCALE,
        otherwise="1",
        help="s: divides rates and multiplies delays by s; queues keep their bytes ([what is not "
        "scale-free](topologies.md#scale))",
    )
    links: tuple[LinkRule, ...] | None = key(RULES, help="[other values for some links](topologies.md#some-links)")
    routing: str = key(
        TEXT,
        "ecmp",
        names=lambda: ROUTINGS,
        help="choice among equally short paths: `ecmp` (seeded hash buckets of the ports), or `single` (one path to each "
        "host; paths are assigned round-robin)",
    )
    shape: tuple[tuple[str, Any], ...] = own_keys(TOPOLOGIES, _kind)
    """The keys that the kind declares, as the file gives them."""

    def __post_init__(self) -> None:
        check(self, "topology.")
        for number, rule in enumerate(self.links or ()):
            check(rule, f"topology.links[{number}].")
        self._check_thresholds()

    def _check_thresholds(self) -> None:
        """Raises KeyFault for a threshold that no port's marking reads. Under 'auto' K belongs to the step that it may choose."""
        read = self.read_thresholds(ecn=True)
        for name, value in self.thresholds:
            if name not in read:
                written = field_of(self, name).metadata["kind"].write(value)
                raise KeyFault(f"topology.{name}", written, f"has no effect with marking {self._marking!r}; remove it")

    @property
    def _marking(self) -> str:
        preset = PRESETS.get(str(self.preset))
        return self.marking or (preset.marking if preset else None) or marking.AUTO

    def read_thresholds(self, ecn: bool) -> set[str]:
        """Returns the keys that the markings of all links read. 'auto' counts as what it stands for with or without ECN."""
        names = {self._marking, *(rule.marking or self._marking for rule in self.links or ())}
        return {name for each in names for name in marking.KINDS[marking.resolve(each, ecn)].declared}


TOPOLOGIES.belongs_to(TopologySpec)
marking.KINDS.belongs_to(TopologySpec, LinkRule)
