/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a live market: a table on a terminal, otherwise one line per second. A terminal that cannot
 * move its cursor (TERM=dumb) or has fewer than 6 rows gets lines too.
 *
 *   market_view ADDRESS --quotes TOPIC --trades TOPIC [--seconds N] [--symbols N]
 *               [--no-latency] [--names NAME,... | --conflate-us N]
 *
 * It begins with an image: the present values of all symbols. After a gap another image makes the
 * table right again. It may start before its publisher and its topics: it says what it waits for,
 * and draws on the terminal once both topics are there. It ends when both topics have ended,
 * with SIGINT or SIGTERM, or after --seconds. These begin with the complete image, with the first
 * value, or with the news that no symbol has a name. At its end it prints a summary. Latency is the
 * time from the publisher's time stamp to the handler's clock read, so it needs one clock for both.
 * Without records the program polls for a millisecond before it sleeps, because a wake-up is slow.
 * It sleeps at once on a busy core. It shows the quality of a topic that is suspect or rebuilding.
 *
 * With --names it watches these symbols alone: it reads their values when they changed. With
 * --conflate-us it gets at most one record of each symbol in so many microseconds, its newest. Both
 * take values as they are, so there is no latency to show.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <tickbus/counters.h>

#include "market.h"

#define SECOND_NS    UINT64_C(1000000000)
#define REDRAW_NS    (SECOND_NS / 4)
#define AWAKE_NS     (SECOND_NS / 1000) /* polling without a record before it sleeps */
#define CROWDED      50                 /* preemptions per second of a busy core */
#define TURN         1024               /* records between two clock reads */
#define SYMBOLS_MAX  200
#define ABOVE        4           /* lines above the symbols */
#define ROWS_MIN     (ABOVE + 2) /* for a symbol, and for the cursor below */
#define CONFLATE_MAX 60000000    /* the library's limit */
#define COUNTERS_MAX 64

struct view {
	struct market market; /* first: handlers get its address */
	const char *address;
	uint64_t seconds;
	size_t symbols;
	bool terminal, latency;
	uint64_t begun_ns, drawn_ns, second_ns;
	uint64_t shown_ns; /* since then it shows the market; 0: not yet */
	bool unknown_name;
	uint64_t second_records; /* when this second began */
	uint64_t rate, p50_ns, p99_ns;
	uint64_t awake_ns;              /* AWAKE_NS, or 0 */
	long taken;                     /* preemptions so far */
	int width, left;                /* columns of the terminal; columns left in this line */
	const char *names[SYMBOLS_MAX]; /* to watch */
	size_t name_count;
	uint32_t conflate_us;
	struct tb_subscription *quotes, *trades;
	bool alone; /* no publisher listened at first, so the bus's topics are unknown */
};

static volatile sig_atomic_t stopped;

/* A monotonic clock. */
static uint64_t view_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

/* -- one line at a time, never wider than the terminal ------------------------------------------
 */

__attribute__((format(printf, 3, 4))) static void cell(struct view *view, const char *colour,
						       const char *format, ...)
{
	char text[128];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (length >= (int)sizeof(text))
		length = (int)sizeof(text) - 1;
	if (length > view->left) {
		view->left = 0; /* no further cells in this line */
		return;
	}
	view->left -= length;
	/* Names come from a publisher and must not contain control characters. */
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
			*at = '?';
	printf("%s%s%s", colour, text, *colour ? "\033[0m" : "");
}

static void line_end(struct view *view)
{
	fputs("\033[K\n", stdout);
	view->left = view->width;
}

static const char *tick_colour(int64_t now, int64_t before)
{
	if (before == MARKET_NO_PRICE || now == MARKET_NO_PRICE || now == before)
		return "";
	return now > before ? "\033[32m" : "\033[31m";
}

/* Ten-thousandths as a price. */
static const char *price(char text[32], int64_t value)
{
	if (value == MARKET_NO_PRICE)
		return "-";
	snprintf(text, 32, "%s%" PRId64 ".%04" PRId64, value < 0 ? "-" : "",
		 (value < 0 ? -(value / 10000) : value / 10000),
		 (value < 0 ? -(value % 10000) : value % 10000));
	return text;
}

static const char *duration(char text[32], uint64_t ns)
{
	if (ns == 0)
		snprintf(text, 32, "-"); /* no records */
	else if (ns < 10000)
		snprintf(text, 32, "%" PRIu64 " ns", ns);
	else if (ns < 10000000)
		snprintf(text, 32, "%" PRIu64 ".%" PRIu64 " us", ns / 1000, ns / 100 % 10);
	else
		snprintf(text, 32, "%" PRIu64 ".%" PRIu64 " ms", ns / 1000000, ns / 100000 % 10);
	return text;
}

