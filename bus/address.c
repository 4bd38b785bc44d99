/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/account.h"
#include "bus/bounds.h"
#include "bus/error.h"

#define TEXT_MAX   255
#define USER_MARK  ",user="
#define LINE_BYTES 64 /* slot sizes are multiples of it */
#define BATCH_PAGE 4096

/* The default ACK timeout and retries report an error after about 120 ms of silence on a software
 * device. Hardware may round up to four times that, still within a stale bound of a second. The
 * maximum is 6 retries: some devices take 7 as "for ever". A default outside the bounds leaves the
 * choice to the part that uses the option. */
static const struct knob {
	const char *name;
	size_t offset;
	uint32_t low, high, default_value;
	bool connects; /* a publisher would ignore it */
} knobs[] = {
	{ "ack_timeout", offsetof(struct address, ack_timeout), 8, 20, 12, true },
	{ "retries", offsetof(struct address, retries), 1, 6, 6, true },
	{ "rnr_retries", offsetof(struct address, rnr_retries), 0, 6, 3, false },
	{ "reads", offsetof(struct address, reads), 1, 128, 0, false },
	{ "traffic_class", offsetof(struct address, traffic_class), 0, 255, 0, false },
	{ "attempt_ms", offsetof(struct address, attempt_ms), BOUND_ATTEMPT_MS_MIN,
	  BOUND_ATTEMPT_MS_MAX, BOUND_ATTEMPT_MS, false },
	{ "receives", offsetof(struct address, receives), 16, 4096, 512, true },
	{ "notices", offsetof(struct address, notices), 0, 1, 1, true },
	{ "hop_limit", offsetof(struct address, hop_limit), 1, 255, 1, false },
	{ "batch_bytes", offsetof(struct address, batch_bytes), BOUND_BATCH_BYTES_MIN,
	  BOUND_BATCH_BYTES_MAX, 0, true },
	{ "read_bytes", offsetof(struct address, read_bytes), LINE_BYTES, BOUND_BATCH_BYTES_MAX, 0,
	  true },
	{ "poll_us", offsetof(struct address, poll_us), 0, BOUND_POLL_US_MAX, ADDRESS_NO_POLL_US,
	  true },
};
#define KNOBS (sizeof(knobs) / sizeof(knobs[0]))

static_assert(KNOBS < 32, "one bit for each, and one for source");

static bool number_parse(const char *text, uint32_t low, uint32_t high, uint32_t *number)
{
	char *end = NULL;
	unsigned long value;

	if (*text < '0' || *text > '9' || strlen(text) > 9)
		return false;
	value = strtoul(text, &end, 10);
	if (*end || value < low || value > high)
		return false;
	*number = (uint32_t)value;
	return true;
}

/* -ERANGE: a number, but no port. */
static int port_parse(const char *text, in_port_t *port)
{
	uint32_t number = 0;

	if (number_parse(text, 1, 65535, &number)) {
		*port = htons((uint16_t)number);
		return 0;
	}
	return *text && strspn(text, "0123456789") == strlen(text) ? -ERANGE : -EINVAL;
}

static int port_error(const char *what, const char *text, const char *host)
{
	return error_set(EINVAL, "%s%s: port: found %s, expected 1 to 65535", what, text,
			 strrchr(host, ':') + 1);
}

static int host_fill(const char *host, const char *port, struct sockaddr_storage *out)
{
	struct sockaddr_in *four = (struct sockaddr_in *)out;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		return port ? port_parse(port, &four->sin_port) : 0;
	}
	if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
		six->sin6_family = AF_INET6;
		return port ? port_parse(port, &six->sin6_port) : 0;
	}
	return -EINVAL;
}

int address_parse_host(const char *text, struct sockaddr_storage *out)
{
	char copy[TEXT_MAX + 1], *host = copy, *port;

	if (strlen(text) > TEXT_MAX)
		return -EINVAL;
	strcpy(copy, text);
	port = strrchr(copy, ':');
	if (copy[0] == '[') {
		char *end = strchr(copy, ']');

		host = copy + 1;
		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		port = end[1] ? end + 1 : NULL;
		*end = '\0';
	} else if (port && memchr(copy, ':', (size_t)(port - copy))) {
		port = NULL; /* colons of an IPv6 address */
	}
	if (port)
		*port++ = '\0';
	return host_fill(host, port, out);
}

static bool is_wildcard(const struct sockaddr_storage *host)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)host;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)host;

	if (host->ss_family == AF_INET)
		return four->sin_addr.s_addr == INADDR_ANY;
	return IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
}

