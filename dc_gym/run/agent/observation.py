# SPDX-License-Identifier: Apache-2.0
"""Observations: named features of ports, hosts or flows, normalised by physical constants, in one flat vector.

A feature is one function of a Frame and its Scene and one call of `register`, here or in a user's file; `dcgym list features`
lists them. agent.observe is a comma list of presets and features. A prefix `switch:`, `host:`, `all:` or a pattern of port names
such as `s1-*:` chooses the rows of a port feature; `class:` or a pattern of class names such as `s1-*:rdma:` chooses classes of
ports, which some features have, too:

    default                      backlog, backlog_change, marks, utilization of all ports, and the enforced rates
    switch:backlog,srtt          the backlogs of switch ports, then the srtt of every host that acts
    class:backlog                the backlogs of all classes of all ports
    s1-*:rdma:marks              the marks of the class rdma of the ports of s1
    kmin,kmax,pmax               the values in force at the ports and classes where agents set the marking
    flow:srtt,clamp              the srtt of every flow that agents set, and its largest window

Each quantity of an actuator is a feature of the ports or flows where agents set it: the value in force over its upper bound.
Features of flows have the prefix `flow:` in their names. They are 0 while the flow is not under way.

The vector holds one feature after another, each in the order of Scene.rows, Scene.hosts or the flows. With a history, the oldest
frame comes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isnan

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.base import usercode
from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.ctrl import actuators
from dc_gym.ctrl.actuators.actuator import FLOW
from dc_gym.ctrl.actuators.selection import CLASS, nothing_called, of_classes
from dc_gym.run.agent.frame import Floats, Frame, Rows
from dc_gym.run.agent.measures import carried_bytes, occupancy
from dc_gym.run.agent.ranges import tell_outside
from dc_gym.run.agent.scene import RATE, ActuatedRows, Scene

Vector = npt.NDArray[np.float32]
Compute = Callable[[Frame, Scene], Floats]
KINDS = ("port", "host", FLOW)
MOST_RTTS = 100.0
"""The clipping bound of times in round trips and of windows in bandwidth-delay products."""
DOUBLINGS = 20
"""The doublings of a full frame that are the largest size of a flow, for the feature flow:left."""
OF_FLOW = "flow:"
OVER_LINE = "over what the line carries in the step (at least one frame)"
OF_PORT = "0 at a host and at a stock queue"
FULL_FRAMES = f"over the step, as full frames, {OVER_LINE}"


@dataclass(frozen=True, slots=True)
class Feature:
    """One value for each port, for each host that acts, or for each flow that agents set."""

    name: str
    kind: str
    """"port": `compute` returns [ports] of the scene. "host": it returns [hosts], a value of the host's egress or over the host's
    running flows. "flow": it returns a value for each flow of the episode."""
    low: float
    """The lower bound. Values outside low..high are clipped."""
    high: float
    formula: str
    """The formula in words, with its normalisation."""
    compute: Compute
    flows: bool = True
    """True if the feature reads sampled values of flows: counts, windows, round trips. Starts and ends of flows are known without
    samples."""
    setting: tuple[str, int] | None = None
    """The actuator and number of a quantity that agents set; None for other features. `compute` then returns [rows], or of flows
    a value for each that agents set."""
    classes: bool = False
    """True if classes of ports have it, too: `compute` also takes Frame.of_classes and Scene.of_classes."""


_registry: dict[str, Feature] = {}


def register(
    name: str, kind: str, low: float, high: float, formula: str, compute: Compute, *, flows: bool = True, classes: bool = False
) -> None:
    """Registers a feature. Each name can be registered once.

    Args:
        name: Its name in agent.observe. Of flows it begins with `flow:`.
        kind: "port", "host" or "flow": one value for each.
        low: The smallest value; smaller ones are clipped.
        high: The largest value; larger ones are clipped.
        formula: The definition in words, for lists and pages.
        compute: `compute(frame, scene)` returns an array with a value for each port, acting host or flow of the episode.
        flows: False saves the lab from sampling every flow in each step.
        classes: Classes of ports have the feature, too.

    Raises:
        AgentError: The name is taken, or the function has other parameters.
    """
    if kind not in KINDS:
        raise AgentError(unknown(f"kind of feature {name!r}", kind, KINDS))
    if name in _registry or name in PRESETS:
        raise AgentError(f"feature {name!r} is registered already; choose another name")
    if (kind == FLOW) != name.startswith(OF_FLOW):
        raise AgentError(
            f"feature {name!r} is of kind {kind!r}; let names of kind {FLOW!r}, and no others, begin with {OF_FLOW!r}"
        )
    if not (np.isfinite([low, high]).all() and low < high):
        raise AgentError(f"feature {name!r}: bounds {low}..{high} are not finite and ascending; give others")
    usercode.check_call(AgentError, f"feature {name!r}", compute, "frame", "scene")
    if classes and kind != "port":
        raise AgentError(f"feature {name!r} is of hosts, which have no classes; leave out classes, or make it one of ports")
    _registry[name] = Feature(name, kind, low, high, formula, compute, flows, classes=classes)


def features() -> tuple[Feature, ...]:
    """Returns all features, in the order of registration."""
    return tuple(_registry.values())


def reads_flows(text: str) -> bool:
    """Returns whether the observation needs samples of flows."""
    names = {part.rpartition(":")[2].strip() for item in text.split(",") for part in PRESETS.get(item.strip(), item).split(",")}
    settings = {
        quantity.name for actuator in map(actuators.find, actuators.names()) if actuator for quantity in actuator.quantities
    }
    return any(_registry[name].flows if name in _registry else name not in settings for name in names)


@dataclass(frozen=True, slots=True)
class Part:
    """One item of agent.observe: a feature of some rows."""

    key: str
    """The item as it is written in agent.observe, such as switch:backlog."""
    feature: Feature
    rows: Rows
    """The rows of the state matrix, the hosts, or the flows."""
    names: tuple[str, ...]
    first: int = 0
    """The row of the network's first class if these are classes; otherwise 0."""

    @property
    def at(self) -> Rows | slice:
        """The places of the rows in `values`, as a slice if they are neighbours, which gives a view without a copy."""
        places = self.rows - self.first
        first, last = int(places[0]), int(places[-1])
        return slice(first, last + 1) if np.array_equal(places, np.arange(first, last + 1)) else places

    def scene(self, scene: Scene) -> Scene:
        """Returns the scene that the feature is computed with."""
        return (self.first and scene.of_classes) or scene

    def values(self, frame: Frame, scene: Scene) -> Floats:
        """Returns the values of the feature before clipping: for every port, class or host that acts.

        Args:
            frame: The step.
            scene: The scene.

        Returns:
            [ports], [classes], [hosts] or flows that agents set; of a quantity that agents set, a value for every row.
        """
        values = self.feature.compute(frame.of_classes if self.first else frame, self.scene(scene))
        feature = self.feature
        numbers = _checked(values, feature, self.scene(scene), len(frame.info))
        if feature.kind == FLOW and feature.setting is None:
            numbers = scene.on_flows(numbers, frame)
        if feature.setting is None:
            tell_outside(f"feature {feature.name}", numbers, feature.low, feature.high, "it is clipped; register another range")
        return numbers


