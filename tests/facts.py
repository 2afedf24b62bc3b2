# SPDX-License-Identifier: Apache-2.0
"""What an error states, whatever its wording: the key, the value as given, the remedy."""


def states(text: str, facts: str) -> bool:
    """Returns whether a text has these facts, which " ... " separates, in their order."""
    start = 0
    for fact in facts.split(" ... "):
        start = text.find(fact, start) + len(fact)
        if start < len(fact):
            return False
    return True
