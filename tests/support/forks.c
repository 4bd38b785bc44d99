/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into Criterion's programs with clang's address sanitizer.
 *
 * Criterion forks a process for each test, while threads of its messaging library (nanomsg) run. If
 * one of them is inside the sanitizer's allocator at that moment, the child never gets its lock.
 * Newer sanitizers take their locks around a fork. That of clang 14 does not, so this does, with
 * the sanitizer's own functions, in the order of later versions. */
#include <pthread.h>

void threads_lock(void) __asm__("_ZN6__lsan18LockThreadRegistryEv");
void threads_unlock(void) __asm__("_ZN6__lsan20UnlockThreadRegistryEv");
void allocator_lock(void) __asm__("_ZN6__lsan13LockAllocatorEv");
void allocator_unlock(void) __asm__("_ZN6__lsan15UnlockAllocatorEv");
void stacks_lock(void) __asm__("_ZN11__sanitizer17StackDepotLockAllEv");
void stacks_unlock(void) __asm__("_ZN11__sanitizer19StackDepotUnlockAllEv");

static void before(void)
{
	threads_lock();
	allocator_lock();
	stacks_lock();
}

static void after(void)
{
	stacks_unlock();
	allocator_unlock();
	threads_unlock();
}

__attribute__((constructor)) static void install(void)
{
	pthread_atfork(before, after, after);
}
