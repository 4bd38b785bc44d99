/* SPDX-License-Identifier: Apache-2.0 */
/* Provokes a sanitizer's report. scripts/test checks with it that reports are not lost.
 *
 *   provoke address|undefined|leak|race */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int number = INT_MAX;
static volatile size_t outside = 8;

static void address(void)
{
	char *bytes = calloc(8, 1);

	if (bytes)
		printf("%d\n", ((volatile char *)bytes)[outside]);
	free(bytes);
}

static void undefined(void)
{
	number = number + 1;
}

static void leak(void)
{
	char *volatile bytes = malloc(8);

	bytes = NULL;
	(void)bytes;
}

static void *count(void *user)
{
	for (int i = 0; i < 100000; i++)
		++*(volatile int *)user;
	return NULL;
}

static void race(void)
{
	pthread_t other;
	int counted = 0;

	if (pthread_create(&other, NULL, count, &counted) != 0)
		return;
	count(&counted);
	pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*provoke)(void);
	} kinds[] = { { "address", address },
		      { "undefined", undefined },
		      { "leak", leak },
		      { "race", race } };

	for (size_t i = 0; argc == 2 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(argv[1], kinds[i].name) == 0) {
			kinds[i].provoke();
			return 0;
		}
	return 2;
}
