/* SPDX-License-Identifier: Apache-2.0 */
/* A trap is a text that looks harmless and means something else in YAML: char[3] inside braces,
 * a pattern that begins with *, key:value, a tab. Each trap is recognized by the parser's message
 * and by the bytes around its position.
 *
 * The bytes behind that position are not checked yet. So a message shows a word of the file only if
 * the word is short printable ASCII. */
#include "config/yaml/traps.h"

#include <stdio.h>
#include <string.h>

#define WORD_MAX 60

struct trap {
	const char *text, *end; /* the file */
	const char *line;       /* where the error's line begins */
	const char *at;         /* the error; end: at the end of the file */
	const char *begun;      /* where the construct begins that has the error */
	const char *problem, *context;
	size_t context_line; /* from 1 */
	char *words;
	size_t size;
};

/* The parser counts lines and characters from 0. */
static const char *line_find(const char *text, const char *end, size_t line)
{
	for (; line && text < end; line--) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));

		text = newline ? newline + 1 : end;
	}
	return text;
}

static const char *column_find(const char *line, const char *end, size_t column)
{
	for (; column && line < end; column--)
		for (line++; line < end && ((unsigned char)*line & 0xc0) == 0x80;)
			line++;
	return line;
}

static bool says(const char *text, const char *part)
{
	return text && strstr(text, part);
}

