# SPDX-License-Identifier: Apache-2.0
"""Reports of synthetic results: structure, escaping, numbers; and what a browser shows, where one is found."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import warnings
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from synthetic import S, flow_row

from dc_gym.base.errors import MachineError, TestbedError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.base.stats import Estimate
from dc_gym.results import results
from dc_gym.results.fingerprint import fingerprint
from dc_gym.results.metrics import Context, Window, flow_table, port_table, summarize
from dc_gym.results.pages import report
from dc_gym.results.pages.numbers import plain, scale_of, size, with_interval
from dc_gym.results.pages.report.runs import gather, scenarios
from dc_gym.results.pages.report.tables import metrics_table

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = "a <script>alert(\"x\")</script> & 'more' $x^2$ </title>"
FRAME = """<!DOCTYPE html><iframe id="f" src="page.html" style="width:WIDTHpx;height:800px;border:0"></iframe><p id="out"></p>
<script>document.getElementById("f").onload = event => {
  const page = event.target.contentDocument, root = page.documentElement;
  const inside = ".scroll, .draw, pre, svg", all = [...page.querySelectorAll("body *")];
  const wide = all.filter(each => !each.closest(inside) && each.getBoundingClientRect().right > root.clientWidth + 1).length;
  const fetched = event.target.contentWindow.performance.getEntriesByType("resource").length;
  const svg = page.querySelectorAll("svg").length;
  const over = root.scrollWidth - root.clientWidth;
  document.getElementById("out").textContent = `over ${over} wide ${wide} fetched ${fetched} svg ${svg}`;
}</script>"""
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """The parts of a page; fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: Counter[str] = Counter()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self._open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href", "action", "data", "poster", "srcset"):
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def a_result(folder: Path, seed: int, controller: str = "dctcp", name: str = "two pairs", **manifest: Any) -> results.Result:
    """A run on disk with everything that a run of today leaves; its flows have sizes and slowdowns if `sized`."""
    tables = synthetic.run(seed=seed, controller=controller, queue_bytes=6000 if controller == "dctcp" else 90_000)
    spec: dict[str, Any] = {
        "name": name,
        "seed": seed,
        "topology": {"preset": "dumbbell-10m"},
        "controller": {"name": controller},
        "workload": {"kind": "pairs"},
        "time": {"duration": "10s", "warmup": "2s"},
    }
    window = Window(2 * S, 10 * S)
    extra: dict[str, Any] = {}
    if manifest.pop("sized", False):
        rng = np.random.default_rng(seed)
        fct = rng.integers(10**6, 10**8, 200)
        rows = [
            flow_row(row, controller=controller, size_bytes=1000 * (row + 1), start_ns=3 * S, status="done", fct_ns=int(fct_ns))
            for row, fct_ns in enumerate(fct)
        ]
        for row in rows[150:]:
            row["group"] = "response"
        rows[-1] |= {"status": "running", "fct_ns": -1}
        tables = synthetic.tables(flows=rows, queues=[], tcp=[])
        ideal = np.full(200, 10.0**6)
        spec["workload"]["size"] = "100kB"
        extra = {"ideal_ns": ideal, "slowdown": np.append(fct[:-1] / 1e6, np.nan)}
        context = Context(window, ideal_ns=ideal)
    else:
        context = Context(window)
    base = {
        "spec": spec,
        "seed": seed,
        "fit": True,
        "fingerprint": "f00d",
        "environment": {"kernel": "7.2-lab"},
        "wall_s": {"traffic": 1.5},
    }
    base["calibration"] = [{"port": "s1-eth3", "how": "read back", "rate_bps": [10**7, 10**7], "delay_ns": [10_000, 12_000]}]
    base["conservation"] = {"sent_by_hosts": 1234, "received_by_hosts": 1234}
    with results.writing(folder, force=False) as partial:
        results.write_result(partial, tables, base | manifest, summarize(tables, context))
        results.write_derived(partial, "port_metrics", port_table(tables, window))
        results.write_derived(partial, "flow_metrics", flow_table(tables, context, extra))
        results.finish(partial)
    return results.load_result(folder)


