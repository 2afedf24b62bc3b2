# SPDX-License-Identifier: Apache-2.0
"""Controllers: the registry, actuators/ (settings), agent/ (C: agentd, hostd, eventd), nic/ (algorithms, shim, loader)."""
