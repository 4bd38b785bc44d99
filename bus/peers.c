/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/peers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void peers_add(struct peers *peers, struct peers_entry *entry)
{
	entry->base.ops = peers->listener->ops;
	entry->base.listener = peers->listener;
	entry->peers = peers;
	entry->next = peers->first;
	if (entry->next)
		entry->next->before = entry;
	peers->first = entry;
	peers->count++;
}

void peers_remove(struct peers_entry *entry)
{
	struct peers *peers = entry->peers;

	if (entry->before)
		entry->before->next = entry->next;
	else
		peers->first = entry->next;
	if (entry->next)
		entry->next->before = entry->before;
	peers->end(entry);
	entry->dead = true;
	entry->before = NULL;
	entry->next = peers->dead;
	peers->dead = entry;
	peers->count--;
}

void peers_lost(struct peers_entry *entry, const char *why)
{
	struct peers *peers = entry->peers;

	if (entry->dead)
		return;
	peers_remove(entry);
	if (entry->up)
		peers->calls.gone(peers->user, &entry->base, why);
}

void peers_free_dead(struct peers *peers)
{
	while (peers->dead) {
		struct peers_entry *entry = peers->dead;

		peers->dead = entry->next;
		free(entry);
	}
}

void peers_close(struct peers *peers)
{
	while (peers->first)
		peers_remove(peers->first);
	peers_free_dead(peers);
}

void peers_log(struct peers *peers, enum fabric_log kind, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	peers->calls.log(peers->user, kind, text);
}

void peers_log_refused(struct peers *peers, const char *peer, const char *why)
{
	peers_log(peers, FABRIC_LOG_REFUSED, "%s was refused: %s", peer, why);
}

void peers_log_dropped(struct peers *peers, const char *peer, const char *why)
{
	peers_log(peers, FABRIC_LOG_DROPPED, "%s was dropped: %s", peer, why);
}

void peers_text(const struct peer *peer, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", ((const struct peers_entry *)peer)->text);
}

void peers_drop(struct peer *peer, const char *why)
{
	struct peers_entry *entry = (struct peers_entry *)peer;

	if (entry->dead)
		return;
	peers_log_dropped(entry->peers, entry->text, why);
	peers_remove(entry);
}
