// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* What nicd reads: see nic_csv.h. */
#include "nic_csv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NICS_HEADER "nic,netns,wire,ring,tail,line_bps"
#define FLOWS_HEADER                                                                                         \
	"flow,src_nic,dst_nic,src_addr,dst_addr,src_mac,dst_mac,src_port,payload_bytes,message_bytes,"       \
	"total_bytes,base_rtt_ns,hops"
#define CAPPED_HEADER "flow,src_port,dst_port"
#define LINE_BPS_MIN  100000 /* below it, gaps in ns do not fit 64 bits at the least rate */
#define LINE_BPS_MAX  10000000000000

enum { NIC, NETNS, WIRE, RING, TAIL, LINE, N_NIC_FIELDS };
enum {
	FLOW,
	SRC_NIC,
	DST_NIC,
	SRC_ADDR,
	DST_ADDR,
	SRC_MAC,
	DST_MAC,
	SRC_PORT,
	PAYLOAD,
	MESSAGE,
	TOTAL,
	BASE_RTT,
	HOPS,
	N_FLOW_FIELDS
};

/* Cuts the header off: 0, or -EINVAL. */
static int cut_header(struct slice *rest, const char *header, struct fault *f)
{
	struct slice line = { 0 };

	if (csv_line(rest, &line) && line.len == strlen(header) && !memcmp(line.at, header, line.len))
		return 0;
	return fault_say(f, -EINVAL, "line 1: not the header; it must be %s", header);
}

static int split(struct slice text, struct slice *fields, size_t n, size_t line, struct fault *f)
{
	size_t found = csv_split(text, fields, n);

	if (found == n)
		return 0;
	return fault_say(f, -EINVAL, "line %zu: %zu fields; give the %zu of the header", line, found, n);
}

/* ---- NICs ---- */

static int parse_nic(struct slice text, size_t line, struct nic *nic, struct fault *f)
{
	struct slice fields[N_NIC_FIELDS] = { 0 };
	const struct {
		char *to;
		size_t size;
		const char *name;
	} words[LINE] = {
		[NIC] = { nic->name, sizeof(nic->name), "nic" },
		[NETNS] = { nic->netns, sizeof(nic->netns), "netns" },
		[WIRE] = { nic->wire, sizeof(nic->wire), "wire" },
		[RING] = { nic->ring, sizeof(nic->ring), "ring" },
		[TAIL] = { nic->tail, sizeof(nic->tail), "tail" },
	};
	int rc = split(text, fields, N_NIC_FIELDS, line, f);

	for (int i = 0; i < LINE && !rc; i++)
		rc = csv_word(words[i].to, words[i].size, fields[i], line, words[i].name, f);
	if (!rc)
		rc = csv_number(&nic->line_bps, LINE_BPS_MIN, LINE_BPS_MAX, fields[LINE], line, "line_bps",
				f);
	return rc;
}

int nics_parse(const char *buf, size_t len, struct nics *out, struct fault *f)
{
	struct slice rest = { buf, len }, text;
	int rc = cut_header(&rest, NICS_HEADER, f);

	*out = (struct nics){ 0 };
	if (rc)
		return rc;
	out->nic = calloc(csv_count(rest, SIZE_MAX) + 1, sizeof(*out->nic));
	if (!out->nic)
		return fault_say(f, -ENOMEM, "out of memory for its NICs");
	while (!rc && csv_line(&rest, &text)) {
		rc = parse_nic(text, out->n + 2, &out->nic[out->n], f);
		out->n++;
	}
	if (!rc && !out->n)
		rc = fault_say(f, -EINVAL, "no NICs below the header; give one line a NIC");
	return rc;
}

/* ---- flows ---- */

static int find_nic(uint32_t *row, const struct nics *nics, struct slice s, size_t line, const char *name,
		    struct fault *f)
{
	for (*row = 0; *row < nics->n; (*row)++)
		if (strlen(nics->nic[*row].name) == s.len && !memcmp(nics->nic[*row].name, s.at, s.len))
			return 0;
	return fault_say(f, -EINVAL, "line %zu, %s: '%.*s' is not in the file of NICs", line, name,
			 csv_shown(s), s.at);
}

static int parse_address(uint32_t *to, struct slice s, size_t line, const char *name, struct fault *f)
{
	char text[INET_ADDRSTRLEN];
	int rc = csv_word(text, sizeof(text), s, line, name, f);

	if (!rc && inet_pton(AF_INET, text, to) != 1)
		rc = fault_say(f, -EINVAL, "line %zu, %s: '%s' is not an IPv4 address", line, name, text);
	return rc;
}

static int parse_mac(uint8_t *to, struct slice s, size_t line, const char *name, struct fault *f)
{
	char text[18], end;
	int rc = csv_word(text, sizeof(text), s, line, name, f);

	if (!rc && sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx%c", &to[0], &to[1], &to[2], &to[3], &to[4],
			  &to[5], &end) != 6)
		rc = fault_say(f, -EINVAL, "line %zu, %s: '%s' is not a MAC address", line, name, text);
	return rc;
}

