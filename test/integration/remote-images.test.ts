import type { lookup } from 'node:dns'
import type { RequestListener } from 'node:http'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import { createImageFetcher, type ImageNetwork, isPublicAddress } from '../../workers/executions/fetch-remote-image.ts'
import { CERTIFICATE, type ImageServer, startImageServer } from '../support/http/image-server.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { gifHead, jpegHead, pngHead, webpHead } from '../unit/operations/sample-images.ts'

/** This loopback address represents the public internet; all others are private. */
const PUBLIC = '127.0.0.2'
const PRIVATE = '127.0.0.3'
const LIMIT = 10 * 1024 * 1024
const PNG = pngHead(64, 32)
let server: ImageServer
beforeAll(async () => {
  server = await startImageServer()
})
beforeEach(() => server.clear())
afterAll(() => server.stop())
type Addresses = readonly string[]
/** Creates a name server that returns its answers in turn and then repeats the last; `asked` lists the names. */
function nameServer(...answers: readonly Addresses[]) {
  const asked: string[] = []
  const resolveName = ((name: string, _: unknown, callback: (error: null, addresses: unknown) => void) => {
    const addresses = answers[Math.min(asked.length, answers.length - 1)] ?? []
    asked.push(name)
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    )
  }) as unknown as typeof lookup
  return { asked, resolveName }
}
function fetcher(changes: Partial<ImageNetwork> = {}) {
  const { resolveName } = nameServer([PUBLIC])
  return createImageFetcher({
    isAllowed: (address) => address === PUBLIC,
    resolveName,
    ca: CERTIFICATE,
    timeoutMs: PATIENCE_MS,
    ...changes,
  })
}
const at = (path: string, host = 'images.test') => `https://${host}:${server.port}${path}`
const list = (words: string) => words.trim().split(/\s+/)
/** Returns the error message for the caller. Fails when the image is fetched or another error is thrown. */
async function refusalOf(url: string, changes: Partial<ImageNetwork> = {}): Promise<string> {
  const error: unknown = await fetcher(changes)
    .fetch(url)
    .then(
      () => 'fetched',
      (thrown: unknown) => thrown,
    )
  if (!(error instanceof AppError)) throw new Error(`expected an AppError, got ${String(error)}`)
  expect([error.code, error.entry.status, error.entry.payment]).toEqual(['image_unavailable', 400, 'none'])
  expect(error.message).toMatch(/^An image of the request cannot be used: .+\. Nothing was charged\.$/)
  return error.message
}
const send =
  (bytes: Uint8Array, headers: Record<string, string> = {}): RequestListener =>
  (_, response) =>
    response.writeHead(200, headers).end(bytes)
const redirect =
  (location: string, status = 302): RequestListener =>
  (_, response) =>
    // Latin-1 keeps the bytes unchanged: a server may send UTF-8 here.
    response.writeHead(status, { location: Buffer.from(location).toString('latin1') }).end('moved')
/** Redirects from `/0` to `/1` and so on; the image is at `/${last}`. */
const chain =
  (last: number): RequestListener =>
  (request, response) => {
    const step = Number(request.url?.slice(1))
    if (step === last) response.end(PNG)
    else redirect(`/${step + 1}`)(request, response)
  }
/** Spellings that the URL standard normalizes to a private address. */
const PRIVATE_SPELLINGS = list(`
  127.0.0.3 127.0.0.3. 2130706435 0x7f000003 0x7f.0.0.3 0177.0.0.3 017700000003 127.3 127.0.3 0x7F.3 １２７.0.0.3
  127。0。0。3 [::1] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.3] [::FFFF:7f00:3] [::127.0.0.3] [64:ff9b::127.0.0.3] [::] 0.0.0.0
  0 localhost localhost. LOCALHOST
`)

