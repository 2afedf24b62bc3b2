# SPDX-License-Identifier: Apache-2.0
"""The appliance of the machine image (OVA): a tar archive of a description, checksums and the disk, which VirtualBox imports.

The description follows DMTF's Open Virtualization Format 1.1 (DSP0243). Numbers of ResourceType are those of CIM's
ResourceAllocationSettingData.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

DEBIAN_64 = 96  # CIM_OperatingSystem.OsType
PROCESSOR, MEMORY, ETHERNET, DISK, SATA = 3, 4, 10, 17, 20  # ResourceType
VMDK_FORMAT = "http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"


@dataclass(frozen=True, slots=True)
class Machine:
    """The virtual machine that an import makes."""

    name: str
    version: str
    cpus: int
    memory_bytes: int
    disk_bytes: int
    """Size of the disk as the machine sees it."""


def description(machine: Machine, disk: str, file_bytes: int) -> str:
    """Returns the OVF of a machine whose disk is the file `disk`, of `file_bytes`."""
    items = "".join(_item(device) for device in _hardware(machine))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<Envelope ovf:version="1.0" xml:lang="en-US" xmlns="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
  xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
  <References>
    <File ovf:id="file1" ovf:href={quoteattr(disk)} ovf:size="{file_bytes}"/>
  </References>
  <DiskSection>
    <Info>The virtual disk</Info>
    <Disk ovf:diskId="disk1" ovf:fileRef="file1" ovf:capacity="{machine.disk_bytes}" ovf:format="{VMDK_FORMAT}"/>
  </DiskSection>
  <NetworkSection>
    <Info>The network behind address translation</Info>
    <Network ovf:name="NAT"><Description>Address translation by the host</Description></Network>
  </NetworkSection>
  <VirtualSystem ovf:id={quoteattr(machine.name)}>
    <Info>A testbed for datacenter congestion control</Info>
    <ProductSection>
      <Info>What is installed</Info>
      <Product>dc-gym</Product>
      <Version>{machine.version}</Version>
    </ProductSection>
    <OperatingSystemSection ovf:id="{DEBIAN_64}">
      <Info>Debian 12, 64 bits</Info>
      <Description>Debian_64</Description>
    </OperatingSystemSection>
    <VirtualHardwareSection>
      <Info>Virtual hardware</Info>
      <System>
        <vssd:ElementName>Virtual Hardware Family</vssd:ElementName>
        <vssd:InstanceID>0</vssd:InstanceID>
        <vssd:VirtualSystemIdentifier>{machine.name}</vssd:VirtualSystemIdentifier>
        <vssd:VirtualSystemType>virtualbox-2.2 vmx-07</vssd:VirtualSystemType>
      </System>
{items}    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>
"""


def write(target: Path, machine: Machine, disk: Path, epoch: int) -> None:
    """Writes the appliance. `disk`: a stream-optimized VMDK; `epoch`: seconds, the time of the files inside."""
    text = description(machine, disk.name, disk.stat().st_size).encode()
    ovf = f"{machine.name}.ovf"
    with disk.open("rb") as file:
        sums = {ovf: hashlib.sha256(text).hexdigest(), disk.name: hashlib.file_digest(file, "sha256").hexdigest()}
    manifest = "".join(f"SHA256({name})= {digest}\n" for name, digest in sums.items()).encode()
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as packed:  # in the order that the standard asks for
        for name, content in ((ovf, text), (f"{machine.name}.mf", manifest)):
            packed.addfile(_member(name, len(content), epoch), io.BytesIO(content))
        with disk.open("rb") as file:
            packed.addfile(_member(disk.name, disk.stat().st_size, epoch), file)


Setting = tuple[str, str]
"""A property of a piece of hardware and its value."""


def _hardware(machine: Machine) -> list[list[Setting]]:
    """Returns the machine's pieces of hardware. The standard wants each one's properties in alphabetical order."""
    megabytes = machine.memory_bytes >> 20
    return [
        [("ElementName", f"{machine.cpus} CPUs"), ("InstanceID", "1"), ("ResourceType", str(PROCESSOR)),
         ("VirtualQuantity", str(machine.cpus))],
        [("AllocationUnits", "byte * 2^20"), ("ElementName", f"{megabytes} MB of memory"), ("InstanceID", "2"),
         ("ResourceType", str(MEMORY)), ("VirtualQuantity", str(megabytes))],
        [("Address", "0"), ("ElementName", "sataController0"), ("InstanceID", "3"), ("ResourceSubType", "AHCI"),
         ("ResourceType", str(SATA))],
        [("AddressOnParent", "0"), ("ElementName", "disk1"), ("HostResource", "ovf:/disk/disk1"), ("InstanceID", "4"),
         ("Parent", "3"), ("ResourceType", str(DISK))],
        [("AutomaticAllocation", "true"), ("Connection", "NAT"), ("ElementName", "Ethernet adapter on NAT"), ("InstanceID", "5"),
         ("ResourceSubType", "E1000"), ("ResourceType", str(ETHERNET))],
    ]  # fmt: skip


def _item(settings: list[Setting]) -> str:
    lines = "".join(f"        <rasd:{name}>{value}</rasd:{name}>\n" for name, value in settings)
    return f"      <Item>\n{lines}      </Item>\n"


def _member(name: str, size: int, epoch: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, 0o644, epoch
    return member
