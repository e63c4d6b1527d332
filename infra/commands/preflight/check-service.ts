import { z } from 'zod'
import { attempted } from './attempted.ts'
import { type Check, failed, judged, passed } from './check.ts'
import { fetchJson } from './fetch-json.ts'

const TIMEOUT_MS = 10_000

const readinessSchema = z.object({ status: z.string(), checks: z.record(z.string(), z.string()) })
const modelsSchema = z.object({ data: z.array(z.object({ id: z.string() })) })

/** Checks the running service as its callers see it. */
export async function checkService(baseUrl: string): Promise<readonly Check[]> {
  return [
    await attempted('readiness', `${baseUrl}/readyz`, async () => {
      const { status, checks } = readinessSchema.parse(await readJson(baseUrl, '/readyz'))
      const down = Object.entries(checks).flatMap(([name, result]) => (result === 'ok' ? [] : [`${name} is ${result}`]))
      return judged('readiness', status === 'ok' ? [] : [`${status}: ${down.join(', ')}`], `${baseUrl} is ready`)
    }),
    await attempted('models', `${baseUrl}/v1/models`, async () => {
      const { data } = modelsSchema.parse(await readJson(baseUrl, '/v1/models'))
      if (data.length === 0) return failed('models', 'no model is offered: DEPLOYMENTS_FILE serves none')
      return passed('models', `${data.length} models are offered`)
    }),
  ]
}

/** Sends an alert that ends by itself. Only a person can say that it arrived. */
export function sendTestAlert(alertUrl: string): Promise<Check> {
  return attempted('alerts', `${alertUrl} does not answer`, async () => {
    const alert = {
      labels: { alertname: 'FareboxPreflight', severity: 'warning' },
      annotations: { summary: 'A test of the preflight: the alert receiver works' },
      endsAt: new Date(Date.now() + 300_000).toISOString(),
    }
    const { ok, status } = await fetch(`${alertUrl.replace(/\/+$/, '')}/api/v2/alerts`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify([alert]),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    return ok
      ? passed('alerts', 'a test alert was accepted; check that FareboxPreflight reaches its receiver')
      : failed('alerts', `${alertUrl} answers ${status}`)
  })
}

async function readJson(baseUrl: string, path: string): Promise<unknown> {
  return (await fetchJson(`${baseUrl}${path}`, {}, 'the service')).body
}
