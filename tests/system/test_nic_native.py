# SPDX-License-Identifier: Apache-2.0
"""NICs as machine code of the lab kernel: equal results, what a run says of it, and objects that cannot be used."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import nic_golden
import pytest
from rdma_lab import BAD_LINKS, load, run

from dc_gym.base.errors import LabError, MachineError, SpecError
from dc_gym.base.package import PROGRAMS
from dc_gym.ctrl import controllers
from dc_gym.ctrl.controllers import Controller
from dc_gym.ctrl.nic import algorithms, kernels
from dc_gym.kernel.lab import Lab
from dc_gym.results import fingerprint
from dc_gym.results.results import Result
from dc_gym.spec import nic_configuration

DCQCN = "controller.name=dcqcn"
CASES = {
    "late decisions": ("nic.latency=2us", "nic.decisions=in-turn", "nic.trace=all"),
    "bad links": (*BAD_LINKS, "nic.retransmit=selective", "nic.message=20kB"),
    "lasting queue pairs": ("nic.queue_pairs=hosts", "workload.kind=ring_allreduce", "workload.size=40kB", "workload.rounds=2"),
    "a job": ("workload.kind=job", "workload.collective=all_to_all", "workload.size=40kB", "workload.rounds=2", *BAD_LINKS),
    "under TCP": ("nic.tcp=cubic",),
    "a full queue": (
        *("controller.name=swift", "nic.decisions=in-turn", "nic.event_cost=2us", "nic.event_queue=3", "nic.latency=1us"),
        *BAD_LINKS,
    ),
    "lost events": ("controller.name=swift", "nic.event_loss=10%", "nic.event_coalesce=3", *BAD_LINKS),
}


def both(folder: Path, *settings: str) -> list[Result]:
    return [run(folder, engine, DCQCN, f"nic.engine={engine}", *settings) for engine in ("native", "bpf")]


# --- decisions and results


@pytest.mark.lab
def test_native_code_decides_as_userspace_does(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    loaded = [algorithms.load(name, PROGRAMS) for name in algorithms.names()]
    cases = [case for algorithm in loaded for case in islice(nic_golden.of(algorithm, 1, tmp_path), 5)]
    short = [replace(case, steps=case.steps[:300], made=case.made[:300]) for case in cases]
    assert list(nic_golden.differing(kernels.run_in_lab, short, native=True)) == []
    wrong = replace(short[0], made=[replace(row, rate=row.rate + 1) for row in short[0].made])
    assert len(list(nic_golden.differing(kernels.run_in_lab, [wrong], native=True))) == 1


@pytest.mark.lab
@pytest.mark.parametrize("name", algorithms.names())
def test_each_algorithm_s_run_has_the_digest_of_its_run_in_bpf(tmp_path: Path, name: str) -> None:
    native, bpf = both(tmp_path, f"controller.name={name}")
    assert native.manifest["digest"] == bpf.manifest["digest"]
    assert native.records("decisions").size


@pytest.mark.lab
@pytest.mark.parametrize("case", CASES)
def test_all_parts_of_the_data_path_have_the_digests_of_bpf(tmp_path: Path, case: str) -> None:
    native, bpf = both(tmp_path, *CASES[case])
    assert native.manifest["digest"] == bpf.manifest["digest"]


@pytest.mark.lab
def test_more_memory_than_32_bits_address_is_no_limit(tmp_path: Path) -> None:
    native, bpf = both(tmp_path, "lab.memory=5GB")
    assert native.manifest["digest"] == bpf.manifest["digest"]


@pytest.mark.lab
def test_a_manifest_says_which_code_ran(tmp_path: Path) -> None:
    native, bpf = both(tmp_path)
    for result, engine, name in ((native, "native", "nic-dcqcn.native"), (bpf, "bpf", "nic-dcqcn.bpf.o")):
        assert result.manifest["nic"]["engine"] == engine
        assert result.manifest["nic"]["object"] == hashlib.sha256((PROGRAMS / name).read_bytes()).hexdigest()


# --- what a spec may ask for


def test_an_engine_is_chosen_by_where_and_what_runs(tmp_path: Path) -> None:
    assert nic_configuration.native_object(load(tmp_path, DCQCN)) == PROGRAMS / "nic-dcqcn.native"
    assert nic_configuration.native_object(load(tmp_path, DCQCN, "nic.engine=bpf")) is None
    assert nic_configuration.native_object(load(tmp_path, DCQCN, "ground=host")) is None
    assert nic_configuration.native_object(load(tmp_path, "controller.name=cubic")) is None
    with pytest.raises(SpecError, match=r'nic\.engine = "native"'):
        nic_configuration.check(load(tmp_path, DCQCN, "ground=host", "nic.engine=native"), 10**9)
    with pytest.raises(SpecError, match=r"nic\.engine.*native, bpf"):
        load(tmp_path, DCQCN, "nic.engine=fast")


def test_a_header_of_the_user_is_bpf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "_registry", dict(controllers._registry))
    header = algorithms.header_of("fixed").read_text().replace('"fixed"', '"mine"')
    (tmp_path / "mine.h").write_text(header)
    controllers.register(Controller("mine", "", ecn=False, nic=True, header=tmp_path / "mine.h"))
    dcqcn_spec = load(tmp_path, DCQCN)
    user_spec = replace(dcqcn_spec, controller=replace(dcqcn_spec.controller, name="mine"))
    assert nic_configuration.native_object(user_spec) is None
    with pytest.raises(SpecError, match=r"mine .*BPF; leave it out"):
        nic_configuration.check(replace(user_spec, nic=replace(user_spec.nic, engine="native")), 10**9)


def test_an_object_that_is_missing_or_older_than_its_header_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped = (PROGRAMS / fingerprint.STAMP).read_text()
    for name in ("ctrl/nic/algorithms/dcqcn/dcqcn.h", "ctrl/nic/native.c", "ctrl/nic/native.ld", "kernel/drivers/nic_native.h"):
        assert f"  {name}\n" in stamped
    dcqcn_spec = load(tmp_path, DCQCN)
    monkeypatch.setattr(algorithms, "PROGRAMS", tmp_path)
    with pytest.raises(MachineError, match=r"^nic-dcqcn\.native.*`make programs`$"):
        nic_configuration.native_object(dcqcn_spec)


# --- what the kernel takes


def spoilt(at: int, value: int) -> Callable[[bytes], bytes]:
    """Returns a change of one word of struct nic_native_head."""
    return lambda data: data[:at] + struct.pack("<Q", value) + data[at + 8 :]


@pytest.mark.lab
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: None, "cannot be opened (error 2); run `make programs`"),
        (lambda data: data[:40], "is no native object; run `make programs`"),
        (spoilt(0, 1), "is no native object; run `make programs`"),
        (spoilt(8, 99), "is of version 99, this kernel takes 1; run `make programs`"),
        (lambda data: data[:-100], "bytes of"),
        (spoilt(24, 1 << 40), "is damaged; run `make programs`"),
        (spoilt(32, 1 << 40), "is damaged; run `make programs`"),
        (spoilt(48, 1 << 40), "is damaged; run `make programs`"),
    ],
)
def test_a_lab_does_not_boot_with_an_object_that_cannot_be_used(
    lab_config: Callable[..., Any], tmp_path: Path, change: Callable[[bytes], bytes | None], message: str
) -> None:
    path = tmp_path / "bad.native"
    bad = change((PROGRAMS / "nic-dcqcn.native").read_bytes())
    if bad is not None:
        path.write_bytes(bad)
    with Lab(lab_config(["/bin/true"], native=(path,))) as lab, pytest.raises(LabError) as raised:
        lab.wait()
    first = str(raised.value).splitlines()[0]
    assert first.startswith(f"the lab did not boot: lab_native: {path} ") and message in first


@pytest.mark.lab
def test_a_relocation_that_leaves_the_object_ends_the_boot(lab_config: Callable[..., Any], tmp_path: Path) -> None:
    data = (PROGRAMS / "nic-dcqcn.native").read_bytes()
    (table,) = struct.unpack_from("<Q", data, 32)
    for at in (0, 8, 16):
        path = tmp_path / f"{at}.native"
        path.write_bytes(spoilt(table + at, 1 << 40)(data))
        with Lab(lab_config(["/bin/true"], native=(path,))) as lab, pytest.raises(LabError, match=f"{path} is damaged"):
            lab.wait()


LOADS = """
import subprocess
from dc_gym.base.package import PROGRAMS
def load(algorithm, maps):
    files = f"--object={PROGRAMS}/nic-{maps}.bpf.o", f"--native={PROGRAMS}/nic-{algorithm}.native"
    done = subprocess.run([PROGRAMS / "cctest", *files, "--words=0"], input="", capture_output=True, text=True)
    print(done.returncode, done.stderr.strip())
