# SPDX-License-Identifier: Apache-2.0
"""Graphs, presets and routing as plain data; realize/ makes them: netlink, cables, queues, Open vSwitch, Mininet."""
