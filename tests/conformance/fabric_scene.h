/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what bus/fabric.h promises: built once per fabric, with its SCHEME. The publisher is the
 * host, its subscribers are the guests. They mostly run in one thread; tests that kill a side use
 * processes. */
#ifndef TICKBUS_TESTS_CONFORMANCE_FABRIC_SCENE_H
#define TICKBUS_TESTS_CONFORMANCE_FABRIC_SCENE_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/clock.h"
#include "bus/fabric.h"
#include "tests/conformance/scheme.h"
#include "tests/support/deadline.h"

#define GUESTS       32
#define REGION_BYTES 65536
#define REGION_WORDS (REGION_BYTES / 8)
#define LANDING      32768
#define FLOOD_MAX    1000000
#define CHALLENGE    "sixteen bytes..."

/* What the host says of a region that it hands over. */
struct offer {
	struct fabric_key key;
	uint64_t bytes;
};

struct host {
	struct listener *listener, *second; /* second: NULL in most tests */
	struct fabric_common common;
	struct memory memory;
	struct exposure *exposure;
	struct exposure *another; /* of the same memory: in realm 1, or at the second address */
	struct peer *peers[1100]; /* in order of their hellos; NULL: gone */
	unsigned int hellos, messages, gones, logged;
	uint8_t last[FABRIC_MESSAGE_BYTES]; /* hello or message */
	size_t last_bytes;
	uint32_t expected; /* number of the next message of a flood */
	char why[256], log[512];
	int refuse;                          /* with this code */
	unsigned int challenges;             /* hellos to answer with CHALLENGE from now on */
	uint8_t origin[FABRIC_ORIGIN_BYTES]; /* of the last hello */
	uint8_t origin_bytes;
	bool drop;             /* the sender of a message */
	uint32_t realm;        /* of new peers */
	struct exposure *told; /* the welcome carries its key, and hands nothing over */
	struct peer *told_to;  /* whose key it is */
	size_t pad_to;         /* the welcome's length */
};
extern struct host host;

struct guest {
	struct link *link;
	struct remote *remote;
	uint8_t *landing;
	unsigned int welcomes, messages, gones, challenges;
	int unwilling; /* the error that ends the link at a challenge */
	uint8_t last[FABRIC_MESSAGE_BYTES];
	size_t last_bytes;
	uint32_t expected;
	int code;
	char why[256];
	int opened;         /* what remote_open returned */
	uint64_t more;      /* bytes claimed beyond what there is */
	bool forge;         /* opens with a forged key */
	bool stranger;      /* opens what is for others */
	bool breaks;        /* the link, when a message comes */
	bool opens;         /* what comes with a message */
	bool closes;        /* all it has, when a message comes */
	unsigned int tally; /* completions reaped */
	unsigned int failed;
};

extern const struct fabric_ops *ops;

extern const char *place;

extern char address[128];

extern struct guest guests[GUESTS];

extern uint64_t random_state;

uint64_t word(uint64_t index);

void keep(uint8_t last[FABRIC_MESSAGE_BYTES], size_t *last_bytes, const void *bytes, size_t length);

int on_hello(void *user, struct peer *peer, const void *hello, size_t bytes,
	     struct fabric_answer *answer);

int on_challenge(void *user, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
		 uint8_t hello[FABRIC_HELLO_BYTES]);

void on_message(void *user, struct peer *peer, const void *message, size_t bytes);

void on_peer_gone(void *user, struct peer *peer, const char *why);

void on_log(void *user, enum fabric_log kind, const char *words);

extern const struct listener_calls host_calls;

int host_try(struct listener **listener, unsigned int peers_max);

int host_begin(unsigned int peers_max);

void host_open(unsigned int peers_max);

void host_close(void);

void offer_open(struct guest *guest, const void *bytes, size_t length);

void on_welcome(void *user, const void *welcome, size_t bytes);

void on_link_message(void *user, const void *message, size_t bytes);

void on_link_gone(void *user, int code, const char *why);

extern const struct link_calls guest_calls;

int guest_try(struct guest *guest, const void *hello, size_t bytes);

int guest_take(struct guest *guest);

void guest_reap(struct guest *guest);

void guest_enter(struct guest *guest);

void guest_leave(struct guest *guest);

/* Polls the host and all guests once. If they had no work, waits up to 20 ms for it. */
void turn(void);

int guest_read(struct guest *guest, uint64_t offset, uint32_t bytes, size_t into, uint64_t tag);

void expect_words(const uint8_t *at, uint64_t offset, size_t bytes);

/* One READ of a guest comes back right. */
void expect_reads(struct guest *guest);

/* As many READs as may be, posted and not yet reaped: how many. */
unsigned int fill_with_reads(struct guest *guest);

void expect_message(struct guest *guest);

/* What guests come to, and the host listens at, from now on. */
void place_second(void);

void enter(void);

void leave(void);

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		const uint64_t late_ms = scene_now_ms() + deadline_ms();                           \
		while (!(condition)) {                                                             \
			cr_assert_lt(scene_now_ms(), late_ms, "waited for " #condition);           \
			turn();                                                                    \
		}                                                                                  \
	} while (0)

#endif
