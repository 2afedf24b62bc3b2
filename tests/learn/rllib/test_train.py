# SPDX-License-Identifier: Apache-2.0
"""`dcgym train` on the toy: what it writes, that it is the same twice, that it goes on, and each refusal in one line."""

from __future__ import annotations

import contextlib
import csv
import importlib
import json
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import toy_task

from dc_gym.base.errors import TestbedError
from dc_gym.base.progress import Quiet
from dc_gym.learn.rllib import checkpoints, ray_session, train
from dc_gym.learn.rllib.settings import TrainingSettings
from dc_gym.learn.tasks import TASKS, Task
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.spec import Spec, load

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "dumbbell.toml"

CONFIG = """
[run]
evaluate_episodes = 2
checkpoint_every = 1
[training]
train_batch_size_per_learner = 256
num_epochs = 2
minibatch_size = 64
[reporting]
min_sample_timesteps_per_iteration = 256
[model]
fcnet_hiddens = [16]
"""
TIMES = ("steps_per_s", "eta_s")


@pytest.fixture(autouse=True)
def one_ray(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All trainings of this module share the tests' Ray."""

    @contextlib.contextmanager
    def session(address: str | None, labs: int, processes: int) -> Iterator[Any]:
        yield ray

    monkeypatch.setattr(ray_session, "session", session)


def spec(seed: int = 1) -> Spec:
    return load(EXAMPLE, (), seed)


def order(tmp_path: Path, name: str = "a", algorithm: str = "PPO", config: str = CONFIG, **changes: Any) -> train.TrainingRequest:
    file = tmp_path / "train.toml"
    file.write_text(config)
    options = {"steps": 600, "labs": 2} | changes.pop("options", {})
    evaluated = changes.pop("evaluated", {})
    return train.TrainingRequest(spec(), algorithm, tmp_path / name, file, options, evaluated, changes.pop("resume", False), None)


def run(order: train.TrainingRequest, progress: Quiet | None = None) -> Path:
    return train.run(order, progress or Quiet(), toy_task.register)


class Told(Quiet):
    """Progress that keeps the lines that a user would read."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)

    def announce(self, line: str) -> None:
        self.lines.append(line)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [{key: value for key, value in row.items() if key not in TIMES} for row in csv.DictReader(file)]


def refused(order: train.TrainingRequest) -> str:
    with pytest.raises(TestbedError) as refusal:
        run(order)
    assert "\n" not in str(refusal.value) and refusal.value.exit_code == 2
    return str(refusal.value)


def test_what_it_writes_and_that_it_goes_on(tmp_path: Path) -> None:
    policy = run(order(tmp_path))
    folder = policy.parent
    progress = rows(folder / "progress.csv")
    assert [int(row["iteration"]) for row in progress] == [1, 2, 3]
    assert [int(row["steps"]) for row in progress] == [256, 512, 768]
    assert 0 < float(progress[-1]["queue_mean"]) <= float(progress[-1]["switch_queue_bytes_longest_max"])
    evaluated = rows(folder / "evaluation.csv")
    assert [(row["iteration"], row["seed"]) for row in evaluated] == [
        ("0", "1000001"),
        ("0", "1000002"),
        ("3", "1000001"),
        ("3", "1000002"),
    ]
    assert evaluated[0]["capacity"] == evaluated[2]["capacity"] != evaluated[1]["capacity"]  # the seed's episode, each time
    about = json.loads((folder / "train.json").read_text())
    assert about["algorithm"] == "PPO" and about["sections"]["training"]["lr"] == 3e-4 and about["settings"]["steps"] == 600
    assert AgentPolicy.read(policy).provenance["steps"] == 768
    assert any(folder.glob("events/events.out.tfevents.*"))
    files = {"train.json", "progress.csv", "evaluation.csv", "events", "checkpoints", "policy.npz", "best.npz"}
    assert {path.name for path in folder.iterdir()} == files
    storage = importlib.import_module("ray.tune.trainable.trainable").DEFAULT_STORAGE_PATH
    assert Path(storage).is_relative_to(folder), "RLlib's empty folders are not for the user's home"

    run(order(tmp_path, resume=True))
    assert rows(folder / "evaluation.csv") == evaluated, "it had ended: nothing is evaluated twice"

    run(order(tmp_path, resume=True, options={"steps": 1000}))
    assert [int(row["steps"]) for row in rows(folder / "progress.csv")] == [256, 512, 768, 1024]
    assert len(list((folder / "checkpoints").iterdir())) == 3  # run.keep_checkpoints
    for checkpoint in checkpoints.find(folder):
        assert checkpoints.require_trusted(checkpoint, trust=False) == [], "its user made it, and reading it changed nothing"

    changed = CONFIG.replace("[16]", "[17]")
    text = refused(order(tmp_path, resume=True, config=changed))
    assert "sections.model.fcnet_hiddens[0] was 16 and now is 17" in text
    assert "algorithm was" in refused(order(tmp_path, resume=True, algorithm="REINFORCE", config="[run]\ncheckpoint_every = 1"))
    assert "settings.labs was 2 and now is 3" in refused(order(tmp_path, resume=True, options={"labs": 3}))
    assert "exists; go on with --resume" in refused(order(tmp_path))


def test_one_that_was_killed_before_its_first_checkpoint_begins_again(tmp_path: Path) -> None:
    whole = run(order(tmp_path))
    policy, progress = whole.read_bytes(), rows(tmp_path / "a" / "progress.csv")
    whole.unlink()
    shutil.rmtree(tmp_path / "a" / "checkpoints")
    display = Told()
    assert run(order(tmp_path, resume=True), display).read_bytes() == policy
    assert rows(tmp_path / "a" / "progress.csv") == progress
    folder = tmp_path / "a" / "checkpoints"
    assert display.lines[0].startswith(f"--resume: {folder} has no checkpoint, so the training begins at zero; one is written ")


RARELY = CONFIG.replace("checkpoint_every = 1", "checkpoint_every = 100")


def interrupt(patch: pytest.MonkeyPatch, update: int) -> None:
    """Raises Ctrl-C after the n-th update of the weights, before the iteration is counted."""
    from ray.rllib.core.learner.learner_group import LearnerGroup

    learn, calls = LearnerGroup.update, iter(range(1, 1000))

    def learned(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = learn(self, *args, **kwargs)
        if next(calls) == update:
            raise KeyboardInterrupt
        return result

    patch.setattr(LearnerGroup, "update", learned)


def interrupted(order: train.TrainingRequest, monkeypatch: pytest.MonkeyPatch, update: int) -> Told:
    display = Told()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt(patch, update)
        run(order, display)
    return display


def test_ctrl_c_keeps_the_last_whole_iteration_and_the_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equals bit for bit a training that ended there and went on; up to there it equals an undisturbed one."""
    undisturbed = rows(run(order(tmp_path, "whole", config=RARELY, options={"steps": 1000})).parent / "progress.csv")
    display = interrupted(replace(order(tmp_path, config=RARELY), again="dcgym x"), monkeypatch, 3)
    checkpoint = tmp_path / "a" / "checkpoints" / "iteration-000002"
    assert [path.name for path in checkpoint.parent.iterdir()] == [checkpoint.name]
    assert display.lines[-1] == f"iteration 2 (512 steps) is kept in {checkpoint}; go on with: dcgym x"
    assert rows(tmp_path / "a" / "progress.csv") == [{**row} for row in undisturbed[:2]]
    run(order(tmp_path, "ended", config=RARELY, options={"steps": 512}))

    again = Told()
    ends = [
        run(order(tmp_path, name, config=RARELY, resume=True, options={"steps": 1000}), again).parent for name in ("a", "ended")
    ]
    assert f"goes on after iteration 2 (512 steps), from {checkpoint}" in again.lines
    assert (ends[0] / "policy.npz").read_bytes() == (ends[1] / "policy.npz").read_bytes()
    gone_on = rows(ends[0] / "progress.csv")
    assert gone_on == rows(ends[1] / "progress.csv")
    assert gone_on[:2] == undisturbed[:2] and [row["steps"] for row in gone_on] == [row["steps"] for row in undisturbed]
    assert gone_on[2] != undisturbed[2], "it has other episodes, as the documentation says"


def test_ctrl_c_before_the_first_iteration_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    display = interrupted(order(tmp_path), monkeypatch, 1)
    assert display.lines[-1] == "nothing is kept yet; begin again with: the same command with --resume"


def test_a_second_ctrl_c_leaves_the_earlier_checkpoint_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.rllib.algorithms.algorithm import Algorithm

    def broken_off(self: Any, path: str, **kwargs: Any) -> str:
        if path.endswith("iteration-000002.partial"):
            (Path(path) / "half").write_text("")
            raise KeyboardInterrupt
        return str(save(self, path, **kwargs))

    save = Algorithm.save_to_path
    display = Told()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Algorithm, "save_to_path", broken_off)
        run(order(tmp_path), display)  # in its regular checkpoint, and in that of the interrupt
    assert [path.name for path in checkpoints.find(tmp_path / "a")] == ["iteration-000001"]
    assert "iteration 1 (256 steps) is kept" in display.lines[-1]
    assert AgentPolicy.read(run(order(tmp_path, resume=True))).provenance["steps"] == 768
    assert not list((tmp_path / "a" / "checkpoints").glob("*.partial"))


