# SPDX-License-Identifier: Apache-2.0
"""The bench of ACC's net beside the oracle: its cases, the shares that it tells, and how it goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from dc_gym.base.errors import AgentError, UsageError
from dc_gym.benchmarks.checks import acc_oracle, acc_oracle_figure
from dc_gym.benchmarks.checks.acc_learn import CHANCE, NET, STATIC
from dc_gym.methods.acc import scenarios
from dc_gym.nets.acc_template import DEPLOYED


def row(net: float, best: float, secn1: float = 0.5, secn2: float = 0.4) -> dict[str, float]:
    """Returns the rewards of a seed. Action 3 earns `best`, all others and chance 0.3."""
    return dict.fromkeys(STATIC, 0.3) | {"action 3": best, NET: net, CHANCE: 0.3, "SECN1": secn1, "SECN2": secn2}


def found(**rewards: float) -> dict[str, list[dict[str, float]]]:
    return {case: [row(**rewards), row(**rewards)] for case in acc_oracle.CASES}


@pytest.mark.parametrize("case", acc_oracle.CASES)
def test_a_case_is_none_of_a_training(case: str) -> None:
    """Neither the rate, nor the fabric, nor the congestion control of one, or no traffic of one."""
    made = acc_oracle.CASES[case].spec(DEPLOYED, acc_oracle.SLOTS * DEPLOYED.interval_ns, 1)
    graph = made.graph()
    rates = {cable.rate_bps for cable in graph.cables}
    switches = {port.node for port in graph.ports() if not port.node.startswith("h")}
    trained = rates == {scenarios.RATE_BPS} and len(switches) == 1
    assert not trained and len({*rates}) == 1
    assert made.controller.name == case.split(", ")[0].lower() and made.workload.transport in ("tcp", "rdma")
    assert made.flows(graph)


@pytest.mark.parametrize("case", acc_oracle.CASES)
def test_secn_is_that_of_the_case_s_ports(case: str) -> None:
    each = acc_oracle.CASES[case]
    plain = each.spec(DEPLOYED, 15_000_000, 1)
    for number, name in enumerate(acc_oracle.SECN):
        graph = replace(plain, topology=replace(plain.topology, marking=name.lower())).graph()
        (found,) = {port.queue.marking for port in graph.ports() if port.queue.marking.kind == "red-instant"}
        told = (found.min_bytes, found.max_bytes, found.probability_ppm)
        assert told == acc_oracle.secn_template(each.rate_bps).actions[number]


def test_seeds_draw_other_traffic() -> None:
    for case in acc_oracle.CASES.values():
        drawn = [case.spec(DEPLOYED, 15_000_000, seed) for seed in (1, 2, 1)]
        first, other, again = ([(flow.start_ns, flow.size_bytes) for flow in each.flows(each.graph())] for each in drawn)
        assert first == again != other


def test_a_share_is_that_of_the_oracle_s_gain() -> None:
    made = {check.name: check for check in acc_oracle.verdicts(found(net=0.6, best=0.7))}
    assert "50% of +0.2000" in made["DCQCN, rate: share of the oracle's gain over SECN1"].measured
    assert "67% of +0.3000" in made["DCTCP, rate: share of the oracle's gain over SECN2"].measured
    assert "action 3" in made["DCQCN, fabric: reward of the oracle"].measured and all(check.ok for check in made.values())


def test_no_share_of_no_gain_and_a_net_below_secn1_fails() -> None:
    made = list(acc_oracle.verdicts(found(net=0.45, best=0.5)))
    assert all("too little" in check.measured for check in made if "share" in check.name and "SECN1" in check.name)
    assert [check.name for check in made if not check.ok] == [
        f"{over}: ACC's reward above SECN1's, all cases" for over in acc_oracle.OVER
    ]


def test_the_oracle_is_one_action_for_all_seeds() -> None:
    """Action 3 is best in sum, though another one is in the first seed."""
    rows = [row(0.5, 0.7) | {"action 4": 0.8}, row(0.5, 0.7)]
    assert acc_oracle.oracle(rows) == "action 3"


def test_the_bench_goes_on_and_refuses_rewards_of_another_net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first seed is measured, the second is killed in its second case, and then all but that is read."""
    monkeypatch.setattr(acc_oracle, "OUT", tmp_path / "out")
    (tmp_path / "out").mkdir()
    asked: list[str] = []

    def rewards(
        case: acc_oracle.OracleCase, seed: int, contestants: object, slots: int, folder: Path, *, all_queues: bool
    ) -> dict[str, float]:
        asked.append(next(name for name, each in acc_oracle.CASES.items() if each is case))
        if len(asked) == len(acc_oracle.CASES) + 2:
            raise KeyboardInterrupt
        return row(0.6, 0.7)

    monkeypatch.setattr(acc_oracle.held_out, "rewards", rewards)
    names = list(acc_oracle.CASES)
    with pytest.raises(KeyboardInterrupt):
        list(acc_oracle.checks(2))
    made = list(acc_oracle.checks(2))
    assert asked == names + names[:2] + names[1:] and all(check.ok for check in made)
    path = tmp_path / "out" / acc_oracle.FILE
    for content in (json.dumps(json.loads(path.read_bytes()) | {"of": "another"}), "[]", "{}", "no JSON"):
        path.write_text(content)
        with pytest.raises(AgentError, match="another net"):
            list(acc_oracle.checks(2))


