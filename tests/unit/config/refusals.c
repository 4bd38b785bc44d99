/* SPDX-License-Identifier: Apache-2.0 */
/* Every key of the settings: missing, of a wrong type, outside its bounds, unknown, duplicate,
 * without a target. Each text has one error, and a mark at its position. */
#include "config.h"

#include <errno.h>

#include "config/settings.h"
#include "tickbus/error.h"

#define BUS     "bus: { name: b }\n"
#define SCHEMAS "schemas: [ quote, trade ]\n"
#define FEEDS   "feeds: [ { name: f, type: synthetic } ]\n"
#define TOPICS  "topics: [ { name: t, feed: f, select: quote, schema: quote } ]\n"

#define IN_BUS(keys)   "bus: { name: b, " keys " }\n" SCHEMAS FEEDS TOPICS
#define IN_LOG(keys)   BUS "log: { " keys " }\n" SCHEMAS FEEDS TOPICS
#define IN_LIST(list)  BUS "schemas: " list "\n" FEEDS TOPICS
#define A_FEED(feed)   BUS SCHEMAS "feeds: [ " feed " ]\n" TOPICS
#define IN_FEED(keys)  A_FEED("{ name: f, type: synthetic, " keys " }")
#define IN_ITCH(keys)  A_FEED("{ name: f, type: itch50, " keys " }")
#define IN_FILE(keys)  IN_ITCH("path: data.bin, date: 2019-12-30, " keys)
#define A_TOPIC(topic) BUS SCHEMAS FEEDS "topics: [ " topic " ]\n"
#define IN_TOPIC(keys) A_TOPIC("{ name: t, feed: f, select: quote, schema: quote, " keys " }")
#define TWO_TOPICS(one, other)                                                                     \
	A_NETWORK "topics: [ { name: t, feed: f, select: quote, schema: quote, multicast: " one    \
		  " }, { name: u, feed: f, select: trade, schema: trade, multicast: " other        \
		  " } ]\n"
#define A_NETWORK                                                                                  \
	"bus: { name: b, listen: [ 'rdma:[fd00::1]:7471', 'rdma:10.9.0.1:7471' ] }\n" SCHEMAS FEEDS
#define IN_REALMS(list) BUS SCHEMAS FEEDS TOPICS "realms: " list "\n"
#define A_REALM(keys)   IN_REALMS("[ { name: r, " keys " } ]")
#define WITH_TICKET     "realms: [ { name: r, ticket_file: a.ticket, topics: [ t ] } ]\n"
#define TICKET          "expected the path of a ticket file"
#define HEX16           "5a5A0123456789ef"
#define PATTERN         "expected a pattern that one of the topics matches"
#define AGAIN           "found this key again, expected it once (first on line "
#define NAME                                                                                       \
	"expected a name of 1 to 63 letters, digits, '.', '_' and '-' that does not begin with "   \
	"'.'"
#define ACCOUNT "expected a name of 1 to 255 bytes"
#define ADDRESS "expected shm:NAME, shm: alone for the name of the bus, or rdma:HOST:PORT"
#define HOST                                                                                       \
	"expected HOST:PORT: an IPv4 address, or an IPv6 address in brackets, and a port from 1 "  \
	"to 65535"
#define GROUP                                                                                      \
	"expected GROUP:PORT of a multicast group like 239.10.0.1:7472, outside 224.0.0.0/24, "    \
	"which belongs to link protocols"
#define OF_A_PUBLISHER                                                                             \
	"expected rnr_retries=, reads=, traffic_class=, attempt_ms= or hop_limit=: subscribers "   \
	"give the other options"
#define NUMBER(from_to) "expected a whole number from " from_to
#define BOOLEAN         "expected true or false"
#define SPEED           "expected max, realtime, or a factor from 0.001x to 1000x"
#define DATE            "expected a day as YYYY-MM-DD, from 1970-01-02 to 2199-12-31"
#define TIME            "expected a time of day as HH:MM or HH:MM:SS, or first_trade"
#define ZONE            "expected the name of a time zone like America/New_York"
#define NONE_IN         ": no zone of this name in /usr/share/zoneinfo"
#define FILE_           "expected a regular file of 2 bytes or more that can be read"
#define TOPIC           "expected parts of a-z, 0-9, '_' and '-' with dots between, at most 63 bytes"
#define BUILT_IN                                                                                   \
	"expected the path of a .yaml file or a built-in schema: quote, trade, depth10, status, "  \
	"imbalance, definition, quote_seq, trade_seq and 3 more"
#define LEVEL      "expected error, warning, info or debug"
#define TYPE       "expected itch50 or synthetic"
#define AT_END     "expected linger, exit or restart"
#define INCOMPLETE "expected warn or fail"
#define WAIT       "expected spin, backoff or sleep"
#define SELECT     "expected quote, trade, depth10, status, imbalance or definition"
#define NAME_63    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"

