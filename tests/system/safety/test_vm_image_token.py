# SPDX-License-Identifier: Apache-2.0
"""No two copies of the machine image have the same secret. Whoever presents the notebook server's token gets a shell, every web
page too: Jupyter then checks no origin."""

from __future__ import annotations

import os
import pwd
import re
import stat
import subprocess
from configparser import RawConfigParser
from pathlib import Path

from scripts import vm_root

SECRET = "/var/lib/dcgym/secret"
MAKER = "usr/local/lib/dcgym/make-secret"
PROFILE = "etc/profile.d/dcgym.sh"
UNITS = "etc/systemd/system/"


def image_files() -> dict[str, str]:
    return {name: content.decode() for name, content, _, _ in vm_root._own_files()}


def unit(name: str) -> RawConfigParser:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(image_files()[UNITS + name])
    return parser


def make_secret(folder: Path) -> tuple[str, str]:
    """Boots a machine for the first time, as far as its secret is concerned. Returns it and what chpasswd gets."""
    folder.mkdir()
    changed = folder / "chpasswd"
    changed.write_text(f"#!/bin/sh\ncat >{folder}/passwords\n")
    changed.chmod(0o755)
    maker = vm_root.PARTS / "files" / MAKER
    user = pwd.getpwuid(os.geteuid()).pw_name
    env = {"PATH": f"{folder}:/usr/bin:/bin"}
    subprocess.run(["sh", maker, folder / "secret", user], env=env, check=True)
    return (folder / "secret").read_text(), (folder / "passwords").read_text().removeprefix(f"{user}:").rstrip("\n")


def test_no_file_of_the_image_has_a_token_or_a_password() -> None:
    setup = (vm_root.PARTS / "setup.sh").read_text()
    page = (vm_root.ROOT / "docs" / "vm-image.md").read_text()
    for name, text in {**image_files(), "setup.sh": setup, "vm-image.md": page}.items():
        assert not re.search(r"token=\w|password [`'\"]?dcgym|PASSWORD=", text), name
    assert "--password" not in setup and "chpasswd" not in setup


def test_each_machine_makes_a_secret_that_nobody_guesses(tmp_path: Path) -> None:
    secrets = [make_secret(tmp_path / name) for name in ("one", "other")]
    for token, password in secrets:
        assert re.fullmatch("[a-z2-7]{24}", token), "5 bits each; Jupyter takes the file as it is, without a newline"
        assert password == token
    assert secrets[0] != secrets[1]
    status = (tmp_path / "one" / "secret").stat()
    assert stat.S_IMODE(status.st_mode) == 0o600 and status.st_uid == os.geteuid()
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["chpasswd", "passwords", "secret"]


def test_there_is_no_secret_where_no_random_numbers_are(tmp_path: Path) -> None:
    broken = tmp_path / "openssl"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    maker = vm_root.PARTS / "files" / MAKER
    child = subprocess.run(["sh", maker, tmp_path / "secret", "nobody"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert child.returncode == 1 and not (tmp_path / "secret").exists()


def test_the_secret_is_there_before_anybody_can_log_in() -> None:
    secret_unit = unit("secret.service")
    assert secret_unit["Service"]["ExecStart"] == f"/{MAKER} {SECRET} student"
    assert secret_unit["Unit"]["ConditionFileNotEmpty"] == f"!{SECRET}", "the first boot alone"
    assert set(secret_unit["Unit"]["Before"].split()) >= {"notebook.service", "ssh.service", "systemd-user-sessions.service"}
    assert " secret" in (vm_root.PARTS / "setup.sh").read_text().partition("systemctl --quiet enable")[2].partition("\n")[0]


def test_the_notebook_server_asks_for_the_secret() -> None:
    served = unit("notebook.service")
    assert f"JUPYTER_TOKEN_FILE={SECRET}" in served["Service"]["Environment"].split()
    assert served["Unit"]["ConditionFileNotEmpty"] == SECRET, "an empty token would let everybody in"
    assert "secret.service" in served["Unit"]["Requires"].split() and "secret.service" in served["Unit"]["After"].split()
    for option in ("token", "password", "allow_origin", "disable_check_xsrf", "allow_unauthenticated"):
        assert option not in served["Service"]["ExecStart"]


def test_the_console_shows_the_secret_to_the_student(tmp_path: Path) -> None:
    secret, profile = tmp_path / "secret", tmp_path / "profile.sh"
    secret.write_text("abcdefgh")
    profile.write_text(image_files()[PROFILE].replace(SECRET, str(secret)))
    console = subprocess.run(["bash", "--norc", "-i", "-c", f". {profile}"], capture_output=True, text=True, check=True)
    assert "http://localhost:8888/lab?token=abcdefgh" in console.stdout and "password abcdefgh" in console.stdout
    script = subprocess.run(["bash", "-c", f". {profile}"], capture_output=True, text=True, check=True)
    assert script.stdout == "", "what scripts print stays as it is"
