# SPDX-License-Identifier: Apache-2.0
"""`dcgym shell`: boots a spec's network and waits at a prompt, with the commands of Mininet's."""

from __future__ import annotations

import sys
from argparse import Namespace

from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.cli.shell import network
from dc_gym.cli.spec_or_preset import spec_or_preset


def main(args: Namespace, progress: Progress) -> int:
    """Runs the shell and returns the exit status of its last command."""
    overrides = args.overrides + ([f"ground={args.ground}"] if args.ground else [])
    spec = spec_or_preset(str(args.spec), overrides, trust=args.trust, say=lambda line: say(f"dcgym: {line}", file=sys.stderr))
    return network.run(spec, args.host, progress, args.keep)
