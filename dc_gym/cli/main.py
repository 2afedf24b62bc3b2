# SPDX-License-Identifier: Apache-2.0
"""The `dcgym` command: arguments, exit codes, and errors as one line. What a command does is elsewhere and imported when it runs.

Exit codes: 0 good; 1 the run or a bar failed; 2 the user's to mend, in the command or on the machine; 130 interrupted (Ctrl-C);
143 terminated (SIGTERM, as `timeout` and batch systems send it). Both leave nothing behind.
DCGYM_TRACEBACK=1 shows where an error came from.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import os
import re
import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_gym import __version__
from dc_gym.base import spelling, usercode
from dc_gym.base.errors import INTERRUPTED, TERMINATED, TestbedError, UsageError
from dc_gym.ctrl.controllers import policy_name

if TYPE_CHECKING:
    from dc_gym.records.results import Result
    from dc_gym.spec import Spec

__all__ = ["main"]

EXPECTED_ERRNOS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    *(errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTEMPTY, errno.EIO),
)
"""What the machine or a path of the user's can bring about anywhere; any other OSError is a bug, and keeps its traceback."""
TRACEBACK = "DCGYM_TRACEBACK"
MOST_SEEDS = 10_000


class Terminated(KeyboardInterrupt):
    """SIGTERM: all that Ctrl-C has to clean up."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; answers the exit code. argparse's own exits (--help, 2 for bad arguments) are SystemExit."""
    words = sys.argv[1:] if argv is None else argv
    args = _parser().parse_args(words, Namespace(argv=tuple(words)))
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # where its cache is, if there is no home, is not our user's concern
    try:
        with _terminable():
            code = _dispatch(args)
            sys.stdout.flush()
    except Terminated:
        return _fail("terminated", TERMINATED)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the interpreter's last flush is silent
        return 1
    except (Exception, SystemExit) as error:
        _reraise_if_asked()
        if (told := _in_words(error)) is None:
            raise
        return _fail(*told)
    return code


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM raises Terminated, once: another one is not to disturb the clean-up. Where it is ignored, or this is a thread of
    somebody's program, it stays as it is."""

    def terminate(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is terminate:  # else the process is about to end, and shall do so with its own word
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _in_words(error: BaseException) -> tuple[str, int] | None:
    """Text and exit code of an error that a user can meet; None: it is a bug, which keeps its traceback."""
    if isinstance(error, TestbedError):
        return str(error), error.exit_code
    if (own := usercode.in_words(error)) is not None:
        return str(own), own.exit_code
    if isinstance(error, ImportError) and (library := _missing_library(error)) is not None:
        remedy = "install the distribution's package that has it" + (" (libstdc++6)" if library.startswith("libstdc++") else "")
        return f"this machine lacks the library {library}, which a Python package loads: {remedy}", UsageError.exit_code
    if isinstance(error, OSError) and error.errno in EXPECTED_ERRNOS:
        return _told(error), UsageError.exit_code
    return None


def _told(error: OSError) -> str:
    """One line about an error of the operating system."""
    if error.filename is None and "temporary directory" in str(error.strerror):  # tempfile's own
        return f"{error.strerror}: set TMPDIR to a folder that you may write to"
    room = "; free some room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return f"{error.filename or 'reading or writing'}: {error.strerror}{room}"


def _missing_library(error: ImportError) -> str | None:
    """The shared library for want of which a package could not be imported; None: it is something else."""
    found = re.search(r"(\S+\.so\S*): cannot open shared object file", f"{error} {error.__cause__}")
    return found[1] if found else None


def _dispatch(args: Namespace) -> int:
    command: Callable[[Namespace], int] = args.command
    return command(args)


def _fail(text: str, code: int) -> int:
    print(f"dcgym: {text}", file=sys.stderr)
    return code


def _reraise_if_asked() -> None:
    if os.environ.get(TRACEBACK) == "1":
        raise


class _Parser(ArgumentParser):
    """A parser whose error about an unknown name says which may have been meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, spelling.unknown("value", str(value), map(str, action.choices)))


def _parser() -> ArgumentParser:
    """All commands; each has an example in its help."""
    parser = _Parser(
        prog="dcgym",
        description="A testbed for datacenter congestion control: real Linux TCP on virtual time, without root.",
        epilog="Start with `dcgym doctor`, then `dcgym run SPEC`."
        " Exit codes: 0 good, 1 failed, 2 usage, 130 interrupted, 143 terminated.",
    )
    parser.add_argument("--version", action="version", version=f"dcgym {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in (
        _add_demo,
        _add_run,
        _add_verify,
        _add_conformance,
        _add_golden,
        _add_compare,
        _add_sweep,
        _add_watch,
        _add_train,
        _add_export,
        _add_reproduce,
        _add_plot,
        _add_report,
        _add_list,
        _add_topology,
        _add_nic,
        _add_rlcc,
        _add_bench,
        _add_doctor,
        _add_kernel,
        _add_vm,
        _add_clean,
    ):
        add(commands)
    return parser


def _add(commands: Any, name: str, summary: str, example: str, command: Callable[[Namespace], int]) -> ArgumentParser:
    """A subcommand with its one-line summary and an example."""
    parser: ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command)
    return parser


def _add_spec(parser: ArgumentParser, what: str = "TOML file, or the manifest.json of a result") -> None:
    """What commands that take a spec have in common."""
    parser.add_argument("spec", type=Path, metavar="SPEC", help=what)
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace one key of the spec (may be repeated)",
    )


def _add_quiet(parser: ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def _add_force(parser: ArgumentParser) -> None:
    """Adds --force to a command that writes a file; one that it made of the same things it renews without it."""
    parser.add_argument("--force", action="store_true", help="replace a file that this command did not make of the same things")


def _add_demo(commands: Any) -> None:
    summary = "run DCTCP, TCP NV, CUBIC and BBR on three networks and draw them side by side"
    parser = _add(commands, "demo", summary, "dcgym demo --out results/demo", _delegate("dc_gym.benchmarks.studies.demo"))
    parser.add_argument(
        "--out", type=Path, default=Path("results/demo"), metavar="DIR", help="folder of the results (default: %(default)s)"
    )
    parser.add_argument("--jobs", type=_jobs, metavar="N", help="labs at a time (default: one a CPU)")
    _add_quiet(parser)


def _add_run(commands: Any) -> None:
    example = "dcgym run examples/dumbbell.toml --set controller.name=nv --seed 2 --out results/nv-2"
    parser = _add(commands, "run", "run one experiment and write a result folder", example, _run)
    _add_spec(parser)
    parser.add_argument("--seed", type=int, metavar="N", help="short for --set seed=N")
    parser.add_argument("--ground", choices=("lab", "host"), help="short for --set ground=...")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the result folder (default: results/NAME-CONTROLLER-sSEED)")
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace the result in DIR and all that lies with it, when the new one is whole",
    )
    parser.add_argument("--no-plot", action="store_true", help="do not draw plot.png")
    _add_quiet(parser)


def _add_verify(commands: Any) -> None:
    summary = "run a result's spec again, or take another result, and name the first record that differs"
    example = "dcgym verify results/nv-2\n  dcgym verify results/nv-2 --against results/nv-2-elsewhere"
    parser = _add(commands, "verify", summary, example, _delegate("dc_gym.verify.verify"))
    parser.add_argument(
        "dir", nargs="?", type=Path, metavar="DIR", help="a result folder, or one that holds several, such as a sweep's"
    )
    against = "compare with this result instead of running anything; alone: run its spec again"
    parser.add_argument("--against", type=Path, metavar="OTHER", help=against)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    _add_quiet(parser)


def _add_conformance(commands: Any) -> None:
    summary = "run the kernel's own packetdrill scripts in a lab, or yours"
    example = "dcgym conformance --only 'tcp_ecn_*' --ip ipv4\n  dcgym conformance my.pkt"
    parser = _add(commands, "conformance", summary, example, _delegate("dc_gym.conformance"))
    parser.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT", help="packetdrill scripts (default: the kernel's)")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="scripts with such a name (may be repeated)")
    ip = "ipv4,ipv6,ipv4-mapped-ipv6"
    parser.add_argument("--ip", default=ip, metavar="LIST", help="IP versions (default: %(default)s)")
    parser.add_argument("--jobs", type=_jobs, metavar="N", help="labs at a time (default: one a CPU)")
    parser.add_argument("--list", action="store_true", help="name the scripts and run none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict here, too")
    parser.add_argument("--write", type=Path, metavar="FILE", help="renew the table in this document (docs/conformance.md)")
    parser.add_argument("--source", type=Path, metavar="PATH", help="take the scripts from this kernel tree, tarball or .deb")
    parser.add_argument("--verbose", action="store_true", help="show what the commands of scripts said")
    _add_quiet(parser)


def _add_golden(commands: Any) -> None:
    summary = "run short scenarios and compare their digests with those that are kept"
    example = 'dcgym golden\n  dcgym golden --renew --because "tgen binds ports in another order"'
    parser = _add(commands, "golden", summary, example, _delegate("dc_gym.verify.golden"))
    parser.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="scenarios with such a name (may be repeated)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the results here")
    parser.add_argument("--jobs", type=_jobs, metavar="N", help="labs at a time (default: one a CPU)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--renew", action="store_true", help="keep the digests of today; needs --because")
    which.add_argument("--add", type=Path, metavar="FILE", help="keep the digests that another machine recorded; needs --because")
    parser.add_argument("--because", metavar="WHY", help="the reason, which is kept with the digests")
    unknown = Path("results/golden-unknown.json")
    recorded = "where an unknown environment's digests go (default: %(default)s)"
    parser.add_argument("--record", type=Path, default=unknown, metavar="FILE", help=recorded)
    parser.add_argument("--file", type=Path, metavar="FILE", help="another file of digests than dc_gym/verify/golden.json")
    _add_quiet(parser)


def _add_compare(commands: Any) -> None:
    parser = _add(
        commands,
        "compare",
        "show the metrics of two results side by side",
        "dcgym compare results/nv-2 results/dctcp-2",
        _compare,
    )
    parser.add_argument("a", type=Path, metavar="A", help="a result folder")
    parser.add_argument("b", type=Path, metavar="B", help="another")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def _add_sweep(commands: Any) -> None:
    example = "dcgym sweep examples/sweep.toml --jobs 2 --out results/sweep"
    parser = _add(
        commands,
        "sweep",
        "run a grid of specs, several labs at a time; again, it goes on where it stopped",
        example,
        _delegate("dc_gym.sweep"),
    )
    _add_spec(parser, "a grid file (docs/sweeps.md), or a spec as for run")
    parser.add_argument("--seeds", type=_seeds, metavar="LIST", help="such as 1..5 or 1,2,3 (default: the file's)")
    parser.add_argument("--controllers", type=_controllers, metavar="LIST", help="such as dctcp,nv (default: the file's)")
    parser.add_argument("--jobs", type=_jobs, metavar="N", help="labs at a time (default: one a CPU)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the results (default: results/NAME-sweep)")
    parser.add_argument("--retry", action="store_true", help="run again what failed or is unfit")
    parser.add_argument("--force", action="store_true", help="replace results of another spec or another environment")
    parser.add_argument(
        "--address", metavar="ADDR", help="run on the Ray cluster that this machine is part of: auto, or HOST:PORT"
    )
    _add_quiet(parser)


def _add_watch(commands: Any) -> None:
    body = _delegate("dc_gym.watch", progress=False)
    summary = "show queues, rates and flows of a run or a training that is under way"
    parser = _add(commands, "watch", summary, "dcgym watch results/nv-2", body)
    parser.add_argument("dir", type=Path, metavar="DIR", help="the --out of that run; of a training or a sweep: its folder")
    which = "one of several labs: of a training 2 or evaluation; of a sweep its number or name (default: the one that works)"
    parser.add_argument("--lab", type=_lab, metavar="NAME", help=which)
    parser.add_argument("--interval", type=_seconds, metavar="S", help="seconds between two looks (default: 0.5; no terminal: 5)")
    parser.add_argument("--once", action="store_true", help="print one table and end")


def _add_train(commands: Any) -> None:
    summary = "train a policy in labs with RLlib (extra `rl`); again with --resume, it goes on where it stopped"
    example = "dcgym train examples/dumbbell.toml --algo PPO --steps 200000 --out results/ppo"
    parser = _add(commands, "train", summary, example, _delegate("dc_gym.rl.train"))
    _add_spec(parser)
    algo = "PPO, APPO, SAC, DQN, DDPG, TD3, REINFORCE, or your own as module:Class or file.py:Class"
    parser.add_argument("--algo", default="PPO", metavar="NAME", help=f"{algo} (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the training")
    config = "TOML, or Python with configure(config): hyper-parameters and settings (docs/training.md)"
    parser.add_argument("--config", type=Path, metavar="FILE", help=config)
    parser.add_argument("--preset", metavar="NAME", help="hyper-parameters by name: default, iroko-thesis")
    for name, what in (
        ("steps", "steps of the environment, over all labs (default: 100000)"),
        ("labs", "labs of each runner, stepped at the same time"),
        ("runners", "processes that sample; 0, the default: the training's own does"),
        ("seed", "of the training; evaluations have others (default: 1)"),
        ("levels", "discrete actions: so many allocations, the same for all hosts"),
    ):
        parser.add_argument(f"--{name}", type=_count, metavar="N", help=what)
    who = "one for the network, each host, or each flow, where SPEC is the word fluid (a model) or lab (default: central)"
    parser.add_argument("--agents", choices=("central", "hosts", "flows"), help=who)
    whose = "of hosts that act: one policy for all of them, or each its own (default: shared)"
    parser.add_argument("--policies", choices=("shared", "own"), help=whose)
    evaluate = "evaluate on these specs, too: the same network and agent, other traffic"
    parser.add_argument("--evaluate", type=Path, nargs="+", default=[], metavar="SPEC", help=evaluate)
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in DIR")
    parser.add_argument("--address", metavar="ADDR", help="run on a Ray cluster: auto, or HOST:PORT; needs --runners")
    _add_quiet(parser)


def _add_export(commands: Any) -> None:
    summary = "write the policy of a training as a file that runs without RLlib: --set controller=policy.npz"
    example = "dcgym export results/ppo --out ppo.npz\n  dcgym export results/ppo/checkpoints/iteration-000010"
    parser = _add(commands, "export", summary, example, _delegate("dc_gym.rl.export", progress=False))
    parser.add_argument("dir", type=Path, metavar="DIR", help="folder of a training, or one of its checkpoints")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file (default: policy.npz in the training's folder)")
    _add_force(parser)


def _add_reproduce(commands: Any) -> None:
    summary = "measure a paper's figures anew, and set them beside what it claims; again, it goes on where it stopped"
    example = "dcgym reproduce --list\n  dcgym reproduce rl-cc table-2\n  dcgym reproduce iroko 5.2 5.3 --algorithms none"
    parser = _add(commands, "reproduce", summary, example, _delegate("dc_gym.reproduce"))
    parser.add_argument("paper", nargs="?", metavar="PAPER", help="such as rl-cc (default: all, which takes hours)")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="such as table-2 (default: all of the paper's)")
    parser.add_argument("--list", action="store_true", help="name papers and figures, run nothing")
    parser.add_argument("--full", action="store_true", help="the paper's own steps and runs, which may take days")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of runs and pages (default: results/reproduce[/PAPER])")
    parser.add_argument(
        "--seeds", type=_count, metavar="N", help="runs, and trainings, of each contestant (default: 5; iroko: 3)"
    )
    algorithms = "what is learned, such as PPO,APPO,DDPG,REINFORCE,SAC or module:Class; none: nothing (default: PPO,DDPG)"
    parser.add_argument("--algorithms", metavar="LIST", help=algorithms)
    parser.add_argument("--steps", type=_count, metavar="N", help="of each training")
    duration = "of each run that is measured; its first quarter is not counted"
    parser.add_argument("--duration", metavar="TIME", help=duration)
    parser.add_argument("--preset", metavar="NAME", help="hyper-parameters: default, iroko-thesis")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace one key of every spec (may be repeated)",
    )
    ground = "where everybody runs what is measured; policies learn in labs (default: %(default)s)"
    parser.add_argument("--ground", choices=("lab", "host"), default="lab", help=ground)
    parser.add_argument("--jobs", type=_jobs, metavar="N", help="labs, or trainings, at a time (default: one a CPU)")
    parser.add_argument("--retry", action="store_true", help="run again what failed or is unfit")
    parser.add_argument("--force", action="store_true", help="replace runs and trainings of another spec or another environment")
    _add_quiet(parser)


def _add_plot(commands: Any) -> None:
    example = "dcgym plot results/nv-2\n  dcgym plot results/sweep --x topology.buffer --y mean_srtt_us --y utilization"
    parser = _add(commands, "plot", "draw a result's plot.png again, or what many results say of one key", example, _plot)
    parser.add_argument("dir", type=Path, metavar="DIR", help="a result folder; with --x, one that holds many")
    parser.add_argument("--x", metavar="KEY", help="a key of the spec, such as topology.buffer: one point a value")
    parser.add_argument("--y", metavar="METRIC", action="append", help="a number of summary.json (may be repeated)")
    parser.add_argument("--by", metavar="KEY", default="controller.name", help="one line a value of it (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="another file than DIR/plot.png or DIR/METRIC-by-KEY.png")
    _add_force(parser)


def _add_report(commands: Any) -> None:
    summary = "make one HTML page of results: figures, metrics with intervals, paired differences, certificates"
    parser = _add(commands, "report", summary, "dcgym report results/sweep", _delegate("dc_gym.pages.report"))
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="a result folder, or one that holds several, such as a sweep's"
    )
    place = "the page (default: DIR/report.html, for several report-A-B.html in the folder that holds them)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=place)
    parser.add_argument("--figures", type=Path, metavar="DIR", help="write the figures there, too, as PNG and PDF")
    parser.add_argument("--baseline", metavar="NAME", help="the controller that others are set against (default: the first)")
    parser.add_argument("--count-unfit", action="store_true", help="count unfit runs in means and figures, too")
    _add_force(parser)
    _add_quiet(parser)


def _add_list(commands: Any) -> None:
    summary = "list what a spec can name; of one name what it is, and its keys with defaults"
    example = "dcgym list controllers\n  dcgym list incast"
    parser = _add(commands, "list", summary, example, _delegate("dc_gym.cli.list", progress=False))
    what = "topologies, workloads or controllers (default: all); one of them; or a table of the spec, such as agent"
    parser.add_argument("what", nargs="?", metavar="NAME", help=what)


def _add_topology(commands: Any) -> None:
    summary = "show a network: links, round trips, bottlenecks, queues and marks in bytes, frames and BDPs"
    example = "dcgym topology acc24 --set topology.scale=10 --png acc24.png"
    parser = _add(commands, "topology", summary, example, _delegate("dc_gym.cli.topology", progress=False))
    _add_spec(parser, "TOML file, a result's manifest.json, or the name of a preset")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw it; the name may end in .png, .pdf or .svg")
    _add_force(parser)


def _add_nic(commands: Any) -> None:
    from dc_gym.cli import nic as nic

    body = _delegate("dc_gym.cli.nic", progress=False)
    summary = "show the NIC's congestion control algorithms and their parameters"
    nic.add_arguments(_add(commands, "nic", summary, "dcgym nic show dcqcn --line 1Gbit/s", body))


def _add_rlcc(commands: Any) -> None:
    from dc_gym.cli import rlcc as rlcc

    body = _delegate("dc_gym.cli.rlcc", progress=False)
    summary = "RL-CC's policies for the NIC: train, distil, deploy, explain, show"
    rlcc.add_arguments(_add(commands, "rlcc", summary, "dcgym rlcc explain rlcc-tree", body))


def _add_bench(commands: Any) -> None:
    body = _delegate("dc_gym.benchmarks.bench", progress=False)
    parser = _add(commands, "bench", "run a benchmark and check its bar", "dcgym bench links --json links.json", body)
    parser.add_argument("name", metavar="NAME", help="which one; a wrong name lists them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured here, too")
    policy = "of rlcc-distil and rlcc-theory alone: a policy that comes with dc-gym, or a file (default: what was trained here)"
    parser.add_argument("--policy", metavar="POLICY", help=policy)
    _add_comparison(parser)


def _add_comparison(parser: ArgumentParser) -> None:
    """What one of the benches takes, which is a campaign."""
    compare = parser.add_argument_group("of compare alone")
    options: dict[str, str] = {}

    def add(name: str, **how: Any) -> None:
        options[compare.add_argument(name, **how).dest] = name

    add("--controllers", type=_names, metavar="LIST", help="such as dctcp,swift,policy.npz")
    add("--topologies", type=_names, metavar="LIST", help="dumbbell, fattree-k4 and rlcc64 are known")
    add("--workloads", type=_names, metavar="LIST", help="such as many-to-one-64,websearch-80")
    add(
        "--seeds",
        type=_count,
        metavar="N",
        help="runs of each controller in each case (default: 5); also of rlcc-train",
    )
    add("--full", action="store_true", help="networks at their speed, and runs as long as the papers'")
    add("--out", type=Path, metavar="DIR", help="folder of results and page (default: results/compare)")
    keys = "replace one key of every spec (may be repeated)"
    add("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=keys)
    add("--ground", choices=("lab", "host"), help="where the networks live (default: lab)")
    add("--jobs", type=_jobs, metavar="N", help="labs at a time (default: one a CPU)")
    add("--retry", action="store_true", help="run again what failed or is unfit")
    add("--force", action="store_true", help="replace results of another spec or another environment")
    add("--quiet", action="store_true", help="no progress on standard error")
    parser.set_defaults(of_compare=options)


def _add_doctor(commands: Any) -> None:
    summary = "check that this machine can run a lab, and say what to do if not"
    _add(commands, "doctor", summary, "dcgym doctor", _delegate("dc_gym.cli.doctor", progress=False))


def _add_kernel(commands: Any) -> None:
    from dc_gym.cli import kernel as kernel

    body = _delegate("dc_gym.cli.kernel", progress=False)
    kernel.add_arguments(
        _add(commands, "kernel", "build the lab kernel, or show the one in use", "dcgym kernel build --jobs 2", body)
    )


def _add_vm(commands: Any) -> None:
    summary = "run a dcgym command as root in a VM with the distribution's kernel, for the host ground"
    example = "dcgym vm -- run examples/dumbbell.toml --ground host --out results/host"
    parser = _add(commands, "vm", summary, example, _delegate("dc_gym.grounds.host.vm"))
    parser.add_argument(
        "--memory", dest="memory_bytes", type=_size, default=2 << 30, metavar="SIZE", help="of the VM (default: 2GiB)"
    )
    parser.add_argument("--cpus", type=_jobs, default=2, metavar="N", help="of the VM (default: %(default)s)")
    _add_quiet(parser)
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="after --: what would follow dcgym")


def _add_clean(commands: Any) -> None:
    summary = "remove what runs that were killed left, and with --cache what was downloaded and built"
    parser = _add(commands, "clean", summary, "dcgym clean results", _delegate("dc_gym.cli.clean", progress=False))
    parser.add_argument(
        "folders", nargs="*", type=Path, default=[Path()], metavar="DIR", help="where to look, two levels down (default: here)"
    )
    parser.add_argument("--cache", action="store_true", help="remove the lab kernel and Open vSwitch, too")


def _delegate(module: str, progress: bool = True) -> Callable[[Namespace], int]:
    """A command that is `main(args, progress) -> int` of a module (`main(args)` without progress), imported when it is called."""

    def command(args: Namespace) -> int:
        body = importlib.import_module(module).main
        if not progress:
            return int(body(args))
        from dc_gym.base.progress import choose

        with choose(args.quiet) as shown:
            return int(body(args, shown))

    return command


def _run(args: Namespace) -> int:
    """Run, tell, and say whether it is fit."""
    from dc_gym.base.progress import choose
    from dc_gym.grounds.plan import DISTURB
    from dc_gym.spec import load

    overrides = args.overrides + ([f"ground={args.ground}"] if args.ground else [])
    spec = load(args.spec, overrides, args.seed)
    out = args.out or _default_out(spec)
    runner, before = importlib.import_module("dc_gym.run.runner"), _drawn(out)
    with choose(args.quiet) as progress:
        result: Result = runner.run(
            spec, out, progress, force=args.force, plot=not args.no_plot, disturb=os.environ.get(DISTURB, "")
        )
    _show_result(result)
    if gone := sorted(before - _drawn(out)):
        remedy = "`dcgym report` and `dcgym plot` make them of the new one"
        print(f"dcgym: warning: {', '.join(gone)} went with the result that was replaced; {remedy}", file=sys.stderr)
    for row in result.manifest.get("workload", {}).get("broken_rows", ()):
        print(f"dcgym: warning: {row}", file=sys.stderr)
    for fault in result.faults:
        _fail(fault, 1)
    return 0 if result.fit else 1


def _drawn(folder: Path) -> set[str]:
    """Pages and figures that lie in a result's folder."""
    return {path.name for path in folder.glob("*") if path.suffix in (".html", ".png", ".pdf", ".svg")}


def _default_out(spec: Spec) -> Path:
    """results/NAME-CONTROLLER-sSEED, or the policy in the controller's place, in letters that every file system takes."""
    name = re.sub(r"[^a-z0-9.]+", "-", spec.name.lower()).strip("-.") or "run"
    policy = spec.controller.policy
    acting = spec.controller.name if policy is None else policy_name(policy)
    acting = re.sub(r"[^a-z0-9.]+", "-", acting.lower())
    return Path("results") / f"{name}-{acting}-s{spec.seed}"


def _show_result(result: Result) -> None:
    """A few numbers, the digest and the place; null is '-'."""
    from dc_gym.base.readable import number

    summary = result.summary
    port = summary.get("bottleneck_port") or "-"
    jain, drops, marks, lost = (number(summary.get(name)) for name in ("jain", "drops", "marks", "lost_on_links"))
    rows = [
        ("goodput", _metric(summary, "goodput_bps") if summary.get("flows") else "- (the workload has no flows)"),
        ("utilization", _metric(summary, "utilization")),
        ("mean queue", f"{_metric(summary, 'mean_queue_bytes')} at {port}"),
        ("mean srtt", _metric(summary, "mean_srtt_us")),
        ("fairness", f"{jain} (Jain)" if summary.get("jain") is not None else jain),
        ("drops", f"{drops}, marks {marks}"),
        *(
            [("lost", f"{lost} on links ({_metric(summary, 'loss_ratio')} of what hosts sent)")]
            if summary.get("lost_on_links")
            else []
        ),
        *_completion_rows(summary),
        *_program_rows(result.manifest.get("exec", ())),
        *_agent_rows(result.manifest.get("agent")),
        ("digest", result.digest),
        ("result", str(result.path)),
    ]
    for name, text in rows:
        print(f"{name:12} {text}")
    if scale := result.manifest.get("scale"):
        print(f"{'scale':12} {scale['factor']}; not scale-free:")
        print("\n".join(f"{'':12} {line}" for line in scale["not_scale_free"]))


def _agent_rows(totals: Mapping[str, float] | None) -> list[tuple[str, str]]:
    """What an environment would say of a run with a policy."""
    if not totals:
        return []
    from dc_gym.base.readable import number

    delays = [_metric(totals, name) for name in ("queueing_delay_s", "switch_delay_s", "host_delay_s")]
    where = f"{delays[0]} end to end; switches {delays[1]}, hosts {delays[2]}"
    return [("agent", f"return {number(totals['return'], 6)} in {totals['steps']:,.0f} steps"), ("delay", where)]


def _completion_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Completion times, where flows have a size."""
    flows, unfinished = summary.get("fct_flows") or 0, summary.get("fct_unfinished") or 0
    if not flows:
        done = summary.get("flows_done") or 0
        why = f"{done:,} flows done; TCP flows count that start between time.warmup and metrics.cutoff"
        return [("completion", f"- ({why})")] if done else []
    mean, slowdown, tail = (_metric(summary, name) for name in ("fct_mean_s", "slowdown_p50", "slowdown_p99"))
    rows = [("completion", f"{mean} on average, {flows - unfinished:,} of {flows:,} flows finished")]
    return rows + ([("slowdown", f"{slowdown} median, {tail} at p99")] if slowdown != "-" else [])


def _program_rows(ends: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """How the programs of workload.exec ended."""
    return [("program", f"{end['command'][0]} in {end['host']}: {_how_it_ended(end)}") for end in ends]


def _how_it_ended(end: Mapping[str, Any]) -> str:
    return "stopped" if end.get("stopped") else f"exit {end.get('exit')}"


def _metric(values: Mapping[str, Any], name: str) -> str:
    """A metric as people read it, in the unit that its name says."""
    from dc_gym.base.readable import family_of, quantity

    return quantity(values.get(name), family_of(name))


def _compare(args: Namespace) -> int:
    from dc_gym.verify import compare

    return compare.main(args.a, args.b, args.json)


def _plot(args: Namespace) -> int:
    """One result, or with axes many; of many results without them it says what there is to choose from."""
    from dc_gym.figures import curves, plots
    from dc_gym.records.results import is_result, load_result

    if args.x is not None and args.y is not None:
        return curves.main(args.dir, args.x, args.y, args.by, args.out, args.force)
    if args.x is None and args.y is None and (is_result(args.dir) or not args.dir.is_dir()):
        result = load_result(args.dir)
        print(plots.plot_to(result, args.out, args.force) if args.out else plots.plot_result(result))
        return 0
    curves.check_axes(args.dir, args.x, args.y or ())
    if not is_result(args.dir):
        curves.tell_axes(args.dir)
    raise UsageError(f"--x and --y belong together, a key of the spec and a metric: {curves.example_of(args.dir)}")


def _seeds(text: str) -> list[int]:
    """1..5 or 1,2,3: distinct, not negative."""
    first, dots, last = text.partition("..")
    if dots and first.isdecimal() and last.isdecimal() and int(last) - int(first) < MOST_SEEDS:
        seeds = list(range(int(first), int(last) + 1))
    else:
        parts = [part.strip() for part in text.split(",")]
        seeds = [int(part) for part in parts] if all(part.isdecimal() for part in parts) else []
    if not seeds or len(set(seeds)) != len(seeds):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different seeds; write it like 1..5 or 1,2,3")
    return seeds


def _names(text: str) -> list[str]:
    """a,b: each once."""
    names = [part.strip() for part in text.split(",")]
    if not all(names) or len(set(names)) != len(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different names; write it like a,b")
    return names


def _controllers(text: str) -> list[str]:
    """dctcp,nv: registered names, each once."""
    from dc_gym.ctrl import controllers

    names = [part.strip() for part in text.split(",")]
    for name in names:
        if controllers.find(name) is None:
            raise argparse.ArgumentTypeError(spelling.unknown("controller", name, controllers.names()))
    if len(set(names)) != len(names):
        raise argparse.ArgumentTypeError(f"{text!r} names one twice; leave one out")
    return names


def _size(text: str) -> int:
    from dc_gym.base.units import parse_size_bytes

    try:
        return parse_size_bytes(text)
    except TestbedError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; give 0 or more")
    return int(text)


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of labs; give 1 or more")
    return int(text)


def _lab(text: str) -> str:
    """A name, or a number."""
    return str(_jobs(text)) if not text or text.lstrip("-").isdecimal() else text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds; give 0.01 to 3600")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
