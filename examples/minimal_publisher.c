/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes ten quotes, ends the topic, and serves subscribers until Enter: minimal_publisher demo
 */
#include <stdio.h>

#include <tickbus/publisher.h>
#include <tickbus/schemas/quote.h>

static int publish(struct tb_topic *topic)
{
	const int instrument = tb_instrument(topic, "ACME");
	int result = instrument;

	for (uint32_t i = 0; i < 10 && result >= 0; i++) {
		const struct tb_quote quote = { .bid_price = 1000000 + 100 * (int64_t)i,
						.ask_price = 1000300 + 100 * (int64_t)i,
						.bid_size = 100 + i,
						.ask_size = 200 };
		const struct tb_update update = { .size = sizeof(update),
						  .instrument = (uint32_t)instrument,
						  .kind = TB_KIND_UPDATE,
						  .flags = TB_FLAG_LAST,
						  .length = sizeof(quote),
						  .data = &quote };

		result = tb_publish(topic, &update);
	}
	return result < 0 ? result : tb_topic_end(topic);
}

int main(int argc, char **argv)
{
	struct tb_publisher_options bus = { .size = sizeof(bus) };
	struct tb_topic_options how = { .size = sizeof(how), .name = "demo.quote" };
	struct tb_publisher *publisher = NULL;
	struct tb_topic *topic;
	struct tb_schema *schema = NULL;
	int result;

	bus.name = argc > 1 ? argv[1] : "demo"; /* listens at shm:demo */
	result = tb_schema_load(&schema, TB_QUOTE_NAME);
	how.schema = schema;
	if (result == 0)
		result = tb_publisher_open(&publisher, &bus);
	if (result == 0)
		result = tb_topic_create(publisher, &how, &topic);
	if (result == 0)
		result = publish(topic);
	if (result == 0) {
		puts("published ten quotes; press Enter to close the bus");
		fflush(stdout);
		getchar();
	} else {
		fprintf(stderr, "minimal_publisher: %s\n", tb_error());
	}
	tb_publisher_close(publisher);
	tb_schema_free(schema);
	return result < 0;
}
