"""A lab's programs are kept inside: by the lab kernel, and by the machine's kernel if they have taken over the lab kernel."""

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from exec_spec import spec_text
from launched import CODE, launched

from dc_gym.base.errors import UsageError
from dc_gym.base.taken import take_over
from dc_gym.cli import doctor
from dc_gym.kernel.confinement import SIGNALS_ABI, landlock_abi
from dc_gym.kernel.lab import Lab
from scripts.profile_kernel import UNCONFINED

needs_landlock = pytest.mark.skipif(landlock_abi() == 0, reason="this machine's kernel has no Landlock")


@pytest.fixture
def outside():
    """A folder that everybody may write to, root's labs included. Theirs cannot see pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="dcgym-test-", dir="/tmp"))
    (folder / "file").write_text("mine")
    for path in (folder, folder / "file"):
        path.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


# -- By the lab kernel ------------------------------------------------------------------------------------------------------

ESCAPES = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
RDONLY, REMOUNT, BIND = 1, 32, 4096

def mount(source, where, kind, flags, data):
    os.makedirs(where, exist_ok=True)
    done = libc.mount(source.encode(), where.encode(), kind.encode(), flags, data and data.encode())
    return errno.errorcode[ctypes.get_errno()] if done else "done"

def write(path):
    try:
        with open(path, "w") as file:
            file.write("theirs")
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"

outside = sys.argv[1]
"""


@pytest.mark.lab
def test_no_mount_of_a_program_reaches_the_host(in_lab, outside):
    """Neither a remount of the root, writable, nor a second mount of it, nor the one below, by a descriptor."""
    program = (
        ESCAPES
        + """
print(mount("none", "/", "", REMOUNT, None), mount("/", "/run/root", "", BIND, None), write("/run/root" + outside + "/file"))
print(mount("none", "/run/second", "hostfs", 0, "/"), write("/run/second" + outside + "/file"))
print(mount("none", "/run/third", "hostfs", RDONLY, outside))
print(mount("none", "/run/root", "", REMOUNT | BIND, None), write("/run/root" + outside + "/new"))
"""
    )
    ran = in_lab([sys.executable, "-c", program, str(outside)])
    assert ran.lines == ["EPERM done EROFS", "EPERM ENOENT", "EPERM", "done EROFS"]
    assert (outside / "file").read_text() == "mine"
    assert [path.name for path in outside.iterdir()] == ["file"]


@pytest.mark.lab
def test_the_seal_stays(in_lab, outside):
    program = (
        ESCAPES
        + """
seal = "/sys/module/hostfs/parameters/sealed"
print(open(seal).read().strip())
try:
    with open(seal, "w") as file: file.write("0")
except OSError as error: print(errno.errorcode[error.errno])
print(open(seal).read().strip(), mount("none", "/run/second", "hostfs", 0, "/"))
"""
    )
    assert in_lab([sys.executable, "-c", program, str(outside)]).lines == ["Y", "EROFS", "Y EPERM"]


@pytest.mark.lab
def test_below_the_labs_own_proc_there_is_no_process_of_the_host(in_lab, outside):
    program = (
        ESCAPES
        + """
for place in ("/proc", "/sys", "/dev/pts", "/dev/shm", "/dev"):
    print(libc.umount2(place.encode(), 2), end=" ")
print()
print(os.path.exists(f"/proc/{sys.argv[2]}"), os.path.exists("/proc/self/environ"), os.path.exists("/dev/null"))
"""
    )
    assert in_lab([sys.executable, "-c", program, str(outside), str(os.getpid())]).lines == ["0 0 0 0 0 ", "False False False"]


@pytest.mark.lab
def test_a_lab_has_no_device_of_its_kernels_memory_and_no_network_of_the_host(in_lab):
    program = """
import json
import os
print([name for name in ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore", "/proc/mconsole") if os.path.exists(name)])
print(sorted(set(os.listdir("/sys/class/net")) - {"dummy0"}))
"""
    assert in_lab(program).lines == ["[]", "['lo']"]


