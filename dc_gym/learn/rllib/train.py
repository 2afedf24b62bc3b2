# SPDX-License-Identifier: Apache-2.0
"""`dcgym train`: samples in labs, learns, records progress, and writes a policy (docs/training.md).

DIR/train.json       everything that the training depends on
DIR/progress.csv     one row for each iteration; DIR/events has the same for TensorBoard
DIR/evaluation.csv   one row for each episode of a frozen policy
DIR/checkpoints/     for --resume and export
DIR/policy.npz       the policy at the end
DIR/best.npz         the policy with the highest mean return in an evaluation
"""

from __future__ import annotations

import json
import math
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from dc_gym import spec as specs
from dc_gym.base import folder_lock, methods, ray_cluster, resume
from dc_gym.base.errors import LabError, UsageError
from dc_gym.base.files import machine_errors, scratch, whole
from dc_gym.base.progress import Progress, short_time
from dc_gym.base.readable import number, quantity
from dc_gym.base.terminal import say
from dc_gym.learn import tasks as suite
from dc_gym.learn.rllib import checkpoints, presets, ray_session, user_errors
from dc_gym.nets.agent_policy import AgentPolicy

OPTIONS = ("preset", "steps", "labs", "runners", "seed", "levels", "policies")
"""The command's options that are settings of every training."""
BEST = "best.npz"
EVALUATIONS = ("iteration", "steps", "spec", "seed", "return", "episode_steps")
MOST_IDLE = 3
"""Iterations without a step before the training ends. Runners whose labs do not boot return nothing, and RLlib goes on
regardless."""
SAMPLE_TIMEOUT_S = 3600.0
"""RLlib's timeout of a sample, raised from its default of 60 s. Labs have their own watchdog, which reports the fault."""


class Subject(Protocol):
    """The subject of a training: a Spec, or another object that a `register` function accepts."""

    @property
    def ground(self) -> str: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """The training that the command line asks for."""

    spec: Subject
    algorithm: str
    out: Path
    config: Path | None
    options: Mapping[str, Any]
    """The settings given as options; None: not given."""
    evaluated: Mapping[str, Subject]
    """The specs, by name, that the policy is evaluated on besides its own."""
    resume: bool
    address: str | None
    again: str = "the same command with --resume"
    """The command that resumes the training."""


def main(args: Namespace, progress: Progress) -> int:
    """Runs `dcgym train`."""
    if not args.spec:
        others = "".join(f", or --agents {name}, which needs none" for name in methods.trainers())
        raise UsageError(f"SPEC is missing; give a TOML file{others}")
    prepare(args, progress)
    from dc_gym.learn.rllib import environment
    from dc_gym.learn.session import external

    def load(path: Path, overrides: Sequence[str] = ()) -> specs.Spec:
        return external(specs.load(Path(suite.path_of(path)), overrides, trust=args.trust, say=progress.announce))

    spec = load(args.spec, args.overrides)
    agent = spec.agent
    options = {name: getattr(args, name) for name in OPTIONS} | {"agents": args.agents or agent.agents}
    options |= {"see": agent.see, "reward": agent.reward_scope}
    config = args.config
    if (task := suite.of(args.spec)) and config is None and not args.preset:
        options["preset"], config = presets.SUITE, task.config
    evaluated = {path.stem: load(path) for path in args.evaluate}
    again = resume.command(args)
    request = TrainingRequest(spec, args.algo, args.out, config, options, evaluated, args.resume, args.address, again)
    say(run(request, progress, environment.register))
    return 0


def prepare(args: Namespace, progress: Progress) -> None:
    """Checks the checkpoint from which a training goes on, and that Ray can be used."""
    for checkpoint in checkpoints.find(args.out)[-1:] if args.resume else ():
        for line in checkpoints.require_trusted(checkpoint, trust=args.trust):
            progress.announce(line)
    if not args.address:
        ray_cluster.protect()
    ray_session.require()