/* clang-format off */
static const char *const cases[][2] = {
	/* the file */
	{ "@[]\n", "found a list, expected a mapping" },
	{ "@hello\n", "found \"hello\", expected a mapping" },
	{ BUS SCHEMAS FEEDS TOPICS "@colour: 1\n", "colour: found an unknown key" },
	{ "bus: @&x { name: b }\n" SCHEMAS FEEDS TOPICS, "bus: found an anchor, expected a plain value: put a text that begins with & in quotes" },
	{ IN_BUS("stale_ms: @*x"), "bus.stale_ms: found an alias, expected a plain value: put a text that begins with * in quotes" },
	{ "bus: @*x\n" SCHEMAS FEEDS TOPICS, "bus: found an alias, expected a plain value: put a text that begins with * in quotes" },
	{ A_FEED("@*x"), "feeds[0]: found an alias, expected a plain value: put a text that begins with * in quotes" },
	{ A_TOPIC("{ name: @!t t, feed: f, select: quote, schema: quote }"), "topics[0].name: found a tag, expected a plain value: put a text that begins with ! in quotes" },
	{ A_TOPIC("{ name: t, feed: @*f, select: quote, schema: quote }"), "topics[0].feed: found an alias, expected a plain value: put a text that begins with * in quotes" },
	{ BUS SCHEMAS FEEDS TOPICS "@feed: 1\n", "feed: found an unknown key, did you mean feeds?" },
	/* bus */
	{ "@" SCHEMAS FEEDS TOPICS, "bus.name: found nothing, " NAME },
	{ "bus: @[]\n" SCHEMAS FEEDS TOPICS, "bus: found a list, expected a mapping" },
	{ "bus:@\n" SCHEMAS FEEDS TOPICS, "bus: found nothing, expected a mapping" },
	{ BUS SCHEMAS FEEDS TOPICS "@" BUS, "bus: " AGAIN "1)" },
	{ IN_BUS("@nmae: c"), "bus.nmae: found an unknown key, did you mean name?" },
	{ IN_BUS("@multicasts: 239.10.0.1:7472"), "bus.multicasts: found an unknown key, did you mean multicast?" },
	{ IN_BUS("@name: b"), "bus.name: " AGAIN "1)" },
	{ "bus: @{ stale_ms: 20 }\n" SCHEMAS FEEDS TOPICS, "bus.name: found nothing, " NAME },
	{ "bus: { name: @{} }\n" SCHEMAS FEEDS TOPICS, "bus.name: found a mapping, " NAME },
	{ "bus: { name: @'' }\n" SCHEMAS FEEDS TOPICS, "bus.name: found \"\", " NAME },
	{ "bus: { name: @a/b }\n" SCHEMAS FEEDS TOPICS, "bus.name: found \"a/b\", " NAME },
	{ "bus: { name: @.b }\n" SCHEMAS FEEDS TOPICS, "bus.name: found \".b\", " NAME },
	{ "bus: { name: @" NAME_63 "x }\n" SCHEMAS FEEDS TOPICS, "bus.name: found \"" NAME_63 "x\", " NAME },
	/* bus.listen */
	{ IN_BUS("listen: @shm"), "bus.listen: found \"shm\", expected a list" },
	{ IN_BUS("listen: @[]"), "bus.listen: found 0 entries, expected 1 to 8" },
	{ IN_BUS("listen: @[ 'shm:1', 'shm:2', 'shm:3', 'shm:4', 'shm:5', 'shm:6', 'shm:7', 'shm:8', 'shm:9' ]"), "bus.listen: found 9 entries, expected 1 to 8" },
	{ IN_BUS("listen: [ @{} ]"), "bus.listen[0]: found a mapping, " ADDRESS },
	{ IN_BUS("listen: [ @shm: ]"), "bus.listen[0]: found a mapping, " ADDRESS ": put a text that ends with ':' in quotes" },
	{ IN_BUS("listen: [ 'shm:', @'rdma:somewhere:7471' ]"), "bus.listen[1]: address rdma:somewhere:7471: found \"somewhere:7471\", " HOST },
	{ IN_BUS("listen: [ @'rdma:10.9.0.1' ]"), "bus.listen[0]: address rdma:10.9.0.1: found \"10.9.0.1\", " HOST },
	{ IN_BUS("listen: [ @'rdma:10.9.0.1:65536' ]"), "bus.listen[0]: address rdma:10.9.0.1:65536: port: found 65536, expected 1 to 65535" },
	{ IN_BUS("listen: [ @'rdma:[fd00::1]:0,reads=1' ]"), "bus.listen[0]: address rdma:[fd00::1]:0,reads=1: port: found 0, expected 1 to 65535" },
	{ IN_BUS("listen: [ @'rdma:10.9.0.1:7471x' ]"), "bus.listen[0]: address rdma:10.9.0.1:7471x: found \"10.9.0.1:7471x\", " HOST },
	{ IN_BUS("listen: [ @'rdma:[fd00::1:7471' ]"), "bus.listen[0]: address rdma:[fd00::1:7471: found \"[fd00::1:7471\", " HOST },
	{ IN_BUS("multicast: @[]"), "bus.multicast: found a list, " GROUP },
	{ IN_BUS("multicast: @239.1.1.1"), "bus.multicast: found \"239.1.1.1\", " GROUP },
	{ IN_BUS("multicast: @'10.9.0.1:7472'"), "bus.multicast: found \"10.9.0.1:7472\", " GROUP },
	{ IN_BUS("multicast: @'224.0.0.1:7472'"), "bus.multicast: found \"224.0.0.1:7472\", " GROUP },
	{ IN_BUS("multicast: @'224.0.0.255:7472'"), "bus.multicast: found \"224.0.0.255:7472\", " GROUP },
	{ IN_TOPIC("multicast: @'224.0.0.9:7472'"), "topics[0].multicast: found \"224.0.0.9:7472\", " GROUP },
	{ IN_BUS("multicast: @'239.1.1.1:0'"), "bus.multicast: group 239.1.1.1:0: port: found 0, expected 1 to 65535" },
	{ IN_BUS("multicast: @'[ff15::1]:99999'"), "bus.multicast: group [ff15::1]:99999: port: found 99999, expected 1 to 65535" },
	{ IN_BUS("multicast: @'239.1.1.1:7472'"), "bus.multicast: found \"239.1.1.1:7472\", expected no group: the bus listens at shared memory only" },
	{ IN_BUS("listen: [ 'rdma:10.9.0.1:7471' ], notice: none, multicast: @'239.1.1.1:7472'"), "bus.multicast: found \"239.1.1.1:7472\", expected no group: the bus sends no notices" },
	{ IN_BUS("notice: @heads"), "bus.notice: found \"heads\", expected auto, none, ud or udp" },
	{ IN_BUS("notice: @[]"), "bus.notice: found a list, expected auto, none, ud or udp" },
	{ IN_BUS("notice_bytes: @255"), "bus.notice_bytes: found \"255\", " NUMBER("256 to 4096") },
	{ IN_BUS("notice_bytes: @4097"), "bus.notice_bytes: found \"4097\", " NUMBER("256 to 4096") },
	{ IN_BUS("listen: [ 'rdma:10.9.0.1:7471' ], multicast: '239.1.1.1:1', @multicast: '239.1.1.1:1'"), "bus.multicast: " AGAIN "1)" },
	{ IN_BUS("notice: auto, @notice: auto"), "bus.notice: " AGAIN "1)" },
	{ IN_BUS("notice_bytes: 1024, @notice_bytes: 256"), "bus.notice_bytes: " AGAIN "1)" },
	{ IN_BUS("notice_bytes: @many"), "bus.notice_bytes: found \"many\", " NUMBER("256 to 4096") },
	{ IN_BUS("listen: [ @'rdma:0.0.0.0:1' ]"), "bus.listen[0]: address rdma:0.0.0.0:1: found the wildcard address, expected the address of one device" },
	{ IN_BUS("listen: [ @'rdma:1.2.3.4:1,retries=7' ]"), "bus.listen[0]: address rdma:1.2.3.4:1,retries=7: retries: found \"7\", expected 1 to 6" },
	{ IN_BUS("listen: [ @'rdma:1.2.3.4:1,tries=7' ]"), "bus.listen[0]: address rdma:1.2.3.4:1,tries=7: found \"tries=7\", expected source=, ack_timeout=, retries=, rnr_retries=, reads=, traffic_class=, attempt_ms=, receives=, notices=, hop_limit=, batch_bytes=, read_bytes= or poll_us=" },
	{ IN_BUS("listen: [ @'rdma:1.2.3.4:1,source=1.2.3.4' ]"), "bus.listen[0]: address rdma:1.2.3.4:1,source=1.2.3.4: found source=, expected HOST:PORT without it: HOST is the address to listen at" },
	{ IN_BUS("listen: [ @'rdma:1.2.3.4:1,ack_timeout=14' ]"), "bus.listen[0]: address rdma:1.2.3.4:1,ack_timeout=14: found ack_timeout=, " OF_A_PUBLISHER },
	{ IN_BUS("listen: [ @'rdma:1.2.3.4:1,retries=2' ]"), "bus.listen[0]: address rdma:1.2.3.4:1,retries=2: found retries=, " OF_A_PUBLISHER },
	{ IN_BUS("listen: [ @'rdma:1.2.3.4:1,receives=16' ]"), "bus.listen[0]: address rdma:1.2.3.4:1,receives=16: found receives=, " OF_A_PUBLISHER },
	{ IN_BUS("listen: [ @'rdma:1.2.3.4:1,notices=1' ]"), "bus.listen[0]: address rdma:1.2.3.4:1,notices=1: found notices=, " OF_A_PUBLISHER },
	{ IN_BUS("listen: [ @'rdma:1.2.3.4:1,batch_bytes=65536' ]"), "bus.listen[0]: address rdma:1.2.3.4:1,batch_bytes=65536: found batch_bytes=, " OF_A_PUBLISHER },
	{ IN_BUS("listen: [ @'rdma:1.2.3.4:1,read_bytes=8192' ]"), "bus.listen[0]: address rdma:1.2.3.4:1,read_bytes=8192: found read_bytes=, " OF_A_PUBLISHER },
	{ IN_BUS("listen: [ @'rdma:1.2.3.4:1,poll_us=100' ]"), "bus.listen[0]: address rdma:1.2.3.4:1,poll_us=100: found poll_us=, " OF_A_PUBLISHER },
	{ IN_BUS("listen: [ @'shm:a/b' ]"), "bus.listen[0]: found \"shm:a/b\", " ADDRESS },
	{ IN_BUS("listen: [ 'shm:b', @'shm:' ]"), "bus.listen[1]: found \"shm:b\" again, expected each once" },
	{ IN_BUS("listen: [ 'shm:' ], @listen: [ 'shm:' ]"), "bus.listen: " AGAIN "1)" },
	/* bus.access */
	{ IN_BUS("access: @md"), "bus.access: found \"md\", expected a mapping" },
	{ IN_BUS("access: { @user: [ md ] }"), "bus.access.user: found an unknown key, did you mean users?" },
	{ IN_BUS("access: {}, @access: {}"), "bus.access: " AGAIN "1)" },
	{ IN_BUS("access: { users: @md }"), "bus.access.users: found \"md\", expected a list" },
	{ IN_BUS("access: { users: [ @'' ] }"), "bus.access.users[0]: found \"\", " ACCOUNT },
	{ IN_BUS("access: { users: [ @[ md ] ] }"), "bus.access.users[0]: found a list, " ACCOUNT },
	{ IN_BUS("access: { users: [ md, @md ] }"), "bus.access.users[1]: found \"md\" again, expected each once" },
	{ IN_BUS("access: { users: [], @users: [] }"), "bus.access.users: " AGAIN "1)" },
	{ IN_BUS("access: { groups: @{} }"), "bus.access.groups: found a mapping, expected a list" },
	{ IN_BUS("access: { groups: [ @'' ] }"), "bus.access.groups[0]: found \"\", " ACCOUNT },
	{ IN_BUS("access: { groups: [ g, @g ] }"), "bus.access.groups[1]: found \"g\" again, expected each once" },
	{ IN_BUS("access: { groups: [], @groups: [] }"), "bus.access.groups: " AGAIN "1)" },
	/* numbers of the bus */
	{ IN_BUS("ticket_overlap_s: @-1"), "bus.ticket_overlap_s: found \"-1\", " NUMBER("0 to 86400") },
	{ IN_BUS("ticket_overlap_s: @86401"), "bus.ticket_overlap_s: found \"86401\", " NUMBER("0 to 86400") },
	{ IN_BUS("ticket_overlap_s: 60, @ticket_overlap_s: 1"), "bus.ticket_overlap_s: " AGAIN "1)" },
	{ IN_BUS("stale_ms: @19"), "bus.stale_ms: found \"19\", " NUMBER("20 to 60000") },
	{ IN_BUS("stale_ms: @60001"), "bus.stale_ms: found \"60001\", " NUMBER("20 to 60000") },
	{ IN_BUS("stale_ms: @1s"), "bus.stale_ms: found \"1s\", " NUMBER("20 to 60000") },
	{ IN_BUS("stale_ms: @'20'"), "bus.stale_ms: found \"20\" in quotes, " NUMBER("20 to 60000") },
	{ IN_BUS("stale_ms: 20, @stale_ms: 20"), "bus.stale_ms: " AGAIN "1)" },
	{ IN_BUS("exit_wait_ms: @-1"), "bus.exit_wait_ms: found \"-1\", " NUMBER("0 to 600000") },
	{ IN_BUS("exit_wait_ms: @600001"), "bus.exit_wait_ms: found \"600001\", " NUMBER("0 to 600000") },
	{ IN_BUS("exit_wait_ms: @[]"), "bus.exit_wait_ms: found a list, " NUMBER("0 to 600000") },
	{ IN_BUS("exit_wait_ms: 1, @exit_wait_ms: 1"), "bus.exit_wait_ms: " AGAIN "1)" },
	{ IN_BUS("topics_max: @0"), "bus.topics_max: found \"0\", " NUMBER("1 to 1024") },
	{ IN_BUS("topics_max: @1025"), "bus.topics_max: found \"1025\", " NUMBER("1 to 1024") },
	{ IN_BUS("topics_max: @many"), "bus.topics_max: found \"many\", " NUMBER("1 to 1024") },
	{ IN_BUS("topics_max: 1, @topics_max: 1"), "bus.topics_max: " AGAIN "1)" },
	{ IN_BUS("subscribers_max: @0"), "bus.subscribers_max: found \"0\", " NUMBER("1 to 65536") },
	{ IN_BUS("subscribers_max: @65537"), "bus.subscribers_max: found \"65537\", " NUMBER("1 to 65536") },
	{ IN_BUS("subscribers_max: @{}"), "bus.subscribers_max: found a mapping, " NUMBER("1 to 65536") },
	{ IN_BUS("subscribers_max: 1, @subscribers_max: 1"), "bus.subscribers_max: " AGAIN "1)" },
	{ IN_BUS("subscribers_per_host: @0"), "bus.subscribers_per_host: found \"0\", " NUMBER("1 to 65536") },
	{ IN_BUS("subscribers_per_host: @65537"), "bus.subscribers_per_host: found \"65537\", " NUMBER("1 to 65536") },
	{ IN_BUS("cpu: @-2"), "bus.cpu: found \"-2\", " NUMBER("-1 to 1023") },
	{ IN_BUS("cpu: @1024"), "bus.cpu: found \"1024\", " NUMBER("-1 to 1023") },
	{ IN_BUS("cpu: @any"), "bus.cpu: found \"any\", " NUMBER("-1 to 1023") },
	{ IN_BUS("cpu: 1, @cpu: 1"), "bus.cpu: " AGAIN "1)" },
	{ IN_BUS("numa: @-2"), "bus.numa: found \"-2\", " NUMBER("-1 to 1023") },
	{ IN_BUS("numa: @1024"), "bus.numa: found \"1024\", " NUMBER("-1 to 1023") },
	{ IN_BUS("numa: @[ 0 ]"), "bus.numa: found a list, " NUMBER("-1 to 1023") },
	{ IN_BUS("numa: 1, @numa: 1"), "bus.numa: " AGAIN "1)" },
	/* log */
	{ BUS "log: @debug\n" SCHEMAS FEEDS TOPICS, "log: found \"debug\", expected a mapping" },
	{ IN_LOG("@levle: info"), "log.levle: found an unknown key, did you mean level?" },
	{ IN_LOG("") "@log: {}\n", "log: " AGAIN "2)" },
	{ IN_LOG("file: @''"), "log.file: found \"\", expected a path" },
	{ IN_LOG("file: @[ a ]"), "log.file: found a list, expected a path" },
	{ IN_LOG("file: a, @file: b"), "log.file: " AGAIN "2)" },
	{ IN_LOG("level: @verbose"), "log.level: found \"verbose\", " LEVEL },
	{ IN_LOG("level: @[]"), "log.level: found a list, " LEVEL },
	{ IN_LOG("level: info, @level: info"), "log.level: " AGAIN "2)" },
	/* schemas */
	{ "@" BUS FEEDS TOPICS, "schemas: found nothing, expected a list of schemas" },
	{ IN_LIST("@quote"), "schemas: found \"quote\", expected a list of schemas" },
	{ IN_LIST("@[]"), "schemas: found 0 entries, expected 1 to 1024" },
	{ IN_LIST("[ quote ]") "@schemas: []\n", "schemas: " AGAIN "2)" },
	{ IN_LIST("[ quote, @{} ]"), "schemas[1]: found a mapping, expected a text of 1 to 4096 bytes" },
	{ IN_LIST("[ quote, @'' ]"), "schemas[1]: found \"\", expected a text of 1 to 4096 bytes" },
	{ IN_LIST("[ quote, @qoute ]"), "schemas[1]: found \"qoute\", " BUILT_IN "; did you mean quote?" },
	{ IN_LIST("[ quote, @quote ]"), "schemas[1]: found quote again, expected each name once" },
	{ IN_LIST("[ quote, mine.yaml, @./mine.yaml ]"), "schemas[2]: found mine again, expected each name once" },
	/* feeds */
	{ "@" BUS SCHEMAS TOPICS, "feeds: found nothing, expected a list of feeds" },
	{ BUS SCHEMAS "feeds: @{}\n" TOPICS, "feeds: found a mapping, expected a list of feeds" },
	{ BUS SCHEMAS "feeds: @[]\n" TOPICS, "feeds: found 0 entries, expected 1 to 64" },
	{ BUS SCHEMAS FEEDS TOPICS "@feeds: []\n", "feeds: " AGAIN "3)" },
	{ A_FEED("@f"), "feeds[0]: found \"f\", expected a mapping" },
	{ IN_FEED("@colour: 1"), "feeds[0].colour: found an unknown key" },
	{ IN_FEED("@path: data.bin"), "feeds[0].path: found a key of type itch50 alone, expected keys of type synthetic" },
	{ IN_FILE("@seed: 1"), "feeds[0].seed: found a key of type synthetic alone, expected keys of type itch50" },
	{ A_FEED("@{ type: synthetic }"), "feeds[0].name: found nothing, " NAME },
	{ A_FEED("{ name: @[], type: synthetic }"), "feeds[0].name: found a list, " NAME },
	{ A_FEED("{ name: @a b, type: synthetic }"), "feeds[0].name: found \"a b\", " NAME },
	{ IN_FEED("@name: f"), "feeds[0].name: " AGAIN "3)" },
	{ A_FEED("{ name: f, type: synthetic }, { name: @f, type: synthetic }"), "feeds[1].name: found f again, expected each name once" },
	{ A_FEED("@{ name: f }"), "feeds[0].type: found nothing, " TYPE },
	{ A_FEED("{ name: f, type: @csv, seed: 1, path: data.bin, date: 2019-12-30 }"), "feeds[0].type: found \"csv\", " TYPE },
	{ IN_FEED("@sead: 1"), "feeds[0].sead: found an unknown key, did you mean seed?" },
	{ IN_FEED("@pth: x"), "feeds[0].pth: found an unknown key" },
	{ A_FEED("{ name: f, type: @{} }"), "feeds[0].type: found a mapping, " TYPE },
	{ IN_FEED("@type: synthetic"), "feeds[0].type: " AGAIN "3)" },
	{ IN_FEED("speed: @fast"), "feeds[0].speed: found \"fast\", " SPEED },
	{ IN_FEED("speed: @10"), "feeds[0].speed: found \"10\", " SPEED },
	{ IN_FEED("speed: @0x"), "feeds[0].speed: found \"0x\", " SPEED },
	{ IN_FEED("speed: @0.0001x"), "feeds[0].speed: found \"0.0001x\", " SPEED },
	{ IN_FEED("speed: @1.x"), "feeds[0].speed: found \"1.x\", " SPEED },
	{ IN_FEED("speed: @.5x"), "feeds[0].speed: found \".5x\", " SPEED },
	{ IN_FEED("speed: @1000.001x"), "feeds[0].speed: found \"1000.001x\", " SPEED },
	{ IN_FEED("speed: @99999999999999999999x"), "feeds[0].speed: found \"99999999999999999999x\", " SPEED },
	{ IN_FEED("speed: @-1x"), "feeds[0].speed: found \"-1x\", " SPEED },
	{ IN_FEED("speed: @[]"), "feeds[0].speed: found a list, " SPEED },
	{ IN_FEED("speed: max, @speed: max"), "feeds[0].speed: " AGAIN "3)" },
	{ IN_FEED("start: @1"), "feeds[0].start: found \"1\", expected a mapping" },
	{ IN_FEED("start: { @subscriber: 1 }"), "feeds[0].start.subscriber: found an unknown key, did you mean subscribers?" },
	{ IN_FEED("start: {}, @start: {}"), "feeds[0].start: " AGAIN "3)" },
	{ IN_FEED("start: { subscribers: @-1 }"), "feeds[0].start.subscribers: found \"-1\", " NUMBER("0 to 1000000") },
	{ IN_FEED("start: { subscribers: @1000001 }"), "feeds[0].start.subscribers: found \"1000001\", " NUMBER("0 to 1000000") },
	{ IN_FEED("start: { subscribers: @one }"), "feeds[0].start.subscribers: found \"one\", " NUMBER("0 to 1000000") },
	{ IN_FEED("start: { subscribers: 1, @subscribers: 1 }"), "feeds[0].start.subscribers: " AGAIN "3)" },
	{ IN_FEED("at_end: @stop"), "feeds[0].at_end: found \"stop\", " AT_END },
	{ IN_FEED("at_end: @[]"), "feeds[0].at_end: found a list, " AT_END },
	{ IN_FEED("incomplete: @ignore"), "feeds[0].incomplete: found \"ignore\", " INCOMPLETE },
	{ IN_FEED("incomplete: @true"), "feeds[0].incomplete: found \"true\", " INCOMPLETE },
	{ IN_FEED("at_end: exit, @at_end: exit"), "feeds[0].at_end: " AGAIN "3)" },
	{ IN_FEED("cpu: @-2"), "feeds[0].cpu: found \"-2\", " NUMBER("-1 to 1023") },
	{ IN_FEED("cpu: @1024"), "feeds[0].cpu: found \"1024\", " NUMBER("-1 to 1023") },
	{ IN_FEED("cpu: @any"), "feeds[0].cpu: found \"any\", " NUMBER("-1 to 1023") },
	{ IN_FEED("cpu: 1, @cpu: 1"), "feeds[0].cpu: " AGAIN "3)" },
	{ IN_FEED("wait: @busy"), "feeds[0].wait: found \"busy\", " WAIT },
	{ IN_FEED("wait: @{}"), "feeds[0].wait: found a mapping, " WAIT },
	{ IN_FEED("wait: backoff, @wait: spin"), "feeds[0].wait: " AGAIN "3)" },
	/* itch50 */
	{ A_FEED("@{ name: f, type: itch50, date: 2019-12-30 }"), "feeds[0].path: found nothing, " FILE_ },
	{ IN_ITCH("date: 2019-12-30, path: @[]"), "feeds[0].path: found a list, " FILE_ },
	{ IN_ITCH("date: 2019-12-30, path: @''"), "feeds[0].path: found \"\", " FILE_ },
	{ IN_ITCH("date: 2019-12-30, path: @/none/there"), "feeds[0].path: found \"/none/there\", " FILE_ ": /none/there: No such file or directory" },
	{ IN_ITCH("date: 2019-12-30, path: @/"), "feeds[0].path: found \"/\", " FILE_ ": /: not a regular file" },
	{ IN_ITCH("date: 2019-12-30, path: @/dev/zero"), "feeds[0].path: found \"/dev/zero\", " FILE_ ": /dev/zero: not a regular file" },
	{ IN_ITCH("date: 2019-12-30, path: @/proc/version"), "feeds[0].path: found \"/proc/version\", " FILE_ ": /proc/version: an empty file" },
	{ IN_FILE("@path: data.bin"), "feeds[0].path: " AGAIN "3)" },
	{ A_FEED("@{ name: f, type: itch50, path: data.bin }"), "feeds[0].date: found nothing, " DATE },
	{ IN_ITCH("path: data.bin, date: @[]"), "feeds[0].date: found a list, " DATE },
	{ IN_ITCH("path: data.bin, date: @2019-02-29"), "feeds[0].date: found \"2019-02-29\", " DATE ": this month has 28 days" },
	{ IN_ITCH("path: data.bin, date: @2100-02-29"), "feeds[0].date: found \"2100-02-29\", " DATE ": this month has 28 days" },
	{ IN_ITCH("path: data.bin, date: @2019-04-31"), "feeds[0].date: found \"2019-04-31\", " DATE ": this month has 30 days" },
	{ IN_ITCH("path: data.bin, date: @2019-13-01"), "feeds[0].date: found \"2019-13-01\", " DATE },
	{ IN_ITCH("path: data.bin, date: @2019-00-01"), "feeds[0].date: found \"2019-00-01\", " DATE },
	{ IN_ITCH("path: data.bin, date: @2019-01-00"), "feeds[0].date: found \"2019-01-00\", " DATE },
	{ IN_ITCH("path: data.bin, date: @1970-01-01"), "feeds[0].date: found \"1970-01-01\", " DATE },
	{ IN_ITCH("path: data.bin, date: @2200-01-01"), "feeds[0].date: found \"2200-01-01\", " DATE },
	{ IN_ITCH("path: data.bin, date: @19-12-30"), "feeds[0].date: found \"19-12-30\", " DATE },
	{ IN_ITCH("path: data.bin, date: @2019-12-30T00:00"), "feeds[0].date: found \"2019-12-30T00:00\", " DATE },
	{ IN_FILE("@date: 2019-12-30"), "feeds[0].date: " AGAIN "3)" },
	{ IN_FILE("time_zone: @[]"), "feeds[0].time_zone: found a list, " ZONE },
	{ IN_FILE("time_zone: @America/New_Yorkk"), "feeds[0].time_zone: found \"America/New_Yorkk\", " ZONE NONE_IN },
	{ IN_FILE("time_zone: @America"), "feeds[0].time_zone: found \"America\", " ZONE NONE_IN },
	{ IN_FILE("time_zone: @../zoneinfo/UTC"), "feeds[0].time_zone: found \"../zoneinfo/UTC\", " ZONE },
	{ IN_FILE("time_zone: @/etc/localtime"), "feeds[0].time_zone: found \"/etc/localtime\", " ZONE },
	{ IN_FILE("time_zone: UTC, @time_zone: UTC"), "feeds[0].time_zone: " AGAIN "3)" },
	{ IN_FILE("from: @[]"), "feeds[0].from: found a list, " TIME },
	{ IN_FILE("from: @24:00"), "feeds[0].from: found \"24:00\", " TIME },
	{ IN_FILE("from: @09:60"), "feeds[0].from: found \"09:60\", " TIME },
	{ IN_FILE("from: @09:30:60"), "feeds[0].from: found \"09:30:60\", " TIME },
	{ IN_FILE("from: @9:30"), "feeds[0].from: found \"9:30\", " TIME },
	{ IN_FILE("from: @09:30:00.5"), "feeds[0].from: found \"09:30:00.5\", " TIME },
	{ IN_FILE("from: @noon"), "feeds[0].from: found \"noon\", " TIME },
	{ IN_FILE("from: 00:00, @from: 09:30"), "feeds[0].from: " AGAIN "3)" },
	/* synthetic */
	{ IN_FEED("seed: @-1"), "feeds[0].seed: found \"-1\", " NUMBER("0 to 9223372036854775807") },
	{ IN_FEED("seed: @9223372036854775808"), "feeds[0].seed: found \"9223372036854775808\", " NUMBER("0 to 9223372036854775807") },
	{ IN_FEED("seed: @x"), "feeds[0].seed: found \"x\", " NUMBER("0 to 9223372036854775807") },
	{ IN_FEED("seed: 1, @seed: 1"), "feeds[0].seed: " AGAIN "3)" },
	{ IN_FEED("symbols: @0"), "feeds[0].symbols: found \"0\", " NUMBER("1 to 65535") },
	{ IN_FEED("symbols: @65536"), "feeds[0].symbols: found \"65536\", " NUMBER("1 to 65535") },
	{ IN_FEED("symbols: @[ AAPL ]"), "feeds[0].symbols: found a list, " NUMBER("1 to 65535") },
	{ IN_FEED("symbols: 1, @symbols: 1"), "feeds[0].symbols: " AGAIN "3)" },
	{ IN_FEED("messages: @0"), "feeds[0].messages: found \"0\", " NUMBER("1 to 234000000000") },
	{ IN_FEED("messages: @234000000001"), "feeds[0].messages: found \"234000000001\", " NUMBER("1 to 234000000000") },
	{ IN_FEED("messages: @1e6"), "feeds[0].messages: found \"1e6\", " NUMBER("1 to 234000000000") },
	{ IN_FEED("messages: 1, @messages: 1"), "feeds[0].messages: " AGAIN "3)" },
	{ IN_FEED("seconds: @0"), "feeds[0].seconds: found \"0\", " NUMBER("1 to 23400") },
	{ IN_FEED("seconds: @23401"), "feeds[0].seconds: found \"23401\", " NUMBER("1 to 23400") },
	{ IN_FEED("seconds: @{}"), "feeds[0].seconds: found a mapping, " NUMBER("1 to 23400") },
	{ IN_FEED("seconds: 1, @seconds: 1"), "feeds[0].seconds: " AGAIN "3)" },
	{ IN_FEED("messages: 1, seconds: @1"), "feeds[0].seconds: found seconds together with messages, expected one of the two" },
	{ IN_FEED("rate: @0"), "feeds[0].rate: found \"0\", " NUMBER("1 to 10000000") },
	{ IN_FEED("rate: @10000001"), "feeds[0].rate: found \"10000001\", " NUMBER("1 to 10000000") },
	{ IN_FEED("rate: @max"), "feeds[0].rate: found \"max\", " NUMBER("1 to 10000000") },
	{ IN_FEED("rate: 1, @rate: 1"), "feeds[0].rate: " AGAIN "3)" },
	{ IN_FEED("burst: @9"), "feeds[0].burst: found \"9\", " NUMBER("10 to 100") },
	{ IN_FEED("burst: @101"), "feeds[0].burst: found \"101\", " NUMBER("10 to 100") },
	{ IN_FEED("burst: @true"), "feeds[0].burst: found \"true\", " NUMBER("10 to 100") },
	{ IN_FEED("burst: 10, @burst: 10"), "feeds[0].burst: " AGAIN "3)" },
	{ IN_FEED("date: @today"), "feeds[0].date: found \"today\", " DATE },
	{ IN_FEED("date: 2020-01-02, @date: 2020-01-02"), "feeds[0].date: " AGAIN "3)" },
	{ IN_FEED("time_zone: @EDTX"), "feeds[0].time_zone: found \"EDTX\", " ZONE NONE_IN },
	{ IN_FEED("time_zone: UTC, @time_zone: UTC"), "feeds[0].time_zone: " AGAIN "3)" },
	{ IN_FEED("@from: 09:30"), "feeds[0].from: found a key of type itch50 alone, expected keys of type synthetic" },
	/* topics */
	{ "@" BUS SCHEMAS FEEDS, "topics: found nothing, expected a list of topics" },
	{ BUS SCHEMAS FEEDS "topics: @all\n", "topics: found \"all\", expected a list of topics" },
	{ BUS SCHEMAS FEEDS "topics: @[]\n", "topics: found 0 entries, expected 1 to 1024" },
	{ BUS SCHEMAS FEEDS TOPICS "@topics: []\n", "topics: " AGAIN "4)" },
	{ A_TOPIC("@t"), "topics[0]: found \"t\", expected a mapping" },
	{ IN_TOPIC("@notice: heads"), "topics[0].notice: found an unknown key" },
	{ IN_TOPIC("@slot: 64"), "topics[0].slot: found an unknown key, did you mean slots?" },
	{ A_TOPIC("@{ feed: f, select: quote, schema: quote }"), "topics[0].name: found nothing, " TOPIC },
	{ A_TOPIC("{ name: @[], feed: f, select: quote, schema: quote }"), "topics[0].name: found a list, " TOPIC },
	{ A_TOPIC("{ name: @T, feed: f, select: quote, schema: quote }"), "topics[0].name: found \"T\", " TOPIC },
	{ A_TOPIC("{ name: @a..b, feed: f, select: quote, schema: quote }"), "topics[0].name: found \"a..b\", " TOPIC },
	{ A_TOPIC("{ name: @.a, feed: f, select: quote, schema: quote }"), "topics[0].name: found \".a\", " TOPIC },
	{ A_TOPIC("{ name: @a., feed: f, select: quote, schema: quote }"), "topics[0].name: found \"a.\", " TOPIC },
	{ A_TOPIC("{ name: @" NAME_63 "x, feed: f, select: quote, schema: quote }"), "topics[0].name: found \"" NAME_63 "x\", " TOPIC },
	{ IN_TOPIC("@name: t"), "topics[0].name: " AGAIN "4)" },
	{ A_TOPIC("{ name: t, feed: f, select: quote, schema: quote }, { name: @t, feed: f, select: trade, schema: trade }"), "topics[1].name: found t again, expected each name once" },
	{ A_TOPIC("@{ name: t, select: quote, schema: quote }"), "topics[0].feed: found nothing, expected the name of one of the feeds: f" },
	{ A_TOPIC("{ name: t, feed: @g, select: quote, schema: quote }"), "topics[0].feed: found \"g\", expected the name of one of the feeds: f" },
	{ A_TOPIC("{ name: t, feed: @{}, select: quote, schema: quote }"), "topics[0].feed: found a mapping, expected the name of one of the feeds" },
	{ IN_TOPIC("@feed: f"), "topics[0].feed: " AGAIN "4)" },
	{ A_TOPIC("@{ name: t, feed: f, schema: quote }"), "topics[0].select: found nothing, " SELECT },
	{ A_TOPIC("{ name: t, feed: f, select: @all, schema: quote }"), "topics[0].select: found \"all\", " SELECT },
	{ A_TOPIC("{ name: t, feed: f, select: @[], schema: quote }"), "topics[0].select: found a list, " SELECT },
	{ IN_TOPIC("@select: quote"), "topics[0].select: " AGAIN "4)" },
	{ A_TOPIC("@{ name: t, feed: f, select: quote }"), "topics[0].schema: found nothing, expected the name of one of the schemas: quote, trade" },
	{ A_TOPIC("{ name: t, feed: f, select: quote, schema: @depth10 }"), "topics[0].schema: found \"depth10\", expected the name of one of the schemas: quote, trade" },
	{ A_TOPIC("{ name: t, feed: f, select: quote, schema: @qoute }"), "topics[0].schema: found \"qoute\", expected the name of one of the schemas: quote, trade; did you mean quote?" },
	{ A_TOPIC("{ name: t, feed: f, select: @trad, schema: quote }"), "topics[0].select: found \"trad\", " SELECT "; did you mean trade?" },
	{ A_TOPIC("{ name: t, feed: f, select: quote, schema: @[] }"), "topics[0].schema: found a list, expected the name of one of the schemas" },
	{ IN_TOPIC("@schema: quote"), "topics[0].schema: " AGAIN "4)" },
	{ IN_TOPIC("slots: @32"), "topics[0].slots: found \"32\", expected a power of two from 64 to 16777216" },
	{ IN_TOPIC("slots: @100"), "topics[0].slots: found \"100\", expected a power of two from 64 to 16777216" },
	{ IN_TOPIC("slots: @33554432"), "topics[0].slots: found \"33554432\", expected a power of two from 64 to 16777216" },
	{ IN_TOPIC("slots: @64k"), "topics[0].slots: found \"64k\", expected a power of two from 64 to 16777216" },
	{ IN_TOPIC("slots: 64, @slots: 64"), "topics[0].slots: " AGAIN "4)" },
	{ IN_TOPIC("instruments: @0"), "topics[0].instruments: found \"0\", " NUMBER("1 to 1048576") },
	{ IN_TOPIC("instruments: @1048577"), "topics[0].instruments: found \"1048577\", " NUMBER("1 to 1048576") },
	{ IN_TOPIC("instruments: @[ AAPL ]"), "topics[0].instruments: found a list, " NUMBER("1 to 1048576") },
	{ IN_TOPIC("instruments: 1, @instruments: 1"), "topics[0].instruments: " AGAIN "4)" },
	{ IN_TOPIC("last_value: @yes"), "topics[0].last_value: found \"yes\", " BOOLEAN },
	{ IN_TOPIC("last_value: @'true'"), "topics[0].last_value: found \"true\" in quotes, " BOOLEAN },
	{ IN_TOPIC("last_value: true, @last_value: true"), "topics[0].last_value: " AGAIN "4)" },
	{ IN_TOPIC("checked: @1"), "topics[0].checked: found \"1\", " BOOLEAN },
	{ IN_TOPIC("checked: true, @checked: true"), "topics[0].checked: " AGAIN "4)" },
	{ IN_TOPIC("multicast: @[]"), "topics[0].multicast: found a list, " GROUP },
	{ IN_TOPIC("multicast: @239.1.1.1"), "topics[0].multicast: found \"239.1.1.1\", " GROUP },
	{ IN_TOPIC("multicast: @'10.9.0.1:7472'"), "topics[0].multicast: found \"10.9.0.1:7472\", " GROUP },
	{ IN_TOPIC("multicast: @'[fd00::1]:7472'"), "topics[0].multicast: found \"[fd00::1]:7472\", " GROUP },
	{ A_NETWORK "topics: [ { name: t, feed: f, select: quote, schema: quote, multicast: '239.1.1.1:1', @multicast: '239.1.1.1:1' } ]\n", "topics[0].multicast: " AGAIN "4)" },
	/* realms */
	{ IN_REALMS("@all"), "realms: found \"all\", expected a list of realms" },
	{ IN_REALMS("@[]"), "realms: found 0 entries, expected 1 to 32: without realms leave out the key" },
	{ IN_REALMS("[ @r ]"), "realms[0]: found \"r\", expected a mapping" },
	{ IN_REALMS("[ { name: anonymous, topics: [ t ] } ]") "@realms: []\n", "realms: " AGAIN "5)" },
	{ A_REALM("ticket_file: a.ticket, topics: [ t ], @ticket: x"), "realms[0].ticket: found an unknown key" },
	{ IN_REALMS("[ @{ ticket_file: a.ticket, topics: [ t ] } ]"), "realms[0].name: found nothing, " NAME },
	{ IN_REALMS("[ { name: @a/b, ticket_file: a.ticket, topics: [ t ] } ]"), "realms[0].name: found \"a/b\", " NAME },
	{ A_REALM("@name: r, ticket_file: a.ticket, topics: [ t ]"), "realms[0].name: " AGAIN "5)" },
	{ IN_REALMS("[ { name: r, ticket_file: a.ticket, topics: [ t ] }, { name: @r, ticket_file: b.ticket, topics: [ t ] } ]"), "realms[1].name: found r again, expected each name once" },
	{ IN_REALMS("[ @{ name: r, topics: [ t ] } ]"), "realms[0]: found no ticket_file, expected its path: only the realm anonymous needs no ticket" },
	{ IN_REALMS("[ { name: anonymous, ticket_file: @a.ticket, topics: [ t ] } ]"), "realms[0].ticket_file: found a ticket for anonymous, expected no ticket_file: this realm is for clients without a ticket" },
	{ IN_REALMS("[ { name: r, ticket_file: a.ticket, topics: [ t ] }, { name: s, ticket_file: @./a.ticket, topics: [ t ] } ]"), "realms[1].ticket_file: found the ticket of realm r again, expected each once" },
	{ A_REALM("ticket_file: @[], topics: [ t ]"), "realms[0].ticket_file: found a list, " TICKET },
	{ A_REALM("ticket_file: @'', topics: [ t ]"), "realms[0].ticket_file: found \"\", " TICKET },
	{ A_REALM("ticket_file: @/none.ticket, topics: [ t ]"), "realms[0].ticket_file: found \"/none.ticket\", " TICKET ": ticket /none.ticket: No such file or directory" },
	{ A_REALM("ticket_file: @/, topics: [ t ]"), "realms[0].ticket_file: ticket /: found no regular file, expected a file with a ticket" },
	{ A_REALM("ticket_file: @" HEX16 HEX16 HEX16 HEX16 ", topics: [ t ]"), "realms[0].ticket_file: found 64 hexadecimal digits, " TICKET },
	{ A_REALM("ticket_file: @\"" HEX16 HEX16 HEX16 HEX16 "\\n\", topics: [ t ]"), "realms[0].ticket_file: found 64 hexadecimal digits, " TICKET },
	{ A_REALM("ticket_file: a.ticket, @ticket_file: a.ticket, topics: [ t ]"), "realms[0].ticket_file: " AGAIN "5)" },
	{ IN_REALMS("[ @{ name: r, ticket_file: a.ticket } ]"), "realms[0].topics: found 0 entries, expected 1 to 256" },
	{ A_REALM("ticket_file: a.ticket, topics: @t"), "realms[0].topics: found \"t\", expected a list" },
	{ A_REALM("ticket_file: a.ticket, topics: @[]"), "realms[0].topics: found 0 entries, expected 1 to 256" },
	{ A_REALM("ticket_file: a.ticket, topics: [ t, @t ]"), "realms[0].topics[1]: found \"t\" again, expected each once" },
	{ A_REALM("ticket_file: a.ticket, topics: [ @u ]"), "realms[0].topics[0]: found \"u\", " PATTERN ": t" },
	{ A_REALM("ticket_file: a.ticket, topics: [ @'t.*' ]"), "realms[0].topics[0]: found \"t.*\", " PATTERN ": t" },
	{ A_REALM("ticket_file: a.ticket, topics: [ t, @{} ]"), "realms[0].topics[1]: found a mapping, " PATTERN },
	{ A_REALM("ticket_file: a.ticket, topics: [ @T ]"), "realms[0].topics[0]: topic pattern: found \"T\", expected parts of a-z, 0-9, '_', '-', '*' (or '>' as the last part) with single dots between" },
	{ A_REALM("ticket_file: a.ticket, topics: [ t ], subscribers_max: @0"), "realms[0].subscribers_max: found \"0\", " NUMBER("1 to 65536") },
	{ A_REALM("ticket_file: a.ticket, topics: [ t ], subscribers_max: @65537"), "realms[0].subscribers_max: found \"65537\", " NUMBER("1 to 65536") },
	{ A_REALM("ticket_file: a.ticket, topics: [ t ], @topics: [ t ]"), "realms[0].topics: " AGAIN "5)" },
	{ A_REALM("ticket_file: a.ticket, topics: [ t ], subscribers_max: @1025"), "realms[0].subscribers_max: found 1025, expected at most bus.subscribers_max, 1024" },
	/* between them */
	{ IN_BUS("notice: @none"), "bus.notice: found \"none\", expected no notice: the bus listens at shared memory only" },
	{ IN_BUS("notice: @udp"), "bus.notice: found \"udp\", expected no notice: the bus listens at shared memory only" },
	{ IN_BUS("notice_bytes: @256"), "bus.notice_bytes: found \"256\", expected no notice_bytes: the bus listens at shared memory only" },
	{ IN_BUS("listen: [ 'rdma:10.9.0.1:7471' ], notice: none, notice_bytes: @256"), "bus.notice_bytes: found \"256\", expected no notice_bytes: the bus sends no notices" },
	{ IN_BUS("ticket_overlap_s: @0"), "bus.ticket_overlap_s: found \"0\", expected no ticket_overlap_s: no realm has a ticket" },
	{ IN_BUS("ticket_overlap_s: @30") "realms: [ { name: anonymous, topics: [ t ] } ]\n", "bus.ticket_overlap_s: found \"30\", expected no ticket_overlap_s: no realm has a ticket" },
	{ IN_FEED("wait: @spin"), "feeds[0].wait: found \"spin\", expected no wait: with speed: max the feed waits for no message" },
	{ IN_FEED("speed: max, wait: @sleep"), "feeds[0].wait: found \"sleep\", expected no wait: with speed: max the feed waits for no message" },
	{ IN_FEED("wait: spin, speed: @0x"), "feeds[0].speed: found \"0x\", " SPEED },
	{ IN_FILE("from: @09:30"), "feeds[0].from: found \"09:30\", expected no from: with speed: max the feed waits for no message" },
	{ IN_FILE("from: @first_trade, speed: max"), "feeds[0].from: found \"first_trade\", expected no from: with speed: max the feed waits for no message" },
	{ IN_BUS("subscribers_per_host: @1025"), "bus.subscribers_per_host: found 1025, expected at most bus.subscribers_max, 1024" },
	{ "bus: { name: b, listen: [ 'rdma:10.9.0.1:7471' ] }\n" SCHEMAS FEEDS "topics: [ { name: t, feed: f, select: quote, schema: quote, checked: @false } ]\n",
	  "topics[0].checked: found \"false\", expected true: an unchecked topic is served over shared memory only, and the bus has no shm: address" },
	{ "bus: { name: b, listen: [ 'rdma:10.9.0.1:7471' ] }\n" SCHEMAS FEEDS "topics: [ { name: t, feed: f, select: quote, schema: quote, checked: @no } ]\n",
	  "topics[0].checked: found \"no\", " BOOLEAN },
	{ A_FEED("{ name: f, type: synthetic }, @{ name: g, type: synthetic }"), "feeds[1]: found no topic with the feed g, expected at least one: add a topic, or leave out the feed" },
	{ "bus: { name: b, listen: [ 'rdma:10.9.0.1:7471' ], multicast: '239.1.1.1:7472' }\n" SCHEMAS FEEDS "topics: [ { name: t, feed: f, select: quote, schema: quote, multicast: @'239.1.1.1:7473' } ]\n",
	  "topics[0].multicast: found \"239.1.1.1:7473\", expected port 7472, which the bus uses for this group" },
	{ IN_TOPIC("checked: false, multicast: @'239.1.1.1:7472'"), "topics[0].multicast: found \"239.1.1.1:7472\", expected no group: an unchecked topic is served over shared memory only" },
	{ IN_TOPIC("multicast: @'239.1.1.1:7472'"), "topics[0].multicast: found \"239.1.1.1:7472\", expected no group: the bus listens at shared memory only" },
	{ "bus: { name: b, listen: [ 'rdma:10.9.0.1:7471' ], notice: none }\n" SCHEMAS FEEDS "topics: [ { name: t, feed: f, select: quote, schema: quote, multicast: @'239.1.1.1:7472' } ]\n",
	  "topics[0].multicast: found \"239.1.1.1:7472\", expected no group: the bus sends no notices" },
	/* A bus with the name b has this group by default. */
	{ A_NETWORK "topics: [ { name: t, feed: f, select: quote, schema: quote, multicast: @'239.77.202.233:1' } ]\n", "topics[0].multicast: found \"239.77.202.233:1\", expected port 7472, which the bus uses for this group" },
	{ TWO_TOPICS("'239.1.1.1:7472'", "@'239.1.1.1:1'"), "topics[1].multicast: found \"239.1.1.1:1\", expected port 7472, which topic t uses for this group" },
	{ "bus: { name: b, listen: [ 'shm:', 'rdma:10.9.0.1:7471' ] }\n" SCHEMAS FEEDS "topics: [ { name: t, feed: f, select: quote, schema: quote, multicast: @'[ff15::1]:7472' } ]\n",
	  "topics[0].multicast: found \"[ff15::1]:7472\", expected an IPv4 group, like the addresses that the bus listens at" },
	{ "bus: { name: b, listen: [ 'rdma:[fd00::1]:7471,hop_limit=2' ] }\n" SCHEMAS FEEDS "topics: [ { name: t, feed: f, select: quote, schema: quote, multicast: @'239.1.1.1:7472' } ]\n",
	  "topics[0].multicast: found \"239.1.1.1:7472\", expected an IPv6 group, like the addresses that the bus listens at" },
	{ "bus: { name: b, topics_max: 1 }\n" SCHEMAS FEEDS "topics: @[ { name: t, feed: f, select: quote, schema: quote }, { name: u, feed: f, select: trade, schema: trade } ]\n",
	  "topics: found 2 topics, expected at most bus.topics_max, 1" },
	{ BUS "schemas: [ mine.yaml ]\n" FEEDS "topics: [ @{ name: t, feed: f, select: quote, schema: mine, slots: 16777216 } ]\n",
	  "topics[0]: memory: slots, instruments and slot bytes need 68787118080 bytes, expected at most 68719476736" },
};
/* clang-format on */

