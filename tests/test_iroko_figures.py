# SPDX-License-Identifier: Apache-2.0
"""Papers' figures: what is registered, when a claim holds, what resumes after a stop, and a figure from labs."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import synthetic

from dc_gym import reproduce
from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies.iroko import common, figure_5_4, figure_5_5
from dc_gym.cli import main
from dc_gym.figures import kit
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.rl import presets, settings
from dc_gym.spec import Spec
from dc_gym.study import campaign, claims, drawing, measured, page, registry, runs, setup, trainings
from dc_gym.study.claims import Claim, ClaimState
from dc_gym.study.evidence import Evidence, Measure, Shortfall, Track, VariantEvidence
from dc_gym.study.findings import Findings
from dc_gym.study.identity import Provenance
from dc_gym.study.options import StudyOptions
from dc_gym.sweep.pool import CellOutcome

QUEUE = Measure("queue", "queue (kB)", 1e-3)
SETUPS = {
    each.name: each for each in (common.DUMBBELL_10M, figure_5_4.SETUP, common.DUMBBELL_UDP, figure_5_5.SETUP, common.FATTREE_TCP)
}
IROKO = registry.PAPERS["iroko"]


def contender(name, values, steps=0, curve=None):
    """Returns a contender; if `steps` is not 0, with trainings of so many steps."""
    learning = {}
    if steps:
        x = np.linspace(0, steps, 11)[1:]
        learning = {seed: Track(x, {"queue": np.asarray(curve if curve is not None else x, float)}) for seed in (1, 2, 3)}
    numbers = {"queue": dict(enumerate(values, 1))}
    return VariantEvidence(name, name.upper(), "#000000", numbers, learning=learning)


def evidence(*variants, paper_steps=1000):
    return Evidence({each.name: each for each in variants}, paper_steps)


def state(criterion, *variants):
    return claims.judge(Claim("", "", (criterion,)), evidence(*variants)).state


def test_every_figure_of_a_paper_can_be_run_and_has_a_title(capsys):
    for number in IROKO.figures:
        figure = IROKO.figure(number)
        assert figure.title and callable(figure.run)
    assert main.main(["reproduce", "--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed[: len(IROKO.figures) + 1] == ["iroko:", *IROKO.figures]


def test_what_is_unknown_is_one_line(capsys, tmp_path):
    for argv, said in (
        ([], "name a paper (iroko, rl-cc, pcc-rl, fdcc, acc) or all"),
        (["all", "5.2"], "name the paper of this figure"),
        (["iroco"], "did you mean iroko?"),
        (["iroko", "5.7"], "figure '5.7' is unknown"),
        (["iroko", "5.2", "--algorithms", "PPO,,DDPG"], "write it like PPO,DDPG"),
        (["iroko", "5.2", "--algorithms", "none", "--duration", "soon"], "--duration"),
    ):
        assert main.main(["reproduce", *argv, "--out", str(tmp_path / "out")]) == 2
        assert said in capsys.readouterr().err


def test_a_difference_counts_where_its_interval_leaves_no_doubt():
    short, long = contender("a", [10, 11, 12]), contender("b", [20, 21, 22.5])
    assert state(claims.below("a", "b", QUEUE), short, long) is ClaimState.REPRODUCED
    assert state(claims.above("a", "b", QUEUE), short, long) is ClaimState.CONTRADICTED
    assert state(claims.below("a", "b", QUEUE), contender("a", [1, 30, 12]), long) is ClaimState.CONTRADICTED, "in doubt"
    assert state(claims.below("a", "b", QUEUE), contender("a", [10]), contender("b", [20])) is ClaimState.TOO_SHORT, "one seed"
    assert state(claims.below("a", "c", QUEUE), short, long) is ClaimState.NOT_RUN


def test_differences_are_taken_seed_by_seed():
    """Seeds differ far more than the contestants."""
    a, b = contender("a", [10, 1000, 100_000]), contender("b", [11, 1001.1, 100_000.9])
    assert state(claims.below("a", "b", QUEUE), a, b) is ClaimState.REPRODUCED


def test_a_factor_multiplies_the_second():
    a, b = contender("a", [10, 10.1, 10.2]), contender("b", [15, 15.1, 15.2])
    assert state(claims.below("a", "b", QUEUE), a, b) is ClaimState.REPRODUCED
    assert state(claims.below("a", "b", QUEUE, 0.5), a, b) is ClaimState.CONTRADICTED
    assert state(claims.above("a", "b", QUEUE, 0.5), a, b) is ClaimState.REPRODUCED


def test_what_does_not_hold_after_a_short_training_is_open():
    b = contender("b", [5, 5.1, 5.2])
    wanted = claims.below("a", "b", QUEUE)
    assert state(wanted, contender("a", [9, 9.1, 9.2], steps=999), b) is ClaimState.OPEN
    assert state(wanted, contender("a", [9, 9.1, 9.2], steps=1000), b) is ClaimState.CONTRADICTED
    assert state(wanted, contender("a", [1, 1.1, 1.2], steps=10), b) is ClaimState.REPRODUCED
    assert claims.judge(Claim("", "", (wanted,)), evidence(contender("a", [1, 2, 3], steps=70), b)).steps == 70


def test_runs_below_the_figure_s_own_length_are_not_judged():
    """They are not judged even where intervals are clear: intervals do not show how long a flow needs to settle."""
    a, b = contender("a", [10, 11, 12]), contender("b", [20, 21, 22.5])
    for criterion in (claims.below("a", "b", QUEUE), claims.above("a", "b", QUEUE), claims.less_than("a", QUEUE, 1)):
        found = Evidence({"a": a, "b": b}, shortfall=Shortfall(runs="runs of 4s instead of 30s"))
        verdict = claims.judge(Claim("", "", (criterion,), why="of something"), found)
        assert verdict.state is ClaimState.TOO_SHORT and verdict.why == ""
    absent = Evidence({"a": a}, shortfall=Shortfall(runs="runs of 4s instead of 30s"))
    assert claims.judge(Claim("", "", (claims.below("a", "b", QUEUE),)), absent).state is ClaimState.NOT_RUN


def test_fewer_seeds_are_judged_where_intervals_leave_no_doubt():
    def judged(criterion, *variants):
        found = Evidence({each.name: each for each in variants}, shortfall=Shortfall(seeds="2 seeds instead of 3"))
        return claims.judge(Claim("", "", (criterion,)), found).state

    below, b = claims.below("a", "b", QUEUE), contender("b", [20, 21])
    assert judged(below, contender("a", [10, 11.1]), b) is ClaimState.REPRODUCED
    assert judged(below, contender("a", [30, 31.1]), b) is ClaimState.CONTRADICTED
    assert judged(below, contender("a", [10, 25]), b) is ClaimState.TOO_SHORT
    assert judged(claims.less_than("a", QUEUE, 15), contender("a", [10, 11])) is ClaimState.TOO_SHORT, "another seed may break it"
    assert judged(claims.less_than("a", QUEUE, 10), contender("a", [9, 11])) is ClaimState.CONTRADICTED


def test_trainings_that_were_cut_short_are_not_judged():
    def judged(who):
        b = contender("b", [5, 5.1, 5.2])
        found = Evidence({"a": who, "b": b}, 1000, Shortfall(trainings="trainings of 100 steps instead of 1,000"))
        return claims.judge(Claim("", "", (claims.below("a", "b", QUEUE),)), found).state

    assert judged(contender("a", [1, 1.1, 1.2], steps=100)) is ClaimState.TOO_SHORT
    assert judged(contender("a", [1, 1.1, 1.2])) is ClaimState.REPRODUCED, "nobody in it learns"


def test_a_campaign_knows_what_the_command_made_shorter(tmp_path):
    def short(**asked):
        return str(campaign.Campaign(common.DUMBBELL_10M, StudyOptions(tmp_path, **asked), lambda result: {}).shortfall)

    assert short() == short(duration="30s", seeds=3, steps=20_000) == short(duration="60s", seeds=9) == ""
    assert short(duration="4s", seeds=2) == "runs of 4s instead of 30s, 2 seeds instead of 3"
    assert short(steps=500) == "trainings of 500 steps instead of 20,000"
    assert short(full=True, duration="30s") == "runs of 30s instead of 100s", "beside the paper's own"


def test_panels_without_data_are_left_out():
    track = Track(
        np.arange(5.0), {"switch_queue_bytes": np.ones(5) * 1e4, "rtt_s": np.full(5, np.nan), "goodput_bps": np.ones(5)}
    )
    who = replace(contender("a", [1, 2]), over_time={1: replace(track, most={"goodput_bps": 1.0}), 2: track})
    panels = [
        Measure("switch_queue_bytes", "queue (kB)", 1e-3),
        Measure("rtt_s", "RTT (ms)", 1e3),
        Measure("goodput_bps", "goodput"),
    ]
    figure = drawing.figure(evidence(who), panels, "t")
    assert [ax.get_ylabel() for ax in figure.axes] == ["Queue\n(kB)", "Goodput"]
    none = drawing.figure(evidence(contender("a", [])), panels, "t")
    assert len(none.axes) == 1


def test_bounds_hold_for_every_seed():
    assert state(claims.less_than("a", QUEUE, 10), contender("a", [1, 2, 9])) is ClaimState.REPRODUCED
    assert state(claims.less_than("a", QUEUE, 10), contender("a", [1, 2, 10])) is ClaimState.CONTRADICTED
    assert state(claims.more_than("a", QUEUE, 0), contender("a", [1, 2, 0])) is ClaimState.CONTRADICTED
    assert state(claims.more_than("a", QUEUE, 0), contender("a", [])) is ClaimState.TOO_SHORT


def test_criteria_on_training_curves():
    falls = claims.learned("a", "it falls", QUEUE, lambda x, y: bool(y[-1] < y[0]))
    assert state(falls, contender("a", [1], 2000, np.linspace(9, 1, 10))) is ClaimState.REPRODUCED
    assert state(falls, contender("a", [1], 2000, np.linspace(1, 9, 10))) is ClaimState.CONTRADICTED
    assert state(falls, contender("a", [1], 2000, np.full(10, np.nan))) is ClaimState.TOO_SHORT


def test_a_collapse_and_a_rise_are_told_from_the_opposite():
    x = np.arange(1, 101.0)
    collapse = np.where(x < 40, 9e8, 1e8)
    assert figure_5_4._starts_well_and_collapses(x, collapse)
    assert not figure_5_4._starts_well_and_collapses(x, collapse[::-1]) and not figure_5_4._starts_well_and_collapses(x, 0 * x)
    assert figure_5_5._still_rising(x, x) and not figure_5_5._still_rising(x, -x) and not figure_5_5._still_rising(x, 0 * x + 1)


def test_learners_are_compared_while_they_learn():
    """The last tenth of a training counts, and of a TCP's run as much as an episode."""
    x, names = np.arange(1, 101.0), {each.name for each in common.COMPARED}
    curve = Track(x, {drawing.LEARNED_NAMES.get(name, name): np.where(x > 90, 7.0, 1.0) for name in names})
    run = Track(x, {name: np.where(x <= 5, 8.0, np.nan if name == "rtt_s" else 20.0) for name in names})
    learner = replace(contender("APPO", [9, 9]), learning={1: curve, 2: curve})
    tcp = replace(contender(common.DCTCP, [3, 3]), over_time={1: run, 2: run})
    found = common.with_learning(evidence(learner, tcp), 5)
    while_it_learns, over_an_episode = common.learning("APPO"), common.episode(common.DCTCP)
    assert list(found.variants) == ["APPO", common.DCTCP, while_it_learns, over_an_episode]
    assert all(found.values(while_it_learns, name) == {1: 7.0, 2: 7.0} for name in names)
    assert all(found.values(over_an_episode, name) == {1: 8.0, 2: 8.0} for name in names)
    assert found.steps(while_it_learns) == 100 and found.steps(over_an_episode) is None
    assert found.values("APPO", QUEUE.name) == {1: 9, 2: 9}, "runs with the final policies stay"
    assert common.with_learning(evidence(tcp), 5) == evidence(tcp), "nothing learns"
    nothing = replace(learner, learning={1: Track(x[:0], {name: x[:0] for name in curve.values}), 2: curve})
    assert common.with_learning(evidence(nothing), 5).values(while_it_learns, "rtt_s") == {2: 7.0}


