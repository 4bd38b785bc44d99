/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of libgit2, which Criterion links for the diffs of its messages, and with it
 * fourteen more libraries: each case is a process of its own, whose start they make twice as long
 * under emulation. */
#define SHOWN __attribute__((visibility("default")))

SHOWN int git_libgit2_init(void);
SHOWN int git_libgit2_shutdown(void);

int git_libgit2_init(void)
{
	return 1;
}

int git_libgit2_shutdown(void)
{
	return 0;
}
