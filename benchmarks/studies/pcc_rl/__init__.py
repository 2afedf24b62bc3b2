# SPDX-License-Identifier: Apache-2.0
"""C. Tessler et al., Reinforcement Learning for Datacenter Congestion Control, 2021"""