def parse(text: str, scene: Scene) -> tuple[Part, ...]:
    """Returns the items of a comma list such as "default,switch:backlog".

    Args:
        text: The list.
        scene: The scene whose ports and quantities it names.

    Raises:
        AgentError: A name is unknown.
    """
    items = [item.strip() for item in text.split(",")]
    expanded = [selector for item in items for selector in PRESETS.get(item, item).split(",")]
    if "" in expanded:
        raise AgentError(f"agent.observe: {text!r} has an empty item; write it like 'switch:backlog,srtt', or name a preset")
    parts = tuple(_part(item, scene) for item in expanded)
    seen: set[str] = set()
    for name in (name for part in parts for name in part.names):
        if name in seen:
            raise AgentError(f"agent.observe: {text!r} has {name} twice; take one out")
        seen.add(name)
    return parts


def _part(item: str, scene: Scene) -> Part:
    rows_of, colon, name = item.rpartition(":")
    if item in _registry and _registry[item].kind == FLOW:
        return _flow_part(item, _registry[item], scene)
    if name not in _registry:
        return _setting_part(item, rows_of if colon else "", name, scene)
    feature = _registry[name]
    if feature.kind == "host":
        if colon:
            raise AgentError(f"agent.observe: {item!r}: {name} is a feature of hosts, not of ports; write {name!r} alone")
        rows, owners = np.arange(len(scene.hosts)), scene.hosts
    else:
        rows_of = rows_of if colon else "all"
        if of_classes(rows_of) and not feature.classes:
            some = ", ".join(registered.name for registered in _registry.values() if registered.classes)
            raise AgentError(f"agent.observe: {item!r}: classes of ports have no {name}; give one of {some}")
        rows = _rows(rows_of, item, scene)
        owners = tuple(scene.rows[row] for row in rows.tolist())
    first = len(scene.ports) if of_classes(rows_of) else 0
    return Part(item, feature, rows, tuple(f"{owner}/{name}" for owner in owners), first)


