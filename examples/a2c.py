# SPDX-License-Identifier: Apache-2.0
# Advantage actor-critic as a plug-in: dcgym train SPEC --algo examples/a2c.py:A2C --out DIR (docs/extending.md).
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing


class A2CLearner(PPOTorchLearner):
    """The gradient of log pi times advantage, once for each batch; the critic's squared error."""

    def compute_loss_for_module(self, *, module_id, config, batch, fwd_out):
        module = self.module[module_id].unwrapped()
        distribution = module.get_train_action_dist_cls()
        policy = distribution.from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        values = module.compute_values(batch, embeddings=fwd_out.get(Columns.EMBEDDINGS))
        gain = (policy.logp(batch[Columns.ACTIONS]) * batch[Postprocessing.ADVANTAGES]).mean()
        error = ((values - batch[Postprocessing.VALUE_TARGETS]) ** 2).mean()
        self.metrics.log_value((module_id, "vf_loss"), error, window=1)
        return -gain + config.vf_loss_coeff * error - config.entropy_coeff * policy.entropy().mean()


class A2C(PPO):
    @classmethod
    def get_default_config(cls):
        config = PPOConfig(algo_class=cls).learners(learner_class=A2CLearner)
        return config.training(
            lr=1e-3, vf_loss_coeff=0.5, num_epochs=1, minibatch_size=None, train_batch_size_per_learner=500, use_kl_loss=False
        )
