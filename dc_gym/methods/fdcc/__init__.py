# SPDX-License-Identifier: Apache-2.0
"""FDCC's training: a policy for every flow, learned in a fluid model with telemetry."""
