# SPDX-License-Identifier: Apache-2.0
"""`dcgym topology`: what it prints of a network, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym.cli import main
from dc_gym.topologies.presets import PRESETS


def told(capsys, *argv):
    code = main.main(["topology", *argv])
    out, err = capsys.readouterr()
    return code, [line.split() for line in out.splitlines()], err


def row(lines, *start):
    return next(line for line in lines if line[: len(start)] == list(start))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_described(capsys, name):
    code, lines, _ = told(capsys, name)
    assert code == 0 and row(lines, "topology")[1] == f"{name},"


def test_a_dumbbell_in_numbers(capsys):
    """A frame takes 1211.2 us at 10 Mbit/s and 10 us of a link's delay, an ACK of 66 bytes 52.8: 1284 us a link."""
    _, lines, _ = told(capsys, "dumbbell-10m")
    assert row(lines, "base", "RTT")[2:4] == ["3.852", "ms:"]
    assert row(lines, "2", "h1-h2") == ["2", "h1-h2", "2", "2.4424", "ms", "2.568", "ms", "10Mbit/s"]
    assert row(lines, "4", "h1-h3") == ["4", "h1-h3", "3", "3.6636", "ms", "3.852", "ms", "10Mbit/s"]
    bdp = 3852e-6 * 1e7 / 8
    assert row(lines, "6", "edge")[2:6] == ["10Mbit/s", "400kB", "264.2", f"{400_000 / bdp:.3g}"]
    assert row(lines, "6", "edge")[6:] == f"step at K = 3028 B = 2 frames = {3028 / bdp:.3g} BDP".split()


def test_overrides_scale_and_what_does_not_follow(capsys):
    _, lines, _ = told(capsys, "acc24", "--set", "topology.scale=10", "--set", "topology.loss=0.1%")
    assert row(lines, "48", "host-edge") == ["48", "host-edge", "2.5Gbit/s", "5.5", "us", "loss", "0.1%"]
    assert row(lines, "scale")[1] == "10:" and ["not", "scale-free:"] in lines
    assert row(lines, "TCP's", "shortest")[3:7] == ["timeout:", "200", "ms", "="]
    _, lines, _ = told(capsys, "acc24", "--set", "topology.scale=10", "--set", "controller.rto_min=1.5ms")
    assert row(lines, "TCP's", "shortest")[3:7] == ["timeout:", "1.5", "ms", "="]
    assert row(lines, "its", "first", "one,")[9:11] == ["1000", "ms"]


def test_every_plane_has_its_pairs(capsys):
    """acc24: 24 servers in two racks, each on a leaf of either plane; h1 and h2 share theirs, h1 and h13 do not."""
    _, lines, _ = told(capsys, "acc24")
    for plane in ("0", "1"):
        assert row(lines, plane, "132")[2:4] == ["h1-h2", "2"]
        assert row(lines, plane, "144")[2:4] == ["h1-h13", "4"]
    _, lines, _ = told(capsys, "acc24a")
    assert row(lines, "pairs") and row(lines, "132", "h1-h2")


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("new/folder/a.pdf", b"%PDF"), ("a.SVG", b"<?xml")])
def test_a_drawing(capsys, tmp_path, name, start):
    code, lines, _ = told(capsys, "acc24a", "--png", str(tmp_path / name))
    assert code == 0 and (tmp_path / name).read_bytes().startswith(start)
    assert lines[-1] == ["drawn", str(tmp_path / name)]


def test_the_same_drawing_has_the_same_bytes(capsys, tmp_path):
    for suffix in ("pdf", "svg"):
        for name in "ab":
            told(capsys, "dumbbell-10m", "--png", str(tmp_path / f"{name}.{suffix}"))
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_a_user_without_a_home_can_draw(tmp_path):
    """Without a home, matplotlib would print where its cache is, and fc-list that it has none for new fonts."""
    listing = tmp_path / "bin" / "fc-list"
    listing.parent.mkdir()
    listing.write_text("#!/bin/sh\necho --format; echo 'Fontconfig error: No writable cache directories' >&2\n")
    listing.chmod(0o755)
    env = {"PATH": f"{listing.parent}:{os.environ['PATH']}", "HOME": "/dev/null"}
    argv = [sys.executable, "-m", "dc_gym.cli.main", "topology", "dumbbell-10m", "--png", "a.png"]
    process = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert process.stderr == "" and "drawn      a.png" in process.stdout


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["acc25"], "'acc25' is neither a file nor a preset; did you mean acc24, "),
        (["missing.toml"], "missing.toml: cannot read the spec"),
        (["acc24", "--set", "topology.uplinks=0"], "topology.uplinks = 0: is below 1"),
        (["acc24", "--set", "topology.rate=20000Gbit/s"], "is above 10000Gbit/s"),
        (["acc24", "--set", "topology.delay=11s"], "is above 10s"),
        (["acc24", "--png", "x.xyz"], "x.xyz: a figure's name ends in .png, .pdf, .svg"),
        (["acc24", "--png", "x"], "x: a figure's name ends in .png, .pdf, .svg"),
    ],
)
def test_refused(capsys, argv, words):
    code, lines, err = told(capsys, *argv)
    assert (code, lines) == (2, []) and words in err and err.count("\n") == 1


def test_a_file_of_a_presets_name_is_the_file(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (
        '[topology]\npreset = "dctcp-10g"\n[controller]\nname = "nv"\n[workload]\nkind = "many_to_one"\n[time]\nduration = "1s"\n'
    )
    Path("acc24").write_text(text)
    _, lines, _ = told(capsys, "acc24")
    assert row(lines, "topology")[1] == "dctcp-10g,"


@pytest.mark.parametrize("name", ["dumbbell", "fattree", "two_racks", "ring"])
@pytest.mark.usefixtures("registries")
def test_the_examples_are_networks(capsys, name):
    code, lines, _ = told(capsys, str(Path(__file__).parents[2] / "examples" / f"{name}.toml"))
    assert code == 0 and row(lines, "base", "RTT")
