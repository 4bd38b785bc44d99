/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a tree from libyaml's events. The open collections are an explicit path, so input causes
 * no recursion. Bytes, depth and nodes are bounded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "bus/bounds.h"
#include "config/yaml/file.h"
#include "config/yaml/located.h"
#include "config/yaml/traps.h"
#include "config/yaml/tree.h"

#define WORDS_BYTES       320
#define QUOTED(character) ": put a text that begins with " character " in quotes"
#define UNPRINTABLE       "found a control character, expected printable text"

/* The state of building: the open collections, innermost last, and a key that waits for its value.
 */
struct builder {
	struct located_document *document;
	struct located_errors *errors;
	struct located_node *open[YAML_DEPTH_MAX];
	unsigned int depth;
	char *key;
	uint32_t key_line, key_column;
	unsigned int documents;
	bool failed; /* the rest of the file cannot be understood */
};

static void wrong(struct builder *builder, yaml_mark_t mark, const char *message)
{
	located_error_line(builder->errors, "%s:%zu:%zu: %s", builder->document->origin,
			   mark.line + 1, mark.column + 1, message);
	builder->failed = true;
}

static void no_memory(struct builder *builder)
{
	located_no_memory(builder->errors, builder->document->origin);
	builder->failed = true;
}

/* True if text begins with a character that must not be printed. These are C0 except tab and
 * newline, DEL, C1, the line separators U+2028 and U+2029, U+FFFE and U+FFFF. */
static bool unprintable(const unsigned char *text, size_t length)
{
	if (text[0] < ' ')
		return text[0] != '\n' && text[0] != '\t';
	if (text[0] == 0xc2)
		return length > 1 && text[1] < 0xa0;
	if (text[0] == 0xe2)
		return length > 2 && text[1] == 0x80 && (text[2] == 0xa8 || text[2] == 0xa9);
	if (text[0] == 0xef)
		return length > 2 && text[1] == 0xbf && text[2] >= 0xbe;
	return text[0] == 0x7f;
}

/* libyaml checks the file's bytes. This checks the characters that escapes like "\0" stand for. */
static bool printable(const yaml_event_t *event)
{
	const unsigned char *text = event->data.scalar.value;
	const size_t length = event->data.scalar.length;

	for (size_t i = 0; i < length; i++)
		if (unprintable(text + i, length - i))
			return false;
	return true;
}

static char *text_copy(struct builder *builder, const yaml_event_t *event)
{
	char *copy = strndup((const char *)event->data.scalar.value, event->data.scalar.length);

	if (!copy)
		no_memory(builder);
	return copy;
}

static struct located_node *inside(const struct builder *builder)
{
	return builder->depth ? builder->open[builder->depth - 1] : NULL;
}

/* Adds a new node to the innermost open collection. */
static void node_attach(struct builder *builder, struct located_node *node)
{
	struct located_node *parent = inside(builder);

	node->parent = parent;
	if (!parent) {
		builder->document->root = node;
		return;
	}
	if (parent->kind == YAML_MAPPING) {
		node->key = builder->key;
		node->key_line = builder->key_line;
		node->key_column = builder->key_column;
		builder->key = NULL;
	}
	node->index = parent->count++;
	if (parent->last)
		parent->last->next = node;
	else
		parent->first = node;
	parent->last = node;
}

static struct located_node *node_new(struct builder *builder, const yaml_event_t *event,
				     enum located_kind kind)
{
	struct located_node *node;

	if (++builder->document->nodes > YAML_NODES_MAX) {
		wrong(builder, event->start_mark,
		      "found too many nodes, expected at most " BOUND_TEXT(YAML_NODES_MAX));
		return NULL;
	}
	node = calloc(1, sizeof(*node));
	if (!node) {
		no_memory(builder);
		return NULL;
	}
	node->kind = kind;
	node->line = (uint32_t)event->start_mark.line + 1;
	node->column = (uint32_t)event->start_mark.column + 1;
	node->document = builder->document;
	return node;
}

/* Reports an anchor or a tag; the value itself is used. */
static void expect_plain(struct builder *builder, const struct located_node *node,
			 const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor)
		located_error(builder->errors, node,
			      "found an anchor, expected a plain value" QUOTED("&"));
	else if (tag)
		located_error(builder->errors, node,
			      "found a tag, expected a plain value" QUOTED("!"));
}