static void draw_symbol(struct view *view, struct symbol *symbol)
{
	char text[32];

	cell(view, "\033[1m", "%-10.10s", symbol->name);
	cell(view, "", "%9" PRIu32, symbol->bid_size);
	cell(view, tick_colour(symbol->bid, symbol->shown_bid), "%13s", price(text, symbol->bid));
	cell(view, tick_colour(symbol->ask, symbol->shown_ask), "%13s", price(text, symbol->ask));
	cell(view, "", "%9" PRIu32, symbol->ask_size);
	cell(view, tick_colour(symbol->last, symbol->shown_last), "%13s",
	     price(text, symbol->last));
	cell(view, "", "%10" PRIu32, symbol->last_size);
	line_end(view);
	symbol->shown_bid = symbol->bid;
	symbol->shown_ask = symbol->ask;
	symbol->shown_last = symbol->last;
}

static uint64_t records(const struct view *view)
{
	return view->market.quotes.records + view->market.trades.records;
}

/* Records of a subscription's topic: delivered, left out on purpose, and lost. */
static uint64_t published(const struct tb_subscription *subscription)
{
	uint64_t values[COUNTERS_MAX], sum = 0;
	const size_t count = tb_subscription_counters(subscription, values, COUNTERS_MAX);
	size_t known;
	const struct tb_counter *table = tb_counters(TB_SCOPE_SUBSCRIPTION, &known);

	for (size_t i = 0; i < count && i < known; i++)
		if (!strcmp(table[i].name, "records") || !strcmp(table[i].name, "skipped") ||
		    !strncmp(table[i].name, "lost_", 5))
			sum += values[i];
	return sum;
}

static uint64_t lost(const struct view *view)
{
	return market_lost(&view->market.quotes) + market_lost(&view->market.trades);
}

static uint64_t restarts(const struct view *view)
{
	return view->market.quotes.restarts + view->market.trades.restarts;
}

static void draw_quality(struct view *view, const struct stream *stream)
{
	char text[MARKET_QUALITY];

	if (stream->quality != TB_QUALITY_GOOD)
		cell(view, "\033[31m", "%s %s   ", stream->topic, market_quality(text, stream));
}

static void draw_head(struct view *view)
{
	static const struct {
		const char *word;
		int width;
	} columns[] = { { "bid size", 9 }, { "bid", 13 },  { "ask", 13 },
			{ "ask size", 9 }, { "last", 13 }, { "last size", 10 } };
	const struct market *market = &view->market;
	char p50[32], p99[32];

	cell(view, "\033[1m", "tickbus %s", view->address);
	cell(view, "", "   %s %s", market->quotes.topic, market->quotes.state);
	cell(view, "", "   %s %s", market->trades.topic, market->trades.state);
	line_end(view);
	cell(view, "", "%" PRIu64 " records/s", view->rate);
	cell(view, lost(view) ? "\033[31m" : "", "   gaps %" PRIu64,
	     market->quotes.gaps + market->trades.gaps);
	cell(view, "", "  lost %" PRIu64, lost(view));
	if (restarts(view))
		cell(view, "\033[31m", "  restarts %" PRIu64, restarts(view));
	if (view->latency) {
		cell(view, "", "   latency p50 %s", duration(p50, view->p50_ns));
		cell(view, "", "  p99 %s", duration(p99, view->p99_ns));
	}
	cell(view, "", "   total %" PRIu64, records(view));
	if (view->conflate_us)
		cell(view, "", " of %" PRIu64 " published",
		     published(view->quotes) + published(view->trades));
	line_end(view);
	draw_quality(view, &market->quotes);
	draw_quality(view, &market->trades);
	line_end(view);
	cell(view, "\033[7m", "%-10s", "symbol");
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		cell(view, "\033[7m", "%*s", columns[i].width, columns[i].word);
	line_end(view);
}

static struct winsize terminal_size(void)
{
	struct winsize size = { 0 };

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	if (size.ws_row == 0 || size.ws_col == 0) /* a terminal without a size */
		size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	return size;
}

static bool terminal_draws(void)
{
	const char *name = getenv("TERM");

	return isatty(STDOUT_FILENO) == 1 && name && *name && strcmp(name, "dumb") != 0 &&
	       terminal_size().ws_row >= ROWS_MIN;
}

/* If the terminal became too small, only the rows that fit are drawn: a line beyond the last row
 * would scroll the others. */