def run(request: TrainingRequest, progress: Progress, register: Any) -> Path:
    """Trains, and returns the path of the policy file, or of the last checkpoint if a policy file cannot hold the net."""
    ray_session.require()
    from dc_gym.learn.rllib import algorithms, environment, manifest, settings

    resolved = algorithms.resolve(request.algorithm)
    configuration = settings.read(request.config, resolved.name, request.options)
    training_settings = configuration.settings
    if request.spec.ground == "host":
        training_settings = _on_host(request, training_settings, progress)
    tasks = {"train": register(request.spec, training_settings)}
    tasks |= {name: register(spec, training_settings) for name, spec in request.evaluated.items()}
    environment.check_actions(resolved, tasks["train"].action_space)
    _require_same_spaces(tasks)
    if request.address and not training_settings.runners:
        raise UsageError("--address: labs run in runners on the cluster; give --runners N")
    about = manifest.make(resolved, configuration, request.spec, request.evaluated, tasks["train"])
    with ExitStack() as stack:
        _open(request, about, stack)
        labs = training_settings.runners * training_settings.labs + (
            len(tasks) if training_settings.runners and training_settings.evaluate_episodes else 0
        )
        labs = labs if tasks["train"].uses_labs else 0
        with _telling_how_to_go_on(request, training_settings, progress):  # reported before Ray shuts down, which takes seconds
            progress.phase("Ray")
            ray = stack.enter_context(ray_session.session(request.address, labs, training_settings.runners + len(tasks) + 2))
            # Ray ends a runner with all its child processes, including the janitors of its labs. This process cleans up.
            lab_folder = None if request.address else stack.enter_context(scratch(request.out, "dcgym-env-"))
            rays = stack.enter_context(scratch(request.out, "dcgym-ray-", mode=0o700)) / "r"  # RLlib makes it anybody's
            training = stack.enter_context(_building(request, resolved, configuration, tasks["train"], lab_folder, rays))
            return _Loop(request, training_settings, training, tasks, ray, about, progress, stack).run()


def _on_host(request: TrainingRequest, settings: Any, progress: Progress) -> Any:
    """Returns the settings without those that a single network in real time cannot have. Raises UsageError if the user gave one
    of these."""
    if settings.labs != 1 or settings.runners > 1:
        many = (
            f"{settings.labs} networks in each of {settings.runners} runners"
            if settings.runners > 1
            else f"{settings.labs} networks"
        )
        raise UsageError(f'ground "host": {many} would share the machine in real time; give --labs 1, and at most --runners 1')
    if request.evaluated or settings.evaluate_every:
        raise UsageError('ground "host": an evaluation needs a second network; give it up, and run the policy afterwards')
    if settings.evaluate_episodes:
        progress.note("no evaluation: it would need a second network in real time; dcgym run --set controller=policy.npz is one")
    return replace(settings, evaluate_episodes=0)


