# SPDX-License-Identifier: Apache-2.0
"""A Gymnasium VectorEnv of many labs in one process.

One call of the C library of steps lets all labs run at once and measures them (stepper.py).

Each sub-environment is a lab of its own, with the traffic of its own seed, and if asked for with a spec of its own. Autoreset is
Gymnasium's: by default the step after the last one of an episode resets (NEXT_STEP). If a lab dies or hangs, its episode ends as
truncated with `lab_died` in its info, and the reset that follows boots another lab; the other labs are not affected. So it is if
a reset finds that the episode before it was unfit. A lab that dies in a reset otherwise is replaced at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from dc_gym.base.errors import AgentError, LabError, UnfitError
from dc_gym.learn.env import Seeds, add_timing, as_spec, check_options
from dc_gym.learn.gymnasium_parts import RENDERING, Copied, Limited, Pictures
from dc_gym.learn.session import Session, check_seed
from dc_gym.learn.stepper import LabStepper, Steps
from dc_gym.learn.turn import Turn, in_turn
from dc_gym.run.agent.action import VectorAction
from dc_gym.run.agent.episode import EpisodeTracker
from dc_gym.run.agent.frame import Frame
from dc_gym.run.agent.lazy_info import LazyInfo
from dc_gym.run.agent.metrics import BLANK
from dc_gym.run.agent.observation import Vector
from dc_gym.spec import Spec

Batch = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]
OneSpec = Spec | str | Path | Mapping[str, Any]
Flags = npt.NDArray[Any]
"""An array of bool."""
InfoMaker = Callable[[], dict[str, Any]]
RESET_MASK = "reset_mask"
"""The option of reset that selects the labs to reset."""
BATCH_BLANK = BLANK | {f"_{name}": None for name in BLANK}
"""The keys of an info if no lab begins, ends or dies: each metric, and under _name a mask of the labs that have it."""


class LabVectorEnv(Limited, Copied, VectorEnv[Batch, npt.NDArray[np.floating[Any]], npt.NDArray[Any]]):
    """`num_envs` labs, stepped in one call. Spaces, rewards and infos are DataCenterEnv's, batched."""

    metadata: dict[str, Any] = RENDERING | {"autoreset_mode": AutoresetMode.NEXT_STEP}
    worked_out = ("sessions", "episodes", "_stepper", "_actions", "_frame_seen", "pictures", "turn")
    sessions: tuple[Session, ...] = ()
    _frame_seen: Vector
    """The last observation of a network on the host ground."""

    def __init__(
        self,
        num_envs: int = 1,
        spec: OneSpec | Sequence[OneSpec] | None = None,
        overrides: Iterable[str] | Sequence[Iterable[str]] = (),
        *,
        ground: str | None = None,
        folder: str | Path | None = None,
        render_mode: str | None = None,
        step_info: bool = True,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
    ) -> None:
        """Makes the environments; their labs boot at the first reset.

        Args:
            num_envs: The number of labs.
            spec: The spec of all labs, or a sequence with one for each.
            overrides: Texts "key=value" for all labs, or a sequence with some for each.
            folder: The parent of the labs' folders; None: the system's folder for temporary files.
            render_mode: "rgb_array", or None.
            step_info: False leaves the info of steps empty, except of those that begin or end an episode: RLlib spends time on
                each number in an info.
            autoreset_mode: When a lab whose episode is over begins the next one.
            max_episode_steps: Ends episodes earlier than time.duration does.
            ground: Replaces the spec's ground.
        """
        self.turn = Turn()
        if num_envs < 1:
            raise AgentError(f"num_envs: {num_envs} labs are none; give 1 or more")
        if spec is None:
            raise AgentError("spec: missing; give a Spec, the path of a spec file, or a dict of its keys")
        self.num_envs, self.render_mode, self._step_info = num_envs, render_mode, step_info
        self.metadata = type(self).metadata | {"autoreset_mode": _mode_of(autoreset_mode)}
        if max_episode_steps is not None and max_episode_steps < 1:
            raise AgentError(f"max_episode_steps: {max_episode_steps} steps are none; give 1 or more")
        self._folder, self._limit = None if folder is None else Path(folder), max_episode_steps
        specs = _specs(num_envs, spec, overrides, ground)
        self._seeds = tuple(Seeds(lab_spec.episodes) for lab_spec in specs)
        self._work_out(specs)
        self.single_observation_space = self.episodes[0].observer.space
        self.single_action_space = self.episodes[0].action.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _work_out(self, specs: Sequence[Spec]) -> None:
        self.sessions = _own_sessions(specs, self._folder)
        self.episodes = tuple(EpisodeTracker(session.experiment.spec, session.scene) for session in self.sessions)
        for episode in self.episodes:
            episode.steps = min(episode.steps, self._limit or episode.steps)
        require_alike(self.sessions, self.episodes)
        spec = self.sessions[0].experiment.spec
        self._stepper = LabStepper(self.sessions, self.episodes) if spec.ground == "lab" else None
        self._actions = VectorAction([episode.action for episode in self.episodes])
        self.pictures = Pictures(self.render_mode, self.num_envs, spec.agent.interval_ns / 1e9)
        self._over: list[int] = []
        self._under_way = False

    def _sessions(self) -> Sequence[Session]:
        return self.sessions

    def _most_steps(self) -> int:
        return max(episode.steps for episode in self.episodes)

    @in_turn
    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Batch, dict[str, Any]]:
        """Begins an episode in all labs, or in some.

        Args:
            seed: One number is the seed of lab 0, and the following numbers are the seeds of labs 1, 2, ...; a sequence holds one
                seed for each lab; None draws the next seeds.
            options: "reset_mask" resets some labs alone; "fresh" boots new ones.

        Returns:
            Observations as [labs, numbers], and infos.
        """
        chosen, fresh = self._chosen(options)
        lab_seeds = self._spread(seed)
        seeds = {index: self._seeds[index].take(lab_seeds[index]) for index in chosen}
        with self._running() as running:
            infos = self._begin_all(seeds, running, fresh=fresh)
        self._over = [index for index in self._over if index not in seeds]
        return self._seen(), self._batched([infos.get(index, {}) for index in range(self.num_envs)])

    @in_turn
    def step(self, actions: npt.NDArray[np.floating[Any]]) -> tuple[Batch, npt.NDArray[Any], Flags, Flags, dict[str, Any]]:
        """Applies an action in each lab and lets agent.interval pass in all of them.

        Args:
            actions: [labs, numbers].

        Returns:
            Observations [labs, numbers], rewards, terminations and truncations [labs], and infos.
        """
        if not self._under_way:
            raise AgentError("step: there are no episodes under way; reset first")
        if len(actions) != self.num_envs:
            raise AgentError(f"step: {len(actions)} actions for {self.num_envs} labs; give one for each")
        if self._over and self._autoreset is AutoresetMode.DISABLED:
            lab_names, how = _named(self._over), 'reset(options={"reset_mask": mask})'
            raise AgentError(f"step: the episode of lab {lab_names} is over, and autoreset is disabled; begin another by {how}")
        values = self._actions.to_values(actions, self._over)
        if self._stepper is None:
            return self._step_by_frames(values)
        if self._over:
            return self._step_some(self._stepper, values)
        with self._running():
            steps = self._stepper.step(values)
        if steps.ends or steps.died:
            return self._with_ends(self._stepper, steps, {})
        self._picture(steps.rewards, range(self.num_envs), self._stepper.infos())
        info: dict[str, Any] = {}
        if self._step_info:
            info = LazyInfo(BATCH_BLANK, partial(_filled, self._stepper.infos()))
        return steps.observations, steps.rewards, steps.terminated, steps.truncated, info

    @in_turn
    def render(self) -> Any:
        """Returns the picture of each lab's last second, [height, width, 3]."""
        return self.pictures.pixels()

    @in_turn
    def close_extras(self, **kwargs: Any) -> None:
        """Ends all labs."""
        for session in self.sessions:
            session.close()

    def _step_some(self, stepper: LabStepper, values: Values) -> tuple[Batch, npt.NDArray[Any], Flags, Flags, dict[str, Any]]:
        """Steps where some labs begin episodes. All of them run at the same time."""
        begun = {index: self._seeds[index].take(None) for index in self._over}
        going = [index for index in range(self.num_envs) if index not in begun]
        with self._running() as running:
            for index, drawn in begun.items():
                running.add(index)
                self.sessions[index].post_begin(drawn)
            steps = stepper.step(values, going)
            infos, unfit = self._begun(begun, running)
        steps.observations = stepper.observations
        steps.died |= unfit
        steps.truncated[[*unfit]] = True
        return self._with_ends(stepper, steps, infos)

    def _with_ends(
        self, stepper: LabStepper, steps: Steps, infos: dict[int, dict[str, Any]]
    ) -> tuple[Batch, npt.NDArray[Any], Flags, Flags, dict[str, Any]]:
        """Returns the results of a step in which episodes ended or began. `infos`: of labs that began."""
        going = [index for index in range(self.num_envs) if index not in infos and index not in steps.died]
        infos = infos | steps.ends
        infos |= {index: _death(error) for index, error in steps.died.items()}
        self._over = sorted({*steps.ends, *steps.died})
        fills = stepper.infos()
        self._picture(steps.rewards, going, fills)
        makers: list[Any] = fills if self._step_info else [None] * self.num_envs
        batch = [infos[index] if index in infos else {} if fill is None else fill() for index, fill in enumerate(makers)]
        batch = self._begun_at_once(steps.observations, batch)
        steps.observations = stepper.observations
        return steps.observations, steps.rewards, steps.terminated, steps.truncated, self._batched(batch)

    def _begun_at_once(self, observations: Batch, infos: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Begins the next episodes of the labs whose episodes are over, with autoreset in the same step.

        Returns the infos, which then have the last observation and info of those labs.
        """
        if self._autoreset is not AutoresetMode.SAME_STEP or not self._over:
            return infos
        with self._running() as running:
            begun = self._begin_all({index: self._seeds[index].take(None) for index in self._over}, running)
        self._over = []
        last = {index: {"final_obs": observations[index], "final_info": infos[index]} for index in begun}
        return [last[index] | begun[index] if index in begun else info for index, info in enumerate(infos)]

    def _picture(
        self, rewards: npt.NDArray[Any], labs: Iterable[int], fills: Sequence[Callable[[], dict[str, Any]] | None]
    ) -> None:
        """Adds a step of these labs to their pictures."""
        for index in labs if self.render_mode else ():
            if (fill := fills[index]) is not None:
                self.pictures.add(index, float(rewards[index]), LazyInfo(BLANK, fill))

    def _step_by_frames(self, values: Values) -> tuple[Batch, npt.NDArray[Any], Flags, Flags, dict[str, Any]]:
        """Steps the one network on the host ground."""
        ends = np.zeros((2, 1), bool)
        if self._over:
            with self._running() as running:
                begun, unfit = self._begin({0: self._seeds[0].take(None)}, running)
            self._over, ends[1] = [*unfit], bool(unfit)
            return self._seen(), np.zeros(1), ends[0], ends[1], self._batched([_death(unfit[0]) if unfit else begun[0]])
        with self._running():
            try:
                frame = self.sessions[0].step(values[0])
            except LabError as error:
                self._over, ends[1] = [0], True
                infos = self._begun_at_once(self._seen(), [_death(error)])
                return self._seen(), np.zeros(1), ends[0], ends[1], self._batched(infos)
            turn = add_timing(self.episodes[0].advance(frame), self.sessions[0].pace)
        self._frame_seen, reward, ends[0], ends[1], info = turn
        self.pictures.add(0, reward, info, info.get("interval_s"))
        self._over = [0] if ends.any() else []
        if not self._step_info and not self._over:
            info = {}
        infos = self._begun_at_once(self._seen(), [info])
        return self._seen(), np.array([reward]), ends[0], ends[1], self._batched(infos)

    def _seen(self) -> Batch:
        """Returns the last observations."""
        return self._frame_seen[np.newaxis].copy() if self._stepper is None else self._stepper.observations

    def _batched(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Returns infos in Gymnasium's form: by name, an array over the labs and a mask."""
        batch: dict[str, Any] = {}
        for index, info in enumerate(infos):
            batch = self._add_info(batch, info, index)
        return batch

    @contextmanager
    def _running(self) -> Iterator[set[int]]:
        """Yields the set of labs that have the command to begin an episode and have not yet answered.

        If an error occurs, these labs and the labs that the stepper lets run are closed: the next reset boots new ones, and no
        step is possible before it.
        """
        running: set[int] = set()
        self._under_way = False
        try:
            yield running
        except BaseException:
            for index in {*running, *(self._stepper.running() if self._stepper else ())}:
                self.sessions[index].close()
            raise
        self._under_way = True

    def _begin(
        self, begun: Mapping[int, int], running: set[int], *, fresh: bool = False
    ) -> tuple[dict[int, dict[str, Any]], dict[int, LabError]]:
        """Begins episodes with these seeds, by lab, all at the same time. Returns the same as `_begun`."""
        for index, drawn in begun.items():
            running.add(index)
            self.sessions[index].post_begin(drawn, fresh=fresh)
        return self._begun(begun, running)

    def _begin_all(self, seeds: Mapping[int, int], running: set[int], *, fresh: bool = False) -> dict[int, dict[str, Any]]:
        """Begins episodes with these seeds, by lab. A lab whose last episode was unfit is booted again, as its info notes."""
        infos, unfit = self._begin(seeds, running, fresh=fresh)
        for index, error in unfit.items():
            frame = self.sessions[index].begin(seeds[index])
            infos[index] = self._first(index, frame, seeds[index]) | _death(error)
        return infos

    def _begun(self, begun: Mapping[int, int], running: set[int]) -> tuple[dict[int, dict[str, Any]], dict[int, LabError]]:
        """Returns the infos of the episodes that begin, and errors of labs whose last episode was unfit.

        A lab that dies is booted again, once, after all others have answered.
        """
        infos, dead, unfit = {}, [], dict[int, LabError]()
        for (index, seed), frame in zip(begun.items(), self._collect([*begun]), strict=True):
            running.discard(index)
            if isinstance(frame, UnfitError):
                unfit[index] = frame
            elif isinstance(frame, LabError):
                dead.append(index)
            else:
                infos[index] = self._first(index, frame, seed)
        for index in dead:
            infos[index] = self._first(index, self.sessions[index].begin(begun[index]), begun[index])
        return infos, unfit

    def _collect(self, places: Sequence[int]) -> list[Frame | LabError]:
        """Returns the first frames of labs that begin episodes, or how they died. They are set up side by side."""
        from concurrent.futures import ThreadPoolExecutor

        sessions = [self.sessions[index] for index in places]
        if len(sessions) == 1:
            return [_collected(sessions[0])]
        with ThreadPoolExecutor(len(sessions)) as threads:
            try:
                return list(threads.map(_collected, sessions))
            except BaseException:  # as Ctrl-C: nobody waits for a lab that is about to be closed
                for session in sessions:
                    session.kill()
                raise

    def _first(self, index: int, frame: Frame, seed: int) -> dict[str, Any]:
        """Begins an episode of a lab that stands still at its first frame, and returns the frame's info."""
        if self._stepper is not None:
            info = self._stepper.begin(index, frame, seed)
        else:
            self._frame_seen, info = add_timing(self.episodes[index].begin(frame, seed), self.sessions[index].pace)
        self.pictures.begin(index, info)
        return info

    @property
    def _autoreset(self) -> AutoresetMode:
        mode: AutoresetMode = self.metadata["autoreset_mode"]
        return mode

    def _chosen(self, options: Mapping[str, Any] | None) -> tuple[list[int], bool]:
        """Returns the labs that a reset with these options resets, and whether it boots them anew."""
        others = {name: value for name, value in (options or {}).items() if name != RESET_MASK}
        fresh, every = check_options(others), list(range(self.num_envs))
        if options is None or RESET_MASK not in options:
            return every, fresh
        mask = np.asarray(options[RESET_MASK])
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            fault = f"{mask.tolist()!r:.60} is no array of {self.num_envs} truth values with a true one"
            raise AgentError(f"reset: {RESET_MASK} {fault}; give one for each lab")
        chosen = np.flatnonzero(mask).tolist()
        idle = [index for index in every if index not in chosen and index not in self._over and self.sessions[index].pid is None]
        if idle:
            raise AgentError(f"reset: {RESET_MASK} leaves out lab {_named(idle)}, which has no episode yet; reset all labs first")
        return chosen, fresh

    def _spread(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        seeds = [int(seed) + index for index in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        if len(seeds) != self.num_envs:
            raise AgentError(f"reset: {len(seeds)} seeds for {self.num_envs} labs; give one for each")
        for lab_seed in seeds:
            if lab_seed is not None:
                check_seed(lab_seed)
        return seeds


def _collected(session: Session) -> Frame | LabError:
    try:
        return session.collect()
    except LabError as error:
        return error


def _mode_of(mode: AutoresetMode | str) -> AutoresetMode:
    """Returns a mode of its value or of its name, in upper or lower case."""
    for known in AutoresetMode:
        if mode == known or str(mode).lower() in (known.value.lower(), known.name.lower()):
            return known
    names = ", ".join(known.name for known in AutoresetMode)
    raise AgentError(f"autoreset_mode: {mode!r} is unknown; give one of {names}")


def _named(labs: Iterable[int]) -> str:
    return ", ".join(map(str, labs))


def _death(error: LabError) -> dict[str, Any]:
    """Returns the info of an episode that ended with its lab."""
    return {"lab_died": str(error).splitlines()[0]}


def _filled(fills: Sequence[InfoMaker | None]) -> dict[str, Any]:
    """Returns the batched info of a step that all labs made."""
    infos = [fill() for fill in fills if fill is not None]
    values: dict[str, Any] = {name: np.array([info[name] for info in infos]) for name in BLANK}
    return values | {f"_{name}": np.ones(len(infos), bool) for name in BLANK}


def _specs(
    labs: int, spec: OneSpec | Sequence[OneSpec], overrides: Iterable[str] | Sequence[Iterable[str]], ground: str | None
) -> list[Spec]:
    """Returns the spec of each lab. Equal ones are one object."""
    one = isinstance(spec, Spec | str | Path | Mapping)
    bases: list[Any] = [spec] * labs if one else list(spec)  # type: ignore[arg-type]
    changes = [overrides] if isinstance(overrides, str) else list(overrides)
    lab_changes: list[Any] = changes if any(not isinstance(text, str) for text in changes) else [changes] * labs
    for label, entries in (("spec", bases), ("overrides", lab_changes)):
        if len(entries) != labs:
            raise AgentError(f"{label}: {len(entries)} for {labs} labs; give one for all, or one for each")
    known: dict[str, Spec] = {}
    specs = []
    for base, change in zip(bases, lab_changes, strict=True):
        key = f"{id(base)} {[*change]!r}"
        if key not in known:
            known[key] = as_spec(base, change, ground)
        specs.append(known[key])
    if specs[0].ground == "host" and labs > 1:
        raise AgentError(f'num_envs: {labs} networks would share the machine in real time; ground "host" takes 1')
    return specs


def _own_sessions(specs: Sequence[Spec], parent: Path | None) -> tuple[Session, ...]:
    """Returns a session for each spec. Sessions of one spec share the objects derived from it."""
    first: dict[int, Session] = {}
    sessions = []
    for spec in specs:
        session = Session(spec, parent, like=first.get(id(spec)))
        first.setdefault(id(spec), session)
        sessions.append(session)
    return tuple(sessions)


def require_alike(sessions: Sequence[Session], episodes: Sequence[EpisodeTracker]) -> None:
    """Checks that the labs of a vector have the same agent: the same keys of [agent], ports, hosts and values.

    Args:
        sessions: One for each lab.
        episodes: One for each lab.

    Raises:
        AgentError: They differ.
    """
    first = sessions[0]
    agent = first.experiment.spec.to_dict()["agent"]
    for index, (session, episode) in enumerate(zip(sessions, episodes, strict=True)):
        if session.scene is first.scene:
            continue
        prefix = f"labs 0 and {index} of one vector differ in"
        first_ground, other_ground = first.experiment.spec.ground, session.experiment.spec.ground
        if first_ground != other_ground:
            raise AgentError(f"{prefix} ground: {first_ground!r} and {other_ground!r}; give all the same")
        other_agent = session.experiment.spec.to_dict()["agent"]
        for key in sorted({*agent, *other_agent}):
            if agent.get(key) != other_agent.get(key):
                raise AgentError(f"{prefix} agent.{key}: {agent.get(key)!r} and {other_agent.get(key)!r}; give all the same")
        for name, mine_all, theirs_all in (
            ("the observation", episodes[0].observer.names, episode.observer.names),
            ("what is set", episodes[0].scene.value_names, episode.scene.value_names),
        ):
            if mine_all != theirs_all:
                raise AgentError(f"{prefix} {name}: {_first_difference(mine_all, theirs_all)}; give them one network")
        for name, a, b in (
            ("the observation space", episodes[0].observer.space, episode.observer.space),
            ("the action space", episodes[0].action.space, episode.action.space),
        ):
            if a != b:
                raise AgentError(f"{prefix} {name}: {a} and {b}; give them one network")


def _first_difference(first: Sequence[str], second: Sequence[str]) -> str:
    """Returns the first elements that differ, in words."""
    for position, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return f"element {position} is {a} and {b}"
    return f"{len(first)} and {len(second)} elements"