static void draw(struct view *view)
{
	const struct winsize size = terminal_size();
	struct symbol *found[SYMBOLS_MAX];
	size_t rows, count;

	if (view->drawn_ns == 0) /* alternate screen without cursor; restored at the end */
		fputs("\033[?1049h\033[?25l\033[2J", stdout);
	view->width = view->left = size.ws_col;
	rows = size.ws_row >= ROWS_MIN ? (size_t)size.ws_row - ABOVE - 1 : 0;
	count = market_active(&view->market, found, rows < view->symbols ? rows : view->symbols);
	fputs("\033[H", stdout);
	if (size.ws_row >= ROWS_MIN)
		draw_head(view);
	for (size_t i = 0; i < count; i++)
		draw_symbol(view, found[i]);
	fputs("\033[J", stdout);
	fflush(stdout);
}

/* -- plain lines --------------------------------------------------------------------------------
 */

static void print_symbol(const struct symbol *symbol)
{
	char bid[32], ask[32], last[32];

	printf("  %s bid %s x %u ask %s x %u last %s x %u", symbol->name, price(bid, symbol->bid),
	       symbol->bid_size, price(ask, symbol->ask), symbol->ask_size,
	       price(last, symbol->last), symbol->last_size);
}

static void print_quality(const struct stream *stream)
{
	char text[MARKET_QUALITY];

	if (stream->quality != TB_QUALITY_GOOD)
		printf("  %s %s", stream->topic, market_quality(text, stream));
}

/* The most active symbol, or all that are watched. */
static void print_line(struct view *view)
{
	const time_t second = time(NULL);
	struct symbol *found[SYMBOLS_MAX];
	char time[16], p50[32], p99[32];
	struct tm day;
	size_t count;

	strftime(time, sizeof(time), "%H:%M:%S", gmtime_r(&second, &day));
	printf("%sZ  %" PRIu64 " records/s", time, view->rate);
	if (view->latency)
		printf("  p50 %s  p99 %s", duration(p50, view->p50_ns),
		       duration(p99, view->p99_ns));
	printf("  lost %" PRIu64, lost(view));
	if (restarts(view))
		printf("  restarts %" PRIu64, restarts(view));
	count = market_active(&view->market, found, view->name_count ? view->name_count : 1);
	for (size_t i = 0; i < count; i++)
		print_symbol(found[i]);
	if (strcmp(view->market.quotes.state, "live") != 0)
		printf("  %s %s", view->market.quotes.topic, view->market.quotes.state);
	print_quality(&view->market.quotes);
	print_quality(&view->market.trades);
	putchar('\n');
	fflush(stdout);
}

static void print_image(const struct stream *stream, const struct tb_event *event)
{
	if (event->kind == TB_EVENT_IMAGE)
		printf("%s: image of the values up to record %" PRIu64 "\n", stream->topic,
		       event->first);
	else if (event->kind == TB_EVENT_COMPLETE)
		printf("%s: image complete at record %" PRIu64 ", %" PRIu64 " values\n",
		       stream->topic, event->delivered, stream->values);
	fflush(stdout);
}

static void on_event(void *user, const struct tb_event *event)
{
	struct view *view = user;
	const struct stream *stream = market_event(user, event);

	view->unknown_name |=
		event->kind == TB_EVENT_NO_INSTRUMENT && stream == &view->market.quotes;
	if (event->kind == TB_EVENT_NO_INSTRUMENT && !view->terminal)
		printf("%s: no symbol %s yet\n", event->topic, event->words);
	if (!view->terminal)
		print_image(stream, event);
}

static void print_stream(const struct view *view, const struct stream *stream,
			 const struct tb_subscription *subscription)
{
	static const char *const causes[MARKET_CAUSES] = { "", "overrun", "before join", "upstream",
							   "corrupt" };
	char text[MARKET_QUALITY];

	printf("  %s: %" PRIu64 " records", stream->topic, stream->records);
	if (view->conflate_us)
		printf(" of %" PRIu64 " published", published(subscription));
	printf(", %" PRIu64 " lost in %" PRIu64 " gaps, %s", market_lost(stream), stream->gaps,
	       stream->state);
	if (stream->quality != TB_QUALITY_GOOD)
		printf(", %s", market_quality(text, stream));
	for (int cause = 1; cause < MARKET_CAUSES; cause++)
		if (stream->lost[cause])
			printf(", %s %" PRIu64, causes[cause], stream->lost[cause]);
	if (stream->restarts)
		printf(", restarted %" PRIu64 " times", stream->restarts);
	putchar('\n');
}

