# SPDX-License-Identifier: Apache-2.0
"""The instructor's page docs/labs/answers.md: its measured numbers are the points of the labs' pictures.

tests/test_pictures.py compares those points with runs. Here each number is computed from the kept points, put into the words of
the page, and looked up there. The page has no measured number that is not checked here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dc_gym.grade import rubric
from dc_gym.results.figures import spec_keys

LABS = Path(__file__).resolve().parent.parent / "docs" / "labs"
ANSWERS = LABS / "answers.md"
if not ANSWERS.is_file() or not (LABS / "rubrics").is_dir():
    pytest.skip("a teacher withholds the answers, or the rubrics", allow_module_level=True)
PAGE = ANSWERS.read_text()
KEPT: dict[str, Any] = json.loads((LABS / "pictures.json").read_text())
MEASURED = re.compile(r"[Mm]easured[^:\n]*: ([^\n]*)")


@dataclass(frozen=True, slots=True)
class Claim:
    """A few words of the page with a number, and the point that it is from."""

    words: str  # {} stands for the number, with its format
    picture: str
    metric: str
    line: str
    x: float | str
    unit: float = 1.0  # the number is the point's mean divided by this

    @property
    def text(self) -> str:
        return self.words.format(point(self.picture, self.metric, self.line, self.x) / self.unit)


def point(picture: str, metric: str, line: str, x: float | str) -> float:
    """Returns the mean of a kept point."""
    curve = next(kept_curve for kept_curve in KEPT[picture]["shows"]["panels"][metric] if kept_curve["name"] == line)
    return float(next(kept_point["mean"] for kept_point in curve["points"] if kept_point["x"] == x))


GBIT, MBIT, PERCENT, MS = 1e9, 1e6, 0.01, 1e-3
SEEDS = range(1, 13)


def asked(words: str, lab: str, question: str) -> Claim:
    """Returns a claim about the number that a question of the lab's rubric asks for."""
    place = rubric.read(LABS / "rubrics" / f"{lab}.toml").questions[question]
    return Claim(words, lab, place.measure, place.line, spec_keys.place_of(place.x), place.factor)


