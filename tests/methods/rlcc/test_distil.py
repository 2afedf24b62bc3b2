# SPDX-License-Identifier: Apache-2.0
"""Networks as trees: by our own fit and by CatBoost, from rows of three kinds."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.errors import UsageError
from dc_gym.cli.main import main
from dc_gym.methods.rlcc.offline import boosting, distil, explain, fidelity, record_policies, rows
from dc_gym.methods.rlcc.offline.distil import Distillation
from dc_gym.methods.rlcc.offline.rows import WeightedRows
from dc_gym.nets import nic_policy
from dc_gym.nets.fixed_point import Q16
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy

NET = NicPolicy.read(nic_policy.path_of("record-mlp"))
SMALL = Distillation(trees=4, rows=4000)


def test_the_model_s_rows_alone_give_the_record_s_trees() -> None:
    net, ships = (NicPolicy.read(nic_policy.path_of(f"record-{kind}")) for kind in ("mlp", "tree"))
    assert (distil.make(net, record_policies.RECORD_TREES).table() == ships.table()).all()


def test_the_trees_that_come_with_dc_gym_are_made_again_and_have_both_orders() -> None:
    net, ships = (nic_policy.load(f"rlcc-{kind}") for kind in ("mlp", "tree"))
    trees = distil.make(net, Distillation(seed=2))
    assert (trees.table() == ships.table()).all() and ships.provenance["source_sha256"] == net.sha256()
    assert all(check.holds for file in (net, ships) for check in explain.check_policy(file))


def test_the_grid_is_the_artifact_s() -> None:
    unit, drawn = NET.scaling.unit, rows.grid(np.random.default_rng(1), 40_000, NET.scaling.unit)
    assert drawn[:, [0, 2]].min() >= 0.8 and drawn[:, [0, 2]].max() <= 1.2
    errors = drawn[:, [1, 3]]
    assert errors.min() == pytest.approx(-unit, rel=0.01) and errors.max() == pytest.approx(100 * unit, rel=0.01)
    assert np.mean(np.abs(errors) <= unit) == pytest.approx(0.5, abs=0.01)
    assert rows.near_target(drawn, unit).mean() == pytest.approx(0.25, abs=0.01)


def test_a_heavier_band_is_met_better() -> None:
    """Three quarters of the artifact's rows lie outside the band; a heavier weight improves the fit inside it."""
    how = [Distillation(trees=10, sources=("grid",), rows=40_000, near_weight=near_weight) for near_weight in (None, 100.0)]
    plain, heavy = ({row.where: row.rms for row in fidelity.differences(NET, distil.make(NET, one))} for one in how)
    assert heavy["in the band, drawn"] < 0.8 * plain["in the band, drawn"]
    assert heavy["out of it, drawn"] > plain["out of it, drawn"]


def test_trees_that_saw_a_flood_cut_in_one_as_the_network_does() -> None:
    inputs = rows.flood_inputs(TablePolicy(NET.table()), NET.scaling)
    policies = [distil.make(NET, replace(SMALL, trees=20, sources=sources)) for sources in (("model",), ("model", "flood"))]
    without, with_flood = (float(np.sqrt(np.square(trees.policy(inputs) - NET.policy(inputs)).mean())) for trees in policies)
    assert with_flood < 0.7 * without
    assert fidelity.flood_duration(policies[1], 4) == pytest.approx(fidelity.flood_duration(NET, 4), rel=0.1)


def test_sources_count_alike_whatever_their_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"a": WeightedRows(np.zeros((10, 4)), np.ones(10)), "b": WeightedRows(np.ones((1000, 4)), np.full(1000, 7.0))}
    monkeypatch.setattr(distil, "_rows", lambda source, _net, _how: parts[source])
    joined = distil.rows_of(NET, Distillation(sources=("a", "b")))
    assert joined.weights[:10].sum() == pytest.approx(joined.weights[10:].sum()) and len(joined.inputs) == 1010


