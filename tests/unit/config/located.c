/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML reader: what it accepts, what it refuses at which position, and its bounds. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "bus/clock.h"
#include "config/yaml/located.h"

TestSuite(located, .init = folder_enter, .fini = folder_leave);

#define QUOTES  "expected the text in quotes"
#define BRACKET "found a bracket inside a text, " QUOTES ": "
#define COLON   "found ':' inside a text, " QUOTES ": "
#define LONG    "0123456789012345678901234567890123456789012345678901234567890"

/* A text with a mark at its only error, and the error's message. */
static const char *const refused[][2] = {
	/* syntax */
	{ "a: [\n@", "YAML syntax: did not find expected node content, while parsing a flow node" },
	{ "a: @? b\n", "YAML syntax: mapping keys are not allowed in this context\n" },
	/* quotes are missing */
	{ "a: { type: char@[3] }\n", BRACKET "\"char[3]\"\n" },
	{ "a: { x: group@[10], y: 1 }\n", BRACKET "\"group[10]\"\n" },
	{ "a: { x: decimal64(4)@[2] }\n", BRACKET "\"decimal64(4)[2]\"\n" },
	{ "a: [ rdma@:[fd00::1]:7471 ]\n", BRACKET "\"rdma:[fd00::1]:7471\"\n" },
	{ "a: [ shm@:, x ]\n", "found ':' at the end of a text, " QUOTES ": \"shm:\"\n" },
	{ "a: { b: the price@: best, c: 1 }\n", COLON "\"the price: best\"\n" },
	{ "a: the price@: best # x\n", COLON "\"the price: best\"\n" },
	{ "a: 1\nb: 2@: 3\n", COLON "\"2: 3\"\n" },
	{ "a: [ *@ ]\n", "found * at the beginning of a text, " QUOTES ": \"*\"\n" },
	{ "a: [ b, *@.quote ]\n", "found * at the beginning of a text, " QUOTES ": \"*.quote\"\n" },
	{ "a: *@.quote\n", "found * at the beginning of a text, " QUOTES ": \"*.quote\"\n" },
	{ "a: [ &@ ]\n", "found & at the beginning of a text, " QUOTES ": \"&\"\n" },
	{ "a: [ @> ]\n", "found > at the beginning of a text, " QUOTES ": \">\"\n" },
	{ "a: @%b\n", "found % at the beginning of a text, " QUOTES ": \"%b\"\n" },
	{ "a: @`b`\n", "found ` at the beginning of a text, " QUOTES ": \"`b`\"\n" },
	{ "a: [ @`\xc3\xa9 ]\n", "found ` at the beginning of a text, " QUOTES "\n" },
	{ "a: [ @`" LONG " ]\n", "found ` at the beginning of a text, " QUOTES "\n" },
	{ "%b@: 1\n", "found % at the beginning of a text, " QUOTES ": \"%b: 1\"\n" },
	/* spaces are missing, or are tabs */
	{ "a:\n@\tb: 1\n", "found a tab at the beginning of a line, expected spaces\n" },
	{ "# [\na: 1 # {\n @\tb: 2\n",
	  "found a tab at the beginning of a line, expected spaces\n" },
	{ "a: [ 'b # c' ]\nd:\n@\te: 1\n",
	  "found a tab at the beginning of a line, expected spaces\n" },
	{ "a: 1\n \tb@: 2\n", "found a tab at the beginning of a line, expected spaces\n" },
	{ "a:b\nc@: 1\n", "found a:b on line 1, expected a space after the colon: a: b\n" },
	{ "a: 1\nb:2\n@c: 3\n", "found b:2 on line 2, expected a space after the colon: b: 2\n" },
	{ "a: b\n c@: d\n",
	  "found a key below a value, expected the indentation of the keys above, "
	  "or no value on the line above\n" },
	{ "a:\n  b: 1\n @c: 2\n", "found another indentation, expected that of line 1, where this "
				  "mapping begins\n" },
	{ "- a: 1\n @b: 2\n", "found another indentation, expected that of the keys above, or '- ' "
			      "as on line 1\n" },
	{ "a: 1\n@- b\n", "found '- ', expected a key of the mapping that begins on line 1\n" },
	{ "a: [1] @b\n", "found text after the end of a value, expected the end of the line\n" },
	{ "a: { b: 1 } @c\n",
	  "found text after the end of a value, expected the end of the line\n" },
	/* the line above lacks a colon or a space */
	{ "a\n  b@: c\n", "found a on line 1, expected a key with a colon behind it\n" },
	{ "// a\nb@: c\n", "found // a on line 1, expected a key with a colon behind it\n" },
	{ "a:\n  -b: c\n    d@: e\n",
	  "found -b: c on line 2, expected a space after the dash: - b: c\n" },
	{ "a: @- b\n", "found '- ' after a key, expected the list on the lines below\n" },
	/* quotes and brackets have no partner */
	{ "a: \"x@", "found no closing quote for the quote on line 1, expected it\n" },
	{ "a: 'it'@s'\n",
	  "found text after a closing quote, expected the end of the line; write '' "
	  "for ' inside single quotes\n" },
	{ "a: { b: 'it'@s' }\n",
	  "found text after a closing quote, expected ',' or a bracket; write "
	  "'' for ' inside single quotes\n" },
	{ "a: \"C:\\x@\"\n",
	  "found an unknown or incomplete escape in double quotes, expected \\\\ for \\, or "
	  "single quotes\n" },
	{ "a: @]\n", "found ] without an opening bracket, expected a value\n" },
	{ "a: |@b\n", "found | at the beginning of a text, expected the text in quotes: \"|b\"\n" },
	{ "a: >5@b\n",
	  "found > at the beginning of a text, expected the text in quotes: \">5b\"\n" },
	{ "a: \"@\\p\"\n",
	  "found an unknown or incomplete escape in double quotes, expected \\\\ for \\, or "
	  "single quotes\n" },
	{ "a: { b: 1\nc@: 2\n",
	  "found no ',' or '}' for the bracket that opens on line 1; expected it "
	  "before this place\n" },
	/* encodings */
	{ "@\xff\xfe",
	  "found a file in UTF-16 or UTF-32, expected UTF-8: save it in that encoding\n" },
	{ "@\xfe\xff",
	  "found a file in UTF-16 or UTF-32, expected UTF-8: save it in that encoding\n" },
	/* one plain document */
	{ "@", "found nothing, expected a mapping" },
	{ "a: 1\n@---\nb: 2\n", "found a second document, expected a single document" },
	{ "@*x : 1\n", "found an alias as a key, expected a word" },
	{ "? @[ a ]\n: 1\n", "found a collection as a key, expected a word" },
	{ "@%TAG ! x\n---\na: 1\n", "found a %TAG directive, expected a text without tags" },
	{ "# %TAG\na: 1\n...\n@%TAG !a! x\n---\n", "found a %TAG directive, expected a text" },
	/* characters */
	{ "@\"a\\0\": 1\n", "found a control character, expected printable text" },
	{ "a: 1\nb: @\x01\n", "control characters are not allowed, expected printable UTF-8" },
	{ "a: 1\nb: @\xff\n", "invalid leading UTF-8 octet, expected printable UTF-8" },
	{ "a: 1\nb: x\xc3@(\n", "invalid trailing UTF-8 octet, expected printable UTF-8" },
	{ "a: @\xc0\xaf\n", "invalid length of a UTF-8 sequence, expected printable UTF-8" },
	{ "a: @\xed\xa0\x80\n", "invalid Unicode character, expected printable UTF-8" },
	{ "a: @\xc3", "incomplete UTF-8 octet sequence, expected printable UTF-8" },
};

