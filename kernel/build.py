# SPDX-License-Identifier: Apache-2.0
"""Builds the lab kernel once from source, patches, drivers and configuration, and caches it under a hash of all four.

A comment in them, or the header text of a patch, does not change the hash (base/behaviour.py).

A run calls `ensure()`. The folder <cache>/kernel/<key>/ holds the kernel (linux), its configuration (config) and manifest.json.
The folder gets this name only when it is complete. After a failed build, only its log stays beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dc_gym.base import behaviour
from dc_gym.base.bounded import sha256_of
from dc_gym.base.contents import digest_of_file
from dc_gym.base.errors import KernelError, UsageError
from dc_gym.base.progress import Progress
from dc_gym.base.progress import choose as choose_progress
from dc_gym.kernel import headers, profile, selftests, workshop
from dc_gym.kernel import source as sources
from dc_gym.kernel.apt import run
from dc_gym.kernel.cache import (
    blocked_folder,
    cache_dir,
    check_room,
    find,
    for_make,
    keeping_behaviour,
    locked,
    make_folder,
    partial,
    publish,
)
from dc_gym.kernel.source import NotOnOffer, Source

HERE = Path(__file__).parent
RECIPE = 1  # increased when the built kernel changes by a change of this file, or of the place of a patch's lines
NEED_BYTES = 4_000_000_000  # the package, its unpacked tree of 1.8 GB and the object files
COMPILE_STEPS = 1250  # number of `CC` and `AR` lines of a build; an estimate for the progress bar
LAST_LINES = 15
TOOLS = {
    "gcc": "gcc", "make": "make", "ld": "binutils", "flex": "flex", "bison": "bison", "bc": "bc",
    "xz": "xz-utils", "patch": "patch", "tar": "tar",
}  # fmt: skip
# Kconfig looks for these programs, but the lab kernel does not need them. The result must not depend on whether they are
# installed.
MAKE = ("make", "ARCH=um", "RUSTC=false", "BINDGEN=false", "PAHOLE=false")
PLACES = {  # where the project's files go in the kernel tree; other drivers go to drivers/lab
    "lab.h": "include/uapi/linux/lab.h",
    "lab_event.h": "include/linux/lab_event.h",
    "lab_page.h": "arch/um/include/shared/lab_page.h",
}


@dataclass(frozen=True, slots=True)
class KernelBuild:
    path: Path
    """Path of the kernel binary that a lab executes."""
    key: str
    version: str
    fingerprint: str
    """Identifies this kernel in results. It is equal for equal source, configuration, patches, drivers and profile."""
    manifest: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        return self.path.parent


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of this project that go into the kernel."""

    config: Path = HERE / "lab.config"
    patches: Path = HERE / "patches"
    drivers: Path = HERE / "drivers"
    profile: Path = profile.ARCHIVE
    own: tuple[Path, ...] = ()
    """The user's patches, in the order in which they are applied, after the project's."""

    def patch_files(self) -> list[Path]:
        return sorted(self.patches.glob("*.patch"))

    def driver_files(self) -> list[Path]:
        names = ("Kconfig", "Makefile")
        return sorted(path for path in self.drivers.iterdir() if path.name in names or path.suffix in (".c", ".h"))

    def digests(self) -> dict[str, str]:
        """Returns by part the SHA-256 over its effect on the kernel."""
        options = "".join(f"{name}={value}\n" for name, value in sorted(_options(self.config.read_text()).items()))
        with keeping_behaviour():
            return {
                "config": hashlib.sha256(options.encode()).hexdigest(),
                "patches": _digest_files(self.patch_files()),
                "drivers": _digest_files(self.driver_files()),
                "profile": digest_of_file(self.profile),
            } | ({"own_patches": " ".join(map(digest_of_file, self.own))} if self.own else {})

    def key(self, source: Source) -> str:
        rows = [f"recipe {RECIPE}", f"source {source.identity}", *(f"{name} {value}" for name, value in self.digests().items())]
        return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:32]

    def copy_to(self, folder: Path) -> Parts:
        """Returns a copy that nobody can edit while it is being built."""
        own = tuple(folder / "own" / path.name for path in self.own)
        copy = Parts(folder / self.config.name, folder / "patches", folder / "drivers", folder / self.profile.name, own)
        for path in (folder, copy.patches, copy.drivers, folder / "own"):
            path.mkdir()
        for path, target in (
            (self.config, folder),
            (self.profile, folder),
            *((patch, copy.patches) for patch in self.patch_files()),
            *((driver, copy.drivers) for driver in self.driver_files()),
            *((patch, folder / "own") for patch in self.own),
        ):
            shutil.copyfile(path, target / path.name)
        return copy


