/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes messages in two topics of one group. Each message is a trade, and the quote that the
 * trade leaves behind: group_publisher demo */
#include <stdio.h>

#include <tickbus/publisher.h>
#include <tickbus/schemas/quote.h>
#include <tickbus/schemas/trade.h>

#define SIZE 1000 /* of the offer that the trades take from */
#define EACH 10   /* units in each trade */

struct market {
	struct tb_group *group;
	struct tb_topic *trades, *quotes;
	struct tb_schema *trade, *quote;
	uint32_t count; /* trades so far */
};

static int topic_open(struct tb_publisher *publisher, struct market *market, const char *name,
		      const char *builtin, struct tb_schema **schema, struct tb_topic **topic)
{
	struct tb_topic_options how = { .size = sizeof(how), .name = name, .group = market->group };
	const int result = tb_schema_load(schema, builtin);

	how.schema = *schema;
	return result < 0 ? result : tb_topic_create(publisher, &how, topic);
}

/* The order of creation is the order of the topics in a message. */
static int market_open(struct tb_publisher *publisher, struct market *market)
{
	const struct tb_group_options how = { .size = sizeof(how), .name = "market" };
	int result = tb_group_create(publisher, &how, &market->group);

	if (result == 0)
		result = topic_open(publisher, market, "demo.trade", TB_TRADE_NAME, &market->trade,
				    &market->trades);
	if (result == 0)
		result = topic_open(publisher, market, "demo.quote", TB_QUOTE_NAME, &market->quote,
				    &market->quotes);
	return result;
}

static int record(struct tb_topic *topic, const void *data, uint16_t length)
{
	const int instrument = tb_instrument(topic, "ACME");
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = (uint32_t)instrument,
					  .kind = TB_KIND_UPDATE,
					  .flags = TB_FLAG_LAST,
					  .length = length,
					  .data = data };

	return instrument < 0 ? instrument : tb_publish(topic, &update);
}

/* All records of a message have one time, which the library gives them. No subscriber of the group
 * sees half of a message. */
static int message(struct market *market)
{
	const uint32_t number = ++market->count;
	const struct tb_trade trade = { .price = 1000000, .match_id = number, .size = EACH };
	const struct tb_quote quote = { .bid_price = TB_QUOTE_BID_PRICE_NULL,
					.ask_price = 1000000,
					.ask_size = SIZE - number * EACH };
	int result = tb_group_message(market->group); /* 1: times began again */

	if (result >= 0)
		result = record(market->trades, &trade, sizeof(trade));
	if (result == 0)
		result = record(market->quotes, &quote, sizeof(quote));
	return result;
}

/* One flush shows all messages since the last flush. */
static int messages(struct market *market, int count)
{
	int result = 0;

	for (int i = 0; i < count && result == 0; i++)
		result = message(market);
	return result < 0 ? result : tb_group_flush(market->group);
}

static void pause_for(const char *next)
{
	printf("published; press Enter to %s\n", next);
	fflush(stdout);
	getchar();
}

int main(int argc, char **argv)
{
	struct tb_publisher_options bus = { .size = sizeof(bus) };
	struct tb_publisher *publisher = NULL;
	struct market market = { .count = 0 };
	int result;

	bus.name = argc > 1 ? argv[1] : "demo"; /* listens at shm:demo */
	result = tb_publisher_open(&publisher, &bus);
	if (result == 0)
		result = market_open(publisher, &market);
	if (result == 0)
		result = messages(&market, 5);
	if (result == 0) {
		pause_for("publish more");
		result = messages(&market, 3);
	}
	if (result == 0)
		result = tb_topic_end(market.trades);
	if (result == 0)
		result = tb_topic_end(market.quotes);
	if (result == 0)
		pause_for("close the bus");
	else
		fprintf(stderr, "group_publisher: %s\n", tb_error());
	tb_publisher_close(publisher);
	tb_schema_free(market.trade);
	tb_schema_free(market.quote);
	return result < 0;
}
