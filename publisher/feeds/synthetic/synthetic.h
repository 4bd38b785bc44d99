/* SPDX-License-Identifier: Apache-2.0 */
/* A seeded synthetic exchange: an ITCH 5.0 day, message by message.
 *
 * It uses integers only: the same settings give the same bytes on any machine, at any speed. For
 * every stream:
 *  - The books are coherent: no unknown order reference, no crossed or locked book. Executions hit
 *    the first order of the best price, and never take more than is left. A halted symbol trades
 *    nothing until it resumes.
 *  - The day is whole: system events O S Q M E C in order, and a directory before other messages of
 *    a symbol. There are an opening and a closing cross, and every order is gone at the end. Each
 *    of the 23 message types occurs at least once, even in the smallest day of 520 messages.
 *  - The mix is real: the shares of A, D, E, U, P and X are within 5 points of a real sample's.
 *    This holds from 2,000 messages on, with the default number of symbols.
 *  - The busiest millisecond of trading has at least `burst` times the mean. This holds for days of
 *    at least 100 milliseconds, so always with the default rate.
 * The hours before the open and after the close are compressed to the time of their messages at
 * `rate`. So a replay at the market's own pace begins at once.
 *
 * Errors   -errno, with a message in tb_error().
 * Threads  one at a time.
 * Memory   about 1.1 kB per symbol, all of it at open. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_H

#include <stddef.h>
#include <stdint.h>

#include "bus/bounds.h"

/* 0 means the default, except for the seed, where 0 is a valid seed. */
struct synthetic_settings {
	uint64_t seed;
	uint64_t messages; /* of the whole stream, exactly; default: no limit */
	uint64_t seconds;  /* of trading, on the market's clock; default: no limit */
	uint64_t rate;     /* mean messages a second; default 100,000, or `messages` if fewer */
	uint32_t symbols;  /* default 8,000, or one for each 64 messages if fewer */
	uint32_t burst;    /* the busiest millisecond, as a multiple of the mean; default 20 */
};

/* Without a limit, days follow each other: the clock begins again, order references and match
 * numbers go on. */
#define SYNTHETIC_DAY_SECONDS BOUND_SYNTHETIC_SECONDS_MAX
#define SYNTHETIC_RATE_MAX    BOUND_SYNTHETIC_RATE_MAX
#define SYNTHETIC_SYMBOLS_MAX BOUND_SYNTHETIC_SYMBOLS_MAX
#define SYNTHETIC_BURST_MIN   BOUND_SYNTHETIC_BURST_MIN
#define SYNTHETIC_BURST_MAX   BOUND_SYNTHETIC_BURST_MAX

struct synthetic;

/* 0, or -EINVAL with a message: no day can be made of these settings. */
int synthetic_check(const struct synthetic_settings *);

/* Fills in every default except the limits. */
int synthetic_resolve(const struct synthetic_settings *, struct synthetic_settings *resolved);

int synthetic_open(struct synthetic **, const struct synthetic_settings *);

/* 1 and the next message, without framing, valid until the next call; 0 at the end. */
int synthetic_next(struct synthetic *, const uint8_t **bytes, size_t *length);

void synthetic_close(struct synthetic *);

/* Writes the stream as a BinaryFILE, compressed if path ends in .zst. The file appears when it is
 * complete: after an error path is missing, or still the earlier file. Devices and pipes are
 * written directly. */
int synthetic_write(const struct synthetic_settings *, const char *path);

#endif
