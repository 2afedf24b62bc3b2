# SPDX-License-Identifier: Apache-2.0
"""The environment fingerprint: everything on which a digest may depend, besides the spec.

Equal fingerprint and equal spec give equal digests. All Python that makes a plan, runs in the lab or acts for a controller is in
it, by folders: a test computes their imports. So is numpy's version where its arithmetic acts, and a method where a spec names
one of its parts. The behaviour of sources counts, not their bytes (base/behaviour.py).
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from dc_gym.base import behaviour, bounded, methods
from dc_gym.base.package import PACKAGE
from dc_gym.ctrl import controllers
from dc_gym.kernel import cache as caches
from dc_gym.kernel.build import KernelBuild
from dc_gym.kernel.openvswitch import OpenVSwitch
from dc_gym.spec import Spec

STAMP = "sources.sha256"
DIGITS = 16
GUEST = (
    "*.py",
    "base/*.py",
    "kernel/*.py",
    "kernel/*.[ch]",
    "kernel/drivers/*.h",
    "daemon/*.[ch]",
    "monitors/*.py",
    "monitors/*.[ch]",
    "topologies/*.py",
    "topologies/kinds/*.py",
    "topologies/files/__init__.py",
    "topologies/files/model.py",
    "topologies/realize/*.py",
    "traffic/*.py",
    "traffic/kinds/*.py",
    "traffic/files/__init__.py",
    "traffic/files/model.py",
    "traffic/tgen/*.[ch]",
    "traffic/matrices/*.csv",
    "traffic/matrices/*/*.csv",
    "traffic/flow_sizes/*.txt",
    "nets/*.py",
    "ctrl/*.py",
    "ctrl/*.toml",
    "ctrl/actuators/*.py",
    "ctrl/agent/*.[ch]",
    "ctrl/nic/*.py",
    "ctrl/nic/*.[ch]",
    "ctrl/nic/*.ld",
    "ctrl/nic/algorithms/*.py",
    "ctrl/nic/algorithms/*/*.h",
    "ctrl/nic/algorithms/*/*.toml",
    "spec/*.py",
    "results/*.py",
    "results/metrics/*.py",
    "run/*.py",
    "run/plan/*.py",
    "run/grounds/*.py",
    "run/grounds/guest/*.py",
    "run/grounds/host/*.py",
    "run/grounds/host/*.c",
    "run/result/*.py",
)
"""The sources of programs that run in the lab, make its input or read its output. Plots and the command line are left out."""
AGENTS = ("run/agent/*.py", "learn/*.py", "learn/tasks/*.py", "learn/native/*.py", "learn/native/*.[ch]")
"""Source files that runs with an agent depend on, besides GUEST."""
READERS = ("topologies/files/*.py", "traffic/files/*.py", "traffic/job_files/*.py")
"""Source files that runs with a network or flows in another tool's file depend on, besides GUEST and the file itself."""
METHOD = ("*.py", "*.npz", "nic/*.h", "nic/*/*.h", "nic/*/*.toml")
"""Source files in the folder of a method that runs depend on which name one of its parts. Its training lies in other folders."""
LEFT_OUT = (
    *("base/checks.py", "base/progress.py", "base/readable.py", "base/spelling.py", "base/tensorboard.py"),
    *("base/terminal.py", "results/metrics/names.py", "notebook.py", "results/divergence.py", "results/learning_curve.py"),
)
"""Files of these folders that only make text for users: hints, titles, tables of checks. No record depends on them."""


def environment(kernel: KernelBuild, ovs: OpenVSwitch) -> dict[str, str]:
    """Returns by name the identities of everything that runs in the lab."""
    return {
        "kernel": kernel.fingerprint,
        "openvswitch": ovs.fingerprint,
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "programs": programs(),
    }


def acting(spec: Spec) -> dict[str, str]:
    """Returns by name the identities of the code that acts for the spec's controller: its policy's code, methods, and numpy."""
    parts = _acting_parts(spec)
    identities = {"agents": _digest(AGENTS)} if "agents" in parts else {}
    identities |= {"methods": of_methods(named)} if (named := _methods_in(spec)) else {}
    identities |= {"tcp": _of_sources(sources)} if (sources := spec.controller.tcp_sources) else {}
    identities |= {"files": read} if (read := _of_files(spec)) else {}
    return identities | ({"numpy": metadata.version("numpy")} if "numpy" in parts else {})


