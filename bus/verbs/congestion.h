/* SPDX-License-Identifier: Apache-2.0 */
/* The congestion control of an Ethernet interface. PFC stops one priority when a queue is full,
 * instead of losing packets. ECN of RoCE signals a sender to slow down. */
#ifndef TICKBUS_BUS_CONGESTION_H
#define TICKBUS_BUS_CONGESTION_H

#include <net/if.h>
#include <stddef.h>

#define CONGESTION_PRIORITIES 8

/* The interface that has PFC and ECN: itself, or the one below a VLAN or a bond (of several, the
 * first by name). root: "/sys/class/net" */
void congestion_interface(const char *root, const char *interface, char found[IF_NAMESIZE]);

/* Bit n: priority n has PFC. -errno: not known; -EOPNOTSUPP: the driver does not report it. */
int congestion_pfc(const char *interface);
/* The same, from the kernel's answer. */
int congestion_pfc_of(const void *answer, size_t bytes);

/* Bit n: priority n has ECN. -ENOENT: the driver does not report it. folder: "/sys/class/net/eth0"
 */
int congestion_ecn(const char *folder);

#endif
