// SPDX-License-Identifier: Apache-2.0
/*
 * The same experiment in ns-3: topology, routes and flows from files, finish times and counters to files.
 *
 *     ns3-peer --folder=DIR --stop-ns=N [--trace-port=NAME --trace-interval-ns=N]
 *              [--from-ns=N --sample-ns=N] [--ns3::TYPE::ATTRIBUTE=VALUE]
 *
 * DIR holds nodes.csv, links.csv, routes.csv and flows.csv (docs/peers.md has their columns); flows-out.csv,
 * ports-out.csv and, with a traced port, queue-out.csv are written beside them. With --sample-ns so are
 * progress-out.csv (bytes received) and queues-out.csv (what waited in each port and what it sent, from
 * --from-ns on), both sampled in these steps. What the program is goes to standard output as KEY=VALUE.
 *
 * A link is ns-3's own PointToPointNetDevice. Its frames are 12 bytes shorter than Ethernet's (2 of PPP for
 * 14), so 12 byte times of gap and as much delay are added: a packet takes exactly the time of its Ethernet
 * frame. A port's queue is its queue disc, and the device queue below has room for one packet. That packet is
 * one that waits, so limits and thresholds of the queue disc are one full frame lower than asked for, and in
 * bytes of IP, which is what a queue disc counts.
 *
 * Routing is a hash table from destination to port: Ipv4GlobalRouting searches a list, which would slow ns-3
 * down.
 */
#define PEER "ns3-peer"
#include "csv.h"

#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>
#include <ns3/version-defines.h>

using namespace ns3;

namespace
{

constexpr uint32_t kEthernetBytes = 14, kPppBytes = 2;
constexpr uint32_t kIpBytes = 1500, kFrameBytes = kIpBytes + kEthernetBytes;
constexpr uint32_t kSegmentBytes = 1448;   // 1500 less IPv4, TCP and the timestamps option
constexpr uint32_t kDatagramBytes = 1472;  // 1500 less IPv4 and UDP
constexpr uint32_t kSocketBytes = 8 << 20; // far above any window here
constexpr uint32_t kWriteBytes = 64 << 10;
constexpr uint8_t kEct0 = 2;

/* Destination address -> route, and nothing else. */
class TableRouting : public Ipv4RoutingProtocol
{
      public:
	void Add(Ipv4Address destination, Ptr<NetDevice> device, Ipv4Address source)
	{
		Ptr<Ipv4Route> route = Create<Ipv4Route>();
		route->SetDestination(destination);
		route->SetSource(source);
		route->SetGateway(Ipv4Address::GetZero());
		route->SetOutputDevice(device);
		routes_[destination.Get()] = route;
	}

	Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header &header, Ptr<NetDevice>,
				   Socket::SocketErrno &error) override
	{
		Ptr<Ipv4Route> route = Find(header.GetDestination());
		error = route ? Socket::ERROR_NOTERROR : Socket::ERROR_NOROUTETOHOST;
		return route;
	}

#if NS3_VERSION_MINOR >= 39
	bool RouteInput(Ptr<const Packet> packet, const Ipv4Header &header, Ptr<const NetDevice> device,
			const UnicastForwardCallback &forward, const MulticastForwardCallback &,
			const LocalDeliverCallback &deliver, const ErrorCallback &) override
#else
	bool RouteInput(Ptr<const Packet> packet, const Ipv4Header &header, Ptr<const NetDevice> device,
			UnicastForwardCallback forward, MulticastForwardCallback,
			LocalDeliverCallback deliver, ErrorCallback) override
#endif
	{
		if (Ptr<Ipv4Route> route = Find(header.GetDestination())) {
			forward(route, packet, header);
			return true;
		}
		uint32_t interface = ipv4_->GetInterfaceForDevice(device);
		if (!ipv4_->IsDestinationAddress(header.GetDestination(), interface))
			return false;
		deliver(packet, header, interface);
		return true;
	}

	void NotifyInterfaceUp(uint32_t) override
	{
	}
	void NotifyInterfaceDown(uint32_t) override
	{
	}
	void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override
	{
	}
	void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override
	{
	}
	void SetIpv4(Ptr<Ipv4> ipv4) override
	{
		ipv4_ = ipv4;
	}
	void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override
	{
	}

      private:
	Ptr<Ipv4Route> Find(Ipv4Address destination) const
	{
		auto found = routes_.find(destination.Get());
		return found == routes_.end() ? nullptr : found->second;
	}

