# SPDX-License-Identifier: Apache-2.0
"""Makes an algorithm of the NICs of a device file for DOCA PCC: a header, and the plug-in that registers it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.files import put
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.ctrl import controllers
from dc_gym.ctrl.nic import build
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.ctrl.nic.doca.device_file import ALGO, HERE, INIT, DeviceFile, compiler
from dc_gym.ctrl.nic.doca.headers import inlined

EVENTS = {2: "CC_CNP", 3: "CC_TX", 4: "CC_ACK", 5: "CC_NACK", 6: "CC_RTT"}
CONTEXT_BYTES, COUNTERS, SET_UP_S = 48, 16, 10


def read(sources: Sequence[Path], name: str, includes: Sequence[Path], out: Path, folder: Path, force: bool = False) -> Algorithm:
    """Writes NAME.h and NAME.py, and returns the algorithm, compiled in a scratch folder.

    Args:
        sources: The device program's C sources.
        name: The name that specs will call it by.
        includes: Further folders with headers.
        out: The folder for the two files.
        folder: A folder for what is made on the way.
        force: Replace files that this command did not make of the same sources.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise UsageError(f"--name {name}: a name has small letters, digits and hyphens, and begins with a letter")
    if controllers.find(name) is not None:
        raise UsageError(f"--name {name}: dc-gym has a controller of that name; give another")
    device = DeviceFile(sources, includes, folder)
    if faults := device.faults():
        raise UsageError(faults[0] + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""))
    mark = mark_of("nic import", list(sources), out / f"{name}.h")
    header = folder / f"{name}.h"
    header.write_text(_header(device, _set_up(device, folder), name, mark))
    try:
        algorithm = build.compile_header(header, folder, name)
    except UsageError as error:  # of a line of the device file
        raise UsageError(str(error).removeprefix(f"{header}: ")) from None
    files = {out / f"{name}.h": header.read_text(), out / f"{name}.py": _plugin(name, "cnp" in algorithm.events, mark)}
    for path in files:
        require_place(path, is_marked(mark), force=force)
    for path, text in files.items():
        put(path, text.encode())
    return algorithm


def _set_up(device: DeviceFile, folder: Path) -> list[list[str]]:
    """Checks the size of the context, and returns what doca_pcc_dev_user_init() sets up: the words that doca_pcc_dev.c prints."""
    limit = f"the context of a flow has {CONTEXT_BYTES} bytes"
    checks = [
        f'# {line.number} "{Path(line.file).name}"\n_Static_assert(sizeof(*({kind})0) <= {CONTEXT_BYTES}, "{limit}");\n'
        for line, kind in device.context_types()
    ]
    source, program = folder / "device-checked.i", folder / "device"
    source.write_text(device.text + "".join(checks))
    flags = ("-std=gnu11", "-w", "-static", "-Wl,--unresolved-symbols=ignore-all", f"-I{HERE}", "-o", str(program))
    compiler("gcc", *flags, "-x", "c", str(HERE / "doca_pcc_dev.c"), "-x", "cpp-output", str(source))
    try:
        process = subprocess.run([str(program)], capture_output=True, text=True, timeout=SET_UP_S)
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"{device.sources[0]}: {INIT}() did not end within {SET_UP_S} s; is there a loop without an end?"
        ) from None
    words = [line.split(" ", 5) for line in process.stdout.splitlines()]
    numbers = [int(row[1]) for row in words if row[0] == "parameter"]
    if process.returncode or numbers != list(range(len(numbers))):
        fault = f"ended with {process.returncode}" if process.returncode else f"counts its parameters {numbers}, not from 0"
        raise UsageError(f"{device.sources[0]}: {INIT}() {fault}; mend it")
    return words


def _header(device: DeviceFile, set_up: Sequence[Sequence[str]], name: str, mark: str) -> str:
    facts = {row[0]: int(row[1]) for row in set_up if row[0] != "parameter"}
    if facts["counters"] > COUNTERS:
        raise UsageError(f"{device.sources[0]}: {facts['counters']} counters; a NIC here has room for {COUNTERS}")
    events = [f"CC_MASK({event})" for number, event in EVENTS.items() if not facts["disabled"] >> number & 1]
    files = ", ".join(source.name for source in device.sources)
    rows = " \\\n\t".join(("", *(_parameter(*row[1:]) for row in set_up if row[0] == "parameter")))
    guard = f"DCGYM_IMPORTED_{name.upper().replace('-', '_')}_H"
    return f"""/*
 * {files}, a device file for DOCA PCC, preprocessed, as an algorithm of dc-gym. Change that file and import it again.
 * {mark}
 */
#ifndef {guard}
#define {guard}
#pragma GCC system_header

#define PCC_SLOT {facts["slot"]}
{inlined(HERE / "pcc.h", ("cc.h",))}

#define CC_NAME        "{name}"
#define CC_HELP        "{files}, imported from DOCA PCC"
#define CC_EVENTS      ({" | ".join(events)})
#define CC_STATE_WORDS CC_CONTEXT_WORDS

#define CC_PARAMETERS(X){rows}
#define CC_PRESETS(X)

{device.as_algorithm()}
PCC_ON_EVENT(own_{ALGO})

#endif
"""


def _parameter(number: str, default: str, least: str, greatest: str, text: str = "") -> str:
    """Returns a row of CC_PARAMETERS. By custom the text of a parameter is "NAME, what it is"."""
    name = re.sub(r"\W+", "_", text.split(",")[0].lower()).strip("_")
    name = name if re.fullmatch(r"[a-z]\w*", name) else f"parameter_{number}"
    description = re.sub(r'["\\\0]', "", text)
    return f'X({name}, "DOCA PCC", {default}u, {least}u, {greatest}u, "the device file", "{description}")'


def _plugin(name: str, ecn: bool, mark: str) -> str:
    return f'''"""Registers {name}.h, an algorithm of the NICs. {mark}"""

from dc_gym.ctrl.controllers import Controller, register

register(Controller("{name}", "{name}", nic=True, ecn={ecn}, header="{name}.h"))
'''