@pytest.fixture(scope="module")
def shared_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two controllers, three seeds, one of them unfit; and a hostile scenario with sizes."""
    folder = tmp_path_factory.mktemp("results")
    for controller in ("dctcp", "cubic"):
        for seed in (1, 2, 3):
            a_result(folder / "sweep" / f"{controller}-s{seed}", seed, controller)
    a_result(folder / "sweep" / "dctcp-s4", 4, fit=False, unfit_reasons=["softnet <b>backlog</b> full"])
    a_result(folder / "alone", 1, name=HOSTILE, sized=True)
    return folder


@pytest.fixture
def folder(shared_results: Path, tmp_path: Path) -> Path:
    """A copy of `shared_results`."""
    return Path(shutil.copytree(shared_results, tmp_path / "results"))


def written(folder: Path, *names: str, **options: Any) -> str:
    out = folder / "page.html"
    report.write([folder / name for name in names or ("sweep", "alone")], out, Quiet(), force=True, **options)
    return out.read_text()


def test_the_page_is_whole_and_needs_nothing_else(folder: Path) -> None:
    text = written(folder)
    page = Page(text)
    assert all(link.startswith("#") for link in page.links), "no address but anchors"
    assert {link[1:] for link in page.links} <= set(page.ids), "every anchor is there"
    assert max(Counter(page.ids).values()) == 1
    assert page.tags["script"] == 0 and page.tags["link"] == 0 and page.tags["img"] == 0
    assert not re.search(r"https?:|@import|//[a-z]", re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL))
    assert not re.search(r"https?://|data:", text)
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(page.ids)
    assert "prefers-color-scheme: dark" in text and page.tags["svg"] == 4 + 3, "the second has no queues"


def test_what_a_spec_says_is_escaped(folder: Path) -> None:
    page = Page(written(folder))
    assert HOSTILE in page.text and "softnet <b>backlog</b> full" in page.text
    assert page.tags["b"] == 0


def test_programs_are_told_in_words(tmp_path: Path) -> None:
    run_result = a_result(tmp_path / "programs", 1)
    manifest = json.loads((run_result.path / "manifest.json").read_text())
    manifest["spec"]["workload"] = {"kind": "none", "exec": [{"host": "h4", "command": "/gone/server.py", "start": "0ns"}]}
    (run_result.path / "manifest.json").write_text(json.dumps(manifest))
    page = Page(written(tmp_path, "programs"))
    assert "none, exec host h4, command /gone/server.py, start 0ns" in page.text and "[{" not in page.text


def test_scenarios_are_grouped_by_everything_but_seed_name_and_controller(folder: Path) -> None:
    again = a_result(folder / "sweep" / "twice", 1)
    cases, notes = scenarios(gather([folder / "sweep", folder / "sweep" / "dctcp-s1"]))
    assert [(group.name, group.seeds) for group in cases[0].groups] == [("dctcp", (1, 2, 3)), ("cubic", (1, 2, 3))]
    assert len(cases) == 1 and [run.seed for run in cases[0].unfit] == [4]
    assert len(notes) == 1 and str(again.path) in notes[0] and "the same digest" in notes[0]
    counted, _ = scenarios(gather([folder / "sweep"]), count_unfit=True)
    assert counted[0].groups[0].seeds == (1, 2, 3, 4)


def test_scenarios_of_one_name_are_told_apart_by_their_keys(folder: Path) -> None:
    a_result(folder / "sweep" / "sized", 1, sized=True)
    cases, _ = scenarios(gather([folder / "sweep"]))
    assert [case.title for case in cases] == ["two pairs", "two pairs: size 100kB"]


@pytest.mark.parametrize("stated", [True, False], ids=["in the manifest", "older, from the copies"])
def test_other_files_of_one_spec_are_not_seeds_of_one_group(tmp_path: Path, stated: bool) -> None:
    """All specs with a matrix say matrix.csv: its content tells experiments apart."""
    for seed, text in ((1, "one"), (2, "one"), (3, "two")):
        inputs = {"inputs": {"matrix.csv": hashlib.sha256(text.encode()).hexdigest()}} if stated else {}
        a_result(tmp_path / f"s{seed}", seed, **inputs)
        (tmp_path / f"s{seed}" / "matrix.csv").write_text(text)
    cases, notes = scenarios(gather([tmp_path]))
    assert [case.groups[0].seeds for case in cases] == [(1, 2), (3,)] and notes == []
    assert [case.title for case in cases] == ["two pairs: matrix.csv 7692c3ad", "two pairs: matrix.csv 3fc4ccfe"]


def test_runs_of_another_fingerprint_are_apart_and_it_is_said(folder: Path) -> None:
    a_result(folder / "sweep" / "other-kernel", 5, fingerprint="beef" * 16)
    a_result(folder / "sweep" / "other-kernel-too", 6, "cubic", fingerprint="beef" * 16)
    cases, notes = scenarios(gather([folder / "sweep"]))
    assert [[group.seeds for group in case.groups] for case in cases] == [[(1, 2, 3), (1, 2, 3)], [(5,), (6,)]]
    assert [case.title for case in cases] == ["two pairs: fingerprint f00d", "two pairs: fingerprint beefbeef"]
    assert len(notes) == 1 and "have 2 fingerprints" in notes[0]
    assert "have 2 fingerprints" in Page(written(folder, "sweep")).text


def test_marking_far_above_the_queue_fits_the_figure(folder: Path) -> None:
    for path in folder.glob("sweep/*/ports.json"):
        path.write_text(path.read_text().replace("3028", "2000000"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "K is where marking begins" in written(folder, "sweep")


def test_numbers_on_the_page_are_those_of_the_summaries(folder: Path) -> None:
    values = [json.loads((folder / "sweep" / f"dctcp-s{seed}" / "summary.json").read_text())["goodput_bps"] for seed in (1, 2, 3)]
    half = 4.302653 * np.std(values, ddof=1) / np.sqrt(3)
    text = Page(written(folder, "sweep")).text
    assert with_interval(Estimate(float(np.mean(values)), float(half), 3), 1e6).replace("\u00a0", " ") in text.replace(
        "\u00a0", " "
    )
    assert "DCTCP (n = 3)" in text.replace("\u00a0", " ") and "CUBIC \u2212 DCTCP (3 pairs)" in text


def test_the_baseline_can_be_chosen(folder: Path) -> None:
    assert "DCTCP \u2212 CUBIC (3 pairs)" in Page(written(folder, "sweep", baseline="cubic")).text
    with pytest.raises(UsageError, match=r"'qubic'.*did you mean cubic"):
        written(folder, baseline="qubic")


def with_policies(folder: Path) -> None:
    """Writes results of two built-in policies and three files, two seeds each; the files' specs all say policy.npz."""
    for seed in (1, 2):
        for name, policy, content in (
            ("random", "random", None),
            ("max", "max", None),
            ("one", "policy.npz", "1" * 64),
            ("two", "policy.npz", "2" * 64),
            ("sac", "policy.npz", "3" * 64),
        ):
            policy_fields = {"inputs": {"policy.npz": content}, "policies": {"policy.npz": "sac" if name == "sac" else "ppo"}}
            run_result = a_result(folder / f"{name}-s{seed}", seed, "cubic", **policy_fields if content else {})
            run_result.manifest["spec"]["controller"]["policy"] = policy
            (run_result.path / "manifest.json").write_text(json.dumps(run_result.manifest))
            if content:
                (run_result.path / policy).write_text(content)


