# SPDX-License-Identifier: Apache-2.0
"""What is measured: checks/ and perf/ (`dcgym bench`), studies/ (`dcgym study`), peers/ (other simulators)."""
