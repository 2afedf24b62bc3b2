# SPDX-License-Identifier: Apache-2.0
"""packetdrill scripts: the language, the wire, and the lab. A verdict of "passed" counts only because wrong scripts fail."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Quiet
from dc_gym.cli import main as command
from dc_gym.cli.conformance import host, main, report
from dc_gym.cli.conformance.calls import CALLS
from dc_gym.cli.conformance.connection import Connection, State
from dc_gym.cli.conformance.guest import ScriptOutcome
from dc_gym.cli.conformance.interpreter import unsupported
from dc_gym.cli.conformance.packets import (
    FLAG_BITS,
    Segment,
    decode,
    decode_options,
    encode,
    encode_icmp,
    encode_options,
    icmp_numbers,
)
from dc_gym.cli.conformance.script import ANYTHING, Call, Either, Field, Name, ScriptError, Struct, TcpOption, When, parse
from dc_gym.cli.conformance.symbols import TcpInfo
from dc_gym.cli.conformance.tun import FAMILIES

SERVER = """
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
   +0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
   +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
  +.1 < . 1:1(0) ack 1 win 257
   +0 accept(3, ..., ...) = 4
"""
SYSCTL = "`sysctl -qw net.ipv4.tcp_rmem='4096 540000 15728640'`"
WRITES = SERVER + "   +0 write(4, ..., 1000) = 1000\n"
GOOD = WRITES + "   +0 > P. 1:1001(1000) ack 1\n +.01 < . 1:1(0) ack 1001 win 257\n"


def one(line: str):
    """Returns the action of a script of one event."""
    (event,) = parse(f"0 {line}\n", "t").events
    return event.action


# -- the language -------------------------------------------------------------


def test_a_script_has_options_commands_and_events() -> None:
    text = f"// comment\n--mss=1000\n--send_omit_free // why\n`init \\`\n{SERVER}+.5~+.6 > R 1:1(0)\n* > . 1:1(0) ack 1\n`end`\n"
    script = parse(text, "t")
    assert script.options == (("mss", "1000"), ("send_omit_free", ""))
    assert script.option("mss") == "1000" and script.option("mtu") is None
    assert (script.init, script.cleanup, len(script.events)) == ("init \\", "end", 10)
    whens = [event.when for event in script.events]
    assert whens[0] == When(0) and whens[6] == When(100_000_000, relative=True)
    assert whens[8:] == [When(500_000_000, 600_000_000, True), When(None)]
    assert script.events[0].line == 6


@pytest.mark.parametrize(
    ("text", "flags", "ecn"),
    [
        ("> S 0:0(0)", "S", None),
        ("> . 1:1(0) ack 1", ".", None),
        ("> [ect0] P.5 1:1(0) ack 1", "P.5", "ect0"),
        ("> [noecn] SEWA 0:0(0)", "SEWA", "noecn"),
        ("> [ect1] F5. 1:1(0) ack 1", "F5.", "ect1"),
        ("> - 1:1(0)", "", None),
    ],
)
def test_flags_and_ecn(text: str, flags: str, ecn: str | None) -> None:
    packet = one(text)
    assert (packet.flags, packet.ecn, packet.inbound) == (flags, ecn, False)


def test_packets_with_everything() -> None:
    packet = one("< PU. 1:101(100) ack 7 win 257 urg 100 <nop,nop,TS val 4294967295 ecr 7,sack 1:2 3:4,FO TFO_COOKIE>")
    assert (packet.seq, packet.length, packet.ack, packet.window, packet.urgent) == (1, 100, 7, 257, 100)
    kinds = [(option.kind, option.values) for option in packet.options]
    assert kinds[2:] == [("TS", (4294967295, 7)), ("sack", ((1, 2), (3, 4))), ("FO", ("TFO_COOKIE",))]
    assert one("> . 1:1(0) ack 1 <...>").options is None
    assert one("> . 1:1(0) ack 1 <ECN e1b 1 ceb 0>").options == (TcpOption("ECN", (("e1b", 1), ("ceb", 0))),)
    icmp = one("< icmp unreachable frag_needed mtu 1300 [1:1001(1000)]")
    assert (icmp.type, icmp.code, icmp.mtu, icmp.seq, icmp.length) == ("unreachable", "frag_needed", 1300, 1, 1000)


def test_system_calls() -> None:
    call = one("fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = -1 EAGAIN (Resource temporarily unavailable)")
    assert (call.name, call.args[1:], call.result, call.errno) == (
        "fcntl", (Name("F_SETFL"), Either((Name("O_RDWR"), Name("O_NONBLOCK")))), -1, "EAGAIN",
    )  # fmt: skip
    assert one("...0.200 read(4, NULL, 0x10) = ...").end_ns == 200_000_000
    assert one("...0.200 read(4, NULL, 0x10) = ...").result == ANYTHING
    assert one(r'setsockopt(3, SOL_TCP, X, "\xa1b" "c", 3) = 0').args[3] == b"\xa1bc"
    message = one("recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{...,7}], msg_flags=A|B}, MSG_ERRQUEUE) = 0").args[1]
    assert message.get("msg_iov") == [Struct((ANYTHING, 7))] and message.get("msg_flags") == Either((Name("A"), Name("B")))
    assert message.items[0] == Field("msg_name", ANYTHING)
    assert one('connect(3, {sa_family=inet_addr("1.2.3.4")}, 4) = 0').args[1].get("sa_family") == Call("inet_addr", (b"1.2.3.4",))


@pytest.mark.parametrize("text", ["0 < S 0:0(0 win 1", "+0", "0 f(1 = 0", "0 < . 1:5(3) win 1", "0 < . 1:1(0) win 1 <...>"])
def test_what_is_not_understood_is_named_by_its_line(text: str) -> None:
    with pytest.raises(ScriptError) as refusal:
        parse(f"\n{text}\n", "bad.pkt")
    assert str(refusal.value).startswith("bad.pkt") and "\n" not in str(refusal.value)


# -- the wire -----------------------------------------------------------------

OPTIONS = [
    [TcpOption("mss", (1460,)), TcpOption("sackOK"), TcpOption("TS", (1, 2)), TcpOption("nop"), TcpOption("wscale", (7,))],
    [TcpOption("nop"), TcpOption("nop"), TcpOption("sack", ((1, 2), (3, 4)))],
    [TcpOption("FO", ("3021b9d889017eeb",)), TcpOption("nop"), TcpOption("eol")],
    [TcpOption("FOEXP", ("aabbccdd",))],
    [TcpOption("ECN", (("e1b", 1), ("ceb", 2), ("e0b", 3))), TcpOption("nop")],
    [TcpOption("ECN", (("e0b", 1), ("ceb", 0xFFFFFF))), TcpOption("md5", ("00" * 16,)), TcpOption("nop"), TcpOption("nop")],
]


@pytest.mark.parametrize("options", OPTIONS)
def test_options_there_and_back(options: list[TcpOption]) -> None:
    assert list(decode_options(encode_options(options))) == options


def test_options_must_fill_words_and_have_sane_lengths() -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        encode_options([TcpOption("nop")])
    for data in (b"\x02\x00\x00\x00", b"\x02\x09\x00\x00", b"\x02"):
        with pytest.raises(ValueError, match="length"):
            list(decode_options(data))


@pytest.mark.parametrize("name", FAMILIES)
def test_segments_there_and_back(name: str) -> None:
    family = FAMILIES[name]
    segment = Segment(family.wire_remote, family.wire_local, 1, 8080, 2**32 - 1, 7, 0x1FF, 9, 3, b"\1" * 4, b"x" * 101, 2)
    packet = encode(segment)
    assert decode(packet) == segment
    start = 40 if name == "ipv6" else 20
    pseudo = packet[8:40] if name == "ipv6" else packet[12:20]
    words = pseudo + (6).to_bytes(4, "big") + (len(packet) - start).to_bytes(4, "big") + packet[start:] + b"\0"
    assert sum(int.from_bytes(words[at : at + 2], "big") for at in range(0, len(words), 2)) % 0xFFFF == 0
    error = encode_icmp("unreachable", "port_unreachable", 0, family.wire_remote, family.wire_local, 5, (8080, 1))
    assert decode(error) is None and error[start] == (1 if name == "ipv6" else 3)


def established() -> Connection:
    connection = Connection.accepted(100, 0)
    connection.state, connection.local_isn = State.ESTABLISHED, 5000
    return connection


def live(**changes: object) -> Segment:
    """Returns the segment that the script's `> P. 1:11(10) ack 1` expects from the kernel, with changes."""
    family = FAMILIES["ipv4"]
    fields = {
        "src": family.wire_local, "dst": family.wire_remote, "src_port": 8080, "dst_port": 40001, "seq": 5001, "ack": 101,
        "flags": FLAG_BITS["P"] | FLAG_BITS["."], "window": 257, "urgent": 0, "options": b"", "payload": bytes(10), "tos": 2,
    }  # fmt: skip
    return Segment(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"seq": 5002}, "2:12(10)"),
        ({"payload": bytes(9)}, "1:10(9)"),
        ({"payload": b"x" * 10}, "payload that is not zero"),
        ({"ack": 102}, "ack 2"),
        ({"flags": FLAG_BITS["."]}, "flags ."),
        ({"flags": 0x18 | 0x40}, "flags P.E"),
        ({"flags": 0x18 | 0x200}, "reserved bits 0x1"),
        ({"window": 256}, "win 256, not 257"),
        ({"urgent": 1}, "urg 1"),
        ({"tos": 1}, "[ect1], not [ect0]"),
        ({"options": b"\1\1\1\1"}, "options <nop,nop,nop,nop>"),
    ],
)
def test_every_field_is_compared(changes: dict[str, object], words: str) -> None:
    problems = established().compare(one("> [ect0] P. 1:11(10) ack 1 win 257"), live(**changes), {}, 0, 4000)
    assert (words in "; ".join(problems)) if words else not problems


