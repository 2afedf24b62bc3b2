# SPDX-License-Identifier: Apache-2.0
"""The studies of what trainings learn, on made-up evidence: each claim can fail. ACC's are in tests/methods/acc."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.errors import TestbedError
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.benchmarks.studies.fdcc import n_to_one
from dc_gym.benchmarks.studies.fdcc.common import FDCC
from dc_gym.benchmarks.studies.learning import common, fdcc, marking, rates, rlcc, rlcc_trees
from dc_gym.benchmarks.studies.learning.common import Method
from dc_gym.methods.rlcc.offline.bottleneck import BottleneckRun
from dc_gym.nets import nic_policy
from dc_gym.spec import load
from dc_gym.study import claims, collect, identity
from dc_gym.study.claims import Verdict
from dc_gym.study.evidence import Evidence, Shortfall, Track, VariantEvidence
from dc_gym.study.model import Study, StudyOptions

Rows = dict[str, dict[str, dict[int, float]]]
OPTIONS = StudyOptions(Path("/tmp/out"))


def evidence_of(rows: Rows, learning: dict[str, dict[int, Track]] | None = None) -> Evidence:
    """Returns evidence by variant, measure and seed."""
    curves = learning or {}
    return Evidence({key: VariantEvidence(key, key, "#000000", row, learning=curves.get(key, {})) for key, row in rows.items()})


def failed(study: Study, evidence: Evidence) -> list[str]:
    verdicts = {claim.title: claims.judge(claim, study.derive(evidence)).verdict for claim in study.claims}
    return [title for title, verdict in verdicts.items() if verdict is not Verdict.SAME]


def by_seed(first: float, step: float = 0.0, seeds: int = 3) -> dict[int, float]:
    return {seed: first + seed * step for seed in range(1, seeds + 1)}


@pytest.mark.parametrize(
    ("measure", "value", "claim"),
    [
        ("reward", 0.1, "PPO's reward is above that of a random policy"),
        ("queueing_delay_s", 0.0101, "PPO's delay is a tenth of CUBIC's, or less"),
        ("goodput_bps", 7.5e6, "PPO has 80 % of the oracle's goodput"),
        ("host_queue_bytes", 9000.0, "The thesis' reward leaves longer queues in hosts"),
    ],
)
def test_each_bar_of_rates_can_fall_short(measure: str, value: float, claim: str) -> None:
    numbers = {"reward": 0.8, "queueing_delay_s": 0.009, "goodput_bps": 8.5e6, "host_queue_bytes": 4500.0}
    others = {
        "cubic": {"queueing_delay_s": by_seed(0.1)},
        "fair-share": {"goodput_bps": by_seed(9.4e6)},
        "random": {"reward": by_seed(0.1, 0.001)},
        rates.THESIS: {"host_queue_bytes": by_seed(9000.0, 1.0)},
    }
    curve = {seed: Track(np.array([1.0, 9.0]), {"reward": np.array([0.1, 0.8])}) for seed in (1, 2, 3)}
    rows = {**others, rates.PPO: {name: by_seed(number, number / 1e4) for name, number in numbers.items()}}
    assert failed(rates.STUDY, evidence_of(rows, {rates.PPO: curve})) == []
    rows[rates.PPO] = {**rows[rates.PPO], measure: by_seed(value, value / 1e4)}
    assert failed(rates.STUDY, evidence_of(rows, {rates.PPO: curve})) == [claim]
    falls = {seed: Track(track.x, {"reward": -track.values["reward"]}) for seed, track in curve.items()}
    assert "PPO's reward is above that of its beginning" in failed(rates.STUDY, evidence_of(rows, {rates.PPO: falls}))


def test_ppo_is_compared_with_the_best_static_setting_by_its_worst_seed() -> None:
    rows: Rows = {name: {"reward": by_seed(0.5)} for name in marking.STATIC}
    rows |= {"K = 10p": {"reward": by_seed(0.8)}, marking.RANDOM: {"reward": by_seed(0.6, 0.001)}}
    for worst, short in ((0.761, []), (0.759, ["PPO is as good as the best static setting"])):
        rows[marking.TRAINED] = {"reward": {1: 0.8, 2: worst, 3: 0.79}}
        assert failed(marking.STUDY, evidence_of(rows)) == short
    assert marking.with_best(evidence_of(rows)).variants[marking.BEST].label == "best static setting: K = 10p"


def test_a_seed_of_fdcc_fails_by_what_its_flows_did() -> None:
    quiet = {"unfinished": 0.0, "pauses": 3.0, "own_goodput": 0.97, "unfair": 0.05, "drops": 0.0}
    rows = {n_to_one.name(rival, flows): dict(quiet) for rival in fdcc.RIVALS for flows in fdcc.COUNTS}
    rows |= {n_to_one.name(FDCC, flows): quiet | {"unfair": 0.049} for flows in fdcc.COUNTS}

    def short(flows: int, **changed: float) -> list[str]:
        name = n_to_one.name(FDCC, flows)
        worse = {
            title: {of: {1: value} for of, value in row.items()} for title, row in {**rows, name: rows[name] | changed}.items()
        }
        return failed(fdcc.STUDY, evidence_of(worse))

    fair, line, pauses, ends, everything = (
        next(claim.text for claim in fdcc.STUDY.claims if word in claim.text)
        for word in ("fairer", "line", "pauses", "end", "everything")
    )
    assert short(4) == [] == short(4, unfair=0.0509) and short(4, unfair=0.0511) == [fair, everything]
    assert short(256, unfair=0.05) == [fair, everything]
    assert short(16, own_goodput=0.94) == [line, everything] and short(16, own_goodput=0.95) == []
    assert short(64, pauses=4.0) == [pauses, everything]
    assert short(64, unfinished=1.0) == [ends, everything]


@pytest.mark.parametrize("name", [name for name in LIBRARY.names() if name.startswith(("learning/", "tcp/"))])
def test_a_study_has_identities(name: str) -> None:
    study = LIBRARY.load(name)
    assert len(identity.of_runs(study)) == len(identity.of_measures(study)) > 0


def test_three_of_five_seeds_are_enough() -> None:
    for holding, verdict in ((3, Verdict.SAME), (2, Verdict.OPPOSITE)):
        criterion = common.most(("a",), "x", 3 / 5, lambda evidence, seed: evidence.values("a", "y")[seed] > 0, "y")
        values = {seed: 1.0 if seed <= holding else -1.0 for seed in range(1, 6)}
        assert criterion.judge(evidence_of({"a": {"y": values}})).verdict is verdict


@pytest.mark.parametrize(
    ("measure", "value", "claim"),
    [
        ("inflation", 0.89 * 2.012, "mlp: RTT inflation is that of eq. 2"),
        ("inflation", 1.11 * 2.012, "mlp: RTT inflation is that of eq. 2"),
        ("utilization", 0.9, "The line is full and shared equally"),
        ("jain", 0.95, "The line is full and shared equally"),
        ("drops", 1.0, "Settled flows lose nothing"),
    ],
)
def test_a_network_on_eq_2_is_good_and_others_are_short(measure: str, value: float, claim: str) -> None:
    laws = {variant.name: variant.paper["inflation"] for variant in rlcc.STUDY.variants}
    numbers = {title: {"inflation": 1.05 * law, "utilization": 0.999, "jain": 0.99, "drops": 0.0} for title, law in laws.items()}
    rows = {title: {of: by_seed(number) for of, number in row.items()} for title, row in numbers.items()}
    assert failed(rlcc.STUDY, evidence_of(rows)) == []
    name = rlcc.name("mlp", 32)
    bad = value / 2.012 * laws[name] if measure == "inflation" else value
    rows[name] = {**rows[name], measure: by_seed(bad)}
    assert failed(rlcc.STUDY, evidence_of(rows)) == [claim]


@pytest.mark.parametrize(
    ("inflation", "goodput", "near"),
    [(2.09, 0.98, True), (2.11, 0.98, False), (1.89, 0.98, False), (2.0, 0.961, True), (2.0, 0.959, False)],
)
def test_trees_are_near_their_network_or_not(inflation: float, goodput: float, near: bool) -> None:
    rows = {variant.name: {"goodput": {1: 0.98}, "inflation": {1: 2.0}} for variant in rlcc_trees.STUDY.variants}
    rows[rlcc.name("10 trees", 512)] = {"goodput": {1: goodput}, "inflation": {1: inflation}}
    assert failed(rlcc_trees.STUDY, evidence_of(rows)) == ([] if near else ["10 trees do what their network does"])


def test_runs_of_a_policy_are_those_of_the_bottleneck(tmp_path: Path) -> None:
    """Apart from the name and the policy."""
    variant = next(candidate for candidate in rlcc.STUDY.variants if candidate.name == "mlp, 8 flows")
    folder = collect.folder("rlcc", StudyOptions(tmp_path))
    collect.write(folder, rlcc.STUDY.files_of([1]))
    policy = folder / "mlp-1" / "policy.npz"
    policy.parent.mkdir()
    policy.write_bytes(nic_policy.path_of("rlcc-mlp").read_bytes())
    study_spec = collect.spec_of(LIBRARY.load("learning/rlcc"), variant, StudyOptions(tmp_path), 1).to_dict()
    cell = BottleneckRun("rlcc-mlp", 8, rlcc.SETTLED_MS[8], rlcc.MEASURED_MS, policy).cell(tmp_path, "x")
    other = load(cell.spec, cell.settings).to_dict()
    assert (folder / "8-flows.csv").read_text() == (tmp_path / "x.csv").read_text()
    for run_spec in (study_spec, other):
        for section, key in (("workload", "file"), ("metrics", "slowdown")):
            run_spec[section].pop(key)
        run_spec.pop("name")
    assert study_spec == other


def test_a_method_trains_what_is_missing_and_shorter_trainings_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    class Ended:
        returncode = 0

    def run(command: list[str]) -> Ended:
        assert command[command.index("train") - 2] == "method"
        commands.append(command[command.index("train") - 1 :])
        return Ended()

    monkeypatch.setattr("subprocess.run", run)
    method, short = Method("fdcc", "--episodes", 12), StudyOptions(tmp_path, steps=2)
    assert method.place("fdcc", short) == tmp_path / "fdcc-of-2" and method.place("fdcc", OPTIONS).name == "fdcc"
    out = tmp_path / "seed-3"
    method.policy(out, 3, short)
    out.mkdir()
    (out / "checkpoint.npz").touch()
    method.policy(out, 3, OPTIONS)
    (out / "policy.npz").touch()
    assert method.policy(out, 3, OPTIONS) == out / "policy.npz"
    words = ["fdcc", "train", "--seed", "3", "--episodes"]
    assert commands == [[*words, "2", "--out", str(out)], [*words, "12", "--out", str(out), "--resume"]]
    assert method.shortfall(Shortfall(), short).runs == "trainings of 2 episodes instead of 12"
    assert not str(method.shortfall(Shortfall(), OPTIONS))
    monkeypatch.setattr(Ended, "returncode", 2)
    with pytest.raises(TestbedError, match="exit code 2"):
        method.policy(tmp_path / "seed-4", 4, OPTIONS)
