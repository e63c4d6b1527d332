import { createHttpClient, type RemoteFacilitatorOptions } from './http-client.ts'

const SUPPORTED_TIMEOUT_MS = 5000
const ADDRESS = /^0x[0-9a-f]{40}$/

/**
 * The addresses that may settle for a remote facilitator, lower case and sorted, from its `/supported`. Its `extra` names
 * one of them by chance at each call, so all of its signers are taken: every API process must choose from the same list, and
 * know the one that an earlier process chose.
 *
 * Throws an Error that names FACILITATOR_URL when it cannot be reached or does not serve `upto` on `network`.
 */
export async function readSupportedFacilitators(
  options: RemoteFacilitatorOptions,
  network: string,
): Promise<readonly `0x${string}`[]> {
  const { kinds, signers } = await readSupported(options)
  const kind = kinds.find(
    (offered) => offered.x402Version === 2 && offered.scheme === 'upto' && offered.network === network,
  )
  if (!kind) throw new Error(`the facilitator of FACILITATOR_URL does not support scheme "upto" on ${network}`)
  const named = [kind.extra?.['facilitatorAddress'], ...(signers[network] ?? []), ...(signers['eip155:*'] ?? [])]
  const addresses = named.flatMap((address) => (typeof address === 'string' ? [address.toLowerCase()] : []))
  const facilitators = [...new Set(addresses)].filter((address) => ADDRESS.test(address)).sort()
  if (facilitators.length === 0)
    throw new Error(`the facilitator of FACILITATOR_URL names no facilitatorAddress for scheme "upto" on ${network}`)
  return facilitators as `0x${string}`[]
}

async function readSupported(options: RemoteFacilitatorOptions) {
  try {
    return await createHttpClient(options, SUPPORTED_TIMEOUT_MS).getSupported()
  } catch (cause) {
    throw new Error('the facilitator of FACILITATOR_URL does not answer GET /supported', { cause })
  }
}
