import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openJournal } from '../../../client/journal/open-journal.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const PROGRAM = fileURLToPath(new URL('killed-call.ts', import.meta.url))
const FUNDS = 1_000_000n

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(async () => {
  await sandbox.setFaults([])
  await sandbox.stop()
})

interface Ended {
  readonly signal: string | null
  readonly output: string
}

function run(home: string, payer: Payer, requestId: string, moment: string): Promise<Ended> {
  const { baseUrl, rpcUrl } = sandbox.info
  const given = [PROGRAM, home, baseUrl, rpcUrl, payer.privateKey, requestId, moment]
  return new Promise((resolve) => {
    const child = execFile(process.execPath, given, (_error, stdout, stderr) =>
      resolve({ signal: child.signalCode, output: stdout.trim() || stderr }),
    )
  })
}

/** Kills the call at a moment, makes it again to its end, and returns what was paid and what the journal knows. */
async function killAndRepeat(requestId: string, moment: string) {
  const home = await mkdtemp(join(tmpdir(), 'farebox-killed-'))
  const payer = await createPayer(sandbox.info.rpcUrl, { approved: true })
  await sandbox.setFaults(moment === 'sent' ? [{ fault: 'none', delayMs: 2500 }] : [])
  try {
    const killed = await run(home, payer, requestId, moment)
    const repeated = await run(home, payer, requestId, '')
    const attempts = [...openJournal(home).attempts.all()]
    const spent = FUNDS - (await sandbox.chain.usdcBalance(payer.address))
    const jobs = await sandbox.sql<{ charge: string }>(
      "SELECT charge_amount::text AS charge FROM jobs WHERE payer = $1 AND state = 'completed'",
      [payer.address],
    )
    return { killed, repeated, attempts, spent, charges: jobs.map(({ charge }) => BigInt(charge)) }
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

describe('a call whose process is killed', () => {
  it.each(['intended', 'quoted', 'signed', 'sent', 'answered', 'verified'])(
    'killed when it was %s, it is charged once after it was made again',
    async (moment) => {
      const { killed, repeated, attempts, spent, charges } = await killAndRepeat(randomUUID(), moment)
      expect(killed.signal).toBe('SIGKILL')
      expect(repeated.output).toBe('{"status":200,"verified":"passed"}')
      expect(charges).toHaveLength(1)
      expect(spent).toBe(charges[0])
      expect(attempts.map(({ verification, open, charged }) => [verification, open, charged])).toEqual([
        ['passed', null, spent],
      ])
    },
  )

  it.each(['intended', 'quoted', 'signed', 'sent'])(
    'killed when it was %s, a request of an SDK without a key is charged once as well',
    async (moment) => {
      const { killed, repeated, attempts, spent, charges } = await killAndRepeat('', moment)
      expect(killed.signal).toBe('SIGKILL')
      expect(repeated.output).toBe('{"status":200}')
      expect(charges).toHaveLength(1)
      expect(spent).toBe(charges[0])
      expect(attempts.map(({ open, charged }) => [open, charged])).toEqual([[null, spent]])
    },
  )
})