def kind_of(spec: Spec) -> str:
    """Returns the kind of run. On one machine, runs of one kind have one fingerprint."""
    own_tcp = (_of_sources(spec.controller.tcp_sources),) if spec.controller.tcp_sources else ()
    read = [identity] if (identity := _of_files(spec)) else []
    patches = map(bounded.sha256_of, spec.kernel.patch)
    return ", ".join([spec.ground, *_acting_parts(spec), *_methods_in(spec), *own_tcp, *read, *patches])


def _of_files(spec: Spec) -> str:
    """Returns the SHA-256 over other tools' files that a spec reads and the sources that read them; '' if it reads none."""
    digests = [bounded.sha256_of(path) for _, path in spec.foreign_files()]
    return hashlib.sha256("".join([*digests, _digest(READERS)]).encode()).hexdigest()[:DIGITS] if digests else ""


def _of_sources(paths: Iterable[Path]) -> str:
    """Returns the SHA-256 over the behaviour of sources in C."""
    digests = (behaviour.digest_of_file(path) for path in paths)
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:DIGITS]


def _acting_parts(spec: Spec) -> tuple[str, ...]:
    if spec.controller.policy is not None:
        return ("agents", "numpy")
    return ("numpy",) if spec.controller.nic else ()


def _methods_in(spec: Spec) -> tuple[str, ...]:
    """Returns the methods of which the spec names a part."""
    algorithm, named = controllers.nic_folders().get(spec.controller.name, PACKAGE), set[str]()
    if spec.controller.policy is not None:
        named = {str(spec.controller.policy), *re.findall(r"\w+", spec.agent.reward)}
    return tuple(
        name
        for name, method in methods.by_name().items()
        if method.acts_in(named) or algorithm.is_relative_to(PACKAGE / "methods" / name)
    )


def programs() -> str:
    """Returns the SHA-256 over the behaviour of every run's sources, by path."""
    return _digest(GUEST)


def agents() -> str:
    """Returns the SHA-256 over the behaviour of sources that act where there are agents, including all methods' sources."""
    return _digest((*AGENTS, *_of_methods(methods.by_name())))


def of_methods(names: Iterable[str]) -> str:
    """Returns the SHA-256 over the behaviour of these methods' sources that act in a run."""
    return _digest(_of_methods(names))


def _of_methods(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"methods/{name}/{pattern}" for name in names for pattern in METHOD)


def sources(spec: Spec) -> dict[str, str]:
    """Returns the SHA-256 over the behaviour of a run's sources, by folder, to show where two fingerprints differ."""
    acting = AGENTS if "agents" in _acting_parts(spec) else ()
    return _by_folder(GUEST + acting + _of_methods(_methods_in(spec)))


def read_sources() -> None:
    """Reads the sources of all runs, so that forks of this process have their digests."""
    programs()
    _digest(AGENTS)
    _by_folder(GUEST)
    _by_folder(GUEST + AGENTS)


def _by_folder(patterns: tuple[str, ...]) -> dict[str, str]:
    folders = dict.fromkeys(map(_folder, patterns))
    return {folder: _digest(pattern for pattern in patterns if _folder(pattern) == folder) for folder in folders}


def _folder(pattern: str) -> str:
    return "/".join(pattern.split("/")[:-1][:2]) or "dc_gym"


def _digest(patterns: Iterable[str]) -> str:
    return _digest_of(tuple(patterns))


@cache  # this process imports its code once
def _digest_of(patterns: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    with caches.keeping_behaviour():
        for path in files(patterns):
            digest.update(f"{path.relative_to(PACKAGE)}\n".encode())
            digest.update(bytes.fromhex(behaviour.digest_of_file(path)))
    return digest.hexdigest()[:DIGITS]


def files(patterns: Iterable[str]) -> list[Path]:
    """Returns the files of the package that match and are not left out, in the order of the patterns."""
    left_out = {PACKAGE / name for name in LEFT_OUT}
    return [path for pattern in patterns for path in sorted(PACKAGE.glob(pattern)) if path not in left_out]


def stale() -> str | None:
    """Returns a source whose behaviour has changed since the C programs were built, or None.

    `make programs` writes the list.
    """
    stamp = PACKAGE / "bin" / STAMP
    if not stamp.is_file():
        return STAMP
    rows = (line.partition("  ")[::2] for line in stamp.read_text().splitlines())
    with caches.keeping_behaviour():
        changed = (name for digest, name in rows if (PACKAGE / name).is_file() and _does(name) != digest)
        return next(changed, None)


def _does(name: str) -> str:
    return behaviour.digest_of_file(PACKAGE / name)


def fingerprint(parts: Mapping[str, str]) -> str:
    """Returns sixteen hexadecimal digits over the environment."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:DIGITS]