/* The same, with the path. The rest of the document is read. */
static const char *const wrong[][2] = {
	{ "a: @&x 1\n",
	  "a: found an anchor, expected a plain value: put a text that begins with & in quotes" },
	{ "a: @&x [ 1 ]\n",
	  "a: found an anchor, expected a plain value: put a text that begins with & in quotes" },
	{ "a: [ 1, @&x { b: 1 } ]\n", "a[1]: found an anchor, expected a plain value: put a text "
				      "that begins with & in quotes" },
	{ "b:\n  @&x a: 1\n",
	  "b.a: found an anchor, expected a plain value: put a text that begins with & in quotes" },
	{ "a: @*x\n",
	  "a: found an alias, expected a plain value: put a text that begins with * in quotes" },
	{ "a: [ @*x ]\n",
	  "a[0]: found an alias, expected a plain value: put a text that begins with * in quotes" },
	{ "<<: @*x\n",
	  "<<: found an alias, expected a plain value: put a text that begins with * in quotes" },
	{ "a: @!!int 1\n",
	  "a: found a tag, expected a plain value: put a text that begins with ! in quotes" },
	{ "a: @!mine { b: 1 }\n",
	  "a: found a tag, expected a plain value: put a text that begins with ! in quotes" },
	{ "a: @! 1\n",
	  "a: found a tag, expected a plain value: put a text that begins with ! in quotes" },
	{ "@! a: 1\n",
	  "a: found a tag, expected a plain value: put a text that begins with ! in quotes" },
	{ "a: @\"\\0\"\n", "a: found a control character, expected printable text" },
	{ "a: @\"b\\x1bc\"\n", "a: found a control character, expected printable text" },
	{ "a: @\"\\x7f\"\n", "a: found a control character, expected printable text" },
	{ "a: @\"\\x85\"\n", "a: found a control character, expected printable text" },
	{ "a: @\"\\u2028\"\n", "a: found a control character, expected printable text" },
	{ "a: @\"\\uFFFE\"\n", "a: found a control character, expected printable text" },
};