static void enter(void)
{
	static const char mine[] = "name: mine\nversion: 1\nfields:\n"
				   "- { name: x, type: 'char[4064]', doc: d }\n";

	unsetenv("TZDIR");
	folder_enter();
	file_write("data.bin", "xy", 2);
	file_write("mine.yaml", mine, sizeof(mine) - 1);
	ticket_write("a.ticket", 'a', 0600);
	ticket_write("b.ticket", 'b', 0600);
}

TestSuite(refusals, .init = enter, .fini = folder_leave);

/* The errors of a text. */
static char *load(const char *text, int expected)
{
	struct settings *settings;
	char *errors = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&errors, &length);

	file_write("t.yaml", text, strlen(text));
	cr_expect_eq(settings_load(&settings, "t.yaml", stream), expected, "%s", text);
	fclose(stream);
	cr_expect(!settings == (expected != 0));
	settings_free(settings);
	return errors;
}

Test(refusals, wrong_key_is_reported_with_position_path_and_expected)
{
	for (size_t i = 0; i < COUNT(cases); i++) {
		char place[64], expected[1024];
		char *text, *errors;

		text = unmarked(cases[i][0], place);
		errors = load(text, -EINVAL);
		cr_assert(*place, "%s", text);
		snprintf(expected, sizeof(expected), "%s%s\n", place, cases[i][1]);
		cr_expect_str_eq(errors, expected, "%s\n  found    %s  expected %s", cases[i][0],
				 errors, expected);
		free(text);
		free(errors);
	}
}