static void key_take(struct builder *builder, const yaml_event_t *event)
{
	struct located_node *mapping = inside(builder);
	char *key = printable(event) ? text_copy(builder, event) : NULL;
	const struct located_node *before = key ? located_get(mapping, key) : NULL;
	const struct located_node again = {
		.line = (uint32_t)event->start_mark.line + 1,
		.column = (uint32_t)event->start_mark.column + 1,
		.key = key,
		.document = builder->document,
		.parent = mapping,
	};

	if (!key && !builder->failed)
		wrong(builder, event->start_mark, UNPRINTABLE);
	else if (mapping->count == YAML_KEYS_MAX)
		wrong(builder, event->start_mark,
		      "found too many keys in one mapping, expected at most " BOUND_TEXT(
			      YAML_KEYS_MAX));
	else if (before)
		located_error(builder->errors, &again,
			      "found this key again, expected it once (first on line %u)",
			      before->key_line);
	if (key)
		expect_plain(builder, &again, event->data.scalar.anchor, event->data.scalar.tag);
	builder->key = key;
	builder->key_line = again.line;
	builder->key_column = again.column;
}

static bool key_expected(const struct builder *builder)
{
	const struct located_node *parent = inside(builder);

	return parent && parent->kind == YAML_MAPPING && !builder->key;
}

/* An empty text in place of an unusable value. The error is reported here, once. */
static char *text_wrong(struct builder *builder, struct located_node *node, const char *message)
{
	char *text = strdup("");

	located_error(builder->errors, node, "%s", message);
	node->reported = true;
	if (!text)
		no_memory(builder);
	return text;
}

static void scalar_take(struct builder *builder, const yaml_event_t *event)
{
	struct located_node *node;

	if (key_expected(builder)) {
		key_take(builder, event);
		return;
	}
	node = node_new(builder, event, YAML_SCALAR);
	if (!node)
		return;
	node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	node_attach(builder, node);
	expect_plain(builder, node, event->data.scalar.anchor, event->data.scalar.tag);
	node->text = printable(event) ? text_copy(builder, event)
				      : text_wrong(builder, node, UNPRINTABLE);
}

static void alias_take(struct builder *builder, const yaml_event_t *event)
{
	struct located_node *node;

	if (key_expected(builder)) {
		wrong(builder, event->start_mark,
		      "found an alias as a key, expected a word" QUOTED("*"));
		return;
	}
	node = node_new(builder, event, YAML_SCALAR);
	if (!node)
		return;
	node_attach(builder, node);
	node->text =
		text_wrong(builder, node, "found an alias, expected a plain value" QUOTED("*"));
}

static void collection_take(struct builder *builder, const yaml_event_t *event,
			    enum located_kind kind, const yaml_char_t *anchor,
			    const yaml_char_t *tag)
{
	struct located_node *node;

	if (key_expected(builder)) {
		wrong(builder, event->start_mark, "found a collection as a key, expected a word");
		return;
	}
	if (builder->depth == YAML_DEPTH_MAX) {
		wrong(builder, event->start_mark,
		      "found too many levels, expected at most " BOUND_TEXT(YAML_DEPTH_MAX));
		return;
	}
	node = node_new(builder, event, kind);
	if (!node)
		return;
	node_attach(builder, node);
	expect_plain(builder, node, anchor, tag);
	builder->open[builder->depth++] = node;
}

static void event_take(struct builder *builder, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (++builder->documents > 1)
			wrong(builder, event->start_mark,
			      "found a second document, expected a single document");
		break;
	case YAML_ALIAS_EVENT:
		alias_take(builder, event);
		break;
	case YAML_SCALAR_EVENT:
		scalar_take(builder, event);
		break;
	case YAML_SEQUENCE_START_EVENT:
		collection_take(builder, event, YAML_SEQUENCE, event->data.sequence_start.anchor,
				event->data.sequence_start.tag);
		break;
	case YAML_MAPPING_START_EVENT:
		collection_take(builder, event, YAML_MAPPING, event->data.mapping_start.anchor,
				event->data.mapping_start.tag);
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		builder->depth--;
		break;
	default:
		break;
	}
}

/* An error at an offset of the text: finds its line and column. */
static void place_error(struct builder *builder, const char *text, size_t offset,
			const char *message)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < offset; i++) {
		if (text[i] == '\n') {
			line++;
			column = 1;
		} else if (((unsigned char)text[i] & 0xc0) != 0x80) {
			column++;
		}
	}
	located_error_line(builder->errors, "%s:%zu:%zu: %s", builder->document->origin, line,
			   column, message);
	builder->failed = true;
}

/* libyaml gives the offset of a byte that it refuses. */
static void byte_error(struct builder *builder, const yaml_parser_t *parser, const char *text)
{
	char message[128];

	snprintf(message, sizeof(message), "%s, expected printable UTF-8", parser->problem);
	place_error(builder, text, parser->problem_offset, message);
}

