# SPDX-License-Identifier: Apache-2.0
"""Evolves the parameters of a NIC's algorithm: python examples/evolve_nic.py --rounds 8

CMA-ES (Hansen 2001; package cmaes) changes the defaults in a copy of PowerTCP's header. It looks for the shortest queue of ten
hosts that send to one, at 0.99 of PowerTCP's goodput. The winner then plays held-out cases of the arena, which no round has seen.

`evaluate(header)` returns a header's measures, the form that OpenEvolve and its like call. A process of its own compiles and runs
the header, with limits of time and memory.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import resource
import subprocess
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
from cmaes import CMA

from dc_gym import spec as specs
from dc_gym.arena import entrant, play
from dc_gym.arena.row import read
from dc_gym.base.interpreter import python
from dc_gym.base.progress import Quiet
from dc_gym.cli.main import main as dcgym
from dc_gym.ctrl.nic import algorithms
from dc_gym.run.sweep.grid import Point
from dc_gym.study.model import StudyOptions

INCAST = Path(__file__).resolve().parent / "incast-10.toml"
LEAST_GOODPUT = 0.99
LIMIT_S, LIMIT_BYTES = 120, 8 * 2**30
FAILED = {"goodput_bps": 0.0, "queue_bytes": float("inf")}


def evaluate(header: str | Path) -> dict[str, float]:
    """Returns goodput and mean queue of the incast under a header; FAILED if it does not compile, run, or end in time."""
    words = python(__file__, "--measure", str(header))
    try:
        child = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, preexec_fn=limit, check=False)
    except subprocess.TimeoutExpired:
        return FAILED
    measures: dict[str, float] = FAILED if child.returncode else json.loads(child.stdout)
    return measures


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


def measure(header: str) -> dict[str, float]:
    player = entrant.resolve(header, "nic")
    with tempfile.TemporaryDirectory(prefix="dcgym-evolve-") as folder:
        player.write(Path(folder))
        data = specs.read(INCAST)
        spec = specs.vary(data, Path(folder), str(INCAST), [], player.keys, header)
        points = [Point("incast", {"case": "incast", "seed": 1}, spec)]
        summary = play.run(points, Path(folder), StudyOptions(Path(folder), jobs=1), Quiet())["incast"].summary
    return {"goodput_bps": summary["goodput_bps"], "queue_bytes": summary["mean_queue_bytes"]}


def with_defaults(header: str, values: dict[str, int]) -> str:
    """Returns a header's text with other defaults of parameters."""
    for name, value in values.items():
        header, changed = re.subn(rf'(X\({name}, "[^"]*", )[^,]+', rf"\g<1>{value}", header)
        assert changed == 1, f"{name} has one row in CC_PARAMETERS"
    return header


def alone(header: Path) -> str:
    """Returns the text of a header that ships as that of another algorithm in another folder."""
    return header.read_text().replace('"../../', '"').replace('CC_NAME "powertcp"', 'CC_NAME "evolved"')


def judge(header: Path, secret: str, folder: Path) -> dict[str, float]:
    """Returns the measures of the held-out cases that a secret draws, by case and name."""
    words = ["arena", "run", str(header), "--secret", secret, "--out", str(folder), "--quiet"]
    with redirect_stdout(io.StringIO()):
        assert dcgym(words) == 0, "the cases are those of every header"
    cases = read(next(folder.glob("*.json"))).cases
    return {f"{case} {name}": value or 0.0 for case, row in cases.items() for name, value in row.measures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", metavar="FILE", help="print the measures of a header, and end")
    parser.add_argument("--parameters", default="gamma,flows,target,current_min", help="those to change (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of 8 headers; 0: the verdict alone (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the search (default: %(default)s)")
    parser.add_argument("--secret", default="held out from the search", help="draws the cases of the verdict")
    parser.add_argument("--save", type=Path, default=Path("evolved.h"), metavar="FILE", help="the winner (default: %(default)s)")
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure)))
        return
    if args.rounds:
        evolve(args)
    show_verdict(args)


def evolve(args: argparse.Namespace) -> None:
    """Writes the best header of the search to args.save."""
    with tempfile.TemporaryDirectory(prefix="dcgym-evolve-") as folder:
        algorithm = algorithms.load("powertcp", Path(folder))
    shipped = alone(algorithms.header_of("powertcp"))
    chosen = [algorithm.parameter(name) for name in args.parameters.split(",")]
    low = np.log([1 + parameter.least for parameter in chosen])
    width = np.log([1 + parameter.greatest for parameter in chosen]) - low
    args.save.write_text(shipped)
    best = first = evaluate(args.save)
    start = (np.log([1 + parameter.default for parameter in chosen]) - low) / width
    search = CMA(mean=start, sigma=0.1, bounds=np.array([[0.0, 1.0]] * len(chosen)), population_size=8, seed=args.seed)
    candidate = args.save.with_suffix(".try.h")
    print(f"powertcp: {in_words(first)}")
    for number in range(1, args.rounds + 1):
        answers = []
        for _ in range(search.population_size):
            point = search.ask()
            values = np.rint(np.exp(low + point * width) - 1).astype(int)
            text = with_defaults(shipped, {row.name: int(value) for row, value in zip(chosen, values, strict=True)})
            candidate.write_text(text)
            measures = evaluate(candidate)
            answers.append((point, cost(measures, first)))
            if answers[-1][1] < cost(best, first):
                best = measures
                args.save.write_text(text)
        search.tell(answers)
        print(f"round {number}: {in_words(best)}")
    candidate.unlink(missing_ok=True)


def cost(measures: dict[str, float], first: dict[str, float]) -> float:
    """Returns the queue over the first one; with too little goodput, more than that of any that has enough."""
    goodput = measures["goodput_bps"] / first["goodput_bps"]
    return measures["queue_bytes"] / first["queue_bytes"] if goodput >= LEAST_GOODPUT else 1e6 * (2 - goodput)


def show_verdict(args: argparse.Namespace) -> None:
    """Prints how the winner and PowerTCP compare in held-out cases."""
    with tempfile.TemporaryDirectory(prefix="dcgym-evolve-") as folder:
        rows = [judge(header, args.secret, Path(folder) / str(n)) for n, header in enumerate(("powertcp", args.save))]
    for name, before in rows[0].items():
        print(f"held out: {name:42} {before:12.6g} {rows[1][name]:12.6g}")


def in_words(measures: dict[str, float]) -> str:
    return f"{measures['goodput_bps'] / 1e9:.3f} Gbit/s, queue {measures['queue_bytes'] / 1e3:.2f} kB"


if __name__ == "__main__":
    main()
