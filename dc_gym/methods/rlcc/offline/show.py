# SPDX-License-Identifier: Apache-2.0
"""`dcgym rlcc show`: draws a policy."""

from __future__ import annotations

import argparse

from dc_gym.base.files import machine_errors
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.base.terminal import say
from dc_gym.figures import kit
from dc_gym.methods.rlcc.offline import scenario
from dc_gym.methods.rlcc.offline.pictures import policies, scenarios
from dc_gym.nets import nic_policy
from dc_gym.sweep import runs


def main(args: argparse.Namespace) -> int:
    path = nic_policy.path_of(args.policy)
    file, out = nic_policy.read_rlcc(path), args.out
    with machine_errors("make", out):
        out.mkdir(parents=True, exist_ok=True)
    drawn = {"policy": policies.draw, "surfaces": policies.draw_surfaces, "steps": scenarios.draw_steps}
    places = {name: out / f"{name}.png" for name in (*drawn, "scenario")}
    marks = {name: mark_of("rlcc show", [path], place) for name, place in places.items()}
    for name, place in places.items():
        require_place(place, is_marked(marks[name]), force=args.force)
    for name, draw in drawn.items():
        say(kit.save(draw(file, path.stem), places[name], mark=marks[name]))
    traces = [scenario.in_fluid(file)]
    if args.lab:
        with runs.scratch("rlcc-show") as folder:
            traces.append(scenario.in_lab(path, file, folder))
    say(kit.save(scenarios.draw(traces, file, path.stem), places["scenario"], mark=marks["scenario"]))
    return 0