def test_policies_are_groups_of_one_scenario(tmp_path: Path) -> None:
    with_policies(tmp_path / "sweep")
    cases, notes = scenarios(gather([tmp_path]))
    assert len(cases) == 1 and notes == []
    groups = cases[0].groups
    assert [group.label for group in groups] == [
        "max over CUBIC",
        "ppo over CUBIC, content 11111111",
        "ppo over CUBIC, content 22222222",
        "sac over CUBIC",
        "random over CUBIC",
    ]
    assert all(group.seeds == (1, 2) for group in groups) and len({group.color for group in groups}) == 5
    text = Page(written(tmp_path, "sweep")).text.replace("\u00a0", " ")
    assert "random over CUBIC (n = 2)" in text and "random over CUBIC \u2212 max over CUBIC (2 pairs)" in text
    assert "max over CUBIC \u2212 random over CUBIC (2 pairs)" in Page(
        written(tmp_path, "sweep", baseline="random")
    ).text.replace("\u00a0", " ")


def test_unfit_runs_are_shown_with_their_reasons_and_left_out(folder: Path) -> None:
    text = Page(written(folder, "sweep")).text
    assert "1 of 7 runs is unfit" in text and "1 unfit run left out of all means and figures" in text


def test_unfinished_flows_are_shown(folder: Path) -> None:
    text = Page(written(folder, "alone")).text
    assert "1 flows had not finished" in text or "1 flow had not finished" in text
    row = re.search(r"101 kB \u2013 200 kB (\d+) (\d+)", text.replace("\u00a0", " "))
    assert row is not None and row.groups() == ("100", "1")


