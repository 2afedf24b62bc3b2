# SPDX-License-Identifier: Apache-2.0
"""Tests the files below /etc that programs in hosts find. In a lab: test_traffic_runs.py; on the host ground: test_host.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym.topologies.presets import TopologySpec, build, resolve
from dc_gym.topologies.realize import etc


def test_hosts_and_their_ports_have_names(tmp_path):
    (tmp_path / "nsswitch.conf").write_text("passwd: files sss\nhosts: files mdns4 dns\nnetworks: files\n")
    graph = build(resolve(TopologySpec.of(preset="acc24")))
    files = etc.names(graph, tmp_path)
    assert files["nsswitch.conf"] == "passwd: files sss\nnetworks: files\nhosts: files\n"
    rows = [line.split() for line in files["hosts"].splitlines()]
    assert rows[0] == ["127.0.0.1", "localhost"] and len(rows) == 1 + sum(len(host.nics) for host in graph.hosts)
    assert rows[1] == [graph.hosts[0].address, "h1", "h1-eth0"]
    assert etc.names(graph, tmp_path / "none")["nsswitch.conf"] == "hosts: files\n"


def test_accounts_but_root_are_the_user_of_the_lab(tmp_path):
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\ntcpdump:x:102:105::/nonexistent:/bin/false\n+::::::\n")
    assert etc.accounts(1000, 100, tmp_path)["passwd"].splitlines() == [
        "root:x:0:0:root:/root:/bin/sh",
        "tcpdump:x:1000:100::/nonexistent:/bin/false",
        "+::::::",
    ]


def test_what_is_written_replaces_files_and_links(tmp_path):
    (tmp_path / "elsewhere").write_text("the machine's")
    (tmp_path / "hosts").symlink_to(tmp_path / "elsewhere")
    etc.write({"hosts": "ours"}, tmp_path)
    assert (tmp_path / "hosts").read_text() == "ours" and (tmp_path / "elsewhere").read_text() == "the machine's"


@pytest.mark.root
def test_files_are_laid_over_the_machine_s_for_one_mount_namespace(tmp_path):
    before = Path("/etc/hosts").read_text() if Path("/etc/hosts").exists() else None
    code = "from pathlib import Path; from dc_gym.topologies.realize import etc"
    code += f"; etc.cover({{'hosts': 'ours\\n'}}, Path('{tmp_path}/etc'))"
    code += "; print(Path('/etc/hosts').read_text() if Path('/etc/hosts').exists() else 'ours')"
    child = subprocess.run(["unshare", "--mount", sys.executable, "-c", code], capture_output=True, text=True)
    if child.stderr.startswith("unshare: "):
        pytest.skip(f"no mount namespace here: {child.stderr.strip()}")  # in a chroot, or without privileges
    assert (child.returncode, child.stdout.strip()) == (0, "ours"), child.stderr
    assert (Path("/etc/hosts").read_text() if Path("/etc/hosts").exists() else None) == before
