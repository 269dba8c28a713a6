"""The releases of kube-scheduler whose decisions can be reproduced, and where they differ.

Every difference is one field of `Reference`, which one rule reads, in one place. So a release is
dropped by deleting its value below, then the fields that are equal in all releases that are left,
each with one branch in one rule.

docs/compatibility.md lists the fields with the rules that read them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = [
    "AUTO",
    "NEWEST",
    "OLDEST",
    "REFERENCES",
    "SNAPSHOT_REFERENCE",
    "V1_36",
    "V1_37",
    "Reference",
    "of_server",
]

#: The value of the setting that stands for the release of the API server.
AUTO: Final = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One release of kube-scheduler, by its rules."""

    #: The minor release, as in the setting `reference`.
    name: str
    #: The patch release whose code decisions are compared with.
    version: str

    #: The message of a pod that preempts names the node and the number of victims.
    reports_preemption: bool
    #: A pod without claims gets the message that there is nothing to deallocate.
    reports_nothing_to_deallocate: bool
    #: A pod that several disruption budgets protect is charged to all of them; otherwise only up to
    #: the first one that is exhausted.
    charges_every_pdb: bool
    #: Of victims that have not started, the one that was added to the node last is the most
    #: important one; otherwise the one that was added first.
    latest_unstarted_is_most_important: bool
    #: A namespace selector of an incoming pod that requires no label selects every namespace.
    namespace_selectors_match_no_labels: bool
    #: Image volumes raise the number of bytes that score 100, as containers do.
    scales_by_image_volumes: bool
    #: VolumeBinding scores nodes by the capacity that is left for the volumes of a pod.
    scores_storage_capacity: bool
    #: A node without a CSI driver that must be there rejects pods with volumes of the driver.
    requires_csi_drivers: bool
    #: During a resize each container counts with its largest request; otherwise the pod counts with
    #: the largest of its sums.
    resizes_by_container: bool
    #: A plugin that registers for added nodes gets all changes of taints, too.
    taint_changes_wake_all: bool
    #: A pod that is deleted or gets other labels requeues pods if any of their anti-affinity terms
    #: matches it; otherwise all of them must match.
    wakes_by_any_anti_affinity_term: bool
    #: A gated pod is checked again after it has waited for five minutes.
    flushes_gated_pods: bool
    #: A gated pod reserves resources on the node that its status nominates.
    gated_pods_keep_nominations: bool
    #: The object in the labels of events: a pod that begins to wait, and the change of one.
    waiting_pod: str
    changed_waiting_pod: str
    #: A pod that requests more than before is a change of its own in the labels of events.
    has_scale_up_events: bool
    #: The configuration may have plugins for pod groups that fit nowhere.
    has_plugins_for_pod_groups: bool
    #: NodeName stands before NodeUnschedulable, so its reason is the one that is reported.
    checks_node_name_first: bool
    #: NodeName, NodeUnschedulable and TaintToleration have the point preFilter, without an effect
    #: on pending pods.
    node_plugins_have_prefilters: bool
    #: DeviceTaintRules taint devices (feature gate DRADeviceTaintRules).
    applies_device_taint_rules: bool
    #: A DeviceTaintRule without a selector taints all devices; otherwise none.
    rules_without_selector_taint_all: bool
    #: A slice with shared counters concerns every node; otherwise the nodes of the slice.
    counters_concern_every_node: bool
    #: Errors of device selectors name the device, and hint at optional chaining.
    selector_errors_name_devices: bool
    #: The limit of devices is checked at each request; otherwise for the whole claim.
    limits_devices_by_request: bool
    #: A capacity that is negative or beyond 64 bits is an error; otherwise its device is skipped.
    capacity_errors_end_attempts: bool
    #: Slices with compatibility groups are ignored, so their pools are incomplete; otherwise the
    #: groups are unknown (feature gate DRADeviceCompatibilityGroups).
    ignores_slices_with_compatibility_groups: bool
    #: Requests with derived attributes are an error; otherwise such attributes are unknown (feature
    #: gate DRADerivedAttributes).
    refuses_derived_attributes: bool
    #: A claim whose allocation skips operations of the node is available on nodes that declare the
    #: feature DRAOptionalNodeOperations only; otherwise such operations are unknown.
    skipped_operations_need_feature: bool
    #: A rounded capacity is written in the format of the step; otherwise with binary suffixes.
    rounds_in_format_of_step: bool
    #: The configuration of an allocation for all requests of a claim names none of them.
    configuration_for_all_names_none: bool
    #: The deletion of a resource claim requeues pods.
    wakes_by_deleted_claims: bool
    #: Attributes of devices have the type `any` in selectors, so that they cannot be iterated;
    #: otherwise `dyn`.
    selectors_type_attributes_as_any: bool
    #: Attributes with a list of values can be evaluated; otherwise they fail every selector.
    selectors_know_list_attributes: bool
    #: `includes` of a selector costs one, and fails on lists longer than attributes may be;
    #: otherwise it costs a traversal.
    selectors_limit_includes: bool
    #: Selectors know a conversion of an int to a duration, which fails.
    selectors_convert_int_to_duration: bool
    #: `or` and `orValue` of a selector return what is not an optional unchanged; otherwise they
    #: fail.
    selectors_or_any_value: bool
    #: The search for an empty text stays within the text that is searched.
    selectors_bound_empty_search: bool
    #: `lists.range` refuses negative and very large numbers.
    selectors_limit_ranges: bool
    #: `startsWith` and `endsWith` cost by the text that is looked for; otherwise by the whole text.
    selectors_charge_affixes: bool
    #: `matches` as a function costs as much as the method; otherwise one.
    selectors_charge_matches: bool
    #: `flatten` with a negative level costs as with level 1; otherwise less than nothing.
    selectors_charge_negative_levels: bool
    #: Local variables of selectors hide qualified names, and a leading dot names what is global.
    selectors_prefer_local_names: bool
    #: Fields may be written in backquotes.
    selectors_quote_fields: bool
    #: `?:`, variables and lookups take what an optional holds apart, and lose types by that.
    selectors_take_optionals_apart: bool


