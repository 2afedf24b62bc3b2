# SPDX-License-Identifier: Apache-2.0
"""IETF draft-calabria-bmwg-ai-fabric-training-bench (@e19e018, February 2026): an AI fabric's tests, in a short form"""
