/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to a bus COUNT times: storm SOURCE HOST PORT COUNT row|held
 * row: closes each connection before the next. held: closes all at the end. Sends the two hellos
 * (docs/protocol.md, 4.2) and nothing else. Tries a refused connection again, as a subscriber does.
 * On a slow machine closed connections may still count, or a second hello may be late.
 * Prints each refusal, and how often it was welcomed. */
#include <rdma/rdma_cma.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELLO_BYTES 56
#define HEADER      4 /* of an answer: "TB", and a code; 0: a challenge */

static char dialled[64];

/* Answers a challenge with a proof for a client without a ticket. */
static void prove(uint8_t hello[HELLO_BYTES], const uint8_t cookie[16])
{
	static const uint8_t no_ticket[crypto_auth_hmacsha256_KEYBYTES];
	const uint8_t head[] = { 1, 2, 2, (uint8_t)strlen(dialled) };
	uint8_t proof[crypto_auth_hmacsha256_BYTES];
	crypto_auth_hmacsha256_state state;

	memcpy(hello + 24, cookie, 16);
	crypto_auth_hmacsha256_init(&state, no_ticket, sizeof(no_ticket));
	crypto_auth_hmacsha256_update(&state, head, sizeof(head));
	crypto_auth_hmacsha256_update(&state, hello + 8, 32); /* nonce and cookie */
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)dialled, strlen(dialled));
	crypto_auth_hmacsha256_final(&state, proof);
	memcpy(hello + 40, proof, 16);
}

/* NULL: welcomed. Otherwise the call that failed, for perror. */
static const char *request(struct rdma_addrinfo *where, struct rdma_cm_id **id,
			   uint8_t hello[HELLO_BYTES])
{
	struct rdma_conn_param how = { .private_data = hello,
				       .private_data_len = HELLO_BYTES,
				       .initiator_depth = 1,
				       .retry_count = 3 };
	struct ibv_qp_init_attr queues = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC
	};

	if (rdma_create_ep(id, where, NULL, &queues) != 0)
		return "rdma_create_ep";
	return rdma_connect(*id, &how) == 0 ? NULL : "rdma_connect";
}

static const char refused[] = "refused";

/* Says which call failed. A refusal: prints its code and reason, and returns `refused`. */
static const char *why(const struct rdma_cm_id *id, const char *failed)
{
	const struct rdma_cm_event *event = id->event;
	const uint8_t *said = event ? event->param.conn.private_data : NULL;
	const int bytes = said ? event->param.conn.private_data_len : 0;

	if (!event || event->event != RDMA_CM_EVENT_REJECTED)
		return failed;
	if (bytes < HEADER || memcmp(said, "TB", 2) != 0)
		printf("refused: by the device, status %d\n", event->status);
	else if (said[2] || said[3])
		printf("refused: %d: %.*s\n", said[2] | said[3] << 8, bytes - HEADER,
		       (const char *)said + HEADER);
	else
		return "a second hello was challenged";
	return refused;
}

static const char *join(struct rdma_addrinfo *where, struct rdma_cm_id **id)
{
	uint8_t hello[HELLO_BYTES] = { 'T', 'B', 'U', 'S', 2, 2, HELLO_BYTES };
	const char *failed = request(where, id, hello);
	const struct rdma_cm_event *event;

	if (!failed)
		return "a first hello was welcomed";
	event = *id ? (*id)->event : NULL;
	if (event && event->event == RDMA_CM_EVENT_REJECTED &&
	    event->param.conn.private_data_len >= HEADER + 16 &&
	    memcmp(event->param.conn.private_data, "TB\0\0", HEADER) == 0) {
		prove(hello, (const uint8_t *)event->param.conn.private_data + HEADER);
		rdma_destroy_ep(*id);
		failed = request(where, id, hello);
	}
	if (failed && *id) {
		failed = why(*id, failed);
		rdma_destroy_ep(*id);
	}
	return failed;
}

static const char *leave(struct rdma_cm_id *id)
{
	const char *failed = rdma_disconnect(id) == 0 ? NULL : "rdma_disconnect";

	rdma_destroy_ep(id);
	return failed;
}

static int storm(struct rdma_addrinfo *where, int count, int held)
{
	struct rdma_cm_id **ids = calloc((size_t)count, sizeof(struct rdma_cm_id *));
	const char *failed = ids ? NULL : "calloc";
	int done = 0;

	while (!failed && done < count) {
		do
			failed = join(where, &ids[done]);
		while (failed == refused);
		if (!failed && !held)
			failed = leave(ids[done]);
		done += !failed;
	}
	for (int i = 0; held && i < done; i++)
		if (leave(ids[i]))
			failed = "rdma_disconnect";
	if (failed)
		perror(failed);
	printf("storm: %d\n", done);
	free(ids);
	return failed != NULL;
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *source, *where;
	int status;

	if (argc != 6)
		return 2;
	snprintf(dialled, sizeof(dialled), strchr(argv[2], ':') ? "[%s]:%s" : "%s:%s", argv[2],
		 argv[3]);
	hints.ai_flags = RAI_PASSIVE;
	if (rdma_getaddrinfo(argv[1], NULL, &hints, &source) != 0) {
		perror(argv[1]);
		return 1;
	}
	hints.ai_flags = 0;
	hints.ai_src_addr = source->ai_src_addr;
	hints.ai_src_len = source->ai_src_len;
	if (rdma_getaddrinfo(argv[2], argv[3], &hints, &where) != 0) {
		perror(argv[2]);
		return 1;
	}
	status = storm(where, atoi(argv[4]), strcmp(argv[5], "held") == 0);
	rdma_freeaddrinfo(where);
	rdma_freeaddrinfo(source);
	return status;
}
