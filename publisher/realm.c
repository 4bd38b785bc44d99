/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/realm.h"

#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "bus/pattern.h"
#include "publisher/options.h"
#include "publisher/pin.h"
#include "publisher/quota.h"

#define ANONYMOUS "anonymous"

static const uint8_t no_ticket[TB_TICKET_BYTES];

/* -- options ------------------------------------------------------------------------------------
 */

/* A forgotten ticket must not open a realm to everyone. So only the realm named anonymous has no
 * ticket. */
static int ticket_check(size_t i, const struct tb_realm *asked)
{
	if (!asked->ticket && strcmp(asked->name, ANONYMOUS) != 0)
		return error_set(
			EINVAL,
			"publisher options: realms[%zu]: found %s without a ticket, expected "
			"a ticket for each realm but " ANONYMOUS,
			i, asked->name);
	if (asked->ticket && strcmp(asked->name, ANONYMOUS) == 0)
		return error_set(EINVAL,
				 "publisher options: realms[%zu]: found " ANONYMOUS
				 " with a ticket, expected no ticket: it is the realm of clients "
				 "without a ticket",
				 i);
	if (asked->ticket && memcmp(asked->ticket, no_ticket, sizeof(no_ticket)) == 0)
		return error_set(
			EINVAL,
			"publisher options: realms[%zu]: found a ticket of zeros, expected "
			"random bytes",
			i);
	return 0;
}

static int new_check(const struct tb_publisher *publisher, const struct realm *realm)
{
	for (uint32_t i = 0; i < realm->index; i++) {
		const struct realm *other = &publisher->realms[i];

		if (strcmp(other->name, realm->name) == 0)
			return error_set(EINVAL,
					 "publisher options: realms[%u]: found the name %s again, "
					 "expected each name once",
					 realm->index, realm->name);
		if (memcmp(other->ticket, realm->ticket, sizeof(realm->ticket)) == 0)
			return error_set(
				EINVAL,
				"publisher options: realms[%u]: found the ticket of realm %s "
				"again, expected each ticket once",
				realm->index, other->name);
	}
	return 0;
}

static int patterns_take(struct realm *realm, const struct tb_realm *asked)
{
	if (!asked->topics || asked->topic_count < 1 ||
	    asked->topic_count > BOUND_REALM_PATTERNS_MAX)
		return error_set(EINVAL,
				 "publisher options: realms[%u]: found %zu patterns of topics, "
				 "expected 1 to %d",
				 realm->index, asked->topics ? asked->topic_count : 0,
				 BOUND_REALM_PATTERNS_MAX);
	realm->patterns = calloc(asked->topic_count, sizeof(*realm->patterns));
	if (!realm->patterns)
		return error_set(ENOMEM, "publisher: no memory for a realm");
	for (size_t i = 0; i < asked->topic_count; i++) {
		if (pattern_check(asked->topics[i]) < 0)
			return error_prefix(-EINVAL, "publisher options: realms[%u].topics[%zu]: ",
					    realm->index, i);
		memcpy(realm->patterns[realm->pattern_count++], asked->topics[i],
		       strlen(asked->topics[i]) + 1);
		realm->whole |= strcmp(asked->topics[i], ">") == 0;
	}
	return 0;
}

/* A quota leaves places to others, so a single realm needs none. */
static int subscribers_take(const struct tb_publisher *publisher, struct realm *realm,
			    uint32_t asked, bool alone)
{
	if (asked > BOUND_SUBSCRIBERS_MAX)
		return error_set(EINVAL,
				 "publisher options: realms[%u]: found subscribers_max %u, "
				 "expected 0 to %d",
				 realm->index, asked, BOUND_SUBSCRIBERS_MAX);
	realm->subscribers_max = asked   ? asked
				 : alone ? publisher->subscribers_max
					 : quota_default(publisher->subscribers_max);
	return 0;
}

