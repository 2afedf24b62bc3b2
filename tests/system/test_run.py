# SPDX-License-Identifier: Apache-2.0
"""Whole runs through the `dcgym` command: results, digests, bad input, interruption, nothing left behind."""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import killed_runs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dc_gym.base import processes
from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.results.figures import timeline
from dc_gym.results.results import DERIVED, FILES, load_result
from dc_gym.run import room, runner
from dc_gym.run.plan import writer
from dc_gym.run.plan.plan import DISTURB
from dc_gym.run.result import analysis
from dc_gym.spec import load

pytestmark = [pytest.mark.lab, pytest.mark.user]

SPEC = """
spec_version = 1
name = "test"
seed = 1
[topology]
preset = "dumbbell-10m"
[controller]
name = "dctcp"
[workload]
kind = "pairs"
[time]
duration = "2s"
warmup = "500ms"
"""


@pytest.fixture
def folder(tmp_path, lab_kernel):
    """A folder with spec.toml that a lab of root's can reach."""
    tmp_path.chmod(0o755)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


def dcgym(*words, cwd=None, **options):
    argv = [sys.executable, "-m", "dc_gym.cli.main", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, cwd=cwd, timeout=300, **options)


def run(folder, out="out", *settings, options=()):
    words = [word for setting in settings for word in ("--set", setting)]
    child = dcgym("run", folder / "spec.toml", "--out", folder / out, "--quiet", "--no-plot", *options, *words)
    assert child.returncode == 0, child.stderr
    return load_result(folder / out, check_digest=True)


def test_a_run_leaves_a_whole_fit_result(folder):
    child = dcgym("run", folder / "spec.toml", "--out", folder / "out")
    assert child.returncode == 0, child.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["out", "spec.toml"]
    assert {path.name for path in (folder / "out").iterdir()} == {
        *FILES,
        *(f"{name}.parquet" for name in DERIVED if name != "agent"),  # that one is an agent's
        "graph.json",
        "plot.png",
        "lab.log",
    }
    assert (folder / "out" / "plot.png").read_bytes().startswith(b"\x89PNG")
    result = load_result(folder / "out", check_digest=True)
    manifest = result.manifest
    assert manifest["fit"] and manifest["unfit_reasons"] == []
    assert set(manifest["environment"]) == {"kernel", "openvswitch", "libc", "python", "programs"}
    assert {"boot", "fabric", "traffic", "results"} <= set(manifest["wall_s"])
    assert f"digest       {result.digest}" in child.stdout
    assert {path.stat().st_uid for path in [folder / "out", *(folder / "out").iterdir()]} == {os.geteuid()}


def test_numbers_are_those_of_the_wire(folder):
    """DCTCP on 10 Mbit/s: the line is full, payload is 1448 of 1514 bytes, nothing is lost, sweeps are on time."""
    result = run(folder)
    summary = result.summary
    assert summary["utilization"] > 0.99
    assert summary["goodput_bps"] == pytest.approx(10e6 * 1448 / 1514, rel=0.01)
    assert summary["drops"] == 0 and summary["marks"] > 0
    assert summary["jain"] > 0.99
    assert summary["bottleneck_port"] == "s1-eth3"
    sweeps = np.unique(result.records("queues")["t_ns"])
    assert np.array_equal(sweeps, np.arange(201) * 10_000_000)
    flows = result.records("flows")
    assert list(result.column("flows", "status")) == ["running", "running"] or set(result.column("flows", "status")) <= {
        "stopped",
        "running",
    }
    assert (flows["received_bytes"] <= flows["sent_bytes"] + 400_000).all()


def test_queue_of_a_lone_cubic_flow_reaches_the_buffer(folder):
    settings = ("controller.name=cubic", "topology.pairs=1", "time.duration=20s", "topology.buffer=100kB")
    summary = run(folder, "out", *settings, "topology.rate=100Mbit/s", "topology.bottleneck_rate=10Mbit/s").summary
    assert 100_000 - 1514 < summary["max_queue_bytes"] <= 100_000
    assert summary["drops"] > 0


