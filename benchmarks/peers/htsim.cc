// SPDX-License-Identifier: Apache-2.0
/*
 * A case of the peers in htsim: topology, routes and flows from files, queues and progress to files.
 *
 *     htsim-peer --folder=DIR --stop-ns=N --from-ns=N --sample-ns=N --packet-bytes=N [--NAME=VALUE ...]
 *
 * DIR holds nodes.csv, links.csv, routes.csv and flows.csv (docs/peers.md has their columns); queues-out.csv
 * (what waited in each switch's port and what it sent, from --from-ns on) and progress-out.csv (bytes that
 * the receivers had, in steps of --sample-ns) are written beside them.
 *
 * Transports are htsim's own, as they are: SwiftSrc, DCTCPSrc. The parameters of Swift are options, so that
 * they are the same numbers on both sides. htsim's packets have no headers, so a packet counts as a frame.
 * The ACKs of a host do not share its queue with the data that it sends: Swift's scheduler takes data alone.
 */
#define PEER "htsim-peer"
#include "csv.h"

#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config.h"
#include "dctcp.h"
#include "ecn.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "route.h"
#include "swift.h"
#include "swift_scheduler.h"
#include "tcp.h"

namespace
{

simtime_picosec ps(uint64_t ns)
{
	return ns * 1000;
}

struct Options {
	std::map<std::string, std::string> given;

	Options(int argc, char *argv[])
	{
		for (int i = 1; i < argc; i++) {
			std::string word = argv[i];
			size_t equal = word.find('=');
			if (word.compare(0, 2, "--") || equal == std::string::npos)
				fail("'" + word + "' is not --NAME=VALUE");
			given[word.substr(2, equal - 2)] = word.substr(equal + 1);
		}
	}

	const std::string &text(const std::string &name) const
	{
		auto found = given.find(name);
		if (found == given.end())
			fail("give --" + name + "=VALUE");
		return found->second;
	}

	uint64_t whole(const std::string &name) const
	{
		return number(text(name));
	}

	double real(const std::string &name) const
	{
		return std::strtod(text(name).c_str(), nullptr);
	}
};

/*
 * A switch's port: htsim's queue, which marks at departure if more than K waits (ECNQueue's rule, which
 * counts the packet that departs), and knows the mean of what waits behind the packet in transmission.
 */
class Port : public Queue
{
      public:
	Port(const std::string &name, linkspeed_bps rate, mem_b limit, mem_b k, EventList &events)
	    : Queue(rate, limit, events, nullptr), label(name), k_(k)
	{
	}

	void receivePacket(Packet &packet) override
	{
		pass();
		Queue::receivePacket(packet);
	}

	void completeService() override
	{
		pass();
		Packet *packet = _enqueued.back();
		if (k_ && _queuesize > k_)
			packet->set_flags(packet->flags() | ECN_CE);
		Queue::completeService();
	}

	/* Begins to count. */
	void clear()
	{
		area = 0;
		since_ = eventlist().now();
	}

	void pass()
	{
		mem_b waiting = _enqueued.empty() ? 0 : _queuesize - _enqueued.back()->size();
		area += double(waiting) * (eventlist().now() - since_);
		since_ = eventlist().now();
	}

	std::string label;
	double area = 0; /* bytes x ps */

      private:
	mem_b k_;
	simtime_picosec since_ = 0;
};

struct Flow {
	std::string id;
	simtime_picosec start;
	std::unique_ptr<SwiftSink> swift;
	std::unique_ptr<TcpSink> tcp;

