/* SPDX-License-Identifier: Apache-2.0 */
/* Prints two-sided quotes as they arrive, and gaps: minimal_subscriber shm:demo demo.quote */
#include <stdio.h>

#include <tickbus/schemas/quote.h>
#include <tickbus/subscriber.h>

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	const struct tb_quote *quote = record->data;

	(void)user, (void)source;
	if (record->length < sizeof(*quote) || TB_QUOTE_BID_PRICE_ISNULL(quote->bid_price) ||
	    TB_QUOTE_ASK_PRICE_ISNULL(quote->ask_price))
		return;
	printf("%s %lu %u x %.4f  %.4f x %u\n", record->name, record->sequence, quote->bid_size,
	       (double)quote->bid_price / 1e4, (double)quote->ask_price / 1e4, quote->ask_size);
}

static void on_event(void *user, const struct tb_event *event)
{
	if (event->kind == TB_EVENT_GAP)
		printf("lost %lu to %lu\n", event->first, event->last);
	if (event->kind == TB_EVENT_ENDED)
		*(int *)user = 1;
}

int main(int argc, char **argv)
{
	const char *address = argc > 1 ? argv[1] : "shm:demo";
	struct tb_subscriber_options how = { .size = sizeof(how), .address = address };
	struct tb_subscription_options what = { .size = sizeof(what),
						.on_record = on_record,
						.on_event = on_event };
	struct tb_subscriber *subscriber = NULL;
	struct tb_subscription *subscription;
	struct tb_schema *schema = NULL;
	int ended = 0, result = tb_schema_load(&schema, TB_QUOTE_NAME);

	what.from = TB_FROM_OLDEST;
	what.user = &ended;
	what.schema = schema; /* refuse other schemas */
	if (result == 0)
		result = tb_subscriber_open(&subscriber, &how);
	if (result == 0)
		result = tb_subscribe(subscriber, argc > 2 ? argv[2] : "demo.quote", &what,
				      &subscription);
	while (result >= 0 && !ended) {
		result = tb_poll(subscriber, 1000);
		if (result == 0)
			result = tb_wait(subscriber, -1);
	}
	if (result < 0)
		fprintf(stderr, "minimal_subscriber: %s\n", tb_error());
	tb_subscriber_close(subscriber);
	tb_schema_free(schema);
	return result < 0;
}
