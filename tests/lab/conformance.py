# SPDX-License-Identifier: Apache-2.0
"""The fabric conformance suite over a kind of device."""
import os
import re

from guests import Failed
from hosts import Skipped


# Instead of 1000, 100000, 1000 and 100 %, as emulation is slow.
CONNECTIONS, RECORDS, JOINS, ROUNDS = 100, 5000, 10, 10
# TICKBUS_LAB_CONFORMANCE=all runs all programs over both kinds. Else what tickbus does above a fabric is shown over shm
# and bytewise alone. Programs of the fabric itself run over both kinds. Programs with forms of READs of their own run
# over a single kind.
BOTH = {"connections", "reads", "ends", "waits", "notices"}
ONE = {"images": "rxe", "realms": "rxe", "merge_ends": "rxe", "values": "siw", "past": "siw", "watch": "siw", "stream": "siw"}
# These cases are about memory that is read in place.
IN_PLACE = {"images::gap_at_the_start_is_in_the_image", "watch::looks_keep_their_distance",
            "watch::overwritten_records_are_no_gap_of_a_watch_list",
            "watch::sleeper_does_not_wake_for_each_record_between_two_looks", "past::times_are_found_while_a_thread_writes",
            "merge_ends::old_rings_of_a_dead_publisher_are_read_in_order",
            "merge_ends::rings_that_the_new_publisher_lacks_are_read_to_their_heads",
            "merge_ends::sleeper_does_not_spin_behind_a_topic_with_an_invalid_line"}


def is_for(name, kind):
    part = name.removeprefix("test-rdma-")
    return os.environ.get("TICKBUS_LAB_CONFORMANCE") == "all" or part in BOTH or ONE.get(part) == kind


def suite(lab, kind):
    """Runs each program of the suite. A skipped case is a failure here, except for cases in place."""
    host = lab.host(1)
    # Images by batches take the same READs as images.
    programs = sorted(path.name for path in (lab.build / "tests/conformance").glob("test-rdma-*")
                      if path.is_file() and not path.name.endswith("by-batches"))
    if not programs:
        raise Skipped(f"{lab.build} holds no conformance suite (tests are disabled)")
    for name in (name for name in programs if len(lab.kinds) == 1 or is_for(name, kind)):
        # Cases that run side by side have buses of the same name, hence the same group and each other's notices.
        cases = 1 if name.endswith("notices") else 2
        process = host.start(f"TICKBUS_TEST_RDMA={host.address(kind)} TICKBUS_TEST_CONNECTIONS={CONNECTIONS} "
                             f"TICKBUS_TEST_RECORDS={RECORDS} TICKBUS_TEST_JOINS={JOINS} TICKBUS_TEST_ROUNDS={ROUNDS} "
                             "LD_PRELOAD=$BUILD/tests/lab/liblab-nogit.so "
                             f"tests/conformance/{name} --tap=/dev/stdout --quiet -j{cases}")
        text = process.wait()
        passed = len(re.findall(r"^ok (?!.*# SKIP)", text, re.M))
        skipped = set(re.findall(r"^ok - (\S+).*# SKIP", text, re.M))
        if passed == 0 or re.search(r"^not ok", text, re.M) or skipped - IN_PLACE:
            raise Failed(process.report(f"found {passed} cases passed, expected all"))