describe('a remote image at a public https URL', () => {
  it.each([
    ['PNG', PNG, 'image/png'],
    ['JPEG', jpegHead(10, 20), 'image/jpeg'],
    ['GIF', gifHead, 'image/gif'],
    ['WebP', webpHead, 'image/webp'],
  ] as const)('fetches an image and detects from its bytes that it is a %s', async (_, bytes, mediaType) => {
    server.answerWith(send(bytes, { 'content-type': 'text/html' }))
    const image = await fetcher().fetch(at('/a.png?size=large'))
    expect([image.mediaType, Buffer.from(image.bytes).equals(bytes)]).toEqual([mediaType, true])
    expect(server.requests).toEqual([`${PUBLIC}/a.png?size=large`])
  })

  it('sends no cookie, key or referrer when it fetches an image', async () => {
    let names: string[] = []
    server.answerWith((request, response) => {
      names = Object.keys(request.headers)
      response.end(PNG)
    })
    await fetcher().fetch(at('/'))
    for (const name of ['authorization', 'cookie', 'referer', 'x-api-key']) expect(names).not.toContain(name)
  })

  it.each([301, 302, 303, 307, 308])('follows a %s redirect and resolves the new name', async (status) => {
    const { asked, resolveName } = nameServer([PUBLIC])
    server.answerWith((request, response) => {
      if (request.url === '/image') response.end(PNG)
      else redirect(at('/image', 'other.test'), status)(request, response)
    })
    await fetcher({ resolveName }).fetch(at('/start'))
    expect(asked).toEqual(['images.test', 'other.test'])
    expect(server.requests).toEqual([`${PUBLIC}/start`, `${PUBLIC}/image`])
  })

  it('follows at most three redirects, relative ones included', async () => {
    server.answerWith(chain(3))
    await fetcher().fetch(at('/0'))
    server.answerWith(chain(4))
    expect(await refusalOf(at('/0'))).toContain('redirects more than 3 times')
    expect(server.requests.filter((request) => request === `${PUBLIC}/4`)).toEqual([])
  })

  it('accepts an image of exactly the maximum size', async () => {
    const largest = Buffer.concat([PNG, Buffer.alloc(LIMIT - PNG.length)])
    server.answerWith(send(largest))
    expect((await fetcher().fetch(at('/'))).bytes).toHaveLength(LIMIT)
  })
})

