# SPDX-License-Identifier: Apache-2.0
"""The digest of agents' actions in a run: SHA-256 over their table and their learned states (docs/digests.md).

It is apart from the digest of the records: rewards and learned states depend on numpy, and the records do not contain them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.npz import load_arrays
from dc_gym.results import parquet
from dc_gym.results.folder import LEARNED

VERSION = 1
TABLE = "agent"
PARTS = (f"{TABLE}.parquet", LEARNED)
"""The files that it covers."""
Arrays = Mapping[str, npt.NDArray[Any]]


def agent_digest(table: Arrays, learned: Arrays) -> str:
    """Returns 64 hexadecimal digits. `learned` is empty if nothing learns in the run."""
    digest = hashlib.sha256(f"dcgym-agent-digest {VERSION}\n".encode("ascii"))
    for part, arrays in zip(PARTS, (table, learned), strict=True):
        digest.update(f"{part} {len(arrays)}\n".encode())
        for name, values in arrays.items():
            plain = np.asarray(values).astype(np.asarray(values).dtype.newbyteorder("<"), order="C")
            digest.update(f"{name} {plain.dtype.str} {list(plain.shape)}\n".encode())
            digest.update(plain.tobytes())
    return digest.hexdigest()


def read_agents(folder: Path) -> tuple[Arrays, Arrays] | None:
    """Returns the table of the agents of a result, and their learned states; None if no agent acted."""
    path = folder / PARTS[0]
    if not path.is_file():
        return None
    read = parquet.read(path)
    learned = folder / LEARNED
    arrays = load_arrays(learned, "the file was changed") if learned.is_file() else {}
    return {name: read.column(name).to_numpy() for name in read.column_names}, arrays


def agent_digest_of(folder: Path) -> str:
    """Returns the digest of the agents of a result, or '' if no agent acted."""
    agents = read_agents(folder)
    return "" if agents is None else agent_digest(*agents)


def first_agent_difference(a: Path, b: Path) -> str:
    """Returns in words where the agents of two results first differ: in the table by step, then in their learned states."""
    both = read_agents(a), read_agents(b)
    if both[0] is None or both[1] is None:
        return f"only {'B' if both[0] is None else 'A'} has {PARTS[0]}"
    (one, learned), (other, also_learned) = both[0], both[1]
    return _in_table(one, other) or _in_arrays(learned, also_learned)


def _in_table(one: Arrays, other: Arrays) -> str:
    """Returns the first step at which two tables differ, with every column that does; '' if they are equal."""
    if list(one) != list(other):
        return f"{PARTS[0]}: other columns: {', '.join(sorted(set(one) ^ set(other))) or 'in another order'}"
    steps = min(len(one["step"]), len(other["step"]))
    unequal = {name: ~_same(one[name][:steps], other[name][:steps]) for name in one}
    rows = np.flatnonzero(np.any(list(unequal.values()), axis=0)) if steps else np.empty(0, np.int64)
    if not len(rows):
        return "" if len(one["step"]) == len(other["step"]) else f"{PARTS[0]}: {len(one['step'])} and {len(other['step'])} steps"
    row = int(rows[0])
    values = ", ".join(f"{name} {one[name][row]} and {other[name][row]}" for name, where in unequal.items() if where[row])
    return f"{PARTS[0]}, step {one['step'][row]} at t = {one['t_ns'][row]} ns: {values} (row {row})"


def _in_arrays(one: Arrays, other: Arrays) -> str:
    for name in dict.fromkeys((*one, *other)):
        if name not in one or name not in other:
            return f"{LEARNED}: only {'B' if name not in one else 'A'} has {name}"
        a, b = one[name], other[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{LEARNED}: {name} has {a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}"
        if a.tobytes() != b.tobytes():
            index = tuple(int(coordinate) for coordinate in np.argwhere(~_same(a, b))[0]) if not _same(a, b).all() else ()
            return f"{LEARNED}: {name}{list(index) if index else ''} is {a[index]} and {b[index]}"
    return f"{LEARNED}: its arrays are in another order"


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Returns which values are equal; NaN equals NaN."""
    equal: npt.NDArray[np.bool_] = np.asarray((a == b) | ((a != a) & (b != b)))
    return equal
