// SPDX-License-Identifier: Apache-2.0
// A C++ program whose handler is left by an exception: the next call says so, and a destructor
// closes the subscriber while the exception is on its way.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <tickbus/publisher.h>
#include <tickbus/subscriber.h>

namespace {

struct Subscriber {
	tb_subscriber *handle = nullptr;

	~Subscriber()
	{
		tb_subscriber_close(handle);
	}
};

void on_record(void *, const tb_source *, const tb_record *)
{
	throw std::runtime_error("out of a handler");
}

int check(int result)
{
	if (result >= 0)
		return result;
	std::fprintf(stderr, "leaves_handler: %s\n", tb_error());
	std::exit(1);
}

long descriptors()
{
	const std::filesystem::directory_iterator all("/proc/self/fd");

	return std::distance(begin(all), end(all));
}

void subscribe(Subscriber &subscriber)
{
	tb_subscriber_options how = {};
	tb_subscription_options what = {};
	tb_subscription *subscription;

	how.size = sizeof(how);
	how.address = "shm:leaves";
	what.size = sizeof(what);
	what.on_record = on_record;
	what.from = TB_FROM_OLDEST;
	check(tb_subscriber_open(&subscriber.handle, &how));
	check(tb_subscribe(subscriber.handle, "t", &what, &subscription));
}

// Ends by the handler's exception, and then by the refusal of the next call.
void poll_twice(bool again)
{
	Subscriber subscriber;

	subscribe(subscriber);
	try {
		while (check(tb_poll(subscriber.handle, 100)) >= 0)
			;
	} catch (const std::runtime_error &) {
		if (!again)
			throw;
	}
	if (tb_poll(subscriber.handle, 1) != -EDEADLK || !std::strstr(tb_error(), "exception"))
		std::exit(2);
}

void round(tb_publisher *publisher, tb_topic *topic, bool again)
{
	try {
		poll_twice(again);
		if (!again)
			std::exit(3);
	} catch (const std::runtime_error &) {
	}
	while (tb_publisher_joins(publisher, &topic, 1) > 0)
		;
}

} // namespace

int main()
{
	tb_publisher_options bus = {};
	tb_topic_options how = {};
	tb_update update = {};
	tb_publisher *publisher;
	tb_schema *schema;
	tb_topic *topic;

	bus.size = sizeof(bus);
	bus.name = "leaves";
	how.size = sizeof(how);
	how.name = "t";
	check(tb_schema_load(&schema, "quote"));
	how.schema = schema;
	check(tb_publisher_open(&publisher, &bus));
	check(tb_topic_create(publisher, &how, &topic));
	update.size = sizeof(update);
	update.instrument = static_cast<uint32_t>(check(tb_instrument(topic, "A")));
	update.kind = TB_KIND_STATUS;
	check(tb_publish(topic, &update));
	round(publisher, topic, true);
	const int rounds = 40;
	const long before = descriptors();
	for (int i = 0; i < rounds; i++)
		round(publisher, topic, i % 2 == 0);
	if (descriptors() > before + rounds / 2) // a process that still ends takes one for a moment
		std::exit(4);
	tb_publisher_close(publisher);
	tb_schema_free(schema);
	std::puts("closed after each exception");
}