/* The document, if there is one in spite of the error. */
static struct located_document *expect_error(const char *marked, const char *message)
{
	struct located_errors errors = { 0 };
	struct located_document *document;
	char place[64];
	char *text = unmarked(marked, place);

	document = located_parse(&errors, text, strlen(text), "t.yaml");
	cr_expect_eq(errors.count, 1, "%s\n%s", marked, errors.text);
	cr_assert_not_null(errors.text);
	cr_expect(strncmp(errors.text, place, strlen(place)) == 0, "%s\n  found    %s  expected %s",
		  marked, errors.text, place);
	cr_expect(strstr(errors.text, message), "%s\n  found    %s  expected %s", marked,
		  errors.text, message);
	located_errors_free(&errors);
	free(text);
	return document;
}

Test(located, refusals_name_file_line_and_column)
{
	for (size_t i = 0; i < COUNT(refused); i++)
		cr_expect_null(expect_error(refused[i][0], refused[i][1]), "%s", refused[i][0]);
}

Test(located, wrong_value_is_reported_with_path_and_rest_is_read)
{
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct located_document *document;
		char text[128];

		snprintf(text, sizeof(text), "%sz: 1\n", wrong[i][0]);
		document = expect_error(text, wrong[i][1]);
		cr_assert_not_null(document, "%s", text);
		cr_expect_str_eq(located_get(located_root(document), "z")->text, "1");
		located_free(document);
	}
}

Test(located, wrong_value_is_reported_once)
{
	static const char text[] = "a: *x\nb: \"\\0\"\n";
	struct located_errors errors = { 0 };
	struct located_document *document =
		located_parse(&errors, text, sizeof(text) - 1, "t.yaml");
	const struct located_node *root = located_root(document);
	const char *value;
	int64_t number;

	cr_assert_eq(errors.count, 2);
	cr_expect_not(located_integer(&errors, located_get(root, "a"), 0, 1, &number));
	cr_expect_not(located_keys(&errors, located_get(root, "a"), &(const char *){ NULL }));
	cr_expect_not(located_string(&errors, located_get(root, "b"), 1, 9, &value));
	cr_expect_eq(errors.count, 2, "%s", errors.text);
	located_free(document);
	located_errors_free(&errors);
}

Test(located, nul_byte_is_refused_at_its_position)
{
	static const char text[] = "a: 1\nb: x\0y\n";
	struct located_errors errors = { 0 };

	cr_expect_null(located_parse(&errors, text, sizeof(text) - 1, "t.yaml"));
	cr_expect_str_eq(errors.text, "t.yaml:2:5: control characters are not allowed, expected "
				      "printable UTF-8\n");
	located_errors_free(&errors);
}

Test(located, duplicate_key_is_reported_with_path_and_rest_is_read)
{
	static const char text[] = "a:\n  - { b: 1, b: 2 }\nc: 3\na: 4\n";
	struct located_errors errors = { 0 };
	struct located_document *document =
		located_parse(&errors, text, sizeof(text) - 1, "t.yaml");

	cr_expect_str_eq(errors.text, "t.yaml:2:13: a[0].b: found this key again, expected it once "
				      "(first on line 2)\n"
				      "t.yaml:4:1: a: found this key again, expected it once "
				      "(first on line 1)\n");
	cr_expect_str_eq(located_get(located_root(document), "c")->text, "3");
	located_free(document);
	located_errors_free(&errors);
}

