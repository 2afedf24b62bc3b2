# SPDX-License-Identifier: Apache-2.0
"""The life of a result's folder: DIR.partial while it is written, synced, then renamed to DIR.

    with writing(out, force) as partial:   # nobody else's; removed unless it is finished, however this process ends
        ...                                # the traffic
        with kept_on_failure(partial):     # an error in here leaves DIR.failed
            ...
            finish(partial)                # now it is called DIR
        ...                                # the folder is still this process's

With force an older result is called DIR.replaced until the new one is there. If that fails, it gets its name back.
After a kill between any two steps, the janitor, the next run or `dcgym clean` can repair the folders.
Only dc-gym's own folders are ever removed: a result is a folder with all of FILES, an unfinished one has dc-gym's lock
(folder_lock.py).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

from dc_gym.base import folder_lock, janitor
from dc_gym.base.errors import MachineError, ResultError, TestbedError, UsageError, in_one_line, is_of_machine
from dc_gym.base.files import FAILED, PARTIAL, discard, empty, machine_errors, remove, sync, sync_tree
from dc_gym.base.folder_lock import LOCK
from dc_gym.base.process_bound import this_process
from dc_gym.spec import MATRIX_COPY, NIC_POLICY_COPY, POLICY_COPY, SIZES_COPY

__all__ = [
    "ASIDE",
    "CONTENTS",
    "COPIES",
    "FAILURE",
    "FILES",
    "GRAPH",
    "LEARNED",
    "finish",
    "is_result",
    "is_unfinished",
    "kept_on_failure",
    "recover",
    "writing",
]

ASIDE = ".replaced"
FAILURE = "failure.txt"
"""The file of DIR.failed with the reason why there is no result."""
LEARNED = "learned.npz"
GRAPH = "graph.json"
COPIES = (MATRIX_COPY, SIZES_COPY, POLICY_COPY, NIC_POLICY_COPY)
"""Files that a spec reads and of which the result keeps copies."""
REQUIRED = ("flows", "queues", "tcp")
"""The tables that every result has (tables.py). They are named here, too, so that a run can begin without numpy."""
FILES = ("manifest.json", "summary.json", "ports.json", *(f"{name}.parquet" for name in REQUIRED))
"""The files that a complete result has at least."""
CONTENTS: Mapping[str, str] = {
    "manifest.json": "the run: spec, seed, versions, fingerprint, ground, clock, seconds per phase, digest, fit or unfit",
    "summary.json": "the metrics, one number per name",
    "flows.parquet": "one row per flow",
    "queues.parquet": "one row per port and sweep (a sample of all queues)",
    "tcp.parquet": "one row per flow and sample of `TCP_INFO`",
    "nic_flows.parquet": "over RDMA or with `nic.tcp` ([NICs](nic.md)): one row per flow, with what the NICs counted",
    "decisions.parquet": "likewise, unless `nic.trace` is `off`: one row per decision of the algorithm",
    "classes.parquet": "with `workload.beside` or a DSCP: one row per flow, with its workload and DSCP",
    "class_queues.parquet": "with classes, shared buffers or PFC: one row per class of a port and sweep",
    "nic_events.parquet": "with `nic.event_queue`: one row per flow over a NIC, with the events that found its NIC's queue full",
    "acks.parquet": 'with `monitor.tcp = "acks"`: one row per ACK that a sender got',
    "nexthops.parquet": "with `topology.balance`: one row per next hop of a switch, with what it got",
    "reordering.parquet": "likewise: one row per host, with what its TCP counted of frames out of their order",
    "messages.parquet": 'with `workload.kind = "job"`: one row per message that was posted',
    "ranks.parquet": "likewise: one row per rank and iteration",
    "port_metrics.parquet": "one row per port: what follows from the tables, in the window of the metrics",
    "flow_metrics.parquet": "one row per flow: likewise, with ideal completion time and slowdown",
    "agent.parquet": "with `controller.policy`: one row per step: `step`, `t_ns`, `reward`, each host's `wanted_bps_HOST` and"
    " `enforced_bps_HOST`, or other values that it sets, such as `wanted_kmin_bytes_PORT`; in real time also `interval_ns`,"
    " wall time since the policy received the previous row",
    LEARNED: "with a policy that learns in the run: what it has learned, as arrays by name",
    "ports.json": "one object per port, asked and read back",
    GRAPH: "the network: hosts, switches, cables and queues; `dcgym topology` and `dcgym report` read it and run no code",
    "plot.png": "queue, goodput, srtt and fairness over time; for programs the busiest link and when they ran; absent with"
    " `--no-plot` and from sweeps; `dcgym plot DIR` draws it ([how](#plotpng))",
    MATRIX_COPY: 'with `workload.kind = "matrix"`: the flow matrix; `beside-N-...` is a file of entry N of `workload.beside`',
    SIZES_COPY: "with `workload.distribution_file`: that file",
    POLICY_COPY: "with a file as `controller.policy`: that file",
    NIC_POLICY_COPY: "with a file as `nic.policy`: that file",
    "capture/": "with `capture.ports` or `--pcap`: `PORT.pcapng` of each port, and `dcgym.lua` for Wireshark"
    " ([captures](capture.md))",
    "exec/": "with `workload.exec`: output of the programs, and the files they wrote, such as a"
    " [capture](workloads.md#capture-packets)",
    "code/": "the files of `plugins` and `topology.file`, and what they compile",
    "lab.log": "the lab kernel's console and the output of the programs in it",
}
"""All files of a result, and the contents of each, in Markdown."""
PATIENCE_S = 10.0


@contextlib.contextmanager
def writing(out: Path, force: bool) -> Iterator[Path]:
    """Yields DIR.partial, empty, reserved for this process, and closed to other users.

    Raises UsageError if DIR is taken, or if another run writes to it.
    """
    owner, partial, aside = this_process(), partial_of(out), out.with_name(out.name + ASIDE)
    _require_free(out, force)
    with machine_errors("make", partial):
        out.parent.mkdir(parents=True, exist_ok=True)
    with janitor.watching(partial, out, aside) as watch:
        try:
            held = _claim(partial)
        except MachineError:
            raise  # the janitor removes files that this process has made and nobody holds
        except UsageError:
            watch.done = True  # the folder that is there belongs to somebody else
            raise
        try:
            settle(out)
            _require_free(out, force)
            if os.path.lexists(out):
                with machine_errors("rename", out):
                    out.rename(aside)
            yield partial
        finally:
            if owner.is_here():
                _give_up(partial, out, aside, held)
                watch.done = not os.path.lexists(partial)


@contextlib.contextmanager
def kept_on_failure(partial: Path) -> Iterator[None]:
    """Renames DIR.partial to DIR.failed if the context raises an error: the traffic is over, and its records are of use.

    The error then names the folder. A user who interrupts the run wants nothing to be kept.
    """
    owner = this_process()
    try:
        yield
    except Exception as error:
        path = _keep(partial, error) if owner.is_here() else None
        if path is None:
            raise
        report = TestbedError(f"the traffic ended, but not the result: {in_one_line(error)}; what was recorded is kept in {path}")
        if is_of_machine(error):
            report.exit_code = MachineError.exit_code
        elif isinstance(error, TestbedError):
            report.exit_code = error.exit_code
        raise report from error


def finish(partial: Path) -> Path:
    """Syncs everything in DIR.partial to disk and renames it to DIR, which must not exist. An older result is removed.

    The folder stays locked until the context of `writing` ends.
    """
    if partial.suffix != PARTIAL:
        raise ValueError(f"{partial} does not end in {PARTIAL}")
    out = partial.with_suffix("")
    _require_free(out, force=False)
    for name in FILES:
        if not (partial / name).is_file():
            raise ResultError(f"{partial}: {name} is missing; the run did not get as far as its results")
    with machine_errors("finish", out):
        _open_as_usual(partial)
        sync_tree(partial)
        partial.rename(out)
        sync(out.parent)
    with machine_errors("remove", out.with_name(out.name + ASIDE)):
        remove(out.with_name(out.name + ASIDE))
    return out


def settle(out: Path) -> None:
    """Repairs a replacement that a killed run left: removes the older result if the new one is there, otherwise restores it.

    The caller holds DIR.partial. A folder that is not a result stays where it is.
    """
    aside = out.with_name(out.name + ASIDE)
    if is_result(out) and folder_lock.is_ours(out):  # finished; its writer was killed, or is about to end
        held = _patiently(out)
        if _may_go(aside):
            remove(aside)
        folder_lock.release(out, held)
    elif is_result(out) and _may_go(aside):
        remove(aside)
    elif not os.path.lexists(out) and _may_go(aside):
        with machine_errors("rename", aside):
            aside.rename(out)


def recover(out: Path) -> None:
    """Does `settle` where no run is under way. Raises UsageError if one is."""
    partial = partial_of(out)
    held = _claim(partial)
    try:
        settle(out)
    finally:
        discard(partial)
        held.close()


def is_result(path: Path) -> bool:
    """Returns True if the folder is a complete result, judged by its files."""
    return _is_folder(path) and all((path / name).is_file() for name in FILES)


def is_unfinished(path: Path) -> bool:
    """Returns True if a dc-gym run had the folder's lock, or was about to take it."""
    if not _is_folder(path):
        return False
    try:
        contents = [entry for entry in path.iterdir() if entry.name != LOCK or not _is_file(entry) or entry.stat().st_size]
    except (FileNotFoundError, PermissionError):  # its owner has removed it just now, or nobody else may look
        return False
    return not contents or folder_lock.is_ours(path)


