/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_porter_path.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/shm/porter/message.h"

/* The root user, or the user that this process acts for, has it, and no other user may write it. */
static bool trusted(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && (status.st_uid == 0 || status.st_uid == geteuid()) &&
	       !(status.st_mode & S_IWOTH);
}

/* The file that has this code: the shared library, or the program. For the program the linker has
 * only the words that it was started with. */
static bool own_file(char path[PATH_MAX])
{
	static const char here[] = PORTER_PROGRAM;
	const char *headers = (const char *)getauxval(AT_PHDR);
	Dl_info info;
	ssize_t got;

	if (dladdr(here, &info) == 0 || !info.dli_fname)
		return false;
	if (headers < (const char *)info.dli_fbase ||
	    headers >= (const char *)info.dli_fbase + sysconf(_SC_PAGESIZE)) {
		return realpath(info.dli_fname, path) != NULL;
	}
	got = readlink("/proc/self/exe", path, PATH_MAX - 1);
	if (got <= 0)
		return false;
	path[got] = '\0';
	return true;
}

static bool path_make(char path[PATH_MAX], const char *folder)
{
	return snprintf(path, PATH_MAX, "%s/" PORTER_PROGRAM, folder) < PATH_MAX;
}

static bool path_beside(char path[PATH_MAX])
{
	char folder[PATH_MAX], *end;

	if (!own_file(folder))
		return false;
	end = strrchr(folder, '/');
	if (!end)
		return false;
	*end = '\0';
	return path_make(path, folder) && trusted(folder) && trusted(path);
}

void shm_porter_path(char path[PATH_MAX])
{
	const char *given = secure_getenv("TICKBUS_LIBEXEC_DIR");

	if (given && *given && path_make(path, given))
		return;
	if (!path_beside(path))
		path_make(path, TICKBUS_LIBEXEC);
}