def test_the_ace_counter_and_accurate_ecn() -> None:
    packet = one("> P.5 1:11(10) ack 1 <ECN e1b 1 ceb 2 e0b 3,nop>")
    data = encode_options([TcpOption("ECN", (("e1b", 1), ("ceb", 2), ("e0b", 3))), TcpOption("nop")])
    assert not established().compare(packet, live(flags=0x18 | 0x40 | 0x100, options=data), {}, 0, 4000)
    problems = established().compare(packet, live(flags=0x18 | 0x80, options=data[:-1] + b"\0"), {}, 0, 4000)
    assert problems[0] == "flags P.2" and "options" in problems[1]


def test_timestamps_are_mapped_and_their_pace_is_checked() -> None:
    connection, family = established(), FAMILIES["ipv4"]
    for script, value in ((10, 900), (20, 910)):
        options = b"\1\1" + encode_options([TcpOption("TS", (value, 1)), TcpOption("nop"), TcpOption("nop")])[:10]
        packet = one(f"> P. 1:11(10) ack 1 <nop,nop,TS val {script} ecr 1>")
        assert not connection.compare(packet, live(options=options), {}, 1000, 4000)
    assert "TS val 20, not 90" in connection.compare(
        one("> P. 1:11(10) ack 1 <nop,nop,TS val 90 ecr 1>"), live(options=options), {}, 1000, 4000
    )
    echoed = connection.to_live(one("< . 1:1(0) ack 11 win 1 <nop,nop,TS val 5 ecr 20>"), family, {})
    assert list(decode_options(echoed.options))[2] == TcpOption("TS", (5, 910)) and echoed.ack == 5011 and echoed.seq == 101
    with pytest.raises(ValueError, match="timestamp 77"):
        connection.to_live(one("< . 1:1(0) ack 11 win 1 <nop,nop,TS val 5 ecr 77>"), family, {})


