/* SPDX-License-Identifier: Apache-2.0 */
/* Copies last-value slots, in place or by READ, and delivers them as an image. */
#ifndef TICKBUS_SUBSCRIBER_PULL_IMAGE_H
#define TICKBUS_SUBSCRIBER_PULL_IMAGE_H

#include "subscriber/state.h"

/* Moves the image on; delivers at most max values. Returns how many. */
int pull_image(struct tb_source *, int max);
/* A READ of this chunk has completed. */
void pull_image_landed(struct tb_source *, unsigned int chunk, int status);

/* Work that a sleeper would miss. */
enum image_work {
	IMAGE_WORK_NONE, /* a completion or a record will wake the sleeper */
	IMAGE_WORK_SOON,
	IMAGE_WORK_NOW,
};
enum image_work pull_image_work(const struct tb_source *);

#endif
