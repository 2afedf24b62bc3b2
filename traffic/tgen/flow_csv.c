/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_csv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	COL_FLOW,
	COL_TRANSPORT,
	COL_SRC_NS,
	COL_DST_NS,
	COL_SRC_ADDR,
	COL_DST_ADDR,
	COL_SRC_PORT,
	COL_DST_PORT,
	COL_CC,
	COL_GATE,
	COL_OPENS,
	COL_START_NS,
	COL_STOP_NS,
	COL_LENGTH_NS,
	COL_SIZE_BYTES,
	COL_RATE_BPS,
	COL_GAPS,
	COL_PATH,
	NR_COLS
};

static const char *const column_names[NR_COLS] = {
	"flow", "transport", "src_ns",   "dst_ns",  "src_addr",  "dst_addr",   "src_port", "dst_port", "cc",
	"gate", "opens",     "start_ns", "stop_ns", "length_ns", "size_bytes", "rate_bps", "gaps",     "path"
};
static const char *const transport_names[NR_TRANSPORTS] = { "tcp", "udp", "rdma" };
static const char *const gaps_names[NR_GAPS] = { "exact", "uniform", "exponential" };

struct cell {
	const char *at;
	size_t len;
};

/* What the parser holds while it works: the indexes find equal namespaces, listeners and 4-tuples. */
struct parser {
	struct flow_table *table;
	struct flow_csv_error *error;
	struct slots namespaces, listeners, senders, receivers;
	uint32_t rows_room, opens_room;
	size_t line;
};

/* --- the index --------------------------------------------------------------------------------------- */

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t len)
{
	const unsigned char *p = bytes;
	uint64_t h = seed ^ UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h ^ (h >> 32);
}

int slots_init(struct slots *slots, uint32_t elements)
{
	uint32_t n = 8;

	while (n < 2 * (uint64_t)elements && n < (1u << 31))
		n *= 2;
	slots->slot = malloc(n * sizeof(*slots->slot));
	if (!slots->slot)
		return -ENOMEM;
	memset(slots->slot, 0xff, n * sizeof(*slots->slot));
	slots->mask = n - 1;
	return 0;
}

uint32_t *slots_find(const struct slots *slots, uint64_t hash, slot_equal equal, const void *context,
		     const void *key)
{
	uint32_t i = (uint32_t)hash & slots->mask;

	while (slots->slot[i] != SLOT_EMPTY && !equal(context, slots->slot[i], key))
		i = (i + 1) & slots->mask;
	return &slots->slot[i];
}

void slots_free(struct slots *slots)
{
	free(slots->slot);
	slots->slot = NULL;
}

/* --- errors ------------------------------------------------------------------------------------------ */

static void printable(char *out, size_t room, const char *in, size_t len)
{
	size_t n = len < room - 1 ? len : room - 1;

	for (size_t i = 0; i < n; i++)
		out[i] = in[i] >= 0x20 && in[i] < 0x7f ? in[i] : '?';
	out[n] = '\0';
	if (len > n)
		memcpy(out + n - 3, "...", 3);
}

static int refuse(const struct parser *p, int column, struct cell value, const char *why, const char *remedy)
{
	struct flow_csv_error *e = p->error;

	e->line = p->line;
	snprintf(e->column, sizeof(e->column), "%s", column >= 0 ? column_names[column] : "");
	printable(e->value, sizeof(e->value), value.at, value.len);
	snprintf(e->why, sizeof(e->why), "%s", why);
	snprintf(e->remedy, sizeof(e->remedy), "%s", remedy);
	return -EINVAL;
}

static int refuse_twin(const struct parser *p, int column, struct cell value, uint32_t twin, const char *what,
		       const char *remedy)
{
	char why[sizeof(p->error->why)];

	snprintf(why, sizeof(why), "line %" PRIu32 " has the same %s", p->table->flow[twin].line, what);
	return refuse(p, column, value, why, remedy);
}

/* --- cells ------------------------------------------------------------------------------------------- */

/* Decimal digits only: no sign, no blank, no leading zero. */
static bool digits(struct cell c, uint64_t max, uint64_t *value)
{
	uint64_t v = 0;

	if (c.len == 0 || (c.len > 1 && c.at[0] == '0'))
		return false;
	for (size_t i = 0; i < c.len; i++) {
		unsigned d = (unsigned char)c.at[i] - '0';

		if (d > 9 || v > (max - d) / 10)
			return false;
		v = v * 10 + d;
	}
	*value = v;
	return true;
}

