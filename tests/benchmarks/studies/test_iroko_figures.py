# SPDX-License-Identifier: Apache-2.0
"""Iroko's figures, and studies with trainings: who runs and trains with which spec, what resumes, what is measured and drawn."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import synthetic

from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.benchmarks.studies.iroko import common, figure_5_4, figure_5_5
from dc_gym.cli import main
from dc_gym.learn.rllib import presets, settings
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.results.figures import kit
from dc_gym.run.sweep.pool import CellOutcome
from dc_gym.spec import load
from dc_gym.study import collect, drawing, identity, measured, table, trained, trainings
from dc_gym.study.evidence import Evidence, Measure, Track, VariantEvidence
from dc_gym.study.model import StudyOptions
from dc_gym.study.trained import Campaign

QUEUE = Measure("queue", "queue (kB)", 1e-3)
SETUPS = {
    setup.name: setup
    for setup in (common.DUMBBELL_10M, figure_5_4.SETUP, common.DUMBBELL_UDP, figure_5_5.SETUP, common.FATTREE_TCP)
}
FIGURES = [name for name in LIBRARY.names() if name.startswith("iroko/")]


def variant(name, values, steps=0):
    """Returns a variant; if `steps` is not 0, with trainings of so many steps."""
    learning = {}
    if steps:
        x = np.linspace(0, steps, 11)[1:]
        learning = {seed: Track(x, {"queue": x}) for seed in (1, 2, 3)}
    numbers = {"queue": dict(enumerate(values, 1))}
    return VariantEvidence(name, name.upper(), "#000000", numbers, learning=learning)


def evidence(*variants, paper_steps=1000):
    return Evidence({variant.name: variant for variant in variants}, paper_steps)


def test_a_setup_knows_what_the_command_made_shorter(tmp_path):
    def short(**options):
        return str(common.DUMBBELL_10M.shortfall(StudyOptions(tmp_path, **options)))

    assert short() == short(duration="30s", seeds=3, steps=20_000) == short(duration="60s", seeds=9) == ""
    assert short(duration="4s", seeds=2) == "runs of 4s instead of 30s, 2 seeds instead of 3"
    assert short(steps=500) == "trainings of 500 steps instead of 20,000"
    assert short(full=True, duration="30s") == "runs of 30s instead of 100s", "beside the paper's own"


def test_panels_without_data_are_left_out():
    track = Track(
        np.arange(5.0), {"switch_queue_bytes": np.ones(5) * 1e4, "rtt_s": np.full(5, np.nan), "goodput_bps": np.ones(5)}
    )
    contestant = replace(variant("a", [1, 2]), over_time={1: replace(track, most={"goodput_bps": 1.0}), 2: track})
    panels = [
        Measure("switch_queue_bytes", "queue (kB)", 1e-3),
        Measure("rtt_s", "RTT (ms)", 1e3),
        Measure("goodput_bps", "goodput"),
    ]
    figure = drawing.figure(evidence(contestant), panels, "t")
    assert [ax.get_ylabel() for ax in figure.axes] == ["Queue\n(kB)", "Goodput"]
    none = drawing.figure(evidence(variant("a", [])), panels, "t")
    assert len(none.axes) == 1


def test_a_collapse_and_a_rise_are_told_from_the_opposite():
    x = np.arange(1, 101.0)
    collapse = np.where(x < 40, 9e8, 1e8)
    assert figure_5_4._starts_well_and_collapses(x, collapse)
    assert not figure_5_4._starts_well_and_collapses(x, collapse[::-1]) and not figure_5_4._starts_well_and_collapses(x, 0 * x)
    assert figure_5_5._still_rising(x, x) and not figure_5_5._still_rising(x, -x) and not figure_5_5._still_rising(x, 0 * x + 1)


def test_learners_are_compared_while_they_learn():
    """The last tenth of a training counts, and of a TCP's run as much as an episode."""
    x, names = np.arange(1, 101.0), {measure.name for measure in common.COMPARED}
    curve = Track(x, {name: np.where(x > 90, 7.0, 1.0) for name in names})
    run = Track(x, {name: np.where(x <= 5, 8.0, np.nan if name == "rtt_s" else 20.0) for name in names})
    learner = replace(variant("APPO", [9, 9]), learning={1: curve, 2: curve})
    tcp = replace(variant(common.DCTCP, [3, 3]), over_time={1: run, 2: run})
    comparison = common.with_learning(evidence(learner, tcp), 5)
    while_it_learns, over_an_episode = common.learning("APPO"), common.episode(common.DCTCP)
    assert list(comparison.variants) == ["APPO", common.DCTCP, while_it_learns, over_an_episode]
    assert all(comparison.values(while_it_learns, name) == {1: 7.0, 2: 7.0} for name in names)
    assert all(comparison.values(over_an_episode, name) == {1: 8.0, 2: 8.0} for name in names)
    assert comparison.steps(while_it_learns) == 100 and comparison.steps(over_an_episode) is None
    assert comparison.values("APPO", QUEUE.name) == {1: 9, 2: 9}, "runs with the final policies stay"
    assert common.with_learning(evidence(tcp), 5) == evidence(tcp), "nothing learns"
    nothing = replace(learner, learning={1: Track(x[:0], {name: x[:0] for name in curve.values}), 2: curve})
    assert common.with_learning(evidence(nothing), 5).values(while_it_learns, "rtt_s") == {2: 7.0}


