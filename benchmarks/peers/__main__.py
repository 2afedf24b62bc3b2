# SPDX-License-Identifier: Apache-2.0
"""Runs a peer's stored cases anew, and prints the rows of its file.

    python -m dc_gym.benchmarks.peers NAME[=PATH] [ALGORITHM ...]

NAME and PATH are those of `dcgym bench peers --peer`; without an ALGORITHM all run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.spelling import unknown
from dc_gym.base.terminal import say
from dc_gym.benchmarks.peers import cases, registry


def main(argv: Sequence[str]) -> int:
    try:
        _run(argv)
    except (TestbedError, UsageError) as error:
        say(f"peers: {error}", file=sys.stderr)
        return 2
    return 0


def _run(argv: Sequence[str]) -> None:
    if not argv:
        raise UsageError(f"no peer is given; give one of {', '.join(registry.PEERS)}, as docs/peers.md says")
    ((name, path),) = registry.parse(argv[:1]).items()
    peer = registry.PEERS[name]
    rows = cases.stored(peer.data).rows
    known = list(dict.fromkeys(case.algorithm for case in rows))
    for algorithm in argv[1:]:
        if algorithm not in known:
            raise UsageError(unknown("algorithm", algorithm, known))
    program = peer.program(path)
    for case in rows:
        if case.algorithm in (argv[1:] or known):
            say(cases.row_text(case, peer.run(program, case)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
