/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher's listener and a subscriber's link over shared memory, and strangers at their socket.
 */
#ifndef TICKBUS_TESTS_UNIT_BUS_SHM_SCENE_H
#define TICKBUS_TESTS_UNIT_BUS_SHM_SCENE_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "bus/memory.h"
#include "bus/shm/shm.h"
#include "tests/support/deadline.h"

#define REGION_BYTES 8192
#define FLOOD        1000
#define KINDS        7 /* of frames; those from 1 to 5 are known */
#define LINGER_S     50
#define SOMEONE      65421 /* a user that no other test is */

extern char folder[64];

extern uint64_t random_state;

struct host {
	struct listener *listener;
	struct memory memory;
	struct exposure *exposure;
	struct peer *last;
	unsigned int hellos, messages, gones, logged;
	bool challenging;      /* answers each hello with a challenge */
	unsigned int per_user; /* set it before host_open */
	bool sharing; /* welcomes a client only within its user's share, as a publisher does */
	enum fabric_log kind;
	char log[512];
};
extern struct host host;

struct guest {
	struct link *link;
	struct remote *remote;
	unsigned int welcomes, messages, gones;
	int code, opened;
	char why[256];
};
extern struct guest guest;

uint64_t now_ms(void);

unsigned int descriptors(void);

int on_hello(void *user, struct peer *peer, const void *hello, size_t bytes,
	     struct fabric_answer *answer);

void on_message(void *user, struct peer *peer, const void *message, size_t bytes);

void on_gone(void *user, struct peer *peer, const char *why);

void on_log(void *user, enum fabric_log kind, const char *words);

extern const struct listener_calls host_calls;

void on_welcome(void *user, const void *welcome, size_t bytes);

void on_link_message(void *user, const void *message, size_t bytes);

void on_link_gone(void *user, int code, const char *why);

extern const struct link_calls guest_calls;

void host_open(unsigned int peers_max, struct fabric_access access);

void host_close(void);

void guest_leave(void);

void turn(void);

void guest_enter(void);

/* The well-behaved subscriber still gets answers. */
void expect_guest_well(void);

struct sockaddr_un socket_address(void);

/* A plain connection to the host's socket, made without the fabric. */
int stranger(void);

/* Bytes as one frame, with copies of a descriptor; whether they could be sent. */
bool put_with(int fd, const void *bytes, size_t length, int given, unsigned int copies);

bool put(int fd, const void *bytes, size_t length, unsigned int copies);

void put_frame(int fd, uint32_t kind, size_t body);

/* The next frame for a stranger; its kind, 0 when the connection is over. */
uint32_t take(int fd, char *body, size_t room);

void enter(void);

void leave(void);

extern const struct fabric_access nobody_else;

/* Connects as someone else: 0, or what the connection was refused with; words to words[1]. */
int as_someone(uid_t user, gid_t group, gid_t more);

bool may_be_others(void);

int liar_listen(void);

int liar_accept(int listening);

/* Sends a signal to the only porter of this process. */
void porter_signal(int signal);
/* Ends all porters of this process, also those that a test stopped. */
void porters_kill(void);
pid_t porter_process(void);

/* A socket whose close waits for LINGER_S, when it is the last: no process reads what it has to
 * send. */
int lingering(int *other);

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		const uint64_t late_ms = now_ms() + deadline_ms();                                 \
		while (!(condition)) {                                                             \
			cr_assert_lt(now_ms(), late_ms, "waited for " #condition);                 \
			turn();                                                                    \
		}                                                                                  \
	} while (0)

#endif
