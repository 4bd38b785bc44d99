/* SPDX-License-Identifier: Apache-2.0 */
#include "tickbus/version.h"

#include <stddef.h>

TB_API const char *tb_version(uint32_t *number)
{
	if (number)
		*number = TB_VERSION_NUMBER;
	return TB_VERSION;
}