class _Loop:
    """Runs the iterations, and the checkpoints and evaluations between them."""

    def __init__(
        self,
        request: TrainingRequest,
        settings: Any,
        algorithm: Any,
        tasks: Mapping[str, Any],
        ray: Any,
        about: dict[str, Any],
        progress: Progress,
        stack: ExitStack,
    ) -> None:
        from dc_gym.learn.rllib import evaluation, logs

        self._out, self._told, self._algorithm = request.out, settings, algorithm
        self._tasks, self._about, self._progress = tasks, about, progress
        self._iteration, self._steps = int(algorithm.iteration), _steps_so_far(algorithm)
        self._first_steps, self._begun_s = self._steps, time.monotonic()
        self._restarts = 0
        self._held: checkpoints.TrainingState | None = None
        """The state after the last complete iteration."""
        self._known: dict[str, float] = {}
        """The values of the last ended episodes: not every iteration has one that ended."""
        until = self._iteration or None
        self._rows = logs.CsvLog(request.out / "progress.csv", logs.COLUMNS, until)
        self._evaluations = logs.CsvLog(request.out / "evaluation.csv", EVALUATIONS, until)
        self._events = logs.TensorBoardEvents(request.out / "events", self._steps)
        stack.callback(self._events.close)
        self._evaluators: Any = None
        if settings.evaluate_episodes:
            examine = tasks["train"].evaluation or evaluation.Evaluation
            self._evaluators = examine(ray, algorithm.config, dict(tasks), settings.held_out())
            stack.callback(self._evaluators.close)

    def run(self) -> Path:
        """Trains to the end. If it is interrupted, saves a checkpoint of the last complete iteration."""
        try:
            self._run()
        except KeyboardInterrupt:
            self._save()
            raise
        return self._export()

    def _run(self) -> None:
        if self._iteration == 0:
            self._evaluate()
        self._progress.phase("train")
        self._begun_s = time.monotonic()
        idle = 0
        while self._steps < self._told.steps:
            before = self._steps
            self._iterate()
            idle = idle + 1 if self._steps == before else 0
            if idle == MOST_IDLE:
                user_errors.check()
                raise LabError("no runner has sampled a step; try --runners 0, which says what is wrong with its labs")
            over = self._steps >= self._told.steps
            if over or self._iteration % self._told.checkpoint_every == 0:
                self._save()
            if not over and self._told.evaluate_every and self._iteration % self._told.evaluate_every == 0:
                self._evaluate()
                self._progress.phase("train")
        self._evaluate()
        self._progress.phase("done")

    def _save(self) -> None:
        if self._held is not None:
            checkpoints.save(self._algorithm, self._held, self._out, self._told.keep_checkpoints, self._progress.note)

    def _iterate(self) -> None:
        from dc_gym.learn.rllib import logs

        result = self._algorithm.train()
        self._iteration, self._steps = int(self._algorithm.iteration), logs.steps_of(result)
        self._tell_restarts()
        passed_s = time.monotonic() - self._begun_s
        rate = (self._steps - self._first_steps) / passed_s if passed_s > 0 else 0.0
        eta_s = max(0, self._told.steps - self._steps) / rate if rate else math.inf
        row = logs.row_of(result, self._iteration, rate, eta_s, self._tasks["train"].agents_count)
        self._held = checkpoints.TrainingState.of(self._algorithm, self._iteration, self._steps)
        self._rows.append(row)
        self._events.write("train", row, self._steps)
        self._known |= {name: row[name] for name in ("return_mean", "queue_mean") if not math.isnan(row[name])}
        words = _words(row | self._known, self._told.steps)
        self._progress.advance(min(self._steps, self._told.steps), self._told.steps, words)

    def _tell_restarts(self) -> None:
        restarts = int(self._algorithm.env_runner_group.num_remote_worker_restarts())
        if restarts > self._restarts:
            self._progress.note(f"a runner died and was started again ({restarts} so far); the others went on")
        self._restarts = restarts

    def _evaluate(self) -> None:
        """Evaluates the policy, at most once for each iteration: a resumed training may already have the rows."""
        if self._evaluators is None or self._evaluations.has(self._iteration):
            return
        from dc_gym.learn.rllib import evaluation

        self._progress.phase("evaluation")
        episodes = self._evaluators.run(self._algorithm)
        counters = {"iteration": self._iteration, "steps": self._steps}
        self._evaluations.append(
            *(
                counters
                | {"spec": episode.spec, "seed": episode.seed, "return": episode.reward, "episode_steps": episode.steps}
                | episode.totals
                for episode in episodes
            )
        )
        for name in self._tasks:
            returns = [episode.reward for episode in episodes if episode.spec == name]
            mean = sum(returns) / len(returns)
            self._events.write("evaluation", {f"{name}_return_mean": mean}, self._steps)
            self._progress.note(
                f"evaluation after {self._steps:,} steps, {name}: return {number(mean)} over {len(returns)} episodes"
            )
            if name == evaluation.OWN:
                self._keep_best(mean)

    def _keep_best(self, mean: float) -> None:
        """Writes the policy if none before had such a mean return in an evaluation."""
        from dc_gym.learn.rllib import policy

        target = self._out / BEST
        if target.exists() and AgentPolicy.read(target).provenance["evaluated_return"] >= mean:
            return
        with suppress(policy.NotExportable):  # it is told of at the end
            module = self._algorithm.get_module(policy.module_of(self._about))
            policy.write(module, self._about, self._steps, target, evaluated_return=mean)

    def _export(self) -> Path:
        """Exports the policy and returns its path, or the path of the last checkpoint."""
        from dc_gym.learn.rllib import export, policy

        target = self._out / export.NAME
        try:
            policy.write(self._algorithm.get_module(policy.module_of(self._about)), self._about, self._steps, target)
        except policy.NotExportable as error:
            self._progress.note(f"no {target.name}: {error}")
            return checkpoints.latest(self._out)
        return target


