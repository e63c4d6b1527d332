import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { priceCalls } from '../../../client/command/commands/calls/make-calls.ts'
import { Undelivered } from '../../../client/command/commands/calls/undelivered.ts'
import {
  adviceFor,
  planTargets,
  STDOUT,
  saveMedia,
  writeMedia,
} from '../../../client/command/commands/media/write-media.ts'
import { createOutput } from '../../../client/command/output/output.ts'
import type { CommandContext } from '../../../client/command/run.ts'
import { onlyMediaOf } from '../../../client/media/download.ts'
import { walletFromPrivateKey } from '../../../client/wallet/wallet-from-private-key.ts'
import { CHAT, openClient } from '../../support/client/open-client.ts'
import { scriptedIo } from '../../support/client/scripted-io.ts'
import { challenge, charged, cut, serviceError, startScriptedServer } from '../../support/client/scripted-server.ts'

interface Asked {
  readonly out?: string
  readonly count?: number
  readonly text?: string
  readonly force?: boolean
  readonly isTerminal?: boolean
}
const HOUR_MS = 3_600_000
const [ONE, OTHER] = ['a'.repeat(64), 'b'.repeat(64)]
const withPid = (pid: number) => (name: string) => name.replace(/-\d+(-[0-9a-f]{8})$/, `-${pid}$1`)
const MEDIA = Buffer.from('ID3 sound')
const SHA256 = createHash('sha256').update(MEDIA).digest('hex')
const answerMedia: RequestListener = (_request, response) => response.end(MEDIA)
const answerOtherDigest: RequestListener = (_request, response) =>
  response.setHeader('etag', `"${'0'.repeat(64)}"`).end(MEDIA)
async function write(target: string, bytes: Uint8Array) {
  const io = scriptedIo()
  await writeMedia(createOutput(io, false), target, bytes, 'key-1')
  return io.written
}
async function unwritable(): Promise<never> {
  throw new Error('the disk is full')
}
const CHAT_CALL = { operation: 'createChatCompletion', request: CHAT, limit: undefined, requestId: undefined } as const
const PAID = { money: 'settled', message: expect.stringContaining('--request-id key-1') as string }

describe('where results are written', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-targets-'))
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))
  function plan({ out = `${folder}/`, count = 1, text = 'A cat', force = false, isTerminal = false }: Asked) {
    return planTargets(scriptedIo({ isTerminal }), { out, count, ending: '.png', text, force })
  }
  const inFolder = (name: string) => join(folder, name)

  it('names files after the first words of the text', () => {
    expect(plan({ text: '  A cat, on a TRAM! ' })).toEqual([inFolder('a-cat-on-a-tram.png')])
    expect(plan({ text: '路面電車 ⛵ ../../etc/passwd' })).toEqual([inFolder('路面電車-etc-passwd.png')])
    expect(plan({ text: '!!!' })).toEqual([inFolder('farebox.png')])
    expect(plan({ text: `short ${'x'.repeat(300)} words` })).toEqual([inFolder('short-words.png')])
  })

  it('numbers several files before the ending', () => {
    expect(plan({ out: inFolder('cat.jpg'), count: 3 })).toEqual(['cat-1.jpg', 'cat-2.jpg', 'cat-3.jpg'].map(inFolder))
  })

  it('takes a folder with or without a slash', () => {
    expect(plan({ out: folder })).toEqual([inFolder('a-cat.png')])
    expect(plan({ out: `${folder}/` })).toEqual([inFolder('a-cat.png')])
  })

  it('never replaces a file that was not named, and a named one only by force', async () => {
    await writeFile(inFolder('a-cat.png'), '')
    await writeFile(inFolder('b-2.png'), '')
    expect(plan({})).toEqual([inFolder('a-cat-2.png')])
    expect(() => plan({ out: inFolder('a-cat.png') })).toThrow('exists')
    expect(() => plan({ out: inFolder('b.png'), count: 2 })).toThrow('b-2.png exists')
    expect(plan({ out: inFolder('a-cat.png'), force: true })).toEqual([inFolder('a-cat.png')])
  })

  it('refuses what cannot be written, before anything is paid', async () => {
    await mkdir(inFolder('sub'))
    await writeFile(inFolder('file'), '')
    await symlink('/dev/null', inFolder('null.png'))
    expect(() => plan({ out: inFolder('missing/a.png') })).toThrow('There is no folder')
    expect(() => plan({ out: inFolder('file/a.png') })).toThrow('is not a folder')
    expect(() => plan({ out: inFolder('null.png'), force: true })).toThrow('not a regular file')
  })

  it('takes standard output for one file, and not where a terminal is', () => {
    expect(plan({ out: '-' })).toEqual(['-'])
    expect(() => plan({ out: '-', count: 2 })).toThrow('one file only')
    expect(() => plan({ out: '-', isTerminal: true })).toThrow('A terminal cannot show this')
  })
})

