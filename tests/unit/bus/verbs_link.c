/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber's side of the verbs fabric, without a device: how a link reports the connection
 * manager's events. */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bus/bounds.h"
#include "bus/clock.h"
#include "bus/verbs/verbs.h"
#include "tickbus/error.h"

/* A fake connection manager with a single event. */
static struct rdma_cm_event event;
static struct rdma_cm_id *asking;
static bool taken;
static int channels; /* that are open */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *events = calloc(1, sizeof(*events));

	events->fd = eventfd(0, EFD_CLOEXEC);
	channels++;
	return events;
}

void rdma_destroy_event_channel(struct rdma_event_channel *events)
{
	close(events->fd);
	free(events);
	channels--;
}

int rdma_create_id(struct rdma_event_channel *events, struct rdma_cm_id **id, void *user,
		   enum rdma_port_space space)
{
	(void)events;
	(void)user;
	(void)space;
	asking = *id = calloc(1, sizeof(**id));
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes)
{
	(void)id;
	(void)level;
	(void)name;
	(void)value;
	(void)bytes;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *host,
		      int timeout_ms)
{
	(void)id;
	(void)source;
	(void)host;
	(void)timeout_ms;
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *events, struct rdma_cm_event **out)
{
	(void)events;
	if (taken) {
		errno = EAGAIN;
		return -1;
	}
	taken = true;
	event.id = asking;
	*out = &event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *acknowledged)
{
	(void)acknowledged;
	return 0;
}

/* -- reasons ------------------------------------------------------------------------------------
 */

static int gone_code;
static char gone_why[256];

static void on_gone(void *user, int code, const char *why)
{
	(void)user;
	gone_code = code;
	snprintf(gone_why, sizeof(gone_why), "%s", why);
}

static void expect_gone(enum rdma_cm_event_type type, int status, int code, const char *why)
{
	const struct link_calls calls = { .gone = on_gone };
	struct link *link;

	event = (struct rdma_cm_event){ .event = type, .status = status };
	taken = false;
	gone_code = 0;
	cr_assert_eq(verbs_connect(&link, "10.9.0.1:7471", "hello", 5, &calls, NULL), 0, "%s",
		     tb_error());
	verbs_link_poll(link);
	cr_expect_eq(gone_code, code, "event %d with %d: %d", type, status, gone_code);
	cr_expect_str_eq(gone_why, why);
	cr_expect_eq(verbs_link_state(link), LINK_GONE);
	verbs_link_close(link);
}

/* Transient failures differ from lasting failures: a client without an answer may try again. */
Test(verbs_link, no_answer_and_no_route_differ)
{
	expect_gone(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, ETIMEDOUT, "no answer");
	expect_gone(RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, ETIMEDOUT, "no answer");
	expect_gone(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, ETIMEDOUT, "no answer");
	expect_gone(RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH, EHOSTUNREACH,
		    "no route: No route to host");
	expect_gone(RDMA_CM_EVENT_ROUTE_ERROR, -ENETUNREACH, EHOSTUNREACH,
		    "no route: Network is unreachable");
	expect_gone(RDMA_CM_EVENT_REJECTED, 8, ECONNREFUSED, "no publisher listens there");
	expect_gone(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, ECONNREFUSED,
		    "no publisher listens there");
}

/* -- one attempt --------------------------------------------------------------------------------
 */

static uint64_t now_ms = 1000;

static int stopped_clock(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = (struct timespec){ .tv_sec = (time_t)(now_ms / 1000),
				  .tv_nsec = (long)(now_ms % 1000) * 1000000 };
	return 0;
}

