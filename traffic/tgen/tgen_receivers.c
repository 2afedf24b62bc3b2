/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_receivers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct peer {
	uint32_t listener, addr;
	uint16_t port;
};

int receivers_init(struct receivers *receivers, const struct flow_table *table)
{
	*receivers = (struct receivers){ .table = table };
	receivers->sinks = calloc(table->flows + 1, sizeof(*receivers->sinks));
	receivers->udp = calloc(table->flows + 1, sizeof(*receivers->udp));
	receivers->listeners = malloc((table->flows + 1) * sizeof(*receivers->listeners));
	if (!receivers->sinks || !receivers->udp || !receivers->listeners)
		return -ENOMEM;
	memset(receivers->listeners, 0xff, (table->flows + 1) * sizeof(*receivers->listeners));
	return slots_init(&receivers->peers, table->flows);
}

static int same_peer(const void *context, uint32_t element, const void *key)
{
	const struct flow_spec *spec = &((const struct flow_table *)context)->flow[element];
	const struct peer *peer = key;

	return spec->listener == peer->listener && spec->src_addr == peer->addr &&
	       spec->src_port == peer->port;
}

static uint32_t *find_peer(const struct receivers *receivers, struct peer peer)
{
	uint32_t key[] = { peer.listener, peer.addr, peer.port };

	return slots_find(&receivers->peers, hash_bytes(key, sizeof(key)), same_peer, receivers->table,
			  &peer);
}

uint32_t receivers_find(const struct receivers *receivers, uint32_t listener, struct net_end peer)
{
	return *find_peer(receivers, (struct peer){ listener, peer.addr, peer.port });
}

int receivers_index(struct receivers *receivers, uint32_t *number, uint32_t *other)
{
	for (uint32_t i = 0; i < receivers->table->flows; i++) {
		const struct flow_spec *spec = &receivers->table->flow[i];
		uint32_t *slot =
			find_peer(receivers, (struct peer){ spec->listener, spec->src_addr, spec->src_port });

		if (*slot != SLOT_EMPTY) {
			*number = i;
			*other = *slot;
			return -EINVAL;
		}
		*slot = i;
	}
	return 0;
}

void receivers_join(struct receivers *receivers, const struct flow_spec *spec)
{
	receivers->sinks[spec->listener].rate_bps += spec->rate_bps;
	receivers->sinks[spec->listener].datagram_bytes = spec->packet_bytes;
}

void receivers_leave(struct receivers *receivers, const struct flow_spec *spec)
{
	receivers->sinks[spec->listener].rate_bps -= spec->rate_bps;
}

void receivers_close(struct receivers *receivers)
{
	for (uint32_t i = 0; receivers->listeners && i < receivers->table->flows; i++)
		if (receivers->listeners[i] >= 0)
			close(receivers->listeners[i]);
	free(receivers->listeners);
	free(receivers->sinks);
	free(receivers->udp);
	slots_free(&receivers->peers);
	*receivers = (struct receivers){ .table = receivers->table };
}
