# SPDX-License-Identifier: Apache-2.0
"""Replays the decisions of a result in the NIC's own integers (nic/rlcc.h): returns the inputs and actions of RL-CC's flows.

A result records for each decision the round trip and the rates before and after. Inputs and actions follow from these and from
the run's policy, bit for bit. A replay whose rates differ from the result's is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.ctrl.nic import golden
from dc_gym.nets import nic_policy
from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy, Words
from dc_gym.results.results import Result, load_result
from dc_gym.results.tables import NIC_EVENTS
from dc_gym.run.plan import nics
from dc_gym.run.plan.experiment import Experiment
from dc_gym.spec import NIC_POLICY_COPY, without_code

Integers = npt.NDArray[np.int64]
FINE = 11
"""RLCC_FINE of rlcc.h."""
MAX_EXCESS, MAX_MEASURED = 1 << 40, 1 << 32
FROM_POLICY = 2**32 - 1
"""RLCC_OWN: the parameter is taken from the policy."""
TARGET, BETA, GAIN, LIMIT = 5, 6, 7, 8
"""Indices of words in a table's head."""


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """The round trips that led to decisions, one row each, in the order of their times.

    They were measured by answers to probes, and by overdue probes that had a flow's rate cut.
    """

    t_ns: Integers
    flow: Integers
    rtt_ns: Integers
    """The round trip; for an overdue probe, the time that had passed until then."""
    before: Integers
    """The rate in force, Q20."""
    base_ns: Integers
    """The base round trip of each flow, by its number."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions that a policy made on a RoundTrips."""

    inputs_q16: Integers
    """[rows, 4]"""
    actions_q16: Integers
    rates: Integers
    """The rates after the decisions, Q20."""

    @property
    def inputs(self) -> Floats:
        return np.asarray(self.inputs_q16 / Q16)


