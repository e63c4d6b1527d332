import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { parseUsdc } from '../../../../../client/farebox.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../../support/processes/test-sandbox.ts'
import { until } from '../../../../support/until.ts'
import { type CommandWallet, createCommandWallet } from './support/command-wallet.ts'

/** What the cheapest chat and one image cost. */
const [CHAT, IMAGE] = [2000n, 35_000n]
const UPSTREAM_DELAY_MS = 1500

let sandbox: SharedSandbox
let wallet: CommandWallet
let callsBefore: number
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())
beforeEach(async () => {
  wallet = await createCommandWallet(sandbox)
  callsBefore = (await sandbox.upstreamCalls()).length
})
afterEach(async () => {
  await sandbox.setFaults([])
  await wallet.remove()
})

const upstreamCalls = async () => (await sandbox.upstreamCalls()).length - callsBefore
const inFolder = (name: string) => join(wallet.folder, name)
const files = async () => (await readdir(wallet.folder)).filter((name) => !name.startsWith('.')).sort()

describe('farebox chat', () => {
  it('writes only the answer to stdout, and what was charged to stderr', async () => {
    const { code, out, err } = await wallet.run(['chat', 'Say', 'hello.'])
    expect(code).toBe(0)
    expect(out).toMatch(/^Hello! .*Say hello\..*\n$/)
    expect(err).toMatch(/^charged 0\.002 USDC, at most 0\.002 · receipt [0-9a-f-]{36}, verified\n$/)
    expect(await wallet.paid()).toBe(CHAT)
  })

  it('writes one object with --json, without the token that opens the receipt', async () => {
    const { code, lines, out, err } = await wallet.run(['chat', '--json', '--system', 'Be brief.', '-'], {
      input: 'hello',
    })
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const paid = {
      charged_usdc: '0.002',
      replayed: false,
      verified: 'passed',
      transaction: expect.stringMatching(/^0x/),
    }
    const payment = expect.objectContaining(paid) as object
    expect(lines()).toMatchObject([{ model: 'textmodel-3.6-flash', finish_reason: 'stop', payment }])
    expect(out).not.toContain('token"')
    expect(out).not.toContain(wallet.payer.privateKey.slice(2))
  })

  it('keeps escape sequences of an answer from a terminal, and leaves them in a pipe', async () => {
    const prompt = 'red \u001b[31m\u0007 prompt'
    const [terminal, pipe] = await Promise.all([
      wallet.run(['chat', prompt], { isTerminal: true }),
      wallet.run(['chat', prompt]),
    ])
    expect(pipe.out).toContain('\u001b[31m')
    expect(terminal.out).not.toMatch(/(?![\n\t])\p{Cc}/u)
  })

  it('warns that --max-tokens cut the answer off', async () => {
    const { code, err } = await wallet.run(['chat', 'Say hello.', '--max-tokens', '1'])
    expect(code).toBe(0)
    expect(err).toContain('warning: the answer is cut off: raise --max-tokens')
  })

  it('suggests models near the one that is unknown, and pays nothing', async () => {
    const unknown = await wallet.run(['chat', 'hi', '--model', 'textmodel-3.6-flsh'])
    expect(unknown).toMatchObject({ code: 2, out: '' })
    expect(unknown.err).toContain('Did you mean textmodel-3.6-flash?')
    const other = await wallet.run(['chat', 'hi', '--model', 'speechvendor/flash-v2.5'])
    expect(other).toMatchObject({ code: 2, out: '' })
    expect(other.err).toContain('speechvendor/flash-v2.5 does not write text. There are: textmodel-')
    expect([await wallet.paid(), await upstreamCalls()]).toEqual([0n, 0])
  })

  it('refuses a price above --max with exit code 3, and pays one that equals it', async () => {
    const refused = await wallet.run(['chat', 'Say hello.', '--max', '0.001999'])
    expect(refused).toMatchObject({ code: 3, out: '' })
    expect(refused.err).toContain('The price is at most 0.002 USDC, above the limit of 0.001999 USDC (--max).')
    expect([await wallet.paid(), await upstreamCalls()]).toEqual([0n, 0])
    expect(await wallet.run(['chat', 'Say hello.', '--max', '0.002'])).toMatchObject({ code: 0 })
    expect(await wallet.paid()).toBe(CHAT)
  })

  it('charges a call that is repeated with its --request-id once, and refuses another call under it', async () => {
    const first = await wallet.run(['chat', 'Say hello.', '--request-id', 'id-of-hello'])
    const again = await wallet.run(['chat', 'Say hello.', '--request-id', 'id-of-hello'])
    expect(again).toMatchObject({ code: 0, out: first.out })
    expect(again.err).toMatch(/^nothing charged: 0\.002 USDC were paid for this call before/)
    const other = await wallet.run(['chat', 'Say goodbye.', '--request-id', 'id-of-hello'])
    expect(other).toMatchObject({ code: 1, out: '' })
    expect(other.err).toContain('Nothing was charged.')
    expect(await wallet.paid()).toBe(CHAT)
  })

  it('makes and charges equal calls one by one when each was answered', async () => {
    for (let run = 0; run < 2; run += 1) expect(await wallet.run(['chat', 'Say hello.'])).toMatchObject({ code: 0 })
    expect(await wallet.paid()).toBe(2n * CHAT)
  })

  it('that is interrupted says what happened to the money, and is charged once when it is run again', async () => {
    await sandbox.setFaults([{ fault: 'none', delayMs: UPSTREAM_DELAY_MS }])
    const { io, done } = wallet.start(['chat', 'Say hello.'])
    await until(async () => (await upstreamCalls()) > 0)
    io.signal('SIGINT')
    const { code, out, err } = await done
    expect({ code, out }).toEqual({ code: 130, out: '' })
    expect(err).toContain('its maximum stays reserved in the budget. Run the same command again')
    expect(await wallet.run(['chat', 'Say hello.'])).toMatchObject({ code: 0 })
    expect([await wallet.paid(), await upstreamCalls()]).toEqual([CHAT, 1])
  })
})