@pytest.mark.parametrize("number", IROKO.figures)
def test_claims_are_about_contestants_and_quantities_that_there_are(number):
    module = __import__(f"{registry.MODULES}.{IROKO.figures[number]}", fromlist=["CLAIMS"])
    known = {*setup.BASELINES, *setup.COLORS} | {f"{each}, {hosts} hosts" for each in ("limited", "unlimited") for hosts in HOSTS}
    known |= {common.learning(each) for each in setup.COLORS} | set(map(common.episode, common.RIVALS))
    known |= {each.name for each in module.SETUP.own} if hasattr(module, "SETUP") else set()
    for claim in getattr(module, "CLAIMS", ()):
        assert claim.text and claim.source and claim.criteria
        assert {name for each in claim.criteria for name in each.about} <= known


HOSTS = [4 << power for power in range(10)]


CLAIMED = {  # the figures of the thesis that share a set of runs
    "dumbbell-10m": ("5.2", "5.3"),
    "dumbbell-1g": ("5.4",),
    "dumbbell-10m-udp": ("udp",),
    "fattree-udp": ("5.5",),
}


@pytest.mark.parametrize("name", CLAIMED)
def test_by_default_those_are_trained_that_claims_are_about(name, tmp_path):
    modules = [importlib.import_module(IROKO.module(number)) for number in CLAIMED[name]]
    about = {who for module in modules for claim in module.CLAIMS for each in claim.criteria for who in each.about}
    ran = {each.name: each for each in campaign.campaign(SETUPS[name], StudyOptions(tmp_path)).contestants()}
    learners = {each.name for each in ran.values() if each.algorithm}
    derived = {*map(common.learning, learners), *map(common.episode, common.RIVALS)}
    assert about <= ran.keys() | derived, "no claim is left without one of its contestants"
    assert learners == about - {who for who, each in ran.items() if not each.algorithm} - derived