static int parse_ends(const struct slice *fields, size_t line, const struct nics *nics, struct nic_flow *to,
		      struct fault *f)
{
	int rc = find_nic(&to->src_nic, nics, fields[SRC_NIC], line, "src_nic", f);

	if (!rc)
		rc = find_nic(&to->dst_nic, nics, fields[DST_NIC], line, "dst_nic", f);
	if (!rc)
		rc = parse_address(&to->src_addr, fields[SRC_ADDR], line, "src_addr", f);
	if (!rc)
		rc = parse_address(&to->dst_addr, fields[DST_ADDR], line, "dst_addr", f);
	if (!rc)
		rc = parse_mac(to->src_mac, fields[SRC_MAC], line, "src_mac", f);
	if (!rc)
		rc = parse_mac(to->dst_mac, fields[DST_MAC], line, "dst_mac", f);
	return rc;
}

static int parse_flow(struct slice text, size_t line, const struct nics *nics, struct nic_flow *to,
		      struct fault *f)
{
	static const struct {
		const char *name;
		uint64_t min, max;
	} numbers[N_FLOW_FIELDS] = {
		[FLOW] = { "flow", 0, NIC_FLOWS_MAX - 1 },
		[SRC_PORT] = { "src_port", 1, UINT16_MAX },
		[PAYLOAD] = { "payload_bytes", 1, NIC_PAYLOAD_MAX },
		[MESSAGE] = { "message_bytes", 1, 1ULL << 40 },
		[TOTAL] = { "total_bytes", 1, UINT64_MAX },
		[BASE_RTT] = { "base_rtt_ns", 1, UINT32_MAX },
		[HOPS] = { "hops", 1, 255 },
	};
	struct slice fields[N_FLOW_FIELDS] = { 0 };
	uint64_t values[N_FLOW_FIELDS] = { 0 };
	int rc = split(text, fields, N_FLOW_FIELDS, line, f);

	for (int i = 0; i < N_FLOW_FIELDS && !rc; i++)
		if (numbers[i].name)
			rc = csv_number(&values[i], numbers[i].min, numbers[i].max, fields[i], line,
					numbers[i].name, f);
	if (!rc && values[MESSAGE] / values[PAYLOAD] >= UINT32_MAX)
		rc = fault_say(f, -EINVAL,
			       "line %zu, message_bytes: %" PRIu64 " in packets of %" PRIu64
			       " are more than 2^32; give less",
			       line, values[MESSAGE], values[PAYLOAD]);
	if (!rc)
		rc = parse_ends(fields, line, nics, to, f);
	to->flow = (uint32_t)values[FLOW];
	to->src_port = (uint16_t)values[SRC_PORT];
	to->payload_bytes = (uint32_t)values[PAYLOAD];
	to->message_bytes = values[MESSAGE];
	to->total_bytes = values[TOTAL];
	to->base_rtt_ns = (uint32_t)values[BASE_RTT];
	to->hops = (uint32_t)values[HOPS];
	return rc;
}

int nic_flows_parse(const char *buf, size_t len, const struct nics *nics, struct nic_flows *out,
		    struct fault *f)
{
	struct slice rest = { buf, len }, text;
	int rc = cut_header(&rest, FLOWS_HEADER, f);

	*out = (struct nic_flows){ 0 };
	if (rc)
		return rc;
	out->flow = calloc(csv_count(rest, SIZE_MAX) + 1, sizeof(*out->flow));
	if (!out->flow)
		return fault_say(f, -ENOMEM, "out of memory for its flows");
	while (!rc && csv_line(&rest, &text)) {
		struct nic_flow *flow = &out->flow[out->n++];

		rc = parse_flow(text, out->n + 1, nics, flow, f);
		if (out->rows <= flow->flow)
			out->rows = flow->flow + 1;
	}
	if (!rc && !out->n)
		rc = fault_say(f, -EINVAL, "no flows below the header; give one line a flow");
	return rc;
}

/* ---- flows of the host's TCP ---- */

/* From *at on, which moves: both files are in the same order, so that one look is enough for most. */
static const struct nic_flow *find_flow(const struct nic_flows *flows, uint64_t number, uint32_t *at)
{
	for (uint32_t i = 0; i < flows->n; i++) {
		const struct nic_flow *flow = &flows->flow[*at];

		*at = (*at + 1) % flows->n;
		if (flow->flow == number)
			return flow;
	}
	return NULL;
}

static int parse_capped(struct slice text, size_t line, const struct nic_flows *flows, uint32_t *at,
			struct nic_capped_flow *to, struct fault *f)
{
	struct slice fields[3] = { 0 };
	uint64_t number = 0, src = 0, dst = 0;
	const struct nic_flow *flow;
	int rc = split(text, fields, 3, line, f);

