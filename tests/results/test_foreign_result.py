# SPDX-License-Identifier: Apache-2.0
"""Results of somebody else: reading one runs nothing of it; its spec runs again as it was recorded, if it is trusted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import synthetic

from dc_gym import spec as specs
from dc_gym.base import trusted
from dc_gym.base.errors import SpecError, UsageError
from dc_gym.cli import main
from dc_gym.cli.verify import verify
from dc_gym.ctrl import controllers
from dc_gym.results.figures import styles
from dc_gym.results.results import Result, load_result, write_graph
from dc_gym.spec.load import from_dict
from dc_gym.topologies import presets

PLUGIN = """
import pathlib
pathlib.Path({mark!r}).write_text("ran")
from dc_gym.ctrl.controllers import Controller, register
register(Controller("mine", "reno", ecn=False))
"""


@pytest.fixture(autouse=True)
def own_list(registries: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives a test a list of its own of what its user ran."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that the result's code writes if it runs."""
    return tmp_path / "ran"


def a_result(folder: Path, mark: Path, **changes: Any) -> Result:
    """Returns a result whose spec names a plug-in that writes `mark`."""
    source = PLUGIN.format(mark=str(mark))
    run_result = synthetic.result(folder)
    spec = run_result.manifest["spec"] | {"plugins": ["code/mine.py"]} | changes
    (folder / "code").mkdir()
    (folder / "code" / "mine.py").write_text(source)
    rows = [{"file": "code/mine.py", "sha256": hashlib.sha256(source.encode()).hexdigest()}]
    edit(folder, spec=spec, code=rows)
    return load_result(folder)


def listed(result: Result) -> None:
    """Puts the plug-in of a result into the list of what the user ran."""
    source = (result.path / "code" / "mine.py").read_bytes()
    assert trusted.remember([trusted.Item.of(trusted.Kind.CODE, source, "mine.py")]) is None


