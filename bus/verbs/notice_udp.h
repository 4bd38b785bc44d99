/* SPDX-License-Identifier: Apache-2.0 */
/* Notices over ordinary UDP multicast, for devices that have no datagrams of their own (iWARP) and
 * where it was asked for: sockets on the interface that has `local`. */
#ifndef TICKBUS_BUS_NOTICE_UDP_H
#define TICKBUS_BUS_NOTICE_UDP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* A socket that sends to the group and never waits; or -errno. */
int notice_udp_sender(const struct sockaddr_storage *local, const struct sockaddr_storage *group,
		      uint32_t hop_limit, uint32_t traffic_class);
/* What a datagram to the group may have without being sent in fragments; 0: it cannot be told. */
uint32_t notice_udp_bytes(const struct sockaddr_storage *local,
			  const struct sockaddr_storage *group);
/* A socket that receives what is sent to the group on that interface, with room for so many bytes;
 * or -errno. */
int notice_udp_receiver(const struct sockaddr_storage *local, const struct sockaddr_storage *group,
			size_t room);

#endif
