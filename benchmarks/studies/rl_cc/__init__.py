# SPDX-License-Identifier: Apache-2.0
"""B. Fuhrer et al., Implementing Reinforcement Learning Datacenter Congestion Control in NVIDIA NICs, 2023"""
