# SPDX-License-Identifier: Apache-2.0
"""Writes an algorithm of the NICs as a device file for DOCA PCC: its header, whole, and around it the device API's entry points.

DOCA knows no window, no bytes of ACKs, no timeouts, and tells nothing of the path: that is a flow's four parameters more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.files import put
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.ctrl.nic import algorithms, golden
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.ctrl.nic.doca.device_file import HERE, compiler
from dc_gym.ctrl.nic.doca.headers import inlined

CONTEXT_WORDS, PARAMETERS_MAX = 12, 44


def write(algorithm: Algorithm, preset: str, line_bps: int, out: Path, force: bool = False) -> Path:
    """Writes the device file.

    Args:
        algorithm: The algorithm, compiled.
        preset: Its preset; "" is the first.
        line_bps: The NIC's line rate, to which times are scaled.
        out: The file.
        force: Replace any file there.
    """
    setting = algorithms.resolve_parameters(algorithm, preset, {}, line_bps)
    _require(algorithm, setting.preset)
    rows = [
        (
            setting.values[parameter.name],
            parameter.least,
            parameter.greatest,
            f"{parameter.name}, {parameter.help} ({parameter.unit})",
        )
        for parameter in algorithm.parameters
    ]
    rows += [
        (10_000, 1, 2**31, "base_rtt_ns, round trip of a probe over the idle path"),
        (line_bps // 10**6, 1, 10**7, "line_mbps, line rate in Mbit/s"),
        (1090, 64, 65535, "packet_bytes, a full frame as the cable carries it"),
        (2, 1, 255, "hops, links from end to end"),
    ]
    mark = mark_of("nic export", [str(algorithm.header)], out)
    require_place(out, is_marked(mark), force=force)
    text = _text(algorithm, setting.preset, rows, mark)
    compiler("gcc", "-std=gnu11", "-fsyntax-only", "-Wall", "-Werror", f"-I{HERE}", "-x", "c", "-", text=text)
    return put(out, text.encode())


def _require(algorithm: Algorithm, preset: str) -> None:
    """Raises UsageError if DOCA PCC lacks something that the algorithm needs."""
    name = algorithm.name
    for needed, what in ((algorithm.table, "a policy's table"), (algorithm.telemetry, "telemetry of switch ports")):
        if needed:
            raise UsageError(f"{name} reads {what}, which a device file for DOCA PCC has not here; export another algorithm")
    if algorithm.state_words >= CONTEXT_WORDS:
        raise UsageError(f"{name} has {algorithm.state_words} words of context; DOCA PCC has {CONTEXT_WORDS}, one for the rate")
    if len(algorithm.parameters) + 4 > PARAMETERS_MAX:
        raise UsageError(f"{name} has {len(algorithm.parameters)} parameters; DOCA PCC has {PARAMETERS_MAX}, four for the path")
    argv = golden.runner_argv(algorithm, golden.values_of(algorithm, preset))
    if any(row.window_bytes for row in golden.decisions(argv, golden.trace("fabric", algorithm, 1))):
        raise UsageError(
            f"{name} with preset {preset!r} sets windows, and DOCA PCC has rates alone; give a --preset without them"
        )


def _text(algorithm: Algorithm, preset: str, rows: Sequence[tuple[int, int, int, str]], mark: str) -> str:
    settings = "".join(
        f' \\\n\tX({number}, {initial}u, {least}u, {greatest}u, "{description}")'
        for number, (initial, least, greatest, description) in enumerate(rows)
    )
    return f"""/*
 * {algorithm.name}{f", preset {preset}," if preset else ""} for NVIDIA's DOCA PCC. {mark}
 *
 * First come headers of dc-gym, {algorithm.header.name} the last of them, then what the device API calls. The last four
 * parameters are those of your path. This file was compiled against dc-gym's declarations of the API's documented
 * names. It never ran on a NIC.
 */
#include <doca_pcc_dev.h>
#include <doca_pcc_dev_event.h>
#include <doca_pcc_dev_algo_access.h>

{inlined(algorithm.header.resolve())}

#define DEVICE_PARAMETERS {len(algorithm.parameters)}
#define DEVICE_SETTINGS(X){settings}

{inlined(HERE / "device.h")}
"""
