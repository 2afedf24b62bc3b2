# SPDX-License-Identifier: Apache-2.0
"""`dcgym nic check`, with the example of the documentation and with algorithms that are wrong in one way each."""

import re
import shutil
from pathlib import Path

import pytest

from dc_gym import spec
from dc_gym.base import usercode
from dc_gym.base.errors import SpecError, UsageError
from dc_gym.base.package import PROGRAMS
from dc_gym.cli import main, nic_check
from dc_gym.ctrl import controllers
from dc_gym.ctrl.nic import algorithm, algorithms, build

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "aimd.h"


@pytest.fixture
def broken(tmp_path):
    """Returns the example with one place replaced."""

    def write(old, new):
        text = EXAMPLE.read_text()
        assert old in text
        path = tmp_path / "aimd.h"
        path.write_text(text.replace(old, new))
        return str(path)

    return write


def said(capsys):
    """Returns the table as plain text."""
    return re.sub(r"[\s│]+", " ", capsys.readouterr().out)


def test_the_example_is_good(capsys):
    assert main.main(["nic", "check", str(EXAMPLE), "--no-kernel"]) == 0
    text = said(capsys)
    assert "nic check aimd" in text and "4 bytes; events cnp, tx, nack, rtt; 4 parameters" in text
    assert "no complaint of ASan or UBSan" in text and "passed" in text


@pytest.mark.lab
def test_the_example_in_a_lab(capsys):
    assert main.main(["nic", "check", str(EXAMPLE)]) == 0
    text = said(capsys)
    assert re.search(r"a decision counted \d+ instructions; verifier \d+", text)
    assert re.search(r"BPF against userspace equal equal: \d,\d{3} decisions passed", text)


@pytest.mark.lab
def test_ours_are_held_to_their_reference(capsys):
    assert main.main(["nic", "check", "timely-patched", "--preset", "absolute"]) == 0
    assert "float reference rates within 4 / 2^20 rates" in said(capsys)


def test_what_c_leaves_open_is_found(capsys, broken):
    """With a base round trip below 1 us it divides by zero: the result is 0 in BPF, and undefined in C."""
    path = broken("uint64_t base = flow->base_rtt_ns;", "uint64_t base = 1000 / (flow->base_rtt_ns / 1000);")
    assert main.main(["nic", "check", path, "--no-kernel"]) == 1
    text = said(capsys)
    assert "aimd.h:" in text
    assert {"runtime", "error:", "division", "FAILED"} <= set(text.split()), "where the cell is wrapped hangs on its path"


@pytest.mark.lab
def test_what_the_verifier_refuses_is_shown_with_its_words(capsys, broken):
    path = broken("	state[0] = 0;", "	for (uint32_t i = 0; i < state[0]; i++)\n		result->rate ^= state[i];")
    assert main.main(["nic", "check", path]) == 1
    text = said(capsys)
    assert "the kernel does not take it" in text and "FAILED" in text
    assert re.search(r"processed \d+ insns \(limit 1000000\)", text)


def test_a_context_that_is_too_large_does_not_compile(capsys, broken):
    assert main.main(["nic", "check", broken("CC_STATE_WORDS 1 ", "CC_STATE_WORDS 65 "), "--no-kernel"]) == 2
    text = capsys.readouterr().err
    assert "more words of state than the NIC keeps" in text and text.count("\n") == 1


