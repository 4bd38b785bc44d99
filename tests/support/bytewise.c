/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/bytewise.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "bus/shm/shm.h"

#define DEPTH         16
#define LINKS_MAX     64
#define LISTENERS_MAX 16
#define REAP_BYTES    256 /* copied per reap, on average */

/* The shm listener that serves this listener's calls. */
struct proxy {
	const struct listener *listener;
	bool taken;
	struct listener_calls calls;
	void *user;
};

struct exposure_of_realm {
	struct exposure base;
	struct exposure *shared;
	uint32_t realm;
};

struct pending {
	struct fabric_read read;
	const volatile uint8_t *from;
	uint32_t at, step, left; /* the next byte is `at`; the steps visit each byte once */
	bool broken;
};

struct state {
	const struct link *link;
	struct pending pending[DEPTH];
	unsigned int count;
};

static struct fabric_ops bytewise_ops;
static struct state states[LINKS_MAX];
static struct proxy proxies[LISTENERS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t random_state;

static uint64_t draw(void)
{
	const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t z = atomic_fetch_add_explicit(&random_state, step, memory_order_relaxed) + step;

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static struct state *state_of(const struct link *link)
{
	struct state *found = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < LINKS_MAX && !found; i++)
		if (states[i].link == link)
			found = &states[i];
	pthread_mutex_unlock(&lock);
	if (!found)
		abort();
	return found;
}

/* -- realms: a peer does not receive memory that is exposed in another realm ------------------
 */

static struct exposure *reachable(const struct peer *peer, struct exposure *given)
{
	const struct exposure_of_realm *exposure = (const struct exposure_of_realm *)given;

	return exposure && exposure->realm == peer->realm ? exposure->shared : NULL;
}

static int bytewise_expose(struct listener *listener, const struct memory *memory, uint32_t realm,
			   struct exposure **out)
{
	struct exposure_of_realm *exposure = calloc(1, sizeof(*exposure));
	int result;

	*out = NULL;
	if (!exposure)
		return error_set(ENOMEM, "no memory to expose");
	exposure->base.ops = listener->ops;
	exposure->realm = realm;
	result = shm_expose(listener, memory, realm, &exposure->shared);
	if (result < 0)
		free(exposure);
	else
		*out = &exposure->base;
	return result;
}

static void bytewise_withdraw(struct exposure *base)
{
	struct exposure_of_realm *exposure = (struct exposure_of_realm *)base;

	if (exposure)
		shm_withdraw(exposure->shared);
	free(exposure);
}

static int bytewise_key(struct exposure *exposure, struct peer *peer, struct fabric_key *key)
{
	return shm_key(((struct exposure_of_realm *)exposure)->shared, peer, key);
}

static int bytewise_send(struct peer *peer, const void *message, size_t bytes,
			 struct exposure *given)
{
	return shm_send(peer, message, bytes, reachable(peer, given));
}

static int on_hello(void *user, struct peer *peer, const void *hello, size_t bytes,
		    struct fabric_answer *answer)
{
	const struct proxy *proxy = user;
	const int result = proxy->calls.hello(proxy->user, peer, hello, bytes, answer);

	if (result == 0)
		answer->given = reachable(peer, answer->given);
	return result;
}

static void on_message(void *user, struct peer *peer, const void *message, size_t bytes)
{
	const struct proxy *proxy = user;

	proxy->calls.message(proxy->user, peer, message, bytes);
}

static void on_gone(void *user, struct peer *peer, const char *why)
{
	const struct proxy *proxy = user;

	proxy->calls.gone(proxy->user, peer, why);
}

static void on_log(void *user, enum fabric_log kind, const char *text)
{
	const struct proxy *proxy = user;

	proxy->calls.log(proxy->user, kind, text);
}

static const struct listener_calls realm_calls = {
	.hello = on_hello, .message = on_message, .gone = on_gone, .log = on_log
};

static struct proxy *proxy_take(const struct listener_calls *calls, void *user)
{
	struct proxy *proxy = proxies;

	pthread_mutex_lock(&lock);
	while (proxy < proxies + LISTENERS_MAX && proxy->taken)
		proxy++;
	if (proxy == proxies + LISTENERS_MAX)
		abort();
	*proxy = (struct proxy){ .taken = true, .calls = *calls, .user = user };
	pthread_mutex_unlock(&lock);
	return proxy;
}

static void proxy_free(const struct listener *listener)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < LISTENERS_MAX; i++)
		if (proxies[i].taken && proxies[i].listener == listener)
			proxies[i].taken = false;
	pthread_mutex_unlock(&lock);
}

static int bytewise_listen(struct listener **out, const struct fabric_listen *listen,
			   const struct listener_calls *calls, void *user)
{
	struct proxy *proxy = proxy_take(calls, user);
	int result = shm_listen(out, listen, &realm_calls, proxy);

	if (result == 0) {
		(*out)->ops = &bytewise_ops;
		proxy->listener = *out;
	} else {
		proxy->taken = false;
	}
	return result;
}

