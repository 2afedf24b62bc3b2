# SPDX-License-Identifier: Apache-2.0
"""The NIC's algorithms as their headers describe them, and their parameters on lines of several rates."""

from pathlib import Path

import pytest

from dc_gym.base.errors import SpecError, UsageError
from dc_gym.cli import main
from dc_gym.ctrl import controllers
from dc_gym.ctrl.nic import algorithms
from dc_gym.ctrl.nic.algorithm import _preset

CONTEXT_WORDS = 12


def built():
    """Returns the names of registered algorithms that have a header here."""
    return [name for name in algorithms.names() if algorithms.header_of(name).is_file()]


@pytest.mark.parametrize("name", built())
def test_every_algorithm_describes_itself(name, tmp_path):
    algorithm = algorithms.load(name, tmp_path)
    assert algorithm.name == name
    assert algorithm.help and algorithm.events
    assert algorithm.fits == (algorithm.state_words <= CONTEXT_WORDS)
    for parameter in algorithm.parameters:
        assert parameter.least <= parameter.default <= parameter.greatest, parameter.name
        assert parameter.unit and parameter.source and parameter.help, parameter.name
    for preset in algorithm.presets:
        for key, value in preset.values.items():
            known = algorithm.parameter(key)
            assert known.least <= value <= known.greatest, (preset.name, key)


def test_every_header_is_registered():
    headers = (path.stem for folder in controllers.nic_folders().values() for path in folder.glob("*.h"))
    assert set(headers) == {name for name in algorithms.names() if not algorithms.has_own_header(name)}


def test_times_keep_their_proportion_to_a_packet_s(tmp_path):
    dcqcn = algorithms.load("dcqcn", tmp_path)
    full = algorithms.resolve_parameters(dcqcn, "", {}, 100 * 10**9)
    slow = algorithms.resolve_parameters(dcqcn, "paper", {}, 10**9)
    assert (full.preset, full.factor, full.scaled, full.capped) == ("paper", 1.0, (), ())
    assert (slow.values["alpha_timer"], slow.values["rate_timer"]) == (5_500_000, 5_500_000)
    assert slow.scaled == ("alpha_timer", "rate_timer")  # monitor_period is 0 at any rate
    for same in ("g", "byte_counter", "stages", "rate_ai", "rate_hai"):
        assert slow.values[same] == full.values[same] == dcqcn.parameter(same).default
    assert list(slow.values) == [parameter.name for parameter in dcqcn.parameters]


def test_times_that_the_clock_cannot_tell_are_held_and_named(tmp_path):
    setting = algorithms.resolve_parameters(algorithms.load("dcqcn", tmp_path), "firmware", {}, 10**7)
    assert setting.capped == ("rate_timer",)
    assert setting.values["rate_timer"] == 2**31
    assert setting.values["alpha_timer"] == 10_000_000


def test_a_preset_brings_the_receivers_that_go_with_it(tmp_path):
    dcqcn = algorithms.load("dcqcn", tmp_path)
    receivers = {preset.name: dict(algorithms.resolve_parameters(dcqcn, preset.name, {}, 10**10).nic) for preset in dcqcn.presets}
    simulator, dumps = {"cnp_interval": 0, "spaced": 1}, {"cnp_interval": 40_000}
    assert receivers == {
        **{"paper": {}, "firmware": {"cnp_interval": 20_000}, "firmware_bytes": dumps, "firmware_blocks": dumps},
        **{"ns3": simulator, "ns3_paper": simulator},
    }
    assert "nic.cnp_interval" not in dcqcn.preset("firmware").values
    with pytest.raises(UsageError, match=r"CC_NIC\(payload\).*cnp_interval, spaced"):
        _preset(dcqcn.header, "own", {"help": "", "values": {"g": 1, "nic.payload": 9}}, dcqcn.parameters)


def test_what_is_given_is_taken_as_it_is(tmp_path):
    dcqcn = algorithms.load("dcqcn", tmp_path)
    setting = algorithms.resolve_parameters(dcqcn, "ns3", {"rate_timer": 777, "g": 64}, 10**9)
    assert (setting.values["rate_timer"], setting.values["g"], setting.values["alpha_timer"]) == (777, 64, 100_000)
    with pytest.raises(SpecError, match=r"\bg\b.*1\.\.1023 \(Q10\).*1024"):
        algorithms.resolve_parameters(dcqcn, "", {"g": 1024}, 10**9)
    with pytest.raises(SpecError, match=r"dcqcn.*'gg'.*did you mean g"):
        algorithms.resolve_parameters(dcqcn, "", {"gg": 1}, 10**9)
    with pytest.raises(SpecError, match=r"dcqcn.*'peper'.*did you mean paper"):
        algorithms.resolve_parameters(dcqcn, "peper", {}, 10**9)


def test_names_of_the_nic_are_not_those_of_tcp():
    assert "dcqcn" in algorithms.names() and "dctcp" not in algorithms.names()
    assert [name for name in controllers.names() if name not in algorithms.names()][:6] == list(controllers.names()[:6])
    with pytest.raises(UsageError, match=r"'dctcp'.*one of: dcqcn, swift"):
        algorithms.header_of("dctcp")


def test_list(capsys):
    assert main.main(["nic", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    dcqcn = next(line for line in lines if line.startswith("dcqcn "))
    assert "fits" in dcqcn and "40 B" in dcqcn and "cnp tx nack" in dcqcn


def test_show(capsys):
    assert main.main(["nic", "show", "dcqcn", "--preset", "firmware", "--line", "1Gbit/s"]) == 0
    text = capsys.readouterr().out
    timer = next(line for line in text.splitlines() if line.startswith("rate_timer"))
    assert timer.split()[1:4] == ["30000000", "55000", "1..2147483648"]
    assert "values: preset firmware, on a line of 1Gbit/s" in text
    assert main.main(["nic", "show", "nothing"]) == 2
    assert "NIC algorithm 'nothing' is unknown" in capsys.readouterr().err


def test_show_of_a_header_of_one_s_own(capsys, tmp_path):
    header = tmp_path / "own.h"
    header.write_text(algorithms.header_of("timely").read_text().replace('"../../cc.h"', '"cc.h"'))
    assert main.main(["nic", "show", str(header)]) == 0
    assert capsys.readouterr().out.startswith("timely: ")
    header.write_text(header.read_text() + "\nstatic inline int wrong(void) { return missing; }\n")
    assert main.main(["nic", "show", str(header)]) == 2
    stderr = capsys.readouterr().err
    assert stderr.startswith(f"dcgym: {header}: ") and "missing" in stderr and stderr.count("\n") == 1
    assert main.main(["nic", "show", str(Path("none.h"))]) == 2
    assert "none.h: no such file" in capsys.readouterr().err
