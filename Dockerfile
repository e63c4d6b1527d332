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
# ffmpeg.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM node:24.21.0-bookworm-slim
# ffmpeg parses untrusted uploads, so it comes from the distribution, which ships security fixes.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ffmpeg \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY package.json ./
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
RUN install --directory --owner=1000 --group=1000 .compiled
# The image's user "node", by number: Kubernetes cannot verify from a name that it is not root.
USER 1000:1000
RUN node --import ./api/dependencies.ts --import ./api/start-api.ts \
  --import ./workers/dependencies.ts --import ./workers/start-worker.ts \
  --import ./operator/dependencies.ts --import ./operator/start-console.ts --eval 0
EXPOSE 8402 8403 9402
STOPSIGNAL SIGTERM
# For the API. For a worker, override it with the worker's METRICS_PORT, for the console with /operator/healthz.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "infra/commands/check-health/main.ts", "http://127.0.0.1:8402/healthz"]
# No shell in between, so that node receives signals.
ENTRYPOINT ["node"]
CMD ["api/main.ts"]