def _words(row: Mapping[str, Any], steps: int) -> str:
    """Returns the progress line."""
    queue = f", queue {quantity(row['queue_mean'], 'bytes')}" if not math.isnan(row["queue_mean"]) else ""
    returned = number(row["return_mean"])
    left = f", {short_time(row['eta_s'])} to go" if math.isfinite(row["eta_s"]) and row["eta_s"] else ""
    pace = f"{row['steps_per_s']:,.0f} steps/s{left}"
    return f"iteration {row['iteration']}: return {returned}{queue}, {row['steps']:,} of {steps:,} steps, {pace}"


def _open(request: TrainingRequest, about: dict[str, Any], stack: ExitStack) -> None:
    """Opens the training's folder: a new one, or one in which this training may resume."""
    from dc_gym.learn.rllib import manifest

    out = request.out
    if request.resume:
        manifest.require_same(manifest.read(out), about)
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists; go on with --resume, or give another --out")
    with machine_errors("make", out):
        out.mkdir(parents=True, exist_ok=True)
    stack.enter_context(folder_lock.held(out, "a training"))
    with machine_errors("write", out / manifest.NAME), whole(out / manifest.NAME, durable=True) as work:
        work.write_text(json.dumps(about, indent=1) + "\n")


@contextmanager
def _telling_how_to_go_on(request: TrainingRequest, settings: Any, progress: Progress) -> Iterator[None]:
    """Reports from where --resume continues and, after Ctrl-C, the command that resumes."""
    reached, folder = _last(request.out)
    if request.resume and reached:
        progress.note(resume.goes_on(reached, folder))
    elif request.resume:
        progress.announce(resume.begins(folder, f"every {settings.checkpoint_every} iterations (run.checkpoint_every)"))
    try:
        yield
    except KeyboardInterrupt:
        progress.announce(resume.interrupted(*_last(request.out), request.again))
        raise


def _last(out: Path) -> tuple[str | None, Path]:
    """Returns the last checkpoint in words and its folder, or None and the folder for checkpoints."""
    paths = checkpoints.find(out)
    return (checkpoints.describe(paths[-1]), paths[-1]) if paths else (None, out / checkpoints.FOLDER)


@contextmanager
def _building(
    request: TrainingRequest, resolved: Any, configuration: Any, task: Any, lab_folder: Path | None, rays: Path
) -> Iterator[Any]:
    """Yields RLlib's Algorithm, restored if asked for, and stops it at the end. RLlib's errors become one line. Labs have their
    folders in `lab_folder`, RLlib its own in `rays`, which every user may then write to."""
    from ray.tune.trainable import trainable

    checkpoint = next(reversed(checkpoints.find(request.out)), None)  # none yet: the training starts from the beginning
    config = configure(resolved, configuration, task, checkpoints.iteration_of(checkpoint) if checkpoint else 0, lab_folder)
    algorithm = None
    try:
        try:
            trainable.DEFAULT_STORAGE_PATH = str(rays)  # else ~/ray_results, with an empty folder each
            algorithm = config.build_algo()
            with suppress(OSError):
                Path(algorithm.logdir).rmdir()
            seed_replay(algorithm, configuration.settings.seed)
        except (ValueError, TypeError, AssertionError, KeyError, NotImplementedError) as error:
            if user_errors.in_words(error) is not None:
                raise
            raise UsageError(f"{resolved.name}: RLlib refuses this configuration: {_first_line(error)}") from error
        if checkpoint:
            algorithm.restore_from_path(str(checkpoint.resolve()))
        yield algorithm
    except Exception as error:
        user_error = user_errors.in_words(error)
        if user_error is None or user_error is error:
            raise
        raise type(user_error)(str(user_error)) from error
    finally:
        if algorithm is not None:
            algorithm.stop()