load("dcqcn", "dcqcn")
load("swift", "swift")
load("rlcc-tree", "dcqcn")
"""


@pytest.mark.lab
def test_programs_run_on_objects_of_the_boot_alone_and_on_maps_that_fit(in_lab: Callable[..., Any]) -> None:
    native = [PROGRAMS / f"nic-{name}.native" for name in ("dcqcn", "rlcc-tree")]
    known, unknown, misfit = in_lab(LOADS, native=native).lines
    assert known == "0 "
    assert unknown == f"2 cctest: {PROGRAMS}/nic-swift.native: this lab was booted without it"
    assert misfit == f"2 cctest: {PROGRAMS}/nic-rlcc-tree.native: Invalid argument"


@pytest.mark.lab
def test_a_loader_says_that_its_lab_was_booted_without_the_object(in_nics: Callable[..., Any], tmp_path: Path) -> None:
    body = f"""
import subprocess
nic.write([Flow("h1", "h2", 10_000)])
Path("/tmp/new.native").write_bytes(Path("{PROGRAMS}/nic-fixed.native").read_bytes() + b"new")
argv = [PROGRAMS / "nicd", "--object={PROGRAMS}/nic-fixed.bpf.o", f"--nics={{FOLDER / 'nics'}}", "--native=/tmp/new.native"]
done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
out = [done.returncode, done.stderr]
"""
    status, message = in_nics(body, hosts=2)
    assert status == 1
    why = "this lab was booted without it, or it was built anew since"
    assert message == f"nicd: load nic_depart of /tmp/new.native: {why}\n"
