# SPDX-License-Identifier: Apache-2.0
"""`dcgym kernel build` and `dcgym kernel info`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import choose
from dc_gym.base.terminal import say
from dc_gym.kernel import build, source
from dc_gym.kernel.cache import cache_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
    make = commands.add_parser("build", help="build the lab kernel and keep it in the cache")
    source_group = make.add_mutually_exclusive_group()
    _add_source(source_group)
    make.add_argument("--jobs", type=_positive, metavar="N", help="parallel jobs of make (default: one a CPU)")
    make.add_argument("--keep-source", action="store_true", help="keep the patched source tree beside the kernel")
    make.add_argument("--force", action="store_true", help="build even if the cache has this kernel")
    make.add_argument("--config", type=Path, metavar="FILE", help="another configuration fragment than kernel/lab.config")
    make.add_argument("--no-cache", action="store_true", help="keep nothing: only print what the build took")
    make.add_argument("--json", action="store_true", help="print the kernel's manifest")

    info = commands.add_parser("info", help="show which lab kernel runs use, and whether it is built")
    _add_source(info.add_mutually_exclusive_group())
    info.add_argument("--json", action="store_true", help="print it as JSON")


def main(args: argparse.Namespace) -> int:
    return _build(args) if args.action == "build" else _info(args)


def _add_source(group: Any) -> None:
    group.add_argument(
        "--source", type=Path, metavar="PATH", help="a kernel tree, a tarball, or a .deb of a linux-source package"
    )
    group.add_argument("--version", metavar="V", help="a tested kernel version (default: the default of kernel/sources.toml)")
    group.add_argument("--untested-version", metavar="V", help="a kernel version on offer that nobody has tested")


def _build(args: argparse.Namespace) -> int:
    parts = build.Parts() if args.config is None else build.Parts(config=args.config)
    if not parts.config.is_file():
        raise UsageError(f"--config {args.config}: no such file")
    if args.config is not None and not args.no_cache:
        raise UsageError("--config goes with --no-cache: runs always use kernel/lab.config")
    chosen = {"source": args.source, "version": args.version, "untested_version": args.untested_version}
    with choose(quiet=False) as progress:
        if args.no_cache:
            manifest = build.build_throwaway(parts, progress, jobs=args.jobs, **chosen)
        else:
            options = build.Options(args.jobs, args.keep_source, args.force)
            kernel = build.ensure(progress, options=options, **chosen)
            manifest = {**kernel.manifest, "path": str(kernel.path)}
    if args.json:
        say(json.dumps(manifest, indent=2))
        return 0
    say(f"{manifest['fingerprint']}: {manifest.get('path', 'nothing was kept')}")
    took = f"compile {manifest['compile_cpu_s']:.0f} s of CPU, {manifest['compile_wall_s']:.0f} s of wall time"
    say(f"{took}; {manifest['build_s']:.0f} s in all")
    return 0


def _info(args: argparse.Namespace) -> int:
    facts = describe(args.source, args.version, args.untested_version)
    if args.json:
        say(json.dumps(facts, indent=2))
        return 0
    width = max(map(len, facts))
    for name, value in facts.items():
        say(f"{name.replace('_', ' '):<{width}}  {', '.join(value) if isinstance(value, list) else value}")
    return 0


def describe(path: Path | None = None, version: str | None = None, untested_version: str | None = None) -> dict[str, Any]:
    """Returns the facts about the lab kernel that are known without building it."""
    with choose(quiet=False) as progress:
        chosen = build.choose(progress, path, version, untested_version)
        built = build.lookup(chosen)
    key = built.key if built is not None else build.Parts().key(chosen)
    path = built.path if built is not None else cache_dir() / "kernel" / key / "linux"
    facts: dict[str, Any] = {
        "version": built.version if built is not None else chosen.version,
        "fingerprint": built.fingerprint if built is not None else build.fingerprint(chosen.version, key),
        "key": key,
        "built": built is not None,
        "tested": built.manifest["tested"] if built is not None else chosen.tested,
        "path": str(path),
        "cache": str(cache_dir()),
        "tested_versions": list(source.catalogue().tested),
    }
    if built is not None:
        manifest = built.manifest
        facts |= {
            "size_bytes": built.path.stat().st_size,
            "release": manifest["release"],
            "compiler": manifest["compiler"],
            "profile": manifest["profile"],
            "compile_cpu_s": manifest["compile_cpu_s"],
            "build_s": manifest["build_s"],
        }
    return facts


def _positive(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value
