# SPDX-License-Identifier: Apache-2.0
"""`dcgym method rlcc train`: trains a network by RL-CC's policy gradient, on labs (on_lab.py) or in the fluid model.

The output folder holds `policy.npz` and `manifest.json` (everything that the network follows from). A training on labs adds
`curve.csv` and `checkpoint.npz`. One seed gives one policy: the same programs give the same bytes, interrupted or not.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym import __version__
from dc_gym.base import resume as resuming
from dc_gym.base.errors import UsageError
from dc_gym.base.files import put, scratch
from dc_gym.base.progress import Progress, choose, short_time
from dc_gym.base.terminal import say
from dc_gym.kernel import build, openvswitch
from dc_gym.methods.checkpoint import NAME as CHECKPOINT
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.offline import checkpoint, on_fluid, on_lab
from dc_gym.methods.rlcc.offline.gradient import Learner
from dc_gym.methods.rlcc.offline.on_lab import Labs
from dc_gym.methods.rlcc.offline.presets import reward
from dc_gym.methods.training_folder import open_folder
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.results import fingerprint

POLICY, MANIFEST, CURVE_CSV = "policy.npz", "manifest.json", "curve.csv"
OF_BOTH = ("seed", "updates", "learning_rate", "unclipped", "beta", "target")
OF_LAB = ("updates_per_episode", "labs", "randomise", "curriculum", "resume", "asynchronous")
OF_FLUID = ("batch_size", "bottlenecks", "noise")
"""The options that each ground has."""
FLOW_COUNTS = (2, 4, 8)
"""The numbers of flows on the bottlenecks of --bottlenecks."""
SHOWN_UPDATES = 20
"""Number of updates over which progress shows the mean."""


def main(args: argparse.Namespace) -> int:
    if foreign := [name for name in (OF_LAB if args.ground == "fluid" else OF_FLUID) if getattr(args, name) not in (None, False)]:
        raise UsageError(f"--{foreign[0].replace('_', '-')}: means nothing to a training on {args.ground}; leave it out")
    with choose(args.quiet) as progress:
        policy = (_on_fluid if args.ground == "fluid" else _on_labs)(args, progress)
    say(f"{args.out / POLICY}: sha256 {policy.sha256()}")
    return 0


def _given(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    """Returns the settings that were given as options."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _on_fluid(args: argparse.Namespace, progress: Progress) -> NicPolicy:
    options = _given(args, (*OF_BOTH, *OF_FLUID))
    if "bottlenecks" in options:
        options["bottlenecks"] = tuple((flows, options["bottlenecks"]) for flows in FLOW_COUNTS)
    settings = replace(on_fluid.USUAL[args.net], **options)
    scaling = reward(args.preset, settings.beta, settings.target)
    with open_folder(args.out, resume=False):
        return train_on_fluid(args.preset, scaling, settings, args.out, progress)


def _on_labs(args: argparse.Namespace, progress: Progress) -> NicPolicy:
    options = _given(args, (*OF_BOTH, "preset", "updates_per_episode", "labs", "randomise", "curriculum"))
    settings = replace(on_lab.USUAL[args.net], **options)
    with open_folder(args.out, args.resume):
        try:
            return train_on_labs(settings, args.out, progress, resume=args.resume, asynchronous=args.asynchronous)
        except KeyboardInterrupt:
            progress.announce(resuming.interrupted(*_last(args, settings)))
            raise


def _last(args: argparse.Namespace, settings: on_lab.LabTrainingSettings) -> tuple[str | None, Path, str]:
    """Returns the contents of the checkpoint, its path, and the command to resume or, without one, to start again."""
    path: Path = args.out / CHECKPOINT
    if not path.is_file():
        return None, path, resuming.command(args, resume=False)
    return f"update {checkpoint.FORMAT.length(args.out)} of {settings.updates}", path, resuming.command(args)


def train_on_fluid(
    preset: str, scaling: Scaling, settings: on_fluid.FluidTrainingSettings, out: Path, progress: Progress
) -> NicPolicy:
    """Trains in the fluid model."""
    report = _Report(progress)
    learner = on_fluid.train(settings, scaling, report)
    details = {"preset": preset, "settings": asdict(settings)}
    provenance = {
        "command": "dcgym method rlcc train --ground fluid",
        "made": "trained on the fluid model",
        "seed": settings.seed,
    }
    policy = NicPolicy(learner.net, learner.scaling, provenance | details)
    _keep(out, policy, learner, {"ground": "fluid", **details, "versions": _versions(), **report.facts(learner)})
    return policy


