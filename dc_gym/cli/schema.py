# SPDX-License-Identifier: Apache-2.0
"""`dcgym schema`: the JSON Schema of specs, for editors."""

from __future__ import annotations

from argparse import Namespace

from dc_gym.base import usercode
from dc_gym.spec.schema import schema, to_json


def main(args: Namespace) -> int:
    """Runs the command. `args.plugins` are files that register more."""
    for path in args.plugins:
        usercode.load(path)
    print(to_json(schema([path.name for path in args.plugins])), end="")
    return 0
