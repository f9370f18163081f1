# What runs beside the models in Triton's own image, whose Python loads it.
#
#   docker build -f k8s/images/triton.Dockerfile --build-arg BASE=<tritonserver>:<release>-py3 \
#     --build-arg DIGEST=sha256:… --build-arg REVISION=$(git rev-parse HEAD) --build-arg VARIANT=torch-gpu .
#
# VARIANT is cpu, gpu, torch-cpu or torch-gpu; those with torch have Grounded SAM, Sa2VA and GOT-OCR2.0
# too. The base is at least 25.01: earlier python backends die of NumPy 2.
#
# Nothing has a default: a base without its digest is no reference, and the build ends there.
ARG BASE
ARG DIGEST

FROM ${BASE}@${DIGEST} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
ARG VARIANT
COPY k8s/images/locks/build.txt k8s/images/locks/triton-${VARIANT}*.txt locks/
RUN : "${VARIANT:?give --build-arg VARIANT=cpu, gpu, torch-cpu or torch-gpu}" \
 && python3 -m venv --without-pip /opt/build && python3 -m venv --without-pip /opt/editjudge
RUN python3 -m pip --python /opt/build/bin/python install --no-deps --require-hashes -r locks/build.txt
RUN python3 -m pip --python /opt/editjudge/bin/python install --no-deps --require-hashes -r "locks/triton-${VARIANT}.txt"
# The layer of what brings CUDA, or of torch's CPU build, where this variant has one.
RUN for lock in locks/triton-"${VARIANT}".*.txt; do if [ -f "$lock" ]; then \
    python3 -m pip --python /opt/editjudge/bin/python install --no-deps --require-hashes -r "$lock"; fi; done
COPY . .
RUN python3 -m pip --python /opt/build/bin/python wheel --no-deps --no-build-isolation -w /dist . \
 && python3 -m pip --python /opt/editjudge/bin/python install --no-deps --no-index /dist/*.whl
# Triton runs models by the Python it was built with, which is told where packages are.
RUN ln -s /opt/editjudge/lib/python3.*/site-packages /opt/editjudge/packages
RUN /opt/build/bin/cyclonedx-py environment --output-reproducible -o /opt/editjudge/sbom.json /opt/editjudge/bin/python

FROM ${BASE}@${DIGEST}
ARG BASE
ARG DIGEST
ARG REVISION
ARG VARIANT
LABEL org.opencontainers.image.title="editjudge triton (${VARIANT})" \
      org.opencontainers.image.description="editjudge's specialists, in NVIDIA Triton." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.base.digest="${DIGEST}" \
      editjudge.sbom="/opt/editjudge/sbom.json"
COPY --from=build /opt/editjudge /opt/editjudge
ENV PATH=/opt/editjudge/bin:$PATH PYTHONPATH=/opt/editjudge/packages PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
USER 10001:10001
WORKDIR /tmp
CMD ["tritonserver", "--help"]