Test(refusals, several_errors_are_reported_in_one_run)
{
	char *errors =
		load("bus: { name: /, stale_ms: 1 }\nschemas: [ quote, x ]\n"
		     "feeds: [ { name: f, type: itch50, speed: 0x } ]\n"
		     "topics: [ { name: T, feed: g, select: all, schema: none, slots: 1 } ]\n"
		     "more: 1\n",
		     -EINVAL);

	cr_expect_str_eq(
		errors,
		"t.yaml:5:1: more: found an unknown key\n"
		"t.yaml:1:14: bus.name: found \"/\", " NAME "\n"
		"t.yaml:1:27: bus.stale_ms: found \"1\", " NUMBER(
			"20 to 60000") "\n"
				       "t.yaml:2:19: schemas[1]: found \"x\", " BUILT_IN "\n"
				       "t.yaml:3:42: feeds[0].speed: found \"0x\", " SPEED "\n"
				       "t.yaml:3:10: feeds[0].path: found nothing, " FILE_ "\n"
				       "t.yaml:3:10: feeds[0].date: found nothing, " DATE "\n"
				       "t.yaml:4:19: topics[0].name: found \"T\", " TOPIC "\n"
				       "t.yaml:4:28: topics[0].feed: found \"g\", expected the "
				       "name of one of the feeds: f\n"
				       "t.yaml:4:39: topics[0].select: found \"all\", " SELECT "\n"
				       "t.yaml:4:65: topics[0].slots: found \"1\", expected a "
				       "power of two from 64 to "
				       "16777216\n",
		"%s", errors);
	cr_expect_str_eq(tb_error(), "t.yaml: found 11 errors, expected none");
	free(errors);
}

