# SPDX-License-Identifier: Apache-2.0
"""The contract of everything that registers itself, whether it comes with dc-gym or is a plug-in of examples/: it builds from its
declared keys, says what it is, refuses wrong values in one line, and is in the JSON Schema and in `dcgym list`.

A registry with declared keys (base/registry.py) is a line in SORTS. Features and rewards have no keys, and a part of their own.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from dc_gym import spec
from dc_gym.base import methods, usercode
from dc_gym.base.errors import UsageError
from dc_gym.base.key import (
    AMOUNT,
    ARGS,
    CODE_PATH,
    COUNT,
    FLAG,
    NAME_OR_PATH,
    NUMBER,
    PATH,
    RATE,
    SHARE_PPB,
    SHARE_PPM,
    SIZE,
    TEXT,
    THRESHOLD,
    TIME,
    WORDS,
    name_of,
)
from dc_gym.base.registry import Entry, Registry
from dc_gym.cli.list import plain, told_of
from dc_gym.cli.main import main
from dc_gym.cli.schema import schema
from dc_gym.ctrl import actuators, controllers, policies
from dc_gym.ctrl.nic import algorithms
from dc_gym.run.agent import observation, reward
from dc_gym.topologies import marking, presets
from dc_gym.traffic.workloads import KINDS
from tests.run.agent import made as made_up

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
LINKS = {"rate": "100Mbit/s", "delay": "10us", "buffer": "400kB"}
PLAIN: dict[str, Any] = {
    "topology": {"preset": "fattree-k4", "rate": "100Mbit/s"},
    "controller": {"name": "cubic"},
    "workload": {"kind": "many_to_one"},
    "time": {"duration": "20ms"},
}


@dataclass(frozen=True)
class Sort:
    """A registry, where its kinds stand in a spec, and the example that adds one from outside the tree."""

    registry: Registry
    table: Callable[[str, Mapping[str, Any]], dict[str, Any]]
    """Returns the section of a spec that has a kind and its keys."""
    example: str
    """The name of the kind and of its files in examples/."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Other sections of a spec that has a kind."""
    page: str = ""
    """The page of docs/ with a table of the kinds, if it is not spec.md by their keys alone."""

    @property
    def section(self) -> str:
        return self.registry.key.partition(".")[0]