Test(located, error_with_any_key_is_a_single_line)
{
	static const char text[] = "\"a\\nb: found\": { cat: 1 }\n";
	static const char *const known[] = { "cut", NULL };
	struct located_errors errors = { 0 };
	struct located_document *document =
		located_parse(&errors, text, sizeof(text) - 1, "t.yaml");

	located_keys(&errors, located_root(document)->first, known);
	cr_expect_str_eq(errors.text,
			 "t.yaml:1:18: a b: found.cat: found an unknown key, did you mean cut?\n");
	located_free(document);
	located_errors_free(&errors);
}

/* True if a text with `count` times `piece` between two others is accepted. */
static bool taken(const char *before, const char *piece, size_t count, const char *after,
		  const char *message)
{
	struct located_errors errors = { 0 };
	struct located_document *document;
	char *text = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&text, &length);

	fputs(before, stream);
	for (size_t i = 0; i < count; i++)
		fprintf(stream, piece, i);
	fputs(after, stream);
	fclose(stream);
	document = located_parse(&errors, text, length, "t.yaml");
	cr_expect(!document == (errors.count > 0));
	if (!document)
		cr_expect(strstr(errors.text, message), "%s", errors.text);
	located_free(document);
	located_errors_free(&errors);
	free(text);
	return document;
}

Test(located, depth_nodes_keys_and_bytes_are_bounded_exactly)
{
	/* The root is a level and a node. */
	cr_expect(taken("a: ", "[", 31, "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", ""));
	cr_expect_not(taken("a: ", "[", 32, "",
			    "t.yaml:1:35: found too many levels, expected at most 32"));
	cr_expect_not(taken("a: ", "[", 500000, "", "found too many levels, expected at most 32"));
	cr_expect(taken("", "- 1\n", YAML_NODES_MAX - 1, "", ""));
	cr_expect_not(taken("", "- 1\n", YAML_NODES_MAX, "", "t.yaml:100000:3: found too many"));
	cr_expect(taken("", "k%zu: 1\n", YAML_KEYS_MAX, "", ""));
	cr_expect_not(taken("", "k%zu: 1\n", YAML_KEYS_MAX + 1, "",
			    "t.yaml:1001:1: found too many keys in one mapping"));
	cr_expect(taken("a: 1 #", "x", YAML_BYTES_MAX - 6, "", ""));
	cr_expect_not(taken("a: 1 #", "x", YAML_BYTES_MAX - 5, "",
			    "t.yaml: found more than 1048576 bytes, expected at most 1048576"));
}

