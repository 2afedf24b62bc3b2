# SPDX-License-Identifier: Apache-2.0
"""`dcgym method fdcc train`: trains FDCC's policy in the fluid model with telemetry (trainer.py).

The output folder holds `policy.npz`, which a run reads with nic.policy; `manifest.json`, everything that the policy follows from;
`curve.csv` and TensorBoard's events, a row for each episode; `stages.csv`, how the policy does in incasts of the model after each
stage; and `checkpoint.npz`. One seed gives one policy on one machine, bit for bit, interrupted or not.
"""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym import __version__
from dc_gym.base import resume as resuming
from dc_gym.base.files import put
from dc_gym.base.progress import Progress, choose
from dc_gym.base.terminal import say
from dc_gym.methods.checkpoint import NAME as CHECKPOINT
from dc_gym.methods.episode_report import EpisodeReport
from dc_gym.methods.fdcc.net import FdccNet
from dc_gym.methods.fdcc.offline import checkpoint, trainer
from dc_gym.methods.fdcc.offline.presets import FdccTrainingSettings, preset
from dc_gym.methods.fdcc.offline.trainer import Trainer
from dc_gym.methods.training_folder import open_folder
from dc_gym.nets.nic_policy import NicPolicy

POLICY, MANIFEST, CURVE_CSV, STAGES_CSV = "policy.npz", "manifest.json", "curve.csv", "stages.csv"
OPTIONS = ("preset", "seed", "episodes", "updates", "history", "replay", "discount", "learning_rate", "explore")
KEPT_EVERY = 20
"""Episodes from one checkpoint to the next."""
SHOWN_EPISODES = 20
"""Number of episodes over which progress shows the mean."""


def main(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    with choose(args.quiet) as progress, open_folder(args.out, args.resume):
        try:
            trained_policy = train(settings, args.out, progress, resume=args.resume)
        except KeyboardInterrupt:
            progress.announce(resuming.interrupted(*_last(args, settings)))
            raise
    say(f"{args.out / POLICY}: sha256 {trained_policy.sha256()}")
    return 0


def settings_of(args: argparse.Namespace) -> FdccTrainingSettings:
    """Returns the settings of the options that were given."""
    return FdccTrainingSettings(**{name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None})


def _last(args: argparse.Namespace, settings: FdccTrainingSettings) -> tuple[str | None, Path, str]:
    """Returns the contents of the checkpoint, its path, and the command to resume or, without one, to start again."""
    path: Path = args.out / CHECKPOINT
    if not path.is_file():
        return None, path, resuming.command(args, resume=False)
    return f"episode {checkpoint.FORMAT.length(args.out)} of {settings.total}", path, resuming.command(args)


def depends_on(settings: FdccTrainingSettings) -> dict[str, Any]:
    """Returns everything that the bytes of a policy depend on, but for the machine."""
    versions = {"dcgym": __version__, "python": platform.python_version(), "numpy": np.__version__}
    return {"settings": asdict(settings), "versions": versions}


def train(settings: FdccTrainingSettings, out: Path, progress: Progress, *, resume: bool = False) -> NicPolicy:
    """Trains and writes everything into a folder that is there."""
    depends = depends_on(settings)
    training = checkpoint.read(out, depends, settings) if resume else Trainer.new(settings)
    report = EpisodeReport(lambda: training.curve, settings.total, out, progress, SHOWN_EPISODES)
    if resume:
        progress.note(resuming.goes_on(f"episode {len(training.curve)} of {settings.total}", out / CHECKPOINT))

    def on_episode(training: Trainer) -> None:
        if len(training.curve) % KEPT_EVERY == 0 or len(training.curve) == settings.total:
            checkpoint.write(training, out, depends)
            put(out / CURVE_CSV, curve_csv(training))
            put(out / STAGES_CSV, stages_csv(training))
        report()

    trainer.run(training, on_episode)
    trained_policy = policy(settings, training.learner.network())
    trained_policy.write(out / POLICY)
    manifest = {
        "reproducible": "yes: the same settings and versions give the same policy on one machine",
        "policy_sha256": trained_policy.sha256(),
        **depends,
        **report.facts(),
    }
    put(out / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    return trained_policy


def policy(settings: FdccTrainingSettings, network: FdccNet) -> NicPolicy:
    """Returns the policy of a training, with where it is from."""
    details = {"preset": settings.preset, "reward": preset(settings.preset).summary, "settings": asdict(settings)}
    origin = {"command": "dcgym method fdcc train", "made": "trained in a fluid model with telemetry", "seed": settings.seed}
    return NicPolicy(network, provenance=origin | details)


def curve_csv(training: Trainer) -> bytes:
    """Returns the curve, a row for each episode."""
    lines = ["episode,flows,decisions,mean_reward,mean_action,mean_error,mean_value"]
    for number, row in enumerate(training.curve, 1):
        means = ",".join(f"{row[name]:.6f}" for name in ("reward", "action", "error", "value"))
        lines.append(f"{number},{row['flows']},{row['decisions']},{means}")
    return "\n".join([*lines, ""]).encode()


def stages_csv(training: Trainer) -> bytes:
    """Returns how the policy did in incasts of the model after each stage."""
    lines = ["episode,most_flows,incast,link_use,unfair,mean_queue_bdp,longest_queue_bdp"]
    for row in training.tests:
        most = training.settings.stages[int(row["episode"]) // training.settings.episodes - 1]
        means = ",".join(f"{row[name]:.6f}" for name in ("used", "unfair", "queue_bdp", "longest_bdp"))
        lines.append(f"{row['episode']},{most},{row['flows']},{means}")
    return "\n".join([*lines, ""]).encode()