/* All errors come in one run. */
Test(refusals, feed_of_a_wrong_type_has_its_other_errors_reported)
{
	char *errors =
		load(A_FEED("{ name: f, type: itch5o, path: /none, date: 30.12.2019, from: noon }"),
		     -EINVAL);

	cr_expect_str_eq(errors,
			 "t.yaml:3:27: feeds[0].type: found \"itch5o\", " TYPE
			 "; did you mean itch50?\n"
			 "t.yaml:3:41: feeds[0].path: found \"/none\", " FILE_
			 ": /none: No such file or directory\n"
			 "t.yaml:3:54: feeds[0].date: found \"30.12.2019\", " DATE "\n"
			 "t.yaml:3:72: feeds[0].from: found \"noon\", " TIME "\n",
			 "%s", errors);
	free(errors);
}

static unsigned int checks;

static unsigned int check_feeds(struct settings *settings, FILE *errors)
{
	checks++;
	fprintf(errors, "%zu feeds of year %u, %s\n", settings->feed_count,
		settings->feeds[0].date.year, settings->feeds[0].wrong ? "wrong" : "good");
	return 2;
}

Test(refusals, further_checks_run_in_spite_of_errors)
{
	static const char *const texts[] = { IN_FEED("date: 2019-02-29, seed: 1"), IN_BUS("cpu: x"),
					     "a: [" };
	static const char *const ends[] = { "\n1 feeds of year 0, wrong\n",
					    "\n1 feeds of year 2020, good\n", "" };

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct settings *settings;
		char *errors = NULL;
		size_t length = 0;
		FILE *stream = open_memstream(&errors, &length);

		file_write("t.yaml", texts[i], strlen(texts[i]));
		cr_expect_eq(settings_load_checked(&settings, "t.yaml", check_feeds, stream),
			     -EINVAL);
		fclose(stream);
		cr_expect_null(settings);
		cr_expect(strlen(errors) >= strlen(ends[i]) &&
				  strcmp(errors + strlen(errors) - strlen(ends[i]), ends[i]) == 0,
			  "%s", errors);
		cr_expect_str_eq(tb_error(), i < 2 ? "t.yaml: found 3 errors, expected none"
						   : "t.yaml: found 1 errors, expected none");
		free(errors);
	}
	cr_expect_eq(checks, 2, "a text that is no YAML has nothing to check");
}

