# SPDX-License-Identifier: Apache-2.0
"""RL-CC at the NIC: its integers against the floats that they stand for, and its policy files."""

import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.cli.main import main
from dc_gym.ctrl.nic import algorithms, golden
from dc_gym.methods.rlcc.decision import Scaling, action, output
from dc_gym.methods.rlcc.mlp import Mlp
from dc_gym.methods.rlcc.offline import cells, distil, importing, record_policies, response, rows
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets import nic_policy
from dc_gym.nets.fixed_point import Q16
from dc_gym.nets.int8 import TableReader
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("rlcc-mlp", "rlcc-mlp8", "rlcc-tree")
"""Policies without memory; the LSTM is tested in test_nic_lstm.py."""
FLAGS = ("-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
STEPS = Path(__file__).with_name("rlcc_steps.c")
WORDS = cells.WORDS
EVENT_WORDS = 10
"""Words of an event without telemetry (rlcc_steps.c)."""
NEAR = {"rlcc-mlp": 0.0015, "rlcc-mlp8": 0.01, "rlcc-tree": 0.004}
"""Largest difference of integers from floats where the error is within three targets."""
ANYWHERE = {"rlcc-mlp": 0.01, "rlcc-mlp8": 0.04, "rlcc-tree": 0.004}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Both algorithms with their own tables, by name."""
    folder = tmp_path_factory.mktemp("rlcc")
    for name in NAMES:
        algorithm = f'-DCC_ALGORITHM="{algorithms.header_of(name)}"'
        argv = ["cc", *FLAGS, "-Ictrl/nic", "-Ikernel/drivers", algorithm, "-o", str(folder / name), STEPS]
        process = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        nic_policy.write_table(shipped(name).table(), folder / f"{name}.table")
    return folder


def shipped(name):
    return NicPolicy.read(nic_policy.shipped(name))


def decisions(programs, name, rows, *parameters):
    """Returns an algorithm's decision on each row of (context, rate, event, flow): the words of context after it, rate, probe."""
    lines = "\n".join(",".join(str(int(value)) for value in row) for row in rows)
    argv = [str(programs / name), str(programs / f"{name}.table"), *map(str, parameters)]
    process = subprocess.run(argv, input=lines, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    answers = [[int(value) for value in line.split(",")] for line in process.stdout.splitlines()]
    assert len(answers) == len(rows)
    return np.array(answers, np.int64)


def signed(words):
    return np.asarray(words, np.uint32).view(np.int32).astype(np.int64)


def random_rows(count, seed):
    """Contexts and round trips of all sizes, zeros and extremes among them, with clocks that wrap."""
    random = np.random.default_rng(seed)
    state = np.zeros((count, WORDS), np.int64)
    state[:, [0, 2, 4]] = random.integers(54613 - Q16, 78643 - Q16 + 1, (count, 3))
    state[:, [1, 3]] = np.rint(random.choice([-0.768, 0.0, 0.768, 5.0, 76.8], (count, 2)) * random.random((count, 2)) * Q16)
    rate = np.minimum((2.0 ** (6 + 14.01 * random.random(count))).astype(np.int64), 1 << 20)
    state[:, 5] = np.where(
        random.random(count) < 0.9, (rate << 11) + random.integers(0, 2048, count), random.integers(0, 1 << 31, count)
    )
    state[:, 5] = np.minimum(state[:, 5], 1 << 31)
    base = np.where(random.random(count) < 0.02, 0, random.integers(1000, 10**6, count))
    rtt = (base * (1 + 2.0 ** (12 * random.random(count) - 8))).astype(np.int64)
    rtt = np.where(random.random(count) < 0.02, random.integers(0, 1 << 32, count), np.minimum(rtt, 2**32 - 1))
    now = random.integers(0, 1 << 32, count)
    inside = random.integers(0, 5000, count)
    received = random.integers(0, 1 << 32, count)
    event = np.zeros((count, 10), np.int64)
    event[:, 0], event[:, 2], event[:, 3], event[:, 4] = 6, now, now, 1
    event[:, 7], event[:, 8], event[:, 9] = now - rtt - inside, received, received + inside
    flow = np.stack([base, np.full(count, 100_000), np.full(count, 1514), np.full(count, 2)], axis=1)
    return np.concatenate([state, rate[:, None], event, flow], axis=1) & 0xFFFFFFFF


@pytest.mark.parametrize("name", NAMES)
def test_the_integers_of_c_and_python_are_equal_bit_for_bit(programs, name):
    answers = decisions(programs, name, random_rows(4000, 3))
    inputs = signed(answers[:, :4]) + np.array([Q16, 0, Q16, 0])
    acted, _ = TablePolicy(shipped(name).table()).integers(inputs, np.zeros((len(inputs), 0), np.int64))
    assert (acted == signed(answers[:, 4]) + Q16).all()


@pytest.mark.parametrize("name", NAMES)
def test_observations_are_those_of_the_floats(programs, name):
    rows = random_rows(4000, 4)
    rows = rows[rows[:, WORDS + 11] > 0]
    words, file = decisions(programs, name, rows), shipped(name)
    state, rate, event, flow = rows[:, :WORDS], rows[:, WORDS], rows[:, WORDS + 1 : WORDS + 11], rows[:, WORDS + 11 :]
    assert (words[:, 0] == state[:, 2]).all() and (words[:, 1] == state[:, 3]).all() and (words[:, 2] == state[:, 4]).all()
    kept_rate = np.where(state[:, 5] >> 11 == rate, state[:, 5], rate << 11)
    whole, inside = (event[:, 2] - event[:, 7]) & 0xFFFFFFFF, (event[:, 9] - event[:, 8]) & 0xFFFFFFFF
    inflation = np.where(whole > inside, whole - inside, 0) / flow[:, 0]
    error = file.scaling.error(inflation, kept_rate / 2**31)
    assert np.abs(signed(words[:, 3]) / Q16 - error).max() < 2e-4 * max(1.0, file.scaling.gain) + 1e-4 * np.abs(error).max()
    factor = (signed(words[:, 4]) + Q16) / Q16
    after = np.clip(np.floor(kept_rate * factor + 0.5), 2**17, 2**31)
    assert np.abs(words[:, 5] - after).max() <= 1 and (words[:, 7] == words[:, 5] >> 11).all() and (words[:, 8] == 1).all()


@pytest.mark.parametrize("name", NAMES)
def test_table_six_in_integers_is_that_in_floats(programs, name):
    file = shipped(name)
    rows = [(*case.state, case.rate, *case.event[:EVENT_WORDS], *case.flow) for case in cells.situations(file)]
    answers = decisions(programs, name, rows)
    for cell, words in zip(cells.table(file), answers, strict=True):
        assert abs(cells.action(words[:WORDS]) - cell.exact) < 0.005
        assert abs(cell.integer - cell.exact) < 0.005
        assert abs(cell.exact - cell.paper) < 0.06
    ordered(file)


@pytest.mark.parametrize("name", ["record-mlp", "record-tree"])
def test_what_is_fitted_to_the_record_is_near_it(name):
    file = shipped(name)
    ordered(file)
    assert all(abs(cell.integer - cell.paper) < 0.025 and abs(cell.integer - cell.artifact) < 0.025 for cell in cells.table(file))


def ordered(file):
    by_row = np.reshape([cell.integer for cell in cells.table(file)], (3, 3))
    assert (by_row[:, 0] > by_row[:, 1]).all() and (by_row[:, 1] > by_row[:, 2]).all()  # raise > keep > cut
    assert (np.diff(by_row, axis=0) > 0).all()  # a first cut or raise is stronger than one that is repeated


@pytest.mark.parametrize("name", NAMES)
def test_table_six_is_reached_by_events_alone(name, tmp_path):
    algorithm, file = algorithms.load(name, tmp_path), shipped(name)
    nic_policy.write_table(file.table(), tmp_path / "table")
    steps = cells.trace_of_table(file)
    trace = golden.decisions(golden.runner_argv(algorithm, {}, tmp_path / "table"), steps)
    table = cells.table_of_trace(file, trace)
    for cell, row, stated in zip(table, trace[1::2], cells.table(file), strict=True):
        saw = cells.inputs_of(row.state)
        expected = [-1, 0, 1][cells.STATES.index(cell.before)], [-1, 0, 1][cells.STATES.index(cell.now)]
        assert (saw[1] / 0.768, saw[3] / 0.768) == pytest.approx(expected, abs=1e-3)
        assert abs(cell.integer - cell.exact) < 0.005 and abs(cell.integer - stated.integer) < 0.02
    count, most = cells.distance(file, steps, trace)
    assert count == 18 and most < 0.005


@pytest.mark.parametrize("name", NAMES)
def test_integers_stay_near_floats_wherever_a_flow_may_be(name):
    file = shipped(name)
    drawn = rows.situations(np.random.default_rng(8), 5000, file.scaling.unit).T
    on_grid = np.rint(drawn * Q16) / Q16
    apart = np.abs(TablePolicy(file.table())(on_grid) - file.policy(on_grid))
    near = (np.abs(on_grid[:, [1, 3]]) < 3 * file.scaling.unit).all(axis=1)
    assert apart.max() < ANYWHERE[name] and apart[near].max() < NEAR[name]


@pytest.mark.parametrize("name", NAMES)
def test_probes_are_asked_for_at_first_and_after_silence(programs, name):
    base, now = 10_000, 5_000
    tx = (3, 1, now, now, 1, 1514, 1, 0, 0, 0)
    flow = (base, 100_000, 1514, 2)
    new, rate = (0,) * WORDS, 1 << 20
    heard = (0, 0, 0, 0, 0, rate << 11, (now - 16 * base) % 2**32)
    silent = (0, 0, 0, 0, 0, rate << 11, (now - 16 * base - 1) % 2**32)
    rows = [(*state, rate, *tx, *flow) for state in (new, heard, silent)]
    answers = decisions(programs, name, rows)
    assert answers[:, -1].tolist() == [1, 0, 1]
    begun = (0, 0, 0, 0, 0, rate << 11, now)
    assert (answers[:, :WORDS] == np.array([begun, heard, silent])).all() and (answers[:, WORDS] == rate).all()


OWN = 2**32 - 1
PROBING = 4


@pytest.mark.parametrize(("initial_rate", "share"), [(OWN, 1 << 20), (1 << 20, 1 << 20), (1 << 16, 1 << 16), (1, 1 << 6)])
def test_a_new_flow_starts_at_the_rate_that_is_asked_for(programs, initial_rate, share):
    tx = (3, 1, 777, 777, 1, 1514, 1, 0, 0, 0)
    row = ((0,) * WORDS, 1 << 20, tx, (10_000, 100_000, 1514, 2))
    answers = decisions(programs, "rlcc-tree", [(*row[0], row[1], *row[2], *row[3])], OWN, OWN, initial_rate)
    assert answers[0].tolist() == [0, 0, 0, 0, 0, share << 11, 777, share, 1]


def unanswered(name, patience, passed, waited=None, share=1 / 16, flags=PROBING, kind=3):
    """A packet of a flow leaves `passed` base RTTs after its probe, and `waited` of them had passed when it last decided. As an
    RTT event: the probe comes back.
    """
    base, now = 10_000, 123
    rate = round(share * 2**20)
    heard = now - round((passed if waited is None else passed - waited) * base)
    state = (3277, 50_000, -3277, 60_000, -3277, rate << 11, heard - (waited is None) * base)
    event = (kind, flags, now, now, 1, 1514, 1, now - round(passed * base), 0, 0)
    return [value % 2**32 for value in (*state, rate, *event, base, 100_000, 1514, 2)], (OWN, OWN, OWN, patience)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("patience", "passed", "waited", "counts"),
    [
        (4, 4.0, None, False),
        (4, 4.1, None, True),
        (4, 6.0, 4.0, False),
        (4, 6.1, 4.0, True),
        (4, 9.1, 6.1, False),
        (4, 9.2, 6.1, True),
        (16, 9.2, 6.1, False),
        (0, 1000.0, None, False),
        (65535, 1000.0, None, False),
    ],
)
def test_silence_is_a_round_trip_of_at_least_so_long(programs, name, patience, passed, waited, counts):
    """The algorithm decides as if the probe had come back just then, and again when half as much time more has passed."""
    silent, parameters = unanswered(name, patience, passed, waited)
    answer, _ = unanswered(name, patience, passed, waited, flags=0, kind=6)
    decision, answered = (decisions(programs, name, [row], *parameters)[0] for row in (silent, answer))
    if counts:
        assert decision.tolist() == answered.tolist() and decision[WORDS] < silent[WORDS]
    else:
        assert decision[:WORDS].tolist() == silent[:WORDS] and decision[WORDS] == silent[WORDS]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("passed", "share", "flags", "counts"),
    [
        (50.0, 1 / 16, 0, False),  # no probe is under way
        (13.0, 2.0**-13, PROBING, False),  # eq. 2: 7.3, and at twice the target 13.1
        (14.0, 2.0**-13, PROBING, True),  # the trees keep a rate up to 13.7
        (300.0, 2.0**-14, PROBING, False),  # the least rate there is
    ],
)
def test_silence_counts_of_a_probe_and_where_it_is_longer_than_it_should_be(programs, name, passed, share, flags, counts):
    row, parameters = unanswered(name, 4, passed, share=share, flags=flags)
    decision = decisions(programs, name, [row], *parameters)[0]
    assert (decision[WORDS] < row[WORDS]) == counts == (decision[:WORDS].tolist() != row[:WORDS])


