/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/catalogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "bus/pattern.h"
#include "publisher/describe.h"
#include "publisher/realm.h"
#include "publisher/session.h"
#include "publisher/topic_names.h"

int catalogue_ask(struct session *session, const struct control_message *asked)
{
	struct catalogue_request *request;

	if (session->asked_count == FABRIC_UNANSWERED)
		return error_set(EPROTO,
				 "found %u requests for the catalogue, expected at most %u that "
				 "wait for an answer",
				 session->asked_count + 1, FABRIC_UNANSWERED);
	if (!session->asked)
		session->asked = calloc(FABRIC_UNANSWERED, sizeof(*session->asked));
	if (!session->asked)
		return error_set(ENOMEM, "the publisher has no memory for a request");
	request =
		&session->asked[(session->asked_first + session->asked_count) % FABRIC_UNANSWERED];
	request->number = asked->request;
	request->after = asked->catalogue.after;
	memcpy(request->pattern, asked->catalogue.pattern, sizeof(request->pattern));
	if (session->asked_count++ == 0)
		TAILQ_INSERT_TAIL(&session->publisher->asking, session, asks);
	return 0;
}

bool catalogue_left(const struct tb_publisher *publisher)
{
	return !TAILQ_EMPTY(&publisher->asking);
}

/* The indexes of the topics that a pattern may match: all, or the topic that it names. */
static void range_of(const struct tb_publisher *publisher, const struct catalogue_request *request,
		     uint32_t *first, uint32_t *end)
{
	const struct tb_topic *named;

	*first = request->after;
	*end = publisher->topic_count;
	if (!pattern_is_name(request->pattern))
		return;
	named = topic_names_find(publisher, request->pattern);
	*end = named ? named->shape.topic_id : 0;
	if (*first < *end)
		*first = *end - 1;
}

/* Takes the first request of a session, which lines up again if it has more. */
static struct catalogue_request request_take(struct session *session)
{
	const struct catalogue_request request = session->asked[session->asked_first];
	struct session_list *asking = &session->publisher->asking;

	session->asked_first = (session->asked_first + 1) % FABRIC_UNANSWERED;
	TAILQ_REMOVE(asking, session, asks);
	if (--session->asked_count > 0)
		TAILQ_INSERT_TAIL(asking, session, asks);
	return request;
}

/* Returns how many topics it looked at. */
static uint32_t request_answer(struct session *session)
{
	const struct tb_publisher *publisher = session->publisher;
	const struct catalogue_request request = request_take(session);
	struct control_message answer = { .type = CONTROL_TOPICS, .request = request.number };
	struct control_topic topic = { 0 };
	uint32_t first, end, i;

	range_of(publisher, &request, &first, &end);
	for (i = first; i < end; i++) {
		if (!realm_has(session->realm, publisher->topics[i]) ||
		    !pattern_match(request.pattern, publisher->topics[i]->name))
			continue;
		describe_topic(session, publisher->topics[i], &topic);
		if (!control_topics_add(&answer, &topic)) {
			answer.topics.more = 1;
			break;
		}
	}
	session_send(session, &answer, NULL);
	return i > first ? i - first : 0;
}

void catalogue_answer(struct tb_publisher *publisher)
{
	uint32_t topics = 0;

	for (int i = 0; i < CATALOGUE_ANSWERS && topics < CATALOGUE_TOPICS; i++) {
		struct session *session = TAILQ_FIRST(&publisher->asking);

		if (!session)
			return;
		topics += request_answer(session);
	}
}