static void syntax_error(struct builder *builder, const yaml_parser_t *parser, const char *text,
			 size_t length)
{
	char words[WORDS_BYTES];

	builder->failed = true;
	if (parser->error == YAML_READER_ERROR && parser->problem &&
	    parser->problem_offset <= length)
		byte_error(builder, parser, text);
	else if (traps_explain(parser, text, length, words, sizeof(words)))
		wrong(builder, parser->problem_mark, words);
	else
		located_error_line(builder->errors, "%s:%zu:%zu: YAML syntax: %s%s%s",
				   builder->document->origin, parser->problem_mark.line + 1,
				   parser->problem_mark.column + 1,
				   parser->problem ? parser->problem : "not readable",
				   parser->context ? ", " : "",
				   parser->context ? parser->context : "");
}

/* Skips a byte order mark, which counts for no column. Refuses the marks of other encodings. */
static bool mark_skip(struct builder *builder, const char **text, size_t *length)
{
	if (*length >= 3 && memcmp(*text, "\xef\xbb\xbf", 3) == 0) {
		*text += 3;
		*length -= 3;
	} else if (*length >= 2 &&
		   (memcmp(*text, "\xff\xfe", 2) == 0 || memcmp(*text, "\xfe\xff", 2) == 0)) {
		wrong(builder, (yaml_mark_t){ 0 },
		      "found a file in UTF-16 or UTF-32, expected UTF-8: save it in that encoding");
		return false;
	}
	return true;
}

/* True at the beginning of a line, as libyaml counts lines. */
static bool line_begins(const char *text, size_t at)
{
	static const char *const breaks[] = { "\n", "\r", "\xc2\x85", "\xe2\x80\xa8",
					      "\xe2\x80\xa9" };

	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++) {
		const size_t length = strlen(breaks[i]);

		if (at >= length && memcmp(text + at - length, breaks[i], length) == 0)
			return true;
	}
	return at == 0;
}

/* libyaml compares each %TAG with all before: the square of their number. Tags are errors in any
 * case, so the first %TAG is an error before libyaml sees the text. */
static void expect_no_directive(struct builder *builder, const char *text, size_t length)
{
	const char *found = text;

	while ((found = memmem(found, length - (size_t)(found - text), "%TAG", 4))) {
		if (line_begins(text, (size_t)(found - text))) {
			place_error(builder, text, (size_t)(found - text),
				    "found a %TAG directive, expected a text without tags");
			return;
		}
		found += 4;
	}
}

static void build(struct builder *builder, const char *text, size_t length)
{
	yaml_parser_t parser;
	bool end = false;

	if (!mark_skip(builder, &text, &length))
		return;
	if (!yaml_parser_initialize(&parser)) {
		no_memory(builder);
		return;
	}
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
	while (!end && !builder->failed) {
		yaml_event_t event;

		if (!yaml_parser_parse(&parser, &event)) {
			if (parser.error == YAML_MEMORY_ERROR)
				no_memory(builder);
			else
				syntax_error(builder, &parser, text, length);
			break;
		}
		end = event.type == YAML_STREAM_END_EVENT;
		event_take(builder, &event);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	free(builder->key);
	if (!builder->failed && !builder->document->root) {
		located_error_line(builder->errors, "%s:1:1: found nothing, expected a mapping",
				   builder->document->origin);
		builder->failed = true;
	}
}

struct located_document *located_parse(struct located_errors *errors, const char *text,
				       size_t length, const char *origin)
{
	struct located_document *document = calloc(1, sizeof(*document));
	struct builder builder = { .document = document, .errors = errors };

	if (document)
		document->origin = strdup(origin);
	if (!document || !document->origin) {
		located_no_memory(errors, origin);
		free(document);
		return NULL;
	}
	if (length > YAML_BYTES_MAX) {
		/* The caller may have read no more of it. */
		located_error_line(errors, "%s: found more than %u bytes, expected at most %u",
				   origin, YAML_BYTES_MAX, YAML_BYTES_MAX);
		builder.failed = true;
	} else {
		expect_no_directive(&builder, text, length);
		if (!builder.failed)
			build(&builder, text, length);
	}
	if (!builder.failed)
		return document;
	located_free(document);
	return NULL;
}

struct located_document *located_load(struct located_errors *errors, const char *path)
{
	struct located_document *document;
	size_t length = 0;
	char *text = file_read(errors, path, &length);

	if (!text)
		return NULL;
	document = located_parse(errors, text, length, path);
	free(text);
	return document;
}
