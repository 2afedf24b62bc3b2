# SPDX-License-Identifier: Apache-2.0
"""Arrays for the C library of steps: the constants of a network, its observation and its rewards.

All features of observation.py but those of flows, and most rewards, are computed there. The rest, and users' features, are left
to Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.learn.native import ELEMENT, NETWORK, NO_RATES, Element, RewardKind, address
from dc_gym.monitors.state_matrix import COLUMNS
from dc_gym.run.agent.frame import PLACES, Rows
from dc_gym.run.agent.observation import Observer, Part
from dc_gym.run.agent.reward import WeightedReward
from dc_gym.run.agent.scene import Scene

COUNTED = {
    "marks": ("marks", True),
    "drops": ("drops", True),
    "utilization": ("tx_bytes", False),
    "ce": ("ce_bytes", False),
}
"""Features that divide the change of a column by the line's capacity: the column, and whether it counts frames."""
TIMES = {"mean_backlog": "queue_byte_ns", "busy": "busy_ns", "paused": "paused_ns"}
"""Features that are the change of a column for each ns: the column."""
OF_HOSTS = {
    "srtt": Element.SRTT,
    "rtt_min": Element.RTT_MIN,
    "cwnd": Element.CWND,
    "retransmits": Element.RETRANSMITS,
    "goodput": Element.GOODPUT,
}
REWARDS = {
    "goodput": RewardKind.GOODPUT,
    "queueing_delay": RewardKind.QUEUEING_DELAY,
    "switch_delay": RewardKind.SWITCH_DELAY,
    "thesis": RewardKind.THESIS,
    "joint_queue": RewardKind.THESIS,
    "thesis_all": RewardKind.THESIS_ALL,
    "action": RewardKind.ACTION,
    "port_utilization": RewardKind.PORT_UTILIZATION,
    "port_delay": RewardKind.PORT_DELAY,
    "drops": RewardKind.DROPS,
}


@dataclass(frozen=True, slots=True)
class PythonPart:
    """A part of the observation that Python computes."""

    part: Part
    place: slice
    """Its elements within one frame of the observation."""


class Network:
    """The struct network of one scene with one observation and one reward."""

    def __init__(self, scene: Scene, observer: Observer, mix: WeightedReward) -> None:
        self.scene, self.observer, self.mix = scene, observer, mix
        elements, python = _elements(scene, observer)
        self.elements, self.python_parts = elements, tuple(python)
        self.kinds = tuple(REWARDS.get(reward.name, RewardKind.NONE) for _, reward in mix.terms)
        self.python_rewards = tuple(number for number, kind in enumerate(self.kinds) if kind is RewardKind.NONE)
        self.size = sum(actuated.low.size for actuated in scene.actuated)
        """The number of values that are set."""
        self._kept = {
            "element": elements,
            "reward": np.array(self.kinds, np.uint32),
            "weight": np.array([weight for weight, _ in mix.terms], np.float64),
            "rate_bps": np.ascontiguousarray(scene.rate_bps, np.float64),
            "buffer_bytes": np.ascontiguousarray(scene.buffer_bytes, np.float64),
            "line_bps": np.ascontiguousarray(scene.line_bps, np.float64),
            "floor_bps": np.ascontiguousarray(scene.floor_bps, np.float64),
            "host_row": np.ascontiguousarray(scene.host_row, np.int64),
            "command": np.zeros(self.size, np.uint32),
        }
        self.record = np.zeros(1, NETWORK)
        fields: Any = self.record[0]
        fields["rows"], fields["ports"], fields["switch_rows"] = len(scene.rows), len(scene.ports), scene.switch_rows.stop
        fields["values"], fields["hosts"] = self.size, len(scene.hosts)
        fields["elements"], fields["history"] = len(elements), observer.history
        fields["rewards"], fields["rate_place"] = len(self.kinds), NO_RATES if scene.rates is None else scene.rates.start
        fields["base_rtt_ns"], fields["frame_bytes"] = scene.base_rtt_ns, scene.frame_bytes
        for name, array in self._kept.items():
            fields[name] = address(array)

    def place_commands(self, offsets: npt.NDArray[np.uint32]) -> None:
        """Sets where each value is in the commands of a lab. All labs of one scene have them in the same places."""
        self._kept["command"][:] = offsets