static void print_summary(struct view *view)
{
	const uint64_t ms = (view_now_ns() - view->begun_ns) / 1000000;
	const struct histogram *all = view->market.all;
	char p50[32], p99[32], max[32];

	histogram_merge(view->market.all, view->market.recent);
	printf("%" PRIu64 " records in %" PRIu64 ".%03" PRIu64 " s: %" PRIu64 " records/s\n",
	       records(view), ms / 1000, ms % 1000, records(view) * 1000 / (ms ? ms : 1));
	if (view->latency)
		printf("  publish to receive: p50 %s, p99 %s, max %s; the view %s\n",
		       duration(p50, histogram_at(all, 50, 100)),
		       duration(p99, histogram_at(all, 99, 100)), duration(max, all->max),
		       view->awake_ns ? "polls for 1 ms before it sleeps"
				      : "sleeps at once, its processor is busy");
	print_stream(view, &view->market.quotes, view->quotes);
	print_stream(view, &view->market.trades, view->trades);
}

/* -- running ------------------------------------------------------------------------------------
 */

/* On a busy core the scheduler prefers threads that sleep, so stop polling there. */
static void give_way(struct view *view)
{
	const long before = view->taken;
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	view->taken = usage.ru_nivcsw;
	if (view->taken - before > CROWDED)
		view->awake_ns = 0;
}

static void second_over(struct view *view, uint64_t now_ns)
{
	struct market *market = &view->market;

	give_way(view);
	view->rate =
		(records(view) - view->second_records) * SECOND_NS / (now_ns - view->second_ns);
	view->p50_ns = histogram_at(market->recent, 50, 100);
	view->p99_ns = histogram_at(market->recent, 99, 100);
	histogram_merge(market->all, market->recent);
	memset(market->recent, 0, sizeof(*market->recent));
	view->second_records = records(view);
	view->second_ns = now_ns;
	if (!view->terminal)
		print_line(view);
}

static bool shows_market(const struct view *view)
{
	const struct market *market = &view->market;

	if (view->name_count == 0 && view->conflate_us == 0)
		return market->quotes.complete && market->trades.complete;
	return market->quotes.records > 0 || view->unknown_name;
}

/* A topic has not appeared yet. */
static bool waits(const struct view *view)
{
	return !strcmp(view->market.quotes.state, "waiting") ||
	       !strcmp(view->market.trades.state, "waiting");
}

static bool time_is_over(struct view *view, uint64_t now_ns)
{
	if (view->shown_ns == 0 && shows_market(view))
		view->shown_ns = now_ns;
	return view->seconds && view->shown_ns &&
	       now_ns - view->shown_ns >= view->seconds * SECOND_NS;
}

static int run(struct view *view, struct tb_subscriber *subscriber)
{
	uint64_t sleep_ns = 0; /* it polls until then */

	view->begun_ns = view->second_ns = view_now_ns();
	while (!stopped && !market_ended(&view->market)) {
		const int count = tb_poll(subscriber, TURN);
		const uint64_t now_ns = view_now_ns();

		if (count < 0)
			return count;
		if (now_ns - view->second_ns >= SECOND_NS)
			second_over(view, now_ns);
		if (view->terminal && !waits(view) && now_ns - view->drawn_ns >= REDRAW_NS) {
			draw(view);
			view->drawn_ns = now_ns;
		}
		if (time_is_over(view, now_ns))
			break;
		if (count > 0)
			sleep_ns = now_ns + view->awake_ns;
		else if (now_ns >= sleep_ns)
			tb_wait(subscriber, 50); /* a signal interrupts it */
	}
	return 0;
}

/* Says what the library waits for. False: it does not wait. */
static bool wait_report(void)
{
	const char *why = tb_error();

	if (*why)
		fprintf(stderr, "market_view: waits: %s\n", why);
	return *why;
}

/* A watch list and a conflated subscription read values after a gap in any case. */
static int subscribe(struct view *view, struct tb_subscriber *subscriber, const char *topic,
		     const struct tb_schema *schema, tb_record_handler *on_record,
		     struct tb_subscription **subscription)
{
	const bool watch = view->name_count > 0, plain = !watch && !view->conflate_us;
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_record = on_record,
						      .on_event = on_event,
						      .user = &view->market,
						      .from = watch ? TB_FROM_NEWEST
								    : TB_FROM_IMAGE,
						      .flags = TB_WAIT | (watch ? TB_WATCH : 0),
						      .schema = schema,
						      .gap = plain ? TB_GAP_IMAGE : TB_GAP_OLDEST,
						      .names = watch ? view->names : NULL,
						      .name_count = view->name_count,
						      .conflate_us = view->conflate_us };
	const int result = tb_subscribe(subscriber, topic, &what, subscription);

	if (result == 0 && !view->alone)
		wait_report();
	return result;
}

