import type { FareboxContext } from '../context.ts'
import { readChallenge } from '../payment/challenge.ts'
import { checkChallenge } from '../payment/check-challenge.ts'
import { OPERATION_PATHS } from '../payment/operations.ts'
import { type HttpAnswer, readAnswer } from '../wire/http-answer.ts'
import { parseObject } from '../wire/json.ts'
import { type DoctorCheck, fine, wrong } from './doctor-check.ts'

type ServiceContext = Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'pins'>

const TIMEOUT_MS = 10_000
/** Challenges are valid for minutes, so a smaller difference costs no call. */
const LARGEST_SKEW_MS = 30_000

/** Checks that the service can be reached and is ready. */
export async function checkService(context: ServiceContext, signal?: AbortSignal): Promise<DoctorCheck> {
  const name = 'service'
  const { origin } = new URL(context.baseUrl)
  let answer: HttpAnswer
  try {
    answer = await ask(context, '/readyz', signal)
  } catch (error) {
    const { message, cause } = error as Error
    const reason = cause instanceof Error && cause.message !== '' ? cause.message : message
    return wrong(name, `${origin} cannot be reached (${reason}).`, 'Check the URL (FAREBOX_URL) and the network.')
  }
  const { status, checks = {} } = (parseObject(answer.body) ?? {}) as {
    status?: string
    checks?: Record<string, string>
  }
  const down = Object.entries(checks).filter(([, state]) => state !== 'ok')
  if (answer.status === 200 && status === 'ok') return fine(name, `${origin} is ready`)
  if (status === undefined)
    return wrong(name, `${origin} answers ${answer.status} where farebox answers.`, 'Check the URL (FAREBOX_URL).')
  const names = down.map(([each]) => each).join(', ')
  const isDown = names === '' ? '' : `: ${names} ${down.length === 1 ? 'is' : 'are'} down`
  return wrong(name, `${origin} is ${status}${isDown}.`, 'Calls may fail without a charge; try again later.')
}

/** Compares this machine's clock with the service's. */
export async function checkClock(context: ServiceContext, signal?: AbortSignal): Promise<DoctorCheck> {
  const name = 'clock'
  const asked = context.now()
  const { headers } = await ask(context, '/healthz', signal)
  const answered = context.now()
  const stated = Date.parse(headers.get('date') ?? '')
  if (Number.isNaN(stated)) return fine(name, 'the service states no time to compare with')
  // The header has whole seconds: the service's clock was anywhere within the one after it.
  const skew = clockSkew(asked, answered, stated, stated + 1000)
  if (Math.abs(skew) <= LARGEST_SKEW_MS)
    return fine(name, `within ${Math.ceil(Math.abs(skew) / 1000) + 1} s of the service`)
  const difference = `${Math.round(Math.abs(skew) / 1000)} s ${skew > 0 ? 'ahead of' : 'behind'}`
  return wrong(name, `This machine’s clock is ${difference} the service’s.`, 'Set the clock, or switch on NTP.')
}

/** Returns by how much the clock here is ahead at least; zero if the two intervals overlap. */
function clockSkew(asked: number, answered: number, earliest: number, latest: number): number {
  if (asked > latest) return asked - latest
  return answered < earliest ? answered - earliest : 0
}

/** Compares the terms of an unpaid request with those of the first use. */
export async function checkTerms(context: ServiceContext, signal?: AbortSignal): Promise<DoctorCheck> {
  const { pins, baseUrl, now } = context
  const { origin } = new URL(baseUrl)
  const path = OPERATION_PATHS.createChatCompletion
  const { headers } = await ask(context, path, signal, 'POST')
  const challenge = readChallenge(headers.get('payment-required'))
  const terms = pins.termsOf(origin)
  checkChallenge(challenge, { terms, url: new URL(path, baseUrl).href, now: now() })
  const pinned = terms.payTo === undefined ? 'not used yet, pinned with the first payment' : 'as at the first use'
  return fine('terms', `USDC on ${challenge.network} to ${challenge.payTo}, ${pinned}`)
}

async function ask(
  { fetch, baseUrl }: ServiceContext,
  path: string,
  signal: AbortSignal | undefined,
  method = 'GET',
): Promise<HttpAnswer> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS)
  const either = signal === undefined ? timeout : AbortSignal.any([signal, timeout])
  return await readAnswer(await fetch(new URL(path, baseUrl), { method, redirect: 'error', signal: either }))
}
