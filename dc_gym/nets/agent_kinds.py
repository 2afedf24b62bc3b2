# SPDX-License-Identifier: Apache-2.0
"""The words for who is an agent: one for the whole network, or each host, switch, port or flow where something is set."""

from __future__ import annotations

CENTRAL, HOSTS, SWITCHES, PORTS, FLOWS = AGENTS = ("central", "hosts", "switches", "ports", "flows")