SORTS = {
    "topology": Sort(presets.TOPOLOGIES, lambda name, keys: {**LINKS, "kind": name, **keys}, "ring"),
    "marking": Sort(marking.KINDS, lambda name, keys: {"kind": "single", "hosts": 4, **LINKS, "marking": name, **keys}, "ramp"),
    "workload": Sort(KINDS, lambda name, keys: {"kind": name, **keys}, "mice"),
    "actuator": Sort(
        actuators.KINDS,
        lambda name, keys: {"actuators": name, **keys},
        "limit",
        {"controller": {"policy": "random"}},
        "environment.md",
    ),
    "policy": Sort(policies.KINDS, lambda name, keys: {"policy": name, **keys}, "bandit", page="environment.md"),
}
MARKING = {"marking": "step"}
"""The markings that actuators need; the others can do without."""
OF_FLOWS = ('agent.actuators="cwnd"', 'controller.name="agent"', 'controller.policy="max"')
"""The settings under which agents set flows."""
CASES = [(sort, name) for sort, entry in SORTS.items() for name in (*entry.registry, entry.example)]
NIC_ALGORITHMS = (*algorithms.names(), "aimd")
GOAL = "num_ranks 2\nrank 0 {\nsend 9b to 1\n}\nrank 1 {\nrecv 9b from 0\n}\n"
MATRIX = "source,destination,port,start,stop,size\nh1,h3,80,0,0,0\nh2,h4,80,0,0,700\n"
OF_METHODS = {name for method in methods.by_name().values() for name in method.policies}
"""Policies that the pages of methods tell of."""
SAMPLES: dict[Any, Any] = {
    **{COUNT: 4, NUMBER: 0.25, RATE: "10Mbit/s", TIME: "1ms", SIZE: "20kB", AMOUNT: "20p", THRESHOLD: "20p"},
    **{SHARE_PPM: "10%", SHARE_PPB: "10%", TEXT: "some", PATH: "flows.csv", CODE_PATH: "net.py", ARGS: {"hosts": 2}},
    **{FLAG: True, NAME_OR_PATH: "acc-deployed", WORDS: ["h1", "h2"]},
}
"""A value for each form of keys."""
OF_KEYS = {
    "kmax": "60p",
    "pattern": "random0",
    "class": "TwoRacks",
    "distribution_file": "sizes.txt",
    "chord": 2,
    "spines": 2,
    "nics": 1,
    "stride": 1,
    "largest": "40kB",
    "storage": 3,
    "replicas": 1,
    "size_scale": 0.5,
    "slowdown": 1.5,
    "last_start": "15ms",
}
"""Values of keys for which the sample of their form will not do."""
FILES = {"topology": "net.txt", "workload": "flows.txt"}
"""What a kind `file` reads."""
BESIDE = {"poisson": {"size": "20kB"}, "closed_loop": {"size": "20kB"}, "distribution": {"size": None}}
"""Keys that a kind or another key needs, or (None) cannot have, beside it."""
BESIDE["distribution_file"] = BESIDE["distribution"]
BESIDE["job"] = {"collective": "all_gather", "size": "20kB"}
BESIDE["local_ranks"] = {"collective": "all_reduce_hierarchical"}
BESIDE["stragglers"], BESIDE["slowdown"] = {"slowdown": 1.5}, {"stragglers": 2}
BESIDE["file"] = {"file": "job.goal", "collective": None, "size": None}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, registries: None) -> None:
    """The files that keys may name, and the kinds of examples/."""
    (tmp_path / "flows.csv").write_text(MATRIX)
    (tmp_path / "job.goal").write_text(GOAL)
    (tmp_path / "sizes.txt").write_text("1000 0.5\n20000 1\n")
    (tmp_path / "net.txt").write_text("3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n")
    (tmp_path / "flows.txt").write_text("1\n0 1 3 100 2000 0.001\n")
    shutil.copy(EXAMPLES / "two_racks.py", tmp_path / "net.py")
    for sort in SORTS.values():
        usercode.load(EXAMPLES / f"{sort.example}.py")


def entry_of(sort: str, name: str) -> Entry:
    return SORTS[sort].registry[name]


def sample(name: str, rule: Any) -> Any:
    """Returns a value of a key as a spec has it."""
    metadata = rule.metadata
    if metadata["names"]:
        return next(iter(metadata["names"]()))
    return OF_KEYS.get(name, SAMPLES[metadata["kind"]])


def needed(sort: str, name: str) -> dict[str, Any]:
    entry = entry_of(sort, name)
    beside = {"file": FILES[sort]} if name == "file" else BESIDE.get(name, {})
    return {key: sample(key, entry.declared[key]) for key in entry.needs()} | beside


