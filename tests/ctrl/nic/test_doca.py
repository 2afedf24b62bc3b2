# SPDX-License-Identifier: Apache-2.0
"""Device files for DOCA PCC: read as algorithms, written from them, and what no algorithm can do told with its line."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import rdma_lab

from dc_gym.cli import main
from dc_gym.ctrl.nic import algorithm, algorithms, build, golden, kernels
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.ctrl.nic.events import ACK, RTT, TX, NicFlow
from dc_gym.ctrl.nic.golden import RunnerDecision, Step

ROOT = Path(__file__).resolve().parents[3]
DOCA, EXAMPLE = ROOT / "ctrl" / "nic" / "doca", ROOT / "examples" / "pcc_aimd.c"
FLOW = NicFlow(base_rtt_ns=12_000, line_mbps=100_000, packet_bytes=1088, hops=4)
FILE = """#include <doca_pcc_dev.h>
%s
void doca_pcc_dev_user_algo(doca_pcc_dev_algo_ctxt_t *algo_ctxt, doca_pcc_dev_event_t *event,
    const doca_pcc_dev_attr_t *attr, doca_pcc_dev_results_t *results)
{
    uint32_t *word = algo_ctxt->word;
    results->rate = 52429;
    %s
}
void doca_pcc_dev_user_init(uint32_t *disable_event_bitmask)
{
    %s
}
"""


def written(folder: Path, top: str = "", body: str = "", init: str = "") -> Path:
    path = folder / "own.c"
    path.write_text(FILE % (top, body, init))
    return path


def imported(source: Path, folder: Path, name: str = "own") -> Algorithm:
    """Returns the algorithm that the command makes of a file, compiled."""
    assert main.main(["nic", "import", str(source), "--name", name, "--out", str(folder)]) == 0
    header = folder / f"{name}.h"
    return algorithm.describe(header, build.compile_runner(header, folder), folder / "none")


def decisions(of: Algorithm, steps: list[Step], values: dict[str, int] | None = None) -> list[RunnerDecision]:
    return golden.decisions(golden.runner_argv(of, values or golden.values_of(of, "")), steps)


@pytest.mark.lab
@pytest.mark.usefixtures("registries")
def test_a_fixed_rate_of_52429_sends_5_percent_of_the_line(tmp_path: Path) -> None:
    imported(written(tmp_path), tmp_path)
    run = rdma_lab.run(tmp_path, "run", "plugins=own.py", "controller.name=own", "time.duration=100ms")
    assert set(run.records("nic_flows")["rate_bps"].tolist()) == {52429 * 10**9 // 2**20}
    sweeps = run.records("queues")
    port = sweeps[sweeps["port"] == run.names.port.index("h1-eth0")]
    sent = port["tx_bytes"][port["t_ns"] == 99_000_000] - port["tx_bytes"][port["t_ns"] == 9_000_000]
    assert sent.item() * 8 / 0.09 / 1e9 == pytest.approx(0.05, abs=2 * 1090 * 8 / 0.09 / 1e9)


def test_an_imported_file_decides_as_the_file_itself(tmp_path: Path) -> None:
    own = imported(EXAMPLE, tmp_path)
    assert own.events == ("cnp", "tx", "nack", "rtt") and own.fits
    assert [(each.name, each.default, each.least, each.greatest) for each in own.parameters] == [
        ("raise", 10486, 0, 2**20),
        ("cut", 6554, 0, 2**16),
        ("long_ns", 40000, 0, 2**31),
    ]
    runner = tmp_path / "untouched"
    rows = " ".join(
        f'X({each.name}, \\"\\", {each.default}, {each.least}, {each.greatest}u, \\"\\", \\"\\")' for each in own.parameters
    )
    header = tmp_path / "untouched.h"
    lines = (f'#define PCC_FILE "{EXAMPLE}"', f"#define PCC_ROWS(X) {rows}".replace('\\"', '"'))
    header.write_text("\n".join((*lines, f'#include "{Path(__file__).with_name("pcc_untouched.h")}"', "")))
    flags = [*build.RUNNER_FLAGS, "-w", "-Wl,--unresolved-symbols=ignore-all", "-static", f"-I{DOCA}", f"-I{build.DAEMON}"]
    sources = [build.SOURCES / "ccrun.c", build.SOURCES / "cctrace.c", build.DAEMON / "options.c", build.DAEMON / "program.c"]
    subprocess.run(["cc", *flags, *build._algorithm(header), "-o", str(runner), *map(str, sources)], check=True)
    rates = set[int]()
    for kind in golden.KINDS:
        steps = golden.trace(kind, own, 1)
        made = decisions(own, steps)
        assert made == decisions(replace(own, runner=runner), steps)
        rates |= {row.rate for row in made}
    assert len(rates) > 100


@pytest.mark.lab
def test_an_imported_file_decides_in_bpf_as_natively(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    own = imported(EXAMPLE, tmp_path)
    test = build.compile_test_object(own.header, kernels.test_object(own))
    traces = [golden.trace(kind, own, 1) for kind in golden.KINDS]
    words = kernels.arguments(test, golden.values_of(own, ""))
    answers = kernels.run_in_lab([kernels.CctestCall(words, golden.text(steps)) for steps in traces])
    for steps, answer in zip(traces, answers, strict=True):
        assert [golden.parsed(line) for line in answer.lines()] == decisions(own, steps)


def as_doca_tells(steps: list[Step]) -> list[Step]:
    """Returns a trace with what DOCA PCC knows alone: no timeouts, units of 32 bytes, each event once, one path."""
    told = []
    for event, _ in steps:
        size = {TX: min(event.bytes // 32, 65535) * 32, ACK: FLOW.packet_bytes}.get(event.type, 0)
        packets = {TX: event.packets, ACK: 1}.get(event.type, 0)
        first_ns = event.now_ns if event.type == RTT else event.first_ns
        flags = event.flags & golden.NEW_FLOW
        told.append((replace(event, bytes=size, packets=packets, coalesced=1, first_ns=first_ns, flags=flags), FLOW))
    return told


@pytest.mark.parametrize(
    ("name", "preset"), [("dcqcn", "paper"), ("dcqcn", "firmware_bytes"), ("swift", "pcc"), ("swift", "held"), ("timely", "")]
)
def test_an_exported_algorithm_decides_as_itself_when_it_is_imported(tmp_path: Path, name: str, preset: str) -> None:
    source = tmp_path / "out.c"
    argv = ["nic", "export", name, "--target", "doca-pcc", "--out", str(source), "--preset", preset]
    assert main.main(argv) == 0
    gcc = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{DOCA}", "-c", str(source), "-o", str(tmp_path / "out.o")]
    subprocess.run(gcc, check=True)
    again = imported(source, tmp_path, "again")
    ours = algorithms.load(name, tmp_path)
    path = {"base_rtt_ns": FLOW.base_rtt_ns, "line_mbps": FLOW.line_mbps, "packet_bytes": FLOW.packet_bytes, "hops": FLOW.hops}
    values = golden.values_of(again, "")
    assert dict(golden.values_of(ours, preset)).items() <= values.items() and len(values) == len(ours.parameters) + 4
    for kind in ("fabric", "lossy", "silent"):
        steps = as_doca_tells(golden.trace(kind, ours, 1))
        expected = decisions(ours, steps, dict(golden.values_of(ours, preset)))
        made = decisions(again, steps, {**values, **path})
        assert [(row.rate, row.probe, row.state[: ours.state_words]) for row in made] == [
            (row.rate, row.probe, row.state) for row in expected
        ]
        assert len({row.rate for row in expected}) > 5


@pytest.mark.parametrize(
    ("top", "body", "init", "line", "told"),
    [
        ("static uint32_t total;", "total++;", "", 2, "total is memory of its own"),
        ("", "static uint32_t calls; calls++;", "", 8, "calls is memory of its own"),
        ("", "while (word[0]) word[0] /= 2;", "", 8, "a loop without a constant bound"),
        ("", "for (;;) break;", "", 8, "a loop without a constant bound"),
        ("", "results->rate = word[0] * 0.5;", "", 8, "double: a NIC counts in integers"),
        ("", "word[0] = *(uint32_t *)(uintptr_t)word[1];", "", 8, "a pointer made of a number"),
        ("", "word[0] = rand();", "", 8, "rand() is not in the file"),
        ("static void f(void) {}", "void (*g)(void) = f; g();", "", 8, "f is used as a pointer"),
        ("struct big { uint32_t word[13]; };", "results->rate = ((struct big *)algo_ctxt)->word[12];", "", 8, "48 bytes"),
        ("", "results->rates = 1;", "", 8, "no member named 'rates'"),
        ("", "", "doca_pcc_dev_nic_counters_sample();", 12, "doca_pcc_dev_nic_counters_sample() is not in the file"),
        ('#include "absent.h"', "", "", 2, "'absent.h' file not found"),
        ("static uint32_t f(uint32_t n) { return n ? f(n - 1) : 0; }", "word[0] = f(word[0]);", "", 2, "f() calls itself"),
    ],
)
def test_what_no_algorithm_can_do_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], top: str, body: str, init: str, line: int, told: str
) -> None:
    assert main.main(["nic", "import", str(written(tmp_path, top, body, init))]) != 0
    error = capsys.readouterr().err
    assert re.search(rf"own\.c:{line}:", error) and told in error and error.count("\n") == 1
    assert not (tmp_path / "own.h").exists()


def test_what_an_algorithm_can_do_is_taken(tmp_path: Path) -> None:
    top = """
