/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target without libFuzzer: first each file unchanged, then mutations of the files.
 *
 *   PROGRAM [--seconds N] [--least N] [--seed S] [--round R] FILE|FOLDER...
 *
 * Round R of seed S is the same input as long as the files are the same. A failure prints its
 * round, and --round repeats it. The program goes on until --least mutations have passed the
 * target's first check. If they do not, it fails: the target hangs, or no mutation reaches it. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define BYTES_MAX    16384
#define FILES_MAX    1024
#define CHANGES_MAX  6
#define HANG_S       60 /* of the processor, for LOOK_EVERY rounds */
#define ALL_ROUNDS   UINT64_MAX
#define INTERESTING  (sizeof(interesting) / sizeof(interesting[0]))
#define LATE_S       45 /* for --least, on a slow machine */
#define LOOK_EVERY   16 /* rounds between two looks at the clock */
#define REPLAY_ROUND 0  /* of the unchanged files; mutations count from 1 */

struct input {
	char *name;
	uint8_t *bytes;
	size_t size;
	bool text;
};

static struct input inputs[FILES_MAX];
static size_t input_count;
static uint64_t seed;
static uint64_t round_now, deep_rounds;
static const char *program, *file_now = "";

static const uint64_t interesting[] = { 0,          1,          2,         7,         8,
					63,         64,         127,       128,       255,
					256,        1023,       1024,      4063,      4064,
					4065,       4095,       4096,      4097,      32767,
					65535,      0x7fffffff, 1u << 31u, 1u << 24u, UINT32_MAX,
					1ull << 32, 1ull << 63, UINT64_MAX };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Defined only by a sanitizer. */
void __sanitizer_set_death_callback(void (*)(void)) __attribute__((weak));

static void say_where(void)
{
	if (round_now == REPLAY_ROUND)
		dprintf(STDERR_FILENO, "%s: failed at file %s\n", program, file_now);
	else
		dprintf(STDERR_FILENO,
			"%s: failed at --seed %" PRIu64 " --round %" PRIu64 " of the same files\n",
			program, seed, round_now);
}

static void on_signal(int number)
{
	say_where();
	if (number == SIGPROF)
		dprintf(STDERR_FILENO, "found a run of more than %d seconds of the processor\n",
			HANG_S);
	signal(number, SIG_DFL);
	raise(number);
}

static void watch_for_failures(void)
{
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(say_where);
	else
		signal(SIGSEGV, on_signal);
	signal(SIGABRT, on_signal);
	signal(SIGPROF, on_signal);
}

/* -- the files ----------------------------------------------------------------------------------
 */

static bool is_text(const struct input *input)
{
	for (size_t i = 0; i < input->size; i++)
		if (input->bytes[i] < ' ' && input->bytes[i] != '\n')
			return false;
	return input->size > 0;
}

static void input_read(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct input *input = &inputs[input_count];

	FUZZ_EXPECT(file && input_count < FILES_MAX);
	input->name = strdup(path);
	input->bytes = malloc(BYTES_MAX);
	FUZZ_EXPECT(input->name && input->bytes);
	input->size = fread(input->bytes, 1, BYTES_MAX, file);
	fclose(file);
	input->text = is_text(input);
	input_count++;
}

static void inputs_read(const char *path)
{
	struct stat status;
	struct dirent **entries;
	char inside[PATH_MAX];
	int count;

	if (stat(path, &status) == 0 && !S_ISDIR(status.st_mode)) {
		input_read(path);
		return;
	}
	count = scandir(path, &entries, NULL, alphasort); /* in the same order everywhere */
	if (count < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(2);
	}
	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.') {
			snprintf(inside, sizeof(inside), "%s/%s", path, entries[i]->d_name);
			input_read(inside);
		}
		free(entries[i]);
	}
	free(entries);
}

static void inputs_free(void)
{
	for (size_t i = 0; i < input_count; i++) {
		free(inputs[i].name);
		free(inputs[i].bytes);
	}
}

/* -- mutations ----------------------------------------------------------------------------------
 */

/* splitmix64: any state is a good seed, also a round's number. */
static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static size_t below(uint64_t *state, size_t limit)
{
	return limit ? (size_t)(draw(state) % limit) : 0;
}

/* Replaces `gone` bytes at `at` by count bytes. */
static void splice(struct input *input, size_t at, size_t gone, const uint8_t *fresh, size_t count)
{
	if (input->size - gone + count > BYTES_MAX)
		return;
	memmove(input->bytes + at + count, input->bytes + at + gone, input->size - at - gone);
	if (count)
		memcpy(input->bytes + at, fresh, count);
	input->size += count - gone;
}

static void write_number(struct input *input, uint64_t *state)
{
	const size_t bytes = (size_t)1 << below(state, 4);
	uint64_t value = interesting[below(state, INTERESTING)];

	if (input->size < bytes)
		return;
	if (below(state, 4) == 0)
		value = -value;
	memcpy(input->bytes + below(state, input->size - bytes + 1), &value, bytes);
}

static void copy_range(struct input *input, uint64_t *state, const struct input *from)
{
	uint8_t range[256];
	const size_t first = below(state, from->size);
	const size_t left = from->size - first;
	const size_t count = below(state, (left < sizeof(range) ? left : sizeof(range)) + 1);
	const size_t at = below(state, input->size + 1);
	const bool over = below(state, 2) && count <= input->size - at;

	if (count)
		memcpy(range, from->bytes + first, count);
	splice(input, at, over ? count : 0, range, count);
}

