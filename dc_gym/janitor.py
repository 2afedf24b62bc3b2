# SPDX-License-Identifier: Apache-2.0
"""Removes what a killed run leaves behind: the one thing that no `finally` can do.

A janitor is a shell that waits for a word on its standard input. A run that ends by itself says it; when the run is killed
(kill -9 too), the pipe closes without the word, and the janitor removes the unfinished folder and puts a result that was
stepping aside back in its place. It has its own session, so that Ctrl-C does not reach it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SCRIPT = """
read -r word && [ "$word" = done ] && exit 0
tries=0
while [ -e "$1" ] && [ $tries -lt 100 ]; do rm -rf -- "$1"; sleep 0.1; tries=$((tries + 1)); done
if [ -e "$3" ] && [ ! -e "$2" ]; then mv -- "$3" "$2"; fi
"""


@contextmanager
def watching(partial: Path, out: Path, aside: Path) -> Iterator[None]:
    """While the context is open, this process' death removes `partial`, and renames `aside` to `out` if there is no `out`."""
    argv = ["/bin/sh", "-c", _SCRIPT, "dcgym-janitor", str(partial), str(out), str(aside)]
    janitor = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True, cwd="/")
    assert janitor.stdin is not None
    try:
        yield
    finally:
        try:
            janitor.stdin.write(b"done\n")
            janitor.stdin.close()
        except BrokenPipeError:
            pass  # somebody killed it; this process cleans up itself
        janitor.wait()
