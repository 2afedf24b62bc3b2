# SPDX-License-Identifier: Apache-2.0
"""How long set-up takes, and what else happens in it, changes no digest; test_determinism.py has more such ways.

Every process that is awake while traffic runs must do its work at times that t0 alone decides.
"""

from pathlib import Path

import pytest

from dc_gym.base.progress import Quiet
from dc_gym.run.runner import run
from dc_gym.spec import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CASES = {
    "NICs that record decisions": ("nic.toml",),
    "NICs that record states": ("nic.toml", "nic.trace=all", "time.duration=50ms", "time.warmup=0s"),
    "round-trip probes": ("nic.toml", "controller.name=rlcc-tree", "time.duration=100ms", "time.warmup=0s"),
    "an agent": ("gym.toml", "controller=fair-share", "time.duration=1s"),
    "an agent over a network": ("gym.toml", "agent.control=network", "agent.control_loss=2%", "time.duration=1s"),
    "programs": ("programs.toml", "time.duration=2s"),
    "bad links": ("dumbbell.toml", "topology.loss=1%", "topology.jitter=10us", "time.duration=2s", "time.warmup=0s"),
    "marks at random": ("dumbbell.toml", "topology.marking=iroko-thesis", "time.duration=3s", "time.warmup=0s"),
}


@pytest.mark.lab
@pytest.mark.parametrize("name", CASES)
def test_a_disturbed_set_up_changes_no_digest(name, tmp_path, lab_kernel):
    tmp_path.chmod(0o755)
    file, *settings = CASES[name]
    spec = load(EXAMPLES / file, settings)
    undisturbed = run(spec, tmp_path / "undisturbed", Quiet(), plot=False)
    later = run(spec, tmp_path / "later", Quiet(), plot=False, disturb="sleep 0.0123; for i in 1 2 3; do /bin/true; date; done")
    assert later.digest == undisturbed.digest
