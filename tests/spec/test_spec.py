# SPDX-License-Identifier: Apache-2.0
"""The experiment spec: what is read, what is refused, and in which words."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
from facts import states

from dc_gym import spec
from dc_gym.base.errors import SpecError
from dc_gym.ctrl import controllers
from dc_gym.results import fingerprint

DOCS = Path(__file__).parents[2] / "docs" / "spec.md"
MINIMAL = """
[topology]
preset = "dumbbell-10m"
[controller]
name = "dctcp"
[workload]
kind = "pairs"
[time]
duration = "30s"
warmup = "5s"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "exp.toml"
    file.write_text(MINIMAL)
    return file


def fault(path: Path, *overrides: str) -> str:
    """Returns the one line of the refusal."""
    with pytest.raises(SpecError) as excinfo:
        spec.load(path, overrides)
    assert "\n" not in str(excinfo.value)
    return str(excinfo.value)


def test_defaults_and_units(path: Path) -> None:
    read = spec.load(path)
    assert (read.name, read.seed, read.ground, read.clock, read.spec_version) == ("exp", 1, "lab", "virtual", 1)
    assert (read.time.duration_ns, read.time.warmup_ns) == (30 * 10**9, 5 * 10**9)
    assert (read.monitor.interval_ns, read.monitor.tcp_interval_ns) == (10**7, 10**7)
    assert (read.lab.memory_bytes, read.lab.clock_read_ns, read.lab.watchdog_ns, read.lab.t0_ns) == (
        None,
        25,
        60 * 10**9,
        20 * 10**9,
    )
    assert read.topology.rate_bps is None and read.topology.preset == "dumbbell-10m"
    assert read.controller.ecn and read.controller.kernel_name == "dctcp"


def test_memory_follows_hosts_where_it_is_not_given(path: Path) -> None:
    lab = spec.load(path).lab
    assert lab.sized(256).memory_bytes == 512 << 20
    assert lab.sized(1256).memory_bytes == (512 << 20) + 1000 * (512 << 10)
    assert lab.sized(2, nic_flows=2049).memory_bytes == (512 << 20) + (4 << 10)
    explicit = spec.load(path, ["lab.memory=100MiB"]).lab
    assert explicit.sized(1256) == explicit


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("controller=nv", "controller.name", "nv"),
        ("controller=dcqcn", "controller.name", "dcqcn"),
        ("controller=max", "controller.policy", "max"),
        ("controller=mine.py:Agent", "controller.policy", "mine.py:Agent"),
        ("topology=fattree-k4", "topology.preset", "fattree-k4"),
        ("workload=many_to_one", "workload.kind", "many_to_one"),
    ],
)
def test_a_table_takes_the_name_of_what_it_is_about(path: Path, override: str, key: str, value: str) -> None:
    section, name = key.split(".")
    assert spec.load(path, [override]).to_dict()[section][name] == value


def test_a_network_by_its_name_takes_the_place_of_the_one_in_the_file(path: Path) -> None:
    path.write_text(path.read_text().replace('preset = "dumbbell-10m"', 'kind = "dumbbell"'))
    read = spec.load(path, ["topology=fattree-k4"])
    assert (read.topology.kind, len(read.graph().hosts)) == (None, 16)
    assert spec.load(path, ["topology=dumbbell", "topology.pairs=3", *LINK_KEYS]).topology.kind == "dumbbell"


LINK_KEYS = ("topology.rate=10mbit", "topology.delay=10us", "topology.buffer=100p", "topology.k_bytes=3028")


def test_a_name_that_no_table_knows_is_answered_by_key(path: Path) -> None:
    for override, message in (
        ("topology=dumbell", 'topology.preset = "dumbell": unknown; did you mean dumbbell-1g or dumbbell-10m?'),
        ("workload=incats", 'workload.kind = "incats": unknown; did you mean incast?'),
    ):
        with pytest.raises(SpecError, match=re.escape(f"--set: {message}")):
            spec.load(path, [override])
    with pytest.raises(SpecError, match=r"topology: .*topology\.preset.*topology\.kind$"):
        spec.load(path, ["topology=5"])


