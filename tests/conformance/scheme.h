/* SPDX-License-Identifier: Apache-2.0 */
/* The scheme of the fabric that a program tests. */
#ifndef TICKBUS_TESTS_CONFORMANCE_SCHEME_H
#define TICKBUS_TESTS_CONFORMANCE_SCHEME_H

extern const char SCHEME[];

#endif
