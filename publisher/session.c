/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/counters.h"
#include "publisher/quota.h"

#define TABLE_ROOM 8 /* topics, at first */

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
	TAILQ_INIT(&session->owed);
	if (quota_take(session) < 0) {
		free(session);
		return NULL;
	}
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
	const uint32_t index = topic->shape.topic_id - 1;

	return index < session->joins_room ? session->joins[index] : NULL;
}

struct join *session_any(const struct session *session)
{
	for (uint32_t i = 0; session->join_count > 0 && i < session->joins_room; i++)
		if (session->joins[i])
			return session->joins[i];
	return NULL;
}

/* The place of a topic in the table, which grows to the highest id that the client joins. */
static struct join **session_place(struct session *session, uint32_t topic_id)
{
	struct join **joins = session->joins;
	uint32_t room = TABLE_ROOM;

	if (topic_id > session->joins_room) {
		while (room < topic_id)
			room *= 2;
		joins = reallocarray(joins, room, sizeof(struct join *));
		if (!joins)
			return NULL;
		memset(&joins[session->joins_room], 0,
		       (room - session->joins_room) * sizeof(struct join *));
		session->joins = joins;
		session->joins_room = room;
	}
	return &joins[topic_id - 1];
}

struct join *session_join(struct session *session, struct tb_topic *topic)
{
	struct join **place = session_place(session, topic->shape.topic_id);
	struct join *join = place ? calloc(1, sizeof(*join)) : NULL;

	if (!join)
		return NULL;
	join->session = session;
	join->topic = topic;
	join->next_of_topic = topic->joins;
	join->link_of_topic = &topic->joins;
	if (topic->joins)
		topic->joins->link_of_topic = &join->next_of_topic;
	topic->joins = join;
	topic->join_count++;
	*place = join;
	session->join_count++;
	counter_add(&session->publisher->counters[BUS_JOINS], 1);
	return join;
}

void session_leave(struct join *join)
{
	struct session *session = join->session;

	*join->link_of_topic = join->next_of_topic;
	if (join->next_of_topic)
		join->next_of_topic->link_of_topic = join->link_of_topic;
	if (join->is_owed)
		TAILQ_REMOVE(&session->owed, join, owed);
	if (join->is_late)
		TAILQ_REMOVE(&session->publisher->late, join, late);
	join_arm(join, false);
	session->joins[join->topic->shape.topic_id - 1] = NULL;
	session->join_count--;
	join->topic->join_count--;
	counter_add(&session->publisher->counters[BUS_JOINS], UINT64_MAX);
	free(join);
}

void session_close(struct session *session)
{
	for (uint32_t i = 0; i < session->joins_room; i++)
		if (session->joins[i])
			session_leave(session->joins[i]);
	free(session->joins);
	if (session->asked_count > 0)
		TAILQ_REMOVE(&session->publisher->asking, session, asks);
	free(session->asked);
	quota_give(session);
	if (session->offering)
		TAILQ_REMOVE(session->offering, session, place);
	*session->link = session->next;
	if (session->next)
		session->next->link = session->link;
	counter_add(&session->publisher->counters[BUS_SUBSCRIBERS], UINT64_MAX);
	free(session);
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
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const size_t length = control_encode(message, bytes);
	const int result = session->peer->ops->send(session->peer, bytes, length, given);

	return result == 0 ? 0 : session_drop(session, result);
}

int session_offer(struct session *session, const struct control_message *message)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const size_t length = control_encode(message, bytes);
	const int result = session->peer->ops->offer(session->peer, bytes, length);

	return result == 0 || result == -EAGAIN ? result : session_drop(session, result);
}