def _flow_part(item: str, feature: Feature, scene: Scene) -> Part:
    rows = np.arange(len(scene.flow_row))
    if not len(rows):
        raise AgentError(f'agent.observe: {item!r}: agents set no flows; give agent.actuators such as "cwnd", or leave it out')
    return Part(item, feature, rows, tuple(f"flow{row}/{feature.name.removeprefix(OF_FLOW)}" for row in rows.tolist()))


def _setting_part(item: str, rows_of: str, name: str, scene: Scene) -> Part:
    """Returns the part of a quantity that agents set."""
    for actuated in scene.actuated:
        known = [quantity.name for quantity in actuated.actuator.quantities]
        if name in known and actuated.actuator.of_flows:
            if rows_of not in ("", FLOW):
                raise AgentError(f"agent.observe: {item!r}: {name} is of flows; write {name!r} alone")
            return _flow_part(item, setting(actuated, known.index(name)), scene)
        if name in known and not (name == RATE and actuated.actuator.name == RATE):
            rows = actuated.rows if not rows_of else np.intersect1d(actuated.rows, _rows(rows_of, item, scene))
            if not len(rows):
                raise AgentError(f"agent.observe: {item!r}: no agent sets {name} there; leave out {rows_of}:")
            feature = setting(actuated, known.index(name))
            return Part(item, feature, rows, tuple(f"{scene.rows[row]}/{name}" for row in rows.tolist()))
    for actuator in map(actuators.find, actuators.names()):
        if actuator and name in [quantity.name for quantity in actuator.quantities] and name != RATE:
            problem = f"{name} is set by {actuator.name}, which agent.actuators does not name"
            raise AgentError(f"agent.observe: {item!r}: {problem}; leave it out, or name {actuator.name} there")
    here = [quantity.name for actuated in scene.actuated for quantity in actuated.actuator.quantities if quantity.name != RATE]
    raise AgentError("agent.observe: " + unknown("feature", name, [*PRESETS, *_registry, *here]))


def setting(actuator_rows: ActuatedRows, number: int) -> Feature:
    """Returns a quantity of an actuator as a feature: the value in force over its upper bound; 0 where nobody sets it.

    Args:
        actuator_rows: The rows of the actuator.
        number: The index of the quantity.
    """
    quantity, high = actuator_rows.actuator.quantities[number], actuator_rows.high[:, number]
    kind = FLOW if actuator_rows.actuator.of_flows else "port"

    def compute(frame: Frame, scene: Scene) -> Floats:
        values = np.zeros(len(scene.flow_row if kind == FLOW else scene.rows))
        values[actuator_rows.rows] = frame.enforced[actuator_rows.place].reshape(actuator_rows.low.shape)[:, number] / high
        return values

    return Feature(
        quantity.name, kind, 0, 1, "value in force over its upper bound", compute, False, (actuator_rows.actuator.name, number)
    )