def test_packets_of_others_are_not_taken() -> None:
    connection, family = established(), FAMILIES["ipv4"]
    assert connection.match(encode(live()), family) == live()
    assert connection.match(encode(live(dst_port=9)), family) is None
    assert connection.match(encode(live(src_port=9)), family) is None
    assert connection.match(encode(live()), FAMILIES["ipv6"]) is None


def test_tcp_info_is_as_the_header_declares_it() -> None:
    header = "struct tcp_info {\n\t__u8 a; /* x */\n\t__u8 b : 4, c : 4;\n\t__u8 d:1, e:2;\n\t__u32 f;\n\t__u64\tg;\n};\n"
    info = TcpInfo(header)
    assert info.names == ("a", "b", "c", "d", "e", "f", "g")
    value = info.struct.from_buffer_copy(bytes([1, 0x32, 0b101, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]))
    assert [getattr(value, name) for name in info.names] == [1, 2, 3, 1, 2, 4, 5]


def test_what_is_unsupported_is_known_before_a_lab_boots() -> None:
    assert list(unsupported(parse("--wire_client\n0 mmap(1) = 0\n", "t"))) == ["option --wire_client", "system call mmap"]
    assert not unsupported(parse(SERVER, "t")) and "socket" in CALLS


# -- the report ---------------------------------------------------------------


