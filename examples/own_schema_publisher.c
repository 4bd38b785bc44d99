/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes records with a custom schema: own_schema_publisher own_schema.yaml basket
 *
 * The header is made from the same file: tickbus schema header own_schema.yaml > own_schema.h.
 * tb_topic_create refuses a file that does not fit the header. */
#include <stdio.h>
#include <string.h>

#include <tickbus/publisher.h>

#include "own_schema.h"

static struct basket basket_at(uint32_t step)
{
	struct basket basket = { .level = 512345 + step,
				 .source_time = UINT64_C(1577716500000000000) + step,
				 .sectors = { 210010 + (int64_t)step, 98765,
					      BASKET_SECTORS_NULL } };

	basket.members[0].weight = 71500;
	basket.members[1].weight = 48250;
	memcpy(basket.members[0].symbol, "ACME    ", sizeof(basket.members[0].symbol));
	memcpy(basket.members[1].symbol, "GLOBEX  ", sizeof(basket.members[1].symbol));
	memcpy(basket.state, "OPEN", sizeof(basket.state));
	return basket;
}

static int publish(struct tb_topic *topic)
{
	const int instrument = tb_instrument(topic, "TOP-2");
	int result = instrument;

	for (uint32_t step = 0; step < 5 && result >= 0; step++) {
		const struct basket basket = basket_at(step);
		const struct tb_update update = { .size = sizeof(update),
						  .instrument = (uint32_t)instrument,
						  .kind = TB_KIND_UPDATE,
						  .flags = TB_FLAG_LAST,
						  .length = sizeof(basket),
						  .data = &basket };

		result = tb_publish(topic, &update);
	}
	return result < 0 ? result : tb_topic_end(topic);
}

int main(int argc, char **argv)
{
	struct tb_publisher_options bus = { .size = sizeof(bus) };
	struct tb_topic_options how = { .size = sizeof(how),
					.name = "demo.basket",
					.fingerprint = BASKET_FINGERPRINT };
	struct tb_publisher *publisher = NULL;
	struct tb_topic *topic;
	struct tb_schema *schema = NULL;
	int result;

	if (argc != 3) {
		fputs("usage: own_schema_publisher SCHEMA-FILE BUS\n", stderr);
		return 2;
	}
	bus.name = argv[2];
	result = tb_schema_load(&schema, argv[1]);
	how.schema = schema;
	if (result == 0)
		result = tb_publisher_open(&publisher, &bus);
	if (result == 0)
		result = tb_topic_create(publisher, &how, &topic);
	if (result == 0)
		result = publish(topic);
	if (result == 0) {
		puts("published five records; press Enter to close the bus");
		fflush(stdout);
		getchar();
	} else {
		fprintf(stderr, "own_schema_publisher: %s\n", tb_error());
	}
	tb_publisher_close(publisher);
	tb_schema_free(schema);
	return result < 0;
}
