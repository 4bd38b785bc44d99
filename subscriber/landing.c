/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a source's READs land in: halves for batches of slots, then one page for everything
 * else. If the subscription has images or watches values, chunks for values follow. */
#include "subscriber/landing.h"

#include <errno.h>
#include <stdlib.h>

#include "bus/error.h"
#include "bus/region.h"
#include "subscriber/image.h"

/* A READ, or one slot if that is more; whole slots, so that each chunk is aligned and takes any
 * READ. */
static size_t chunk_bytes(const struct tb_source *source)
{
	const uint32_t read_bytes =
		(source->subscription->subscriber->read_bytes + SLOT_BYTES_MIN - 1) /
		SLOT_BYTES_MIN * SLOT_BYTES_MIN;

	return read_bytes > SLOT_BYTES_MAX ? read_bytes : SLOT_BYTES_MAX;
}

static size_t page_offset(const struct tb_source *source)
{
	return source->halves * source->half_bytes;
}

static bool wants_values(const struct tb_subscription_options *options)
{
	return image_is_wanted(options) || options->flags & TB_WATCH || options->conflate_us;
}

static size_t landing_bytes(const struct tb_source *source)
{
	const size_t bytes = page_offset(source) + REGION_PAGE;

	if (source->landing_local || !wants_values(&source->subscription->options))
		return bytes;
	return bytes + VALUE_CHUNKS * chunk_bytes(source);
}

int landing_open(struct tb_source *source, bool local)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;

	if (source->landing)
		return 0;
	source->landing_local = local;
	source->halves = subscriber->batch_bytes >= 2 * subscriber->read_bytes ? 2 : 1;
	if (!source_reads_records(source))
		source->halves = 0;
	source->half_bytes =
		local || source->halves == 0 ? 0 : subscriber->batch_bytes / source->halves;
	if (!local)
		source->landing = subscriber->ops->landing(subscriber->link, landing_bytes(source));
	else if (!(source->landing = aligned_alloc(REGION_PAGE, REGION_PAGE)))
		error_set(ENOMEM, "topic %s: no memory", source->name);
	return source->landing ? 0 : -ENOMEM;
}

void landing_close(struct tb_source *source)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;

	if (source->landing_local)
		free(source->landing);
	else if (source->landing)
		subscriber->ops->landing_free(subscriber->link, source->landing,
					      landing_bytes(source));
	source->landing = NULL;
}

char *landing_page(const struct tb_source *source)
{
	return source->landing + page_offset(source);
}

char *landing_chunk(const struct tb_source *source, unsigned int chunk)
{
	return source->landing + page_offset(source) + REGION_PAGE + chunk * chunk_bytes(source);
}