	std::unordered_map<uint32_t, Ptr<Ipv4Route>> routes_;
	Ptr<Ipv4> ipv4_;
};

class TableRoutingHelper : public Ipv4RoutingHelper
{
      public:
	TableRoutingHelper *Copy() const override
	{
		return new TableRoutingHelper(*this);
	}
	Ptr<Ipv4RoutingProtocol> Create(Ptr<Node>) const override
	{
		return CreateObject<TableRouting>();
	}
};

struct PortState {
	Ptr<Node> node;
	Ptr<PointToPointNetDevice> device;
	Ptr<QueueDisc> queue;
	uint64_t sent_packets = 0, sent_bytes = 0; /* as Ethernet frames */
};

struct Network {
	std::map<std::string, Ptr<Node>> nodes;
	std::map<std::string, Ipv4Address> addresses;
	std::map<std::string, PortState> ports;
	std::vector<std::string> port_names; /* in order of the file */
};

struct Flow {
	std::string id, src, dst;
	bool udp;
	uint16_t dst_port;
	uint64_t start_ns, size, unsent, received = 0;
	int64_t established_ns = -1, end_ns = -1;
	Ptr<Socket> socket;
};

/* "h1-eth0" is a port of h1. */
Ptr<Node> owner(const Network &network, const std::string &port)
{
	auto found = network.nodes.find(port.substr(0, port.find('-')));
	if (found == network.nodes.end())
		fail("port " + port + " belongs to no node");
	return found->second;
}

void count_frame(PortState *port, Ptr<const Packet> packet)
{
	port->sent_packets++;
	port->sent_bytes += packet->GetSize() - kPppBytes + kEthernetBytes;
}

/* What is asked for in frame bytes, less the frame in the device's queue, in bytes of IP. */
uint64_t disc_bytes(uint64_t frames)
{
	return (frames - 1) * kIpBytes;
}

void set_queue(PortState &port, uint64_t limit_bytes, uint64_t k_bytes)
{
	TrafficControlHelper helper;
	std::string limit = std::to_string(disc_bytes(limit_bytes / kFrameBytes)) + "B";
	double k = disc_bytes((k_bytes + kFrameBytes - 1) / kFrameBytes);
	if (k_bytes)
		helper.SetRootQueueDisc("ns3::RedQueueDisc", "MaxSize", StringValue(limit), "MinTh",
					DoubleValue(k), "MaxTh", DoubleValue(k), "QW", DoubleValue(1.0),
					"Gentle", BooleanValue(false), "UseEcn", BooleanValue(true),
					"UseHardDrop", BooleanValue(false), "MeanPktSize",
					UintegerValue(kIpBytes));
	else
		helper.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue(limit));
	port.queue = helper.Install(port.device).Get(0);
}

/* a,b,rate_bps,delay_ns, then for each end: limit_bytes,k_bytes,max_bytes,max_ppm */
void build_link(Network &network, const std::vector<std::string> &row)
{
	DataRate rate(number(row[2]));
	Time gap = rate.CalculateBytesTxTime(kEthernetBytes - kPppBytes);
	PointToPointHelper helper;
	helper.SetDeviceAttribute("DataRate", DataRateValue(rate));
	helper.SetDeviceAttribute("InterframeGap", TimeValue(gap));
	helper.SetDeviceAttribute("Mtu", UintegerValue(kIpBytes));
	helper.SetChannelAttribute("Delay", TimeValue(NanoSeconds(number(row[3])) + gap));
	helper.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
	NetDeviceContainer devices = helper.Install(owner(network, row[0]), owner(network, row[1]));
	for (int end = 0; end < 2; end++) {
		PortState &port = network.ports[row[end]];
		port.node = owner(network, row[end]);
		port.device = DynamicCast<PointToPointNetDevice>(devices.Get(end));
		port.device->TraceConnectWithoutContext("PhyTxBegin", MakeBoundCallback(&count_frame, &port));
		if (row[5 + 4 * end] != row[6 + 4 * end])
			fail("port " + row[end] + ": its marking is no step");
		set_queue(port, number(row[4 + 4 * end]), number(row[5 + 4 * end]));
		Ptr<Ipv4> ipv4 = port.node->GetObject<Ipv4>();
		uint32_t interface = ipv4->AddInterface(port.device);
		auto address = network.addresses.find(row[end].substr(0, row[end].find('-')));
		if (address != network.addresses.end())
			ipv4->AddAddress(interface,
					 Ipv4InterfaceAddress(address->second, Ipv4Mask::GetOnes()));
		ipv4->SetUp(interface);
		network.port_names.push_back(row[end]);
	}
}

