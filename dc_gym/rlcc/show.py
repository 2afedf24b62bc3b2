# SPDX-License-Identifier: Apache-2.0
"""`dcgym rlcc show`: a policy in pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from dc_gym.bench import runs
from dc_gym.ctrl.nic import policy_file
from dc_gym.figures import policies, scenarios
from dc_gym.folder import words
from dc_gym.rlcc import scenario


def main(args: argparse.Namespace) -> int:
    path = policy_file.path_of(args.policy)
    file, out = policy_file.PolicyFile.read(path), args.out
    with words("make", out):
        out.mkdir(parents=True, exist_ok=True)
    for name, draw in {"policy": policies.draw, "surfaces": policies.draw_surfaces, "steps": scenarios.draw_steps}.items():
        draw(file, path.stem, _told(out / f"{name}.png"))
    traces = [scenario.in_fluid(file)]
    if args.lab:
        with runs.scratch("rlcc-show") as folder:
            traces.append(scenario.in_lab(path, file, folder))
    scenarios.draw(traces, file, path.stem, _told(out / "scenario.png"))
    return 0


def _told(path: Path) -> Path:
    print(path)
    return path