	if (!rc)
		rc = csv_number(&number, 0, NIC_FLOWS_MAX - 1, fields[0], line, "flow", f);
	if (!rc)
		rc = csv_number(&src, 1, UINT16_MAX, fields[1], line, "src_port", f);
	if (!rc)
		rc = csv_number(&dst, 1, UINT16_MAX, fields[2], line, "dst_port", f);
	if (rc)
		return rc;
	flow = find_flow(flows, number, at);
	if (!flow)
		return fault_say(f, -EINVAL, "line %zu, flow: %" PRIu64 " is not in the file of flows", line,
				 number);
	*to = (struct nic_capped_flow){ (uint32_t)number,
					{ flow->src_addr, flow->dst_addr, htons((uint16_t)src),
					  htons((uint16_t)dst) } };
	return 0;
}

int nic_capped_parse(const char *buf, size_t len, const struct nic_flows *flows, struct nic_capped *out,
		     struct fault *f)
{
	struct slice rest = { buf, len }, text;
	int rc = cut_header(&rest, CAPPED_HEADER, f);
	uint32_t at = 0;

	*out = (struct nic_capped){ 0 };
	if (rc)
		return rc;
	out->flow = calloc(csv_count(rest, SIZE_MAX) + 1, sizeof(*out->flow));
	if (!out->flow)
		return fault_say(f, -ENOMEM, "out of memory for its flows");
	while (!rc && csv_line(&rest, &text)) {
		rc = parse_capped(text, out->n + 2, flows, &at, &out->flow[out->n], f);
		out->n++;
	}
	return rc;
}

/* ---- settings ---- */

#define AT(field) #field, offsetof(struct nic_settings, field), sizeof(((struct nic_settings *)0)->field)
#define NS_MAX    100000000000ULL /* 100 s */

static const struct {
	const char *name;
	size_t at, size;
	uint64_t usual, min, max;
} settings[] = {
	{ AT(latency_ns), 0, 0, NS_MAX },
	{ AT(cnp_interval_ns), 50000, 0, NS_MAX },
	{ AT(nack_interval_ns), 500000, 0, NS_MAX },
	{ AT(timeout_ns), 4000000, 1, NS_MAX },
	{ AT(timeout_max_ns), 1000000000, 1, NS_MAX },
	{ AT(probe_timeout_ns), 300000, 1, NS_MAX },
	{ AT(probe_timeout_max_ns), 1200000, 1, NS_MAX },
	{ AT(ack_packets), 16, 1, 1 << 16 },
	{ AT(burst_packets), 1, 1, 1 << 16 },
	{ AT(selective), 0, 0, 1 },
	{ AT(trace), 0, 0, NIC_TRACE_ALL },
	{ AT(in_turn), 0, 0, 1 },
	{ AT(event_loss_ppm), 0, 0, 1000000 },
	{ AT(event_coalesce), 1, 1, 1 << 16 },
	{ AT(seed), 1, 0, UINT64_MAX },
};
#define N_SETTINGS (sizeof(settings) / sizeof(settings[0]))
#define PARAMETER  "parameter."

static void store(struct nic_settings *out, size_t i, uint64_t value)
{
	uint32_t narrow = (uint32_t)value;

	memcpy((char *)out + settings[i].at, settings[i].size == sizeof(value) ? (void *)&value : &narrow,
	       settings[i].size);
}

static int parse_parameter(struct slice index, struct slice value, size_t line, struct nic_settings *out,
			   struct fault *f)
{
	uint64_t i, v;
	int rc = csv_number(&i, 0, CC_PARAMETERS_MAX - 1, index, line, "the parameter's number", f);

	if (!rc)
		rc = csv_number(&v, 0, UINT32_MAX, value, line, "the parameter's value", f);
	if (!rc)
		out->parameter[i] = (uint32_t)v;
	return rc;
}

static int parse_setting(struct slice text, size_t line, struct nic_settings *out, struct fault *f)
{
	const char *equals = memchr(text.at, '=', text.len);
	size_t name_len = equals ? (size_t)(equals - text.at) : text.len, skip = strlen(PARAMETER);
	struct slice name = { text.at, name_len }, value = { 0 };

	if (equals)
		value = (struct slice){ equals + 1, text.len - name_len - 1 };
	if (name.len > skip && !memcmp(name.at, PARAMETER, skip))
		return parse_parameter((struct slice){ name.at + skip, name.len - skip }, value, line, out,
				       f);
	for (size_t i = 0; i < N_SETTINGS; i++) {
		uint64_t v;
		int rc;

		if (strlen(settings[i].name) != name.len || memcmp(settings[i].name, name.at, name.len))
			continue;
		rc = csv_number(&v, settings[i].min, settings[i].max, value, line, settings[i].name, f);
		if (!rc)
			store(out, i, v);
		return rc;
	}
	return fault_say(f, -EINVAL, "line %zu: '%.*s' is no setting; write name=value", line,
			 csv_shown(name), name.at);
}

int nic_settings_parse(const char *buf, size_t len, struct nic_settings *out, struct fault *f)
{
	struct slice rest = { buf, len }, text;
	size_t line = 0;
	int rc = 0;

	*out = (struct nic_settings){ 0 };
	for (size_t i = 0; i < N_SETTINGS; i++)
		store(out, i, settings[i].usual);
	while (!rc && csv_line(&rest, &text))
		rc = parse_setting(text, ++line, out, f);
	return rc;
}
