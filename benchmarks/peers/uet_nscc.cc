// SPDX-License-Identifier: Apache-2.0
/*
 * The window of uet-htsim's NSCC on a trace of events, in the form of ctrl/nic/cctrace.h.
 *
 *     uet-nscc EVENTS WINDOWS
 *
 * WINDOWS gets a number of bytes for each event. An ACK and a NACK call what UecSrc::processAck, processNack
 * and rxtTimerExpired of uec.cpp call for the window, in their order; packets and their bookkeeping are left
 * out.
 */
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#define private public /* the functions of the window, and what they work on */
#include "eventlist.h"
#include "uec.h"
#undef private

namespace
{

enum {
	TYPE,
	FLAGS,
	NOW,
	FIRST,
	COALESCED,
	BYTES,
	PACKETS,
	SENT,
	UNDER_WAY,
	ANSWERED,
	BASE,
	MBPS,
	PACKET,
	HOPS,
	COLUMNS
};
enum { NEW_FLOW = 1, TIMEOUT = 2, MARKED = 8, TRIMMED = 16, ACK = 4, NACK = 5 };
const simtime_picosec PS_PER_NS = 1000;

struct Flow {
	std::unique_ptr<UecNIC> nic;
	std::unique_ptr<UecSrc> src;
};

Flow start(const uint32_t *event)
{
	const linkspeed_bps line = speedFromMbps((uint64_t)event[MBPS]);
	const simtime_picosec base = event[BASE] * PS_PER_NS;
	Flow flow;

	UecSrc::initNsccParams(base, line, 0, -1, true);
	flow.nic = std::make_unique<UecNIC>(0, EventList::getTheEventList(), line, 1);
	flow.src = std::make_unique<UecSrc>(nullptr, EventList::getTheEventList(),
					    std::make_unique<UecMpOblivious>(1, false), *flow.nic, 1);
	flow.src->initNscc(0, base);
	return flow;
}

void acknowledged(UecSrc &src, const uint32_t *event, simtime_picosec raw_rtt)
{
	const bool marked = event[FLAGS] & MARKED;

	src._achieved_bytes += event[BYTES];
	src._received_bytes += event[BYTES];
	src._bytes_ignored += event[BYTES];
	src._in_flight = event[UNDER_WAY];
	src.update_base_rtt(raw_rtt);
	src.update_delay(raw_rtt, true, marked);
	src.updateCwndOnAck_NSCC(marked, raw_rtt - src._base_rtt, event[BYTES]);
}

void decide(UecSrc &src, const uint32_t *event)
{
	const simtime_picosec raw_rtt = (event[NOW] - event[SENT]) * PS_PER_NS;

	if (event[TYPE] == ACK)
		acknowledged(src, event, raw_rtt);
	if (event[TYPE] != NACK)
		return;
	if (event[FLAGS] & TRIMMED) {
		src.update_base_rtt(raw_rtt);
		src._in_flight = event[UNDER_WAY] + event[BYTES];
		src.updateCwndOnNack_NSCC(false, event[BYTES], false);
	} else if (event[FLAGS] & TIMEOUT) {
		src.mark_packet_for_retransmission(0, (uint16_t)event[BYTES]);
	}
}

} // namespace

int main(int argc, char **argv)
{
	std::ifstream events(argc == 3 ? argv[1] : "");
	std::ofstream windows(argc == 3 ? argv[2] : "");
	std::string line;
	uint32_t before = 0;
	Flow flow;

	if (!events || !windows) {
		std::cerr << "uet-nscc EVENTS WINDOWS: give a trace, and where to write\n";
		return 2;
	}
	std::cout.setstate(std::ios::failbit); /* htsim prints each parameter of each flow */
	while (std::getline(events, line)) {
		std::istringstream cells(line);
		uint32_t event[COLUMNS];
		char comma;

		for (uint32_t &number : event)
			cells >> number >> comma;
		if (!flow.src) /* all flows have one size */
			Packet::set_packet_size((int)event[PACKET]);
		EventList::_lasteventtime += (simtime_picosec)(uint32_t)(event[NOW] - before) * PS_PER_NS;
		before = event[NOW];
		if (event[FLAGS] & NEW_FLOW)
			flow = start(event);
		decide(*flow.src, event);
		windows << flow.src->_cwnd << '\n';
	}
	return 0;
}