def train_on_labs(
    settings: on_lab.LabTrainingSettings, out: Path, progress: Progress, *, resume: bool = False, asynchronous: bool = False
) -> NicPolicy:
    """Trains on the real data path."""
    depends_on, scaling = _depends_on(settings, progress), reward(settings.preset, settings.beta, settings.target)
    learner = checkpoint.read(out, depends_on, settings, scaling) if resume else Learner.new(settings, scaling)
    report = _Report(progress, first=len(learner.curve))
    if resume:
        progress.note(resuming.goes_on(f"update {report.first} of {settings.updates}", out / CHECKPOINT))
    replays = 0

    def on_update(learner: Learner, labs: Labs) -> None:
        nonlocal replays
        report(learner)
        if labs.replays > replays:
            replays = labs.replays
            progress.note(f"update {len(learner.curve)}: a lab had died and was begun anew; nothing is lost")
        if len(learner.curve) % settings.updates_per_episode == 0 or len(learner.curve) == settings.updates:
            checkpoint.write(learner, out, depends_on)

    with scratch(Path(tempfile.gettempdir()), "dcgym-env-") as folder:
        on_lab.run(learner, settings, folder, on_update, asynchronous=asynchronous)
    command = "dcgym method rlcc train" + (" --asynchronous" if asynchronous else "")
    provenance = {"command": command, "made": "trained on labs", "seed": settings.seed, "settings": asdict(settings)}
    policy = NicPolicy(learner.net, learner.scaling, provenance)
    facts: dict[str, Any] = {"labs_restarted": replays, "resumed_at_update": report.first}
    if asynchronous:
        facts["reproducible"] = "no: asynchronous, each lab went on as soon as it could"
    _keep(out, policy, learner, depends_on | facts | report.facts(learner))
    return policy


def _depends_on(settings: on_lab.LabTrainingSettings, progress: Progress) -> dict[str, Any]:
    """Returns everything that the bytes of a policy depend on."""
    environment = fingerprint.environment(build.ensure(progress), openvswitch.ensure(progress))
    return {"ground": "lab", "settings": asdict(settings), "environment": environment, "versions": _versions()}


def _versions() -> dict[str, str]:
    return {"dcgym": __version__, "python": platform.python_version(), "numpy": np.__version__}


def _keep(out: Path, policy: NicPolicy, learner: Learner, facts: Mapping[str, Any]) -> None:
    """Writes the policy, the training's curve and its manifest."""
    policy.write(out / POLICY)
    put(out / CURVE_CSV, _curve_csv(learner))
    manifest = {
        "reproducible": "yes: the same settings, programs and versions give the same policy",
        "policy_sha256": policy.sha256(),
        "reward": {"beta": policy.scaling.beta, "target": policy.scaling.target},
        **facts,
    }
    put(out / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


def _curve_csv(learner: Learner) -> bytes:
    rows = [f"{number},{row['decisions']},{row['error']:.6f},{row['reward']:.6f}" for number, row in enumerate(learner.curve, 1)]
    return "\n".join(["update,decisions,mean_error,mean_reward", *rows, ""]).encode()


class _Report:
    """Reports progress after each update."""

    def __init__(self, progress: Progress, first: int = 0) -> None:
        self.first = first
        """Number of updates that an earlier process made."""
        self._progress, self._begun = progress, time.monotonic()
        progress.phase("train")

    @property
    def _wall_s(self) -> float:
        return time.monotonic() - self._begun

    def facts(self, learner: Learner) -> dict[str, Any]:
        """Returns the length of the training, for its manifest."""
        decisions = int(learner.curve["decisions"].sum())
        return {"updates": len(learner.curve), "decisions": decisions, "wall_s": round(self._wall_s, 1)}

    def __call__(self, learner: Learner) -> None:
        curve, updates, wall_s = learner.curve, learner.settings.updates, self._wall_s
        pace = curve["decisions"][self.first :].sum() / wall_s
        left = (updates - len(curve)) * wall_s / (len(curve) - self.first)
        state = (
            f"mean error {curve[-SHOWN_UPDATES:]['error'].mean():.2f} targets, {pace:,.0f} decisions/s, {short_time(left)} to go"
        )
        self._progress.advance(len(curve), updates, f"update {len(curve)} of {updates}: {state}")