	uint64_t received() const
	{
		return swift ? swift->_cumulative_data_ack : tcp->_cumulative_ack;
	}
};

struct End {
	std::string peer; /* the port at the other end */
	linkspeed_bps rate;
	simtime_picosec delay;
	mem_b limit, k;
};

std::string owner(const std::string &port)
{
	return port.substr(0, port.rfind('-'));
}

class Network
{
      public:
	Network(const std::string &folder, EventList &events) : events_(events)
	{
		for (const Row &row : read_csv(folder + "/nodes.csv", "name,address"))
			if (row.at(1) != "-")
				hosts_.insert(row.at(0));
		const char *columns = "a,b,rate_bps,delay_ns,a_limit_bytes,a_k_bytes,a_max_bytes,a_max_ppm,"
				      "b_limit_bytes,b_k_bytes,b_max_bytes,b_max_ppm";
		for (const Row &row : read_csv(folder + "/links.csv", columns))
			for (int end = 0; end < 2; end++)
				add(row, end);
		for (const Row &row : read_csv(folder + "/routes.csv", "port,destination"))
			routes_[{ owner(row.at(0)), row.at(1) }] = row.at(0);
	}

	/* The way from one host to another; the first element is the host's own. */
	void route(const std::string &from, const std::string &to, Route &out, bool data)
	{
		for (std::string node = from; node != to;) {
			auto found = routes_.find({ node, to });
			if (found == routes_.end())
				fail("no route from " + node + " to " + to);
			const std::string &port = found->second;
			if (node != from)
				out.push_back(ports.at(port).get());
			else if (data)
				out.push_back(schedulers.at(port).get());
			else
				out.push_back(replies.at(port).get());
			out.push_back(pipes.at(port).get());
			node = owner(ends.at(port).peer);
		}
	}

	std::map<std::string, End> ends;
	std::map<std::string, std::unique_ptr<Pipe>> pipes;
	std::map<std::string, std::unique_ptr<Port>> ports;               /* of switches */
	std::map<std::string, std::unique_ptr<FairScheduler>> schedulers; /* of hosts: data */
	std::map<std::string, std::unique_ptr<Queue>> replies;            /* of hosts: ACKs */

      private:
	void add(const Row &row, int end)
	{
		const std::string &port = row.at(end);
		int at = 4 + 4 * end;
		End made{ row.at(1 - end), number(row[2]), ps(number(row[3])), mem_b(number(row[at])),
			  mem_b(number(row[at + 1])) };
		if (row[at + 1] != row[at + 2])
			fail("port " + port + ": its marking is no step");
		pipes[port].reset(new Pipe(made.delay, events_));
		if (hosts_.count(owner(port))) {
			schedulers[port].reset(new FairScheduler(made.rate, events_, nullptr));
			replies[port].reset(new Queue(made.rate, made.limit, events_, nullptr));
		} else {
			ports[port].reset(new Port(port, made.rate, made.limit, made.k, events_));
		}
		ends[port] = made;
	}

	EventList &events_;
	std::set<std::string> hosts_;
	std::map<std::pair<std::string, std::string>, std::string> routes_;
};

class Traffic : public EventSource
{
      public:
	Traffic(Network &network, const Options &options, EventList &events)
	    : EventSource(events, "traffic"), network_(network), options_(options),
	      swift_timers_(timeFromMs(10), events), tcp_timers_(timeFromMs(10), events),
	      sample_(ps(options.whole("sample-ns"))), from_(ps(options.whole("from-ns"))),
	      progress_(options.text("folder") + "/progress-out.csv")
	{
		progress_ << "t_ns,flow,received_bytes\n";
		const char *columns = "flow,protocol,src,dst,dst_port,start_ns,size_bytes";
		for (const Row &row : read_csv(options.text("folder") + "/flows.csv", columns))
			add(row);
		events.sourceIsPending(*this, sample_);
	}

	/* Samples what was received; clears the ports' counts when the window begins, which is at a sample.
	 */
	void doNextEvent() override
	{
		simtime_picosec now = eventlist().now();
		for (const Flow &flow : flows_)
			progress_ << now / 1000 << ',' << flow.id << ',' << flow.received() << '\n';
		if (now == from_)
			for (auto &port : network_.ports)
				port.second->clear();
		eventlist().sourceIsPending(*this, now + sample_);
	}