static int realm_take(struct tb_publisher *publisher, struct realm *realm,
		      const struct tb_realm *asked, size_t size)
{
	char what[64];
	int result;

	if (asked->size != size)
		return error_set(EINVAL,
				 "publisher options: realms[%u]: found size %zu, expected %zu as "
				 "in realms[0]",
				 realm->index, asked->size, size);
	snprintf(what, sizeof(what), "publisher options: realms[%u].name", realm->index);
	result = options_name_check(what, asked->name);
	if (result == 0)
		result = ticket_check(realm->index, asked);
	if (result < 0)
		return result;
	memcpy(realm->name, asked->name, strlen(asked->name) + 1);
	if (asked->ticket)
		memcpy(realm->ticket, asked->ticket, sizeof(realm->ticket));
	result = new_check(publisher, realm);
	return result < 0 ? result : patterns_take(realm, asked);
}

/* The caller's header may be newer, so its structures may be longer. */
static const struct tb_realm *realm_at(const struct tb_realm *first, size_t i)
{
	return (const void *)((const char *)first + i * first->size);
}

int realms_open(struct tb_publisher *publisher, const struct tb_publisher_options *options)
{
	static const char *const all = ">";
	static const struct tb_realm anyone = {
		.size = sizeof(anyone), .name = ANONYMOUS, .topics = &all, .topic_count = 1
	};
	const struct tb_realm *asked = options->realm_count ? options->realms : &anyone;
	const size_t count = options->realm_count ? options->realm_count : 1;
	int result = 0;

	if (!asked)
		return error_set(EINVAL,
				 "publisher options: realms: found NULL, expected %zu as "
				 "realm_count says",
				 count);
	if (count > BOUND_REALMS_MAX)
		return error_set(EINVAL,
				 "publisher options: realms: found %zu, expected at most %d", count,
				 BOUND_REALMS_MAX);
	if (asked->size < sizeof(*asked) || asked->size % alignof(struct tb_realm) != 0)
		return error_set(EINVAL,
				 "publisher options: realms[0]: found size %zu, expected %zu or "
				 "more",
				 asked->size, sizeof(*asked));
	publisher->realms = calloc(count, sizeof(*publisher->realms));
	if (!publisher->realms)
		return error_set(ENOMEM, "publisher: no memory for realms");
	for (uint32_t i = 0; i < count && result == 0; i++) {
		struct realm *realm = &publisher->realms[publisher->realm_count++];

		realm->index = i;
		realm->page.fd = -1;
		realm->pulse.bus_id = publisher->bus_id;
		result = realm_take(publisher, realm, realm_at(asked, i), asked->size);
		if (result == 0)
			result = subscribers_take(publisher, realm,
						  realm_at(asked, i)->subscribers_max, count == 1);
		if (result == 0)
			result = memory_create(&realm->page, "tickbus-bus-page",
					       bus_page_bytes(publisher->topics_max));
		if (result == 0)
			pin_memory(publisher, &realm->page);
	}
	return result;
}

void realms_close(struct tb_publisher *publisher)
{
	for (uint32_t i = 0; i < publisher->realm_count; i++) {
		memory_free(&publisher->realms[i].page);
		free(publisher->realms[i].patterns);
		explicit_bzero(publisher->realms[i].ticket, TB_TICKET_BYTES);
		explicit_bzero(publisher->realms[i].old_ticket, TB_TICKET_BYTES);
	}
	free(publisher->realms);
}

/* -- membership ---------------------------------------------------------------------------------
 */

uint32_t realms_of(const struct tb_publisher *publisher, const char *topic)
{
	uint32_t realms = 0;

	for (uint32_t i = 0; i < publisher->realm_count; i++)
		for (size_t p = 0; p < publisher->realms[i].pattern_count; p++)
			if (pattern_match(publisher->realms[i].patterns[p], topic))
				realms |= UINT32_C(1) << i;
	return realms;
}

bool realm_has(const struct realm *realm, const struct tb_topic *topic)
{
	return topic->realms >> realm->index & 1;
}

void realms_change(struct tb_publisher *publisher, const struct tb_topic *topic)
{
	for (uint32_t i = 0; i < publisher->realm_count; i++) {
		struct bus_pulse *pulse = &publisher->realms[i].pulse;

		if (!realm_has(&publisher->realms[i], topic))
			continue;
		pulse->changes++;
		if (pulse->topics < topic->shape.topic_id)
			pulse->topics = topic->shape.topic_id;
	}
}
