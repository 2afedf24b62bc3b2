# SPDX-License-Identifier: Apache-2.0
"""Code of a result or a training runs if its content is known: a download makes its user the owner of what others wrote."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic

from dc_gym import spec as specs
from dc_gym.base import trusted
from dc_gym.base.errors import SpecError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.base.trusted import Item, Kind
from dc_gym.cli import main
from dc_gym.cli.verify import verify
from dc_gym.kernel.cache import cache_dir
from dc_gym.learn.rllib import checkpoints
from dc_gym.results.results import write_graph
from dc_gym.run.sweep import cluster, grid
from dc_gym.run.sweep import command as sweep
from dc_gym.run.sweep.pool import Cell
from dc_gym.spec.result_code import items_of, require_safe

PLUGIN = """
import pathlib
pathlib.Path({mark!r}).write_text("ran")
from dc_gym.ctrl.controllers import Controller, register
register(Controller("mine", "reno", ecn=False))
"""


class Evil:
    """A pickle that makes a folder when it is read."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._mark),)


@pytest.fixture(autouse=True)
def victim(registries: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the test a list of its own, which is empty, and makes files those of the caller alone, whatever the umask."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(trusted, "_note_shown", False)
    monkeypatch.delenv("SUDO_UID", raising=False)
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that hostile code makes if it runs."""
    return tmp_path / "ran"


@pytest.fixture
def rerun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets verify load the spec, which runs its plug-ins, and run nothing else."""
    monkeypatch.setattr(verify.runner, "run", lambda spec, out, *_, **__: synthetic.result(out))
    monkeypatch.setattr(verify, "scratch", lambda *_: nullcontext(tmp_path / "scratch"))


def a_result(folder: Path, mark: Path) -> Path:
    """Returns a result whose spec names a plug-in that makes `mark`."""
    run_result = synthetic.result(folder)
    (folder / "code").mkdir()
    put_code(folder, PLUGIN.format(mark=str(mark)), run_result.manifest["spec"] | {"plugins": ["code/mine.py"]})
    return folder


def put_code(folder: Path, source: str, spec: object = None) -> None:
    """Writes the plug-in of a result together with what its manifest says of it."""
    (folder / "code" / "mine.py").write_text(source)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["code"] = [{"file": "code/mine.py", "sha256": hashlib.sha256(source.encode()).hexdigest()}]
    path.write_text(json.dumps(manifest | ({"spec": spec} if spec else {})))


def downloaded(folder: Path, unpacked: Path) -> Path:
    """Returns the folder after it went through an archive, which makes the caller its owner."""
    with tarfile.open(unpacked.with_suffix(".tar"), "w") as archive:
        archive.add(folder, "download")
    shutil.rmtree(folder)
    unpacked.mkdir()
    subprocess.run(["tar", "xf", unpacked.with_suffix(".tar"), "--no-same-owner"], cwd=unpacked, check=True)
    return unpacked / "download"


@pytest.mark.usefixtures("rerun")
def test_an_unpacked_result_runs_only_with_trust(tmp_path: Path, mark: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = downloaded(a_result(tmp_path / "theirs", mark), tmp_path / "unpacked")
    for words in (["verify", str(folder)], ["run", str(folder / "manifest.json"), "--out", str(tmp_path / "new")]):
        assert main.main([*words, "--quiet"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "its spec runs code/mine.py (SHA-256 " in err and "add --trust" in err
        assert not mark.exists()
    assert main.main(["verify", str(folder), "--quiet", "--trust"]) == 0
    assert mark.exists() and "download runs code/mine.py (SHA-256 " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["export", "train"])
def test_an_unpacked_training_is_read_only_with_trust(
    tmp_path: Path, mark: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "theirs" / "checkpoints" / "iteration-000001"
    module = checkpoint / "learner_group" / "learner" / "rl_module" / "default_policy"
    module.mkdir(parents=True)
    (module / "class_and_ctor_args.pkl").write_bytes(pickle.dumps(Evil(mark)))
    settings = {"agents": "central", "policies": "shared", "seed": 1}
    about = {"version": 2, "settings": settings, "algorithm": "PPO", "fingerprint": ""}
    (tmp_path / "theirs" / "train.json").write_text(json.dumps(about))
    folder = downloaded(tmp_path / "theirs", tmp_path / "unpacked")
    words = {"export": ["export", str(folder)], "train": ["train", "SPEC", "--resume", "--out", str(folder)]}
    assert main.main(words[command]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "which run code of whoever wrote them" in err and "add --trust" in err
    assert not mark.exists()


class Algorithm:
    """A stand-in for RLlib's: its checkpoint is one file."""

    def save_to_path(self, path: str, state: object) -> None:
        (Path(path) / "state.pkl").write_bytes(pickle.dumps(state))


def test_ones_own_checkpoints_and_their_copies_are_read(tmp_path: Path) -> None:
    checkpoint = checkpoints.save(Algorithm(), checkpoints.TrainingState(1, 100, pickle.dumps("x")), tmp_path / "own", keep=1)
    shutil.copytree(tmp_path / "own", tmp_path / "copy")
    (copy,) = checkpoints.find(tmp_path / "copy")
    assert checkpoints.require_trusted(checkpoint, trust=False) == checkpoints.require_trusted(copy, trust=False) == []
    (copy / "state.pkl").write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    with pytest.raises(UsageError, match="add --trust"):
        checkpoints.require_trusted(copy, trust=False)


def remember_code(folder: Path) -> None:
    """Puts the plug-in of a result into the list."""
    assert trusted.remember([Item.of(Kind.CODE, (folder / "code" / "mine.py").read_bytes(), "mine.py")]) is None


def refusal(folder: Path) -> str:
    """Returns the line with which the result's spec is refused."""
    with pytest.raises(UsageError) as excinfo:
        specs.load(folder / "manifest.json")
    return str(excinfo.value)


@pytest.mark.usefixtures("rerun")
def test_copies_of_ones_own_run_and_changed_ones_do_not(tmp_path: Path, mark: Path) -> None:
    original, copy = a_result(tmp_path / "own", mark), tmp_path / "copy"
    remember_code(original)
    shutil.copytree(original, copy)
    assert main.main(["verify", str(copy), "--quiet"]) == 0 and mark.exists()
    mark.unlink()
    put_code(copy, (copy / "code" / "mine.py").read_text() + "\n")  # the attack: file and manifest are changed together
    assert "its spec runs code/mine.py" in refusal(copy) and not mark.exists()


@pytest.mark.usefixtures("rerun")
def test_what_trust_allowed_once_counts_as_run(tmp_path: Path, mark: Path) -> None:
    folder = a_result(tmp_path / "theirs", mark)
    assert main.main(["verify", str(folder), "--quiet", "--trust"]) == 0
    assert specs.load(folder / "manifest.json").plugins


@pytest.mark.usefixtures("rerun")
def test_a_patch_of_the_kernel_is_code(tmp_path: Path, mark: Path) -> None:
    folder = a_result(tmp_path / "theirs", mark)
    written = json.loads((folder / "manifest.json").read_text())["spec"]
    del written["plugins"]
    put_code(folder, "a patch", written | {"kernel": {"patch": ["code/mine.py"]}})
    assert "its spec runs code/mine.py" in refusal(folder)
    put_code(folder, "a patch", written | {"kernel": {"patch": ["code/other.patch"]}})
    with pytest.raises(SpecError, match=r"kernel\.patch.*'code/other\.patch'"):
        specs.load(folder / "manifest.json", trust=True)


def test_a_file_that_known_code_could_import_is_refused(tmp_path: Path, mark: Path) -> None:
    folder = a_result(tmp_path / "theirs", mark)
    remember_code(folder)
    (folder / "code" / "helper.py").write_text("")
    with pytest.raises(SpecError, match=r"code/helper\.py.*remove it"):
        specs.load(folder / "manifest.json", trust=True)
    assert not mark.exists()


def with_program(folder: Path, command: str) -> dict[str, Any]:
    """Returns the manifest of a made-up result, with a program to run."""
    manifest = synthetic.result(folder).manifest
    return manifest | {"spec": manifest["spec"] | {"workload": {"kind": "pairs", "exec": [{"host": "h1", "command": command}]}}}


def test_programs_count_by_the_text_of_the_command_and_by_their_files(tmp_path: Path) -> None:
    tool = tmp_path / "tool.sh"
    tool.write_text("#!/bin/sh\n")
    text = "[[workload.exec]]\nhost = 'h1'\ncommand = './tool.sh --fast'\n"
    text = f"topology.preset = 'dumbbell-10m'\ncontroller.name = 'nv'\ntime.duration = '1s'\nworkload.kind = 'none'\n{text}"
    (tmp_path / "spec.toml").write_text(text)
    tool.chmod(0o755)
    trusted.remember(items_of(specs.load(tmp_path / "spec.toml")))
    source, manifest = tmp_path / "a" / "manifest.json", with_program(tmp_path / "a", f"{tool} --fast")
    assert require_safe(source, manifest) == [f"a runs the program {f'{tool} --fast'!r} in h1"]
    for command in (f"{tool} --slow", "./tool.sh --fast", f"sh -c '{tool} --fast'"):
        shutil.copy(tool, tmp_path / "a")
        with pytest.raises(UsageError, match=r"its spec runs the program .* does not have it"):
            require_safe(source, with_program(tmp_path / "b", command))
        shutil.rmtree(tmp_path / "b")
    tool.write_text("#!/bin/sh\ntouch hostile\n")
    with pytest.raises(UsageError, match="does not have it"):
        require_safe(source, manifest)


def test_modules_count_by_name_and_those_of_this_package_always(tmp_path: Path) -> None:
    base = synthetic.result(tmp_path / "a").manifest

    def check(policy: str) -> list[str]:
        return require_safe(tmp_path / "a" / "manifest.json", base | {"spec": base["spec"] | {"controller": {"policy": policy}}})

    with pytest.raises(UsageError, match="module somebodys"):
        check("somebodys:Agent")
    trusted.remember([Item.of(Kind.MODULE, b"somebodys", "somebodys")])
    assert check("somebodys:Agent") == ["a imports the module somebodys"]
    assert check("dc_gym.run.agent.policies:Any") == ["a imports the module dc_gym.run.agent.policies"]
    with pytest.raises(UsageError, match="as you"):
        check("dc_gymnastics:Agent")


READERS: dict[str, Callable[[Path, Path], list[str]]] = {
    "verify": lambda a, b: ["verify", f"{a}", "--against", f"{b}", "--quiet"],
    "compare": lambda a, b: ["compare", f"{a}", f"{b}"],
    "plot": lambda a, b: ["plot", f"{a}"],
    "report": lambda a, b: ["report", f"{a}", f"{b}", "--quiet"],
    "topology": lambda a, b: ["topology", f"{a}"],
    "watch": lambda a, b: ["watch", f"{a}", "--once"],
}


@pytest.mark.parametrize("reader", READERS)
def test_reading_asks_for_no_trust_and_runs_nothing(reader: str, tmp_path: Path, mark: Path) -> None:
    folders = [downloaded(a_result(tmp_path / f"theirs-{name}", mark), tmp_path / name) for name in "ab"]
    for folder in folders:
        write_graph(folder, specs.of_preset("dumbbell-10m").graph())
    assert main.main(READERS[reader](*folders)) == (2 if reader == "watch" else 0), "nothing is under way, which watch says"
    assert not mark.exists()


SPEC = """
topology.preset = "dumbbell-10m"
controller.name = "mine"
workload.kind = "many_to_one"
time.duration = "50ms"
plugins = ["mine.py"]
"""


@pytest.mark.lab
@pytest.mark.user
def test_a_run_and_its_copies_verify_and_with_another_list_they_do_not(tmp_path: Path, mark: Path, monkeypatch) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN.format(mark=str(mark)))
    (tmp_path / "spec.toml").write_text(SPEC)
    assert main.main(["run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "own"), "--no-plot", "--quiet"]) == 0
    shutil.copytree(tmp_path / "own", tmp_path / "copy")
    assert main.main(["verify", str(tmp_path / "copy"), "--quiet"]) == 0
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of somebody else"))
    mark.unlink()
    assert "its spec runs code/mine.py" in refusal(tmp_path / "copy") and not mark.exists()


@pytest.mark.lab
def test_a_node_of_a_cluster_asks_for_no_list(tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN.format(mark=str(mark)))
    (tmp_path / "spec.toml").write_text(SPEC)
    handed_out = cluster._load(Cell("a", tmp_path / "spec.toml", tmp_path / "out"))
    monkeypatch.setenv("DCGYM_CACHE", str(cache_dir()))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "spec.toml"))
    output = cluster.run_on_node(*handed_out)
    assert (output.status, output.message) == (0, "") and "code/mine.py" in output.files


def test_a_sweep_lists_what_it_hands_out(tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of a cluster get the code with the spec, ask for no list, and their results verify on the machine of the sweep."""
    (tmp_path / "mine.py").write_text(PLUGIN.format(mark=str(mark)))
    (tmp_path / "spec.toml").write_text(SPEC)
    sweep_grid = grid.load(tmp_path / "spec.toml", axes={"seed": [1, 2]})
    monkeypatch.setattr(sweep, "_fingerprints", lambda *_: {"lab": ""})
    monkeypatch.setattr(sweep.SweepFolder, "status", lambda self, point: sweep.Status(point, sweep.RunState.WAITING))
    sweep.run_grid(sweep_grid, tmp_path / "out", lambda *_: None, Quiet())
    assert not trusted.missing(items_of(sweep_grid.points[0].spec))
    lines = trusted.list_path().read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["code"] and lines[0].endswith(" code/mine.py")


ITEM = Item.of(Kind.CODE, b"print()", "x.py")


def test_the_list_is_its_users_alone(tmp_path: Path) -> None:
    assert trusted.missing([ITEM]) == [ITEM] and trusted.remember([ITEM]) is None and not trusted.missing([ITEM])
    assert trusted.missing([replace(ITEM, kind=Kind.KERNEL)]), "content of one kind is not that of another"
    list_path = trusted.list_path()
    assert list_path == tmp_path / "config" / "dcgym" / "trusted"
    assert [path.stat().st_mode & 0o777 for path in (list_path, list_path.parent)] == [0o600, 0o700]


def test_a_name_adds_no_line(tmp_path: Path) -> None:
    other = Item.of(Kind.CODE, b"hostile", "y.py")
    for end in ("\n", "\r", "\x85", "\u2028", "\udc80\n"):
        trusted.remember([Item.of(Kind.CODE, end.encode(errors="replace"), f"x.py{end}{other.line()}")])
    assert trusted.missing([other]) and trusted.list_path().read_bytes().count(b"\n") == 5


def is_a_link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def is_in_a_link(path: Path) -> None:
    path.parent.rename(path.parents[1] / "other")
    path.parent.symlink_to("other")


def is_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "writable by all": (lambda path: path.chmod(0o666), "others may write .*/trusted"),
    "writable by a group": (lambda path: path.chmod(0o620), "others may write .*/trusted"),
    "in an open folder": (lambda path: path.parent.chmod(0o777), "others may write .*/dcgym"),
    "a link": (is_a_link, "trusted is a symbolic link"),
    "in a link": (is_in_a_link, "dcgym is a symbolic link"),
    "a pipe": (is_a_pipe, "trusted is not a plain file"),
    "another user's": (lambda path: None, "belongs to user"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_list_that_others_could_write_counts_as_empty(how: str, tmp_path: Path, mark: Path, monkeypatch) -> None:
    folder = a_result(tmp_path / "theirs", mark)
    remember_code(folder)
    break_it, words = BROKEN[how]
    break_it(trusted.list_path())
    if how == "another user's":
        uid = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(
        UsageError, match=f"the list of what you ran, does not count: .*{words}.*; read what it runs, then add --trust"
    ):
        specs.load(folder / "manifest.json")
    warning = trusted.remember([ITEM])
    assert warning is not None and "cannot keep what you ran: " in warning
    assert trusted.remember([ITEM]) is None, "once is enough"
    assert not mark.exists()


def test_root_takes_no_list_of_a_user_who_kept_his_home_under_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sudo -E` leaves HOME as it is: the user's list is not root's, and root leaves none in the user's home."""
    (tmp_path / "config").mkdir()
    if os.geteuid() == 0:
        os.chown(tmp_path / "config", 1, 1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    warning = trusted.remember([ITEM])
    assert warning is not None and f"{tmp_path / 'config'} belongs to user" in warning
    assert not list((tmp_path / "config").iterdir())


@pytest.mark.parametrize("home", ["a file", "relative", "unset"])
def test_without_a_home_a_run_goes_on_and_the_list_is_empty(home: str, tmp_path: Path, mark: Path, monkeypatch) -> None:
    folder = a_result(tmp_path / "theirs", mark)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", {"a file": str(tmp_path / "file"), "relative": "some/where", "unset": "~"}[home])
    monkeypatch.chdir(tmp_path)
    warning = trusted.remember([ITEM])
    assert warning is not None and "\n" not in warning and "cannot keep what you ran" in warning
    assert "add --trust" in refusal(folder) and not mark.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"file", "theirs"}


@pytest.mark.parametrize("room", [0, 40])
def test_a_full_disk_costs_a_line_and_no_other(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, content: write(fd, content[:room]))
        warning = trusted.remember([ITEM])
    assert warning is not None and "No space left on device" in warning and trusted.missing([ITEM])
    other = Item.of(Kind.PROGRAM, b"", "/bin/other")
    assert trusted.remember([ITEM, other]) is None and not trusted.missing([ITEM, other])


WRITER = """
import sys
from dc_gym.base import trusted
for number in range(40):
    content = f"{int(sys.argv[1]) * 20 + number}".encode()
    assert trusted.remember([trusted.Item.of(trusted.Kind.CODE, content, "x.py")]) is None
"""


def test_writers_side_by_side_lose_nothing() -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(number)]) for number in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    lines = trusted.list_path().read_text().splitlines()
    assert not trusted.missing(Item.of(Kind.CODE, f"{number}".encode(), "") for number in range(100))
    assert len(lines) == len({line.split()[0] for line in lines}) == 100
