/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/quality.h"

#include "tickbus/record.h"

const char *quality_word(uint32_t state)
{
	switch (state) {
	case TB_QUALITY_GOOD:
		return "good";
	case TB_QUALITY_SUSPECT:
		return "suspect";
	case TB_QUALITY_REBUILDING:
		return "rebuilding";
	default:
		return "unknown";
	}
}
