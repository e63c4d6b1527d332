import type { FastifyInstance } from 'fastify'

/** What the service cannot do without, by name; each check throws when it is down. */
export type ReadinessChecks = Readonly<Record<string, () => Promise<void>>>

/** A dependency that takes longer is as good as down for whoever asks whether to send traffic here. */
const CHECK_TIMEOUT_MS = 2000

/**
 * `GET /healthz`: this process answers; it says nothing about dependencies. `GET /readyz`: every dependency answers too;
 * 503 names the ones that are down and tells nothing else about them.
 */
export function addHealthRoutes(app: FastifyInstance, checks: ReadinessChecks): void {
  app.get('/healthz', async (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    const results = await Promise.all(Object.entries(checks).map(async ([name, check]) => [name, await run(check)]))
    const ready = results.every(([, result]) => result === 'ok')
    return reply
      .status(ready ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status: ready ? 'ok' : 'unavailable', checks: Object.fromEntries(results) })
  })
}

async function run(check: () => Promise<void>): Promise<'ok' | 'down'> {
  const timeout = Promise.withResolvers<'down'>()
  const timer = setTimeout(() => timeout.resolve('down'), CHECK_TIMEOUT_MS)
  try {
    const checked = check().then(
      () => 'ok' as const,
      () => 'down' as const,
    )
    return await Promise.race([checked, timeout.promise])
  } finally {
    clearTimeout(timer)
  }
}
