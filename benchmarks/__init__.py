# SPDX-License-Identifier: Apache-2.0
"""Measurements: checks/ and perf/ (`dcgym bench`), studies/ (`dcgym study`), peers/ (other simulators)."""
