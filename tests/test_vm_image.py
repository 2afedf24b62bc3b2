# SPDX-License-Identifier: Apache-2.0
"""The machine image: its parts, and the image of dist/vm booted under qemu, where a student runs the first lab to its picture.

`make vm-image` makes the image; DCGYM_VM_IMAGE names another folder with one. The CPU is emulated, so the boot takes minutes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
import vm_console

from dc_gym.base.errors import TestbedError, UsageError
from scripts import vm_disk, vm_image, vm_ovf, vm_root

ROOT = Path(__file__).resolve().parent.parent
IMAGES = Path(os.environ.get("DCGYM_VM_IMAGE", ROOT / "dist" / "vm"))
OVF = {
    "ovf": "http://schemas.dmtf.org/ovf/envelope/1",
    "rasd": "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData",
}
MACHINE = vm_ovf.Machine("dc-gym-9.9", "9.9", cpus=3, memory_bytes=5 << 30, disk_bytes=7 << 30)
EPOCH = 1_700_000_000


def attribute(element: ElementTree.Element | None, name: str) -> str:
    assert element is not None
    return element.attrib[f"{{{OVF['ovf']}}}{name}"]


def test_the_description_has_the_machine_and_refers_to_its_disk() -> None:
    tree = ElementTree.fromstring(vm_ovf.description(MACHINE, "a & b.vmdk", 4711).encode())
    file, disk = tree.find("ovf:References/ovf:File", OVF), tree.find("ovf:DiskSection/ovf:Disk", OVF)
    assert (attribute(file, "href"), attribute(file, "size")) == ("a & b.vmdk", "4711")
    assert attribute(disk, "fileRef") == attribute(file, "id") and attribute(disk, "capacity") == str(7 << 30)
    pieces = {}
    for item in tree.iterfind(".//ovf:Item", OVF):
        names = [element.tag.partition("}")[2] for element in item]
        assert names == sorted(names), "the standard's order"
        values = {name: element.text for name, element in zip(names, item, strict=True)}
        pieces[int(values["ResourceType"] or "")] = values
    assert pieces[vm_ovf.PROCESSOR]["VirtualQuantity"] == "3"
    assert pieces[vm_ovf.MEMORY]["VirtualQuantity"] == "5120" and pieces[vm_ovf.MEMORY]["AllocationUnits"] == "byte * 2^20"
    assert pieces[vm_ovf.DISK]["Parent"] == pieces[vm_ovf.SATA]["InstanceID"]
    assert pieces[vm_ovf.DISK]["HostResource"] == f"ovf:/disk/{attribute(disk, 'diskId')}"
    network = tree.find("ovf:NetworkSection/ovf:Network", OVF)
    assert pieces[vm_ovf.ETHERNET]["Connection"] == attribute(network, "name")


def test_the_appliance_begins_with_its_description_and_has_everybodys_checksum(tmp_path: Path) -> None:
    disk = tmp_path / "dc-gym-9.9-disk1.vmdk"
    disk.write_bytes(os.urandom(100_000))
    vm_ovf.write(tmp_path / "a.ova", MACHINE, disk, EPOCH)
    vm_ovf.write(tmp_path / "b.ova", MACHINE, disk, EPOCH)
    assert (tmp_path / "a.ova").read_bytes() == (tmp_path / "b.ova").read_bytes()
    with tarfile.open(tmp_path / "a.ova") as archive:
        contents = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    assert list(contents) == ["dc-gym-9.9.ovf", "dc-gym-9.9.mf", disk.name]
    sums = dict(line.removeprefix("SHA256(").split(")= ") for line in contents.pop("dc-gym-9.9.mf").decode().splitlines())
    assert sums == {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def test_the_boot_sectors_have_one_partition_that_fills_the_disk() -> None:
    boot, core = bytes(range(256)) * 2, b"core" * 999
    sectors = vm_disk.boot_sectors(boot, core, 4 << 30)
    assert sectors[:440] == boot[:440] and sectors[510:512] == b"\x55\xaa" and sectors[512:] == core
    active, kind, first, count = struct.unpack("<B3xB3xII", sectors[446:462])
    assert (active, kind, first, first + count) == (0x80, 0x83, 2048, (4 << 30) // 512)
    assert sectors[462:510] == bytes(48), "no other partition"
    with pytest.raises(TestbedError, match="room for 1048064"):
        vm_disk.boot_sectors(boot, bytes(2047 * 512 + 1), 4 << 30)


@pytest.mark.skipif(shutil.which("sfdisk", path="/sbin:/usr/sbin") is None, reason="no sfdisk")
def test_sfdisk_reads_the_table(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.write(vm_disk.boot_sectors(bytes(512), b"", 64 << 20))
        file.truncate(64 << 20)
    child = subprocess.run(["/usr/sbin/sfdisk", "--json", disk], capture_output=True, text=True, check=True)
    table = json.loads(child.stdout)["partitiontable"]
    (partition,) = table["partitions"]
    assert table["label"] == "dos" and partition["bootable"] and partition["type"] == "83"
    assert (partition["start"], partition["size"]) == (2048, (64 << 20) // 512 - 2048)


@pytest.mark.skipif(shutil.which("mke2fs", path="/sbin:/usr/sbin") is None, reason="no mke2fs")
def test_mke2fs_fills_the_partition_with_a_folder(tmp_path: Path) -> None:
    root, disk = tmp_path / "root", tmp_path / "disk"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "hostname").write_text("dcgym\n")
    with disk.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["/usr/sbin/mke2fs", *vm_disk.mke2fs_options(root, disk, 64 << 20)], check=True)
    content = disk.read_bytes()
    assert len(content) == 64 << 20 and not any(content[: 1 << 20])
    (tmp_path / "partition").write_bytes(content[1 << 20 :])
    subprocess.run(["/usr/sbin/e2fsck", "-fn", tmp_path / "partition"], check=True, capture_output=True)
    argv = ["/usr/sbin/debugfs", "-R", "cat /etc/hostname", tmp_path / "partition"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "dcgym\n"


def test_what_is_copied_into_the_image_names_nothing_of_the_building_machine() -> None:
    names = {name: (content, mode, owner) for name, content, mode, owner in (*vm_root._own_files(), *vm_root._home())}
    assert names["etc/sudoers.d/dcgym"][1] == 0o440 and names["etc/update-motd.d/10-dcgym"][1] == 0o755
    assert names["home/student/examples/labs/bufferbloat.toml"][2] == vm_root.STUDENT_ID
    assert "home/student/docs/labs/bufferbloat.md" in names and not any("__pycache__" in name for name in names)
    hosts = {line.split()[1] for line in names["etc/apt/sources.list"][0].decode().splitlines() if line.startswith("deb ")}
    assert hosts == {"http://deb.debian.org/debian", "http://deb.debian.org/debian-security"}
    lock = (vm_root.PARTS / "requirements.lock").read_text()
    assert "http" not in lock.replace("httpcore", "").replace("httpx", ""), "it names packages and hashes alone"


def test_the_boot_loader_and_the_mounts_find_the_file_system_by_its_label() -> None:
    files = {name: content.decode() for name, content, _, _ in vm_root._own_files()}
    assert f"LABEL={vm_disk.LABEL} / ext4" in files["etc/fstab"]
    grub = files["boot/grub/grub.cfg"]
    assert f"search --no-floppy --label {vm_disk.LABEL}" in grub and f"root=LABEL={vm_disk.LABEL}" in grub
    assert "console=ttyS0" in grub
    used = {line.split()[0] for line in grub.splitlines() if line.startswith("\t")}
    assert used == {"search", "linux", "initrd"} and {"search", "linux", "normal", "ext2"} <= set(vm_disk.GRUB_MODULES)


def test_the_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    files = [tmp_path / "one.qcow2", tmp_path / "two.ova"]
    for path in files:
        path.write_bytes(os.urandom(1000))
    (tmp_path / vm_image.SUMS).write_text(vm_image.checksums(files))
    check = ["sha256sum", "--check", "--strict", "--quiet", vm_image.SUMS]
    assert subprocess.run(check, cwd=tmp_path).returncode == 0
    files[1].write_bytes(b"other")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--size", "1GiB", "out"], "--size 1GiB: a disk has 4GiB to 1024GiB"),
        (["--size", "big", "out"], "--size"),
        (["--wheel", "none.whl", "out"], "--wheel none.whl: not a wheel of dc-gym"),
        (["--wheel", "WHEEL", "FILE"], "is not a folder: give another DIR"),
        (["--wheel", "WHEEL", "out"], "SOURCE_DATE_EPOCH=yesterday: it must be a number of seconds since 1970"),
    ],
)
def test_a_wrong_argument_is_one_line(
    argv: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vm_image, "NEEDED", {})
    monkeypatch.setattr(vm_disk, "GRUB", tmp_path)
    monkeypatch.setattr(vm_image, "WORK_BYTES", 0)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    wheel, file = tmp_path / "dc_gym-0-manylinux_x.whl", tmp_path / "file"
    wheel.touch()
    file.touch()
    replaced = {"WHEEL": str(wheel), "FILE": str(file)}
    assert vm_image.main([replaced.get(word, word) for word in argv]) == 2
    stderr = capsys.readouterr().err
    assert stderr.startswith("vm_image: ") and words in stderr and stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_what_the_machine_lacks_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_image, "NEEDED", {"no-such-program": "its-package", "sh": "dash"})
    monkeypatch.setattr(vm_disk, "GRUB", tmp_path / "none")
    with pytest.raises(UsageError, match=r"apt-get install --no-install-recommends its-package grub-pc-bin$"):
        vm_image.check_machine(tmp_path)
    monkeypatch.setattr(vm_image, "NEEDED", {})
    monkeypatch.setattr(vm_disk, "GRUB", tmp_path)
    monkeypatch.setattr(vm_image, "WORK_BYTES", 1 << 60)
    with pytest.raises(UsageError, match="GB free, and a build needs"):
        vm_image.check_machine(tmp_path / "not" / "yet")


def test_a_build_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, wheel = tmp_path / "out", tmp_path / "dc_gym-0-manylinux_x.whl"
    out.mkdir()
    wheel.touch()
    older = out / f"{vm_image.NAME}.qcow2"
    older.write_text("older")

    def fail(*arguments: object) -> None:
        assert any(path.is_dir() for path in out.iterdir()), "it works inside DIR"
        raise TestbedError("mmdebstrap failed")

    monkeypatch.setattr(vm_root, "write", fail)
    with pytest.raises(TestbedError):
        vm_image.build(wheel, out, 8 << 30)
    assert [path.name for path in out.iterdir()] == [older.name] and older.read_text() == "older"


def test_the_page_boots_the_image_with_both_ports_on_this_machine_alone() -> None:
    text = " ".join(vm_console.page_command())
    assert "hostfwd=tcp:127.0.0.1:2222-:22," in text and "hostfwd=tcp:127.0.0.1:8888-:8888" in text
    assert f"{vm_image.NAME}.qcow2" in text


# The image itself, booted.

LAB = ("dcgym sweep examples/labs/bufferbloat.toml --out results/bufferbloat", "dcgym plot results/bufferbloat ")
"""The beginnings of the commands of docs/labs/bufferbloat.md."""
SHORT = " --set time.duration=1s --set time.warmup=100ms --controllers cubic"
CUT = """sed -i '/topology.buffer/s/=.*/= ["12kB", "100kB"]/' examples/labs/bufferbloat.toml"""
"""Leaves two of the lab's eight buffers: an emulated run takes minutes."""
RUN = "dcgym run examples/dumbbell.toml --set time.duration=1s --set time.warmup=100ms --no-plot --quiet --out "