static bool has_port(const struct sockaddr_storage *host)
{
	/* IPv4 and IPv6 have the port at the same offset. */
	return ((const struct sockaddr_in *)host)->sin_port != 0;
}

bool address_is_group(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;

	return has_port(address) &&
	       (address->ss_family == AF_INET ? IN_MULTICAST(ntohl(four->sin_addr.s_addr))
					      : IN6_IS_ADDR_MULTICAST(&six->sin6_addr));
}

static bool is_link_control(const struct sockaddr_storage *group)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)group;

	return group->ss_family == AF_INET && ntohl(four->sin_addr.s_addr) >> 8 == 0xe00000;
}

int address_parse_group(const char *text, struct sockaddr_storage *out)
{
	const int result = address_parse_host(text, out);

	if (result == 0 && address_is_group(out) && !is_link_control(out))
		return 0;
	if (result == -ERANGE)
		return port_error("group ", text, text);
	return error_set(EINVAL, "found \"%.100s\", expected " ADDRESS_GROUP_EXPECTED, text);
}

bool address_same_host(const struct sockaddr *a, const struct sockaddr_storage *b)
{
	if (a->sa_family != b->ss_family)
		return false;
	if (b->ss_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
			      &((const struct sockaddr_in *)b)->sin_addr,
			      sizeof(struct in_addr)) == 0;
	return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
		      &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

void address_host_bytes(const struct sockaddr *address, uint8_t bytes[ADDRESS_HOST_BYTES])
{
	memset(bytes, 0, ADDRESS_HOST_BYTES);
	if (address->sa_family == AF_INET) {
		bytes[10] = bytes[11] = 0xff;
		memcpy(bytes + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr,
		       sizeof(struct in_addr));
	} else if (address->sa_family == AF_INET6) {
		memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr,
		       ADDRESS_HOST_BYTES);
	}
}

bool address_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return address_same_host((const struct sockaddr *)a, b) &&
	       ((const struct sockaddr_in *)a)->sin_port ==
		       ((const struct sockaddr_in *)b)
			       ->sin_port; /* at the same offset in both families */
}

static int source_parse(const char *text, const char *value, struct address *address)
{
	if (address_parse_host(value, &address->source) == 0 && !has_port(&address->source) &&
	    address->source.ss_family == address->host.ss_family)
		return 0;
	return error_set(EINVAL,
			 "address rdma:%s: source: found \"%s\", expected an IPv%d "
			 "address of this host",
			 text, value, address->host.ss_family == AF_INET ? 4 : 6);
}

/* given: a bit for each option that was given. */
static int once_check(const char *text, const char *name, size_t bit, uint32_t *given)
{
	if (*given >> bit & 1)
		return error_set(EINVAL, "address rdma:%s: found %s= twice, expected it once", text,
				 name);
	*given |= 1u << bit;
	return 0;
}

static int knob_parse(const char *text, const char *knob, struct address *address, uint32_t *given)
{
	const char *value = strchr(knob, '=');
	const size_t length = value ? (size_t)(value - knob) : 0;

	if (length == 6 && memcmp(knob, "source", 6) == 0)
		return once_check(text, "source", KNOBS, given) < 0
			       ? -EINVAL
			       : source_parse(text, value + 1, address);
	for (size_t i = 0; i < KNOBS; i++) {
		uint32_t *field = (uint32_t *)(void *)((char *)address + knobs[i].offset);

		if (length != strlen(knobs[i].name) || memcmp(knob, knobs[i].name, length) != 0)
			continue;
		if (once_check(text, knobs[i].name, i, given) < 0)
			return -EINVAL;
		if (number_parse(value + 1, knobs[i].low, knobs[i].high, field))
			return 0;
		return error_set(EINVAL,
				 "address rdma:%s: %s: found \"%s\", expected %" PRIu32
				 " to %" PRIu32,
				 text, knobs[i].name, value + 1, knobs[i].low, knobs[i].high);
	}
	return error_set(EINVAL,
			 "address rdma:%s: found \"%s\", expected source=, ack_timeout=, "
			 "retries=, rnr_retries=, reads=, traffic_class=, attempt_ms=, receives=, "
			 "notices=, hop_limit=, "
			 "batch_bytes=, read_bytes= or poll_us=",
			 text, knob);
}

/* Without batch_bytes the program's own batch size applies; read_bytes is checked against that
 * later. */
