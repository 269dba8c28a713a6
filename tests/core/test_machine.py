"""The machine handles every event, and every outcome of every effect."""

from typing import get_args

from scheduler.core.machine import Machine
from scheduler.model.effects import Effect
from scheduler.model.events import Event
from scheduler.queue.backoff_duration import PodBackoff
from tests.support.cluster import profiles


def test_every_event_and_every_effect_has_an_entry():
    machine = Machine(profiles(), PodBackoff())

    assert machine.handlers.keys() == {*get_args(Event)}
    assert all(machine.handlers.values())
    assert machine.outcome_handlers.keys() == {*get_args(Effect)}
