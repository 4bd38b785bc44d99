/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/offers.h"

#include <errno.h>

#include "bus/counters.h"
#include "publisher/session.h"

/* Moves a session to a list; NULL: it leaves its list. */
static void place_in(struct session *session, struct session_list *list)
{
	if (session->offering)
		TAILQ_REMOVE(session->offering, session, place);
	session->offering = list;
	if (list)
		TAILQ_INSERT_TAIL(list, session, place);
}

void offers_owe(struct join *join)
{
	struct session *session = join->session;

	if (!join->is_owed)
		TAILQ_INSERT_TAIL(&session->owed, join, owed);
	join->is_owed = true;
	if (!session->offering)
		place_in(session, &session->publisher->ready);
}

void offers_again(struct session *session)
{
	if (session->offering == &session->publisher->full)
		place_in(session, &session->publisher->ready);
}

void offers_again_all(struct tb_publisher *publisher)
{
	while (!TAILQ_EMPTY(&publisher->full))
		offers_again(TAILQ_FIRST(&publisher->full));
}

bool offers_left(const struct tb_publisher *publisher)
{
	return !TAILQ_EMPTY(&publisher->ready);
}

/* -- one join -----------------------------------------------------------------------------------
 */

/* What the client must learn of its join; false: nothing. A quick client may join the new epoch
 * before the revoke of the old epoch is offered, and then needs no revoke. */
static bool is_due(const struct join *join, struct control_message *message)
{
	const struct tb_topic *topic = join->topic;
	const bool gone = join->epoch != topic->shape.epoch;

	*message = (struct control_message){ .topic = { .topic_id = topic->shape.topic_id,
							.epoch = join->epoch,
							.head = gone ? 0 : topic_head(topic) } };
	if (gone && join->sent < JOIN_SENT_REVOKE)
		message->type = CONTROL_REVOKE;
	else if (!gone && topic->end_sent && join->sent < JOIN_SENT_ENDING)
		message->type = CONTROL_ENDING;
	else if (join->armed && join_has_news(join))
		message->type = CONTROL_WAKE;
	else
		return false;
	return true;
}

static void offer_sent(struct join *join, enum control_type type)
{
	if (type == CONTROL_WAKE) {
		join_arm(join, false);
		counter_add(&join->session->publisher->counters[BUS_WAKES], 1);
	} else {
		join->sent = type == CONTROL_REVOKE ? JOIN_SENT_REVOKE : JOIN_SENT_ENDING;
	}
}

/* -- all ----------------------------------------------------------------------------------------
 */

/* Offers a session's messages until its queue is full, all are sent, or the turn has made its
 * offers. */
static void session_offers(struct session *session, int *left)
{
	struct control_message message;
	struct join *join;
	int result;

	while ((join = TAILQ_FIRST(&session->owed)) && *left > 0) {
		(*left)--;
		if (!is_due(join, &message)) {
			TAILQ_REMOVE(&session->owed, join, owed);
			join->is_owed = false;
			continue;
		}
		result = session_offer(session, &message);
		if (result == -EAGAIN)
			place_in(session, &session->publisher->full);
		if (result < 0)
			return; /* full, or ended */
		offer_sent(join, message.type);
	}
	if (!join)
		place_in(session, NULL);
}

void offers_make(struct tb_publisher *publisher)
{
	int left = OFFERS_OF_A_TURN;

	while (left > 0 && offers_left(publisher))
		session_offers(TAILQ_FIRST(&publisher->ready), &left);
}