@dataclass(frozen=True, slots=True)
class Options:
    jobs: int | None = None
    keep_source: bool = False
    """Keeps the patched tree at <key>.source."""
    incremental: bool = False
    """Compiles in the workshop, whose tree stays for the next build of this kind."""
    force: bool = False
    """Builds even if the kernel is in the cache."""


def ensure(
    progress: Progress | None = None,
    source: Path | None = None,
    version: str | None = None,
    untested_version: str | None = None,
    options: Options = Options(),
    parts: Parts = Parts(),
) -> KernelBuild:
    """Returns the lab kernel.

    Builds it if neither the wheel nor the cache has it. Without arguments it is the default version.
    """
    if progress is None:
        with choose_progress(quiet=False) as display:
            return ensure(display, source, version, untested_version, options, parts)
    chosen = choose(progress, source, version, untested_version)
    explicit = version is not None or source is not None or untested_version is not None
    if not options.force:
        built, warning = _find(chosen, parts)
        if built is not None and (built.version == chosen.version or not explicit):
            _warn(progress, warning)
            return built
    cache = make_folder(cache_dir())
    try:
        return _build_once(cache, chosen, parts, options, progress)
    except NotOnOffer as refused:
        if explicit:
            raise
        other = sources.stand_in(refused, chosen)
        built = _build_once(cache, other, parts, options, progress)
        _stand_in_file(cache, chosen).write_text(json.dumps(asdict(other), default=str))
        return built


def lookup(source: Source, parts: Parts = Parts()) -> KernelBuild | None:
    """Returns the cached kernel that runs of `source` use, or its stand-in. Returns None if there is none or if it is damaged."""
    return _find(source, parts)[0]


def build_throwaway(
    parts: Parts,
    progress: Progress,
    source: Path | None = None,
    version: str | None = None,
    untested_version: str | None = None,
    jobs: int | None = None,
) -> Mapping[str, Any]:
    """Builds a kernel only to measure the build's cost, keeps nothing of it, and returns its manifest."""
    chosen = choose(progress, source, version, untested_version)
    target = make_folder(cache_dir() / "kernel") / f"{parts.key(chosen)}-throwaway"
    with locked(target.with_name(f"{target.name}.lock")) as held, partial(target) as work:
        out = _build(work, chosen, parts.copy_to(work / "parts"), Options(jobs=jobs), progress, held, target)
        manifest: Mapping[str, Any] = json.loads((out / "manifest.json").read_text())
        return manifest


def choose(progress: Progress, path: Path | None = None, version: str | None = None, untested: str | None = None) -> Source:
    """Returns the source that the user's options select."""
    if sum(choice is not None for choice in (path, version, untested)) > 1:
        raise UsageError("--source, --version and --untested-version exclude each other: give one")
    if path is not None:
        return sources.named(path, progress)
    if untested is not None:
        return sources.offered(untested, sources.open_apt(cache_dir()))
    return sources.tested(version)


