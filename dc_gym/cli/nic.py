# SPDX-License-Identifier: Apache-2.0
"""`dcgym nic list` and `dcgym nic show`: the algorithms of the NIC and their parameters. nic_check.py has the rest."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.base.terminal import say

if TYPE_CHECKING:
    from dc_gym.ctrl.nic.algorithm import Algorithm


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list the algorithms, their events and their state per flow")
    listing.add_argument("--json", action="store_true", help="print one JSON list")
    show = commands.add_parser("show", help="show an algorithm's parameters and presets")
    show.add_argument("name", metavar="NAME|FILE", help="an algorithm of `dcgym nic list`, or a header of your own (*.h)")
    show.add_argument("--preset", default="", metavar="NAME", help="show the values of this preset (default: the first)")
    show.add_argument("--line", metavar="RATE", help="scale the values to a line of this rate, such as 1Gbit/s")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    check = commands.add_parser("check", help="compile an algorithm, test it on golden traces, and run it in a kernel")
    check.add_argument("name", metavar="NAME|FILE", help="an algorithm of `dcgym nic list`, or a header of your own (*.h)")
    check.add_argument("--preset", default="", metavar="NAME", help="the preset to check (default: the first)")
    check.add_argument(
        "--policy", metavar="POLICY", help="the policy to run, if the algorithm reads one: a file, or a name (default: its own)"
    )
    check.add_argument("--here", action="store_true", help="run it in this machine's kernel, as root, instead of a lab")
    check.add_argument("--no-kernel", action="store_true", help="run it in userspace only")
    importing = commands.add_parser("import", help="make an algorithm of a device file for NVIDIA's DOCA PCC")
    importing.add_argument("files", nargs="+", type=Path, metavar="FILE.c", help="the C sources of the device program")
    importing.add_argument("--name", metavar="NAME", help="what specs call it (default: the first file's name)")
    importing.add_argument("--include", action="append", type=Path, default=[], metavar="DIR", help="a folder with its headers")
    importing.add_argument(
        "--out", type=Path, metavar="DIR", help="the folder for NAME.h and NAME.py (default: the first file's)"
    )
    importing.add_argument("--force", action="store_true", help="replace these files even if they were made of other sources")
    export = commands.add_parser("export", help="write an algorithm as a device file for NVIDIA's DOCA PCC")
    export.add_argument("name", metavar="NAME|FILE", help="an algorithm of `dcgym nic list`, or a header of your own (*.h)")
    export.add_argument("--target", choices=("doca-pcc",), required=True, help="the vendor's interface")
    export.add_argument("--preset", default="", metavar="NAME", help="the preset of its parameters (default: the first)")
    export.add_argument("--line", default="100Gbit/s", metavar="RATE", help="the line rate of the NIC (default: %(default)s)")
    export.add_argument("--out", type=Path, metavar="FILE.c", help="the file to write (default: NAME-doca-pcc.c)")
    export.add_argument("--force", action="store_true", help="replace any file of that name")


def main(args: argparse.Namespace) -> int:
    return {"list": _list, "show": _show, "check": _check, "import": _import, "export": _export}[args.action](args)


def _list(args: argparse.Namespace) -> int:
    from dc_gym.base.files import scratch
    from dc_gym.base.readable import columns
    from dc_gym.ctrl.nic import algorithms

    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        rows = [algorithms.load(name, folder) for name in algorithms.names()]
    if args.json:
        keys = ("name", "help", "events", "state_words", "fits", "table", "telemetry")
        say(json.dumps([{key: asdict(algorithm)[key] for key in keys} for algorithm in rows], indent=1))
        return 0
    table = [("algorithm", "ConnectX", "state", "events", "what it does")]
    for algorithm in rows:
        fits = "fits" if algorithm.fits else "does not fit"
        table.append((algorithm.name, fits, f"{4 * algorithm.state_words} B", " ".join(algorithm.events), algorithm.help))
    say(columns(table))
    return 0


def _show(args: argparse.Namespace) -> int:
    from dc_gym.base.files import scratch
    from dc_gym.base.readable import columns
    from dc_gym.base.units import parse_rate_bps
    from dc_gym.ctrl.nic import algorithms

    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        nic_algorithm = _algorithm(args.name, folder)
    line_bps = parse_rate_bps(args.line, "--line") if args.line else algorithms.SCALED_FOR_BPS
    setting = algorithms.resolve_parameters(nic_algorithm, args.preset, {}, line_bps)
    if args.json:
        facts = {**asdict(nic_algorithm), "header": str(nic_algorithm.header), "setting": setting.to_dict()}
        say(json.dumps({key: facts[key] for key in facts if key not in ("runner", "object")}, indent=1))
        return 0
    say(f"{nic_algorithm.name}: {nic_algorithm.help}")
    say(f"events {', '.join(nic_algorithm.events)}; {4 * nic_algorithm.state_words} bytes a flow", end="")
    say("" if nic_algorithm.fits else ", more than a ConnectX has", end="\n\n")
    head = ("parameter", "value", "default", "range", "unit", "source", "what it is")
    table = [head]
    for param in nic_algorithm.parameters:
        span = f"{param.least}..{param.greatest}"
        row = (str(setting.values[param.name]), str(param.default), span, param.unit, param.source, param.help)
        table.append((param.name, *row))
    if not nic_algorithm.parameters:
        say("no parameters, and no presets")
        return 0
    say(columns(table))
    say(f"\nvalues: preset {setting.preset or '-'}, on a line of {args.line or '100Gbit/s'}")
    for name in setting.capped:
        say(f"{name}: more than the NIC's clock can tell; held at {setting.values[name]}")
    for name, time_ns in setting.nic.items():
        say(f'it asks for nic.{name} = "{time_ns}ns"')
    say("\npresets:" if nic_algorithm.presets else "\nno presets")
    say(columns([(preset.name, preset.help) for preset in nic_algorithm.presets], indent="  "))
    return 0


def _algorithm(name: str, folder: Path) -> Algorithm:
    """Returns an algorithm by its name, or that of a header, compiled in a folder."""
    from dc_gym.ctrl.nic import algorithm, algorithms, build

    if not name.endswith(".h"):
        return algorithms.load(name, folder)
    header = Path(name)
    return algorithm.describe(header, build.compile_runner(header, folder), folder / "none")


def _check(args: argparse.Namespace) -> int:
    from dc_gym.cli import nic_check

    return nic_check.main(args)


def _import(args: argparse.Namespace) -> int:
    from dc_gym.base.files import scratch
    from dc_gym.ctrl.nic.doca import importer

    name = args.name or args.files[0].stem.lower().replace("_", "-")
    out = args.out or args.files[0].parent
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        algorithm = importer.read(args.files, name, args.include, out, folder, args.force)
    say(f"{out / name}.h and {name}.py: events {', '.join(algorithm.events)}; {len(algorithm.parameters)} parameters")
    say(f"  dcgym nic check {out / name}.h")
    say(f'  plugins = ["{name}.py"] and controller.name = "{name}" in a spec')
    return 0


def _export(args: argparse.Namespace) -> int:
    from dc_gym.base.files import scratch
    from dc_gym.base.units import parse_rate_bps
    from dc_gym.ctrl.nic.doca import exporter

    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        algorithm = _algorithm(args.name, folder)
        out = args.out or Path(f"{algorithm.name}-{args.target}.c")
        say(exporter.write(algorithm, args.preset, parse_rate_bps(args.line, "--line"), out, args.force))
    return 0
