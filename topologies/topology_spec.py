# SPDX-License-Identifier: Apache-2.0
"""`[topology]`: the network, as a preset or a kind with its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from dc_gym.base.errors import TopologyError
from dc_gym.base.key import COUNT, KB, NUMBER, SIZE, TEXT, TIME, WORDS, Get, KeyFault, check, field_of, key, own_keys
from dc_gym.base.registry import Registry
from dc_gym.base.units import ETHERNET_BYTES, FRAME_BYTES, MTU_BYTES, format_size
from dc_gym.topologies import buffers, marking, qdiscs
from dc_gym.topologies.balance import ECMP, MODES, MOST_SAMPLES, PARAMETERS, WEIGHTS, Balance
from dc_gym.topologies.buffers import ClassRule, SharedBuffers, Xoff
from dc_gym.topologies.ecmp import ROUTINGS
from dc_gym.topologies.graph import CLASSES, DSCPS, LARGEST_MTU_BYTES, LARGEST_QUEUE_BYTES, LEAST_MTU_BYTES, LONGEST_DELAY_NS
from dc_gym.topologies.links import RULES, LinkRule, LinkSpec

HOST_QDISCS = ("bfifo", "fq")
ONLY_CLASS, TRIMMED = "all", "trimmed"
"""The names of the class of all packets, where a network has no others, and of that of trimmed frames."""
TRIMMED_DSCP, TRIM_ROOM_BYTES = 63, 64 * KB
LEAST_TRIM_BYTES = 74
"""The headers of a frame of RDMA (ctrl/nic/shim.h)."""
LARGEST_SCALE = 10**6
TOPOLOGIES = Registry("topology.kind", TopologyError, ("wiring",))


class Presets(MutableMapping[str, "TopologySpec"]):
    """The presets by name. Each is made, and the file of its kind imported, when somebody asks for it."""

    def __init__(self) -> None:
        self._makers: dict[str, Callable[[], TopologySpec]] = {}
        self._made: dict[str, TopologySpec] = {}

    def add(self, name: str, make: Callable[[], TopologySpec]) -> None:
        """Adds a preset that `make` makes."""
        self._makers[name] = make

    def __getitem__(self, name: str) -> TopologySpec:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __setitem__(self, name: str, preset: TopologySpec) -> None:
        self._makers[name] = lambda: preset
        self._made.pop(name, None)

    def __delitem__(self, name: str) -> None:
        del self._makers[name]
        self._made.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


PRESETS = Presets()
ORIGINS: dict[str, str] = {}
"""The origin of each preset's numbers, in Markdown."""


def _kind(get: Get) -> tuple[str, ...]:
    """Returns the kind that a section names, or its preset's kind."""
    preset = PRESETS.get(str(get("preset")))
    kind = str(get("kind") or (preset.kind if preset else ""))
    return (kind,) if kind in TOPOLOGIES else ()