static uint32_t log_of(uint32_t n) { uint32_t k = 0; for (uint32_t h = 16; h; h /= 2) k += n >> h ? h : 0; return k; }
static const char text[] = "\u00b5s"; static uint32_t count; static float unused(void) { return ++count; }
enum { UP, DOWN } way; typedef uint32_t rate; uint32_t step(rate by); uint32_t step(rate by) { return by + DOWN; }
static uint32_t settings(void) { return doca_pcc_dev_get_timer_lo(); }
const volatile uint32_t table[2] = { 1, 2 }, unused_table[1];"""
    body = """word[0] = log_of(word[1]) + step(1) + table[word[1] & 1] + settings();
	doca_pcc_dev_get_counters(0, 0)[1]++; doca_pcc_dev_printf("%u", word[0]);"""
    own = imported(written(tmp_path, top, body), tmp_path)
    steps = golden.trace("fabric", own, 1)
    made = decisions(own, steps)
    assert {row.rate for row in made} == {52429}
    assert [row.state[0] for row in made] == [2 + 1 + event.now_ns // 1000 for event, _ in steps]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["import", "absent.c"], "absent.c: no such file"),
        (["import", str(EXAMPLE), "--name", "dcqcn"], "dc-gym has a controller of that name"),
        (["import", str(EXAMPLE), "--name", "A b"], "small letters"),
        (["import", str(ROOT / "examples" / "tcp_mine.c")], "tcp_mine.c"),
        (["export", "swift", "--target", "doca-pcc"], "sets windows"),
        (["export", "hpcc", "--target", "doca-pcc"], "telemetry"),
        (["export", "rlcc-tree", "--target", "doca-pcc"], "a policy's table"),
    ],
)
def test_mistakes_are_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["nic", *argv]) != 0
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())
