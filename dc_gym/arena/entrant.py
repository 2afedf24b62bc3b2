# SPDX-License-Identifier: Apache-2.0
"""An entrant: a name that ships, or a file: a policy (.npz), a plug-in with one (.py), a TCP's C source (.c), a NIC algorithm's
header (.h). Settings are further keys of its sections, such as nic.preset=pcc."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dc_gym.arena import suite
from dc_gym.arena.suite import TRACKS, Track
from dc_gym.base import bounded, plain_json, usercode
from dc_gym.base.errors import UsageError
from dc_gym.base.files import put, scratch
from dc_gym.base.npz import load_arrays
from dc_gym.base.spelling import unknown
from dc_gym.ctrl import controllers, policies, tcp_sources
from dc_gym.ctrl.nic import algorithms, build
from dc_gym.nets.policy_file import GUIDE, nic_algorithm

SETTING = re.compile(r"agent\.\w+=[\w ,.:*%-]+|(nic\.(parameters\.)?|controller\.)\w+=(?![^=]*\.(npz|py)$)[\w ,.%-]+", re.ASCII)
"""A setting. No value of it names a file or a module: rows of others have settings, too."""
OF_TRAINING = ("observe", "history", "action", "actuators", "floor", "see", "least_window", "largest_window")
"""Keys of [agent] that a policy file keeps."""
PLUGIN = """# SPDX-License-Identifier: Apache-2.0
from dc_gym.ctrl.controllers import Controller, register

register(Controller({name!r}, {name!r}, nic=True, telemetry={telemetry}, header={header!r}))
"""


@dataclass(frozen=True, slots=True)
class Entrant:
    """Who plays: its track, and what it adds to the spec of each case."""

    name: str
    track: Track
    keys: Mapping[str, Any]
    """Keys of a spec; paths are relative to the folder of its files."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files that the keys name."""
    source: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of its sources by their names. A TCP of Linux is in the kernel, which is in the fingerprint."""
    file: str = ""
    """Name of the file that it is; empty for one that ships."""
    settings: tuple[str, ...] = ()
    """Further keys, KEY=VALUE."""

    def write(self, folder: Path) -> None:
        for name, content in self.files.items():
            put(folder / name, content)


def resolve(text: str, track: str = "", settings: Sequence[str] = ()) -> Entrant:
    """Returns the entrant of a name or a file. `track`: the one that it must play; empty: its own.

    Raises UsageError if there is none, or if it plays another track.
    """
    path = Path(text)
    if (read := OF_FILE.get(path.suffix)) is None:
        return shipped(text, track, settings)
    if not path.is_file():
        raise UsageError(f"arena: entrant {text}: no such file; give a {', '.join(OF_FILE)} file, or the name of a control")
    return _checked(read(path), track, settings)


def shipped(name: str, track: str = "", settings: Sequence[str] = ()) -> Entrant:
    """Returns the entrant of that name that ships. No file is read that the name could be."""
    by_track = shipped_names()
    played = next((track for track, names in by_track.items() if name in names), None)
    if played is None:
        raise UsageError(f"arena: {unknown('entrant', name, [name for names in by_track.values() for name in names])}")
    keys = suite.track(played).entrants.get(name, {"controller.name": name})
    sources = [algorithms.header_of(name)] if played == "nic" else []
    return _checked(Entrant(name, suite.track(played), keys, source=sha256(*sources)), track, settings)


def _checked(entrant: Entrant, track: str, settings: Sequence[str]) -> Entrant:
    if odd := [setting for setting in settings if not SETTING.fullmatch(setting)]:
        raise UsageError(f"arena: --set {odd[0]}: give a key of agent, nic or controller, and a value that is no path")
    if track and track != entrant.track.name:
        raise UsageError(f"arena: {entrant.name} plays the track {entrant.track.name}, not {track}; leave out --track")
    return replace(entrant, settings=tuple(sorted(settings)))


def shipped_names() -> dict[str, list[str]]:
    """Returns the names of shipped entrants by track."""
    known = [control for name in controllers.names() if (control := controllers.find(name)) and name not in ("agent", "fixed")]
    names = {track: list(suite.track(track).entrants) for track in TRACKS}
    names["tcp"] += [control.name for control in known if not (control.nic or control.tcp)]
    names["nic"] += [control.name for control in known if control.nic and control.header is None]
    return names


def _tcp(path: Path) -> Entrant:
    tcp_sources.load_plugin(path)
    source = path.read_bytes()
    name = next(name for name in controllers.names() if _is_of(name, source))
    keys = {"plugins": [str(path.absolute())], "controller.name": name}
    return Entrant(name, suite.track("tcp"), keys, source=sha256(path), file=path.name)


def _is_of(name: str, source: bytes) -> bool:
    known = controllers.find(name)
    return known is not None and any(file.is_file() and file.read_bytes() == source for file in known.tcp)


def _header(path: Path) -> Entrant:
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        algorithm = build.compile_header(path, folder)
    plugin = PLUGIN.format(name=algorithm.name, telemetry=algorithm.telemetry, header=path.name)
    files = {path.name: path.read_bytes(), f"{path.stem}.py": plugin.encode()}
    keys = {"plugins": [f"{path.stem}.py"], "controller.name": algorithm.name}
    return Entrant(algorithm.name, suite.track("nic"), keys, files, sha256(path), path.name)


def _policy(path: Path) -> Entrant:
    manifest = plain_json.loads(str(load_arrays(path, GUIDE).get("manifest", "{}")))
    kind = manifest.get("kind", "") if isinstance(manifest, dict) else ""
    if algorithm := nic_algorithm(kind):
        track, keys = "nic", {"controller.name": algorithm, "nic.policy": path.name}
    elif kind == "dense":
        track, keys = "agents", {"controller.policy": path.name, **_trained(manifest["payload"])}
    elif kind == "acc":
        acc = suite.track("marking").entrants["acc"]
        track, keys = "marking", {**acc, "controller.start": path.name}
    else:
        raise UsageError(f"arena: {path}: no policy that an arena has a track for (kind {kind!r}); {GUIDE}")
    return Entrant(path.stem, suite.track(track), keys, {path.name: path.read_bytes()}, sha256(path), path.name)


def _trained(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of [agent] that a dense policy learned with. One that sets windows needs the TCP that has them."""
    settings = payload.get("settings", {})
    keys = {f"agent.{name}": settings[name] for name in OF_TRAINING if settings.get(name) is not None}
    keys |= {"agent.agents": payload.get("agents", "central")}
    return keys | ({"controller.name": "agent"} if settings.get("controller") == "agent" else {})


def _plug_in(path: Path) -> Entrant:
    module = usercode.load(path).module.__name__
    names = [name for name, entry in policies.KINDS.items() if entry.call.__module__ == module]
    if len(names) != 1:
        raise UsageError(f"arena: {path}: it registers {len(names)} policies; give a plug-in with one")
    keys = {"plugins": [str(path.absolute())], "controller.policy": names[0]}
    return Entrant(names[0], suite.track("agents"), keys, source=sha256(path), file=path.name)


def sha256(*paths: Path) -> dict[str, str]:
    """Returns the SHA-256 of files by their names."""
    return {path.name: bounded.sha256_of(path) for path in paths}


OF_FILE: Mapping[str, Callable[[Path], Entrant]] = {".npz": _policy, ".py": _plug_in, ".c": _tcp, ".h": _header}
"""Readers of entrants by the ending of the file."""