/* A long list does not fill the screen. */
Test(refusals, missing_reference_lists_eight_names_and_the_nearest)
{
	char text[2048], *errors;
	int used = snprintf(text, sizeof(text), BUS SCHEMAS "feeds:\n");

	for (int i = 0; i < 10; i++)
		used += snprintf(text + used, sizeof(text) - (size_t)used,
				 "- { name: feed-%c, type: synthetic }\n", 'a' + i);
	used += snprintf(text + used, sizeof(text) - (size_t)used, "topics:\n");
	for (int i = 0; i < 10; i++)
		used += snprintf(text + used, sizeof(text) - (size_t)used,
				 "- { name: t%d, feed: feed%c%c, select: quote, schema: quote, "
				 "slots: 64, instruments: 1 }\n",
				 i, i == 9 ? '_' : '-', 'a' + i);
	errors = load(text, -EINVAL);
	cr_expect_str_eq(
		errors,
		"t.yaml:24:21: topics[9].feed: found \"feed_j\", expected the name of one of "
		"the feeds: feed-a, feed-b, feed-c, feed-d, feed-e, feed-f, feed-g, feed-h "
		"and 2 more; did you mean feed-j?\n",
		"%s", errors);
	free(errors);
}

Test(refusals, schema_errors_keep_their_own_positions)
{
	static const char bad[] = "name: bad\nversion: 0\nfields:\n"
				  "- { name: x, type: u7, doc: d }\n";
	char expected[1024];
	char *errors;

	file_write("bad.yaml", bad, sizeof(bad) - 1);
	errors = load(BUS "schemas: [ quote, bad.yaml, ./none.yaml ]\n" FEEDS TOPICS, -EINVAL);
	snprintf(expected, sizeof(expected),
		 "t.yaml:2:19: schemas[1]: found \"bad.yaml\", expected a schema without errors:\n"
		 "%s/bad.yaml:2:10: version: found \"0\", expected a whole number from 1 to 65535\n"
		 "%s/bad.yaml:4:20: fields[0].type: found \"u7\", expected ",
		 folder, folder);
	cr_expect(strncmp(errors, expected, strlen(expected)) == 0, "%s", errors);
	snprintf(expected, sizeof(expected),
		 "\nt.yaml:2:29: schemas[2]: found \"./none.yaml\", expected a schema without "
		 "errors:\n%s/none.yaml: ",
		 folder);
	cr_expect(strstr(errors, expected), "%s", errors);
	free(errors);
}

