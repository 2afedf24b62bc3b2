# SPDX-License-Identifier: Apache-2.0
"""Draws a NIC's policy: its action over its inputs, its action for an error that persists, and where flows settle."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from dc_gym.base.readable import number
from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.decision import MAX_ACTION
from dc_gym.methods.rlcc.offline import response
from dc_gym.nets.fixed_point import Floats
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy
from dc_gym.results.figures import kit

FLOWS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
ACTIONS = (0.9, 1.0, 1.1)
STYLE = {"axes.grid": False, "axes.titleweight": "normal"}
COLOURS = "RdBu"
OURS, PAPER, LAW = "#0072B2", "#D55E00", "#000000"


def draw(file: NicPolicy, name: str) -> Figure:
    """Draws the three panels side by side."""
    with kit.style(STYLE):
        figure = kit.new_figure(15, 4.6)
        surface, steady, settled = figure.subplots(1, 3)
        deployed = TablePolicy(file.table())
        shades = _surface(surface, deployed, file.scaling.unit)
        figure.colorbar(shades, ax=surface, label="factor of the rate")
        _steady(steady, file, deployed)
        _settled(settled, file, deployed)
        figure.suptitle(f"{name}: {file.provenance.get('made', '')}, integer table")
    return figure


def draw_surfaces(file: NicPolicy, name: str) -> Figure:
    """Draws the action over both errors, by the latest action (columns) and the one before it (rows)."""
    with kit.style(STYLE):
        figure = kit.new_figure(14, 12.5)
        deployed = TablePolicy(file.table())
        rows = figure.subplots(len(ACTIONS), len(ACTIONS), sharex=True, sharey=True)
        for old, row in zip(ACTIONS, rows, strict=True):
            for new, axes in zip(ACTIONS, row, strict=True):
                shades = _shades(axes, deployed, file.scaling.unit, (old, new), 101)
                axes.set_title(f"action before {old:g}, latest action {new:g}", fontsize=9)
        for axes in rows[-1]:
            axes.set_xlabel("Error now, in targets")
        for axes in rows[:, 0]:
            axes.set_ylabel("Error of the decision before")
        figure.colorbar(shades, ax=rows, label="factor of the rate", shrink=0.6)
        figure.suptitle(f"{name}: action; black: the rate is kept")
    return figure


def _inputs(before: Floats, now: Floats, unit: float, acted: tuple[float, float] = (1.0, 1.0)) -> Floats:
    """Returns inputs for these errors (in targets) and these two actions."""
    ones = np.ones_like(now)
    return np.stack([acted[0] * ones, before * unit, acted[1] * ones, now * unit], axis=-1)


def _surface(axes: Axes, policy: TablePolicy, unit: float) -> Any:
    shades = _shades(axes, policy, unit)
    for i, row in enumerate(response.PAPER):
        for j, value in enumerate(row):
            axes.annotate(number(value), (j - 1, i - 1), ha="center", va="center", fontsize=8, clip_on=False)
    axes.set_xlim(-1.5, 4.0)  # leaves room for the paper's numbers; no error is below -1
    axes.set_ylim(-1.3, 4.0)
    axes.set_xlabel("Error now, in targets")
    axes.set_ylabel("Error of the decision before")
    axes.set_title("action; black: the rate is kept; numbers: the paper's Table VI", fontsize=9)
    return shades


def _shades(axes: Axes, policy: TablePolicy, unit: float, acted: tuple[float, float] = (1.0, 1.0), points: int = 201) -> Any:
    """Draws the action over both errors."""
    span = np.linspace(-1.0, 4.0, points)
    now, before = np.meshgrid(span, span)
    action = policy(_inputs(before, now, unit, acted))
    axes.contour(now, before, action, levels=[1.0], colors="black", linewidths=1.2)
    return axes.pcolormesh(now, before, action, cmap=COLOURS, norm=TwoSlopeNorm(1.0, 1 / MAX_ACTION, MAX_ACTION), rasterized=True)


def _steady(axes: Axes, file: NicPolicy, policy: TablePolicy) -> None:
    errors = np.linspace(-1.0, 6.0, 701)
    axes.plot(errors, policy(_inputs(errors, errors, file.scaling.unit)), color=OURS, label="this policy")
    at, acted = zip(*response.STEADY, strict=True)
    axes.plot(at, acted, "o", color=PAPER, label="the artifact's network, on record")
    axes.axhline(1.0, color="#888888", linewidth=0.8)
    axes.set_xlabel("Error that stays, in targets")
    axes.set_ylabel("Factor of the rate")
    axes.set_title("steady response", fontsize=9)
    axes.legend(fontsize=8)


def _settled(axes: Axes, file: NicPolicy, policy: TablePolicy) -> None:
    flows, round_trips = (FLOWS[:-2], 400) if fluid.memory_size(policy) else (FLOWS, 1200)  # memory makes it slow
    outcomes = fluid.outcomes(policy, flows, file.scaling, round_trips)
    counts = np.array(flows, np.float64)
    offset = fluid.resting_error(file.policy, file.scaling)
    axes.plot(counts, file.scaling.inflation(counts), color=LAW, linestyle="--", label="eq. 2")
    axes.plot(counts, file.scaling.inflation(counts, offset), color=PAPER, label=f"eq. 2 at its rest, {offset:+.3f} targets")
    axes.plot(counts, [outcome.inflation for outcome in outcomes], "o", color=OURS, label="fluid model")
    axes.set_xscale("log", base=2)
    axes.set_xticks(flows, [number(count) for count in flows], rotation=45)
    axes.minorticks_off()
    axes.set_xlabel("Flows")
    axes.set_ylabel("RTT over base RTT")
    axes.set_title("what flows settle at", fontsize=9)
    axes.legend(fontsize=8)
