/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds and defaults that options, settings and the wire share. Each is stated only here. Files
 * that lay out bytes assert that these fit. */
#ifndef TICKBUS_BUS_BOUNDS_H
#define TICKBUS_BUS_BOUNDS_H

/* A number as text, for tables that print it. */
#define BOUND_TEXT(number)  BOUND_TEXT_(number)
#define BOUND_TEXT_(number) #number

#define BOUND_NAME_MAX 63 /* bytes in the name of a bus, a feed or a realm */

/* A bus */
#define BOUND_STALE_MS_MIN         20
#define BOUND_STALE_MS_MAX         60000
#define BOUND_STALE_MS             1000
#define BOUND_EXIT_WAIT_MS_MAX     600000
#define BOUND_EXIT_WAIT_MS         5000
#define BOUND_TOPICS_MAX           1024
#define BOUND_TOPICS               256
#define BOUND_SUBSCRIBERS_MAX      65536
#define BOUND_SUBSCRIBERS          1024
#define BOUND_LISTENERS_MAX        8
#define BOUND_PEERS_OF_A_TURN      16 /* a listener accepts, probes, removes: so many of each */
#define BOUND_REALMS_MAX           32
#define BOUND_REALM_PATTERNS_MAX   256
#define BOUND_ACCOUNTS_MAX         256   /* users; groups */
#define BOUND_TICKET_OVERLAP_S_MAX 86400 /* for which an old ticket stays valid */
#define BOUND_TICKET_OVERLAP_S     60
#define BOUND_FEEDS_MAX            64   /* each has a block of counters */
#define BOUND_GROUPS_MAX           1024 /* of topics that one thread writes in order */
#define BOUND_SCHEMAS_MAX          1024
#define BOUND_CPU_MAX              1023
#define BOUND_NODE_MAX             1023

/* The default quota of a host or a realm: it leaves places to others. */
#define BOUND_QUOTA(subscribers_max) ((subscribers_max) - (subscribers_max) / 4)

/* Notices */
#define BOUND_NOTICE_BYTES_MIN  256
#define BOUND_NOTICE_BYTES_MAX  4096
#define BOUND_NOTICE_BYTES      1024
#define BOUND_NOTICE_GROUPS_MAX 64

/* A topic */
#define BOUND_SLOTS_MIN       64
#define BOUND_SLOTS_MAX       16777216
#define BOUND_SLOTS           65536
#define BOUND_INSTRUMENTS_MAX 1048576
#define BOUND_INSTRUMENTS     16384

/* A synthetic feed */
#define BOUND_SYNTHETIC_SYMBOLS_MAX 65535
#define BOUND_SYNTHETIC_RATE_MAX    10000000 /* messages per second */
#define BOUND_SYNTHETIC_SECONDS_MAX 23400    /* a trading day */
#define BOUND_SYNTHETIC_BURST_MIN   10
#define BOUND_SYNTHETIC_BURST_MAX   100
#define BOUND_SYNTHETIC_BURST       20

/* One attempt to connect over RDMA */
#define BOUND_ATTEMPT_MS_MIN 100
#define BOUND_ATTEMPT_MS_MAX 60000
#define BOUND_ATTEMPT_MS     1500

/* A subscriber */
#define BOUND_CONNECT_MS_MAX   60000
#define BOUND_CONNECT_MS       1000
#define BOUND_BATCH_BYTES_MIN  8192
#define BOUND_BATCH_BYTES_MAX  16777216
#define BOUND_BATCH_BYTES      65536
#define BOUND_READS_OF_A_BATCH 32 /* read_bytes is at least this fraction of a batch */
#define BOUND_POLL_US_MAX      1000000
#define BOUND_POLL_US          1000

/* A subscription */
#define BOUND_BACK_MAX          (UINT64_C(1) << 32) /* records */
#define BOUND_NAMES_MAX         65536
#define BOUND_LOOK_US_MAX       60000000
#define BOUND_CONFLATE_US_MAX   60000000
#define BOUND_EXEMPT_TOPICS_MAX 256

#endif