START, CONSTANTS = "result->probe = true;", "enum { CC_PARAMETERS(CC_INDEX) };"
INCLUDE = '#include "cc.h"'
IMPURE = {
    "a static variable": (
        (CONSTANTS, CONSTANTS + "static uint32_t seen;"),
        "result->rate = seen++;",
        "'seen' is memory of its own",
    ),
    "a function's static variable": ((), "static uint32_t v2; result->rate = v2++;", "'v2' is memory of its own"),
    "a word too far": ((), "state[5]++;", "array subscript 5 is outside array bounds"),
    "a function of libc": ((INCLUDE, INCLUDE + "\nextern int rand(void);"), "result->rate = rand();", "'rand' is not in it"),
    "a clock": (
        (),
        "\n#ifdef __bpf__\nresult->rate = bpf_ktime_get_ns();\n#endif\n",
        "declaration of function 'bpf_ktime_get_ns'",
    ),
    "another header": (
        (INCLUDE, INCLUDE + '\n#include "other.h"'),
        "",
        "other.h; an algorithm is one header, which includes only cc.h",
    ),
    "a float": ((), "result->rate = result->rate * 0.5;", "built-in function '__.*df' is not supported"),
    "a write to a parameter": ((), "((uint32_t *)parameter)[0] = 1;", "cast discards 'const' qualifier"),
    "telemetry without CC_TELEMETRY": ((), "result->rate += event->hop[0];", "'event' is used uninitialized"),
    "an unknown event": (("CC_MASK(CC_TX))", "CC_MASK(9))"), "", "CC_EVENTS has to name events of cc.h"),
    "a default out of range": (('"Q8", 333, 256', '"Q8", 33, 256'), "", r"threshold: its default is 33, not within 256\.\.65535"),
    "a preset without its parameter": (('"as in', '"x", CC_SET(nothing, 3)) //'), "", r"preset template: CC_SET\(nothing\)"),
    "a preset out of range": (('"as in', '"x", CC_SET(factor, 13108)) //'), "", "factor: preset template is 13108, not within 0"),
}


@pytest.mark.parametrize("rule", IMPURE)
def test_what_no_algorithm_may_do_is_refused_for_runs_too(rule, registries, broken, tmp_path):
    """Each sentence of the contract in docs/nic-algorithms.md, with a header that breaks it alone."""
    replaced, line, message = IMPURE[rule]
    (tmp_path / "other.h").touch()
    header = Path(broken(START, START + line))
    if replaced:
        assert replaced[0] in header.read_text()
        header.write_text(header.read_text().replace(*replaced, 1))
    controllers.register(controllers.Controller("aimd", "aimd", ecn=True, nic=True, header=header))
    with pytest.raises(UsageError, match=message):
        algorithms.load("aimd", tmp_path)


def test_constants_and_what_a_compiler_calls_are_no_memory(broken, tmp_path):
    header = Path(broken(CONSTANTS, CONSTANTS + "static const uint32_t steps[4] = { 1, 2, 3, 4 };"))
    header.write_text(header.read_text().replace(START, START + "result->rate += steps[event->now_ns & 3];"))
    assert build.compile_header(header, tmp_path).name == "aimd"


def test_ours_keep_the_contract(tmp_path):
    for name in algorithms.names():
        build.check_contract(algorithms.header_of(name), tmp_path)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("state[event->now_ns & 7] = 0;", "WRITE beyond its words of context, parameters or table"),
        ("result->rate = parameter[4 + (event->now_ns & 1)];", "READ beyond its words of context, parameters or table"),
        ("result->rate = table[event->now_ns & 7];", "null pointer|SEGV"),
    ],
)
def test_what_it_reaches_beyond_its_context_is_found(broken, tmp_path, line, complaint):
    header = Path(broken(START, START + line))
    built = build.compile_header(header, tmp_path)
    setting = algorithms.resolve_parameters(built, "", {}, algorithms.SCALED_FOR_BPS)
    failed = [check for check in nic_check.AlgorithmCheck(built, setting, tmp_path).checks(no_kernel=True) if not check.ok]
    assert [check.name for check in failed] == ["golden traces"]
    assert failed[0].measured.startswith(f"{header}:34:") and re.search(complaint, failed[0].measured)


