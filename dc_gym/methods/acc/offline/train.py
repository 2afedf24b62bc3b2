# SPDX-License-Identifier: Apache-2.0
"""`dcgym method acc train`: trains ACC's net offline, on labs with drawn scenarios (on_labs.py).

The output folder holds `policy.npz`, which a run reads with controller.start; `manifest.json`, everything that the net follows
from; `curve.csv` and TensorBoard's events, a row for each episode; and `checkpoint.npz`. One seed gives one policy: the same
programs give the same bytes, interrupted or not.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym import __version__
from dc_gym.base import resume as resuming
from dc_gym.base.files import put, scratch
from dc_gym.base.progress import Progress, choose
from dc_gym.base.terminal import say
from dc_gym.kernel import build, openvswitch
from dc_gym.methods.acc.offline import checkpoint, on_labs, scenarios
from dc_gym.methods.acc.offline.on_labs import AccTrainingSettings, Trainer
from dc_gym.methods.acc.policy import AccPolicy
from dc_gym.methods.acc.template import template_of
from dc_gym.methods.checkpoint import NAME as CHECKPOINT
from dc_gym.methods.episode_report import EpisodeReport
from dc_gym.methods.training_folder import open_folder
from dc_gym.results import fingerprint

POLICY, MANIFEST, CURVE_CSV = "policy.npz", "manifest.json", "curve.csv"
OPTIONS = ("seed", "episodes", "labs", "steps", "updates_per_step", "replay", "explore", "half_life", "hold", "worth", "groups")
OF_DQN = ("discount", "learning_rate", "batch_size", "target_every", "prefer")
SHOWN_EPISODES = 10
"""Number of episodes over which progress shows the mean."""


def main(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    with choose(args.quiet) as progress, open_folder(args.out, args.resume):
        try:
            policy = train(settings, args.out, progress, resume=args.resume)
        except KeyboardInterrupt:
            progress.announce(resuming.interrupted(*_last(args, settings)))
            raise
    say(f"{args.out / POLICY}: sha256 {policy.sha256()}")
    return 0


def settings_of(args: argparse.Namespace) -> AccTrainingSettings:
    """Returns the settings of the options that were given."""

    def options(names: tuple[str, ...]) -> dict[str, Any]:
        return {name: getattr(args, name) for name in names if getattr(args, name, None) is not None}

    template = template_of(Path(args.template) if "." in args.template or "/" in args.template else args.template)
    return AccTrainingSettings(template=template, dqn=replace(on_labs.DQN, **options(OF_DQN)), **options(OPTIONS))


def _last(args: argparse.Namespace, settings: AccTrainingSettings) -> tuple[str | None, Path, str]:
    """Returns the contents of the checkpoint, its path, and the command to resume or, without one, to start again."""
    path: Path = args.out / CHECKPOINT
    if not path.is_file():
        return None, path, resuming.command(args, resume=False)
    return f"episode {checkpoint.FORMAT.length(args.out)} of {settings.episodes}", path, resuming.command(args)


def train(settings: AccTrainingSettings, out: Path, progress: Progress, *, resume: bool = False) -> AccPolicy:
    """Trains and writes everything into a folder that is there."""
    environment = fingerprint.environment(build.ensure(progress), openvswitch.ensure(progress))
    environment["methods"] = fingerprint.of_methods(("acc",))
    versions = {"dcgym": __version__, "python": platform.python_version(), "numpy": np.__version__}
    depends_on = {"settings": asdict(settings), "environment": environment, "versions": versions}
    trainer = checkpoint.read(out, depends_on, settings) if resume else Trainer.new(settings)
    report = EpisodeReport(lambda: trainer.curve, settings.episodes, out, progress, SHOWN_EPISODES)
    if resume:
        progress.note(resuming.goes_on(f"episode {len(trainer.curve)} of {settings.episodes}", out / CHECKPOINT))

    def on_episode(trainer: Trainer) -> None:
        checkpoint.write(trainer, out, depends_on)
        put(out / CURVE_CSV, _curve_csv(trainer))
        report()

    with scratch(Path(tempfile.gettempdir()), "dcgym-env-") as folder:
        repeats = on_labs.run(trainer, folder, on_episode)
    entries = asdict(settings) | {"template": settings.template.name}
    provenance = {"command": "dcgym method acc train", "made": "trained on labs", "seed": settings.seed, "settings": entries}
    policy = AccPolicy(trainer.learner.net, settings.template, provenance)
    policy.write(out / POLICY)
    manifest = {
        "reproducible": "yes: the same settings, programs and versions give the same policy",
        "policy_sha256": policy.sha256(),
        **depends_on,
        **report.facts(),
        "episodes_repeated": repeats,
    }
    put(out / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    return policy


def _curve_csv(trainer: Trainer) -> bytes:
    lines = ["episode,scenario,decisions,mean_reward,mean_error,share_at_random"]
    for number, row in enumerate(trainer.curve):
        kind = scenarios.drawn(trainer.settings.seed, number).kind
        lines.append(f"{number + 1},{kind},{row['decisions']},{row['reward']:.6f},{row['error']:.6f},{row['explore']:.6f}")
    return "\n".join([*lines, ""]).encode()
