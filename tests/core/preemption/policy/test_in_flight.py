"""Evictions in flight: a check of what changed finds the same as a check of all of them."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.core.preemption.policy.in_flight import COUNTED_WITHIN, InFlightEvictions
from scheduler.state.cluster import Cluster
from tests.support.builders import node, pdb, pod

VICTIMS = range(3)
PREEMPTORS = range(2)
KEY = "default/b"
#: What happens to a victim, to a preemptor, or to both.
HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(
            ["eviction", "nominate", "withdraw", "ask", "stays", "leaves", "gone", "back", "end",
             "wait", "other"]
        ),
        st.sampled_from(VICTIMS),
        st.sampled_from(PREEMPTORS),
        st.sampled_from([1.0, COUNTED_WITHIN]),
    ),
    max_size=25,
)  # fmt: skip


def victim(number, *, leaves=False):
    made = pod(f"v{number}").on(f"n{number % 2}").label("app", "web").status(phase="Running")
    return (made.terminating() if leaves else made).build()


class Both:
    """Evictions in flight, once by checking what changed and once by checking all each time."""

    def __init__(self):
        self.cluster = Cluster()
        for number in range(3):
            self.cluster.write_node(node(f"n{number}").build())
        for number in VICTIMS:
            self.cluster.place(victim(number), f"n{number % 2}")
        self.in_flight = InFlightEvictions(self.cluster)
        protects = pdb("b").selects(app="web").build()
        self.cluster.write_pdb(protects)
        self.in_flight.pdb_updated(protects)
        self.now = 1000.0
        #: By uid of the victim: the preemptor, and when the victim was first seen terminating.
        self.evictions = {}

    def happen(self, what, number, whose, seconds):
        cluster, target = self.cluster, victim(number)
        preemptor = pod(f"p{whose}").build()
        there = cluster.find_pod(target.uid)
        changes = {
            "nominate": lambda: cluster.nominate(preemptor, f"n{number % 3}"),
            "withdraw": lambda: cluster.withdraw(preemptor.uid),
            "stays": lambda: cluster.unmark_evicting(target.uid),
            "gone": lambda: cluster.remove(target.uid),
            "end": lambda: self.end(preemptor.uid),
            "other": lambda: cluster.place(pod("other").on("n2").build(), "n2"),
            "wait": lambda: self.wait(seconds),
        }
        if there is None:
            changes["back"] = lambda: cluster.place(target, f"n{number % 2}")
        else:
            left = victim(number, leaves=True)
            changes["ask"] = lambda: cluster.mark_evicting(target.uid)
            changes["leaves"] = lambda: cluster.place(left, f"n{number % 2}")
            changes["eviction"] = lambda: self.eviction(preemptor, there)
        changes.get(what, lambda: None)()
        self.in_flight.remove_ended(self.now)
        self.check_all()

    def wait(self, seconds):
        self.now += seconds

    def eviction(self, preemptor, there):
        self.check_all()
        if not there.terminating:
            self.evictions[there.uid] = [preemptor.uid, None]
        self.in_flight.add(preemptor, [there], self.now)

    def end(self, preemptor):
        for uid, (whose, _) in [*self.evictions.items()]:
            there = self.cluster.find_pod(uid)
            if (
                whose == preemptor
                and there is not None
                and not self.cluster.is_being_deleted(there)
            ):
                del self.evictions[uid]
        self.in_flight.plan_ended(preemptor)

    def check_all(self):
        for uid, eviction in [*self.evictions.items()]:
            there = self.cluster.find_pod(uid)
            if there is None or there.terminating:
                eviction[1] = self.now if eviction[1] is None else eviction[1]
                over = self.now - eviction[1] >= COUNTED_WITHIN
            else:
                claims = self.cluster.nominations.get(eviction[0]) is not None
                over = not self.cluster.is_being_deleted(there) and not claims
            if over:
                del self.evictions[uid]

    def everything(self):
        left = [at for _, at in self.evictions.values() if at is not None]
        return len(self.evictions), min(left) + COUNTED_WITHIN if left else None


def at_once(*what):
    return [(each, 0, 0, 1.0) for each in what]


@settings(max_examples=300, deadline=None)
@example(at_once("nominate", "eviction", "withdraw"))
@example(at_once("nominate", "eviction", "ask", "withdraw", "stays"))
@example(at_once("nominate", "eviction", "leaves", "withdraw", "wait", "gone"))
@given(HAPPENINGS)
def test_a_check_of_what_changed_finds_the_same_as_a_check_of_all(happenings):
    both = Both()
    for happening in happenings:
        both.happen(*happening)

        quota = both.in_flight.quota(KEY)
        assert (quota.in_flight, quota.until) == both.everything()
        assert len(both.in_flight) == len(both.evictions)
