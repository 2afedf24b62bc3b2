# SPDX-License-Identifier: Apache-2.0
"""Oblivious trees of depth 4, a form of a policy on a NIC (RL-CC, sec. V): their evaluation, conversion to integers, and fit.

All nodes of a level compare the same input with the same border. So a tree is four compares, which give a four-bit leaf number.
The fit chooses the best border of each next level greedily, as boosting does. Then it refits the leaves of all trees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.nets.fixed_point import Q16, Floats

Integers = npt.NDArray[np.int64]
DEPTH, LEAVES, MAX_TREES = 4, 16, 64
TREE_WORDS = 1 + DEPTH + LEAVES
LAST_PASSES = 20
"""Passes over all leaves after the last tree of a fit."""


@dataclass(frozen=True, slots=True)
class ObliviousTrees:
    """A sum of trees, clipped to a range."""

    KIND: ClassVar[str]
    """The name of the kind of policies."""
    AT_ZERO: ClassVar[tuple[float, ...]]
    """The value of each input for which the NIC's context stores 0. Their count, a power of two, is the number of inputs."""
    RANGE: ClassVar[tuple[float, float]]
    """The least and the greatest output."""

    inputs: Integers
    """[trees, 4]: which input each level compares."""
    borders: Floats
    """[trees, 4]: input > border sets the level's bit."""
    leaves: Floats
    """[trees, 16]: the value that the tree adds."""
    bias: float
    """The output before any tree is added."""

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Returns the trees of a policy file."""
        inputs, borders, leaves = (
            np.asarray(arrays["inputs"], np.int64),
            np.asarray(arrays["borders"]),
            np.asarray(arrays["leaves"]),
        )
        return cls(inputs, borders, leaves, float(arrays["bias"][()]))

    def __post_init__(self) -> None:
        count = len(self.inputs)
        shapes = (self.inputs.shape, self.borders.shape, self.leaves.shape)
        if shapes != ((count, DEPTH), (count, DEPTH), (count, LEAVES)) or not 0 < count <= MAX_TREES:
            raise AgentError(f"trees of the shapes {shapes}; 1 to {MAX_TREES} have (n, 4), (n, 4) and (n, 16)")
        if ((self.inputs < 0) | (self.inputs >= len(self.AT_ZERO))).any():
            raise AgentError(f"a tree compares an input that is none of 0 to {len(self.AT_ZERO) - 1}")
        for name, values, most in (("border", self.borders, 2.0**14), ("leaf", self.leaves, 16.0), ("bias", self.bias, 16.0)):
            if not (np.isfinite(values).all() and (np.abs(values) < most).all()):
                raise AgentError(f"a {name} is not finite, or not within {most:g}")

    def __call__(self, inputs: npt.ArrayLike) -> Floats:
        """Returns the output for each row of inputs [..., inputs]."""
        x = np.asarray(inputs, np.float64)
        total = np.full(x.shape[:-1], self.bias)
        for split_inputs, borders, leaves in zip(self.inputs, self.borders, self.leaves, strict=True):
            total += leaves[leaf_of(x, split_inputs, borders)]
        return np.asarray(np.clip(total, *self.RANGE))

    def packed_bytes(self) -> int:
        """Returns the bytes needed on a NIC: one for the inputs of a tree, two for each border and leaf."""
        return len(self.inputs) * (1 + 2 * (DEPTH + LEAVES))

    def table_body(self) -> list[int]:
        """Returns the body of its table; borders and leaves are in Q16, borders as the context stores inputs."""
        words, at_zero = [], np.array(self.AT_ZERO)
        for split_inputs, borders, leaves in zip(self.inputs, self.borders, self.leaves, strict=True):
            words.append(sum(int(one) << (8 * level) for level, one in enumerate(split_inputs)))
            shifted = borders - at_zero[split_inputs]
            words += [int(value) for value in np.floor(shifted * Q16)]  # floor: x > border and x_q16 > floor are then equivalent
            words += [int(value) for value in np.rint(leaves * Q16)]
        return words

    @classmethod
    def fit(
        cls, inputs: Floats, outputs: Floats, weights: Floats, grids: Sequence[Floats], count: int = 10, *, ridge: float = 1.0
    ) -> Self:
        """Fits `count` trees to rows [rows, inputs] with their outputs and weights. Borders come from the grids, one per input.

        `ridge`: added to the weight of a leaf's rows, in units of the mean row weight; it keeps leaves small that few rows reach.
        """
        bins = np.stack([np.searchsorted(grid, inputs[:, i], side="left") for i, grid in enumerate(grids)])
        bias = float((weights * outputs).sum() / weights.sum())
        rest, ridge = outputs - bias, ridge * float(weights.mean())
        splits: list[list[tuple[int, int]]] = []
        leaves: list[Floats] = []
        places: list[Integers] = []
        for _ in range(count):
            split, row_leaves = _grow(bins, rest, weights, grids, ridge)
            leaf = _leaves(row_leaves, rest, weights, ridge)
            rest = rest - leaf[row_leaves]
            splits.append(split)
            leaves.append(leaf)
            places.append(row_leaves)
            _refit(leaves, places, rest, weights, ridge, 2)
        _refit(leaves, places, rest, weights, ridge, LAST_PASSES)
        chosen = np.array(splits)
        borders = np.array([[grids[i][at] for i, at in split] for split in splits])
        return cls(chosen[..., 0], borders, np.round(np.array(leaves) * 2.0**24) / 2.0**24, round(bias * 2.0**24) / 2.0**24)


def leaf_of(inputs: npt.NDArray[Any], split_inputs: Integers, borders: npt.NDArray[Any]) -> Integers:
    """Returns the leaf's number in a tree, for inputs [..., inputs]."""
    leaf = np.zeros(inputs.shape[:-1], np.int64)
    for level in range(DEPTH):
        leaf |= (inputs[..., split_inputs[level]] > borders[level]).astype(np.int64) << level
    return leaf