static void bytewise_listener_close(struct listener *listener)
{
	if (listener)
		proxy_free(listener);
	shm_listener_close(listener);
}

/* -- reads --------------------------------------------------------------------------------------
 */

static int bytewise_connect(struct link **out, const char *address, const void *hello, size_t bytes,
			    const struct link_calls *calls, void *user)
{
	int result = shm_connect(out, address, hello, bytes, calls, user);
	size_t i = 0;

	if (result < 0)
		return result;
	(*out)->ops = &bytewise_ops;
	pthread_mutex_lock(&lock);
	while (i < LINKS_MAX && states[i].link)
		i++;
	if (i == LINKS_MAX)
		abort();
	states[i].count = 0;
	states[i].link = *out;
	pthread_mutex_unlock(&lock);
	return 0;
}

static void bytewise_break(struct link *link)
{
	struct state *state = state_of(link);

	for (unsigned int i = 0; i < state->count; i++)
		state->pending[i].broken = true;
	shm_link_break(link);
}

static void bytewise_close(struct link *link)
{
	struct state *state = link ? state_of(link) : NULL;

	shm_link_close(link);
	pthread_mutex_lock(&lock);
	if (state)
		state->link = NULL;
	pthread_mutex_unlock(&lock);
}

static const void *bytewise_view(const struct remote *remote)
{
	(void)remote;
	return NULL;
}

static unsigned int bytewise_depth(const struct link *link)
{
	(void)link;
	return DEPTH;
}

static uint32_t divisor(uint32_t a, uint32_t b)
{
	while (b) {
		const uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static void copy(struct pending *pending, uint32_t bytes)
{
	uint8_t *into = pending->read.into;

	for (; bytes > 0 && pending->left > 0; bytes--, pending->left--) {
		into[pending->at] = pending->from[pending->at];
		pending->at = (pending->at + pending->step) % pending->read.bytes;
	}
}

static int bytewise_read(struct link *link, const struct fabric_read *reads, unsigned int count)
{
	struct state *state = state_of(link);
	unsigned int taken = 0;

	if (shm_link_state(link) != LINK_UP)
		return error_set(ENOTCONN, "not connected");
	for (; taken < count && state->count < DEPTH; taken++) {
		const struct fabric_read *read = &reads[taken];
		struct pending *pending = &state->pending[state->count];

		if (read->bytes == 0 || read->offset > read->remote->bytes ||
		    read->bytes > read->remote->bytes - read->offset)
			return taken ? (int)taken
				     : error_set(ERANGE, "read of %u bytes at %llu", read->bytes,
						 (unsigned long long)read->offset);
		*pending = (struct pending){ .read = *read, .left = read->bytes };
		pending->from = (const volatile uint8_t *)shm_view(read->remote) + read->offset;
		pending->at = (uint32_t)(draw() % read->bytes);
		do
			pending->step = (uint32_t)(draw() % read->bytes) + 1;
		while (divisor(read->bytes, pending->step) != 1);
		copy(pending, (uint32_t)(draw() % (read->bytes + 1)));
		state->count++;
	}
	return (int)taken;
}

static int bytewise_reap(struct link *link, struct fabric_completion *done, unsigned int max)
{
	struct state *state = state_of(link);
	unsigned int count = 0;

	for (unsigned int turns = state->count; turns > 0 && count < max; turns--) {
		const unsigned int chosen = (unsigned int)(draw() % state->count);
		struct pending *pending = &state->pending[chosen];

		if (!pending->broken)
			copy(pending, (uint32_t)(draw() % (2 * REAP_BYTES)) +
					      (draw() % 2 ? pending->read.bytes : 0));
		if (pending->left > 0 && !pending->broken)
			continue;
		done[count++] =
			(struct fabric_completion){ .tag = pending->read.tag,
						    .status = pending->left > 0 ? -ECONNRESET : 0 };
		*pending = state->pending[--state->count];
		if (state->count == 0)
			break;
	}
	return (int)count;
}

static int bytewise_sleep(struct link *link)
{
	return state_of(link)->count > 0 || shm_sleep(link);
}

void bytewise_add(uint64_t seed)
{
	random_state = seed;
	bytewise_ops = shm_ops;
	bytewise_ops.scheme = "bytewise";
	bytewise_ops.network = true;
	bytewise_ops.listen = bytewise_listen;
	bytewise_ops.listener_close = bytewise_listener_close;
	bytewise_ops.expose = bytewise_expose;
	bytewise_ops.withdraw = bytewise_withdraw;
	bytewise_ops.key = bytewise_key;
	bytewise_ops.send = bytewise_send;
	bytewise_ops.connect = bytewise_connect;
	bytewise_ops.link_break = bytewise_break;
	bytewise_ops.link_close = bytewise_close;
	bytewise_ops.view = bytewise_view;
	bytewise_ops.depth = bytewise_depth;
	bytewise_ops.read = bytewise_read;
	bytewise_ops.reap = bytewise_reap;
	bytewise_ops.sleep = bytewise_sleep;
	if (fabric_add(&bytewise_ops) < 0)
		abort();
}