def _rows(rows_of: str, item: str, scene: Scene) -> Rows:
    if of_classes(rows_of):
        chosen = [rows_of == CLASS or fnmatchcase(name, rows_of) for name in scene.classes.names]
        rows, unlike = len(scene.ports) + np.flatnonzero(chosen), ""
    else:
        masks = {"all": np.ones(len(scene.ports), bool), "switch": scene.is_switch, "host": ~scene.is_switch}
        matching = np.array([fnmatchcase(port, rows_of) for port in scene.ports], bool)
        rows, unlike = np.flatnonzero(masks.get(rows_of, matching)), f"{rows_of!r} is none of {', '.join(masks)}, and "
    if not len(rows):
        raise AgentError(f"agent.observe: {item!r}: {unlike}{nothing_called(rows_of, scene.rows)}")
    return rows


def _checked(values: Floats, feature: Feature, scene: Scene, flows: int) -> Floats:
    """Returns the feature's values if they have the right shape. `flows`: how many flows the episode has."""
    if feature.kind == FLOW:
        size = flows if feature.setting is None else len(scene.flow_row)
    else:
        size = len(scene.hosts if feature.kind == "host" else scene.ports if feature.setting is None else scene.rows)
    if getattr(values, "shape", None) != (size,) or np.asarray(values).dtype.kind not in "biuf":
        problem = f"agent.observe: feature {feature.name!r} gives {usercode.shown(values)}"
        raise AgentError(f"{problem} instead of numbers of shape ({size},), one value a {feature.kind}; mend the feature")
    return values


class Observer:
    """Makes the observations of one environment from its frames, in order. A frame of step 0 restarts the history."""

    def __init__(self, scene: Scene, observe: str = "default", history: int = 1) -> None:
        if history < 1:
            raise AgentError(f"agent.history: {history} frames are none; give 1 or more")
        self.scene, self.asked, self.history = scene, observe, history
        self.parts = parse(observe, scene)
        one = [name for part in self.parts for name in part.names]
        ages = range(history - 1, -1, -1)
        self.names = tuple(name + (f"@-{age}" if age else "") for age in ages for name in one)
        """One name for each element, such as s1-eth3/backlog, or s1-eth3/backlog@-1 for one step earlier."""
        sizes = [len(part.rows) for part in self.parts]
        low, high = (np.repeat([getattr(part.feature, end) for part in self.parts], sizes) for end in ("low", "high"))
        self._low, self._high = low.astype(np.float32), high.astype(np.float32)
        self._at = [(part, part.at) for part in self.parts]
        self._ends = np.cumsum(sizes)[:-1]
        self._frames: deque[Vector] = deque(maxlen=history)
        self.space = spaces.Box(np.tile(self._low, history), np.tile(self._high, history), dtype=np.float32)

    def observe(self, frame: Frame) -> Vector:
        """Returns the observation. The history before an episode's first frame is filled with that frame."""
        scene = self.scene
        now: Vector = np.concatenate([part.values(frame, scene)[rows] for part, rows in self._at]).astype(np.float32)
        np.minimum(np.maximum(now, self._low, out=now), self._high, out=now)
        if isnan(np.add.reduce(now)):
            raise AgentError(f"agent.observe: {self.names[int(np.isnan(now).argmax())]} is not a number; mend the feature")
        if self.history == 1:
            return now
        if frame.step == 0 or not self._frames:
            self._frames.extend([now] * self.history)
        else:
            self._frames.append(now)
        return np.concatenate(self._frames)

    def values(self, part: Part, frame: Frame) -> Vector:
        """Returns the elements of one part in one frame, without history, as [elements].

        Args:
            part: An item of agent.observe.
            frame: The step.
        """
        now: Vector = part.values(frame, self.scene)[part.at].astype(np.float32)
        if np.isnan(now).any():
            raise AgentError(f"agent.observe: {part.names[int(np.isnan(now).argmax())]} is not a number; mend the feature")
        return np.clip(now, np.float32(part.feature.low), np.float32(part.feature.high))

    def unflatten(self, observation: npt.ArrayLike) -> dict[str, Vector]:
        """Returns the values of each item of agent.observe.

        They are [rows], or with a history [frames, rows], the oldest frame first.
        """
        frames = np.asarray(observation, np.float32).reshape(self.history, -1)
        parts = np.split(frames, self._ends, axis=1)
        values = [part if self.history > 1 else part[0] for part in parts]
        return {part.key: value for part, value in zip(self.parts, values, strict=True)}