def test_flows_with_a_size_finish_and_are_timed(folder):
    result = run(folder, "out", "workload.size=100kB", "topology.pairs=1", "time.warmup=0s")
    flow = result.records("flows")[0]
    assert result.column("flows", "status")[0] == "done"
    assert flow["received_bytes"] == flow["size_bytes"] == 100_000
    frames = -(-100_000 // 1448)
    line_ns = (100_000 + frames * 66) * 8 * 100  # at 10 Mbit/s a bit takes 100 ns
    assert line_ns < flow["fct_ns"] < 3 * line_ns
    assert result.summary["flows_done"] == 1
    assert result.summary["fct_mean_s"] == pytest.approx(flow["fct_ns"] / 1e9)


def test_fat_tree_with_the_hotspot_matrix(folder):
    settings = (
        "topology.preset=fattree-k4",
        "topology.rate=100Mbit/s",
        "workload.kind=hotspot",
        "time.duration=200ms",
        "time.warmup=0s",
    )
    result = run(folder, "out", *settings)
    assert len(result.ports) == 96 and result.summary["flows"] == 16
    assert result.fit
    assert result.summary["goodput_bps"] > 3e8


def test_hundreds_of_hosts_start_and_every_flow_gets_through(folder):
    """There are more hosts than know everybody, more new carriers than Linux handles at once, and more first packets than an
    upcall queue holds."""
    settings = ("topology.pairs=170", "controller.name=cubic", "time.duration=300ms", "time.warmup=0s")
    result = run(folder, "out", *settings, "topology.bottleneck_rate=1Gbit/s", "workload.size=20kB")
    assert result.fit and result.summary["flows_done"] == 170
    assert result.manifest["spec"]["lab"]["memory"] == "554MiB"
    assert 100 << 20 < result.manifest["lab_peak_bytes"] < 554 << 20


def test_the_smallest_retransmission_timeout_is_what_the_spec_says(folder):
    """16 CUBIC senders of 64 KiB into 100 kB of buffer: a whole window is lost, and its sender waits for its timer."""
    network = ("topology.preset=dctcp-10g", "topology.hosts=17", "topology.rate=1Gbit/s", "topology.buffer=100kB")
    traffic = (
        "controller.name=cubic",
        "workload.kind=many_to_one",
        "workload.size=64KiB",
        "workload.jitter=20us",
        "metrics.slowdown=off",
    )
    settings = (*network, "topology.host_buffer=4MB", *traffic, "time.duration=3s", "time.warmup=0s")
    for rto_min, low_ns, high_ns in (("200ms", 200_000_000, 500_000_000), ("1ms", 1_000_000, 60_000_000)):
        result = run(folder, rto_min, *settings, f"controller.rto_min={rto_min}")
        assert low_ns < result.records("flows")["fct_ns"].max() < high_ns
        assert result.manifest["spec"]["controller"]["rto_min"] == rto_min


def test_a_matrix_file_is_run_and_kept(folder):
    (folder / "flows.csv").write_text("source,destination,port,start,stop,size\nh1,h3,80,0.1,0,50000\nh2,h3,81,0.2,0.5,inf\n")
    result = run(folder, "out", "workload.kind=matrix", "workload.file=flows.csv")
    assert [str(status) for status in result.column("flows", "status")] == ["done", "stopped"]
    assert (folder / "out" / "matrix.csv").read_text() == (folder / "flows.csv").read_text()
    assert result.manifest["inputs"] == {"matrix.csv": hashlib.sha256((folder / "flows.csv").read_bytes()).hexdigest()}
    starts = result.records("flows")["start_ns"]
    assert starts[0] == pytest.approx(100_000_000, abs=100) and starts[1] == pytest.approx(200_000_000, abs=100)


def test_verify_repeats_a_run_and_names_what_was_changed(folder):
    run(folder)
    child = dcgym("verify", folder / "out", "--quiet")
    assert child.returncode == 0, child.stderr
    assert "equal, digest" in child.stdout
    table = pq.read_table(folder / "out" / "queues.parquet")
    values = table.column("tx_packets").to_numpy().copy()
    values[1234] += 1
    changed = table.set_column(table.schema.get_field_index("tx_packets"), table.schema.field("tx_packets"), pa.array(values))
    pq.write_table(changed, folder / "out" / "queues.parquet")
    child = dcgym("verify", folder / "out", "--quiet")
    assert child.returncode == 2
    assert "they were changed" in child.stderr
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    manifest["digest"] = child.stderr.split("have digest ")[1].split(",")[0]
    (folder / "out" / "manifest.json").write_text(json.dumps(manifest))
    child = dcgym("verify", folder / "out", "--quiet")
    assert child.returncode == 1
    assert re.search(r"first difference: queues, port .*: tx_packets \d+ and \d+ \(record 1234\)", child.stdout)


def test_a_run_with_a_policy_measures_its_ideal(folder):
    """Ideal times are those of lone flows on the network with its token buckets and without agent; steps may exceed the default
    monitor interval."""
    sized = ("workload.size=100kB", "topology.pairs=1", "time.warmup=0s", "controller.name=cubic")
    result = run(folder, "out", *sized, "controller.policy=max", "agent.interval=20ms")
    assert result.manifest["ideal"]["method"] == "measured"
    slowdowns = result.derived("flow_metrics")["slowdown"].to_numpy()
    assert len(slowdowns) == 1 and np.isfinite(slowdowns).all() and slowdowns[0] == pytest.approx(1, abs=0.05)


def test_a_result_with_ideal_times_of_the_closed_form_is_read_back(folder):
    sized = ("workload.size=100kB", "topology.pairs=1", "time.warmup=0s", "time.duration=2s")
    result = load_result(run(folder, "out", *sized, "metrics.slowdown=closed-form").path)
    assert result.manifest["ideal"] == {"method": "closed-form"}
    (slowdown,) = result.derived("flow_metrics")["slowdown"].to_numpy()
    assert 1 < slowdown < 3


BAD = {
    "unknown key": (["--set", "topology.rat=1"], r"topology.rat"),
    "unknown topology": (["--set", "topology.preset=torus"], r"topology.preset .*torus.*dumbbell-10m"),
    "unknown TCP": (["--set", "controller.name=vegass"], r"controller.name .*vegass.*vegas"),
    "negative rate": (["--set", "topology.rate=-1Mbit/s"], r"topology.rate .*-1Mbit/s"),
    "rate without unit": (["--set", "topology.rate=10"], r"topology.rate"),
    "zero duration": (["--set", "time.duration=0s"], r"time.duration"),
    "interval too short": (["--set", "monitor.interval=1us"], r"monitor.interval .*10us"),
    "missing matrix": (["--set", "workload.kind=matrix"], r"workload.file"),
    "bad seed": (["--seed", "-1"], r"seed"),
    "bad override": (["--set", "seed"], r"seed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_2(folder, name):
    words, pattern = BAD[name]
    child = dcgym("run", folder / "spec.toml", "--out", folder / "out", *words)
    assert child.returncode == 2, child.stderr
    assert len(child.stderr.splitlines()) == 1
    assert re.search(pattern, child.stderr), child.stderr
    assert not (folder / "out").exists() and not (folder / "out.partial").exists()


@pytest.mark.parametrize(
    ("row", "pattern"),
    [
        ("h1,h3,70000,0,0,inf", "flows.csv:2: column 'port': .*70000"),
        ("h1,h9,80,0,0,inf", "flows.csv:2: column 'destination': .*h9"),
        ("h1,h3,80,x,0,inf", "flows.csv:2: column 'start': .*x"),
        ("h1,h3,80", "flows.csv:2"),
    ],
)
def test_a_malformed_row_is_named(folder, row, pattern):
    (folder / "flows.csv").write_text(f"source,destination,port,start,stop,size\n{row}\n")
    child = dcgym(
        "run", folder / "spec.toml", "--out", folder / "out", "--set", "workload.kind=matrix", "--set", "workload.file=flows.csv"
    )
    assert child.returncode == 2 and len(child.stderr.splitlines()) == 1
    assert re.search(pattern, child.stderr), child.stderr


def test_an_existing_folder_is_not_overwritten(folder):
    run(folder, "out", "time.duration=600ms")
    before = load_result(folder / "out").digest
    child = dcgym("run", folder / "spec.toml", "--out", folder / "out", "--quiet")
    assert child.returncode == 2 and "--force" in child.stderr and len(child.stderr.splitlines()) == 1
    assert load_result(folder / "out", check_digest=True).digest == before
    assert run(folder, options=["--force"]).digest != before


def test_a_folder_of_somebody_else_is_never_replaced(folder):
    (folder / "out").mkdir()
    (folder / "out" / "thesis.tex").write_text("mine")
    child = dcgym("run", folder / "spec.toml", "--out", folder / "out", "--force", "--quiet")
    assert child.returncode == 2 and (folder / "out" / "thesis.tex").read_text() == "mine"


def test_set_up_that_is_late_for_t0_fails(folder):
    words = ("run", folder / "spec.toml", "--out", folder / "out", "--quiet", "--set", "lab.t0=11s")
    child = dcgym(*words, env={**os.environ, DISTURB: "sleep 12"})
    assert child.returncode == 1 and "--t0: 11000000000 is past" in child.stderr
    assert not (folder / "out").exists() and not (folder / "out.partial").exists()


@pytest.mark.root
def test_a_full_disk_is_one_line_and_leaves_nothing(folder, monkeypatch):
    small = folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k,mode=755", "tmpfs", small]).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        child = dcgym("run", folder / "spec.toml", "--out", small / "out", "--quiet", "--set", "time.duration=30s")
        assert child.returncode == 2 and "the disk has" in child.stderr, "it is refused before it boots"
        assert len(child.stderr.splitlines()) == 1 and list(small.iterdir()) == []
        monkeypatch.setattr(room, "check", lambda *_: None)
        with pytest.raises((UsageError, OSError), match=r"No space left|no room"):
            runner.run(load(folder / "spec.toml", ["time.duration=30s"]), small / "out", Quiet(), plot=False)
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_no_permission_is_one_line(folder):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    locked = folder / "locked"
    locked.mkdir(mode=0o555)
    child = dcgym("run", folder / "spec.toml", "--out", locked / "out", "--quiet")
    assert child.returncode == 2 and len(child.stderr.splitlines()) == 1 and "locked" in child.stderr


def test_a_plan_that_cannot_be_written_ends_the_lab_that_has_booted(folder, monkeypatch):
    alive = processes.descendants(os.getpid())
    process_counts = []

    def write_plan(*_):
        process_counts.append(len(processes.descendants(os.getpid())) - len(alive))
        raise UsageError("no such policy")

    monkeypatch.setattr(writer, "write_plan", write_plan)
    with pytest.raises(UsageError, match="no such policy"):
        runner.run(load(folder / "spec.toml"), folder / "out", Quiet())
    assert process_counts[0] > 0, "the lab was there"
    assert sorted(path.name for path in folder.iterdir()) == ["spec.toml"]
    assert len([process for process in processes.descendants(os.getpid()) if process.alive()]) <= len(alive)


def test_a_failure_after_the_traffic_keeps_its_tables(folder, monkeypatch):
    monkeypatch.setattr(analysis, "analyse", lambda *_: {}["no such metric"])
    with pytest.raises(TestbedError, match=r"KeyError: 'no such metric'; what was recorded is kept in .*out\.failed"):
        runner.run(load(folder / "spec.toml"), folder / "out", Quiet(), plot=False)
    assert sorted(path.name for path in folder.iterdir()) == ["out.failed", "spec.toml"]
    assert all((folder / "out.failed" / name).is_file() for name in ("queues.parquet", "flows.parquet", "tcp.parquet", "lab.log"))


def test_a_failed_plot_costs_no_result(folder, monkeypatch, capsys):
    monkeypatch.setattr(timeline, "plot_result", lambda *_: {}["no such panel"])
    result = runner.run(load(folder / "spec.toml", ["name=$\\x$"]), folder / "out", Quiet())
    result.check_digest()
    assert "no such panel" in (stderr := capsys.readouterr().err) and len(stderr.splitlines()) == 1
    assert f"draw it by `dcgym plot {folder / 'out'}`" in stderr
    monkeypatch.undo()
    assert dcgym("plot", folder / "out").returncode == 0 and (folder / "out" / "plot.png").is_file()


def to_the_group(process):
    """Interrupts the whole foreground group, as a terminal does."""
    os.killpg(process.pid, signal.SIGINT)


def to_the_command(process):
    """Terminates the command alone, as timeout(1) and batch systems do, and repeats the signal until the command ends."""
    while process.poll() is None:
        process.terminate()
        time.sleep(0.01)


def to_the_session(process):
    """Hangs up, as a terminal does that is closed."""
    os.killpg(process.pid, signal.SIGHUP)


@pytest.mark.parametrize(
    ("end", "code", "word"),
    [(to_the_group, 130, "interrupted"), (to_the_command, 143, "terminated"), (to_the_session, 129, "hung up")],
)
def test_a_run_that_is_told_to_end_leaves_nothing(folder, end, code, word):
    argv = [
        sys.executable,
        "-m",
        "dc_gym.cli.main",
        "run",
        str(folder / "spec.toml"),
        "--out",
        str(folder / "out"),
        "--set",
        "time.duration=3600s",
    ]
    ready = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)}  # the tests may run under nohup
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True, **ready)
    for line in process.stderr:
        if "traffic" in line:
            break
    family = processes.descendants(process.pid)
    end(process)
    rest = process.stderr.read()
    assert process.wait(timeout=60) == code
    assert rest.splitlines()[-1] == f"dcgym: {word}" and "Traceback" not in rest
    deadline = time.monotonic() + 20
    while any(member.alive() for member in family):
        assert time.monotonic() < deadline, "a process outlived the command"
        time.sleep(0.05)
    assert sorted(path.name for path in folder.iterdir()) == ["spec.toml"]