def test_a_syntax_error_is_one_line(capsys, broken):
    assert main.main(["nic", "check", broken("state[0] = 0;", "state[0] = 0"), "--no-kernel"]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and "aimd.h:" in text and "expected" in text


def test_the_example_is_registered_by_its_plug_in(registries, tmp_path):
    read = spec.load(ROOT / "examples" / "aimd.toml")
    assert controllers.find("aimd").nic and "aimd" in algorithms.names()
    assert read.code() == (ROOT / "examples" / "aimd.py", EXAMPLE)
    built = algorithms.load("aimd", tmp_path)
    assert (built.name, built.state_words, built.fits) == ("aimd", 1, True)
    assert built.object.is_file() and built.runner.is_file()


def test_a_header_is_compiled_once_a_process_and_again_when_it_has_changed(registries, tmp_path, monkeypatch):
    calls, compiled = [], build._compile
    monkeypatch.setattr(build, "_products", {})
    monkeypatch.setattr(build, "_compile", lambda *args: (calls.append(args[0]), compiled(*args)))
    copy = Path(shutil.copy(EXAMPLE, tmp_path))
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
    first, second = (build.compile_header(copy, folder) for folder in folders[:2])
    once = ["cc", "clang", "cc", "clang"]  # runner and object, then the algorithm alone
    assert calls == once and second.object.parent == folders[1]
    assert [path.read_bytes() for path in (first.runner, first.object)] == [
        path.read_bytes() for path in (second.runner, second.object)
    ]
    assert algorithm.describe(copy, second.runner, second.object).name == "aimd"
    copy.write_text(copy.read_text().replace('"aimd"', '"other"'))
    assert build.compile_header(copy, folders[2]).name == "other" and calls == 2 * once


def test_what_is_wrong_with_a_header_shows_before_anything_boots(registries, tmp_path):
    for name in ("aimd.h", "aimd.py", "aimd.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    with pytest.raises(SpecError, match=r"nic\.parameters\.threshold = 3: .*256\.\."):
        spec.load(tmp_path / "aimd.toml", ["nic.parameters.threshold=3"])
    header = tmp_path / "aimd.h"
    header.write_text(header.read_text().replace("state[0] = 0;", "state[0] = 0"))
    with pytest.raises(SpecError, match=r"aimd\.toml: controller\.name: .*aimd\.h:\d+.*error: expected") as refusal:
        spec.load(tmp_path / "aimd.toml")
    assert "\n" not in str(refusal.value)


@pytest.mark.lab
def test_a_run_with_the_example_keeps_what_it_needs_to_be_run_again(tmp_path, registries, capsys):
    out, brief = tmp_path / "out", ["--set", "time.duration=5ms", "--set", "time.warmup=1ms", "--no-plot", "--quiet"]
    main.main(["run", str(ROOT / "examples" / "aimd.toml"), *brief, "--out", str(out)])
    assert {path.name for path in (out / "code").iterdir()} == {"aimd.h", "aimd.py"}
    controllers._registry.pop("aimd")  # another process knows nothing of it
    usercode._by_digest.clear()
    assert main.main(["verify", str(out), "--quiet", "--trust"]) == 0
    assert "digest" in capsys.readouterr().out and controllers.find("aimd").header == (out / "code" / "aimd.h").resolve()


def test_the_documentation_names_every_algorithm_and_the_presets_of_those_with_a_section():
    """`dcgym nic show` tells the presets of all."""
    text = (ROOT / "docs" / "nic-algorithms.md").read_text()
    headings = " ".join(line for line in text.splitlines() if line.startswith("### "))
    headed_names = [name for name in algorithms.names() if controllers.find(name).label.partition(" (")[0] in headings]
    assert {"dcqcn", "swift", "timely", "hpcc", "powertcp"} <= set(headed_names)
    for name in algorithms.names():
        assert f"`{name}`" in text, name
        if name in headed_names and (runner := PROGRAMS / f"ccrun-{name}").is_file():
            known = algorithm.describe(algorithms.header_of(name), runner, runner)
            assert all(f"`{preset.name}`" in text for preset in known.presets), name
