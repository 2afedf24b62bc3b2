# SPDX-License-Identifier: Apache-2.0
"""`dcgym conformance`: runs the kernel's own packetdrill scripts in a lab, with a few of dc-gym's, or a user's scripts.

script.py (with grammar.lark) parses the language. packets.py and connection.py handle TCP on the wire. calls.py and symbols.py
handle the system calls, and tun.py the network. interpreter.py runs a script with them, and guest.py many of them in a lab.
host.py boots the labs, report.py reports the outcome, and known.py lists the scripts that are expected to fail. scripts/ holds
scripts for features that the kernel's scripts leave out (DCTCP). docs/conformance.md has the counts.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say

OWN = Path(__file__).parent / "scripts"
"""Folder of dc-gym's own scripts, for features that the kernel's scripts leave out."""
PRESET = "dumbbell-10m"
"""The network of the spec by which --set chooses kernel and TCP. No script uses it."""


def main(args: Namespace, progress: Progress) -> int:
    """Runs the scripts. Returns 0 when all outcomes are the known ones, otherwise 1."""
    from dc_gym.cli.conformance import host, report
    from dc_gym.kernel import objects, selftests
    from dc_gym.run.grounds.lab import kernel_of
    from dc_gym.spec import of_preset

    spec = of_preset(PRESET, ["controller.name=cubic", *args.overrides])
    if spec.controller.nic:
        raise UsageError(f"--set controller.name={spec.controller.name}: runs in NICs, and the scripts test TCP; name a TCP")
    spec = replace(spec, kernel=replace(spec.kernel, tree=args.kernel_tree))
    scripts_named = bool(args.scripts)
    report.check_places(args.json, args.write)
    host.check_programs(kernels_own=not scripts_named)
    kernel = kernel_of(spec, progress)
    tests = selftests.ensure(kernel.manifest["source"]["identity"], kernel.version, progress, args.source)
    paths = args.scripts or [*sorted(OWN.glob("*.pkt")), *sorted(tests.scripts.glob("*.pkt"))]
    cases, verdicts = host.select(paths, args.only, host.families(args.ip), must_parse=scripts_named)
    if args.list:
        say("\n".join(sorted({case.script.name for case in cases} | {verdict.script for verdict in verdicts})))
        return 0
    tcp = objects.ensure(kernel.folder, spec.controller.tcp_sources) if spec.controller.tcp_sources else None
    jobs = args.jobs or host.default_jobs()
    verdicts += host.run(cases, tests.tcp_header.read_text(), kernel.path, jobs, progress, tcp=spec.tcp_name, object=tcp)
    missing_options = [] if scripts_named else report.lacking_options(tests.scripts / "config", kernel.folder / "config")
    say("\n".join(report.lines(verdicts, args.verbose)))
    if missing_options:
        say(f"the scripts ask for options that this lab kernel lacks: {', '.join(missing_options)}")
    if args.json:
        report.save(args.json, report.as_json(verdicts, kernel.fingerprint, missing_options))
    if args.write:
        report.write_counts(args.write, verdicts, kernel.fingerprint, missing_options)
    surprises = list(report.surprises(verdicts, unsupported_too=scripts_named))
    for line in surprises:
        say(f"not as expected: {line}")
    return 1 if surprises else 0
