/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that a stranger chooses to cost much: messages of a feed, and texts of settings. costs.py
 * runs this program under callgrind, which counts the instructions of counted(): for each input,
 * once of N pieces and once of 2 N. Standard output has a line for each input. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/yaml/located.h"
#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/itch/itch_protocol.h"
#include "tickbus/error.h"

#define MESSAGES 4000
#define PIECES   800
/* Times the multiplier of the books' fast hash this is 1, so that its multiples by small numbers
 * collide. */
#define COLLIDING UINT64_C(0xf1de83e19937733d)

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "costs: %s: %s\n", what, tb_error());
	exit(1);
}

/* -- messages -----------------------------------------------------------------------------------
 */

struct messages {
	uint8_t (*bytes)[ITCH_LENGTH_MAX];
	size_t *lengths, count;
	struct protocol *protocol;
};

static void put(struct messages *messages, const struct itch_message *message)
{
	const int length = itch_encode(message, messages->bytes[messages->count]);

	if (length < 0)
		fail("message");
	messages->lengths[messages->count++] = (size_t)length;
}

static void put_add(struct messages *messages, uint64_t reference, uint32_t price, char side)
{
	struct itch_message message = { .type = 'A', .locate = 1 };

	message.add = (struct itch_add){ .reference = reference,
					 .side = side,
					 .shares = 1,
					 .stock = "COST    ",
					 .price = price };
	put(messages, &message);
}

static void put_delete(struct messages *messages, uint64_t reference)
{
	struct itch_message message = { .type = 'D', .locate = 1 };

	message.deleted.reference = reference;
	put(messages, &message);
}

static void orderly(struct messages *messages, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		put_add(messages, i, 1000 + i % 50, 'B');
}

static void colliding(struct messages *messages, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		put_add(messages, i * COLLIDING, 1000 + i % 50, 'B');
}

static void ever_worse(struct messages *messages, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		put_add(messages, i, i % 2 ? 1000000 + i : 1000000 - i, i % 2 ? 'S' : 'B');
}

/* Then the worst orders go first. */
static void ever_better(struct messages *messages, uint32_t n)
{
	for (uint32_t i = 0; i < n / 2; i++)
		put_add(messages, i, i, 'B');
	for (uint32_t i = 0; i < n / 2; i++)
		put_delete(messages, i);
}

/* Best and worst by turns, then the best orders go first. */
static void by_turns(struct messages *messages, uint32_t n)
{
	for (uint32_t i = 0; i < n / 2; i++)
		put_add(messages, i, i % 2 ? 1000000 + i : 1000000 - i, 'B');
	for (uint32_t i = n / 2; i--;)
		put_delete(messages, i % 2 ? i : n / 2 - 2 - i);
}

/* All levels move to the next price. */
static void replaced(struct messages *messages, uint32_t n)
{
	struct itch_message message = { .type = 'U', .locate = 1 };

	for (uint32_t i = 0; i < n / 2; i++)
		put_add(messages, i, 2 * i, 'B');
	for (uint32_t i = 0; i < n / 2; i++) {
		message.replace = (struct itch_replace){
			.reference = i, .new_reference = n + i, .shares = 1, .price = 2 * i + 1
		};
		put(messages, &message);
	}
}

/* Many trades, then each is broken: the newest first, so that another becomes the value. */
static void broken(struct messages *messages, uint32_t n)
{
	struct itch_message trade = { .type = 'P', .locate = 1 };
	struct itch_message gone = { .type = 'B', .locate = 1 };

	for (uint32_t i = 0; i < n / 2; i++) {
		trade.trade = (struct itch_trade){
			.side = 'B', .shares = 1, .stock = "COST    ", .price = 1, .match = i
		};
		put(messages, &trade);
	}
	for (uint32_t i = n / 2; i--;) {
		gone.broken.match = i;
		put(messages, &gone);
	}
}

static void output_nothing(void *user, const struct market_output *output)
{
	(void)user;
	(void)output;
}

static void messages_run(void *input)
{
	const struct messages *messages = input;

	for (size_t i = 0; i < messages->count; i++) {
		const struct source_message raw = { .bytes = messages->bytes[i],
						    .length = messages->lengths[i] };

		const int result = protocol_message(messages->protocol, &raw);

		if (result != 0 && result != PROTOCOL_DEFECT)
			fail("protocol");
	}
}

/* -- texts --------------------------------------------------------------------------------------
 */