CLAIMS = [
    asked("{:.0f} % of the link with 12 kB", "bufferbloat", "q1_share_12kB"),
    asked("{:.0f} % of the link with 12 kB and with 800 kB", "bufferbloat", "q1_share_800kB"),
    asked("round trips of {:.1f} ms", "bufferbloat", "q1_rtt_12kB"),
    asked("13.5 ms and {:.0f} ms", "bufferbloat", "q1_rtt_800kB"),
    asked("Measured: {:.0f} ms. It compares", "bufferbloat", "q3_rtt_200kB"),
    asked("with 4 senders {:.1f} drops", "incast", "q1_drops"),
    asked("CUBIC takes {:.0f} ms with 32", "incast", "q2_time_32"),
    asked("and {:.0f} ms, two timeouts, with 64", "incast", "q2_time_64"),
    asked("DCTCP takes {:.1f} ms with 32", "incast", "q3_time_32"),
    asked("and {:.0f} ms with 48", "incast", "q3_time_48"),
    Claim("Measured: {:.0f} ms for CUBIC with 64", "incast-rto", "fct_p99_s", "cubic", 64, MS),
    asked("{:.1f} % with two senders at 18 kB", "dctcp-k", "q1_share_2"),
    asked("{:.1f} % with two senders at 18 kB, and with four at 24 kB", "dctcp-k", "q1_share_4"),
    asked("Measured: {:.0f} kB with K of 151", "dctcp-k", "q2_queue"),
    asked("{:.1f} % with two and 30.8", "dctcp-k", "q3_share_2"),
    asked("14.7 % with two and {:.1f} % with four", "dctcp-k", "q3_share_4"),
    asked("Measured: {:.1f} and 76.7", "rtt", "q1_far"),
    asked("19.0 and {:.1f} Mbit/s", "rtt", "q1_near"),
    asked("Measured: {:.1f} and 78.3", "rtt", "q2_far"),
    asked("17.4 and {:.1f} Mbit/s", "rtt", "q2_near"),
    asked("Measured: {:.1f} and 94.4", "rtt", "q3_far"),
    asked("1.2 and {:.1f} Mbit/s", "rtt", "q3_near"),
    asked("Measured: {:.1f} and 12.0", "rtt", "q4_far"),
    asked("83.5 and {:.1f} Mbit/s", "rtt", "q4_near"),
    asked("Measured: {:.2f} ms. Each of 30", "training", "q1_packed"),
    asked("on one link. Measured: {:.1f} ms.", "training", "q2_random"),
    asked("Measured: {:.2f} ms, 1.9", "training", "q3_packed"),
    asked("Measured: {:.2f} ms with a straggler", "training", "q3_random"),
    asked("Measured: {:.0f} % exposed when", "training", "q4_packed"),
    asked("packed, {:.0f} % with a straggler", "training", "q4_straggler"),
    asked("straggler, {:.0f} % at random", "training", "q4_random"),
    asked("{:.2f} Gbit/s with h8 at 10 Gbit/s, and", "pauses", "q1_victim_10G"),
    asked("and {:.3f} Gbit/s with h8 at 500 Mbit/s", "pauses", "q1_victim_500M"),
    asked("{:.0f} pauses with h8 at 10 Gbit/s", "pauses", "q2_pauses_10G"),
    asked("and {:.0f} at 500 Mbit/s", "pauses", "q2_pauses_500M"),
    asked("paused for {:.1f} %", "pauses", "q2_paused_10G"),
    asked("and {:.1f} % of the time", "pauses", "q2_paused_500M"),
    asked("victim gets {:.2f} Gbit/s with h8 at 10", "pauses", "q4_victim_10G"),
    asked("and {:.3f} Gbit/s at 500 Mbit/s", "pauses", "q4_victim_500M"),
    asked("{:.0f} pauses with h8 at 500 Mbit/s and none", "pauses", "q5_pauses"),
    asked("the victim gets {:.2f} Gbit/s.\n", "pauses", "q5_victim"),
    Claim("{:.2f} Gbit/s, whatever h8 does", "pauses-class", "flow_goodput_bps.0", "fixed", 500 * MBIT, GBIT),
    Claim("h2 gets {:.3f} Gbit/s with h8 at 500", "pauses-class", "flow_goodput_bps.1", "fixed", 500 * MBIT, GBIT),
    asked("longest queue is {:.1f} MB", "telemetry", "q1_queue"),
    asked("{:.0f} kB, and", "telemetry", "q2_queue_15"),
    asked("{:.0f} kB with 8 flows", "telemetry", "q2_queue_8"),
    asked("for {:.1f} % of the time after the warm-up", "telemetry", "q3_share_dcqcn"),
    asked("for {:.1f} % under HPCC", "telemetry", "q3_share_hpcc"),
    asked("after {:.2f} ms under DCQCN", "telemetry", "q3_last_dcqcn"),
    asked("after {:.2f} ms under HPCC", "telemetry", "q3_last_hpcc"),
    asked("{:.1f} % and 99.9 %", "telemetry", "q4_share_hpcc"),
    asked("94.8 % and {:.1f} %", "telemetry", "q4_share_powertcp"),
    Claim("{:.0f} packets are lost with 4 flows", "telemetry-1MB", "drops", "dcqcn", 4),
    Claim("{:.0f} with 15", "telemetry-1MB", "drops", "dcqcn", 15),
    Claim("ends after {:.1f} ms", "telemetry-1MB", "fct_p99_s", "dcqcn", 15, MS),
    asked("action 0 uses {:.1f} %", "agent", "q1_share_2"),
    asked("with sixteen {:.1f} %", "agent", "q1_share_16"),
    asked("{:.1f} kB and 6.3 kB", "agent", "q2_queue_action_2"),
    asked("70.0 kB and {:.1f} kB", "agent", "q2_queue_action_0"),
    asked("mean queue of {:.0f} kB", "agent", "q3_queue"),
    Claim("which is {:.1f} ms at 10 Gbit/s", "agent", "mean_queue_bytes", "2", 16, 10e9 / 8 * 1e-3),
    asked("with sixteen flows {:.1f} kB", "agent", "q4_agent_queue_16"),
    asked("kB and {:.1f} % of the link. With", "agent", "q4_agent_share_16"),
    asked("With two flows {:.1f} % and", "agent", "q4_agent_share_2"),
    asked("% and {:.1f} kB. Action 2", "agent", "q4_agent_queue_2"),
    asked("queues of {:.1f} and", "agent", "q2_queue_action_2"),
    asked("70.0 and {:.1f} kB.", "agent", "q4_action_2_queue_16"),
    asked("{:.2f} ms on average, 4.39", "spraying", "q1_mean"),
    asked("{:.2f} ms for the slowest. TCP's", "spraying", "q1_slowest"),
    asked("{:.1f} ms for the slowest of whole messages", "spraying", "q2_slowest"),
    asked("{:.1f} ms on average.", "spraying", "q2_mean"),
    asked("{:.2f} ms with two pieces", "spraying", "q3_two_pieces"),
    asked("{:.2f} ms with four", "spraying", "q3_four_pieces"),
    asked("{:.2f} ms with eight", "spraying", "q3_eight_pieces"),
    asked("two spines of 20 Gbit/s take {:.1f} ms", "spraying", "q4_two_spines"),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.picture}: {claim.words}")
