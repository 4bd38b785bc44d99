/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that READs land in: registered once, and found by any address inside it. */
#ifndef TICKBUS_BUS_VERBS_LANDINGS_H
#define TICKBUS_BUS_VERBS_LANDINGS_H

#include <infiniband/verbs.h>
#include <stddef.h>

struct verbs_landing {
	char *memory;
	size_t bytes;
	struct ibv_mr *mr;
};

struct verbs_landings {
	struct verbs_landing *list; /* in order of their addresses */
	size_t count, room;
};

/* Pages of memory, registered in the domain. NULL with errno and a text. */
void *verbs_landings_add(struct verbs_landings *, struct ibv_pd *, const char *address,
			 size_t bytes);
/* Takes NULL. */
void verbs_landings_remove(struct verbs_landings *, void *memory, size_t bytes);
/* The landing that holds all of these bytes, or NULL. */
const struct verbs_landing *verbs_landings_find(const struct verbs_landings *, const void *memory,
						size_t bytes);
/* Frees the list, once each landing is removed. */
void verbs_landings_close(struct verbs_landings *);

#endif