def document(sort: str, name: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a spec that uses a kind with these keys. None: the key is not given."""
    present = {key: value for key, value in keys.items() if value is not None}
    plugins = {"plugins": [str(EXAMPLES / f"{name}.py")]} if name == SORTS[sort].example else {}
    sections = PLAIN | SORTS[sort].beside
    if sort == "actuator" and name in MARKING:
        sections |= {"topology": {**PLAIN["topology"], "marking": MARKING[name]}}
    if name == "cwnd":
        sections |= {"controller": {**SORTS[sort].beside["controller"], "name": "agent"}}
    return plugins | sections | {"name": name, SORTS[sort].section: SORTS[sort].table(name, present)}


def load(folder: Path, sort: str, name: str, keys: Mapping[str, Any]) -> spec.Spec:
    return spec.from_dict(document(sort, name, keys), folder)


def refusal(folder: Path, sort: str, name: str, keys: Mapping[str, Any]) -> str:
    with pytest.raises(UsageError) as excinfo:
        load(folder, sort, name, keys)
    assert "\n" not in str(excinfo.value)
    return str(excinfo.value)


@pytest.mark.parametrize(("sort", "name"), CASES)
def test_it_says_what_it_is(sort: str, name: str) -> None:
    """A kind says so in its docstring or its help, a key in its help: not empty, and without a full stop."""
    entry = entry_of(sort, name)
    assert (sentence := plain(entry.help or told_of(entry.call))) != "-" and len(sentence) > 5
    for key, rule in entry.declared.items():
        for text in (rule.metadata["help"], rule.metadata["otherwise"]):
            assert not text.endswith("."), f"{key}: {text}"
        assert len(rule.metadata["help"]) > 3, f"{key} has no help"
        assert rule.name.endswith(rule.metadata["kind"].unit) and name_of(rule) == key
        assert not (rule.metadata["needed"] and rule.default is not None), f"{key} is needed, and has a default"
    if entry.keys is not None:
        assert told_of(entry.keys) and len(entry.declared) == len(fields(entry.keys))


@pytest.mark.parametrize(("sort", "name"), CASES)
def test_it_builds_from_its_declared_keys(sort: str, name: str, tmp_path: Path) -> None:
    """With what it needs alone, and with each of its other keys. What the file says is what the manifest has."""
    if name == "none" and sort == "workload":
        assert not load(tmp_path, sort, name, {}).flows(load(tmp_path, sort, name, {}).graph())
        return
    base = needed(sort, name)
    others = {
        key: {key: sample(key, entry_of(sort, name).declared[key])} | BESIDE.get(key, {}) for key in entry_of(sort, name).takes()
    }
    for more in ({}, *others.values()):
        loaded_spec = load(tmp_path, sort, name, base | more)
        graph = loaded_spec.graph()
        assert len(graph.hosts) >= 2 and loaded_spec.flows(graph)
        plain = loaded_spec.to_dict()[SORTS[sort].section]
        for key, value in (base | more).items():
            rule = entry_of(sort, name).declared[key]
            if value is not None and rule.metadata["kind"] not in (PATH, CODE_PATH):
                assert plain[key] == rule.metadata["kind"].write(rule.metadata["kind"].parse(value)), key
        assert spec.from_dict(json.loads(json.dumps(loaded_spec.to_dict())), tmp_path) == loaded_spec


@pytest.mark.parametrize(("sort", "name"), CASES)
def test_a_default_is_what_holds_without_the_key(sort: str, name: str, tmp_path: Path) -> None:
    entry, base = entry_of(sort, name), needed(sort, name)
    without = load(tmp_path, sort, name, base)
    for key in entry.takes():
        rule = entry.declared[key]
        if rule.default is not None and rule.metadata["kind"] is not ARGS:
            stated = load(tmp_path, sort, name, base | {key: rule.metadata["kind"].write(rule.default)})
            assert stated.graph() == without.graph() and stated.flows(stated.graph()) == without.flows(without.graph()), key


def wrong(rule: Any) -> Iterator[Any]:
    """Yields values that a key cannot have: of another form, out of bounds, an unknown name."""
    metadata, kind = rule.metadata, rule.metadata["kind"]
    yield [1]
    if metadata["names"]:
        yield "no-such-name"
    for bound, beyond in ((metadata["low"], -1), (metadata["high"], 1)):
        if bound is not None and kind.write(bound) is not None and not (beyond < 0 and bound <= 0 and str in kind.toml_types):
            yield kind.write(bound + beyond)


@pytest.mark.parametrize(("sort", "name"), CASES)
def test_wrong_values_are_one_line_that_names_the_key(sort: str, name: str, tmp_path: Path) -> None:
    base, section = needed(sort, name), SORTS[sort].section
    for key, rule in entry_of(sort, name).declared.items():
        for value in wrong(rule):
            assert f"{section}.{key} = " in refusal(tmp_path, sort, name, base | {key: value}), (key, value)
        if rule.metadata["needed"]:
            incomplete = {other: value for other, value in base.items() if other != key}
            assert re.search(rf"{section}\.{key}\b.* missing", refusal(tmp_path, sort, name, incomplete)), key
    assert f"{section}.nothing_such: unknown key" in refusal(tmp_path, sort, name, base | {"nothing_such": 1})


@pytest.mark.parametrize(("sort", "name"), CASES)
def test_another_kind_refuses_its_keys(sort: str, name: str, tmp_path: Path) -> None:
    registry = SORTS[sort].registry
    for key, rule in entry_of(sort, name).declared.items():
        others = [other for other, entry in registry.items() if key not in entry.declared]
        if key == "size":  # all workloads have it
            continue
        words = refusal(tmp_path, sort, others[0], needed(sort, others[0]) | {key: sample(key, rule)})
        assert re.search(rf"{SORTS[sort].section}\.{key} = .*: has no effect with \w+ '{others[0]}'; remove it", words), words


@pytest.mark.parametrize(("sort", "name"), CASES)
def test_the_schema_has_it(sort: str, name: str, tmp_path: Path) -> None:
    """The schema of `dcgym schema --plugin FILE` takes its specs, and refuses wrong values and unknown keys."""
    validator = Draft202012Validator(schema([SORTS[plugin_sort].example for plugin_sort in SORTS]))
    entry, base, section = entry_of(sort, name), needed(sort, name), SORTS[sort].section
    keys = base | {key: sample(key, entry.declared[key]) for key in entry.takes()}
    valid = document(sort, name, keys)
    assert not list(validator.iter_errors(valid))
    for key, rule in entry.declared.items():
        assert plain(rule.metadata["help"]).replace("`", "") in str(validator.schema["properties"][section]).replace("`", ""), key
        assert list(validator.iter_errors(document(sort, name, keys | {key: [1]}))), key
    assert list(validator.iter_errors(document(sort, name, keys | {"nothing_such": 1})))
    if sort != "policy" or entry.declared:  # a policy may also be a file or a class
        assert list(validator.iter_errors(document(sort, f"{name}-no", keys)))


@pytest.mark.parametrize(("sort", "name"), CASES)
def test_the_list_shows_it(sort: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", name]) == 0
    out = capsys.readouterr().out
    for key, rule in entry_of(sort, name).declared.items():
        assert f"{SORTS[sort].section}.{key} " in out and plain(rule.metadata["help"]) in out
    assert main(["list"]) == 0
    assert re.search(rf"^  {re.escape(name)} ", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(("sort", "name"), [case for case in CASES if case[1] != SORTS[case[0]].example])
def test_the_page_has_it(sort: str, name: str) -> None:
    text = (ROOT / "docs" / "spec.md").read_text()
    for key in entry_of(sort, name).declared:
        assert f"- `{SORTS[sort].section}.{key}` (" in text
    if SORTS[sort].page and name not in OF_METHODS:
        assert f"\n| `{name}` |" in (ROOT / "docs" / SORTS[sort].page).read_text()


@pytest.mark.parametrize("sort", SORTS)
def test_the_example_has_keys_of_its_own(sort: str) -> None:
    """Its spec gives at least one, and loads as it is."""
    entry, path = entry_of(sort, SORTS[sort].example), EXAMPLES / f"{SORTS[sort].example}.toml"
    assert set(tomllib.loads(path.read_text())[SORTS[sort].section]) & set(entry.declared)
    loaded_spec = spec.load(path)
    assert loaded_spec.flows(loaded_spec.graph()) and loaded_spec.plugins == (EXAMPLES / f"{SORTS[sort].example}.py",)


def test_a_sweep_and_an_override_take_a_key_of_a_plug_in(tmp_path: Path) -> None:
    from dc_gym.run.sweep import grid

    shutil.copy(EXAMPLES / "ring.py", tmp_path)
    shutil.copy(EXAMPLES / "ring.toml", tmp_path)
    (tmp_path / "grid.toml").write_text('base = "ring.toml"\n[grid]\n"topology.size" = [4, 6]\n')
    assert [len(point.spec.graph().hosts) for point in grid.load(tmp_path / "grid.toml").points] == [4, 6]
    assert len(spec.load(tmp_path / "ring.toml", ["topology.size=8"]).graph().hosts) == 8
    with pytest.raises(UsageError, match=r"--set: topology\.sise: .*did you mean topology\.size\?"):
        spec.load(tmp_path / "ring.toml", ["topology.sise=8"])


@pytest.mark.parametrize("sort", SORTS)
def test_a_name_is_taken_once(sort: str) -> None:
    registry = SORTS[sort].registry
    name, entry = next(iter(registry.items()))
    with pytest.raises(registry.error, match="another name") as excinfo:
        registry.add(name, entry.call, entry.keys)
    assert "\n" not in str(excinfo.value)


def test_the_schema_knows_lists_of_actuators() -> None:
    """Each with a pattern of ports. A key of an actuator needs it, wherever in the list it stands."""
    validator = Draft202012Validator(schema(["limit"]))

    def faults(**agent: Any) -> list[Any]:
        return list(validator.iter_errors({**document("actuator", "limit", {}), "agent": agent}))

    for valid in ("limit", "rate,limit", " s1-*:limit , rate", "switch:limit,s2-eth3:marking,host:rate"):
        assert not faults(actuators=valid, least_limit="20kB"), valid
    for wrong in ("limits", "rate,", "s1-*:", "limit rate", "limit,rat"):
        assert faults(actuators=wrong), wrong
    for without in ("rate", "s1-limit:rate", "host:rate,marking"):
        assert not faults(actuators=without) and faults(actuators=without, least_limit="20kB"), without
    assert not faults() and faults(least_limit="20kB")


def test_the_schema_knows_whose_key_a_policy_s_is() -> None:
    validator = Draft202012Validator(schema(["bandit"]))

    def faults(**controller: Any) -> list[Any]:
        return list(validator.iter_errors({**document("policy", "bandit", {}), "controller": controller}))

    for policy in ("max", "mine.py:Mine", "policy.npz"):
        assert not faults(policy=policy) and faults(policy=policy, explore=0.5), policy
    assert not faults(policy="bandit", explore=0.5) and faults(policy="bandit", explore=2)
    assert faults(name="dctcp", explore=0.5)


def test_the_schema_without_plug_ins_is_closed() -> None:
    """The one of the documentation has no actuator and no key of the examples."""
    valid = document("actuator", "marking", {})
    text = json.loads((ROOT / "docs" / "spec.schema.json").read_text())
    assert not list(Draft202012Validator(text).iter_errors(valid))
    for agent in ({"actuators": "limit"}, {"least_limit": "20kB"}, {"nothing_such": 1}):
        assert list(Draft202012Validator(text).iter_errors(valid | {"agent": agent})), agent


# --- features and rewards, which have no keys


@pytest.fixture
def calm(registries: None) -> None:
    usercode.load(EXAMPLES / "calm.py")


FEATURES = (*(feature.name for feature in observation.features()), "standing")
REWARDS = (*(term.name for term in reward.rewards()), "unrest")


def feature(name: str) -> observation.Feature:
    return next(candidate for candidate in observation.features() if candidate.name == name)


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_has_a_formula_and_bounds_that_hold(name: str) -> None:
    entry = feature(name)
    assert len(entry.formula) > 3 and not entry.formula.endswith(".") and entry.kind in observation.KINDS
    scene, info = made_up.scene(*(OF_FLOWS if entry.kind == "flow" else ()))
    observer = observation.Observer(scene, name)
    low, high = observer.space.low, observer.space.high
    assert (low == np.float32(entry.low)).all() and (high == np.float32(entry.high)).all()
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = observer.observe(made_up.random_frame(scene, info, rng))
        size = len({"host": scene.hosts, "port": scene.ports, "flow": scene.flow_row}[entry.kind])
        assert observer.space.contains(values) and len(values) == size


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_has_a_formula_and_a_range_that_holds(name: str) -> None:
    (entry,) = (entry for entry in reward.rewards() if entry.name == name)
    assert len(entry.formula) > 3 and not entry.formula.endswith(".")
    scene, info = made_up.scene()
    low, high = entry.range(scene)
    assert low < high
    rng = np.random.default_rng(1)
    for _ in range(20):
        now = made_up.random_frame(scene, info, rng)
        assert low - 1e-9 <= entry.value(now, scene, scene.share(now.in_force_bps)) <= high + 1e-9
    if entry.cost:
        with pytest.raises(UsageError, match=rf"agent\.reward: '{name}'.*write -{name}"):
            reward.WeightedReward.of(name)
        assert reward.WeightedReward.of(f"-{name}").range(scene) == (-high, -low)
    else:
        assert reward.WeightedReward.of(name).range(scene) == (low, high)


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize(
    ("key", "name"), [*(("agent.observe", name) for name in FEATURES), *(("agent.reward", name) for name in REWARDS)]
)
def test_features_and_rewards_are_listed(key: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    entries = observation.features() if key == "agent.observe" else reward.rewards()
    (formula,) = (entry.formula for entry in entries if entry.name == name)
    assert main(["list", name]) == 0
    assert re.search(rf"^{key} = '{name}': .*{re.escape(plain(formula))}$", capsys.readouterr().out, re.MULTILINE)
    assert main(["list", "features" if key == "agent.observe" else "rewards"]) == 0
    assert re.search(rf"^  {name} +.*{re.escape(formula)}$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_is_registered_once(name: str) -> None:
    with pytest.raises(UsageError, match=f"^feature '{name}'.*another name$"):
        observation.register(name, "port", 0, 1, "x", lambda frame, scene: np.zeros(len(scene.ports)))


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_is_registered_once(name: str) -> None:
    with pytest.raises(UsageError, match=f"^reward '{name}'.*another name$"):
        reward.register(name, (0, 1), "x", lambda frame, scene, share: 0.0)


@pytest.mark.parametrize("name", ["kmin", "kmax", "pmax", "limit"])
def test_what_actuators_set_is_listed_as_a_feature(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", name]) == 0
    assert re.search(rf"^agent.observe = '{name}': port, 0..1: ", capsys.readouterr().out, re.MULTILINE)


# --- algorithms of the NICs, which declare their keys in C


@pytest.fixture
def aimd(registries: None) -> None:
    usercode.load(EXAMPLES / "aimd.py")


@pytest.mark.usefixtures("aimd")
@pytest.mark.parametrize("name", NIC_ALGORITHMS)
def test_an_algorithm_declares_its_parameters(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    algorithm = algorithms.load(name, tmp_path)
    assert algorithm.name == name and len(algorithm.help) > 5 and not algorithm.help.endswith(".")
    for param in algorithm.parameters:
        assert param.help and not param.help.endswith(".") and param.source and param.least <= param.default <= param.greatest
        assert re.fullmatch(r"[a-z][a-z0-9_]*", param.name)
    assert main(["list", name]) == 0
    out = capsys.readouterr().out
    assert (
        all(param.name in out for param in algorithm.parameters)
        and name in schema()["then"]["properties"]["controller"]["properties"]["name"]["enum"]
    )


@pytest.mark.usefixtures("aimd")
@pytest.mark.parametrize("name", NIC_ALGORITHMS)
def test_an_algorithm_takes_its_parameters_within_their_bounds(name: str, tmp_path: Path) -> None:
    (tmp_path / "nic.toml").write_text(
        (f'plugins = ["{EXAMPLES}/aimd.py"]\n' if name == "aimd" else "")
        + f'topology.preset = "dumbbell-1g"\nworkload.kind = "pairs"\ntime.duration = "1ms"\ncontroller.name = "{name}"\n'
    )
    algorithm = algorithms.load(name, tmp_path)
    for param in algorithm.parameters:
        for value in (param.least, param.default, param.greatest):
            nic_spec = spec.load(tmp_path / "nic.toml", [f"nic.parameters.{param.name}={value}"])
            assert dict(nic_spec.nic.parameters) == {param.name: value}
        with pytest.raises(UsageError, match=rf"--set: nic\.parameters\.{param.name} = .*{param.least}\.\.{param.greatest}"):
            spec.load(tmp_path / "nic.toml", [f"nic.parameters.{param.name}={param.greatest + 1}"])
    with pytest.raises(UsageError, match=r"--set: nic\.parameters\.nothing_such = 1: "):
        spec.load(tmp_path / "nic.toml", ["nic.parameters.nothing_such=1"])


@pytest.mark.usefixtures("aimd")
def test_the_example_of_an_algorithm_sets_a_parameter() -> None:
    nic_spec = spec.load(EXAMPLES / "aimd.toml")
    assert dict(nic_spec.nic.parameters) == {"threshold": 384} and controllers.find("aimd").label == "AIMD on round trips"
