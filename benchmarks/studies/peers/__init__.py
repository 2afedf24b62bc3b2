# SPDX-License-Identifier: Apache-2.0
"""Other simulators' results for the same networks, routes and flows (docs/peers.md)"""
