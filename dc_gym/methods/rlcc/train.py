# SPDX-License-Identifier: Apache-2.0
"""`dcgym rlcc train`: trains a network from random weights by RL-CC's policy gradient, on labs (on_lab.py) or in the fluid model.

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
from dc_gym.base import folder_lock
from dc_gym.base import resume as resuming
from dc_gym.base.errors import UsageError
from dc_gym.base.files import put, scratch, words
from dc_gym.base.progress import Progress, choose, short_time
from dc_gym.kernel import build, openvswitch
from dc_gym.methods.rlcc import gradient, on_lab
from dc_gym.methods.rlcc.checkpoint import NAME as CHECKPOINT
from dc_gym.methods.rlcc.checkpoint import Checkpoint
from dc_gym.methods.rlcc.on_lab import Labs, Learner, Settings
from dc_gym.methods.rlcc.presets import Preset, preset
from dc_gym.nets.policy_file import PolicyFile
from dc_gym.records import fingerprint

POLICY, MANIFEST, CURVE_CSV = "policy.npz", "manifest.json", "curve.csv"
OF_LAB = ("episode", "labs", "randomise", "curriculum", "resume", "free_running")
OF_FLUID = ("noise",)
RECENT = 20
"""Number of updates over which progress shows the mean."""


def main(args: argparse.Namespace) -> int:
    if given := [name for name in (OF_LAB if args.on == "fluid" else OF_FLUID) if getattr(args, name)]:
        raise UsageError(f"--{given[0]}: means nothing to a training on {args.on}; leave it out")
    with choose(args.quiet) as progress:
        made = (_on_fluid if args.on == "fluid" else _on_labs)(args, progress)
    print(f"{args.out / POLICY}: sha256 {made.sha256()}")
    return 0


def _on_fluid(args: argparse.Namespace, progress: Progress) -> PolicyFile:
    given = {name: getattr(args, name) for name in ("updates", "noise") if getattr(args, name) is not None}
    training = replace(gradient.USUAL[args.net], seed=args.seed, **given)
    chosen = preset(args.preset)
    with opened(args.out, resume=False):
        return on_fluid(chosen, training, args.out)


def _on_labs(args: argparse.Namespace, progress: Progress) -> PolicyFile:
    given = {name: getattr(args, name) for name in ("updates", "episode", "labs") if getattr(args, name) is not None}
    chosen = {"preset": args.preset, "seed": args.seed, "randomise": args.randomise, "curriculum": args.curriculum}
    settings = replace(on_lab.USUAL[args.net], **chosen, **given)
    with opened(args.out, args.resume):
        try:
            return on_labs(settings, args.out, progress, resume=args.resume, free=args.free_running)
        except KeyboardInterrupt:
            progress.announce(resuming.interrupted(*_last(args, settings)))
            raise


def _last(args: argparse.Namespace, settings: Settings) -> tuple[str | None, Path, str]:
    """Returns what the checkpoint holds, its path, and the command to resume or, without one, to start again."""
    place: Path = args.out / CHECKPOINT
    if not place.is_file():
        return None, place, resuming.command(args, resume=False)
    return f"update {Checkpoint.updates(args.out)} of {settings.updates}", place, resuming.command(args)


def opened(out: Path, resume: bool) -> Any:
    """Opens the training's folder, new or to resume in, and locks it for this process."""
    if out.exists() and not resume and (not out.is_dir() or any(out.iterdir())):
        way = "go on with --resume, or give" if (out / CHECKPOINT).is_file() else "give"
        raise UsageError(f"{out} exists; {way} another --out")
    if resume and not (out / CHECKPOINT).is_file():
        raise UsageError(f"--resume: {out} has no {CHECKPOINT}, which is written after each episode; begin without --resume")
    with words("make", out):
        out.mkdir(parents=True, exist_ok=True)
    return folder_lock.held(out, "a training")


