/* SPDX-License-Identifier: Apache-2.0 */
/* A group may be limited by each of its parents, so all folders up to the mount point are read. In
 * a container the path may begin outside the mount: then the mount point is the group. */
#include "bus/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The files of a version, and the lines of memory.stat with pages that can be dropped. */
struct version {
	const char *fs, *controller; /* as in mountinfo, and in the list of /proc/self/cgroup */
	const char *limits[2], *usage;
	const char *droppable[2];
};

static const struct version versions[] = {
	{ "cgroup2",
	  "",
	  { "memory.max", "memory.high" },
	  "memory.current",
	  { "active_file", "inactive_file" } },
	{ "cgroup",
	  "memory",
	  { "memory.limit_in_bytes", NULL },
	  "memory.usage_in_bytes",
	  { "total_active_file", "total_inactive_file" } },
};

static FILE *file_open(const char *root, const char *folder, const char *name)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s%s/%s", root, folder, name) >= sizeof(path))
		return NULL;
	return fopen(path, "re");
}

/* The number in a file, UINT64_MAX for "max" and for a file that is not there. */
static uint64_t number_of(const char *root, const char *folder, const char *name)
{
	FILE *file = name ? file_open(root, folder, name) : NULL;
	unsigned long long number = UINT64_MAX;

	if (!file)
		return UINT64_MAX;
	if (fscanf(file, "%llu", &number) != 1)
		number = UINT64_MAX;
	fclose(file);
	return number;
}

static uint64_t droppable_of(const char *root, const char *folder, const struct version *version)
{
	FILE *file = file_open(root, folder, "memory.stat");
	unsigned long long bytes;
	char name[64];
	uint64_t sum = 0;

	while (file && fscanf(file, "%63s %llu", name, &bytes) == 2)
		if (strcmp(name, version->droppable[0]) == 0 ||
		    strcmp(name, version->droppable[1]) == 0)
			sum += bytes;
	if (file)
		fclose(file);
	return sum;
}

static size_t folder_left(const char *root, const char *folder, const struct version *version)
{
	const uint64_t first = number_of(root, folder, version->limits[0]);
	const uint64_t second = number_of(root, folder, version->limits[1]);
	const uint64_t limit = first < second ? first : second;
	uint64_t used, droppable;

	if (limit == UINT64_MAX)
		return SIZE_MAX;
	used = number_of(root, folder, version->usage);
	if (used == UINT64_MAX)
		return SIZE_MAX;
	droppable = droppable_of(root, folder, version);
	used -= droppable < used ? droppable : used;
	return limit > used ? (size_t)(limit - used) : 0;
}

/* Whether a list of names between commas has the name. */
static bool list_has(const char *list, const char *name)
{
	const size_t length = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return true;
	return false;
}

/* Whether it is the mount of this version's memory controller. */
static bool is_mount(const char *line, const struct version *version, char at[PATH_MAX],
		     char of[PATH_MAX])
{
	const char *rest = strstr(line, " - ");
	char fs[32], options[256];

	return rest && sscanf(line, "%*s %*s %*s %4095s %4095s", of, at) == 2 &&
	       sscanf(rest, " - %31s %*s %255s", fs, options) == 2 &&
	       strcmp(fs, version->fs) == 0 &&
	       (!*version->controller || list_has(options, version->controller));
}

/* The version's mount point, and which group is mounted there. */
static bool mount_find(const char *root, const struct version *version, char at[PATH_MAX],
		       char of[PATH_MAX])
{
	FILE *file = file_open(root, "/proc/self", "mountinfo");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (file && !found && getline(&line, &room, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		found = is_mount(line, version, at, of);
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

/* The process's group: lines are ID:CONTROLLERS:PATH. */
static bool group_find(const char *root, const struct version *version, char group[PATH_MAX])
{
	FILE *file = file_open(root, "/proc/self", "cgroup");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (file && !found && getline(&line, &room, file) > 0) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		found = *version->controller ? list_has(controllers + 1, version->controller)
					     : controllers[1] == '\0';
		if (found)
			snprintf(group, PATH_MAX, "%s", path);
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

static size_t version_left(const char *root, const struct version *version)
{
	char at[PATH_MAX], of[PATH_MAX], group[PATH_MAX], folder[2 * PATH_MAX];
	size_t least = SIZE_MAX, length;

	if (!mount_find(root, version, at, of) || !group_find(root, version, group))
		return SIZE_MAX;
	length = strcmp(of, "/") == 0 ? 0 : strlen(of);
	if (strncmp(group, of, length) != 0 || strncmp(group, "/..", 3) == 0 ||
	    (group[length] != '/' && group[length] != '\0'))
		snprintf(group, sizeof(group), "%.*s", (int)length, of);
	snprintf(folder, sizeof(folder), "%s%s", at, group + length);
	for (;;) {
		const size_t left = folder_left(root, folder, version);

		if (left < least)
			least = left;
		if (strlen(folder) <= strlen(at))
			return least;
		*strrchr(folder, '/') = '\0';
	}
}

size_t cgroup_memory_left(const char *root)
{
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		const size_t left = version_left(root, &versions[i]);

		if (left < least)
			least = left;
	}
	return least;
}
