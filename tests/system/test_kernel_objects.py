# SPDX-License-Identifier: Apache-2.0
"""TCPs of one's own as objects that the lab kernel reads at boot, and what compiler and kernel refuse."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dc_gym.base.errors import KernelError, LabError, SpecError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.kernel import headers, objects
from dc_gym.learn.session import Session
from dc_gym.run import runner
from dc_gym.spec import load

pytestmark = pytest.mark.lab
ROOT = Path(__file__).parents[2]
NAMES = "print(open('/proc/sys/net/ipv4/tcp_available_congestion_control').read())"
LOSSY = """
topology = { preset = "dumbbell-10m", buffer = "30kB", delay = "1ms" }
workload.kind = "pairs"
time.duration = "2s"
"""
BASE_RTT_NS = 8_050_000  # four delays of 2 ms, and the frames' times on two links of 1 Gbit/s each way
RANDOM_LOSS = """
topology = { kind = "single", hosts = 2, rate = "1Gbit/s", delay = "2ms", buffer = "2MB", loss = "0.05%" }
workload = { kind = "many_to_one", senders = 1 }
monitor.interval = "1ms"
time.duration = "3s"
"""
HEAD = struct.Struct("=7Q20sI")
HEADER = (Path(objects.__file__).parent / "drivers/lab_object.h").read_text()


@pytest.fixture(scope="module")
def kernel(lab_kernel: Path) -> Path:
    return lab_kernel.parent


@pytest.fixture(scope="module")
def cubic(kernel: Path) -> str:
    return (headers.unpacked(kernel) / headers.TCPS / "tcp_cubic.c").read_text()


@pytest.fixture
def make(kernel: Path, tmp_path: Path) -> Callable[..., Path]:
    """Compiles texts of C, each into a file of its own, to one object."""

    def build_texts(*texts: str, name: str = "object") -> Path:
        tmp_path.chmod(0o755)
        sources = []
        for number, text in enumerate(texts):
            sources.append(tmp_path / f"tcp_{number}.c")
            sources[-1].write_text(text)
        objects.build(kernel, sources, tmp_path / name)
        return tmp_path / name

    return build_texts


STATE = """
struct large { u64 a[14]; };
static struct large *of(struct sock *sk) { return inet_csk_ca(sk); }
static int first(struct sock *sk) { return of(sk)->a[0]; }
"""


def named(cubic: str, name: str) -> str:
    return cubic.replace('"cubic"', f'"{name}"')


def tiny(body: str = "return tcp_register_congestion_control(&mine);", more: str = "") -> str:
    """Returns a TCP that is Reno, with this body of its module_init()."""
    return f"""
