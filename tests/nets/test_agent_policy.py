# SPDX-License-Identifier: Apache-2.0
"""The policy file: what it computes by hand, byte equality, and each mistake in one line."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.nets.agent_policy import ACTIVATIONS, AgentPolicy
from dc_gym.nets.policy_file import digest


def array(*rows):
    return np.array(rows, np.float64)


def policy(**changes):
    """Two inputs, two hidden units, one host."""
    values = {
        "weights": (array([1, 2], [0, -1]), array([3, 1])),
        "biases": (array(0.5, 0), array(-1)),
        "low": array(0),
        "high": array(4),
        "observation": ("s1-eth1/backlog", "h1/enforced"),
        "hosts": ("h1",),
        "activation": "relu",
    }
    return AgentPolicy(**values | changes)


def test_a_net_is_computed_layer_by_layer():
    # hidden = relu(0.1 + 2 * 0.2 + 0.5, -0.2) = (1, 0); 3 * 1 - 1 = 2, clipped to 1: the highest action
    assert policy().act([0.1, 0.2]) == 4
    # hidden = relu(-0.6 + 0.2 + 0.5, -0.1) = (0.1, 0); 0.3 - 1 = -0.7: 0 + 0.3 * 4 / 2
    assert policy().act([-0.6, 0.1]) == pytest.approx(0.6)
    assert policy(output="tanh").act([-0.6, 0.1]) == pytest.approx((np.tanh(-0.7) + 1) * 2)


def test_the_largest_of_its_values_is_a_level():
    levels = {"weights": (array([1, 0], [0, 1], [-1, -1]),), "biases": (array(0, 0, 0),), "output": "argmax"}
    assert [policy(**levels).act(observation).tolist() for observation in ([1, 0], [0, 1], [-1, -1])] == [[0], [2], [4]]
    both = policy(**levels, hosts=("h1", "h2"), low=array(0, 1), high=array(4, 2))
    assert both.act([0, 1]).tolist() == [2, 1.5], "the same for all hosts, each in its own bounds"
    with pytest.raises(AgentError, match=r"1 values.*at least 2"):
        policy(weights=(array([1, 1]),), biases=(array(0),), output="argmax")


def test_one_for_each_host_gives_one_number():
    settings = {"weights": (np.ones((1, 2)),), "biases": (np.zeros(1),), "hosts": ("h1", "h2", "h3"), "agents": "hosts"}
    assert policy(**settings).act([0.25, 0.25]).tolist() == [3]
    with pytest.raises(AgentError, match=r"'host'.*did you mean hosts"):
        policy(agents="host")


def test_the_observation_is_normalised_and_clipped():
    normal = policy(obs_mean=array(1, 0), obs_std=array(2, 1), obs_clip=1.5)
    # ((0 - 1) / 2, 0.6) = (-0.5, 0.6): hidden (1.2, 0), 3.6 - 1, clipped
    assert normal.act([0, 0.6]) == pytest.approx(4)
    # ((-9 - 1) / 2, 0.7) = (-5, 0.7), the first clipped to -1.5: hidden (0.4, 0), 1.2 - 1 = 0.2
    assert normal.act([-9, 0.7]) == pytest.approx(1.2 * 2, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        *(("tanh", 0.5, 0.46211716), ("relu", -2, 0), ("relu", 3, 3), ("linear", -7, -7)),
        *(("silu", 1, 0.73105858), ("silu", -2000, 0), ("elu", 2, 2), ("elu", -1, -0.63212056)),
    ],
)
def test_activations(name, at, value):
    assert ACTIVATIONS[name](array(at)) == pytest.approx(value, rel=1e-6)


def test_what_was_written_is_read(tmp_path):
    written = policy(obs_mean=array(1, 0), obs_std=array(2, 1), settings={"history": 2}, provenance={"algorithm": "PPO"})
    written.write(tmp_path / "p.npz")
    read = AgentPolicy.read(tmp_path / "p.npz")
    assert read.act([0.3, 0.4]) == written.act([0.3, 0.4])
    assert (read.observation, read.hosts, read.obs_clip) == (written.observation, written.hosts, 10)
    assert (read.settings, read.provenance) == ({"history": 2}, {"algorithm": "PPO"})


def test_single_precision_stays_single(tmp_path):
    small = policy(weights=tuple(w.astype(np.float32) for w in policy().weights), biases=(np.float32([0.5, 0]), np.float32([-1])))
    small.write(tmp_path / "p.npz")
    assert AgentPolicy.read(tmp_path / "p.npz").weights[0].dtype == np.float32


def test_equal_policies_are_equal_files(tmp_path):
    for name in "ab":
        policy(settings={"history": 1, "action": "linear"}).write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"activation": "tan"}, "activation 'tan' is unknown; did you mean tanh?"),
        ({"output": "sigmoid"}, "output 'sigmoid' is unknown; one of: clip, tanh"),
        ({"biases": (array(0.5, 0),)}, "2 weights and 1 biases do not make layers"),
        ({"observation": ("a", "b", "c")}, "W0 has the shape (2, 2), and 3 values go in"),
        ({"biases": (array(0.5), array(-1))}, "b0 has the shape (1,) instead of (2,)"),
        ({"hosts": ("h1", "h2")}, "the last layer gives 1 values for 2 hosts"),
        ({"obs_mean": array(0, 0)}, "of obs_mean and obs_std there is only one"),
        ({"obs_mean": array(0, 0), "obs_std": array(1)}, "obs_std has the shape (1,) instead of (2,)"),
        ({"low": array(0, 1)}, "low has the shape (2,) instead of (1,)"),
        ({"low": array(np.nan)}, "some of its numbers are not finite"),
        ({"low": array(4)}, "low is not below high"),
    ],
)
def test_a_policy_that_does_not_fit_together_is_one_line(changes, line):
    with pytest.raises(AgentError) as refusal:
        policy(**changes)
    assert line in str(refusal.value) and "\n" not in str(refusal.value)


def _with_entries(path: Path, **changes):
    """Writes a file whose payload has other entries, with the checksum that belongs to them."""
    policy().write(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    manifest = json.loads(str(arrays.pop("manifest")))
    manifest["payload"] |= changes
    del manifest["sha256"]
    manifest["sha256"] = digest(manifest, arrays)
    np.savez(path, manifest=np.array(json.dumps(manifest)), **arrays)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"hosts": "h1"}, "'hosts' of its manifest is no list"),
        ({"layers": 3}, "it has no array 'W2'"),
        ({"layers": -1}, "its manifest counts -1 layers"),
        ({"layers": 10**12}, "its manifest counts 1000000000000 layers"),
    ],
)
def test_a_wrong_manifest_is_one_line(changes, line, tmp_path):
    _with_entries(tmp_path / "p.npz", **changes)
    with pytest.raises(AgentError) as refusal:
        AgentPolicy.read(tmp_path / "p.npz")
    assert line in str(refusal.value) and str(refusal.value).startswith(f"{tmp_path}/p.npz: ")


def test_what_is_no_policy_is_one_line(tmp_path):
    (tmp_path / "text.npz").write_text("weights")
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04 cut off")
    (tmp_path / "empty.npz").write_bytes(b"")
    np.save(tmp_path / "array.npy", array(1))
    np.savez(tmp_path / "objects.npz", manifest=np.array([{}], object))
    np.savez(tmp_path / "other.npz", weights=array(1))
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(AgentError) as refusal:
            AgentPolicy.read(path)
        assert "docs/policy-file.md" in str(refusal.value) and "\n" not in str(refusal.value), path
    with pytest.raises(AgentError, match=r"none\.npz: .*read.*: No such file"):
        AgentPolicy.read(tmp_path / "none.npz")
    with pytest.raises(AgentError, match=r"write.*: No such file"):
        policy().write(tmp_path / "nowhere" / "p.npz")


def test_damaged_files_are_one_line(tmp_path):
    """With bytes changed and ends cut off at random, reading gives a policy or an AgentError."""
    policy().write(tmp_path / "p.npz")
    whole, rng = (tmp_path / "p.npz").read_bytes(), np.random.default_rng(1)
    refused = 0
    for _ in range(400):
        broken = bytearray(whole[: rng.integers(1, len(whole) + 1)] if rng.random() < 0.3 else whole)
        for _ in range(rng.integers(1, 4)):
            broken[rng.integers(len(broken))] = rng.integers(256)
        (tmp_path / "p.npz").write_bytes(broken)
        try:
            AgentPolicy.read(tmp_path / "p.npz")
        except AgentError as error:
            refused += "\n" not in str(error)
    assert refused > 300


def test_numbers_that_are_none_are_refused(tmp_path):
    with pytest.raises(AgentError, match="array 'low' is of int64"):
        policy(low=np.array([0]), high=np.array([4])).write(tmp_path / "p.npz")
        AgentPolicy.read(tmp_path / "p.npz")
    assert replace(policy(), activation="elu").activation == "elu"