def test_the_documents_example_is_valid(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert example is not None
    (tmp_path / "doc.toml").write_text(example[1])
    assert spec.load(tmp_path / "doc.toml").name == "dctcp on the dumbbell"


def test_tcp_interval_follows_interval(path: Path) -> None:
    assert spec.load(path, ["monitor.interval=1ms"]).monitor.tcp_interval_ns == 10**6
    assert spec.load(path, ["monitor.interval=1ms", "monitor.tcp_interval=2ms"]).monitor.tcp_interval_ns == 2 * 10**6


def test_overrides_and_seed(path: Path) -> None:
    read = spec.load(path, ["controller.name=nv", "seed=5", 'name="a b"', "topology.rate=20Mbit/s", "seed = 6"], seed=7)
    assert (read.controller.name, read.seed, read.name, read.topology.rate_bps) == ("nv", 7, "a b", 20 * 10**6)
    assert spec.load(path, ["seed=5", "seed=6"]).seed == 6
    assert spec.load(path, ["name=nan1"]).name == "nan1"
    assert spec.load(path, ['name="a, b"']).name == "a, b" and spec.load(path, ["name=a, b"]).name == "a, b"


@pytest.mark.parametrize("text", ["plugins=['a.py', 'b, c.py']", 'plugins = ["a.py","b, c.py"]'])
def test_an_override_may_be_a_list(path: Path, text: str) -> None:
    for name in ("a.py", "b, c.py"):
        (path.parent / name).write_text(f"name = {name!r}\n")
    plugins = tuple(path.parent / name for name in ("a.py", "b, c.py"))
    assert spec.load(path, [text]).plugins == plugins
    assert spec.vary(spec.read(path), path.parent, "base", [text], {"seed": 3}, "grid").plugins == plugins
    programs = 'workload.exec=[{host="h1", command="true"}, {host="h2", command="sh -c \'true, true\'"}]'
    assert [program.host for program in spec.load(path, [programs]).workload.exec] == ["h1", "h2"]
    assert "--set: workload.exec[0].command: is missing" in fault(path, 'workload.exec=[{host="h1"}]')


def test_patches_of_the_kernel_are_files_beside_the_spec_that_a_result_keeps(path: Path, tmp_path: Path) -> None:
    assert "--set: kernel.patch" in fault(path, "kernel.patch=none.patch") and "no such file" in fault(
        path, "kernel.patch=none.patch"
    )
    for name in ("a.patch", "b.patch"):
        (path.parent / name).write_text(name)
    plain = spec.load(path)
    assert "kernel" not in plain.to_dict()
    assert spec.load(path, ["kernel.patch=a.patch"]).kernel.patch == (path.parent / "a.patch",)
    path.write_text(f'{path.read_text()}\n[kernel]\npatch = ["b.patch", "a.patch"]\n')
    read = spec.load(path)
    assert read.kernel.patch == read.code() == (path.parent / "b.patch", path.parent / "a.patch")
    copied = read.to_dict(copied=True)
    assert copied["kernel"] == {"patch": ["code/b.patch", "code/a.patch"]}
    kinds = {
        fingerprint.kind_of(plain),
        fingerprint.kind_of(read),
        fingerprint.kind_of(spec.load(path, ["kernel.patch=a.patch"])),
    }
    assert len(kinds) == 3
    assert 'ground = "lab"' in fault(path, "ground=host")
    (tmp_path / "code").mkdir()
    for file in read.code():
        shutil.copy(file, tmp_path / "code")
    assert spec.without_code(copied, tmp_path).graph() == read.graph()


def test_a_path_in_an_override_is_of_the_working_folder_or_of_the_spec_s(path: Path, tmp_path, monkeypatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for file in (here / "p.npz", here / "own.py", path.parent / "p.npz", path.parent / "beside.py"):
        file.write_text("")
    read = spec.load(path, ["controller=p.npz", 'plugins=["own.py", "beside.py"]'])
    assert read.controller.policy == here / "p.npz" and read.plugins == (here / "own.py", path.parent / "beside.py")
    path.write_text(path.read_text().replace("[controller]", '[controller]\npolicy = "p.npz"'))
    assert spec.load(path).controller.policy == path.parent / "p.npz", "a spec means what it means from everywhere"


@pytest.mark.parametrize(
    "overrides", [(), ("topology.rate=12.5Mbit/s", "topology.k_bytes=3028", "workload.jitter=1500ns", "workload.size=1MB")]
)
def test_round_trip(path: Path, overrides: tuple[str, ...]) -> None:
    read = spec.load(path, overrides, seed=3)
    assert spec.from_dict(read.to_dict(), path.parent) == read
    (path.parent / "again.json").write_text(read.to_json())
    assert spec.load(path.parent / "again.json") == read
    (path.parent / "manifest.json").write_text(json.dumps({"result_version": 1, "spec": read.to_dict()}))
    assert spec.load(path.parent / "manifest.json") == read
    assert read.to_json() == spec.from_dict(read.to_dict(), path.parent).to_json()


def test_every_registered_controller_loads(path: Path) -> None:
    for name in controllers.names():
        read = spec.load(path, [f"controller.name={name}"])
        marks = name in ("dctcp", "dcqcn", "nscc")
        assert read.controller.ecn == marks
        queues = {port.queue for port in read.graph().switch_ports()}
        assert {(queue.kind, queue.marking.kind) for queue in queues} == {("port", "step" if marks else "none")}


def test_matrix_file_is_relative_to_the_spec(path: Path) -> None:
    (path.parent / "flows.csv").write_text("source,destination,port,start,stop,size\nh1,h3,80,0,0,1000\n")
    read = spec.load(path, ["workload.kind=matrix", "workload.file=flows.csv"])
    assert dict(read.workload.own)["file"] == path.parent / "flows.csv"
    assert [flow.size_bytes for flow in read.flows(read.graph())] == [1000]
    assert read.to_dict(copied=True)["workload"]["file"] == "matrix.csv"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("topology.rat=3", "--set: topology.rat: unknown key; did you mean topology.rate?"),
        ("duration=3s", "did you mean time.duration?"),
        ("zzzzzzz=3", "unknown key; docs/spec.md lists the keys"),
        ("topology.rate=10", '--set: topology.rate = 10: is a bare number; write a rate with its unit such as "10Mbit/s"'),
        ("topology.rate=-5Mbit/s", "topology.rate"),
        ("topology.rate=0Mbit/s", "is below 1bit/s"),
        ("topology.rate=10Mbps", "write '10Mbit/s'"),
        ("topology.buffer=400KB", "write '400kB' (400,000 bytes) or '400KiB' (409,600 bytes)"),
        ("topology.buffer=1kB", 'topology.buffer = "1kB": is not in 1514..2147483647 bytes'),
        ("topology.buffer=5GB", 'topology.buffer = "5GB": is not in 1514..2147483647'),
        ("topology.host_buffer=1kB", 'topology.host_buffer = "1kB": is not in 1514..2147483647'),
        ("workload.size=4foo", "write it like '400kB'"),
        ("time.duration=1.5ns", '"1.5ns": is not a whole number of ns; round it'),
        ("workload.load=nan", "workload.load = NaN: has no effect with kind 'pairs'"),
        ("topology.preset=dumbell", "unknown; did you mean dumbbell-1g or dumbbell-10m?"),
        ("topology.hosts=4", "topology.hosts"),
        ("controller.name=dctp", "unknown; did you mean dctcp?"),
        ("workload.kind=hotspot", "16"),
        ("workload.kind=matrix", "workload.file: is missing"),
        ("workload.file=nowhere.csv", "workload.file"),
        ("workload.start=30s", "workload.start"),
        ("workload.stop=0s", "workload.stop"),
        ("time.duration=0s", "time.duration"),
        ("time.warmup=30s", "is not below time.duration"),
        ("monitor.interval=9999ns", "is below 10us"),
        ("monitor.tcp_interval=1us", "is below 10us"),
        ("monitor.interval=31s", "is above time.duration"),
        ("seed=-1", "is below 0"),
        ("seed=9223372036854775808", "is above 9223372036854775807"),
        ("seed=1.5", "is a fraction"),
        ("seed=true", "is a boolean"),
        ("name=7", "is a bare number"),
        ("lab.t0=1s", "is below 11s"),
        ("controller.rto_min=999us", "is below 1ms"),
        ("controller.rto_min=121s", "is above 120s"),
        ("lab.clock_read=0ns", "is below 1ns"),
        ("ground=moon", "one of: lab, host"),
        ("clock=real", 'is not that of ground "lab"'),
        ("spec_version=2", "reads 1 ... upgrade"),
        ("spec_version=0", "write spec_version = 1"),
        ("lab={memory=1}", "is a table"),
        ("plugins=[a.py]", "not a TOML list"),
        ("plugins=[a.py]", "quote it: --set 'plugins=[\"ring.py\"]'"),
        ("seed", "not key=value"),
        ("=3", "not key=value"),
    ],
)
def test_refusals(path: Path, override: str, words: str) -> None:
    assert states(fault(path, override), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MINIMAL + "topology = 3", "unknown key"),  # lands in [time]
        ("topology = 3", "[topology]"),
        ("seed = ", "not valid TOML"),
        (
            MINIMAL.replace("[controller]\nname", "[controller]\nnam"),
            "exp.toml: controller.nam: ... did you mean controller.n",
        ),
        (MINIMAL.replace('name = "dctcp"', ""), "exp.toml: controller.name: ... one of: dctcp"),
        (MINIMAL.replace('duration = "30s"', ""), "time.duration: is missing"),
        (MINIMAL.replace('preset = "dumbbell-10m"', ""), "topology.kind is missing"),
        (MINIMAL.replace('preset = "dumbbell-10m"', 'kind = "single"\nhosts = 4'), "missing"),
        ("spec_version = 9\nfrobnicate = 1\n" + MINIMAL, "spec_version = 9"),
    ],
)
def test_bad_files(path: Path, text: str, words: str) -> None:
    path.write_text(text)
    assert states(fault(path), words)
    assert str(path) in fault(path)