def test_the_folder_is_the_one_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards and figure are in it. A figure that is somebody else's stays."""
    monkeypatch.setattr(acc_oracle, "OUT", tmp_path / "usual")
    monkeypatch.setattr(acc_oracle.held_out, "rewards", lambda *given, **named: row(0.6, 0.7))
    place = tmp_path / "asked" / "for"
    *_, last = acc_oracle.checks(1, place)
    assert last.name == "rewards and figure" and not (tmp_path / "usual").exists()
    assert {each.name for each in place.iterdir()} == {acc_oracle.FILE, acc_oracle.FIGURE}
    (place / acc_oracle.FIGURE).write_bytes(b"a picture")
    with pytest.raises(UsageError, match="move it, or give another --out"):
        list(acc_oracle.checks(1, place))
    assert (place / acc_oracle.FIGURE).read_bytes() == b"a picture"


def test_the_figure_shows_rewards_beside_the_oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle is at 0; the net of the first case is 0.1 below it, that of all others above."""
    drawn: dict[str, list[float]] = {}

    def keep(figure: Figure, path: Path, **how: object) -> None:
        for line in figure.axes[0].get_lines():
            drawn.setdefault(line.get_marker(), []).extend(line.get_xdata())

    monkeypatch.setattr(acc_oracle_figure.kit, "save", keep)
    rewards = found(net=0.75, best=0.7)
    first = next(iter(rewards))
    rewards[first] = [row(0.55, 0.7), row(0.65, 0.7)]
    acc_oracle_figure.save(rewards, list(STATIC), tmp_path / "x.png")
    assert drawn["o"] == pytest.approx([-0.1] + [0.05] * (len(rewards) - 1))
    assert len(drawn["|"]) == len(STATIC) * len(rewards) and max(drawn["|"]) == 0 and min(drawn["|"]) == pytest.approx(-0.4)
    assert drawn["s"] == pytest.approx([-0.2] * len(rewards)) and drawn["D"] == pytest.approx([-0.3] * len(rewards))


@pytest.mark.lab
@pytest.mark.parametrize("over", acc_oracle.OVER)
def test_contestants_of_a_case_run(tmp_path: Path, lab_kernel: Path, over: str) -> None:
    case = acc_oracle.CASES[f"{over}, rate"]
    contestants = {"low": STATIC["action 0"], **acc_oracle.secn(case.rate_bps), "high": STATIC["action 19"]}
    earned = acc_oracle.held_out.rewards(case, 7, contestants, 16, tmp_path)
    assert len(set(earned.values())) > 1 and all(0 < reward < 1.1 for reward in earned.values())
