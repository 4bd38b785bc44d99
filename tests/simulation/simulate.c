/* SPDX-License-Identifier: Apache-2.0 */
/* Runs histories. scripts/simulate describes the options --count, --first, --jobs, --seed, --trace
 * and --shorten.
 *
 * The exit status is 0 if all histories are right. With --floors each count must also be above its
 * floor. A failing history names its seed. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/simulation/counts.h"
#include "tests/simulation/model.h"
#include "tests/simulation/shorten.h"
#include "tests/simulation/history.h"

#define HISTORY_SECONDS 20

static uint64_t running;

/* A history that crashes or never ends has a seed, too. */
static void on_signal(int number)
{
	char text[96];
	const int length =
		snprintf(text, sizeof(text), "seed %" PRIu64 ": signal %d\n", running, number);

	if (write(STDERR_FILENO, text, (size_t)length) < 0)
		_exit(3);
	_exit(1);
}

static void signals_catch(void)
{
	static const int numbers[] = { SIGALRM, SIGABRT, SIGSEGV, SIGBUS };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		signal(numbers[i], on_signal);
}

/* Seeds first, first + step ... below end. Returns whether all their histories are right. */
static bool run_some(uint64_t first, uint64_t end, uint64_t step)
{
	struct history history;

	for (uint64_t seed = first; seed < end; seed += step) {
		running = seed;
		alarm(HISTORY_SECONDS);
		history_make(&history, seed);
		if (!history_run(&history, false)) {
			fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, model_wrong);
			return false;
		}
	}
	alarm(0);
	return true;
}

/* In processes of their own, which leave their counts in `shared`. */
static bool run_jobs(uint64_t first, uint64_t count, uint64_t jobs, uint64_t (*shared)[COUNTS])
{
	bool good = true;
	int status;

	for (uint64_t job = 0; job < jobs; job++) {
		const pid_t child = fork();

		if (child < 0)
			return false;
		if (child == 0) {
			const bool right = run_some(first + job, first + count, jobs);

			memcpy(shared[job], counts, sizeof(counts));
			_exit(!right);
		}
	}
	while (wait(&status) > 0)
		good &= status == 0;
	for (uint64_t job = 0; job < jobs; job++)
		for (int i = 0; i < COUNTS; i++)
			counts[i] += shared[job][i];
	return good;
}

static int run_many(uint64_t first, uint64_t count, uint64_t jobs, bool floors)
{
	void *shared = mmap(NULL, jobs * sizeof(counts), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const bool good = shared != MAP_FAILED && (jobs > 1 ? run_jobs(first, count, jobs, shared)
							    : run_some(first, first + count, 1));

	if (!good)
		return 1;
	printf("%" PRIu64 " histories are right, seeds %" PRIu64 " to %" PRIu64 "\n", count, first,
	       first + count - 1);
	return !counts_report(count) && floors;
}

/* The trace ends where a crash or a hang ends it. */
static int run_one(uint64_t seed, bool trace, bool shortened)
{
	struct history history;

	running = seed;
	history_make(&history, seed);
	if (shortened) {
		shorten(&history);
		printf("%zu steps are left:\n", history.count);
		trace = true;
	}
	alarm(HISTORY_SECONDS);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (history_run(&history, trace)) {
		printf("seed %" PRIu64 ": the history is right\n", seed);
		return 0;
	}
	fflush(stdout);
	fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, model_wrong);
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t first = 1, count = 1000, seed = 0, jobs = 1;
	bool one = false, trace = false, shortened = false, floors = false;

	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "--trace") == 0)
			trace = true;
		else if (strcmp(argv[i], "--shorten") == 0)
			shortened = true;
		else if (strcmp(argv[i], "--floors") == 0)
			floors = true;
		else if (strcmp(argv[i], "--count") == 0)
			count = strtoull(value, NULL, 0), i++;
		else if (strcmp(argv[i], "--first") == 0)
			first = strtoull(value, NULL, 0), i++;
		else if (strcmp(argv[i], "--jobs") == 0)
			jobs = strtoull(value, NULL, 0), i++;
		else if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(value, NULL, 0), one = true, i++;
		else {
			fprintf(stderr,
				"simulate: found %s, expected --count N, --first SEED, --jobs J, "
				"--floors, --seed SEED, --trace or --shorten\n",
				argv[i]);
			return 2;
		}
	}
	signals_catch();
	return one ? run_one(seed, trace, shortened) : run_many(first, count, jobs, floors);
}
