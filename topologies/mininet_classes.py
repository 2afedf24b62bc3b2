# SPDX-License-Identifier: Apache-2.0
"""Mininet's classes, imported in one place for the whole project.

Mininet 2.3 asks `distutils` for a version number. Python 3.12 has no `distutils` any more, and importing setuptools' copy takes
longer than all other imports in a ground. So this module gives Mininet the one class that it asks for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType

__all__ = ["Host", "Link", "Mininet", "OVSSwitch", "Topo"]


class _Version:
    """A version number with dots, such as 2.3.0. It has the part of `distutils.version.StrictVersion` that Mininet needs."""

    def __init__(self, text: str) -> None:
        self.numbers = tuple(map(int, text.split(".")))

    def __lt__(self, other: _Version) -> bool:
        return self.numbers < other.numbers


@contextmanager
def _distutils() -> Iterator[None]:
    """Makes the class above importable as `distutils.version.StrictVersion` while the context is open."""
    package, module = ModuleType("distutils"), ModuleType("distutils.version")
    module.StrictVersion = _Version  # type: ignore[attr-defined]
    names = ("distutils", "distutils.version")
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.modules.update(zip(names, (package, module), strict=True))
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)


if find_spec("mininet") is None:  # a ground has Mininet on its path, and a user may have installed it
    from dc_gym.base.interpreter import import_from
    from dc_gym.kernel import openvswitch

    import_from(openvswitch.ensure().python, "mininet")
with _distutils():
    from mininet.link import Link
    from mininet.net import Mininet
    from mininet.node import Host, OVSSwitch
    from mininet.topo import Topo