NIC = MINIMAL.replace('"dctcp"', '"dcqcn"')


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["nic.policy=none.npz"], "nic.policy = "),
        (["nic.policy=exp.toml"], 'nic.policy = "exp.toml": dcqcn ... leave it out'),
        (["controller.name=rlcc-tree", "nic.policy=exp.toml"], "exp.toml: ... .npz file"),
        (["controller.name=rlcc-tree", "nic.policy=rlcc-mlp"], "kind 'mlp' ... rlcc-mlp"),
        (["controller.name=rlcc-tree", "nic.policy=mine"], "mine: ... (fdcc, fdcc-crowds, "),
        (["nic.preset=peper"], '--set: nic.preset = "peper": dcqcn ... did you mean paper?'),
        (["controller.name=fixed", "nic.preset=paper"], "fixed ... 'paper'; leave it out"),
        (["nic.parameters.gg=8"], "--set: nic.parameters.gg = 8: dcqcn ... did you mean g?"),
        (["nic.parameters.g=1024"], "nic.parameters.g = 1024: ... 1..1023 (Q10)"),
        (["nic.parameters.g=many"], "not 'many'"),
        (["nic.parameters.g=true"], "not True"),
        (["controller.name=swift", "nic.tcp=cubic"], 'nic.tcp = "cubic": swift'),
        (["nic.event_coalesce=65537"], "is above 65536"),
        (["nic.event_queue=4"], 'nic.event_queue = 4: ... nic.decisions = "in-turn"'),
        (["nic.event_cost=1us"], 'nic.event_cost = "1us": ... nic.decisions = "in-turn"'),
        (["nic.event_queue=257", "nic.decisions=in-turn"], "is above 256"),
        (["topology.rate=99kbit/s"], "NICs need 100kbit/s"),
        (["nic.parameters.a.b=1"], "did you mean nic.parameters?"),
        (["nic.parameters=3"], "write a table"),
    ],
)
def test_what_a_nic_cannot_do_shows_before_anything_boots(path: Path, overrides: list[str], words: str) -> None:
    path.write_text(NIC)
    assert states(fault(path, *overrides), words)