Test(refusals, readable_ticket_is_refused_with_its_permissions)
{
	char expected[512];
	char *errors;

	ticket_write("open.ticket", 'c', 0644);
	errors = load(A_REALM("ticket_file: open.ticket, topics: [ t ]"), -EINVAL);
	snprintf(
		expected, sizeof(expected),
		"t.yaml:5:35: realms[0].ticket_file: ticket %s/open.ticket: found permissions 644, "
		"expected a file that only its owner can read (chmod 600)\n",
		folder);
	cr_expect_str_eq(errors, expected, "%s", errors);
	free(errors);
}

Test(refusals, file_of_one_byte_is_refused)
{
	char expected[512];
	char *errors;

	file_write("one.bin", "", 1);
	errors = load(IN_ITCH("date: 2019-12-30, path: one.bin"), -EINVAL);
	snprintf(expected, sizeof(expected),
		 "t.yaml:3:59: feeds[0].path: found \"one.bin\", " FILE_
		 ": %s/one.bin: a file of 1 byte\n",
		 folder);
	cr_expect_str_eq(errors, expected, "%s", errors);
	free(errors);
}

Test(refusals, unread_tickets_are_not_compared)
{
	char *errors = load(IN_REALMS("[ { name: r, ticket_file: /none, topics: [ t ] }, "
				      "{ name: s, ticket_file: /none, topics: [ t ] } ]"),
			    -EINVAL);

	cr_expect(strstr(errors, "realms[0].ticket_file: found \"/none\", "), "%s", errors);
	cr_expect(strstr(errors, "realms[1].ticket_file: found \"/none\", "), "%s", errors);
	cr_expect_str_eq(tb_error(), "t.yaml: found 2 errors, expected none", "%s", errors);
	free(errors);
}

