# SPDX-License-Identifier: Apache-2.0
"""A dict whose values are computed at the first look. It holds the info of a step, which most agents never read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class LazyInfo(dict[str, Any]):
    """A dict that behaves like the plain dict that `fill` returns. `fill` is called once. Copies and pickles are plain dicts.

    It has its keys from the beginning: C code such as json's reads the size of a dict without calling its methods.
    """

    __slots__ = ("_fill",)

    def __init__(self, blank: Mapping[str, None], fill: Callable[[], Mapping[str, Any]]) -> None:
        """`blank`: the keys of the dict that `fill` will return. More keys can be added."""
        super().__init__(blank)
        self._fill: Callable[[], Mapping[str, Any]] | None = fill

    def look(self) -> None:
        """Fills the dict if it is not filled yet."""
        if self._fill is not None:
            fill, self._fill = self._fill, None
            super().update(fill())

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)


def _looking(name: str) -> Callable[..., Any]:
    dict_method = getattr(dict, name)

    def method(self: LazyInfo, *args: Any, **kwargs: Any) -> Any:
        for operand in (self, *args):
            if isinstance(operand, LazyInfo):
                operand.look()
        return dict_method(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, dict_method.__doc__
    return method


for _name in (
    *("__contains__", "__delitem__", "__eq__", "__getitem__", "__ior__", "__iter__", "__len__", "__ne__", "__repr__"),
    *("__reversed__", "__setitem__", "clear", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"),
):
    setattr(LazyInfo, _name, _looking(_name))