def _elements(scene: Scene, observer: Observer) -> tuple[npt.NDArray[np.void], list[PythonPart]]:
    """Returns the elements of one frame, and the parts that are left to Python."""
    count = sum(len(part.rows) for part in observer.parts)
    elements, python, first = np.zeros(count, ELEMENT), [], 0
    for part in observer.parts:
        span = slice(first, first + len(part.rows))
        part_elements = elements[span]
        part_elements["scale"] = part_elements["divisor"] = part_elements["rate_bps"] = 1.0
        part_elements["low"], part_elements["high"] = part.feature.low, part.feature.high
        if not (_set(part_elements, part, scene) or _set_setting(part_elements, part, scene)):
            python.append(PythonPart(part, span))
        first = span.stop
    return elements, python


def _set(out: npt.NDArray[np.void], part: Part, scene: Scene) -> bool:
    """Sets the elements of a part. Returns False if the library lacks its feature."""
    name, rows = part.feature.name, part.rows
    scene, at = part.scene(scene), rows - part.first
    if name in ("backlog", "backlog_change"):
        out["kind"] = Element.LEVEL if name == "backlog" else Element.CHANGE
        out["place"], out["divisor"] = _cells(rows, "backlog_bytes"), scene.buffer_bytes[at]
    elif name == "longest_backlog":
        out["kind"], out["place"], out["divisor"] = Element.LEVEL, _cells(rows, "longest_bytes"), scene.buffer_bytes[at]
    elif name in TIMES:
        out["kind"], out["place"] = Element.MEAN, _cells(rows, TIMES[name])
        out["divisor"] = scene.buffer_bytes[at] if name == "mean_backlog" else 1.0
    elif name in COUNTED:
        column, in_frames = COUNTED[name]
        factor = scene.frame_bytes if in_frames else 1
        out["kind"], out["place"], out["scale"] = Element.CHANGE, _cells(rows, column), factor
        out["divisor"], out["rate_bps"] = 0, scene.rate_bps[at]
    elif name in ("tx_rate", "rx_rate"):
        out["kind"], out["place"] = Element.CHANGE, _cells(rows if name == "tx_rate" else scene.peer_row[rows], "tx_bytes")
        out["divisor"], out["rate_bps"] = 0, scene.fastest_bps
    elif name == "active_flows":
        out["kind"], out["place"] = Element.SHARE, _cells(rows, "active_flows")
    elif name in OF_HOSTS:
        out["kind"], out["place"] = OF_HOSTS[name], rows
        if name == "cwnd":
            out["divisor"] = np.maximum(scene.line_bps * scene.base_rtt_ns / 8e9, scene.frame_bytes)[rows]
        elif name in ("retransmits", "goodput"):
            out["divisor"], out["rate_bps"] = 0, scene.rate_bps[scene.host_row[rows]]
    elif name == "enforced":
        out["kind"] = Element.ONE
        if scene.rates is not None:
            out["kind"], out["place"], out["divisor"] = Element.FORCE, scene.rates.start + rows, scene.line_bps[rows]
    else:
        return False
    return True


def _set_setting(out: npt.NDArray[np.void], part: Part, scene: Scene) -> bool:
    """Sets the elements of a quantity that agents set (observation.setting). Returns False if the part is none."""
    if part.feature.setting is None:
        return False
    actuator, number = part.feature.setting
    actuated = next(actuated for actuated in scene.actuated if actuated.actuator.name == actuator)
    order = {int(row): port for port, row in enumerate(actuated.rows)}
    ports = np.array([order[int(row)] for row in part.rows], np.int64)
    out["kind"], out["divisor"] = Element.FORCE, actuated.high[ports, number]
    out["place"] = actuated.place.start + ports * actuated.low.shape[1] + number
    return True


def _cells(rows: Rows, column: str) -> npt.NDArray[np.int64]:
    return rows.astype(np.int64) * len(COLUMNS) + PLACES[column]