def test_kill_9_of_any_process_leaves_nothing(folder):
    draw = random.Random(7)
    spec = folder / "clean.toml"
    spec.write_text(killed_runs.SPEC)
    length_s = killed_runs.length_of(spec, folder / "whole")
    for number in range(10):
        victim, left = killed_runs.kill_once(spec, folder / f"killed{number}", draw, length_s)
        assert not left, f"kill -9 of {victim}: {left}"


def test_a_killed_run_with_force_gives_the_older_result_back(folder):
    before = run(folder, "out", "time.duration=600ms").digest
    argv = [
        sys.executable,
        "-m",
        "dc_gym.cli.main",
        "run",
        str(folder / "spec.toml"),
        "--out",
        str(folder / "out"),
        "--force",
        "--set",
        "time.duration=3600s",
    ]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for line in process.stderr:
        if "traffic" in line:
            break
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while sorted(path.name for path in folder.iterdir()) != ["out", "spec.toml"]:
        assert time.monotonic() < deadline, list(folder.iterdir())
        time.sleep(0.05)
    assert load_result(folder / "out", check_digest=True).digest == before


def test_doctor_finds_this_machine_good(lab_kernel, tmp_path):
    if "DCGYM_TEST_KERNEL" in os.environ:
        pytest.skip("doctor looks at the cache, not at DCGYM_TEST_KERNEL")
    tmp_path.chmod(0o755)
    child = dcgym("doctor", cwd=tmp_path)
    assert child.returncode == 0, child.stdout + child.stderr
    assert "slept a virtual second" in child.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["below/../out", "link/out"])
