/* SPDX-License-Identifier: Apache-2.0 */
/* The program's table of values, and the images that fill it: Y6 and Y7 of model.h. */
#ifndef TICKBUS_TESTS_SIMULATION_TABLE_H
#define TICKBUS_TESTS_SIMULATION_TABLE_H

#include "tests/simulation/model.h"

void table_clear(struct model *);
/* A record was delivered. */
void table_take(struct model *, uint64_t sequence);
/* Y7: compares the program's table with the publisher's, at the position. */
void table_check(const struct model *, const char *when);

/* A record of an image: Y6. */
void table_image_record(struct model *, const struct tb_record *);
/* Events of an image. */
void table_image(struct model *, const struct tb_event *);
void table_complete(struct model *, const struct tb_event *);
void table_no_value(struct model *, const struct tb_event *);

#endif
