# SPDX-License-Identifier: Apache-2.0
"""The folder that a run leaves behind (docs/results.md): written under DIR.partial, synced, renamed to DIR; read back, checked.

    with writing(out, force) as partial:                  # folder.py
        write_result(partial, tables, manifest, summary)  # the manifest goes last
        finish(partial)                                   # now it is called DIR

This module does not depend on how a run is made.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dc_gym.base import plain_json
from dc_gym.base.errors import ResultError, SpecError, TopologyError, UsageError, with_remedy
from dc_gym.base.files import FAILED, PARTIAL, machine_errors
from dc_gym.base.shape import fault
from dc_gym.base.spelling import unknown
from dc_gym.base.units import PPB, PPM
from dc_gym.ctrl.controllers import policy_name
from dc_gym.results import parquet, shapes
from dc_gym.results.agent_digest import PARTS, agent_digest_of
from dc_gym.results.copies import copy_inputs, policies, sha256
from dc_gym.results.digest import DIGEST_VERSION, Digest, digest_of
from dc_gym.results.folder import COPIES, FAILURE, FILES, GRAPH, finish, is_result, writing
from dc_gym.results.stored import StoredTables
from dc_gym.results.tables import TABLES, Names, Records, Tables, TableSource, slices
from dc_gym.spec import POLICY_COPY, without_code
from dc_gym.topologies.graph import Graph

__all__ = [
    "FILES",
    "PARTIAL",
    "RESULT_VERSION",
    "Result",
    "copy_inputs",
    "finish",
    "holds_results",
    "is_result",
    "load_result",
    "policies",
    "port_rows",
    "result_folders",
    "write_derived",
    "write_facts",
    "write_graph",
    "write_result",
    "write_tables",
    "writing",
]

RESULT_VERSION = 1
UNFIT = "unfit: "
"""Beginning of a line with the reason why a result is unfit. By it, a run's caller distinguishes this end from a failure."""
DERIVED = ("port_metrics", "flow_metrics", "agent")
"""Further tables of a present result. A result of an older version may lack them."""
DEPTH = 3
"""Levels of folders that are searched for results."""
PORT_KEYS: Mapping[str, str] = {
    "name": "the port",
    "owner": "the switch or host that it belongs to",
    "side": "`switch` or `host`: a host's queue is the sender's own",
    "rate_bps": "of its cable",
    "delay_ns": "of its cable",
    "buffer_bytes": "limit of its queue",
    "qdisc": "`port`, `bfifo`, `red`, `tbf`, or [one of Linux'](topologies.md#queues-of-linux)",
    "marking": "`none`, `step`, `red-instant` or `iroko-thesis`",
    "k_bytes": "threshold of the step; null without one",
    "kmin_bytes": "of a slope; null without one",
    "kmax_bytes": "of a slope; null without one",
    "pmax": "of a slope, 0 .. 1; null without one",
    "loss": "share of the frames sent by this port that its link loses, 0 .. 1",
    "jitter_ns": "of the frames sent by this port",
    "reorder": "share of the frames sent by this port that travel `reorder_delay_ns` longer, 0 .. 1",
    "reorder_delay_ns": "see `reorder`",
    "peer": "the port at the other end",
    "mtu_bytes": "largest IP packet",
}
"""The keys of a row of ports.json, with their meanings in Markdown."""


