# SPDX-License-Identifier: Apache-2.0
"""The lab kernel with a patch of the user's. The first build takes ten minutes of CPU, a later one a minute."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from dc_gym.base.progress import Quiet
from dc_gym.kernel import build, headers
from dc_gym.kernel.build import Options, Parts
from dc_gym.run import runner
from dc_gym.spec import load

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(3600)]
SPEC = """
controller.name = "cubic"
kernel.patch = ["half.patch"]
topology = { preset = "dumbbell-10m", buffer = "30kB", delay = "1ms" }
workload.kind = "pairs"
time.duration = "10s"
"""


def patch(cubic: str, change: str, path: Path) -> Path:
    """Writes the patch that turns CUBIC's source into another."""
    names = (f"{side}/{headers.TCPS}/tcp_cubic.c" for side in "ab")
    path.write_text("".join(difflib.unified_diff(cubic.splitlines(keepends=True), change.splitlines(keepends=True), *names)))
    return path


def test_a_patched_kernel_acts_in_the_runs_that_name_it(lab_kernel: Path, tmp_path: Path) -> None:
    cubic = (headers.unpacked(lab_kernel.parent) / headers.TCPS / "tcp_cubic.c").read_text()
    patch(cubic, cubic.replace("int beta __read_mostly = 717;", "int beta __read_mostly = 512;"), tmp_path / "half.patch")
    (tmp_path / "half.toml").write_text(SPEC)
    default = runner.run(load(tmp_path / "half.toml", ["kernel.patch=[]"]), tmp_path / "default", Quiet(), plot=False)
    half = runner.run(load(tmp_path / "half.toml"), tmp_path / "half", Quiet(), plot=False)
    kept = [min(result.records("tcp")["ssthresh_packets"]) for result in (default, half)]
    assert kept == [28 * 717 // 1024, 28 * 512 // 1024]  # of the window at the loss
    assert half.manifest["code"][0]["file"] == "code/half.patch"
    assert half.manifest["environment"]["kernel"] != default.manifest["environment"]["kernel"]
    assert half.manifest["environment"]["programs"] == default.manifest["environment"]["programs"]


def test_a_patch_without_effect_gives_the_default_kernel_to_the_bit(lab_kernel: Path, tmp_path: Path) -> None:
    cubic = (headers.unpacked(lab_kernel.parent) / headers.TCPS / "tcp_cubic.c").read_text()
    own = patch(cubic, f"{cubic}/* no more */\n", tmp_path / "nothing.patch")
    built = build.ensure(Quiet(), options=Options(incremental=True), parts=Parts(own=(own,)))
    assert built.path.read_bytes() == lab_kernel.read_bytes()
