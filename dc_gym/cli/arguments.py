# SPDX-License-Identifier: Apache-2.0
"""The types of the command line's arguments: each turns a text into a value or raises ArgumentTypeError with the right form."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from dc_gym.base.errors import TestbedError, UsageError

MOST_SEEDS = 10_000


def seeds(text: str) -> list[int]:
    """Parses 1..5 or 1,2,3 into distinct numbers that are not negative."""
    first, dots, last = text.partition("..")
    if dots and first.isdecimal() and last.isdecimal() and int(last) - int(first) < MOST_SEEDS:
        numbers = list(range(int(first), int(last) + 1))
    else:
        parts = [part.strip() for part in text.split(",")]
        numbers = [int(part) for part in parts] if all(part.isdecimal() for part in parts) else []
    if not numbers or len(set(numbers)) != len(numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different seeds; write it like 1..5 or 1,2,3")
    return numbers


def names(text: str) -> list[str]:
    """Parses a,b into names that occur once each."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts) or len(set(parts)) != len(parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different names; write it like a,b")
    return parts


def folder(text: str) -> Path:
    path = Path(text).absolute()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder; give one that exists")
    return path


def size(text: str) -> int:
    from dc_gym.base.units import parse_size_bytes

    try:
        return parse_size_bytes(text)
    except TestbedError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; give 0 or more")
    return int(text)


def policy(text: str) -> str | Path:
    """Returns a value of controller.policy: the path of a policy file, or a word."""
    return Path(text) if text.endswith(".npz") else text


def keep_split(overrides: Iterable[str], why: str) -> None:
    """Raises UsageError, which says why, if one of the texts "key=value" changes whose episodes a command plays."""
    if split := next((text for text in overrides if text.startswith("episodes.split")), None):
        raise UsageError(f"--set {split}: {why}; leave it out")


def jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of labs; give 1 or more")
    return int(text)


def lab(text: str) -> str:
    """Returns a name, or a number."""
    return str(jobs(text)) if not text or text.lstrip("-").isdecimal() else text


def seconds(text: str) -> float:
    try:
        duration_s = float(text)
    except ValueError:
        duration_s = 0.0
    if not 0.01 <= duration_s <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds; give 0.01 to 3600")
    return duration_s


def budget_s(text: str) -> float:
    """Parses a time to spend, such as 90s, 10m or 1h."""
    units = {"s": 1, "m": 60, "h": 3600}
    number = text[:-1]
    if not number.isdecimal() or text[-1] not in units:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time to spend; write it like 90s, 10m or 1h")
    return float(int(number) * units[text[-1]])
