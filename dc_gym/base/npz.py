# SPDX-License-Identifier: Apache-2.0
"""Reads .npz files of arrays from elsewhere: the policies of central agents and of NICs."""

from __future__ import annotations

import io
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base import bounded
from dc_gym.base.errors import AgentError, with_remedy
from dc_gym.base.files import whole

MOST_BYTES = 256_000_000
"""The most that the arrays of a compressed file may take. Policies have some ten thousand numbers."""
DAMAGED = (
    *(ValueError, EOFError, KeyError, NotImplementedError, RuntimeError, MemoryError, OverflowError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)
"""The exceptions of numpy and zipfile for a file that is no .npz, or that is incomplete."""


def load_arrays(path: Path, guide: str) -> dict[str, npt.NDArray[Any]]:
    """Returns all arrays of an .npz. If it is none, raises AgentError in one line, with `guide` as the remedy."""
    try:
        with path.open("rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as archive:
            assert archive.zip is not None
            _require_modest(path, archive.zip, os.fstat(file.fileno()).st_size)
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise AgentError(f"{path}: cannot read the policy: {with_remedy(error)}") from None
    except DAMAGED:
        raise AgentError(f"{path}: is not an .npz file of plain arrays; {guide}") from None


def _require_modest(path: Path, archive: zipfile.ZipFile, file_bytes: int) -> None:
    """Raises an error if the archive states more than MOST_BYTES, unless the file itself has as many: ours are not compressed.

    Python reads members packed like ours, or by numpy.savez_compressed, up to the stated size, and other kinds whole.
    """
    members = archive.infolist()
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
        raise ValueError("packed in another way than numpy's")
    stated_bytes = sum(member.file_size for member in members)
    bounded.require(f"{path}:", stated_bytes, max(MOST_BYTES, file_bytes), error=AgentError)


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