def test_silence_raises_nothing(programs):
    """After a far longer round trip the network raises the rate at an answer that is still too late; at a silence it does not."""
    row, parameters = unanswered("rlcc-mlp", 4, 6.6, share=1 / 1500)
    row[1:4] = [70 * Q16, (54613 - Q16) % 2**32, 70 * Q16]
    answer = [*row[: WORDS + 1], 6, 0, *row[WORDS + 3 :]]
    decision, answered = (decisions(programs, "rlcc-mlp", [case], *parameters)[0] for case in (row, answer))
    assert answered[WORDS] > row[WORDS]
    assert decision[: WORDS + 1].tolist() == row[: WORDS + 1]


def test_a_target_of_ones_own_moves_the_error(programs):
    row = [(*case.state, case.rate, *case.event[:EVENT_WORDS], *case.flow) for case in cells.situations(shipped("rlcc-tree"))][4]
    usual, higher = (decisions(programs, "rlcc-tree", [row], *pair)[0] for pair in ((), (round(0.128 * Q16), round(1.5 * Q16))))
    assert signed([usual[3]])[0] == pytest.approx(0, abs=20)
    assert signed([higher[3]])[0] / Q16 == pytest.approx(-0.768, abs=1e-3)
    assert higher[7] > usual[7]


@pytest.mark.parametrize("damage", ["cut", "version", "kind", "flip"])
def test_a_damaged_table_is_refused_by_the_c_side(programs, tmp_path, damage):
    table = shipped("rlcc-tree").table()
    table[{"cut": 3, "version": 1, "kind": 2, "flip": 40}[damage]] ^= 3 if damage != "cut" else 1 << 14
    nic_policy.write_table(table, tmp_path / "table")
    process = subprocess.run([str(programs / "rlcc-tree"), str(tmp_path / "table")], capture_output=True, text=True, input="")
    assert process.returncode == 2 and len(process.stderr.splitlines()) == 1
    assert {"cut": "cut short", "version": "version", "kind": "kind", "flip": "damaged"}[damage] in process.stderr


