import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FetchedRecordings } from '../../../../../client/mcp/folders/fetch-recording.ts'

const CONTENT = Buffer.from('a recording')
const LIMITS = { maximumBytes: 1000, maximumMs: 60_000, maximumKeptBytes: 1500 }

let server: Server
let answer: RequestListener
let requests: { readonly url: string; readonly headers: Readonly<Record<string, unknown>> }[]
let open: FetchedRecordings[]

beforeEach(async () => {
  requests = []
  open = []
  answer = (_, response) => response.end(CONTENT)
  server = createServer((request, response) => {
    requests.push({ url: request.url ?? '', headers: request.headers })
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})
afterEach(async () => {
  for (const each of open) await each.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const urlOf = (path: string, host = '127.0.0.1') => `http://${host}:${(server.address() as AddressInfo).port}${path}`

/** Returns the recordings of a session whose URLs may lead to this machine, where the server of the test is. */
function recordings(isAllowed = true, limits = LIMITS): FetchedRecordings {
  const one = new FetchedRecordings(isAllowed, limits)
  open.push(one)
  return one
}

const signal = AbortSignal.timeout(300_000)

describe('a URL', () => {
  it('is fetched into a private file with its hash, by a request without credentials and cookies', async () => {
    const fetched = await recordings().fetch(urlOf('/talks/a.MP3?part=1'), { signal })
    expect(await readFile(fetched.path)).toEqual(CONTENT)
    expect(fetched).toMatchObject({
      bytes: CONTENT.length,
      sha256: createHash('sha256').update(CONTENT).digest('hex'),
      path: expect.stringMatching(/\.mp3$/),
    })
    expect((await stat(dirname(fetched.path))).mode & 0o777).toBe(0o700)
    expect(Object.keys(requests[0]?.headers ?? {}).sort()).toEqual(['accept', 'accept-encoding', 'connection', 'host'])
  })

  it('is fetched once in a session, also by calls at the same time, and again after a failure', async () => {
    const session = recordings()
    answer = (_, response) => response.writeHead(503).end()
    await expect(session.fetch(urlOf('/a.mp3'), { signal })).rejects.toMatchObject({ code: 'fetch_failed' })
    answer = (_, response) => response.end(CONTENT)
    const both = [session.fetch(urlOf('/a.mp3'), { signal }), session.fetch(urlOf('/a.mp3'), { signal })]
    const [first, second] = await Promise.all(both)
    answer = (_, response) => response.end('another recording')
    const later = await session.fetch(urlOf('/a.mp3'), { signal })
    expect(requests).toHaveLength(2)
    expect(second).toEqual(first)
    expect(later).toEqual(first)
  })

  it('is kept apart from others that are fetched at the same time', async () => {
    const session = recordings()
    answer = ({ url }, response) => response.end(url)
    const paths = ['/a', '/b', '/c']
    const fetched = await Promise.all(paths.map((path) => session.fetch(urlOf(path), { signal })))
    expect(await Promise.all(fetched.map(({ path }) => readFile(path, 'utf8')))).toEqual(paths)
  })

  it('counts for what a session keeps while it arrives, next to others at the same time', async () => {
    const session = recordings()
    const begun = new Set<string>()
    const waiting: (() => void)[] = []
    answer = (_, response) => {
      response.write('.')
      waiting.push(() => response.end(Buffer.alloc(899)))
    }
    const fetched = await Promise.allSettled(
      ['/a', '/b', '/c'].map((path) => {
        const onProgress = () => {
          begun.add(path)
          // The rest arrives when none of them can see that there is no room for all.
          if (begun.size === 3) for (const send of waiting.splice(0)) send()
        }
        return session.fetch(urlOf(path), { signal, onProgress })
      }),
    )
    expect(fetched.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(1)
    // What was refused takes no room.
    answer = (_, response) => response.end(Buffer.alloc(600))
    await expect(session.fetch(urlOf('/d'), { signal })).resolves.toMatchObject({ bytes: 600 })
  })

  it('is removed from the disk with the session', async () => {
    const session = recordings()
    const { path } = await session.fetch(urlOf('/a.mp3'), { signal })
    await session.close()
    await expect(stat(dirname(path))).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it.each([
    ['of another scheme', () => 'file:///etc/passwd'],
    ['of another scheme that fetch knows', () => 'data:audio/mpeg;base64,AAAA'],
    ['with a name and a password', () => urlOf('/a.mp3').replace('http://', 'http://user:password@')],
    ['that cannot be read', () => 'https://'],
    ['that is relative', () => '/a.mp3'],
  ])('%s is refused without a request', async (_, url) => {
    await expect(recordings().fetch(url(), { signal })).rejects.toMatchObject({
      code: 'url_not_allowed',
      money: 'none',
    })
    expect(requests).toEqual([])
  })

  it.each([
    ['an address of this machine', () => urlOf('/a.mp3')],
    ['such an address as a number', () => urlOf('/a.mp3', '2130706433')],
    ['such an address in another notation', () => urlOf('/a.mp3', '0x7f.1')],
    ['such an address in IPv6', () => urlOf('/a.mp3', '[::ffff:127.0.0.1]')],
    ['a name of this machine', () => urlOf('/a.mp3', 'localhost')],
    ['an address of a private network', () => 'http://10.0.0.1/a.mp3'],
    ['a link-local address, such as that of a cloud’s metadata', () => 'http://169.254.169.254/latest/meta-data/'],
    ['a link-local address in IPv6', () => 'http://[fe80::1]/a.mp3'],
  ])('that leads to %s is refused without a connection', async (_, url) => {
    const refused = recordings(false).fetch(url(), { signal })
    await expect(refused).rejects.toMatchObject({ code: 'address_not_allowed', money: 'none' })
    await expect(refused).rejects.toThrow(/--allow-private-addresses/)
    expect(requests).toEqual([])
  })

  it('may redirect, a few times, and each address is checked', async () => {
    answer = ({ url = '' }, response) => {
      const left = Number(url.slice(1))
      if (left > 0) response.writeHead(302, { location: `/${left - 1}` }).end()
      else response.end(CONTENT)
    }
    expect((await recordings().fetch(urlOf('/5'), { signal })).bytes).toBe(CONTENT.length)
    await expect(recordings().fetch(urlOf('/6'), { signal })).rejects.toMatchObject({ code: 'fetch_failed' })
    answer = (_, response) => response.writeHead(307, { location: 'file:///etc/passwd' }).end()
    await expect(recordings().fetch(urlOf('/'), { signal })).rejects.toMatchObject({ code: 'url_not_allowed' })
  })

  it('is given up when it is larger than allowed, whether or not its server says so', async () => {
    answer = (_, response) => response.writeHead(200, { 'content-length': 1001 }).write('a')
    await expect(recordings().fetch(urlOf('/a'), { signal })).rejects.toMatchObject({ code: 'recording_too_large' })
    answer = (_, response) => {
      const timer = setInterval(() => response.write(Buffer.alloc(100)), 1)
      response.once('close', () => clearInterval(timer))
    }
    await expect(recordings().fetch(urlOf('/b'), { signal })).rejects.toMatchObject({ code: 'recording_too_large' })
  })

  it('counts towards what is kept in a session', async () => {
    const session = recordings()
    answer = (_, response) => response.end(Buffer.alloc(800))
    await session.fetch(urlOf('/a'), { signal })
    await expect(session.fetch(urlOf('/b'), { signal })).rejects.toMatchObject({ code: 'recording_too_large' })
  })

  it('is given up when its server is too slow, breaks off, or the call is cancelled', async () => {
    answer = (_, response) => void response.writeHead(200).write('a')
    const slow = recordings(true, { ...LIMITS, maximumMs: 100 }).fetch(urlOf('/a'), { signal })
    await expect(slow).rejects.toMatchObject({ code: 'fetch_failed' })
    answer = (_, response) => {
      response.writeHead(200, { 'content-length': 100 }).write('a')
      response.socket?.end()
    }
    await expect(recordings().fetch(urlOf('/b'), { signal })).rejects.toMatchObject({ code: 'fetch_failed' })
    const cancel = new AbortController()
    answer = () => cancel.abort()
    await expect(recordings().fetch(urlOf('/c'), { signal: cancel.signal })).rejects.toThrow(/aborted/)
  })
})
