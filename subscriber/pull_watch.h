/* SPDX-License-Identifier: Apache-2.0 */
/* Watch lists: the newest values of chosen instruments, looked at when the topic's head has moved.
 */
#ifndef TICKBUS_SUBSCRIBER_PULL_WATCH_H
#define TICKBUS_SUBSCRIBER_PULL_WATCH_H

#include "bus/control.h"
#include "bus/progress.h"
#include "subscriber/state.h"

struct watch {
	uint32_t capacity;
	uint64_t head;        /* of the last valid line */
	uint64_t looked_head; /* of the last line before the last look */
	uint64_t looked_ns;   /* when it began */
	bool due;             /* look at once: names were reported, or a look was lost */
	bool begun;           /* the first look was due: the names were read that its line counts */
	bool ending;          /* the topic ended and was read to its end */
	bool final;           /* the look began after that */
	unsigned int finals;  /* final looks that are over */
	bool running;         /* READs of a look are outstanding, or copies are to be made */
	bool again;           /* the look copies only slots that were torn (W-I3) */
	bool unread;          /* a READ of the last look failed */
	bool hinted;          /* the line was requested because of a hint */
	uint32_t torn_count;
	unsigned int retries; /* looks at torn slots since the head moved */
	uint64_t *torn;       /* a bit each, by instrument */
	uint64_t *seen;       /* the sequence that was delivered last; 0: nothing was delivered */
	uint8_t *tries;       /* looks in a row that found it torn */
};

/* A watch for an epoch of this topic, if the subscription is a watch list. *out NULL: it is not. 0,
 * -EOPNOTSUPP or -ENOMEM. */
int pull_watch_open(const struct tb_subscription *, const struct control_topic *,
		    struct watch **out);
/* Takes NULL. */
void pull_watch_close(struct watch *);
/* The look that ran was lost with the connection. */
void pull_watch_interrupted(struct watch *);
/* Sets `look` of the source if its line is to be read now. */
void pull_watch_ask(struct tb_source *);
/* The program no longer watches the instrument: what it knows of it is void. Takes NULL. */
void pull_watch_forget(struct watch *, uint32_t instrument);
/* Moves the watch on; delivers at most max values. Returns how many. */
int pull_watch(struct tb_source *, int max);
/* Until when a sleeper may sleep, by clock_ns(): 0 if there is work now, UINT64_MAX if something
 * will wake it. */
uint64_t pull_watch_due_ns(const struct tb_source *);

/* Whether a hint shows a newer head, whose line waits for the pace of looks (W-I7). */
bool pull_watch_holds(const struct tb_source *);

/* A valid line. */
static inline void pull_watch_line(struct watch *watch, const struct progress *line)
{
	if (watch && watch->head < line->head)
		watch->head = line->head;
}

/* Whether everything up to the last line's head was looked at. */
bool pull_watch_is_idle(const struct tb_source *);
/* The topic ended and was read to its end. Returns whether the end has to wait for looks (W-I6). */
bool pull_watch_last(struct tb_source *);

#endif