static int read_bytes_check(const char *text, const struct address *address)
{
	const uint32_t read = address->read_bytes;
	const uint32_t most = address->batch_bytes / BATCH_PAGE * BATCH_PAGE;

	if (read % LINE_BYTES != 0)
		return error_set(EINVAL,
				 "address rdma:%s: read_bytes: found %" PRIu32
				 ", expected a multiple of %d, the unit of slot sizes",
				 text, read, LINE_BYTES);
	if (read && most && (read < most / BOUND_READS_OF_A_BATCH || read > most))
		return error_set(EINVAL,
				 "address rdma:%s: read_bytes: found %" PRIu32 ", expected %" PRIu32
				 " to %" PRIu32 " with batch_bytes=%" PRIu32,
				 text, read, most / BOUND_READS_OF_A_BATCH, most,
				 address->batch_bytes);
	return 0;
}

/* given: a bit for each option that was given. */
static int parse(const char *text, struct address *address, uint32_t *given)
{
	char copy[TEXT_MAX + 1], *rest = copy, *part;
	int result = 0;

	*given = 0;
	memset(address, 0, sizeof(*address));
	for (size_t i = 0; i < KNOBS; i++)
		memcpy((char *)address + knobs[i].offset, &knobs[i].default_value,
		       sizeof(uint32_t));
	if (strlen(text) > TEXT_MAX)
		return error_set(EINVAL,
				 "address rdma:%.40s...: found %zu bytes, expected at most %d",
				 text, strlen(text), TEXT_MAX);
	strcpy(copy, text);
	part = strsep(&rest, ",");
	result = address_parse_host(part, &address->host);
	if (result == -ERANGE)
		return port_error("address rdma:", text, part);
	if (result < 0 || !has_port(&address->host))
		return error_set(
			EINVAL,
			"address rdma:%s: found \"%s\", expected HOST:PORT: an IPv4 "
			"address, or an IPv6 address in brackets, and a port from 1 to 65535",
			text, part);
	if (is_wildcard(&address->host))
		return error_set(EINVAL,
				 "address rdma:%s: found the wildcard address, expected the "
				 "address of one device",
				 text);
	while (result == 0 && (part = strsep(&rest, ",")))
		result = knob_parse(text, part, address, given);
	return result < 0 ? result : read_bytes_check(text, address);
}

int address_parse(const char *text, struct address *address)
{
	uint32_t given;

	return parse(text, address, &given);
}

int address_parse_listen(const char *text, struct address *address)
{
	uint32_t given;
	int result = parse(text, address, &given);

	if (result == 0 && address->source.ss_family != AF_UNSPEC)
		return error_set(EINVAL,
				 "address rdma:%s: found source=, expected HOST:PORT without it: "
				 "HOST is the address to listen at",
				 text);
	for (size_t i = 0; i < KNOBS && result == 0; i++)
		if (knobs[i].connects && (given >> i & 1))
			result = error_set(EINVAL,
					   "address rdma:%s: found %s=, expected rnr_retries=, "
					   "reads=, traffic_class=, attempt_ms= or hop_limit=: "
					   "subscribers give the other options",
					   text, knobs[i].name);
	return result;
}

void address_text(const struct sockaddr *address, char text[ADDRESS_TEXT_BYTES])
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
	char host[INET6_ADDRSTRLEN] = "?";

	if (address->sa_family == AF_INET) {
		inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
		snprintf(text, ADDRESS_TEXT_BYTES, "%s:%u", host, ntohs(four->sin_port));
	} else if (address->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
		snprintf(text, ADDRESS_TEXT_BYTES, "[%s]:%u", host, ntohs(six->sin6_port));
	} else {
		snprintf(text, ADDRESS_TEXT_BYTES, "nowhere");
	}
}

socklen_t address_bytes(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

int address_settle(const char *text, char **settled)
{
	const char *mark = strstr(text, USER_MARK);
	const char *name = mark ? mark + strlen(USER_MARK) : "";
	uid_t user = 0;
	int code;

	*settled = NULL;
	if (*name && name[strspn(name, "0123456789")]) {
		code = account_user(name, &user);
		if (code)
			return error_set(
				EINVAL,
				"address shm:%.100s: user: found \"%.40s\", expected a user "
				"of this host, by name or id%s%s",
				text, name, code == ENOENT ? "" : ": ",
				code == ENOENT ? "" : strerror(code));
		if (asprintf(settled, "%.*s%u", (int)(name - text), text, (unsigned int)user) < 0)
			*settled = NULL;
	} else {
		*settled = strdup(text);
	}
	return *settled ? 0 : error_set(ENOMEM, "address shm:%.100s: no memory", text);
}
