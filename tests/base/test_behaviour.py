# SPDX-License-Identifier: Apache-2.0
"""Tests digests over what sources do: what leaves them, what changes them, and that every Python finds the same."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from dc_gym.base import behaviour, contents
from dc_gym.kernel import cache
from dc_gym.results import fingerprint

PYTHON = '''# SPDX
"""A module.

Of two paragraphs."""
from __future__ import annotations
NAMES = ("one", 'two', r"\\d+\\"", b"\\x00", rb'#', """three
  # four""", f"{'five'!r:>{6}} {{six}} {7 + 8:,}" "nine")  # a comment


@dataclass(frozen=True)
class Rate(Number):
    """A rate."""

    bps: int = 10_000  # bits a second
    """In bit/s."""
    share: float = .5e-3

    async def of[T](self, *given: T, **more: object) -> int | None:
        if (found := self.bps) != 0x1F and not more \\
                or found is None:
            raise KeyFault(self.key, f"is {found!r} (of {given[0]['name']}); give more") from None
        else:
            try:
                return lambda x=1, /, *, y: -x ** y @ [*given][::2]
            except* OSError:
                raise
        match given:
            case [1, {"a": b}, *_]: pass


\tπ = 1
'''
"""Most of Python's grammar, of every version: no Python reads all of it."""
C = r"""/* SPDX */
#include <linux/lab.h> // why
#define TWICE(x)	((x) + \
			(x)) /* a comment
	of two lines */
#define ONE (1)

static const char *text = "/* no comment */ \" // \
none", quote = '"';

int of(int a,
       int b)
{
	return a + +b - TWICE(a)--->next; // "
}
"""
GOLDEN = {
    "golden.py": "14de34041407934ee33a1657284814503f383a8e75ccc3863479864916d4e957",
    "golden.c": "51d874c2c4b5dcef92e72aed8c62f2e347d2107bbccc14c87cf049678b6d32c1",
}
"""The digests that every Python finds. They change only together with all fingerprints and the lab kernel's key."""


def digest(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return behaviour.digest_of_file(path)


SAME = {
    "a comment": ("a.py", "x = 1\n", "# more\nx = 1  # less\n\n    # odd\n"),
    "a docstring": ("a.py", 'def f():\n    """One."""\n    return 1\n', "def f():\n    r'''Two.'''\n    return 1\n"),
    "a field's docstring": ("a.py", 'class A:\n    x: int\n    """One."""\n', "class A:\n    x: int\n"),
    "joined docstrings": ("a.py", '"""One."""\nx = 1\n', '"One." "Two."\nx = 1\n'),
    "blank lines and the width of indentation": (
        "a.py",
        "if x:\n  a\n  if y:\n    b\nc\n",
        "if x:\n\n\ta\n\tif y:\n\n\t\t\tb\n\nc\n",
    ),
    "line breaks in brackets": ("a.py", "f(a, [b])\n", "f(\n    a,  # first\n    [\n  b]\n)\n"),
    "a joined line": ("a.py", "x = a or b\n", "x = a \\\n  or b\n"),
    "spaces": ("a.py", "x = {1: -a}\n", "x={ 1:- a }\n"),
    "ends of lines": ("a.py", "x = '''1\n2'''\ny\n", "x = '''1\r\n2'''\r\ny\r\n"),
    "an error's words": ("a.py", 'raise a.B("one") from c\n', "raise a.B(f'two {(1, x[0])} )', (key,)) from c\n"),
    "a C comment": ("a.c", "int a; /* one */\n#define B 1 // two\n", "// three\nint /* four\n*/ a;\n#define B 1\n"),
    "C layout": ("a.c", "int f(int a, int b)\n{\n\treturn a + b;\n}\n", "int f( int a,\n  int b ) {return a+b;}\n"),
    "a joined C line": ("a.h", "#define A (1 + 2)\n", "#define A (1 + \\\n  2)\n"),
    "a comment of a linker script": ("a.ld", ". = 1; /* one */\n*(.text .text.*)\n", ". = 1;\n\n*(.text   .text.*)\n"),
    "a comment of kbuild": ("Kconfig", "# one\nconfig A\n\tbool\n", "config A\n\n  # two\n\tbool\n"),
}
OTHER = {
    "a number": ("a.py", "x = 1\n", "x = 2\n"),
    "an annotation": ("a.py", "class A:\n    x: int\n", "class A:\n    x: float\n"),
    "a string": ("a.py", "x = 'one'\n", "x = 'two'\n"),
    "spaces of a string": ("a.py", 'x = """a b"""\n', 'x = """a\nb"""\n'),
    "a string that is no statement": ("a.py", "f('one')\n", "f('')\n"),
    "a statement that calls": ("a.py", "f'{a()}'\nx = 1\n", "x = 1\n"),
    "where strings end": ("a.py", 'x = "" """a"""\n', 'x = """""a"""\n'),
    "a block's end": ("a.py", "if x:\n    a\n    b\n", "if x:\n    a\nb\n"),
    "two statements": ("a.py", "a\n(b)\n", "a(b)\n"),
    "two words": ("a.py", "x = not a\n", "x = nota\n"),
    "an error's class": ("a.py", 'raise A("one")\n', 'raise B("one")\n'),
    "an error's cause": ("a.py", 'raise A("one") from None\n', 'raise A("one")\n'),
    "an error's method": ("a.py", 'raise A("one").of(1)\n', 'raise A("one").of(2)\n'),
    "a message that is no error's": ("a.py", 'say("one")\n', 'say("two")\n'),
    "a C number": ("a.c", "int a = 1;\n", "int a = 2;\n"),
    "a C string": ("a.c", 'char *a = "// one";\n', 'char *a = "// two";\n'),
    "a C character": ("a.c", "char a = '\"'; /* \" */ int b;\n", "char a = '\"'; /* \" */ int c;\n"),
    "C operators": ("a.c", "c = a++ + b;\n", "c = a + ++b;\n"),
    "a macro with an argument": ("a.c", "#define A (x)\n", "#define A(x)\n"),
    "a directive's end": ("a.c", "#define A\nint b;\n", "#define A int b;\n"),
    "the kind of a file": ("a.c", "x\n", None),
    "names of a linker script": ("a.ld", "*(.text .text.*)\n", "*(.text.text.*)\n"),
    "kbuild": ("Makefile", "obj-y += a.o\n", "obj-y += b.o\n"),
    "data": ("a.csv", "1,2\n", "1, 2\n"),
}


@pytest.mark.parametrize("name,one,other", SAME.values(), ids=SAME)
def test_what_does_the_same_has_the_same_digest(tmp_path: Path, name: str, one: str, other: str) -> None:
    assert digest(tmp_path, name, one) == digest(tmp_path, name, other)


@pytest.mark.parametrize("name,one,other", OTHER.values(), ids=OTHER)
def test_what_does_something_else_has_another_digest(tmp_path: Path, name: str, one: str, other: str | None) -> None:
    assert digest(tmp_path, name, one) != (digest(tmp_path, "a.py", one) if other is None else digest(tmp_path, name, other))


PATCH = """Lab: one story.

--- a/net/one.c\t2020-01-01
+++ b/net/one.c
@@ -10,3 +10,4 @@ int before(void)
 context
-gone
+come
+-- come
 after
--- a/net/two.c
+++ b/net/two.c
@@ -1 +1 @@
-old
+new
"""


def test_a_patch_is_what_it_adds_and_removes(tmp_path: Path) -> None:
    before = digest(tmp_path, "a.patch", PATCH)
    for old, new in (
        ("one story", "another"),
        ("-10,3 +10,4", "-90,3 +92,4"),
        ("int before", "int other"),
        (" context", " more"),
    ):
        assert digest(tmp_path, "a.patch", PATCH.replace(old, new)) == before
    for old, new in (
        ("+come", "+goes"),
        ("-gone", "-left"),
        ("+-- come", "+-- goes"),
        ("net/two.c", "net/three.c"),
        ("+new\n", ""),
    ):
        assert digest(tmp_path, "a.patch", PATCH.replace(old, new)) != before


def found_by(command: list[str], folder: Path) -> dict[str, str]:
    names = [folder / name for name in GOLDEN]
    for name, text in zip(names, (PYTHON, C), strict=True):
        name.write_text(text)
    env = {**os.environ, "PYTHONPATH": str(fingerprint.PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [*command, "-P", "-m", "dc_gym.base.behaviour", *map(str, names)]
    lines = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    return {Path(name).name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def test_digests_are_the_same_wherever_they_are_computed(tmp_path: Path) -> None:
    assert found_by([sys.executable], tmp_path) == GOLDEN


@pytest.mark.parametrize("name", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_every_python_finds_the_same(tmp_path: Path, name: str) -> None:
    if shutil.which(name) is None or subprocess.run([name, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"there is no {name}")
    assert found_by([name], tmp_path) == GOLDEN


def ours(text: str) -> list[tuple[int, str, list[str]]]:
    statements = []
    for width, tokens in behaviour._statements(text):
        code = "".join(behaviour.STAND_IN if token[0] in behaviour.QUOTES else token for token in tokens)
        strings = [token for token in tokens if token[0] in behaviour.QUOTES]
        statements.append((width, re.sub(behaviour.NEEDLESS, "", re.sub(behaviour.BLANKS, " ", code)), strings))
    return statements


def pythons_own(text: str) -> list[tuple[int, str, list[str]]]:
    """Returns the logical lines that the tokenizer of the standard library finds."""
    lines: list[tuple[int, str, list[str]]] = []
    code, strings, width = "", [], 0
    for kind, word, start, _, _ in tokenize.generate_tokens(io.StringIO(text).readline):
        if kind == tokenize.NEWLINE:
            lines.append((width, code, strings))
            code, strings = "", []
        elif kind not in (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            width = width if code else start[1]
            if kind == tokenize.STRING:
                prefix, quote, rest = re.split(r"([\"'])", word, maxsplit=1)
                strings.append(quote + rest)
                word = prefix + behaviour.STAND_IN
            code += (" " if re.search(r"\w$", code) and re.match(r"\w", word) else "") + word
    return lines


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="its tokenizer splits f-strings")
def test_tokens_are_those_of_python_in_each_of_our_files() -> None:
    paths = [path for path in fingerprint.files((*fingerprint.GUEST, *fingerprint.AGENTS)) if path.suffix == ".py"]
    assert len(paths) > 200
    for path in paths:
        text = path.read_text()
        assert ours(text) == pythons_own(text), path


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A source, in a process that knows no digest, has a cache of its own, and lets its group write what it makes."""
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(cache.TRUST, "1")
    forget(monkeypatch)
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    before = os.umask(0o002)
    yield path
    os.umask(before)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behaviour, "_known", {})
    monkeypatch.setattr(behaviour, "_read", set())


def kept_digest(path: Path) -> str:
    with cache.keeping_behaviour():
        return behaviour.digest_of_file(path)


def test_a_digest_is_computed_once_for_all_processes(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept_digest(source)
    forget(monkeypatch)
    monkeypatch.setitem(behaviour._RULES, ".py", lambda text: pytest.fail("it is in the cache"))
    assert kept_digest(source) == first
    monkeypatch.setitem(behaviour._RULES, ".py", lambda text: text)
    source.write_text("x = 2\n")
    assert kept_digest(source) == contents.digest_of_file(source)
    (digest_file,) = (source.parent / "cache" / "behaviour").iterdir()
    assert len(digest_file.read_text().splitlines()) == 2 and not digest_file.stat().st_mode & 0o022


def test_what_others_may_have_written_is_not_read(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept_digest(source)
    (digest_file,) = (source.parent / "cache" / "behaviour").iterdir()
    lie = "0" * 64
    digest_file.write_text(f".py {contents.digest_of_file(source)} {lie}\n")
    forget(monkeypatch)
    assert kept_digest(source) == lie, "what is the user's own is believed"
    digest_file.chmod(0o666)
    forget(monkeypatch)
    assert kept_digest(source) == first
    digest_file.write_bytes(b"\xff spoilt \n.py 12 34\n")
    digest_file.chmod(0o644)
    forget(monkeypatch)
    assert kept_digest(source) == first


def test_the_file_of_digests_is_bounded(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behaviour, "MOST_KEPT", 2)
    with cache.keeping_behaviour():
        for number in range(3):
            source.write_text(f"x = {number}\n")
            last = behaviour.digest_of_file(source)
    (digest_file,) = (source.parent / "cache" / "behaviour").iterdir()
    rows = digest_file.read_text().splitlines()
    assert len(rows) == 2 and rows[-1].endswith(last)


def test_without_a_cache_nothing_is_kept(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept_digest(source)
    for folder in ("relative", f"{source}/below a file"):
        monkeypatch.setenv("DCGYM_CACHE", folder)
        forget(monkeypatch)
        assert kept_digest(source) == first