describe('rejected remote images', () => {
  it.each([
    [
      'an image of one byte more than the maximum',
      () => send(Buffer.concat([PNG, Buffer.alloc(LIMIT + 1 - PNG.length)])),
    ],
    [
      'a compression bomb',
      () => send(gzipSync(Buffer.concat([PNG, Buffer.alloc(4 * LIMIT)])), { 'content-encoding': 'gzip' }),
    ],
    [
      'a body without an end',
      (): RequestListener => (_, response) => {
        const more = () => {
          while (!response.destroyed && response.write(Buffer.alloc(65_536)));
          if (!response.destroyed) response.once('drain', more)
        }
        response.writeHead(200)
        more()
      },
    ],
  ])('rejects %s as too large', async (_, listener) => {
    server.answerWith(listener())
    expect(await refusalOf(at('/'))).toContain(`larger than ${LIMIT.toLocaleString('en')} bytes`)
  })

  it.each([
    ['a page', Buffer.from('<!doctype html><img src=x>')],
    ['an SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')],
    ['an empty body', Buffer.alloc(0)],
  ])('rejects %s, regardless of its content type', async (_, bytes) => {
    server.answerWith(send(bytes, { 'content-type': 'image/png' }))
    expect(await refusalOf(at('/'))).toContain('not a PNG, JPEG, WebP or GIF')
  })

  it.each([201, 204, 206, 304, 400, 401, 404, 500])('rejects a response with status %s', async (status) => {
    server.answerWith((_, response) => response.writeHead(status).end(status === 204 || status === 304 ? '' : PNG))
    expect(await refusalOf(at('/'))).toContain(`responded with status ${status}`)
  })

  const HANGING = { timeoutMs: 600 }
  const breaks: readonly (readonly [string, Partial<ImageNetwork>, RequestListener])[] = [
    ['resets the connection before its response', {}, (request) => request.socket.destroy()],
    [
      'resets the connection within the body',
      {},
      (request, response) => {
        response.writeHead(200, { 'content-length': '1000' })
        response.write(PNG, () => request.socket.destroy())
      },
    ],
    ['never answers', HANGING, () => undefined],
    [
      'never ends its body',
      HANGING,
      (_, response) => {
        response.writeHead(200)
        response.write(PNG)
      },
    ],
    // Each redirect is within the timeout, but all four together are not.
    [
      'is slow with each of several redirects',
      HANGING,
      (_, response) => {
        setTimeout(() => response.writeHead(302, { location: '/again' }).end(), 250)
      },
    ],
  ]
  it.each(breaks)('rejects an image whose server %s', async (_, limits, listener) => {
    server.answerWith(listener)
    expect(await refusalOf(at('/'), limits)).toMatch(/could not be (fetched|read completely)/)
  })

  it('rejects an image whose server has an untrusted certificate or one for another name', async () => {
    server.answerWith(send(PNG))
    const unknownAuthority = createImageFetcher({
      isAllowed: () => true,
      resolveName: nameServer([PUBLIC]).resolveName,
    })
    await expect(unknownAuthority.fetch(at('/'))).rejects.toThrow('could not be fetched')
    await refusalOf(at('/', 'third.test'))
    expect(server.requests).toEqual([])
  })

  it.each(['http:', 'ftp:', 'file:', 'data:', 'ws:'])('rejects a redirect to %s', async (protocol) => {
    server.answerWith(redirect(protocol === 'data:' ? 'data:image/png;base64,AAAA' : `${protocol}//images.test/x.png`))
    expect(await refusalOf(at('/'))).toContain('only https')
  })

  it.each(['https://[', 'https://', 'https://a b/', 'https://999.1.1.1/'])(
    'rejects a redirect to an invalid URL: %s',
    async (location) => {
      server.answerWith(redirect(location))
      expect(await refusalOf(at('/'))).toContain('URL is not valid')
    },
  )

  it.each(['http://images.test/a.png', 'ftp://images.test/a.png', 'file:///etc/passwd', 'not an address'])(
    'rejects the image URL %s without connecting',
    async (url) => {
      await refusalOf(url)
      expect(server.connections).toEqual([])
    },
  )

  it.each(['user@', 'user:password@', ':password@', 'images.test@'])(
    'rejects an image URL with the userinfo %s',
    async (userinfo) => {
      server.answerWith(send(PNG))
      await refusalOf(`https://${userinfo}images.test:${server.port}/`)
      expect(server.connections).toEqual([])
    },
  )

  it('reports a private address and a refused connection with the same message', async () => {
    server.answerWith(send(PNG))
    const refused = await refusalOf(at('/'), { resolveName: nameServer([PRIVATE]).resolveName })
    const notListening = await refusalOf('https://images.test:9443/', {
      resolveName: nameServer([PUBLIC]).resolveName,
    })
    expect(refused).toBe(notListening)
    expect(refused).not.toContain('127.')
  })
})