static int view_run(struct view *view)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = view->address,
						   .flags = TB_WAIT };
	struct tb_schema *quote = NULL, *trade = NULL;
	struct tb_subscriber *subscriber = NULL;
	int result = tb_schema_load(&quote, "quote");

	if (result == 0)
		result = tb_schema_load(&trade, "trade");
	if (result == 0)
		result = tb_subscriber_open(&subscriber, &how);
	view->alone = result == 0 && wait_report();
	if (result == 0)
		result = subscribe(view, subscriber, view->market.quotes.topic, quote, market_quote,
				   &view->quotes);
	if (result == 0)
		result = subscribe(view, subscriber, view->market.trades.topic, trade, market_trade,
				   &view->trades);
	if (result == 0) {
		result = run(view, subscriber);
		fputs(view->drawn_ns ? "\033[?25h\033[?1049l" : "", stdout);
		fflush(stdout);
	}
	if (result < 0)
		fprintf(stderr, "market_view: %s\n", tb_error());
	else
		print_summary(view);
	tb_subscriber_close(subscriber);
	tb_schema_free(quote);
	tb_schema_free(trade);
	return result;
}

static uint64_t number(const char *option, uint64_t max)
{
	char *end;
	const unsigned long long value = strtoull(optarg, &end, 10);

	if (*optarg >= '0' && *optarg <= '9' && !*end && value >= 1 && value <= max)
		return value;
	fprintf(stderr, "market_view: --%s: found \"%s\", expected 1 to %" PRIu64 "\n", option,
		optarg, max);
	exit(2);
}

/* Splits the list where it lies. */
static void names_take(struct view *view, char *list)
{
	for (char *name; (name = strsep(&list, ","));) {
		if (view->name_count == SYMBOLS_MAX) {
			fprintf(stderr, "market_view: --names: expected at most %d\n", SYMBOLS_MAX);
			exit(2);
		}
		view->names[view->name_count++] = name;
	}
	view->latency = false;
}

/* Returns 0, or -1 for a wrong usage. */
static int options_take(struct view *view, int argc, char **argv)
{
	static const struct option options[] = {
		{ "quotes", required_argument, NULL, 'q' },
		{ "trades", required_argument, NULL, 't' },
		{ "seconds", required_argument, NULL, 's' },
		{ "symbols", required_argument, NULL, 'n' },
		{ "no-latency", no_argument, NULL, 'l' },
		{ "names", required_argument, NULL, 'w' },
		{ "conflate-us", required_argument, NULL, 'c' },
		{ 0 },
	};
	int letter;

	while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (letter) {
		case 'q':
			view->market.quotes.topic = optarg;
			break;
		case 't':
			view->market.trades.topic = optarg;
			break;
		case 's':
			view->seconds = number("seconds", 1000000);
			break;
		case 'n':
			view->symbols = (size_t)number("symbols", SYMBOLS_MAX);
			break;
		case 'l':
			view->latency = false;
			break;
		case 'w':
			names_take(view, optarg);
			break;
		case 'c':
			view->conflate_us = (uint32_t)number("conflate-us", CONFLATE_MAX);
			view->latency = false;
			break;
		default:
			return -1;
		}
	if (argc != optind + 1 || !view->market.quotes.topic || !view->market.trades.topic ||
	    (view->name_count && view->conflate_us))
		return -1;
	view->address = argv[optind];
	return 0;
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = on_signal };
	struct view view = { .symbols = SYMBOLS_MAX,
			     .awake_ns = AWAKE_NS,
			     .latency = true,
			     .terminal = terminal_draws() };
	int result;

	if (options_take(&view, argc, argv) < 0) {
		fputs("usage: market_view ADDRESS --quotes TOPIC --trades TOPIC [--seconds N] "
		      "[--symbols N] [--no-latency] [--names NAME,... | --conflate-us N]\n",
		      stderr);
		return 2;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	result = market_open(&view.market, view.market.quotes.topic, view.market.trades.topic);
	view.market.watched = view.name_count > 0;
	if (result == 0)
		result = view_run(&view);
	else
		fputs("market_view: out of memory\n", stderr);
	market_close(&view.market);
	return result < 0 || fflush(stdout) != 0;
}
