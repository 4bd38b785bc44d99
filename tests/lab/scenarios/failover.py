# SPDX-License-Identifier: Apache-2.0
"""A bond fails over to its other interface, under a publisher and under its subscriber. The old addresses and
connections end with a message and are made again. Notices resume, and no record is lost."""
import bus
from control_subscriber import ControlSubscriber
from hosts import Host

TOPOLOGY = "one guest"
SECONDS = 120
GUESTS_ONLY = True
ADDRESS = "10.9.0.99"
RULES = ("iif bond9 pref 10 lookup local", f"from {ADDRESS} to {ADDRESS} pref 20 lookup local",
         f"from {ADDRESS} pref 30 lookup 199")
MAKE = f"""ip -batch - <<END
link add b1 mtu 4200 type veth peer name b1p mtu 4200
link add b2 mtu 4200 type veth peer name b2p mtu 4200
link set b1p master br0 up
link set b2p master br0 up
link add bond9 type bond mode active-backup fail_over_mac active miimon 50
link set b1 master bond9
link set b2 master bond9
addr add {ADDRESS}/24 dev bond9
link set bond9 mtu 4200 up
rule add {RULES[0]}
rule add {RULES[1]}
rule add {RULES[2]}
route add 10.9.0.0/24 dev bond9 src {ADDRESS} table 199
route add 224.0.0.0/4 dev bond9 src {ADDRESS} table 199
END
exec rdma link add rxe9 type rxe netdev bond9"""
UNMAKE = f"""rdma link del rxe9
ip -batch - <<END
rule del {RULES[0]}
rule del {RULES[1]}
rule del {RULES[2]}
link del bond9
link del b1
link del b2
END"""


class Bonded(Host):
    """A host at the address of its bond."""

    def __init__(self, host):
        super().__init__(host.lab, host.number)
        self.processes = host.processes

    def address(self, kind):
        return ADDRESS


def run(lab):
    publisher, bonded = lab.host(1), Bonded(lab.host(1))
    publisher.run(f"modprobe bonding max_bonds=0\n{MAKE}")
    daemon = bus.pubd(publisher, bus.market(50), kinds=("shm", "rxe"), also=[bus.address(bonded, "rxe")], level="debug")
    readers = (ControlSubscriber(lab.host(2), bonded, "rxe"), ControlSubscriber(bonded, publisher, "rxe"))
    for reader in readers:
        reader.sees("appeared")
        reader.receives_notice()
    publisher.run("ip link set b1 down")
    daemon.wait_for(rf"address rdma:{ADDRESS}:\d+: the interface has another hardware address")
    daemon.wait_for(rf"{lab.host(2).rxe}:\d+ left: the interface has another hardware address")
    # The subscriber's disconnect may be lost, as it leaves through the old interface.
    daemon.wait_for(rf"{ADDRESS}:\d+ left: (it closed the connection|the other side no longer answers)")
    daemon.wait_for(rf"address rdma:{ADDRESS}:\d+: the device is back")
    for reader in readers:
        reader.reads_on()
        reader.receives_notice()
        reader.end(lost=0)
    daemon.signal("TERM")
    daemon.wait()
    publisher.run(UNMAKE)
