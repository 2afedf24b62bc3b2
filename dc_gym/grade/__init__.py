# SPDX-License-Identifier: Apache-2.0
"""Grading: points for a student's answers, from the student's own runs (`dcgym grade`, docs/course.md).

- rubric.py: the questions of a lab (docs/labs/rubrics/LAB.toml), and a student's seeds;
- submission.py: what a student hands in, read as a stranger's; proof.py: runs of it that are made again;
- marking.py: points; command.py: the command.
"""
