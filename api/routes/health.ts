import type { FastifyInstance } from 'fastify'

/** What the service cannot do without, by name; each check throws when it is down. */
export type ReadinessChecks = Readonly<Record<string, () => Promise<void>>>

/** A dependency that takes longer is as good as down for whoever asks whether to send traffic here. */
const CHECK_TIMEOUT_MS = 2000

/** What an operator must see to before the service suffers from it, by name; each tells whether it is so. */
export type ReadinessWarnings = Readonly<Record<string, () => Promise<boolean>>>

/**
 * `GET /healthz`: this process answers; it says nothing about dependencies. `GET /readyz`: every dependency answers too;
 * 503 names the ones that are down and tells nothing else about them. Warnings change no status: traffic may come. Once
 * `draining` has aborted it is 503 at once, since the process is about to end.
 */
export function addHealthRoutes(
  app: FastifyInstance,
  checks: ReadinessChecks,
  warnings: ReadinessWarnings,
  draining: AbortSignal,
): void {
  app.get('/healthz', async (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    if (draining.aborted)
      return reply
        .status(503)
        .header('cache-control', 'no-store')
        .send({ status: 'draining', checks: {}, warnings: [] })
    const [results, raised] = await Promise.all([
      Promise.all(Object.entries(checks).map(async ([name, check]) => [name, await run(check)] as const)),
      Promise.all(
        Object.entries(warnings).map(async ([name, isRaised]) => ((await runWarning(isRaised)) ? [name] : [])),
      ),
    ])
    const ready = results.every(([, result]) => result === 'ok')
    return reply
      .status(ready ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({
        status: ready ? 'ok' : 'unavailable',
        checks: Object.fromEntries(results),
        warnings: raised.flat(),
      })
  })
}

/** What cannot be found out is no warning: the check of the same dependency tells that it is down. */
async function runWarning(isRaised: () => Promise<boolean>): Promise<boolean> {
  let raised = false
  await run(async () => {
    raised = await isRaised()
  })
  return raised
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
