import { decodePaymentRequiredHeader } from '@x402/core/http'
import { z } from 'zod'
import { uploadOperation } from '#shared/operations/registry.ts'
import type { ApiConfig } from '../../../api/config.ts'
import { HELD_PROBE_HEADER, sealHeldProbe } from '../../../api/paid-request/quote/held-probe.ts'
import { attempted } from './attempted.ts'
import { type Check, failed, passed, skipped } from './check.ts'
import { fetchJson } from './fetch-json.ts'

const modelsSchema = z.object({ data: z.array(z.object({ supported_endpoints: z.array(z.string()) })) })

const ADVICE = 'see "Behind a proxy" of infra/README.md'
const BODY_TIMEOUT_MS = 120_000
/** How much longer than the hold the answer may take. */
const SLACK_MS = 30_000

export type PublicAddress = Pick<ApiConfig, 'PUBLIC_BASE_URL' | 'HOLD_SECONDS' | 'CHALLENGE_SECRET'>

/** Checks that an unpaid call and the largest body pass what stands in front of the service, and are answered by it. */
export async function checkCalls({
  PUBLIC_BASE_URL: baseUrl,
}: Pick<PublicAddress, 'PUBLIC_BASE_URL'>): Promise<readonly Check[]> {
  return [
    await attempted('unpaid call', baseUrl, async () => {
      const path = await offeredPath(baseUrl)
      const problem = problemOfChallenge(await post(`${baseUrl}${path}`, '{}'))
      return problem === null
        ? passed('unpaid call', `${path} answers with a challenge`)
        : failed('unpaid call', problem)
    }),
    await attempted('large body', `${baseUrl}${uploadOperation.path}`, async () => {
      const { jsonField, maximumBase64Length } = uploadOperation.upload
      const body = JSON.stringify({ [jsonField]: 'A'.repeat(maximumBase64Length) })
      const answer = await post(`${baseUrl}${uploadOperation.path}`, body, { 'x-idempotency-key': crypto.randomUUID() })
      const megabytes = Math.round(body.length / 1e6)
      const problem = `a body of ${megabytes} MB is answered with ${answer.status}`
      if (!(await isOurs(answer))) return failed('large body', `${problem}: ${ADVICE}`)
      // The service reads it and finds no recording in it.
      if (answer.status === 400) return passed('large body', `${megabytes} MB arrive`)
      return skipped('large body', `${problem}, unread: repeat it when the service has less to do`)
    }),
  ]
}

/** Checks that a call may be held for HOLD_SECONDS without a byte, by a probe that the service holds for its operator. */
export function checkHeldCall(address: PublicAddress): Promise<Check> {
  const { PUBLIC_BASE_URL: baseUrl, HOLD_SECONDS: holdSeconds, CHALLENGE_SECRET: secrets } = address
  return attempted('held call', `held for ${holdSeconds} s`, async () => {
    const path = await offeredPath(baseUrl)
    const startedAt = performance.now()
    const seconds = () => Math.round((performance.now() - startedAt) / 1000)
    const headers = { [HELD_PROBE_HEADER]: sealHeldProbe(secrets, new Date()) }
    const answer = await post(`${baseUrl}${path}`, '{}', headers, holdSeconds * 1000 + SLACK_MS)
    const problem = problemOfChallenge(answer)
    if (problem !== null)
      return failed(
        'held call',
        `after ${seconds()} s of HOLD_SECONDS=${holdSeconds}: ${problem}, or lower HOLD_SECONDS`,
      )
    if (seconds() < Math.floor(holdSeconds))
      return failed(
        'held call',
        `was held for ${seconds()} s: the service has another HOLD_SECONDS than ${holdSeconds}, another CHALLENGE_SECRET, or no place left`,
      )
    return passed('held call', `an answer after ${seconds()} s arrives`)
  })
}

/** Returns an endpoint that serves a model: another one has no price to probe. */
async function offeredPath(baseUrl: string): Promise<string> {
  const { data } = modelsSchema.parse((await fetchJson(`${baseUrl}/v1/models`)).body)
  const path = data[0]?.supported_endpoints[0]
  if (path === undefined) throw new Error('no model is offered')
  return path
}

function problemOfChallenge({ status, headers }: Response): string | null {
  const challenge = headers.get('payment-required')
  if (status !== 402) return `an unpaid call is answered with ${status} instead of 402: ${ADVICE}`
  if (challenge === null) return `the header PAYMENT-REQUIRED is missing: ${ADVICE}`
  const { accepts } = decodePaymentRequiredHeader(challenge)
  return accepts.length > 0 ? null : 'the challenge accepts nothing'
}

/** Returns whether the service itself answered, and not something in front of it. */
async function isOurs(answer: Response): Promise<boolean> {
  const body: unknown = await answer.json().catch(() => null)
  return typeof body === 'object' && body !== null && 'request_id' in body
}

function post(url: string, body: string, headers: Record<string, string> = {}, timeoutMs = BODY_TIMEOUT_MS) {
  const signal = AbortSignal.timeout(timeoutMs)
  return fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body, signal })
}
