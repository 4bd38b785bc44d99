/* SPDX-License-Identifier: Apache-2.0 */
/* What an Ethernet interface tells of congestion: PFC, by which a full queue stops one priority
 * instead of losing it, and ECN of RoCE, by which a sender is told to slow down. */
#ifndef TICKBUS_BUS_CONGESTION_H
#define TICKBUS_BUS_CONGESTION_H

#include <net/if.h>
#include <stddef.h>

#define CONGESTION_PRIORITIES 8

/* The interface that has them: itself, or what a VLAN or a bond (of several the first by name)
 * stands on. root: "/sys/class/net" */
void congestion_interface(const char *root, const char *interface, char found[IF_NAMESIZE]);

/* Bit n: priority n has PFC. -errno: the interface does not tell (-EOPNOTSUPP: by no means). */
int congestion_pfc(const char *interface);
/* The same of what the kernel answered. */
int congestion_pfc_of(const void *answer, size_t bytes);

/* Bit n: priority n has ECN. -ENOENT: the driver does not tell. folder: "/sys/class/net/eth0" */
int congestion_ecn(const char *folder);

#endif
