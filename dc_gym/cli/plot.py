# SPDX-License-Identifier: Apache-2.0
"""`dcgym plot`: draws a result's figure again, a training's, many results' figures, or a metric of many results against a key.

It also writes a result as a trace.
"""

from __future__ import annotations

from argparse import Namespace

from dc_gym.base.errors import UsageError
from dc_gym.base.terminal import say
from dc_gym.results.figures import curves, event_trace, learning, slowdown, spec_keys, timeline
from dc_gym.results.figures.curves import FLOW_SIZE
from dc_gym.results.learning_curve import is_training
from dc_gym.results.results import is_result, load_result, result_folders


def main(args: Namespace) -> int:
    """Plots one result or training, each of many results, or, with axes, many in one figure. For many without axes it lists the
    possible ones."""
    if args.where and (is_result(args.dir) or is_training(args.dir)):
        raise UsageError(
            f"--where chooses among many results, and {args.dir} is one; give the folder of a sweep, or leave it out"
        )
    if args.trace is not None:
        return _trace(args)
    if args.each:
        return _each(args)
    if args.x is None and not is_result(args.dir) and is_training(args.dir):
        say(learning.plot(args.dir, args.y, args.out, args.force))
        return 0
    if args.x == FLOW_SIZE:
        if args.y is not None:
            raise UsageError(f"--x {FLOW_SIZE} draws median and 99th percentile of FCT slowdown; leave out --y")
        return slowdown.main(args.dir, args.by, args.out, args.force, args.where)
    if args.x is not None and args.y is not None:
        return curves.main(args.dir, args.x, args.y, args.by, args.out, args.force, args.where)
    if args.x is None and args.y is None and (is_result(args.dir) or not args.dir.is_dir()):
        result = load_result(args.dir)
        say(timeline.plot_to(result, args.out, args.force) if args.out else timeline.plot_result(result))
        return 0
    results = spec_keys.choose(spec_keys.find_results(args.dir), args.where)
    curves.check_axes(results, args.x, args.y or ())
    if not is_result(args.dir):
        curves.tell_axes(args.dir, results)
    raise UsageError(f"--x and --y belong together, a key of the spec and a metric: {curves.example_of(args.dir, results)}")


def _each(args: Namespace) -> int:
    """Draws plot.png in the folder of each result below DIR."""
    if args.x is not None or args.y is not None or args.out is not None or args.where:
        raise UsageError("--each draws DIR/NAME/plot.png of each result; leave out --x, --y, --where and --out")
    for folder in result_folders(args.dir):
        say(timeline.plot_result(load_result(folder)))
    return 0


def _trace(args: Namespace) -> int:
    """Writes one result as a trace."""
    if args.each or args.x is not None or args.y is not None or args.out is not None:
        raise UsageError(f"--trace {args.trace} writes one result as a trace; leave out --each, --x, --y and --out")
    say(event_trace.write(load_result(args.dir), args.trace, args.force))
    return 0