Test(refusals, first_100_errors_are_printed_and_others_counted)
{
	char *text = NULL, *errors;
	size_t length = 0;
	FILE *stream = open_memstream(&text, &length);

	fputs(BUS SCHEMAS FEEDS TOPICS, stream);
	for (int i = 0; i < 150; i++)
		fprintf(stream, "colour%d: 1\n", i);
	fclose(stream);
	errors = load(text, -EINVAL);
	cr_expect(strstr(errors, ":104:1: colour99: found"), "%s", errors);
	cr_expect_null(strstr(errors, "colour100"));
	cr_expect(strstr(errors, "\nand 50 more errors\n"), "%s", errors);
	free(errors);
	free(text);
}

/* So a file that is listed a thousand times is not read a thousand times. */
Test(refusals, schema_file_behind_100_errors_is_not_read)
{
	char text[2048] = BUS "schemas: [ quote", *errors;

	for (int i = 0; i < 100; i++)
		strcat(text, ", x");
	strcat(text, ", ./none.yaml ]\n" FEEDS TOPICS);
	errors = load(text, -EINVAL);
	cr_expect_str_eq(tb_error(), "t.yaml: found 100 errors, expected none", "%s", errors);
	free(errors);
}

Test(refusals, default_missing_on_this_machine_is_reported_at_mapping)
{
	char expected[512];
	char *errors;

	setenv("TZDIR", folder, 1);
	errors = load(BUS SCHEMAS FEEDS TOPICS, -EINVAL);
	snprintf(expected, sizeof(expected),
		 "t.yaml:3:10: feeds[0].time_zone: found \"America/New_York\", " ZONE
		 ": no zone of this name in %s\n",
		 folder);
	cr_expect_str_eq(errors, expected);
	free(errors);
}

Test(refusals, missing_file_is_named)
{
	struct settings *settings;
	char *errors = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&errors, &length);

	cr_expect_eq(settings_load(&settings, "none.yaml", stream), -EINVAL);
	fclose(stream);
	cr_expect_str_eq(errors, "none.yaml: cannot be read: No such file or directory\n");
	free(errors);
}

#define TWO_GROUPED                                                                                \
	"topics: [ { name: t, feed: f, select: quote, schema: quote, multicast: "                  \
	"'239.1.1.1:7472' }, { name: u, feed: f, select: trade, schema: trade, multicast: "        \
	"'[ff15::1]:7472' } ]\n"

/* At a bound, or similar to an error. */
static const char *const good[] = {
	BUS SCHEMAS FEEDS TOPICS,
	"bus: { name: " NAME_63 " }\n" SCHEMAS FEEDS TOPICS,
	IN_BUS("stale_ms: 20, exit_wait_ms: 0, topics_max: 1, subscribers_max: 1"),
	IN_BUS("stale_ms: 60000, exit_wait_ms: 600000, topics_max: 1024, subscribers_max: 65536"),
	IN_BUS("subscribers_max: 65536, subscribers_per_host: 65536"),
	IN_BUS("subscribers_max: 7, subscribers_per_host: 7"),
	IN_BUS("listen: [ "
	       "'rdma:1.2.3.4:65535,rnr_retries=2,reads=2,traffic_class=8,attempt_ms=200,hop_limit="
	       "2' ]"),
	IN_BUS("access: { users: [], groups: [] }"),
	IN_BUS("listen: [ 'rdma:10.9.0.1:7471' ], notice: none, notice_bytes: 1024"),
	IN_BUS("listen: [ 'rdma:10.9.0.1:7471' ], notice_bytes: 256"),
	IN_BUS("ticket_overlap_s: 0") WITH_TICKET,
	IN_BUS("ticket_overlap_s: 86400") WITH_TICKET,
	/* defaults, as printed settings have them */
	IN_BUS("notice: auto, notice_bytes: 1024, ticket_overlap_s: 60"),
	IN_FILE("from: 00:00:00, speed: max, wait: backoff"),
	IN_FEED("speed: realtime, wait: spin"),
	IN_BUS("cpu: 1023, numa: 0"),
	IN_BUS("cpu: -1, numa: -1"),
	IN_BUS("listen: [ 'rdma:10.9.0.1:1' ], multicast: '239.255.255.255:65535', notice: udp, "
	       "notice_bytes: 4096"),
	IN_LOG(""),
	IN_LIST("[ quote, mine.yaml ]"),
	IN_FEED("speed: 0.001x"),
	IN_FEED("speed: 1000x"),
	IN_FEED("start: { subscribers: 1000000 }, cpu: 1023"),
	IN_FEED("start: {}, cpu: -1"),
	IN_FEED("seed: 0, symbols: 1, messages: 1, rate: 1, burst: 10"),
	IN_FEED("seed: 9223372036854775807, symbols: 65535, seconds: 23400"),
	IN_FEED("messages: 234000000000, rate: 10000000, burst: 100"),
	IN_FEED("date: 2020-02-29"),
	IN_FEED("date: 1970-01-02"),
	IN_FEED("date: 2199-12-31"),
	IN_FEED("date: 2000-02-29"),
	IN_FILE("speed: realtime, from: 23:59:59"),
	IN_FILE("speed: 2x, from: first_trade"),
	IN_FILE("time_zone: UTC"),
	IN_TOPIC("slots: 64, instruments: 1"),
	IN_BUS("listen: [ 'shm:', 'rdma:10.9.0.1:1' ], multicast: '224.0.1.0:1'"),
	A_NETWORK "topics: [ { name: t, feed: f, select: quote, schema: quote, multicast: "
		  "'[ff15::1]:1' } ]\n",
	TWO_TOPICS("'239.1.1.1:7472'", "'239.1.1.1:7472'"),
	TWO_TOPICS("'239.1.1.1:7472'", "'239.1.1.2:7473'"),
	A_NETWORK TWO_GROUPED,
	IN_TOPIC("slots: 16777216, instruments: 1048576"),
	A_TOPIC("{ name: " NAME_63 ", feed: f, select: imbalance, schema: trade }"),
	IN_REALMS("[ { name: anonymous, topics: [ '>' ] } ]"),
	IN_REALMS(
		"[ { name: r, ticket_file: a.ticket, topics: [ t, '*' ] }, { name: s, ticket_file: "
		"b.ticket, topics: [ t ] } ]"),
};

Test(refusals, values_at_their_bounds_are_accepted)
{
	for (size_t i = 0; i < COUNT(good); i++) {
		char *errors = load(good[i], 0);

		cr_expect_str_empty(errors, "%s\n%s", good[i], errors);
		free(errors);
	}
}

/* Topics with a group each: as many as a bus may have besides its own, and one more. */
Test(refusals, group_beyond_the_maximum_is_reported_at_its_topic)
{
	for (int topics = 63; topics <= 64; topics++) {
		size_t length = 0;
		char *text = NULL, *errors;
		FILE *stream = open_memstream(&text, &length);

		fputs(A_NETWORK "topics:\n", stream);
		for (int i = 0; i < topics; i++)
			fprintf(stream,
				"- { name: t%d, feed: f, select: quote, schema: quote, slots: 64, "
				"instruments: 1, multicast: '239.1.1.%d:7472' }\n",
				i, i);
		fclose(stream);
		errors = load(text, topics == 63 ? 0 : -EINVAL);
		cr_expect_str_eq(errors, topics == 63 ? ""
						      : "t.yaml:68:93: topics[63].multicast: found "
							"\"239.1.1.63:7472\", expected one of the "
							"64 groups in use, the maximum\n");
		free(errors);
		free(text);
	}
}