def test_what_ran_is_read_whatever_algorithms_have_become(path: Path) -> None:
    plain = spec.load(path, ["controller.name=dcqcn"]).to_dict() | {"nic": {"preset": "gone", "parameters": {"gone": 1}}}
    assert spec.from_dict(plain, path.parent).nic.preset == "gone"


def test_an_entry_of_a_table_is_set_alone(path: Path) -> None:
    path.write_text(NIC + "[nic]\nparameters = { g = 4, nack = 1 }\n")
    assert dict(spec.load(path, ["nic.parameters.g=8"]).nic.parameters) == {"g": 8, "nack": 1}


def test_unreadable_files(tmp_path: Path) -> None:
    assert "No such file" in fault(tmp_path / "none.toml")
    assert "is a folder, and no result's" in fault(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in fault(tmp_path / "binary.toml")
    (tmp_path / "list.json").write_text("[1]")
    assert "contains no spec" in fault(tmp_path / "list.json")
    (tmp_path / "manifest.json").write_text('{"result_version": 1}')
    assert "contains no spec" in fault(tmp_path / "manifest.json")


def test_a_byte_order_mark_is_no_part_of_a_text(path: Path, tmp_path: Path) -> None:
    """Windows writes one at the beginning of a file."""
    marked = tmp_path / "marked.toml"
    marked.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert spec.load(marked, ['name="exp"']) == spec.load(path, ['name="exp"'])


def test_the_folder_of_a_result_stands_for_its_spec(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "result"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"result_version": 1, "spec": spec.load(path).to_dict()}))
    assert spec.load(folder) == spec.load(folder / "manifest.json")


