/* SPDX-License-Identifier: Apache-2.0 */
/* Memory limits of control groups, in a folder that stands in for the root folder. */
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bus/cgroup.h"

#define TWO "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
#define ONE "31 20 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"

static char root[64];

static int file_remove(const char *path, const struct stat *status, int kind, struct FTW *where)
{
	(void)status, (void)kind, (void)where;
	return remove(path);
}

static void enter(void)
{
	snprintf(root, sizeof(root), "/tmp/tickbus-cgroup-XXXXXX");
	cr_assert_not_null(mkdtemp(root));
}

static void leave(void)
{
	nftw(root, file_remove, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(cgroup, .init = enter, .fini = leave);

/* Writes a file and makes its folders. */
static void put(const char *name, const char *text)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(path, 0755);
	}
	file = fopen(path, "w");
	cr_assert_not_null(file, "%s", path);
	fputs(text, file);
	fclose(file);
}

static void put_process(const char *mounts, const char *groups)
{
	put("/proc/self/mountinfo", mounts);
	put("/proc/self/cgroup", groups);
}

#define FS "/sys/fs/cgroup"

Test(cgroup, without_groups_there_is_no_limit)
{
	cr_expect_eq(cgroup_memory_left(root), SIZE_MAX);
	put_process("20 1 0:20 / / rw - ext4 /dev/root rw\n", "");
	cr_expect_eq(cgroup_memory_left(root), SIZE_MAX);
	put_process(TWO, "0::/a/b\n");
	cr_expect_eq(cgroup_memory_left(root), SIZE_MAX, "the root group has no such file");
}

Test(cgroup, each_parent_limits)
{
	put_process(TWO, "0::/a/b\n");
	put(FS "/a/b/memory.max", "max\n");
	put(FS "/a/b/memory.high", "max\n");
	put(FS "/a/b/memory.current", "100\n");
	cr_expect_eq(cgroup_memory_left(root), SIZE_MAX);
	put(FS "/a/memory.max", "5000\n");
	put(FS "/a/memory.current", "1000\n");
	cr_expect_eq(cgroup_memory_left(root), 4000);
	put(FS "/a/b/memory.high", "600\n");
	cr_expect_eq(cgroup_memory_left(root), 500);
	put(FS "/a/b/memory.max", "300\n");
	cr_expect_eq(cgroup_memory_left(root), 200);
	put(FS "/a/b/memory.current", "400\n");
	cr_expect_eq(cgroup_memory_left(root), 0);
}

Test(cgroup, file_pages_that_can_be_dropped_count_as_free)
{
	put_process(TWO, "0::/a\n");
	put(FS "/a/memory.max", "5000\n");
	put(FS "/a/memory.current", "4500\n");
	put(FS "/a/memory.stat", "anon 1000\nfile 3500\nshmem 500\nactive_file 1000\n"
				 "inactive_file 2000\n");
	cr_expect_eq(cgroup_memory_left(root), 3500);
}

Test(cgroup, version_1_limits_along_its_path)
{
	put_process(ONE TWO, "9:cpu,memory:/x/y\n1:name=systemd:/a\n0::/\n");
	put(FS "/memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
	put(FS "/memory/x/y/memory.usage_in_bytes", "100\n");
	cr_expect_geq(cgroup_memory_left(root), (size_t)1 << 60);
	put(FS "/memory/x/memory.limit_in_bytes", "7000\n");
	put(FS "/memory/x/memory.usage_in_bytes", "3000\n");
	put(FS "/memory/x/memory.stat", "active_file 9\ntotal_active_file 20\n"
					"total_inactive_file 30\n");
	cr_expect_eq(cgroup_memory_left(root), 4050);
}

/* A container's mount begins at its own group, or the path is outside the namespace. */
Test(cgroup, mount_of_a_container_is_its_group)
{
	put(FS "/memory.max", "900\n");
	put(FS "/memory.current", "100\n");
	put(FS "/c/memory.max", "500\n");
	put(FS "/c/memory.current", "100\n");
	put_process("30 20 0:26 /a/b /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/a/b\n");
	cr_expect_eq(cgroup_memory_left(root), 800);
	put("/proc/self/cgroup", "0::/a/b/c\n");
	cr_expect_eq(cgroup_memory_left(root), 400);
	put("/proc/self/cgroup", "0::/a/bc\n");
	cr_expect_eq(cgroup_memory_left(root), 800, "another group");
	put_process(TWO, "0::/../../z\n");
	cr_expect_eq(cgroup_memory_left(root), 800);
}
