# SPDX-License-Identifier: Apache-2.0
"""TCP in labs: DCTCP's queue and TCP NV, incast, flow completion times"""
