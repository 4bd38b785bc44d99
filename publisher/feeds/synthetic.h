/* SPDX-License-Identifier: Apache-2.0 */
/* A seeded exchange: an ITCH 5.0 day of made-up symbols, message by message.
 *
 * Integers only, so the same settings give the same bytes on any machine and at any speed. What
 * holds of every stream:
 *  - the books are coherent: no unknown order reference, no crossed or locked book, executions hit
 *    the first order of the best price and never take more than is left; a halted symbol trades
 *    nothing until it resumed;
 *  - the day is whole: system events O S Q M E C in order, a directory before anything else of a
 *    symbol, an opening and a closing cross, every order gone at the end, and each of the
 *    23 message types at least once, in the smallest day of 520 messages too;
 *  - from 2,000 messages on, with symbols left to the default, the shares of A, D, E, U, P and X
 *    are within 5 points of a real sample's;
 *  - the busiest millisecond of trading has `burst` times the mean or more, where the day is long
 *    enough to have a mean: at least 100 milliseconds, as any has with the default rate.
 * The hours before the open and after the close are compressed to what their messages take at
 * `rate`, so that a replay at the market's own pace begins at once.
 *
 * Errors   -errno, the words in tb_error().
 * Threads  one at a time.
 * Memory   about 1.1 kB a symbol, all of it at open. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_H

#include <stddef.h>
#include <stdint.h>

#include "bus/bounds.h"

/* 0 is the default everywhere but for the seed, where it is a seed like any other. */
struct synthetic_settings {
	uint64_t seed;
	uint64_t messages; /* of the whole stream, exactly; default: no limit */
	uint64_t seconds;  /* of trading, on the market's clock; default: no limit */
	uint64_t rate;     /* mean messages a second; default 100,000, or `messages` if fewer */
	uint32_t symbols;  /* default 8,000, or one for each 64 messages if fewer */
	uint32_t burst;    /* the busiest milliseconds against the mean; default 20 */
};

/* Without a limit one day follows the other; the clock then begins again, order references and
 * match numbers go on. */
#define SYNTHETIC_DAY_SECONDS BOUND_SYNTHETIC_SECONDS_MAX
#define SYNTHETIC_RATE_MAX    BOUND_SYNTHETIC_RATE_MAX
#define SYNTHETIC_SYMBOLS_MAX BOUND_SYNTHETIC_SYMBOLS_MAX
#define SYNTHETIC_BURST_MIN   BOUND_SYNTHETIC_BURST_MIN
#define SYNTHETIC_BURST_MAX   BOUND_SYNTHETIC_BURST_MAX

struct synthetic;

/* -EINVAL, and what was found and expected, for settings that no day can be made of. */
int synthetic_check(const struct synthetic_settings *);

/* The settings as they will be used, with every default but the limits filled in. */
int synthetic_resolve(const struct synthetic_settings *, struct synthetic_settings *resolved);

int synthetic_open(struct synthetic **, const struct synthetic_settings *);

/* 1 and the next message, without framing, valid until the next call; 0 at the end. */
int synthetic_next(struct synthetic *, const uint8_t **bytes, size_t *length);

void synthetic_close(struct synthetic *);

/* Writes the stream as a BinaryFILE, compressed where path ends in .zst. The file appears when it
 * is whole: after an error there is none, or the one from before. Devices and pipes are written to
 * directly. */
int synthetic_write(const struct synthetic_settings *, const char *path);

#endif
