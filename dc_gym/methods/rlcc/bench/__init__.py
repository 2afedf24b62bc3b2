# SPDX-License-Identifier: Apache-2.0
"""What RL-CC's decisions cost on a core without and with multiplication. A run depends on none of it."""
