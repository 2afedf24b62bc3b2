-- SPDX-License-Identifier: Apache-2.0
-- Shows the frames of dc-gym's NICs (ctrl/nic/shim.h) and their in-band telemetry (kernel/drivers/lab_int.h) in Wireshark:
--
--   wireshark -X lua_script:capture/dcgym.lua capture/s1-eth3.pcapng      (tshark takes the same options)
--
-- Filters: dcgym.flow == 3, dcgym.opcode == 2, dcgym.int.queue > 0. docs/capture.md has all names.

local PORT, HEADER_BYTES, TELEMETRY_BYTES, TELEMETRY_FLAG, SPRAYED_FLAG, HOPS = 4791, 32, 42, 8, 64, 5
local OPCODES = { [1] = "DATA", [2] = "ACK", [3] = "NACK", [4] = "CNP", [5] = "PROBE", [6] = "ANSWER" }
-- Fields that frames of these opcodes alone have.
local OPCODES_WITH = {
  sum = { DATA = true },
  sent_ns = { DATA = true, ACK = true, PROBE = true, ANSWER = true },
  received_ns = { ANSWER = true },
  answered_ns = { ANSWER = true },
  marked = { ACK = true, CNP = true, ANSWER = true },
}

local nic = Proto("dcgym", "dc-gym NIC")
local telemetry = Proto("dcgym.int", "dc-gym in-band telemetry")

local fields = {
  version = ProtoField.uint8("dcgym.version", "Version"),
  opcode = ProtoField.uint8("dcgym.opcode", "Opcode", base.DEC, OPCODES),
  flags = ProtoField.uint8("dcgym.flags", "Flags", base.HEX),
  last = ProtoField.bool("dcgym.flags.last", "Last packet of its message", 8, nil, 1),
  ack_request = ProtoField.bool("dcgym.flags.ack_request", "Answer at once", 8, nil, 2),
  resent = ProtoField.bool("dcgym.flags.resent", "Not the first time", 8, nil, 4),
  telemetry = ProtoField.bool("dcgym.flags.telemetry", "Has telemetry", 8, nil, TELEMETRY_FLAG),
  trimmed = ProtoField.bool("dcgym.flags.trimmed", "Of a trimmed packet", 8, nil, 16),
  was_marked = ProtoField.bool("dcgym.flags.marked", "Of a marked packet", 8, nil, 32),
  sprayed = ProtoField.bool("dcgym.flags.sprayed", "Of transport uec", 8, nil, SPRAYED_FLAG),
  flow = ProtoField.uint32("dcgym.flow", "Flow"),
  psn = ProtoField.uint32("dcgym.psn", "Packet sequence number"),
  sum = ProtoField.uint32("dcgym.sum", "Tag", base.HEX),
  sent_ns = ProtoField.uint32("dcgym.sent_ns", "Sent (sender's clock, ns)"),
  received_ns = ProtoField.uint32("dcgym.received_ns", "Received (receiver's clock, ns)"),
  answered_ns = ProtoField.uint32("dcgym.answered_ns", "Answered (receiver's clock, ns)"),
  answers = ProtoField.uint32("dcgym.answers", "Packet that it answers"),
  arrived = ProtoField.uint64("dcgym.arrived", "What has arrived of that packet (the highest bit) and the 63 before it", base.HEX),
  marked = ProtoField.uint32("dcgym.marked", "Marked packets seen; of an answer: packets received"),
}
local int_fields = {
  hops = ProtoField.uint16("dcgym.int.hops", "Hops"),
  rate = ProtoField.uint8("dcgym.int.rate", "Place in the table of rates"),
  time = ProtoField.uint32("dcgym.int.time", "Time (units of the rate, 24 bits)"),
  sent = ProtoField.uint32("dcgym.int.sent", "Sent before (units of the rate, 20 bits)"),
  queue = ProtoField.uint32("dcgym.int.queue", "Left in the queue (units of the rate)"),
}

local function list(of)
  local found = {}
  for _, field in pairs(of) do
    found[#found + 1] = field
  end
  return found
end
nic.fields, telemetry.fields = list(fields), list(int_fields)

-- Bits first .. first + count - 1 of a record, counted from its most significant one.
local function bits(record, first, count)
  return record:bitfield(first, count)
end

local function dissect_telemetry(buffer, tree)
  local hops = buffer(0, 2):uint()
  local below = tree:add(telemetry, buffer(0, TELEMETRY_BYTES), string.format("In-band telemetry, %d hops", hops))
  below:add(int_fields.hops, buffer(0, 2))
  for hop = 1, math.min(hops, HOPS) do
    local record = buffer(2 + 8 * (hop - 1), 8)
    local queue = bits(record, 47, 17)
    local node = below:add(telemetry, record, string.format("Hop %d: queue %d", hop, queue))
    node:add(int_fields.rate, record, bits(record, 0, 3))
    node:add(int_fields.time, record, bits(record, 3, 24))
    node:add(int_fields.sent, record, bits(record, 27, 20))
    node:add(int_fields.queue, record, queue)
  end
end

local function dissect_header(buffer, tree)
  tree:add(fields.version, buffer(0, 1))
  tree:add(fields.opcode, buffer(1, 1))
  local flags = tree:add(fields.flags, buffer(2, 1))
  for _, name in ipairs({ "last", "ack_request", "resent", "telemetry", "trimmed", "was_marked", "sprayed" }) do
    flags:add(fields[name], buffer(2, 1))
  end
  local opcode = OPCODES[buffer(1, 1):uint()]
  for place, name in ipairs({ "flow", "psn", "sum", "sent_ns", "received_ns", "answered_ns", "marked" }) do
    if not OPCODES_WITH[name] or OPCODES_WITH[name][opcode] then
      tree:add(fields[name], buffer(4 * place, 4))
    end
  end
  if math.floor(buffer(2, 1):uint() / SPRAYED_FLAG) % 2 == 1 then
    tree:add(fields.answers, buffer(12, 4))
    tree:add(fields.arrived, buffer(20, 8))
  end
end

function nic.dissector(buffer, packet, tree)
  if buffer:len() < HEADER_BYTES then
    return 0
  end
  local version, opcode, flags = buffer(0, 1):uint(), buffer(1, 1):uint(), buffer(2, 1):uint()
  local name = OPCODES[opcode] or string.format("opcode %d", opcode)
  local flow, psn = buffer(4, 4):uint(), buffer(8, 4):uint()
  packet.cols.protocol = "dcgym"
  packet.cols.info = string.format("%s flow %d psn %d", name, flow, psn)
  local below = tree:add(nic, buffer(0, HEADER_BYTES), string.format("dc-gym NIC, %s, flow %d, psn %d", name, flow, psn))
  dissect_header(buffer, below)
  local used = HEADER_BYTES
  if version >= 2 and math.floor(flags / TELEMETRY_FLAG) % 2 == 1 and buffer:len() >= used + TELEMETRY_BYTES then
    dissect_telemetry(buffer(used, TELEMETRY_BYTES), tree)
    used = used + TELEMETRY_BYTES
  end
  return used
end

DissectorTable.get("udp.port"):add(PORT, nic)
