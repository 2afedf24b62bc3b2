# SPDX-License-Identifier: Apache-2.0
"""`dcgym plot`: draws a result's figure again, or a metric of many results against a key."""

from __future__ import annotations

from argparse import Namespace

from dc_gym.base.errors import UsageError
from dc_gym.figures import curves, timeline
from dc_gym.records.results import is_result, load_result


def main(args: Namespace) -> int:
    """Plots one result or, with axes, many. For many results without axes it lists the possible ones."""
    if args.x is not None and args.y is not None:
        return curves.main(args.dir, args.x, args.y, args.by, args.out, args.force)
    if args.x is None and args.y is None and (is_result(args.dir) or not args.dir.is_dir()):
        result = load_result(args.dir)
        print(timeline.plot_to(result, args.out, args.force) if args.out else timeline.plot_result(result))
        return 0
    curves.check_axes(args.dir, args.x, args.y or ())
    if not is_result(args.dir):
        curves.tell_axes(args.dir)
    raise UsageError(f"--x and --y belong together, a key of the spec and a metric: {curves.example_of(args.dir)}")