describe('a private address', () => {
  it.each(PRIVATE_SPELLINGS)('never connects to a private address, spelled %s', async (host) => {
    server.answerWith(send(PNG))
    const network = { isAllowed: isPublicAddress, resolveName: nameServer(['127.0.0.1', '::1']).resolveName }
    await refusalOf(at('/', host), network)
    expect(server.connections).toEqual([])
  })

  it.each(PRIVATE_SPELLINGS)('never connects to a private address by a redirect, spelled %s', async (host) => {
    server.answerWith(redirect(at('/inner', host)))
    const isAllowed = (address: string) => address === PUBLIC || isPublicAddress(address)
    const { resolveName } = nameServer([PUBLIC], ['127.0.0.1', '::1'])
    await refusalOf(at('/'), { isAllowed, resolveName })
    expect(server.connections).toEqual([PUBLIC])
  })

  it('rejects a name that resolves to both public and private addresses', async () => {
    server.answerWith(send(PNG))
    for (const addresses of [
      [PRIVATE, PUBLIC],
      [PUBLIC, PRIVATE],
    ])
      await refusalOf(at('/'), { resolveName: nameServer(addresses).resolveName })
    expect(server.connections).toEqual([])
  })

  it('rejects a name that resolves to no address', async () => {
    await refusalOf(at('/'), { resolveName: nameServer([]).resolveName })
  })
})

describe('a name whose addresses change (DNS rebinding)', () => {
  it('resolves a name once for each connection, and connects to the address that it checked', async () => {
    const { asked, resolveName } = nameServer([PUBLIC], [PRIVATE])
    const checked: string[] = []
    const isAllowed = (address: string) => {
      checked.push(address)
      return address === PUBLIC
    }
    server.answerWith(send(PNG))
    await fetcher({ resolveName, isAllowed }).fetch(at('/'))
    expect([asked, checked, server.connections]).toEqual([['images.test'], [PUBLIC], [PUBLIC]])
  })

  it('checks the address again for a second connection to the same name', async () => {
    const { asked, resolveName } = nameServer([PUBLIC], [PRIVATE])
    server.answerWith((_, response) => response.writeHead(302, { location: '/inner', connection: 'close' }).end())
    await refusalOf(at('/'), { resolveName })
    expect(asked).toEqual(['images.test', 'images.test'])
    expect(server.connections).toEqual([PUBLIC])
  })
})

describe('isPublicAddress', () => {
  it.each(
    list(`
      1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255
      169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255
      198.20.0.0 223.255.255.255 2001:200::1 2001:4860:4860::8888 2003::1 2606:4700:4700::1111 2a00:1450::1 2000::1
    `),
  )('isPublicAddress accepts %s', (address) => expect(isPublicAddress(address)).toBe(true))

  it.each(
    [
      // This network, private, shared, loopback, link-local (and cloud metadata), assignments, tests, benchmarks, 6to4
      // relays.
      list(`
      0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.0 127.255.255.255 169.254.0.0
      169.254.169.254 169.254.255.255 172.16.0.0 172.31.255.255 192.0.0.0 192.0.0.255 192.0.2.0 192.0.2.255 192.88.99.1
      192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.7 203.0.113.7 224.0.0.1 239.255.255.255
      240.0.0.1 255.255.255.255
    `),
      // Unspecified, loopback, IPv4 in its mapped, compatible, translated and NAT64 forms.
      list(`
      :: ::1 ::2 ::ffff:10.0.0.1 ::ffff:7f00:1 ::ffff:8.8.8.8 ::127.0.0.1 ::ffff:0:127.0.0.1 64:ff9b::127.0.0.1
      64:ff9b::8.8.8.8 64:ff9b:1::1 100::1 100:0:0:1::1
    `),
      // Teredo, ORCHID, benchmarks, documentation, 6to4, segment routing, unique local, link-local, site-local,
      // multicast.
      list(`
      2001::1 2001:2::1 2001:10::1 2001:20::1 2001:1ff:ffff::1 2001:db8::1 2002:7f00:1::1 2002:808:808::1 3fff::1
      3fff:fff::1 5f00::1 fc00::1 fd12:3456::1 fe80::1 fe80::1%lo fec0::1 ff02::1 ff0e::1 4000::1 8000::1
    `),
      // No addresses at all.
      list(`
      localhost 1.2.3 256.1.1.1 1.1.1.1. [::1] 0x7f000001
    `),
      [''],
    ].flat(),
  )('isPublicAddress rejects %j', (address) => expect(isPublicAddress(address)).toBe(false))
})
