# SPDX-License-Identifier: Apache-2.0
"""RTT inflation over the number of flows, against RL-CC's eq. 2 and against the best a + b sqrt(N) (its figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dc_gym.methods.rlcc.decision import Scaling


@dataclass(frozen=True, slots=True)
class Root:
    """The curve a + b sqrt(N)."""

    a: float
    b: float

    def __call__(self, flows: float) -> float:
        return float(self.a + self.b * np.sqrt(flows))


def law(offset: float = 0.0, scaling: Scaling = Scaling()) -> Root:  # noqa: B008
    """Returns eq. 2, beta + target sqrt(N), of the paper's numbers, for a policy that rests `offset` targets above its own."""
    return Root(scaling.beta, scaling.target * (1 + offset))


EQ_2 = law()


def best_fit(measured: Mapping[int, float]) -> Root:
    """Fits the curve by least squares of relative errors, so that few flows count as much as many.

    `measured`: inflation by number of flows.
    """
    flows, values = np.array(list(measured), float), np.array(list(measured.values()))
    terms = np.stack([np.ones_like(flows), np.sqrt(flows)], axis=1) / values[:, None]
    (a, b), *_ = np.linalg.lstsq(terms, np.ones_like(values), rcond=None)
    return Root(float(a), float(b))


def departures(measured: Mapping[int, float], curve: Root) -> dict[int, float]:
    """Returns relative deviations by number of flows; positive values are above the curve."""
    return {flows: value / curve(flows) - 1 for flows, value in measured.items()}
