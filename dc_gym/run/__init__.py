# SPDX-License-Identifier: Apache-2.0
"""A run: from a spec to what a ground carries, what runs inside of the ground, and what is made of what it leaves."""
