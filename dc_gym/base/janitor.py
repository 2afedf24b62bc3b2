# SPDX-License-Identifier: Apache-2.0
"""Removes what a killed run leaves behind: the one thing that no `finally` can do.

A janitor is a shell that waits for a word on its standard input. A run that ends by itself says it; when the run is killed
(kill -9 too), the pipe closes without the word, and the janitor tidies up: an unfinished folder goes, a result that was stepping
aside gets its name back, or goes where there is a new one. It acts only on what a run of ours claimed (claim.py): it watches
before the run has looked at what lies there, which may be a stranger's. And only on what nobody holds: the next run on the same
folder may have begun already. It has its own session, so that Ctrl-C does not reach it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dc_gym.base.folder_lock import LOCK, MARK

# flock(1) makes the file that it locks: so each lock is read first. The lock goes last: it tells whose the rest is.
_SCRIPT = f"""
read -r word && [ "$word" = done ] && exit 0
ours() {{ [ "$(head -c {len(MARK)} "$1/{LOCK}")" = {MARK} ]; }}
tries=0
while [ -e "$1" ] && [ $tries -lt 100 ]; do
	if ! ours "$1"; then
		rmdir -- "$1" # at most made, not claimed yet
		break
	fi
	flock -n "$1/{LOCK}" /bin/sh -c '
		[ -e "$3" ] && [ ! -e "$2" ] && mv -- "$3" "$2"
		find "$1" -mindepth 1 -maxdepth 1 ! -name {LOCK} -exec rm -rf -- {{}} + && rm -rf -- "$1"' sh "$1" "$2" "$3"
	[ -e "$1" ] && sleep 0.1
	tries=$((tries + 1))
done
if [ -n "$2" ] && [ -e "$2/{LOCK}" ] && ours "$2"; then
	flock -w 10 "$2/{LOCK}" /bin/sh -c 'rm -rf -- "$3"; rm -f -- "$2/{LOCK}"' sh "$1" "$2" "$3"
fi
"""


class Watch:
    """What the janitor is told: `done` says that there is nothing to tidy up."""

    def __init__(self) -> None:
        self.done = False


@contextmanager
def watching(partial: Path, out: Path | None = None, aside: Path | None = None) -> Iterator[Watch]:
    """While the context is open, this process' death removes `partial`, and renames `aside` to `out` or, if `out` was just
    finished, removes it; what is neither claimed nor empty stays. So does an end of the context without `done`.
    """
    argv = ["/bin/sh", "-c", _SCRIPT, "dcgym-janitor", *(str(path.absolute()) if path else "" for path in (partial, out, aside))]
    janitor = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd="/"
    )
    assert janitor.stdin is not None
    watch = Watch()
    try:
        yield watch
    finally:
        try:
            if watch.done:
                janitor.stdin.write(b"done\n")
            janitor.stdin.close()
        except BrokenPipeError:
            pass  # somebody killed it; this process cleans up itself
        janitor.wait()