def test_a_grid_is_told_from_a_spec(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text('base = "exp.toml"\n[grid]\nseed = "1..3"\n')
    assert "holds a grid of runs, not one spec; `dcgym sweep` runs it" in fault(tmp_path / "grid.toml")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("controler", "controller"), ("topolgy", "topology"), ("Workload", "workload")],
)
def test_the_right_section_is_proposed_for_a_misspelt_one(path: Path, tmp_path: Path, wrong: str, meant: str) -> None:
    other = tmp_path / "other.toml"
    other.write_text(path.read_text().replace(f"[{meant}]", f"[{wrong}]"))
    assert f"{wrong}: unknown key; did you mean {meant}?" in fault(other)
    name = {"controller": "name", "topology": "rate", "workload": "kind"}[meant]
    assert f"{wrong}.{name}: unknown key; did you mean {meant}.{name}?" in fault(path, f"{wrong}.{name}=x")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[topology.links]]\nbetween = ["s1", "s2"]\nloss = "101 %"', 'topology.links[0].loss = "101 %": is above 100%'),
        ('[[topology.links]]\nbetween = ["s1", "s2"]\nlos = "1%"', "topology.links[0].los: unknown key; did you mean loss?"),
        (
            '[[workload.exec]]\nhost = "h1"\ncommand = "true"\nstart = "90 s"',
            'workload.exec[0].start = "90 s": is not before',
        ),
    ],
)
def test_values_of_arrays_of_tables_are_told_as_they_are_written(path: Path, tmp_path: Path, text: str, words: str) -> None:
    other = tmp_path / "other.toml"
    other.write_text(f"{path.read_text()}\n{text}\n")
    assert words in fault(other)


def test_a_spec_is_frozen_and_checked_however_it_is_made(path: Path) -> None:
    read = spec.load(path)
    with pytest.raises(dataclasses.FrozenInstanceError):
        read.seed = 2  # type: ignore[misc]
    with pytest.raises(SpecError, match="seed"):
        dataclasses.replace(read, seed=-1)
    with pytest.raises(SpecError, match="warmup"):
        dataclasses.replace(read.time, warmup_ns=read.time.duration_ns)


NETWORK = """
[topology]
preset = "acc24"
marking = "red-instant"
buffer = "5.5bdp"
host_buffer = "100p"
kmin = "10p"
kmax = "2bdp"
pmax = "1%"
loss = 0.001
jitter = "2us"
reorder = "0.5%"
reorder_delay = "3us"
scale = 4

[[topology.links]]
between = ["leaf", "spine"]
rate = "40Gbit/s"
marking = "secn1"

[[topology.links]]
between = ["h1", "*"]
loss = 0
k_bytes = 3028

[controller]
name = "dctcp"
[workload]
kind = "many_to_one"
[time]
duration = "1s"
"""


