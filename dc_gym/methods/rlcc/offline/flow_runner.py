# SPDX-License-Identifier: Apache-2.0
"""An EnvRunner for RL-CC's decision problem: all flows of many bottlenecks at once.

Each flow decides when its own probe comes back. RLlib's runners step environments. An environment with one agent for each flow
costs them milliseconds for each decision. The runner here calls the module once for all flows that decide at the same time. It
returns the input of any RLlib algorithm: one episode for each flow, from its first decision to its end, in pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from dc_gym.learn.rllib.algorithms.ddpg import PLACES
from dc_gym.learn.rllib.callbacks import TOTALS
from dc_gym.learn.rllib.environment import STREAM
from dc_gym.learn.rllib.seeds import seed_of
from dc_gym.methods.rlcc.decision import MAX_ACTION
from dc_gym.methods.rlcc.offline.flows import FlowsConfig
from dc_gym.methods.rlcc.offline.flows_rllib import FLOWS_CONFIG
from dc_gym.methods.rlcc.offline.on_fluid import Bottlenecks
from dc_gym.nets.fixed_point import Floats

Rows = dict[str, npt.NDArray[Any]]


@dataclass(slots=True)
class FlowEpisode:
    """The flow in one place of the model."""

    number: int = 0
    begun: int = 0
    """The number of decisions in its pieces so far."""


class FlowRunner(SingleAgentEnvRunner):
    """Samples pieces of each flow's episode from a fluid model."""

    def make_env(self) -> None:
        flows_config: FlowsConfig = self.config.env_config[FLOWS_CONFIG]
        observation_space, acted = flows_config.observation_space(), flows_config.action_space()
        both = {name: (observation_space, acted) for name in (INPUT_ENV_SPACES, INPUT_ENV_SINGLE_SPACES, DEFAULT_MODULE_ID)}
        self.spaces, self._flows_config, self._seen, self._acted = both, flows_config, observation_space, acted
        seed, begun = self.config.env_config.get(STREAM, (flows_config.model.seed, 0))
        if self.worker_index or begun:  # other runners and resumed trainings have other flows
            seed = seed_of((seed, begun, self.worker_index))
        self._model = Bottlenecks(replace(flows_config.model, seed=seed), flows_config.scaling)
        self._lives = [FlowEpisode() for _ in self._model.rate]
        self._open: Rows | None = None
        """The latest decision of each flow, whose reward is not known yet."""

    def sample(self, *, num_timesteps: int | None = None, explore: bool | None = None, **_: Any) -> list[SingleAgentEpisode]:
        explore = self.config.explore if explore is None else explore
        parts, count = [] if self._open is None else [self._open], 0
        fragment_length = self.config.get_rollout_fragment_length(self.worker_index) * self.config.num_envs_per_env_runner
        while count < (num_timesteps or fragment_length):
            rows = self._step(explore)
            if rows is not None:
                parts.append(rows)
                count += len(rows["flow"])
        rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[-1]}
        order = np.argsort(rows["flow"], kind="stable")
        rows = {name: values[order] for name, values in rows.items()}
        episodes = self._pieces(rows)
        self._increase_sampled_metrics(sum(map(len, episodes)), sum(episode.is_done for episode in episodes))
        self._log(rows["error"])
        return episodes

    def _log(self, errors: Floats) -> None:
        """Logs how the flows of a sample are doing."""
        model, links = self._model, len(self._model.queue)
        flows = np.bincount(model.link, minlength=links)
        rates, squares = (np.bincount(model.link, weights, links) for weights in (model.rate, model.rate**2))
        totals = {
            "reward": self._flows_config.rewards(errors).mean(),
            "inflation_over_eq_2": ((1.0 + model.queue) / self._flows_config.scaling.inflation(flows)).mean(),
            "sum_of_rates": rates.mean(),
            "jain": (rates**2 / (flows * squares)).mean(),
        }
        for name, value in totals.items():
            self.metrics.log_value((TOTALS, name), float(value), reduce="item_series")

    def _step(self, explore: bool) -> Rows | None:
        """Steps the model. Returns one row for each flow whose probe is back."""
        model = self._model
        flows, _ = model.look()
        if not len(flows):
            model.act(flows, np.ones(0))
            return None
        inputs, ends = model.inputs[flows], model.ends[flows].copy()
        batch = {Columns.OBS: torch.from_numpy(inputs.astype(np.float32)), PLACES: torch.from_numpy(flows)}
        outputs = self._actions(batch, explore)
        model.act(flows, to_factors(outputs[Columns.ACTIONS][:, 0]))
        for flow in flows[ends]:
            self._begin(int(flow))
        return {"flow": flows, "seen": inputs.astype(np.float32), "error": inputs[:, 3], "ends": ends, **outputs}

    def _actions(self, batch: dict[str, Any], explore: bool) -> Rows:
        """Returns a module's actions, in -1..1 as its nets give them, and the other outputs that its learner needs."""
        with torch.no_grad():
            out = self.module.forward_exploration(batch) if explore else self.module.forward_inference(batch)
            if Columns.ACTIONS not in out:
                kind = self.module.get_exploration_action_dist_cls() if explore else self.module.get_inference_action_dist_cls()
                chosen = kind.from_logits(out[Columns.ACTION_DIST_INPUTS])
                drawn = (chosen if explore else chosen.to_deterministic()).sample()
                out |= {Columns.ACTIONS: drawn} | ({Columns.ACTION_LOGP: chosen.logp(drawn)} if explore else {})
        return {name: tensor.numpy() for name, tensor in out.items() if isinstance(tensor, torch.Tensor)}

    def _begin(self, flow: int) -> None:
        """Notifies the module that a new flow takes the place of an ended one."""
        if begin := getattr(self.module, "begin_episode", None):
            begin(flow)

    def _pieces(self, rows: Rows) -> list[SingleAgentEpisode]:
        """Cuts rows that are sorted by flow where a flow ends, and returns the pieces. The last row of each flow stays for the
        next sample."""
        flow, ends = rows["flow"], rows["ends"]
        cut = np.flatnonzero(np.append((flow[1:] != flow[:-1]) | ends[:-1], True))
        rewards = self._flows_config.rewards(rows["error"]).astype(np.float32)
        self._open = {name: values[cut[~ends[cut]]] for name, values in rows.items()}
        pieces, first = [], 0
        for last in map(int, cut):
            piece, first = slice(first, last), last + 1
            life = self._lives[flow[last]]
            if piece.stop > piece.start:
                pieces.append(self._piece(rows, rewards, piece, life))
                life.begun += piece.stop - piece.start
            if ends[last]:
                self._lives[flow[last]] = FlowEpisode(life.number + 1)
        return pieces

    def _piece(self, rows: Rows, rewards: Any, steps: slice, life: FlowEpisode) -> SingleAgentEpisode:
        output_names = (Columns.ACTION_DIST_INPUTS, Columns.ACTION_LOGP)
        return SingleAgentEpisode(
            id_=f"{self.worker_index}-{rows['flow'][steps.start]}-{life.number}",
            observations=list(rows["seen"][steps.start : steps.stop + 1]),
            observation_space=self._seen,
            actions=list(rows[Columns.ACTIONS][steps]),
            action_space=self._acted,
            rewards=list(rewards[steps.start + 1 : steps.stop + 1]),
            truncated=bool(rows["ends"][steps.stop]),
            extra_model_outputs={name: list(rows[name][steps]) for name in output_names if name in rows},
            t_started=life.begun,
            len_lookback_buffer=0,
        ).to_numpy()


def to_factors(actions: Floats) -> Floats:
    """Maps a module's actions in -1..1 to factors of the rate, as RLlib maps them to the action space."""
    low = 1.0 / MAX_ACTION
    return np.asarray(low + (np.clip(actions, -1.0, 1.0).astype(np.float64) + 1.0) * (MAX_ACTION - low) / 2.0)
