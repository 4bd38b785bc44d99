/* SPDX-License-Identifier: Apache-2.0 */
#include "tickbus/version.h"

TB_API const char *tb_version(void)
{
	return TB_VERSION;
}

TB_API uint32_t tb_version_number(void)
{
	return TB_VERSION_NUMBER;
}
