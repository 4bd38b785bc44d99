/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers the values of last-value slots as an image. */
#ifndef TICKBUS_SUBSCRIBER_PULL_IMAGE_H
#define TICKBUS_SUBSCRIBER_PULL_IMAGE_H

#include "subscriber/state.h"
#include "subscriber/value_reads.h"

/* Moves the image on; delivers at most max values. Returns how many. */
int pull_image(struct tb_source *, int max);
/* Work that a sleeper would miss. */
enum value_work pull_image_work(const struct tb_source *);

#endif
