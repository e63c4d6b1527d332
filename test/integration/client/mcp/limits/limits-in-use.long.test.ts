import { chmod } from 'node:fs/promises'
import type { CallToolResult, ElicitResult } from '@modelcontextprotocol/client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { parseUsdc } from '../../../../../client/farebox.ts'
import { limitsPath } from '../../../../../client/mcp/limits/limits-path.ts'
import { DEFAULT_LIMITS } from '../../../../../client/mcp/limits/limits-schema.ts'
import { writeLimits } from '../../../../../client/mcp/limits/write-limits.ts'
import type { SpendingLimits } from '../../../../../client/mcp/tool.ts'
import {
  type ClientSettings,
  createServerWallet,
  ERAS,
  type LocalServer,
  type ServerWallet,
  startLocalServer,
} from '../../../../support/mcp/local-server.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../../support/processes/test-sandbox.ts'

let sandbox: SharedSandbox
let wallet: ServerWallet
const servers: LocalServer[] = []
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
beforeEach(async () => {
  wallet = await createServerWallet(sandbox)
})
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close()
  await wallet.remove()
})
afterAll(() => sandbox.stop())

async function start(settings: ClientSettings = {}): Promise<LocalServer> {
  const server = await startLocalServer(wallet, settings)
  servers.push(server)
  return server
}

const setLimits = (limits: Partial<SpendingLimits>) =>
  writeLimits(limitsPath(wallet.home), { ...DEFAULT_LIMITS, ...limits })
const prompt = (text: string) => ({ prompt: `Say ${text}.`, max_tokens: 20 })

interface ToolError {
  readonly code: string
  readonly advice: string
  readonly money: string
}
const errorOf = ({ isError, structuredContent }: CallToolResult) =>
  isError === true ? (structuredContent as { readonly error: ToolError }).error : null
const priceOf = async (server: LocalServer) => {
  const { structuredContent } = await server.call('chat', prompt('a price'))
  const { payment } = structuredContent as { readonly payment: { readonly price_usdc: string } }
  return parseUsdc(payment.price_usdc)
}

describe('limits over the service', () => {
  it('200 parallel calls of two servers stay within the limits of session, day and tool together', async () => {
    const price = await priceOf(await start())
    const before = await wallet.paid()
    const used = before
    // Ten more calls in each session, seventeen in the day, of which five are those of chat.
    await setLimits({
      session: usdc(price * 10n),
      day: usdc(used + price * 17n),
      tools: { chat: { day: usdc(used + price * 5n) } },
    })
    const both = [await start(), await start()]
    const results = await Promise.all(
      Array.from({ length: 200 }, async (_, index) => {
        const server = both[index % 2] as LocalServer
        const name = index % 4 < 2 ? 'chat' : 'speak'
        return {
          name,
          server: index % 2,
          result: await server.call(
            name,
            name === 'chat' ? prompt(`${index}`) : { text: `Say ${index}.`, voice: 'talia' },
          ),
        }
      }),
    )
    const paid = results.filter(({ result }) => errorOf(result) === null)
    const refused = results.flatMap(({ result }) => errorOf(result) ?? [])
    expect(paid.length).toBeGreaterThan(0)
    expect(refused.length).toBeGreaterThan(100)
    expect(new Set(refused.map(({ code, money }) => `${code} ${money}`))).toEqual(new Set(['budget_exceeded none']))
    expect(refused.every(({ advice }) => advice.includes('farebox limits set '))).toBe(true)
    const charged = (those: typeof paid) =>
      those.reduce((sum, { result }) => {
        const { payment } = result.structuredContent as { readonly payment: { readonly charge_usdc: string } }
        return sum + parseUsdc(payment.charge_usdc)
      }, 0n)
    for (const index of [0, 1])
      expect(charged(paid.filter(({ server }) => server === index))).toBeLessThanOrEqual(price * 10n)
    expect(charged(paid.filter(({ name }) => name === 'chat'))).toBeLessThanOrEqual(price * 5n)
    expect(charged(paid)).toBe((await wallet.paid()) - before)
    expect(charged(paid)).toBeLessThanOrEqual(price * 17n)
  })

  it('a change holds at once for a server that runs, and an unusable file stops all payments', async () => {
    const server = await start()
    expect(errorOf(await server.call('chat', prompt('one')))).toBeNull()
    await setLimits({ tools: { chat: { call: '0.000001' } } })
    expect(errorOf(await server.call('chat', prompt('two')))).toMatchObject({
      code: 'budget_exceeded',
      money: 'none',
      advice: expect.stringMatching(/farebox limits set --tool chat --call 0\.\d+ --home \S+home$/) as string,
    })
    await setLimits({})
    expect(errorOf(await server.call('chat', prompt('two')))).toBeNull()
    await chmod(limitsPath(wallet.home), 0o644)
    const before = await wallet.paid()
    expect(errorOf(await server.call('chat', prompt('three')))).toMatchObject({
      code: 'limits_unusable',
      money: 'none',
    })
    await chmod(limitsPath(wallet.home), 0o600)
    expect(await wallet.paid()).toBe(before)
    expect(errorOf(await server.call('chat', prompt('three')))).toBeNull()
  })
})

describe.each(ERAS)('a call above confirm_above, with a client of %s', (era) => {
  const asked: unknown[] = []
  beforeEach(async () => {
    asked.splice(0)
    await setLimits({ confirmAbove: '0.000001' })
  })

  const startAnswering = async (answer: ElicitResult) => {
    const server = await start({ era, client: { capabilities: { elicitation: { form: {} } } } })
    server.client.setRequestHandler('elicitation/create', ({ params }) => {
      asked.push(params)
      return answer
    })
    return server
  }

  it('is paid for once when the person agrees, and its repetition asks nobody', async () => {
    const server = await startAnswering({ action: 'accept', content: { agree: true } })
    const first = await server.call('chat', prompt('hello'))
    expect(errorOf(first)).toBeNull()
    const once = await wallet.paid()
    expect(await server.call('chat', prompt('hello'))).toMatchObject({ content: first.content })
    expect([asked.length, await wallet.paid()]).toEqual([1, once])
    await server.call('chat', prompt('something else'))
    expect(asked).toHaveLength(2)
  })

  it('is not paid for when the person declines', async () => {
    const server = await startAnswering({ action: 'decline' })
    expect(errorOf(await server.call('chat', prompt('hello')))).toMatchObject({
      code: 'confirmation_declined',
      money: 'none',
    })
    expect(await wallet.paid()).toBe(0n)
  })

  it('is not paid for by a client that cannot ask, and says what the person runs', async () => {
    const server = await start({ era })
    const refused = errorOf(await server.call('chat', prompt('hello')))
    expect(refused).toMatchObject({ code: 'confirmation_required', money: 'none' })
    const [command = '', amount = ''] = /farebox limits set --confirm-above (\S+)/.exec(refused?.advice ?? '') ?? []
    expect(command).not.toBe('')
    await setLimits({ confirmAbove: amount })
    expect(errorOf(await server.call('chat', prompt('hello')))).toBeNull()
  })
})

function usdc(atomic: bigint): string {
  return `${atomic / 1_000_000n}.${(atomic % 1_000_000n).toString().padStart(6, '0')}`
}
