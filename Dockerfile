# syntax=docker/dockerfile:1

# One image for every process; the argument says which:
#
#   docker run farebox                                  API (port 8402)
#   docker run farebox workers/main.ts                  worker; with WORKER_QUEUES=settlement a settler (metrics: METRICS_PORT)
#   docker run farebox infra/commands/migrate.ts        and bucket-init.ts, ledger.ts, verify-receipt.ts beside it
#
# test/contract/deployment/dockerfile.test.ts does these steps in a plain folder and makes a paid call with what they leave.

FROM node:24.21.0-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json ./
# No package of production has an install script that it needs, and the optional ones are for other platforms or bring a second
# ffmpeg.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM node:24.21.0-bookworm-slim
# The distribution mends ffmpeg, which reads what strangers send.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ffmpeg \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY package.json ./
COPY shared ./shared
COPY api ./api
COPY workers ./workers
COPY infra/terminal.ts ./infra/terminal.ts
COPY infra/ledger ./infra/ledger
COPY infra/commands ./infra/commands
# A container's own loopback reaches nobody.
ENV NODE_ENV=production FFMPEG_PATH=/usr/bin/ffmpeg HOST=0.0.0.0 METRICS_HOST=0.0.0.0
# The image's user "node", by number: Kubernetes cannot tell from a name that it is not root.
USER 1000:1000
EXPOSE 8402 9402
STOPSIGNAL SIGTERM
# Of the API; whoever runs a worker names its METRICS_PORT instead.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "infra/commands/check-health.ts", "http://127.0.0.1:8402/healthz"]
# Without a shell in between, so that node gets the signal itself.
ENTRYPOINT ["node"]
CMD ["api/main.ts"]
