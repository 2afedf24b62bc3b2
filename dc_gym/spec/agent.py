# SPDX-License-Identifier: Apache-2.0
"""`[agent]`: what a central agent observes of the network, how it acts, and when (docs/environment.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dc_gym.base.key import COUNT, MS, RATE, SHARE_PPB, SIZE, TEXT, TIME, US, Get, KeyFault, S, check, key, own_keys
from dc_gym.base.units import FRAME_BYTES, PPB
from dc_gym.ctrl.actuators import KINDS, selection
from dc_gym.nets.agent_kinds import AGENTS, CENTRAL, FLOWS
from dc_gym.topologies.graph import LONGEST_DELAY_NS

HOSTS = ("all", "senders")
TBFS = ("exact", "stock")
SEE = ("own", "path")
RATES = "rate"
"""The actuator that is set where agent.actuators is not given."""
REWARD_SCOPES = ("shared", "own")
CONTROLS = ("direct", "network")
REAL_BURST_BYTES = 2 * FRAME_BYTES
"""Default burst on a real clock.

A real timer is late: a bucket of one frame would be full before the waiting frame leaves, and the rate would be too low.
"""
MOST_DELAY = 1000
"""The longest delay of observations, in steps."""
EXTERNAL = "external"
"""Value of controller.policy in an environment's lab: the actions come from outside."""