PRESETS = {
    "thesis": "switch:backlog,switch:backlog_change",
    "default": "backlog,backlog_change,marks,utilization,enforced",
    "full": (
        "backlog,backlog_change,mean_backlog,longest_backlog,busy,ce,marks,drops,utilization,tx_rate,rx_rate,active_flows,"
        "srtt,rtt_min,cwnd,retransmits,goodput,enforced"
    ),
    "tcp_info": "flow:running,flow:srtt,flow:rtt_min,flow:cwnd,flow:goodput,flow:retransmits,flow:delivery_rate",
    "aurora": "flow:latency_gradient,flow:latency_ratio,flow:sending_ratio",
    "marking": "switch:backlog,switch:utilization,switch:marks,kmin,kmax,pmax",
}


def _backlog(frame: Frame, scene: Scene) -> Floats:
    return occupancy(frame, scene)


def _backlog_change(frame: Frame, scene: Scene) -> Floats:
    return frame.change("backlog_bytes") / scene.buffer_bytes


def _frames_over_line(column: str) -> Compute:
    """Returns a feature: packets counted over the step, as full frames, over the line's capacity."""
    return lambda frame, scene: frame.change(column) * scene.frame_bytes / carried_bytes(frame, scene)


def _utilization(frame: Frame, scene: Scene) -> Floats:
    return frame.change("tx_bytes") / carried_bytes(frame, scene)


def _tx_rate(frame: Frame, scene: Scene) -> Floats:
    return frame.change("tx_bytes") / max(scene.fastest_bps * (frame.elapsed_ns / 8e9), scene.frame_bytes)


def _rx_rate(frame: Frame, scene: Scene) -> Floats:
    return _tx_rate(frame, scene)[scene.peer_row]


def _mean_backlog(frame: Frame, scene: Scene) -> Floats:
    return frame.change("queue_byte_ns") / max(1, frame.elapsed_ns) / scene.buffer_bytes


def _longest_backlog(frame: Frame, scene: Scene) -> Floats:
    return frame.column("longest_bytes") / scene.buffer_bytes


def _ce(frame: Frame, scene: Scene) -> Floats:
    return frame.change("ce_bytes") / carried_bytes(frame, scene)


def _busy(frame: Frame, scene: Scene) -> Floats:
    return frame.change("busy_ns") / max(1, frame.elapsed_ns)


def _paused(frame: Frame, scene: Scene) -> Floats:
    return frame.change("paused_ns") / max(1, frame.elapsed_ns)


def _active_flows(frame: Frame, scene: Scene) -> Floats:
    flows = frame.column("active_flows")
    return flows / (1 + flows)


def _enforced(frame: Frame, scene: Scene) -> Floats:
    return scene.share(frame.enforced_bps)


def _capacity(frame: Frame, scene: Scene) -> Floats:
    return scene.capacity_bps(frame) / scene.rate_bps


def _sum_over_hosts(values: Floats, frame: Frame, scene: Scene, chosen: npt.NDArray[np.bool_]) -> Floats:
    """Returns as [hosts] the sum over each host's chosen flows."""
    host = frame.info.host
    host_flows = np.flatnonzero(chosen & (host >= 0))
    sums: Floats = np.bincount(host[host_flows], values[host_flows], len(scene.hosts)).astype(np.float64)
    return sums


def _mean_rtt(field: str) -> Compute:
    """Returns a feature: the mean, over a host's running flows that have a sample, of RTT / the flow's base RTT - 1."""

    def compute(frame: Frame, scene: Scene) -> Floats:
        rtt_us = frame.flows[field].astype(np.float64)
        sampled = frame.under_way & (rtt_us > 0)
        counts = _sum_over_hosts(np.ones(len(rtt_us)), frame, scene, sampled)
        sums = _sum_over_hosts(rtt_us * 1000 / frame.info.base_rtt_ns - 1, frame, scene, sampled)
        return np.divide(sums, counts, out=np.zeros(len(sums)), where=counts > 0)

    return compute


