import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createFarebox, FareboxError, formatUsdc, walletFromPrivateKey } from '../../../client/farebox.ts'
import { CHAT } from './open-client.ts'

/**
 * A program that calls a service three times under one key, while the disk of its journal fills up `when` and has room
 * again for the last call. Prints what happened as JSON.
 */
const { baseUrl, privateKey, home, when } = JSON.parse(process.env['PAY_ON_A_DISK'] ?? '{}') as {
  readonly baseUrl: string
  readonly privateKey: string
  readonly home: string
  readonly when: 'at once' | 'with the payment'
}
const filler = join(home, 'filler')

function fill(): void {
  for (const size of [65_536, 4096, 512, 1])
    try {
      for (;;) writeFileSync(filler, new Uint8Array(size), { flag: 'a' })
    } catch {
      // It is full for this size.
    }
}

const client = await createFarebox({
  wallet: walletFromPrivateKey(privateKey),
  baseUrl,
  journal: home,
  verify: 'never',
  budget: { session: '1' },
  fetch: async (input, init) => {
    const answer = await fetch(input, init)
    if (when === 'with the payment' && new Headers(init?.headers).has('payment-signature')) fill()
    return answer
  },
})
const outcomes: unknown[] = []
async function call(): Promise<void> {
  const outcome = await client.chat.create(CHAT, { requestId: 'one', patienceMs: 0 }).then(
    ({ payment: { charged, recorded } }) => ({ charged, recorded }),
    (error: unknown) => {
      const { code, money, message } = error as FareboxError
      return { isFareboxError: error instanceof FareboxError, code, money, message }
    },
  )
  outcomes.push({ ...outcome, left: formatUsdc(client.budgetLeft().session ?? 0n) })
}

if (when === 'at once') fill()
await call()
await call()
rmSync(filler)
await call()
await client.close().catch(() => undefined)
process.stdout.write(JSON.stringify({ outcomes, files: readdirSync(join(home, 'journal')).length }))
