/* SPDX-License-Identifier: Apache-2.0 */
/* What a subscriber is opened with: its options and what its address says, with defaults and
 * bounds. */
#include "subscriber/options.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "bus/address.h"
#include "bus/bounds.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "bus/region.h"
#include "subscriber/pull_read.h"
#include "tickbus/subscriber.h"

#define READ_BYTES 8192 /* default size of a READ */

static_assert(READS_MAX * HALVES_MAX == BOUND_READS_OF_A_BATCH, "addresses are held to the same");

static int range_check(const char *what, uint32_t found, uint32_t low, uint32_t high)
{
	if (found >= low && found <= high)
		return 0;
	return error_set(EINVAL, "%s: found %u, expected %u to %u", what, found, low, high);
}

static uint32_t first_set(uint32_t first, uint32_t second, uint32_t usual)
{
	return first ? first : second ? second : usual;
}

static uint32_t clamp(uint32_t number, uint32_t low, uint32_t high)
{
	return number < low ? low : number > high ? high : number;
}

static int batch_bytes_take(struct tb_subscriber *subscriber, uint32_t from_address,
			    uint32_t option)
{
	const uint32_t bytes = first_set(from_address, option, BOUND_BATCH_BYTES);

	subscriber->batch_bytes = bytes / REGION_PAGE * REGION_PAGE;
	return range_check("batch_bytes", bytes, BOUND_BATCH_BYTES_MIN, BOUND_BATCH_BYTES_MAX);
}

/* READS_MAX READs must be able to fill a half. If the address has a batch size, the option is
 * clamped to what that batch allows. */
static int read_bytes_take(struct tb_subscriber *subscriber, const struct address *from_address,
			   uint32_t option)
{
	const uint32_t most = subscriber->batch_bytes, least = most / (READS_MAX * HALVES_MAX);
	const uint32_t usual = clamp(READ_BYTES, least, most);

	if (from_address->batch_bytes && option)
		option = clamp(option, least, most);
	subscriber->read_bytes = first_set(from_address->read_bytes, option, usual);
	return range_check("read_bytes", subscriber->read_bytes, least, most);
}

/* Sizes in the address replace those of the options. An address that is not valid is refused by
 * connect. */
static int sizes_take(struct tb_subscriber *subscriber, const struct fabric_ops *reached,
		      const char *location, const struct tb_subscriber_options *options)
{
	struct address from_address;
	int result;

	if (!reached->network || address_parse(location, &from_address) < 0)
		from_address.batch_bytes = from_address.read_bytes = 0;
	result = batch_bytes_take(subscriber, from_address.batch_bytes, options->batch_bytes);
	if (result < 0)
		return error_prefix(result, "subscriber options: ");
	result = read_bytes_take(subscriber, &from_address, options->read_bytes);
	if (result < 0 && from_address.read_bytes)
		return error_prefix(result, "address %s: ", options->address);
	return result < 0 ? error_prefix(result, "subscriber options: ") : 0;
}

/* The interval in the address replaces the option. */
static int poll_take(struct tb_subscriber *subscriber, const struct fabric_ops *reached,
		     const char *location, uint32_t option)
{
	struct address from_address;
	uint32_t poll_us = option == TB_POLL_SPIN ? 0 : first_set(option, 0, BOUND_POLL_US);

	if (reached->network && address_parse(location, &from_address) == 0 &&
	    from_address.poll_us != ADDRESS_NO_POLL_US)
		poll_us = from_address.poll_us;
	else if (option > BOUND_POLL_US_MAX && option != TB_POLL_SPIN)
		return error_set(EINVAL,
				 "subscriber options: poll_us: found %u, expected 1 to %u, or "
				 "TB_POLL_SPIN",
				 option, BOUND_POLL_US_MAX);
	subscriber->poll_ns = UINT64_C(1000) * poll_us;
	return 0;
}

static int ranges_check(const struct tb_subscriber *subscriber)
{
	int result = range_check("connect_ms", subscriber->connect_ms, 1, BOUND_CONNECT_MS_MAX);

	if (result == 0 && subscriber->stale_asked_ms)
		result = range_check("stale_ms", subscriber->stale_asked_ms, BOUND_STALE_MS_MIN,
				     BOUND_STALE_MS_MAX);
	if (result == 0)
		result = range_check("topics_max", subscriber->topics_max, 1, BOUND_TOPICS_MAX);
	return result < 0 ? error_prefix(result, "subscriber options: ") : 0;
}

int options_apply(struct tb_subscriber *subscriber, const struct tb_subscriber_options *options)
{
	const struct fabric_ops *reached;
	const char *location;
	int result;

	if (!options->address)
		return error_set(EINVAL, "subscriber options: found no address");
	if (options->flags & ~TB_WAIT)
		return error_set(EINVAL, "subscriber options: found flags 0x%x, expected only 0x%x",
				 options->flags, TB_WAIT);
	subscriber->ops = fabric_find(options->address, &location);
	reached = fabric_reached(options->address, &location);
	if (!subscriber->ops || !reached)
		return -EINVAL;
	subscriber->flags = options->flags;
	if (options->ticket)
		memcpy(subscriber->ticket, options->ticket, sizeof(subscriber->ticket));
	subscriber->connect_ms = options->connect_ms ? options->connect_ms : BOUND_CONNECT_MS;
	subscriber->stale_ms = subscriber->stale_asked_ms = options->stale_ms;
	subscriber->topics_max = options->topics_max ? options->topics_max : BOUND_TOPICS;
	result = ranges_check(subscriber);
	if (result == 0)
		result = sizes_take(subscriber, reached, location, options);
	if (result == 0)
		result = poll_take(subscriber, reached, location, options->poll_us);
	if (result < 0)
		return result;
	subscriber->address = strdup(options->address);
	result = fabric_settle(options->address, &subscriber->location);
	if (result == 0 && !subscriber->address)
		return error_set(ENOMEM, "subscriber: no memory");
	return result;
}
