/* SPDX-License-Identifier: Apache-2.0 */
/* Z5  On a kernel without SO_PASSRIGHTS, a porter shares the listening socket before it listens,
 *     and each connection right after its accept. So neither the control thread nor the
 *     publisher's end closes a descriptor that a client sent. */
#include "bus/shm/shm_hold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus/error.h"

#define CLOSING_MAX 256 /* connections that the porter could not close yet */
#define NO_SLOT     UINT32_MAX

enum state {
	FREE,
	NEW,    /* the porter does not have it */
	HELD,   /* the porter has it too */
	ENDED,  /* closed here; the porter does not know */
	CLOSING /* the porter closes it */
};

struct shm_hold_slot {
	int fd;
	uint32_t next_free;
	enum state state;
	bool ends; /* NEW, and is closed here when the porter has it */
};

static bool kernel_refuses(int socket)
{
	const int no = 0;

	return setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no)) == 0;
}

int shm_hold_open(struct shm_hold *hold, int listening, const char *path, uint32_t connections)
{
	*hold = (struct shm_hold){ .listening = listening, .count = connections + CLOSING_MAX };
	snprintf(hold->origin.path, sizeof(hold->origin.path), "%s", path);
	hold->origin.user = geteuid();
	if (kernel_refuses(listening))
		return 0;
	hold->needed = true;
	hold->slots = calloc(hold->count, sizeof(*hold->slots));
	if (!hold->slots)
		return error_set(ENOMEM, "no memory for %u connections", hold->count);
	for (uint32_t i = 0; i < hold->count; i++)
		hold->slots[i].next_free = i + 1 < hold->count ? i + 1 : NO_SLOT;
	return shm_porter_start(&hold->porter, PORTER_HOLD_ALL, listening, &hold->origin);
}

int shm_hold_listen(struct shm_hold *hold, int listening)
{
	if (!hold->needed) {
		kernel_refuses(listening);
	} else if (!hold->porter ||
		   shm_porter_send(hold->porter, PORTER_LISTEN, 0, listening) < 0) {
		return error_set(EAGAIN, "the process that shares the connections is not ready");
	}
	hold->listening = listening;
	return 0;
}

bool shm_hold_room(const struct shm_hold *hold)
{
	return !hold->needed || hold->first_free != NO_SLOT;
}

static bool slot_send(struct shm_hold *hold, uint32_t slot, enum porter_what what, int fd)
{
	return hold->porter && shm_porter_send(hold->porter, what, slot, fd) == 0;
}

/* Sends what the porter does not know of a slot. */
static void slot_advance(struct shm_hold *hold, uint32_t number)
{
	struct shm_hold_slot *slot = &hold->slots[number];
	const bool was_behind = slot->state == NEW || slot->state == ENDED;

	if (slot->state == NEW && slot_send(hold, number, PORTER_HOLD, slot->fd)) {
		slot->state = HELD;
		if (slot->ends) {
			close(slot->fd);
			slot->state = ENDED;
		}
	}
	if (slot->state == ENDED && slot_send(hold, number, PORTER_END, -1))
		slot->state = CLOSING;
	if (was_behind && slot->state != NEW && slot->state != ENDED)
		hold->behind--;
}

uint32_t shm_hold_add(struct shm_hold *hold, int fd)
{
	const uint32_t number = hold->first_free;
	struct shm_hold_slot *slot;

	if (!hold->needed)
		return 0;
	slot = &hold->slots[number];
	hold->first_free = slot->next_free;
	*slot = (struct shm_hold_slot){ .fd = fd, .state = NEW };
	hold->behind++;
	slot_advance(hold, number);
	return number;
}

void shm_hold_end(struct shm_hold *hold, uint32_t number, int fd)
{
	struct shm_hold_slot *slot;

	if (!hold->needed) {
		close(fd);
		return;
	}
	slot = &hold->slots[number];
	shutdown(fd, SHUT_RDWR); /* the client sees the end, whenever the porter closes it */
	if (slot->state == HELD) {
		close(fd);
		slot->state = ENDED;
		hold->behind++;
	} else {
		slot->ends = true;
	}
	slot_advance(hold, number);
}

static void slot_free(struct shm_hold *hold, uint32_t number)
{
	hold->slots[number] = (struct shm_hold_slot){ .next_free = hold->first_free };
	hold->first_free = number;
}

/* The porter that ended closes what it had alone. The next shares what is open here. */
static bool porter_renew(struct shm_hold *hold)
{
	shm_porter_end(hold->porter);
	hold->porter = NULL;
	hold->behind = 0;
	for (uint32_t i = 0; i < hold->count; i++) {
		struct shm_hold_slot *slot = &hold->slots[i];

		if (slot->state == ENDED || slot->state == CLOSING)
			slot_free(hold, i);
		else if (slot->state == HELD)
			slot->state = NEW;
		hold->behind += slot->state == NEW;
	}
	return shm_porter_start(&hold->porter, PORTER_HOLD_ALL, hold->listening, &hold->origin) ==
	       0;
}

bool shm_hold_poll(struct shm_hold *hold)
{
	struct porter_message message;
	int result = -EPIPE, fd;
	bool renewed = false;

	if (!hold->needed)
		return false;
	while (hold->porter && (result = shm_porter_receive(hold->porter, &message, &fd)) >= 0)
		if (message.what == PORTER_DONE && message.number < hold->count &&
		    hold->slots[message.number].state == CLOSING)
			slot_free(hold, message.number);
	if (result == -EPIPE)
		renewed = porter_renew(hold);
	for (uint32_t i = 0; hold->behind > 0 && i < hold->count; i++)
		slot_advance(hold, i);
	return renewed;
}

/* The porter takes the rest at the end of the pair. */
void shm_hold_close(struct shm_hold *hold)
{
	if (hold->needed)
		shm_hold_poll(hold);
	for (uint32_t i = 0; hold->slots && i < hold->count; i++)
		if (hold->slots[i].state == NEW || hold->slots[i].state == HELD)
			close(hold->slots[i].fd);
	free(hold->slots);
	shm_porter_settle(hold->porter);
	shm_porter_end(hold->porter);
	*hold = (struct shm_hold){ .listening = -1 };
}
