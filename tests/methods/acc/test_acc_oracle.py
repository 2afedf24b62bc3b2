# SPDX-License-Identifier: Apache-2.0
"""The study of ACC's net beside the oracle: its cases, and the shares that it tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dc_gym.benchmarks.studies.learning import acc_labs, acc_oracle
from dc_gym.benchmarks.studies.learning.acc_labs import BEST, CHANCE, STATIC
from dc_gym.benchmarks.studies.learning.acc_oracle import CASES, NET
from dc_gym.methods.acc.offline import scenarios
from dc_gym.methods.acc.template import DEPLOYED
from dc_gym.study import claims
from dc_gym.study.evidence import Evidence, VariantEvidence


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_none_of_a_training(case: str) -> None:
    """Neither the rate, nor the fabric, nor the congestion control of one, or no traffic of one."""
    case_spec = CASES[case].spec(DEPLOYED, acc_oracle.SLOTS * DEPLOYED.interval_ns, 1)
    graph = case_spec.graph()
    rates = {cable.rate_bps for cable in graph.cables}
    switches = {port.node for port in graph.ports() if not port.node.startswith("h")}
    trained = rates == {scenarios.RATE_BPS} and len(switches) == 1
    assert not trained and len({*rates}) == 1
    assert case_spec.controller.name == case.split(", ")[0].lower() and case_spec.workload.transport in ("tcp", "rdma")
    assert case_spec.flows(graph)


@pytest.mark.parametrize("case", CASES)
def test_secn_is_that_of_the_case_s_ports(case: str) -> None:
    scenario = CASES[case]
    plain = scenario.spec(DEPLOYED, 15_000_000, 1)
    for number, name in enumerate(acc_labs.SECN):
        graph = replace(plain, topology=replace(plain.topology, marking=name.lower())).graph()
        (marking,) = {port.queue.marking for port in graph.ports() if port.queue.marking.kind == "red-instant"}
        setting = (marking.min_bytes, marking.max_bytes, marking.probability_ppm)
        assert setting == acc_labs.secn_template(scenario.rate_bps).actions[number]


def test_seeds_draw_other_traffic() -> None:
    for case in CASES.values():
        drawn = [case.spec(DEPLOYED, 15_000_000, seed) for seed in (1, 2, 1)]
        first, other, again = ([(flow.start_ns, flow.size_bytes) for flow in spec.flows(spec.graph())] for spec in drawn)
        assert first == again != other


def found(net: float, best: float, *more: dict[str, float]) -> Evidence:
    """Returns rewards of two seeds. Action 3 earns `best`, all others and chance 0.3, SECN1 0.5, SECN2 0.4; `more` by seed."""
    plain = dict.fromkeys((*STATIC, CHANCE), 0.3) | {"action 3": best, NET: net, "SECN1": 0.5, "SECN2": 0.4}
    by_seed = {seed: plain | (more[seed - 1] if more else {}) for seed in (1, 2)}
    rows = {name: {case: {seed: row.get(name, 0.3) for seed, row in by_seed.items()} for case in CASES} for name in plain}
    return acc_oracle.with_oracle(Evidence({name: VariantEvidence(name, name, "#000000", row) for name, row in rows.items()}))


def failed(evidence: Evidence) -> list[str]:
    return [claim.title for claim in acc_oracle.STUDY.claims if claims.judge(claim, evidence).verdict is not claims.Verdict.SAME]


def test_a_share_is_that_of_the_oracle_s_gain() -> None:
    evidence = found(net=0.6, best=0.7)
    assert "50% of +0.2000" in acc_oracle.share(evidence, "DCQCN, rate", "SECN1")
    assert "67% of +0.3000" in acc_oracle.share(evidence, "DCTCP, rate", "SECN2")
    assert all("action 3" in note for note in acc_oracle.notes(evidence)) and failed(evidence) == []


def test_no_share_of_no_gain_and_a_net_below_secn1_fails() -> None:
    evidence = found(net=0.45, best=0.5)
    assert all("too little" in acc_oracle.share(evidence, case, "SECN1") for case in CASES)
    assert failed(evidence) == [f"{over}: more reward than SECN1" for over in acc_oracle.OVER]


def test_the_oracle_is_one_action_for_all_seeds() -> None:
    """Action 3 is best in sum, though another one is in the first seed."""
    evidence = found(0.5, 0.7, {"action 4": 0.8}, {})
    assert {acc_oracle.best_action(evidence, case) for case in CASES} == {"action 3"}
    assert evidence.values(BEST, "DCQCN, rate") == {1: 0.7, 2: 0.7}


@pytest.mark.lab
@pytest.mark.parametrize("over", acc_oracle.OVER)
def test_contestants_of_a_case_run(tmp_path: Path, lab_kernel: Path, over: str) -> None:
    case = CASES[f"{over}, rate"]
    contestants = {"low": STATIC["action 0"], **acc_labs.secn(case.rate_bps), "high": STATIC["action 19"]}
    earned = acc_oracle.held_out.rewards(case, 7, contestants, 16, tmp_path)
    assert len(set(earned.values())) > 1 and all(0 < reward < 1.1 for reward in earned.values())


def test_the_figure_shows_rewards_beside_the_oracle() -> None:
    """A panel a case: the net is 0.1 below the oracle, SECN1 0.2, SECN2 0.3, chance 0.4."""
    assert acc_oracle.STUDY.draw is not None
    panels = acc_oracle.STUDY.draw(found(0.6, 0.7)).axes
    dots = [[float(line.get_xdata()[0]) for line in ax.get_lines() if line.get_marker() == "o"] for ax in panels]
    assert dots == [pytest.approx([-0.1, -0.2, -0.3, -0.4])] * len(CASES)
