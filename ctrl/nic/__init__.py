# SPDX-License-Identifier: Apache-2.0
"""NICs that do congestion control: their algorithms, the data path that carries them, and what tools make of both."""
