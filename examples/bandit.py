# SPDX-License-Identifier: Apache-2.0
"""A policy that learns while the run goes on: each switch port tries a few thresholds and keeps to the one that pays best.

Each port is an agent of its own (agent.agents = "ports"), with its own Bandit, its own random numbers and its own memory, which the
result keeps in learned.npz. It is an epsilon-greedy bandit: with probability `EXPLORE`, halved every `HALF_LIFE` steps, it tries any
threshold, otherwise the best so far.

    dcgym run examples/bandit.toml --out results/bandit
"""

import numpy as np

THRESHOLDS = 6
EXPLORE, HALF_LIFE = 0.8, 100
GAIN = 0.1


class Bandit:
    def __init__(self, context):
        self._random = np.random.default_rng(context.seed)
        self._value = np.zeros(THRESHOLDS)
        self._tries = np.zeros(THRESHOLDS, np.int64)
        self._chosen = 0
        start = context.scene.start  # [kmin, kmax, pmax] of this port
        high = context.scene.actuated[0].high[0]
        steps = np.geomspace(1514, high[0] / 4, THRESHOLDS)
        self._actions = [context.action.from_values(np.array([k, k, start[2]])) for k in steps]

    def act(self, observation, frame):
        explore = EXPLORE * 0.5 ** (self._tries.sum() / HALF_LIFE)
        if self._random.random() < explore:
            self._chosen = int(self._random.integers(THRESHOLDS))
        else:
            self._chosen = int(self._value.argmax())
        return self._actions[self._chosen]

    def observe(self, reward, observation):
        self._tries[self._chosen] += 1
        self._value[self._chosen] += GAIN * (reward - self._value[self._chosen])

    def state(self):
        return {"value": self._value, "tries": self._tries}
