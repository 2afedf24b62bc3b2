# SPDX-License-Identifier: Apache-2.0
"""Hyper-parameters by name. A preset has sections for each algorithm, as in a configuration file (docs/training.md); its `run`
gives defaults.

`iroko-thesis` is Table 2 of Iroko's thesis (Ruffy, UBC 2019). That table does not give discount, nets, replay size and batch of
DDPG, or REINFORCE's batch; these are today's RLlib defaults, or ours where a comment says so. `default` is ours: usual values and
small nets, not tuned. `mended` is `default` with remedies for faults of APPO and DDPG (docs/iroko.md). `ports`
is ours, for many switch ports that share a policy, `marking` for one agent that sets the marking of all, `suite` for the tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown

Sections = Mapping[str, Mapping[str, Any]]

_SMALL = {"fcnet_hiddens": [64, 64]}
_REPLAY = {"type": "PrioritizedEpisodeReplayBuffer", "alpha": 0.6, "beta": 0.4}

_THESIS_PPO = {
    "use_gae": True,
    "lambda_": 1.0,
    "kl_coeff": 0.2,
    "kl_target": 0.01,
    "train_batch_size_per_learner": 1000,  # 4000 for the fat-tree
    "lr": 1e-5,
    "vf_loss_coeff": 1.0,
    "entropy_coeff": 0.0,
    "clip_param": 0.3,
}
_THESIS_DDPG = {
    "ou_theta": 0.15,
    "ou_sigma": 0.2,
    "target_network_update_freq": 0,  # after every update
    "tau": 1e-3,
    "actor_lr": 1e-4,
    "critic_lr": 1e-3,
    "weight_decay": 1e-6,
    "replay_buffer_config": _REPLAY | {"capacity": 50_000},  # the capacity is ours
    "train_batch_size_per_learner": 256,
    "training_intensity": 64.0,  # ours: one update for every four steps
}

_DEFAULT: Mapping[str, Sections] = {
    "PPO": {
        "training": {"lr": 3e-4, "gamma": 0.99, "lambda_": 0.95, "train_batch_size_per_learner": 2000, "num_epochs": 10},
        "model": _SMALL,
    },
    "APPO": {"training": {"lr": 3e-4, "gamma": 0.99, "train_batch_size_per_learner": 500}, "model": _SMALL},
    "SAC": {
        "training": {
            "actor_lr": 3e-4,
            "gamma": 0.99,
            "train_batch_size_per_learner": 128,
            "training_intensity": 32.0,
            "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 100_000},
        },
        "model": _SMALL,
    },
    "DQN": {"training": {"gamma": 0.99, "train_batch_size_per_learner": 128, "training_intensity": 32.0}, "model": _SMALL},
    "DDPG": {
        "training": {"actor_lr": 3e-4, "gamma": 0.99, "train_batch_size_per_learner": 128, "training_intensity": 32.0},
        "model": _SMALL,
    },
    "TD3": {
        "training": {"actor_lr": 3e-4, "gamma": 0.99, "train_batch_size_per_learner": 128, "training_intensity": 32.0},
        "model": _SMALL,
    },
    "REINFORCE": {"training": {"lr": 1e-3, "gamma": 0.99, "train_batch_size_per_learner": 2000}, "model": _SMALL},
}
_MENDED: Mapping[str, Sections] = {
    "APPO": {
        # As many passes over a batch as PPO has, each with the policy of the batch before as the target; RLlib's default is one.
        "training": {
            **_DEFAULT["APPO"]["training"],
            "train_batch_size_per_learner": 1000,
            "num_epochs": 10,
            "minibatch_size": 250,
            "target_network_update_freq": 0.0625,  # times 16 batches, which RLlib's buffer replays
        },
        "model": _SMALL,
    },
    "DDPG": {"training": {**_DEFAULT["DDPG"]["training"], "preactivation_l2": 0.01}, "model": _SMALL},
}

SUITE = "suite"
"""The preset of the tasks of the suite, if no other is given."""
PRESETS: Mapping[str, Mapping[str, Sections]] = {
    "default": _DEFAULT,
    "mended": {**_DEFAULT, **_MENDED},
    "ports": {
        "PPO": {
            "training": {
                "lr": 5e-4,
                "gamma": 0.8,  # a port's queue follows a change within few steps
                "lambda_": 0.9,
                "train_batch_size_per_learner": 500,  # steps of the network, with an action of each port in each
                "minibatch_size": 500,
                "num_epochs": 4,
            },
            "model": _SMALL,
        },
    },
    "marking": {
        "PPO": {
            "training": {
                "lr": 5e-4,
                "gamma": 0.5,
                "lambda_": 0.9,
                "train_batch_size_per_learner": 400,
                "minibatch_size": 100,
                "num_epochs": 8,
            },
            "model": _SMALL,
        },
    },
    SUITE: {
        "PPO": {
            "run": {"steps": 40_000, "labs": 8, "evaluate_every": 5, "evaluate_episodes": 5},
            "training": {
                "lr": 3e-3,
                "gamma": 0.9,
                "lambda_": 0.5,  # what comes next is often beyond what is observed, and a step's effect shows within few
                "train_batch_size_per_learner": 1000,
                "minibatch_size": 250,
                "num_epochs": 10,
                "clip_param": 0.2,
                "use_kl_loss": False,
                "vf_clip_param": 1e9,  # RLlib's 10 cuts off the gradient of errors above 3, where returns are in the tens
            },
            "model": _SMALL | {"net": "sets", "hidden": [32, 32], "log_std": -0.3, "value_scale": 10.0},
        },
    },
    "iroko-thesis": {
        "PPO": {"training": _THESIS_PPO | {"minibatch_size": 128}},
        "APPO": {"training": _THESIS_PPO},
        "DDPG": {"training": _THESIS_DDPG, "model": _SMALL},
        "REINFORCE": {"training": {"lr": 1e-4, "train_batch_size_per_learner": 2000}},
    },
}


def find(preset: str, algorithm: str) -> Sections:
    """Returns the sections for an algorithm. A user's own algorithm has no default sections."""
    if preset not in PRESETS:
        raise UsageError(unknown("preset", preset, PRESETS))
    sections = PRESETS[preset]
    if algorithm in sections:
        return sections[algorithm]
    if preset == "default":
        return {}
    raise UsageError(f"preset {preset!r} has nothing for {algorithm}; it has: {', '.join(sections)}")