@pytest.mark.parametrize("name", SETUPS)
@pytest.mark.parametrize("full", [False, True])
def test_every_contestant_of_every_setup_has_a_spec(name, full, tmp_path):
    made = campaign.campaign(SETUPS[name], StudyOptions(tmp_path, full=full, algorithms=("PPO", "SAC")))
    for each in made.contestants():
        if each.algorithm:
            spec = spec_of(made.training(each, 1).spec)
            assert spec.controller.policy == "external" and spec.steps >= 100, "an episode is no handful of steps"
            assert spec.agent.observe == "thesis" and spec.agent.action == ("thesis" if full else "linear")
            assert spec.agent.tbf == ("stock" if full else "exact"), "--full enforces rates as the thesis did"
        else:
            spec = made.point(each, 1).spec
            assert spec.seed > campaign.HELD_OUT
            assert (spec.agent.reward, spec.agent.action, spec.agent.hosts) == ("thesis", "linear", "all"), "not what is usual"
            tbf = "stock" if full and not each.alone else "exact"
            assert spec.agent.tbf == each.values.get("agent.tbf", tbf), "a contestant's own form of tbf stays with --full"
        udp = not each.alone and SETUPS[name].default.agent
        assert spec.workload.transport == ("udp" if udp else "tcp")
        if udp:
            assert spec.workload.rate_bps == spec.topology.rate_bps or full or "dumbbell" in name


