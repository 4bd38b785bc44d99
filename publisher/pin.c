/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/pin.h"

#include "publisher/log.h"

void pin_memory(struct tb_publisher *publisher, const struct memory *memory)
{
	if (memory_pin(memory) == 0 || publisher->pin_warned)
		return;
	publisher->pin_warned = true;
	publisher_log(publisher, TB_LOG_WARNING,
		      "%s; latency may suffer when memory is short; raise the limit (ulimit -l, "
		      "LimitMEMLOCK=) or use smaller topics",
		      tb_error());
}
