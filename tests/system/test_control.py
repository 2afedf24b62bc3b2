# SPDX-License-Identifier: Apache-2.0
"""The control network: commands as packets to an agent in each host, over cables with a delay that lose some."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from agent_lab import AGENTD, LINE, MS, Host, told

from dc_gym import spec
from dc_gym.base.errors import SpecError
from dc_gym.learn.registration import SPECS

pytestmark = pytest.mark.lab
HOSTD = AGENTD.with_name("hostd")
ROOT = Path(__file__).resolve().parents[2]
STAR = """
from dc_gym.topologies.realize.control_network import NETNS, ControlNetwork

def star(delay_ns, loss_ppb):
    network = ControlNetwork(NAMES, delay_ns, loss_ppb).__enter__()
    network.impair(1, 5 * 10**9)
    return network

def by_packets(*options, **keywords):
    return Agentd("--control-netns", NETNS, *options, **keywords).ready()
"""
DELAY_NS = 200_000
PACKET_NS = 656  # 40 bytes behind UDP, IP and Ethernet headers, at 1 Gbit/s


def test_commands_arrive_after_the_network_s_delay(agentd):
    """The echo has the time at which the host changed its rate: the packet's serialization and delay after the command."""
    rates = {0: [4e6, 5e6], 1: [1, 1e12], 3: [2e6, 3e6]}
    host = told(rates)
    program = f"""
    star({DELAY_NS}, 0)
    hostd, agentd = Hostd(), by_packets()
    print(agentd.episode(5 * 10**9, 5).strip())
    agentd.end()
    hostd.process.terminate()
    print(hostd.process.wait(), hostd.process.stderr.read())
    """
    assert agentd(STAR + textwrap.dedent(program), host) == ["over 5 0", "0 "]
    enforced = [[LINE, LINE], [4_000_000, 5_000_000], [10_000, LINE], [10_000, LINE], [2_000_000, 3_000_000]]
    assert [record[3] for record in host.seen[:5]] == enforced
    assert [record[1] for record in host.seen] == [0, 2, 4, 4, 6, 6]
    for (_, _, applied_ns, _), sent_at in zip(host.seen[1:], (0, 1, 1, 3, 3), strict=True):
        assert 0 <= applied_ns - (sent_at * MS + DELAY_NS + PACKET_NS) < 200  # what clock reads cost


def test_a_lost_packet_stops_nothing(agentd):
    """Three of ten packets are lost in each direction: each command arrives in the end, and no step waits for it."""
    rates = {step: [1e6 + step * 1e4, 2e6 + step * 1e4] for step in range(0, 200, 10)}
    host = told(rates)
    program = f"""
    network = star({DELAY_NS}, 300_000_000)
    hostd, agentd = Hostd(), by_packets("--timeout", 2 * 10**6)
    print(agentd.episode(5 * 10**9, 260).strip())
    ends = network.ends().values()
    print(sum(end.dropped_packets for pair in ends for end in pair) > 0)
    agentd.end()
    """
    assert agentd(STAR + textwrap.dedent(program), host) == ["over 260 0", "True"]
    assert [record[0] for record in host.seen] == list(range(261))
    last = host.seen[-1]
    assert (last[1], last[3]) == (host.sent[-1], [2_900_000, 3_900_000])
    acks = [record[1] for record in host.seen]
    assert acks == sorted(acks) and len(set(acks)) > 10
    assert host.timeouts > 0


def test_a_host_whose_agent_is_gone_stops_nothing(agentd):
    host = told({0: [4e6, 5e6], 10: [1e6, 1e6]})
    program = """
    star(1000, 0)
    hostd, agentd = Hostd(), by_packets("--timeout", 10**6)
    agentd.begin(5 * 10**9, 30)
    time.sleep(5.005 - time.monotonic())
    hostd.process.kill()
    print(agentd.over().strip())
    agentd.end()
    """
    assert agentd(STAR + textwrap.dedent(program), host) == ["over 30 0"]
    assert (host.seen[-1][1], host.seen[-1][3]) == (2, [4_000_000, 5_000_000])
    assert host.timeouts >= 2 * 18  # both hosts, each millisecond


def test_the_next_episode_knows_nothing_of_packets_under_way(agentd):
    """A command that is on its way when its episode ends is enforced, and undone before the next begins."""
    host = Host(lambda step: ([1e6, 2e6] if step == 1 else None, 0))
    program = """
    star(3 * 10**6, 0)
    hostd, agentd = Hostd(), by_packets()
    for t0 in (5, 6):
        print(agentd.episode(t0 * 10**9, 2).strip())
        time.sleep(0.1)
    print(tbf(0)[0], tbf(1)[0])
    agentd.end()
    """
    assert agentd(STAR + textwrap.dedent(program), host) == ["over 2 0", "over 2 0", "1000000 2000000"]
    assert [record[1:] for record in host.seen] == [(0, None, [LINE, LINE])] * 3 + [(2, None, [LINE, LINE])] * 3


