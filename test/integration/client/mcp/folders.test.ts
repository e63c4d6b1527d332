import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FetchedRecordings } from '../../../../client/mcp/folders/fetch-recording.ts'
import { OpenFolder } from '../../../../client/mcp/folders/open-folder.ts'
import { type Folders, openFolders } from '../../../../client/mcp/folders/open-folders.ts'
import { runProgram } from '../../../support/processes/run-program.ts'

const CANARY = 'only outside'
function measured(path: string, content: string) {
  return [{ path, sha256: createHash('sha256').update(content).digest('hex') }]
}
const CONTENT = Buffer.from('a recording')
const LIMITS = { maximumBytes: 1000, maximumMs: 60_000, maximumKeptBytes: 1500 }
const signal = AbortSignal.timeout(300_000)

describe('folders that an agent may use', () => {
  let place: string
  let allowed: string
  let outside: string
  let home: string
  let folders: Folders
  beforeEach(async () => {
    place = await realpath(await mkdtemp(join(tmpdir(), 'farebox-folders-')))
    ;[allowed, outside, home] = [join(place, 'allowed'), join(place, 'outside'), join(place, 'home')] as const
    for (const folder of [allowed, outside, home]) await mkdir(folder)
    await mkdir(join(allowed, 'spring'))
    await writeFile(join(allowed, 'spring', 'a.mp3'), 'inside')
    await writeFile(join(outside, 'secret.mp3'), CANARY)
    folders = await openFolders({ folders: [allowed], hidden: [home] })
  })

  afterEach(async () => {
    await folders.close()
    await rm(place, { recursive: true, force: true })
  })

  /** Returns what a tool can read at a path. */
  async function read(path: string): Promise<string> {
    const { handle } = await folders.open(path)
    try {
      return await text(handle.createReadStream({ autoClose: false }))
    } finally {
      await handle.close()
    }
  }
  describe('the folders that are allowed', () => {
    it.each([
      ['a folder that holds the files of farebox', () => [place]],
      ['the folder of farebox itself', () => [home]],
      ['a folder in that of farebox', () => [join(home, 'batch')]],
      ['a link to a folder that holds the files of farebox', () => [join(outside, 'link')]],
    ])('do not include %s: the server does not start', async (_, named) => {
      await mkdir(join(home, 'batch'))
      await symlink(place, join(outside, 'link'))
      const opening = openFolders({ folders: named(), hidden: [join(home, 'limits', 'limits.json'), home] })
      await expect(opening).rejects.toMatchObject({ code: 'folder_not_allowed', money: 'none' })
    })

    it('include none that does not exist or is a file', async () => {
      for (const folder of [join(place, 'nothing'), join(outside, 'secret.mp3')])
        await expect(openFolders({ folders: [folder], hidden: [] })).rejects.toMatchObject({ code: 'folder_missing' })
    })

    it('are none by default, and the refusal says how a person allows one', async () => {
      const none = await openFolders({ folders: [], hidden: [] })
      await expect(none.find(join(allowed, 'spring'))).rejects.toThrow(/farebox mcp FOLDER/)
    })
  })

  describe('a path of a tool', () => {
    it('names a file in an allowed folder, absolute or from there', async () => {
      expect(await read(join(allowed, 'spring', 'a.mp3'))).toBe('inside')
      expect(await read('spring/a.mp3')).toBe('inside')
      expect(await read('./spring/../spring/a.mp3')).toBe('inside')
    })

    it('may be a link to a place in an allowed folder', async () => {
      await symlink(join(allowed, 'spring'), join(allowed, 'latest'))
      expect(await read('latest/a.mp3')).toBe('inside')
    })

    it.each([
      ['a file elsewhere', () => join(outside, 'secret.mp3')],
      ['a file elsewhere by a relative path', () => '../outside/secret.mp3'],
      ['what does not exist elsewhere', () => join(outside, 'nothing.mp3')],
      ['a folder whose name begins like that of an allowed one', () => `${allowed}-other/secret.mp3`],
      ['a link to a file elsewhere', () => 'link.mp3'],
      ['a file behind a link to a folder elsewhere', () => 'linked/secret.mp3'],
      ['a file behind a link to a link elsewhere', () => 'chain/secret.mp3'],
      ['a hidden file', () => '.hidden.mp3'],
      ['a file in a hidden folder', () => '.git/a.mp3'],
      ['a name with a NUL', () => 'spring/a.mp3\0.txt'],
      ['nothing', () => ''],
    ])('is refused when it leads to %s', async (_, named) => {
      await mkdir(`${allowed}-other`)
      await writeFile(`${allowed}-other/secret.mp3`, CANARY)
      await symlink(join(outside, 'secret.mp3'), join(allowed, 'link.mp3'))
      await symlink(outside, join(allowed, 'linked'))
      await symlink(join(allowed, 'linked'), join(allowed, 'chain'))
      await mkdir(join(allowed, '.git'))
      for (const hidden of ['.hidden.mp3', '.git/a.mp3']) await writeFile(join(allowed, hidden), 'hidden')
      await expect(folders.open(named())).rejects.toMatchObject({ code: 'path_not_allowed', money: 'none' })
      await expect(folders.find(named())).rejects.toMatchObject({ code: 'path_not_allowed' })
    })

    it('cannot tell an existing file elsewhere from a missing one', async () => {
      const texts = ['secret.mp3', 'nothing.mp3'].map(async (name) => {
        const error = await folders.open(join(outside, name)).catch((refusal: Error) => refusal)
        return (error as Error).message.replaceAll(name, 'NAME')
      })
      expect(await texts[0]).toBe(await texts[1])
    })

    it('is reported as missing in an allowed folder, and a folder or a pipe is no file', async () => {
      await expect(folders.open('spring/b.mp3')).rejects.toMatchObject({ code: 'file_missing' })
      await expect(folders.open('spring')).rejects.toMatchObject({ code: 'not_a_file' })
      await runProgram('mkfifo', [join(allowed, 'pipe.mp3')])
      await expect(folders.open('pipe.mp3')).rejects.toMatchObject({ code: 'not_a_file' })
    })
  })

  describe('a folder of recordings', () => {
    it('is listed without what is hidden, no recording, or leads elsewhere, which is counted', async () => {
      await mkdir(join(allowed, '.hidden'))
      for (const name of ['.b.mp3', '.hidden/c.mp3', 'notes.txt', 'd.wav']) await writeFile(join(allowed, name), 'x')
      await symlink(join(outside, 'secret.mp3'), join(allowed, 'link.mp3'))
      await symlink(outside, join(allowed, 'linked'))
      await symlink(join(allowed, 'spring'), join(allowed, 'within'))
      await symlink(allowed, join(allowed, 'spring', 'circle'))
      const { kind, sources, skipped } = await folders.find('.')
      expect(kind).toBe('folder')
      expect(sources.map(({ name }) => name)).toEqual(['d.wav', 'spring/a.mp3'])
      expect(sources.map(({ path }) => path)).toEqual([join(allowed, 'd.wav'), join(allowed, 'spring', 'a.mp3')])
      expect(skipped).toBe(2)
    })
  })

  describe('what was measured', () => {
    it('is accepted while it is the content of a file of an allowed folder', async () => {
      await folders.requireMeasured(measured(join(allowed, 'spring', 'a.mp3'), 'inside'))
    })

    it('is refused when the file has other content by then', async () => {
      const changed = folders.requireMeasured(measured(join(allowed, 'spring', 'a.mp3'), CANARY))
      await expect(changed).rejects.toMatchObject({ code: 'file_changed', money: 'none' })
    })

    it('is refused when a link that was put there led the measurement elsewhere', async () => {
      await rename(join(allowed, 'spring'), join(allowed, 'summer'))
      await symlink(outside, join(allowed, 'spring'))
      const followed = folders.requireMeasured(measured(join(allowed, 'spring', 'secret.mp3'), CANARY))
      await expect(followed).rejects.toMatchObject({ code: 'path_not_allowed' })
    })
  })

  describe('an open folder', () => {
    // Where a name in an open folder cannot be used, the change is noticed.
    it('stays the same, or is refused, when its path leads elsewhere', async () => {
      const open = await OpenFolder.open(allowed, ['spring'])
      await rename(join(allowed, 'spring'), join(allowed, 'summer'))
      await symlink(outside, join(allowed, 'spring'))
      await writeFile(join(outside, 'a.mp3'), CANARY)
      const opened = await open.file('a.mp3').then(
        async (handle) => {
          const content = await handle.readFile('utf8')
          await handle.close()
          return content
        },
        () => 'refused',
      )
      expect(opened).toBe(process.platform === 'linux' ? 'inside' : 'refused')
      await open.close()
    })

    it('opens no link, neither as a folder nor as a file', async () => {
      await symlink(join(allowed, 'spring'), join(allowed, 'linked'))
      await symlink(join(allowed, 'spring', 'a.mp3'), join(allowed, 'link.mp3'))
      await expect(OpenFolder.open(allowed, ['linked'])).rejects.toMatchObject({ syscall: 'open' })
      const open = await OpenFolder.open(allowed, [])
      await expect(open.file('link.mp3')).rejects.toMatchObject({ code: 'ELOOP' })
      await open.close()
    })

    // Elsewhere, names in an open folder cannot be used.
    it.runIf(process.platform === 'linux')(
      'never leads elsewhere while another process replaces folders by links',
      async () => {
        await writeFile(join(outside, 'a.mp3'), CANARY)
        const worker = new Worker(fileURLToPath(new URL('../../../support/client/swap-folder.ts', import.meta.url)), {
          workerData: { folder: join(allowed, 'spring'), outside },
        })
        const ended = once(worker, 'exit')
        await once(worker, 'message')
        const seen = new Set<string>()
        for (let count = 0; count < 150; count += 1) {
          seen.add(await read('spring/a.mp3').catch(() => 'refused'))
          const { sources } = await folders.find('.').catch(() => ({ sources: [] }))
          for (const { path } of sources) seen.add(path)
          await folders.output.write(join(allowed, 'spring', 'b.txt'), 'transcript').catch(() => undefined)
        }
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
        worker.postMessage('stop')
        await ended
        expect(seen).not.toContain(CANARY)
        expect([...seen].filter((path) => path.startsWith(outside))).toEqual([])
        expect(await readdir(outside)).toEqual(['a.mp3', 'secret.mp3'])
      },
    )
  })

  describe('transcripts', () => {
    it('are written into an allowed folder, which is created', async () => {
      const folder = await folders.outputFolder('transcripts/spring')
      expect(folder).toBe(join(allowed, 'transcripts', 'spring'))
      await folders.output.requireWritable([join(folder, 'a.txt')])
      await folders.output.write(join(folder, 'a.txt'), 'text')
      expect(await readFile(join(folder, 'a.txt'), 'utf8')).toBe('text')
      expect(await readdir(folder)).toEqual(['a.txt'])
    })

    it.each([
      ['elsewhere', () => join(outside, 'transcripts')],
      ['into the folder of farebox', () => home],
      ['behind a link that leads elsewhere', () => 'linked/transcripts'],
      ['into a hidden folder', () => '.ssh'],
    ])('are not written %s', async (_, named) => {
      await symlink(outside, join(allowed, 'linked'))
      await expect(folders.outputFolder(named())).rejects.toMatchObject({ code: 'path_not_allowed' })
      const path = join(allowed, named(), 'a.txt')
      await expect(folders.output.write(path.replace(`${allowed}${place}`, place), 'x')).rejects.toMatchObject({
        code: 'output_unwritable',
        money: 'settled',
      })
      expect(await readdir(outside)).toEqual(['secret.mp3'])
      expect(await readdir(home)).toEqual([])
    })

    it('never overwrite what a link leads to', async () => {
      const limits = join(home, 'limits.json')
      await writeFile(limits, '{}')
      await symlink(limits, join(allowed, 'limits.json'))
      const path = join(allowed, 'limits.json')
      await expect(folders.output.requireWritable([path])).rejects.toMatchObject({ code: 'output_unwritable' })
      await folders.output.write(path, '{"call":"1000"}')
      expect(await readFile(limits, 'utf8')).toBe('{}')
    })
  })
})

describe('a URL', () => {
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

  it('is fetched into a private file by a request without credentials and cookies', async () => {
    const fetched = await recordings().fetch(urlOf('/talks/a.MP3?part=1'), { signal })
    expect(await readFile(fetched)).toEqual(CONTENT)
    expect(fetched).toMatch(/\.mp3$/)
    expect((await stat(dirname(fetched))).mode & 0o777).toBe(0o700)
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
    expect(await Promise.all(fetched.map((path) => readFile(path, 'utf8')))).toEqual(paths)
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
    expect((await stat(await session.fetch(urlOf('/d'), { signal }))).size).toBe(600)
  })

  it('is removed from the disk with the session', async () => {
    const session = recordings()
    const path = await session.fetch(urlOf('/a.mp3'), { signal })
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
    expect(await readFile(await recordings().fetch(urlOf('/5'), { signal }))).toEqual(CONTENT)
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