@pytest.mark.lab
def test_processes_of_the_host_cannot_be_named(in_lab):
    """A lab's process numbers are its own."""
    program = """
import ctypes, os, sys
for pid in map(int, sys.argv[1:]):
    try: os.kill(pid, 9)
    except ProcessLookupError: print("none")
    print(ctypes.CDLL(None).ptrace(16, pid, 0, 0))
"""
    assert in_lab([sys.executable, "-c", program, str(os.getpid() + 100_000)]).lines == ["none", "-1"]


@pytest.mark.lab
def test_what_a_lab_may_write_to_is_said(lab_config, tmp_path):
    """The rest of the run's folder it only reads."""
    run = tmp_path / "run"
    (run / "out").mkdir(parents=True)
    (run / "given").write_text("given")
    script = f"cat {run}/given; touch {run}/new {run}/.lab/new; echo x > {run}/given; echo yes > {run}/out/inside"
    lines: list[str] = []
    with Lab(lab_config(["/bin/sh", "-c", script], writable=[run / "out"]), lines.append) as lab:
        lab.wait()
    assert (run / "out" / "inside").read_text() == "yes\n"
    assert (run / "given").read_text() == "given" and not (run / "new").exists() and not (run / ".lab" / "new").exists()


# -- By the machine's kernel ------------------------------------------------------------------------------------------------

TRY = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *words):
    ctypes.set_errno(0)
    return "done" if libc.syscall(number, *words) >= 0 else errno.errorcode[ctypes.get_errno()]
"""


@pytest.fixture
def given(outside):
    """A folder that the lab's user has, beside others."""
    folder = outside / "given"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def tried(body, folder, *words):
    return launched([sys.executable, "-c", TRY + CODE + body, str(folder), *words], folder).splitlines()


@needs_landlock
def test_outside_its_folders_a_lab_writes_nothing(outside, given):
    """As if a program had taken over the lab kernel: all that lab-launch has started."""
    body = """
given = sys.argv[1]
outside = os.path.dirname(given)
print(code(lambda: open(outside + "/file", "w")), code(lambda: open(outside + "/new", "w")))
print(code(lambda: os.unlink(outside + "/file")), code(lambda: os.mkdir(outside + "/new")))
print(code(lambda: open(given + "/own", "w").write("own")), code(lambda: os.rename(given + "/own", outside + "/own")))
os.symlink(outside + "/file", given + "/link")
print(code(lambda: open(given + "/link", "w")), code(lambda: os.link(outside + "/file", given + "/hard")))
print(open(outside + "/file").read(), len(os.listdir("/etc")) > 0)
"""
    lines = tried(body, given)
    refused = ("EACCES", "EXDEV")
    assert all(word in refused for line in lines[:2] for word in line.split())
    assert lines[2].split()[0] == "done" and lines[2].split()[1] in refused
    assert all(word in refused for word in lines[3].split()) and lines[4] == "mine True"
    assert (outside / "file").read_text() == "mine" and (given / "own").read_text() == "own"


def test_a_lab_has_none_of_the_machines_large_interfaces(given):
    """No socket, no process but its own, no namespaces; x86_64 numbers."""
    body = """
print(code(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)), code(lambda: socket.socket(socket.AF_UNIX)))
calls = {"ptrace": 101, "process_vm_readv": 310, "unshare": 272, "setns": 308, "bpf": 321, "perf": 298, "uring": 425, "keys": 248}
print({name: call(number, 16, 0x3fffffff, 0, 0, 0) for name, number in calls.items()})
pid = libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)  # clone, in a user namespace of its own
if pid == 0:
    os._exit(0)
print(errno.errorcode[ctypes.get_errno()] if pid < 0 else "done", call(435, 0, 0), call(0x40000000 + 41, 2, 2, 0))
print(code(lambda: socket.socketpair()), code(lambda: os._exit(0) if os.fork() == 0 else os.wait()))
"""
    lines = tried(body, given)
    assert lines[0] == "EPERM EPERM"
    assert set(eval(lines[1]).values()) == {"EPERM"}
    assert lines[2] == "EPERM ENOSYS ENOSYS"
    assert lines[3] == "done done"