# --- policy files ---


def test_a_policy_file_comes_back_and_is_the_same_bytes(tmp_path):
    for name in NAMES:
        shipped(name).write(tmp_path / "again.npz")
        assert (tmp_path / "again.npz").read_bytes() == nic_policy.shipped(name).read_bytes()


def rewritten(path, out, **changes):
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    manifest = json.loads(str(arrays["manifest"]))
    for name, value in changes.items():
        if name in arrays:
            arrays[name] = value(arrays[name])
        else:
            manifest[name] = value
    arrays["manifest"] = np.array(json.dumps(manifest, sort_keys=True))
    np.savez(out, **arrays)
    return out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0"}, "checksum"),
        ({"payload": {"scaling": {"target": 0.1}}}, "checksum"),
        ({"W1": lambda weight: weight * 1.0001}, "checksum"),
        ({"table": lambda table: table[::-1]}, "checksum"),
    ],
)
def test_a_changed_policy_file_is_refused_in_one_line(tmp_path, changes, message):
    path = rewritten(nic_policy.shipped("rlcc-mlp"), tmp_path / "changed.npz", **changes)
    with pytest.raises(AgentError, match=message) as refusal:
        NicPolicy.read(path)
    assert "\n" not in str(refusal.value) and str(path) in str(refusal.value)


