# SPDX-License-Identifier: Apache-2.0
"""The congestion controls that a spec may name, and how figures draw them. Adding one is one `register` line at the end.

The order is part of the digest (docs/results.md): new ones go to the end, none is ever removed.
Colours are those of Okabe and Ito, which colour-blind readers tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Controller", "acting", "find", "label_of", "names", "policy_name", "register"]


@dataclass(frozen=True, slots=True)
class Controller:
    """One congestion control."""

    name: str
    """What a spec calls it."""
    kernel_name: str
    """What TCP_CONGESTION calls it."""
    label: str
    """What a figure calls it."""
    ecn: bool
    """It reads ECN: `topology.marking = "auto"` marks for it."""
    color: str
    marker: str
    nic: bool = False
    """An algorithm of the NIC (docs/nic-algorithms.md): flows are RDMA's, and `kernel_name` is no TCP."""
    header: Path | None = None
    """Of a NIC algorithm that is not one of ours: its header. A plug-in gives the whole path."""


_registry: dict[str, Controller] = {}


def register(controller: Controller) -> None:
    """Make a controller known; a name can be taken once."""
    if controller.name in _registry:
        raise ValueError(f"controller {controller.name!r} is registered twice")
    _registry[controller.name] = controller


def names() -> tuple[str, ...]:
    """All names, in the order of registration."""
    return tuple(_registry)


def find(name: str) -> Controller | None:
    """The controller of that name, or None."""
    return _registry.get(name)


def acting(section: Mapping[str, Any]) -> str:
    """Of a spec's `[controller]` what tells it from others: the policy where there is one, else the TCP."""
    return str(section.get("policy") or section.get("name", "?"))


def policy_name(policy: str | Path) -> str:
    """What a policy is called: its own name, its class, its file without the ending, of a training's policy.npz the training."""
    text = str(policy)
    place, colon, made = text.rpartition(":")
    if colon:
        return f"{Path(place).name if place.endswith('.py') else place}:{made}"
    path = Path(text)
    if path.suffix != ".npz":
        return text
    return (path.absolute().parent.name if path.stem == "policy" else path.stem) or path.stem


def label_of(section: Mapping[str, Any]) -> str:
    """What figures and tables call a spec's `[controller]`: "CUBIC", or "fair-share over CUBIC"."""
    name = str(section.get("name", "?"))
    known = find(name)
    label = known.label if known else name
    return f"{section['policy']} over {label}" if section.get("policy") else label


register(Controller("dctcp", "dctcp", "DCTCP", ecn=True, color="#0072B2", marker="o"))
register(Controller("nv", "nv", "TCP NV", ecn=False, color="#D55E00", marker="s"))
register(Controller("cubic", "cubic", "CUBIC", ecn=False, color="#009E73", marker="^"))
register(Controller("bbr", "bbr", "BBR", ecn=False, color="#CC79A7", marker="D"))
register(Controller("vegas", "vegas", "Vegas", ecn=False, color="#E69F00", marker="v"))
register(Controller("reno", "reno", "Reno", ecn=False, color="#56B4E9", marker="P"))
for _row in (
    ("dcqcn", "DCQCN", True, "#B7A100", "p"),
    ("swift", "Swift", False, "#000000", "*"),
    ("timely", "TIMELY", False, "#882255", "h"),
    ("timely-patched", "patched TIMELY", False, "#AA4499", "H"),
    ("fixed", "fixed rate", False, "#999999", "x"),
    ("rlcc-tree", "RL-CC (tree)", False, "#332288", "<"),
    ("rlcc-mlp", "RL-CC (MLP)", False, "#117733", ">"),
    ("rlcc-mlp8", "RL-CC (MLP, int8)", False, "#999933", "8"),
    ("rlcc-lstm", "PCC-RL (LSTM)", False, "#44AA99", "X"),
):
    register(Controller(_row[0], _row[0], _row[1], ecn=_row[2], color=_row[3], marker=_row[4], nic=True))
