# syntax=docker/dockerfile:1

# One image for every process; the argument selects it:
#
#   docker run farebox                                  API (port 8402)
#   docker run farebox workers/main.ts                  worker; with WORKER_QUEUES=settlement a settler (metrics: METRICS_PORT)
#   docker run farebox operator/main.ts                 operators' console (port 8403)
#   docker run farebox infra/commands/migrate/main.ts   or bucket-init, ledger, preflight and the like
#
# test/system/deployment/dockerfile.test.ts runs these steps in a plain folder and makes a paid call with the
# result.

FROM node:24.21.0-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json ./
# No production package needs its install script; the optional packages are for other platforms or contain a second
# ffmpeg. Node loads neither TypeScript below node_modules nor source maps. npm 11.19 leaves packages out of its list that
# are also needed by development dependencies (`--omit=dev`), so it does not see those.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund \
  && npm pkg delete devDependencies optionalDependencies && mkdir notices \
  && npm sbom --sbom-format=spdx > notices/npm-packages.spdx.json \
  && find node_modules -type f '(' -iname 'licen[cs]e*' -o -iname 'notice*' -o -iname 'copying*' ')' \
    -exec tail --verbose --lines=+1 '{}' + > notices/npm-licenses.txt \
  && find node_modules -type f '(' -name '*.ts' -o -name '*.[cm]ts' -o -name '*.map' ')' -delete

# ffmpeg parses untrusted uploads, so it is built from the distribution's source, which gets security fixes. Its package
# brings 200 libraries, this build only what the services call (infra/decisions/deployment.md#files-and-stores).
FROM node:24.21.0-bookworm-slim AS ffmpeg
RUN sed 's/^Types: .*/Types: deb-src/' /etc/apt/sources.list.d/*.sources > /etc/apt/sources.list.d/of-source.sources \
  && apt-get update \
  && apt-get install --yes --no-install-recommends dpkg-dev gcc libc6-dev libmp3lame-dev make nasm \
  && mkdir /build && cd /build && apt-get source ffmpeg && cd ffmpeg-* \
  && ./configure --toolchain=hardened --extra-version="$(sed -n '1s/.*-\(.*\)).*/\1/p' debian/changelog)" \
    --disable-everything --disable-autodetect --disable-debug --disable-doc --disable-network \
    --disable-avdevice --disable-ffplay --disable-ffprobe --disable-postproc --disable-swscale \
    --enable-libmp3lame --enable-protocol=file,pipe --enable-demuxer=flac,mp3,ogg,pcm_s16le,wav \
    --enable-decoder=flac,mp3float,opus,pcm_alaw,pcm_f32le,pcm_f64le,pcm_mulaw,pcm_s16le,pcm_s24le,pcm_s32le,pcm_u8,vorbis \
    --enable-encoder=libmp3lame,pcm_s16le --enable-muxer=mp3,pcm_s16le --enable-filter=aresample \
  && make --jobs="$(nproc)" ffmpeg && cp ffmpeg debian/copyright /build

FROM node:24.21.0-bookworm-slim
RUN apt-get update \
  && apt-get install --yes --no-install-recommends libmp3lame0 \
  && rm -rf /var/lib/apt/lists/*
COPY --from=ffmpeg /build/ffmpeg /usr/bin/ffmpeg
COPY --from=ffmpeg /build/copyright /usr/share/doc/ffmpeg/copyright
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY --from=packages /app/notices ./notices
COPY package.json LICENSE ./
COPY packages ./packages
COPY shared ./shared
COPY api ./api
COPY workers ./workers
COPY operator ./operator
COPY infra/terminal.ts infra/paid-call.ts ./infra/
COPY infra/sandbox/samples/last-tram.mp3 ./infra/sandbox/samples/last-tram.mp3
COPY infra/contracts ./infra/contracts
COPY infra/commands ./infra/commands
# One arena: glibc's arenas of other threads keep what a burst of calls left in them, 40 kB for each held caller
# (infra/decisions/load.md#the-cost-of-an-answer).
ENV MALLOC_ARENA_MAX=1
# Node's default, 16 MiB for each half of the young generation, stays occupied after the first burst of work.
ENV NODE_OPTIONS=--max-semi-space-size=4
# The container's loopback interface cannot be reached from outside.
ENV NODE_ENV=production FFMPEG_PATH=/usr/bin/ffmpeg HOST=0.0.0.0 METRICS_HOST=0.0.0.0 OPERATOR_HOST=0.0.0.0
# Start-up is part of recovery, and containers with a read-only root cannot write a cache: the image brings the compiled
# code of its long-running programs. The cache belongs to the user who wrote it.
ENV NODE_COMPILE_CACHE=/app/.compiled
RUN install --directory --owner=1000 --group=1000 .compiled \
  && dpkg-query --show > notices/debian-packages.txt && ffmpeg -version > notices/ffmpeg.txt
# The image's user "node", by number: Kubernetes cannot verify from a name that it is not root.
USER 1000:1000
RUN node --import ./api/dependencies.ts --import ./api/start-api.ts \
  --import ./workers/dependencies.ts --import ./workers/start-worker.ts \
  --import ./operator/dependencies.ts --import ./operator/start-console.ts --eval 0
# Software in this image and its licenses: /app/notices, and /usr/share/doc/*/copyright of Debian's packages.
ARG REVISION=unknown SOURCE=unknown
LABEL org.opencontainers.image.title=farebox \
  org.opencontainers.image.version=1.0.0 \
  org.opencontainers.image.revision=$REVISION \
  org.opencontainers.image.source=$SOURCE \
  org.opencontainers.image.licenses=MIT
EXPOSE 8402 8403 9402
STOPSIGNAL SIGTERM
# For the API. For a worker, override it with the worker's METRICS_PORT, for the console with /operator/healthz.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "infra/commands/check-health/main.ts", "http://127.0.0.1:8402/healthz"]
# No shell in between, so that node receives signals.
ENTRYPOINT ["node"]
CMD ["api/main.ts"]