static int number(const struct parser *p, const struct cell *cells, int column, uint64_t min, uint64_t max,
		  uint64_t *value)
{
	char why[80];

	if (digits(cells[column], max, value) && *value >= min)
		return 0;
	snprintf(why, sizeof(why), "not an integer from %" PRIu64 " to %" PRIu64, min, max);
	return refuse(p, column, cells[column], why, "write plain decimal digits");
}

static int address(const struct parser *p, const struct cell *cells, int column, uint32_t *addr)
{
	char text[INET_ADDRSTRLEN];
	struct cell c = cells[column];
	struct in_addr in;

	if (c.len >= sizeof(text))
		return refuse(p, column, c, "not an IPv4 address", "write it as 10.0.0.1");
	memcpy(text, c.at, c.len);
	text[c.len] = '\0';
	if (inet_pton(AF_INET, text, &in) != 1)
		return refuse(p, column, c, "not an IPv4 address", "write it as 10.0.0.1");
	if (ntohl(in.s_addr) >> 24 == 0 || ntohl(in.s_addr) >> 24 >= 224)
		return refuse(p, column, c, "not a host's address", "write the address of one interface");
	*addr = in.s_addr;
	return 0;
}

static int controller(const struct parser *p, struct cell c, char cc[FLOW_CC_MAX])
{
	if (c.len == 0 || c.len >= FLOW_CC_MAX)
		return refuse(p, COL_CC, c, "not the name of a congestion control",
			      "write 1 to 15 characters, such as cubic");
	for (size_t i = 0; i < c.len; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", c.at[i]))
			return refuse(p, COL_CC, c, "not the name of a congestion control",
				      "use lower case letters, digits, - and _");
	memcpy(cc, c.at, c.len);
	return 0;
}

static int same_ns(const void *context, uint32_t element, const void *key)
{
	const struct flow_table *t = context;

	return strcmp(t->ns[element], key) == 0;
}

static int namespace(struct parser *p, const struct cell *cells, int column, uint32_t *index)
{
	struct flow_table *t = p->table;
	struct cell c = cells[column];
	char *candidate = t->ns[t->namespaces];
	uint32_t *slot;

	if (c.len == 0 || c.len >= FLOW_NS_MAX || c.at[0] != '/')
		return refuse(p, column, c, "not the path of a network namespace",
			      "write an absolute path of at most 255 bytes, such as /run/netns/h1");
	memcpy(candidate, c.at, c.len);
	candidate[c.len] = '\0';
	slot = slots_find(&p->namespaces, hash_bytes(0, c.at, c.len), same_ns, t, candidate);
	if (*slot == SLOT_EMPTY)
		*slot = t->namespaces++;
	*index = *slot;
	return 0;
}

static int append(uint32_t **list, uint32_t *count, uint32_t *room, uint32_t value)
{
	if (*count == *room) {
		uint32_t more = *room ? 2 * *room : 64;
		uint32_t *moved = realloc(*list, more * sizeof(*moved));

		if (!moved)
			return -ENOMEM;
		*list = moved;
		*room = more;
	}
	(*list)[(*count)++] = value;
	return 0;
}

/* Numbers joined by ; that all differ, appended to a list of the table. */
static int numbers(struct parser *p, int column, struct cell c, uint64_t max, uint32_t **list,
		   uint32_t *count, uint32_t *room)
{
	const char *end = c.at + c.len;
	uint32_t start = *count;

	for (const char *at = c.at; c.len && at <= end;) {
		const char *stop = memchr(at, ';', (size_t)(end - at));
		struct cell item = { at, (size_t)((stop ? stop : end) - at) };
		uint64_t value;
		char why[64];
		int rc;

		if (!digits(item, max, &value)) {
			snprintf(why, sizeof(why), "not a number from 0 to %" PRIu64, max);
			return refuse(p, column, item, why, "join such numbers by ;");
		}
		for (uint32_t i = start; i < *count; i++)
			if ((*list)[i] == value)
				return refuse(p, column, item, "a number that occurs twice",
					      "name each once");
		if (*count - start == FLOW_LIST_MAX)
			return refuse(p, column, item, "more than 256 numbers", "name fewer");
		rc = append(list, count, room, (uint32_t)value);
		if (rc)
			return rc;
		at = item.at + item.len + 1;
	}
	return 0;
}

static int path(struct parser *p, struct cell c, struct flow_spec *flow)
{
	struct flow_table *t = p->table;
	int rc;

	flow->path_start = t->nrows;
	rc = numbers(p, COL_PATH, c, UINT16_MAX, &t->rows, &t->nrows, &p->rows_room);
	flow->path_len = t->nrows - flow->path_start;
	return rc;
}

static int name(const struct parser *p, const struct cell *cells, int column, const char *const *names,
		int count, uint8_t *value)
{
	struct cell c = cells[column];

	for (int i = 0; i < count; i++)
		if (c.len == strlen(names[i]) && memcmp(c.at, names[i], c.len) == 0) {
			*value = (uint8_t)i;
			return 0;
		}
	return refuse(p, column, c, column == COL_GAPS ? "not a pattern of gaps" : "not a transport",
		      column == COL_GAPS ? "write exact, uniform or exponential" : "write tcp, udp or rdma");
}

/* Where the flow waits, and what waits for it. */
static int gates(struct parser *p, const struct cell *cells, struct flow_spec *flow)
{
	struct flow_table *t = p->table;
	uint64_t v;
	int rc;

	flow->gate = FLOW_NO_GATE;
	if (cells[COL_GATE].len) {
		if (!digits(cells[COL_GATE], FLOW_MAX - 1, &v))
			return refuse(p, COL_GATE, cells[COL_GATE], "not a number from 0 to 1048575",
				      "leave it empty for a flow that waits for none");
		flow->gate = (uint32_t)v;
	}
	flow->opens_start = t->nopens;
	rc = numbers(p, COL_OPENS, cells[COL_OPENS], FLOW_MAX - 1, &t->opens, &t->nopens, &p->opens_room);
	flow->opens_len = t->nopens - flow->opens_start;
	return rc;
}

/* --- rows -------------------------------------------------------------------------------------------- */

static int same_listener(const void *context, uint32_t element, const void *key)
{
	const struct flow_spec *a = &((const struct flow_table *)context)->flow[element], *b = key;

	return a->transport == b->transport && a->dst_ns == b->dst_ns && a->dst_addr == b->dst_addr &&
	       a->dst_port == b->dst_port;
}

static int same_sender(const void *context, uint32_t element, const void *key)
{
	const struct flow_spec *a = &((const struct flow_table *)context)->flow[element], *b = key;

	return a->transport == b->transport && a->src_ns == b->src_ns && a->src_port == b->src_port &&
	       a->dst_addr == b->dst_addr && a->dst_port == b->dst_port;
}

static int same_receiver(const void *context, uint32_t element, const void *key)
{
	const struct flow_spec *a = &((const struct flow_table *)context)->flow[element], *b = key;

	return same_listener(context, element, key) && a->src_addr == b->src_addr &&
	       a->src_port == b->src_port;
}

static uint32_t *find(const struct parser *p, const struct slots *slots, slot_equal equal, uint32_t a,
		      uint32_t b, uint32_t c, const struct flow_spec *flow)
{
	uint32_t key[] = { a, b, c, flow->dst_port };

	return slots_find(slots, hash_bytes(0, key, sizeof(key)), equal, p->table, flow);
}

static int check_unique(const struct parser *p, const struct cell *cells, struct flow_spec *flow)
{
	uint32_t number = p->table->flows, *slot;

	slot = find(p, &p->listeners, same_listener, flow->dst_ns, flow->dst_addr, flow->transport, flow);
	if (*slot == SLOT_EMPTY)
		*slot = number;
	flow->listener = *slot;
	if (strcmp(p->table->flow[*slot].cc, flow->cc) != 0)
		return refuse_twin(p, COL_CC, cells[COL_CC], *slot, "receiver and dst_port with another cc",
				   "give this flow a dst_port of its own");
	slot = find(p, &p->senders, same_sender, flow->src_ns, flow->src_port, flow->dst_addr, flow);
	if (*slot != SLOT_EMPTY)
		return refuse_twin(p, COL_SRC_PORT, cells[COL_SRC_PORT], *slot,
				   "src_ns, src_port, dst_addr and dst_port",
				   "give each flow a src_port of its own");
	*slot = number;
	slot = find(p, &p->receivers, same_receiver, flow->dst_ns + (flow->dst_addr << 1), flow->src_addr,
		    flow->src_port, flow);
	if (*slot != SLOT_EMPTY)
		return refuse_twin(p, COL_SRC_ADDR, cells[COL_SRC_ADDR], *slot, "source and destination",
				   "give each flow a src_port of its own");
	*slot = number;
	return 0;
}

static int split(const struct parser *p, struct cell line, struct cell cells[NR_COLS])
{
	const char *at = line.at, *end = line.at + line.len;
	char why[64];
	int n = 0;

	for (;;) {
		const char *comma = memchr(at, ',', (size_t)(end - at));

		if (n < NR_COLS)
			cells[n] = (struct cell){ at, (size_t)((comma ? comma : end) - at) };
		n++;
		if (!comma)
			break;
		at = comma + 1;
	}
	if (n == NR_COLS)
		return 0;
	snprintf(why, sizeof(why), "%d cells instead of %d", n, NR_COLS);
	return refuse(p, -1, line, why, "give every column of the header one cell");
}

static int parse_amounts(const struct parser *p, const struct cell *cells, struct flow_spec *flow)
{
	uint64_t v;
	int rc;

	rc = number(p, cells, COL_SRC_PORT, 1, UINT16_MAX, &v);
	if (rc)
		return rc;
	flow->src_port = (uint16_t)v;
	rc = number(p, cells, COL_DST_PORT, 1, UINT16_MAX, &v);
	if (rc)
		return rc;
	flow->dst_port = (uint16_t)v;
	rc = number(p, cells, COL_START_NS, 0, FLOW_TIME_MAX, &v);
	if (rc)
		return rc;
	flow->start_ns = (int64_t)v;
	rc = number(p, cells, COL_STOP_NS, 0, FLOW_TIME_MAX, &v);
	if (rc)
		return rc;
	flow->stop_ns = (int64_t)v;
	if (flow->gate == FLOW_NO_GATE && flow->stop_ns && flow->stop_ns <= flow->start_ns)
		return refuse(p, COL_STOP_NS, cells[COL_STOP_NS], "not after start_ns",
			      "write 0 for a flow without a stop");
	rc = number(p, cells, COL_LENGTH_NS, 0, FLOW_TIME_MAX, &v);
	if (rc)
		return rc;
	flow->length_ns = (int64_t)v;
	rc = number(p, cells, COL_SIZE_BYTES, 0, FLOW_AMOUNT_MAX, &flow->size_bytes);
	if (rc)
		return rc;
	rc = number(p, cells, COL_RATE_BPS, 0, FLOW_AMOUNT_MAX, &flow->rate_bps);
	if (!rc && flow->transport == FLOW_UDP && !flow->rate_bps)
		return refuse(p, COL_RATE_BPS, cells[COL_RATE_BPS], "no rate, which udp needs",
			      "write the payload's bit/s");
	return rc;
}

static int parse_row(struct parser *p, struct cell line)
{
	struct flow_table *t = p->table;
	struct flow_spec *flow = &t->flow[t->flows];
	struct cell cells[NR_COLS];
	uint64_t v;
	int rc;

	rc = split(p, line, cells);
	if (rc)
		return rc;
	flow->line = (uint32_t)p->line;
	if (!digits(cells[COL_FLOW], FLOW_MAX, &v) || v != t->flows)
		return refuse(p, COL_FLOW, cells[COL_FLOW], "not the next number",
			      "number the flows 0, 1, 2, ... in order");
	rc = name(p, cells, COL_TRANSPORT, transport_names, NR_TRANSPORTS, &flow->transport);
	if (!rc)
		rc = namespace(p, cells, COL_SRC_NS, &flow->src_ns);
	if (!rc)
		rc = namespace(p, cells, COL_DST_NS, &flow->dst_ns);
	if (!rc)
		rc = address(p, cells, COL_SRC_ADDR, &flow->src_addr);
	if (!rc)
		rc = address(p, cells, COL_DST_ADDR, &flow->dst_addr);
	if (!rc)
		rc = controller(p, cells[COL_CC], flow->cc);
	if (!rc)
		rc = gates(p, cells, flow);
	if (!rc)
		rc = parse_amounts(p, cells, flow);
	if (!rc)
		rc = name(p, cells, COL_GAPS, gaps_names, NR_GAPS, &flow->gaps);
	if (!rc)
		rc = path(p, cells[COL_PATH], flow);
	if (!rc)
		rc = check_unique(p, cells, flow);
	if (!rc)
		t->flows++;
	return rc;
}

static int check_line(const struct parser *p, struct cell line)
{
	if (line.len > FLOW_LINE_MAX)
		return refuse(p, -1, line, "a line of more than 8192 bytes", "shorten its path");
	if (memchr(line.at, '\0', line.len))
		return refuse(p, -1, line, "a NUL byte", "write plain text");
	if (line.len && line.at[line.len - 1] == '\r')
		return refuse(p, -1, line, "it ends in CR LF", "end lines in LF alone");
	if (p->line == 1 &&
	    (line.len != strlen(FLOW_CSV_HEADER) || memcmp(line.at, FLOW_CSV_HEADER, line.len) != 0))
		return refuse(p, -1, line, "not the header", "start the file with " FLOW_CSV_HEADER);
	return 0;
}

static int parse_lines(struct parser *p, const char *text, size_t len)
{
	const char *end = text + len;

	p->line = 1;
	if (len == 0)
		return refuse(p, -1, (struct cell){ text, 0 }, "the file is empty",
			      "start it with the header");
	for (const char *at = text; at < end; p->line++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		struct cell line = { at, (size_t)((stop ? stop : end) - at) };
		int rc = check_line(p, line);

		if (!rc && !stop)
			rc = refuse(p, -1, line, "no newline at its end", "write the file to its end");
		if (!rc && p->line > 1)
			rc = parse_row(p, line);
		if (rc)
			return rc;
		at = stop + 1;
	}
	return 0;
}

/* How many flows open each gate; one that nothing opens would keep its flows for ever. */
static int count_gates(struct parser *p)
{
	struct flow_table *t = p->table;

	for (uint32_t i = 0; i < t->nopens; i++)
		t->gates = t->opens[i] >= t->gates ? t->opens[i] + 1 : t->gates;
	t->needs = calloc(t->gates + 1, sizeof(*t->needs));
	if (!t->needs)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->nopens; i++)
		t->needs[t->opens[i]]++;
	for (uint32_t i = 0; i < t->flows; i++) {
		const struct flow_spec *flow = &t->flow[i];
		char gate[16];

		if (flow->gate == FLOW_NO_GATE || (flow->gate < t->gates && t->needs[flow->gate]))
			continue;
		p->line = flow->line;
		snprintf(gate, sizeof(gate), "%" PRIu32, flow->gate);
		return refuse(p, COL_GATE, (struct cell){ gate, strlen(gate) }, "a gate that no flow opens",
			      "name it in the column opens of a flow");
	}
	return 0;
}