Network build_network(const std::string &folder)
{
	Network network;
	InternetStackHelper stack;
	TableRoutingHelper routing;
	stack.SetRoutingHelper(routing);
	stack.SetIpv6StackInstall(false);
	for (const auto &row : read_csv(folder + "/nodes.csv", "name,address")) {
		network.nodes[row[0]] = CreateObject<Node>();
		stack.Install(network.nodes[row[0]]);
		if (row[1] != "-")
			network.addresses[row[0]] = Ipv4Address(row[1].c_str());
	}
	const char *columns = "a,b,rate_bps,delay_ns,a_limit_bytes,a_k_bytes,a_max_bytes,a_max_ppm,"
			      "b_limit_bytes,b_k_bytes,b_max_bytes,b_max_ppm";
	for (const auto &row : read_csv(folder + "/links.csv", columns))
		build_link(network, row);
	for (const auto &row : read_csv(folder + "/routes.csv", "port,destination")) {
		if (!network.ports.count(row[0]) || !network.addresses.count(row[1]))
			fail("route " + row[0] + "," + row[1] + ": no such port or host");
		PortState &port = network.ports[row[0]];
		auto source = network.addresses.find(row[0].substr(0, row[0].find('-')));
		auto own = source == network.addresses.end() ? Ipv4Address::GetAny() : source->second;
		Ptr<Ipv4RoutingProtocol> protocol = port.node->GetObject<Ipv4>()->GetRoutingProtocol();
		DynamicCast<TableRouting>(protocol)->Add(network.addresses[row[1]], port.device, own);
	}
	return network;
}

/* As near to Linux as ns-3 has it; docs/peers.md says where it stays away. */
void set_tcp()
{
	Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpDctcp::GetTypeId()));
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegmentBytes));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(kSocketBytes));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(kSocketBytes));
	Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
	Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
	Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
	Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(1)));
	Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
	Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
	Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(true));
}

class Traffic
{
      public:
	Traffic(const Network &network, const std::string &folder) : network_(network)
	{
		const char *columns = "flow,protocol,src,dst,dst_port,start_ns,size_bytes";
		for (const auto &row : read_csv(folder + "/flows.csv", columns)) {
			if (!network.addresses.count(row[2]) || !network.addresses.count(row[3]))
				fail("flow " + row[0] + ": no such host");
			flows_.push_back(Flow{ row[0], row[2], row[3], row[1] == "udp",
					       uint16_t(number(row[4])), number(row[5]), number(row[6]),
					       number(row[6]) });
		}
		running_ = flows_.size();
		for (Flow &flow : flows_) {
			Listen(flow);
			Simulator::Schedule(NanoSeconds(flow.start_ns), &Traffic::Start, this, &flow);
		}
	}

	const std::vector<Flow> &flows() const
	{
		return flows_;
	}

      private:
	/* A flow as its receiver sees it: who sends, and the port that it sends to. */
	using Ends = std::tuple<uint32_t, uint16_t, uint32_t, uint16_t>;

	static Ends ends(const InetSocketAddress &source, const InetSocketAddress &destination)
	{
		return { source.GetIpv4().Get(), source.GetPort(), destination.GetIpv4().Get(),
			 destination.GetPort() };
	}

	/* Port 0: any. */
	Ptr<Socket> MakeSocket(const std::string &host, uint16_t port, bool udp)
	{
		TypeId factory = udp ? UdpSocketFactory::GetTypeId() : TcpSocketFactory::GetTypeId();
		Ptr<Socket> socket = Socket::CreateSocket(network_.nodes.at(host), factory);
		if (socket->Bind(InetSocketAddress(network_.addresses.at(host), port)))
			fail("cannot bind port " + std::to_string(port) + " of " + host);
		return socket;
	}

