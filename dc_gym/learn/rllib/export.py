# SPDX-License-Identifier: Apache-2.0
"""`dcgym export`: writes the policy of a training, or of one of its checkpoints, to a file (docs/policy-file.md).

With --onto it writes a policy file's policy for another network, if all hosts or flows share its weights (sets.py).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.base.files import machine_errors
from dc_gym.base.outputs import require_place
from dc_gym.base.terminal import say
from dc_gym.learn.rllib import checkpoints, manifest, ray_session
from dc_gym.nets.agent_policy import AgentPolicy

NAME = "policy.npz"
"""The policy's file name in a training's folder."""


def main(args: Namespace) -> int:
    """Runs `dcgym export DIR|CHECKPOINT|POLICY`."""
    path: Path = args.dir
    if args.onto:
        return _onto(path, args)
    inside = path.parent.name == checkpoints.FOLDER
    folder = path.parent.parent if inside else path
    candidates = [path] if inside else checkpoints.find(folder)[-1:]
    for line in (line for candidate in candidates for line in checkpoints.require_trusted(candidate, trust=args.trust)):
        say(f"dcgym: {line}", file=sys.stderr)
    ray_session.require()
    from dc_gym.learn.rllib import policy

    about = manifest.read(folder)
    checkpoint = candidates[0] if candidates else checkpoints.latest(folder)
    module = _module_of(checkpoint, policy.module_of(about))
    target = args.out or folder / NAME
    if args.out:
        facts = {"algorithm": about["algorithm"], "fingerprint": about["fingerprint"], "seed": about["settings"]["seed"]}
        require_place(target, AgentPolicy.made_of(facts), force=args.force)  # of this training, whatever its number of steps
    with machine_errors("write", target):
        policy.write(module, about, checkpoints.steps_of(checkpoint), target)
    say(target)
    return 0


def _onto(path: Path, args: Namespace) -> int:
    """Writes the policy of a file for the network of a spec."""
    from dc_gym.learn import tasks
    from dc_gym.learn.rllib import sets
    from dc_gym.learn.session import Session
    from dc_gym.run.agent.episode import EpisodeTracker
    from dc_gym.run.agent.file_policy import circumstances
    from dc_gym.spec import load

    if not args.out:
        raise UsageError("--onto: give the file to write with --out")
    policy = AgentPolicy.read(path)
    session = Session(load(Path(tasks.path_of(args.onto)), args.overrides, trust=args.trust))
    names = EpisodeTracker(session.experiment.spec, session.scene).observer.names
    try:
        other = sets.onto(policy, names, session.scene.value_names, circumstances(session.experiment))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    require_place(args.out, AgentPolicy.made_of(other.provenance), force=args.force)
    other.write(args.out)
    say(args.out)
    return 0


def _module_of(checkpoint: Path, name: str) -> Any:
    """Returns the learner's RLModule, whose class RLlib wrote into the checkpoint."""
    from ray.rllib.core.rl_module.rl_module import RLModule

    module_path = checkpoint / "learner_group" / "learner" / "rl_module" / name
    if not module_path.is_dir():
        raise UsageError(f"{checkpoint}: has no policy; give the folder of a training, or one of its checkpoints/iteration-N")
    try:
        return RLModule.from_checkpoint(str(module_path.resolve()))
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{checkpoint}: the algorithm's code is not found ({error}); run it where it was trained") from None
