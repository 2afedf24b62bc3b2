# SPDX-License-Identifier: Apache-2.0
"""`dcgym train fluid|lab --agents flows`: the subject of the training in place of a spec, and a frozen policy's closed loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import hint
from dc_gym.methods.rlcc import on_lab
from dc_gym.methods.rlcc.flows import Case
from dc_gym.nets import fluid
from dc_gym.nets.decision import INPUTS, Floats, Scaling
from dc_gym.nets.fluid import Bottleneck
from dc_gym.rl.environment import Task, register_maker
from dc_gym.rl.evaluation import Episode
from dc_gym.rl.flow_runners import DeltaRunner, EpisodeRunner, to_factors
from dc_gym.rl.flows import CASE, FlowsMultiAgentEnv
from dc_gym.rl.lab_runner import LABS, LabRunner
from dc_gym.rl.settings import CENTRAL, Settings

LAB = "lab"
OF_LABS = ("preset", "episode", "trips", "later", "scene")
"""The fields of on_lab.Settings that are recorded; RLlib's settings replace the others."""
ALGORITHMS = ("RLCC", "PPO", "SAC", "DDPG", "TD3")
"""The algorithms that learn from pieces of episodes and have continuous actions."""
TOTALS = ("flows", "inflation", "spread", "rates", "least", "jain", "lost")
"""The fields of a fluid.Outcome that become totals."""
TRIED = (2, 4, 8, 32, 128)
"""The numbers of flows in the closed loop."""
TRIPS, PARTS = 400, 8
"""The closed loop's length in base round trips, of which the second half counts, and its steps in a base round trip: a real round
trip's lag."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a training, in place of a spec."""

    algorithm: str
    case: Case = field(default_factory=Case)
    labs: on_lab.Settings | None = None
    """The settings of a training in labs; None: training on the model."""

    @property
    def ground(self) -> str:
        return LAB if self.labs else self.case.ground

    def to_dict(self) -> dict[str, Any]:
        told = asdict(self.case)
        if self.labs:
            own = asdict(self.labs)
            told = {"ground": LAB, "scaling": told["scaling"]} | {name: own[name] for name in OF_LABS}
        plain: dict[str, Any] = json.loads(json.dumps(told))
        return plain


def subject(ground: str, algorithm: str, overrides: Sequence[str]) -> Subject:
    """Returns the subject that the command line asks for."""
    name = algorithm.upper()
    if name not in ALGORITHMS:
        raise UsageError(f"--algo {algorithm}: does not train flows; {hint(name, ALGORITHMS)}")
    if overrides:
        raise UsageError(f"--set {overrides[0]}: is for specs, and --agents flows has none")
    if ground != LAB:
        return Subject(name, Case(ground))
    if name != "RLCC":
        raise UsageError(f"--algo {algorithm}: explores, and a NIC in a lab runs a table and throws no dice; train it on fluid")
    return Subject(name, labs=on_lab.Settings())


def register(subject: Any, told: Settings) -> Task:
    """Registers the environment of a subject, as dc_gym.rl.environment.register does for a spec."""
    if told.levels or told.agents != CENTRAL:
        raise UsageError(f"run: levels = {told.levels}, agents = {told.agents!r}: flows act in numbers, one each; leave both out")
    alike = tuple((flows, told.labs) for flows in subject.case.flows)
    case = replace(subject.case, model=replace(subject.case.model, bottlenecks=alike, seed=told.seed))
    name = f"dcgym-flows-{subject.ground}"
    register_maker(name, lambda config: FlowsMultiAgentEnv({CASE: case}))
    runner: Any = DeltaRunner if subject.algorithm == "RLCC" else EpisodeRunner
    return Task(
        name,
        case.observation_space(),
        case.action_space(),
        INPUTS,
        ("flow",),
        {"observe": "rlcc", "history": 1, "action": "factor"},
        runner=LabRunner if subject.labs else runner,
        config={CASE: case, LABS: subject.labs},
        evaluation=ClosedLoop,
        boots=subject.labs is not None,
    )


class ClosedLoop:
    """Evaluates a policy without exploration on bottlenecks with few and many flows. Each bottleneck gives one `Episode`."""

    def __init__(self, ray: Any, config: Any, tasks: Mapping[str, Task], seeds: Sequence[int]) -> None:
        self._case: Case = config.env_config[CASE]

    def run(self, algorithm: Any) -> list[Episode]:
        policy = factors_of(algorithm.get_module())
        return [self._episode(settled(policy, flows, self._case.scaling)) for flows in TRIED]

    def _episode(self, found: fluid.Outcome) -> Episode:
        scaling = self._case.scaling
        law = float(scaling.inflation(found.flows))
        reward = float(self._case.rewards(scaling.error(found.inflation, 1.0 / found.flows)))
        totals = {name: float(getattr(found, name)) for name in TOTALS}
        return Episode("train", 1, reward, TRIPS * PARTS, totals | {"inflation_over_eq_2": found.inflation / law})

    def close(self) -> None:
        pass


def settled(policy: fluid.Policy, flows: int, scaling: Scaling) -> fluid.Outcome:
    """Returns the outcome of `flows` flows under a policy."""
    return fluid.settle(policy, Bottleneck(flows, parts=PARTS), scaling, TRIPS)


def factors_of(module: Any) -> Callable[[Floats], Floats]:
    """Returns a module's policy without exploration: it maps inputs [rows, 4] to factors of the rate."""

    def policy(inputs: Floats) -> Floats:
        with torch.no_grad():
            out = module.forward_inference({Columns.OBS: torch.from_numpy(np.asarray(inputs, np.float32))})
            if Columns.ACTIONS not in out:
                chosen = module.get_inference_action_dist_cls().from_logits(out[Columns.ACTION_DIST_INPUTS])
                out[Columns.ACTIONS] = chosen.to_deterministic().sample()
        return to_factors(out[Columns.ACTIONS].numpy()[..., 0])

    return policy
