"""The two gRPC services of a kubelet plugin for devices: their messages, and a server for them.

The messages are built from descriptors, so no generated code is needed. A map is written as what it
is on the wire: a list of entries with a key and a value.

Source: kubelet v0.37.2 pkg/apis/pluginregistration/v1/api.proto, pkg/apis/dra/v1/api.proto.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

#: Types of fields: one value, or a list of them.
TEXT, FLAG, TEXTS = "string", "bool", "strings"

#: The fields of each message by their numbers. Other types than the three are messages; a star
#: marks a list of them.
REGISTRATION: Final[Mapping[str, Mapping[int, tuple[str, str]]]] = {
    "InfoRequest": {},
    "PluginInfo": {
        1: ("type", TEXT),
        2: ("name", TEXT),
        3: ("endpoint", TEXT),
        4: ("supported_versions", TEXTS),
    },
    "RegistrationStatus": {1: ("plugin_registered", FLAG), 2: ("error", TEXT)},
    "RegistrationStatusResponse": {},
}
PLUGIN: Final[Mapping[str, Mapping[int, tuple[str, str]]]] = {
    "Claim": {1: ("namespace", TEXT), 2: ("uid", TEXT), 3: ("name", TEXT)},
    "Device": {
        1: ("request_names", TEXTS),
        2: ("pool_name", TEXT),
        3: ("device_name", TEXT),
        4: ("cdi_device_ids", TEXTS),
    },
    "Prepared": {1: ("devices", "Device*"), 2: ("error", TEXT)},
    "PreparedEntry": {1: ("key", TEXT), 2: ("value", "Prepared")},
    "Unprepared": {1: ("error", TEXT)},
    "UnpreparedEntry": {1: ("key", TEXT), 2: ("value", "Unprepared")},
    "NodePrepareResourcesRequest": {1: ("claims", "Claim*")},
    "NodePrepareResourcesResponse": {1: ("claims", "PreparedEntry*")},
    "NodeUnprepareResourcesRequest": {1: ("claims", "Claim*")},
    "NodeUnprepareResourcesResponse": {1: ("claims", "UnpreparedEntry*")},
}

#: The methods of each service: request and response.
SERVICES: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "pluginregistration.Registration": {
        "GetInfo": ("InfoRequest", "PluginInfo"),
        "NotifyRegistrationStatus": ("RegistrationStatus", "RegistrationStatusResponse"),
    },
    "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin": {
        name: (f"{name}Request", f"{name}Response")
        for name in ("NodePrepareResources", "NodeUnprepareResources")
    },
}

Method = Callable[[Any], Any]


def _messages() -> dict[str, Any]:
    """Return the class of each message by its name."""
    file = descriptor_pb2.FileDescriptorProto(name="kubelet.proto", package="kubelet")
    file.syntax = "proto3"
    kinds = descriptor_pb2.FieldDescriptorProto
    simple = {TEXT: kinds.TYPE_STRING, TEXTS: kinds.TYPE_STRING, FLAG: kinds.TYPE_BOOL}
    for name, fields in {**REGISTRATION, **PLUGIN}.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in fields.items():
            repeated = kind == TEXTS or kind.endswith("*")
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if kind in simple:
                added.type = simple[kind]
            else:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".kubelet.{kind.rstrip('*')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"kubelet.{name}"))
        for name in {**REGISTRATION, **PLUGIN}
    }


MESSAGES: Final = _messages()


def serve(socket: Path, service: str, methods: Mapping[str, Method]) -> grpc.Server:
    """Serve a service on a unix socket, until it is stopped."""
    handlers = {}
    for name, (request, response) in SERVICES[service].items():
        handlers[name] = grpc.unary_unary_rpc_method_handler(
            lambda message, _, call=methods[name]: call(message),
            request_deserializer=MESSAGES[request].FromString,
            response_serializer=MESSAGES[response].SerializeToString,
        )
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server
