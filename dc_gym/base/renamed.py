# SPDX-License-Identifier: Apache-2.0
"""The former names of what users write, so that an error about an old name gives the new one.

Names are listed by the place where they are written: "spec" for keys of specs, "dcgym rlcc train" for the options and commands of
a command, "dcgym train --algo" for the values of an option, "[run]" for that table of a training's configuration. CHANGELOG.md
has a row for each.
"""

from __future__ import annotations

__all__ = ["ARGUMENTS", "CLASSES", "MODULES", "RENAMED", "hint"]

MODULES = "Python modules"
CLASSES = "plug-ins"
"""The place of what plug-ins import from modules, such as dc_gym.traffic.kinds.Setting."""
ARGUMENTS = "arguments of plug-ins"
"""The place of the names of arguments, such as `color` of Controller, by function."""
RENAMED: dict[str, dict[str, str]] = {
    "spec": {},
    "dcgym nic": {"fit": "rebuild"},
    "dcgym rlcc train": {
        "--on": "--ground",
        "--episode": "--updates-per-episode",
        "--free-running": "--asynchronous",
    },
    "dcgym rlcc distil": {"--by": "--fitter", "--band": "--near-weight"},
    "dcgym rlcc distil --from": {"lasting": "persistent"},
    "FlowsConfig": {"most_error": "max_error", "spare": "spare_agents"},
    "scaling of a NIC's policy file": {"reach": "max_error"},
    "[run]": {"keep": "keep_checkpoints"},
    "dcgym train SPEC": {"fluid": "dcgym train --agents flows", "lab": "dcgym rlcc train"},
    "dcgym train --algo": {"RLCC": "dcgym rlcc train"},
    CLASSES: {
        "dc_gym.envs.policies.Setting": "PolicyContext",
        "dc_gym.envs.multi_agent.Hosts": "Agents",
        "dc_gym.envs.parallel.HostsParallelEnv": "DataCenterParallelEnv",
        "dc_gym.rl.multi_agent.HostsMultiAgentEnv": "DataCenterMultiAgentEnv",
        "dc_gym.topologies.marking.At": "MarkingContext",
        "dc_gym.traffic.kinds.Setting": "WorkloadContext",
    },
    ARGUMENTS: {
        "Controller color": "an argument of dc_gym.figures.styles.register",
        "Controller marker": "an argument of dc_gym.figures.styles.register",
        "register needs": "a field of the class of keys, the third argument",
        "register takes": "a field of the class of keys, the third argument",
        "register uses": "a field of the class of keys, the third argument",
        "register required": "a field of the class of keys, the third argument",
        "register optional": "a field of the class of keys, the third argument",
    },
    MODULES: {
        "dc_gym.controllers": "dc_gym.ctrl.controllers",
        "dc_gym.envs.policy_file": "dc_gym.nets.agent_policy",
        "dc_gym.errors": "dc_gym.base.errors",
        "dc_gym.results": "dc_gym.records.results",
        "dc_gym.stats": "dc_gym.base.stats",
        "dc_gym.topologies.amount": "dc_gym.base.amount",
        "dc_gym.units": "dc_gym.base.units",
        "dc_gym.envs.flows": "dc_gym.methods.rlcc.flows",
        "dc_gym.envs.flows_parallel": "dc_gym.methods.rlcc.flows_parallel",
    },
}


def hint(place: str, name: str) -> str:
    """Returns text such as "it is --learning-rate now"; empty if the name is no former one."""
    new = RENAMED.get(place, {}).get(name)
    return f"it is {new} now" if new else ""