static void expect_attempt_ms(const char *address, uint64_t wanted_ms)
{
	const struct link_calls calls = { .gone = on_gone };
	struct link *link;

	clock_replace(stopped_clock);
	taken = true; /* no event comes */
	gone_code = 0;
	cr_assert_eq(verbs_connect(&link, address, "hello", 5, &calls, NULL), 0, "%s", tb_error());
	now_ms += wanted_ms - 1;
	verbs_link_poll(link);
	cr_expect_eq(verbs_link_state(link), LINK_CONNECTING);
	now_ms++;
	verbs_link_poll(link);
	cr_expect_eq(verbs_link_state(link), LINK_GONE);
	cr_expect_eq(gone_code, ETIMEDOUT);
	cr_expect_str_eq(gone_why, "no answer");
	verbs_link_close(link);
}

Test(verbs_link, attempt_lasts_as_long_as_the_address_says)
{
	expect_attempt_ms("10.9.0.1:7471", BOUND_ATTEMPT_MS);
	expect_attempt_ms("10.9.0.1:7471,attempt_ms=100", BOUND_ATTEMPT_MS_MIN);
	expect_attempt_ms("10.9.0.1:7471,attempt_ms=60000", BOUND_ATTEMPT_MS_MAX);
}

Test(verbs_link, attempt_outside_its_bounds_is_refused)
{
	static const char *const wrong[] = { "99", "60001", "-1", "1s" };
	const struct link_calls calls = { .gone = on_gone };
	char address[64], why[256];
	struct link *link;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(address, sizeof(address), "10.9.0.1:7471,attempt_ms=%s", wrong[i]);
		cr_expect_eq(verbs_connect(&link, address, "hello", 5, &calls, NULL), -EINVAL);
		snprintf(why, sizeof(why),
			 "address rdma:%s: attempt_ms: found \"%s\", expected 100 to 60000",
			 address, wrong[i]);
		cr_expect_str_eq(tb_error(), why);
	}
}

/* -- addresses ----------------------------------------------------------------------------------
 */

Test(verbs_link, source_has_the_family_of_the_host)
{
	const struct link_calls calls = { .gone = on_gone };
	struct link *link;

	taken = true;
	cr_assert_eq(
		verbs_connect(&link, "[fd00::1]:7471,source=fd00::2", "hello", 5, &calls, NULL), 0,
		"%s", tb_error());
	verbs_link_close(link);
	cr_expect_eq(verbs_connect(&link, "10.9.0.1:7471,source=fd00::2", "hello", 5, &calls, NULL),
		     -EINVAL);
	cr_expect_str_eq(tb_error(), "address rdma:10.9.0.1:7471,source=fd00::2: source: found "
				     "\"fd00::2\", expected an IPv4 address of this host");
}

Test(verbs_link, listening_address_takes_no_source)
{
	const struct fabric_listen how = { .address = "10.9.0.1:7471,source=10.9.0.1" };
	const struct listener_calls calls = { 0 };
	struct listener *listener;

	cr_expect_eq(verbs_listen(&listener, &how, &calls, NULL), -EINVAL);
	cr_expect_str_eq(tb_error(),
			 "address rdma:10.9.0.1:7471,source=10.9.0.1: found source=, expected "
			 "HOST:PORT without it: HOST is the address to listen at");
}

/* -- polls that are left ------------------------------------------------------------------------
 */

static jmp_buf out;

static void jump_when_gone(void *user, int code, const char *why)
{
	(void)user;
	(void)code;
	(void)why;
	longjmp(out, 1);
}

/* A handler of the subscriber jumps out of link_poll, which then never returns. */
Test(verbs_link, link_whose_poll_was_left_is_freed)
{
	static const struct link_calls calls = { .gone = jump_when_gone };
	static struct link *link;

	event = (struct rdma_cm_event){ .event = RDMA_CM_EVENT_ADDR_ERROR, .status = -ETIMEDOUT };
	cr_assert_eq(verbs_connect(&link, "10.9.0.1:7471", "hello", 5, &calls, NULL), 0, "%s",
		     tb_error());
	cr_expect_eq(channels, 1);
	if (setjmp(out) == 0) {
		verbs_link_poll(link);
		cr_assert_fail("the poll returned");
	}
	verbs_link_left(link);
	verbs_link_break(link);
	verbs_link_close(link);
	cr_expect_eq(channels, 0);
}
