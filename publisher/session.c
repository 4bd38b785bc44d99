/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/session.h"

#include <errno.h>
#include <stdlib.h>

#include "bus/counters.h"

struct session *session_open(struct endpoint *endpoint, struct peer *peer,
			     const struct realm *realm)
{
	struct tb_publisher *publisher = endpoint->publisher;
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->publisher = publisher;
	session->peer = peer;
	session->realm = realm;
	session->listener = endpoint->index;
	session->next = publisher->sessions;
	session->link = &publisher->sessions;
	if (publisher->sessions)
		publisher->sessions->link = &session->next;
	publisher->sessions = session;
	peer->user = session;
	peer->realm = realm->index;
	counter_add(&publisher->counters[BUS_CONNECTIONS], 1);
	counter_add(&publisher->counters[BUS_SUBSCRIBERS], 1);
	return session;
}

struct join *session_find(const struct session *session, const struct tb_topic *topic)
{
	for (struct join *join = session->joins; join; join = join->next_of_session)
		if (join->topic == topic)
			return join;
	return NULL;
}

struct join *session_join(struct session *session, struct tb_topic *topic)
{
	struct join *join = calloc(1, sizeof(*join));

	if (!join)
		return NULL;
	join->session = session;
	join->topic = topic;
	join->epoch = topic->shape.epoch;
	join->next_of_topic = topic->joins;
	join->link_of_topic = &topic->joins;
	if (topic->joins)
		topic->joins->link_of_topic = &join->next_of_topic;
	topic->joins = join;
	topic->join_count++;
	join->next_of_session = session->joins;
	join->link_of_session = &session->joins;
	if (session->joins)
		session->joins->link_of_session = &join->next_of_session;
	session->joins = join;
	counter_add(&session->publisher->counters[BUS_JOINS], 1);
	return join;
}

void session_leave(struct join *join)
{
	*join->link_of_topic = join->next_of_topic;
	if (join->next_of_topic)
		join->next_of_topic->link_of_topic = join->link_of_topic;
	*join->link_of_session = join->next_of_session;
	if (join->next_of_session)
		join->next_of_session->link_of_session = join->link_of_session;
	join->topic->join_count--;
	counter_add(&join->session->publisher->counters[BUS_JOINS], UINT64_MAX);
	free(join);
}

void session_close(struct session *session)
{
	while (session->joins)
		session_leave(session->joins);
	*session->link = session->next;
	if (session->next)
		session->next->link = session->link;
	counter_add(&session->publisher->counters[BUS_SUBSCRIBERS], UINT64_MAX);
	free(session);
}

static int session_try(struct session *session, const struct control_message *message,
		       struct exposure *given)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const size_t length = control_encode(message, bytes);

	return session->peer->ops->send(session->peer, bytes, length, given);
}

static int session_drop(struct session *session, int result)
{
	struct peer *peer = session->peer;

	peer->ops->drop(peer, result == -EAGAIN ? "it does not read its messages" : tb_error());
	session_close(session);
	return -ENOTCONN;
}

int session_send(struct session *session, const struct control_message *message,
		 struct exposure *given)
{
	const int result = session_try(session, message, given);

	return result == 0 ? 0 : session_drop(session, result);
}

int session_offer(struct session *session, const struct control_message *message)
{
	const int result = session_try(session, message, NULL);

	return result == 0 || result == -EAGAIN ? result : session_drop(session, result);
}