describe('calls whose result was not handed over', () => {
  let home: string
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'farebox-undelivered-'))
  })
  afterEach(() => rm(home, { recursive: true, force: true }))
  const marks = () => readdir(join(home, 'undelivered'))
  /** Replaces a part of the name of the one mark. */
  async function rewriteMark(change: (name: string) => string): Promise<void> {
    const [name = ''] = await marks()
    await rename(join(home, 'undelivered', name), join(home, 'undelivered', change(name)))
  }

  it('are taken up by the next equal command, and ended calls are not', () => {
    const first = new Undelivered(home).begin(ONE)
    const second = new Undelivered(home).begin(ONE)
    expect(second.key).toBe(first.key)
    second.end()
    expect(new Undelivered(home).begin(ONE).key).not.toBe(first.key)
  })

  it('are not taken up by another request, nor twice by one command', () => {
    const left = new Undelivered(home).begin(ONE)
    expect(new Undelivered(home).begin(OTHER).key).not.toBe(left.key)
    const command = new Undelivered(home)
    const keys = [command.begin(ONE).key, command.begin(ONE).key, command.begin(ONE).key]
    expect(keys[0]).toBe(left.key)
    expect(new Set(keys).size).toBe(3)
  })

  it('are left to a process that still runs, and taken from one that ended', async () => {
    const { key } = new Undelivered(home).begin(ONE)
    await rewriteMark(withPid(process.ppid))
    expect(new Undelivered(home).begin(ONE).key).not.toBe(key)
    await rm(join(home, 'undelivered'), { recursive: true })
    const left = new Undelivered(home).begin(ONE)
    const { pid } = spawnSync(process.execPath, ['--version'])
    await rewriteMark(withPid(pid))
    expect(new Undelivered(home).begin(ONE).key).toBe(left.key)
  })

  it('of another machine are taken up only when no call takes as long', async () => {
    const { key } = new Undelivered(home).begin(ONE)
    await rewriteMark((name) => name.replace(/-[0-9a-f]{8}(-\d+-[0-9a-f]{8})$/, '-00000000$1'))
    const within = new Undelivered(home, () => Date.now() + HOUR_MS / 2).begin(ONE)
    expect(within.key).not.toBe(key)
    within.end()
    expect(new Undelivered(home, () => Date.now() + 2 * HOUR_MS).begin(ONE).key).toBe(key)
  })

  it('are not taken up when their result may be gone, and are forgotten after a week', async () => {
    const { key } = new Undelivered(home).begin(ONE)
    const later = (hours: number) => new Undelivered(home, () => Date.now() + hours * HOUR_MS).begin(ONE)
    const second = later(25)
    expect(second.key).not.toBe(key)
    second.end()
    expect(await marks()).toHaveLength(1)
    later(8 * 24).end()
    expect(await marks()).toEqual([])
  })

  it('are for their owner only, and carry no request', async () => {
    new Undelivered(home).begin(ONE)
    const [name = ''] = await marks()
    const [folder, mark] = await Promise.all([stat(join(home, 'undelivered')), stat(join(home, 'undelivered', name))])
    expect([folder.mode & 0o777, mark.mode & 0o777, mark.size]).toEqual([0o700, 0o600, 0])
  })

  describe('of a service', () => {
    let server: Awaited<ReturnType<typeof startScriptedServer>>
    const wallet = walletFromPrivateKey(generatePrivateKey())
    beforeEach(async () => {
      server = await startScriptedServer()
    })
    afterEach(() => server.stop())
    /** Makes the call as a command of its own does. */
    async function command(
      deliver: () => Promise<void> = () => Promise.resolve(),
      signal = new AbortController().signal,
    ) {
      const farebox = await openClient(server, { journal: home, wallet })
      const context = { farebox: async () => farebox, output: createOutput(scriptedIo(), false), signal }
      const make = await priceCalls(context as unknown as CommandContext, CHAT_CALL, 'chat')
      try {
        await make(deliver)
      } finally {
        await farebox.close()
      }
    }
    const keys = () => new Set(server.received.map(({ key }) => key)).size

    it('are taken up, once they may be charged, also after a repetition that was interrupted', async () => {
      server.script(challenge(), charged())
      await expect(command(unwritable)).rejects.toThrow('the disk is full')
      const interrupt = new AbortController()
      server.script((...answered) => {
        interrupt.abort()
        return cut(...answered)
      })
      await expect(command(undefined, interrupt.signal)).rejects.toMatchObject({ code: 'aborted', money: 'none' })
      server.script(challenge(), charged())
      await command()
      expect(keys()).toBe(1)
    })

    it('are another call after a refusal without a charge', async () => {
      server.script(challenge(), serviceError('content_rejected'))
      await expect(command()).rejects.toMatchObject({ code: 'content_rejected', money: 'none' })
      server.script(challenge(), charged())
      await command()
      expect(keys()).toBe(2)
    })
  })

  it('are a reason not to pay when they cannot be written down', async () => {
    await writeFile(join(home, 'undelivered'), 'in the way')
    expect(() => new Undelivered(home).begin(ONE)).toThrow(
      expect.objectContaining({ code: 'journal_unwritable', money: 'none' }) as Error,
    )
  })
})

