# SPDX-License-Identifier: Apache-2.0
"""`dcgym method acc train`: drawn scenarios, and trainings on labs that are killed, go on, lose labs, and are refused."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dc_gym.base.errors import LabError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.cli.main import main
from dc_gym.methods.acc.keys import GROUPS
from dc_gym.methods.acc.offline import checkpoint, on_labs, scenarios, train
from dc_gym.methods.acc.offline.on_labs import AccTrainingSettings, Trainer
from dc_gym.methods.acc.offline.scenarios import MOST_FLOWS_OF_SENDER, MOST_OUTSTANDING, SHARES, drawn
from dc_gym.methods.acc.policy import AccPolicy
from dc_gym.methods.acc.settings import DqnSettings
from dc_gym.methods.acc.template import DEPLOYED
from dc_gym.run.plan.experiment import Experiment
from dc_gym.spec.load import load
from dc_gym.traffic.kinds.storage import MIXES

EXAMPLE = Path(__file__).parents[3] / "examples/acc.toml"
SMALL = AccTrainingSettings(episodes=3, labs=2, steps=12, updates_per_step=1, replay=30, dqn=DqnSettings(batch_size=4))
BUSY = scenarios.Scenario("incast", 3, {"kind": "many_to_one", "flows": 8})
"""Two hosts that send to the third: a queue from the first slot on."""


# --- scenarios


def test_scenarios_are_drawn_by_seed_and_within_the_paper_s_ranges() -> None:
    assert drawn(1, 3) == drawn(1, 3) and len({json.dumps(drawn(1, number).workload) for number in range(20)}) == 20
    cases = [drawn(seed, episode) for seed in (1, 2) for episode in range(300)]
    shares = Counter(case.kind for case in cases)
    assert set(shares) == set(SHARES) and 0.3 < shares["incast"] / len(cases) < 0.45
    for case in cases:
        if case.kind == "incast":
            flows, size = case.workload["senders"], int(case.workload["size"].removesuffix("B"))
            assert 2 <= flows <= 64 * MOST_FLOWS_OF_SENDER and 10_000 <= size <= 10**7 and 3 <= case.hosts <= 17
        if "load" in case.workload:
            assert 0.1 <= case.workload["load"] <= 0.9


@pytest.mark.parametrize("mix", sorted(MOST_OUTSTANDING))
def test_an_episode_of_storage_has_room_in_a_lab(mix: str) -> None:
    """The state matrix of a lab is 4 MiB, and a row of a flow has 64 bytes."""
    assert set(MOST_OUTSTANDING) == set(MIXES)
    workload = {"kind": "storage", "mix": mix, "outstanding": MOST_OUTSTANDING[mix]}
    spec = scenarios.Scenario("storage", scenarios.HOSTS, workload).spec(DEPLOYED, DEPLOYED.interval_ns * 10, 1)
    flows = len(Experiment.of(spec).schedule.flows)
    assert 10 < flows * on_labs.MOST_STEPS / 10 < 60_000


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("kind", scenarios.SCENARIOS)
def test_every_kind_gives_a_spec_that_loads(kind: str, groups: str) -> None:
    one = next(case for episode in range(100) if (case := drawn(1, episode)).kind == kind)
    case_spec = one.spec(DEPLOYED, 10**7, 5, groups)
    assert len(case_spec.graph().switches) == (1 if groups == "queue" else 3)
    assert case_spec.agent.interval_ns == DEPLOYED.interval_ns and case_spec.steps == 20 and case_spec.controller.name == "dcqcn"


# --- trainings


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "drawn", lambda *labels: BUSY)


@pytest.mark.lab
def test_a_training_survives_its_labs_and_itself_and_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: None
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for out in (whole, broken):
        out.mkdir()
    policy = train.train(SMALL, whole, Quiet())

    class Killed(Exception):
        pass

    written = checkpoint.write

    def stop(trainer: Trainer, folder: Path, depends_on: Any) -> None:
        written(trainer, folder, depends_on)
        if len(trainer.curve) == 1:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write", stop)
        with pytest.raises(Killed):
            train.train(SMALL, broken, Quiet())
    assert not (broken / "policy.npz").exists(), "of a training that is not over"

    decide, killed = on_labs._Lab.decide, []

    def kill(lab: Any, *arguments: Any) -> None:
        if len(killed) == 5:
            os.kill(lab.session.pid, signal.SIGKILL)
        killed.append(lab)
        decide(lab, *arguments)

    monkeypatch.setattr(on_labs._Lab, "decide", kill)
    train.train(SMALL, broken, Quiet(), resume=True)
    for name in ("policy.npz", "curve.csv", "checkpoint.npz"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    record = json.loads((broken / "manifest.json").read_text())
    assert (record["resumed_at_episode"], record["episodes_repeated"]) == (1, 1) and record["reproducible"].startswith("yes")
    assert record["policy_sha256"] == policy.sha256() == AccPolicy.read(broken / "policy.npz").sha256()
    assert record["decisions"] > 20 and record["environment"]["kernel"]
    first = Trainer.new(SMALL).learner.net.parameters
    assert all((weights != other).any() for weights, other in zip(policy.net.parameters, first, strict=True)), "it has learned"
    assert len((whole / "curve.csv").read_text().splitlines()) == 4


def test_a_lab_that_dies_again_and_again_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def die(trainer: Trainer, folder: Path) -> Any:
        tries.append(folder)
        raise LabError("the lab died")

    monkeypatch.setattr(on_labs, "_episode", die)
    with pytest.raises(LabError, match="the lab died"):
        on_labs.run(Trainer.new(SMALL), tmp_path, lambda trainer: None)
    assert len(tries) == 1 + on_labs.MOST_REPEATS


def test_a_training_goes_on_as_it_began(tmp_path: Path) -> None:
    trainer = Trainer.new(SMALL)
    checkpoint.write(trainer, tmp_path, {"settings": {"seed": 1}})
    assert checkpoint.FORMAT.length(tmp_path) == 0
    again = checkpoint.read(tmp_path, {"settings": {"seed": 1}}, SMALL)
    assert all((array == other).all() for array, other in zip(trainer.arrays().values(), again.arrays().values(), strict=True))
    with pytest.raises(UsageError, match=r"settings\.seed.* 1 .* 2 .*; .*goes on as it began"):
        checkpoint.read(tmp_path, {"settings": {"seed": 2}}, SMALL)
    (tmp_path / "checkpoint.npz").write_text("nothing")
    with pytest.raises(UsageError, match=r"--resume.*`dcgym method acc train`"):
        checkpoint.read(tmp_path, {"settings": {"seed": 1}}, SMALL)


def test_exploration_falls_by_half_after_its_steps() -> None:
    trainer = Trainer.new(replace(SMALL, steps=100, half_life=200, explore=0.8, explore_least=0.3))
    shares = []
    for episodes in (0, 2, 4):
        trainer.curve = on_labs.np.zeros(episodes, on_labs.CURVE)
        shares.append(trainer.share_at_random)
    assert shares == pytest.approx([0.8, 0.4, 0.3])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--episodes", "0"), "--episodes 0: give 1 or more"),
        (("--labs", "65"), "--labs 65: give 64 or fewer"),
        (("--steps", "151"), "--steps 151: a lab has no room for the flows of so long an episode; give 150 or fewer"),
        (("--updates-per-step", "-1"), "--updates-per-step -1: give 1 or more"),
        (("--template", "acc-deploid"), "template 'acc-deploid' is unknown; did you mean acc-deployed"),
        (("--template", "none.toml"), "cannot read the template"),
        (("--resume",), "has no checkpoint.npz"),
    ],
)
def test_wrong_options_are_one_line(words: tuple[str, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["method", "acc", "train", "--out", str(tmp_path / "out"), *words]) == 2
    stderr = capsys.readouterr().err.strip()
    assert why in stderr and "\n" not in stderr


@pytest.mark.lab
@pytest.mark.parametrize(("groups", "most_decisions"), [("queue", 3 * 4), ("direction", 2 * 4)])
def test_a_run_reads_what_a_training_wrote(groups: str, most_decisions: int, tmp_path: Path, busy: None) -> None:
    out = tmp_path / "trained"
    options = ["--episodes", "1", "--labs", "1", "--steps", "4", "--groups", groups, "--quiet"]
    assert main(["method", "acc", "train", "--out", str(out), *options]) == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["settings"]["groups"] == groups and 0 < manifest["decisions"] <= most_decisions
    short = ["time.duration=5ms", "controller.learn=false", f"controller.start={out / 'policy.npz'}"]
    loaded = load(EXAMPLE, short)
    overrides = [word for setting in short for word in ("--set", setting)]
    assert loaded.controller.policy == "acc"
    assert main(["run", str(EXAMPLE), *overrides, "--out", str(tmp_path / "run"), "--no-plot", "--quiet"]) == 0
    assert (tmp_path / "run/acc-start.npz").read_bytes() == (out / "policy.npz").read_bytes()