def _cwnd(frame: Frame, scene: Scene) -> Floats:
    windows = frame.flows["cwnd_packets"] * float(scene.frame_bytes)
    product_bytes = np.maximum(scene.line_bps * scene.base_rtt_ns / 8e9, scene.frame_bytes)
    return _sum_over_hosts(windows, frame, scene, frame.under_way) / product_bytes


def _retransmits(frame: Frame, scene: Scene) -> Floats:
    sent = frame.flow_change("retransmits") * scene.frame_bytes
    everyone = np.ones(len(sent), bool)
    return _sum_over_hosts(sent, frame, scene, everyone) / carried_bytes(frame, scene)[scene.host_row]


def _goodput(frame: Frame, scene: Scene) -> Floats:
    received = frame.flow_change("received_bytes") / frame.info.payload_share
    everyone = np.ones(len(received), bool)
    return _sum_over_hosts(received, frame, scene, everyone) / carried_bytes(frame, scene)[scene.host_row]


def _flow_line_bytes(frame: Frame, scene: Scene) -> Floats:
    """Returns what the egress of each flow's host carries in the step, as [flows]."""
    return carried_bytes(frame, scene)[frame.info.first_row]


def _flow_rtt(field: str) -> Compute:
    def compute(frame: Frame, scene: Scene) -> Floats:
        rtt_us = frame.flows[field].astype(np.float64)
        return np.maximum(rtt_us * 1000 / frame.info.base_rtt_ns - 1, 0.0)

    return compute


def _flow_cwnd(frame: Frame, scene: Scene) -> Floats:
    product_bytes = scene.rate_bps[frame.info.first_row] * frame.info.base_rtt_ns / 8e9
    return frame.flows["cwnd_packets"] * float(scene.frame_bytes) / np.maximum(product_bytes, scene.frame_bytes)


def _flow_goodput(frame: Frame, scene: Scene) -> Floats:
    return frame.flow_change("received_bytes") / frame.info.payload_share / _flow_line_bytes(frame, scene)


def _flow_retransmits(frame: Frame, scene: Scene) -> Floats:
    return frame.flow_change("retransmits") * scene.frame_bytes / _flow_line_bytes(frame, scene)


def _flow_delivery_rate(frame: Frame, scene: Scene) -> Floats:
    share: Floats = frame.flows["rate_bps"] / scene.rate_bps[frame.info.first_row]
    return share


def _flow_left(frame: Frame, scene: Scene) -> Floats:
    left_frames = (frame.info.size_bytes - frame.flows["acked_bytes"]) / (frame.info.payload_share * scene.frame_bytes)
    return np.where(frame.info.size_bytes > 0, np.log2(1 + np.maximum(left_frames, 0)) / DOUBLINGS, 1.0)


def _latency_gradient(frame: Frame, scene: Scene) -> Floats:
    known = (frame.flows["srtt_us"] > 0) & (frame.flows_before["srtt_us"] > 0)
    return np.where(known, frame.flow_change("srtt_us") * 1000 / max(1, frame.elapsed_ns), 0.0)


def _latency_ratio(frame: Frame, scene: Scene) -> Floats:
    ratio: Floats = frame.flows["srtt_us"] / np.maximum(frame.flows["min_rtt_us"], 1.0)
    return ratio


def _sending_ratio(frame: Frame, scene: Scene) -> Floats:
    payload_bytes = frame.info.payload_share * scene.frame_bytes
    sent = frame.flow_change("acked_bytes") / payload_bytes + frame.flow_change("retransmits")
    return sent / np.maximum(frame.flow_change("acked_bytes") / payload_bytes, 1.0)