@pytest.mark.skipif(landlock_abi() < SIGNALS_ABI, reason="this machine's Landlock does not keep signals in")
def test_a_lab_reaches_no_process_of_its_user(given):
    """Another one of the same user, with a secret in its environment."""
    user = {"user": 65534} if os.geteuid() == 0 else {}
    other = subprocess.Popen(["sleep", "60"], env={"SECRET": "mine"}, **user)
    try:
        body = """
pid = int(sys.argv[2])
print(code(lambda: os.kill(pid, 9)), code(lambda: open(f"/proc/{pid}/environ").read()))
print(code(lambda: open(f"/proc/{pid}/mem", "r+b")))
"""
        assert set(" ".join(tried(body, given, str(other.pid))).split()) <= {"EPERM", "EACCES"}
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.root
def test_a_lab_of_roots_has_no_right_of_roots(given):
    """In a container root may lack rights itself."""
    for within in ((), ("setpriv", "--bounding-set", "-dac_read_search,-setpcap")):
        status_text = launched(["/bin/cat", "/proc/self/status"], given, within)
        status = dict(line.split(":", 1) for line in status_text.splitlines())
        assert status["Uid"].split() == status["Gid"].split() == ["65534"] * 4
        assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {0}
        assert status["NoNewPrivs"].strip() == "1"


# -- Labs of root's ---------------------------------------------------------------------------------------------------------


@pytest.mark.root
@pytest.mark.lab
def test_what_only_root_may_read_no_lab_reads(in_lab, outside):
    (outside / "secret").write_text("root's")
    (outside / "secret").chmod(0o600)
    ran = in_lab(["/bin/sh", "-c", f"cat {outside}/file {outside}/secret /etc/shadow"])
    assert "mine" in ran.text and "root" not in ran.text


@pytest.mark.root
@pytest.mark.lab
def test_roots_folders_in_a_closed_one_are_there_and_nothing_else_of_it(lab_config, outside):
    """A run, and a folder with a program, below a folder such as /root."""
    closed = outside / "closed"
    run, tools = closed / "deep" / "run", closed / "tools"
    for folder in (run / "out", tools):
        folder.mkdir(parents=True)
    (tools / "hello").write_text("#!/bin/sh\necho hello\n")
    (tools / "hello").chmod(0o755)
    (closed / "secret").write_text("root's")
    closed.chmod(0o700)
    lines: list[str] = []
    script = f"{tools}/hello; ls {closed} {closed}/deep; echo yes > {run}/out/inside"
    with Lab(lab_config(["/bin/sh", "-c", script], run_dir=run, writable=[run / "out"], reads=[tools]), lines.append) as lab:
        assert lab.wait().status == 0, lines
    assert (run / "out" / "inside").read_text() == "yes\n"
    assert lines == ["hello", f"{closed}:", "deep", "tools", "", f"{closed}/deep:", "run"]


@pytest.mark.root
def test_a_folder_that_the_labs_user_cannot_read_is_told_with_a_remedy(lab_config, outside):
    (outside / "tools").mkdir(mode=0o700)
    message = rf"{outside}/tools is closed to user 65534, as whom root's labs run: chmod -R a\+rX {outside}/tools"
    with pytest.raises(UsageError, match=message), Lab(lab_config(["/bin/true"], reads=[outside / "tools"])):
        pass


# -- What a run takes from its programs -------------------------------------------------------------------------------------

HOSTILE = """#!/bin/sh
ln -s {victim} planted; ln -s / root; mkfifo pipe; mkdir sub; ln -s {victim} sub/link; echo fine > sub/kept
ln -sf {victim} ../summary.json; ln -sf {victim} ../.lab/out/flows.parquet
echo theirs > ../lab.log; chmod 7777 sub/kept
cat {secret}
"""
SPEC = spec_text('[[workload.exec]]\nhost = "h1"\ncommand = "./hostile.sh"', duration="10ms")


