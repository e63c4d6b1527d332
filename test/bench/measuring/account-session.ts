import { createSIWxClientExtension } from '@x402/extensions/sign-in-with-x'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import type { PrivateKeyAccount } from 'viem/accounts'

export interface AccountSession {
  /** Reads a path below `/v1/account/`. Throws unless it is a 200. */
  readonly read: (path: string) => Promise<{ readonly body: string; readonly ms: number }>
  /** How long 402, signature and first page took together. */
  readonly signInMs: number
}

/** Starts a session of a wallet as the extension's client does, with the first page of receipts. */
export async function openAccount(baseUrl: string, account: PrivateKeyAccount, limit: number): Promise<AccountSession> {
  const client = new x402Client().registerExtension(createSIWxClientExtension({ signers: [account] }))
  const startedAt = performance.now()
  const answer = await wrapFetchWithPayment(fetch, client)(`${baseUrl}/v1/account/receipts?limit=${limit}`)
  await answer.text()
  const signInMs = performance.now() - startedAt
  const headers = { authorization: `Bearer ${answer.headers.get('x-account-session')}` }
  const read = async (path: string) => {
    const sentAt = performance.now()
    const response = await fetch(`${baseUrl}/v1/account/${path}`, { headers })
    const body = await response.text()
    if (response.status !== 200) throw new Error(`${path}: ${response.status} ${body}`)
    return { body, ms: performance.now() - sentAt }
  }
  return { read, signInMs }
}