def on_fluid(chosen: Preset, training: gradient.Training, out: Path) -> PolicyFile:
    """Trains in the fluid model, in seconds."""
    scaling = chosen.scaling
    settings = {"preset": chosen.name, "training": asdict(training)}
    origin = {"made": "trained on the fluid model", "by": "dcgym rlcc train --on fluid", **settings}
    made = PolicyFile(gradient.train(training, scaling), scaling, origin)
    _keep(out, made, {"on": "fluid", **settings, "versions": _versions()})
    return made


def on_labs(settings: Settings, out: Path, progress: Progress, *, resume: bool = False, free: bool = False) -> PolicyFile:
    """Trains on the real data path."""
    depends_on = _depends_on(settings, progress)
    learner = Learner.restored(settings, Checkpoint.read(out, depends_on)) if resume else Learner.new(settings)
    told = _Told(out, depends_on, progress, first=len(learner.curve))
    if resume:
        progress.note(resuming.goes_on(f"update {told.first} of {settings.updates}", out / CHECKPOINT))
    with scratch(Path(tempfile.gettempdir()), "dcgym-env-") as folder:
        replays = on_lab.run(learner, folder, told, free=free)
    origin: dict[str, Any] = {"made": "trained on labs", "by": "dcgym rlcc train", "settings": asdict(settings)}
    if free:
        origin["by"] += " --free-running"
    made = PolicyFile(learner.net, learner.scaling, origin)
    put(out / CURVE_CSV, _curve_csv(learner))
    facts: dict[str, Any] = {"updates": len(learner.curve), "decisions": int(learner.curve["decisions"].sum())}
    facts |= {"labs begun anew": replays, "resumed after updates": told.first, "wall_s": round(told.wall_s, 1)}
    if free:
        facts["bit-equal"] = "no: free-running, each lab went on as soon as it could"
    _keep(out, made, depends_on | facts)
    return made


def _depends_on(settings: Settings, progress: Progress) -> dict[str, Any]:
    """Returns everything that the bytes of a policy depend on."""
    environment = fingerprint.environment(build.ensure(progress), openvswitch.ensure(progress))
    return {"on": "lab", "settings": asdict(settings), "environment": environment, "versions": _versions()}


def _versions() -> dict[str, str]:
    return {"dcgym": __version__, "python": platform.python_version(), "numpy": np.__version__}


def _keep(out: Path, made: PolicyFile, facts: Mapping[str, Any]) -> None:
    """Writes the policy and its manifest."""
    made.write(out / POLICY)
    manifest = {
        "bit-equal": "yes: the same settings, programs and versions give the same policy",
        "policy": made.sha256(),
        **facts,
    }
    put(out / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


def _curve_csv(learner: Learner) -> bytes:
    rows = [f"{number},{row['decisions']},{row['error']:.6f}" for number, row in enumerate(learner.curve, 1)]
    return "\n".join(["update,decisions,mean_error", *rows, ""]).encode()


class _Told:
    """Reports progress after each update and writes a checkpoint after each episode."""

    def __init__(self, out: Path, depends_on: Mapping[str, Any], progress: Progress, first: int) -> None:
        self.first = first
        """Number of updates that an earlier process made."""
        self._out, self._depends_on, self._progress = out, depends_on, progress
        self._begun, self._replays = time.monotonic(), 0
        progress.phase("train")

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self._begun

    def __call__(self, learner: Learner, labs: Labs) -> None:
        curve, asked = learner.curve, learner.settings
        recent = curve[-RECENT:]
        pace = curve["decisions"][self.first :].sum() / self.wall_s
        left = (asked.updates - len(curve)) * self.wall_s / (len(curve) - self.first)
        state = f"mean error {recent['error'].mean():.2f} targets, {pace:,.0f} decisions/s, {short_time(left)} to go"
        self._progress.advance(len(curve), asked.updates, f"update {len(curve)} of {asked.updates}: {state}")
        if labs.replays > self._replays:
            self._replays = labs.replays
            self._progress.note(f"update {len(curve)}: a lab had died and was begun anew; nothing is lost")
        if len(curve) % asked.episode == 0 or len(curve) == asked.updates:
            learner.state().write(self._out, self._depends_on)
