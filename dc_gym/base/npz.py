# SPDX-License-Identifier: Apache-2.0
"""Files of arrays that come from elsewhere: what policies, central ones and those of NICs, are read from."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError

DAMAGED = (ValueError, EOFError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error)
"""What numpy and zipfile say of a file that is no .npz, or no longer a whole one."""


def load_arrays(path: Path, guide: str) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an .npz; AgentError in one line, with `guide` as what to do next, if it is none."""
    try:
        with path.open("rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except OSError as error:
        raise AgentError(f"{path}: cannot read the policy: {error.strerror or error}") from None
    except DAMAGED:
        raise AgentError(f"{path}: is not an .npz file of plain arrays; {guide}") from None