def _build_once(cache: Path, source: Source, parts: Parts, options: Options, progress: Progress) -> KernelBuild:
    key = parts.key(source)
    _warn(progress, source.warning)
    target = make_folder(cache / "kernel") / key
    started = time.time()

    def say_waiting() -> None:
        progress.note("another process is building this kernel: waiting for it")

    with locked(target.with_name(f"{key}.lock"), say_waiting) as held:
        built = _load(target, key)
        if built is not None and (not options.force or (target / "linux").stat().st_mtime >= started):
            return built
        with partial(target) as work:
            parts_copy = parts.copy_to(work / "parts")
            if parts_copy.key(source) != key:
                raise KernelError("the lab kernel's configuration, patches or drivers changed just now: build again")
            progress.announce("the lab kernel is not in the cache and is built now, once: about five minutes of CPU")
            out = _build(work, source, parts_copy, options, progress, held, target)
            publish(out, target, work)
            progress.phase("lab kernel: remove the source")
    built = _load(target, key)
    if built is None:
        raise KernelError(f"{target} was built and is not whole: the file system lost data, or somebody removed it; build again")
    blocked = blocked_folder(target) if os.geteuid() == 0 else None
    if blocked is not None:
        progress.note(
            f"WARNING: {blocked} is closed to other users, as one of whom labs started by root run: open it or set DCGYM_CACHE"
        )
    return built


def _build(work: Path, source: Source, parts: Parts, options: Options, progress: Progress, held: int, target: Path) -> Path:
    """Builds in the folder `work` and returns the folder with the results."""
    _check_machine()
    with for_make(work) as folder:
        check_room(folder, NEED_BYTES, "building the lab kernel")
        return _build_in(folder, make_folder(work / "out"), source, parts, options, progress, held, target)


