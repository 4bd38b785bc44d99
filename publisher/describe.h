/* SPDX-License-Identifier: Apache-2.0 */
/* What the catalogue and a grant say of a topic. */
#ifndef TICKBUS_PUBLISHER_DESCRIBE_H
#define TICKBUS_PUBLISHER_DESCRIBE_H

#include "bus/control.h"
#include "publisher/state.h"

void describe_topic(const struct session *, const struct tb_topic *, struct control_topic *out);

#endif
