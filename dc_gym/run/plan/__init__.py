# SPDX-License-Identifier: Apache-2.0
"""The plan of a run: everything that follows from a spec before a ground is there, and the files that pass it to a ground."""
