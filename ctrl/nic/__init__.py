# SPDX-License-Identifier: Apache-2.0
"""NICs with congestion control: their algorithms, the data path that carries them, and the tools around both."""
