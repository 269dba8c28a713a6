# The image of the scheduler: `make image`. Without secrets and arguments it builds anywhere.

ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
# Timestamps in bytecode would make every build another image; hashes do not.
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# The tools that build the package, apart from what goes into the image: an environment without pip.
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN --mount=type=secret,id=pipconf,target=/etc/pip.conf \
    --mount=type=secret,id=cabundle,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi && \
    python -m venv /build && \
    python -m venv --without-pip /opt/app && \
    /build/bin/pip install --require-hashes --only-binary=:all: -r requirements/build.txt && \
    /build/bin/pip --python /opt/app/bin/python install \
        --require-hashes --only-binary=:all: -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY scheduler scheduler
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . && \
    /build/bin/pip --python /opt/app/bin/python install --no-index --no-deps /wheels/*.whl && \
    /opt/app/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        /opt/app/lib/python*/site-packages

FROM ${PYTHON_IMAGE}
# It writes nothing: the root may be read-only, and nothing runs that needs a shell.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONNOUSERSITE=1
COPY --from=build /opt/app /opt/app
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/opt/app/bin/preemptive-scheduler"]
CMD ["run"]
# Last, so that another revision of the same content is a matter of labels.
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="preemptive-scheduler" \
      org.opencontainers.image.description="A second scheduler for Kubernetes, with full preemption" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
