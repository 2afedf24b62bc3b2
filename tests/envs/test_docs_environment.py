# SPDX-License-Identifier: Apache-2.0
"""docs/environment.md lists what is registered, with its range, and no more."""

import re
from pathlib import Path

import pytest

from dc_gym import usercode
from dc_gym.envs import action, observation, policies, reward
from dc_gym.envs.observation import Observer
from dc_gym.envs.totals import EpisodeTotals, metrics
from tests.envs.made import DONE, cells, flows, frame, scene

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "environment.md").read_text()


def rows(heading, first):
    """Cells of the table that begins with the header `first`, in the section of that heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = section.split(f"| {first} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def number(value):
    return f"{value:g}"


def test_features():
    listed = {names(name)[0]: (of, bounds) for name, of, bounds, _ in rows("Observations", "feature")}
    assert listed == {each.name: (each.kind, f"{number(each.low)}..{number(each.high)}") for each in observation.features()}
    assert [names(name)[0] for name, _ in rows("Observations", "preset")] == ["default", "thesis", "full"]
    assert set(observation.PRESETS) == {"default", "thesis", "full"}


def test_actions():
    listed = {names(name)[0]: box for name, box, _, _ in rows("Actions", "action")}
    assert listed == {each.name: f"{number(-each.bound)}..{number(each.bound)}" for each in action.heads()}


def test_rewards():
    found, _ = scene()
    listed = {names(name)[0]: bounds for name, bounds, _, _ in rows("Rewards", "reward")}
    assert list(listed) == [each.name for each in reward.rewards()]
    for each in reward.rewards():
        low, high = each.range(found)
        ends = listed[each.name].replace("-ports^2/2 - 0.5", "-18.5").replace("-ports^2", "-36")
        expected = f"{number(low)}..{number(high) if high < reward.INFINITY else ''}"
        assert ends == ("cost, " if each.cost else "") + expected, each.name


def test_policies():
    assert tuple(names(name)[0] for name, _ in rows("Policies", "policy")) == policies.names()


def test_info():
    found, info = scene('workload.size="1448B"')
    one = {"status": DONE, "start_ns": 0, "end_ns": 10**7, "received_bytes": 1448}
    first = frame(info, flows=flows({"status": 1, "srtt_us": 4000}, {"status": 1}))
    last = frame(info, flows_before=first.flows, flows=flows(one, one), cells=cells(marks={"s1-eth3": 1}))
    step, episode = (
        {name for cell, *_ in table for name in names(cell)} for table in (rows("What info holds", "name"), _second_table())
    )
    assert step == set(metrics(first, found))
    totals = EpisodeTotals(found)
    for each in (first, last):
        totals.add(each, 0)
    assert episode == set(totals.result())


def _second_table():
    section = PAGE.split("`EpisodeTotals.result`")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")]


def test_the_feature_that_the_page_shows_works(tmp_path, monkeypatch):
    monkeypatch.setattr(observation, "_registry", dict(observation._registry))
    (tmp_path / "sojourn.py").write_text(PAGE.split("```python\n")[1].split("```")[0])
    usercode.load(tmp_path / "sojourn.py")
    found, info = scene()
    now = frame(info, cells=cells(backlog_bytes={"s1-eth3": 125_000}))
    assert Observer(found, "s1-eth3:sojourn").observe(now) == pytest.approx([0.1])


def test_the_plug_in_of_the_page_on_plug_ins_works(tmp_path, monkeypatch):
    for module in (observation, reward):
        monkeypatch.setattr(module, "_registry", dict(module._registry))
    page = (Path(__file__).resolve().parent.parent.parent / "docs" / "extending.md").read_text()
    (tmp_path / "calm.py").write_text(page.split("```python\n# calm.py\n")[1].split("```")[0])
    usercode.load(tmp_path / "calm.py")
    keys = dict(re.findall(r'^(observe|reward) = "(.*)"$', page, re.MULTILINE))
    found, info = scene()
    now = frame(info, cells=cells(backlog_bytes={"s1-eth3": 100_000}))
    assert Observer(found, keys["observe"]).observe(now)[-6:].tolist() == [0, 0, 1, 0, 0, 0]
    assert reward.Mix.of(keys["reward"])(now, found, found.share(now.wanted_bps)) == pytest.approx(-5 * 0.25 / 10)
