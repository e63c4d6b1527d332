import type { FastifyInstance } from 'fastify'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

/** Dependencies by name; each check throws when its dependency is down. */
type Checks = Readonly<Record<string, () => Promise<void>>>

export interface ReadinessChecks {
  /** What this process needs to serve anything, or what may be broken in this process alone. */
  readonly required: Checks
  /**
   * What all processes share and only some requests need. While one is down, those requests are answered with an error
   * that says so; taking every process out of the load balancer would also refuse all others.
   */
  readonly shared: Checks
}

/** A dependency that takes longer counts as down. */
const CHECK_TIMEOUT_MS = 2000

/** How long a report is reused: the checks cost RPC calls and statements, and strangers can reach `/readyz`. */
const REPORT_MS = 1000

/** How long a report waits for the warnings, which may ask a node; then it repeats their last results. */
const WARNINGS_WAIT_MS = 50

/** Conditions by name that an operator should fix before they affect the service; each returns whether it applies. */
export type ReadinessWarnings = Readonly<Record<string, () => Promise<boolean>>>

/**
 * Adds `GET /healthz`, which checks only that the process responds, and `GET /readyz`, which checks every dependency and
 * names those that are down, without details: 503 when a required one is, otherwise 200. Warnings do not change the
 * status, and slow ones do not delay it. The checks run at most once per second and once at a time, however many requests arrive. Once `draining` has
 * aborted, `/readyz` is 503 immediately, since the process is about to stop. `now` is monotonic, in milliseconds.
 */
export function addHealthRoutes(
  app: FastifyInstance,
  checks: ReadinessChecks,
  warnings: ReadinessWarnings,
  draining: AbortSignal,
  now: () => number = () => performance.now(),
): void {
  const readWarnings = Object.entries(warnings).map(([name, isRaised]) => ({ name, read: repeatWhileSlow(isRaised) }))
  const readReport = createReportReader(() => runChecks(checks, readWarnings), now)
  app.get('/healthz', async (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    if (draining.aborted)
      return reply
        .status(503)
        .header('cache-control', 'no-store')
        .send({ status: 'draining', checks: {}, warnings: [] })
    const report = await readReport()
    return reply
      .status(report.status === 'unavailable' ? 503 : 200)
      .header('cache-control', 'no-store')
      .send(report)
  })
}

interface Report {
  readonly status: 'ok' | 'degraded' | 'unavailable'
  readonly checks: Readonly<Record<string, 'ok' | 'down'>>
  readonly warnings: readonly string[]
}

/** Returns a reader that shares the report in progress, or one that began less than `REPORT_MS` ago. */
function createReportReader(read: () => Promise<Report>, now: () => number): () => Promise<Report> {
  let latest: { readonly report: Promise<Report>; readonly since: number; isDone: boolean } | null = null
  return () => {
    if (latest && (!latest.isDone || now() - latest.since < REPORT_MS)) return latest.report
    const next = { report: read(), since: now(), isDone: false }
    void next.report.finally(() => (next.isDone = true))
    latest = next
    return next.report
  }
}

interface WarningReader {
  readonly name: string
  readonly read: () => Promise<boolean>
}

async function runChecks(checks: ReadinessChecks, warnings: readonly WarningReader[]): Promise<Report> {
  const [required, shared, raised] = await Promise.all([
    runAll(checks.required),
    runAll(checks.shared),
    Promise.all(warnings.map(async ({ name, read }) => ((await read()) ? [name] : []))),
  ])
  return {
    status: hasFailed(required) ? 'unavailable' : hasFailed(shared) ? 'degraded' : 'ok',
    checks: { ...required, ...shared },
    warnings: raised.flat(),
  }
}

type Results = Readonly<Record<string, 'ok' | 'down'>>

async function runAll(checks: Checks): Promise<Results> {
  return Object.fromEntries(
    await Promise.all(Object.entries(checks).map(async ([name, check]) => [name, await run(check)] as const)),
  )
}

function hasFailed(results: Results): boolean {
  return Object.values(results).includes('down')
}

/** Runs the check of a warning. One that fails raises no warning: the dependency is already reported as down. */
async function runWarning(isRaised: () => Promise<boolean>): Promise<boolean> {
  let raised = false
  await run(async () => {
    raised = await isRaised()
  })
  return raised
}

/** Returns a reader that waits a moment for a warning in progress, and then returns its last result. */
function repeatWhileSlow(isRaised: () => Promise<boolean>): () => Promise<boolean> {
  let last = false
  let running: Promise<boolean> | null = null
  const start = async () => {
    last = await runWarning(isRaised)
    running = null
    return last
  }
  return async () => {
    running ??= start()
    return await withDeadline(WARNINGS_WAIT_MS, running, () => last)
  }
}

async function run(check: () => Promise<void>): Promise<'ok' | 'down'> {
  try {
    const checked = check().then(() => 'ok' as const)
    return await withDeadline(CHECK_TIMEOUT_MS, checked, () => 'down' as const)
  } catch {
    return 'down'
  }
}
