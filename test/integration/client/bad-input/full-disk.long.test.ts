import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { challenge, charged, type ScriptedServer, startScriptedServer } from './support/scripted-server.ts'
import { canHaveSmallDisk, runOnSmallDisk } from './support/small-disk.ts'

const PROGRAM = fileURLToPath(new URL('support/pay-on-a-disk.ts', import.meta.url))

let server: ScriptedServer
let home: string
beforeAll(async () => {
  server = await startScriptedServer()
  server.always((received, reply) => (received.payment === undefined ? challenge() : charged())(received, reply))
})
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'farebox-home-'))
})
afterEach(() => rm(home, { recursive: true, force: true }))
afterAll(() => server.stop())

async function payWhileFull(when: 'at once' | 'with the payment') {
  const from = server.received.length
  const settings = { baseUrl: server.baseUrl, privateKey: generatePrivateKey(), home, when }
  const { stdout, stderr } = await runOnSmallDisk({ size: '64k', at: home }, [process.execPath, PROGRAM], {
    PAY_ON_A_DISK: JSON.stringify(settings),
  })
  expect(stderr).not.toContain(settings.privateKey.slice(2))
  const { outcomes } = JSON.parse(stdout || JSON.stringify({ outcomes: [stderr] })) as { outcomes: unknown[] }
  return { outcomes, payments: server.received.slice(from).flatMap(({ payment }) => payment ?? []) }
}

describe.skipIf(!canHaveSmallDisk())('a full disk under the journal', () => {
  it('before a payment nothing is signed, and the call works when there is room', async () => {
    const { outcomes, payments } = await payWhileFull('at once')
    const refused = { isFareboxError: true, code: 'journal_unwritable', money: 'none', left: '1' }
    expect(outcomes).toEqual([
      expect.objectContaining(refused),
      expect.objectContaining({
        ...refused,
        message: expect.stringMatching(/no space left.*Nothing was charged.*Free disk space/i),
      }),
      { charged: '0.005034', recorded: true, left: '0.994966' },
    ])
    expect(payments).toHaveLength(1)
  })

  it('after a payment the result is returned, and nothing is paid twice, whether the answer was recorded or not', async () => {
    const { outcomes, payments } = await payWhileFull('with the payment')
    expect(outcomes).toEqual([
      // The rest of the file's last block may have room for this entry.
      { charged: '0.005034', recorded: expect.any(Boolean), left: '0.994966' },
      expect.objectContaining({ code: 'journal_unwritable', money: 'none' }),
      { charged: '0.005034', recorded: true, left: '0.994966' },
    ])
    const [{ recorded } = { recorded: false }] = outcomes as { recorded: boolean }[]
    expect(new Set(payments).size).toBe(recorded ? 2 : 1)
  })
})
