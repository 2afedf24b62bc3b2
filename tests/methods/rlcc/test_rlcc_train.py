# SPDX-License-Identifier: Apache-2.0
"""`dcgym method rlcc train`."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from facts import states

from dc_gym.base import folder_lock, tensorboard, unfinished
from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Quiet
from dc_gym.cli.main import main
from dc_gym.methods.checkpoint import NAME as CHECKPOINT
from dc_gym.methods.episode_report import EVENTS
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.offline import checkpoint, on_lab, train
from dc_gym.methods.rlcc.offline.gradient import CURVE, Batch, Learner
from dc_gym.methods.rlcc.offline.lab_network import LabNetwork
from dc_gym.methods.rlcc.offline.on_lab import LabTrainingSettings
from dc_gym.methods.training_folder import open_folder
from dc_gym.nets.nic_policy import NicPolicy

SMALL = LabTrainingSettings(
    preset="pcc-rl",
    labs=2,
    updates=4,
    updates_per_episode=2,
    round_trips_per_update=16,
    curriculum=True,
    network=LabNetwork(rate_bps=10**9, delay_ns=50_000),
)


class Killed(Exception):
    pass


def hurt(monkeypatch, at, do):
    """Calls `do(labs)` after update number `at`."""

    def hook(learner, labs):
        before(learner, labs)
        if len(learner.curve) == at:
            do(labs)

    before = None

    def run(learner, settings, folder, on_update, **how):
        nonlocal before
        before = on_update
        return trained(learner, settings, folder, hook, **how)

    trained = on_lab.run
    monkeypatch.setattr(on_lab, "run", run)


def test_a_training_survives_its_labs_and_itself_and_gives_the_same_bytes(tmp_path, monkeypatch):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for out in (whole, broken):
        out.mkdir()
    train.train_on_labs(SMALL, whole, Quiet())

    def stop(_labs):
        raise Killed

    with monkeypatch.context() as patch:
        hurt(patch, 2, stop)
        with pytest.raises(Killed):
            train.train_on_labs(SMALL, broken, Quiet())
    assert not (broken / "policy.npz").exists(), "of a training that is not over"
    hurt(monkeypatch, 3, lambda labs: os.kill(labs.pids[1], signal.SIGKILL))
    train.train_on_labs(SMALL, broken, Quiet(), resume=True)
    for name in ("policy.npz", "curve.csv", CHECKPOINT):
        assert (whole / name).read_bytes() == (broken / name).read_bytes()
    manifest = json.loads((broken / "manifest.json").read_text())
    assert (manifest["resumed_at_update"], manifest["labs_restarted"]) == (2, 1) and manifest["reproducible"].startswith("yes")
    assert (
        manifest["updates"] == 4
        and manifest["decisions"] > 20
        and manifest["policy_sha256"] == NicPolicy.read(broken / "policy.npz").sha256()
    )
    assert manifest["environment"]["kernel"] and manifest["settings"]["network"]["rate_bps"] == 10**9


def test_a_network_that_remembers_is_trained_on_labs(tmp_path):
    """The network's memory in the NIC is replayed bit by bit (histories.py raises an error where it differs)."""
    policy = train.train_on_labs(replace(SMALL, net="lstm", updates=3), tmp_path, Quiet())
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert policy.kind == "lstm" and manifest["settings"]["net"] == "lstm" and manifest["decisions"] > 20
    first = Learner.new(replace(SMALL, net="lstm"), Scaling()).net.weights
    assert all((trained != weight).any() for trained, weight in zip(policy.policy.weights, first, strict=True)), "it has learned"


def test_labs_that_run_freely_train_and_say_that_nobody_can_repeat_it(tmp_path):
    policy = train.train_on_labs(replace(SMALL, updates=7), tmp_path, Quiet(), asynchronous=True)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["reproducible"].startswith("no: asynchronous") and policy.provenance["command"].endswith("--asynchronous")
    assert manifest["updates"] == 7 and manifest["decisions"] > 20  # each lab has begun a second episode, or a third
    first = Learner.new(SMALL, Scaling()).net.weights
    assert all((trained != weight).any() for trained, weight in zip(policy.policy.weights, first, strict=True)), "it has learned"


def test_options_vary_what_labs_run():
    plain, varied = LabTrainingSettings(updates=300), LabTrainingSettings(updates=300, randomise=True, curriculum=True)
    assert plain.patterns(0, 1) == plain.patterns(2, 2)
    assert [
        max(case.flows for case in LabTrainingSettings(updates=300, curriculum=True).patterns(episode, 1))
        for episode in (0, 1, 2)
    ] == [
        2,
        4,
        8,
    ]
    assert varied.patterns(2, 1) != varied.patterns(2, 2)


