# SPDX-License-Identifier: Apache-2.0
"""The files that the runner writes for a ground: the plan of a run, its episodes, and the names of the others."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.errors import LabError, naming
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.waits import Waits

PLAN_VERSION = 1
OUT = "out"
"""Folder for the files that the ground writes, beside the plan. A lab can only read the files outside this folder."""
FLOWS, PORTS, ACTUATORS, CAPTURED = "flows.records", "ports.records", "actuators.records", "captured.records"
"""Record files (dc_gym/run/plan/inputs.py). FLOWS are the flows of a run, or of the first episode.

CAPTURED are the ports that are captured, as PORTS are all.
"""
JOB = ".jobs"
"""The suffix, in place of that of a file of flows, of the record file of the jobs that play over them (run/plan/jobs.py)."""
GROUND = "ground.json"
"""The file with a ground's counters."""
EVENTS, EVENTS_DONE = "events.records", "events.done"
"""Record files of eventd's orders, and of its work."""
REACTING_EVENTS = "reacting-events.records"
"""EVENTS with the reactions of routing, which are complete only where the network stands."""
REACTION_TAG = 1 << 31
"""Added to the number of an event: the tag of the requests that react to it. Other tags are numbers of changes."""
CAPTURES = "capture"
"""Folder of a result with a file for each captured port."""
NICS, NIC_TABLE = "nics.records", "nic_table"
"""The files that the NICs' loader reads."""
DECISIONS = "decisions.bin"
"""The file that the NICs' loader writes."""
DATAPATH = "datapath.flows"
"""The file with the flows of all switches, one switch after the other, as messages of topologies/realize/datapath.py."""
DAEMONS = "DCGYM_DAEMONS"
"""Environment variable by which every run has Open vSwitch's daemons and their rules. It serves to test routing."""
DISTURB = "DCGYM_DISTURB"
"""Environment variable with a shell command that every run executes in its lab before traffic starts.

It serves to test determinism.
"""
REASON = "ground: "
"""Beginning of the line with the reason why a ground ended."""
UNFIT = "the episode before this reset is unfit"
"""Beginning of the reason of a ground that ended an environment's episode as a run's would be unfit."""
GO_ON, NEXT_EPISODE, END_OF_RUN = 0, 1, 2
"""The possible answers of the agent's side to a step."""
ASK, PLAN_STEP = "--ask", (1 << 64) - 1
"""An argument by which the program in a lab asks the host whether the plan is written, and the number of that step."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All facts about a run that a ground needs. Times are ns of CLOCK_MONOTONIC, or durations."""

    graph: Graph
    rules: dict[str, list[str]]
    """The rules of each switch for Open vSwitch's daemons, as lines for ovs-ofctl; none where they do not run."""
    groups: list[list[Any]]
    """The group ports of all switches: the fields of ecmp.Group."""
    direct: dict[str, int] | None
    """Number of flows of each switch in the file DATAPATH, which the kernel gets directly. None: the daemons run."""
    warm_mask: int
    """The bits of ports that the daemons' rules and group ports read: one frame warms all flows that are equal in them."""
    peers: dict[str, list[str]]
    ecn: bool
    sysctls: dict[str, str]
    seed: int
    t0_ns: int
    warmup_ns: int
    """From t0 on: metrics do not cover it."""
    duration_ns: int
    interval_ns: int
    tcp_interval_ns: int
    programs: str
    openvswitch: str
    """Folder of Open vSwitch's programs."""
    disturb: str
    """A command run during set-up, to test whether set-up affects results. Empty: none."""
    waits: Waits
    execs: list[dict[str, Any]]
    """Programs to run in hosts (traffic/execs.py)."""
    agent: dict[str, Any] | None = None
    """A central agent's settings (AgentPlan). None: there is no agent."""
    nic: dict[str, Any] | None = None
    """The settings of the hosts' NICs (nics.NicPlan). None: the run has no NICs."""
    capture: dict[str, Any] | None = None
    """The settings of the capture: snap_bytes, direction. None: no port is captured."""
    events: dict[str, list[str]] | None = None
    """Names of the ports whose cables and whose queues events change, and of the ports that events may make lossy. None: there
    are no changes (keys `cables`, `queues`, `lossy`).
    """
    reactions: list[dict[str, Any]] | None = None
    """New rules of the switches (topologies/rerouting.py): at_ns, event, entries. None: routing does not react."""
    default_tcp: str = ""
    """The TCP of programs in hosts that choose none. Empty: the kernel's. On the host ground it is the machine's own."""
    shell: dict[str, Any] | None = None
    """The settings of a shell: `folder`, where its commands work. None: the plan's traffic runs."""
    flow_rows: int = 0
    """Number of flows in the state matrix, for watchers. Under an agent the agent's settings give the number."""

    def write(self, path: Path) -> None:
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in ("graph", "waits")}
        with naming(path):
            path.write_text(
                json.dumps({"plan_version": PLAN_VERSION, "graph": self.graph.to_json(), "waits": asdict(self.waits), **plain})
            )

    @classmethod
    def read(cls, path: Path) -> Plan:
        plain: dict[str, Any] = json.loads(path.read_text())
        if plain.pop("plan_version") != PLAN_VERSION:
            raise LabError(f"{path}: not a plan of version {PLAN_VERSION}")
        return cls(graph=Graph.from_json(plain.pop("graph")), waits=Waits(**plain.pop("waits")), **plain)


@dataclass(frozen=True, slots=True)
class ControlPlan:
    """The settings of the network for an agent's control packets."""

    delay_ns: int
    loss_ppb: int
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """The facts about an agent that a ground needs."""

    step_ns: int
    latency_ns: int
    publish_ns: int
    flow_rows: int
    keeps: bool
    """True for a run: sweeps, samples and flows are kept, and traffic comes to its own end.

    False for episodes of an environment.
    """

    control: ControlPlan | None
    """None: agentd sets everything itself."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> AgentPlan:
        control = plain["control"]
        return cls(**plain | {"control": None if control is None else ControlPlan(**control)})


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode. The agent's side writes it to episode-N.json before it answers the last step of the previous episode."""

    seed: int
    steps: int
    flows: str
    """Name of the file with its flows."""
    nics: str = NICS
    """Name of the file with the NICs and the flows over them, if there are NICs."""
    events: str = EVENTS
    """Name of the file with the changes of the network, if there are any."""

    def write(self, folder: Path, number: int) -> None:
        path = folder / f"episode-{number}.json"
        with naming(path):
            path.write_text(json.dumps(asdict(self)))

    @classmethod
    def remove(cls, folder: Path, number: int) -> None:
        """Removes an episode that is over, with its flows. Does nothing if there is none."""
        if number >= 0:
            over = cls.read(folder, number)
            (folder / over.flows).unlink()
            (folder / over.flows).with_suffix(JOB).unlink(missing_ok=True)
            (folder / over.nics).unlink(missing_ok=True)
            if over.events != EVENTS:
                (folder / over.events).unlink()
            (folder / f"episode-{number}.json").unlink()

    @classmethod
    def read(cls, folder: Path, number: int) -> Episode:
        return cls(**json.loads((folder / f"episode-{number}.json").read_text()))