def test_what_is_no_policy_file_is_refused(tmp_path, capsys):
    (tmp_path / "text.npz").write_text("not a zip")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    whole = nic_policy.shipped("rlcc-tree").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("text.npz", "other.npz", "half.npz", "absent.npz"):
        assert main(["method", "rlcc", "explain", str(tmp_path / name)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    with pytest.raises(AgentError, match="kind 'mlp'"):
        nic_policy.load("rlcc-tree", nic_policy.shipped("rlcc-mlp"))


def test_shapes_and_sizes_that_do_not_fit_are_refused():
    w0, w1, w2 = shipped("rlcc-mlp").policy.weights
    for weights in ((w0.T, w1, w2), (w0, w1, w2 * 1000), (w0 * np.nan, w1, w2)):
        with pytest.raises(AgentError):
            Mlp(weights)
    tree = shipped("rlcc-tree").policy
    with pytest.raises(AgentError):
        Trees(tree.inputs[:, :3], tree.borders, tree.leaves, tree.bias)
    with pytest.raises(AgentError):
        Trees(tree.inputs + 4, tree.borders, tree.leaves, tree.bias)
    with pytest.raises(AgentError, match="scaling"):
        NicPolicy(tree, Scaling(gain=1000.0))


# --- a network of one's own ---


def test_import_takes_three_matrices_and_what_it_makes_runs(tmp_path, capsys):
    random = np.random.default_rng(2)
    matrices = {"W0": random.normal(size=(12, 4)), "W1": random.normal(size=(12, 12)), "W2": random.normal(size=(1, 12))}
    np.savez(tmp_path / "own.npz", **{name: value.astype(np.float32) for name, value in matrices.items()})
    assert (
        main(
            [
                "method",
                "rlcc",
                "import",
                str(tmp_path / "own.npz"),
                "--out",
                str(tmp_path / "p.npz"),
                "--target",
                "0.75",
                "--beta",
                "0",
            ]
        )
        == 0
    )
    policy = NicPolicy.read(tmp_path / "p.npz")
    assert policy.scaling == Scaling(target=0.75, beta=0.0) and policy.provenance["made"] == "imported"
    inputs = random.normal(size=(200, 4)) * [0.1, 1, 0.1, 1] + [1, 0, 1, 0]
    hidden = np.maximum(np.maximum(inputs @ matrices["W0"].T, 0) @ matrices["W1"].T, 0)
    expected = action(np.tanh(hidden @ matrices["W2"].T))[:, 0]
    assert np.allclose(policy.policy(inputs), expected, atol=1e-5)
    assert np.abs(TablePolicy(policy.table())(inputs) - expected).max() < 0.02  # Q10 of weights this large
    assert main(["method", "rlcc", "import", str(tmp_path / "own.npz"), "--out", str(tmp_path / "i.npz"), "--int8"]) == 0
    assert NicPolicy.read(tmp_path / "i.npz").kind == "mlp8"
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"W0": np.ones((12, 4)), "W1": np.ones((12, 12))}, "holds W0, W1"),
        ({"W0": np.ones((4, 12)), "W1": np.ones((12, 12)), "W2": np.ones((1, 12))}, "shape \\(4, 12\\)"),
        ({"W0": np.ones((12, 4), int), "W1": np.ones((12, 12)), "W2": np.ones((1, 12))}, "int64"),
        ({"W0": np.full((12, 4), 99.0), "W1": np.ones((12, 12)), "W2": np.ones((1, 12))}, "within 64"),
    ],
)
def test_import_refuses_other_files(tmp_path, arrays, message):
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(AgentError, match=message):
        importing.network(tmp_path / "own.npz", Scaling())


