import type { Hex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import {
  createFarebox,
  type Farebox,
  type FareboxOptions,
  type SigningAccount,
  walletFromPrivateKey,
} from '../../../client/farebox.ts'
import type { ScriptedServer } from './scripted-server.ts'

export const CHAT = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Say hello.' }] } as const

export const CHAT_KEY = 'key-1'

/** Opens the client of a scripted server with an empty wallet and a journal in memory. */
export async function openClient(
  server: Pick<ScriptedServer, 'baseUrl'>,
  options: Partial<FareboxOptions> = {},
): Promise<Farebox> {
  return await createFarebox({
    wallet: walletFromPrivateKey(generatePrivateKey()),
    baseUrl: server.baseUrl,
    journal: 'memory',
    verify: 'never',
    ...options,
  })
}

/** A message that a wallet was asked to sign. */
interface SignedMessage {
  readonly primaryType: string
  readonly message: Readonly<Record<string, unknown>>
}

/** Returns a wallet that keeps what it signed. */
export function countingAccount(privateKey: Hex = generatePrivateKey()) {
  const account = privateKeyToAccount(privateKey)
  const signed: SignedMessage[] = []
  const counting: SigningAccount = {
    address: account.address,
    signMessage: (message) => {
      signed.push({ primaryType: 'text', message: {} })
      return account.signMessage(message)
    },
    signTypedData: (message) => {
      signed.push(message as SignedMessage)
      return account.signTypedData(message)
    },
  }
  return { counting, signed }
}

/** Returns the authorization within a PAYMENT-SIGNATURE header. */
export function authorizationIn(header: string | undefined) {
  const payment = JSON.parse(Buffer.from(header ?? '', 'base64').toString('utf8')) as {
    readonly payload: {
      readonly permit2Authorization: {
        readonly deadline: string
        readonly nonce: string
        readonly permitted: { readonly amount: string; readonly token: string }
        readonly witness: { readonly to: string; readonly facilitator: string }
      }
    }
  }
  return payment.payload.permit2Authorization
}
