# SPDX-License-Identifier: Apache-2.0
"""Tests the checkpoints of trainings."""

import numpy as np
import pytest

from dc_gym.base.errors import UsageError
from dc_gym.methods.checkpoint import NAME
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.offline import checkpoint
from dc_gym.methods.rlcc.offline.gradient import Batch, Learner
from dc_gym.methods.rlcc.offline.on_lab import LabTrainingSettings

DEPENDS_ON = {"settings": {"seed": 1}, "versions": {"numpy": "1"}}


def batch(seed, memory):
    random = np.random.default_rng(seed)
    inputs, errors = random.random((3, 30, 4)), 3.0 * random.random((3, 30)) - 1.0
    return Batch(inputs, random.random((30, memory)), errors, random.random((3, 30)) < 0.8)


def learner(net="mlp"):
    trained = Learner.new(LabTrainingSettings(net=net, updates=4), Scaling())
    for seed in range(2):
        trained.update(batch(seed, trained.net.memory))
    return trained


@pytest.mark.parametrize("net", ["mlp", "lstm"])
def test_a_learner_goes_on_as_if_nothing_had_been(tmp_path, net):
    trained = learner(net)
    checkpoint.write(trained, tmp_path, DEPENDS_ON)
    again = checkpoint.read(tmp_path, DEPENDS_ON, trained.settings, trained.scaling)
    for trainer in (trained, again):
        trainer.update(batch(2, trained.net.memory))
    assert all((a == b).all() for a, b in zip(trained.net.weights, again.net.weights, strict=True))
    assert trained.curve.tolist() == again.curve.tolist() and len(trained.curve) == 3
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("net", ["mlp", "lstm"])
def test_what_does_not_count_has_no_part(net):
    a, b = learner(net), learner(net)
    samples = batch(3, a.net.memory)
    other = np.where(samples.counted, samples.errors, 7.0)
    a.update(samples)
    b.update(Batch(samples.inputs, samples.memory, other, samples.counted))
    assert all((weight == its).all() for weight, its in zip(a.net.weights, b.net.weights, strict=True))
    assert a.curve[-1]["decisions"] == samples.counted.sum() < samples.errors.size


def test_a_training_goes_on_as_it_began(tmp_path):
    checkpoint.write(learner(), tmp_path, DEPENDS_ON)
    with pytest.raises(UsageError, match=r"settings\.seed.* 1 .* 2 "):
        checkpoint.read(tmp_path, DEPENDS_ON | {"settings": {"seed": 2}}, LabTrainingSettings(), Scaling())


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"x"), lambda path: np.savez(path, a=np.zeros(1))])
def test_what_is_no_checkpoint_is_said_in_one_line(tmp_path, spoil):
    spoil(tmp_path / NAME)
    with pytest.raises(UsageError, match=r"--resume.*folder") as refusal:
        checkpoint.read(tmp_path, DEPENDS_ON, LabTrainingSettings(), Scaling())
    assert "\n" not in str(refusal.value)
