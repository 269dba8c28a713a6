# The image of the scheduler: `make image`. Without secrets and arguments it builds anywhere. For a
# release, give the base by digest: `make image BASE=python:3.13-slim@sha256:...`; a tag moves.

ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
# Timestamps in bytecode would make every build another image; hashes do not.
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
# The tools that build the package, apart from what goes into the image: an environment without pip.
# What nothing imports is left out: the asynchronous half of the official client, and tests.
# Python's own modules are compiled as well: the base brings no bytecode for them.
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN --mount=type=secret,id=pipconf,target=/etc/pip.conf \
    --mount=type=secret,id=cabundle,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi && \
    python -m venv /build && \
    python -m venv --without-pip /opt/app && \
    /build/bin/pip install --require-hashes --only-binary=:all: -r requirements/build.txt && \
    /build/bin/pip --python /opt/app/bin/python install --no-compile \
        --require-hashes --only-binary=:all: -r requirements/runtime.txt && \
    rm -rf /opt/app/lib/python*/site-packages/kubernetes/aio && \
    find /opt/app/lib -type d -name tests -prune -exec rm -rf {} + && \
    PYTHONPYCACHEPREFIX=/opt/app/bytecode /opt/app/bin/python -m compileall -q -j 0 \
        --invalidation-mode unchecked-hash \
        -x '/usr/.*/site-packages/|/(test|tests|idlelib|ensurepip|lib2to3|tkinter)/' \
        /opt/app/lib/python*/site-packages \
        "$(/opt/app/bin/python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
# If only the sources have changed, only this step is repeated.
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY scheduler scheduler
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . && \
    /build/bin/pip --python /opt/app/bin/python install --no-compile --no-index --no-deps \
        /wheels/*.whl && \
    PYTHONPYCACHEPREFIX=/opt/app/bytecode /opt/app/bin/python -m compileall -q \
        --invalidation-mode unchecked-hash /opt/app/lib/python*/site-packages/scheduler
COPY deploy/tools/release/sbom.py deploy/tools/release/
# The time of the bill of materials, in seconds since the epoch; empty: now.
ARG SOURCE_DATE_EPOCH
RUN /opt/app/bin/python deploy/tools/release/sbom.py --lock requirements/runtime.txt \
        --dpkg-status /var/lib/dpkg/status > /opt/app/sbom.cdx.json

FROM ${PYTHON_IMAGE}
# It writes nothing: the root may be read-only, and nothing runs that needs a shell.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONNOUSERSITE=1 \
    PYTHONPYCACHEPREFIX=/opt/app/bytecode
COPY --from=build /opt/app /opt/app
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/opt/app/bin/preemptive-scheduler"]
CMD ["run"]
# Last, so that another revision of the same content is a matter of labels.
ARG PYTHON_IMAGE
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="preemptive-scheduler" \
      org.opencontainers.image.description="A second scheduler for Kubernetes, with full preemption" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}" \
      io.preemptive-scheduler.sbom="/opt/app/sbom.cdx.json" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
