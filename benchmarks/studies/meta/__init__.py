# SPDX-License-Identifier: Apache-2.0
"""A. Gangidi et al., RDMA over Ethernet for Distributed AI Training at Meta Scale, SIGCOMM 2024"""
