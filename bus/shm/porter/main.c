/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-porter: holds descriptors of other processes for a program of the bus, which starts it.
 *
 * Closing a descriptor may wait for as long as its sender likes, and kill -9 does not end the wait.
 * So this process receives and closes them. All signals stay blocked:
 * the porter ends with its program, not before it. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bus/shm/porter/hold.h"
#include "bus/shm/porter/message.h"
#include "bus/shm/porter/take.h"

int main(int count, char **words)
{
	struct rlimit limit;

	if (chdir("/") < 0)
		return 1;
	/* As many as this user may have: those of a frame, or all connections of a publisher. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (count == 2 && strcmp(words[1], PORTER_TAKE) == 0)
		take_run(PORTER_PAIR, PORTER_SOCKET);
	if (count == 2 && strcmp(words[1], PORTER_HOLD_ALL) == 0)
		hold_run(PORTER_PAIR, PORTER_SOCKET);
	_exit(0);
}
