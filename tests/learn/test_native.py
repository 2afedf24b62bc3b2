# SPDX-License-Identifier: Apache-2.0
"""The C library of steps against its Python originals, on made-up frames: layouts, observations and rewards to the last bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from c_layout import layout, layout_of, numbers

from dc_gym.base.errors import MachineError
from dc_gym.learn import native
from dc_gym.learn.native import LAB, Element, Flags, LabState, RewardKind, address
from dc_gym.learn.native.network import REWARDS, Network
from dc_gym.learn.recording import Recorder, Recording
from dc_gym.run.agent import observation
from dc_gym.run.agent.frame import Floats, Frame
from dc_gym.run.agent.measures import fair_total_bps
from dc_gym.run.agent.observation import PRESETS, Observer
from dc_gym.run.agent.reward import WeightedReward, rewards
from dc_gym.run.agent.scene import Scene
from tests.run.agent.made import CLASSES, STEP, random_frame, scene

C = "dc_gym/learn/native/steps.h"
MEASURES_C = "dc_gym/learn/native/measures.h"
MARKING = 'agent.actuators="s1-eth3:marking,rate,s1-eth1:marking"'
SCENES = [
    (),
    ('workload.kind="all_to_all"', 'workload.transport="udp"', 'workload.rate="3Mbit/s"'),
    ('workload.kind="poisson"', "workload.load=0.5", 'workload.size="2kB"'),
    ('workload.kind="none"',),
    (STEP, MARKING),
    (STEP, 'agent.actuators="s1-*:marking"'),
    (STEP, CLASSES, 'agent.actuators="class:marking"'),
]


def test_records_have_the_layout_of_c() -> None:
    for header, name, dtype in (
        (MEASURES_C, "element", native.ELEMENT),
        (MEASURES_C, "network", native.NETWORK),
        (MEASURES_C, "lab", native.LAB),
        (C, "worker", native.WORKER),
        (C, "team", native.TEAM),
    ):
        assert layout(header, name) == layout_of(dtype)


def test_constants_are_those_of_c() -> None:
    assert numbers(C, "STEPS_VERSION", "MASK_WORDS") == [native.VERSION, native.MASK_WORDS]
    for prefix, names in (("LAB", LabState), ("ELEMENT", Element), ("STEPS", Flags)):
        assert numbers(C, *(f"{prefix}_{member.name}" for member in names)) == [int(member) for member in names]
    known = [member for member in RewardKind if member]
    assert numbers(C, *(f"REWARD_{member.name}" for member in known)) == [int(member) for member in known]


def test_a_library_that_is_missing_or_old_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    with monkeypatch.context() as old:
        old.setattr(native, "VERSION", native.VERSION + 1)
        with pytest.raises(MachineError, match=r"libsteps\.so: .*0x.* 0x.*`make programs`") as refusal:
            native.Library()
        assert "\n" not in str(refusal.value)
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "libsteps.so")
    with pytest.raises(MachineError, match=r"libsteps\.so: .*No such file.*; run `make programs`") as refusal:
        native.Library()
    assert "\n" not in str(refusal.value)


class OneLab:
    """One lab's record without a lab: frames are written into its recording, and the library measures them."""

    def __init__(self, observe: str, history: int, reward: str, first: Frame, *overrides: str) -> None:
        self.scene, _ = scene(*overrides)
        self.info, self.library = first.info, native.load()
        self.observer, self.mix = Observer(self.scene, observe, history), WeightedReward.of(reward)
        self.network = Network(self.scene, self.observer, self.mix)
        recorder = Recorder(self.scene, self.info, self.network.size, by_kernel=False, late=True)
        self.recording = Recording(recorder, first)
        self.seen = np.zeros(self.observer.space.shape, np.float32)
        self.parts, self.reward = np.zeros(len(self.network.kinds)), np.zeros(1)
        self.at_work = np.zeros(len(self.info), bool)
        info, recording = self.info, self.recording
        self.arrays: dict[str, Any] = {
            "base_rtt_ns": info.base_rtt_ns.astype(float),
            "payload_share": info.payload_share.astype(float),
            "host": info.host.astype(np.int64),
            "first_row": info.first_row.astype(np.int64),
            "path_row": info.switch_rows.astype(np.int64),
            "path_flow": info.switch_flows.astype(np.int64),
            "scratch": np.zeros(3 * max(len(info), len(self.scene.ports))),
            **{name: getattr(recording, name) for name in ("cells", "t_ns", "numbers", "wanted", "enforced")},
            **{"recorded": recording.flows, "in_force": recording.in_force_bps, "network": self.network.record},
            **{"seen": self.seen, "rewards": self.parts, "reward": self.reward, "at_work": self.at_work},
        }
        self.record = np.zeros(1, LAB)
        for name, array in self.arrays.items():
            self.record[name] = address(array)
        self.record["flows"], self.record["path_ports"] = len(info), len(info.switch_rows)
        self.record["force_stride"], self.record["steps"] = len(self.scene.hosts), 1000
        self._measure()

    def _measure(self) -> None:
        """Does what LabStepper does."""
        self.library.measure(address(self.record))
        if self.record["work_changed"][0]:
            self.record["fair_bps"] = fair_total_bps(self.info, self.scene, self.at_work)
            self.library.reward(address(self.record))

    def add(self, frame: Frame) -> Frame:
        """Records a step and measures it. Returns the frame as it was recorded."""
        slot = int(self.record["slot"][0]) + 1
        log = self.recording
        log.cells[slot], log.class_cells[slot], log.flows[slot] = frame.cells, frame.class_cells, frame.flows
        log.t_ns[slot], log.numbers[slot] = log.t_ns[slot - 1] + frame.elapsed_ns, slot
        log.wanted[slot], log.enforced[slot], log.in_force_bps[slot] = frame.wanted, frame.enforced, frame.in_force_bps
        self.record["slot"] = slot
        self._measure()
        return log.frame(slot)


