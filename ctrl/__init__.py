# SPDX-License-Identifier: Apache-2.0
"""Controllers: the registry, actuators/ (what agents set), agent/ (C: agentd, hostd, eventd), nic/ (algorithms, shim, loader)."""