def test_a_network_in_full(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(NETWORK)
    read = spec.load(tmp_path / "net.toml")
    plain = read.to_dict()
    expected = {
        "preset": "acc24",
        "buffer": "5.5bdp",
        "host_buffer": "100p",
        "marking": "red-instant",
        "kmin": "10p",
        "kmax": "2bdp",
        "pmax": "1%",
        "loss": "0.1%",
        "jitter": "2us",
        "reorder": "0.5%",
        "reorder_delay": "3us",
        "scale": 4,
    }
    assert {key: plain["topology"][key] for key in expected} == expected
    links = [{"between": ["leaf", "spine"], "rate": "40Gbit/s", "marking": "secn1"}]
    assert plain["topology"]["links"] == [*links, {"between": ["h1", "*"], "k_bytes": 3028, "loss": "0%"}]
    assert spec.from_dict(json.loads(json.dumps(plain)), tmp_path) == read
    graph = read.graph()
    assert graph.cable_of("s1-eth13").rate_bps == 10**10 and graph.port("s1-eth13").queue.marking.max_bytes == 200_000
    assert [graph.cable_of(f"h{number}-eth0").impairment.loss_ppb for number in (1, 2)] == [0, 10**6]


BAD_NETWORKS = {
    "a link's key": ('rate = "40Gbit/s"', "speed = 1", "topology.links[0].speed: unknown key"),
    "a link's value": ('rate = "40Gbit/s"', 'rate = "40"', 'topology.links[0].rate = "40": is not a number with a unit'),
    "a link's range": (
        'rate = "40Gbit/s"',
        'rate = "11000Gbit/s"',
        'topology.links[0].rate = "11000Gbit/s": is above 10000Gbit/s',
    ),
    "a link's name": (
        'marking = "secn1"',
        'marking = "secn9"',
        'topology.links[0].marking = "secn9": unknown; did you mean secn0',
    ),
    "no between": (
        'between = ["h1", "*"]',
        "",
        "topology.links[1].between: is missing; write two words",
    ),
    "from without to": (
        'between = ["h1", "*"]',
        'from = "h1"',
        "topology.links[1]: names from; give between alone, or both from",
    ),
    "between and from": ('"*"]', '"*"]\nfrom = "h1"', "topology.links[1]: names between and from; give between alone"),
    "no such direction": ('between = ["h1", "*"]', 'from = "h1"\nto = "s3"', "from = 'h1', to = 's3' matches no link"),
    "half a between": ('["h1", "*"]', '["h1"]', 'topology.links[1].between = ["h1"]: is not understood'),
    "no such link": ('["h1", "*"]', '["h1", "s3"]', "topology.links: between = ['h1', 's3'] matches no link"),
    "no share": ("loss = 0.001", 'loss = "much"', 'topology.loss = "much": is not understood; write a share such as'),
    "too large a share": ("loss = 0.001", "loss = 1.1", "topology.loss = 1.1: is above 100%"),
    "too fine a share": (
        "loss = 0.001",
        "loss = 1e-10",
        "topology.loss = 1e-10: is too fine: shares are multiples of 0.0000001% (one in 1,000,000,000); round it",
    ),
    "an endless share": ("loss = 0.001", "loss = inf", "topology.loss = Infinity: is not understood; write a share such as"),
    "no amount": ('"5.5bdp"', '"2.5rtt"', 'topology.buffer = "2.5rtt": is not understood; write an amount such as "400kB"'),
    "a bare buffer": ('"5.5bdp"', "1000", "topology.buffer = 1000: is a bare number; write an amount"),
    "too long a delay": ('jitter = "2us"', 'jitter = "2us"\ndelay = "11s"', 'topology.delay = "11s": is above 10s'),
    "too long when scaled": ('jitter = "2us"', 'jitter = "3s"', "jitter_ns of a link: value 12000000000 is not in"),
    "no scale": ("scale = 4", "scale = 0", "topology.scale = 0: is below 1"),
    "a threshold too many": (
        'marking = "red-instant"',
        'marking = "step"\nk_bytes = 3000',
        'topology.kmax = "2bdp": has no effect with marking',
    ),
}


@pytest.mark.parametrize(("old", "new", "words"), BAD_NETWORKS.values(), ids=BAD_NETWORKS.keys())
def test_bad_networks_are_refused_before_anything_boots(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in NETWORK
    (tmp_path / "net.toml").write_text(NETWORK.replace(old, new))
    with pytest.raises(SpecError) as excinfo:
        spec.load(tmp_path / "net.toml")
    assert words in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_a_tcp_that_the_lab_s_kernel_alone_has_is_refused_on_the_host(path: Path) -> None:
    refusal = fault(path, "ground=host", "controller.name=agent")
    assert states(refusal, 'controller.name = "agent" ... kernel alone ... "host" name another')