register("backlog", "port", 0, 1, "bytes queued over the buffer", _backlog, flows=False, classes=True)
register(
    "backlog_change", "port", -1, 1, "bytes queued now minus at the step before, over the buffer", _backlog_change,
    flows=False, classes=True,
)  # fmt: skip
register(
    "mean_backlog", "port", 0, 1, f"mean over time of the bytes queued in the step, over the buffer; {OF_PORT}", _mean_backlog,
    flows=False, classes=True,
)  # fmt: skip
register(
    "longest_backlog", "port", 0, 1, f"the most bytes queued at any moment of the step, over the buffer; {OF_PORT}",
    _longest_backlog, flows=False, classes=True,
)  # fmt: skip
register("busy", "port", 0, 1, f"share of the step in which frames waited; {OF_PORT}", _busy, flows=False, classes=True)
register(
    "ce", "port", 0, 2, f"bytes that left with CE over the step, whoever marked them, {OVER_LINE}; {OF_PORT}", _ce,
    flows=False, classes=True,
)  # fmt: skip
register("marks", "port", 0, 4, f"CE marks {FULL_FRAMES}", _frames_over_line("marks"), flows=False, classes=True)
register("drops", "port", 0, 4, f"packets dropped {FULL_FRAMES}", _frames_over_line("drops"), flows=False, classes=True)
register("utilization", "port", 0, 2, f"bytes sent over the step {OVER_LINE}", _utilization, flows=False, classes=True)
register(
    "tx_rate", "port", 0, 2, "bytes sent over the step over what the fastest line of the network carries", _tx_rate,
    flows=False, classes=True,
)  # fmt: skip
register("rx_rate", "port", 0, 2, "tx_rate of the port at the other end of the cable", _rx_rate, flows=False)
register("active_flows", "port", 0, 1, "n / (1 + n) of the n flows under way that cross the port", _active_flows, flows=False)
register(
    "capacity", "port", 0, 2, "rate of the link in force now over its rate in the topology; 0 while an event has cut it",
    _capacity, flows=False,
)  # fmt: skip
register(
    "paused", "port", 0, 1, "share of the step in which the peer had the port hold some class, or that class", _paused,
    flows=False, classes=True,
)  # fmt: skip
register("srtt", "host", 0, MOST_RTTS, "mean of srtt / base RTT - 1 over the host's TCP flows under way", _mean_rtt("srtt_us"))
register("rtt_min", "host", 0, MOST_RTTS, "the same of the least RTT that each flow has seen", _mean_rtt("min_rtt_us"))
register("cwnd", "host", 0, MOST_RTTS, "windows of the host's flows under way, as full frames, over line rate x base RTT", _cwnd)
register("retransmits", "host", 0, 4, f"segments sent again {FULL_FRAMES}", _retransmits)
register("goodput", "host", 0, 4, f"payload of the host's flows that arrived in order over the step, {OVER_LINE}", _goodput)
register("enforced", "host", 0, 1, "rate that the kernel enforces over line rate", _enforced, flows=False)
register("flow:running", FLOW, 0, 1, "1 while the flow is under way", lambda f, s: f.under_way.astype(np.float64), flows=False)
register("flow:srtt", FLOW, 0, MOST_RTTS, "srtt / the flow's base RTT - 1, at least 0", _flow_rtt("srtt_us"))
register("flow:rtt_min", FLOW, 0, MOST_RTTS, "the same of the least RTT that it has seen", _flow_rtt("min_rtt_us"))
register("flow:cwnd", FLOW, 0, MOST_RTTS, "window, as full frames, over line rate x the flow's base RTT", _flow_cwnd)
register("flow:goodput", FLOW, 0, 4, f"payload that arrived in order over the step, {OVER_LINE}", _flow_goodput)
register("flow:retransmits", FLOW, 0, 4, f"segments sent again {FULL_FRAMES}", _flow_retransmits)
register("flow:delivery_rate", FLOW, 0, 4, "TCP's delivery rate over line rate", _flow_delivery_rate)
register("flow:latency_gradient", FLOW, -10, 10, "change of srtt over the step / the step (Aurora, ICML 2019)", _latency_gradient)
register("flow:latency_ratio", FLOW, 0, MOST_RTTS, "srtt / the least RTT that it has seen (Aurora)", _latency_ratio)
register(
    "flow:sending_ratio", FLOW, 0, 1000, "packets acknowledged and sent again over those acknowledged (at least one; Aurora)",
    _sending_ratio,
)  # fmt: skip
register(
    "flow:left", FLOW, 0, 1, f"log2(1 + the full frames that are not acknowledged yet) / {DOUBLINGS}; 1 of a flow without a size",
    _flow_left,
)  # fmt: skip