def _actuators(get: Get) -> tuple[str, ...]:
    """Returns the actuators that a section names."""
    return selection.chosen(str(get("actuators") or RATES))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """`[agent]`: the central agent, if controller.policy names one. A Gymnasium environment always has it."""

    interval_ns: int = key(
        TIME, 1 * MS, name="interval", low=10 * US, help="time between two actions, a multiple of `monitor.interval`"
    )
    latency_ns: int = key(
        TIME,
        0,
        name="latency",
        low=0,
        high=10 * S,
        help="time from an observation to the enforcement of its action; may be longer than the interval",
    )
    actuators: str | None = key(
        TEXT,
        otherwise='`"rate"`',
        help="[what an agent sets](environment.md#actuators): a list of actuators, each with a pattern of ports or classes if it "
        "is not for all ports that have it, such as `rate`, `s1-*:marking` or `s1-*:rdma:marking`",
    )
    hosts: str = key(
        TEXT,
        "all",
        names=lambda: HOSTS,
        help="hosts whose rates an action sets: `all`, or the workload's `senders` under the spec's own `seed` (hosts "
        "that send only in other episodes of an environment are then never limited)",
    )
    floor_bps: int = key(RATE, 10_000, name="floor", low=1_000, help="minimum rate of a host")
    burst_bytes: int | None = key(
        SIZE,
        name="burst",
        low=1,
        otherwise='a full frame, on the host `"3028B"`',
        help="bucket of each host's tbf; on the host timers are late, and a bucket of one frame would lose rate",
    )
    limit_bytes: int | None = key(
        SIZE, name="limit", low=FRAME_BYTES, otherwise="`topology.host_buffer`", help="queue limit of each host's tbf"
    )
    tbf: str | None = key(
        TEXT,
        names=lambda: TBFS,
        otherwise='`"exact"`, on the host `"stock"`',
        help="`exact` (a change of rate keeps the tokens in the bucket; only the lab's kernel can do it) or `stock` "
        "(Linux' tbf: [each change fills the bucket](enforcement.md))",
    )
    control: str = key(
        TEXT,
        "direct",
        names=lambda: CONTROLS,
        help="how a decision reaches a host: `direct`, or `network`: control packets to an agent in each host over [a "
        "network of their own](protocols.md#ctrlhostd), in a lab only",
    )
    control_delay_ns: int = key(
        TIME, 0, name="control_delay", low=0, high=LONGEST_DELAY_NS, help="one-way delay of the control network"
    )
    control_loss_ppb: int = key(
        SHARE_PPB,
        0,
        name="control_loss",
        low=0,
        high=PPB,
        help="share of control packets that are lost, in each direction, from t0 on",
    )
    control_timeout_ns: int = key(
        TIME, 10 * MS, name="control_timeout", low=10 * US, help="time after which an unanswered command is sent again"
    )
    own: tuple[tuple[str, Any], ...] = own_keys(KINDS, _actuators)
    agents: str | None = key(
        TEXT,
        names=lambda: AGENTS,
        otherwise='`"central"`',
        help="[who is an agent](environment.md#many-agents): one for the whole network (`central`), or each of the `hosts`, "
        "`switches`, `ports` or `flows` where something is set",
    )
    flows: int | None = key(
        COUNT,
        low=1,
        high=selection.MOST_FLOWS,
        otherwise="as many as with the spec's own `seed`",
        help="with actuators of flows: the most flows of any episode. Those that an episode lacks are masked",
    )
    see: str | None = key(
        TEXT,
        names=lambda: SEE,
        otherwise='hosts `"path"`',
        help="with hosts as agents, what they observe: `own` egress and flows, or also the `path` of these flows",
    )
    reward_scope: str | None = key(
        TEXT,
        names=lambda: REWARD_SCOPES,
        otherwise='`"shared"`',
        help="with many agents: the network's reward for all (`shared`), or each agent's `own`",
    )
    observe: str = key(TEXT, "default", help="[the observation](environment.md#observations): a preset, or a list of features")
    history: int = key(COUNT, 1, low=1, high=64, help="number of observations that are stacked")
    observation_delay: int | None = key(
        COUNT, low=0, high=MOST_DELAY, otherwise="0", help="steps by which [an observation is late](environment.md#observations)"
    )
    observation_loss_ppb: int | None = key(
        SHARE_PPB,
        name="observation_loss",
        low=0,
        high=PPB,
        otherwise="0",
        help="share of observations that do not arrive; the agent keeps the last one that did",
    )
    action: str = key(TEXT, "log", help="[how an action becomes rates](environment.md#actions)")
    reward: str = key(
        TEXT,
        "goodput - 0.1*queueing_delay",
        help="[the reward](environment.md#rewards): a name, or a sum such as `goodput - 2*queueing_delay`",
    )
    publish_ns: int | None = key(
        TIME,
        name="publish",
        low=10 * US,
        otherwise="`agent.interval`, or [up to 10 ms](environment.md#what-a-step-costs)",
        help="interval at which flows are sampled for observations and rewards. If an environment's observation and "
        "reward read no flows, it is up to 10 ms, such that the last step has a sample",
    )

    def __post_init__(self) -> None:
        check(self, "agent.")
        selection.parsed(self.sets)  # a mistake is reported also where the spec has no agent
        for name in ("see", "reward_scope"):
            if getattr(self, name) is not None and self.agents in (None, CENTRAL):
                raise KeyFault(
                    f"agent.{name}", getattr(self, name), "is for many agents; give agent.agents, too, or leave it out"
                )
        if self.agents == FLOWS and not selection.sets_flows(self.sets):
            raise KeyFault(
                "agent.agents", self.agents, f'no flow has the {self.sets}; give agent.actuators such as "cwnd" or "clamp"'
            )
        if self.flows is not None and not selection.sets_flows(self.sets):
            raise KeyFault("agent.flows", self.flows, 'nothing is set at flows; give agent.actuators such as "cwnd"')
        packets = {"control_delay": self.control_delay_ns, "control_loss": self.control_loss_ppb}
        for name, value in packets.items():
            if value and self.control != "network":
                raise KeyFault(
                    f"agent.{name}", value, 'there are no control packets; set agent.control = "network", or leave it out'
                )

    @property
    def sets(self) -> str:
        """The value of agent.actuators, or its default."""
        return RATES if self.actuators is None else self.actuators

    def on(self, clock: str, frame_bytes: int) -> AgentSpec:
        """Returns the section with the defaults for that clock filled in."""
        real = clock == "real"
        burst_bytes = REAL_BURST_BYTES if real else frame_bytes
        return replace(self, burst_bytes=self.burst_bytes or burst_bytes, tbf=self.tbf or ("stock" if real else "exact"))

    def check_real(self) -> None:
        """Raises KeyFault about settings that need the lab's kernel."""
        if self.tbf == "exact":
            raise KeyFault(
                "agent.tbf", "exact", 'is a patch of the lab\'s kernel; on ground "host" leave it out, or give "stock"'
            )
        if self.control == "network":
            raise KeyFault("agent.control", "network", 'is made of the lab\'s cables; on ground "host" leave it out')


KINDS.belongs_to(AgentSpec)