	void write_window(const std::string &path)
	{
		std::ofstream out(path);
		out << "port,queue_bytes\n";
		double span = double(eventlist().now() - from_);
		for (auto &port : network_.ports) {
			port.second->pass();
			out << port.first << ',' << uint64_t(port.second->area / span + 0.5) << '\n';
		}
		if (!out.flush() || !progress_.flush())
			fail(path + ": cannot write the results");
	}

      private:
	void add(const Row &row)
	{
		flows_.push_back(Flow{ row.at(0), ps(number(row.at(5))), nullptr, nullptr });
		Route *out = new Route(), *back = new Route(); /* the sources keep them */
		network_.route(row.at(2), row.at(3), *out, true);
		network_.route(row.at(3), row.at(2), *back, false);
		if (row.at(1) == "swift")
			add_swift(flows_.back(), *out, *back);
		else if (row.at(1) == "dctcp")
			add_dctcp(flows_.back(), *out, *back);
		else
			fail("flow " + row.at(0) + ": no protocol " + row.at(1));
	}

	void add_swift(Flow &flow, Route &out, Route &back)
	{
		SwiftSrc *source = new SwiftSrc(swift_timers_, nullptr, nullptr, eventlist());
		double packet = Packet::data_packet_size();
		flow.swift.reset(new SwiftSink());
		source->_ai = options_.real("ai");
		source->_beta = options_.real("beta");
		source->_max_mdf = options_.real("max-mdf");
		/* SwiftSubflowSrc clones its route, and Route::clone() forgets the number of hops: added
		 * here. */
		source->_base_delay = ps(options_.whole("base-target-ns") +
					 uint64_t(out.hop_count()) * options_.whole("hop-ns"));
		source->_h = 0;
		source->_rtx_reset_threshold = options_.whole("retx-reset");
		source->_min_cwnd = options_.real("cwnd-min") * packet;
		source->_max_cwnd = options_.real("cwnd-max") * packet;
		source->_fs_range = ps(options_.whole("fs-range-ns"));
		source->_fs_min_cwnd = options_.real("fs-min");
		source->_fs_max_cwnd = options_.real("fs-max");
		source->_fs_alpha = source->_fs_range / (1 / std::sqrt(source->_fs_min_cwnd) -
							 1 / std::sqrt(source->_fs_max_cwnd));
		source->_fs_beta = -source->_fs_alpha / std::sqrt(source->_fs_max_cwnd);
		source->connect(out, back, *flow.swift, flow.start);
		source->set_cwnd(options_.real("cwnd-initial") * packet);
	}

	void add_dctcp(Flow &flow, Route &out, Route &back)
	{
		DCTCPSrc *source = new DCTCPSrc(nullptr, nullptr, eventlist());
		flow.tcp.reset(new TcpSink());
		source->set_ssthresh(0xffffffff); /* DCTCP itself ends slow start, at the first mark */
		tcp_timers_.registerTcp(*source);
		out.push_back(flow.tcp.get());
		back.push_back(source);
		source->connect(out, back, *flow.tcp, flow.start);
	}

	Network &network_;
	const Options &options_;
	SwiftRtxTimerScanner swift_timers_;
	TcpRtxTimerScanner tcp_timers_;
	simtime_picosec sample_, from_;
	std::ofstream progress_;
	std::vector<Flow> flows_;
};

} // namespace

int main(int argc, char *argv[])
{
	Options options(argc, argv);
	const std::string &folder = options.text("folder");
	std::cout.setstate(std::ios::failbit); /* htsim tells each flow's life */
	Packet::set_packet_size(options.whole("packet-bytes"));
	EventList &events = EventList::getTheEventList();
	events.setEndtime(ps(options.whole("stop-ns")));
	Network network(folder, events);
	Traffic traffic(network, options, events);
	while (events.doNextEvent())
		;
	traffic.write_window(folder + "/queues-out.csv");
	return 0;
}