def test_another_seed_and_another_reward_are_other_policies_on_the_model(tmp_path, capsys):
    policies = {}
    for name, options in {"a": [], "b": [], "c": ["--seed=2"], "d": ["--preset=pcc-rl"], "e": ["--net=lstm"]}.items():
        assert main(["method", "rlcc", "train", "--ground=fluid", "--updates=2", f"--out={tmp_path / name}", *options]) == 0
        policies[name] = (tmp_path / name / "policy.npz").read_bytes()
    assert policies["a"] == policies["b"] and len(set(policies.values())) == 4
    assert NicPolicy.read(tmp_path / "d" / "policy.npz").scaling.beta == 0
    assert NicPolicy.read(tmp_path / "e" / "policy.npz").kind == "lstm"
    assert f"{tmp_path / 'a' / 'policy.npz'}: sha256" in capsys.readouterr().out
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert manifest["settings"]["updates"] == manifest["updates"] == 2 and manifest["decisions"] >= 2 * 4096


def test_a_reward_of_ones_own_is_trained_for_and_written_down(tmp_path):
    for ground, options in {"fluid": ["--ground=fluid"], "lab": ["--labs=1", "--updates-per-episode=2"]}.items():
        out = tmp_path / ground
        options += ["--updates=2", "--beta=1", "--target=0.128", "--quiet", f"--out={out}"]
        assert main(["method", "rlcc", "train", *options]) == 0
        scaling, manifest = NicPolicy.read(out / "policy.npz").scaling, json.loads((out / "manifest.json").read_text())
        assert (scaling.beta, scaling.target, scaling.unit) == (1, 0.128, Scaling().unit)
        assert manifest["reward"] == {"beta": 1, "target": 0.128}
        assert (manifest["settings"]["beta"], manifest["settings"]["target"]) == (1, 0.128)


@pytest.mark.parametrize("other", [{"beta": 1.25}, {"target": 0.1}, {"unclipped": 1}, {"beta": None}])
def test_a_training_goes_on_with_the_same_reward_only(tmp_path, other):
    begun = replace(SMALL, updates=2, labs=1, beta=1.0)
    train.train_on_labs(begun, tmp_path, Quiet())
    name = next(iter(other))
    with pytest.raises(UsageError, match=rf"settings\.{name} was .* is .* now; .*goes on as it began"):
        train.train_on_labs(replace(begun, **other), tmp_path, Quiet(), resume=True)


def test_errors_of_the_last_updates_count_in_full():
    inputs, memory, errors = np.ones((1, 3, 4)), np.zeros((3, 0)), np.array([[0.1, 5.0, 50.0]])
    batch = Batch(inputs, memory, errors * Scaling().unit, np.ones((1, 3), bool))
    learner = Learner.new(LabTrainingSettings(updates=3, unclipped=1), Scaling())
    for _ in range(3):
        learner.update(batch)
    assert learner.curve["error"] == pytest.approx([(0.1 + 2 + 2) / 3, (0.1 + 2 + 2) / 3, (0.1 + 5 + 50) / 3])