static int parser_init(struct parser *p, const char *text, size_t len)
{
	struct flow_table *t = p->table;
	const char *end = text + len;
	uint32_t lines = 1;
	int rc;

	for (const char *at = text; at < end && lines <= FLOW_MAX + 1; lines++) {
		at = memchr(at, '\n', (size_t)(end - at));
		if (!at)
			break;
		at++;
	}
	if (lines > FLOW_MAX + 1)
		return refuse(p, -1, (struct cell){ "", 0 }, "more than 1048576 flows", "split the workload");
	t->flow = calloc(lines, sizeof(*t->flow));
	t->ns = calloc(2 * (size_t)lines + 1, sizeof(*t->ns)); /* one to spare for the candidate */
	if (!t->flow || !t->ns)
		return -ENOMEM;
	rc = slots_init(&p->namespaces, 2 * lines);
	if (!rc)
		rc = slots_init(&p->listeners, lines);
	if (!rc)
		rc = slots_init(&p->senders, lines);
	if (!rc)
		rc = slots_init(&p->receivers, lines);
	return rc;
}

int flow_csv_parse(const char *text, size_t len, struct flow_table *table, struct flow_csv_error *error)
{
	struct parser p = { .table = table, .error = error };
	int rc;

	memset(table, 0, sizeof(*table));
	memset(error, 0, sizeof(*error));
	rc = parser_init(&p, text, len);
	if (!rc)
		rc = parse_lines(&p, text, len);
	if (!rc)
		rc = count_gates(&p);
	slots_free(&p.namespaces);
	slots_free(&p.listeners);
	slots_free(&p.senders);
	slots_free(&p.receivers);
	if (rc)
		flow_table_free(table);
	return rc;
}

void flow_table_free(struct flow_table *table)
{
	free(table->flow);
	free(table->ns);
	free(table->rows);
	free(table->opens);
	free(table->needs);
	memset(table, 0, sizeof(*table));
}
