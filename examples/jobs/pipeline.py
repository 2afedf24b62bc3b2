# SPDX-License-Identifier: Apache-2.0
"""Writes pipeline.goal, a job as GOAL text: four stages with one forward, one backward (1F1B), two tensor-parallel ranks a stage.

The shape is that of Megatron-LM (D. Narayanan et al., SC 2021); sizes and times are ours.
"""

from collections.abc import Iterator
from pathlib import Path

STAGES, TENSOR, MICROBATCHES = 4, 2, 8
FORWARD_NS, BACKWARD_NS, ACTIVATION_BYTES = 1_000_000, 2_000_000, 500_000


def order(stage: int) -> Iterator[tuple[bool, int]]:
    """Yields what a stage does, as (forward, microbatch): it never holds more activations than there are stages behind it."""
    ahead = min(STAGES - 1 - stage, MICROBATCHES)
    for done in range(MICROBATCHES + ahead):
        if done < MICROBATCHES:
            yield True, done
        if done >= ahead:
            yield False, done - ahead


def rank(stage: int, tensor: int) -> Iterator[str]:
    """Yields the lines of a rank: receive, compute, reduce with the other rank of the stage, and pass on."""
    mine, before = stage * TENSOR + tensor, ""
    for forward, batch in order(stage):
        step = f"{'f' if forward else 'b'}{batch}"
        tag = f"tag {2 * batch + forward}"
        source, target = (mine - TENSOR, mine + TENSOR) if forward else (mine + TENSOR, mine - TENSOR)
        yield f"{step}: calc {FORWARD_NS if forward else BACKWARD_NS}"
        if before:
            yield f"{step} requires {before}"
        if 0 <= source < STAGES * TENSOR:
            yield f"{step}in: recv {ACTIVATION_BYTES // TENSOR}b from {source} {tag}"
            yield f"{step} requires {step}in"
        other, half = mine ^ 1, ACTIVATION_BYTES // TENSOR
        for part, after in (("scatter", [step]), ("gather", [f"{step}scatter", f"{step}scattered"])):
            yield f"{step}{part}: send {half}b to {other} {tag}"
            yield f"{step}{part}ed: recv {half}b from {other} {tag}"
            yield from (f"{step}{end} requires {done}" for end in (part, f"{part}ed") for done in after)
        before = f"{step}gathered"
        if 0 <= target < STAGES * TENSOR:
            yield f"{step}out: send {ACTIVATION_BYTES // TENSOR}b to {target} {tag}"
            yield f"{step}out requires {before}"


ranks = [f"rank {number} {{\n" + "\n".join(rank(*divmod(number, TENSOR))) + "\n}\n" for number in range(STAGES * TENSOR)]
Path(__file__).with_name("pipeline.goal").write_text(f"num_ranks {len(ranks)}\n" + "".join(ranks))
