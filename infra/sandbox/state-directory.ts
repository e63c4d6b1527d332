import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { createSandboxAccount, createSandboxAccounts, type SandboxAccount } from './chain/fund-devnet.ts'
import { readCommandLine } from './processes/previous-process.ts'
import { replaceFile } from './replace-file.ts'

/** The ports of the APIs, and of the console, at the last start. */
export const PORTS_FILE = 'ports.json'

/** The client's journal of what it paid on this chain, and recordings to try it with. */
export const CLIENT_STATE = 'client'

const hex = z.templateLiteral(['0x', z.string()])
const keyPair = z.object({ address: hex, privateKey: hex })

const secretsSchema = z.object({
  accounts: z.object({ payer: keyPair, settlement: keyPair, recipient: keyPair }),
  furtherSettlementAccounts: z.array(keyPair).default([]),
  challengeSecret: z.string(),
  receiptSecret: z.string(),
  receiptSigningSeed: z.string(),
  upstreamApiKey: z.string(),
  operatorPassword: z.string(),
})

export type SandboxSecrets = z.infer<typeof secretsSchema>

/**
 * Reads the sandbox's keys and secrets, or creates them. They are kept with the state and are of no use elsewhere. There are
 * at least `settlementKeys` settlement accounts.
 */
export async function readOrCreateSecrets(directory: string, settlementKeys: number): Promise<SandboxSecrets> {
  const path = join(directory, 'secrets.json')
  const kept = await readFile(path, 'utf8').catch(() => null)
  // Adds secrets that an earlier version did not have.
  const present = secretsSchema.parse({ ...createSecrets(), ...(kept === null ? {} : (JSON.parse(kept) as object)) })
  const missing = Math.max(0, settlementKeys - 1 - present.furtherSettlementAccounts.length)
  const created = Array.from({ length: missing }, createSandboxAccount)
  const secrets = { ...present, furtherSettlementAccounts: [...present.furtherSettlementAccounts, ...created] }
  await replaceFile(path, JSON.stringify(secrets, null, 2))
  return secrets
}

function createSecrets(): SandboxSecrets {
  return {
    accounts: createSandboxAccounts(),
    furtherSettlementAccounts: [],
    challengeSecret: randomBytes(32).toString('hex'),
    receiptSecret: randomBytes(32).toString('hex'),
    receiptSigningSeed: randomBytes(32).toString('hex'),
    upstreamApiKey: randomBytes(16).toString('hex'),
    operatorPassword: randomBytes(16).toString('hex'),
  }
}

/** Returns the first `count` settlement accounts. */
export function settlementAccounts(secrets: SandboxSecrets, count: number): readonly SandboxAccount[] {
  return [secrets.accounts.settlement, ...secrets.furtherSettlementAccounts].slice(0, count)
}

/** All files and folders of a sandbox's state. */
const STATE = ['postgres', 'chain', 'uploads', 'logs', 'secrets.json', PORTS_FILE, 'upstream-calls.jsonl', CLIENT_STATE]

/** Deletes payments, results, keys and chain. */
export async function discardState(directory: string): Promise<void> {
  await Promise.all(STATE.map((name) => rm(join(directory, name), { recursive: true, force: true })))
}

/** Contains the owner's command line as well, because process ids are reused. */
const lockSchema = z.object({ pid: z.int(), commandLine: z.string() })

/**
 * Locks the directory for this process. Returns false when another running sandbox has locked it; the lock of a killed one
 * does not count.
 */
export async function lockDirectory(directory: string): Promise<boolean> {
  await mkdir(directory, { recursive: true })
  const path = join(directory, 'lock.json')
  const kept = await readFile(path, 'utf8').catch(() => null)
  const owner = kept === null ? null : lockSchema.parse(JSON.parse(kept))
  if (owner && owner.pid !== process.pid && (await readCommandLine(owner.pid)) === owner.commandLine) return false
  const commandLine = (await readCommandLine(process.pid)) ?? ''
  await replaceFile(path, JSON.stringify({ pid: process.pid, commandLine }))
  return true
}

export async function unlockDirectory(directory: string): Promise<void> {
  await rm(join(directory, 'lock.json'), { force: true })
}