def test_more_trees_are_nearer_and_twenty_settle_where_the_network_does() -> None:
    by_count = {count: distil.make(NET, Distillation(trees=count)) for count in (2, 20)}
    few, many = ({row.where: row.rms for row in fidelity.differences(NET, trees)} for trees in by_count.values())
    assert all(many[where] < 0.7 * few[where] for where in few)
    (loop,) = fidelity.closed_loops(NET, by_count[20], (64,))
    assert loop.plain[1].inflation == pytest.approx(loop.plain[0].inflation, rel=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"trees": 65}, "--trees 65"),
        ({"rows": 10}, "--rows 10"),
        ({"near_weight": 0.0}, "--near-weight 0"),
        ({"seed": -1}, "--seed -1"),
        ({"fitter": "hand"}, "own, catboost"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Distillation(**wrong)  # type: ignore[arg-type]


def test_the_command_writes_a_policy_and_says_how_far_it_is_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fidelity.closed_loops, "__defaults__", ((2, 8),))
    monkeypatch.setattr(fidelity.flood_duration, "__defaults__", (4,))
    out = tmp_path / "tree.npz"
    assert main(["method", "rlcc", "distil", "rlcc-mlp", "--trees", "3", "--rows", "2000", "--out", str(out)]) == 0
    stdout = capsys.readouterr().out
    assert "12 comparisons" in stdout and "123 bytes packed" in stdout and "in the closed loop" in stdout
    assert NicPolicy.read(out).provenance["settings"]["trees"] == 3


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["rlcc-tree"], "is not distilled to trees; give a network"),
        (["nothing.npz"], "nothing.npz: cannot read the policy"),
        (["rlcc-mlp", "--from", "nowhere"], "nowhere"),
    ],
)
def test_the_command_refuses_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], line: str) -> None:
    assert main(["method", "rlcc", "distil", *argv, "--out", str(tmp_path / "t.npz")]) == 2
    words = capsys.readouterr().err
    assert line in words and words.count("\n") == 1 and not (tmp_path / "t.npz").exists()


# --- CatBoost ---


def test_without_catboost_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)
    argv = [
        "method",
        "rlcc",
        "distil",
        "rlcc-mlp",
        "--fitter",
        "catboost",
        "--from",
        "grid",
        "--rows",
        "1000",
        "--out",
        str(tmp_path / "t.npz"),
    ]
    assert main(argv) == 2
    words = capsys.readouterr().err
    assert "pip install 'dc-gym[distil]'" in words and words.count("\n") == 1


def test_catboost_s_trees_are_its_model_s_and_its_bytes_repeat(tmp_path: Path) -> None:
    """`boosting.fit` itself holds its trees against the model's own evaluation."""
    pytest.importorskip("catboost")
    how = Distillation(trees=5, fitter="catboost", sources=("grid",), rows=5000)
    once, again = distil.make(NET, how), distil.make(NET, how)
    assert once.sha256() == again.sha256() and once.provenance["versions"]["catboost"] == boosting.version()
    inputs = rows.grid(np.random.default_rng(3), 5000, NET.scaling.unit)
    near = np.abs(inputs[:, :, None] - np.unique(once.policy.borders)).min(axis=(1, 2)) > 2 / Q16  # type: ignore[union-attr]
    assert np.abs(TablePolicy(once.table())(inputs[near]) - once.policy(inputs[near])).max() < 6 / Q16  # a leaf's rounding each
    assert not list(Path().glob("catboost_info"))


def test_a_tree_with_fewer_levels_is_read_as_one_of_four() -> None:
    split = {"float_feature_index": 3, "border": 0.5, "split_index": 0}
    trees = [{"splits": [split], "leaf_values": [-0.05, 0.1]}, {"splits": None, "leaf_values": [0.01]}]
    ensemble = boosting.of_json({"scale_and_bias": [2.0, [1.0]], "oblivious_trees": trees})
    assert ensemble([[1.0, 0.0, 1.0, 0.4], [1.0, 0.0, 1.0, 0.6]]).tolist() == pytest.approx([1 - 0.1 + 0.02, 1.2])
