"""Kubeconfig files with one cluster and one user; certificates are embedded."""

import base64

import yaml

from deploy.tools.controlplane.certificates import Identity


def render(server: str, authority: bytes, user: str, credential: Identity | str) -> str:
    """Return a kubeconfig.

    Args:
        server: the address, https://host:port.
        authority: the CA's certificate, PEM.
        user: the name of user and context.
        credential: a client certificate, or a bearer token.
    """
    login = (
        {"token": credential}
        if isinstance(credential, str)
        else {
            "client-certificate-data": _base64(credential.certificate),
            "client-key-data": _base64(credential.key),
        }
    )
    cluster = {"server": server, "certificate-authority-data": _base64(authority)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": cluster}],
            "users": [{"name": user, "user": login}],
            "contexts": [{"name": user, "context": {"cluster": "local", "user": user}}],
            "current-context": user,
        },
        sort_keys=False,
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