def spec_of(path: Path) -> Spec:
    from dc_gym.spec import load

    return load(path)


def test_the_thesis_batch_on_the_fat_tree(tmp_path):
    made = campaign.campaign(common.FATTREE_TCP, StudyOptions(tmp_path, full=True))
    ppo, ddpg = (made.training(setup.learner(name), 1) for name in ("PPO", "DDPG"))
    assert ppo.batch == 4000 and ppo.argv()[-2:] == ["--config", str(ppo.config)]
    read = [settings.read(each.config, each.algorithm, {"preset": each.preset}) for each in (ppo, ddpg)]
    assert read[0].sections["training"]["train_batch_size_per_learner"] == 4000
    assert ddpg.batch is None and read[1].sections["training"] == presets.find("iroko-thesis", "DDPG")["training"]
    assert [each.settings.evaluate_episodes for each in read] == [0, 0], "runs measure the policies"


def test_the_command_line_has_the_last_word(tmp_path):
    options = StudyOptions(tmp_path, seeds=2, steps=77, duration="2s", overrides=("agent.interval=10ms", "agent.action=log"))
    made = campaign.campaign(common.DUMBBELL_10M, options)
    assert (made.length.seeds, made.length.steps, made.length.warmup) == (2, 77, "500ms")
    ppo = setup.learner("PPO")
    spec = spec_of(made.training(ppo, 1).spec)
    assert (spec.agent.interval_ns, spec.agent.action, spec.time.duration_ns) == (10**7, "log", 5 * 10**9)
    assert made.point(setup.baseline("nv"), 1).spec.time.duration_ns == 2 * 10**9


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("workload.transport=rdma", "needs an algorithm of the NICs"),
        ("agent.interval=2s", 'agent.interval = "2s": does not divide time.duration'),  # the trainings' alone
    ],
)
def test_what_is_wrong_with_a_spec_is_told_before_anything_runs(setting, words, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs.sweep, "run_grid", lambda *args, **kwargs: pytest.fail("runs"))
    some = ["--seeds", "1", "--duration", "2s", "--algorithms", "PPO"]
    assert main.main(["reproduce", "iroko", "5.2", *some, "--set", setting, "--out", str(tmp_path), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_on_the_host_ground_tcps_run_without_an_agent_and_policies_are_those_that_labs_have_trained(tmp_path):
    made = campaign.campaign(common.DUMBBELL_10M, StudyOptions(tmp_path, ground="host"))
    lab = campaign.campaign(common.DUMBBELL_10M, StudyOptions(tmp_path))
    ppo = setup.learner("PPO")
    training = made.training(ppo, 1)
    for each in made.contestants():
        if each.algorithm:
            policy = made.training(each, 1).policy
            policy.parent.mkdir(parents=True)
            policy.touch()
    found = {each.name: made.point(each, 1).spec for each in made.contestants()}
    assert list(found) == [each.name for each in lab.contestants()] and {each.ground for each in found.values()} == {"host"}
    assert (found["cubic"].controller.policy, found["random"].controller.policy) == (None, "random")
    assert found["PPO"].controller.policy == training.policy.absolute() and training.out == lab.training(ppo, 1).out
    assert spec_of(training.spec).ground == "lab" and made.folder != lab.folder


def test_runs_of_two_lengths_do_not_mix(tmp_path):
    folders = {campaign.campaign(common.DUMBBELL_10M, StudyOptions(tmp_path, full=full)).folder for full in (False, True)}
    assert len(folders) == 2


# Trainings


@pytest.fixture
def asked(tmp_path):
    made = campaign.campaign(common.DUMBBELL_10M, StudyOptions(tmp_path, steps=500))
    return made.training(setup.learner("PPO"), 1)


def policy(training, steps):
    training.out.mkdir(parents=True, exist_ok=True)
    one = np.ones((1, 1))
    net = AgentPolicy((one,), (np.zeros(1),), -np.ones(1), np.ones(1), ("x",), ("h1",), provenance={"steps": steps})
    net.write(training.policy)


@pytest.fixture
def trained(monkeypatch):
    """Returns the trainings that would have been started; each ends well."""
    started = []

    def run_cells(cells, jobs, progress, on_end):
        started.extend(cells)
        return [CellOutcome(cell, 0, "") for cell in cells]

    monkeypatch.setattr(trainings, "run_cells", run_cells)
    return started


def test_a_training_that_is_there_is_not_run_again(asked, trained):
    trainings.run_all([asked], 1, Quiet())
    assert [each.resumes for each in trained] == [False]
    assert trained[0].argv()[:1] == ["train"] and "--steps=500" in trained[0].argv() and "--labs=4" in trained[0].argv()
    policy(asked, 500)
    trainings.run_all([asked], 1, Quiet())
    assert len(trained) == 1


def test_a_training_that_was_killed_goes_on_from_its_checkpoint(asked, trained):
    trainings.run_all([asked], 1, Quiet())
    (asked.out / "checkpoints" / "iteration-000010").mkdir(parents=True)
    trainings.run_all([asked], 1, Quiet())
    assert trained[-1].resumes and "--resume" in trained[-1].argv()


def test_a_training_that_was_killed_before_its_first_checkpoint_begins_anew(asked, trained):
    trainings.run_all([asked], 1, Quiet())
    (asked.out / "checkpoints" / "iteration-000010.partial").mkdir(parents=True)
    trainings.run_all([asked], 1, Quiet())
    assert not trained[-1].resumes and not asked.out.exists()


def test_a_longer_training_goes_on_with_the_shorter_one(asked, trained):
    trainings.run_all([asked], 1, Quiet())
    policy(asked, 500)
    (asked.out / "checkpoints" / "iteration-000010").mkdir(parents=True)
    trainings.run_all([replace_steps(asked, 900)], 1, Quiet())
    assert trained[-1].resumes and trained[-1].steps == 900


def replace_steps(training, steps):
    return replace(training, steps=steps)


def test_the_result_of_a_policy_that_trained_on_is_made_anew(tmp_path):
    made = campaign.campaign(common.DUMBBELL_10M, StudyOptions(tmp_path, steps=500))
    ppo = setup.learner("PPO")
    policy(made.training(ppo, 1), 500)
    point = made.point(ppo, 1)
    result = made.folder / runs.FOLDER / point.name
    result.mkdir(parents=True)
    (result / "policy.npz").write_bytes(made.training(ppo, 1).policy.read_bytes())
    made._forget_older(point)
    assert result.exists(), "the same policy"
    (result / "policy.npz").write_bytes(b"older")
    made._forget_older(point)
    assert not result.exists()


def test_a_training_of_another_spec_is_refused_and_replaced_by_force(asked, trained):
    trainings.run_all([asked], 1, Quiet())
    policy(asked, 500)
    other = replace(asked, preset="iroko-thesis")
    with pytest.raises(UsageError, match="--force trains it anew"):
        trainings.run_all([other], 1, Quiet())
    trainings.run_all([other], 1, Quiet(), force=True)
    assert trained[-1].preset == "iroko-thesis" and not asked.policy.exists()


def test_force_removes_no_folder_that_is_no_training(asked, trained):
    asked.out.mkdir(parents=True)
    (asked.out / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="does not say that it is a training"):
        trainings.run_all([asked], 1, Quiet(), force=True)
    assert (asked.out / "thesis.tex").read_text() == "mine" and not trained


def test_a_training_that_fails_is_told_in_its_own_words(asked, monkeypatch):
    def run_cells(cells, jobs, progress, on_end):
        on_end(CellOutcome(cells[0], 2, "dcgym: training needs ray, which is not installed"))

    monkeypatch.setattr(trainings, "run_cells", run_cells)
    with pytest.raises(UsageError, match=r"training PPO-s1, a `dcgym train` of its own, said: training needs ray"):
        trainings.run_all([asked], 1, Quiet())
    monkeypatch.setattr(trainings, "run_cells", lambda cells, jobs, progress, on_end: on_end(CellOutcome(cells[0], -9, "")))
    with pytest.raises(TestbedError, match="exit -9"):
        trainings.run_all([asked], 1, Quiet())


def test_a_learning_curve_is_the_reward_of_a_step(tmp_path):
    (tmp_path / "progress.csv").write_text("iteration,steps,return_mean,goodput_bps\n1,100,,\n2,200,-50,7e6\n3,30")
    found = trainings.learning_curve(tmp_path, steps_of_episode=100)
    assert found.x.tolist() == [100, 200, 30]
    np.testing.assert_array_equal(found.values["reward"], [np.nan, -0.5, np.nan])
    np.testing.assert_array_equal(found.values["goodput_bps"], [np.nan, 7e6, np.nan])


# Measured numbers, and written pages


def test_a_run_without_an_agent_has_the_reward_of_action_1(tmp_path):
    result = synthetic.result(tmp_path / "run", synthetic.run(queue_bytes=100_000, noise=0))
    found = measured.numbers(result)
    assert found["switch_queue_bytes"] == pytest.approx(100_000, rel=1e-3) and found["host_queue_bytes"] == 0
    assert found["reward"] == pytest.approx(1 - 2 * 100_000 / 400_000, rel=1e-3)
    assert found["rtt_s"] == pytest.approx(80e-6 + 100_000 * 8 / 10e6, rel=1e-3)
    over_time = measured.track(result, bins=50)
    assert over_time.x[0] == pytest.approx(0.1) and over_time.x[-1] == pytest.approx(9.9)
    assert over_time.values["switch_queue_bytes"][-1] == pytest.approx(100_000, rel=1e-3)
    assert over_time.values["switch_queue_bytes"][0] < 50_000, "it grows over the first half second"


def test_a_queue_that_moved_into_the_hosts_is_named():
    def queues(name, switch, host):
        return VariantEvidence(name, name, "#000000", {"switch_queue_bytes": {1: switch}, "host_queue_bytes": {1: host}})

    found = common.hidden_queues(evidence(queues("a", 1000, 90_000), queues("b", 90_000, 1000), queues("c", 100, 3000)))
    assert found == ["A keeps its queue in the hosts: 90 kB in hosts, 1 kB in switches (the longest at each moment, on average)."]


def test_who_starves_a_flow_is_named():
    def shares(name, *values):
        return VariantEvidence(name, name, "#000000", {"jain": dict(enumerate(values, 1))})

    found = common.unequal_shares(evidence(shares("fair-share", 0.9, 0.9), shares("a", 0.71, 0.98), shares("b", 0.75, 1)))
    assert found == ["A shares unequally: Jain's index 0.71, 0.98 by seed (the oracle: 0.90)."]
    assert common.unequal_shares(evidence(shares("a", 0.5))) == [], "without an oracle nobody says what is fair"


@pytest.mark.parametrize(
    ("values", "said"),
    [([0, 100, 200], "100 \u00b1 248"), ([1, 1, 1 - 4e-6], "1 \u00b1 0"), ([9.5], "9.5"), ([-0.25, -0.75], "-0.25, -0.75")],
)
def test_numbers_of_a_page_have_no_exponent(values, said):
    assert claims.text(claims.estimate(values), Measure("x", "x")) == said


def test_the_network_of_a_figure_in_words(tmp_path):
    made = campaign.campaign(common.DUMBBELL_UDP, StudyOptions(tmp_path))
    told = dict(campaign.facts(made))
    assert told["Network"] == "dumbbell-10m: 4 hosts, 2 switches, 10Mbit/s, queues of 400kB"
    assert "transport udp" in told["Under agents"]


def test_the_folder_of_a_figure(tmp_path):
    track = Track(np.arange(5.0), {"queue": np.arange(5.0)})
    trained = replace(contender("a", [1, 2, 3], steps=300), over_time={1: track, 2: track})
    alone = replace(contender("b", [5, 5, 5]), over_time={1: track})
    found = evidence(trained, alone)
    claim = Claim("a is <short>", "page 7", (claims.below("a", "b", QUEUE),))
    canvas = drawing.figure(found, [QUEUE], "A title")
    lines = [len(ax.get_lines()) for ax in canvas.axes]
    assert lines == [1 + 3 + 1, 1 + 2 + 1], "who learns has a mean and its seeds, the other a level line; both run"
    written = Findings("T", [("Network", "n")], [trained, alone], [QUEUE], [claims.judge(claim, found)], canvas, ["A note."])
    path = page.write(tmp_path / "figure", "paper", "1", written, Provenance({}, "", {}))
    text = path.read_text()
    assert "a is &lt;short&gt;" in text and "A note." in text and "after 300 steps" in text
    told = json.loads((tmp_path / "figure" / "claims.json").read_text())["claims"][0]
    assert (told["state"], told["steps"]) == ("reproduced", 300)
    assert told["criteria"] == [
        {"criterion": "queue (kB) of a below that of b", "measured": "a 0.001, 0.002, 0.003, b 0.005 \u00b1 0"}
    ]
    assert (tmp_path / "figure" / "table.csv").read_text().splitlines()[1] == "a,1,300,1"
    assert (tmp_path / "figure" / "figure.png").stat().st_size > 1000
    kit.save(drawing.dots(found, QUEUE, "Dots"), tmp_path / "dots.png")
    panels = drawing.dot_panels(found, (QUEUE, replace(QUEUE, name="absent")), "Two panels")
    assert [len(ax.get_lines()) > 0 for ax in panels.axes] == [True, False], "nobody has the second quantity"
    kit.save(panels, tmp_path / "panels.png")


def test_claims_on_a_set_up_of_ours_are_counted_apart():
    found = evidence(contender("a", [1, 2, 3]), contender("b", [5, 5, 5]), contender("b, shared", [1, 1, 1]))
    own = claims.judge(Claim("a is short", "", (claims.below("a", "b", QUEUE),)), found)
    apart = claims.judge(Claim("a is short", "", (claims.below("a", "b, shared", QUEUE),), variant="shared buffer"), found)
    assert page.as_dict(own)["claim"] == "a is short" and page.as_dict(own)["variant"] == ""
    assert page.as_dict(apart)["claim"] == "Shared buffer: a is short"
    told = reproduce._counts(Findings("T", [], [], [QUEUE], [own, apart], drawing.figure(found, [QUEUE], "T")))
    assert told == "claims       1 reproduced; shared buffer: 1 not reproduced\n"


@pytest.mark.lab
@pytest.mark.parametrize(("seeds", "state"), [(1, "too short to judge"), pytest.param(3, "reproduced", marks=pytest.mark.long)])
def test_a_figure_from_labs_that_goes_on(tmp_path, lab_kernel, capsys, seeds, state):
    """Figure 1.1: its claims hold with the figure's own seeds, and what is there is not run again."""
    argv = ["reproduce", "iroko", "1.1", "--seeds", str(seeds), "--out", str(tmp_path), "--quiet"]
    assert main.main(argv) == 0
    told = json.loads((tmp_path / "figure-1.1" / "claims.json").read_text())["claims"]
    assert [each["state"] for each in told[:2]] == [state] * 2
    made = tmp_path / "parking-lot" / "runs"
    before = {path.parent.name: path.stat().st_mtime_ns for path in made.glob("*/manifest.json")}
    table = (tmp_path / "figure-1.1" / "table.csv").read_bytes()
    assert len(before) == 5 * seeds
    for file in (made / "nv-s1").iterdir():
        file.unlink()
    (made / "nv-s1").rmdir()
    assert main.main(argv) == 0
    after = {path.parent.name: path.stat().st_mtime_ns for path in made.glob("*/manifest.json")}
    assert {name for name in before if before[name] != after[name]} == {"nv-s1"}
    assert (tmp_path / "figure-1.1" / "table.csv").read_bytes() == table, "bit for bit"