def test_flows_are_told_apart_by_what_they_are_for(folder: Path) -> None:
    title = "Completion times by what flows are for"
    text = Page(written(folder, "alone")).text.replace("\u00a0", " ")
    assert title in text and title not in Page(written(folder, "sweep")).text
    response = results.load_result(folder / "alone").summary["fct_groups"][1]
    assert (response["group"], response["flows"]) == ("response", 50)
    numbers = f"{plain(response['fct_p50_s'] * 1e3, 3)} ms {plain(response['fct_p99_s'] * 1e3, 3)} ms"
    assert f"response 50 1 \u25bc {numbers} {plain(response['slowdown_p50'], 3)}" in text and "flow 150 0 " in text


def test_the_certificate_says_asked_and_found(folder: Path) -> None:
    result = results.load_result(folder / "sweep" / "dctcp-s1")
    text = Page(written(folder, "sweep")).text.replace("\u00a0", " ")
    assert result.digest in text and "f00d" in text and "7.2-lab" in text
    assert (
        "delay_ns 10,000 ns 12,000 ns 20 %, read back 1" in text
        and "rate_bps 10,000,000 bit/s 10,000,000 bit/s 0, read back 1" in text
    )
    assert "Sent by hosts 1,234" in text


def test_the_same_results_give_the_same_page(folder: Path) -> None:
    assert written(folder) == written(folder)


def test_a_result_of_an_older_version_is_reported_without_what_it_lacks(tmp_path: Path) -> None:
    result = a_result(tmp_path / "old", 1)
    for name in results.DERIVED:
        (result.path / f"{name}.parquet").unlink(missing_ok=True)  # one is of runs with an agent alone
    (result.path / "summary.json").write_text(json.dumps({"goodput_bps": 5e6}))
    text = Page(written(tmp_path, "old")).text
    assert "Goodput, all flows" in text and "Jain" not in text


