# SPDX-License-Identifier: Apache-2.0
"""The papers that can be reproduced, and the module of each of their figures.

A figure is a module of benchmarks/ with a TITLE and `run(options, progress) -> Findings`, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Progress
from dc_gym.base.spelling import unknown

if TYPE_CHECKING:
    from dc_gym.reproduce.findings import Findings
    from dc_gym.reproduce.options import ReproduceOptions

MODULES = "dc_gym.benchmarks.papers"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, table or case of a paper, identified by its number or a word."""

    number: str
    title: str
    run: Callable[[ReproduceOptions, Progress], Findings]
    module: str
    """Name of its module."""


@dataclass(frozen=True, slots=True)
class Paper:
    name: str
    title: str
    figures: Mapping[str, str]
    """Modules by figure number, in the order in which they are run."""
    trains: frozenset[str] = frozenset()
    """Figures for which policies are trained."""

    def figure(self, number: str) -> Figure:
        name = self.module(number)
        module = import_module(name)
        return Figure(number, module.TITLE, module.run, name)

    def module(self, number: str) -> str:
        """Returns the name of a figure's module."""
        return f"{MODULES}.{self.figures[_known('figure', number, self.figures)]}"


PAPERS: dict[str, Paper] = {}


def register(paper: Paper) -> None:
    """Registers a paper; its name must be new."""
    if paper.name in PAPERS:
        raise ValueError(f"paper {paper.name!r} is registered twice")
    if strange := paper.trains - paper.figures.keys():
        raise ValueError(f"paper {paper.name!r} trains for figures that it has not: {sorted(strange)}")
    PAPERS[paper.name] = paper


def find(name: str) -> Paper:
    return PAPERS[_known("paper", name, PAPERS)]


def _known(what: str, name: str, names: Iterable[str]) -> str:
    known = list(names)
    if name not in known:
        raise UsageError(unknown(what, name, known))
    return name


register(
    Paper(
        "iroko",
        "F. Ruffy Varga, Data-Driven Datacenter Traffic Control, MSc thesis, University of British Columbia, 2019",
        {
            "1.1": "iroko.figure_1_1",
            "5.1": "iroko.figure_5_1",
            "5.2": "iroko.figure_5_2",
            "5.3": "iroko.figure_5_3",
            "5.4": "iroko.figure_5_4",
            "5.5": "iroko.figure_5_5",
            "udp": "iroko.udp",
            "fattree-tcp": "iroko.fattree_tcp",
        },
        trains=frozenset({"1.1", "5.1", "5.2", "5.3", "5.4", "5.5", "udp", "fattree-tcp"}),
    )
)
register(
    Paper(
        "rl-cc",
        "B. Fuhrer et al., Implementing Reinforcement Learning Datacenter Congestion Control in NVIDIA NICs, 2023",
        {
            "figure-3": "rlcc.figure_3",
            "figure-4": "rlcc.figure_4",
            "table-1": "rlcc.table_1",
            "table-2": "rlcc.table_2",
            "table-3": "rlcc.table_3",
            "table-6": "rlcc.table_6",
            "figure-6": "rlcc.figure_6",
            "figure-7": "rlcc.figure_7",
            "figure-8": "rlcc.figure_8",
            "figure-9": "rlcc.figure_9",
            "figure-10": "rlcc.figure_10",
            "table-4": "rlcc.table_4",
            "table-5": "rlcc.table_5",
        },
    )
)
register(
    Paper(
        "pcc-rl",
        "C. Tessler et al., Reinforcement Learning for Datacenter Congestion Control, 2021",
        {
            "table-1": "pccrl.table_1",
            "table-2": "pccrl.table_2",
            "figure-1": "pccrl.figure_1",
            "standard-rl": "pccrl.standard_rl",
        },
        trains=frozenset({"standard-rl"}),
    )
)
register(
    Paper(
        "fdcc",
        "K. Zhang, An Investigation on Data Center Congestion Control Algorithms, MSc thesis, University of Alberta, 2023",
        {
            "figure-3.2": "fdcc.figure_3_2",
            "figure-3.3": "fdcc.figure_3_3",
            "figure-4.1": "fdcc.figure_4_1",
            "table-6.1": "fdcc.table_6_1",
            "table-6.2": "fdcc.table_6_2",
            "figure-6.1": "fdcc.figure_6_1",
            "figure-6.2": "fdcc.figure_6_2",
            "figure-6.3": "fdcc.figure_6_3",
            "figure-6.4": "fdcc.figure_6_4",
            "unseen": "fdcc.unseen",
        },
    )
)
register(
    Paper(
        "acc",
        "S. Yan et al., ACC: Automatic ECN Tuning for High-Speed Datacenter Networks, SIGCOMM 2021",
        {
            "figure-1": "acc.figure_1",
            "figure-2": "acc.figure_2",
            "figure-6": "acc.figure_6",
            "figure-7": "acc.figure_7",
            "figure-8": "acc.figure_8",
            "figure-9": "acc.figure_9",
            "figure-10": "acc.figure_10",
            "figure-13": "acc.figure_13",
            "figure-14": "acc.figure_14",
            "figure-15": "acc.figure_15",
            "figure-16": "acc.figure_16",
            "figure-17": "acc.figure_17",
        },
    )
)
