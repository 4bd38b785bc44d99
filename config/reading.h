/* SPDX-License-Identifier: Apache-2.0 */
/* What goes along while a settings file is read: the settings so far, the errors so far. */
#ifndef TICKBUS_CONFIG_READING_H
#define TICKBUS_CONFIG_READING_H

#include "bus/groups.h"
#include "config/settings.h"
#include "config/yaml/located.h"

struct reading {
	struct settings *settings;
	struct located_errors errors;
	const char *folder;   /* of the file: paths in it begin there; kept */
	char why[512];        /* a form's further words on what is wrong, or "" */
	const char *instead;  /* told in place of a text that is to be told to nobody; NULL: none */
	struct groups groups; /* that topics asked for so far, and the bus's own */
};

/* Memory that lives as long as the settings, zeroed. NULL is noted as an error. */
void *reading_keep(struct reading *, size_t bytes);
const char *reading_text(struct reading *, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A path of the file, made absolute. */
const char *reading_path(struct reading *, const char *path);

/* Frees what was kept. */
void reading_forget(struct settings *);

#endif
