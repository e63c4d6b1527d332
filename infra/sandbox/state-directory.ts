import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { createSandboxAccount, createSandboxAccounts, type SandboxAccount } from './fund-devnet.ts'
import { readCommandLine } from './previous-process.ts'
import { replaceFile } from './replace-file.ts'

const keyPair = z.object({
  address: z.custom<`0x${string}`>((value) => typeof value === 'string' && value.startsWith('0x')),
  privateKey: z.custom<`0x${string}`>((value) => typeof value === 'string' && value.startsWith('0x')),
})

const secretsSchema = z.object({
  accounts: z.object({ payer: keyPair, settlement: keyPair, recipient: keyPair }),
  furtherSettlementAccounts: z.array(keyPair).default([]),
  challengeSecret: z.string(),
  receiptSecret: z.string(),
  receiptSigningSeed: z.string(),
  upstreamApiKey: z.string(),
})

export type SandboxSecrets = z.infer<typeof secretsSchema>

/**
 * Keys and secrets of this sandbox: made once, kept as long as its state. They open nothing anywhere else. There are at
 * least `settlementKeys` accounts to settle with.
 */
export async function keepSecrets(directory: string, settlementKeys: number): Promise<SandboxSecrets> {
  const path = join(directory, 'secrets.json')
  const kept = await readFile(path, 'utf8').catch(() => null)
  // What an earlier version did not have is added to what it kept.
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
  }
}

/** The first `count` accounts to settle with. */
export function settlementAccounts(secrets: SandboxSecrets, count: number): readonly SandboxAccount[] {
  return [secrets.accounts.settlement, ...secrets.furtherSettlementAccounts].slice(0, count)
}

/** Everything that a sandbox keeps. */
const STATE = ['postgres', 'chain', 'uploads', 'logs', 'secrets.json', 'upstream-calls.jsonl']

/** Forgets payments, results, keys and chain. */
export async function discardState(directory: string): Promise<void> {
  await Promise.all(STATE.map((name) => rm(join(directory, name), { recursive: true, force: true })))
}

/** Names the holder's program as well, since pids are soon used again. */
const lockSchema = z.object({ pid: z.int(), commandLine: z.string() })

/**
 * Takes the directory for this process. `false` when another living sandbox has it. The lock of one that was killed does
 * not count.
 */
export async function lockDirectory(directory: string): Promise<boolean> {
  await mkdir(directory, { recursive: true })
  const path = join(directory, 'lock.json')
  const kept = await readFile(path, 'utf8').catch(() => null)
  const holder = kept === null ? null : lockSchema.parse(JSON.parse(kept))
  if (holder && holder.pid !== process.pid && (await readCommandLine(holder.pid)) === holder.commandLine) return false
  const commandLine = (await readCommandLine(process.pid)) ?? ''
  await replaceFile(path, JSON.stringify({ pid: process.pid, commandLine }))
  return true
}

export async function unlockDirectory(directory: string): Promise<void> {
  await rm(join(directory, 'lock.json'), { force: true })
}
