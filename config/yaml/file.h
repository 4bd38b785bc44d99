/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a text file whole, within bounds of memory and time. */
#ifndef TICKBUS_CONFIG_YAML_FILE_H
#define TICKBUS_CONFIG_YAML_FILE_H

#include "config/yaml/located.h"

#define FILE_PIPE_MS 5000 /* for which a pipe may take to deliver its text */

/* The first YAML_BYTES_MAX + 1 bytes at most, for free(), and *length of them. NULL with an error.
 * Takes a regular file, or a pipe (a shell's <(command)): a pipe that stays open for longer than
 * FILE_PIPE_MS is an error. Folders, devices and sockets are errors. Opening waits for nothing. */
char *file_read(struct located_errors *, const char *path, size_t *length);

#endif