describe('farebox image', () => {
  it('writes several images, and prints their names', async () => {
    const { code, out, err } = await wallet.run(['image', 'A cat', '--out', inFolder('cat.png'), '-n', '3'])
    expect({ code, out: out.split('\n').sort().slice(1) }).toEqual({
      code: 0,
      out: await files().then((all) => all.map(inFolder)),
    })
    expect(await files()).toEqual(['cat-1.png', 'cat-2.png', 'cat-3.png'])
    for (const name of await files()) expect((await readFile(inFolder(name))).subarray(1, 4).toString()).toBe('PNG')
    expect(err.match(/^charged 0\.035 USDC/gm)).toHaveLength(3)
    expect(await wallet.paid()).toBe(3n * IMAGE)
  })

  it('counts all images against --max', async () => {
    const args = ['image', 'A cat', '--out', wallet.folder, '-n', '3']
    expect(await wallet.run([...args, '--max', '0.104999'])).toMatchObject({ code: 3 })
    expect([await files(), await wallet.paid()]).toEqual([[], 0n])
  })

  it('makes as many as the budget allows, and says which were not', async () => {
    const args = ['image', 'A cat', '--out', inFolder('cat.png'), '-n', '3', '--budget', '0.07']
    const { code, err } = await wallet.run(args)
    expect(code).toBe(3)
    expect(err.match(/^error: The call costs at most 0\.035 USDC/gm)).toHaveLength(1)
    expect(await files()).toHaveLength(2)
    expect(await wallet.paid()).toBe(2n * IMAGE)
  })

  it('refuses a file that exists before anything is paid, and replaces it with --force', async () => {
    await writeFile(inFolder('cat.png'), 'an earlier cat')
    const args = ['image', 'A cat', '--out', inFolder('cat.png')]
    const refused = await wallet.run(args)
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('cat.png exists') as string })
    expect([await wallet.paid(), await upstreamCalls()]).toEqual([0n, 0])
    expect(await wallet.run([...args, '--force'])).toMatchObject({ code: 0 })
    expect((await readFile(inFolder('cat.png'))).subarray(1, 4).toString()).toBe('PNG')
  })
})

describe('farebox say', () => {
  it('writes an MP3 with the voice that was asked for, and its facts with --json', async () => {
    const args = ['say', 'Mind the gap.', '--voice', 'talia', '--speed', '1.1', '--out', inFolder('gap.mp3'), '--json']
    const { code, lines } = await wallet.run(args)
    expect(code).toBe(0)
    const [{ bytes, payment } = {}] = lines()
    const mp3 = await readFile(inFolder('gap.mp3'))
    expect(mp3.length).toBe(bytes)
    expect(parseUsdc((payment as { charged_usdc: string }).charged_usdc)).toBe(await wallet.paid())
  })

  it('speaks standard input to standard output', async () => {
    const { code, out, err } = await wallet.run(['say', '--out', '-'], { input: 'Mind the gap.\n' })
    expect({ code, start: out.slice(0, 3) }).toEqual({ code: 0, start: 'ID3' })
    expect(err).toMatch(/^charged /)
  })

  it('suggests voices near the one that is unknown, and lists them', async () => {
    const unknown = await wallet.run(['say', 'hi', '--voice', 'tali', '--out', wallet.folder])
    expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining('Did you mean talia?') as string })
    const { code, out } = await wallet.run(['say', '--list-voices'])
    expect(code).toBe(0)
    expect(out).toMatch(/^talia +\S/m)
    expect(await wallet.paid()).toBe(0n)
  })

  it('whose result could not be written gets it again without another charge, also to another file', async () => {
    await mkdir(inFolder('gone'))
    await sandbox.setFaults([{ fault: 'none', delayMs: UPSTREAM_DELAY_MS }])
    const { done } = wallet.start(['say', 'Mind the gap.', '--out', inFolder('gone/gap.mp3')])
    await until(async () => (await upstreamCalls()) > 0)
    await rm(inFolder('gone'), { recursive: true })
    const lost = await done
    expect(lost).toMatchObject({ code: 1, out: '' })
    expect(lost.err).toMatch(/could not be written .* The call is paid for\. Run the command again/)
    const paid = await wallet.paid()
    expect(paid).toBeGreaterThan(0n)
    const again = await wallet.run(['say', 'Mind the gap.', '--out', inFolder('gap.mp3')])
    expect(again.code).toBe(0)
    expect(again.err).toContain('nothing charged')
    expect((await readFile(inFolder('gap.mp3'))).subarray(0, 3).toString()).toBe('ID3')
    expect([await wallet.paid(), await upstreamCalls()]).toEqual([paid, 1])
  })
})
