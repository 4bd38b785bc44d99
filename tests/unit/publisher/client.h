/* SPDX-License-Identifier: Apache-2.0 */
/* A client that speaks the control protocol by hand, a publisher for it, and its log. */
#ifndef TICKBUS_TESTS_PUBLISHER_CLIENT_H
#define TICKBUS_TESTS_PUBLISHER_CLIENT_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>

#include "bus/bus_page.h"
#include "bus/control.h"
#include "bus/counters.h"
#include "bus/fabric.h"
#include "publisher/state.h"
#include "subscriber/handshake.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

#define CLIENT_TOPICS_MAX 1024

struct client {
	struct link *link;
	struct remote *page, *region;
	struct handshake handshake;
	uint8_t challenge[FABRIC_CHALLENGE_BYTES];
	uint8_t hello[FABRIC_HELLO_BYTES]; /* the second, as it was sent */
	struct control_welcome welcome;
	struct control_message last, answer;
	unsigned int welcomes, gones, messages, wakes, revokes, endings;
	bool woken[CLIENT_TOPICS_MAX + 1]; /* by topic id */
	unsigned int woken_count;
	uint32_t request;
	int code;
	char why[256];
};

extern struct tb_publisher *publisher; /* closed by client_leave */
extern const struct fabric_ops *ops;
extern const char *address;
extern struct client client, other;

/* What the publisher logged last, and how many warnings. */
extern char logged[1024];
extern unsigned int warnings;
void keep_log(void *user, enum tb_log_level, const char *text);
bool was_logged(const char *text);

/* A publisher "test" at shm:test, with a stale bound of 400 ms and no wait at its end. */
void client_enter(void);
void client_leave(void);

/* Called with each second hello before it is sent, to change it; NULL: nothing. */
extern void (*client_hello)(struct client *, uint8_t hello[FABRIC_HELLO_BYTES]);

/* Called while a client waits; NULL: nothing. */
extern void (*client_meanwhile)(void);

#define UNTIL(at, condition)                                                                       \
	do {                                                                                       \
		const uint64_t late_ms = scene_now_ms() + deadline_ms();                           \
		while (!(condition)) {                                                             \
			cr_assert_lt(scene_now_ms(), late_ms, "waited for " #condition ": %s",     \
				     (at)->why);                                                   \
			client_turn(at);                                                           \
		}                                                                                  \
	} while (0)

void client_turn(struct client *);
void client_connect(struct client *, const void *hello, size_t bytes);
/* Connects with a hello without a ticket, or with this ticket. Fails the test if it is refused. */
void client_open(struct client *);
void client_open_realm(struct client *, const uint8_t ticket[TB_TICKET_BYTES]);
/* The same, but a refusal is fine. */
void client_try_realm(struct client *, const uint8_t ticket[TB_TICKET_BYTES]);
void client_close(struct client *);
void client_send(struct client *, struct control_message *);
/* Sends a request and returns its answer. */
const struct control_message *client_ask(struct client *, struct control_message);

/* The client was refused: closes it. */
void expect_refused(int code, const char *text);
void expect_refused_hello(struct control_hello, int code, const char *text);
void expect_refusal(const struct control_message *answer, uint32_t topic_id, int code,
		    const char *text);
const struct control_message *catalogue(const char *pattern, uint32_t after);
const struct control_message *join(struct client *, uint32_t topic_id, uint64_t epoch);
uint64_t epoch_of(const char *topic);
struct control_message topic_message(enum control_type, uint32_t topic_id, uint64_t epoch,
				     uint64_t head);
/* A counter of the bus. `other` asks for it, and so shows that it is still connected. */
uint64_t bus_counter(enum bus_counter index);

#endif