static void change(struct input *input, uint64_t *state)
{
	const size_t at = below(state, input->size);
	uint8_t fresh[16];

	switch (below(state, 8)) {
	case 0:
		if (input->size)
			input->bytes[at] ^= (uint8_t)(1u << below(state, 8));
		break;
	case 1:
		if (input->size)
			input->bytes[at] = (uint8_t)draw(state);
		break;
	case 2:
	case 3:
		write_number(input, state);
		break;
	case 4:
		splice(input, at, below(state, input->size - at + 1), NULL, 0);
		break;
	case 5:
		for (size_t i = 0; i < sizeof(fresh); i++)
			fresh[i] = (uint8_t)draw(state);
		splice(input, at, 0, fresh, below(state, sizeof(fresh) + 1));
		break;
	case 6:
		copy_range(input, state, input);
		break;
	default:
		copy_range(input, state, &inputs[below(state, input_count)]);
	}
}

/* The line of the byte at `at`: its begin, and its length with the line end. */
static size_t line_at(const struct input *input, size_t at, size_t *length)
{
	size_t first = at, end = at;

	while (first > 0 && input->bytes[first - 1] != '\n')
		first--;
	while (end < input->size && input->bytes[end] != '\n')
		end++;
	*length = end + (end < input->size) - first;
	return first;
}

static void copy_line(struct input *input, uint64_t *state, const struct input *from)
{
	uint8_t line[256];
	size_t length, unused;
	const size_t first = line_at(from, below(state, from->size), &length);

	if (length == 0 || length > sizeof(line))
		return;
	memcpy(line, from->bytes + first, length);
	splice(input, line_at(input, below(state, input->size), &unused), 0, line, length);
}

static void change_digit(struct input *input, uint64_t *state)
{
	for (int tries = 0; tries < 32 && input->size > 0; tries++) {
		uint8_t *byte = &input->bytes[below(state, input->size)];

		if (*byte < '0' || *byte > '9')
			continue;
		*byte = (uint8_t)('0' + below(state, 10));
		return;
	}
}

/* A mutation that keeps a text readable, so that it is not refused at its first byte. */
static void change_text(struct input *input, uint64_t *state)
{
	size_t length, first;

	switch (below(state, 5)) {
	case 0:
		first = line_at(input, below(state, input->size), &length);
		splice(input, first, length, NULL, 0);
		break;
	case 1:
		copy_line(input, state, input);
		break;
	case 2:
		copy_line(input, state, &inputs[below(state, input_count)]);
		break;
	default:
		change_digit(input, state);
	}
}

/* -- running ------------------------------------------------------------------------------------
 */

/* Runs the input in memory of exactly its size, so that a sanitizer sees a read beyond it. */
static void run(const struct input *input)
{
	uint8_t *exact = malloc(input->size ? input->size : 1);

	FUZZ_EXPECT(exact);
	memcpy(exact, input->bytes, input->size);
	fuzz_deep = false;
	LLVMFuzzerTestOneInput(exact, input->size);
	free(exact);
}

static void run_round(uint64_t number)
{
	static uint8_t bytes[BYTES_MAX];
	struct input input = { .bytes = bytes };
	uint64_t state = seed ^ number * UINT64_C(0xd1342543de82ef95);
	const struct input *from = &inputs[below(&state, input_count)];
	bool text;

	round_now = number;
	input.size = from->size;
	memcpy(bytes, from->bytes, from->size);
	text = from->text && below(&state, 2);
	for (size_t changes = 1 + below(&state, 1 + below(&state, CHANGES_MAX)); changes; changes--)
		if (text)
			change_text(&input, &state);
		else
			change(&input, &state);
	run(&input);
	deep_rounds += fuzz_deep;
}

/* Time of the processor: a busy machine gives less of it, and the same number of rounds. */
static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void watch_for_a_hang(void)
{
	const struct itimerval timer = { .it_value.tv_sec = HANG_S };

	setitimer(ITIMER_PROF, &timer, NULL);
}

static uint64_t run_for(double seconds, uint64_t least)
{
	const double until_s = now_s() + seconds, late_s = until_s + LATE_S;
	uint64_t rounds = 0;

	while (now_s() < (deep_rounds < least ? late_s : until_s)) {
		watch_for_a_hang();
		for (int i = 0; i < LOOK_EVERY; i++)
			run_round(++rounds);
	}
	return rounds;
}

static void usage(void)
{
	fprintf(stderr,
		"usage: %s [--seconds N] [--least N] [--seed S] [--round R] FILE|FOLDER...\n",
		program);
	exit(2);
}

int main(int argc, char **argv)
{
	const char *chosen = getenv("TICKBUS_TEST_SEED");
	uint64_t only = ALL_ROUNDS, rounds = 1, least = 0;
	double seconds = 0;

	program = argv[0];
	seed = chosen ? strtoull(chosen, NULL, 0) : (uint64_t)time(NULL);
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] != '-')
			inputs_read(argv[i]);
		else if (i + 1 == argc)
			usage();
		else if (!strcmp(argv[i], "--seconds"))
			seconds = strtod(argv[++i], NULL);
		else if (!strcmp(argv[i], "--least"))
			least = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--round"))
			only = strtoull(argv[++i], NULL, 0);
		else
			usage();
	}
	if (input_count == 0)
		usage();
	watch_for_failures();
	for (size_t i = 0; i < input_count && only == ALL_ROUNDS; i++) {
		file_now = inputs[i].name;
		watch_for_a_hang();
		run(&inputs[i]);
	}
	if (only == ALL_ROUNDS)
		rounds = run_for(seconds, least);
	else
		run_round(only);
	printf("seed %" PRIu64 ": %zu files, %" PRIu64 " rounds, %" PRIu64
	       " past the first check, expected %" PRIu64 " or more\n",
	       seed, input_count, rounds, deep_rounds, least);
	inputs_free();
	return only == ALL_ROUNDS && deep_rounds < least ? 1 : 0;
}
