import { UptoEvmScheme } from '@x402/evm/upto/client'
import { wrapFetchWithPayment, x402Client, x402HTTPClient } from '@x402/fetch'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'

/** A buyer: an account, a node and the official x402 client, without any code of farebox. */
export type PayingClient = ReturnType<typeof createPayingClient>

interface PayingClientOptions {
  readonly rpcUrl: string
  readonly network: string
  /** Sends the requests; Node's own by default. */
  readonly fetch?: typeof globalThis.fetch
}

/** The account that pays: its key, or any other signer, such as that of a contract wallet. */
type PayingAccount =
  | { readonly privateKey: `0x${string}` }
  | { readonly account: Pick<PrivateKeyAccount, 'address' | 'signTypedData'> }

/** Creates the official client with its default limit of 1 USDC per payment. */
export function createPayingClient(options: PayingClientOptions & PayingAccount) {
  const account = 'account' in options ? options.account : privateKeyToAccount(options.privateKey)
  const client = new x402Client().register(
    options.network as `${string}:${string}`,
    new UptoEvmScheme(account, { rpcUrl: options.rpcUrl }),
  )
  const http = new x402HTTPClient(client)
  return {
    address: account.address,
    /** A `fetch` that answers a 402 by signing its challenge and sending the request again. */
    fetch: wrapFetchWithPayment(options.fetch ?? fetch, client),
    /** Signs the challenge of a 402 and returns the headers for the paid request. */
    sign: async (challenge: Response) => {
      const required = http.getPaymentRequiredResponse((name) => challenge.headers.get(name))
      return http.encodePaymentSignatureHeader(await http.createPaymentPayload(required))
    },
  }
}