@pytest.mark.long
def test_what_was_learned_is_not_lost_by_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No return after the interruption is that of an untrained policy, and the end is as good as without interruption."""
    config = RARELY.replace("num_epochs = 2", "num_epochs = 10\nlr = 3e-3").replace("= 256", "= 500")

    def returns(name: str) -> list[float]:
        return [float(row["return_mean"]) for row in rows(tmp_path / name / "progress.csv")]

    run(order(tmp_path, "whole", config=config, options={"steps": 10_000}))
    interrupted(order(tmp_path, config=config, options={"steps": 10_000}), monkeypatch, 13)
    run(order(tmp_path, config=config, resume=True, options={"steps": 10_000}))
    whole, broken = returns("whole"), returns("a")
    assert len(broken) == len(whole) and broken[:12] == whole[:12]
    learned = whole[11] - whole[0]
    assert min(broken[12:]) > whole[0] + learned / 2 and whole[-1] - broken[-1] < learned / 4


@pytest.mark.parametrize("address", [None, "here"])
def test_its_folder_stays_as_private_as_it_was(tmp_path: Path, address: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """RLlib makes a folder that every user may write to. It lies in one that nobody else may enter."""
    from ray._common import utils

    modes: list[int] = []
    create = utils.try_to_create_directory

    def record_mode(path: str) -> None:
        create(path)
        modes.append(stat.S_IMODE(Path(path).parent.stat().st_mode))

    monkeypatch.setattr(importlib.import_module("ray.tune.trainable.trainable"), "try_to_create_directory", record_mode)
    request = replace(order(tmp_path, options={"runners": 1, "steps": 256}), address=address)
    request.out.mkdir(mode=0o755)
    run(request)
    assert modes and set(modes) == {0o700}
    assert stat.S_IMODE(request.out.stat().st_mode) == 0o755
    run(replace(request, resume=True, options=request.options | {"steps": 512}))
    assert [int(row["steps"]) for row in rows(request.out / "progress.csv")] == [256, 512]


def test_an_address_needs_runners(tmp_path: Path) -> None:
    assert "give --runners N" in refused(replace(order(tmp_path), address="auto"))
    assert not (tmp_path / "a").exists()


def test_one_seed_is_one_training(tmp_path: Path) -> None:
    first, second = (run(order(tmp_path, name)) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert rows(first.parent / "progress.csv") == rows(second.parent / "progress.csv")
    other = run(order(tmp_path, "c", options={"seed": 2}))
    assert AgentPolicy.read(other).weights[0].tolist() != AgentPolicy.read(first).weights[0].tolist()


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["SAC", "TD3"])
def test_one_seed_is_one_off_policy_training(tmp_path: Path, algorithm: str) -> None:
    config = "[run]\nevaluate_episodes = 0\n[training]\nnum_steps_sampled_before_learning_starts = 100"
    first, second = (run(order(tmp_path, name, algorithm, config, options={"steps": 1000})) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert rows(first.parent / "progress.csv") == rows(second.parent / "progress.csv")


@pytest.mark.long
def test_runners(tmp_path: Path) -> None:
    policy = run(order(tmp_path, options={"runners": 2}))
    assert len(rows(policy.parent / "evaluation.csv")) == 4


@pytest.mark.long
def test_appo(tmp_path: Path) -> None:
    config = "[run]\nevaluate_episodes = 0\n[env_runners]\nrollout_fragment_length = 32"
    policy = run(order(tmp_path, "a", "APPO", config, options={"runners": 1, "steps": 1500}))
    assert AgentPolicy.read(policy).hosts == ("h1", "h2")


@pytest.mark.long
def test_dqn_over_levels(tmp_path: Path) -> None:
    config = "[run]\nevaluate_episodes = 1\n[training]\nnum_steps_sampled_before_learning_starts = 100"
    policy = AgentPolicy.read(run(order(tmp_path, "a", "DQN", config, options={"levels": 5})))
    assert policy.output == "argmax" and policy.biases[-1].shape == (5,)
    assert len(rows(tmp_path / "a" / "evaluation.csv")) == 2


def test_a_python_file(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("def configure(config):\n    config.training(lr=-1, nothing=2)\n")
    wrong = train.TrainingRequest(spec(), "PPO", tmp_path / "a", file, {"steps": 100}, {}, False, None)
    assert refused(wrong).startswith(f"{file}:2: TypeError: ")


@pytest.mark.parametrize(
    ("algorithm", "config", "options", "words"),
    [
        ("DQN", "", {}, "DQN chooses one of a few actions"),
        ("TD3", "", {"levels": 5}, "TD3 acts in numbers, not in --levels"),
        ("PPO", "[training]\nlrr = 1", {}, "[training] lrr is unknown; did you mean lr?"),
        ("PPO", "[trainin]\nlr = 1", {}, "trainin is unknown; did you mean training?"),
        ("PPO", "[run]\nlabz = 1", {}, "[run] labz is unknown; did you mean labs?"),
        ("PPO", "[run]\nlabs = 'a'", {"labs": None}, "run.labs = 'a' is not a int"),
        ("PPO", "[env_runners]\nnum_env_runners = 2", {}, "num_env_runners is set by the training; give run.runners"),
        (
            "PPO",
            "[training]\ntrain_batch_size_per_learner = 100\nminibatch_size = 128",
            {},
            "PPO: RLlib refuses this configuration: ",
        ),
        ("PPO", "x = ", {}, "is not TOML"),
        ("PPO", "", {"preset": "iroko"}, "preset 'iroko' is unknown; did you mean iroko-thesis?"),
        ("SAC", "", {"preset": "iroko-thesis"}, "preset 'iroko-thesis' has nothing for SAC"),
    ],
)
def test_one_line(tmp_path: Path, algorithm: str, config: str, options: dict[str, Any], words: str) -> None:
    assert words in refused(order(tmp_path, "a", algorithm, config, options=options))


def test_evaluation_wants_the_same_spaces(tmp_path: Path) -> None:
    text = refused(order(tmp_path, evaluated={"three": spec(2)}))
    assert text.startswith("--evaluate three: the policy would meet 5 values and 3 hosts, not 4 and 2")


def test_evaluation_wants_the_same_actions() -> None:
    task = toy_task.register(spec(), TrainingSettings())
    tasks = {
        name: replace(task, settings={"action": "log", "floor": floor})
        for name, floor in (("train", "1kbit/s"), ("b", "2kbit/s"))
    }
    with pytest.raises(TestbedError, match=r"--evaluate b: .*floor.*'1kbit/s'.*'2kbit/s'; give"):
        train._require_same_spaces(tasks)


@pytest.mark.parametrize("preset", ["iroko-thesis", "mended"])
@pytest.mark.parametrize("algorithm", ["PPO", "APPO", "DDPG", "REINFORCE"])
def test_the_presets_are_known_to_rllib(preset: str, algorithm: str) -> None:
    from dc_gym.learn.rllib import algorithms, settings

    configuration = settings.read(None, algorithm, {"preset": preset})
    choice = algorithms.resolve(algorithm)
    config = train.configure(choice, configuration, toy_task.register(spec(), TrainingSettings()))
    for name, value in configuration.sections["training"].items():
        assert getattr(config, name) == value


@pytest.mark.parametrize("task", [task for task in TASKS if task.config], ids=lambda task: task.name)
def test_what_a_task_changes_in_the_preset_is_known_to_rllib(task: Task) -> None:
    from dc_gym.learn.rllib import algorithms, settings

    assert task.config
    configuration, suite = (settings.read(path, "PPO", {"preset": "suite"}) for path in (task.config, None))
    assert configuration != suite
    config = train.configure(algorithms.resolve("PPO"), configuration, toy_task.register(spec(), TrainingSettings()))
    for name, value in configuration.sections["training"].items():
        assert getattr(config, name) == value


def test_the_example_of_an_algorithm_learns(tmp_path: Path) -> None:
    """The file is outside of this package, as those of users are."""
    (tmp_path / "mine.py").write_text((EXAMPLE.parent / "a2c.py").read_text())
    config = "[run]\nevaluate_episodes = 0\n[training]\ngamma = 0.9\n[reporting]\nmin_sample_timesteps_per_iteration = 500"
    run(order(tmp_path, "a", f"{tmp_path / 'mine.py'}:A2C", config, options={"steps": 9000, "labs": 4}))
    returns = [float(row["return_mean"]) for row in rows(tmp_path / "a" / "progress.csv")]
    assert returns[0] < -10 < 0 < returns[-1]


HEIR = """
from ray.rllib.algorithms.ppo import PPO
class Heir(PPO):
    def training_step(self):
        raise ValueError("of the heir")