def edit(folder: Path, **values: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


READERS: dict[str, Callable[[Path, Path], list[str]]] = {
    "verify": lambda a, b: ["verify", f"{a}", "--against", f"{b}", "--quiet"],
    "compare": lambda a, b: ["compare", f"{a}", f"{b}"],
    "plot": lambda a, b: ["plot", f"{a}"],
    "plot of many": lambda a, b: ["plot", f"{a.parent}", "--x", "seed", "--y", "goodput_bps"],
    "plot of each": lambda a, b: ["plot", f"{a.parent}", "--each"],
    "report": lambda a, b: ["report", f"{a}", f"{b}", "--quiet", "--figures", f"{a.parent / 'figures'}"],
    "topology": lambda a, b: ["topology", f"{a}"],
    "topology of the manifest": lambda a, b: ["topology", f"{a / 'manifest.json'}"],
}


@pytest.mark.parametrize("reader", READERS)
def test_reading_a_result_does_not_run_its_code(reader: str, tmp_path: Path, mark: Path) -> None:
    a, b = (a_result(tmp_path / "results" / name, mark, seed=seed) for seed, name in enumerate(("a", "b"), 1))
    for run_result in (a, b):
        write_graph(run_result.path, specs.of_preset("dumbbell-10m").graph())
    assert main.main(READERS[reader](a.path, b.path)) == 0
    assert not mark.exists()


def test_an_older_result_whose_network_needs_code_says_so(tmp_path: Path, mark: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = a_result(tmp_path / "a", mark)
    for argv in (["topology", str(a.path)], ["topology", str(a.path), "--set", "topology.scale=2"]):
        assert main.main(argv) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "value 'code/mine.py' is code, which reading a result does not run" in err
    assert main.main(["report", str(a.path), "--quiet"]) == 0
    assert "no figure of its network" in (a.path / "report.html").read_text()
    assert not mark.exists()


def test_a_plug_ins_controller_has_its_recorded_number(tmp_path: Path) -> None:
    """Its row number is part of the digest, and a reader does not have the plug-in."""
    controllers.register(controllers.Controller("mine", "reno", ecn=False))
    written = synthetic.result(tmp_path / "a", synthetic.run(controller="mine"))
    del controllers._registry["mine"]
    read = load_result(tmp_path / "a", check_digest=True)
    assert read.manifest["controllers"][-1] == "mine" and set(read.column("flows", "controller")) == {"mine"}
    assert written.digest == read.digest
    edit(tmp_path / "a", controllers=None)
    with pytest.raises(UsageError, match=r"'mine'.* older version"):
        load_result(tmp_path / "a", check_digest=True)
    edit(tmp_path / "a", controllers=[1])
    with pytest.raises(UsageError, match="controllers is not a list of names"):
        load_result(tmp_path / "a")


def test_controllers_of_two_results_keep_their_own_names(tmp_path: Path) -> None:
    a = synthetic.result(tmp_path / "a")
    controllers.register(controllers.Controller("mine", "reno", ecn=False))
    b = synthetic.result(tmp_path / "b", synthetic.run(controller="mine"), spec=a.manifest["spec"])
    del controllers._registry["mine"]
    difference = verify.compare(load_result(a.path), load_result(b.path)).difference
    assert difference is not None and "controller 'dctcp' and 'mine'" in str(difference)


@pytest.fixture
def rerun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of a spec that takes no time."""
    monkeypatch.setattr(verify.runner, "run", lambda spec, out, *_, **__: synthetic.result(out))
    monkeypatch.setattr(verify, "scratch", lambda *_: nullcontext(tmp_path / "scratch"))


@pytest.mark.usefixtures("rerun")
def test_running_again_names_what_runs(tmp_path: Path, mark: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = a_result(tmp_path / "a", mark)
    listed(a)
    assert main.main(["verify", str(a.path), "--quiet"]) == 0
    assert mark.read_text() == "ran" and "a runs code/mine.py (SHA-256 " in capsys.readouterr().err


@pytest.mark.usefixtures("rerun")
def test_somebody_elses_code_runs_only_with_trust(tmp_path: Path, mark: Path, capsys) -> None:
    a = a_result(tmp_path / "a", mark)
    manifest = a.path / "manifest.json"
    for argv in (["verify", str(a.path)], ["run", str(manifest), "--out", str(tmp_path / "new")], ["sweep", str(manifest)]):
        assert main.main([*argv, "--quiet"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "its spec runs code/mine.py" in err and "add --trust" in err and "does not have it" in err
    assert not mark.exists()
    assert main.main(["verify", str(a.path), "--quiet", "--trust"]) == 0 and mark.exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workload": {"kind": "pairs", "exec": [{"host": "h1", "command": "/bin/true"}]}}, "runs the program '/bin/true' in h1"),
        ({"controller": {"name": "dctcp", "policy": "antigravity:Agent"}}, "imports the module antigravity"),
    ],
)
def test_programs_and_modules_need_trust_too(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    run_result = synthetic.result(tmp_path / "a")
    edit(tmp_path / "a", spec=run_result.manifest["spec"] | changes)
    with pytest.raises(UsageError, match=f"its spec {words}, as you, and .*, the list of what you ran, does not have it"):
        specs.load(tmp_path / "a" / "manifest.json")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"plugins": ["../evil.py"]}, "plugins: value '../evil.py' is not one of the files of code that it lists"),
        ({"plugins": ["code/other.py"]}, "plugins: value 'code/other.py' is not one of"),
        ({"plugins": ["../evil"]}, "plugins: value '../evil' is not one of"),
        ({"topology": {"kind": "mininet", "file": "/evil.py"}}, "topology.file: value '/evil.py' is not one of"),
        ({"controller": {"policy": "../evil.py:Agent"}}, "controller.policy: value '../evil.py' is not one of"),
        ({"controller": {"policy": "../other.npz"}}, "controller.policy: value '../other.npz' is not a copy"),
        ({"nic": {"policy": "/other.npz"}}, "nic.policy: value '/other.npz' is not a copy"),
        ({"workload": {"kind": "matrix", "file": "/etc/shadow"}}, "workload.file: value '/etc/shadow' is not a copy"),
    ],
)
def test_nothing_outside_of_the_result_is_run_or_read(tmp_path: Path, mark: Path, spec: dict[str, Any], words: str) -> None:
    a_result(tmp_path / "a", mark, **spec)
    for name in ("evil.py", "evil", "a/code/other.py"):
        (tmp_path / name).write_text(PLUGIN.format(mark=str(mark)))
    with pytest.raises(SpecError, match=words):
        specs.load(tmp_path / "a" / "manifest.json", trust=True)
    assert not mark.exists()


def test_a_spec_beside_a_manifest_is_the_results_too(tmp_path: Path, mark: Path) -> None:
    a = a_result(tmp_path / "a", mark)
    (tmp_path / "evil.py").write_text(PLUGIN.format(mark=str(mark)))
    other = a.path / "spec.json"
    other.write_text(json.dumps(a.manifest["spec"] | {"plugins": ["../evil.py"]}))
    with pytest.raises(SpecError, match=r"plugins: value '\.\./evil\.py'.*lists"):
        specs.load(other)
    other.write_text(json.dumps(a.manifest["spec"]))
    with pytest.raises(UsageError, match="add --trust"):
        specs.load(other)
    assert not mark.exists()
    specs.load(other, trust=True)
    assert mark.exists()


def test_code_that_was_changed_does_not_run(tmp_path: Path, mark: Path) -> None:
    a = a_result(tmp_path / "a", mark)
    manifest, code = a.path / "manifest.json", a.path / "code" / "mine.py"
    source = code.read_text()
    code.write_text(source + "\n")
    with pytest.raises(SpecError, match=r"mine\.py: .*SHA-256 .*changed"):
        specs.load(manifest)
    code.unlink()
    (tmp_path / "elsewhere.py").write_text(source)
    code.symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(SpecError, match=r"code/mine\.py is not a plain file"):
        specs.load(manifest)
    code.unlink()
    code.parent.rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.py").write_text(source)
    (a.path / "code").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SpecError, match="code is a symbolic link"):
        specs.load(manifest)
    assert not mark.exists()


def test_code_that_changes_between_check_and_run_does_not_run(tmp_path: Path, mark: Path) -> None:
    a = a_result(tmp_path / "a", mark)
    listed(a)
    verify.require_safe(a.path / "manifest.json", a.manifest)
    code = a.path / "code" / "mine.py"
    code.write_text(code.read_text() + "\n")
    with pytest.raises(SpecError, match="was changed after it was checked"):
        from_dict(a.manifest["spec"], a.path)
    assert not mark.exists()


def test_the_network_is_that_which_was_recorded(tmp_path: Path, mark: Path) -> None:
    a = a_result(tmp_path / "a", mark)
    graph = specs.of_preset("fattree-k4").graph()
    write_graph(a.path, graph)
    assert a.graph() == graph
    (a.path / "graph.json").write_text('{"hosts": []}')
    with pytest.raises(UsageError, match=r"graph\.json: .* the file was changed"):
        a.graph()
    assert synthetic.result(tmp_path / "old").graph() == presets.build(specs.of_preset("dumbbell-10m").topology, ecn=True)


def test_a_plug_ins_controller_is_drawn_as_its_result_recorded_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    controllers.register(controllers.Controller("mine", "reno", ecn=False))
    styles.register("mine", color="#123456", label="my own")
    recorded = styles.to_record("mine")
    assert recorded is not None and styles.to_record("dctcp") is None
    del controllers._registry["mine"], styles._registry["mine"]
    for name in ("a", "b"):
        run_result = synthetic.result(tmp_path / name)
        edit(run_result.path, spec=run_result.manifest["spec"] | {"controller": {"name": "mine"}}, style=recorded)
    assert main.main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "(my own)" in capsys.readouterr().out and styles.find("mine") == styles.Style(**recorded)
    styles.remember({"spec": {"controller": {"name": "other"}}, "style": {"color": "url(x)", "marker": "d", "label": "x"}})
    assert styles.find("other") is None, "what is no colour is not taken"


@pytest.mark.parametrize("spec", [None, 3, {}, {"topology": 3}, {"topology": {"preset": ["x"]}}])
def test_a_manifest_that_names_no_network_is_one_line(tmp_path: Path, spec: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run_result = synthetic.result(tmp_path / "a")
    write_graph(run_result.path, specs.of_preset("dumbbell-10m").graph())
    edit(run_result.path, spec=spec)
    for more in ([], ["--set", "topology.scale=2"]):
        assert main.main(["topology", str(run_result.path), *more]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "manifest.json" in err
