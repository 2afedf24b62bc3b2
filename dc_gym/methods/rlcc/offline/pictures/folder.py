# SPDX-License-Identifier: Apache-2.0
"""`dcgym method rlcc explain --out`: draws a policy."""

from __future__ import annotations

from pathlib import Path

from dc_gym.base.files import machine_errors
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.base.terminal import say
from dc_gym.methods.rlcc.offline import scenario
from dc_gym.methods.rlcc.offline.pictures import policies, scenarios
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.results.figures import kit
from dc_gym.run.sweep import runs


def draw(path: Path, file: NicPolicy, out: Path, *, lab: bool, force: bool) -> None:
    """Draws the policy of a file into a folder, and prints where the pictures are. `lab`: traces it on the data path, too."""
    with machine_errors("make", out):
        out.mkdir(parents=True, exist_ok=True)
    drawn = {"policy": policies.draw, "surfaces": policies.draw_surfaces, "steps": scenarios.draw_steps}
    places = {name: out / f"{name}.png" for name in (*drawn, "scenario")}
    marks = {name: mark_of("method rlcc explain", [path], picture) for name, picture in places.items()}
    for name, picture in places.items():
        require_place(picture, is_marked(marks[name]), force=force)
    for name, make in drawn.items():
        say(kit.save(make(file, path.stem), places[name], mark=marks[name]))
    traces = [scenario.in_fluid(file)]
    if lab:
        with runs.scratch("rlcc-explain") as folder:
            traces.append(scenario.in_lab(path, file, folder))
    say(kit.save(scenarios.draw(traces, file, path.stem), places["scenario"], mark=marks["scenario"]))
