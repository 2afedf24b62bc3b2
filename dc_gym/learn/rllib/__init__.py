# SPDX-License-Identifier: Apache-2.0
"""Training on RLlib's new API stack: `dcgym train` and `dcgym export` (docs/training.md).

Only this package imports Ray and torch. The command line imports it only for a training. Both libraries belong to the extra `rl`.
"""
