/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses. An RDMA address is the text after "rdma:": HOST:PORT, then options of the connection
 * after commas.
 *
 *   10.9.0.1:7471
 *   [fd00::1]:7471,source=fd00::2,ack_timeout=14
 *
 * HOST is an address, not a name: nothing is looked up. The RDMA connection manager derives the
 * device, the GID and the pkey from it (and from source). The table in address.c has each option's
 * bounds and default. An option may be given once. */
#ifndef TICKBUS_BUS_ADDRESS_H
#define TICKBUS_BUS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_BYTES 64
#define ADDRESS_NO_POLL_US 4294967295 /* the address names no polling interval */
#define ADDRESS_HOST_BYTES 16
#define ADDRESS_GROUP_EXPECTED                                                                     \
	"GROUP:PORT of a multicast group like 239.10.0.1:7472, outside 224.0.0.0/24, "             \
	"which belongs to link protocols"

struct address {
	struct sockaddr_storage host;
	struct sockaddr_storage source; /* family 0: the route chooses */
	uint32_t ack_timeout;           /* local ACK timeout: 4.096 us x 2^n */
	uint32_t retries;               /* of a packet without an ACK */
	uint32_t rnr_retries;           /* of a SEND that found no posted receive */
	uint32_t reads;                 /* initiator depth, responder resources; 0: the default */
	uint32_t traffic_class;
	uint32_t attempt_ms; /* of one attempt to connect */
	uint32_t receives;   /* posted receives for notices */
	uint32_t notices;    /* 0: the subscriber receives no notices */
	uint32_t hop_limit;  /* of notices */
	uint32_t batch_bytes,
		read_bytes; /* of a topic's landing, of one READ; 0: the address names no size */
	uint32_t poll_us;   /* polling interval; 0: READ after READ; or ADDRESS_NO_POLL_US */
};

/* Parses an address of a publisher. 0, or -EINVAL with a message: what was found, what was
 * expected. */
int address_parse(const char *text, struct address *);

/* Copies the text after "shm:". A user's name after user= becomes the user's id, so that connecting
 * looks nothing up. The caller frees the copy. 0, or -errno with a message; -EINVAL: an unknown
 * user.
 */
int address_settle(const char *text, char **settled);

/* Parses an address to listen at. Refuses source, since HOST is an address of this host, and the
 * options that only the side that connects uses. */
int address_parse_listen(const char *text, struct address *);

/* Parses "HOST" or "HOST:PORT". The port is 0 if the text has no port. Without a message: 0,
 * -EINVAL, or -ERANGE for a port outside 1 to 65535. */
int address_parse_host(const char *text, struct sockaddr_storage *);

/* Parses "GROUP:PORT" of a multicast group. Refuses the groups that RFC 5771 reserves for link
 * protocols. 0, or -EINVAL with a message. */
int address_parse_group(const char *text, struct sockaddr_storage *);

/* True for a multicast group with a port. */
bool address_is_group(const struct sockaddr_storage *);

/* True if family and host are equal; address_same() compares the port too. */
bool address_same_host(const struct sockaddr *, const struct sockaddr_storage *);
bool address_same(const struct sockaddr_storage *, const struct sockaddr_storage *);

/* The host as 16 bytes, IPv4 mapped into IPv6; zeros for another family. */
void address_host_bytes(const struct sockaddr *, uint8_t bytes[ADDRESS_HOST_BYTES]);

/* Writes "10.9.0.1:7471", "[fd00::1]:7471". */
void address_text(const struct sockaddr *, char text[ADDRESS_TEXT_BYTES]);

socklen_t address_bytes(const struct sockaddr_storage *);

#endif