def test_figures_as_files(folder: Path) -> None:
    out = folder / "figures"
    paths = report.write([folder / "sweep"], folder / "p.html", Quiet(), figures_folder=out)
    names = {f"two-pairs-{name}.{suffix}" for name in ("topology", "queue", "queue-cdf", "rates") for suffix in ("png", "pdf")}
    assert {path.name for path in out.iterdir()} == names and len(paths) == 1 + len(names)
    assert (out / "two-pairs-queue.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "two-pairs-queue.pdf").read_bytes().startswith(b"%PDF")


def test_a_page_that_cannot_be_written_leaves_nothing(folder: Path) -> None:
    (folder / "taken").write_text("")
    with pytest.raises(MachineError, match=r"cannot write .*page\.html"):
        report.write([folder / "alone"], folder / "taken" / "page.html", Quiet())
    paths = report.write([folder / "alone"], folder / "new" / "folder" / "page.html", Quiet())
    assert paths == [folder / "new" / "folder" / "page.html"] == list((folder / "new" / "folder").iterdir())


def test_a_folder_without_results(tmp_path: Path) -> None:
    with pytest.raises(TestbedError):
        gather([tmp_path])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567.0, "1,234,567"),
        (0.00012345, "0.0001234"),
        (99.99964, "100"),
        (-3.5, "\u22123.5"),
        (1e-12, "0.000000000001"),
    ],
)
def test_plain_numbers(value: float, text: str) -> None:
    assert plain(value) == text


def test_a_mean_has_as_many_digits_as_its_interval_carries() -> None:
    assert with_interval(Estimate(956.40412, 0.4712, 3)).replace("\u00a0", " ") == "956.40 ± 0.47"
    assert with_interval(Estimate(3103.2, 226.4, 3)).replace("\u00a0", " ") == "3,103 ± 226"
    assert with_interval(Estimate(5.0, None, 1), signed=True) == "+5"
    assert with_interval(Estimate(-0.001, 0.04, 3), signed=True).replace("\u00a0", " ") == "\u22120.001 ± 0.040"


def test_units_follow_the_middle_of_the_values() -> None:
    assert scale_of("bytes", [29_000, 3_100_000]) == (1e3, "kB") and scale_of("s", [2e-5]) == (1e-6, "µs")
    assert scale_of("bps", []) == (1, "bit/s") and size(1448) == "1.45\u00a0kB"


@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_shows_it_without_overflow(folder: Path, width: int) -> None:
    """The page is no wider than the window: wide parts scroll in boxes of their own. The page fetches nothing."""
    written(folder)
    frame = folder / "frame.html"
    frame.write_text(FRAME.replace("WIDTH", str(width)))
    argv = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        f"--user-data-dir={folder / 'profile'}",
    ]
    argv += [f"--window-size={width + 100},1000", "--virtual-time-budget=5000", "--dump-dom", frame.as_uri()]
    browser = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    measures = re.search(r"over (-?\d+) wide (\d+) fetched (\d+) svg (\d+)", browser.stdout)
    assert measures is not None, browser.stderr[-2000:]
    assert [int(number) for number in measures.groups()] == [0, 0, 0, 7]


def test_the_return_and_completion_before_the_goodput_of_active_time(tmp_path: Path) -> None:
    idle = {"return": 12.5, "fct_flows": 24, "fct_mean_s": 1e-3, "goodput_bps": 1e8, "active_goodput_bps": 6e9, "jain_flows": 0}
    for folder, more in (("idle", idle), ("busy", {})):
        for seed in (1, 2):
            path = a_result(tmp_path / folder / str(seed), seed).path / "summary.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | more))

    def sections(folder: str) -> dict[str, list[str]]:
        scenario = scenarios(gather([tmp_path / folder]))[0][0]
        return {title: [label for label, _ in rows] for title, rows in metrics_table(scenario).sections}

    idle_sections = sections("idle")
    assert next(iter(idle_sections)) == "Flow completion" and idle_sections["Agent"] == ["Return: the sum of rewards"]
    assert "Goodput while flows were active" in idle_sections["Throughput and links"]
    assert "Goodput, all flows" not in idle_sections["Throughput and links"]
    busy = sections("busy")
    assert "Agent" not in busy and next(iter(busy)) == "Throughput and links"
    assert busy["Throughput and links"][0] == "Goodput, all flows"
    assert "\u2026 flows that it counts" in busy["Fairness and convergence"]


