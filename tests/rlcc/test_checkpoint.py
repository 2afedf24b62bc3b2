# SPDX-License-Identifier: Apache-2.0
"""A training at rest."""

import numpy as np
import pytest

from dc_gym.errors import UsageError
from dc_gym.rlcc.checkpoint import NAME, Checkpoint
from dc_gym.rlcc.on_lab import Learner, Settings

DEPENDS_ON = {"settings": {"seed": 1}, "versions": {"numpy": "1"}}


def learner():
    made = Learner.new(Settings(updates=4))
    random = np.random.default_rng(1)
    for _ in range(2):
        made.update(random.random((30, 4)), random.random(30))
    return made


def test_a_learner_goes_on_as_if_nothing_had_been(tmp_path):
    made = learner()
    made.state().write(tmp_path, DEPENDS_ON)
    again = Learner.restored(made.settings, Checkpoint.read(tmp_path, DEPENDS_ON))
    seen, errors = np.random.default_rng(2).random((30, 4)), np.linspace(-1, 2, 30)
    for each in (made, again):
        each.update(seen, errors)
    assert all((a == b).all() for a, b in zip(made.net.weights, again.net.weights, strict=True))
    assert made.curve.tolist() == again.curve.tolist() and len(made.curve) == 3
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_training_goes_on_as_it_began(tmp_path):
    learner().state().write(tmp_path, DEPENDS_ON)
    with pytest.raises(UsageError, match=r'settings was \{"seed": 1\} and is \{"seed": 2\} now'):
        Checkpoint.read(tmp_path, DEPENDS_ON | {"settings": {"seed": 2}})


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"x"), lambda path: np.savez(path, a=np.zeros(1))])
def test_what_is_no_checkpoint_is_said_in_one_line(tmp_path, spoil):
    spoil(tmp_path / NAME)
    with pytest.raises(UsageError, match="--resume needs a folder that") as caught:
        Checkpoint.read(tmp_path, DEPENDS_ON)
    assert "\n" not in str(caught.value)
