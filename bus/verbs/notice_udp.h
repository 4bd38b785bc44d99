/* SPDX-License-Identifier: Apache-2.0 */
/* Notices over ordinary UDP multicast, for devices without UD (iWARP) and where the publisher
 * wishes it: sockets on the interface that has the address `local`. */
#ifndef TICKBUS_BUS_NOTICE_UDP_H
#define TICKBUS_BUS_NOTICE_UDP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* A socket that sends to the group and never waits; or -errno. */
int notice_udp_sender(const struct sockaddr_storage *local, const struct sockaddr_storage *group,
		      uint32_t hop_limit, uint32_t traffic_class);
/* The maximum size of a datagram to the group that is sent in one piece; 0: not known. */
uint32_t notice_udp_bytes(const struct sockaddr_storage *local,
			  const struct sockaddr_storage *group);
/* A socket that receives from the group on that interface, with a buffer of `room` bytes; or
 * -errno.
 */
int notice_udp_receiver(const struct sockaddr_storage *local, const struct sockaddr_storage *group,
			size_t room);

#endif
