# SPDX-License-Identifier: Apache-2.0
"""Connects to a Ray cluster that somebody has started. Sweeps and trainings use only this module for it.

Import this module before anything of Ray's: it sets variables that Ray reads when it is imported.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import signal
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dc_gym.base.errors import MachineError, UsageError
from dc_gym.base.terminal import say

__all__ = ["NOWHERE", "hushed", "join", "own_sigterm", "protect", "warn_of_open_token"]

KNOCK_S = 5.0
NOWHERE = "/"
"""The folder in which Ray is started and joined. Its workers look for modules in that folder first, so it must have none."""
AUTH_MODE = "RAY_AUTH_MODE"
TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
TOKEN_FILE = ".ray/auth_token"
OPEN = "the Ray cluster at {address} asks for no token: whoever reaches it runs programs as you"
MAKE_TOKEN = "`(umask 077; ray get-auth-token --generate)` makes one; then `export RAY_AUTH_MODE=token` before each `ray start`"
GET_TOKEN = f"copy ~/{TOKEN_FILE} from the machine of `ray start --head`"


def _show_token() -> None:
    """Makes Ray present the user's token.

    If the user has a token, `ray start --head` asks for it, but nodes and drivers that join by address present it only on
    request. A cluster without a token does not mind.
    """
    if "ray" not in sys.modules and _has_token():
        os.environ.setdefault(AUTH_MODE, "token")


def _has_token() -> bool:
    try:
        return any(os.environ.get(name) for name in TOKENS) or (Path.home() / TOKEN_FILE).is_file()
    except (OSError, RuntimeError):  # there is no home folder, or it belongs to somebody else
        return False


HAS_TOKEN = _has_token()
"""True if the user has a token. A cluster that such a user's driver joins without one asks for none."""
_show_token()


def protect() -> None:
    """Gives the session that this process starts for itself a token of its own if the user has none.

    Without a token, anybody who reaches Ray's ports on this machine can run code as the user. A Ray that has been imported
    already asks for tokens unless the mode is set, and would keep one for ever in a file that others may read.
    """
    if AUTH_MODE not in os.environ:
        os.environ[TOKENS[0]] = secrets.token_hex(32)
        if "ray" not in sys.modules:
            os.environ[AUTH_MODE] = "token"


def warn_of_open_token() -> None:
    """Warns of a token in a file that others may read, as Ray makes it."""
    path = Path(os.environ.get(TOKENS[1]) or Path.home() / TOKEN_FILE)
    with contextlib.suppress(OSError, RuntimeError):
        if not os.environ.get(TOKENS[0]) and _is_open(path.resolve()):
            say(f"dcgym: warning: others may read {path} and run programs as you; chmod 600 {path}", file=sys.stderr)


def _is_open(path: Path) -> bool:
    """Returns True if every user may read the file."""
    return bool(path.stat().st_mode & stat.S_IROTH) and all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)


def join(address: str, extra: str, start: str = "ray start --head --include-dashboard=false", **options: Any) -> Any:
    """Connects as a driver to the cluster at `address`, with more options of ray.init(), and returns Ray.

    `extra` is the extra of dc-gym that installs Ray. `start` is a command that starts a suitable cluster.
    """
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise UsageError(f"--address: Ray is not installed; pip install 'dc-gym[{extra}]', or leave --address out") from None
    try:
        _knock(address)
    except OSError as error:
        raise MachineError(f"--address {address}: {_nobody(str(error), start)}") from None
    try:
        with hushed(), own_sigterm(), contextlib.chdir(NOWHERE):
            ray.init(address=address, logging_level="ERROR", log_to_driver=False, **options)
    except Exception as error:  # Ray has no exception class for it
        raise MachineError(f"--address {address}: {_why(error, start)}") from None
    warn_of_open_token()
    if not HAS_TOKEN:
        say(f"dcgym: warning: {OPEN.format(address=address)}; {MAKE_TOKEN}", file=sys.stderr)
    return ray


def _why(error: Exception, start: str) -> str:
    """Explains the refusal of the server at that address, and names the remedy."""
    words = " ".join(str(error).split())
    if "Version mismatch" in words:  # the message names the Ray and Python versions of both sides
        return f"{words}; all machines need the same Ray and the same Python"
    if type(error).__name__ == "AuthenticationError":
        return f"{AUTH_MODE} asks for a token and this user has none; {GET_TOKEN}, or unset {AUTH_MODE}"
    if isinstance(error, ConnectionError):
        return f"it refuses every client ({words}): it wants another token than this user's, or is not a Ray cluster; {GET_TOKEN}"
    return _nobody((str(error).splitlines() or [type(error).__name__])[0], start)


def _nobody(words: str, start: str) -> str:
    return f"no Ray cluster answers ({words}); start one with `{start}` and give its address, or leave --address out"


def _knock(address: str) -> None:
    """Raises OSError where nobody listens. Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), KNOCK_S).close()


@contextlib.contextmanager
def own_sigterm() -> Iterator[None]:
    """Keeps the process's own handling of SIGTERM.

    Ray's would abort in C++, with a stack trace and before anything is cleaned up.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Silences standard error, also for code outside Python. Ray reports its log level, tokens and each attempt."""
    sys.stderr.flush()
    stderr_fd, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(stderr_fd, 2)
        os.close(stderr_fd)
        os.close(nowhere)