	/* One listener a host and port. */
	void Listen(const Flow &flow)
	{
		if (!listening_.insert({ flow.dst, flow.dst_port, flow.udp }).second)
			return;
		Ptr<Socket> socket = MakeSocket(flow.dst, flow.dst_port, flow.udp);
		if (flow.udp) {
			socket->SetRecvCallback(MakeCallback(&Traffic::Receive, this));
			return;
		}
		socket->Listen();
		socket->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address &>(),
					  MakeCallback(&Traffic::Accept, this));
	}

	void Start(Flow *flow)
	{
		Address own;
		InetSocketAddress peer(network_.addresses.at(flow->dst), flow->dst_port);
		flow->socket = MakeSocket(flow->src, 0, flow->udp);
		flow->socket->GetSockName(own);
		by_ends_[ends(InetSocketAddress::ConvertFrom(own), peer)] = flow;
		if (flow->udp) {
			flow->socket->Connect(peer);
			flow->socket->SetIpTos(kEct0); /* connecting resets it */
			for (; flow->unsent >= kDatagramBytes; flow->unsent -= kDatagramBytes)
				flow->socket->Send(Create<Packet>(kDatagramBytes));
			return;
		}
		by_socket_[PeekPointer(flow->socket)] = flow;
		flow->socket->SetConnectCallback(MakeCallback(&Traffic::Connected, this),
						 MakeCallback(&Traffic::Refused, this));
		flow->socket->SetSendCallback(MakeCallback(&Traffic::Fill, this));
		flow->socket->Connect(peer);
	}

	void Connected(Ptr<Socket> socket)
	{
		by_socket_.at(PeekPointer(socket))->established_ns = Simulator::Now().GetNanoSeconds();
		Fill(socket, socket->GetTxAvailable());
	}

	void Refused(Ptr<Socket> socket)
	{
		fail("flow " + by_socket_.at(PeekPointer(socket))->id + " was not accepted");
	}

	void Fill(Ptr<Socket> socket, uint32_t)
	{
		Flow *flow = by_socket_.at(PeekPointer(socket));
		if (flow->established_ns < 0)
			return;
		while (uint64_t room =
			       std::min<uint64_t>({ flow->unsent, socket->GetTxAvailable(), kWriteBytes })) {
			if (socket->Send(Create<Packet>(room)) < 0)
				return;
			flow->unsent -= room;
			if (!flow->unsent)
				socket->Close();
		}
	}

	void Accept(Ptr<Socket> socket, const Address &)
	{
		socket->SetRecvCallback(MakeCallback(&Traffic::Receive, this));
	}

	void Receive(Ptr<Socket> socket)
	{
		Address from, local;
		socket->GetSockName(local);
		while (Ptr<Packet> packet = socket->RecvFrom(from)) {
			Flow *flow = by_ends_.at(ends(InetSocketAddress::ConvertFrom(from),
						      InetSocketAddress::ConvertFrom(local)));
			flow->received += packet->GetSize();
			if (flow->received < flow->size || flow->end_ns >= 0)
				continue;
			flow->end_ns = Simulator::Now().GetNanoSeconds();
			if (!--running_)
				Simulator::Stop();
		}
	}

	const Network &network_;
	std::vector<Flow> flows_;
	std::map<Ends, Flow *> by_ends_;
	std::unordered_map<Socket *, Flow *> by_socket_;
	std::set<std::tuple<std::string, uint16_t, bool>> listening_;
	size_t running_;
};

/* Full frames that wait, at a fixed interval. */
void sample_queue(PortState *port, Time interval, std::ofstream *out)
{
	uint32_t waiting = port->queue->GetNPackets() + port->device->GetQueue()->GetNPackets();
	*out << Simulator::Now().GetNanoSeconds() << ',' << waiting << '\n';
	Simulator::Schedule(interval, &sample_queue, port, interval, out);
}

/* Of Ethernet frames. The queue disc has packets of IP, the device's queue has frames of PPP. */
uint64_t waiting_bytes(const PortState &port)
{
	Ptr<Queue<Packet>> frame = port.device->GetQueue();

	return port.queue->GetNBytes() + port.queue->GetNPackets() * kEthernetBytes + frame->GetNBytes() +
	       frame->GetNPackets() * (kEthernetBytes - kPppBytes);
}

/* Samples of all ports and flows, and sums of those in the window. */
class Window
{
      public:
	Window(const std::string &folder, Network &network, const Traffic &traffic, uint64_t from_ns,
	       uint64_t step_ns)
	    : folder_(folder), network_(network), traffic_(traffic), from_ns_(from_ns), step_ns_(step_ns),
	      progress_(folder + "/progress-out.csv")
	{
		progress_ << "t_ns,flow,received_bytes\n";
		Simulator::Schedule(NanoSeconds(step_ns_), &Window::Sample, this);
	}

