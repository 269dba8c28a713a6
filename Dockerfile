# The image of the scheduler: `make image`. Without secrets and arguments it builds anywhere. The base
# is named by digest, because a tag moves; dependabot keeps it up to date.

ARG PYTHON_IMAGE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON_IMAGE} AS build
# Timestamps in bytecode would make every build another image; hashes do not.
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
# The tools that build the package, apart from what goes into the image: an environment without pip.
# What nothing imports is left out: the asynchronous half of the official client, and tests. So are
# the commands of dependencies.
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
    find /opt/app/bin -type f -delete && \
    PYTHONPYCACHEPREFIX=/opt/app/bytecode /opt/app/bin/python -m compileall -q -j 0 \
        --invalidation-mode unchecked-hash \
        -x '/usr/.*/site-packages/|/(test|tests|idlelib|ensurepip|lib2to3|tkinter)/' \
        /opt/app/lib/python*/site-packages \
        "$(/opt/app/bin/python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
# The root of the image: Python with the libraries that it loads, and no shell, apt or pip.
COPY deploy/tools/release/rootfs.py deploy/tools/release/
RUN python deploy/tools/release/rootfs.py /rootfs /opt/app
# If only the sources have changed, only the steps from here on are repeated.
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
        --dpkg-status /rootfs/var/lib/dpkg/status > /opt/app/sbom.cdx.json

FROM scratch
# It writes nothing: the root may be read-only.
ENV LANG=C.UTF-8 PATH=/opt/app/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    PYTHONNOUSERSITE=1 PYTHONPYCACHEPREFIX=/opt/app/bytecode
COPY --from=build /rootfs /
COPY --from=build /opt/app /opt/app
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/opt/app/bin/preemptive-scheduler"]
CMD ["run"]
# Last, so that another revision of the same content is a matter of labels.
ARG PYTHON_IMAGE
ARG VERSION=0.0.0
ARG REVISION=unknown
# The repository that the sources are from, and the time of their last change.
ARG SOURCE
ARG CREATED
LABEL org.opencontainers.image.title="preemptive-scheduler" \
      org.opencontainers.image.description="A second scheduler for Kubernetes, with full preemption" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}" \
      io.preemptive-scheduler.sbom="/opt/app/sbom.cdx.json" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.created="${CREATED}"