def replay(round_trips: RoundTrips, table: Words, target: int = FROM_POLICY, beta: int = FROM_POLICY) -> Decisions:
    """Returns the decisions of a table. `target` and `beta` are the parameters of a run (Q16)."""
    head = [int(word) for word in table[: nic_policy.HEAD_WORDS].view(np.int32)]
    head[TARGET], head[BETA] = (head[TARGET] if target == FROM_POLICY else target), (head[BETA] if beta == FROM_POLICY else beta)
    policy, rows = TablePolicy(table), len(round_trips.flow)
    decisions = Decisions(np.zeros((rows, 4), np.int64), np.zeros(rows, np.int64), np.zeros(rows, np.int64))
    state = np.zeros((int(round_trips.flow.max(initial=-1)) + 1, 6), np.int64)  # the words of rlcc_word that matter
    memory = np.zeros((len(state), policy.memory), np.int64)
    for now in one_per_flow(round_trips.flow):
        flows = round_trips.flow[now]
        rate = state[flows, 5]
        recorded_rate = np.clip(round_trips.before[now], nics.LEAST_RATE, nics.LINE_RATE) << FINE
        rate = np.where(rate >> FINE == round_trips.before[now], rate, recorded_rate)
        old = state[flows]
        error = _errors(round_trips.rtt_ns[now], round_trips.base_ns[flows], rate, head)
        inputs = np.stack([old[:, 2], old[:, 3], old[:, 4], error], axis=1) + np.array([Q16, 0, Q16, 0])
        action, memory[flows] = policy.integers(inputs, memory[flows])
        rate = np.clip((rate * action + Q16 // 2) >> 16, nics.LEAST_RATE << FINE, nics.LINE_RATE << FINE)
        state[flows] = np.stack([old[:, 2], old[:, 3], old[:, 4], error, action - Q16, rate], axis=1)
        decisions.inputs_q16[now], decisions.actions_q16[now], decisions.rates[now] = inputs, action, rate >> FINE
    return decisions


def one_per_flow(flow: Integers) -> list[Integers]:
    """Splits the rows into groups with one row per flow at most: all flows' first rows, then their second ones, and so on."""
    order = np.argsort(flow, kind="stable")
    first = np.searchsorted(flow[order], flow[order], side="left")
    turn = np.arange(len(flow)) - first
    by_turn = order[np.argsort(turn, kind="stable")]
    return np.split(by_turn, np.cumsum(np.bincount(turn))[:-1]) if len(flow) else []


def _errors(rtt_ns: Integers, base_ns: Integers, rate_q31: Integers, head: list[int]) -> Integers:
    """rlcc_error of rlcc.h."""
    inflation = (rtt_ns << 16) // np.maximum(base_ns, 1)
    excess = np.clip(inflation - head[BETA], 0, MAX_EXCESS)
    root = np.floor(np.sqrt((rate_q31 << 1).astype(np.float64))).astype(np.int64)
    measured = np.minimum(excess * root >> 16, MAX_MEASURED)
    return np.asarray(np.clip((measured - head[TARGET]) * head[GAIN] >> 16, -head[LIMIT], head[LIMIT]))


def policy_of(result: Result) -> NicPolicy:
    """Returns the policy that a run had."""
    name, stated = str(result.manifest["spec"]["controller"]["name"]), (result.manifest.get("nic") or {}).get("policy")
    if not stated:
        raise AgentError(f"{result.path}: {name} runs no policy; give a result of rlcc-mlp or rlcc-tree")
    copy = result.path / NIC_POLICY_COPY
    policy = nic_policy.load(name, copy if copy.is_file() else None)
    if policy.sha256() != stated["sha256"]:
        raise AgentError(f"{result.path}: ran another policy ({stated['sha256'][:12]}) than the {name} of today; run it again")
    return policy


def round_trips(result: Result) -> tuple[RoundTrips, Integers]:
    """Returns the round trips of a result, and the rates that were decided (Q20)."""
    experiment = Experiment.of(without_code(result.manifest["spec"], result.path, str(result.path / "manifest.json")))
    rows = result.records("decisions")
    rows = rows[(rows["event"] == NIC_EVENTS.index("rtt")) | _overdue(rows)]
    if not len(rows):
        raise AgentError(f'{result.path}: holds no decisions; run it with nic.trace = "changes"')
    lines = nics.lines_bps(experiment.schedule, experiment.graph)
    line = np.array([lines[flow] for flow in range(len(lines))], np.int64)[rows["flow"]]
    base = np.array(nics.base_rtts_ns(experiment.schedule, experiment.graph, experiment.router, experiment.spec), np.int64)
    before, after = (_part(rows[name].astype(np.int64), line) for name in ("rate_before_bps", "rate_bps"))
    times = rows["t_ns"].astype(np.int64)
    return RoundTrips(times, rows["flow"].astype(np.int64), rows["rtt_ns"].astype(np.int64), before, base), after


def _overdue(rows: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Marks rows where a packet left, its flow's probe was overdue, and the rate was cut (rlcc_overdue of rlcc.h).

    A flow's first packet lowers the rate, too, if flows begin below the line. That is no decision.
    """
    left, cut = rows["event"] == NIC_EVENTS.index("tx"), rows["rate_bps"] < rows["rate_before_bps"]
    overdue: npt.NDArray[np.bool_] = left & cut & (rows["flags"] & golden.NEW_FLOW == 0)
    return overdue


def _part(rate_bps: Integers, line_bps: Integers) -> Integers:
    """Converts a rate to Q20 of the line. It rounds up, since whole bits per second were rounded down."""
    return np.asarray(-(-(rate_bps << 20) // line_bps))


def decisions(path: Path) -> Decisions:
    """Returns the decisions of a result folder.

    Raises AgentError if the run's policy decides differently on the same round trips.
    """
    result = load_result(path)
    file = policy_of(result)
    values = result.manifest["nic"]["algorithm"]["values"]
    trips, after = round_trips(result)
    replayed = replay(trips, file.table(), int(values["target"]), int(values["beta"]))
    if wrong := int((replayed.rates != after).sum()):
        raise AgentError(f"{path}: {wrong} of {len(after)} decisions are not those of its policy; run it again")
    return replayed
