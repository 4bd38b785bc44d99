/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of texts in the settings: how a text is checked, read and written. Each key names its form.
 */
#ifndef TICKBUS_CONFIG_FORMS_H
#define TICKBUS_CONFIG_FORMS_H

#include "config/reading.h"

struct form {
	const char *expected; /* for the error message */
	/* Fills the field. Or returns false, and may give the reason in reading->reason. Refuses
	 * the empty text. */
	bool (*read)(struct reading *, const char *text, void *field);
	/* Writes the text again; NULL: the field is the text. */
	void (*write)(const void *field, char *buffer, size_t size);
};

#define FORMS_TEXT_BYTES 256 /* the buffer of write */

/* Things with a name. Every item begins with its name, which is NULL if it is wrong. */
struct items {
	const void *first;
	size_t bytes, count;
};

/* Writes the reason why a name is wrong: the names of the first items, and the most similar name.
 */
void forms_list(struct reading *, const struct items *, const char *text);

extern const struct form forms_name;    /* const char *: of a bus, of a feed */
extern const struct form forms_topic;   /* const char * */
extern const struct form forms_account; /* const char *: of a user, of a group */
extern const struct form forms_address; /* const char *; after the bus's name */
extern const struct form forms_group;   /* const char * */
extern const struct form forms_path;    /* const char *: absolute */
extern const struct form forms_file;    /* the same, of a file that a feed can read */
extern const struct form forms_zone;    /* const char * */
extern const struct form forms_date;    /* struct settings_date */
extern const struct form forms_time;    /* uint32_t: seconds since midnight */
extern const struct form forms_speed;   /* uint32_t: thousandths; 0: max */
extern const struct form forms_feed;    /* const struct settings_feed *; after the feeds */
extern const struct form forms_ticket;  /* struct settings_ticket */
extern const struct form forms_pattern; /* const char *; after the topics */
extern const struct form forms_schema;  /* const struct settings_schema *; after the schemas */

#endif
