# SPDX-License-Identifier: Apache-2.0
"""The congestion controls that come with dc-gym: their cards, and what is said where a card is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dc_gym.base import behaviour
from dc_gym.base.errors import SpecError
from dc_gym.ctrl import controllers

CARD = "card.toml"


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of all cards."""
    for folder in controllers.nic_folders().values():
        target = tmp_path / folder.relative_to(controllers.PACKAGE) / CARD
        target.parent.mkdir(parents=True)
        shutil.copy(folder / CARD, target)
    shutil.copy(controllers.TCPS, tmp_path / "ctrl" / "tcp.toml")
    monkeypatch.setattr(controllers, "TCPS", tmp_path / "ctrl" / "tcp.toml")
    monkeypatch.setattr(controllers, "PACKAGE", tmp_path)
    return tmp_path / "ctrl"


def add(cards: Path, name: str, text: str) -> None:
    folder = cards / "nic" / "algorithms" / name
    folder.mkdir()
    (folder / CARD).write_text(text)


def test_rows_are_the_places_in_records() -> None:
    rows = [controller.row for name in controllers.names() if (controller := controllers.find(name))]
    assert rows == list(range(33)), "a new one gets the next number: digests hang on them"
    assert [controllers.names()[row] for row in (0, 6, 19, 30, 31, 32)] == ["dctcp", "dcqcn", "none", "cdg", "agent", "nscc"]


def test_a_folder_with_a_card_is_an_algorithm(cards: Path) -> None:
    add(cards, "two_words", 'row = 33\nlabel = "Two words"\necn = true\ntelemetry = true\nmarker = "d"\n')
    loaded = controllers._shipped()
    assert (loaded[-1].name, loaded[-1].kernel_name, loaded[-1].label) == ("two-words", "two-words", "Two words")
    assert loaded[-1].nic and loaded[-1].ecn and loaded[-1].telemetry and (loaded[-1].color, loaded[-1].marker) == (None, "d")
    assert [controller.name for controller in loaded[:-1]] == list(controllers.names())


def test_a_table_is_a_tcp(cards: Path) -> None:
    with (cards / "tcp.toml").open("a") as file:
        file.write('\n[bbr-ecn]\nrow = 33\nkernel_name = "bbr"\necn = true\n')
    tcp = controllers._shipped()[-1]
    assert (tcp.name, tcp.kernel_name, tcp.label, tcp.ecn, tcp.nic) == ("bbr-ecn", "bbr", "bbr-ecn", True, False)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("row = 6\n", "row = 6 is that of 'dcqcn'; give the next free one, 33"),
        ("ecn = true\n", "row = None is no number; give the next free one, 33"),
        ('row = 33\ncolour = "red"\n', "colour is no key of a card; give some of: color, "),
    ],
)
def test_a_wrong_card_is_one_line_that_says_where(cards: Path, text: str, fault: str) -> None:
    add(cards, "zzz", text)
    with pytest.raises(SpecError) as excinfo:
        controllers._shipped()
    assert str(excinfo.value).startswith(f"{cards}/nic/algorithms/zzz/card.toml: controller 'zzz': {fault}")


def test_what_a_card_says_to_readers_changes_no_behaviour(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        (tmp_path / "card.toml").write_text(text)
        return behaviour.digest_of_file(tmp_path / "card.toml")

    card = '# a card\nrow = 6\nlabel = "DCQCN"\necn = true\ncolor = "#B7A100"\nmarker = "p"\n'
    assert digest(card) == digest('row = 6\necn = true\n\nlabel = "other"\nsource = "Zhu et al."\n')
    assert len({digest(card), digest(card.replace("6", "7")), digest(card.replace("true", "false"))}) == 3
