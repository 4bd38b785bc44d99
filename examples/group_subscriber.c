/* SPDX-License-Identifier: Apache-2.0 */
/* Merges two topics of a group. It begins with one cut through both: group_subscriber shm:demo */
#include <stdio.h>
#include <string.h>

#include <tickbus/schemas/quote.h>
#include <tickbus/schemas/trade.h>
#include <tickbus/subscriber.h>

struct view {
	uint64_t trade; /* number of the last trade */
	uint32_t left;  /* what the quote still offers */
	int complete, ended;
};

/* The trade of a message comes first, then its quote, as the topics were created. Until the cut
 * is complete, values come in any order. */
static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	const struct tb_trade *trade = record->data;
	const struct tb_quote *quote = record->data;
	struct view *view = user;

	if (!strcmp(tb_source_topic(source), "demo.trade") && record->length >= sizeof(*trade))
		view->trade = trade->match_id;
	if (strcmp(tb_source_topic(source), "demo.quote") || record->length < sizeof(*quote))
		return;
	view->left = quote->ask_size;
	if (view->complete)
		printf("trade %lu leaves %u\n", view->trade, view->left);
}

static void on_event(void *user, const struct tb_event *event)
{
	struct view *view = user;

	if (event->kind == TB_EVENT_COMPLETE) {
		view->complete = 1;
		printf("cut: trade %lu leaves %u\n", view->trade, view->left);
		fflush(stdout);
	}
	if (event->kind == TB_EVENT_GAP)
		printf("%s: lost %lu to %lu\n", event->topic, event->first, event->last);
	if (event->kind == TB_EVENT_REFUSED)
		fprintf(stderr, "%s: refused: %s\n", event->topic, event->words);
	if (event->kind == TB_EVENT_ENDED)
		view->ended++;
}

int main(int argc, char **argv)
{
	const char *address = argc > 1 ? argv[1] : "shm:demo";
	struct tb_subscriber_options how = { .size = sizeof(how), .address = address };
	struct view view = { .ended = 0 };
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_record = on_record,
						      .on_event = on_event,
						      .user = &view,
						      .from = TB_FROM_IMAGE,
						      .flags = TB_MERGE };
	struct tb_subscriber *subscriber = NULL;
	struct tb_subscription *subscription;
	int result = tb_subscriber_open(&subscriber, &how);

	if (result == 0)
		result = tb_subscribe(subscriber, "demo.*", &what, &subscription);
	while (result >= 0 && view.ended < 2) {
		result = tb_poll(subscriber, 1000);
		if (result == 0)
			result = tb_wait(subscriber, -1);
	}
	if (result < 0)
		fprintf(stderr, "group_subscriber: %s\n", tb_error());
	tb_subscriber_close(subscriber);
	return result < 0;
}
