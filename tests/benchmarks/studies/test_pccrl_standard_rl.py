# SPDX-License-Identifier: Apache-2.0
"""The page on standard algorithms, from trainings' files made here: which algorithms master the task, by which criterion."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies.pcc_rl import standard_rl as figure
from dc_gym.cli.main import main
from dc_gym.nets import nic_policy
from dc_gym.study.claims import Verdict, judge
from dc_gym.study.model import StudyOptions

GOOD = {"inflation_over_eq_2": 1.03, "jain": 0.99, "sum_of_rates": 1.0, "inflation_std": 0.01}
COLUMNS = ["iteration", "steps", "spec", "flows", *GOOD]


def trained(out, algorithm, seed, last, steps=5000):
    """Makes a training's folder as its command leaves it; `last` has the values that differ from GOOD, by number of flows."""
    folder = out / "standard-rl" / "trainings"
    training = figure.training(folder, algorithm, seed, steps=5000)
    training.out.mkdir(parents=True)
    training.out.with_name(f"{training.name}.json").write_text(json.dumps(training.order(), indent=1) + "\n")
    training.policy.write_bytes(nic_policy.shipped("rlcc-mlp").read_bytes())
    half = steps // 2
    training.out.with_name(f"{training.algorithm}.toml").write_text(figure.CONFIGS.get(training.algorithm, ""))
    (training.out / "progress.csv").write_text(f"iteration,steps,reward\n1,{half},-3\n2,{steps},-1\n")
    (training.out / "curve.csv").write_text(f"update,decisions,mean_error,mean_reward\n1,{half},1,-3\n2,{steps - half},1,-1\n")
    rows = [",".join(COLUMNS)]
    for iteration in (0, 2):
        for flows in figure.FLOWS:
            values = GOOD | (last.get(flows, {}) if iteration else {"sum_of_rates": 0.0})
            rows.append(",".join(map(str, [iteration, 0, "train", flows, *(values[key] for key in GOOD)])))
    (training.out / "evaluation.csv").write_text("\n".join(rows) + "\n")
    return training


def options(out, **changes):
    return StudyOptions(out, **{"seeds": 2, "steps": 5000, "algorithms": ("PPO", "sac")} | changes)


@pytest.fixture(autouse=True)
def one_evaluation(monkeypatch):
    """Eq. 3's evaluation comes from the same file as the others', not from the policy."""
    monkeypatch.setattr(figure.GradientTraining, "closed_loop", figure.StandardTraining.closed_loop)


def verdicts(options, seeds, steps):
    """Returns the verdicts on the claims, where the study's own length is so many seeds and decisions."""
    evidence = evidence_of(options, seeds, steps)
    return [judge(claim, evidence).verdict for claim in figure.CLAIMS]


def evidence_of(options, seeds=2, steps=5000):
    return replace(figure.STUDY.collect, lengths={False: (seeds, steps)})(figure.STUDY, options, Quiet()).evidence


ANALYTIC_ALONE = [Verdict.NOT_TESTED] * 3
"""The verdicts on algorithms that were not trained."""


def test_short_trainings_are_not_judged(tmp_path):
    for seed in (1, 2):
        trained(tmp_path, "RLCC", seed, {})
    evidence = evidence_of(options(tmp_path, algorithms=()), *figure.LENGTHS[False])
    assert judge(figure.CLAIMS[0], evidence).why_not == "trainings of 5,000 decisions instead of 250,000"
    assert str(evidence.shortfall) == "trainings of 5,000 decisions instead of 250,000, 2 seeds instead of 3"


def test_each_seed_must_hold_with_every_number_of_flows(tmp_path):
    for seed in (1, 2):
        trained(tmp_path, "RLCC", seed, {})
        trained(tmp_path, "PPO", seed, {128: {"jain": 0.9}})
        trained(tmp_path, "SAC", seed, {} if seed == 1 else {2: {"inflation_over_eq_2": 0.89}})
    assert verdicts(options(tmp_path), 2, 5000) == [Verdict.SAME, Verdict.SAME, Verdict.OPPOSITE, Verdict.NOT_TESTED]
    evidence = evidence_of(options(tmp_path))
    assert judge(figure.CLAIMS[2], evidence).measured == ("SAC: 1 of 2 seeds; off eq. 2 by up to 3%, 11%",)
    assert evidence.steps("eq. 3, 8 flows") == 5000 and list(evidence.variants) == [
        figure.name(algorithm, flows) for algorithm in ("RLCC", "PPO", "SAC") for flows in figure.FLOWS
    ]
    assert "fluid model, not labs" in dict(figure.facts(options(tmp_path)))["Ground"]
    assert figure.STUDY.draw(evidence).axes


@pytest.mark.parametrize("values", [{"sum_of_rates": 0.9}, {"jain": 0.95}, {"inflation_over_eq_2": 1.11}, {"jain": "nan"}])
def test_each_part_of_the_criterion_counts(values, tmp_path):
    trained(tmp_path, "RLCC", 1, {8: values})
    assert verdicts(options(tmp_path, seeds=1, algorithms=()), 1, 5000) == [Verdict.OPPOSITE, *ANALYTIC_ALONE]


def test_a_training_of_another_kind_is_not_taken_for_it(tmp_path):
    training = trained(tmp_path, "RLCC", 1, {})
    training.out.with_name(f"{training.name}.json").write_text(json.dumps(training.order() | {"batch": 1}))
    with pytest.raises(UsageError, match="--force trains it anew"):
        evidence_of(options(tmp_path, seeds=1, algorithms=()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithms": ("APPO",)}, "--algorithms APPO: does not train flows"),
        ({"preset": "iroko-thesis"}, "--preset iroko-thesis"),
    ],
)
def test_what_this_figure_does_not_train_with_is_refused(tmp_path, settings, message):
    with pytest.raises(UsageError, match=message):
        evidence_of(options(tmp_path, seeds=1, **settings))


def test_what_a_training_is_told(tmp_path):
    training = trained(tmp_path, "DDPG", 3, {})
    words = training.argv()
    assert words[:2] == ["train", "--agents=flows"] and "--resume" not in words
    assert {"--algo=DDPG", "--seed=3", "--steps=5000", f"--config={training.out.with_name('DDPG.toml')}"} < set(words)


def test_what_eq_3_is_told_and_leaves(tmp_path, monkeypatch, capsys):
    training = figure.training(tmp_path, "RLCC", 1, steps=700)
    words = training.argv()
    assert words[:4] == ["method", "rlcc", "train", "--ground=fluid"]
    assert {"--seed=1", "--updates=3", "--batch-size=250"} < set(words)
    assert main(words) == 0 and training.trained() >= 700


def test_eq_3_is_evaluated_in_the_closed_loop_of_its_policy(tmp_path, monkeypatch):
    monkeypatch.undo()
    training = trained(tmp_path, "RLCC", 1, {})
    rows = training.closed_loop()
    assert tuple(rows) == figure.FLOWS
    for flows, row in rows.items():
        assert row["inflation_over_eq_2"] == pytest.approx(1.0, abs=0.1) and row["jain"] > 0.95 and row["flows"] == flows


def test_td3_is_trained_where_it_is_asked_for():
    def algorithms(**settings):
        return figure._algorithms(figure.STUDY, StudyOptions(Path("out"), **settings))

    assert algorithms() == ["RLCC", "PPO", "SAC", "DDPG"]
    assert algorithms(all_cases=True) == ["RLCC", "PPO", "SAC", "DDPG", "TD3"]
    assert algorithms(algorithms=("td3",)) == ["RLCC", "TD3"] and algorithms(variants=("SAC, 8 flows",)) == ["SAC"]
