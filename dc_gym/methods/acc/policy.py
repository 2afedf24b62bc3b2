# SPDX-License-Identifier: Apache-2.0
"""ACC's trained policy and its file: the net that values the actions of a template, and that template (docs/acc.md).

`dcgym method acc train` writes one. A run reads it with controller.start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from dc_gym.base.errors import AgentError
from dc_gym.methods.acc.q_network import QNetwork
from dc_gym.methods.acc.template import Template
from dc_gym.nets.policy_file import GUIDE, Payload, PolicyFile

KIND = "acc"
ENTRIES = {"template": str, "interval_ns": int, "history": int, "queue": str, "actions": list}
"""The required entries of the payload and their types."""


SHIPPED = {name: Path(__file__).resolve().parent / f"{name}.npz" for name in ("acc-deployed",)}
"""The files of the policies that come with dc-gym, by the name of their template."""


@dataclass(frozen=True, slots=True)
class AccPolicy(PolicyFile):
    """A policy for the queues of switches. Its shapes are checked at construction."""

    OWNER: ClassVar[str] = "a switch"

    net: QNetwork
    template: Template
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if why := misfit(self.net, self.template):
            raise AgentError(why)

    @property
    def kind(self) -> str:
        return KIND

    def to_payload(self) -> Payload:
        template = self.template
        entries = {"template": template.name, "interval_ns": template.interval_ns, "history": template.history}
        entries |= {"queue": template.queue, "actions": [list(action) for action in template.actions]}
        return Payload(entries, self.net.arrays())

    @classmethod
    def from_payload(cls, kind: str, payload: Payload, provenance: Mapping[str, Any]) -> AccPolicy:
        entries = payload.entries
        for name, entry_type in ENTRIES.items():
            if type(entries.get(name)) is not entry_type:
                raise AgentError(f"{name!r} of its manifest is no {entry_type.__name__}; {GUIDE}")
        try:
            actions = tuple((int(kmin), int(kmax), int(pmax)) for kmin, kmax, pmax in entries["actions"])
        except (TypeError, ValueError):
            raise AgentError(f"'actions' of its manifest are no triples of whole numbers; {GUIDE}") from None
        template = Template(entries["template"], entries["interval_ns"], entries["history"], actions, entries["queue"])
        return cls(QNetwork.of_arrays(payload.arrays), template, provenance)


def misfit(net: QNetwork, template: Template) -> str:
    """Returns why a net is none for a template; empty if it fits."""
    inputs, outputs = net.sizes[0], net.sizes[-1]
    if (inputs, outputs) == (template.inputs, len(template.actions)):
        return ""
    needs = f"template {template.name} needs {template.inputs} inputs and {len(template.actions)} actions"
    return f"{needs}, and the net has {inputs} and {outputs}; give a net that was trained with that template"