def test_equal_runs_of_several_seeds_are_noted(tmp_path: Path) -> None:
    one, other = (a_result(tmp_path / str(seed), seed).path / "summary.json" for seed in (1, 2))
    other.write_text(one.read_text())
    notes = scenarios(gather([tmp_path]))[1]
    assert len(notes) == 1 and notes[0].startswith(
        "equal runs (each number of summary.json) for several seeds at its point: the seed changes nothing"
    )


def of_kind(folder: Path, seed: int, controller: str, numpy: str = "", **nic: Any) -> None:
    """Writes a result as a sweep over TCP and NIC controllers leaves it: `numpy` acts in the NICs' runs alone."""
    environment = {"kernel": "7.2-lab"} | ({"numpy": numpy} if numpy else {})
    run_result = a_result(folder, seed, controller, environment=environment, fingerprint=fingerprint(environment))
    manifest = json.loads((run_result.path / "manifest.json").read_text())
    manifest["spec"]["workload"]["transport"] = "rdma" if numpy else "tcp"
    if numpy:
        manifest["spec"]["nic"] = {"latency": "0ns", **nic}
        summary = json.loads((run_result.path / "summary.json").read_text()) | {"mean_srtt_us": None, "nic_cnps": 7 + seed}
        (run_result.path / "summary.json").write_text(json.dumps(summary))
    (run_result.path / "manifest.json").write_text(json.dumps(manifest))


def test_tcp_and_nic_controllers_of_a_sweep_are_in_one_table(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        for controller, numpy in (("dctcp", ""), ("dcqcn", "2.4"), ("swift", "2.4")):
            of_kind(tmp_path / f"{controller}-{seed}", seed, controller, numpy)
    cases, notes = scenarios(gather([tmp_path]))
    assert [[(group.label, group.seeds) for group in case.groups] for case in cases] == [
        [("DCTCP", (1, 2, 3)), ("DCQCN", (1, 2, 3)), ("Swift", (1, 2, 3))]
    ]
    assert notes == []
    rows = {label: [cell.text for cell in cells] for _, section in metrics_table(cases[0]).sections for label, cells in section}
    assert rows["CNPs"] == ["", "\u2013", "9.0\u00a0±\u00a02.5", "9.0\u00a0±\u00a02.5"], "TCP has none"
    assert rows["Smoothed RTT, mean"][2:] == ["\u2013", "\u2013"] and rows["Smoothed RTT, mean"][1] != "\u2013"
    text = Page(written(tmp_path, ".")).text.replace("\u00a0", " ")
    assert "9 runs in 1 scenario." in text and "DCQCN \u2212 DCTCP (3 pairs)" in text


def test_settings_of_nics_tell_groups_apart_and_another_numpy_scenarios(tmp_path: Path) -> None:
    of_kind(tmp_path / "tcp", 1, "dctcp")
    of_kind(tmp_path / "fast", 1, "dcqcn", "2.4", burst=1)
    of_kind(tmp_path / "slow", 1, "dcqcn", "2.4", burst=4)
    cases, _ = scenarios(gather([tmp_path]))
    assert [[group.label for group in case.groups] for case in cases] == [["DCTCP", "DCQCN, nic.burst 1", "DCQCN, nic.burst 4"]]
    of_kind(tmp_path / "other", 2, "swift", "2.5")
    cases, notes = scenarios(gather([tmp_path]))
    assert [[group.label for group in case.groups] for case in cases] == [
        ["DCQCN, nic.burst 1", "DCQCN, nic.burst 4"],
        ["Swift"],
        ["DCTCP"],
    ]
    assert len(notes) == 1 and "have 3 fingerprints" in notes[0]
