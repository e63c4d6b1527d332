import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createFarebox, parseUsdc, walletFromPrivateKey } from '../../../client/farebox.ts'
import { type CommandWallet, createCommandWallet } from '../../support/client/command-wallet.ts'
import { type SharedSandbox, startTestSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

/** What the cheapest chat and one image cost. */
const [CHAT, IMAGE] = [2000n, 35_000n]
const UPSTREAM_DELAY_MS = 1500
const FUNDS = 10_000_000n

describe('commands that pay', () => {
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
      const args = [
        'say',
        'Mind the gap.',
        '--voice',
        'talia',
        '--speed',
        '1.1',
        '--out',
        inFolder('gap.mp3'),
        '--json',
      ]
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
})

describe('commands on what the wallet has and paid', () => {
  let sandbox: SharedSandbox
  /** Has paid for a chat, an image and a transcription. */
  let wallet: CommandWallet
  /** Has nothing. */
  let poor: CommandWallet
  let recording: string
  let chargedForRecording: bigint
  beforeAll(async () => {
    sandbox = await startTestSandbox()
    wallet = await createCommandWallet(sandbox, { usdcAtomic: FUNDS, approved: false })
    poor = await createCommandWallet(sandbox, { usdcAtomic: 0n, approved: false })
    recording = join(wallet.folder, 'tram.mp3')
    await writeFile(recording, sandbox.sample)
  })

  afterAll(async () => {
    await wallet.remove()
    await poor.remove()
    await sandbox.stop()
  })

  describe('farebox approve', () => {
    it('only shows the allowance with --check, and exits with 4 while it is too small', async () => {
      const { code, out } = await wallet.run(['approve', '--check'])
      expect(code).toBe(4)
      expect(out).toMatch(/^allowance +none: calls sign a permit, or run farebox approve$/m)
      expect(out).toMatch(/^permit can be stored +yes, from 0\.1 USDC: run farebox approve$/m)
    })

    it('approves with one signature and no gas, and does nothing when that is done', async () => {
      expect(await sandbox.chain.client.getBalance({ address: wallet.payer.address })).toBe(0n)
      const { code, lines } = await wallet.run(['approve', '--json'])
      expect(code).toBe(0)
      expect(lines()).toMatchObject([{ outcome: 'approved', is_unlimited: true }])
      expect(await wallet.run(['approve', '--check'])).toMatchObject({ code: 0 })
      const again = await wallet.run(['approve'])
      expect(again).toMatchObject({ code: 0, out: expect.stringContaining('nothing was signed') as string })
      expect(await wallet.paid()).toBe(0n)
    })

    it('exits with 4 for a wallet without funds, and says why', async () => {
      const { code, err } = await poor.run(['approve'])
      expect(code).toBe(4)
      expect(err).toContain('Nothing was charged.')
    })
  })

  describe('farebox quote', () => {
    it('prices calls without a wallet and without sending audio', async () => {
      const before = (await sandbox.upstreamCalls()).length
      const keys = await sandbox.boundKeys()
      const args = ['quote', '--json', '--chat', 'hi', '--image', 'A cat', '--say', 'Mind the gap.', recording]
      const withoutWallet = ['--key-file', '', '--home', join(poor.folder, '.quotes')]
      const { code, lines, err } = await poor.run([...args, ...withoutWallet])
      expect({ code, err }).toEqual({ code: 0, err: '' })
      expect(lines()).toMatchObject([
        { what: 'chat', price: '0.002', is_maximum: true },
        { what: 'image', price: '0.035', is_maximum: false },
        { what: 'say', price: expect.any(String) },
        { what: recording, model: 'speechvendor/scribe-v2', uploads: 1, duration_ms: expect.any(Number) },
      ])
      expect((await sandbox.upstreamCalls()).length).toBe(before)
      expect(await sandbox.boundKeys(keys)).toEqual([])
    })

    it('shows the price that a transcription is then charged', async () => {
      const { lines } = await wallet.run(['quote', recording, '--json'])
      const quoted = parseUsdc(String(lines()[0]?.['price']))
      const transcribed = await wallet.run(['transcribe', recording, '--yes'])
      expect(transcribed).toMatchObject({ code: 0 })
      chargedForRecording = await wallet.paid()
      expect(chargedForRecording).toBe(quoted)
    })

    it('exits with 3 above --max, and shows the price', async () => {
      const { code, out, err } = await wallet.run(['quote', '--image', 'A cat', '--max', '0.03'])
      expect(code).toBe(3)
      expect(out).toMatch(/^image +textmodel-3\.1-flash-lite-image +0\.035 USDC$/m)
      expect(err).toContain('above the limit of 0.03 USDC')
    })

    it('prices the other recordings when one is bad, and exits with 1', async () => {
      const { code, out, err } = await wallet.run(['quote', join(wallet.folder, 'none.mp3'), recording])
      expect(code).toBe(1)
      expect(out).toMatch(/tram\.mp3 +speechvendor\/scribe-v2 +0\.\d+ USDC/)
      expect(err).toMatch(/none\.mp3: there is no such file\. Nothing was charged\./)
    })

    it.each([
      ['nothing', [], 'Nothing to price'],
      ['a model for two kinds of calls', ['--chat', 'hi', '--say', 'hi', '-m', 'x'], 'one kind of call'],
      ['standard input twice', ['--chat', '-', '--say', '-'], 'only once'],
    ])('refuses %s', async (_name, args, message) => {
      expect(await wallet.run(['quote', ...args])).toMatchObject({
        code: 2,
        err: expect.stringContaining(message) as string,
      })
    })
  })

  /** Returns id and token of the newest receipt in the journal. */
  async function newestReceipt(): Promise<readonly [id: string, token: string]> {
    const { payer, home } = wallet
    const farebox = await createFarebox({
      wallet: walletFromPrivateKey(payer.privateKey),
      baseUrl: sandbox.info.baseUrl,
      journal: home,
    })
    const [newest] = farebox.receipts()
    await farebox.close()
    return [newest?.receiptId ?? '', newest?.receiptToken ?? '']
  }

  describe('what was paid', () => {
    beforeAll(async () => {
      await wallet.run(['chat', 'Say hello.'])
      await wallet.run(['image', 'A cat', '--out', wallet.folder])
    })

    it('balance shows funds, today’s charges and what is left of the day’s budget', async () => {
      const paid = await wallet.paid()
      const { code, lines } = await wallet.run(['balance', '--json', '--day-budget', '1'])
      expect(code).toBe(0)
      const [{ usdc, native, today } = {}] = lines()
      expect(parseUsdc(String(usdc))).toBe(FUNDS - paid)
      expect({ native, today }).toMatchObject({ native: '0', today: { calls: 3, reserved: '0' } })
      const { charged, budget_left: left } = today as Record<string, string>
      expect([parseUsdc(charged ?? ''), parseUsdc(left ?? '')]).toEqual([paid, 1_000_000n - paid])
      expect((await wallet.run(['balance'])).out).toMatch(/^allowance +without a limit: calls run in parallel$/m)
    })

    it('spend adds up to the charges on chain, as table, CSV and JSON', async () => {
      const paid = await wallet.paid()
      const csv = (await wallet.run(['spend', '--csv', '--by', 'operation'])).out
      const [heading, ...rows] = csv.trimEnd().split('\r\n')
      expect(heading).toBe('operation,calls,charged_usdc')
      expect(rows.map((row) => row.split(',')[0] ?? '').toSorted()).toEqual([
        'createChatCompletion',
        'createImageGeneration',
        'createTranscription',
      ])
      expect(rows.reduce((sum, row) => sum + parseUsdc(row.split(',')[2] ?? ''), 0n)).toBe(paid)
      const all = (await wallet.run(['spend', '--csv'])).out
      expect(all.split('\r\n')[0]).toBe('day,model,operation,purpose,calls,charged_usdc')
      expect(all).toBe((await wallet.run(['spend', '--csv', '--by', 'all'])).out)
      const [json] = (await wallet.run(['spend', '--json'])).lines()
      expect(json).toMatchObject({ by: 'day', calls: 3, rows: [{ calls: 3 }] })
      expect(parseUsdc(String(json?.['charged']))).toBe(paid)
      expect((await wallet.run(['spend', '--by', 'model'])).out).toMatch(
        /^textmodel-3\.1-flash-lite-image +1 +0\.035$/m,
      )
      expect(await wallet.run(['spend', '--csv', '--json'])).toMatchObject({ code: 2 })
    })

    it('verify checks receipts with the transfer on chain, and exits with 1 for one that was altered', async () => {
      const [id] = await newestReceipt()
      const valid = await wallet.run(['verify', id])
      expect(valid.code).toBe(0)
      expect(valid.out).toContain(`${id} is valid`)
      expect(valid.out).toMatch(/^ok +transfer +0\.035 USDC from /m)
      const altered = join(wallet.folder, 'altered.json')
      const saved = await readFile(join(wallet.home, 'receipts', id.slice(0, 2), `${id}.json`), 'utf8')
      await writeFile(altered, JSON.stringify({ ...(JSON.parse(saved) as object), charge_atomic: '1' }))
      const { code, lines } = await wallet.run(['verify', altered, id, '--json'])
      expect(code).toBe(1)
      expect(lines().map(({ outcome }) => outcome)).toEqual(['failed', 'passed'])
      const checks = lines()[0]?.['checks'] as { name: string; outcome: string }[]
      expect(checks.filter(({ outcome }) => outcome === 'failed').map(({ name }) => name)).toContain('signature')
    })

    it('verify opens a receipt of another machine by its token, and says what it needs without one', async () => {
      const [id, token] = await newestReceipt()
      const elsewhere = ['--home', join(wallet.folder, '.elsewhere')]
      const found = await wallet.run(['verify', id, '--token', token, ...elsewhere])
      expect(found).toMatchObject({ code: 0, out: expect.stringContaining('is valid') as string })
      const unknown = await wallet.run(['verify', id, '--home', join(wallet.folder, '.a-third')])
      expect(unknown).toMatchObject({ code: 1, out: '', err: expect.stringContaining('Pass its token') as string })
    })

    it('verify takes the receipts that transcribe writes', async () => {
      const path = join(wallet.folder, 'again.mp3')
      await writeFile(path, await readFile(recording))
      expect(await wallet.run(['transcribe', path, '--yes', '--receipts'])).toMatchObject({ code: 0 })
      const { code, out } = await wallet.run(['verify', join(wallet.folder, 'again.receipt.json')])
      expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining('is valid') as string })
      expect(await wallet.paid()).toBe(chargedForRecording + 37_000n)
    })
  })

  describe('farebox doctor', () => {
    it('finds nothing wrong with a wallet that can pay', async () => {
      const { code, out } = await wallet.run(['doctor'])
      expect(out).toContain('A payment should succeed.')
      expect(code).toBe(0)
      expect(out).toMatch(/^ok +ffmpeg +/m)
    })

    it('checks everything else without a wallet, and exits with 2', async () => {
      const { code, out } = await wallet.run(['doctor', '--key-file', ''])
      expect(out).toMatch(/^ok +service +/m)
      expect(out).toMatch(/^FAILED +wallet +No wallet is configured\. Set FAREBOX_PRIVATE_KEY/m)
      expect(out).not.toMatch(/balance/)
      expect(code).toBe(2)
    })

    it('exits with 4 when only money is missing', async () => {
      const { code, out } = await poor.run(['doctor'])
      expect(out).toMatch(/^FAILED +balance +0x[0-9a-f]{40} has no USDC on eip155:8453\. Send USDC to the wallet\.$/m)
      expect(code).toBe(4)
    })

    it('exits with 1 when something else is wrong, too', async () => {
      const { code, lines } = await poor.run(['doctor', '--json', '--rpc-url', 'http://127.0.0.1:1'])
      expect(code).toBe(1)
      const failed = lines().flatMap(({ ok, name }) => (ok === true ? [] : [name]))
      expect(failed).toContain('rpc')
    })

    it('says that recordings in other formats need ffmpeg, which is no reason for a payment to fail', async () => {
      const { code, out } = await wallet.run(['doctor', '--ffmpeg', join(wallet.folder, 'no-ffmpeg')])
      expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining('install ffmpeg') as string })
    })
  })
})
