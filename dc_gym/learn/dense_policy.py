# SPDX-License-Identifier: Apache-2.0
"""Makes a policy file of a net that any library trained on an environment (docs/rl-libraries.md).

    policy_of(env, [(w0, b0), (w1, b1)], activation="tanh").write(Path("policy.npz"))

A run then acts by it: dcgym run SPEC --set controller=policy.npz
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.learn.env import DataCenterEnv
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.run.agent.file_policy import circumstances

__all__ = ["policy_of"]


def policy_of(
    env: Any,
    layers: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
    *,
    activation: str = "tanh",
    output: str = "clip",
    provenance: Mapping[str, Any] | None = None,
) -> AgentPolicy:
    """Returns the policy of a net of dense layers, with the names and bounds of the environment that it was trained on.

    Args:
        env: the environment or the vector of environments, wrapped or not.
        layers: weight [outputs, inputs] and bias [outputs] of each layer, from the observation to the action.
        activation: between the layers: tanh, relu, silu, elu or linear.
        output: the map from the last layer's values to an action: "clip" to the action's bounds, or "tanh" within them.
        provenance: facts on its training, such as {"algorithm": "PPO", "seed": 1}.

    Raises AgentError if the shapes do not fit the environment, or `env` is no environment of dc-gym.
    """
    inner = env.unwrapped
    if isinstance(inner, LabVectorEnv):
        session, episode = inner.sessions[0], inner.episodes[0]
    elif isinstance(inner, DataCenterEnv):
        session, episode = inner.session, inner.episode
    else:
        raise AgentError(f"{type(inner).__name__} is no environment of dc-gym; give one that gymnasium.make or make_vec returned")
    pairs = [(np.asarray(weight, np.float32), np.asarray(bias, np.float32)) for weight, bias in layers]
    return AgentPolicy(
        weights=tuple(weight for weight, _ in pairs),
        biases=tuple(bias for _, bias in pairs),
        low=episode.action.space.low,
        high=episode.action.space.high,
        observation=episode.observer.names,
        hosts=session.scene.value_names,
        activation=activation,
        output=output,
        settings=circumstances(session.experiment),
        provenance=dict(provenance or {}),
    )
