# SPDX-License-Identifier: Apache-2.0
"""Draws a NIC policy's actions over time: RL-CC's figure 11 as traces, and the policy's response to steps of the error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dc_gym.methods.rlcc.decision import MAX_ACTION
from dc_gym.methods.rlcc.offline import scenario
from dc_gym.methods.rlcc.offline.pictures import policies
from dc_gym.methods.rlcc.offline.pictures.policies import LAW, OURS, PAPER
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy
from dc_gym.results.figures import kit
from dc_gym.results.figures.axes import log_ticks

if TYPE_CHECKING:
    from dc_gym.methods.rlcc.offline.scenario import FlowTrace

STATES = {"u": ("#56B4E9", "under-utilized"), "t": ("#DDDDDD", "on target"), "c": ("#D55E00", "congested")}
STEPS = ((0.0, -1.0), (0.0, 1.0), (0.0, 4.0), (1.0, 0.0), (-1.0, 0.0))
"""The errors before and after each step, in targets."""
BEFORE, AFTER = 4, 12
"""The number of decisions shown before and after a step."""
COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7")


def draw(traces: Sequence[FlowTrace], file: NicPolicy, name: str) -> Figure:
    """Draws one column per trace: round trips, errors, actions, rate."""
    with kit.style(policies.STYLE):
        figure = kit.new_figure(8.5 * len(traces), 9)
        columns = figure.subplots(4, len(traces), sharex="col", squeeze=False)
        for trace, column in zip(traces, columns.T, strict=True):
            _trace(trace, file, list(column))
        figure.suptitle(
            f"{name}: a flow whose path is on target, under-utilized,\non target, congested, on target (RL-CC, figure 11)"
        )
    return figure


def _trace(trace: FlowTrace, file: NicPolicy, axes: list[Axes]) -> None:
    round_trip, error, action, rate = axes
    span = np.arange(scenario.SHOWN_FROM, scenario.END_AT, 0.5)
    flows = scenario.flows_at(span)
    round_trip.plot(trace.times, trace.inflation, color=OURS, linewidth=1)
    round_trip.plot(span, file.scaling.inflation(flows), color=LAW, linestyle="--", linewidth=1, label="eq. 2")
    round_trip.set_ylabel("RTT over base RTT")
    late = trace.times >= scenario.SHOWN_FROM
    round_trip.set_yscale("log")
    round_trip.set_ylim(0.9, 1.2 * max(2.0, float(trace.inflation[late].max(initial=1.0))))
    log_ticks(round_trip, "y")
    round_trip.legend(fontsize=8)
    round_trip.set_title(
        f"{trace.where}: {scenario.STAYING_FLOWS + scenario.LEAVING_FLOWS} flows, {scenario.STAYING_FLOWS}, and again as many",
        fontsize=10,
    )
    for state, (colour, label) in STATES.items():
        rows = np.array([flow_state == state for flow_state in trace.state()])
        error.plot(trace.times[rows], trace.errors[rows], ".", color=colour, markersize=4, label=label)
        action.plot(trace.times[rows], trace.actions[rows], ".", color=colour, markersize=4)
    error.set_yscale("symlog", linthresh=2.0)
    error.set_ylim(-1.2, 1.2 * max(4.0, float(trace.errors[late].max(initial=1.0))))
    error.set_yticks([tick for tick in (-1, 0, 1, 2, 5, 10, 20, 50, 100, 200, 500) if tick < error.get_ylim()[1]])
    error.yaxis.set_major_formatter("{x:g}")
    error.set_ylabel("Error, in targets")
    error.legend(fontsize=8, ncols=3)
    action.axhline(1.0, color=LAW, linewidth=0.6)
    action.set_ylim(1 / MAX_ACTION - 0.02, MAX_ACTION + 0.02)
    action.set_ylabel("Factor of the rate")
    rate.plot(trace.times, trace.rates, color=OURS, linewidth=1, label="rate")
    rate.plot(span, 1.0 / np.maximum(flows, 1), color=LAW, linestyle="--", linewidth=1, label="fair share")
    rate.set_ylabel("Rate, of the line")
    rate.set_ylim(0, 1.05)
    rate.legend(fontsize=8)
    rate.set_xlabel("Base round trips")
    rate.set_xlim(scenario.SHOWN_FROM, scenario.END_AT)


def draw_steps(file: NicPolicy, name: str) -> Figure:
    """Draws the policy's response to an error that steps and stays, in open loop: the actions, and the rate that results."""
    with kit.style(policies.STYLE):
        figure = kit.new_figure(12, 4.6)
        actions, rates = figure.subplots(1, 2)
        policy, times = TablePolicy(file.table()), np.arange(-BEFORE, AFTER + 1)
        for (before, after), colour in zip(STEPS, COLOURS, strict=True):
            acted = scenario.open_loop_actions(policy, [before] * BEFORE + [after] * (AFTER + 1), file.scaling.unit)
            label = f"{before:g} to {after:g} targets"
            actions.step(times, acted, where="mid", color=colour, label=label)
            rates.plot(times, np.cumprod(acted) / np.prod(acted[:BEFORE]), ".-", color=colour)
        actions.axhline(1.0, color=LAW, linewidth=0.6)
        actions.set_ylabel("Factor of the rate")
        actions.set_title("the first decision after a change and those that follow", fontsize=10)
        rates.axhline(1.0, color=LAW, linewidth=0.6)
        rates.set_ylabel("Rate, over that before the step")
        rates.set_title("what they make of the rate", fontsize=10)
        for axes in (actions, rates):
            axes.axvline(-0.5, color=PAPER, linewidth=0.6)
            axes.set_xlabel("Decisions; the error steps before decision 0")
        actions.legend(fontsize=8)
        figure.suptitle(f"{name}: answers to errors that step")
    return figure
