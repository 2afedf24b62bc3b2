# SPDX-License-Identifier: Apache-2.0
"""The action template of ACC (Yan et al., SIGCOMM 2021) as data: the settings of (Kmin, Kmax, Pmax) among which an agent chooses,
how often it decides, and how many samples it sees. With the levels E(n) of section 3.3, on which its reward counts a queue.

A template has a name, or is a TOML file:

    interval = "500us"
    history = 5
    actions = [["20kB", "20kB", "100%"], ["20kB", "80kB", "20%"]]

The paper prints two designs. Section 3.3: three samples of four features, and every pair of a Kmin and a Kmax with each of 21
values of Pmax. Section 6: a net 20-40-40-20, so five samples of four features and 20 actions, once in 500 us. It does not say
which 20 actions these are.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base import bounded
from dc_gym.base.errors import AgentError, TestbedError, with_remedy
from dc_gym.base.spelling import unknown
from dc_gym.base.units import PPM, format_size, format_time, parse_share, parse_size_bytes, parse_time_ns
from dc_gym.methods.acc import settings

Floats = npt.NDArray[np.float64]
LEVEL_BYTES = tuple(20_000 * 2**n for n in range(10))
"""E(n), n = 0 .. 9: 20 kB to 10.24 MB."""
FEATURES = 4
"""Values of a sample: queue, rate, rate of marked frames, setting."""
LEVELS, LINEAR = SCALES = ("levels", "linear")
"""The form of a queue as an input: its place among the levels E(n), or its share of E(9)."""
MOST_HISTORY, MOST_ACTIONS = 64, 4096
KEYS = ("interval", "history", "queue", "actions")
GUIDE = "docs/acc.md shows a template"


@dataclass(frozen=True, slots=True)
class Template:
    """A template. Its actions are checked at construction."""

    name: str
    interval_ns: int
    """The time between two decisions, before topology.scale."""
    history: int
    """The number of samples that the agent sees, k in the paper."""
    actions: tuple[tuple[int, int, int], ...]
    """(Kmin in bytes, Kmax in bytes, Pmax in ppm) of each action. The number of an action is its place here."""
    queue: str = LEVELS

    def __post_init__(self) -> None:
        if self.interval_ns < 1:
            raise self._wrong(f"interval {format_time(self.interval_ns)} is none; give one such as 500us")
        if not 1 <= self.history <= MOST_HISTORY:
            raise self._wrong(f"history must be 1 to {MOST_HISTORY} (got {self.history})")
        if self.queue not in SCALES:
            raise self._wrong(unknown("queue", self.queue, SCALES))
        if not 2 <= len(self.actions) <= MOST_ACTIONS:
            raise self._wrong(f"{len(self.actions)} actions; give 2 to {MOST_ACTIONS}")
        for number, action in enumerate(self.actions):
            self._check(number, *action)
            if (first := self.actions.index(action)) < number:
                raise self._wrong(f"action {number} is the same as action {first}; take one out")

    def _check(self, number: int, kmin_bytes: int, kmax_bytes: int, pmax_ppm: int) -> None:
        if kmin_bytes < 1:
            raise self._wrong(f"action {number}: Kmin {format_size(kmin_bytes)} is no threshold; give 1B or more")
        if kmin_bytes > kmax_bytes:
            sizes = f"Kmin {format_size(kmin_bytes)} is above Kmax {format_size(kmax_bytes)}"
            raise self._wrong(f"action {number}: {sizes}; lower it, or raise Kmax")
        if not 0 < pmax_ppm <= PPM:
            raise self._wrong(f"action {number}: Pmax must be above 0% and at most 100% (got {pmax_ppm} ppm)")

    def _wrong(self, why: str) -> AgentError:
        return AgentError(f"template {self.name}: {why}")

    @property
    def inputs(self) -> int:
        """The number of inputs of a net for this template."""
        return FEATURES * self.history

    @property
    def table(self) -> npt.NDArray[np.int64]:
        """The actions as [actions, 3]."""
        return np.array(self.actions, np.int64)

    @property
    def lowest_bytes(self) -> int:
        """The lowest Kmin: no action marks a queue that stays below it."""
        return min(kmin_bytes for kmin_bytes, _, _ in self.actions)

    def queue_input(self, queue_bytes: Floats) -> Floats:
        """Returns queues as inputs of the net, from 0 to 1."""
        return level(queue_bytes) if self.queue == LEVELS else np.minimum(queue_bytes / LEVEL_BYTES[-1], 1.0)

    def nearest(self, kmin_bytes: float, kmax_bytes: float, pmax_ppm: float) -> int:
        """Returns the number of the action nearest to a marking: thresholds count in levels, Pmax as a share."""
        actions = self.table.astype(np.float64)
        far = np.abs(level(actions[:, 0]) - level(np.array([kmin_bytes], np.float64)))
        far += np.abs(level(actions[:, 1]) - level(np.array([kmax_bytes], np.float64))) + np.abs(actions[:, 2] - pmax_ppm) / PPM
        return int(far.argmin())

    def difference(self, other: Template) -> str:
        """Describes the differences to another template; empty if both decide alike. Names do not count."""
        if self.interval_ns != other.interval_ns:
            return f"decides each {format_time(self.interval_ns)}, not {format_time(other.interval_ns)}"
        if self.history != other.history:
            return f"sees {self.history} samples, not {other.history}"
        if self.queue != other.queue:
            return f"sees queues as {self.queue}, not {other.queue}"
        if len(self.actions) != len(other.actions):
            return f"has {len(self.actions)} actions, not {len(other.actions)}"
        for number, (own_action, other_action) in enumerate(zip(self.actions, other.actions, strict=True)):
            if own_action != other_action:
                return f"has action {number} = {told(own_action)}, not {told(other_action)}"
        return ""


def told(action: tuple[int, int, int]) -> str:
    """Returns an action as text."""
    kmin_bytes, kmax_bytes, pmax_ppm = action
    return f"{format_size(kmin_bytes)} .. {format_size(kmax_bytes)}, {pmax_ppm / (PPM / 100):g} %"


def level(queue_bytes: Floats) -> Floats:
    """Returns the place of queues among the levels: 0 if empty, (n + 1) / 10 at E(n), linear between two levels, at most 1."""
    ends = np.array((0, *LEVEL_BYTES), np.float64)
    capped = np.minimum(queue_bytes, ends[-1])
    above = np.maximum(np.searchsorted(ends, capped), 1)
    low, high = ends[above - 1], ends[above]
    levels: Floats = (above - 1 + (capped - low) / (high - low)) / len(LEVEL_BYTES)
    return levels


def step_worth(queue_bytes: Floats) -> Floats:
    """Returns D(L), design 2 of the paper's appendix: 1 - n / 10 with the smallest n such that E(n) >= L.

    Above E(9) the paper defines none. It is 0 here.
    """
    worths: Floats = 1.0 - np.searchsorted(np.array(LEVEL_BYTES, np.float64), queue_bytes) / len(LEVEL_BYTES)
    return worths


def linear_worth(queue_bytes: Floats) -> Floats:
    """Returns D(L), design 1 of the paper's appendix: it falls from 1 at an empty queue to 0 at E(9)."""
    worths: Floats = 1.0 - np.minimum(queue_bytes / LEVEL_BYTES[-1], 1.0)
    return worths


