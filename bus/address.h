/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind "rdma:" in an address: HOST:PORT, and knobs of the connection behind commas.
 *
 *   10.9.0.1:7471
 *   [fd00::1]:7471,source=fd00::2,ack_timeout=14
 *
 * HOST is an address, not a name: nothing here asks anybody. Which device, which GID and which
 * pkey are used follows from it (and from source), as the RDMA connection manager finds them. The
 * table of knobs is in address.c; a knob that is not given has its usual value, and none is given
 * twice. */
#ifndef TICKBUS_BUS_ADDRESS_H
#define TICKBUS_BUS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_WORDS 64
#define ADDRESS_GROUP_WORDS                                                                        \
	"GROUP:PORT of a multicast group like 239.10.0.1:7472, but none of 224.0.0.0/24, "         \
	"which is of the link's own protocols"

struct address {
	struct sockaddr_storage host;
	struct sockaddr_storage source; /* family 0: as the route has it */
	uint32_t ack_timeout;           /* local ACK timeout: 4.096 us x 2^n */
	uint32_t retries;               /* of a packet that was not acknowledged */
	uint32_t rnr_retries;           /* of a SEND that found no receive */
	uint32_t reads;                 /* initiator depth, responder resources; 0: as is usual */
	uint32_t traffic_class;
	uint32_t receives;                /* notices that may wait to be looked at */
	uint32_t notices;                 /* 0: a subscriber that does without */
	uint32_t hop_limit;               /* of notices */
	uint32_t batch_bytes, read_bytes; /* of a topic's landing, of one READ; 0: not said */
};

/* 0, or -EINVAL with words: what was found, what was expected. */
int address_parse(const char *text, struct address *);

/* The same of an address to listen at, which is one of this host by itself: without source. */
int address_parse_listen(const char *text, struct address *);

/* "HOST" or "HOST:PORT" as in an address; any port, 0 where none is given. */
int address_parse_host(const char *text, struct sockaddr_storage *);

/* "GROUP:PORT" of a multicast group, not of those that RFC 5771 keeps for protocols of the link: 0,
 * or -EINVAL with words. */
int address_parse_group(const char *text, struct sockaddr_storage *);

/* Whether it is a multicast group with a port. */
bool address_is_group(const struct sockaddr_storage *);

/* Whether two are of the same family and host; and of the same port, too. */
bool address_same_host(const struct sockaddr *, const struct sockaddr_storage *);
bool address_same(const struct sockaddr_storage *, const struct sockaddr_storage *);

/* "10.9.0.1:7471", "[fd00::1]:7471". */
void address_words(const struct sockaddr *, char words[ADDRESS_WORDS]);

socklen_t address_bytes(const struct sockaddr_storage *);

#endif