# --- how the shipped ones were made ---


def test_8_bits_are_those_of_the_shipped_network(tmp_path):
    net, int8_net = shipped("rlcc-mlp"), shipped("rlcc-mlp8")
    assert (
        importing.in_8_bits(net, record_policies.COMMAND).sha256() == int8_net.sha256()
        and int8_net.provenance["source_sha256"] == net.sha256()
    )
    assert importing.in_8_bits(int8_net, "") is int8_net
    with pytest.raises(AgentError, match="give a network"):
        importing.in_8_bits(shipped("rlcc-tree"), "")
    rows = TableReader(int8_net.table().view(np.int32).astype(np.int64)[16:]).rows(12, 4)
    weights = rows.weights * rows.scale[:, None] / 2**20
    assert np.abs(rows.weights).max(axis=1).min() >= 126  # all of the 8 bits are used
    assert np.abs(weights - net.policy.weights[0]).max() <= np.abs(net.policy.weights[0]).max() / 127 / 2 + 1e-6


def test_the_record_s_tree_is_distilled_from_its_network():
    assert (
        distil.make(shipped("record-mlp"), record_policies.RECORD_TREES, record_policies.COMMAND).sha256()
        == shipped("record-tree").sha256()
    )
    assert shipped("record-tree").provenance["source_sha256"] == shipped("record-mlp").sha256()