WORTHS = {settings.STEP: step_worth, settings.LINEAR: linear_worth}
"""D(L) by the name of its design."""


def _deployed() -> tuple[tuple[int, int, int], ...]:
    """Returns 20 actions, the most eager first. They are ours.

    Kmin takes all ten levels. From each a step (Kmax = Kmin, 100 %) and a slope to four times Kmin with 20 %, which are the ratio
    and the probability of SECN2; the last level has the step alone. One more is the nearest to SECN1: 20 .. 160 kB, 1 %.
    """
    actions = []
    for n, low in enumerate(LEVEL_BYTES):
        actions.append((low, low, PPM))
        if n < len(LEVEL_BYTES) - 1:
            actions.append((low, LEVEL_BYTES[min(n + 2, len(LEVEL_BYTES) - 1)], PPM // 5))
        if n == 0:
            actions.append((low, LEVEL_BYTES[3], PPM // 100))
    return tuple(actions)


def _section_3() -> tuple[tuple[int, int, int], ...]:
    """Returns all of section 3.3: 30 pairs of Kmin = E(n) and Kmax of 1, 2, 5 and 10 MB, each with 21 values of Pmax."""
    percents = (1, *range(5, 101, 5))
    pairs = [(low, high) for low, high in product(LEVEL_BYTES, (10**6, 2 * 10**6, 5 * 10**6, 10**7)) if low <= high]
    return tuple((low, high, percent * PPM // 100) for low, high in pairs for percent in percents)


DEPLOYED = Template(settings.DEPLOYED, 500_000, 5, _deployed())
SECTION_3 = Template(settings.SECTION_3, 60_000, 3, _section_3())
"""Section 3.3 decides once in about 10 round trips, which are 23 to 61 us in the paper's testbed."""
TEMPLATES = {template.name: template for template in (DEPLOYED, SECTION_3)}


def template_of(source: str | Path) -> Template:
    """Returns the template of a name or a file."""
    if isinstance(source, Path):
        return read(source)
    if source not in TEMPLATES:
        raise AgentError("controller.template: " + unknown("template", source, [*TEMPLATES, "FILE.toml"]))
    return TEMPLATES[source]


def read(path: Path) -> Template:
    """Returns the template of a TOML file. Raises AgentError, in one line, if it is none."""
    try:
        table = tomllib.loads(bounded.read_text(path))
    except OSError as error:
        raise AgentError(f"{path}: cannot read the template: {with_remedy(error, 'give a name or a TOML file')}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AgentError(f"{path}: is no TOML ({' '.join(str(error).split())}); {GUIDE}") from None
    if odd := [name for name in table if name not in KEYS]:
        raise AgentError(f"{path}: " + unknown("key", odd[0], KEYS))
    if missing := [name for name in KEYS if name not in table and name != "queue"]:
        raise AgentError(f"{path}: {missing[0]} is missing; {GUIDE}")
    try:
        interval_ns, history = parse_time_ns(table["interval"], "interval"), table["history"]
        if type(history) is not int:
            raise AgentError(f"history {history!r} is no whole number; give one such as 5")
        actions = tuple(_action(number, entry) for number, entry in enumerate(_list_of(table["actions"])))
        return Template(path.name, interval_ns, history, actions, str(table.get("queue", LEVELS)))
    except TestbedError as error:
        raise AgentError(f"{path}: {error}") from None


def _list_of(actions: Any) -> list[Any]:
    if not isinstance(actions, list):
        raise AgentError(f"actions is no list of [Kmin, Kmax, Pmax]; {GUIDE}")
    return actions


def _action(number: int, entry: Any) -> tuple[int, int, int]:
    if not isinstance(entry, list) or len(entry) != 3:
        raise AgentError(f'action {number} is not [Kmin, Kmax, Pmax]; write it like ["20kB", "80kB", "20%"]')
    label = f"action {number}"
    kmin_bytes, kmax_bytes = (parse_size_bytes(threshold, label) for threshold in entry[:2])
    return kmin_bytes, kmax_bytes, parse_share(entry[2], PPM, label)
