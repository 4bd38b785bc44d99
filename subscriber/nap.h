/* SPDX-License-Identifier: Apache-2.0 */
/* A reader whose records come often naps instead of sleeping: it waits for a short time and looks
 * again. Over shared memory a look costs the publisher nothing. A sleep costs both sides a message,
 * and the publisher an interrupt, for each record. So the reader learns how often its records come,
 * and naps while the next records are due. If they do not come, it sleeps.
 *
 * Pure: no call of the system. All times are of clock_ns(). */
#ifndef TICKBUS_SUBSCRIBER_NAP_H
#define TICKBUS_SUBSCRIBER_NAP_H

#include <stdbool.h>
#include <stdint.h>

/* Records that come more seldom are slept for. */
#define NAP_WORTH_NS 500000
/* A nap is an eighth of the time between two arrivals, within these bounds. */
#define NAP_MIN_NS 20000
#define NAP_MAX_NS 50000
/* While wake-ups come late, since others need the processors, naps grow up to this. */
#define NAP_CROWDED_NS 1000000

struct nap {
	uint64_t until_ns;    /* end of the nap that is taken; 0: none */
	uint64_t news_ns;     /* when the reader waited after the last arrival; 0: never */
	uint64_t interval_ns; /* between two arrivals, a moving average; 0: not known */
	uint64_t crowded_ns;  /* what is added to a nap while wake-ups come late */
	uint32_t arrived;     /* not 0: records came since the last wait */
};

/* Before a wait at a time: when the nap ends, or 0 if it is a time to sleep. */
uint64_t nap_take(struct nap *, uint64_t now_ns);
/* After it. Whether something else ended the nap before its time. */
bool nap_end(struct nap *, uint64_t now_ns);

#endif
