# SPDX-License-Identifier: Apache-2.0
"""The policy file: one .npz format for the policies of NICs, of agents and of switches (docs/policy-file.md).

A file is an envelope around a payload. The envelope is a manifest: the format's name and version, the kind of the payload, the
policy's provenance, and a checksum of the whole file. The payload is the policy itself: NicPolicy (integers for a NIC),
AgentPolicy (a network of floats for an environment's agent), or a method's policy.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dc_gym.base import methods, plain_json
from dc_gym.base.errors import AgentError, with_remedy
from dc_gym.base.npz import load_arrays, write_arrays
from dc_gym.base.outputs import Mine
from dc_gym.base.spelling import unknown

FORMAT, VERSION = "dcgym-policy", 2
GUIDE = "docs/policy-file.md says what a policy file is"
NIC, AGENT = "a NIC", "an agent"
OWNERS = {"dense": AGENT}
"""The owner of each kind of payload that is no method's."""
RUN = {NIC: "--set controller={algorithm} --set nic.policy={path}", AGENT: "--set controller={path}"}
"""The options of `dcgym run` for a policy file of these owners."""

Arrays = Mapping[str, npt.NDArray[Any]]


def nic_algorithm(kind: str) -> str:
    """Returns the algorithm that comes with dc-gym and runs policies of this kind. A kind that is not for NICs has none: ""."""
    policy = methods.nic_policies().get(kind)
    return "" if policy is None else policy.algorithm


def _kinds() -> dict[str, tuple[str, str]]:
    """Returns the owner of each kind of payload, and the options of `dcgym run` for it."""
    owners = {kind: (owner, RUN[owner]) for kind, owner in OWNERS.items()}
    for method in methods.by_name().values():
        owners |= {kind: (NIC, RUN[NIC]) for kind in method.nic_policies}
        owners |= {kind: (policy_file.owner, policy_file.run) for kind, policy_file in method.policy_files.items()}
    return owners


@dataclass(frozen=True, slots=True)
class Payload:
    """A policy in a file, without the envelope."""

    entries: Mapping[str, Any]
    """The entries of the manifest's `payload`."""
    arrays: Arrays


class PolicyFile(ABC):
    """A policy that a file can hold."""

    __slots__ = ()
    OWNER: ClassVar[str]
    """The place that runs the policy: NIC, AGENT, or the place of a method's policy file."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of its payload."""

    @property
    @abstractmethod
    def provenance(self) -> Mapping[str, Any]:
        """The origin of the policy, for readers and for repeating the training: `command`, `seed`, `versions` and `fingerprint`
        (of a training's spec and settings), where they are known."""

    @abstractmethod
    def to_payload(self) -> Payload: ...

    @classmethod
    @abstractmethod
    def from_payload(cls, kind: str, payload: Payload, provenance: Mapping[str, Any]) -> Self:
        """Returns the policy. Raises AgentError, KeyError or TypeError if something is missing or wrong."""

    def sha256(self) -> str:
        """Returns the SHA-256 of everything in the file."""
        payload = self.to_payload()
        return digest(self._manifest(payload), payload.arrays)

    def write(self, path: Path) -> None:
        """Writes the file. Equal policies give equal bytes."""
        payload = self.to_payload()
        manifest = self._manifest(payload)
        manifest |= {"sha256": digest(manifest, payload.arrays)}
        try:
            write_arrays(path, {"manifest": np.array(json.dumps(manifest, sort_keys=True)), **payload.arrays})
        except OSError as error:
            why = with_remedy(error, "give a file in a folder that is there")
            raise AgentError(f"{path}: cannot write the policy: {why}") from None

    def _manifest(self, payload: Payload) -> dict[str, Any]:
        envelope = {"format": FORMAT, "version": VERSION, "kind": self.kind, "provenance": dict(self.provenance)}
        return envelope | {"payload": dict(payload.entries)}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads the policy from a file.

        Raises AgentError, in one line, if the file is no policy, is one for another owner, or was changed.
        """
        arrays = load_arrays(path, GUIDE)
        try:
            manifest = _parse_manifest(arrays)
            kind, provenance = manifest["kind"], manifest["provenance"]
            if kind not in (kinds := _kinds()):
                raise AgentError(unknown("kind", str(kind), kinds))
            owner, run = kinds[kind]
            if owner != cls.OWNER:
                origin = f", made by {provenance['command']}" if provenance.get("command") else ""
                how = run.format(algorithm=nic_algorithm(kind), path=path)
                raise AgentError(f"is a policy for {owner} (kind {kind!r}{origin}), not for {cls.OWNER}; run it with {how}")
            return cls._checked(manifest, {name: array for name, array in arrays.items() if name != "manifest"})
        except AgentError as error:
            raise AgentError(f"{path}: {error}") from None

    @classmethod
    def _checked(cls, manifest: dict[str, Any], arrays: Arrays) -> Self:
        if manifest.pop("sha256", None) != digest(manifest, arrays):
            raise AgentError("its checksum is not that of what it holds: it is damaged, or was changed by hand; make it again")
        try:
            return cls.from_payload(manifest["kind"], Payload(manifest["payload"], arrays), manifest["provenance"])
        except (KeyError, TypeError) as error:
            raise AgentError(f"something is missing or of the wrong type ({error}); {GUIDE}") from None

    @classmethod
    def made_of(cls, facts: Mapping[str, Any]) -> Mine:
        """Returns a predicate that recognizes a file whose provenance has these entries."""

        def is_own(path: Path) -> bool:
            try:
                provenance = cls.read(path).provenance
            except AgentError:
                return False
            return all(provenance.get(name) == value for name, value in facts.items())

        return is_own


def _parse_manifest(arrays: Arrays) -> dict[str, Any]:
    """Returns the manifest after checking the envelope's own entries."""
    try:
        manifest = plain_json.loads(str(arrays["manifest"][()]))
        name, version = manifest["format"], manifest["version"]
    except (KeyError, ValueError, TypeError, IndexError):
        raise AgentError(f"it has no manifest; {GUIDE}") from None
    if (name, version) != (FORMAT, VERSION):
        raise AgentError(f"format {name!r}, version {version!r}; this version of dc-gym reads {FORMAT!r}, version {VERSION}")
    for entry, kind in (("kind", str), ("provenance", dict), ("payload", dict)):
        if not isinstance(manifest.get(entry), kind):
            raise AgentError(f"{entry!r} of its manifest is no {kind.__name__}; {GUIDE}")
    return dict(manifest)


def digest(manifest: Mapping[str, Any], arrays: Arrays) -> str:
    """Returns the SHA-256 over the manifest (without the digest) and all arrays, little-endian and sorted by name."""
    total = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        total.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return total.hexdigest()