@pytest.mark.long
def test_the_shipped_policies_are_made_again_bit_for_bit(tmp_path):
    assert main(["method", "rlcc", "rebuild", "--out", str(tmp_path)]) == 0
    policy_files = sorted(tmp_path.glob("*.npz"))
    assert {path.stem for path in policy_files} == {"record-mlp", "record-tree", "rlcc-mlp8"}
    for path in policy_files:
        assert path.read_bytes() == nic_policy.shipped(path.stem).read_bytes()


def test_policies_that_could_not_be_kept_are_not_begun(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(record_policies, "policies", lambda: pytest.fail("it was begun"))
    (tmp_path / "file").write_text("")
    assert main(["method", "rlcc", "rebuild", "--out", str(tmp_path / "file")]) == 2
    stderr = capsys.readouterr().err
    assert "cannot make" in stderr and len(stderr.splitlines()) == 1


def test_a_fit_repeats_and_follows_its_seed():
    recipe = record_policies.Recipe(steps=20)
    once, again, other = (
        record_policies.network(one, Scaling()).weights for one in (recipe, recipe, record_policies.Recipe(seed=2, steps=20))
    )
    assert all((a == b).all() for a, b in zip(once, again, strict=True))
    assert any((a != b).any() for a, b in zip(once, other, strict=True))


def test_the_smooth_response_goes_through_what_is_on_record():
    curve = response.fit_response()
    for point in response.records():
        assert float(curve.actions(np.array(point.before), np.array(point.now))) == pytest.approx(point.action, abs=0.006)


def test_equations_are_solved():
    random = np.random.default_rng(1)
    matrix, right = random.normal(size=(6, 6)), random.normal(size=6)
    assert np.allclose(response.solve(matrix.tolist(), right.tolist()), np.linalg.solve(matrix, right))


def test_actions_and_outputs_are_inverse():
    o = np.linspace(-1, 1, 41)
    assert np.allclose(output(action(o)), o)
    assert action(1.0) == pytest.approx(1.2) and action(-1.0) == pytest.approx(1 / 1.2) and action(0.0) == 1.0
    assert math.isclose(float(Scaling().inflation(64)), 2.012)