def _qdisc(get: Get) -> tuple[str, ...]:
    """Returns the qdisc that a section names. Without one it is one of ours, which have no keys."""
    name = str(get("qdisc") or qdiscs.OURS[0])
    return (name,) if name in qdiscs.KINDS else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpec(LinkSpec):
    """`[topology]`: the network, as a preset or a kind with its keys.

    None means not given: the preset or the default applies. The keys of LinkSpec hold for all links.
    """

    preset: str | None = key(
        TEXT, names=lambda: PRESETS, help="one of [the presets](topologies.md#presets); the keys below override it"
    )
    kind: str | None = key(
        TEXT,
        names=lambda: TOPOLOGIES,
        help="needed without a preset; a [plug-in](extending.md#a-topology) may add kinds",
    )
    mtu_bytes: int | None = key(
        SIZE,
        low=LEAST_MTU_BYTES,
        high=LARGEST_MTU_BYTES,
        otherwise='`"1500B"`',
        help="largest IP packet of all ports; a full frame has 14 bytes more. Amounts in frames and in BDPs, headroom, shares of"
        " classes, and a NIC's full packet follow it",
    )
    host_qdisc: str | None = key(TEXT, names=lambda: HOST_QDISCS, otherwise='`"bfifo"`', help="qdisc of a host's egress")
    qdisc: str | None = key(
        TEXT,
        names=lambda: qdiscs.KINDS,
        otherwise='`"port"` in a lab, `"stock"` on the host',
        help="qdisc of switch ports: `port` is the lab's own, whose marking may change while it works and which writes"
        " telemetry; `stock` is Linux's bfifo, or RED where a port marks ([compared](links.md#the-queue-of-a-switch-port));"
        " [the others](topologies.md#queues-of-linux) are Linux' AQMs and fair queues",
    )
    scale: int | None = key(
        COUNT,
        low=1,
        high=LARGEST_SCALE,
        otherwise="1",
        help="s: divides rates and multiplies delays by s; queues keep their bytes ([what is not "
        "scale-free](topologies.md#scale))",
    )
    links: tuple[LinkRule, ...] | None = key(
        RULES, help="[other values for some links](topologies.md#some-links), or for one direction of them"
    )
    shared_buffer_bytes: int | None = key(
        SIZE,
        low=FRAME_BYTES,
        high=LARGEST_QUEUE_BYTES,
        otherwise="none: each port has its own",
        help="buffer that the ports of a switch [share](fabric.md#shared-buffers); a port then has a `buffer` of its own only if"
        " the spec gives one",
    )
    alpha: float | None = key(
        NUMBER,
        low=2**-16,
        high=2**15,
        otherwise="1",
        help="a lossy class is full at alpha times the free room of the shared buffer (dynamic threshold)",
    )
    reserve_bytes: int | None = key(SIZE, low=0, otherwise='`"0B"`', help="room of each class of each port that is never shared")
    pfc: str | None = key(
        TEXT,
        names=lambda: buffers.PFC,
        otherwise='`"off"`',
        help="[PAUSE frames](fabric.md#pauses): `classes` (priority flow control, IEEE 802.1Qbb), `port` (IEEE 802.3x), or `off`",
    )
    xoff: Xoff | None = key(
        buffers.XOFF,
        otherwise='`"1/16"`',
        help="a lossless class that came in at a port and holds that much beyond its reserve is paused: a share of the free room"
        " (`fdcc`: 1/16, `acc`: 1/9), or bytes",
    )
    xon_below_bytes: int | None = key(SIZE, low=0, otherwise='`"3kB"`', help="it goes on when it holds that much less than xoff")
    headroom_bytes: int | None = key(
        SIZE,
        low=0,
        otherwise="computed",
        help="room of each lossless class of each port for what still comes in after a pause ([computed](fabric.md#headroom) from"
        " delay, rate and frame)",
    )
    pfc_quanta: int | None = key(
        COUNT,
        low=1,
        high=buffers.LARGEST_QUANTA,
        otherwise="65535",
        help="time of a pause, in 512 bit times; it is repeated after half of it",
    )
    classes: tuple[ClassRule, ...] | None = key(buffers.CLASS_RULES, help="[traffic classes](fabric.md#classes) of all ports")
    trim_bytes: int | None = key(
        SIZE,
        low=LEAST_TRIM_BYTES,
        otherwise="off",
        help="[trimming](fabric.md#trimming): size to which switch ports cut a frame of RDMA data that they would drop; frames of"
        " TCP and UDP are dropped as before. Needs a lab and `nic.retransmit` `selective`",
    )
    trim_dscp: int | None = key(
        COUNT, low=0, high=DSCPS - 1, otherwise=str(TRIMMED_DSCP), help="DSCP of trimmed frames; no class may have it"
    )
    trim_buffer_bytes: int | None = key(
        SIZE,
        low=1,
        high=LARGEST_QUEUE_BYTES,
        otherwise=f'`"{format_size(TRIM_ROOM_BYTES)}"`',
        help="queue limit of the strict class `trimmed` of each switch port, which goes before all others; of a shared buffer it"
        " takes any free room",
    )
    routing: str = key(
        TEXT,
        "ecmp",
        names=lambda: ROUTINGS,
        help="choice among equally short paths: `ecmp` (a seeded hash of addresses, protocol and ports), or `single` (one path "
        "to each host; paths are assigned round-robin)",
    )
    balance: str | None = key(
        TEXT,
        names=lambda: MODES,
        otherwise='`"ecmp"`',
        help="how switches of a lab [choose among equal next hops](topologies.md#load-balancing): `ecmp` keeps a flow on the path"
        " of its hash; `random`, `round_robin` and `drill` choose for each frame, `flowlet` and `adaptive` when a flow paused",
    )
    balance_at: tuple[str, ...] | None = key(
        WORDS, otherwise="all", help='the switches that do so, or their layers (`["leaf"]`); the others keep to `ecmp`'
    )
    balance_gap_ns: int | None = key(
        TIME,
        low=0,
        high=LONGEST_DELAY_NS,
        otherwise='`adaptive`: `"0ns"`, each frame',
        help="`flowlet` (needed) and `adaptive`: a flow that was silent for so long may take another path",
    )
    balance_samples: int | None = key(
        COUNT, low=1, high=MOST_SAMPLES, otherwise="2", help="`drill`: ports that are drawn for each frame (d)"
    )
    balance_memory: int | None = key(
        COUNT, low=0, high=MOST_SAMPLES, otherwise="1", help="`drill`: best ports of the frame before that are added (m)"
    )
    balance_weights: str | None = key(
        TEXT,
        names=lambda: WEIGHTS,
        otherwise='`"equal"`',
        help="`rate`: a next hop of twice the rate counts twice where switches hash, draw or take turns",
    )
    shape: tuple[tuple[str, Any], ...] = own_keys(TOPOLOGIES, _kind)
    """The keys that the kind declares, as the file gives them."""
    qdisc_keys: tuple[tuple[str, Any], ...] = own_keys(qdiscs.KINDS, _qdisc)
    """The keys that the qdisc declares."""

    def __post_init__(self) -> None:
        check(self, "topology.")
        for number, rule in enumerate(self.links or ()):
            check(rule, f"topology.links[{number}].")
        self._check_thresholds()
        self._check_buffers()
        self._check_balance()
        self._check_trim()

    def _check_balance(self) -> None:
        """Raises KeyFault for parameters of another balance, one that lacks its own, and balance without a choice."""
        mode = self.balance or ECMP.mode
        for name, modes in PARAMETERS.items():
            if (value := getattr(self, name)) is not None and mode not in modes:
                field = field_of(self, name.removesuffix("_ns"))
                why = f"has no effect with topology.balance {mode!r}; leave it out, or give {' or '.join(modes)}"
                raise KeyFault(f"topology.{name.removesuffix('_ns')}", field.metadata["kind"].write(value), why)
        if mode == "flowlet" and self.balance_gap_ns is None:
            raise KeyFault("topology.balance", mode, "needs topology.balance_gap, a time that parts flowlets; give it")
        if self.balances and self.routing == "single":
            raise KeyFault(
                "topology.balance", mode, 'cannot go with topology.routing "single", which has one path; leave out one'
            )

    def _check_trim(self) -> None:
        """Raises KeyFault where trimming could not work, or changed nothing."""
        rules, size, dscp = self.classes or (), self.trim_bytes, self.trimmed_dscp
        if size is None:
            return
        owner = next((rule.name for rule in rules if dscp in rule.dscp), None)
        why = ""
        if size >= self.frame_bytes:
            why = f"cuts nothing: a full frame has {self.frame_bytes} B; give less"
        elif self.qdisc not in (None, "port"):
            why = f"cannot go with topology.qdisc {self.qdisc!r}, which drops by rules of its own; leave out one"
        elif self.trim_room_bytes < size:
            why = "is above topology.trim_buffer, which has room for no frame; change one"
        elif self.pauses and all(rule.lossless for rule in rules):
            why = "has no effect with topology.pfc where no class is lossy: nothing is dropped; leave out one"
        elif owner is not None:
            why = f"marks frames with DSCP {dscp}, which is of class {owner!r}; give another topology.trim_dscp"
        elif len(rules) >= CLASSES or any(rule.name == TRIMMED for rule in rules):
            why = f"adds a class {TRIMMED!r} to topology.classes, and a port has {CLASSES} of different names; change them"
        if why:
            raise KeyFault("topology.trim", format_size(size), why)

    @property
    def trimmed_dscp(self) -> int:
        """The DSCP of trimmed frames."""
        return TRIMMED_DSCP if self.trim_dscp is None else self.trim_dscp

    @property
    def trim_room_bytes(self) -> int:
        """The limit of the class of trimmed frames."""
        return TRIM_ROOM_BYTES if self.trim_buffer_bytes is None else self.trim_buffer_bytes

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes of switch ports that have some, by number."""
        names = tuple(rule.name for rule in self.classes or ()) or (ONLY_CLASS,)
        return names if self.trim_bytes is None else (*names, TRIMMED)

    @property
    def weighs_rates(self) -> bool:
        """True if next hops count by their rates."""
        return self.balance_weights == "rate"

    @property
    def balances(self) -> bool:
        """True if switches may send frames of one flow over several paths."""
        return self.balance not in (None, ECMP.mode)

    @property
    def balancing(self) -> Balance:
        """The way in which group ports choose. Its time follows the scale."""
        if self.balance == "drill":
            memory = 1 if self.balance_memory is None else self.balance_memory
            return Balance("drill", self.balance_samples or 2, memory)
        return Balance(self.balance or ECMP.mode, gap_ns=(self.balance_gap_ns or 0) * (self.scale or 1))

    def _check_buffers(self) -> None:
        """Raises KeyFault for keys of shared buffers, pauses and classes that do not go together."""
        pfc = self.pauses
        for name, needs, there in (
            ("alpha", "shared_buffer", self.shared_buffer_bytes is not None),
            ("reserve_bytes", "shared_buffer", self.shared_buffer_bytes is not None),
            ("xoff", "pfc", pfc),
            ("xon_below_bytes", "pfc", pfc),
            ("headroom_bytes", "pfc", pfc),
            ("pfc_quanta", "pfc", pfc),
            ("trim_dscp", "trim", self.trim_bytes is not None),
            ("trim_buffer_bytes", "trim", self.trim_bytes is not None),
        ):
            value = getattr(self, name)
            if value is not None and not there:
                named = name.removesuffix("_bytes")
                written = field_of(self, named).metadata["kind"].write(value)
                raise KeyFault(f"topology.{named}", written, f"has no effect without topology.{needs}; give it")
        if pfc and self.shared_buffer_bytes is None:
            raise KeyFault("topology.pfc", self.pfc, "charges frames to a shared buffer; give topology.shared_buffer")
        if self.xoff == 0:
            raise KeyFault("topology.xoff", "0B", "pauses the peer for every frame; give a share of the free room, or bytes")
        if pfc and self.headroom_bytes is not None and self.headroom_bytes < self.frame_bytes:
            why = (
                f"leaves no room for frames on their way when a pause is sent; give {self.frame_bytes}B or more, or leave it out"
            )
            raise KeyFault("topology.headroom", format_size(self.headroom_bytes), why)
        if self.classes == ():
            raise KeyFault("topology.classes", [], "has no class; leave it out for ports with one queue")
        lossless = any(rule.lossless for rule in self.classes or ())
        if lossless and not pfc:
            raise KeyFault("topology.classes", "lossless", 'needs pauses; give topology.pfc = "classes"')
        if pfc and self.classes and not lossless:
            raise KeyFault("topology.pfc", self.pfc, "has no class to pause; give one of topology.classes lossless = true")
        if self.qdisc not in (None, "port") and (pfc or self.classes or self.shared_buffer_bytes is not None):
            raise KeyFault("topology.qdisc", self.qdisc, "has no classes, no shared buffer and no pauses; leave it out")

    @property
    def frame_bytes(self) -> int:
        """A full frame: Ethernet's header and the largest IP packet."""
        return ETHERNET_BYTES + (MTU_BYTES if self.mtu_bytes is None else self.mtu_bytes)

    @property
    def pauses(self) -> bool:
        """True if switches pause their peers."""
        return self.pfc not in (None, "off")

    @property
    def buffers(self) -> SharedBuffers | None:
        """The rule by which switches share their buffers; None: they do not share them."""
        if self.shared_buffer_bytes is None:
            return None
        return SharedBuffers(
            bytes=self.shared_buffer_bytes,
            reserve_bytes=self.reserve_bytes or 0,
            pfc=self.pfc or "off",
            xoff=buffers.XOFF_RULES["fdcc"] if self.xoff is None else self.xoff,
            xon_below_bytes=buffers.XON_BELOW_BYTES if self.xon_below_bytes is None else self.xon_below_bytes,
            headroom_bytes=self.headroom_bytes,
            quanta=self.pfc_quanta or buffers.LARGEST_QUANTA,
        )

    @property
    def marks_by_itself(self) -> bool:
        """True if the ports' qdisc is one of Linux' own, which marking is not for."""
        return self.qdisc in qdiscs.KINDS and self.qdisc not in qdiscs.OURS

    def _check_thresholds(self) -> None:
        """Raises KeyFault for a threshold that no port's marking reads. Under 'auto' K belongs to the step that it may choose."""
        read = self.read_thresholds(ecn=True)
        by = f"qdisc {self.qdisc!r}" if self.marks_by_itself else f"marking {self._marking!r}"
        for name, value in self.thresholds:
            if name not in read:
                written = field_of(self, name).metadata["kind"].write(value)
                raise KeyFault(f"topology.{name}", written, f"has no effect with {by}; remove it")

    @property
    def _marking(self) -> str:
        preset = PRESETS.get(str(self.preset))
        return self.marking or (preset.marking if preset else None) or marking.AUTO

    def read_thresholds(self, ecn: bool) -> set[str]:
        """Returns the keys that the markings of all links read. 'auto' counts as its value with or without ECN."""
        if self.marks_by_itself:
            return set()
        overrides = [rule.marking for rule in self.links or ()] + [rule.marking for rule in self.classes or ()]
        names = {self._marking, *(marked or self._marking for marked in overrides)}
        return {name for marking_name in names for name in marking.KINDS[marking.resolve(marking_name, ecn)].declared}


TOPOLOGIES.belongs_to(TopologySpec)
qdiscs.KINDS.belongs_to(TopologySpec)
marking.KINDS.belongs_to(TopologySpec, LinkRule, ClassRule)
