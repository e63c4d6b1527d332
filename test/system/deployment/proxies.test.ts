import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkCalls, checkHeldCall } from '../../../infra/commands/preflight/check-public-address.ts'
import type { Check } from '../../../infra/commands/preflight/check.ts'
import { readOrCreateSecrets } from '../../../infra/sandbox/state-directory.ts'
import { type AnswerGate, startAnswerGate } from '../../support/http/answer-gate.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import {
  type ChatAnswer,
  chatBody,
  payChat,
  payChatPatiently,
  type SignedChat,
  sendChat,
  signChat,
  upstreamCallsByKey,
} from '../../support/payer/chat-call.ts'
import { challengeOf } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import {
  PROXY_KINDS,
  PROXY_PROGRAMS,
  type ProxyKind,
  type ReverseProxy,
  startReverseProxy,
} from '../../support/processes/reverse-proxy.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

/** Longer than the 50 to 60 s that nginx, haproxy and varnish wait by default, which is what the test shows. */
const VENDOR_MS = 65_000
/** Below the shortest of them. */
const SHORT_HOLD_SECONDS = 45
const LIMITED: readonly ProxyKind[] = ['nginx', 'haproxy', 'varnish']
/** 26.2 MB, just below the published limit. */
const recording = generateMp3({ durationMs: 1_637_000 })

interface Seen {
  readonly unpaid: number
  readonly paid: number
  /** 0: the connection was closed without an answer. */
  readonly form: number
  readonly slow: number
}
const PASSES: Seen = { unpaid: 402, paid: 200, form: 402, slow: 200 }
/** What each proxy does by default; the table of infra/README.md says the same. */
const BY_DEFAULT: Readonly<Record<ProxyKind, Seen>> = {
  nginx: { ...PASSES, form: 413, slow: 504 },
  haproxy: { ...PASSES, slow: 504 },
  varnish: { ...PASSES, slow: 503 },
  apache: PASSES,
  caddy: PASSES,
  // Closes the connection when the body arrives faster than it leaves: about every second time.
  squid: { ...PASSES, form: expect.toBeOneOf([0, 402]) as number },
  lighttpd: PASSES,
}