SIGNAL_FIRST = r"""
#include <signal.h>
#include <sys/epoll.h>
int __real_epoll_pwait(int fd, struct epoll_event *events, int most, int ms, const sigset_t *mask);
int __wrap_epoll_pwait(int fd, struct epoll_event *events, int most, int ms, const sigset_t *mask)
{
    raise(SIGTERM);
    return __real_epoll_pwait(fd, events, most, ms, mask);
}
int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int ms)
{
    return __wrap_epoll_pwait(fd, events, most, ms, 0);
}
"""


def test_a_signal_just_before_the_wait_stops_hostd(agentd, tmp_path):
    """The signal comes at the worst moment: after hostd has checked for it, before it waits. A wrapped wait raises it there."""
    source, programs = tmp_path / "signal_first.c", tmp_path / "run"
    source.write_text(SIGNAL_FIRST)
    programs.mkdir()
    flags = f"CFLAGS=-std=c11 -D_GNU_SOURCE -O2 -Wl,--wrap=epoll_pwait,--wrap=epoll_wait {source}"
    argv = ["make", "--no-print-directory", f"BIN={programs}", flags, f"{programs}/hostd"]
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    program = f"""
    star(1000, 0)
    os.environ["PROGRAMS"] = "{programs}"
    hostd = Hostd()
    try:
        print(hostd.process.wait(60), hostd.process.stderr.read())
    except subprocess.TimeoutExpired:
        print("it still waits")
    """
    assert agentd(STAR + textwrap.dedent(program)) == ["0 "]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "--ports is missing"),
        (["--ports", "p"], "--actuators is missing"),
        (["--ports"], "'--ports': its value is missing"),
        (["--colour"], "'--colour': no such option"),
        (["more"], "'more': not an option"),
        (["--ports", "/no", "--actuators", "a"], "--ports: read '/no'"),
    ],
)
def test_refuses_arguments(args, words):
    child = subprocess.run([str(HOSTD), *args], capture_output=True, text=True, timeout=60)
    assert (child.returncode, child.stdout) == (2, "")
    assert words in child.stderr
    assert child.stderr.startswith("hostd: ") and child.stderr.count("\n") == 1


def episode(env, seed: int) -> tuple[list[list[float]], list[dict]]:
    """Returns observations and infos of 60 steps, with actions that follow from the seed."""
    observation, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    observations, infos = [observation.tolist()], [info]
    for _ in range(60):
        observation, _, _, _, info = env.step(env.action_space.sample())
        observations.append(observation.tolist())
        infos.append(info)
    return observations, infos


def test_an_environment_over_a_control_network_that_loses_packets_repeats():
    """Episodes repeat bit for bit after a reset and after a boot; a loss shows in the enforced rates."""
    network = ["agent.control=network", "agent.control_delay=100us", "agent.control_loss=0.2", "agent.control_timeout=2ms"]
    runs = []
    assert "dcgym/Dumbbell10m-v0" in SPECS
    for overrides in (network, network, [*network, "agent.control_loss=0"]):
        env = gymnasium.make("dcgym/Dumbbell10m-v0", overrides=["time.duration=100ms", "agent.interval=1ms", *overrides])
        runs.append([episode(env, 5), episode(env, 6), episode(env, 5)])
        env.close()
    lossy, again, whole = runs
    assert lossy == again
    assert lossy[0] == lossy[2] != lossy[1]
    assert lossy[0][0] != whole[0][0]


UDP = ["workload.transport=udp", "workload.rate=10Mbit/s", "workload.jitter=10ms"]


@pytest.mark.parametrize("delay", ["3ms", "20ms"])
def test_a_reset_outlasts_commands_under_way(delay):
    """Queues are full and hosts near their floor: commands that arrive after the episode do not keep the queues from draining."""
    network = ["agent.control=network", f"agent.control_delay={delay}", "agent.interval=1ms", "time.duration=200ms", *UDP]
    assert "dcgym/Dumbbell10m-v0" in SPECS
    after, fresh = (gymnasium.make("dcgym/Dumbbell10m-v0", overrides=network) for _ in range(2))
    after.reset(seed=4)
    for _ in range(190):
        after.step(-np.ones(after.action_space.shape, np.float32))
    trajectory = episode(after, 5)
    assert after.unwrapped.session.boots == 1
    assert trajectory == episode(fresh, 5)
    after.close()
    fresh.close()


@pytest.mark.parametrize("setting", ["control_delay=1ms", "control_loss=0.1"])
def test_what_control_packets_would_do_is_no_word_without_them(setting):
    with pytest.raises(SpecError, match=r'agent\.control_\w+ = .*agent\.control = "network"'):
        spec.of_preset("dumbbell-10m", ["workload.kind=pairs", "controller.policy=max", f"agent.{setting}"])