def image(suffix: str) -> Path:
    if shutil.which(vm_console.QEMU) is None:
        pytest.skip(f"no {vm_console.QEMU}: apt-get install --no-install-recommends qemu-system-x86")
    path = IMAGES / f"{vm_image.NAME}.{suffix}"
    if not path.is_file():
        pytest.skip(f"no {path}: make vm-image")
    return path


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["qcow2", "ova"])
def test_the_published_checksums_are_right(suffix: str) -> None:
    file = image(suffix)
    sums = dict(reversed(line.split()) for line in (IMAGES / vm_image.SUMS).read_text().splitlines())
    with file.open("rb") as stream:
        assert sums[file.name] == hashlib.file_digest(stream, "sha256").hexdigest()


class Student(vm_console.Vm):
    """The machine with its forwarded ports."""

    def __init__(self, argv: list[str], log: Path, ssh_port: int, notebook_port: int) -> None:
        super().__init__(argv, log)
        self.ssh_port = ssh_port
        self.notebook = f"http://127.0.0.1:{notebook_port}"
        self.secret = ""

    def boot(self) -> str:
        console = super().boot()
        match = re.search(r"http://localhost:8888/lab\?token=(\w+)", console)
        assert match is not None, console
        self.secret = match[1]
        return console

    def serve(self, port: int = 8888) -> None:
        """Waits for the notebook server, or for another one, which starts after the console."""
        status, output = self.run(f"until ss -ltn | grep -q ':{port} '; do sleep 1; done", 1500)
        assert status == 0, output

    def file(self, name: str) -> bytes:
        """Returns a file of the student's home, by the notebook server."""
        self.serve()
        with urllib.request.urlopen(f"{self.notebook}/files/{name}?token={self.secret}", timeout=300) as answer:
            return bytes(answer.read())


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Student]:
    disk, ports = image("qcow2"), (vm_console.free_port(), vm_console.free_port())
    log = tmp_path_factory.mktemp("vm") / "console.log"
    with Student(vm_console.command(disk, *ports), log, *ports) as machine:
        console = machine.boot()
        assert "dcgym doctor" in console and f"password {machine.secret}" in console, "the message says what to type first"
        yield machine
        assert machine.power_off() == 0


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_doctor_finds_all_that_a_run_needs(student: Student) -> None:
    status, output = student.run("dcgym doctor")
    assert status == 0 and "FAILS" not in output, output


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_student_is_no_root_and_nothing_of_the_building_machine_is_there(student: Student) -> None:
    assert student.run("id -un")[1].split() == ["student"]
    status, output = student.run(f"sudo -S passwd -S root <{vm_console.SECRET}")
    assert status == 0 and " L " in output.splitlines()[-1], output
    status, output = student.run(
        "cat /etc/apt/sources.list.d/* /etc/pip.conf /etc/xdg/pip/pip.conf 2>/dev/null; grep -ri proxy /etc/apt"
    )
    assert not output.strip(), output
    status, output = student.run("ls -A /usr/local/share/ca-certificates; env | grep -i -e proxy -e pip_ -e cert; ls -A /opt")
    assert output.split() == ["dcgym"], output


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_first_lab_runs_to_its_picture(student: Student, tmp_path: Path) -> None:
    from matplotlib import image as pictures

    page = (ROOT / "docs" / "labs" / "bufferbloat.md").read_text()
    sweep, plot = (next(line for line in page.splitlines() if line.startswith(begin)) for begin in LAB)
    assert student.run(CUT)[0] == 0
    status, output = student.run(sweep + SHORT)
    assert status == 0, output
    status, output = student.run(plot)
    assert status == 0, output
    names = [word for word in output.split() if word.endswith(".png")]
    assert names, output
    content = student.file(f"results/bufferbloat/{Path(names[-1]).name}")
    (tmp_path / "bufferbloat.png").write_bytes(content)
    picture = pictures.imread(io.BytesIO(content))
    height, width = picture.shape[:2]
    colours = {tuple(row) for row in picture.reshape(height * width, -1)[::7].round(3).tolist()}
    assert width > 600 and height > 200 and len(colours) > 20, "axes, lines and words"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_run_has_the_digest_that_it_has_here(student: Student, tmp_path: Path) -> None:
    status, output = student.run(f"{RUN} results/digest")
    assert status == 0, output
    there = json.loads(student.file("results/digest/manifest.json"))
    command = f"{Path(sys.executable).parent}/{RUN.replace('examples', str(ROOT / 'examples'))} {tmp_path}/digest"
    subprocess.run(command.split(), check=True, cwd=tmp_path)
    here = json.loads((tmp_path / "digest" / "manifest.json").read_text())
    if there["fingerprint"] != here["fingerprint"]:
        pytest.skip(f"another environment here: {here['environment']}, there: {there['environment']}")
    assert there["digest"] == here["digest"]


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh: apt-get install openssh-client")
def test_the_password_opens_the_forwarded_port_for_the_student_alone(student: Student, tmp_path: Path) -> None:
    askpass, password = tmp_path / "askpass", tmp_path / "password"
    askpass.write_text(f"#!/bin/sh\ncat {password}\n")
    askpass.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "SSH_ASKPASS": str(askpass), "SSH_ASKPASS_REQUIRE": "force", "HOME": str(tmp_path)}
    argv = ["ssh", "-p", str(student.ssh_port), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    argv += ["-o", "ConnectTimeout=300", "-o", "NumberOfPasswordPrompts=1"]
    student.serve(22)
    password.write_text("dcgym")
    child = subprocess.run([*argv, "student@127.0.0.1", "true"], env=env, capture_output=True, text=True)
    assert child.returncode == 255 and "Permission denied" in child.stderr
    password.write_text(student.secret)
    child = subprocess.run([*argv, "student@127.0.0.1", "dcgym --version"], env=env, capture_output=True, text=True)
    assert child.returncode == 0 and "0.1" in child.stdout, child.stderr
    child = subprocess.run([*argv, "root@127.0.0.1", "true"], env=env, capture_output=True, text=True)
    assert child.returncode == 255 and "Permission denied" in child.stderr


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("token", ["", "dcgym", "0" * 24])
def test_a_foreign_page_gets_no_shell(token: str, student: Student) -> None:
    assert student.run("stat -c %a:%U /var/lib/dcgym/secret")[1].split() == ["600:student"]
    student.serve()
    headers = {"Origin": "http://foreign.example", "Authorization": f"token {token}"}
    request = urllib.request.Request(
        f"{student.notebook}/api/terminals", b"{}", headers if token else {"Origin": headers["Origin"]}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=300)
    assert refused.value.code in (403, 404), "404: to other origins there is no such page"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_full_disk_is_one_line(student: Student) -> None:
    fill = "fallocate -l $(($(df --output=avail -B1 . | tail -1) - 100000)) filler; head -c 200000 /dev/zero >> filler"
    assert student.run(fill)[0] == 1, "head finds no room"
    status, output = student.run(f"{RUN} results/full")
    assert student.run("rm -f filler")[0] == 0
    lines = [line for line in output.splitlines() if line.strip()]
    assert status == 2 and len(lines) == 1 and "the disk has 0 B" in output, output


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_appliances_disk_boots_on_its_own_devices(tmp_path: Path) -> None:
    with tarfile.open(image("ova")) as archive:
        disk = next(member for member in archive if member.name.endswith(".vmdk"))
        content = archive.extractfile(disk)
        assert content is not None
        with (tmp_path / disk.name).open("wb") as file:
            shutil.copyfileobj(content, file)
    ports = vm_console.free_port(), vm_console.free_port()
    with Student(vm_console.sata_command(tmp_path / disk.name, *ports), tmp_path / "console.log", *ports) as machine:
        machine.boot()
        status, output = machine.run("dcgym list >/dev/null; ls /sys/bus/pci/drivers/ahci /sys/bus/pci/drivers/e1000")
        assert status == 0 and output.count("0000:00") == 2, output
        with socket.create_connection(("127.0.0.1", machine.ssh_port), timeout=300) as port:
            assert port.recv(8).startswith(b"SSH-2.0")
        assert machine.power_off() == 0
