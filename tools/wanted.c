/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/wanted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tickbus/record.h"

#define NAMES_MAX   65536 /* the library's limits */
#define PATTERN_MAX 127
#define FILE_MAX    (16u << 20) /* bytes; more than NAMES_MAX patterns have */
#define SHOWN_MAX   40          /* bytes of a wrong name that are printed */

/* A place in a source, for messages. */
struct place {
	const struct command_call *call;
	const char *source;
	size_t line; /* 0: the source is a list on the command line */
};

__attribute__((format(printf, 2, 3))) static int wrong(const struct place *place,
						       const char *format, ...)
{
	char words[160];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	if (place->line == 0)
		return command_wrong(place->call, "--names: %s", words);
	fprintf(stderr, "tickbus %s: --names: %s:%zu: %s\n", place->call->command->name,
		place->source, place->line, words);
	return COMMAND_FAILED;
}

static bool is_printable(const char *word, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (word[i] < ' ' || word[i] > '~')
			return false;
	return true;
}

/* What is invisible in an editor has a name in the message. */
static const char *unprintable(const char *word, size_t length)
{
	static const struct {
		const char *bytes, *name;
	} known[] = {
		{ "\xef\xbb\xbf", "a byte order mark" },
		{ "\xff\xfe", "a byte order mark of UTF-16" },
		{ "\xfe\xff", "a byte order mark of UTF-16" },
		{ "\xc2\xa0", "a non-breaking space" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (memmem(word, length, known[i].bytes, strlen(known[i].bytes)))
			return known[i].name;
	return "a byte that is not printable ASCII";
}

static bool is_pattern(const char *word, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (strchr("*?[", word[i]))
			return true;
	return false;
}

static int out_of_memory(const struct command_call *call)
{
	fprintf(stderr, "tickbus %s: --names: out of memory\n", call->command->name);
	return COMMAND_FAILED;
}

static int word_add(struct wanted_list *list, const char *word, size_t length,
		    const struct place *place)
{
	const size_t most = is_pattern(word, length) ? PATTERN_MAX : TB_INSTRUMENT_NAME_MAX;
	const size_t room = list->room ? list->room * 2 : 64;
	char **larger;

	if (!is_printable(word, length))
		return wrong(place, "found %s, expected a name or pattern of printable ASCII",
			     unprintable(word, length));
	if (length == 0 || length > most)
		return wrong(place,
			     "found \"%.*s\" of %zu bytes, expected a name of 1 to %d bytes or a "
			     "pattern of 1 to %d bytes",
			     length < SHOWN_MAX ? (int)length : SHOWN_MAX, word, length,
			     TB_INSTRUMENT_NAME_MAX, PATTERN_MAX);
	if (list->sought && !list->found && strlen(list->sought) == length &&
	    memcmp(list->sought, word, length) == 0) {
		list->found = place->source;
		list->line = place->line;
	}
	if (list->count == list->room) {
		larger = realloc(list->words, room * sizeof(*larger));
		if (!larger)
			return out_of_memory(place->call);
		list->words = larger;
		list->room = room;
	}
	list->words[list->count] = strndup(word, length);
	if (!list->words[list->count])
		return out_of_memory(place->call);
	list->count++;
	return 0;
}

/* Leaves out the blanks at both ends. */
static const char *trim(const char *text, size_t *length)
{
	while (*length > 0 && strchr(" \t\r", text[*length - 1]) && text[*length - 1])
		--*length;
	while (*length > 0 && (*text == ' ' || *text == '\t')) {
		text++;
		--*length;
	}
	return text;
}

static int list_add(struct wanted_list *list, const char *text, const struct place *place)
{
	int status = 0;

	for (const char *end; status == 0 && text; text = *end ? end + 1 : NULL) {
		size_t length;
		const char *word;

		end = strchrnul(text, ',');
		length = (size_t)(end - text);
		word = trim(text, &length);
		status = word_add(list, word, length, place);
	}
	return status;
}

/* Opens a file. A pipe has no names a second time, and opening it may block: ESPIPE. */
static FILE *file_open(const char *path, bool again)
{
	struct stat status;
	FILE *file;
	int fd;

	if (!again)
		return fopen(path, "re");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) == 0 && !S_ISREG(status.st_mode)) {
		close(fd);
		errno = ESPIPE;
		return NULL;
	}
	file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

/* Returns the file's bytes and their number, or NULL with errno. EFBIG: more than FILE_MAX. */
static char *file_load(const char *path, bool again, size_t *length)
{
	FILE *file = file_open(path, again);
	char *bytes = file ? malloc(FILE_MAX + 1) : NULL;
	int error = errno;

	if (bytes) {
		errno = 0;
		*length = fread(bytes, 1, FILE_MAX + 1, file);
		error = ferror(file) ? errno : *length > FILE_MAX ? EFBIG : 0;
	}
	if (file)
		fclose(file);
	if (bytes && error) {
		free(bytes);
		bytes = NULL;
	}
	errno = error;
	return bytes;
}

/* A name or pattern on each line. Lines that begin with # are comments. */
static int file_add(struct wanted_list *list, const char *path, const struct command_call *call)
{
	struct place place = { .call = call, .source = path };
	size_t length = 0;
	char *bytes;
	int status = 0;

	if (!*path)
		return wrong(&place, "found \"@\", expected the path of a file behind it");
	bytes = file_load(path, list->again, &length);
	if (!bytes) {
		fprintf(stderr, "tickbus %s: --names: %s: %s\n", call->command->name, path,
			errno == EFBIG    ? "found more than 16 MiB, expected a name on each line"
			: errno == ESPIPE ? "found a pipe or device, expected a regular file to "
					    "read again; the names stay"
					  : strerror(errno));
		return COMMAND_FAILED;
	}
	for (size_t at = 0; status == 0 && at < length;) {
		const char *line = bytes + at;
		const char *end = memchr(line, '\n', length - at);
		size_t bytes_of_line = end ? (size_t)(end - line) : length - at;

		at += bytes_of_line + 1;
		place.line++;
		line = trim(line, &bytes_of_line);
		if (bytes_of_line > 0 && *line != '#')
			status = word_add(list, line, bytes_of_line, &place);
	}
	free(bytes);
	return status;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the list, and keeps each word once. */
static void list_sort(struct wanted_list *list)
{
	size_t kept = 0;

	if (list->count > 0)
		qsort(list->words, list->count, sizeof(*list->words), by_text);
	for (size_t i = 0; i < list->count; i++) {
		if (kept > 0 && strcmp(list->words[kept - 1], list->words[i]) == 0)
			free(list->words[i]);
		else
			list->words[kept++] = list->words[i];
	}
	list->count = kept;
}

static int source_add(struct wanted_list *list, const char *source, const struct command_call *call)
{
	const struct place place = { .call = call };
	const int status =
		*source == '@' ? file_add(list, source + 1, call) : list_add(list, source, &place);

	if (status != 0)
		return status;
	list_sort(list);
	if (list->count <= NAMES_MAX)
		return 0;
	fprintf(stderr, "tickbus %s: --names: ", call->command->name);
	if (*source == '@')
		fprintf(stderr, "%s: ", source + 1);
	fprintf(stderr, "found %zu names, expected at most %d\n", list->count, NAMES_MAX);
	return COMMAND_FAILED;
}

int wanted_take(struct wanted *names, const struct command_call *call)
{
	const char **larger =
		realloc(names->sources, (names->source_count + 1) * sizeof(*names->sources));

	if (!larger)
		return out_of_memory(call);
	names->sources = larger;
	names->sources[names->source_count++] = call->value;
	names->files |= *call->value == '@';
	return source_add(&names->chosen, call->value, call);
}

static int sources_read(const struct wanted *names, const struct command_call *call,
			struct wanted_list *list)
{
	for (size_t i = 0; i < names->source_count; i++)
		if (source_add(list, names->sources[i], call) != 0) {
			wanted_list_free(list);
			return -1;
		}
	return 0;
}

int wanted_read(const struct wanted *names, const struct command_call *call,
		struct wanted_list *fresh)
{
	*fresh = (struct wanted_list){ .again = true };
	return sources_read(names, call, fresh);
}

const char *wanted_place(const struct wanted *names, const struct command_call *call,
			 const char *word, size_t *line)
{
	struct wanted_list list = { .again = true, .sought = word };
	const char *found = NULL;

	if (sources_read(names, call, &list) == 0) {
		found = list.found;
		*line = list.line;
	}
	wanted_list_free(&list);
	return found;
}

size_t wanted_missing(const struct wanted_list *list, const struct wanted_list *other,
		      const char **only)
{
	size_t count = 0, at = 0;

	for (size_t i = 0; i < list->count; i++) {
		while (at < other->count && strcmp(other->words[at], list->words[i]) < 0)
			at++;
		if (at == other->count || strcmp(other->words[at], list->words[i]) != 0)
			only[count++] = list->words[i];
	}
	return count;
}

void wanted_list_free(struct wanted_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->words[i]);
	free(list->words);
	*list = (struct wanted_list){ 0 };
}

void wanted_free(struct wanted *names)
{
	wanted_list_free(&names->chosen);
	free(names->sources);
}
