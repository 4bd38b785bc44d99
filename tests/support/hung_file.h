/* SPDX-License-Identifier: Apache-2.0 */
/* A file of a FUSE file system whose server stops answering. So closing it waits until the server
 * ends, and kill -9 does not end the wait. The server is a child in a mount namespace of its own.
 * It ends by itself after a minute, so that a test that hangs fails. */
#ifndef TICKBUS_TESTS_SUPPORT_HUNG_FILE_H
#define TICKBUS_TESTS_SUPPORT_HUNG_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

enum hung_by {
	HUNG_FLUSH, /* each close() of a descriptor waits */
	HUNG_WRITE, /* the last close waits too, also of a descriptor that is in flight */
};

struct hung_file {
	int fd; /* close it before hung_file_hang */
	pid_t server, writer;
	_Atomic unsigned int *asked; /* how many requests wait for an answer */
	_Atomic bool *hangs;
	enum hung_by by;
	char folder[64];
};

/* 0, or -errno if this user cannot make the file. */
int hung_file_open(struct hung_file *, enum hung_by);
/* Opens the file once more: a descriptor, or -errno. */
int hung_file_again(const struct hung_file *);
/* From now on the server leaves these requests without an answer. */
void hung_file_hang(struct hung_file *);
/* Ends the server: everything that waits goes on. */
void hung_file_close(struct hung_file *);

#endif
