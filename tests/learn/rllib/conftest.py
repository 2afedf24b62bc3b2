# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the training: without the extra `rl` all tests here are skipped with that reason."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

LACKING = [name for name in ("ray", "torch") if find_spec(name) is None]
REQUIRED = "DCGYM_REQUIRE_RL"
"""Variable that is set where the extra has been installed on purpose (make test-rl): a skip would then hide a failure."""

if LACKING and not os.environ.get(REQUIRED):
    collect_ignore_glob = ["test_*.py"]


def pytest_report_header() -> str | None:
    return f"training: not tested, {' and '.join(LACKING)} missing (make test-rl installs them)" if LACKING else None


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    """Ray on this machine, once for all tests that train in this process."""
    import toy_link

    from dc_gym.learn.rllib import ray_session

    ray_session.require()
    from ray import cloudpickle
    from ray.tune.registry import register_env

    cloudpickle.register_pickle_by_value(toy_link)
    with ray_session.session(None, labs=8, processes=8) as started:
        register_env("toy", toy_link.make)
        yield started
