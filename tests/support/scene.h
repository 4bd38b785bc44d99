/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a bus in a folder of its own, and a handler that writes down records and events. */
#ifndef TICKBUS_TESTS_SCENE_H
#define TICKBUS_TESTS_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tickbus/inspect.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define SCENE_STALE_MS 4000 /* so long that a publisher on a busy machine is not stale */
#define SCENE_HASTY_MS 400  /* for tests that wait until it is stale */

/* Makes a folder and points TICKBUS_RUNTIME_DIR at it. scene_leave removes it with its content. */
void scene_enter(void);
void scene_leave(void);
const char *scene_folder(void);

/* TICKBUS_TEST_SEED, or a seed from the clock. It is printed. */
uint64_t scene_seed(void);

uint64_t scene_now_ms(void);

/* A log for publishers, printed if TICKBUS_TEST_LOG is set. */
void scene_log(void *user, enum tb_log_level level, const char *text);

/* Rounds of a random test: `usual`, or the percentage of it that TICKBUS_TEST_ROUNDS gives for a
 * slow device. */
int scene_rounds(int usual);

/* Whether the fabric is available: rdma needs TICKBUS_TEST_RDMA, the address of a device. */
bool scene_has(const char *scheme);

/* A publisher named "test" at scheme:test (rdma: the device's address and a port of its own), and a
 * topic of schema "x u64". A failure fails the test. */
struct tb_publisher *scene_publisher(const char *scheme);
struct tb_publisher *scene_publisher_of(const char *scheme, uint32_t stale_ms);
void scene_address(const char *scheme, char *address, size_t bytes);
struct tb_topic *scene_topic(struct tb_publisher *, const char *name, uint32_t slots,
			     uint32_t flags);
/* A group, and a topic of a group; group NULL: of no group. */
struct tb_group *scene_group(struct tb_publisher *, const char *name);
struct tb_topic *scene_grouped(struct tb_publisher *, const char *name, uint32_t slots,
			       uint32_t flags, struct tb_group *);
struct tb_schema *scene_schema(const char *name, unsigned int version, const char *fields);
/* Publishes values from..to as payload x, for instrument "A" if x is odd and "B" if even. */
void scene_publish(struct tb_topic *, uint64_t from, uint64_t to);

/* Records and events of a subscription as text: "1 A update 1\n", "gap 1 9 overrun\n". */
struct notes {
	char *text;
	size_t used, size;
	uint64_t records, events, lost;
	uint64_t last;    /* sequence */
	uint32_t quality; /* of the last quality event */
	uint64_t changes; /* quality events */
	bool quiet;       /* counts records without writing them down */
	bool ended, restarted, refused, stale, live;
	uint64_t wrong;          /* records whose payload is not their sequence */
	uint64_t images, values; /* begun; records of images */
	uint64_t skipped;        /* as gap events say */
	bool complete;           /* the last image */
};
void notes_record(void *notes, const struct tb_source *, const struct tb_record *);
void notes_event(void *notes, const struct tb_event *);
void notes_free(struct notes *);

struct tb_subscriber *scene_subscriber(const char *scheme, uint32_t flags);
struct tb_subscription *scene_subscribe(struct tb_subscriber *, const char *pattern,
					enum tb_from from, struct notes *);

/* Polls and waits until *value >= least, or until *flag. False: the deadline has passed. */
bool scene_poll_until(struct tb_subscriber *, const uint64_t *value, uint64_t least);
bool scene_poll_while(struct tb_subscriber *, const bool *flag);

#endif
