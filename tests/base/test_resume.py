# SPDX-License-Identifier: Apache-2.0
"""Tests what a training says about resuming: a command that can be copied, and what is kept."""

from __future__ import annotations

import io
import shlex
from argparse import Namespace
from pathlib import Path

from rich.console import Console

from dc_gym.base import resume
from dc_gym.base.progress import Bar


def test_the_command_is_the_one_that_was_given_with_resume_once() -> None:
    words = ("train", "my spec.toml", "--set", "agent.reward=a - 0.1*b", "--out", "x")
    again = resume.command(Namespace(argv=words, resume=False))
    assert shlex.split(again) == ["dcgym", *words, "--resume"]
    assert shlex.split(resume.command(Namespace(argv=words, resume=False), resume=False)) == ["dcgym", *words]
    assert resume.command(Namespace(argv=("train", "--resume"), resume=True)) == "dcgym train --resume"


def test_what_is_said() -> None:
    assert resume.interrupted("iteration 3", Path("a/b"), "dcgym x") == "iteration 3 is kept in a/b; go on with: dcgym x"
    assert resume.interrupted(None, Path("a/b"), "dcgym x") == "nothing is kept yet; begin again with: dcgym x"


def test_a_long_command_stays_one_line_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=40, force_terminal=True)
    with Bar(console) as bar:
        bar.announce("go on with: " + "word " * 30)
    assert isinstance(console.file, io.StringIO)
    assert ("word " * 30).strip() in console.file.getvalue()
