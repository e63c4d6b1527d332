import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { ServiceName } from '../../../infra/sandbox/sandbox-options.ts'

const secretsSchema = z.object({
  accounts: z.object({
    settlement: z.object({ address: z.string(), privateKey: z.string() }),
    recipient: z.object({ address: z.string() }),
  }),
  challengeSecret: z.string(),
  receiptSecret: z.string(),
  receiptSigningSeed: z.string(),
})

/** The settings with keys, as an operator keeps them; a process reads them when it starts. */
export interface KeySettings {
  /** Returns what is set for a process. */
  of(name: ServiceName): Record<string, string>
  /** Changes settings of the APIs or of the workers; `null` removes one. */
  change(kind: 'api' | 'worker', changes: Readonly<Record<string, string | null>>): void
}

export function createKeySettings(): KeySettings {
  const settings: Record<'api' | 'worker', Record<string, string>> = { api: {}, worker: {} }
  return {
    of: (name) => ({ ...settings[name.startsWith('api') ? 'api' : 'worker'] }),
    change: (kind, changes) => {
      const changed = Object.entries({ ...settings[kind], ...changes })
      settings[kind] = Object.fromEntries(changed.flatMap(([name, value]) => (value === null ? [] : [[name, value]])))
    },
  }
}

/** The values that a sandbox started with. */
export interface FirstKeys {
  readonly settlementKey: string
  readonly settlementAddress: string
  readonly payTo: string
  readonly challengeSecret: string
  readonly receiptSecret: string
  readonly signingKey: string
}

export async function readFirstKeys(directory: string): Promise<FirstKeys> {
  const secrets = secretsSchema.parse(JSON.parse(await readFile(join(directory, 'secrets.json'), 'utf8')))
  return {
    settlementKey: secrets.accounts.settlement.privateKey,
    settlementAddress: secrets.accounts.settlement.address.toLowerCase(),
    payTo: secrets.accounts.recipient.address.toLowerCase(),
    challengeSecret: secrets.challengeSecret,
    receiptSecret: `k1:${secrets.receiptSecret}`,
    signingKey: `k1:${secrets.receiptSigningSeed}`,
  }
}
