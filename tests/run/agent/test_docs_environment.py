# SPDX-License-Identifier: Apache-2.0
"""docs/environment.md lists what is registered."""

import re
import shutil
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from dc_gym import spec
from dc_gym.base import methods
from dc_gym.ctrl import actuators
from dc_gym.learn import registration
from dc_gym.learn.env import DataCenterEnv
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.run.agent import action, observation, policies, reward
from dc_gym.run.agent.observation import Observer
from dc_gym.run.agent.totals import EpisodeTotals, metrics
from tests.run.agent.made import DONE, cells, flows, frame, scene

ROOT = Path(__file__).resolve().parents[3]
OF_METHODS = {name for method in methods.by_name().values() for name in (*method.policies, *method.rewards)}
"""Names that the pages of methods tell of."""
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "environment.md").read_text()


def rows(heading, first):
    """Cells of the table that begins with the header `first`, in the section of that heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = section.split(f"| {first} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def python_of(page, first):
    """The block of Python that begins with the line `first`."""
    return page.split(f"```python\n{first}\n")[1].split("```")[0]


def number(value):
    return f"{value:g}"


def test_features_and_rewards():
    """The page names each; `dcgym list` has ranges and formulas."""
    for heading, registered in (("Observations", observation.features()), ("Rewards", reward.rewards())):
        section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        core_names = [entry.name for entry in registered if entry.name not in OF_METHODS]
        assert not [name for name in core_names if f"`{name}`" not in section], heading
    presets = [names(name)[0] for name, _ in rows("Observations", "preset")]
    assert presets == ["default", "thesis", "full", "marking", "tcp_info", "aurora"] and set(presets) == set(observation.PRESETS)


def test_actuators():
    """The table says of each actuator what it sets, with its unit, and where."""
    listed = {names(name)[0]: (ports, values) for name, ports, values, *_ in rows("Actuators", "actuator")}
    actuator_by_name = {name: actuators.find(name) for name in actuators.names()}
    assert set(listed) == set(actuator_by_name)
    for name, (ports, values) in listed.items():
        quantities = actuator_by_name[name].quantities
        assert actuator_by_name[name].ports in ports
        assert quantities[0].name == name or names(values) == [quantity.name for quantity in quantities]


def test_actions():
    listed = {names(name)[0]: box for name, box, _, _ in rows("Actions", "action")}
    assert listed == {head.name: f"{number(-head.bound)}..{number(head.bound)}" for head in action.heads()}


def test_policies():
    assert {names(name)[0] for name, _ in rows("Policies", "policy")} == {*policies.names()} - OF_METHODS


def test_info():
    dumbbell, info = scene('workload.size="1448B"')
    one = {"status": DONE, "start_ns": 0, "end_ns": 10**7, "received_bytes": 1448}
    first = frame(info, flows=flows({"status": 1, "srtt_us": 4000}, {"status": 1}))
    last = frame(info, flows_before=first.flows, flows=flows(one, one), cells=cells(marks={"s1-eth3": 1}))
    totals = EpisodeTotals(dumbbell)
    for step_frame in (first, last):
        totals.add(step_frame, 0)
    section = PAGE.split("\n## What info holds\n")[1].split("\n## ")[0]
    assert not [name for name in (*metrics(first, dumbbell), *totals.result()) if f"`{name}`" not in section]
    alone = {lead: set(names(line)) for line in section.splitlines() if (lead := line[2:9]) in ("In a st", "In tota")}
    assert alone["In a st"] == set(metrics(first, dumbbell)) - set(totals.result())
    assert alone["In tota"] - {"jain"} == set(totals.result()) - set(metrics(first, dumbbell))


def test_ids():
    listed = [id_name for name, _ in rows("Make one", "id") for id_name in names(name)]
    assert sorted(listed) == sorted([registration.ANY, *registration.SPECS])


def test_arguments():
    section = PAGE.split("\n## Make one\n")[1].split("\n## ")[0]
    assert not [name for name in signature(DataCenterEnv).parameters if f"`{name}`" not in section]
    assert not [name for name in signature(LabVectorEnv).parameters if name not in PAGE]


@pytest.mark.lab
@pytest.mark.parametrize("page", ["docs/environment.md", "README.md"])
def test_what_the_pages_show_works_in_a_fresh_process(tmp_path, page):
    """With no import line but Gymnasium's, and plug-ins and specs where the pages have them."""
    code = python_of((ROOT / page).read_text(), "import gymnasium")
    (tmp_path / "examples").mkdir()
    for name in ("mine.toml", "examples/gym.toml"):
        shutil.copy(EXAMPLES / "gym.toml", tmp_path / name)
    shutil.copy(EXAMPLES / "calm.py", tmp_path)
    assertion = "\nassert observation in env.observation_space and info['utilization'] > 0, info\n"
    argv = [sys.executable, "-c", "import gymnasium\n" + code + assertion]
    child = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr


def test_the_example_of_a_feature_and_a_reward(registries):
    agent = spec.load(EXAMPLES / "calm.toml").agent
    dumbbell, info = scene()
    now = frame(info, cells=cells(backlog_bytes={"s1-eth3": 100_000}))
    assert Observer(dumbbell, agent.observe).observe(now)[-6:].tolist() == [0, 0, 1, 0, 0, 0]
    assert reward.WeightedReward.of(agent.reward)(now, dumbbell, dumbbell.share(now.wanted_bps)) == pytest.approx(-5 * 0.25 / 10)