"""


def test_a_class_without_a_config_of_its_own_is_what_trains(tmp_path: Path) -> None:
    file = tmp_path / "heir.py"
    file.write_text(HEIR)
    assert refused(order(tmp_path, "a", f"{file}:Heir")) == f"{file}:5: ValueError: of the heir"
    assert not (tmp_path / "a" / "policy.npz").exists()


OTHER = """
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
class Mine(PPO):
    pass
class Seen(RLlibCallback):
    def on_algorithm_init(self, **kwargs):
        raise ValueError("called")
def configure(config):
    {change}
"""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "return PPOConfig(algo_class=Mine)",
            "--config: configure(config) gives a config that builds Mine, and --algo PPO is PPO;",
        ),
        ("config.callbacks(Seen)", ":8: ValueError: called"),
    ],
)
def test_a_config_of_the_user(tmp_path: Path, change: str, words: str) -> None:
    """A config that builds another algorithm is refused. Callbacks of the user are called besides dc-gym's own."""
    file = tmp_path / "train.py"
    file.write_text(OTHER.format(change=change))
    assert words in refused(replace(order(tmp_path), config=file))


def test_sigterm_is_not_left_to_ray() -> None:
    """Ray's handler of SIGTERM aborts in C++; the command's own tidies up and exits with 143."""
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.rllib", None)
    with pytest.raises(TestbedError, match=r"ray\.rllib.*pip install 'dc-gym\[rl\]'"):
        ray_session.require()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labs": 4}, "4 networks would share the machine"),
        ({"labs": 1, "runners": 2}, "1 networks in each of 2 runners"),
        ({"labs": 1, "evaluate_every": 5}, "an evaluation needs a second network"),
    ],
)
def test_real_time_has_one_network(options: dict[str, int], words: str, tmp_path: Path) -> None:
    request = replace(order(tmp_path, options=options), spec=load(EXAMPLE, ["ground=host"]))
    with pytest.raises(TestbedError, match=f'ground "host": {words}'):
        run(request)
    assert not (tmp_path / "a").exists()


def test_real_time_has_no_evaluation(tmp_path: Path) -> None:
    request = replace(order(tmp_path, options={"steps": 100, "labs": 1}), spec=load(EXAMPLE, ["ground=host"]))
    assert run(request).is_file()
    assert rows(tmp_path / "a" / "evaluation.csv") == [] and rows(tmp_path / "a" / "progress.csv")