def integer_sums(body: npt.ArrayLike, bias: int, stored_q16: npt.ArrayLike) -> Integers:
    """Returns the sums Q16 of bias and leaves, bit for bit as trees.h computes them.

    `stored_q16` are inputs [..., inputs] as the context stores them, in Q16.
    """
    x = np.asarray(stored_q16, np.int64)
    total = np.full(x.shape[:-1], bias, np.int64)
    for tree in np.asarray(body, np.int64).reshape(-1, TREE_WORDS):
        split_inputs = (tree[0] >> (8 * np.arange(DEPTH))) & (x.shape[-1] - 1)
        total = total + tree[1 + DEPTH :][leaf_of(x, split_inputs, tree[1 : 1 + DEPTH])]
    return np.asarray(total)


def _refit(leaves: list[Floats], places: list[Integers], rest: Floats, weights: Floats, ridge: float, rounds: int) -> None:
    """Refits each tree's leaves in turn to the residual of the other trees; keeps `rest` up to date."""
    for _ in range(rounds):
        for number, row_leaves in enumerate(places):
            rest += leaves[number][row_leaves]
            leaves[number] = _leaves(row_leaves, rest, weights, ridge)
            rest -= leaves[number][row_leaves]


def _grow(
    bins: Integers, rest: Floats, weights: Floats, grids: Sequence[Floats], ridge: float
) -> tuple[list[tuple[int, int]], Integers]:
    """Grows a tree. Returns (input, index of the border in its grid) for each level, and the leaf of each row."""
    row_leaves = np.zeros(len(rest), np.int64)
    split: list[tuple[int, int]] = []
    for level in range(DEPTH):
        column, at = _best(bins, row_leaves, 1 << level, rest, weights, grids, ridge)
        row_leaves |= (bins[column] > at).astype(np.int64) << level
        split.append((column, at))
    return split, row_leaves


def _best(
    bins: Integers, row_parts: Integers, parts: int, rest: Floats, weights: Floats, grids: Sequence[Floats], ridge: float
) -> tuple[int, int]:
    """Returns the input and border that explain most when all current parts are split at it. On a tie the first wins."""
    best, split = -1.0, (0, 0)
    for column, grid in enumerate(grids):
        width = len(grid) + 1
        index = row_parts * width + bins[column]
        weight = np.bincount(index, weights, parts * width).reshape(parts, width).cumsum(axis=1)
        moment = np.bincount(index, weights * rest, parts * width).reshape(parts, width).cumsum(axis=1)
        below, above = weight[:, :-1], weight[:, -1:] - weight[:, :-1]
        low, high = moment[:, :-1], moment[:, -1:] - moment[:, :-1]
        gain = (low * low / (below + ridge) + high * high / (above + ridge)).sum(axis=0)
        at = int(gain.argmax())
        if gain[at] > best:
            best, split = float(gain[at]), (column, at)
    return split


def _leaves(row_leaves: Integers, rest: Floats, weights: Floats, ridge: float) -> Floats:
    weight = np.bincount(row_leaves, weights, LEAVES)
    return np.asarray(np.bincount(row_leaves, weights * rest, LEAVES) / (weight + ridge))