def partial_of(out: Path) -> Path:
    if not out.name or out.name == "..":
        raise UsageError(f"--out {str(out)!r} is not the name of a folder to be made; give one such as results/first")
    try:
        str(out.absolute()).encode()
    except UnicodeEncodeError:
        raise UsageError(f"--out {out.absolute()}: its name is not UTF-8, as a result's files are; give another") from None
    return out.with_name(out.name + PARTIAL)


def _claim(partial: Path) -> io.FileIO:
    """Creates the folder, or takes over the folder that a killed run left."""
    while True:
        with folder_lock.beginning(partial.parent):
            held = _make_and_take(partial)
        if held is not None:
            break
    try:
        with machine_errors("empty", partial):
            empty(partial)
    except MachineError:
        held.close()
        raise
    return held


def _make_and_take(partial: Path) -> io.FileIO | None:
    """Returns the lock of the folder, or None if its owner has removed it just now."""
    existed = False
    with machine_errors("make", partial):
        try:
            partial.mkdir(0o700)
        except FileExistsError:
            existed = True
    if not is_unfinished(partial):
        if not os.path.lexists(partial):
            return None
        raise UsageError(f"{partial} exists and no run made it; give another --out")
    if existed and partial.lstat().st_uid != os.geteuid():
        raise UsageError(f"{partial} belongs to another user; remove it (dcgym clean {partial.parent}), or give another --out")
    try:
        with machine_errors("lock", partial):
            held = folder_lock.take(partial)
    except MachineError:
        if partial.exists():
            with contextlib.suppress(OSError):
                partial.rmdir()  # there is no room even for its lock
            raise
        return None
    if held is None:
        raise UsageError(f"{partial}: a run is under way here; wait for its end, or give another --out")
    return held