def configure(resolved: Any, configuration: Any, task: Any, iteration: int = 0, lab_folder: Path | None = None) -> Any:
    """Returns an AlgorithmConfig for a task, with labs below `lab_folder`. A resumed training gets other episodes than before."""
    import gymnasium

    from dc_gym.learn.rllib import agents
    from dc_gym.learn.rllib.callbacks import EpisodeStarts, EpisodeTotalsLogger, UserErrors
    from dc_gym.learn.rllib.environment import FOLDER, STREAM
    from dc_gym.nets.agent_kinds import CENTRAL

    settings = configuration.settings
    env_config: dict[str, Any] = {
        "levels": settings.levels,
        FOLDER: lab_folder and str(lab_folder),
        STREAM: (settings.seed, iteration),
        **task.config,
    }
    config = resolved.config()
    config.api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
    config.environment(task.name, env_config=env_config, disable_env_checking=True)
    config.env_runners(
        num_env_runners=settings.runners,
        num_envs_per_env_runner=settings.labs,
        gym_env_vectorize_mode=gymnasium.VectorizeMode.VECTOR_ENTRY_POINT.value,  # RLlib writes episodes if it is a string
        custom_resources_per_env_runner={ray_session.LAB: settings.labs} if settings.runners and task.uses_labs else {},
        sample_timeout_s=SAMPLE_TIMEOUT_S,
    )
    if task.env_runner:
        config.environment(observation_space=task.observation_space, action_space=task.action_space)
        config.env_runners(env_runner_cls=task.env_runner)
    if task.agents != CENTRAL:
        agents.configure(config, settings, task)
    config.learners(num_learners=0)
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=1000)
    config.fault_tolerance(restart_failed_env_runners=True, delay_between_env_runner_restarts_s=1.0)
    config.debugging(seed=settings.seed + iteration, log_level="ERROR")
    values = len(task.hosts) if task.agents == CENTRAL and not task.levels else 1
    config = configuration.apply(config, task.observation, values)
    resolved.require_built_by(config)
    user_callbacks = config.callbacks_class if isinstance(config.callbacks_class, list) else [config.callbacks_class]
    config.callbacks([EpisodeTotalsLogger, EpisodeStarts, UserErrors, *user_callbacks])
    return config if task.agents == CENTRAL else agents.replaying(config)


def seed_replay(algorithm: Any, seed: int) -> None:
    """Seeds the replay buffer. RLlib's own draws its seed from the operating system, and a training would not be reproducible."""
    import numpy as np

    buffer = getattr(algorithm, "local_replay_buffer", None)
    if buffer is not None:
        buffer.rng = np.random.default_rng(seed)


def _steps_so_far(algorithm: Any) -> int:
    from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

    return int(algorithm.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0))


def _require_same_spaces(tasks: Mapping[str, Any]) -> None:
    """Checks that the evaluated specs have the same observations and actions as the training."""
    ref = tasks["train"]
    for name, task in tasks.items():
        for key in ("action", "floor"):
            trained, evaluated = ref.settings.get(key), task.settings.get(key)
            if trained != evaluated:
                words = f"{key} {trained!r}, and there it is {evaluated!r}; give the same agent.{key}"
                raise UsageError(f"--evaluate {name}: the policy acts with {words}")
        if task.observation != ref.observation or task.hosts != ref.hosts:
            diff = f"{len(task.observation)} values and {len(task.hosts)} hosts, not {len(ref.observation)} and {len(ref.hosts)}"
            if len(task.observation) == len(ref.observation):
                diff = "other ports or hosts of the same number"
            raise UsageError(f"--evaluate {name}: the policy would meet {diff}; give a spec on the same network and [agent]")


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
