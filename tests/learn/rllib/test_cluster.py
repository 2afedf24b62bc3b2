# SPDX-License-Identifier: Apache-2.0
"""Trainings and sweeps on a Ray cluster that a fresh user starts as the documentation says, with a token and without."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_labs import CONFIG, SPEC

from dc_gym.base import ray_cluster
from dc_gym.kernel import cache
from dc_gym.learn.rllib import reaper

pytestmark = [pytest.mark.lab, pytest.mark.long]
RAY = Path(sys.executable).with_name("ray")
ROOT = Path(__file__).resolve().parents[3]
LABS = 3
"""Labs of a node: it has room for one runner, and for an evaluation."""
ROOM = Path("/tmp")
"""A short folder: Ray's sockets need short paths."""


class Cluster:
    """`ray start --head` of a user with a home of his own, and what that user runs."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        variables = {"HOME": str(folder), "DCGYM_CACHE": str(cache.cache_dir()), "RAY_USAGE_STATS_ENABLED": "0"}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | variables
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"

    def ray(self, *words: str, **more: str) -> None:
        subprocess.run([RAY, *words], env=self.environment | more, check=True, capture_output=True, timeout=120)

    def start(self, labs: int, **more: str) -> None:
        port = self.address.partition(":")[2]
        room = ("--num-cpus=4", "--resources", f'{{"lab": {labs}}}', f"--temp-dir={self.home}/ray", "--include-dashboard=false")
        self.ray("start", "--head", f"--port={port}", *room, **more)

    def join(self, labs: int, **more: str) -> None:
        """Starts a second node, of the same user on another machine."""
        home = self.home / "node"
        shutil.copytree(self.home / ".ray", home / ".ray")
        room = ("--num-cpus=4", "--resources", f'{{"lab": {labs}}}', f"--temp-dir={self.home}/n")
        self.ray("start", f"--address={self.address}", *room, HOME=str(home), **more)

    def dcgym(self, *words: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = self.environment | ({"HOME": str(home)} if home else {})
        argv = [sys.executable, "-m", "dc_gym.cli.main", *words, "--quiet", "--address", self.address]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = ROOM / f"dcgym-test-{os.getpid()}"
    folder.mkdir(mode=0o700)
    try:
        yield Cluster(folder)
    finally:
        reaper._kill_holders(folder, os.getpid())
        subprocess.run(["rm", "-rf", folder], check=True)


@pytest.mark.parametrize("token", [False, True])
def test_trainings_and_sweeps_join_it(tmp_path: Path, cluster: Cluster, token: bool) -> None:
    runners = 1
    if token:
        cluster.ray("get-auth-token", "--generate")
        variables = dict(re.findall(r"^export (\w+)=(\w+)", (ROOT / "docs" / "training.md").read_text(), re.MULTILINE))
        cluster.start(LABS, **variables)
        cluster.join(LABS, **variables)
        runners = 2  # one on each node
    else:
        cluster.start(2 * LABS)
    spec, config = tmp_path / "spec.toml", tmp_path / "train.toml"
    spec.write_text(SPEC)
    config.write_text(CONFIG)
    train = ("train", str(spec), "--config", str(config), "--steps", "200", "--runners", str(runners))
    train += ("--out", str(tmp_path / "trained"))
    sweep = ("sweep", str(spec), "--seeds", "1..2", "--out", str(tmp_path / "swept"))
    trained = cluster.dcgym(*train)
    warned = "" if token else f"dcgym: warning: {ray_cluster.OPEN.format(address=cluster.address)}; {ray_cluster.MAKE_TOKEN}\n"
    assert (trained.returncode, trained.stderr) == (0, warned) and (tmp_path / "trained" / "policy.npz").is_file()
    swept = cluster.dcgym(*sweep)
    assert (swept.returncode, swept.stderr) == (0, warned) and "2 runs: 2 done" in swept.stdout
    if token:
        strangers = tmp_path / "stranger"
        strangers.mkdir()
        for words in (train, sweep):
            refused = cluster.dcgym(*words[:-1], str(tmp_path / "refused"), home=strangers)
            assert refused.returncode == 2 and refused.stderr.count("\n") == 1
            assert f"--address {cluster.address}: it refuses every client" in refused.stderr
            assert "copy ~/.ray/auth_token from the machine of `ray start --head`" in refused.stderr


def test_nobody_there_is_one_line(tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    for words in (("train", "--runners", "1"), ("sweep", "--seeds", "1..2")):
        process = cluster.dcgym(words[0], str(tmp_path / "spec.toml"), *words[1:], "--out", str(tmp_path / words[0]))
        assert process.returncode == 2 and process.stderr.count("\n") == 1
        assert f"--address {cluster.address}: no Ray cluster answers" in process.stderr and "ray start --head" in process.stderr