describe('downloads', () => {
  let server: Server | undefined
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-download-'))
  })

  afterEach(async () => {
    server?.closeAllConnections()
    server?.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** Downloads from a server that answers as told, and returns what was written to stderr as well. */
  async function fetchFrom(listener: RequestListener, bytes?: number) {
    server = createServer(listener).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/media/token`
    const io = scriptedIo()
    const context = { output: createOutput(io, false), signal: new AbortController().signal }
    const content = await saveMedia(context, STDOUT, { url, bytes }, 'key-1')
    return { content, notes: io.written.err }
  }
  describe('downloading what was paid for', () => {
    it('returns it when size and digest agree, and goes to where a link leads', async () => {
      const { content } = await fetchFrom((request, response) => {
        if (request.url === '/media/token') response.writeHead(302, { location: '/object' }).end()
        else response.setHeader('etag', `"${SHA256}"`).end(MEDIA)
      }, MEDIA.length)
      expect(Buffer.from(content)).toEqual(MEDIA)
    })

    it('tries again while the server is away, and says so', async () => {
      let requests = 0
      const { content, notes } = await fetchFrom((_request, response) => {
        requests += 1
        if (requests === 1) response.writeHead(503, { 'retry-after': '0' }).end()
        else response.end(MEDIA)
      })
      expect(Buffer.from(content)).toEqual(MEDIA)
      expect(notes).toMatch(/^waiting \d/)
    })

    it('refuses another size, and another content', async () => {
      await expect(fetchFrom(answerMedia, 3)).rejects.toMatchObject({ ...PAID, code: 'media_damaged' })
      await expect(fetchFrom(answerOtherDigest)).rejects.toMatchObject({ ...PAID, code: 'media_damaged' })
    })

    it('says how to get it without another charge when it is gone', async () => {
      const gone = fetchFrom((_request, response) => response.writeHead(404).end())
      await expect(gone).rejects.toMatchObject({ ...PAID, code: 'http_404' })
    })

    it('refuses a URL in plain text, and a result without a file', async () => {
      const context = { output: createOutput(scriptedIo(), false), signal: new AbortController().signal }
      const inPlainText = saveMedia(context, STDOUT, { url: 'http://media.example/a' }, 'key-1')
      await expect(inPlainText).rejects.toMatchObject({ ...PAID, code: 'invalid_url' })
      expect(() => onlyMediaOf({ data: [] }, adviceFor('key-1'))).toThrow(expect.objectContaining(PAID) as Error)
      expect(() => onlyMediaOf({ data: [{}] as never }, adviceFor('key-1'))).toThrow(
        expect.objectContaining(PAID) as Error,
      )
    })
  })

  describe('writing what was paid for', () => {
    it('writes the file completely, and warns of an ending that is not its format’s', async () => {
      expect((await write(join(folder, 'a.mp3'), MEDIA)).err).toBe('')
      expect((await write(join(folder, 'a.wav'), MEDIA)).err).toContain('contains MP3; its usual ending is .mp3')
      expect(await readFile(join(folder, 'a.mp3'))).toEqual(MEDIA)
      expect(await readdir(folder)).toEqual(['a.mp3', 'a.wav'])
    })

    it('leaves nothing when the folder is gone, and says how to get the result without another charge', async () => {
      const target = join(folder, 'gone', 'a.mp3')
      await expect(write(target, MEDIA)).rejects.toMatchObject({ ...PAID, code: 'output_unwritable' })
      expect(await readdir(folder)).toEqual([])
    })
  })
})
