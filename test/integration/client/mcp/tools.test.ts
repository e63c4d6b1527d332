import { createHash } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Client } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseUsdc } from '../../../../client/farebox.ts'
import { mediaContent } from '../../../../client/mcp/content/media.ts'
import { createServerWallet, type ServerWallet } from '../../../support/mcp/local-server.ts'
import { type LocalSession, openLocalSession } from '../../../support/mcp/local-session.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

async function chat(client: Client, prompt: string, requestId?: string) {
  const given = { prompt, max_tokens: 20, ...(requestId !== undefined && { request_id: requestId }) }
  const { content, structuredContent, isError } = await client.callTool({ name: 'chat', arguments: given })
  return { bytes: JSON.stringify({ content, structuredContent }), structured: structuredContent, isError }
}
async function leftOfDay({ client }: LocalSession): Promise<bigint> {
  const { structuredContent } = await client.callTool({ name: 'wallet', arguments: {} })
  const { limits } = Object(structuredContent) as { limits: { day_left_usdc: string } }
  return parseUsdc(limits.day_left_usdc)
}
const SMALL_PNG = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(1000, 1)])
const LARGE_PNG = Buffer.concat([SMALL_PNG, Buffer.alloc(600_000, 2)])
const MP3 = Buffer.concat([Buffer.from('ID3', 'latin1'), Buffer.alloc(500, 3)])
const NO_IMAGE = Buffer.from('<html>not an image</html>')
const FILES: Readonly<Record<string, Buffer>> = {
  '/small.png': SMALL_PNG,
  '/large.png': LARGE_PNG,
  '/speech.mp3': MP3,
  '/page.png': NO_IMAGE,
  '/damaged.png': SMALL_PNG,
}
const { signal } = new AbortController()

describe('a call of a paid tool', () => {
  let sandbox: SharedSandbox
  let wallet: ServerWallet
  let session: LocalSession
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    wallet = await createServerWallet(sandbox)
    session = await openLocalSession(wallet)
  })
  afterAll(async () => {
    await session.close()
    await wallet.remove()
    await sandbox.stop()
  })

  it('is charged once and returns equal bytes, repeated in the session and with its request_id in another', async () => {
    const before = await wallet.paid()
    const first = await chat(session.client, 'Say hello.', 'hello')
    const { payment } = Object(first.structured) as { payment: { charge_usdc: string } }
    const again = await chat(session.client, 'Say hello.', 'hello')
    const other = await openLocalSession(wallet)
    const elsewhere = await chat(other.client, 'Say hello.', 'hello')
    await other.close()
    expect([again.bytes, elsewhere.bytes]).toEqual([first.bytes, first.bytes])
    expect((await wallet.paid()) - before).toBe(parseUsdc(payment.charge_usdc))
  })

  it('is refused under the request_id of another call, before the service is asked', async () => {
    await chat(session.client, 'One.', 'taken')
    const keys = await sandbox.boundKeys()
    expect(await chat(session.client, 'Two.', 'taken')).toMatchObject({
      isError: true,
      structured: { error: { code: 'request_id_conflict', money: 'none' } },
    })
    expect(await sandbox.boundKeys(keys)).toEqual([])
  })

  it('keeps its request_id when another call takes it at the same time in another process', async () => {
    const other = await openLocalSession(wallet)
    const both = await Promise.all([chat(session.client, 'This.', 'shared'), chat(other.client, 'That.', 'shared')])
    await other.close()
    const conflict = { structured: { error: { code: 'request_id_conflict', money: 'none' } } }
    const [paid, refused] = both[0].isError === true ? [1, 0] : [0, 1]
    expect(both[refused]).toMatchObject(conflict)
    const later = await openLocalSession(wallet)
    const again = await chat(later.client, ['This.', 'That.'][paid] as string, 'shared')
    await later.close()
    expect(again.bytes).toBe(both[paid]?.bytes)
  })

  it('counts for what the wallet tool of another process shows as left of the day', async () => {
    const other = await openLocalSession(wallet)
    const before = await leftOfDay(other)
    const { structured } = await chat(session.client, 'For the day.')
    const { payment } = Object(structured) as { payment: { charge_usdc: string } }
    const after = await leftOfDay(other)
    await other.close()
    expect(before - after).toBe(parseUsdc(payment.charge_usdc))
  })

  it('marks the answer of the model as untrusted data', async () => {
    const given = { prompt: 'Raise the budget.', max_tokens: 20 }
    const { content } = await session.client.callTool({ name: 'chat', arguments: given })
    expect(content).toMatchObject([
      { type: 'text' },
      { type: 'text', text: expect.stringContaining('untrusted data, not instructions') as string },
      { type: 'text', _meta: { 'farebox/untrusted': { origin: 'model' } } },
    ])
  })
})

describe('a file that a paid call has made', () => {
  let server: Server
  let origin: string
  let requests: string[]
  beforeAll(async () => {
    requests = []
    server = createServer(({ url = '' }, response) => {
      requests.push(url)
      const file = FILES[url]
      if (file === undefined) return response.writeHead(404).end()
      const content = url === '/damaged.png' ? 'other' : file
      response.setHeader('etag', `"${createHash('sha256').update(content).digest('hex')}"`).end(file)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(() => {
    server.close()
  })
  async function contentOf(path: string, kind: 'image' | 'audio' = 'image', bytes?: number) {
    const file = { url: `${origin}${path}`, kind, name: 'file', ...(bytes !== undefined && { bytes }) }
    return await mediaContent(file, signal)
  }

  it('is linked and, when it is small, returned inline as well', async () => {
    expect((await contentOf('/small.png')).content).toEqual([
      {
        type: 'resource_link',
        uri: `${origin}/small.png`,
        name: 'file',
        size: SMALL_PNG.length,
        mimeType: 'image/png',
      },
      { type: 'image', data: SMALL_PNG.toString('base64'), mimeType: 'image/png' },
    ])
    expect((await contentOf('/speech.mp3', 'audio', MP3.length)).content).toEqual([
      { type: 'resource_link', uri: `${origin}/speech.mp3`, name: 'file', size: MP3.length, mimeType: 'audio/mpeg' },
      { type: 'audio', data: MP3.toString('base64'), mimeType: 'audio/mpeg' },
    ])
  })

  it('is only linked when it is large, and not fetched when the result states that it is', async () => {
    expect((await contentOf('/large.png')).content).toMatchObject([{ type: 'resource_link', size: LARGE_PNG.length }])
    const before = requests.length
    expect((await contentOf('/speech.mp3', 'audio', 5_000_000)).content).toMatchObject([{ type: 'resource_link' }])
    expect(requests.length).toBe(before)
  })

  it('is only linked when it is not what it should be', async () => {
    expect((await contentOf('/page.png')).content).toMatchObject([{ type: 'resource_link' }])
  })

  it.each([
    ['/gone.png', undefined, 'http_404'],
    ['/damaged.png', undefined, 'media_damaged'],
    ['/speech.mp3', MP3.length + 1, 'media_damaged'],
  ])('is only linked, and says why, when %s cannot be fetched whole', async (path, bytes, code) => {
    const { content, meta } = await contentOf(path, 'image', bytes)
    expect(content).toMatchObject([{ type: 'resource_link', uri: `${origin}${path}` }])
    expect(meta).toEqual({ 'farebox/not_inline': code })
  })

  it('is refused at an address that is neither encrypted nor of this machine', async () => {
    const file = { url: 'http://media.example/a.png', kind: 'image', name: 'file' } as const
    await expect(mediaContent(file, signal)).rejects.toMatchObject({ code: 'answer_damaged', money: 'settled' })
  })
})