#include <linux/module.h>
#include <net/tcp.h>
{more}
static struct tcp_congestion_ops mine = {{
	.name = "tiny", .ssthresh = tcp_reno_ssthresh, .cong_avoid = tcp_reno_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd,
}};
static int __init start(void)
{{
	{body}
}}
module_init(start);
"""


def test_the_header_s_numbers_are_those_of_the_compiler_s_side() -> None:
    numbers = dict(re.findall(r"#define (LAB_OBJECT_\w+)\s+(\w+)", HEADER))
    assert int(numbers["LAB_OBJECT_MAGIC"].removesuffix("ull"), 16) == objects.MAGIC
    assert (numbers["LAB_OBJECT_ABI"], numbers["LAB_OBJECT_ID_BYTES"]) == (str(objects.ABI), str(objects.ID_BYTES))
    assert "(512u << 10)" in HEADER and objects.REGION_BYTES == 512 << 10


def test_cubic_under_another_name_has_the_records_of_cubic(cubic: str, tmp_path: Path, registries: None) -> None:
    (tmp_path / "tcp_mine.c").write_text(named(cubic, "mycubic"))
    results = []
    for name in ("cubic", "mycubic"):
        path = tmp_path / f"{name}.toml"
        path.write_text(f'plugins = ["tcp_mine.c"]\ncontroller.name = "{name}"\n{LOSSY}')
        results.append(runner.run(load(path), tmp_path / f"out-{name}", Quiet(), plot=False))
    original, renamed = results
    assert original.summary["drops"] > 0 and original.records("tcp")["retransmits"].any()
    for table in ("flows", "queues", "tcp"):
        a, b = original.records(table), renamed.records(table)
        columns = [column for column in a.dtype.names or () if column != "controller"]
        assert len(a) and all((a[column] == b[column]).all() for column in columns)
    assert set(renamed.arrow("flows").column("controller").to_pylist()) == {"mycubic"}
    assert "tcp" not in original.manifest["environment"] and "tcp" in renamed.manifest["environment"]


def test_a_result_keeps_a_tcp_and_runs_it_again(tmp_path: Path, registries: None) -> None:
    """The example by Python and with a header of its own: relative to the plug-in, in the result, and again from the result."""
    source = (ROOT / "examples" / "tcp_mine.c").read_text()
    constant = "#define KEPT_PERCENT\t70\t/* of the window at a loss */\n"
    assert constant in source
    folder = tmp_path / "plug"
    folder.mkdir()
    (folder / "mine.h").write_text(constant)
    (folder / "tcp_mine.c").write_text(source.replace(constant, '#include "mine.h"\n'))
    (folder / "mine.py").write_text(
        "from dc_gym.ctrl.controllers import Controller, register\n"
        "register(Controller('mine', tcp=('tcp_mine.c', 'mine.h'), label='Mine'))\n"
    )
    (folder / "mine.toml").write_text(f'plugins = ["mine.py"]\ncontroller.name = "mine"\n{RANDOM_LOSS}')
    first = runner.run(load(folder / "mine.toml"), tmp_path / "first", Quiet(), plot=False)
    assert [row["file"] for row in first.manifest["code"]] == ["code/mine.py", "code/tcp_mine.c", "code/mine.h"]
    (folder / "mine.h").write_text(constant.replace("70", "50"))
    changed = runner.run(load(folder / "mine.toml"), tmp_path / "changed", Quiet(), plot=False)
    assert changed.digest != first.digest and changed.manifest["fingerprint"] != first.manifest["fingerprint"]


def test_the_example_adds_one_segment_a_round_trip_and_keeps_70_percent(tmp_path: Path, registries: None) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'plugins = ["{ROOT}/examples/tcp_mine.c"]\ncontroller.name = "mine"\n{RANDOM_LOSS}')
    rows = runner.run(load(path), tmp_path / "out", Quiet(), plot=False).records("tcp")
    window, threshold, t_ns = (rows[name].astype(int) for name in ("cwnd_packets", "ssthresh_packets", "t_ns"))
    losses = [n for n in range(1, len(rows)) if threshold[n] != threshold[n - 1]]
    assert len(losses) > 10
    for n in losses[1:]:  # the window was one of those between the two samples
        assert threshold[n] in range(window[n] * 70 // 100, (window[n - 1] + 1) * 70 // 100 + 1)
    first, last = max(pairwise(losses), key=lambda pair: pair[1] - pair[0])
    first += 30  # the loss is repaired by then
    grown, round_trips = window[last - 1] - window[first], (t_ns[last - 1] - t_ns[first]) / BASE_RTT_NS
    assert round_trips > 20 and abs(grown - round_trips) <= 0.02 * round_trips + 1


@pytest.mark.parametrize(
    "fault, facts",
    [
        ("for (;;) barrier();", "the lab hangs"),
        ("for (;;) tcp_slow_start(tp, 1);", "the lab hangs"),
        ("*(volatile u32 *)16 = acked;", "the lab kernel panicked: Segfault"),
        ("tcp_slow_start(NULL, 1);", "the lab kernel panicked: Segfault"),
        ("BUG();", "the lab kernel panicked: BUG!"),
    ],
)
def test_a_tcp_that_hangs_or_crashes_the_kernel_is_named_with_function_and_line(
    fault: str, facts: str, tmp_path: Path, registries: None
) -> None:
    source = (ROOT / "examples" / "tcp_mine.c").read_text()
    first = "if (!tcp_is_cwnd_limited(sk))"
    assert source.count(first) == 1
    (tmp_path / "tcp_mine.c").write_text(source.replace(first, f"{fault}\n\t{first}"))
    line = source[: source.index(first)].count("\n") + 1
    (tmp_path / "mine.toml").write_text(f'plugins = ["tcp_mine.c"]\ncontroller.name = "mine"\nlab.watchdog = "2s"\n{LOSSY}')
    with pytest.raises(LabError, match=rf"{facts}.*mine_cong_avoid\(\) at tcp_mine\.c:{line}\b"):
        runner.run(load(tmp_path / "mine.toml"), tmp_path / "out", Quiet(), plot=False)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    "text, facts",
    [
        ("int x;", r"tcp_mine\.c.*\.name.*none"),
        ('a.name = "b"; c.name = "d";', r"tcp_mine\.c.*'b', 'd'"),
        ('// .name = "x"\na.name = "cubic";', r"tcp_mine\.c.*'cubic'.*another name"),
        ('a.name = "Mine it";', r"tcp_mine\.c.*'Mine it'.*1 to 15"),
    ],
)
def test_a_plug_in_that_is_no_tcp_is_one_line(text: str, facts: str, tmp_path: Path, registries: None) -> None:
    (tmp_path / "tcp_mine.c").write_text(text)
    (tmp_path / "mine.toml").write_text(f'plugins = ["tcp_mine.c"]\ncontroller.name = "mine"\n{LOSSY}')
    with pytest.raises(SpecError, match=facts) as error:
        load(tmp_path / "mine.toml")
    assert "\n" not in str(error.value)


def test_what_a_tcp_may_not_include_and_where_it_cannot_run(tmp_path: Path, kernel: Path, registries: None) -> None:
    (tmp_path / "mine.h").write_text("")
    (tmp_path / "tcp_mine.c").write_text(f'#include "mine.h"\n{tiny()}')
    with pytest.raises(UsageError, match=r"tcp_mine\.c: it includes mine\.h.*tcp="):
        objects.build(kernel, [tmp_path / "tcp_mine.c"], tmp_path / "object")
    objects.build(kernel, [tmp_path / "tcp_mine.c", tmp_path / "mine.h"], tmp_path / "object")
    (tmp_path / "mine.toml").write_text(f'plugins = ["tcp_mine.c"]\ncontroller.name = "tiny"\nground = "host"\n{LOSSY}')
    with pytest.raises(SpecError, match=r'controller\.name.*"tiny".*on ground "host"'):
        load(tmp_path / "mine.toml")


def test_an_environment_runs_a_tcp_of_one_s_own(tmp_path: Path, registries: None) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'plugins = ["{ROOT}/examples/tcp_mine.c"]\ncontroller.name = "mine"\n{LOSSY}')
    with Session(load(path)) as session:
        frame = session.begin(seed=1)
        for _ in range(20):
            frame = session.step(frame.enforced)
        assert (frame.flows["acked_bytes"] > 0).all()


def test_several_sources_are_one_object(in_lab: Callable[..., Any], make: Callable[..., Path], cubic: str) -> None:
    ran = in_lab(NAMES, object=make(named(cubic, "mycubic"), tiny()))
    assert {"mycubic", "tiny", "cubic", "agent"} <= set(ran.text.split())


@pytest.mark.parametrize(
    "text, message",
    [
        (
            tiny(more="int cubictcp_recalc_ssthresh(void);", body="return cubictcp_recalc_ssthresh();"),
            "symbol 'cubictcp_recalc_ssthresh'",
        ),
        (tiny(more='static int mine_too __attribute__((section("odd"), used)) = 1;'), "section 'odd'"),
        (tiny(more="static char table[600 << 10];", body="table[jiffies % 7] = 1; return table[5];"), "512 KiB"),
        (tiny(body="return nothing;"), "line 10: 'nothing' undeclared"),
        (tiny().replace("module_init(start);", ""), "module_init()"),
        (tiny(more=STATE, body="return first(NULL);"), "struct large, has 112 bytes, and a socket has room for 104"),
        (
            tiny(more=STATE.replace("a[14]", "a[13]"), body="BUILD_BUG_ON(sizeof(struct large) > 96); return 0;"),
            "BUILD_BUG_ON failed",
        ),
    ],
)
def test_what_cannot_become_an_object_is_told_in_one_line(make: Callable[..., Path], text: str, message: str) -> None:
    with pytest.raises(KernelError) as error:
        make(text)
    assert message in str(error.value) and str(error.value).startswith("tcp_0.c: ") and "\n" not in str(error.value)


def test_a_name_that_two_sources_define_is_told(make: Callable[..., Path]) -> None:
    with pytest.raises(KernelError, match="symbol 'twice' is defined twice"):
        make(tiny(more="int twice(void); int twice(void) { return 1; }"), "int twice(void); int twice(void) { return 2; }\n")


def test_a_source_that_is_not_there(kernel: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.c: no such file"):
        objects.build(kernel, [tmp_path / "none.c"], tmp_path / "object")


def damaged(whole: bytes, **changes: Any) -> bytes:
    names = ("magic", "abi", "base", "file_bytes", "memory_bytes", "calls_at", "calls_bytes", "kernel", "reserved")
    values = dict(zip(names, HEAD.unpack_from(whole), strict=True)) | changes
    return HEAD.pack(*values.values()) + whole[HEAD.size :]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"magic": 1}, "is no object of the lab kernel"),
        ({"abi": 9}, "is of version 9, this kernel takes 1"),
        ({"kernel": bytes(20)}, "is for the kernel with build id " + "00" * 20),
        ({"memory_bytes": 1 << 40}, "takes 1099511627776 bytes of memory"),
        ({"calls_bytes": 1 << 63}, "is damaged"),
        ({"calls_at": 2**64 - 8}, "is damaged"),
        ({"calls_bytes": 0}, "has no module_init()"),
    ],
)
def test_a_file_that_the_kernel_cannot_use_ends_the_boot(
    in_lab: Callable[..., Any], make: Callable[..., Path], change: dict[str, Any], message: str
) -> None:
    path = make(tiny())
    path.write_bytes(damaged(path.read_bytes(), **change))
    with pytest.raises(LabError, match="the lab did not boot: lab_object: ") as error:
        in_lab(NAMES, object=path)
    assert message in str(error.value)


def test_a_name_that_linux_has_is_refused(in_lab: Callable[..., Any], make: Callable[..., Path], cubic: str) -> None:
    with pytest.raises(LabError, match=r"module_init\(\).*error 17.*name"):
        in_lab(NAMES, object=make(cubic))
