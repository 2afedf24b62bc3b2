# SPDX-License-Identifier: Apache-2.0
"""Runs Ray without its log output: starts it for one training on this machine, or joins a running cluster.

Nothing of it stays afterwards. Importing this module sets environment variables that Ray reads when it is imported, so import it
before anything of Ray.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dc_gym.base import ray_cluster
from dc_gym.base.errors import MachineError, UsageError
from dc_gym.base.files import scratch
from dc_gym.learn.rllib import reaper, user_errors

LAB = "lab"
"""The custom resource that counts labs on a cluster: ray start --resources='{"lab": 8}'."""
ENVIRONMENT = {
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONWARNINGS": "ignore",
    # The nets are small: on two CPUs, two threads in a process take more than twice as long as one.
    "OMP_NUM_THREADS": "1",
}
for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)

OBJECT_STORE_BYTES = 256 << 20
LONGEST_SESSION_PATH = 32
"""Ray's socket paths are 75 characters longer than its folder's path, and the kernel allows 107."""
RAYS_FOLDER = "r"
"""The name of Ray's folder, which Ray gives mode 0777, in one that nobody else may enter."""
SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""The variable by which Ray's nodes may be on several machines, on any system. "0": Ray listens on 127.0.0.1 alone."""


def require() -> None:
    """Checks that Ray, RLlib and torch are installed; raises a one-line UsageError if not."""
    try:
        for name in ("ray.rllib", "torch", "tensorboard"):
            importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"training needs {error.name or 'ray'}, which is not installed; pip install 'dc-gym[rl]'") from None
    warnings.filterwarnings("ignore")
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)
    logging.getLogger("ray.rllib").addFilter(user_errors.raised_elsewhere)
    logging.getLogger("ray").setLevel(logging.ERROR)
    logging.getLogger("ray.rllib.utils.actor_manager").setLevel(logging.CRITICAL)  # train.py reports a runner that died
    worker: Any = importlib.import_module("ray._private.worker")
    worker.print_to_stdstream = _say_nothing  # it prints a line for each process that died; train.py reports these
    importlib.import_module("torch").set_num_threads(1)


def _say_nothing(*_: Any, **__: Any) -> None:
    """Replaces Ray's printing."""


@contextlib.contextmanager
def session(address: str | None, labs: int, processes: int) -> Iterator[Any]:
    """Yields Ray, on this machine alone or on the cluster at `address`, with room for the given numbers of labs and processes."""
    if not address:
        ray_cluster.protect()
        ray_cluster.warn_of_open_token()
    require()
    import ray

    try:
        if address:
            start = f"ray start --head --include-dashboard=false --resources='{{\"{LAB}\": 4}}'"
            ray_cluster.join(address, "rl", start, runtime_env={"env_vars": ENVIRONMENT})
            _require_labs(ray, address, labs)
            yield ray
        else:
            with (
                _on_one_machine(),
                scratch(_session_root(), "dcgym-ray-", mode=0o700) as folder,
                reaper.watching(folder) as watch,
            ):
                try:
                    _begin(ray, folder / RAYS_FOLDER, labs, processes)
                    watch.knows(reaper.raylet_of(os.getpid()))
                    yield ray
                finally:
                    watch.leaves_raylet()
                    ray.shutdown()
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _on_one_machine() -> Iterator[None]:
    """Makes the Ray that this process starts listen on the loopback address alone, also if Ray was imported before."""
    constants: Any = importlib.import_module("ray._private.ray_constants")
    was_enabled, named = constants.ENABLE_RAY_CLUSTER, os.environ.get(SEVERAL_MACHINES)
    constants.ENABLE_RAY_CLUSTER, os.environ[SEVERAL_MACHINES] = False, "0"  # for this process, and for Ray's
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = was_enabled
        os.environ.pop(SEVERAL_MACHINES)
        if named is not None:
            os.environ[SEVERAL_MACHINES] = named


def _begin(ray: Any, folder: Path, labs: int, processes: int) -> None:
    try:
        with ray_cluster.hushed(), ray_cluster.own_sigterm(), contextlib.chdir(ray_cluster.NOWHERE):
            ray.init(
                num_cpus=processes,  # only a count for Ray's scheduler; the kernel schedules the CPUs
                resources={LAB: max(1, labs)},
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=str(folder),
                logging_level="ERROR",
                log_to_driver=False,
            )
    except Exception as error:  # Ray has no exception class for this; its raylet has 30 s to answer
        words = (str(error).splitlines() or [type(error).__name__])[0]
        raise MachineError(f"Ray does not start here ({words}); wait until this machine is less busy") from error


def _require_labs(ray: Any, address: str, labs: int) -> None:
    has = int(ray.cluster_resources().get(LAB, 0))
    if has < labs:
        remedy = "start its nodes with `ray start ... --resources='{\"lab\": N}'`, or give smaller --labs and --runners"
        raise MachineError(f"--address {address}: the training needs {labs} labs and the cluster has {has}; {remedy}")


def _session_root() -> Path:
    root = Path(tempfile.gettempdir())
    return root if len(str(root)) <= LONGEST_SESSION_PATH - len(f"/dcgym-ray-01234567/{RAYS_FOLDER}") else Path("/tmp")
