# SPDX-License-Identifier: Apache-2.0
"""The labs below a folder, and the one that is working now.

A lab answers a request for its memory only while it runs. A lab that stands still, as an evaluation's does most of the time, does
not answer. So all labs are asked, and none is waited for.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from dc_gym.base.errors import ProtocolError, UsageError
from dc_gym.cli.watch import places
from dc_gym.cli.watch.places import Place
from dc_gym.cli.watch.snapshot import Attached, Change, RecentSnapshots
from dc_gym.kernel import share

__all__ = ["LabChooser"]

SEARCH_S = 1.0
"""Time between two searches for new labs."""
STILL_S = 1.5
"""A lab that stands still this long is replaced on the screen by one that moves."""
START_S = 30.0
"""The time to wait for a folder that does not exist: a training loads a lot before it creates one."""
NEXT_LAB_S = 10.0
"""The time to wait for another lab: a dead lab is replaced within seconds."""


@dataclass(slots=True)
class _Lab:
    place: Place
    request: share.Request | None = None
    attached: Attached | None = None
    window: RecentSnapshots = field(default_factory=RecentSnapshots)

    def poll(self) -> None:
        """Attaches to the lab if it has answered by now."""
        if self.attached is not None:
            return
        if self.request is None:
            with contextlib.suppress(UsageError):
                self.request = share.Request(self.place.folder)
        elif self.request.is_answered():
            request, self.request = self.request, None
            with contextlib.suppress(UsageError, ProtocolError):  # the lab has just ended, or has no matrix yet
                self.attached = Attached(self.place.folder, request.take())

    def is_over(self) -> bool:
        if self.attached is not None:
            return not self.attached.is_alive()
        return not (self.place.folder / share.NAME).exists()

    def close(self) -> None:
        if self.request is not None:
            self.request.close()
        if self.attached is not None:
            self.attached.close()


class LabChooser:
    """The labs below a folder. `lab_name`: the lab to show, by name or number; None: the lab that is working."""

    def __init__(self, out: Path, lab_name: str | None) -> None:
        self._out, self._wanted = out, lab_name
        self._labs: dict[Path, _Lab] = {}
        self._shown: _Lab | None = None
        self._begun_s = self._seen_s = time.monotonic()
        self._searched_s = -SEARCH_S
        self._alone = self._found = self._was_awaited = self._was_absent = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for lab in self._labs.values():
            lab.close()

    def look(self) -> tuple[Place, Change] | None:
        """Returns the lab to show as it is now; None if there is none, or none has answered yet."""
        now_s = time.monotonic()
        for folder in [folder for folder, lab in self._labs.items() if lab.is_over()]:
            self._labs.pop(folder).close()
            self._searched_s = -SEARCH_S
        if now_s - self._searched_s >= SEARCH_S:
            self._search()
            self._searched_s = now_s
        for lab in self._labs.values():
            lab.poll()
        self._shown = self._choose(now_s)
        if self._shown is None or self._shown.attached is None:
            return None
        return self._shown.place, self._shown.attached.change(self._shown.window)

    def awaited(self) -> str:
        """Names the lab or folder that is awaited while there is nothing to show."""
        there = [lab.place for lab in self._labs.values()]
        if self._wanted is None or not there or places.choose(there, self._wanted):
            return "a lab that runs"
        return f"--lab {places.unmet(there, self._wanted)}"

    def is_over(self) -> bool:
        """Returns whether nothing more will come. Raises UsageError if there never was a lab."""
        if self._labs:
            self._seen_s = time.monotonic()
            return False
        if places.is_awaited(self._out):
            self._was_awaited = True
            return False
        if self._was_awaited:
            return True
        if not self._found:
            self._was_absent |= not self._out.exists()  # one that appears is empty, and not yet locked, for a moment
            if self._was_absent and time.monotonic() - self._begun_s < START_S:
                return False
            places.require([], self._out, self._wanted)
        return self._alone or time.monotonic() - self._seen_s > NEXT_LAB_S

    def _search(self) -> None:
        """Searches for new labs. Places of known labs are updated, since their count may have changed."""
        candidates = [lab_place for lab_place in places.find(self._out) if (lab_place.folder / share.NAME).exists()]
        for lab_place in candidates:
            self._labs.setdefault(lab_place.folder, _Lab(lab_place)).place = lab_place
        if candidates:
            self._found, self._alone = True, candidates[0].alone

    def _choose(self, now_s: float) -> _Lab | None:
        if self._wanted is not None:
            lab_place = places.choose([lab.place for lab in self._labs.values()], self._wanted)
            return self._labs[lab_place.folder] if lab_place else None
        there = sorted((lab for lab in self._labs.values() if lab.attached), key=lambda lab: lab.place.number)
        if self._shown in there and now_s - _moved_s(self._shown) < STILL_S:
            return self._shown
        return max(there, key=_moved_s, default=None)


def _moved_s(lab: _Lab | None) -> float:
    """Returns when the lab's clock last moved, as far as is known."""
    return lab.attached.moved_s if lab and lab.attached else 0.0