struct text {
	char *bytes;
	size_t length;
};

static void text_run(void *input)
{
	const struct text *text = input;
	static const char *const known[] = { "bus", "feeds", "topics", "schemas", NULL };
	struct located_errors errors = { 0 };
	struct located_document *document =
		located_parse(&errors, text->bytes, text->length, "t.yaml");
	const struct located_node *root = located_root(document);

	if (root && root->kind == YAML_SEQUENCE)
		for (const struct located_node *node = root->first; node; node = node->next)
			located_keys(&errors, node, known);
	located_free(document);
	located_errors_free(&errors);
}

/* A text is `before`, then many times `piece`, where %u is a number. */
static const struct {
	const char *name, *before, *piece;
} texts[] = {
	{ "tag directives", "", "%%TAG !a%u! x\n" },
	{ "tag directives of a second document", "a: 1\n...\n", "%%TAG !a%u! x\n" },
	{ "comments", "a: 1\n", "# comment %u\n" },
	{ "anchors", "", "- &a%u x\n" },
	{ "aliases", "", "- *a%u\n" },
	{ "tags", "", "- !a%u x\n" },
	{ "documents", "", "--- a%u\n" },
	{ "nested lists", "a: ", "[ " },
	{ "nested blocks", "", "- " },
	{ "flow lists", "a: [ ", "[ %u ], " },
	{ "flow pairs", "a: [ ", "a%u: b, " },
	{ "lines of a plain text", "a: b\n", "  c%u\n" },
	{ "empty lines in a plain text", "a: b", "\n\n" },
	{ "lines of a quoted text", "a: \"b", "\\\n c%u" },
	{ "lines of a block", "a: |\n", "  c%u\n" },
	{ "unknown keys of many mappings", "", "- { tops%u: 1 }\n" },
	{ "keys that come again", "", "- { a%u: 1, a: 1, a: 1 }\n" },
	{ "explicit keys", "", "? a\n" },
	{ "escapes", "a: \"", "\\u0041" },
	{ "control characters", "", "- \"\\0\"\n" },
};

/* -- counting -----------------------------------------------------------------------------------
 */

__attribute__((noinline)) void counted(void (*run)(void *), void *input);

void counted(void (*run)(void *), void *input)
{
	run(input);
	__asm__ volatile("" ::: "memory"); /* no tail call: the counting ends here */
}

static void messages_count(void (*make)(struct messages *, uint32_t), uint32_t n)
{
	const struct protocol_options options = {
		.output = output_nothing,
		.wanted = 1u << MARKET_QUOTE | 1u << MARKET_DEPTH10 | 1u << MARKET_TRADE,
	};
	struct messages messages = { .bytes = calloc(n, ITCH_LENGTH_MAX),
				     .lengths = calloc(n, sizeof(size_t)) };

	if (!messages.bytes || !messages.lengths ||
	    protocol_open(&messages.protocol, &itch_protocol, &options) < 0)
		fail("messages");
	make(&messages, n);
	counted(messages_run, &messages);
	protocol_close(messages.protocol);
	free(messages.bytes);
	free(messages.lengths);
}

static void text_count(size_t which, uint32_t n)
{
	struct text text = { 0 };
	FILE *stream = open_memstream(&text.bytes, &text.length);

	if (!stream)
		fail("text");
	fputs(texts[which].before, stream);
	for (uint32_t i = 0; i < n; i++)
		fprintf(stream, texts[which].piece, 10000 + i);
	fclose(stream);
	counted(text_run, &text);
	free(text.bytes);
}

/* With an argument the program only starts: costs.py tries whether valgrind can run it. */
int main(int arguments, char **unused)
{
	static const struct {
		const char *name;
		void (*make)(struct messages *, uint32_t);
	} kinds[] = {
		{ "orders of an exchange", orderly },
		{ "references that collide", colliding },
		{ "ever worse prices", ever_worse },
		{ "ever better prices", ever_better },
		{ "best and worst prices by turns", by_turns },
		{ "replaced orders", replaced },
		{ "broken trades", broken },
	};

	(void)unused;
	if (arguments > 1)
		return 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		puts(kinds[i].name);
		messages_count(kinds[i].make, MESSAGES);
		messages_count(kinds[i].make, 2 * MESSAGES);
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		puts(texts[i].name);
		text_count(i, PIECES);
		text_count(i, 2 * PIECES);
	}
	return 0;
}