@pytest.mark.lab
def test_a_result_has_nothing_that_leads_elsewhere(outside):
    """Links that a program plants where the runner will write, and among its own files."""
    victim, secret = outside / "victim", outside / "secret"
    for path in (victim, secret):
        path.write_text("mine")
        path.chmod(0o600)
    program = outside / "hostile.sh"
    program.write_text(HOSTILE.format(victim=victim, secret=secret if os.geteuid() == 0 else "/no/such/file"))
    program.chmod(0o755)
    (outside / "spec.toml").write_text(SPEC)
    out = outside / "out"
    argv = [sys.executable, "-m", "dc_gym.cli.main", "run", str(outside / "spec.toml"), "--out", str(out), "--no-plot"]
    child = subprocess.run(argv, capture_output=True, text=True)
    assert "hostile.sh in h1 failed" in child.stderr and victim.read_text() == "mine"
    assert "of what programs left is no plain file or folder and was removed" in child.stderr
    files = [path for path in out.rglob("*") if not path.is_dir()]
    assert all(path.is_file() and not path.is_symlink() and path.stat().st_uid == os.geteuid() for path in files)
    assert (out / "exec/sub/kept").read_text() == "fine\n" and (out / "exec/sub/kept").stat().st_mode & 0o7000 == 0
    assert "mine" not in "".join(path.read_text() for path in (out / "exec").rglob("*") if path.is_file())
    assert (out / "summary.json").read_text().startswith("{")


def test_what_a_ground_left_is_taken_over(tmp_path):
    left = tmp_path / "left"
    (left / "deep").mkdir(parents=True)
    (tmp_path / "victim").write_text("mine")
    (left / "kept").write_text("kept")
    (left / "deep" / "link").symlink_to(tmp_path / "victim")
    (left / "away").symlink_to("/etc")
    os.link(tmp_path / "victim", left / "second")
    os.mkfifo(left / "deep" / "pipe")
    assert take_over(left) == ["away", "second", "deep/link", "deep/pipe"]
    assert sorted(path.relative_to(left).as_posix() for path in left.rglob("*")) == ["deep", "kept"]
    assert (tmp_path / "victim").read_text() == "mine"


def test_what_cannot_be_taken_over_is_named(tmp_path, monkeypatch):
    (tmp_path / "left" / "deep").mkdir(parents=True)

    def refuse(fd):
        raise OSError(errno.EIO, "Input/output error", fd)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(OSError, match="Input/output error") as excinfo:
        take_over(tmp_path / "left")
    assert excinfo.value.filename == str(tmp_path / "left")


@pytest.mark.lab
def test_a_program_that_asks_for_a_step_is_one_line(outside):
    """Only an agent may, and this run has none."""
    program = outside / "hostile.sh"
    ask = "import fcntl; fcntl.ioctl(open('/dev/lab', 'wb'), 0x40084C01, bytes(8))"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{ask}"\n')
    program.chmod(0o755)
    (outside / "spec.toml").write_text(SPEC)
    argv = [sys.executable, "-m", "dc_gym.cli.main", "run", str(outside / "spec.toml"), "--out", str(outside / "out")]
    child = subprocess.run(argv, capture_output=True, text=True)
    assert child.returncode == 1 and "Traceback" not in child.stderr
    assert child.stderr.splitlines()[-1].startswith("dcgym: a program in the lab asked the host for a step of an agent")
    assert not (outside / "out").exists()


# -- A machine without Landlock ---------------------------------------------------------------------------------------------


@pytest.mark.lab
def test_without_landlock_a_lab_runs_and_the_manifest_says_so(outside):
    program = outside / "hostile.sh"
    program.write_text(f"#!/bin/sh\nmount -o remount,rw / && echo theirs > {outside}/file\n")
    program.chmod(0o755)
    (outside / "spec.toml").write_text(SPEC)
    argv = ["run", str(outside / "spec.toml"), "--out", str(outside / "out"), "--no-plot"]
    child = subprocess.run([sys.executable, "-c", UNCONFINED, *argv], capture_output=True, text=True)
    assert "hostile.sh in h1 failed" in child.stderr, child.stderr
    manifest = json.loads((outside / "out" / "manifest.json").read_text())
    assert manifest["lab_landlock_abi"] == 0 and manifest["fit"]
    assert "landlock" not in str(manifest["environment"]), "it does not change results"
    assert (outside / "file").read_text() == "mine"


@pytest.mark.parametrize(("abi", "good", "words"), [(0, False, "no Landlock"), (3, True, "may signal"), (7, True, "Landlock 7")])
def test_the_doctor_says_what_confines_a_lab(abi, good, words, monkeypatch):
    monkeypatch.setattr(doctor, "landlock_abi", lambda: abi)
    (check,) = doctor._confinement()
    assert check.good == good and words in check.words and bool(check.remedy) != good
