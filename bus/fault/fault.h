/* SPDX-License-Identifier: Apache-2.0 */
/* Faults on purpose: "fault:seed=7,tear=0.01/ADDRESS" decorates a subscriber's connection over any
 * fabric. It does to READs, notices and messages what a bad network or a failing host does to them.
 * So a program is rehearsed without a bad network.
 *
 *   drop        A notice is lost.
 *   dup         A notice arrives twice.
 *   reorder     A notice arrives behind the next notice, or alone after 1 ms.
 *   delay       A notice arrives, or a READ completes, up to 1 ms late. So READs complete in any
 *               order.
 *   tear        A READ is made twice after it was posted, up to 1 ms apart. It lands a mix of the
 *               two copies. Each byte, word of 8 bytes or line of 64 bytes is of one copy.
 *   fail        A READ completes with -EIO. The connection stays.
 *   disconnect  The connection is lost.
 *   stall       For up to 50 ms no message, READ or notice comes or goes.
 *   freeze      For 100 to 3000 ms, READs of the region that came with the welcome land what they
 *               landed before: the publisher seems to hang. Its other regions move on.
 *
 * Faults are drawn per READ, notice or message, and never per poll: a program that polls more often
 * gets the same faults. How long they last is measured by bus/clock.h.
 *
 * The decorator is a network to its owner, whatever the fabric below: there is no view, and a copy
 * is proven only by its check. */
#ifndef TICKBUS_BUS_FAULT_H
#define TICKBUS_BUS_FAULT_H

#include <stdint.h>

#include "bus/fabric.h"
#include "bus/fault/fault_plan.h"

extern const struct fabric_ops fault_ops;

/* How many faults of a kind happened in this process. A tear counts if its copy is a mix that
 * neither READ landed; a reordered notice counts if another passed it. */
uint64_t fault_count(enum fault_kind);

/* Sets the counts to 0 and forgets all connections: the next connection with a seed is its first.
 * For simulations that run more than once in a process. */
void fault_restart(void);

#endif
