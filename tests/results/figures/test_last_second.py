# SPDX-License-Identifier: Apache-2.0
"""The picture of a network's last second: each line is where its values are, and older values are gone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from dc_gym.results.figures.last_second import QUANTITIES, LastSecond, _round_above

QUARTERS = {
    quantity.key: (slice(row, row + 240), slice(column, column + 320))
    for quantity, (row, column) in zip(QUANTITIES, [(0, 0), (0, 320), (240, 0), (240, 320)], strict=True)
}


def line_in(pixels: Any, key: str) -> Any:
    """Returns rows and columns of the pixels with the colour of a quantity's line, in its quarter."""
    color = np.array(to_rgb(next(quantity.color for quantity in QUANTITIES if quantity.key == key))) * 255
    return np.argwhere(np.abs(pixels[QUARTERS[key]] - color).max(-1) < 30)


def info(**values: float) -> dict[str, float]:
    return {"switch_queue_bytes_max": 0.0, "goodput_bps": 0.0, "queueing_delay_s": 0.0} | values


def stepped(picture: LastSecond, step_s: float, *rows: dict[str, float], reward: float = 0.5) -> Any:
    for row in rows:
        picture.add(step_s, reward, row)
    return picture.pixels()


def test_a_value_is_as_high_as_its_share_of_the_axis() -> None:
    """The axis goes to 10 Mbit/s, so a line at 8 is four fifths of the way from one at 0 to one at 10."""
    picture, height = LastSecond(0.01), {}
    picture.begin(info())
    for mbps in (10, 8, 0):
        pixels = stepped(picture, 0.01, *[info(goodput_bps=mbps * 1e6)] * 101)
        rows = line_in(pixels, "goodput_bps")[:, 0]
        assert pixels.shape == (480, 640, 3) and pixels.dtype == np.uint8 and np.ptp(rows) < 4
        height[mbps] = -float(rows.mean())
    assert height[8] - height[0] == pytest.approx(0.8 * (height[10] - height[0]), abs=2) and height[10] - height[0] > 100


def test_steps_leave_after_a_second() -> None:
    picture = LastSecond(0.1)
    picture.begin(info())
    high = stepped(picture, 0.1, *[info(queueing_delay_s=0.01)] * 5, *[info(queueing_delay_s=0.002)] * 5)
    low = stepped(picture, 0.1, *[info(queueing_delay_s=0.002)] * 6)
    assert np.ptp(line_in(high, "queueing_delay_s")[:, 0]) > 50 > 10 > np.ptp(line_in(low, "queueing_delay_s")[:, 0])
    picture.begin(info())
    assert len(line_in(picture.pixels(), "reward")) == 0, "an episode begins with no reward"


@pytest.mark.parametrize("step_s", [1e-4, 1e-3, 0.3, 2.0])
def test_any_length_of_step(step_s: float) -> None:
    picture = LastSecond(step_s)
    picture.begin(info())
    pixels = stepped(picture, step_s, *[info(switch_queue_bytes_max=1500.0)] * int(2 + 1.2 / step_s), reward=-3.0)
    columns = line_in(pixels, "reward")[:, 1]
    if step_s < 1:
        assert columns.min() < 90 and columns.max() > 290, "the line fills the second"


def test_a_picture_does_not_change_when_the_next_is_made() -> None:
    picture = LastSecond(0.01)
    picture.begin(info())
    first = stepped(picture, 0.01, *[info(goodput_bps=1e6)] * 10)
    first_copy = first.copy()
    stepped(picture, 0.01, *[info(goodput_bps=9e9)] * 10)
    assert np.array_equal(first, first_copy)


def test_axes_end_at_round_numbers() -> None:
    assert [_round_above(value) for value in (0, 0.3, 1, 1.1, 4.9, 51)] == [0, 0.5, 1, 2, 5, 100]