static char byte_at(const struct trap *trap, const char *at)
{
	return at >= trap->text && at < trap->end ? *at : '\n';
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Copies the text of a value: to the end of the line, or inside brackets to the comma or bracket
 * that ends it. False if it cannot be shown. */
static bool word_copy(const struct trap *trap, const char *from, bool flow, char word[WORD_MAX + 1])
{
	size_t used = 0, depth = 0;

	for (; from < trap->end && *from != '\n' && *from != '\r'; from++) {
		if (flow && depth == 0 && strchr(",]}", *from))
			break;
		if (!flow && from[0] == '#' && used && word[used - 1] == ' ')
			break;
		if (used == WORD_MAX || *from < ' ' || *from > '~' || strchr("\"\\", *from))
			return false;
		depth += *from == '[' || *from == '{';
		depth -= depth && (*from == ']' || *from == '}');
		word[used++] = *from;
	}
	while (used && word[used - 1] == ' ')
		used--;
	word[used] = '\0';
	return used;
}

static bool expect_quotes(const struct trap *trap, const char *found, const char *from, bool flow)
{
	char word[WORD_MAX + 1];
	const bool known = word_copy(trap, from, flow, word);

	snprintf(trap->words, trap->size, "found %s, expected the text in quotes%s%s%s", found,
		 known ? ": \"" : "", known ? word : "", known ? "\"" : "");
	return true;
}

/* Brackets of a comment do not count. Behind a quote, # may be part of a text. */
static bool is_flow(const struct trap *trap)
{
	size_t depth = 0;
	bool quote = false, comment = false;

	for (const char *c = trap->text; c < trap->at; c++) {
		quote = *c != '\n' && (quote || *c == '"' || *c == '\'');
		comment =
			*c != '\n' &&
			(comment || (*c == '#' && !quote && (c == trap->text || is_space(c[-1]))));
		if (comment)
			continue;
		depth += *c == '[' || *c == '{';
		depth -= depth && (*c == ']' || *c == '}');
	}
	return depth;
}

static bool expect_spaces(const struct trap *trap)
{
	if (is_flow(trap))
		return false;
	for (const char *c = trap->line; c < trap->end && is_space(*c) && *c != '\n'; c++)
		if (*c == '\t') {
			snprintf(trap->words, trap->size,
				 "found a tab at the beginning of a line, expected spaces");
			return true;
		}
	return false;
}

/* A character with a meaning of its own at the beginning of a text. */
static bool beginning(const struct trap *trap)
{
	const bool name = says(trap->context, "an alias") || says(trap->context, "an anchor");
	const bool directive = says(trap->context, "a directive");
	const bool block = says(trap->context, "a block scalar");
	const bool nothing = says(trap->problem, "did not find expected node content");
	const char *from = name        ? trap->at - 1
			   : directive ? trap->line
			   : block     ? trap->begun
				       : trap->at;
	char found[40];

	if (!name && !directive && !block && !nothing &&
	    !says(trap->problem, "cannot start any token"))
		return false;
	if (nothing && trap->at < trap->end && strchr("]}", *trap->at)) {
		snprintf(trap->words, trap->size,
			 "found %c without an opening bracket, expected a value", *trap->at);
		return true;
	}
	if (!strchr(nothing ? ":?" : "*&@`%>|", byte_at(trap, from)))
		return false;
	snprintf(found, sizeof(found), "%c at the beginning of a text", *from);
	return expect_quotes(trap, found, from, is_flow(trap));
}

/* The beginning of the word around the error. */
static const char *word_begin(const struct trap *trap)
{
	const char *from = trap->at;

	while (from > trap->line && !is_space(from[-1]) && !strchr(",[{", from[-1]))
		from--;
	return from;
}

/* Behind the last ": " before the error, or NULL. */
static const char *value_begin(const struct trap *trap)
{
	for (const char *from = trap->at; from - trap->line >= 2; from--)
		if (from[-2] == ':' && from[-1] == ' ')
			return from;
	return NULL;
}

static bool behind_a_quote(const struct trap *trap)
{
	const char *at = trap->at;

	while (at > trap->line && is_space(at[-1]))
		at--;
	if (at == trap->line || at[-1] != '\'')
		return at > trap->line && at[-1] == '"';
	return true;
}

/* Inside { } or [ ]: brackets and colons of a text. */
static bool inside_brackets(const struct trap *trap)
{
	const char c = byte_at(trap, trap->at), next = byte_at(trap, trap->at + 1);
	const bool colon = says(trap->problem, "found unexpected ':'");
	const char *value = value_begin(trap);

	if (!colon && !says(trap->problem, "did not find expected ',' or"))
		return false;
	if (c == '[' || c == '{' || (colon && (next == '[' || next == '{')))
		return expect_quotes(trap, "a bracket inside a text", word_begin(trap), true);
	if (colon)
		return expect_quotes(trap, "':' at the end of a text", word_begin(trap), true);
	if (c == ':' && value)
		return expect_quotes(trap, "':' inside a text", value, true);
	if (behind_a_quote(trap))
		snprintf(trap->words, trap->size,
			 "found text after a closing quote, expected ',' or a bracket; write '' "
			 "for ' inside single quotes");
	else
		snprintf(trap->words, trap->size,
			 "%s for the bracket that opens on line %zu; expected it before this place",
			 says(trap->problem, "'}'") ? "found no ',' or '}'" : "found no ',' or ']'",
			 trap->context_line);
	return true;
}

static size_t line_number(const struct trap *trap, const char *line)
{
	size_t number = 1;

	for (const char *c = trap->text; c < line; c++)
		number += *c == '\n';
	return number;
}

/* "-item" on the line that begins here. */
static bool expect_space_after_dash(const struct trap *trap, const char *line)
{
	char word[WORD_MAX + 1];

	while (line < trap->end && *line == ' ')
		line++;
	if (!word_copy(trap, line, false, word) || word[0] != '-' ||
	    strchr(" -.0123456789", word[1]))
		return false;
	snprintf(trap->words, trap->size,
		 "found %s on line %zu, expected a space after the dash: - %s", word,
		 line_number(trap, line), word + 1);
	return true;
}

/* A line that begins here with a text, where a key is missing. */
static bool expect_colon(const struct trap *trap, const char *line)
{
	char word[WORD_MAX + 1];

	while (line < trap->end && (*line == ' ' || *line == '-'))
		line++;
	if (!word_copy(trap, line, false, word) || strchr("\"'#", word[0]) || strchr(word, ':'))
		return false;
	snprintf(trap->words, trap->size,
		 "found %s on line %zu, expected a key with a colon behind it", word,
		 line_number(trap, line));
	return true;
}

/* "key:value" on the line that begins here. */
static bool expect_space(const struct trap *trap, const char *line)
{
	const char *colon = NULL, *from = line;
	char word[WORD_MAX + 1];

	while (from < trap->end && (*from == ' ' || *from == '-'))
		from++;
	if (word_copy(trap, from, false, word))
		colon = strchr(word, ':');
	if (!colon || !colon[1] || colon[1] == ' ' || strcspn(word, " '") < (size_t)(colon - word))
		return false;
	snprintf(trap->words, trap->size,
		 "found %s on line %zu, expected a space after the colon: %.*s: %s", word,
		 line_number(trap, line), (int)(colon - word), word, colon + 1);
	return true;
}

/* The line before the error's that is not empty. */
static const char *line_before(const struct trap *trap)
{
	const char *line = trap->line;

	while (line > trap->text) {
		const char *last = line - 1;

		for (line = last; line > trap->text && line[-1] != '\n';)
			line--;
		for (const char *c = line; c < last; c++)
			if (!is_space(*c))
				return line;
	}
	return trap->text;
}

static bool misplaced_value(const struct trap *trap)
{
	const char *value = value_begin(trap);

	if (says(trap->problem, "could not find expected ':'"))
		return expect_space(trap, line_find(trap->text, trap->end, trap->context_line - 1));
	if (!says(trap->problem, "mapping values are not allowed"))
		return false;
	if (value)
		return expect_quotes(trap, "':' inside a text", value, false);
	if (expect_space_after_dash(trap, line_before(trap)) ||
	    expect_space(trap, line_before(trap)) || expect_colon(trap, line_before(trap)))
		return true;
	snprintf(trap->words, trap->size,
		 "found a key below a value, expected the indentation of the keys above, or no "
		 "value on the line above");
	return true;
}

/* Whether the error is the first text of its line. */
static bool begins_line(const struct trap *trap)
{
	for (const char *c = trap->line; c < trap->at; c++)
		if (!is_space(*c))
			return false;
	return true;
}

/* Indentation, dashes and quotes between keys. */
static bool misplaced_key(const struct trap *trap)
{
	if (says(trap->problem, "did not find expected '-' indicator"))
		snprintf(
			trap->words, trap->size,
			"found another indentation, expected that of the keys above, or '- ' as on "
			"line %zu",
			trap->context_line);
	else if (says(trap->problem, "block sequence entries are not allowed"))
		snprintf(trap->words, trap->size,
			 "found '- ' after a key, expected the list on the lines below");
	else if (!says(trap->problem, "did not find expected key"))
		return false;
	else if (behind_a_quote(trap))
		snprintf(trap->words, trap->size,
			 "found text after a closing quote, expected the end of the line; write "
			 "'' for ' inside single quotes");
	else if (!begins_line(trap))
		snprintf(trap->words, trap->size,
			 "found text after the end of a value, expected the end of the line");
	else if (byte_at(trap, trap->at) == '-' && is_space(byte_at(trap, trap->at + 1)))
		snprintf(trap->words, trap->size,
			 "found '- ', expected a key of the mapping that begins on line %zu",
			 trap->context_line);
	else
		snprintf(trap->words, trap->size,
			 "found another indentation, expected that of line %zu, where this mapping "
			 "begins",
			 trap->context_line);
	return true;
}

static bool quotes(const struct trap *trap)
{
	if (!says(trap->context, "a quoted scalar"))
		return false;
	if (says(trap->problem, "unexpected end of stream"))
		snprintf(trap->words, trap->size,
			 "found no closing quote for the quote on line %zu, expected it",
			 trap->context_line);
	else if (says(trap->problem, "unknown escape character") ||
		 says(trap->problem, "did not find expected hex"))
		snprintf(
			trap->words, trap->size,
			"found an unknown or incomplete escape in double quotes, expected \\\\ for "
			"\\, or single quotes");
	else
		return false;
	return true;
}

bool traps_explain(const yaml_parser_t *parser, const char *text, size_t length, char *words,
		   size_t size)
{
	struct trap trap = {
		.text = text,
		.end = text + length,
		.problem = parser->problem,
		.context = parser->context,
		.context_line = parser->context_mark.line + 1,
		.words = words,
		.size = size,
	};

	trap.line = line_find(text, trap.end, parser->problem_mark.line);
	trap.begun = column_find(line_find(text, trap.end, parser->context_mark.line), trap.end,
				 parser->context_mark.column);
	trap.at = column_find(trap.line, trap.end, parser->problem_mark.column);
	return expect_spaces(&trap) || beginning(&trap) || inside_brackets(&trap) ||
	       misplaced_value(&trap) || misplaced_key(&trap) || quotes(&trap);
}