def test_options_are_settings_of_the_model(tmp_path):
    options = ["--updates=2", "--batch-size=100", "--learning-rate=0.002", "--bottlenecks=3"]
    assert main(["method", "rlcc", "train", "--ground=fluid", f"--out={tmp_path / 'a'}", "--quiet", *options]) == 0
    settings = json.loads((tmp_path / "a" / "manifest.json").read_text())["settings"]
    assert (settings["batch_size"], settings["learning_rate"], settings["bottlenecks"]) == (100, 0.002, [[2, 3], [4, 3], [8, 3]])
    lines = (tmp_path / "a" / "curve.csv").read_text().splitlines()
    assert lines[0] == "update,decisions,mean_error,mean_reward" and len(lines) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset=ppo"], "'ppo' ... one of: rl-cc, pcc-rl"),
        (["--ground=fluid", "--labs=2"], "--labs: ... fluid"),
        (["--noise=0.1"], "--noise: ... lab"),
        (["--ground=fluid", "--asynchronous"], "--asynchronous: ... fluid"),
        (["--learning-rate=1.5"], "learning_rate = 1.5: ... 0 and 1"),
        (["--ground=fluid", "--bottlenecks=0"], "pairs of flows and bottlenecks"),
        (["--labs=0"], "labs = 0: give 1 or more"),
        (["--updates=0"], "updates = 0: give 1 or more"),
        (["--beta=-1"], "beta = -1: ... 0, below 256"),
        (["--beta=nan"], "beta = nan: ... 0, below 256"),
        (["--ground=fluid", "--beta=256"], "beta = 256: ... 0, below 256"),
        (["--target=0.003"], "target = 0.003: ... above 0.003, below 256"),
        (["--ground=fluid", "--target=inf"], "target = inf: ... above 0.003, below 256"),
        (["--unclipped=-1"], "unclipped = -1: give 0 or more"),
        (["--ground=fluid", "--unclipped=1201"], "unclipped = 1201: ... 1200"),
        (["--ground=fluid", "--noise=nan"], "noise = nan: ... 0"),
        (["--resume"], f"has no {CHECKPOINT}"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(tmp_path, capsys, options, message):
    assert main(["method", "rlcc", "train", f"--out={tmp_path / 'out'}", *options]) == 2
    stderr = capsys.readouterr().err
    assert states(stderr, message) and len(stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_not_trained_in(tmp_path):
    (tmp_path / "mine").write_text("")
    with pytest.raises(UsageError, match="exists; give another --out"), open_folder(tmp_path, resume=False):
        pass


def test_a_training_that_was_killed_before_its_first_checkpoint_can_begin_again(tmp_path):
    folder_lock.take(tmp_path).close()
    with unfinished.created(tmp_path / "checkpoint.npz"):
        pass
    tensorboard.Events(tmp_path / EVENTS)
    with open_folder(tmp_path, resume=False):
        assert folder_lock.is_held(tmp_path)
        with pytest.raises(UsageError, match="a training is under way here"), open_folder(tmp_path, resume=False):
            pass


def test_events_of_another_program_keep_a_training_out(tmp_path):
    (tmp_path / EVENTS).mkdir()
    (tmp_path / EVENTS / "events.out.tfevents.theirs").touch()
    with pytest.raises(UsageError, match="exists; give another --out"), open_folder(tmp_path, resume=False):
        pass


def test_a_lock_of_another_program_keeps_a_training_out(tmp_path):
    (tmp_path / ".lock").write_text("theirs")
    with pytest.raises(UsageError, match="exists; give another --out"), open_folder(tmp_path, resume=False):
        pass


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("options", "weights"),
    [
        pytest.param([], "744dbc23ef457a644d8382c91bb1299a3ca79e6b1679a1799e66f81df9305d8e", id="rlcc-mlp"),
        pytest.param(["--net=lstm"], "11b312f4f21cc0d33dd006efef74aaf3c0d9f675b2f613ff498851e58b7aa5b9", id="rlcc-lstm"),
        pytest.param(
            ["--net=lstm", "--preset=pcc-rl"], "fed90664bd7a1e118338f39dffeec551d3104638d2c502b30634639213705cd1", id="pccrl-lstm"
        ),
    ],
)
def test_a_training_with_all_defaults_gives_the_same_network_on_any_machine(tmp_path, options, weights):
    """The digests of the weights change with whatever changes a NIC's decisions in a lab, as the golden digests of runs do."""
    assert main(["method", "rlcc", "train", "--quiet", f"--out={tmp_path / 'out'}", *options]) == 0
    with np.load(tmp_path / "out" / "policy.npz") as file:
        trained = b"".join(file[name].tobytes() for name in sorted(file) if file[name].dtype == np.float64)
    assert hashlib.sha256(trained).hexdigest() == weights


@pytest.mark.parametrize(
    ("updates", "template"),
    [
        (0, "nothing is kept yet; begin again with: dcgym {command}"),
        (100, "update 100 of 1600 is kept in {checkpoint}; go on with: dcgym {command} --resume"),
    ],
)
def test_ctrl_c_says_how_to_go_on(tmp_path, capsys, monkeypatch, updates, template):
    def interrupted(settings, out, *_args, **_how):
        if updates:
            learner = Learner.new(settings, Scaling())
            learner.curve = np.zeros(updates, CURVE)
            checkpoint.write(learner, out, {})
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "train_on_labs", interrupted)
    argv = ["method", "rlcc", "train", "--quiet", f"--out={tmp_path}"]
    assert main(argv) == 130
    line = template.format(command=" ".join(argv), checkpoint=tmp_path / CHECKPOINT)
    assert capsys.readouterr().err == f"dcgym: {line}\ndcgym: interrupted\n"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_learner_that_is_killed_goes_on(tmp_path, number):
    """It is killed between two checkpoints: no folder is left, and the result equals that of an undisturbed training."""
    options = ["--preset=pcc-rl", "--updates=60", "--updates-per-episode=40", "--labs=1", "--quiet"]
    command = [
        sys.executable,
        "-c",
        "import sys; from dc_gym.cli.main import main; sys.exit(main())",
        "method",
        "rlcc",
        "train",
        *options,
    ]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*command, f"--out={whole}"], env=environment, check=True, timeout=600)
    process = subprocess.Popen([*command, f"--out={broken}"], env=environment)
    deadline = time.monotonic() + 600
    while not (broken / CHECKPOINT).exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    process.wait()
    subprocess.run([*command, f"--out={broken}", "--resume"], env=environment, check=True, timeout=600)
    assert (whole / "policy.npz").read_bytes() == (broken / "policy.npz").read_bytes()
    assert json.loads((broken / "manifest.json").read_text())["resumed_at_update"] == 40
    while any(tmp_path.glob("dcgym-env-*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
