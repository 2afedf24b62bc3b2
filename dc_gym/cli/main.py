# SPDX-License-Identifier: Apache-2.0
"""The `dcgym` command: arguments, exit codes, and errors as one line.

Other modules do the commands' work; they are imported when needed.
Exit codes: 0 good; 1 the run or a bar failed; 2 an error that the user can correct, in the command or on the machine; 130
interrupted (Ctrl-C); 143 terminated (SIGTERM, as `timeout` and batch systems send it); 129 hung up (SIGHUP: its terminal was
closed). After 129, 130 and 143 nothing is left behind.
DCGYM_TRACEBACK=1 shows where an error came from.
"""

from __future__ import annotations

import atexit
import errno
import gc
import logging
import os
import re
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress

from dc_gym.base import process_room, usercode
from dc_gym.base.errors import INTERRUPTED, TestbedError, UsageError, in_words, naming
from dc_gym.base.terminal import STANDARD_OUTPUT, say
from dc_gym.cli import parser
from dc_gym.cli.signals import ENDS, Terminated, terminable
from dc_gym.results.figures import settings

__all__ = ["main"]

EXPECTED_ERRNOS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    *(errno.ENOBUFS, errno.ENOLCK),
    *(errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTEMPTY, errno.EIO),
)
"""Error numbers that the machine or a path of the user's can cause anywhere.

Any other OSError is a bug and keeps its traceback.
"""
TRACEBACK = "DCGYM_TRACEBACK"
NUMPY_THREADS = "OPENBLAS_NUM_THREADS"
WITH_THREADS = ("bench", "study", "train")
"""Commands whose own process may compute with large matrices. Some methods' commands may, too (Method.threads).

All others use numpy without threads: runs side by side would start one for each CPU each, and where no further thread can be
started, numpy's library interrupts the process as Ctrl-C does.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns the exit code. argparse's own exits (--help, 2 for bad arguments) are SystemExit."""
    words = sys.argv[1:] if argv is None else argv
    command = words[0] if words else ""
    if not (command in WITH_THREADS or (command == "method" and _has_threads(words))):
        os.environ.setdefault(NUMPY_THREADS, "1")
    settings.ignore_current_folder()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # without a home it warns about its cache folder
    warnings.filterwarnings("ignore", "Glyph .* missing")  # from matplotlib, with the raw character
    try:
        args = parser.build(command).parse_args(words, Namespace(argv=tuple(words)))
        with terminable():
            code = _dispatch(args)
            with naming(STANDARD_OUTPUT):
                sys.stdout.flush()
    except Terminated as ended:
        return _fail(*ENDS[ended.number])
    except KeyboardInterrupt as error:
        return _fail(_how_interrupted(error), INTERRUPTED)
    except BrokenPipeError:
        _discard_output()
        return 1
    except (Exception, SystemExit) as error:
        _reraise_if_asked()
        if (failure := _in_words(error)) is None:
            raise
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        return _fail(*failure)
    return code


def _has_threads(words: Sequence[str]) -> bool:
    """Returns whether these are words of a method whose commands may use threads."""
    from dc_gym.base import methods

    return len(words) > 1 and (method := methods.by_name().get(words[1])) is not None and method.threads


def _discard_output() -> None:
    """Lets the interpreter's last flush succeed where its output cannot be written: it would fail with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _how_interrupted(error: KeyboardInterrupt) -> str:
    """Returns one line about an interruption. numpy's library interrupts the process as Ctrl-C does if it can start no thread."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith("numpy/__init__.py"):
            return f"interrupted while numpy was loaded; if nobody pressed Ctrl-C: {process_room.refused()}"
        trace = trace.tb_next
    location = usercode.place_of(error)
    return f"interrupted in {location}" if location else "interrupted"


def _in_words(error: BaseException) -> tuple[str, int] | None:
    """Returns text and exit code of an error that a user can see. None: it is a bug, which keeps its traceback."""
    if isinstance(error, TestbedError):
        return str(error), error.exit_code
    if process_room.is_refusal(error):
        return process_room.refused(), UsageError.exit_code
    if (user_error := usercode.in_words(error)) is not None:
        return str(user_error), user_error.exit_code
    if isinstance(error, ImportError) and (library := _missing_library(error)) is not None:
        remedy = "install the distribution's package that has it" + (" (libstdc++6)" if library.startswith("libstdc++") else "")
        return f"this machine lacks the library {library}, which a Python package loads: {remedy}", UsageError.exit_code
    if isinstance(error, OSError) and error.errno in EXPECTED_ERRNOS:
        return _told(error), UsageError.exit_code
    return None


def _told(error: OSError) -> str:
    """Returns one line about an error of the operating system."""
    if error.filename is None and "temporary directory" in str(error.strerror):  # an error of tempfile
        return f"{error.strerror}: set TMPDIR to a folder that you may write to"
    return in_words(error)


def _missing_library(error: ImportError) -> str | None:
    """Returns the missing shared library that kept a package from being imported, or None if the error has another cause."""
    match = re.search(r"(\S+\.so\S*): cannot open shared object file", f"{error} {error.__cause__}")
    return match[1] if match else None


def _dispatch(args: Namespace) -> int:
    command: Callable[[Namespace], int] = args.command
    return command(args)


def _fail(text: str, code: int) -> int:
    with suppress(OSError):  # the terminal may be gone
        say(f"dcgym: {text}", file=sys.stderr)
    return code


def _reraise_if_asked() -> None:
    if os.environ.get(TRACEBACK) == "1":
        raise


@atexit.register
def _spare_the_last_collections() -> None:
    """Leaves out the interpreter's last collections, which would take a tenth of a second for a run's libraries. Libraries that
    torch loads with CUDA print the objects that were not collected, forty lines."""
    if "torch" not in sys.modules:
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
