/* SPDX-License-Identifier: Apache-2.0 */
/* Prints changes of the best prices of some instruments, from the program's own epoll loop.
 *
 *   best_quotes ADDRESS TOPIC INSTRUMENT...
 *
 * The loop waits for two descriptors: the subscriber's and a signalfd. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <tickbus/schemas/quote.h>
#include <tickbus/subscriber.h>

#define TURN 4096 /* records between two checks of the other descriptor */

struct watch {
	const char *name;
	struct tb_quote last;
};

struct watcher {
	struct watch *watches;
	int count;
	uint64_t lost;
	int ended;
};

static struct watch *find(struct watcher *watcher, const char *name)
{
	for (int i = 0; i < watcher->count; i++)
		if (!strcmp(watcher->watches[i].name, name))
			return &watcher->watches[i];
	return NULL;
}

static void print_price(int64_t price)
{
	const uint64_t size = price < 0 ? 0 - (uint64_t)price : (uint64_t)price;

	if (price == TB_QUOTE_BID_PRICE_NULL) /* the null of both prices */
		printf("-");
	else
		printf("%s%" PRIu64 ".%04" PRIu64, price < 0 ? "-" : "", size / 10000,
		       size % 10000);
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct watch *watch = find(user, record->name);
	struct tb_quote quote;

	(void)source;
	if (!watch || record->kind != TB_KIND_UPDATE || record->length < sizeof(quote))
		return;
	memcpy(&quote, record->data, sizeof(quote));
	if (quote.bid_price == watch->last.bid_price && quote.ask_price == watch->last.ask_price)
		return;
	watch->last = quote;
	printf("%s bid ", watch->name);
	print_price(quote.bid_price);
	printf(" x %u ask ", quote.bid_size);
	print_price(quote.ask_price);
	printf(" x %u\n", quote.ask_size);
}

static void on_event(void *user, const struct tb_event *event)
{
	struct watcher *watcher = user;

	if (event->kind == TB_EVENT_GAP)
		watcher->lost += event->last - event->first + 1;
	watcher->ended |= event->kind == TB_EVENT_ENDED;
}

/* Polls until no work is left, because only that arms the descriptor. 0, or -errno. */
static int drain(struct tb_subscriber *subscriber)
{
	int count;

	do {
		count = tb_poll(subscriber, TURN);
	} while (count > 0);
	fflush(stdout);
	return count;
}

static int signals_open(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	return signalfd(-1, &signals, SFD_CLOEXEC);
}

static int run(struct watcher *watcher, struct tb_subscriber *subscriber)
{
	struct epoll_event bus = { .events = EPOLLIN, .data.u32 = 1 };
	struct epoll_event stop = { .events = EPOLLIN, .data.u32 = 0 };
	struct epoll_event event;
	const int loop = epoll_create1(EPOLL_CLOEXEC), signals = signals_open();
	int result = 0;

	if (loop < 0 || signals < 0 ||
	    epoll_ctl(loop, EPOLL_CTL_ADD, tb_subscriber_fd(subscriber), &bus) < 0 ||
	    epoll_ctl(loop, EPOLL_CTL_ADD, signals, &stop) < 0) {
		perror("best_quotes: epoll");
		return -1;
	}
	while (result >= 0 && !watcher->ended) {
		result = drain(subscriber);
		if (result < 0 || watcher->ended)
			break;
		if (epoll_wait(loop, &event, 1, -1) == 1 && event.data.u32 == 0)
			break;
	}
	close(loop);
	close(signals);
	if (result < 0)
		fprintf(stderr, "best_quotes: %s\n", tb_error());
	return result;
}

int main(int argc, char **argv)
{
	struct watcher watcher = { .count = argc - 3 };
	struct tb_subscriber_options how = { .size = sizeof(how) };
	struct tb_subscription_options what = {
		.size = sizeof(what), .on_record = on_record, .on_event = on_event, .user = &watcher
	};
	struct tb_subscriber *subscriber = NULL;
	struct tb_subscription *subscription;
	struct tb_schema *schema = NULL;
	int result;

	if (argc < 4) {
		fputs("usage: best_quotes ADDRESS TOPIC INSTRUMENT...\n", stderr);
		return 2;
	}
	watcher.watches = calloc((size_t)watcher.count, sizeof(*watcher.watches));
	if (!watcher.watches)
		return 1;
	for (int i = 0; i < watcher.count; i++)
		watcher.watches[i].name = argv[3 + i];
	how.address = argv[1];
	result = tb_schema_load(&schema, TB_QUOTE_NAME);
	what.schema = schema;
	if (result == 0)
		result = tb_subscriber_open(&subscriber, &how);
	if (result == 0)
		result = tb_subscribe(subscriber, argv[2], &what, &subscription);
	if (result < 0)
		fprintf(stderr, "best_quotes: %s\n", tb_error());
	else
		result = run(&watcher, subscriber);
	if (watcher.lost)
		fprintf(stderr, "best_quotes: %" PRIu64 " records were lost\n", watcher.lost);
	tb_subscriber_close(subscriber);
	tb_schema_free(schema);
	free(watcher.watches);
	return result < 0;
}