def frames_of(*overrides: str) -> list[Frame]:
    """Returns random frames of one episode: counters grow, as they do in a network."""
    lab_scene, info = scene(*overrides)
    rng = np.random.default_rng(7)
    frames = [random_frame(lab_scene, info, rng, step) for step in range(20)]
    for before, now in pairwise(frames):
        now.cells[:, 2:7] = before.cells[:, 2:7] + now.cells[:, 2:7] % 2**20
        now.class_cells[:, 2:7] = before.class_cells[:, 2:7] + now.class_cells[:, 2:7] % 2**20
        for name in ("received_bytes", "acked_bytes", "retransmits"):
            now.flows[name] = before.flows[name] + now.flows[name] % 2**20
    return frames


@pytest.mark.parametrize("overrides", SCENES, ids=lambda overrides: " ".join(overrides) or "pairs")
@pytest.mark.parametrize("history", [1, 3])
def test_observations_are_those_of_python(overrides: tuple[str, ...], history: int) -> None:
    lab_scene, _ = scene(*overrides)
    names = PRESETS["full"].split(",")
    settings = list(dict.fromkeys(quantity.name for actuated in lab_scene.actuated for quantity in actuated.actuator.quantities))
    classes = [f"class:{feature.name}" for feature in observation.features() if feature.classes and lab_scene.classes.names]
    observe = ",".join([*names, "paused", *classes, *(name for name in settings if name != "rate")])
    first, *others = frames_of(*overrides)
    lab = OneLab(observe, history, "action", first, *overrides)
    assert not lab.network.python_parts
    assert np.array_equal(lab.seen, lab.observer.observe(lab.recording.frame(0)))
    for frame in others:
        assert np.array_equal(lab.observer.observe(lab.add(frame)), lab.seen)


@pytest.mark.parametrize("overrides", SCENES, ids=lambda overrides: " ".join(overrides) or "pairs")
@pytest.mark.parametrize("name", sorted(REWARDS))
def test_rewards_are_those_of_python(overrides: tuple[str, ...], name: str) -> None:
    cost = next(reward.cost for reward in rewards() if reward.name == name)
    first, *others = frames_of(*overrides)
    lab = OneLab("backlog", 1, f"{'-0.3' if cost else '0.7'}*{name} + 0.25*action", first, *overrides)
    for number, frame in enumerate(others):
        if number % 3 == 1:  # all flows have round trips
            frame = replace(frame, flows=frame.flows.copy())
            frame.flows["srtt_us"] += 1
        recorded_frame = lab.add(frame)
        assert lab.mix(recorded_frame, lab.scene, lab.scene.share(recorded_frame.in_force_bps)) == lab.reward[0]
        assert np.array_equal(recorded_frame.at_work, lab.at_work)
        status = recorded_frame.flows["status"]
        assert bool(lab.record["ended"][0]) == bool(len(status) and (status >= 2).all())


@pytest.mark.parametrize("flows", [*range(1, 20), 127, 128, 129, 255, 256, 257, 600, 1031])
def test_sums_have_numpys_order(flows: int) -> None:
    """Rewards that are sums over flows are compared for many numbers of flows: the order of a sum depends on its length."""
    overrides = ('workload.kind="none"',)
    lab_scene, _ = scene()
    _, info = scene(*overrides)
    rng = np.random.default_rng(flows)
    path = np.array([lab_scene.host_row[0], 2, 3], np.intp)
    info = replace(
        info,
        src=np.zeros(flows, np.intp),
        dst=np.ones(flows, np.intp),
        size_bytes=np.zeros(flows, np.int64),
        is_udp=rng.random(flows) < 0.5,
        ideal_ns=np.full(flows, np.nan),
        rows=(path,) * flows,
        base_rtt_ns=rng.random(flows) * 1e6,
        demand_bps=np.full(flows, np.inf),
        start_ns=np.zeros(flows, np.int64),
        awaits=((),) * flows,
    )
    first, *others = (random_frame(lab_scene, info, rng, step) for step in range(4))
    lab = OneLab("backlog", 1, "goodput - 0.1*queueing_delay - 0.2*switch_delay", first)
    for frame in others:
        for name in ("received_bytes", "acked_bytes", "retransmits"):
            frame.flows[name] += lab.recording.flows[int(lab.record["slot"][0])][name]
        recorded_frame = lab.add(frame)
        assert lab.mix(recorded_frame, lab.scene, lab.scene.share(recorded_frame.in_force_bps)) == lab.reward[0]


def test_what_the_library_does_not_know_is_left_to_python(registries: None) -> None:
    def twice(frame: Frame, scene: Scene) -> Floats:
        return 2 * frame.column("backlog_bytes")[scene.host_row]

    observation.register("twice", "host", 0, 1, "an example", twice, flows=False)
    lab_scene, _ = scene()
    observer = Observer(lab_scene, "backlog,twice,s1-*:marks")
    network = Network(lab_scene, observer, WeightedReward.of("goodput - 0.1*gini"))
    assert [(python_part.part.key, python_part.place) for python_part in network.python_parts] == [("twice", slice(10, 14))]
    assert network.python_rewards == (1,) and network.elements["kind"].tolist().count(Element.NONE) == 4
