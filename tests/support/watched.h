/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of a shared-memory link: the descriptor that its epoll descriptor watches. */
#ifndef TICKBUS_TESTS_SUPPORT_WATCHED_H
#define TICKBUS_TESTS_SUPPORT_WATCHED_H

#include <stdio.h>

/* -1: none. */
static inline int watched_socket(int epoll)
{
	char path[64], line[128];
	int fd = -1;
	FILE *list;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
	list = fopen(path, "re");
	while (list && fgets(line, sizeof(line), list))
		sscanf(line, "tfd: %d", &fd);
	if (list)
		fclose(list);
	return fd;
}

#endif