def test_report_counts_and_explains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "KNOWN", {("b", "ipv4"): "no option", ("a", "ipv6"): "once"})
    verdicts = [
        ScriptOutcome("a", "ipv4", "passed", "", 3, 50),
        ScriptOutcome("a", "ipv6", "passed", "", 3, 2_500_000),
        ScriptOutcome("b", "ipv4", "failed", "line 3: sent x", said=("sysctl: no",)),
        ScriptOutcome("c", "ipv4", "failed", "line 9: oops"),
        ScriptOutcome("d", "ipv4", "unsupported", "option --x"),
    ]
    text = "\n".join(report.lines(verdicts))
    assert "ipv4: 1 passed, 2 failed, 1 unsupported" in text and "all: 2 passed, 2 failed, 1 unsupported" in text
    assert "known: no option" in text and "a command said: sysctl: no" in text and "2.50 ms" in text
    assert "of 2 that passed, 1 have every packet within a microsecond" in text
    assert list(report.surprises(verdicts)) == [
        "a (ipv6) passed, and dc_gym/cli/conformance/known.py expects it to fail",
        "c (ipv4) failed",
    ]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_counts(page, verdicts, "7.2-lab", ["CONFIG_X=y"])
    written = page.read_text()
    assert written.startswith("before\n") and written.endswith("after\n") and "old" not in written
    assert "- all: 2 passed, 2 failed, 1 unsupported" in written and "CONFIG_X=y" in written and "not explained yet" in written


def test_options_that_the_kernel_lacks(tmp_path: Path) -> None:
    fragment, config = tmp_path / "asked", tmp_path / "got"
    fragment.write_text("CONFIG_HZ_1000=y\nCONFIG_TUN=y\nCONFIG_SYN_COOKIES=y\n")
    config.write_text("CONFIG_HZ=1000\nCONFIG_TUN=y\n# CONFIG_SYN_COOKIES is not set\n")
    assert report.lacking_options(fragment, config) == ["CONFIG_SYN_COOKIES=y"]
    assert report.lacking_options(tmp_path / "none", config) == []


def test_places_are_checked_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("no marks")
    for to_json, to_write in ((tmp_path / "none/x.json", None), (None, tmp_path / "none.md"), (None, tmp_path / "page.md")):
        with pytest.raises(UsageError, match=r"none|not in it"):
            report.check_places(to_json, to_write)
    report.check_places(tmp_path / "x.json", None)


