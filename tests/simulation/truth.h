/* SPDX-License-Identifier: Apache-2.0 */
/* What was published: the world writes it down before it publishes, the model looks it up. */
#ifndef TICKBUS_TESTS_SIMULATION_TRUTH_H
#define TICKBUS_TESTS_SIMULATION_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tickbus/record.h"

#define TRUTH_EPOCHS      96
#define TRUTH_LIVES       128
#define TRUTH_INSTRUMENTS 12
#define TRUTH_PAYLOAD     72

struct truth_record {
	uint64_t time_ns;
	uint32_t instrument;
	uint32_t quality; /* of the topic from this record on: enum tb_quality */
	uint16_t length;
	uint8_t kind, flags;
	bool corrupt; /* its slot was overwritten while the ring held it */
	uint8_t data[TRUTH_PAYLOAD];
};

/* One epoch of a topic. Its records are 1 to count; the last may be in the middle of its writing.
 */
struct truth_epoch {
	uint64_t id;
	const char *topic;
	unsigned int at;   /* epochs are numbered in the order of their making */
	unsigned int life; /* of the publisher and era of its group, in the order of their begin */
	uint32_t topic_id;
	bool grouped; /* its topic is in the publisher's group */
	uint64_t slots;
	bool marks, values, checked;
	uint64_t flushed;  /* the head of the last finished flush */
	uint64_t reserved; /* the highest that a line may say now */
	bool left;         /* its publisher has ended it, restarted the topic, or is gone */
	bool ended;        /* as tb_topic_end does */
	bool torn;         /* its publisher was killed in the middle of a write */
	uint32_t instruments;
	char names[TRUTH_INSTRUMENTS][TB_INSTRUMENT_NAME_MAX + 1];
	bool value_corrupt[TRUTH_INSTRUMENTS]; /* its last value was overwritten at some time */
	uint64_t count, room;
	struct truth_record *records;
};

struct truth {
	unsigned int lives; /* publishers and eras of their groups, so far */
	/* By life: times of its group's last message that is over, and of its last message
	 * that was flushed or is being flushed. */
	uint64_t over_ns[TRUTH_LIVES], complete_ns[TRUTH_LIVES];
	unsigned int count;
	struct truth_epoch epochs[TRUTH_EPOCHS];
};

extern struct truth truth;

void truth_clear(void);
/* A new epoch. NULL: there are too many. */
struct truth_epoch *truth_begin(const char *topic, uint64_t id);
/* Adds record count + 1 and returns it, zeroed, with the quality before it. */
struct truth_record *truth_add(struct truth_epoch *);
struct truth_epoch *truth_find(const char *topic, uint64_t id);
/* The newest epoch of a topic, or NULL. */
struct truth_epoch *truth_newest(const char *topic);
/* Record `sequence`, 1 to count. */
struct truth_record *truth_at(const struct truth_epoch *, uint64_t sequence);

/* The quality after record `sequence`; 0: at the beginning. */
uint32_t truth_quality(const struct truth_epoch *, uint64_t sequence);
/* Whether a record changes its instrument's value, as docs/protocol.md says. */
bool truth_is_value(const struct truth_record *);
/* The record that last changed the instrument's value, up to `sequence`; 0: no record did. */
uint64_t truth_value(const struct truth_epoch *, uint32_t instrument, uint64_t sequence);
/* The last record with a time up to time_ns; 0: all are later. In a group, times rise. */
uint64_t truth_until(const struct truth_epoch *, uint64_t time_ns);
/* Whether record `sequence` ends an input message. */
bool truth_ends_message(const struct truth_epoch *, uint64_t sequence);

#endif
