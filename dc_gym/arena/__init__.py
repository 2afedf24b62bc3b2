# SPDX-License-Identifier: Apache-2.0
"""The arena: a benchmark whose rows anyone recomputes (`dcgym arena`, docs/arena.md).

An *entrant* is a congestion control. It plays the *cases* of its *track*, and gets a *row*: its measures, and the digest of each
run. A *held-out* case is one of the same family with numbers that a secret draws.

- suite.py: tracks and their cases (tracks/TRACK.toml); entrant.py: who plays; measures.py: what is measured;
- play.py: the runs of a row; row.py: rows as files; verify.py: a row made again;
- ranking.py, page.py: ranks within a track, and the page; scene.py, attack.py: the adversary; command.py: the command.
"""