def test_selection(tmp_path: Path) -> None:
    (tmp_path / "a.pkt").write_text(SERVER)
    (tmp_path / "b.pkt").write_text("--ip_version=ipv6\n" + SERVER)
    (tmp_path / "c.pkt").write_text("nonsense")
    paths = sorted(tmp_path.glob("*.pkt"))
    cases, refused = host.select(paths, [], ["ipv4", "ipv6"])
    assert [(case.script.name, case.family) for case in cases] == [("a", "ipv4"), ("a", "ipv6"), ("b", "ipv6")]
    assert [(verdict.script, verdict.status) for verdict in refused] == [("c", "unsupported")] * 2
    with pytest.raises(ScriptError, match="c:1"):
        host.select(paths, [], ["ipv4"], must_parse=True)
    with pytest.raises(UsageError, match="--list"):
        host.select(paths, ["zzz*"], ["ipv4"])
    with pytest.raises(UsageError, match="ipv5"):
        host.families("ipv5")


def test_a_folder_stands_for_its_scripts_and_equal_names_are_told_apart(tmp_path: Path) -> None:
    for name in ("a/x.pkt", "b/x.pkt", "b/deep/y.pkt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SERVER)
    cases, _ = host.select([tmp_path, tmp_path / "a" / "x.pkt"], [], ["ipv4"])
    assert sorted(case.script.name for case in cases) == ["a/x", "b/x", "y"]
    chosen, _ = host.select([tmp_path], ["x"], ["ipv4"])
    assert sorted(case.script.name for case in chosen) == ["a/x", "b/x"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"empty: no script \(\*.pkt\)"):
        host.select([tmp_path / "empty"], [], ["ipv4"])


def test_addresses_choose_the_ip_version(tmp_path: Path) -> None:
    (tmp_path / "a.pkt").write_text("--local_ip=192.168.0.2\n--remote_ip=10.248.0.2\n" + SERVER)
    (tmp_path / "b.pkt").write_text("--local_ip=fd::1\n" + SERVER)
    cases, refused = host.select([tmp_path], [], list(FAMILIES))
    assert [(case.script.name, case.family) for case in cases] == [
        ("a", "ipv4"),
        ("a", "ipv4-mapped-ipv6"),
        ("b", "ipv6"),
    ]
    assert refused == []
    (tmp_path / "c.pkt").write_text("--local_ip=1.2.3\n" + SERVER)
    with pytest.raises(UsageError, match=r"c: '1\.2\.3'.*IPv4"):
        host.select([tmp_path], [], ["ipv4"])


def test_icmp_codes_have_the_kernels_numbers() -> None:
    assert icmp_numbers("unreachable", "host_unreachable", 4) == (3, 1)
    assert icmp_numbers("unreachable", "host_prohibited", 4) == (3, 10)
    assert icmp_numbers("unreachable", "address_unreachable", 16) == (1, 3)
    with pytest.raises(KeyError, match="CODE"):
        icmp_numbers("unreachable", "CODE", 4)


def test_a_scaled_echo_counts_from_the_first_timestamp() -> None:
    connection = Connection(State.ESTABLISHED, timestamps={100: 5000}, first_timestamps=(100, 5000))
    packet = one("< . 1:1(0) ack 1 win 1 <nop,nop,TS val 1 ecr 130>")
    live = connection.to_live(packet, FAMILIES["ipv4"], {}, scaled=True)
    assert list(decode_options(live.options))[-1] == TcpOption("TS", (1, 5030))
    with pytest.raises(ValueError, match="130"):
        connection.to_live(packet, FAMILIES["ipv4"], {})


def test_missing_programs_are_named_with_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host.check_programs(kernels_own=False)
    monkeypatch.setattr(host, "SEARCH", str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"sysctl, ethtool.*apt install iproute2 procps ethtool"):
        host.check_programs(kernels_own=True)


# -- the lab ------------------------------------------------------------------


def verdicts_of(
    folder: Path, kernel: Path, scripts: dict[str, str], families: tuple[str, ...] = ("ipv4",)
) -> dict[str, ScriptOutcome]:
    for name, text in scripts.items():
        (folder / f"{name}.pkt").write_text(text)
    folder.chmod(0o755)
    cases, refused = host.select([folder / f"{name}.pkt" for name in scripts], [], families)
    assert not refused
    header = "struct tcp_info {\n\t__u8\ttcpi_state;\n\t__u8\ttcpi_ca_state;\n};\n"
    verdicts = host.run(cases, header, kernel, 1, Quiet())
    return {f"{verdict.script}-{verdict.family}" if len(families) > 1 else verdict.script: verdict for verdict in verdicts}


WRONG = {
    "sequence": (
        WRITES + "+0 > P. 1:1002(1001) ack 1\n",
        "line 11: sent pieces of 1000+1000 bytes that are not one; expected P. 1:1002(1001) ack 1",
    ),
    "flags": (WRITES + "+0 > . 1:1001(1000) ack 1\n", "sent flags P."),
    "option": (SERVER.replace("wscale 8", "wscale 9"), "option wscale 8, not wscale 9"),
    "options": (SERVER.replace("mss 1460,nop,nop,sackOK,nop,wscale 8", "mss 1460"), "options <mss 1460,nop,nop,sackOK"),
    "late": (GOOD.replace("+0 > P.", "+.01 > P."), "expected at 0.110002 s"),
    "again": (WRITES + "+0 > P. 1:1001(1000) ack 1\n+.01 > P. 1:1001(1000) ack 1\n", "at 0.407750 s, expected at 0.110003 s"),
    "silent": (GOOD + "+0 > P. 1001:2001(1000) ack 1\n", "no packet was sent; expected P. 1001:2001(1000) ack 1"),
    "result": (SERVER + "+0 write(4, ..., 1000) = 999\n", "write answered 1000, expected 999"),
    "errno": (
        SERVER + "+0 fcntl(4, F_SETFL, O_NONBLOCK) = 0\n+0 read(4, ..., 1) = -1 EPIPE (x)\n",
        "answered -1 EAGAIN, expected EPIPE",
    ),
    "blocking": (SERVER + "+0...0.3 read(4, ..., 10) = 10\n+.1 < P. 1:11(10) ack 1 win 257\n", "read returned at 0.200"),
    "assertion": (
        SERVER + "+0 %{ assert tcpi_state == 7, tcpi_state }%\n",
        "assertion failed: assert tcpi_state == 7, tcpi_state (is 1)",
    ),
    "command": (SERVER + "+0 `echo no way >&2; false`\n", "no way"),
    "getsockopt": (SERVER + "+0 getsockopt(4, SOL_SOCKET, SO_ERROR, [5], [4]) = 0\n", "is 0, expected 5"),
    "echo": (SERVER + "+0 < . 1:1(0) ack 1 win 9 <nop,nop,TS val 1 ecr 5>\n", "timestamp 5"),
}
BLOCKING = SYSCTL + SERVER + "+0...0.1 read(4, ..., 10) = 10\n+.1 < P. 1:11(10) ack 1 win 257\n+0 > . 1:1(0) ack 11\n"


@pytest.mark.lab
def test_wrong_scripts_fail_and_right_ones_pass(tmp_path: Path, lab_kernel: Path) -> None:
    scripts = {name: SYSCTL + text for name, (text, _) in WRONG.items()}
    verdicts = verdicts_of(
        tmp_path, lab_kernel, {**scripts, "good": SYSCTL + GOOD, "blocks": BLOCKING, "name": SYSCTL + SERVER + "+0 %{ x }%\n"}
    )
    for name, (_, words) in WRONG.items():
        assert verdicts[name].status == "failed" and words in verdicts[name].why, f"{name}: {verdicts[name]}"
    assert verdicts["good"].status == "passed" and verdicts["good"].packets == 2
    assert verdicts["good"].worst_ns < 1000, "in virtual time a packet leaves when it is due"
    assert verdicts["blocks"].status == "passed", verdicts["blocks"]
    assert verdicts["name"].status == "unsupported"


CLIENT = "`sysctl -qw net.ipv4.tcp_fastopen=5`\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n"
ANSWERED = "+.01 < S. 0:0(0) ack 101 win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>\n+0 > . 101:101(0) ack 1\n"
RIGHT = {
    "an error with two names": CLIENT + "+0 sendto(3, ..., 0, MSG_FASTOPEN, AF_UNSPEC, ...) = -1 EOPNOTSUPP (x)\n",
    "an unsigned value": CLIENT
    + "+0 setsockopt(3, SOL_TCP, TCP_NOTSENT_LOWAT, [0xffffffff], 4) = 0\n"
    + "+0 getsockopt(3, SOL_TCP, TCP_NOTSENT_LOWAT, [0xffffffff], [4]) = 0\n"
    + "+0 getsockopt(3, SOL_TCP, TCP_NOTSENT_LOWAT, [-1], [4]) = 0\n",
    "the name in a message": CLIENT
    + "+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
    + "+0 sendmsg(3, {msg_name(...)=..., msg_iov(1)=[{..., 100}], msg_flags=0}, MSG_FASTOPEN) = 100\n"
    + "+0 > S 0:100(100) <...>\n"
    + ANSWERED,
    "fast open of a connection": CLIENT
    + "+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
    + "+0 sendto(3, ..., 100, MSG_FASTOPEN, ..., ...) = 100\n"
    + "+0 > S 0:100(100) <...>\n"
    + ANSWERED
    + "+0 sendto(3, ..., 200, MSG_FASTOPEN, ..., ...) = 200\n"
    + "+0 > P. 101:301(200) ack 1\n",
    "a command for bash": SYSCTL + "0 `false &> /dev/null || exit 0; exit 1`\n",
}
SPLIT = WRITES + "+0 write(4, ..., 1000) = 1000\n+0 > P. 1:2001(2000) ack 1\n"


@pytest.mark.lab
def test_scripts_as_google_writes_them(tmp_path: Path, lab_kernel: Path) -> None:
    address = "--local_ip=192.168.0.2\n--remote_ip=10.248.0.2\n"
    asserts = SERVER + "+0 %{\nassert tcpi_state == 1\nassert tcpi_ca_state == 9, tcpi_ca_state\n}%\n"
    code = SERVER + "+0 < icmp unreachable CODE\n"
    more = {"address": address + SYSCTL + GOOD, "strict": "--strict_segments\n" + SYSCTL + SPLIT, "joined": SYSCTL + SPLIT}
    verdicts = verdicts_of(tmp_path, lab_kernel, {**RIGHT, **more, "asserts": SYSCTL + asserts, "code": SYSCTL + code})
    for name in (*RIGHT, "address", "joined"):
        assert verdicts[name].status == "passed", f"{name}: {verdicts[name]}"
    assert "assertion failed: assert tcpi_ca_state == 9, tcpi_ca_state (is 0)" in verdicts["asserts"].why
    assert verdicts["code"].status == "unsupported" and "'CODE' is no name of a type or code" in verdicts["code"].why
    assert verdicts["strict"].status == "failed" and "sent 1:1001(1000)" in verdicts["strict"].why


@pytest.mark.lab
def test_every_ip_version(tmp_path: Path, lab_kernel: Path) -> None:
    by_name = verdicts_of(tmp_path, lab_kernel, {"good": SYSCTL + GOOD}, tuple(FAMILIES))
    assert {name: verdict.status for name, verdict in by_name.items()} == {f"good-{name}": "passed" for name in FAMILIES}, by_name


def arguments(**changes: object) -> argparse.Namespace:
    fields = {"scripts": [], "only": [], "ip": "ipv4", "jobs": None, "list": False, "json": None, "write": None, "source": None}
    return argparse.Namespace(**(fields | {"verbose": False, "overrides": [], "kernel_tree": None} | changes))


REPRESENTATIVE = (
    "dctcp_*", "tcp_basic_*", "tcp_ecn_*", "tcp_slow_start_slow-start-ack-per-1pkt", "tcp_fast_recovery_prr-ss-10pkt-lost-1",
    "tcp_accecn_delivered_updates", "tcp_timestamping_server", "tcp_blocking_*", "tcp_fastopen_server_basic-rw", "tcp_sack_*",
)  # fmt: skip


@pytest.mark.lab
def test_representative_scripts_of_the_kernel(tmp_path: Path, lab_kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert main(arguments(only=list(REPRESENTATIVE), json=out), Quiet()) == 0, capsys.readouterr().out
    document = json.loads(out.read_text())
    assert document["counts"] == {"passed": len(document["cases"])} and len(document["cases"]) >= 15
    assert max(case["worst_ns"] for case in document["cases"] if "slow_start" in case["script"]) < 1000


@pytest.mark.lab
def test_interruption_leaves_nothing(tmp_path: Path, lab_kernel: Path) -> None:
    (tmp_path / "wait.pkt").write_text("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 %{\nwhile True: pass\n}%\n")
    tmp_path.chmod(0o755)
    argv = [
        sys.executable,
        "-m",
        "dc_gym.cli.main",
        "conformance",
        str(tmp_path / "wait.pkt"),
        "--ip",
        "ipv4,ipv6",
        "--jobs",
        "2",
    ]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert process.stderr is not None
    while "labs at a time" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.stderr.read().splitlines()[-1] == "dcgym: interrupted" and process.wait() == 130
    assert [path.name for path in tmp_path.iterdir()] == ["wait.pkt"]


@pytest.mark.lab
@pytest.mark.long
def test_all_scripts_of_the_kernel(tmp_path: Path, lab_kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only scripts that known.py names may fail, and a script's timing does not depend on the lab that it ran in."""
    outs = [tmp_path / "one.json", tmp_path / "two.json"]
    assert main(arguments(ip="ipv4,ipv6,ipv4-mapped-ipv6", json=outs[0]), Quiet()) == 0, capsys.readouterr().out
    assert main(arguments(jobs=1, json=outs[1]), Quiet()) == 0
    both = [{(case["script"], case["family"]): case for case in json.loads(out.read_text())["cases"]} for out in outs]
    assert len(both[0]) > 400
    for key, case in both[1].items():
        assert both[0][key] == case


CHOOSES = """
0 `sysctl -q net.ipv4.tcp_congestion_control={chosen}`
+0 `test "$(sysctl -n net.ipv4.tcp_congestion_control)" = {used}`
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
"""


@pytest.mark.lab
def test_a_chosen_tcp_takes_the_place_of_linux_s_default_alone(
    tmp_path: Path, registries: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, chosen, used in (("default", "cubic", "mine"), ("named", "reno", "reno")):
        (tmp_path / f"{name}.pkt").write_text(CHOOSES.format(chosen=chosen, used=used))
    tmp_path.chmod(0o755)
    words = ["conformance", str(tmp_path), "--ip", "ipv4", "--quiet"]
    plug_in = Path(__file__).parents[3] / "examples/tcp_mine.c"
    assert command.main([*words, "--set", f"plugins={plug_in}", "--set", "controller.name=mine"]) == 0
    assert command.main(words) == 1
    assert "not as expected: default (ipv4) failed\n" in capsys.readouterr().out
    assert command.main([*words, "--set", "controller.name=dcqcn"]) == 2
    assert "name a TCP" in capsys.readouterr().err