@pytest.mark.parametrize("name", FIGURES)
def test_claims_are_about_variants_and_measures_that_there_are(name):
    study = LIBRARY.load(name)
    learners = [variant.name for variant in study.variants if getattr(variant, "algorithm", "")]
    known = {variant.name for variant in study.variants} | {*map(common.learning, learners), *map(common.episode, common.RIVALS)}
    for claim in study.claims:
        assert {name for criterion in claim.criteria for name in criterion.about} <= known
        assert {name for criterion in claim.criteria for name in criterion.measures} <= {column.name for column in study.measures}


@pytest.mark.parametrize("name", SETUPS)
def test_by_default_those_are_trained_that_claims_are_about(name):
    studies = [candidate for candidate in map(LIBRARY.load, FIGURES) if getattr(candidate.collect, "setup", None) is SETUPS[name]]
    about = {
        subject for study in studies for claim in study.claims for criterion in claim.criteria for subject in criterion.about
    }
    learners = {variant.name for variant in studies[0].variants if variant.algorithm}
    if about:
        assert learners == about & trained.COLORS.keys()
        assert all(study.variants == studies[0].variants and study.trains for study in studies)


@pytest.mark.parametrize("name", SETUPS)
@pytest.mark.parametrize("full", [False, True])
def test_every_variant_of_every_setup_has_a_spec(name, full, tmp_path):
    campaign = Campaign(SETUPS[name], StudyOptions(tmp_path, full=full, algorithms=("PPO", "SAC")))
    for variant in campaign.setup.variants(campaign.options.algorithms):
        if variant.algorithm:
            spec = load(campaign.training(variant, 1).spec)
            assert spec.controller.policy == "external" and spec.steps >= 100, "an episode is no handful of steps"
            assert spec.agent.observe == "thesis" and spec.agent.action == ("thesis" if full else "linear")
            assert spec.agent.tbf == ("stock" if full else "exact"), "--full enforces rates as the thesis did"
        else:
            spec = campaign.point(variant, 1).spec
            assert spec.seed > trained.HELD_OUT
            assert (spec.agent.reward, spec.agent.action, spec.agent.hosts) == ("thesis", "linear", "all"), "not what is usual"
            tbf = "stock" if full and not variant.alone else "exact"
            assert spec.agent.tbf == variant.values.get("agent.tbf", tbf), "a variant's own form of tbf stays with --full"
        udp = not variant.alone and SETUPS[name].default.agent
        assert spec.workload.transport == ("udp" if udp else "tcp")
        if udp:
            assert spec.workload.rate_bps == spec.topology.rate_bps or full or "dumbbell" in name


