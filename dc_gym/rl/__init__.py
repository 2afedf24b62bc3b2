# SPDX-License-Identifier: Apache-2.0
"""Training on RLlib's new API stack: `dcgym train` and `dcgym export` (docs/training.md).

Nothing of dcgym outside of this package imports Ray or torch, and the command line imports this package only when it is asked to
train. Both belong to the extra `rl`.
"""
