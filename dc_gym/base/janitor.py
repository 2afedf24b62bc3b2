# SPDX-License-Identifier: Apache-2.0
"""Removes the files that a killed run leaves behind, which no `finally` can do.

A janitor is a shell that waits for a word on its standard input. A run that is not killed sends the word at its end. When the run
is killed (kill -9 too), the pipe closes without the word, and the janitor cleans up: it removes an unfinished folder. A result
that the run was about to replace gets its name back, or is removed if there is a new one. The janitor acts only on folders that a
dc-gym run claimed (folder_lock.py), because it starts to watch before the run has checked the folder, which may belong to
somebody else. It acts only on folders that nobody holds, because the next run on the same folder may have begun already. It has
its own session, so that Ctrl-C does not reach it. Forked children of the run neither keep the pipe nor send the word.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dc_gym.base.folder_lock import LOCK, MARK
from dc_gym.base.process_bound import this_process, unshared

# It works in the folder itself, into which it does not go through a link: its name may lead elsewhere at any time.
# flock(1) creates the file that it locks, so each lock is read first. The lock goes last, because it shows whose the rest is.
_SCRIPT = f"""
read -r word && [ "$word" = done ] && exit 0
enter() {{ cd -P -- "$1" && [ ! -h "$1" ] && [ . -ef "$1" ]; }}
ours() {{ [ ! -h {LOCK} ] && [ -f {LOCK} ] && [ "$(head -c {len(MARK)} {LOCK})" = {MARK} ]; }}
tries=0
while [ -e "$1" ] && [ $tries -lt 100 ]; do
	enter "$1" || break
	if ! ours; then
		rmdir -- "$1" # at most made, not claimed yet
		break
	fi
	flock -n {LOCK} /bin/sh -c '
		[ -e "$3" ] && [ ! -e "$2" ] && mv -T -- "$3" "$2"
		find . -mindepth 1 -maxdepth 1 ! -name {LOCK} -exec rm -rf -- {{}} + && rm -f {LOCK} && rmdir -- "$1"' sh "$1" "$2" "$3"
	cd /
	[ -e "$1" ] && sleep 0.1
	tries=$((tries + 1))
done
if [ -n "$2" ] && enter "$2" && ours; then
	flock -w 10 {LOCK} /bin/sh -c 'rm -rf -- "$3"; rm -f {LOCK}' sh "$1" "$2" "$3"
fi
"""


class JanitorMessage:
    """The message to the janitor: `done` means that there is nothing to clean up."""

    def __init__(self) -> None:
        self.done = False


@contextmanager
def watching(partial: Path, out: Path | None = None, aside: Path | None = None) -> Iterator[JanitorMessage]:
    """Cleans up if this process dies while the context is open, or if the context ends without `done`.

    It removes `partial`. It renames `aside` to `out` or, if `out` was just finished, removes `aside`. It leaves folders that are
    neither claimed nor empty.
    """
    argv = ["/bin/sh", "-c", _SCRIPT, "dcgym-janitor", *(str(path.absolute()) if path else "" for path in (partial, out, aside))]
    owner, watch, nothing = this_process(), JanitorMessage(), subprocess.DEVNULL
    with unshared() as keep:
        janitor = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, bufsize=0, start_new_session=True, cwd="/"
        )
        assert janitor.stdin is not None
        keep(janitor.stdin)
    try:
        yield watch
    finally:
        if owner.is_here():
            with suppress(BrokenPipeError):  # somebody killed the janitor; this process cleans up itself
                janitor.stdin.write(b"done\n" if watch.done else b"clean\n")
            janitor.stdin.close()
            janitor.wait()
