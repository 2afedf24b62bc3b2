# SPDX-License-Identifier: Apache-2.0
"""Reads .npz files of arrays from elsewhere: the policies of central agents and of NICs."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.base.files import whole

DAMAGED = (
    *(ValueError, EOFError, KeyError, NotImplementedError, RuntimeError, MemoryError, OverflowError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)
"""The exceptions of numpy and zipfile for a file that is no .npz, or that is incomplete."""


def load_arrays(path: Path, guide: str) -> dict[str, npt.NDArray[Any]]:
    """Returns all arrays of an .npz. If it is none, raises AgentError in one line, with `guide` as what to do next."""
    try:
        with path.open("rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except OSError as error:
        raise AgentError(f"{path}: cannot read the policy: {error.strerror or error}") from None
    except DAMAGED:
        raise AgentError(f"{path}: is not an .npz file of plain arrays; {guide}") from None


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes an .npz that numpy.load reads, whole or not at all, also after a power failure. Raises OSError.

    Equal arrays give equal bytes, whatever the versions of Python and numpy. numpy.savez does not promise that: it forces ZIP64,
    whose headers Python 3.12 writes with another version than 3.11.
    """
    with whole(path, durable=True) as work, zipfile.ZipFile(work, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asanyarray(array), version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())
