"""Which resources have columns."""

from scheduler.state.columns.resource_axis import NOT_OFFERED, Coded, ResourceAxis

GPU, NIC = "example.com/gpu", "example.com/nic"


def test_the_axis_starts_with_the_native_resources():
    assert ResourceAxis().values == ["cpu", "memory", "ephemeral-storage"]


def test_a_name_has_a_code_as_long_as_a_node_offers_it():
    axis = ResourceAxis()

    first, second = axis.offer(GPU), axis.offer(GPU)
    axis.withdraw(GPU)

    assert (first, second, axis.code(GPU)) == (3, 3, 3)
    assert axis.offered() == {"cpu", "memory", "ephemeral-storage", GPU}

    axis.withdraw(GPU)

    assert axis.code(GPU) == NOT_OFFERED
    assert axis.offered() == {"cpu", "memory", "ephemeral-storage"}


def test_native_resources_keep_their_codes():
    axis = ResourceAxis()
    axis.offer("cpu")

    axis.withdraw("cpu")

    assert axis.code("cpu") == 0
    assert axis.version == 0


def test_a_code_is_reused_after_its_removal_was_read():
    axis = ResourceAxis()
    gpu = axis.offer(GPU)
    assert axis.take_changes() == ([], [gpu])

    axis.withdraw(GPU)
    nic = axis.offer(NIC)
    assert nic != gpu
    assert axis.take_changes() == ([gpu], [nic])

    assert axis.offer(GPU) == gpu
    assert axis.take_changes() == ([], [gpu])


def test_a_name_that_was_offered_and_withdrawn_is_only_retired():
    axis = ResourceAxis()
    gpu = axis.offer(GPU)

    axis.withdraw(GPU)

    assert axis.take_changes() == ([gpu], [])


def test_codes_are_looked_up_again_when_the_axis_has_changed():
    axis = ResourceAxis()
    coded = Coded(axis, [("cpu", 1), (GPU, 2)])
    assert coded.now() == [(0, 1), (NOT_OFFERED, 2)]

    axis.offer(GPU)

    assert coded.now() == [(0, 1), (3, 2)]
