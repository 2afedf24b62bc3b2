# SPDX-License-Identifier: Apache-2.0
"""All commands and their options. Other modules do the commands' work; they are imported when the command is called."""

from __future__ import annotations

import argparse
import importlib
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dc_gym import __version__
from dc_gym.base import methods, spelling
from dc_gym.base.command import add_command
from dc_gym.cli import arguments


class Parser(ArgumentParser):
    """A parser whose error about an unknown value suggests the value that was probably meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, spelling.unknown("value", str(value), map(str, action.choices)))


def build(command: str = "") -> ArgumentParser:
    """Returns the parser of all commands, or of one alone, which takes a tenth of the time. Each has an example in its help."""
    parser = Parser(
        prog="dcgym",
        description="A testbed for datacenter congestion control: real Linux TCP on virtual time, without root.",
        epilog="Start with `dcgym doctor`, then `dcgym run SPEC`."
        " Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted, 143 terminated, 129 hung up.",
    )
    parser.add_argument("--version", action="version", version=f"dcgym {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, add in ADD.items():
        if name == "method" and command in ("-h", "--help", "--version"):  # which need no method
            add_command(commands, name, METHOD, "")
        elif name == command or command not in ADD:
            add(commands)
    return parser


def _add(commands: Any, name: str, summary: str, example: str, command: Callable[[Namespace], int]) -> ArgumentParser:
    """Adds a subcommand with its one-line summary and an example."""
    parser = add_command(commands, name, summary, example)
    parser.set_defaults(command=command)
    return parser


SPEC = "TOML file, the folder of a result, a Python file with a Topo of Mininet's, or another tool's file of a network"


def _add_spec(parser: ArgumentParser, help_text: str = SPEC, *, optional: bool = False) -> None:
    """Adds the arguments that all commands with a spec have."""
    parser.add_argument("spec", type=Path, nargs="?" if optional else None, metavar="SPEC", help=help_text)
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace one key of the spec (may be repeated)",
    )


def _add_trust(parser: ArgumentParser, effect: str) -> None:
    """Adds --trust to a command that may run code of somebody else."""
    help_text = f"{effect} even if you neither ran nor made it before; from then on it counts as run"
    parser.add_argument("--trust", action="store_true", help=help_text)


TRUST_RESULT = "run the code and programs of a result's spec"


def _add_kernel_tree(parser: ArgumentParser) -> None:
    tree = "build the lab kernel from your own Linux tree, which is only read; exit code 125: it does not build (git bisect)"
    parser.add_argument("--kernel-tree", type=arguments.folder, metavar="DIR", help=tree)


def _add_quiet(parser: ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="show no progress on standard error")


def _add_force(parser: ArgumentParser) -> None:
    """Adds --force to a command that writes a file. Without it the command only renews a file that it made of the same inputs."""
    parser.add_argument(
        "--force", action="store_true", help="replace an existing file even if this command made it from other inputs"
    )


def _add_plot_choice(parser: ArgumentParser, effect: str, *, drawn: bool) -> None:
    """Adds --plot and --no-plot to a command that runs experiments. `drawn` is the default."""
    choice = argparse.BooleanOptionalAction
    parser.add_argument("--plot", action=choice, default=drawn, help=f"{effect} (default: {'drawn' if drawn else 'not drawn'})")


def _add_demo(commands: Any) -> None:
    summary = "run DCTCP, TCP NV, CUBIC and BBR on three networks and draw them side by side"
    parser = _add(commands, "demo", summary, "dcgym demo --out results/demo", _delegate("dc_gym.benchmarks.studies.demo"))
    parser.add_argument(
        "--out", type=Path, default=Path("results/demo"), metavar="DIR", help="folder of the results (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs", type=arguments.jobs, metavar="N", help="number of labs that run at the same time (default: one per CPU)"
    )
    _add_quiet(parser)


def _add_run(commands: Any) -> None:
    example = "dcgym run examples/dumbbell.toml --set controller.name=nv --seed 2 --out results/nv-2"
    parser = _add(
        commands, "run", "run one experiment and write a result folder", example, _delegate("dc_gym.cli.run", progress=False)
    )
    _add_spec(parser)
    parser.add_argument("--seed", type=int, metavar="N", help="short for --set seed=N")
    parser.add_argument("--ground", choices=("lab", "host"), help="short for --set ground=NAME")
    parser.add_argument(
        "--flows",
        type=Path,
        metavar="FILE",
        help="take the flows from another tool's file; short for --set workload.kind=file --set workload.file=FILE",
    )
    parser.add_argument(
        "--qos",
        type=Path,
        metavar="FILE",
        help="take the queues of all ports from SONiC's config_db.json: marking, buffers, PFC and classes; --set goes first",
    )
    parser.add_argument(
        "--pcap",
        action="append",
        default=[],
        metavar="PORT",
        help="write the frames of a port, such as s1-eth3, to capture/PORT.pcapng (may be repeated); short for --set"
        " 'capture.ports=[\"PORT\"]'",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the result folder (default: results/NAME-CONTROLLER-sSEED)")
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace the result in DIR, and all files beside it, once the new result is complete",
    )
    _add_kernel_tree(parser)
    parser.add_argument("--gdb", action="store_true", help="once the lab has booted, wait until gdb has attached to its kernel")
    _add_plot_choice(parser, "draw plot.png", drawn=True)
    _add_trust(parser, TRUST_RESULT)
    _add_quiet(parser)


def _add_verify(commands: Any) -> None:
    summary = "run a result's spec again, or take a second result, and name the first record that differs"
    example = "dcgym verify results/nv-2\n  dcgym verify results/nv-2 --against results/nv-2-elsewhere"
    parser = _add(commands, "verify", summary, example, _delegate("dc_gym.cli.verify.verify"))
    parser.add_argument(
        "dir", nargs="?", type=Path, metavar="DIR", help="a result folder, or a folder of several results, such as a sweep's"
    )
    against = "compare DIR with this result and run nothing; without DIR: run this result's spec again"
    parser.add_argument("--against", type=Path, metavar="OTHER", help=against)
    _add_trust(parser, TRUST_RESULT)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    _add_quiet(parser)


def _add_conformance(commands: Any) -> None:
    summary = "run the kernel's own packetdrill scripts, or your scripts, in a lab"
    example = "dcgym conformance --only 'tcp_ecn_*' --ip ipv4\n  dcgym conformance my.pkt"
    parser = _add(commands, "conformance", summary, example, _delegate("dc_gym.cli.conformance"))
    parser.add_argument(
        "scripts", nargs="*", type=Path, metavar="SCRIPT", help="packetdrill scripts, or folders of them (default: the kernel's)"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="run only scripts whose name matches (may be repeated)"
    )
    ip = "ipv4,ipv6,ipv4-mapped-ipv6"
    parser.add_argument("--ip", default=ip, metavar="LIST", help="IP versions to run (default: %(default)s)")
    parser.add_argument(
        "--jobs", type=arguments.jobs, metavar="N", help="number of labs that run at the same time (default: one per CPU)"
    )
    _add_kernel_tree(parser)
    chosen = "choose kernel and TCP by a key of the spec: plugins, controller.name, kernel.patch (may be repeated)"
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=chosen)
    parser.add_argument("--list", action="store_true", help="list the scripts and run none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every verdict to this file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="update the counts in this document (docs/conformance.md)")
    parser.add_argument("--source", type=Path, metavar="PATH", help="take the scripts from this kernel tree, tarball or .deb")
    parser.add_argument("--verbose", action="store_true", help="show the output of commands that scripts run")
    _add_quiet(parser)


def _add_golden(commands: Any) -> None:
    summary = "run short scenarios and compare their digests with the recorded ones"
    example = 'dcgym golden\n  dcgym golden --renew --because "tgen binds ports in another order"'
    parser = _add(commands, "golden", summary, example, _delegate("dc_gym.cli.verify.golden"))
    parser.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="run only scenarios whose name matches (may be repeated)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the result folders in DIR")
    parser.add_argument(
        "--jobs", type=arguments.jobs, metavar="N", help="number of labs that run at the same time (default: one per CPU)"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--renew", action="store_true", help="record the digests of this run; needs --because")
    mode.add_argument(
        "--add", type=Path, metavar="FILE", help="record the digests that another machine wrote to FILE; needs --because"
    )
    parser.add_argument("--because", metavar="WHY", help="the reason for the change, recorded with the digests")
    unknown = Path("results/golden-unknown.json")
    recorded = "where digests of an unknown environment are written (default: %(default)s)"
    parser.add_argument("--record", type=Path, default=unknown, metavar="FILE", help=recorded)
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="file of recorded digests (default: dc_gym/cli/verify/golden.json)"
    )
    _add_quiet(parser)


def _add_compare(commands: Any) -> None:
    parser = _add(
        commands,
        "compare",
        "show the metrics of two results side by side",
        "dcgym compare results/nv-2 results/dctcp-2",
        _delegate("dc_gym.cli.verify.compare", progress=False),
    )
    parser.add_argument("a", type=Path, metavar="A", help="a result folder")
    parser.add_argument("b", type=Path, metavar="B", help="another result folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def _add_sweep(commands: Any) -> None:
    example = "dcgym sweep examples/sweep.toml --jobs 2 --out results/sweep"
    parser = _add(
        commands,
        "sweep",
        "run a grid of specs, several labs at a time; the same command continues a sweep that was stopped",
        example,
        _delegate("dc_gym.run.sweep"),
    )
    _add_spec(parser, "a grid file (docs/sweeps.md), or a spec as for `dcgym run`")
    parser.add_argument(
        "--seeds", type=arguments.seeds, metavar="LIST", help="seeds such as 1..5 or 1,2,3 (default: those of the file)"
    )
    parser.add_argument(
        "--controllers",
        type=arguments.names,
        metavar="LIST",
        help="controllers such as dctcp,nv (default: those of the file)",
    )
    parser.add_argument(
        "--jobs", type=arguments.jobs, metavar="N", help="number of labs that run at the same time (default: one per CPU)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the results (default: results/NAME-sweep)")
    parser.add_argument("--retry", action="store_true", help="repeat runs that failed or are unfit")
    parser.add_argument(
        "--force", action="store_true", help="replace results of another spec or another environment (kernel, versions)"
    )
    parser.add_argument(
        "--address", metavar="ADDR", help="run on the Ray cluster that this machine belongs to: auto, or HOST:PORT"
    )
    _add_plot_choice(parser, "draw plot.png of each run; `dcgym plot --each` does so later", drawn=False)
    _add_trust(parser, TRUST_RESULT)
    _add_quiet(parser)


def _add_watch(commands: Any) -> None:
    body = _delegate("dc_gym.cli.watch", progress=False)
    summary = "show queues, rates and flows of a run, training or sweep in progress"
    parser = _add(commands, "watch", summary, "dcgym watch results/nv-2", body)
    parser.add_argument("dir", type=Path, metavar="DIR", help="the --out folder of the run, training or sweep")
    lab_help = (
        "which of several labs: a training's lab number or `evaluation`, a sweep's run number or name (default: one that works)"
    )
    parser.add_argument("--lab", type=arguments.lab, metavar="NAME", help=lab_help)
    parser.add_argument(
        "--interval",
        type=arguments.seconds,
        metavar="S",
        help="seconds between two updates (default: 0.5; without a terminal: 5)",
    )
    parser.add_argument("--once", action="store_true", help="print one table and exit")


def _add_shell(commands: Any) -> None:
    summary = "boot a network and wait at a prompt for commands on its hosts, as Mininet's"
    example = "dcgym shell examples/dumbbell.toml\n  echo 'h1 ping -c 3 h3' | dcgym shell examples/dumbbell.toml"
    parser = _add(commands, "shell", summary, example, _delegate("dc_gym.cli.shell.command"))
    _add_spec(parser, f"{SPEC}, or the name of a preset")
    parser.add_argument("host", nargs="?", metavar="HOST", help="run all commands on this host (default: each names its own)")
    parser.add_argument("--ground", choices=("lab", "host"), help="short for --set ground=NAME")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the files that commands write in this new or empty folder")
    _add_trust(parser, TRUST_RESULT)
    _add_quiet(parser)


def _add_attach(commands: Any) -> None:
    summary = "give a further prompt on a network that dcgym shell has booted"
    example = "dcgym attach\n  echo queues | dcgym attach"
    parser = _add(commands, "attach", summary, example, _delegate("dc_gym.cli.shell.attach", progress=False))
    parser.add_argument("pid", type=int, nargs="?", metavar="PID", help="process of the shell (default: the only one of yours)")


def _add_train(commands: Any) -> None:
    summary = "train a policy in labs with RLlib (extra `rl`); again with --resume, it goes on where it stopped"
    example = "dcgym train examples/dumbbell.toml --algo PPO --steps 200000 --out results/ppo"
    trainers = methods.trainers()
    example += "".join(f"\n  {trainer.example}" for trainer in trainers.values())
    parser = _add(commands, "train", summary, example, _delegate("dc_gym.cli.train"))
    _add_spec(parser, "; none with --agents ".join((f"{SPEC}, or the id of a task of the suite", *trainers)), optional=True)
    algo = "PPO, APPO, SAC, DQN, DDPG, TD3, REINFORCE, or your own as module:Class or file.py:Class"
    parser.add_argument("--algo", default="PPO", metavar="NAME", help=f"{algo} (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the training")
    config = "TOML, or Python with configure(config): hyper-parameters and settings (docs/training.md)"
    parser.add_argument("--config", type=Path, metavar="FILE", help=config)
    parser.add_argument("--preset", metavar="NAME", help="hyper-parameters by name: default, mended, iroko-thesis")
    for name, help_text in (
        ("steps", "steps of the environment, over all labs (default: 100000)"),
        ("labs", "labs of each runner, stepped at the same time"),
        ("runners", "processes that sample; 0, the default: the training's own does"),
        ("seed", "of the training; evaluations have others (default: 1)"),
        ("levels", "discrete actions: so many allocations, the same for all hosts"),
    ):
        parser.add_argument(f"--{name}", type=arguments.count, metavar="N", help=help_text)
    choices = ("central", "hosts", "switches", "ports", *trainers)
    agents = [
        "one for the network, each host, switch or port where something is set",
        *(trainer.help for trainer in trainers.values()),
    ]
    parser.add_argument("--agents", choices=choices, help=", or ".join(agents) + " (default: agent.agents of SPEC)")
    whose = "of many agents: one policy for all of them, or each its own (default: shared)"
    parser.add_argument("--policies", choices=("shared", "own"), help=whose)
    evaluate = "evaluate on these specs, too: the same network and agent, other traffic"
    parser.add_argument("--evaluate", type=Path, nargs="+", default=[], metavar="SPEC", help=evaluate)
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in DIR")
    _add_trust(parser, "with --resume read checkpoints, which are pickles and run code, and run the code of a result's spec,")
    parser.add_argument("--address", metavar="ADDR", help="run on a Ray cluster: auto, or HOST:PORT; needs --runners")
    _add_quiet(parser)


def _add_evaluate(commands: Any) -> None:
    summary = "measure a policy on held-out episodes of a task, beside constants, a static rule and an oracle (extra `evaluate`)"
    example = "dcgym evaluate results/ppo/policy.npz dcgym/ChangingLink-v1"
    parser = _add(commands, "evaluate", summary, example, _delegate("dc_gym.cli.evaluate"))
    policy = "as controller.policy (default: none, the ladder alone)"
    parser.add_argument("policy", nargs="?", type=arguments.policy, metavar="POLICY", help=policy)
    parser.add_argument("task", metavar="TASK", help="a task of the suite, such as dcgym/ChangingLink-v1")
    parser.add_argument("--episodes", type=arguments.count, default=20, metavar="N", help="episodes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the first episode (default: %(default)s)")
    changed = "replace one key of the task, whose score then is not the suite's (may be repeated)"
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=changed)
    _add_quiet(parser)


def _add_record(commands: Any) -> None:
    summary = "write episodes of a policy in a task as a dataset of Minari, for learning from it (extra `offline`)"
    parser = _add(commands, "record", summary, "dcgym record dcgym/ChangingLink-v1", _delegate("dc_gym.cli.record"))
    parser.add_argument("task", metavar="TASK", help="a task of the suite, such as dcgym/ChangingLink-v1")
    policy = "as controller.policy, or oracle, that of the task (default: %(default)s)"
    parser.add_argument("--policy", default="oracle", type=arguments.policy, metavar="POLICY", help=policy)
    parser.add_argument("--episodes", type=arguments.count, default=20, metavar="N", help="episodes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the first episode (default: %(default)s)")
    parser.add_argument("--name", default="", metavar="NAME", help="name of the dataset (default: the policy's)")
    folder = "folder of Minari's datasets (default: %(default)s)"
    parser.add_argument("--out", type=Path, default=Path("results/minari"), metavar="DIR", help=folder)
    changed = "replace one key of the task (may be repeated)"
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=changed)
    _add_quiet(parser)


def _add_export(commands: Any) -> None:
    summary = "write a training's policy to a file that runs without RLlib (--set controller=policy.npz)"
    example = "dcgym export results/ppo --out ppo.npz\n  dcgym export results/ppo/checkpoints/iteration-000010"
    example += "\n  dcgym export ppo.npz --onto larger.toml --out larger.npz"
    parser = _add(commands, "export", summary, example, _delegate("dc_gym.learn.rllib.export", progress=False))
    parser.add_argument(
        "dir", type=Path, metavar="DIR", help="the folder of a training, one of its checkpoints, or with --onto a file"
    )
    onto = "a spec with other hosts or flows, for which the file's policy is written if all of its own share their weights"
    parser.add_argument("--onto", type=Path, metavar="SPEC", help=onto)
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="replace one key of SPEC"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the file to write (default: policy.npz in the training's folder)"
    )
    _add_trust(parser, "read a checkpoint, which is a pickle and runs code,")
    _add_force(parser)


def _add_study(commands: Any) -> None:
    summary = "compare runs: papers' figures, controllers, a study of your own; the same command continues where it was stopped"
    example = (
        "dcgym study list\n  dcgym study run rl-cc/table-2\n  dcgym study run mine/loss.py --seeds 3\n"
        "  dcgym study report acc\n  dcgym study score"
    )
    verbs = add_command(commands, "study", summary, example).add_subparsers(dest="verb", metavar="VERB", required=True)
    name = "a study of `dcgym study list`, a group of them such as acc, `all`, or a file FILE.py or FILE.py:NAME"

    def add(verb: str, summary: str, example: str, names: str) -> ArgumentParser:
        command = _add(verbs, verb, summary, example, _delegate(STUDIES))
        command.add_argument("names", nargs=names, metavar="STUDY", help=name + (" (default: all)" if names == "*" else ""))
        length = "full: train and run as long as the source does, which may take days (default: %(default)s)"
        command.add_argument("--length", choices=("default", "full"), default="default", help=length)
        _add_study_places(command)
        return command

    _add_quiet(_add(verbs, "list", "list studies, and run nothing", "dcgym study list", _delegate(STUDIES)))
    run = add("run", "run studies, store their evidence, and write their pages", "dcgym study run acc/figure-9", "+")
    cases = "all: also the variants that a study leaves out (default: %(default)s)"
    run.add_argument("--cases", choices=("default", "all"), default="default", help=cases)
    _add_study_options(run)
    report = add("report", "write the pages of studies from their evidence, and run nothing", "dcgym study report acc", "*")
    report.add_argument("--parquet", type=Path, metavar="FILE", help="also write all numbers as one long table")
    add("score", "count the verdicts on all claims, compare printed numbers, and say what is old", "dcgym study score", "*")
    carry = "repeat a short run of each study whose evidence is of another version, and keep the evidence if digests are equal"
    add("carry", carry, "dcgym study carry", "*")


def _add_reproduce(commands: Any) -> None:
    summary = "reproduce a paper's figures: another name of `dcgym study run PAPER/FIGURE`"
    parser = _add(
        commands, "reproduce", summary, "dcgym reproduce iroko 5.2 5.3 --algorithms none", _delegate(f"{STUDIES}.aliases")
    )
    parser.add_argument("paper", nargs="?", metavar="PAPER", help="a paper of --list, such as rl-cc, or `all`, which takes days")
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help="a figure or table, such as table-2 (default: all of the paper)"
    )
    parser.add_argument("--list", action="store_true", help="list papers and figures, and run nothing")
    parser.add_argument("--score", action="store_true", help="count the verdicts of all papers, and run nothing")
    parser.add_argument("--full", action="store_true", help="another name of --length full with --cases all")
    _add_study_places(parser)
    _add_study_options(parser)


STUDIES = "dc_gym.benchmarks.studies"


def _add_study_places(parser: ArgumentParser) -> None:
    """Adds the options that all commands about studies have."""
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of runs and pages (default: results/study)")
    evidence = "folder of the evidence (default: results/evidence; shorter or changed runs: OUT/GROUP/evidence)"
    parser.add_argument("--evidence", type=Path, metavar="DIR", help=evidence)
    jobs = "labs or trainings that run at the same time (default: one per CPU)"
    parser.add_argument("--jobs", type=arguments.jobs, metavar="N", help=jobs)
    _add_force(parser)
    _add_quiet(parser)


def _add_study_options(parser: ArgumentParser) -> None:
    """Adds the options that select the runs of a study, and where they run."""
    variant = "run this variant only (may be repeated; default: all)"
    parser.add_argument("--variant", dest="variants", action="append", default=[], metavar="NAME", help=variant)
    parser.add_argument("--seeds", type=arguments.count, metavar="N", help="number of seeds (default: the study's own)")
    algorithms = "algorithms to train, such as PPO,APPO,DDPG,SAC or module:Class, or none (default: those of the claims)"
    parser.add_argument("--algorithms", metavar="LIST", help=algorithms)
    parser.add_argument("--steps", type=arguments.count, metavar="N", help="steps of each training")
    duration = "duration of each measured run; its first quarter is not counted"
    parser.add_argument("--duration", metavar="TIME", help=duration)
    parser.add_argument("--preset", metavar="NAME", help="hyper-parameters of trainings: default, mended, iroko-thesis")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace one key of every spec (may be repeated)",
    )
    ground = "where measured runs take place; trainings always use labs (default: %(default)s)"
    parser.add_argument("--ground", choices=("lab", "host"), default="lab", help=ground)
    parser.add_argument("--address", metavar="HOST:PORT", help="run on the Ray cluster at this address, or auto")
    parser.add_argument("--retry", action="store_true", help="repeat runs that failed or are unfit")


def _add_arena(commands: Any) -> None:
    summary = "measure a congestion control in the cases of its track, and recompute the rows of others"
    example = (
        "dcgym arena run dctcp\n  dcgym arena run examples/tcp_mine.c\n  dcgym arena verify tcp-mine.json\n  dcgym arena table"
    )
    verbs = add_command(commands, "arena", summary, example).add_subparsers(dest="verb", metavar="VERB", required=True)

    def add(verb: str, summary: str, example: str) -> ArgumentParser:
        return _add(verbs, verb, summary, example, _delegate("dc_gym.arena.command"))

    run = add("run", "play an entrant, and write its row; again, it goes on where it was stopped", "dcgym arena run dctcp")
    entrant = "the name of a control, a policy (.npz, .py), a TCP (.c), or a NIC's algorithm (.h)"
    run.add_argument("entrant", metavar="ENTRANT", help=entrant)
    run.add_argument("--track", default="", metavar="TRACK", help="the track that it must play (default: its own)")
    run.add_argument("--case", dest="cases", action="append", default=[], metavar="NAME", help="play this case only (repeatable)")
    setting = "a key of agent, nic or controller that belongs to the entrant (repeatable)"
    run.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=setting)
    run.add_argument("--secret", metavar="FILE|TEXT", help="play the held-out cases that this secret draws")
    run.add_argument("--tell-secret", action="store_true", help="write the secret into the row, beside its SHA-256")
    run.add_argument("--out", type=Path, metavar="DIR", help="folder of runs and rows (default: results/arena)")
    run.add_argument("--address", metavar="HOST:PORT", help="run on the Ray cluster at this address, or auto")
    run.add_argument("--retry", action="store_true", help="repeat runs that failed or are unfit")
    _add_force(run)
    _add_jobs(run)
    verify = add("verify", "make the runs of rows again, and tell each difference", "dcgym arena verify dctcp.json --sample 2")
    verify.add_argument("rows", nargs="+", type=Path, metavar="ROW", help="a row's file")
    verify.add_argument("--case", dest="cases", action="append", default=[], metavar="NAME", help="only this case (repeatable)")
    verify.add_argument("--sample", type=arguments.count, metavar="N", help="only so many cases, drawn at random")
    verify.add_argument("--entrant", type=Path, metavar="FILE", help="the entrant's file, for a row of a file; it is run")
    verify.add_argument("--secret", metavar="FILE|TEXT", help="the secret of held-out cases, if the row does not tell it")
    verify.add_argument("--any-release", action="store_true", help="compare digests also with a row of another release")
    _add_jobs(verify)
    table = add("table", "rank rows within their tracks, and write the page", "dcgym arena table results/arena/*.json")
    table.add_argument("rows", nargs="*", type=Path, metavar="ROW", help="rows beside those that ship")
    table.add_argument("--out", type=Path, metavar="FILE", help="the page to write (default: results/arena/index.html)")
    _add_force(table)
    _add_quiet(table)
    attack = add("attack", "search for what harms an entrant most, and shrink it", "dcgym arena attack cubic --budget 5m")
    attack.add_argument("entrant", metavar="ENTRANT", help=entrant)
    scene = "where it is attacked: a name, or a file .toml (repeatable; default: all scenes of its track)"
    attack.add_argument("--scene", dest="scenes", action="append", default=[], metavar="SCENE", help=scene)
    budget = "time to search, without shrinking, such as 90s or 1h (default: 10m)"
    attack.add_argument("--budget", dest="budget_s", type=arguments.budget_s, default=600.0, metavar="TIME", help=budget)
    trials = "attacks on each scene, rounded up to whole rounds (default: those for which there is time)"
    attack.add_argument("--trials", type=arguments.jobs, metavar="N", help=trials)
    attack.add_argument("--seed", type=arguments.count, default=1, metavar="N", help="seed of the search (default: 1)")
    attack.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=setting)
    attack.add_argument("--out", type=Path, metavar="DIR", help="folder of what is found (default: results/attacks)")
    attack.add_argument("--address", metavar="HOST:PORT", help="run on the Ray cluster at this address, or auto")
    _add_jobs(attack)
    commit = add("commit", "print the SHA-256 of a secret, to publish before anybody plays", "dcgym arena commit secret.txt")
    commit.add_argument("secret", metavar="FILE|TEXT", help="the secret")
    _add_quiet(commit)


def _add_grade(commands: Any) -> None:
    summary = "print a student's task in a lab, or grade what the student hands in"
    lab = "dcgym grade docs/labs/rubrics/rtt.toml --student 4711"
    parser = _add(commands, "grade", summary, f"{lab}\n  {lab} --submission results/rtt-4711", _delegate("dc_gym.grade.command"))
    parser.add_argument("lab", type=Path, metavar="LAB", help="the lab's rubric, a file of docs/labs/rubrics")
    parser.add_argument("--student", required=True, metavar="ID", help="the student's id, which gives the seeds")
    parser.add_argument("--submission", type=Path, metavar="DIR", help="the student's sweep, with answers.toml in it")
    sample = "how many runs to make again, drawn at random (default: %(default)s; a large N: all)"
    parser.add_argument("--sample", type=arguments.count, default=3, metavar="N", help=sample)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    _add_jobs(parser)


def _add_jobs(parser: ArgumentParser) -> None:
    help_text = "number of labs that run at the same time (default: one per CPU)"
    parser.add_argument("--jobs", type=arguments.jobs, metavar="N", help=help_text)
    _add_quiet(parser)


def _add_plot(commands: Any) -> None:
    one, many = "dcgym plot results/nv-2", "dcgym plot results/sweep --x topology.buffer --y mean_srtt_us --y utilization"
    trace = f"{one} --trace nv-2.json"
    example = f"{one}\n  {trace}\n  dcgym plot results/sweep --each\n  {many}\n  dcgym plot results/ppo"
    parser = _add(
        commands,
        "plot",
        "draw a result's plot.png again, a training's learning curve, or a metric of many results over one key",
        example,
        _delegate("dc_gym.cli.plot", progress=False),
    )
    parser.add_argument("dir", type=Path, metavar="DIR", help="a folder of a result or of a training; with --x, of many results")
    parser.add_argument("--each", action="store_true", help="draw plot.png of each result in DIR, such as a sweep's")
    parser.add_argument("--x", metavar="KEY", help="the key on the x axis, such as topology.buffer; or flow_size, for slowdown")
    parser.add_argument(
        "--y",
        metavar="METRIC",
        action="append",
        help="the metric on the y axis, a number of summary.json, or a training's column (repeatable)",
    )
    parser.add_argument(
        "--by", metavar="KEY", default="controller.name", help="draw one line for each value of this key (default: %(default)s)"
    )
    parser.add_argument(
        "--where",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="draw the results with this value alone (repeatable; several values of one key are alternatives)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the file to write (default: DIR/plot.png, learning.png or METRIC-by-KEY.png)"
    )
    trace_help = "write a result's flows, queues, pauses, decisions, events and jobs as a trace that ui.perfetto.dev opens"
    parser.add_argument("--trace", type=Path, metavar="FILE.json", help=trace_help)
    _add_force(parser)


def _add_report(commands: Any) -> None:
    summary = "write one HTML page about results: figures, metrics with intervals, paired differences, certificates"
    parser = _add(commands, "report", summary, "dcgym report results/sweep", _delegate("dc_gym.results.pages.report"))
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="a result folder, or a folder of several results, such as a sweep's"
    )
    out_help = "the page to write (default: DIR/report.html; for several DIRs report-A-B.html in the folder above)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=out_help)
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also write the figures to this folder, as PNG and PDF")
    parser.add_argument("--baseline", metavar="NAME", help="the controller that others are compared with (default: the first)")
    parser.add_argument("--count-unfit", action="store_true", help="include unfit runs in means and figures")
    _add_force(parser)
    _add_quiet(parser)


def _add_list(commands: Any) -> None:
    summary = "list the names that a spec can use, or explain one name and its keys with their defaults"
    example = "dcgym list controllers\n  dcgym list incast\n  dcgym list flows.parquet"
    parser = _add(commands, "list", summary, example, _delegate("dc_gym.cli.list", progress=False))
    name_help = (
        "`topologies`, `markings`, `qdiscs`, `workloads`, `controllers` or `distributions` (default: all); one name of them; a"
        " table of the spec, such as agent; or a file of a result, such as summary.json"
    )
    parser.add_argument("what", nargs="?", metavar="NAME", help=name_help)
    _add_plugin(parser)


def _add_schema(commands: Any) -> None:
    summary = "write the JSON Schema of specs to standard output, for completion and checks in an editor"
    example = "dcgym schema > spec.schema.json\n  dcgym schema --plugin examples/ring.py > ring.schema.json"
    parser = _add(commands, "schema", summary, example, _delegate("dc_gym.cli.schema", progress=False))
    _add_plugin(parser)


def _add_plugin(parser: ArgumentParser) -> None:
    help_text = "a Python file that registers more, as under `plugins` of a spec; may be repeated"
    parser.add_argument("--plugin", dest="plugins", type=Path, action="append", default=[], metavar="FILE", help=help_text)


def _add_new(commands: Any) -> None:
    summary = "write a commented spec from three questions; options answer them without a terminal"
    example = "dcgym new mine.toml\n  dcgym new mine.toml --network fattree-k4 --traffic incast --controllers dctcp,cubic"
    parser = _add(commands, "new", summary, example, _delegate("dc_gym.cli.new", progress=False))
    parser.add_argument("file", type=Path, metavar="FILE", help="the TOML file to write")
    parser.add_argument("--network", metavar="NAME", help="a preset of topologies (default: dumbbell-10m)")
    parser.add_argument("--traffic", metavar="NAME", help="a kind of workload (default: many_to_one)")
    controllers_help = "congestion controls to compare; the spec has the first (default: dctcp,cubic)"
    parser.add_argument("--controllers", metavar="LIST", help=controllers_help)
    parser.add_argument("--force", action="store_true", help="replace an existing file")


def _add_topology(commands: Any) -> None:
    summary = "show a network: links, round trips, bottlenecks, queues and marks in bytes, frames and BDPs"
    example = "dcgym topology acc24 --set topology.scale=10 --png acc24.png"
    parser = _add(commands, "topology", summary, example, _delegate("dc_gym.cli.topology", progress=False))
    _add_spec(parser, "TOML file, a result's folder or manifest.json, or the name of a preset")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the network to this file (.png, .pdf or .svg)")
    _add_force(parser)


def _add_nic(commands: Any) -> None:
    from dc_gym.cli import nic as nic

    body = _delegate("dc_gym.cli.nic", progress=False)
    summary = "show and check the congestion control algorithms of NICs and their parameters"
    nic.add_arguments(_add(commands, "nic", summary, "dcgym nic show dcqcn --line 1Gbit/s", body))


METHOD = "train, distil, explain and export the policies of a learned method"


def _add_method(commands: Any) -> None:
    known_methods = methods.by_name()
    parser = add_command(commands, "method", METHOD, "\n  ".join(method.example for method in known_methods.values()))
    names = parser.add_subparsers(metavar="METHOD", required=True)
    for name, method in known_methods.items():
        method_parser = add_command(names, name, method.summary, method.example)
        method.add_commands(method_parser.add_subparsers(dest="action", metavar="COMMAND", required=True))


def _add_bench(commands: Any) -> None:
    body = _delegate("dc_gym.benchmarks.bench", progress=False)
    parser = _add(
        commands,
        "bench",
        "run a benchmark and check its results against their limits",
        "dcgym bench links --json links.json",
        body,
    )
    parser.add_argument("name", metavar="NAME", help="the benchmark; an unknown name lists all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the measurements to this file")
    train = "of bench learn: train this task of the suite with --seeds N seeds (default: 5) in --out DIR (default: results/learn)"
    parser.add_argument("--train", metavar="TASK", help=train)
    _add_comparison(parser)


def _add_comparison(parser: ArgumentParser) -> None:
    """Adds the arguments of `bench comparison`, which is a campaign."""
    compare = parser.add_argument_group("options for `bench compare`")
    options: dict[str, str] = {}

    def add(name: str, **how: Any) -> None:
        options[compare.add_argument(name, **how).dest] = name

    add("--controllers", type=arguments.names, metavar="LIST", help="controllers such as dctcp,swift,policy.npz")
    add("--topologies", type=arguments.names, metavar="LIST", help="some of dumbbell, fattree-k4, rlcc64")
    add("--workloads", type=arguments.names, metavar="LIST", help="workloads such as many-to-one-64,websearch-80")
    add("--seeds", type=arguments.count, metavar="N", help="number of runs of each controller in each case (default: 5)")
    add("--full", action="store_true", help="run networks at full rate, and as long as the papers do")
    add("--out", type=Path, metavar="DIR", help="folder of the results and the page (default: results/compare)")
    keys = "replace one key of every spec (may be repeated)"
    add("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help=keys)
    add("--ground", choices=("lab", "host"), help="where runs take place (default: lab)")
    add("--jobs", type=arguments.jobs, metavar="N", help="number of labs that run at the same time (default: one per CPU)")
    add("--retry", action="store_true", help="repeat runs that failed or are unfit")
    add("--force", action="store_true", help="replace results of another spec or another environment (kernel, versions)")
    add("--quiet", action="store_true", help="show no progress on standard error")
    parser.set_defaults(of_compare=options)


def _add_doctor(commands: Any) -> None:
    summary = "check that this machine can run a lab, and say what to do if it cannot"
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
    parser = _add(commands, "vm", summary, example, _delegate("dc_gym.run.grounds.host.vm"))
    parser.add_argument(
        "--memory",
        dest="memory_bytes",
        type=arguments.size,
        default=2 << 30,
        metavar="SIZE",
        help="memory of the VM (default: 2GiB)",
    )
    parser.add_argument("--cpus", type=arguments.jobs, default=2, metavar="N", help="CPUs of the VM (default: %(default)s)")
    _add_quiet(parser)
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="COMMAND", help="after --: the dcgym command, without the word dcgym"
    )


def _add_clean(commands: Any) -> None:
    summary = "remove the leftovers of killed runs, and with --cache all downloads and builds"
    parser = _add(commands, "clean", summary, "dcgym clean results", _delegate("dc_gym.cli.clean", progress=False))
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        default=[Path()],
        metavar="DIR",
        help="folders to search, two levels deep (default: the current one)",
    )
    parser.add_argument("--cache", action="store_true", help="also remove the lab kernel and Open vSwitch from the cache")


def _delegate(module: str, progress: bool = True) -> Callable[[Namespace], int]:
    """Returns a command that calls `main(args, progress) -> int` of a module (`main(args)` without progress).

    The module is imported when the command is called.
    """

    def command(args: Namespace) -> int:
        body = importlib.import_module(module).main
        if not progress:
            return int(body(args))
        from dc_gym.base.progress import choose

        with choose(args.quiet) as reporter:
            return int(body(args, reporter))

    return command


ADD = {
    "demo": _add_demo,
    "new": _add_new,
    "run": _add_run,
    "verify": _add_verify,
    "conformance": _add_conformance,
    "golden": _add_golden,
    "compare": _add_compare,
    "sweep": _add_sweep,
    "watch": _add_watch,
    "shell": _add_shell,
    "attach": _add_attach,
    "train": _add_train,
    "evaluate": _add_evaluate,
    "record": _add_record,
    "export": _add_export,
    "study": _add_study,
    "reproduce": _add_reproduce,
    "arena": _add_arena,
    "grade": _add_grade,
    "plot": _add_plot,
    "report": _add_report,
    "list": _add_list,
    "schema": _add_schema,
    "topology": _add_topology,
    "nic": _add_nic,
    "method": _add_method,
    "bench": _add_bench,
    "doctor": _add_doctor,
    "kernel": _add_kernel,
    "vm": _add_vm,
    "clean": _add_clean,
}
"""The function that adds each command."""
