/* SPDX-License-Identifier: Apache-2.0 */
/* A second build of library files for tests includes this header first. Each load and store of a
 * shared word then is a step, and a test can run code between any two steps. */
#ifndef TICKBUS_TESTS_STEPS_H
#define TICKBUS_TESTS_STEPS_H

#include <stdatomic.h>

extern _Thread_local unsigned int steps_left; /* of this thread, until steps_due(); 0: never */

/* Called before the step that is due. */
void steps_due(void);

static inline void steps_take(void)
{
	if (__builtin_expect(steps_left != 0, 0) && --steps_left == 0)
		steps_due();
}

#undef atomic_load_explicit
#undef atomic_store_explicit
#if defined(__clang__)
#define atomic_load_explicit(object, order) (steps_take(), __c11_atomic_load(object, order))
#define atomic_store_explicit(object, value, order)                                                \
	(steps_take(), __c11_atomic_store(object, value, order))
#else
#define atomic_load_explicit(object, order)                                                        \
	__extension__({                                                                            \
		__auto_type steps_object = (object);                                               \
		__typeof__((void)0, *steps_object) steps_value;                                    \
                                                                                                   \
		steps_take();                                                                      \
		__atomic_load(steps_object, &steps_value, (order));                                \
		steps_value;                                                                       \
	})
#define atomic_store_explicit(object, value, order)                                                \
	__extension__({                                                                            \
		steps_take();                                                                      \
		__atomic_store_n((object), (value), (order));                                      \
	})
#endif

#endif
