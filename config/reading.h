/* SPDX-License-Identifier: Apache-2.0 */
/* The state of reading a settings file: the settings and the errors so far. */
#ifndef TICKBUS_CONFIG_READING_H
#define TICKBUS_CONFIG_READING_H

#include "bus/groups.h"
#include "config/settings.h"
#include "config/yaml/located.h"

struct reading {
	struct settings *settings;
	struct located_errors errors;
	const char *folder;   /* of the file: relative paths begin there; kept */
	char reason[512];     /* a form's reason why the text is wrong, or "" */
	const char *shown;    /* printed instead of a secret text; NULL: print the text */
	struct groups groups; /* of the bus, and those that topics requested so far */
};

/* Zeroed memory that lives as long as the settings. NULL is reported as an error. */
void *reading_keep(struct reading *, size_t bytes);
const char *reading_text(struct reading *, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Makes a path of the file absolute. */
const char *reading_path(struct reading *, const char *path);

/* Frees all memory of reading_keep. */
void reading_free(struct settings *);

#endif
