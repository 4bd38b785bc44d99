/* SPDX-License-Identifier: Apache-2.0 */
/* Built once per fabric, with its SCHEME_NAME. */
#include "tests/conformance/scheme.h"

const char SCHEME[] = SCHEME_NAME;
