# What brings weights: pulls, compares and exports them, on the CPU; the Job of the chart.
#
#   docker build -f k8s/images/fetch.Dockerfile --build-arg BASE=python:3.12-slim \
#     --build-arg DIGEST=sha256:… --build-arg REVISION=$(git rev-parse HEAD) .
#
# Nothing has a default: a base without its digest is no reference, and the build ends there.
ARG BASE
ARG DIGEST

FROM ${BASE}@${DIGEST} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY k8s/images/locks/build.txt k8s/images/locks/fetch*.txt locks/
RUN python3 -m venv --without-pip /opt/build && python3 -m venv --without-pip /opt/editjudge
RUN python3 -m pip --python /opt/build/bin/python install --no-deps --require-hashes -r locks/build.txt
RUN python3 -m pip --python /opt/editjudge/bin/python install --no-deps --require-hashes -r locks/fetch.txt
# torch's CPU build, from PyTorch's own index.
RUN python3 -m pip --python /opt/editjudge/bin/python install --no-deps --require-hashes -r locks/fetch.cpu.txt
COPY . .
RUN python3 -m pip --python /opt/build/bin/python wheel --no-deps --no-build-isolation -w /dist . \
 && python3 -m pip --python /opt/editjudge/bin/python install --no-deps --no-index /dist/*.whl
RUN /opt/build/bin/cyclonedx-py environment --output-reproducible -o /opt/editjudge/sbom.json /opt/editjudge/bin/python

FROM ${BASE}@${DIGEST}
ARG BASE
ARG DIGEST
ARG REVISION
LABEL org.opencontainers.image.title="editjudge fetch" \
      org.opencontainers.image.description="Pulls, compares and exports the weights of editjudge's specialists." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.base.digest="${DIGEST}" \
      editjudge.sbom="/opt/editjudge/sbom.json"
COPY --from=build /opt/editjudge /opt/editjudge
ENV PATH=/opt/editjudge/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
USER 10001:10001
WORKDIR /tmp
CMD ["editjudge", "models", "list"]