	void Write()
	{
		std::ofstream out(folder_ + "/queues-out.csv");
		out << "port,queue_bytes\n";
		for (const std::string &name : network_.port_names)
			out << name << ',' << (samples_ ? waited_[name] / samples_ : 0) << '\n';
		if (!out.flush() || !progress_.flush())
			fail(folder_ + ": cannot write the window");
	}

      private:
	void Sample()
	{
		uint64_t now_ns = Simulator::Now().GetNanoSeconds();
		for (const Flow &flow : traffic_.flows())
			progress_ << now_ns << ',' << flow.id << ',' << flow.received << '\n';
		if (now_ns > from_ns_) {
			samples_++;
			for (const std::string &name : network_.port_names)
				waited_[name] += waiting_bytes(network_.ports[name]);
		}
		Simulator::Schedule(NanoSeconds(step_ns_), &Window::Sample, this);
	}

	std::string folder_;
	Network &network_;
	const Traffic &traffic_;
	uint64_t from_ns_, step_ns_, samples_ = 0;
	std::ofstream progress_;
	std::map<std::string, uint64_t> waited_;
};

void write_results(const std::string &folder, const Network &network, const Traffic &traffic)
{
	std::ofstream flows(folder + "/flows-out.csv"), ports(folder + "/ports-out.csv");
	flows << "flow,established_ns,end_ns,received_bytes\n";
	for (const Flow &flow : traffic.flows())
		flows << flow.id << ',' << flow.established_ns << ',' << flow.end_ns << ',' << flow.received
		      << '\n';
	ports << "port,tx_packets,tx_bytes,marks,drops\n";
	for (const std::string &name : network.port_names) {
		const PortState &port = network.ports.at(name);
		const QueueDisc::Stats &stats = port.queue->GetStats();
		ports << name << ',' << port.sent_packets << ',' << port.sent_bytes << ','
		      << stats.nTotalMarkedPackets << ',' << stats.nTotalDroppedPackets << '\n';
	}
	if (!flows.flush() || !ports.flush())
		fail(folder + ": cannot write the results");
}

double seconds_since(std::chrono::steady_clock::time_point start)
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

int main(int argc, char *argv[])
{
	std::string folder, trace_port;
	uint64_t stop_ns = 0, trace_ns = 0, from_ns = 0, sample_ns = 0;
	CommandLine line(__FILE__);
	line.AddValue("folder", "where the input lies and the output goes", folder);
	line.AddValue("stop-ns", "end of the simulation at the latest", stop_ns);
	line.AddValue("trace-port", "port whose queue is sampled", trace_port);
	line.AddValue("trace-interval-ns", "interval of the samples", trace_ns);
	line.AddValue("from-ns", "begin of the window that is measured", from_ns);
	line.AddValue("sample-ns", "step in which the window is sampled", sample_ns);
	Time::SetResolution(Time::PS); /* 12 bytes at 10 Gbit/s are 9.6 ns */
	set_tcp();                     /* before the options, which have the last word */
	line.Parse(argc, argv);
	if (folder.empty() || !stop_ns)
		fail("give --folder=DIR and --stop-ns=N");

	auto started = std::chrono::steady_clock::now();
	Network network = build_network(folder);
	Traffic traffic(network, folder);
	std::ofstream samples;
	if (!trace_port.empty()) {
		if (!network.ports.count(trace_port) || !trace_ns)
			fail("no port " + trace_port + " to trace, or no interval");
		samples.open(folder + "/queue-out.csv");
		samples << "t_ns,packets\n";
		Simulator::ScheduleNow(&sample_queue, &network.ports[trace_port], NanoSeconds(trace_ns),
				       &samples);
	}
	std::unique_ptr<Window> window;
	if (sample_ns)
		window.reset(new Window(folder, network, traffic, from_ns, sample_ns));
	Simulator::Stop(NanoSeconds(stop_ns));
	double setup_s = seconds_since(started);
	auto running = std::chrono::steady_clock::now();
	Simulator::Run();
	double run_s = seconds_since(running);
	write_results(folder, network, traffic);
	if (window)
		window->Write();
	std::cout << "ns3_version=" << NS3_VERSION_MAJOR << '.' << NS3_VERSION_MINOR << '\n'
		  << "build_profile=" << NS3_VERSION_BUILD_PROFILE << '\n'
		  << "setup_s=" << setup_s << '\n'
		  << "run_s=" << run_s << '\n'
		  << "virtual_ns=" << Simulator::Now().GetNanoSeconds() << '\n'
		  << "events=" << Simulator::GetEventCount() << std::endl;
	Simulator::Destroy();
	return 0;
}
