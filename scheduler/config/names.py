"""Rules for names: label keys and values, extended resources.

Each function returns the errors as a tuple of messages, empty for a valid name.

Source: apimachinery v0.36.3 api/validate/content.IsLabelKey, IsLabelValue, IsDNS1123Subdomain;
kubernetes v1.36.3 pkg/apis/core/v1/helper.IsExtendedResourceName.
"""

import re
from typing import Final

__all__ = ["extended_resource", "label_key", "label_value", "subdomain"]

_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_NAME})?"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"

_MAX_NAME: Final = 63
_MAX_SUBDOMAIN: Final = 253

_CHARACTERS: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_NAME_RULE: Final = (
    f"{_CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_NAME}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or "
    f"{_CHARACTERS.removeprefix('must ')} (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '{_VALUE}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{_SUBDOMAIN}')"
)

#: The prefix of resource names in quotas; the result must be a valid name as well.
_QUOTA_PREFIX: Final = "requests."


def label_key(text: str) -> tuple[str, ...]:
    """Return why a text is not a label key, as `example.com/name` or `name`."""
    parts = text.split("/")
    if len(parts) > 2:
        return (
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')",
        )
    prefix = () if len(parts) == 1 else _prefix(parts[0])
    return (*prefix, *_name(parts[-1]))


def label_value(text: str) -> tuple[str, ...]:
    """Return why a text is not a label value."""
    errors = []
    if len(text.encode()) > _MAX_NAME:
        errors.append(f"must be no more than {_MAX_NAME} bytes")
    if not re.fullmatch(_VALUE, text):
        errors.append(_VALUE_RULE)
    return tuple(errors)


def extended_resource(text: str) -> tuple[str, ...]:
    """Return why a text is not the name of an extended resource."""
    if errors := label_key(text):
        return errors
    native = "/" not in text or "kubernetes.io/" in text
    if native or text.startswith(_QUOTA_PREFIX) or label_key(_QUOTA_PREFIX + text):
        return ("is an invalid extended resource name",)
    return ()


def subdomain(text: str) -> tuple[str, ...]:
    """Return why a text is not the name of an object, as `example.com` or `name`."""
    errors = []
    if len(text.encode()) > _MAX_SUBDOMAIN:
        errors.append(f"must be no more than {_MAX_SUBDOMAIN} bytes")
    if not re.fullmatch(_SUBDOMAIN, text):
        errors.append(_SUBDOMAIN_RULE)
    return tuple(errors)


def _prefix(text: str) -> tuple[str, ...]:
    if not text:
        return ("prefix part must be non-empty",)
    errors = []
    if len(text.encode()) > _MAX_SUBDOMAIN:
        errors.append(f"prefix part must be no more than {_MAX_SUBDOMAIN} bytes")
    if not re.fullmatch(_SUBDOMAIN, text):
        errors.append(f"prefix part {_SUBDOMAIN_RULE}")
    return tuple(errors)


def _name(text: str) -> tuple[str, ...]:
    errors = []
    if not text:
        errors.append("name part must be non-empty")
    elif len(text.encode()) > _MAX_NAME:
        errors.append(f"name part must be no more than {_MAX_NAME} bytes")
    if not re.fullmatch(_NAME, text):
        errors.append(f"name part {_NAME_RULE}")
    return tuple(errors)