class Result:
    """A complete result. Its manifest, summary and ports are read at once, its tables when they are asked for."""

    def __init__(
        self, path: Path, manifest: Mapping[str, Any], summary: Mapping[str, Any], ports: Sequence[Mapping[str, Any]]
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.summary = summary
        self.stored = StoredTables(path, ports, _controllers(path, manifest))

    @property
    def ports(self) -> tuple[Mapping[str, Any], ...]:
        """The rows of ports.json."""
        return self.stored.ports

    @property
    def names(self) -> Names:
        """The strings of the records."""
        return self.stored.names

    @property
    def digest(self) -> str:
        """The digest stated in the manifest."""
        return str(self.manifest["digest"])

    @property
    def agent_digest(self) -> str:
        """The digest of agents' actions and learned states, computed from the files; '' if no agent acted."""
        return agent_digest_of(self.path)

    @property
    def fit(self) -> bool:
        """True if nothing happened that the numbers do not show (docs/results.md, "Fit or unfit")."""
        return bool(self.manifest.get("fit", True))

    @property
    def faults(self) -> list[str]:
        """The faults of the run, causes first: programs that failed, then why it is unfit."""
        ends = [end for end in self.manifest.get("exec", ()) if end.get("exit") and not end.get("stopped")]
        programs = [f"{end['command'][0]} in {end['host']} failed: {_last_words(end)}" for end in ends]
        return programs + [f"{UNFIT}{reason}" for reason in self.manifest.get("unfit_reasons", ())]

    @property
    def controller(self) -> dict[str, Any]:
        """The section `[controller]` of its spec. A policy has its own name, not its copy's."""
        section: dict[str, Any] = dict(self.manifest.get("spec", {}).get("controller", {}))
        policy = section.get("policy")
        if policy == POLICY_COPY:
            section["policy"] = self.policies.get(POLICY_COPY, policy)
        elif policy is not None:
            section["policy"] = policy_name(policy)
        return section

    @property
    def policies(self) -> dict[str, str]:
        """The original names of the policies of which it keeps copies, by the names of the copies."""
        stated = self.manifest.get("policies")
        return dict(stated) if isinstance(stated, Mapping) else {}

    @property
    def inputs(self) -> dict[str, str]:
        """SHA-256 of the files that the spec read, by the names of their copies. The spec contains only those names."""
        stated, code = self.manifest.get("inputs"), self.manifest.get("code")
        hashes = stated if isinstance(stated, Mapping) else sha256(self.path, COPIES)
        rows = [row for row in code if isinstance(row, Mapping)] if isinstance(code, list) else []
        return {**hashes, **{str(row.get("file")): str(row.get("sha256")) for row in rows}}

    @property
    def tables(self) -> Tables:
        """All tables as canonical records in memory; `stored` reads large ones in pieces."""
        return Tables(ports=self.ports, controllers=self.names.controller, **{name: self.records(name) for name in TABLES})

    def graph(self) -> Graph:
        """Returns the network that the run recorded.

        For a result of an older version, which recorded none, it is built from the spec. Raises ResultError if that needs code.
        """
        path = self.path / GRAPH
        try:
            if path.is_file():
                return Graph.from_json(_read_json(path, dict))
            written = self.manifest.get("spec")
            return without_code(written if isinstance(written, Mapping) else {}, self.path).graph()
        except TopologyError as error:
            raise ResultError(f"{path}: {error}; the file was changed") from None
        except SpecError as error:
            raise ResultError(f"{self.path}: an older version made it, without {GRAPH}: {error}") from None

    def arrow(self, name: str) -> pa.Table:
        """Returns a table as pyarrow reads it."""
        return self.stored.arrow(name)

    def records(self, name: str) -> Records:
        """Returns a table as canonical records. A string column holds row numbers of `names`."""
        return self.stored.table(name)

    def derived(self, name: str) -> pa.Table | None:
        """Returns a table of DERIVED as pyarrow reads it, or None if the result is of a version that had none."""
        path = self.path / f"{name}.parquet"
        if name not in DERIVED:
            raise UsageError(unknown("derived table", name, DERIVED))
        return parquet.read(path) if path.is_file() else None

    def column(self, name: str, column: str) -> npt.NDArray[Any]:
        """Returns one column: integers, or the strings themselves.

        Args:
            name: The table, such as "flows".
            column: The column, such as "received_bytes".
        """
        values = self.records(name)[column]
        kind = TABLES[name].strings.get(column)
        return values if kind is None else np.array(self.names.of_kind(kind), dtype=object)[values]

    def to_pandas(self, name: str) -> Any:
        """Returns a table as a pandas DataFrame. pandas is not a dependency of dc-gym."""
        try:
            importlib.import_module("pandas")
        except ImportError:
            raise UsageError("pandas is not installed; use Result.records(name), or: pip install pandas") from None
        table = self.derived(name) if name in DERIVED else self.arrow(name)
        if table is None:
            raise UsageError(f"{self.path} has no {name}.parquet: it was made by an older version; run it again")
        return table.to_pandas()

    def check_digest(self) -> None:
        """Computes the digests from the tables and compares them with the manifest's."""
        actual = digest_of(self.stored)
        if actual != self.digest:
            raise ResultError(f"{self.path}: the tables have digest {actual}, the manifest says {self.digest}: they were changed")
        stated = self.manifest.get("agent_digest")  # an older version stated none
        if stated is not None and (actual := self.agent_digest) != stated:
            why = f"{' and '.join(PARTS)} have digest {actual or '-'}, the manifest says {stated}: they were changed"
            raise ResultError(f"{self.path}: {why}")


def write_result(
    partial: Path,
    tables: Tables,
    manifest: Mapping[str, Any],
    summary: Mapping[str, Any],
) -> None:
    """Writes everything but inputs, plot and log.

    Args:
        partial: The folder of the unfinished result.
        tables: The canonical tables.
        manifest: The run's inputs.
        summary: The metrics.
    """
    digest = write_tables(partial, tables.names, {name: slices(tables.table(name)) for name in TABLES})
    write_facts(partial, tables, {**manifest, "digest": digest}, summary)


def write_tables(partial: Path, names: Names, tables: Mapping[str, Iterable[Records]]) -> str:
    """Writes the tables and returns their digest.

    Args:
        partial: The folder of the unfinished result.
        names: The names that records refer to by number.
        tables: The canonical records of each table, in pieces.
    """
    digest = Digest()
    for name, table in TABLES.items():
        if (records := digest.passing(name, tables[name])) is not None:
            parquet.write(partial / f"{name}.parquet", table, records, names)
    return digest.hexdigest()


def write_facts(partial: Path, tables: TableSource, manifest: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
    """Writes the JSON files, the manifest last.

    Args:
        partial: The folder of the unfinished result.
        tables: The tables that were written.
        manifest: The run's inputs; it has the digest already.
        summary: The metrics.
    """
    _write_json(partial / "ports.json", list(tables.ports))
    _write_json(partial / "summary.json", summary)
    versions = {"result_version": RESULT_VERSION, "digest_version": DIGEST_VERSION}
    _write_json(partial / "manifest.json", {**versions, **manifest, "controllers": list(tables.names.controller)})


def write_graph(partial: Path, graph: Graph) -> None:
    """Writes the network, so that readers of the result need not build it, for which they would have to run its code.

    Args:
        partial: The folder of the unfinished result.
        graph: The network.
    """
    path = partial / GRAPH
    with machine_errors("write", path):
        path.write_text(json.dumps(graph.to_json(), separators=(",", ":")) + "\n", encoding="utf-8")


def write_derived(partial: Path, name: str, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Writes NAME.parquet: numbers that follow from the tables. It is not part of the digest.

    Args:
        partial: The folder of the unfinished result.
        name: One of DERIVED.
        columns: Arrays of one length, by name.
    """
    parquet.write_columns(partial / f"{name}.parquet", columns)


def number(value: object) -> float:
    """Returns a number of a summary, or NaN if it has none."""
    return float(value) if isinstance(value, int | float) else float("nan")


def load_result(path: str | Path, check_digest: bool = False) -> Result:
    """Returns the result in a folder.

    Args:
        path: The folder.
        check_digest: Computes the digest of the tables and compares it with the manifest's.

    Raises:
        ResultError: It is no result, incomplete, of a later version, or changed.
    """
    path = Path(path)
    if not path.is_dir():
        raise ResultError(f"{path}: no such folder; give the folder of a result")
    if path.name.endswith(PARTIAL):
        raise ResultError(f"{path}: the run is under way or was interrupted; only a folder without {PARTIAL} is a result")
    if path.name.endswith(FAILED) and (path / FAILURE).is_file():
        raise ResultError(f"{path}: the run failed after its traffic, and this is what it left; {FAILURE} says why; run it again")
    missing = [name for name in FILES if not (path / name).is_file()]
    if missing:
        raise ResultError(f"{path}: not a result: {', '.join(missing)} missing; give the folder that `dcgym run` wrote")
    manifest = _read_json(path / "manifest.json", dict)
    _check_version(path, manifest)
    _check_shape(path / "manifest.json", manifest, shapes.MANIFEST)
    summary = _read_json(path / "summary.json", dict)
    _check_shape(path / "summary.json", summary, shapes.SUMMARY)
    result = Result(path, manifest, summary, _read_ports(path / "ports.json"))
    for table in TABLES.values():
        if result.stored.has(table.name):
            parquet.check(path / f"{table.name}.parquet", table)
    if check_digest:
        result.check_digest()
    return result


def holds_results(folder: Path) -> bool:
    """Returns True if the folder is no result, complete or damaged, but contains results, such as the folder of a sweep."""
    return folder.is_dir() and not any((folder / name).is_file() for name in FILES) and any(_results_below(folder))


def result_folders(folder: Path) -> list[Path]:
    """Returns the folders of complete results in a folder that may hold many, such as a sweep's, in the order of their paths."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; give one that holds results, such as that of a sweep")
    folders = sorted(_results_below(folder))
    if not folders:
        raise UsageError(f"{folder}: it holds no result; give the folder of a sweep, or one with several results")
    return folders


def _results_below(folder: Path) -> Iterator[Path]:
    """Yields the result folders below, including the folder itself."""
    for depth in range(DEPTH):
        paths = (path.parent for path in folder.glob("*/" * depth + "manifest.json"))
        yield from (path for path in paths if not path.name.endswith((PARTIAL, FAILED)))


def port_rows(graph: Graph) -> list[dict[str, Any]]:
    """Returns the requested rows of ports.json, in the order of the state matrix."""
    rows, hosts = [], {host.name for host in graph.hosts}
    for port in graph.ports():
        cable, queue = graph.cable_of(port), port.queue
        side = "host" if port.node in hosts else "switch"
        marking, impairment = queue.marking, cable.impairment
        values = (port.ifname, port.node, side, cable.rate_bps, cable.delay_ns, queue.limit_bytes, queue.kind, marking.kind)
        thresholds = (marking.k_bytes or None, marking.min_bytes or None, marking.max_bytes or None)
        pmax = marking.probability_ppm / PPM if marking.max_bytes else None
        way = (impairment.loss_ppb / PPB, impairment.jitter_ns, impairment.reorder_ppb / PPB, impairment.reorder_delay_ns)
        rows.append(
            dict(zip(PORT_KEYS, (*values, *thresholds, pmax, *way, graph.peer(port).ifname, graph.mtu_bytes), strict=True))
        )
    return rows


def _last_words(end: Mapping[str, Any]) -> str:
    """Returns the last line of a failed program (traffic/execs.py), and how it ended."""
    status = f"exit {end['exit']}" if end["exit"] > 0 else f"killed by signal {-end['exit']}"
    return f"{end['said']} ({status})" if end.get("said") else status


def _check_version(path: Path, manifest: Mapping[str, Any]) -> None:
    version = manifest.get("result_version")
    if type(version) is not int or version < 1:
        raise ResultError(f"{path / 'manifest.json'}: result_version = {version!r} is not a version; the file was changed")
    if version > RESULT_VERSION:
        raise ResultError(f"{path}: result_version {version} is later than {RESULT_VERSION}, the last known here; upgrade dc-gym")
    if not isinstance(manifest.get("digest"), str):
        raise ResultError(f"{path / 'manifest.json'}: digest is missing; the file was changed")


def _controllers(path: Path, manifest: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the names of the controllers that the result recorded, or None if it is of a version that recorded none."""
    names = manifest.get("controllers")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ResultError(f"{path / 'manifest.json'}: controllers is not a list of names; the file was changed")
    return tuple(names)


def _read_ports(path: Path) -> list[dict[str, Any]]:
    ports: list[dict[str, Any]] = _read_json(path, list)
    for row, port in enumerate(ports):
        missing = [key for key in ("name", "owner", "rate_bps") if not isinstance(port, dict) or key not in port]
        if missing:
            raise ResultError(f"{path}: port {row} has no {missing[0]}; the file was changed")
    _check_shape(path, ports, shapes.PORTS)
    return ports


def _check_shape(path: Path, value: Any, shape: shapes.Shape) -> None:
    if problem := fault(value, shape):
        raise ResultError(f"{path}: {problem}; the file was changed")


def _read_json(path: Path, kind: type) -> Any:
    try:
        value = plain_json.read(path)
    except OSError as error:
        raise ResultError(f"{path}: cannot read it: {with_remedy(error)}") from None
    except ValueError as error:
        raise ResultError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, kind):
        raise ResultError(f"{path}: not a JSON {'object' if kind is dict else 'list'}; the file was changed")
    return value


def _write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    with machine_errors("write", path):
        path.write_text(text, encoding="utf-8")
