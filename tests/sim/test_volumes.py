"""The volume controller that `plan` imagines."""

from scheduler.model.api.storage import PersistentVolumeClaim
from scheduler.model.effects import BindVolumes, PodRef, ReserveVolume
from scheduler.sim.volume_controller import SimulatedStorage
from tests.support.builders import pod
from tests.support.storage import claim, claim_uid, using, volume


def test_a_claim_gets_the_volume_that_was_chosen_where_two_are_reserved_for_it():
    storage = SimulatedStorage(
        [
            volume("first").for_claim("data", claim_uid("data")).build(),
            volume("chosen").build(),
            claim("data").build(),
        ]
    )
    chosen = ReserveVolume("chosen", "1", "default", "data", claim_uid("data"), "1", True)

    states = storage.bind(
        BindVolumes(PodRef("default", "p", "uid"), "n1", (chosen,), ()),
        using(pod("p"), "data").build(),
    )

    bound = [each for each in states if isinstance(each, PersistentVolumeClaim)]
    assert [(each.spec.volume_name, each.bound) for each in bound] == [("chosen", True)]


def test_a_claim_gets_the_volume_that_was_reserved_for_it_before():
    storage = SimulatedStorage(
        [volume("kept").for_claim("data", claim_uid("data")).build(), claim("data").build()]
    )

    states = storage.bind(
        BindVolumes(PodRef("default", "p", "uid"), "n1", (), ()), using(pod("p"), "data").build()
    )

    bound = [each for each in states if isinstance(each, PersistentVolumeClaim)]
    assert [(each.spec.volume_name, each.bound) for each in bound] == [("kept", True)]