def test_a_measured_number_is_that_of_the_picture(claim: Claim) -> None:
    assert claim.text in PAGE, f"the points of {claim.picture} say: {claim.text}"


def test_no_measured_number_goes_unchecked() -> None:
    """A decimal number in a sentence that says "measured" is in the words of a claim."""
    checked = " ".join(claim.text for claim in CLAIMS)
    numbers = [number for words in MEASURED.findall(PAGE) for number in re.findall(r"\d+\.\d+", words)]
    assert len(numbers) > 30 and [number for number in numbers if number not in checked] == []


def test_what_the_page_calls_none_is_none() -> None:
    for rate in (2 * GBIT, 5 * GBIT, 10 * GBIT):
        assert point("pauses", "pauses", "hpcc", rate) == 0
    for line in ("hpcc", "powertcp"):
        assert all(point("telemetry-1MB", "drops", line, short) == 0 for short in (1, 2, 4, 8, 15))
    assert point("telemetry-1MB", "drops", "dcqcn", 2) == 0


def test_the_fat_tree_loses_what_the_page_says() -> None:
    goodput = {
        seed: point("ecmp", "goodput_bps", "fattree", seed) / point("ecmp", "goodput_bps", "single", seed) for seed in SEEDS
    }
    losses = [1 - share for share in goodput.values()]
    sentence = f"loses {sum(losses) / len(losses):.0%} on average, {min(losses):.0%} at least, {max(losses):.0%} at most"
    assert sentence.replace("%", " %") in PAGE


def test_every_lab_has_its_answers() -> None:
    """Each question of each lab has the answer of its number, under the lab's title."""
    for lab in sorted(LABS.glob("*.md")):
        title = re.search(r"^# (.+)$", lab.read_text(), re.MULTILINE)
        if lab.name in ("index.md", "answers.md") or title is None:
            continue
        questions = re.findall(r"^(\d)\. ", lab.read_text(), re.MULTILINE)
        answers = PAGE.partition(f"\n## {title[1]}\n")[2].partition("\n## ")[0]
        assert questions and re.findall(r"^(\d)\. ", answers, re.MULTILINE) == questions, lab.name


def test_no_page_leads_to_the_answers() -> None:
    """So that a teacher can delete them. The course names the file alone."""
    docs = LABS.parent
    pages = [*docs.rglob("*.md"), docs.parent / "README.md", docs.parent / "mkdocs.yml"]
    assert [page.name for page in pages if re.search(r"\]\([^)]*answers\.md|: labs/answers\.md", page.read_text())] == []
    assert "`docs/labs/answers.md`" in (docs / "course.md").read_text()


def test_the_victim_has_a_third_of_what_the_slow_receiver_takes() -> None:
    for rate in (500 * MBIT, 1 * GBIT, 2 * GBIT, 5 * GBIT, 10 * GBIT):
        assert point("pauses", "flow_goodput_bps.0", "fixed", rate) == pytest.approx(rate * 1440 / 1514 / 3, rel=0.02)
        assert point("pauses-class", "flow_goodput_bps.0", "fixed", rate) > 9.4 * GBIT


def reward(action: float | str, senders: str, weight: float = 0.7) -> float:
    """ACC's reward of the mean queue and the utilization, as question 5 of the agent's lab has it."""
    queue = point("agent", "mean_queue_bytes", senders, action)
    step = next(n for n in range(10) if 20_000 * 2**n >= queue)
    return weight * point("agent", "utilization", senders, action) + (1 - weight) * (1 - step / 10)


def test_rewards_are_as_the_page_computes_them() -> None:
    expected: dict[float | str, float] = {0: 0.970, 4: 0.958, 6: 0.910, "-": 0.973}
    assert {action: round(reward(action, "2"), 3) for action in expected} == expected
    assert max(range(0, 18, 2), key=lambda action: reward(action, "2")) == 0
    assert max(range(0, 18, 2), key=lambda action: reward(action, "2", 0.95)) == 2
    assert all(f"{value:.3f}" in PAGE for value in expected.values())
