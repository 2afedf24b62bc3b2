# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench acc-cost`: the cost of an inference of ACC's net, and the effect of its integer form.

The states come from runs of the shipped net in held-out scenarios (held_out.py). The net in floats and in integers (q_int8.py)
play the same scenarios with the same seeds, so their rewards are paired. The integer form is compiled from the header that NICs
run (acc_inference.c), and its decisions must equal the Python form's.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym.base.checks import Check
from dc_gym.base.errors import MachineError, TestbedError
from dc_gym.base.files import scratch
from dc_gym.base.stats import Estimate, paired
from dc_gym.ctrl.nic import build
from dc_gym.methods.acc.offline import held_out, scenarios
from dc_gym.methods.acc.offline.held_out import Contestant
from dc_gym.methods.acc.policy import SHIPPED, AccPolicy
from dc_gym.methods.acc.q_int8 import IntegerQNetwork
from dc_gym.methods.acc.queues import AccQueues, Actions, Slot
from dc_gym.methods.acc.template import DEPLOYED
from dc_gym.nets.fixed_point import Q16
from dc_gym.topologies.ecmp import draw

SOURCE = Path(__file__).resolve().parent / "acc_inference.c"
SCENARIOS, SLOTS = 12, 80
REPEAT = 200
PAPER_FLOPS = 14e6
"""FLOP/s a port in the paper (section 6), for the 6.4 kFLOP of a net 20-40-40-20 each 500 us."""
LITTLE = 0.005
"""A loss of reward that does not count: a sixtieth of the difference that one level of a queue makes."""
FLOATS, INTEGERS = "float", "int8"
States = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Played:
    """The states and the rewards of the held-out scenarios."""

    states: States
    """[rows, inputs]: states in which the net in floats decided."""
    gain: Estimate
    """Reward of the integer form less the reward of the floats, paired by scenario."""


def checks() -> Iterable[Check]:
    policy = AccPolicy.read(SHIPPED[DEPLOYED.name])
    integer = IntegerQNetwork.of(policy.net)
    with scratch(Path(tempfile.gettempdir()), "dcgym-env-") as folder:
        played = _played(policy, integer, folder)
        took_ns, chosen = infer(integer, played.states, folder, REPEAT)
    yield from verdicts(policy, integer, played, took_ns, chosen)


def verdicts(policy: AccPolicy, integer: IntegerQNetwork, played: Played, took_ns: float, chosen: Actions) -> Iterator[Check]:
    """Yields the checks. `took_ns` and `chosen`: time of an inference of the compiled form, and its actions."""
    net, rate = policy.net, 1e9 / policy.template.interval_ns
    a_port = f"{net.flops * rate / 1e6:.1f} MFLOP/s a port (paper: {PAPER_FLOPS / 1e6:.0f})"
    yield Check("operations", "recorded", f"{net.flops} FLOP an inference, {rate:.0f} inferences/s: {a_port}", ok=True)
    floats = 4 * sum(parameter.size for parameter in net.parameters)
    yield Check("memory", "recorded", f"{integer.memory_bytes} bytes; {floats} with floats of 32 bits", ok=True)
    differ = int((integer.best(played.states) != chosen).sum())
    yield Check("compiled decisions", "those of the Python form", f"{differ} of {len(chosen)} differ", ok=not differ)
    values = net(played.states)
    lost = values.max(axis=1) - np.take_along_axis(values, chosen[:, None], axis=1)[:, 0]
    alike = float((values.argmax(axis=1) == chosen).mean())
    yield Check("decisions", "recorded", f"{alike:.1%} those of the floats; the others cost {lost.mean():.5f} of value", ok=True)
    gain = f"{played.gain.mean:+.5f} ± {played.gain.half or 0:.5f}, {SCENARIOS} scenarios"
    yield Check("reward", f"at most {LITTLE} below that of the floats", gain, ok=played.gain.mean >= -LITTLE)
    share = f"{100 * took_ns * rate / 1e9:.3f} % of a core a port"
    yield Check("time", "recorded", f"{took_ns:.0f} ns an inference, {share}", ok=True)


def _played(policy: AccPolicy, integer: IntegerQNetwork, folder: Path) -> Played:
    met: list[States] = []

    def choose(slot: Slot, queues: AccQueues) -> Actions:
        met.append(slot.states[~slot.idle])
        return held_out.greedy(DEPLOYED, policy.net).choose(slot, queues)

    def choose_in_integers(slot: Slot, queues: AccQueues) -> Actions:
        return np.where(slot.idle, queues.settings, integer.best(slot.states))

    contestants = {FLOATS: Contestant(DEPLOYED, choose), INTEGERS: Contestant(DEPLOYED, choose_in_integers)}
    earned: list[Mapping[str, float]] = []
    for number in range(SCENARIOS):
        scenario, seed = scenarios.drawn(0, "held out", "cost", number), draw(0, "acc cost", number) % 2**32
        earned.append(held_out.rewards(scenario, seed, contestants, SLOTS, folder))
    floats, integers = (dict(enumerate(rewards[name] for rewards in earned)) for name in (FLOATS, INTEGERS))
    gain = paired(floats, integers)
    assert gain is not None
    return Played(np.concatenate(met), gain)


def infer(integer: IntegerQNetwork, states: States, folder: Path, repeat: int) -> tuple[float, Actions]:
    """Compiles the integer form and returns the CPU time of an inference, in ns, and the action of each state [rows]."""
    words = np.concatenate([integer.words, np.rint(states * Q16).astype(np.int64).reshape(-1)]).astype(np.uint32)
    argv = [str(_compiled(folder)), str(repeat), *map(str, integer.sizes)]
    process = subprocess.run(argv, input=words.tobytes(), capture_output=True)
    if process.returncode:
        raise TestbedError(process.stderr.decode().strip() or f"{argv[0]} ended with {process.returncode}")
    took_ns, *actions = process.stdout.split()
    return float(took_ns), np.array([int(action) for action in actions], np.int64)


def _compiled(folder: Path) -> Path:
    out, includes = folder / SOURCE.stem, (f"-I{build.SOURCES}", f"-I{build.DRIVERS}")
    try:
        argv = ["cc", *build.RUNNER_FLAGS, *includes, "-o", str(out), str(SOURCE)]
        process = subprocess.run(argv, capture_output=True, text=True)
    except FileNotFoundError:
        raise MachineError(f"compiling {SOURCE.name}: there is no cc here; apt-get install gcc") from None
    if process.returncode:
        raise TestbedError((process.stderr.strip().splitlines() or [f"cc ended with {process.returncode}"])[0])
    return out
