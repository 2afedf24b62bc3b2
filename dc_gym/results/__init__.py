# SPDX-License-Identifier: Apache-2.0
"""Results: the folder of a run, its tables and digests; metrics/, figures/ and pages/ are computed from them alone."""