describe.skipIf(!havePrograms(...PROXY_PROGRAMS))('proxies in front of the API', () => {
  let sandbox: TestSandbox
  /** Holds back the vendors' answers. */
  let vendors: AnswerGate
  let payer: Payer
  /** With the least that makes them forward; with what infra/README.md prints; and before an API with a shorter hold. */
  let plain: readonly ReverseProxy[]
  let printed: readonly ReverseProxy[]
  let beforeShortHold: readonly ReverseProxy[]
  /** The slow calls, which all wait for the same vendor at once. */
  let slow: ReadonlyMap<ReverseProxy, { readonly status: number; readonly again: ChatAnswer; readonly key: string }>
  let afterShortHold: readonly (readonly ChatAnswer[])[]
  /** What the preflight finds of a held call: behind nginx as it comes, and with a hold below its limit. */
  let heldCalls: readonly Check[]
  beforeAll(async () => {
    sandbox = await startTestSandbox({
      apis: 2,
      connections: async (real) => {
        vendors = await startAnswerGate(real.upstreamUrl)
        return { ...real, upstreamUrl: vendors.url }
      },
      apiEnvironment: { TRUSTED_PROXIES: '127.0.0.1' },
      environmentOf: (name): Record<string, string> =>
        name === 'api-2' ? { HOLD_SECONDS: String(SHORT_HOLD_SECONDS) } : {},
    })
    payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 100_000_000n, approved: true })
    const [first = '', second = ''] = sandbox.info.baseUrls
    ;[plain, printed, beforeShortHold] = await Promise.all([
      startAll(PROXY_KINDS, 'plain', first),
      startAll(PROXY_KINDS, 'printed', first),
      startAll(LIMITED, 'plain', second),
    ])
    await makeSlowCalls()
  })

  afterAll(async () => {
    await Promise.all([...plain, ...printed, ...beforeShortHold].map((proxy) => proxy.stop()))
    await sandbox.stop()
    await vendors.stop()
  })

  async function makeSlowCalls(): Promise<void> {
    const held = [...plain, ...printed]
    const chats = await Promise.all([...held, ...beforeShortHold].map(() => signChat(sandbox.info.baseUrl, payer)))
    vendors.hold()
    const patient = Promise.all(
      beforeShortHold.map(async ({ url }, index) => await payChatPatiently([url], chatAt(held.length + index))),
    )
    const preflight = checkHeldCalls()
    const statuses = Promise.all(held.map(({ url }, index) => statusOf(url, chatAt(index))))
    await until(async () => (await upstreamCallsByKey(sandbox.info)).size === chats.length)
    await delay(VENDOR_MS)
    vendors.release()
    const answered = await statuses
    heldCalls = await preflight
    afterShortHold = await patient
    const repeated = await Promise.all(held.map(({ url }, index) => payChat(url, chatAt(index))))
    slow = new Map(
      held.map((proxy, index) => [
        proxy,
        { status: answered[index] ?? 0, again: at(repeated, index), key: chatAt(index).idempotencyKey },
      ]),
    )

    function chatAt(index: number): SignedChat {
      return at(chats, index)
    }
  }

  async function checkHeldCalls(): Promise<readonly Check[]> {
    const { challengeSecret } = await readOrCreateSecrets(sandbox.directory, 1)
    const check = ({ url }: ReverseProxy, HOLD_SECONDS: number) =>
      checkHeldCall({ PUBLIC_BASE_URL: url, HOLD_SECONDS, CHALLENGE_SECRET: [challengeSecret] })
    return await Promise.all([
      check(proxyOf(plain, 'nginx'), 280),
      check(proxyOf(beforeShortHold, 'nginx'), SHORT_HOLD_SECONDS),
    ])
  }

  /** Makes the other calls through a proxy. The 402s must bring the challenge, or no client could pay. */
  async function see(proxy: ReverseProxy): Promise<Seen> {
    const unpaid = await sendProbe(proxy.url)
    const chat = await signChat(proxy.url, payer)
    const paid = await payChat(proxy.url, chat)
    return { unpaid, paid: paid.status, form: await sendForm(proxy.url), slow: slow.get(proxy)?.status ?? 0 }
  }

  test.each(PROXY_KINDS)('%s as it comes does what the table of infra/README.md says', async (kind) => {
    expect(await see(proxyOf(plain, kind))).toEqual(BY_DEFAULT[kind])
  })

  test.each(PROXY_KINDS)('%s with the snippet of infra/README.md passes every call', async (kind) => {
    expect(await see(proxyOf(printed, kind))).toEqual(PASSES)
  })

  test.each(PROXY_KINDS)('a call that %s gave up is there for the same request, charged once', async (kind) => {
    for (const proxy of [proxyOf(plain, kind), proxyOf(printed, kind)]) {
      const { again, key } = slow.get(proxy) ?? {}
      expect(again?.status).toBe(200)
      expect((await upstreamCallsByKey(sandbox.info)).get(key ?? '')).toBe(1)
      const paid = await sandbox.sql(
        'SELECT 1 FROM settlements JOIN jobs ON jobs.id = job_id WHERE idempotency_key = $1',
        [key],
      )
      expect(paid).toHaveLength(1)
    }
  })

  test('the preflight finds a time limit below HOLD_SECONDS, and a body that is too large for a proxy', async () => {
    expect(heldCalls).toEqual([
      {
        check: 'held call',
        outcome: 'failed',
        detail: expect.stringMatching(/^after 6\d s of HOLD_SECONDS=280: .* 504/),
      },
      { check: 'held call', outcome: 'passed', detail: expect.stringMatching(/^an answer after 4\d s/) },
    ])
    const found = await Promise.all(
      [proxyOf(plain, 'nginx'), proxyOf(printed, 'nginx')].map(({ url }) => checkCalls({ PUBLIC_BASE_URL: url })),
    )
    expect(found.map((checks) => checks.map(({ check, outcome }) => `${check} ${outcome}`))).toEqual([
      ['unpaid call passed', 'large body failed'],
      ['unpaid call passed', 'large body passed'],
    ])
  })

  test('a hold below the limit of a proxy as it comes is answered in time, and repeating the key brings the result', () => {
    for (const answers of afterShortHold) {
      const [first, last] = [answers.at(0), answers.at(-1)]
      expect(first).toMatchObject({ status: 503, code: 'request_in_progress', retry: 'same_request' })
      expect(last?.status).toBe(200)
    }
    expect(afterShortHold).toHaveLength(LIMITED.length)
  })
})

/** Sends the signed chat once and returns the status of the answer, whose body may be a proxy's page. */
async function statusOf(url: string, { idempotencyKey, headers: payment }: SignedChat): Promise<number> {
  const headers = { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...payment }
  const body = JSON.stringify(chatBody(idempotencyKey, false))
  const answer = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })
  await answer.text()
  return answer.status
}

function at<Item>(items: readonly Item[], index: number): Item {
  const item = items[index]
  if (item === undefined) throw new Error(`there is no item ${index}`)
  return item
}

function proxyOf(proxies: readonly ReverseProxy[], kind: ProxyKind): ReverseProxy {
  const proxy = proxies.find((started) => started.kind === kind)
  if (!proxy) throw new Error(`${kind} was not started`)
  return proxy
}

function startAll(kinds: readonly ProxyKind[], settings: 'plain' | 'printed', url: string): Promise<ReverseProxy[]> {
  return Promise.all(kinds.map((kind) => startReverseProxy(kind, settings, url)))
}

async function sendProbe(url: string): Promise<number> {
  const headers = { 'content-type': 'application/json' }
  const probe = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body: '{}' })
  if (probe.status === 402) expect(challengeOf(probe).accepts).toHaveLength(1)
  const { status, response } = await sendChat(url, randomUUID())
  if (status === 402 && response) expect(challengeOf(response).accepts).toHaveLength(1)
  return Math.max(status, probe.status)
}

async function sendForm(url: string): Promise<number> {
  const form = new FormData()
  form.set('model', 'speechvendor/scribe-v2')
  form.set('file', new Blob([new Uint8Array(recording)]), 'recording.mp3')
  const headers = { 'x-idempotency-key': randomUUID() }
  try {
    const answer = await fetch(`${url}/v1/audio/transcriptions`, { method: 'POST', headers, body: form })
    await answer.text()
    return answer.status
  } catch {
    return 0
  }
}