def _build_in(
    work: Path, out: Path, source: Source, parts: Parts, options: Options, progress: Progress, held: int, target: Path
) -> Path:
    """Builds in the folder `work`, and returns `out` with the results."""
    tree = work / "tree"
    started = time.monotonic()
    make = Make(tree, target.with_name(f"{target.name}.log"), held)
    digest = prepare(work, make, source, parts, progress)
    profiled = profile.place(tree, parts.profile)
    with workshop.settled(tree, progress) if options.incremental else nullcontext(tree) as tree:
        make.tree = tree
        cpu_s, wall_s = make.compile(options.jobs or len(os.sched_getaffinity(0)), progress)
        shutil.copyfile(tree / "linux", out / "linux")
        shutil.copyfile(tree / ".config", out / "config")
        headers_sha256 = headers.keep(tree, out)
        release = (tree / "include/config/kernel.release").read_text().strip()
    for name, mode in (("linux", 0o755), ("config", 0o644)):
        (out / name).chmod(mode)
    manifest = {
        "key": parts.key(source),
        "version": source.version,
        "fingerprint": fingerprint(source.version, parts.key(source)),
        "release": release,
        "tested": source.tested,
        "source": {"identity": source.identity, "sha256": digest},
        **{f"{name}_sha256": value for name, value in parts.digests().items()},
        "profile": profiled,
        "linux_sha256": sha256_of(out / "linux"),
        "headers_sha256": headers_sha256,
        "compiler": run(["gcc", "--version"], KernelError).splitlines()[0],
        "compile_cpu_s": round(cpu_s, 1),
        "compile_wall_s": round(wall_s, 1),
        "build_s": round(time.monotonic() - started, 1),
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    (out / "manifest.json").chmod(0o644)
    make.log.unlink(missing_ok=True)
    if options.keep_source:
        source_folder = target.with_name(f"{target.name}.source")
        shutil.rmtree(source_folder, ignore_errors=True)
        shutil.move(tree, source_folder)
        progress.note(f"the patched source stays in {source_folder}")
    return out


def prepare(work: Path, make: Make, source: Source, parts: Parts, progress: Progress) -> str:
    """Creates `make.tree`: unpacks the source, adds drivers and patches, and configures it.

    Returns the SHA-256 of the package or file that the source came from ('' for a tree of the user's).
    """
    digest = _bring_source(work, make.tree, source, progress)
    selftests.keep(make.tree, source)
    progress.phase("lab kernel: patch")
    place_drivers(make.tree, parts)
    apply_patches(make.tree, [*parts.patch_files(), *parts.own], source.version)
    progress.phase("lab kernel: configure")
    configure(make, parts.config, source.version)
    return digest


def fingerprint(version: str, key: str) -> str:
    return f"{version}-lab-{key[:16]}"


def place_drivers(tree: Path, parts: Parts) -> None:
    """Copies the project's drivers and headers to their places in the kernel tree."""
    (tree / "drivers/lab").mkdir()
    for path in parts.driver_files():
        target = tree / PLACES.get(path.name, f"drivers/lab/{path.name}")
        if target.exists() or not target.parent.is_dir():
            where = target.relative_to(tree)
            raise KernelError(f"driver {path.name} has no place in this kernel: {where} exists, or its folder does not")
        shutil.copyfile(path, target)


def apply_patches(tree: Path, patches: Sequence[Path], version: str) -> None:
    """Applies the patches in order, without fuzz. Raises KernelError with the name of the first patch that does not fit."""
    for path in patches:
        argv = ["patch", "-p1", "--forward", "--fuzz=0", "--batch", "--no-backup-if-mismatch", "-i", str(path.absolute())]
        process = subprocess.run(argv, cwd=tree, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=_environment())
        if process.returncode != 0:
            raise KernelError(f"patch {path.name} does not fit Linux {version}: {_misfit(process.stdout + process.stderr)}")


def configure(make: Make, fragment: Path, version: str) -> None:
    """Applies the configuration fragment over UML's defaults and verifies that every line of it took effect."""
    shutil.copy(fragment, make.tree)
    merge = ["scripts/kconfig/merge_config.sh", "-m", "arch/um/configs/x86_64_defconfig", fragment.name]
    make.step(merge)
    make.step([*MAKE, "olddefconfig"])
    wrong = config_differences(fragment.read_text(), (make.tree / ".config").read_text())
    if wrong:
        raise KernelError(f"Linux {version} does not take {len(wrong)} lines of {fragment.name}: {'; '.join(wrong[:5])}")


def config_differences(fragment: str, config: str) -> list[str]:
    """Returns the lines of a fragment that a configuration does not honour. An option that does not exist counts as not set."""
    have = _options(config)
    wrong = []
    for name, value in _options(fragment).items():
        actual = have.get(name, "n")
        if actual != value:
            wrong.append(f"{name} should be {value}, is {actual}")
    return wrong


class Make:
    """Runs build steps in a tree and logs them to one file.

    The child processes hold the cache's lock while they live, and they die with this process.
    """

    def __init__(self, tree: Path, log: Path, held: int) -> None:
        self.tree = tree
        self.log = log
        self._held = held
        self.log.unlink(missing_ok=True)

    def step(self, argv: Sequence[str], on_line: Callable[[str], None] = lambda line: None) -> None:
        with self.log.open("a") as log:
            log.write(f"+ {' '.join(argv)}\n")
            with self._process(argv) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    on_line(line)
                code = process.wait()
        if code != 0:
            lines = self.log.read_text(errors="replace").splitlines()
            step = f"{argv[0]} {argv[-1]}"
            raise KernelError("\n".join([f"`{step}` of the lab kernel failed ({code}), its log is {self.log}:", *_tail(lines)]))

    def compile(self, jobs: int, progress: Progress, *settings: str) -> tuple[float, float]:
        """Compiles the kernel and returns the CPU seconds and wall-clock seconds that it took. `settings`: variables of make."""
        done = 0

        def count(line: str) -> None:
            nonlocal done
            if line.startswith(("  CC ", "  AR ")):
                done += 1
                progress.advance(done, max(COMPILE_STEPS, done))

        progress.phase(f"lab kernel: compile ({jobs} {'job' if jobs == 1 else 'jobs'})")
        began, used = time.monotonic(), _children_cpu_s()
        self.step([*MAKE, *settings, f"-j{jobs}", "linux"], count)
        return _children_cpu_s() - used, time.monotonic() - began

    @contextmanager
    def _process(self, argv: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        bound = ["setpriv", "--pdeathsig", "TERM", *argv] if shutil.which("setpriv") else argv
        process = subprocess.Popen(
            bound, cwd=self.tree, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True, pass_fds=(self._held,),
        )  # fmt: skip
        try:
            yield process
        finally:
            _end(process)
            assert process.stdout is not None
            process.stdout.close()


def _end(process: subprocess.Popen[str]) -> None:
    """Ends the remaining processes of a build step. The step runs in a session of its own, so this ends nothing else."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _bring_source(work: Path, tree: Path, source: Source, progress: Progress) -> str:
    """Creates the tree. Returns the SHA-256 of the package or file that it came from ('' for a tree of the user's)."""
    path = source.path
    if path is None:
        progress.phase(f"lab kernel: download {source.name} {source.version}")
        apt = sources.open_apt(cache_dir())
        path = apt.download(sources.find(source, apt), work)
    progress.phase("lab kernel: unpack")
    sources.unpack(path, tree)
    digest = sha256_of(path) if path.is_file() else ""
    if source.path is None:
        path.unlink()
    return digest


def _check_machine() -> None:
    if platform.machine() != "x86_64":
        raise KernelError(f"this machine is {platform.machine()}: the lab kernel (User Mode Linux) runs on x86_64 only")
    missing = {tool: package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if missing:
        raise KernelError(
            f"building the lab kernel needs {', '.join(missing)}: apt install {' '.join(sorted(set(missing.values())))}"
        )


def _load(folder: Path, key: str) -> KernelBuild | None:
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        if manifest["key"] != key or digest_of_file(folder / "linux") != manifest["linux_sha256"]:
            return None
        return KernelBuild(folder / "linux", key, manifest["version"], manifest["fingerprint"], manifest)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _find(source: Source, parts: Parts) -> tuple[KernelBuild | None, str]:
    """Returns the kernel of `source` and a warning for the user.

    If no archive offered that source when it was asked for, the kernel is the one that stood in for it.
    """
    key = parts.key(source)
    built = _load(find("kernel", key), key)
    if built is not None:
        return built, source.warning
    try:
        row = json.loads(_stand_in_file(cache_dir(), source).read_text())
        key = parts.key(Source(row["identity"], row["version"], row["tested"]))
        return _load(cache_dir() / "kernel" / key, key), str(row["warning"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, ""


def _stand_in_file(cache: Path, source: Source) -> Path:
    return cache / "kernel" / f"stand-in-for-{source.version}.json"


def _warn(progress: Progress, warning: str) -> None:
    if warning:
        progress.note(warning)


def _environment() -> dict[str, str]:
    """Returns the environment of a build. It contains none of the caller's flags, and a fixed time, user and host."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.environ.get("HOME", "/"),
        "LC_ALL": "C",
        "KBUILD_BUILD_TIMESTAMP": "Wed Jan  1 00:00:00 UTC 2020",
        "KBUILD_BUILD_USER": "dcgym",
        "KBUILD_BUILD_HOST": "lab",
        "KBUILD_BUILD_VERSION": "1",
    }


def _misfit(output: str) -> str:
    """Returns the file and the hunk at which a patch failed, taken from patch's own output."""
    file = "a file that does not exist"
    for line in output.splitlines():
        if match := re.match(r"(?:patching|checking) file (\S+)", line):
            file = match[1]
        elif re.search(r"FAILED|previously applied|malformed|garbage|can't find file", line):
            match = re.search(r"^Hunk #\d+ FAILED at \d+", line)
            return f"{match[0] if match else line.strip()} in {file}" if "find file" not in line else _lost(output)
    return output.strip().splitlines()[-1] if output.strip() else "no message"


def _lost(output: str) -> str:
    match = re.search(r"^\|\+\+\+ (?:b/)?(\S+)", output, re.MULTILINE)
    return f"{match[1] if match else 'a file of it'} does not exist"


def _options(text: str) -> dict[str, str]:
    options = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"(CONFIG_\w+)=(.*)", line.strip()):
            options[match[1]] = match[2]
        elif match := re.fullmatch(r"# (CONFIG_\w+) is not set", line.strip()):
            options[match[1]] = "n"
    return options


def _digest_files(paths: Sequence[Path]) -> str:
    rows = "".join(f"{path.name} {behaviour.digest_of_file(path)}\n" for path in sorted(paths, key=lambda path: path.name))
    return hashlib.sha256(rows.encode()).hexdigest()


def _tail(lines: Sequence[str]) -> list[str]:
    """Returns the errors of a log, or its last lines if it has none."""
    errors = [line for line in lines if "error:" in line or "Error " in line or "undefined reference" in line]
    return [f"  {line}" for line in (errors or lines)[-LAST_LINES:]]


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