V1_36: Final = Reference(
    name="v1.36",
    version="v1.36.3",
    reports_preemption=False,
    reports_nothing_to_deallocate=True,
    charges_every_pdb=True,
    latest_unstarted_is_most_important=True,
    namespace_selectors_match_no_labels=True,
    scales_by_image_volumes=False,
    scores_storage_capacity=False,
    requires_csi_drivers=False,
    resizes_by_container=True,
    taint_changes_wake_all=True,
    wakes_by_any_anti_affinity_term=False,
    flushes_gated_pods=False,
    gated_pods_keep_nominations=False,
    waiting_pod="UnschedulablePod",
    changed_waiting_pod="UnschedulablePod",
    has_scale_up_events=False,
    has_plugins_for_pod_groups=False,
    checks_node_name_first=False,
    node_plugins_have_prefilters=False,
    applies_device_taint_rules=False,
    rules_without_selector_taint_all=True,
    counters_concern_every_node=True,
    selector_errors_name_devices=False,
    limits_devices_by_request=False,
    capacity_errors_end_attempts=False,
    ignores_slices_with_compatibility_groups=False,
    refuses_derived_attributes=False,
    skipped_operations_need_feature=False,
    rounds_in_format_of_step=False,
    configuration_for_all_names_none=False,
    wakes_by_deleted_claims=False,
    selectors_type_attributes_as_any=True,
    selectors_know_list_attributes=False,
    selectors_limit_includes=True,
    selectors_convert_int_to_duration=True,
    selectors_or_any_value=True,
    selectors_bound_empty_search=False,
    selectors_limit_ranges=False,
    selectors_charge_affixes=False,
    selectors_charge_matches=False,
    selectors_charge_negative_levels=False,
    selectors_prefer_local_names=False,
    selectors_quote_fields=False,
    selectors_take_optionals_apart=True,
)
V1_37: Final = Reference(
    name="v1.37",
    version="v1.37.2",
    reports_preemption=True,
    reports_nothing_to_deallocate=False,
    charges_every_pdb=False,
    latest_unstarted_is_most_important=False,
    namespace_selectors_match_no_labels=False,
    scales_by_image_volumes=True,
    scores_storage_capacity=True,
    requires_csi_drivers=True,
    resizes_by_container=False,
    taint_changes_wake_all=False,
    wakes_by_any_anti_affinity_term=True,
    flushes_gated_pods=True,
    gated_pods_keep_nominations=True,
    waiting_pod="UnscheduledPod",
    changed_waiting_pod="TargetPod",
    has_scale_up_events=True,
    has_plugins_for_pod_groups=True,
    checks_node_name_first=True,
    node_plugins_have_prefilters=True,
    applies_device_taint_rules=True,
    rules_without_selector_taint_all=False,
    counters_concern_every_node=False,
    selector_errors_name_devices=True,
    limits_devices_by_request=True,
    capacity_errors_end_attempts=True,
    ignores_slices_with_compatibility_groups=True,
    refuses_derived_attributes=True,
    skipped_operations_need_feature=True,
    rounds_in_format_of_step=True,
    configuration_for_all_names_none=True,
    wakes_by_deleted_claims=True,
    selectors_type_attributes_as_any=False,
    selectors_know_list_attributes=True,
    selectors_limit_includes=False,
    selectors_convert_int_to_duration=False,
    selectors_or_any_value=False,
    selectors_bound_empty_search=True,
    selectors_limit_ranges=True,
    selectors_charge_affixes=True,
    selectors_charge_matches=True,
    selectors_charge_negative_levels=True,
    selectors_prefer_local_names=True,
    selectors_quote_fields=True,
    selectors_take_optionals_apart=False,
)

#: All releases by name, the oldest one first.
REFERENCES: Final[Mapping[str, Reference]] = MappingProxyType(
    {reference.name: reference for reference in (V1_36, V1_37)}
)

#: The field of a snapshot of the scheduler's state that names the release.
SNAPSHOT_REFERENCE: Final = "reference"

#: Major and minor, each short enough for any release.
_VERSION: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(?![0-9])", re.ASCII)

#: What decides where the release of the API server is not known.
OLDEST: Final = V1_36
NEWEST: Final = V1_37


def of_server(major: str, minor: str) -> tuple[Reference, bool] | None:
    """Return the release for an API server, and whether it is the server's own.

    A server that is older than all releases gets the oldest one, a newer server the newest.

    Args:
        major: As in the answer to `GET /version`.
        minor: The same; providers append characters to it, as in `36+`.

    Returns:
        `None` if the texts are no version.
    """
    digits = _VERSION.match(f"{major}.{minor}")
    if digits is None:
        return None
    server = int(digits[1]), int(digits[2])
    releases = [(_number(reference), reference) for reference in REFERENCES.values()]
    supported = [each for each in releases if each[0] <= server]
    number, reference = supported[-1] if supported else releases[0]
    return reference, number == server


def _number(reference: Reference) -> tuple[int, int]:
    major, minor = reference.name.removeprefix("v").split(".")
    return int(major), int(minor)