def test_the_thesis_batch_on_the_fat_tree(tmp_path):
    campaign = Campaign(common.FATTREE_TCP, StudyOptions(tmp_path, full=True))
    ppo, ddpg = (campaign.training(trained.learner(name), 1) for name in ("PPO", "DDPG"))
    assert ppo.batch == 4000 and ppo.argv()[-2:] == ["--config", str(ppo.config)]
    read = [settings.read(training.config, training.algorithm, {"preset": training.preset}) for training in (ppo, ddpg)]
    assert read[0].sections["training"]["train_batch_size_per_learner"] == 4000
    assert ddpg.batch is None and read[1].sections["training"] == presets.find("iroko-thesis", "DDPG")["training"]
    assert [training.settings.evaluate_episodes for training in read] == [0, 0], "runs measure the policies"


def test_the_command_line_has_the_last_word(tmp_path):
    options = StudyOptions(tmp_path, seeds=2, steps=77, duration="2s", overrides=("agent.interval=10ms", "agent.action=log"))
    campaign = Campaign(common.DUMBBELL_10M, options)
    assert (campaign.length.seeds, campaign.length.steps, campaign.length.warmup) == (2, 77, "500ms")
    ppo = trained.learner("PPO")
    spec = load(campaign.training(ppo, 1).spec)
    assert (spec.agent.interval_ns, spec.agent.action, spec.time.duration_ns) == (10**7, "log", 5 * 10**9)
    assert campaign.point(trained.baseline("nv"), 1).spec.time.duration_ns == 2 * 10**9


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("workload.transport=rdma", "needs an algorithm of the NICs"),
        ("agent.interval=2s", 'agent.interval = "2s": does not divide time.duration'),  # the trainings' alone
    ],
)
def test_what_is_wrong_with_a_spec_is_told_before_anything_runs(setting, words, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(collect.sweep, "run_grid", lambda *args, **kwargs: pytest.fail("runs"))
    some = ["--seeds", "1", "--duration", "2s", "--algorithms", "PPO"]
    assert main.main(["study", "run", "iroko/5.2", *some, "--set", setting, "--out", str(tmp_path), "--quiet"]) == 2
    stderr = capsys.readouterr().err
    assert words in stderr and stderr.count("\n") == 1


def test_the_variants_that_the_command_names_run_alone(tmp_path, monkeypatch):
    point_names = []

    def run_grid(grid, *args, **options):
        point_names.extend(point.name for point in grid.points)
        raise UsageError("enough")

    monkeypatch.setattr(collect.sweep, "run_grid", run_grid)
    chosen = ["--variant", "nv", "--variant", "cubic", "--seeds", "2"]
    assert main.main(["study", "run", "iroko/5.2", *chosen, "--out", str(tmp_path), "--quiet"]) == 2
    assert point_names == ["nv-s1", "nv-s2", "cubic-s1", "cubic-s2"]


def test_what_measures_trained_policies_is_part_of_their_evidence_s_identity(monkeypatch):
    study = LIBRARY.load("iroko/figure-5.2")
    before = identity.of_measures(study)
    monkeypatch.setattr(measured, "LAST_SHARE", 0.2)
    assert identity.of_measures(study) != before


def test_on_the_host_ground_tcps_run_without_an_agent_and_policies_are_those_that_labs_have_trained(tmp_path):
    campaign = Campaign(common.DUMBBELL_10M, StudyOptions(tmp_path, ground="host"))
    lab = Campaign(common.DUMBBELL_10M, StudyOptions(tmp_path))
    ppo = trained.learner("PPO")
    training = campaign.training(ppo, 1)
    for variant in campaign.setup.variants(campaign.options.algorithms):
        if variant.algorithm:
            policy = campaign.training(variant, 1).policy
            policy.parent.mkdir(parents=True)
            policy.touch()
    specs = {variant.name: campaign.point(variant, 1).spec for variant in campaign.setup.variants(campaign.options.algorithms)}
    assert list(specs) == [row.name for row in lab.setup.variants()] and {run.ground for run in specs.values()} == {"host"}
    assert (specs["cubic"].controller.policy, specs["random"].controller.policy) == (None, "random")
    assert specs["PPO"].controller.policy == training.policy.absolute() and training.out == lab.training(ppo, 1).out
    assert load(training.spec).ground == "lab" and campaign.folder != lab.folder


def test_runs_of_two_lengths_do_not_mix(tmp_path):
    folders = {Campaign(common.DUMBBELL_10M, StudyOptions(tmp_path, full=full)).folder for full in (False, True)}
    assert len(folders) == 2


# Trainings


@pytest.fixture
def asked(tmp_path):
    campaign = Campaign(common.DUMBBELL_10M, StudyOptions(tmp_path, steps=500))
    return campaign.training(trained.learner("PPO"), 1)


def policy(training, steps):
    training.out.mkdir(parents=True, exist_ok=True)
    one = np.ones((1, 1))
    net = AgentPolicy((one,), (np.zeros(1),), -np.ones(1), np.ones(1), ("x",), ("h1",), provenance={"steps": steps})
    net.write(training.policy)


@pytest.fixture
def started(monkeypatch):
    """Returns the trainings that would have been started; each ends well."""
    all_cells = []

    def run_cells(cells, jobs, progress, on_end):
        all_cells.extend(cells)
        return [CellOutcome(cell, 0, "") for cell in cells]

    monkeypatch.setattr(trainings, "run_cells", run_cells)
    return all_cells


def test_a_training_that_is_there_is_not_run_again(asked, started):
    trainings.run_all([asked], 1, Quiet())
    assert [training.resumes for training in started] == [False]
    assert started[0].argv()[:1] == ["train"] and "--steps=500" in started[0].argv() and "--labs=4" in started[0].argv()
    policy(asked, 500)
    trainings.run_all([asked], 1, Quiet())
    assert len(started) == 1


def test_a_training_that_was_killed_goes_on_from_its_checkpoint(asked, started):
    trainings.run_all([asked], 1, Quiet())
    (asked.out / "checkpoints" / "iteration-000010").mkdir(parents=True)
    trainings.run_all([asked], 1, Quiet())
    assert started[-1].resumes and "--resume" in started[-1].argv()


def test_a_training_that_was_killed_before_its_first_checkpoint_begins_anew(asked, started):
    trainings.run_all([asked], 1, Quiet())
    (asked.out / "checkpoints" / "iteration-000010.partial").mkdir(parents=True)
    trainings.run_all([asked], 1, Quiet())
    assert not started[-1].resumes and not asked.out.exists()


def test_a_longer_training_goes_on_with_the_shorter_one(asked, started):
    trainings.run_all([asked], 1, Quiet())
    policy(asked, 500)
    (asked.out / "checkpoints" / "iteration-000010").mkdir(parents=True)
    trainings.run_all([replace_steps(asked, 900)], 1, Quiet())
    assert started[-1].resumes and started[-1].steps == 900


def replace_steps(training, steps):
    return replace(training, steps=steps)


def test_the_result_of_a_policy_that_trained_on_is_made_anew(tmp_path):
    campaign = Campaign(common.DUMBBELL_10M, StudyOptions(tmp_path, steps=500))
    ppo = trained.learner("PPO")
    policy(campaign.training(ppo, 1), 500)
    point = campaign.point(ppo, 1)
    result = campaign.folder / collect.FOLDER / point.name
    result.mkdir(parents=True)
    (result / "policy.npz").write_bytes(campaign.training(ppo, 1).policy.read_bytes())
    campaign.forget_older(point)
    assert result.exists(), "the same policy"
    (result / "policy.npz").write_bytes(b"older")
    campaign.forget_older(point)
    assert not result.exists()


def test_a_training_of_another_spec_is_refused_and_replaced_by_force(asked, started):
    trainings.run_all([asked], 1, Quiet())
    policy(asked, 500)
    other = replace(asked, preset="iroko-thesis")
    with pytest.raises(UsageError, match="--force trains it anew"):
        trainings.run_all([other], 1, Quiet())
    trainings.run_all([other], 1, Quiet(), force=True)
    assert started[-1].preset == "iroko-thesis" and not asked.policy.exists()


def test_force_removes_no_folder_that_is_no_training(asked, started):
    asked.out.mkdir(parents=True)
    (asked.out / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match=r"not.* training"):
        trainings.run_all([asked], 1, Quiet(), force=True)
    assert (asked.out / "thesis.tex").read_text() == "mine" and not started


def test_a_training_that_fails_is_told_in_its_own_words(asked, monkeypatch):
    def run_cells(cells, jobs, progress, on_end):
        on_end(CellOutcome(cells[0], 2, "dcgym: training needs ray, which is not installed"))

    monkeypatch.setattr(trainings, "run_cells", run_cells)
    with pytest.raises(UsageError, match=r"PPO-s1.*: training needs ray"):
        trainings.run_all([asked], 1, Quiet())
    monkeypatch.setattr(trainings, "run_cells", lambda cells, jobs, progress, on_end: on_end(CellOutcome(cells[0], -9, "")))
    with pytest.raises(TestbedError, match="exit -9"):
        trainings.run_all([asked], 1, Quiet())


def test_a_learning_curve_is_the_reward_of_a_step(tmp_path):
    (tmp_path / "progress.csv").write_text("iteration,steps,return_mean,goodput_bps\n1,100,,\n2,200,-50,7e6\n3,30")
    curve = trainings.learning_curve(tmp_path, steps_of_episode=100)
    assert curve.x.tolist() == [100, 200, 30]
    np.testing.assert_array_equal(curve.values["reward"], [np.nan, -0.5, np.nan])
    np.testing.assert_array_equal(curve.values["goodput_bps"], [np.nan, 7e6, np.nan])
    assert list(trainings.learning_curve(tmp_path, 100, ("reward", "wanted")).values) == ["reward"]


def test_a_learner_s_curve_has_what_its_runs_have_over_time(asked, tmp_path):
    """They have the same names, so that one panel draws both."""
    asked.out.mkdir(parents=True)
    (asked.out / "progress.csv").write_text(
        "iteration,steps,return_mean,goodput_bps,switch_queue_bytes_longest\n1,100,-50,7e6,9\n"
    )
    result = synthetic.result(tmp_path / "run", synthetic.run(queue_bytes=100_000, noise=0))
    campaign = Campaign(common.DUMBBELL_10M, StudyOptions(tmp_path, steps=500))
    ppo = campaign.measured(LIBRARY.load("iroko/figure-5.2"), trained.learner("PPO"), {("PPO", 1): result, ("cubic", 1): result})
    names = {measure.name for measure in (*common.PANELS, *common.COMPARED)}
    assert set(ppo.over_time[1].values) == set(ppo.learning[1].values) == names
    assert ppo.learning[1].values["switch_queue_bytes"].tolist() == [9] and ppo.steps == 100
    assert ppo.numbers["switch_queue_bytes"] == {1: pytest.approx(100_000, rel=1e-3)}


# Measured numbers, and written pages


def test_a_run_without_an_agent_has_the_reward_of_action_1(tmp_path):
    result = synthetic.result(tmp_path / "run", synthetic.run(queue_bytes=100_000, noise=0))
    numbers = measured.numbers(result)
    assert numbers["switch_queue_bytes"] == pytest.approx(100_000, rel=1e-3) and numbers["host_queue_bytes"] == 0
    assert numbers["reward"] == pytest.approx(1 - 2 * 100_000 / 400_000, rel=1e-3)
    assert numbers["rtt_s"] == pytest.approx(80e-6 + 100_000 * 8 / 10e6, rel=1e-3)
    over_time = measured.track(result, bins=50)
    assert over_time.x[0] == pytest.approx(0.1) and over_time.x[-1] == pytest.approx(9.9)
    assert over_time.values["switch_queue_bytes"][-1] == pytest.approx(100_000, rel=1e-3)
    assert over_time.values["switch_queue_bytes"][0] < 50_000, "it grows over the first half second"


def test_a_queue_that_moved_into_the_hosts_is_named():
    def queues(name, switch, host):
        return VariantEvidence(name, name, "#000000", {"switch_queue_bytes": {1: switch}, "host_queue_bytes": {1: host}})

    notes = common.hidden_queues(evidence(queues("a", 1000, 90_000), queues("b", 90_000, 1000), queues("c", 100, 3000)))
    assert notes == ["A keeps its queue in the hosts: 90 kB in hosts, 1 kB in switches (the longest at each moment, on average)."]


def test_who_starves_a_flow_is_named():
    def shares(name, *values):
        return VariantEvidence(name, name, "#000000", {"jain": dict(enumerate(values, 1))})

    notes = common.unequal_shares(evidence(shares("fair-share", 0.9, 0.9), shares("a", 0.71, 0.98), shares("b", 0.75, 1)))
    assert notes == ["A shares unequally: Jain's index 0.71, 0.98 by seed (the oracle: 0.90)."]
    assert common.unequal_shares(evidence(shares("a", 0.5))) == [], "without an oracle nobody says what is fair"


def test_the_network_of_a_figure_in_words(tmp_path):
    facts = dict(trained.facts(common.DUMBBELL_UDP)(StudyOptions(tmp_path, duration="4s")))
    assert facts["Network"] == "dumbbell-10m: 4 hosts, 2 switches, 10Mbit/s, queues of 400kB"
    assert "transport udp" in facts["Under agents"]


def test_who_learns_is_drawn_with_its_seeds_and_all_others_level(tmp_path):
    track = Track(np.arange(5.0), {"queue": np.arange(5.0)})
    learner = replace(variant("a", [1, 2, 3], steps=300), over_time={1: track, 2: track})
    results = evidence(learner, replace(variant("b", [5, 5, 5]), over_time={1: track}))
    canvas = drawing.figure(results, [QUEUE], "A title")
    lines = [len(ax.get_lines()) for ax in canvas.axes]
    assert lines == [1 + 3 + 1, 1 + 2 + 1], "who learns has a mean and its seeds, the other a level line; both run"
    kit.save(drawing.dots(results, QUEUE, "Dots"), tmp_path / "dots.png")
    panels = drawing.dot_panels(results, (QUEUE, replace(QUEUE, name="absent")), "Two panels")
    assert [len(ax.get_lines()) > 0 for ax in panels.axes] == [True, False], "nobody has the second quantity"
    kit.save(panels, tmp_path / "panels.png")


@pytest.mark.lab
@pytest.mark.parametrize(("seeds", "verdict"), [(1, "not tested"), pytest.param(3, "same", marks=pytest.mark.long)])
def test_a_figure_from_labs_that_goes_on(tmp_path, lab_kernel, seeds, verdict):
    """Figure 1.1: its claims hold with the figure's own seeds, and what is there is not run again."""
    out, file = tmp_path / "out", table.path_of(tmp_path / "evidence", "iroko/figure-1.1", full=False)
    argv = [
        "study",
        "run",
        "iroko/1.1",
        "--seeds",
        str(seeds),
        "--out",
        str(out),
        "--evidence",
        str(tmp_path / "evidence"),
        "--quiet",
    ]
    assert main.main(argv) == 0
    claims = json.loads((out / "iroko" / "figure-1.1" / "claims.json").read_text())["claims"]
    assert [claim["verdict"] for claim in claims[:2]] == [verdict] * 2
    runs = out / "iroko" / "parking-lot" / "runs"
    before = {path.parent.name: path.stat().st_mtime_ns for path in runs.glob("*/manifest.json")}
    first = file.read_bytes()
    assert len(before) == 5 * seeds
    shutil.rmtree(runs / "nv-s1")
    assert main.main(argv) == 0
    after = {path.parent.name: path.stat().st_mtime_ns for path in runs.glob("*/manifest.json")}
    assert {name for name in before if before[name] != after[name]} == {"nv-s1"}
    assert file.read_bytes() == first, "bit for bit"