def test_a_result_lies_where_its_folder_leads(way, folder):
    (folder / "below").mkdir()
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    done = dcgym("run", folder / "spec.toml", "--out", folder / way, "--quiet", "--no-plot", cwd=folder / "below")
    assert done.returncode == 0, done.stderr
    out = folder.resolve() / ("out" if "below" in way else "real/out")
    assert (out / "summary.json").is_file() and done.stdout.splitlines()[-1].split()[1] == str(out)


def test_clean_removes_unfinished_results_only(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "half.partial").mkdir()
    child = dcgym("clean", tmp_path)
    assert child.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_wrong_bench_name_lists_them():
    child = dcgym("bench", "nothing")
    assert child.returncode == 2 and len(child.stderr.splitlines()) == 1
    for name in ("enforce", "links", "ns3", "speed", "sweep"):
        assert name in child.stderr


@pytest.mark.parametrize(("controller", "columns"), [("dctcp", "srtt"), ("dcqcn", "CNPs")])
def test_watch_attaches_to_a_run_that_is_under_way(folder, controller, columns):
    out = folder / ("a folder whose name is longer than a socket's path may be".replace(" ", "-") * 2)
    argv = [
        sys.executable,
        "-m",
        "dc_gym.cli.main",
        "run",
        str(folder / "spec.toml"),
        "--out",
        str(out),
        "--set",
        "time.duration=3600s",
        "--set",
        f"controller.name={controller}",
    ]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        for line in process.stderr:
            if "of 3.6e+03 s" in line or "traffic" in line:
                break
        deadline = time.monotonic() + 60  # of the wait for marks, not of what is asked
        child = dcgym("watch", out, "--once")
        while columns not in child.stdout and time.monotonic() < deadline:
            child = dcgym("watch", out, "--once")
        assert child.returncode == 0, child.stderr
        assert "s1-eth3" in child.stdout and " backlog " in child.stdout
        rows = [line for line in child.stdout.splitlines() if line.startswith(" flow ")]
        assert columns in child.stdout and len(rows) == 2 and all("bit/s" in row for row in rows)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    child = dcgym("watch", out, "--once")
    assert child.returncode == 2 and "no run is under way" in child.stderr