static void socket_put(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

/* The reader waits for no file. */
Test(located, unreadable_file_is_named)
{
	struct located_errors errors = { 0 };
	const char *const cases[][2] = {
		{ "none.yaml", "none.yaml: cannot be read: No such file or directory\n" },
		{ ".", ".: found a folder, expected a file\n" },
		{ "/dev/zero", "/dev/zero: found a device, expected a file\n" },
		{ "long.yaml",
		  "long.yaml: found more than 1048576 bytes, expected at most 1048576\n" },
		{ "pipe", "pipe: found a pipe without bytes, expected a text\n" },
		{ "socket", "socket: found a socket, expected a file\n" },
	};

	file_write("long.yaml", "a: 1 #", 6);
	cr_assert_eq(truncate("long.yaml", INT64_C(1) << 32), 0); /* sparse */
	cr_assert_eq(mkfifo("pipe", 0600), 0);
	socket_put("socket");
	for (size_t i = 0; i < COUNT(cases); i++) {
		cr_expect_null(located_load(&errors, cases[i][0]));
		cr_expect_str_eq(errors.text, cases[i][1]);
		located_errors_free(&errors);
	}
}

/* As a shell's <(command) does; the text is longer than a pipe holds. */
Test(located, text_of_a_pipe_is_read_to_its_end)
{
	static char text[200000];
	struct located_errors errors = { 0 };
	struct located_document *document;
	char path[64];
	int ends[2];

	memset(text, '#', sizeof(text));
	memcpy(text + sizeof(text) - 6, "\na: 1\n", 6);
	cr_assert_eq(pipe(ends), 0);
	if (fork() == 0)
		_exit(write(ends[1], text, sizeof(text)) != sizeof(text));
	close(ends[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	document = located_load(&errors, path);
	cr_assert_not_null(document, "%s", errors.text);
	cr_expect_str_eq(located_get(located_root(document), "a")->text, "1");
	wait(NULL);
	located_free(document);
}

static unsigned int reads;

/* Each reading is a second after the last. */
static int second_later(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = (struct timespec){ .tv_sec = 1000 + reads++ };
	return 0;
}

static void alarmed(int number)
{
	(void)number;
}

/* Signals stand for time: each ends a wait, and the clock has moved on. */
Test(located, pipe_that_stays_open_is_an_error_in_time)
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	const struct sigaction action = { .sa_handler = alarmed };
	struct located_errors errors = { 0 };

	cr_assert_eq(mkfifo("pipe", 0600), 0);
	cr_assert_geq(open("pipe", O_RDWR | O_CLOEXEC), 0);
	clock_replace(second_later);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	cr_expect_null(located_load(&errors, "pipe"));
	setitimer(ITIMER_REAL, &never, NULL);
	cr_expect_str_eq(errors.text, "pipe: found a pipe that is still open after 5000 ms, "
				      "expected its writer to end or a file\n");
	cr_expect_leq(reads, 8);
	located_errors_free(&errors);
}

static bool take_integer(struct located_errors *errors, const struct located_node *node)
{
	int64_t value = 99;
	const bool good = located_integer(errors, node, -5, 1000, &value);

	cr_expect(good || value == 99);
	return good && value == strtoll(node->text, NULL, 10);
}

static bool take_wide(struct located_errors *errors, const struct located_node *node)
{
	int64_t value;

	return located_integer(errors, node, INT64_MIN, INT64_MAX, &value);
}

static bool take_power(struct located_errors *errors, const struct located_node *node)
{
	int64_t value;

	return located_power(errors, node, 64, 256, &value);
}

static bool take_boolean(struct located_errors *errors, const struct located_node *node)
{
	bool value;

	return located_boolean(errors, node, &value) && value == (node->text[0] == 't');
}

static bool take_string(struct located_errors *errors, const struct located_node *node)
{
	const char *value;

	return located_string(errors, node, 1, 4, &value) && value == node->text;
}

static bool take_word(struct located_errors *errors, const struct located_node *node)
{
	static const char *const words[] = { "one", "two", "three", NULL };
	unsigned int value;

	return located_word(errors, node, words, &value) && strcmp(words[value], node->text) == 0;
}

#define INTEGER "expected a whole number from -5 to 1000"
#define WIDE    "expected a whole number from -9223372036854775808 to 9223372036854775807"
#define POWER   "expected a power of two from 64 to 256"
#define BOOLEAN "expected true or false"
#define STRING  "expected a text of 1 to 4 bytes"
#define WORD    "expected one, two or three"

/* A value, its reader, and the message if it is refused. */
static const struct {
	const char *text;
	bool (*take)(struct located_errors *, const struct located_node *);
	const char *message;
} values[] = {
	{ "-5", take_integer, NULL },
	{ "0", take_integer, NULL },
	{ "1000", take_integer, NULL },
	{ "-6", take_integer, "found \"-6\", " INTEGER },
	{ "1001", take_integer, "found \"1001\", " INTEGER },
	{ "\"5\"", take_integer, "found \"5\" in quotes, " INTEGER },
	{ "'5'", take_integer, "found \"5\" in quotes, " INTEGER },
	{ "|-\n  5", take_integer, "found \"5\" in quotes, " INTEGER },
	{ "05", take_integer, "found \"05\", " INTEGER ", without a 0 in front" },
	{ "-05", take_integer, "found \"-05\", " INTEGER ", without a 0 in front" },
	{ "'05'", take_integer, "found \"05\" in quotes, " INTEGER },
	{ "+5", take_integer, "found \"+5\", " INTEGER },
	{ "0x5", take_integer, "found \"0x5\", " INTEGER },
	{ "5.0", take_integer, "found \"5.0\", " INTEGER },
	{ "5 0", take_integer, "found \"5 0\", " INTEGER },
	{ "1_0", take_integer, "found \"1_0\", " INTEGER },
	{ "\"-\"", take_integer, "found \"-\" in quotes, " INTEGER },
	{ "", take_integer, "found nothing, " INTEGER },
	{ "[ 5 ]", take_integer, "found a list, " INTEGER },
	{ "{ b: 5 }", take_integer, "found a mapping, " INTEGER },
	{ "9223372036854775807", take_wide, NULL },
	{ "-9223372036854775808", take_wide, NULL },
	{ "9223372036854775808", take_wide, "found \"9223372036854775808\", " WIDE },
	{ "64", take_power, NULL },
	{ "256", take_power, NULL },
	{ "32", take_power, "found \"32\", " POWER },
	{ "512", take_power, "found \"512\", " POWER },
	{ "100", take_power, "found \"100\", " POWER },
	{ "true", take_boolean, NULL },
	{ "false", take_boolean, NULL },
	{ "yes", take_boolean, "found \"yes\", " BOOLEAN },
	{ "\"true\"", take_boolean, "found \"true\" in quotes, " BOOLEAN },
	{ "1", take_boolean, "found \"1\", " BOOLEAN },
	{ "word", take_string, NULL },
	{ "'1'", take_string, NULL },
	{ "\xc3\xa9\xc3\xa9", take_string, NULL },
	{ "words", take_string, "found \"words\", " STRING },
	{ "''", take_string, "found \"\", " STRING },
	{ "", take_string, "found nothing, " STRING },
	{ "[]", take_string, "found a list, " STRING },
	{ "two", take_word, NULL },
	{ "Two", take_word, "found \"Two\", " WORD "; did you mean two?" },
	{ "four", take_word, "found \"four\", " WORD },
	{ "{}", take_word, "found a mapping, " WORD },
};

Test(located, value_is_read_or_refused_with_message)
{
	for (size_t i = 0; i < COUNT(values); i++) {
		struct located_errors errors = { 0 };
		struct located_document *document;
		const struct located_node *node;
		char text[128], expected[256];

		snprintf(text, sizeof(text), "a: %s\n", values[i].text);
		document = located_parse(&errors, text, strlen(text), "t.yaml");
		node = located_get(located_root(document), "a");
		cr_assert_not_null(node, "%s", text);
		cr_expect_eq(values[i].take(&errors, node), !values[i].message, "%s", text);
		if (values[i].message) {
			snprintf(expected, sizeof(expected), "t.yaml:%u:%u: a: %s\n", node->line,
				 node->column, values[i].message);
			cr_expect_str_eq(errors.text, expected);
		} else {
			cr_expect_null(errors.text, "%s", errors.text);
		}
		cr_expect_not(values[i].take(&errors, NULL));
		located_free(document);
		located_errors_free(&errors);
	}
}

Test(located, long_text_is_cut_between_characters)
{
	static const char text[] = "a: ab\xe2\x82\xac\xe2\x82\xac\n";
	struct located_errors errors = { 0 };
	struct located_document *document =
		located_parse(&errors, text, sizeof(text) - 1, "t.yaml");
	const struct located_node *node = located_get(located_root(document), "a");
	char found[16];

	cr_expect_str_eq(located_found(node, found, 11), "\"ab\xe2\x82\xac\xe2\x82\xac\"");
	cr_expect_str_eq(located_found(node, found, 10), "\"ab\xe2\x82\xac\"");
	cr_expect_str_eq(located_found(node, found, 8), "\"ab\xe2\x82\xac\"");
	cr_expect_str_eq(located_found(node, found, 7), "\"ab\"");
	located_free(document);
}

Test(located, unknown_key_suggests_the_nearest_known_key)
{
	static const char *const known[] = { "slots", "instruments", NULL };
	static const char text[] = "slot: 1\ninstrumnest: 2\ncolour: 3\nsolts: 4\nslow: 5\n";
	struct located_errors errors = { 0 };
	struct located_document *document =
		located_parse(&errors, text, sizeof(text) - 1, "t.yaml");

	cr_expect(located_keys(&errors, located_root(document), known));
	cr_expect_str_eq(errors.text,
			 "t.yaml:1:1: slot: found an unknown key, did you mean slots?\n"
			 "t.yaml:2:1: instrumnest: found an unknown key, did you mean "
			 "instruments?\n"
			 "t.yaml:3:1: colour: found an unknown key\n"
			 "t.yaml:4:1: solts: found an unknown key, did you mean slots?\n"
			 "t.yaml:5:1: slow: found an unknown key\n");
	located_free(document);
	located_errors_free(&errors);
}

/* Texts whose quotes or spaces are missing, but which are YAML. */
Test(located, value_of_another_kind_says_what_is_missing)
{
	static const char *const known[] = { "name", NULL };
	static const char text[] = "a: name:b\nb: { name:b }\nc:\n  -x\n  -y\nd: { -name: x }\n"
				   "e: { shm: }\nf: -5\ng: [ shm: ]\n";
	struct located_errors errors = { 0 };
	struct located_document *document =
		located_parse(&errors, text, sizeof(text) - 1, "t.yaml");
	const struct located_node *root = located_root(document);
	const char *value;

	located_keys(&errors, located_get(root, "a"), known);
	located_keys(&errors, located_get(root, "b"), known);
	located_is_sequence(&errors, located_get(root, "c"), "a list");
	located_is_sequence(&errors, located_get(root, "d"), "a list");
	located_string(&errors, located_get(root, "e"), 1, 9, &value);
	located_is_sequence(&errors, located_get(root, "f"), "a list");
	located_string(&errors, located_get(root, "g")->first, 1, 9, &value);
	cr_expect_str_eq(
		errors.text,
		"t.yaml:1:4: a: found \"name:b\", expected a mapping: put a space after the "
		"colon\n"
		"t.yaml:2:6: b.name:b: found an unknown key: put a space after the colon\n"
		"t.yaml:4:3: c: found \"-x -y\", expected a list: put a space after the dash\n"
		"t.yaml:6:4: d: found a mapping, expected a list: put a space after the dash\n"
		"t.yaml:7:4: e: found a mapping, expected a text of 1 to 9 bytes: put a text that "
		"ends "
		"with ':' in quotes\n"
		"t.yaml:8:4: f: found \"-5\", expected a list: put a space after the dash\n"
		"t.yaml:9:6: g[0]: found a mapping, expected a text of 1 to 9 bytes: put a text "
		"that "
		"ends with ':' in quotes\n",
		"%s", errors.text);
	located_free(document);
	located_errors_free(&errors);
}

Test(located, invisible_characters_are_named_in_errors)
{
	static const struct {
		const char *text, *named;
	} cases[] = {
		{ "a\xc2\xa0"
		  "b",
		  "a<U+00A0, a non-breaking space>b" },
		{ "\xe2\x80\xaf", "<U+202F, a non-breaking space>" },
		{ "a\xe2\x80\x8b", "a<U+200B, a space without width>" },
		{ "\xe3\x80\x80\xe3\x80\x80", "<U+3000, a wide space><U+3000, a wide space>" },
		{ "\xef\xbb\xbf"
		  "a",
		  "<U+FEFF, a byte order mark>a" },
		{ "\xc2\xa1\xe2\x80\x9c", "\xc2\xa1\xe2\x80\x9c" },
	};
	char many[601] = "";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct located_errors errors = { 0 };
		char expected[128];

		located_error_line(&errors, "t.yaml: found \"%s\"", cases[i].text);
		snprintf(expected, sizeof(expected), "t.yaml: found \"%s\"\n", cases[i].named);
		cr_expect_str_eq(errors.text, expected);
		located_errors_free(&errors);
	}
	/* A line of nothing else is cut, and ends behind a name. */
	for (size_t i = 0; i < 300; i++)
		strcat(many, "\xc2\xa0");
	for (size_t i = 0; i < 40; i++) {
		struct located_errors errors = { 0 };

		located_error_line(&errors, "%s%s", many + 600 - 14 * i, many);
		cr_expect_eq(errors.text[strlen(errors.text) - 2], '>');
		located_errors_free(&errors);
	}
}

Test(located, byte_order_mark_and_quoted_keys_are_accepted)
{
	static const char text[] = "\xef\xbb\xbf\"a b\": 'it''s'\n";
	struct located_errors errors = { 0 };
	struct located_document *document =
		located_parse(&errors, text, sizeof(text) - 1, "t.yaml");

	cr_assert_not_null(document, "%s", errors.text);
	cr_expect_str_eq(located_get(located_root(document), "a b")->text, "it's");
	cr_expect_eq(located_get(located_root(document), "a b")->column, 8, "the mark has none");
	located_free(document);
}
