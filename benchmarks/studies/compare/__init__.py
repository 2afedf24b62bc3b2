# SPDX-License-Identifier: Apache-2.0
"""RL-CC, DCTCP, TCP NV, DCQCN, HPCC, PowerTCP, FDCC and ACC on the same datacenter traffic"""
