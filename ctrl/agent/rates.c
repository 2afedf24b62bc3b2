// SPDX-License-Identifier: Apache-2.0
/* Rates of hosts: see rates.h. */
#include "rates.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <lab.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

/* RTM_NEWQDISC without NLM_F_CREATE: change what is there. All parts are multiples of 4 bytes, as netlink
 * aligns. */
struct tbf_request {
	struct nlmsghdr h;
	struct tcmsg tc;
	struct nlattr kind_head;
	char kind[4];
	struct nlattr options;
	struct nlattr parms_head;
	struct tc_tbf_qopt parms;
	struct nlattr burst_head;
	uint32_t burst_bytes;
	struct nlattr rate64_head;
	uint32_t rate64[2]; /* a u64, aligned to 4 */
	struct nlattr keep; /* a flag */
};

static_assert(sizeof(struct tbf_request) == 112, "no padding between attributes");
static_assert(sizeof(struct tc_tbf_qopt) == 36, "no padding after the parameters");

#define ATTR(request, head, next)                                                                            \
	(uint16_t)(offsetof(struct tbf_request, next) - offsetof(struct tbf_request, head))

static struct tbf_request request_for(const struct host *h, int ifindex, uint32_t handle, bool stock)
{
	const size_t len = stock ? offsetof(struct tbf_request, keep) : sizeof(struct tbf_request);

	return (struct tbf_request){
		.h = { .nlmsg_len = (uint32_t)len, .nlmsg_type = RTM_NEWQDISC, .nlmsg_flags = NLM_F_REQUEST },
		.tc = { .tcm_ifindex = ifindex, .tcm_handle = handle, .tcm_parent = TC_H_ROOT },
		.kind_head = { ATTR(r, kind_head, options), TCA_KIND },
		.kind = "tbf",
		.options = { (uint16_t)(len - offsetof(struct tbf_request, options)),
			     TCA_OPTIONS | NLA_F_NESTED },
		.parms_head = { ATTR(r, parms_head, burst_head), TCA_TBF_PARMS },
		.parms = { .rate.linklayer = TC_LINKLAYER_ETHERNET,
			   .peakrate.linklayer = TC_LINKLAYER_ETHERNET,
			   .limit = h->limit_bytes },
		.burst_head = { ATTR(r, burst_head, rate64_head), TCA_TBF_BURST },
		.burst_bytes = h->burst_bytes,
		.rate64_head = { ATTR(r, rate64_head, keep), TCA_TBF_RATE64 },
		.keep = { NLA_HDRLEN, LAB_TCA_TBF_KEEP },
	};
}

int rates_open(struct rates *r, const struct hosts *hosts, const struct sweeper *sweeper, bool stock,
	       struct fault *f)
{
	*r = (struct rates){ .hosts = hosts, .sweeper = sweeper };
	r->requests = calloc(hosts->n, sizeof(*r->requests));
	r->socks = calloc(hosts->n, sizeof(*r->socks));
	r->byteps = calloc(hosts->n, sizeof(*r->byteps));
	r->planned = calloc(hosts->n, sizeof(*r->planned));
	if (!r->requests || !r->socks || !r->byteps || !r->planned)
		return fault_say(f, -ENOMEM, "hosts: out of memory for %u hosts", hosts->n);
	for (uint32_t i = 0; i < hosts->n; i++) {
		const struct host *h = &hosts->host[i];
		const struct qdisc *root = &sweeper->samples[h->row].root;

		if (!root->tbf_byteps)
			return fault_say(
				f, -EINVAL,
				"hosts: the root qdisc of host '%s' (row %u) is no tbf; make it one first",
				hosts_name(hosts, i), h->row);
		r->requests[i] = request_for(h, sweeper_ifindex(sweeper, h->row), root->handle, stock);
		r->socks[i] = sweeper_socket(sweeper, h->row);
	}
	if (batch_open(&r->batch, hosts->n))
		return fault_say(f, -ENOMEM, "hosts: out of memory for %u hosts", hosts->n);
	return 0;
}

void rates_close(struct rates *r)
{
	batch_close(&r->batch);
	free(r->requests);
	free(r->socks);
	free(r->byteps);
	free(r->planned);
	*r = (struct rates){ 0 };
}

static uint64_t clamped(const struct host *h, uint64_t wanted_bps)
{
	if (wanted_bps > h->line_bps)
		return h->line_bps;
	return wanted_bps < h->floor_bps ? h->floor_bps : wanted_bps;
}

static int refusal(const struct rates *r, uint32_t i, int rc, struct fault *f)
{
	return fault_say(f, -EIO, "change the tbf of host '%s' to %" PRIu64 " bit/s: %s",
			 hosts_name(r->hosts, i), 8 * r->byteps[i], strerror(-rc));
}

static struct nlmsghdr *fill(struct rates *r, uint32_t i, uint64_t byteps)
{
	struct tbf_request *request = &r->requests[i];

	request->parms.rate.rate = byteps > UINT32_MAX ? UINT32_MAX : (uint32_t)byteps;
	memcpy(request->rate64, &byteps, sizeof(byteps));
	r->byteps[i] = byteps;
	return &request->h;
}

static void plan(struct rates *r, uint32_t i, uint64_t byteps)
{
	r->planned[nl_plan_change(r->socks[i], &r->batch, fill(r, i, byteps))] = i;
}

/* Send what was planned. */
static int flush(struct rates *r, struct fault *f)
{
	uint32_t n = r->batch.n;
	int rc = n ? batch_run(&r->batch) : 0;

	if (rc)
		return fault_say(f, -EIO, "change the tbf of %u hosts: io_submit: %s", n, strerror(-rc));
	for (uint32_t op = 0; op < n; op++) {
		uint32_t i = r->planned[op];
		int64_t sent = r->batch.results[op];

		if (sent != r->requests[i].h.nlmsg_len)
			return refusal(r, i, sent < 0 ? (int)sent : -EIO, f);
	}
	return 0;
}

int rates_apply(struct rates *r, const uint64_t *wanted_bps, struct fault *f)
{
	for (uint32_t i = 0; i < r->hosts->n; i++) {
		uint64_t byteps = clamped(&r->hosts->host[i], wanted_bps[i]) / 8;

		if (byteps != r->byteps[i])
			plan(r, i, byteps);
	}
	return flush(r, f);
}

int rates_reset(struct rates *r, struct fault *f)
{
	for (uint32_t i = 0; i < r->hosts->n; i++)
		plan(r, i, r->hosts->host[i].line_bps / 8);
	return flush(r, f);
}

int rates_set(struct rates *r, uint32_t i, uint64_t wanted_bps, struct fault *f)
{
	int rc = nl_change(r->socks[i], fill(r, i, clamped(&r->hosts->host[i], wanted_bps) / 8));

	return rc ? refusal(r, i, rc, f) : 0;
}

uint64_t rates_enforced_bps(const struct rates *r, uint32_t i)
{
	return 8 * r->sweeper->samples[r->hosts->host[i].row].root.tbf_byteps;
}