def _give_up(partial: Path, out: Path, aside: Path, held: io.FileIO) -> None:
    """Cleans up after a run: restores the older result if there is no new one, then removes the unfinished one."""
    try:
        if folder_lock.holds(held, out):
            (out / LOCK).unlink()
        if os.path.lexists(aside) and not os.path.lexists(out):
            with machine_errors("rename", aside):
                aside.rename(out)
        discard(partial)
    finally:
        held.close()


def _keep(partial: Path, error: Exception) -> Path | None:
    """Renames DIR.partial to DIR.failed and returns its new path, or None if there is nothing to keep or no way to keep it.

    It replaces the DIR.failed of an earlier run.
    """
    failed = partial.with_suffix(FAILED)
    try:
        if (failed / FAILURE).is_file():
            remove(failed)
        _open_as_usual(partial)
        partial.rename(failed)
    except (OSError, MachineError):  # finished, or somebody else's folder is in the way
        return None
    with contextlib.suppress(OSError):
        (failed / LOCK).unlink(missing_ok=True)
        (failed / FAILURE).write_text("".join(traceback.format_exception(error)))
    return failed


def _open_as_usual(partial: Path) -> None:
    """Gives a folder that was closed to others the mode that its user gives to folders."""
    umask = re.search(r"^Umask:\s*(\d+)$", Path("/proc/self/status").read_text(), re.MULTILINE)  # proc(5), Linux 4.7
    partial.chmod(0o777 & ~int(umask[1], 8) if umask else 0o700)


def _patiently(out: Path) -> io.FileIO:
    """Takes the lock of a result that another process may be finishing."""
    deadline = time.monotonic() + PATIENCE_S
    while (held := folder_lock.take(out)) is None:
        if time.monotonic() > deadline:
            raise UsageError(f"{out}: another run is finishing it; try again when it has ended, or give another --out")
        time.sleep(0.05)
    return held


def _require_free(out: Path, force: bool) -> None:
    """Raises UsageError if `out` may not be written. Anything but a result is never touched."""
    aside = out.with_name(out.name + ASIDE)
    if os.path.lexists(aside) and not _may_go(aside):
        raise UsageError(f"{aside} is in the way and not a result; move it, or give another --out")
    if not os.path.lexists(out):
        return
    if not _may_go(out):
        reason = "is not a result" if _is_folder(out) else "is a link" if out.is_symlink() else "is a file"
        raise UsageError(f"{out} {reason}, and --force replaces results only; give another --out")
    if not force:
        raise UsageError(f"{out} exists; replace it with --force, or give another --out")


def _may_go(path: Path) -> bool:
    """Returns True for a result or an empty folder, which --force may replace."""
    return is_result(path) or (_is_folder(path) and not any(path.iterdir()))


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
